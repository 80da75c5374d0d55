//! Bad input at `POST /rpc`: each is refused with the right status, and nothing is run.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tombolo::rpc::http::MAX_BODY_BYTES;

use crate::rpc_node::{Answer, Node, folder};

#[tokio::test]
async fn malformed_calls_get_the_right_status_and_error() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let deep = "[".repeat(60_000);
    let call = |rest: &str| format!(r#"{{"jsonrpc":"2.0","id":7,{rest}}}"#);
    let two =
        format!("[{},{}]", call(r#""method":"mesh.status""#), call(r#""method":"mesh.nodes""#));
    for (body, status, error, id) in [
        (String::new(), 400, "parse_error", json!(null)),
        ("{".to_owned(), 400, "parse_error", json!(null)),
        ("\u{feff}{}".to_owned(), 400, "parse_error", json!(null)),
        (deep, 400, "parse_error", json!(null)),
        ("null".to_owned(), 400, "invalid_request", json!(null)),
        (two, 400, "invalid_request", json!(null)),
        (r#"{"id":7,"method":"mesh.status"}"#.to_owned(), 400, "invalid_request", json!(7)),
        (call(r#""method":7"#), 400, "invalid_request", json!(7)),
        (call(r#""method":"mesh.status","params":[]"#), 400, "invalid_params", json!(7)),
        (call(r#""method":"mesh.status","params":{"x":1}"#), 400, "invalid_params", json!(7)),
        (call(r#""method":"mesh.messages","params":{"limit":0}"#), 400, "invalid_params", json!(7)),
        (
            call(r#""method":"mesh.messages","params":{"limit":501}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (
            call(r#""method":"mesh.messages","params":{"limit":-1}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (
            call(r#""method":"mesh.messages","params":{"limit":"5"}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (call(r#""method":"assistant.chat","params":{}"#), 400, "invalid_params", json!(7)),
        (
            call(r#""method":"assistant.chat","params":{"text":" \n"}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (
            call(r#""method":"assistant.chat","params":{"text":"a","turn_id":"m-1"}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (
            call(r#""method":"assistant.chat","params":{"text":"a","categories":["system"]}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (
            call(r#""method":"assistant.chat","params":{"text":"a","session_id":"x"}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (
            call(r#""method":"assistant.history","params":{"session_id":"x"}"#),
            400,
            "invalid_params",
            json!(7),
        ),
        (call(r#""method":"assistant.nothing""#), 404, "method_not_found", json!(7)),
        (call(r#""method":"rpc.discover""#), 404, "method_not_found", json!(7)),
        (call(r#""method":"Mesh.status""#), 404, "method_not_found", json!(7)),
    ] {
        let start: String = body.chars().take(90).collect();
        let request = node.rpc("", json!({})).session(&session).body(body);
        let answer = request.send().await;
        assert_eq!((answer.status, answer.error_name().as_str()), (status, error), "{start}");
        assert_eq!(answer.json()["id"], id, "{start}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    let invalid_utf8 =
        node.rpc("", json!({})).session(&session).body(b"{\"jsonrpc\":\"\xff\"}".to_vec());
    assert_eq!(invalid_utf8.send().await.error_name(), "parse_error");
    assert_eq!((node.mesh_asked(), node.leg.asked()), (0, 0));
    node.stop().await;
}

#[tokio::test]
async fn ids_are_echoed_and_a_notification_gets_no_body() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    for id in [json!(0), json!(-1.5), json!("é\n"), json!(null)] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "mesh.nodes" });
        let answer = node.rpc("", json!({})).session(&session).body(body.to_string()).send().await;
        let answer = answer.json();
        assert_eq!((&answer["id"], &answer["jsonrpc"]), (&id, &json!("2.0")));
        assert!(answer["result"]["nodes"].is_array() && answer.get("error").is_none());
    }
    let asked = node.mesh_asked();
    let body = r#"{"jsonrpc":"2.0","method":"mesh.nodes"}"#;
    let answer = node.rpc("", json!({})).session(&session).body(body).send().await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert_eq!(node.mesh_asked(), asked + 1, "it was run");
    node.stop().await;
}

/// A call of exactly so many bytes.
fn of_length(bytes: usize) -> String {
    let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "mesh.status", "x": "" }).to_string();
    let filler = "x".repeat(bytes - bare.len());
    json!({ "jsonrpc": "2.0", "id": 1, "method": "mesh.status", "x": filler }).to_string()
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    for (bytes, status) in [(MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413), (10 << 20, 413)] {
        let request = node.rpc("", json!({})).session(&session).body(of_length(bytes));
        assert_eq!(request.send().await.status, status, "{bytes}");
    }
    // The same in chunks, without a length to refuse at once.
    let mut chunked = Vec::new();
    for chunk in of_length(10 << 20).as_bytes().chunks(1 << 20) {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let request = node
        .rpc("", json!({}))
        .session(&session)
        .header("Transfer-Encoding", "chunked")
        .body(chunked);
    assert_eq!(request.send().await.status, 413);
    assert_eq!(node.mesh_asked(), 1, "only the first was run");

    // A length that nobody will read is refused before the first byte of it.
    let head = format!(
        "POST /rpc HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
        node.host()
    );
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.status, 413);
    node.stop().await;
}

#[tokio::test]
async fn a_foreign_host_is_refused_before_routing() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    for path in ["/", "/rpc", "/healthz", "/aiui/", "/chat/", "/nothing", "/?login=x"] {
        for method in ["GET", "POST", "DELETE"] {
            for host in ["evil.example", "localhost", "localhost.:1", "0.0.0.0"] {
                let answer = node.request(method, path).with("Host", host).send().await;
                assert_eq!(answer.status, 403, "{method} {path} {host}");
                assert_eq!(answer.header("cache-control"), Some("no-store"));
            }
            let twice = node.request(method, path).header("Host", "evil.example").send().await;
            assert!([400, 403].contains(&twice.status), "{method} {path}: {}", twice.status);
        }
    }
    // The loopback names with the real port all lead here.
    let port = node.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]
    {
        assert_eq!(node.request("GET", "/healthz").with("Host", &host).send().await.status, 200);
    }
    node.stop().await;
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_server_goes_on() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(64 * 1024));
    for bytes in [&b"\x94\xc3\x00\x00\r\n\r\n"[..], b"GET\r\n\r\n", long.as_bytes()] {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        // The server may hang up in the middle of it.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert_eq!(node.get("/healthz").await.status, 200);
    node.stop().await;
}

#[tokio::test]
async fn failed_logins_are_all_alike_and_slow_down() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let long = "x".repeat(600);
    let mut told: Vec<Value> = Vec::new();
    for wrong in ["wrong wrong", "", &long] {
        let answer = node.rpc("auth.login", json!({ "password": wrong })).send().await;
        assert_eq!(answer.status, 401);
        assert!(answer.header("set-cookie").is_none());
        told.push(answer.json());
    }
    assert!(told.iter().all(|answer| *answer == told[0]), "{told:?}");
    // From the third on there is a wait, and it doubles: soon even a slow machine is inside it.
    let mut answer = node.rpc("auth.login", json!({ "password": "wrong wrong" })).send().await;
    for _ in 0..10 {
        if answer.status == 429 {
            break;
        }
        assert_eq!(answer.status, 401);
        answer = node.rpc("auth.login", json!({ "password": "wrong wrong" })).send().await;
    }
    assert_eq!((answer.status, answer.error_name().as_str()), (429, "throttled"));
    let wait = answer.json()["error"]["data"]["retry_after_s"].as_u64().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(answer.header("retry-after"), Some(wait.to_string().as_str()));
    node.stop().await;
}
