//! Connections: a crowd that says nothing keeps nobody out, and a proxy is believed where it may be.

use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tombolo::config::Config;
use tombolo::web::seats::MAX_CONNECTIONS;

use crate::rpc_leg::{ScriptedLeg, assistant};
use crate::rpc_node::{Node, PASSWORD, folder};

/// Is it still open? Nothing was ever sent on it by the node.
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    stream.try_read(&mut byte).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn half_open_connections_keep_nobody_out() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let unfinished = format!(
        "POST /rpc HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
        node.host()
    );
    let mut crowd = Vec::new();
    for index in 0..MAX_CONNECTIONS * 3 {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        // Nothing, half a header, and a header whose body does not come.
        let said: &[u8] = match index % 3 {
            0 => b"",
            1 => b"GET / HTTP/1.1\r\nHost: ",
            _ => unfinished.as_bytes(),
        };
        stream.write_all(said).await.unwrap();
        crowd.push(stream);
    }
    // All of them at once wait for the header's time; the operator does not.
    let session = node.login(None).await;
    let answer = node.rpc("mesh.status", json!({})).session(&session).send().await;
    assert_eq!(answer.status, 200);
    let (_, given_up) = node.services.seats.counts();
    assert!(given_up >= (MAX_CONNECTIONS * 2) as u64, "{given_up}");
    // Had it waited for them to be given up in time, none of these would be there any more.
    let newest = crowd.iter().rev().filter(|stream| is_open(stream)).count();
    assert!(newest > 0, "the newest still wait");
    assert!(!is_open(&crowd[0]), "the oldest made room");
    node.stop().await;
}

#[tokio::test]
async fn who_is_being_answered_keeps_its_place() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let question = node.rpc("assistant.chat", json!({ "text": "wait" })).session(&session);
    let mut asking = question.begin().await;
    node.leg.until(|progress| progress.begun == 1).await;
    let mut crowd = Vec::new();
    for _ in 0..MAX_CONNECTIONS * 2 {
        crowd.push(TcpStream::connect(node.address).await.unwrap());
    }
    assert_eq!(node.get("/healthz").await.status, 200);
    node.leg.release();
    let answer = crate::rpc_node::Answer::read(&mut asking).await;
    assert_eq!(answer.status, 200);
    node.stop().await;
}

async fn node_with(folder: &std::path::Path, forwarded: bool) -> Node {
    let leg = ScriptedLeg::default();
    let mut config = Config { data_dir: folder.to_owned(), ..Config::default() };
    config.http.forwarded = forwarded;
    config.http.hosts = vec!["node.example".to_owned()];
    Node::configured(config, Arc::new(assistant(&leg, folder))).await
}

#[tokio::test]
async fn a_proxy_is_believed_only_where_that_is_configured() {
    for forwarded in [true, false] {
        let folder = folder();
        let node = node_with(folder.path(), forwarded).await;
        let login = |address: &str, password: &str| {
            node.rpc("auth.login", json!({ "password": password }))
                .with("Host", "node.example")
                .with("Origin", "https://node.example")
                .header("X-Forwarded-For", &format!("127.0.0.1, {address}"))
                .header("X-Forwarded-Proto", "https")
        };
        for _ in 0..3 {
            let answer = login("203.0.113.9", "wrong wrong").send().await;
            assert_eq!(answer.status, 401);
        }
        // The one who failed waits; another behind the same proxy does not, if they can be told apart.
        assert_eq!(login("203.0.113.9", PASSWORD).send().await.status, 429);
        let other = login("203.0.113.10", PASSWORD).send().await;
        assert_eq!(other.status, if forwarded { 200 } else { 429 });
        if forwarded {
            assert!(other.header("set-cookie").unwrap().ends_with("; Secure"));
            let session = crate::rpc_node::Session::of(&other);
            let list = node.rpc("auth.sessions", json!({})).session(&session).send().await;
            assert_eq!(list.json()["result"]["sessions"][0]["address"], "203.0.113.10");
            // A link has no `Origin`: only the proxy knows that it came by TLS.
            let path = format!("/?login={}", node.services.auth.one_time_link_token().expose());
            let visit = node
                .request("GET", &path)
                .with("Host", "node.example")
                .header("X-Forwarded-Proto", "https");
            assert!(visit.send().await.header("set-cookie").unwrap().ends_with("; Secure"));
        }
        node.stop().await;
    }
}
