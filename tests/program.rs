//! The program from outside: what refuses a start, what ends it, what it prints, what it leaves on disk.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tombolo::secrets::SecretName;
use tombolo::sim::SayTo;
use tombolo::store::{self, Durability};

use crate::support::ollama::Answer;
use crate::support::world::{World, all_files};

fn tombolo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(arguments)
        .env_remove("TOMBOLO_CONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// `run` with that configuration: its exit code and what it says.
fn run_with(folder: &Path, config: &str) -> (Option<i32>, String) {
    let path = folder.join("tombolo.toml");
    std::fs::write(&path, config).unwrap();
    let output = tombolo(&["run", "--config", path.to_str().unwrap()]);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_configuration_refuses_the_start_and_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    for (config, words) in [
        ("[radio]\nprot = \"auto\"", &[":2:", "unknown key `prot`"][..]),
        ("[airtime]\nshare = 2", &[":2: airtime.share", "at most 1"]),
        ("[mesh]\ndenied_askers = [\"Mallory\"]", &["denied_askers", "!a1b2c3d4"]),
    ] {
        let (code, said) = run_with(folder.path(), config);
        assert_eq!(code, Some(78), "{said}");
        for word in words {
            assert!(said.contains(word), "{said} lacks {word}");
        }
    }
    let missing = tombolo(&["run", "--config", "/nowhere/tombolo.toml"]);
    assert_eq!(missing.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("--config"));
}

#[test]
fn a_password_file_that_holds_no_hash_refuses_the_start_and_names_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = format!("data_dir = \"{}\"\n[radio]\nport = \"sim\"", data.display());
    let secrets = tombolo::secrets::Secrets::open(&data).unwrap();
    for (name, command) in [
        (SecretName::OperatorPassword, "tombolo operator set-password\n"),
        (SecretName::ViewerPassword, "tombolo operator set-password --role viewer\n"),
    ] {
        store::replace(&secrets.path(name), b"a canary of mine\n", Durability::Process).unwrap();
        let (code, said) = run_with(folder.path(), &config);
        assert_ne!(code, Some(0), "{said}");
        assert!(said.contains(name.file_name()) && said.ends_with(command), "{said}");
        assert!(!said.contains("canary"), "{said}");
        secrets.remove(name).unwrap();
    }
}

#[test]
fn a_secret_that_others_can_read_refuses_the_start_and_names_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = format!("data_dir = \"{}\"\n[radio]\nport = \"sim\"", data.display());
    for (file, mode, fix) in [("claude-api-key", 0o644, "chmod 600"), ("", 0o755, "chmod 700")] {
        let path = data.join("secrets").join(file);
        std::fs::create_dir_all(data.join("secrets")).unwrap();
        std::fs::set_permissions(data.join("secrets"), PermissionsExt::from_mode(0o700)).unwrap();
        if !file.is_empty() {
            std::fs::write(&path, "sk-canary").unwrap();
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let (code, said) = run_with(folder.path(), &config);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(fix) && !said.contains("sk-canary"), "{said}");
    }
}

#[tokio::test]
async fn a_second_daemon_on_the_same_data_folder_is_refused() {
    let mut world = World::new().await;
    world.start().await;
    let config = world.config_path();
    let second = tokio::task::spawn_blocking(move || {
        tombolo(&["run", "--config", config.to_str().unwrap()])
    });
    let output = second.await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another tombolo"));
}

#[tokio::test]
async fn a_changed_configuration_is_taken_at_sighup_and_a_bad_one_is_not() {
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text("yes"));
    world.start().await;
    let good = std::fs::read_to_string(world.config_path()).unwrap();
    let hang_up = |world: &World| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(world.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };

    std::fs::write(world.config_path(), format!("{good}\nnonsense = 1")).unwrap();
    hang_up(&world);
    world.until("the fault is said", async |w: &World| w.log().contains("nonsense")).await;
    world.sim.say("Ana", SayTo::Direct, "!ai still answered?");
    world.heard("Ana", 1).await;

    std::fs::write(world.config_path(), good.replace("[mesh]", "[mesh]\ntrigger = \"!other\""))
        .unwrap();
    hang_up(&world);
    world.until("it is read again", async |w: &World| w.log().contains("read again")).await;
    world.sim.say("Ana", SayTo::Direct, "!ai by the old word?");
    world.sim.say("Ana", SayTo::Direct, "!other by the new word?");
    world.heard("Ana", 2).await;
    let asked: Vec<String> = world
        .ollama
        .requests()
        .iter()
        .filter(|r| r.path == "/api/chat")
        .map(|r| r.body["messages"].as_array().unwrap().last().unwrap()["content"].to_string())
        .collect();
    assert_eq!(asked, ["\"still answered?\"", "\"by the new word?\""]);
}

#[tokio::test]
async fn what_is_on_disk_is_private_and_what_is_printed_holds_no_text_and_no_secret() {
    let mut world = World::new().await;
    let secrets = world.data_dir().join("secrets");
    std::fs::create_dir_all(&secrets).unwrap();
    std::fs::set_permissions(world.data_dir(), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::set_permissions(&secrets, PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(secrets.join("claude-api-key"), "sk-canary-0123").unwrap();
    std::fs::set_permissions(secrets.join("claude-api-key"), PermissionsExt::from_mode(0o600))
        .unwrap();
    world.ollama.set_default(Answer::text("an answer with a canary in it"));
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai a question with a canary in it");
    world.heard("Ana", 1).await;
    let operator = world.operator().await;
    let reply = operator.call("assistant.chat", json!({"text": "an operator's canary"})).await;
    assert_eq!(reply["text"], "an answer with a canary in it");

    let log = world.log();
    assert!(log.contains("turn ended"), "the log is there: {log}");
    assert!(!log.contains("canary"), "the log holds a text or a secret");
    let mut folders = vec![world.data_dir()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} is {mode:o}", entry.path().display());
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    let transcripts = all_files(&world.data_dir().join("transcripts"));
    assert!(transcripts.contains("a question with a canary in it"), "the caller's own transcript");
    // Each caller has one of its own, named by nothing that the caller sent.
    let names: Vec<String> = std::fs::read_dir(world.data_dir().join("transcripts"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    for name in names {
        let stem = name.strip_suffix(".json").unwrap();
        assert!(stem.len() == 64 && stem.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
    }
}

#[test]
fn the_demo_plays_its_script_and_is_content() {
    let output = tombolo(&["demo", "--once"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{complaints}");
    for words in [
        "Ana (key verified): !ai how much disk space is left?",
        "system_disk_status",
        "s on air",
        "delivered",
        "not answered",
        "the stranger heard nothing",
    ] {
        assert!(said.contains(words), "{said} lacks {words}");
    }
}
