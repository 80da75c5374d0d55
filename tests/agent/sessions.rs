//! Sessions: what a second run knows of the first, and what the disk never holds.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::place::{BOTH, Place, Protocol, files, last_request};
use crate::support::ollama::{Answer, ScriptedOllama};

#[tokio::test]
async fn a_session_goes_on_with_its_questions_answers_and_calls() {
    for protocol in BOTH {
        let place = Place::new();
        let server = ScriptedOllama::start().await;
        let go = ["agent", "--protocol", protocol.name(), "--session", "tidy"];
        server.push(protocol.call("run_shell_command", json!({"command": "pwd"})));
        server.push(protocol.text("It is the workspace."));
        let first = [&go[..], &["--yes-to", "run_shell_command", "where are we?"]].concat();
        assert_eq!(place.run(&server.url(), &first).await.code, Some(0));
        server.push(protocol.text("As I said."));
        let second = [&go[..], &["once more"]].concat();
        assert_eq!(place.run(&server.url(), &second).await.code, Some(0));
        let body = last_request(&server).to_string();
        for known in ["where are we?", "It is the workspace.", "run_shell_command", "pwd"] {
            assert!(body.contains(known), "{known}: {body}");
        }

        let ended = place.run("", &["session", "list"]).await;
        assert_eq!(ended.out, "tidy\t2 turns\tonce more\n");
        let ended = place.run("", &["session", "show", "tidy"]).await;
        let shown = "> where are we?\n  … run_shell_command {\"command\":\"pwd\"}: ran\n\
                     It is the workspace.\n\n> once more\nAs I said.\n\n";
        assert_eq!(ended.out, shown);
        let ended = place.run("", &["session", "export", "tidy"]).await;
        let session: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(session["turns"].as_array().unwrap().len(), 2);
        assert_eq!(place.run("", &["session", "delete", "tidy"]).await.code, Some(0));
        for action in ["show", "export", "delete"] {
            let ended = place.run("", &["session", action, "tidy"]).await;
            assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{action}");
        }
        assert_eq!(place.run("", &["session", "list"]).await.out, "");
    }
}

#[tokio::test]
async fn neither_the_content_of_a_file_nor_a_key_is_on_disk_and_what_is_there_is_private() {
    let place = Place::new();
    std::fs::write(place.workspace().join("a.txt"), "canary one").unwrap();
    let key = format!("sk-{}", "k9".repeat(12));
    let server = ScriptedOllama::start().await;
    for answer in [
        Answer::tool_call("read_file", json!({"path": "a.txt"})),
        Answer::tool_call("edit_file", json!({"path": "b.txt", "new_text": "canary two"})),
        Answer::tool_call("run_shell_command", json!({"command": "cat a.txt"})),
        Answer::tool_call("nothing", json!({"text": "canary three"})),
        Answer::text(format!("done with {key}")),
    ] {
        server.push(answer);
    }
    let yes = ["--yes-to", "edit_file", "--yes-to", "run_shell_command"];
    let question = format!("use {key}");
    let all = [&["agent", "--session", "s"], &yes[..], &[question.as_str()]].concat();
    let ended = place.run(&server.url(), &all).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(last_request(&server).to_string().contains("canary one"), "the model saw it");

    let found = files(&place.data());
    assert_eq!(found.len(), 1, "{found:?}");
    let kept = std::fs::read_to_string(&found[0]).unwrap();
    assert!(!kept.contains("canary") && !kept.contains("k9k9"), "{kept}");
    for tool in ["read_file", "edit_file", "run_shell_command", "cat a.txt"] {
        assert!(kept.contains(tool), "{tool}: {kept}");
    }
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&found[0]), mode(found[0].parent().unwrap())), (0o600, 0o700));
}

#[tokio::test]
async fn without_a_session_nothing_is_kept() {
    let place = Place::new();
    let server = ScriptedOllama::start().await;
    assert_eq!(place.run(&server.url(), &["agent", "hello"]).await.code, Some(0));
    assert!(files(&place.data()).is_empty());
}

#[tokio::test]
async fn the_configuration_says_where_the_model_and_the_data_are_and_which_protocol() {
    let place = Place::new();
    let server = ScriptedOllama::start().await;
    let config = place.temp.path().join("tombolo.toml");
    let data = place.temp.path().join("node");
    let url = server.url();
    let text = format!(
        "data_dir = {data:?}\n[assistant.ollama]\nurl = {url:?}\nmodel = \"toy\"\nprotocol = \"json\"\n"
    );
    std::fs::write(&config, text).unwrap();
    server.push(Protocol::Json.text("yes"));
    let config = config.to_str().unwrap();
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["agent", "--config", config, "--session", "s", "hello"])
        .current_dir(place.workspace())
        .env_remove("OLLAMA_HOST")
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "yes\n");
    let body = last_request(&server);
    assert_eq!((&body["model"], &body["format"]), (&json!("toy"), &json!("json")));
    assert_eq!(files(&data).len(), 1);
    let listed = place.run("", &["session", "--config", config, "list"]).await;
    assert_eq!(listed.out, "s\t1 turn\thello\n");
}
