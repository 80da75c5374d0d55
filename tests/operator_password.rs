//! `tombolo operator set-password`: from standard input to a login, and nowhere else.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::rpc_node::{Node, PASSWORD, store_password};

fn set_password(data_dir: &Path, input: &str) -> Output {
    set_password_of("operator", data_dir, input)
}

fn set_password_of(role: &str, data_dir: &Path, input: &str) -> Output {
    let config = data_dir.join("tombolo.toml");
    std::fs::write(&config, format!("data_dir = \"{}\"\n", data_dir.display())).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["operator", "set-password", "--role", role, "--config"])
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn a_password_from_standard_input_logs_in_and_ends_what_was_open() {
    let folder = tempfile::tempdir().unwrap();
    store_password(folder.path());
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;

    let new = "a brand new password";
    let output = set_password(folder.path(), &format!("{new}\n"));
    assert!(output.status.success(), "{output:?}");
    let said = [output.stdout, output.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains(new));

    let old = node.rpc("auth.whoami", json!({})).session(&session).send().await;
    assert_eq!(old.status, 401);
    let login = async |password: &str| {
        node.rpc("auth.login", json!({ "password": password })).send().await.status
    };
    assert_eq!((login(PASSWORD).await, login(new).await), (401, 200));
    node.stop().await;
}

#[tokio::test]
async fn viewers_get_a_password_of_their_own_beside_a_running_daemon() {
    let folder = tempfile::tempdir().unwrap();
    store_password(folder.path());
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let refused = set_password_of("viewer", folder.path(), &format!("{PASSWORD}\n"));
    assert!(!refused.status.success(), "the operator's own");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another password"));
    let output = set_password_of("viewer", folder.path(), "only looking around\n");
    assert!(output.status.success(), "{output:?}");
    let login = json!({ "password": "only looking around" });
    let answer = node.rpc("auth.login", login).send().await;
    assert_eq!(answer.json()["result"]["role"], "viewer");
    let answer = node.rpc("auth.whoami", json!({})).session(&session).send().await;
    assert_eq!(answer.status, 200, "the operator's session goes on");
    assert!(!set_password_of("root", folder.path(), "whatever it is\n").status.success());
    node.stop().await;
}

#[test]
fn a_password_that_is_too_short_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = set_password(folder.path(), "1234567\n");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("at least 8 characters") && !said.contains("1234567"), "{said}");
    assert!(!folder.path().join("secrets/operator-password").exists());
}
