//! How a run ends: failures, wrong uses, limits and interrupts, each with its exit code.

use serde_json::json;
use tokio::process::Child;

use super::place::{Place, Protocol, agent};
use crate::backends::recorded;
use crate::support::ollama::{Answer, ScriptedOllama};

#[tokio::test]
async fn every_failure_is_one_line_with_its_exit_code() {
    let place = Place::new();
    let ended = place.run("127.0.0.1:1", &["agent", "hello"]).await;
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.err,
        "tombolo: no Ollama at http://127.0.0.1:1; start it with: ollama serve\n"
    );

    let server = ScriptedOllama::start().await;
    let (status, body) = recorded("ollama-show-not-found");
    server.set_show(status, body);
    let ended = place.run(&server.url(), &["agent", "--model", "nope", "hello"]).await;
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.err, "tombolo: the server has no model nope; it has: toy:latest\n");

    let server = ScriptedOllama::start().await;
    let (status, body) = recorded("ollama-ctx-truncate-false");
    server.set_default(Answer::json(status, body));
    let ended = place.run(&server.url(), &["agent", "hello"]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.err.contains("too long"), "{}", ended.err);

    let url = server.url();
    for wrong in [
        &["agent"][..],
        &["agent", "--deny-tool", "run_shel_command", "x"],
        &["agent", "--yes-to", "everything", "x"],
        &["agent", "--max-turns", "0", "x"],
        &["agent", "--max-turns", "9", "x"],
        &["agent", "--session", "../x", "x"],
        &["agent", "--protocol", "other", "x"],
        &["session", "show", ".."],
        &["man", "nothing"],
    ] {
        let ended = place.run(&url, wrong).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{wrong:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn the_number_of_requests_can_be_limited() {
    let place = Place::new();
    let call = |line: u32| {
        Protocol::Native.call("read_file", json!({"path": "src/main.rs", "start_line": line}))
    };
    let script = vec![call(1), call(2), call(3)];
    let (ended, server) =
        agent(&place, Protocol::Native, script, &["--max-turns", "2", "look"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert_eq!(server.requests_to("/api/chat").len(), 2);
}

#[tokio::test]
async fn an_interrupt_stops_the_servers_work() {
    let place = Place::new();
    let server = ScriptedOllama::start().await;
    server.push(Answer::hang());
    let mut child = place.start(&server.url(), &["agent", "hello"]);
    server.wait_requests(2).await;
    interrupt(&child);
    server.wait_disconnected(1).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
}

#[tokio::test]
async fn an_interrupt_ends_the_command_that_runs() {
    let place = Place::new();
    let pipe = place.workspace().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let server = ScriptedOllama::start().await;
    server.push(Answer::tool_call("run_shell_command", json!({"command": "wc pipe"})));
    let arguments = ["agent", "--yes-to", "run_shell_command", "count it"];
    let mut child = place.start(&server.url(), &arguments);
    // Opens only when the other side has: then the command runs.
    let open = move || std::fs::File::options().write(true).open(&pipe);
    let opening = tokio::task::spawn_blocking(open);
    let opened = tokio::time::timeout(std::time::Duration::from_secs(20), opening).await;
    let mut pipe = opened.expect("the command never ran").unwrap().unwrap();
    interrupt(&child);
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    // More than the pipe holds: one who still reads would take it all.
    let written = std::io::Write::write_all(&mut pipe, &vec![b'x'; 1 << 20]);
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

fn interrupt(child: &Child) {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

#[tokio::test]
async fn completions_and_pages_are_made_from_the_command_line_itself() {
    let place = Place::new();
    for (arguments, words) in [
        (&["completions", "bash"][..], "--deny-prefix"),
        (&["completions", "zsh"], "--yes-to"),
        (&["man"], "tombolo"),
        (&["man", "agent"], "Examples:"),
        (&["agent", "--help"], "Exit codes: 0 answered"),
        (&["chat", "--help"], "Examples:"),
    ] {
        let ended = place.run("", arguments).await;
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        assert!(ended.out.contains(words), "{arguments:?}");
        assert!(!ended.out.contains('\u{1b}'), "{arguments:?}: no colour, it is no terminal");
    }
}
