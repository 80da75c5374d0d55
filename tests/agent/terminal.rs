//! At a terminal: a pseudo-terminal of which the test holds the other end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;
use tokio::process::Command;

use super::place::{Place, Protocol};
use crate::support::ollama::{Answer, ScriptedOllama};

/// Reads until these words have come; everything that came.
fn until(screen: &mut File, words: &str, seen: &mut String) {
    let mut bytes = [0; 1024];
    while !seen.contains(words) {
        match screen.read(&mut bytes) {
            Ok(0) | Err(_) => panic!("{words:?} never came: {seen}"),
            Ok(count) => seen.push_str(&String::from_utf8_lossy(&bytes[..count])),
        }
    }
}

/// What stood on the screen and the exit code, when the question is answered so.
async fn answered(
    place: &Place,
    server: &ScriptedOllama,
    early: &str,
    line: &str,
) -> (String, Option<i32>) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let path = ptsname(&keyboard, Vec::new()).unwrap();
    let screen = File::options().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    let mut keyboard = File::from(keyboard);
    keyboard.write_all(early.as_bytes()).unwrap();
    let stdio = || Stdio::from(screen.try_clone().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["agent", "do it"])
        .current_dir(place.workspace())
        .env("OLLAMA_HOST", server.url())
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env_remove("TOMBOLO_CONFIG")
        .stdin(stdio())
        .stdout(Stdio::null())
        .stderr(stdio())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let line = line.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let mut seen = String::new();
        until(&mut keyboard, "[y/N] ", &mut seen);
        keyboard.write_all(line.as_bytes()).unwrap();
        (seen, keyboard)
    });
    let code = child.wait().await.unwrap().code();
    let (seen, _keyboard) = reading.await.unwrap();
    drop(screen);
    (seen, code)
}

#[tokio::test]
async fn the_operator_is_shown_the_exact_arguments_and_decides() {
    for (early, line, code) in [
        ("", "y\n", 0),
        ("", "yes\n", 0),
        ("", "n\n", 3),
        ("", "\n", 3),
        // Typed before the question stood there, perhaps for something else.
        ("y\n", "\n", 3),
    ] {
        let place = Place::new();
        let server = ScriptedOllama::start().await;
        let hidden = json!({"path": "new.txt", "new_text": "x\u{1b}[2K\u{202E}"});
        server.push(Protocol::Native.call("edit_file", hidden));
        server.push(Answer::text("done"));
        let (seen, got) = answered(&place, &server, early, line).await;
        assert_eq!(got, Some(code), "{line:?}: {seen}");
        assert_eq!(place.workspace().join("new.txt").exists(), code == 0, "{line:?}");
        let shown = "edit_file:\r\n  path = \"new.txt\"\r\n  new_text = \"x\\u001b[2K\\u202e\"\r\n";
        assert!(seen.contains(shown), "{seen}");
        assert!(!seen.contains('\u{1b}'), "NO_COLOR: {seen:?}");
    }
}

#[tokio::test]
async fn what_policy_refuses_is_not_even_asked() {
    let place = Place::new();
    let server = ScriptedOllama::start().await;
    server.push(Answer::tool_call("run_shell_command", json!({"command": "sudo ls"})));
    server.push(Answer::tool_call("run_shell_command", json!({"command": "touch ran"})));
    server.push(Answer::text("done"));
    let (seen, code) = answered(&place, &server, "", "y\n").await;
    assert_eq!(code, Some(3), "{seen}");
    assert!(!seen.contains("command = \"sudo ls\""), "{seen}");
    assert!(place.workspace().join("ran").exists());
}
