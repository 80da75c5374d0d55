//! What is served fits the contract in `docs/rpc.schema.json`, and no secret is in any of it.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tombolo::assistant::Assistant;
use tombolo::config::AssistantConfig;
use tombolo::rpc::methods::METHODS;
use tombolo::secrets::{Secret, SecretName, Secrets};

use crate::rpc_node::{Node, PASSWORD, Session, folder};

/// Does the value fit the schema? Only the words that the contract uses; an unknown one fails the test.
pub fn fits(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    for (word, wanted) in schema.as_object().ok_or("a schema is an object")? {
        let right = match word.as_str() {
            "description" | "default" => true,
            "type" => match wanted.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                "null" => value.is_null(),
                other => return Err(format!("{at}: the type {other}")),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            "minimum" => value.as_f64() >= wanted.as_f64(),
            "maximum" => value.as_f64() <= wanted.as_f64(),
            "minLength" => {
                value.as_str().unwrap().chars().count() as u64 >= wanted.as_u64().unwrap()
            }
            "maxLength" => {
                value.as_str().unwrap().chars().count() as u64 <= wanted.as_u64().unwrap()
            }
            "pattern" => {
                let text = value.as_str().unwrap();
                match wanted.as_str().unwrap() {
                    "^![0-9a-f]{8}$" => {
                        text.len() == 9 && u32::from_str_radix(&text[1..], 16).is_ok()
                    }
                    "^[A-Za-z0-9_-]{1,64}$" => {
                        (1..=64).contains(&text.len())
                            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
                    }
                    other => return Err(format!("{at}: the pattern {other}")),
                }
            }
            "anyOf" => wanted.as_array().unwrap().iter().any(|s| fits(s, value, at).is_ok()),
            "items" => {
                for item in value.as_array().unwrap() {
                    fits(wanted, item, &format!("{at}[]"))?;
                }
                true
            }
            "required" => {
                wanted.as_array().unwrap().iter().all(|n| value.get(n.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, member) in value.as_object().unwrap() {
                    match wanted.get(name) {
                        Some(schema) => fits(schema, member, &format!("{at}.{name}"))?,
                        None => return Err(format!("{at}.{name} is not in the contract")),
                    }
                }
                true
            }
            "additionalProperties" => *wanted == json!(false),
            other => return Err(format!("{at}: the word {other}")),
        };
        if !right {
            return Err(format!("{at}: {value} does not fit {word} {wanted}"));
        }
    }
    Ok(())
}

#[test]
fn the_judge_can_say_no() {
    let schema = json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": "integer", "minimum": 1 }, "b": { "anyOf": [{ "type": "null" }] } },
    });
    assert_eq!(fits(&schema, &json!({ "a": 1, "b": null }), ""), Ok(()));
    for wrong in [
        json!({}),
        json!({ "a": 0 }),
        json!({ "a": 1.5 }),
        json!({ "a": 1, "c": 1 }),
        json!({ "a": 1, "b": 1 }),
        json!([]),
    ] {
        assert!(fits(&schema, &wrong, "").is_err(), "{wrong}");
    }
}

/// A cloud that answers each request with what it was sent, key and all.
async fn echoing_cloud() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            let count = stream.read(&mut request).await.unwrap_or(0);
            let echo = String::from_utf8_lossy(&request[..count]).into_owned();
            let body = json!({ "type": "error", "error": { "type": "x", "message": echo } });
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(body.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn every_result_fits_the_contract_and_no_secret_is_in_any_answer() {
    let folder = folder();
    let canary = "sk-ant-canary-0123456789";
    let secrets = Secrets::open(folder.path()).unwrap();
    secrets.write(SecretName::ClaudeApiKey, &Secret::new(canary)).unwrap();
    secrets.write(SecretName::OpenaiApiKey, &Secret::new(canary)).unwrap();
    let hash = secrets.read(SecretName::OperatorPassword).unwrap().unwrap();
    // The real legs: no Ollama there, and a cloud that gives everything away.
    let mut config = AssistantConfig::default();
    config.ollama.url = "http://127.0.0.1:1".to_owned();
    config.claude.url = echoing_cloud().await;
    let assistant = Assistant::new(&config, secrets, folder.path()).unwrap();
    let node = Node::with(folder.path(), assistant).await;
    let contract: Value = serde_json::from_str(include_str!("../docs/rpc.schema.json")).unwrap();

    let login = node.rpc("auth.login", json!({ "password": PASSWORD })).send().await;
    let session = Session::of(&login);
    let token = session.cookie.strip_prefix("tombolo_session=").unwrap().to_owned();
    let mut received = vec![login.body.clone()];
    let result = &contract["methods"]["auth.login"]["result"];
    fits(result, &login.json()["result"], "auth.login").unwrap();

    // The one that is revoked.
    node.login(None).await;
    let list = node.rpc("auth.sessions", json!({})).session(&session).send().await.json();
    let revoke = json!({ "id": list["result"]["sessions"][1]["id"] });
    let mut covered = vec!["auth.login", "auth.setup"];
    for (method, params) in [
        ("auth.whoami", json!({})),
        ("auth.revoke", revoke),
        ("assistant.chat", json!({ "text": "How much disk space is left?", "turn_id": "t-1" })),
        ("assistant.chat", json!({ "text": "And now?" })),
        ("assistant.stop", json!({ "turn_id": "t-1" })),
        ("assistant.history", json!({})),
        ("assistant.list-tools", json!({})),
        ("assistant.clear-history", json!({})),
        (
            "assistant.grants-set",
            json!({ "caller": "operator", "category": "notes", "granted": true, "until": tombolo::clock::unix_ms() + 86_400_000 }),
        ),
        (
            "assistant.grants-set",
            json!({ "caller": "operator", "tool": "system_disk_status", "mode": "ask" }),
        ),
        ("assistant.chat", json!({ "text": "How much disk space is left?", "turn_id": "t-2" })),
        ("assistant.pending", json!({})),
        ("assistant.confirm-tool", json!({ "id": "x", "approve": false })),
        ("assistant.grants-list", json!({})),
        ("assistant.ledger", json!({})),
        ("mesh.assistant-status", json!({})),
        ("mesh.status", json!({})),
        ("mesh.nodes", json!({})),
        ("mesh.messages", json!({})),
        ("mesh.messages", json!({ "limit": 1 })),
        ("mesh.airtime", json!({})),
        ("mesh.history", json!({})),
        ("mesh.stop-all", json!({})),
        ("mesh.stop-all", json!({ "resume": true })),
        ("mesh.distress", json!({})),
        ("mesh.distress-clear", json!({ "id": "m-1" })),
        ("mesh.radio-accept", json!({ "fingerprint": "0000" })),
        ("mesh.assistant-configure", json!({ "suspend": { "id": "!a1b2c3d4" } })),
        (
            "mesh.peer-accept-key",
            json!({ "id": "!a1b2c3d4", "fingerprint": "0011 2233 4455 6677", "accept": true }),
        ),
        ("mesh.pair", json!({ "name": "Eve" })),
        ("mesh.send", json!({ "to": "!a1b2c3d4", "text": "hello" })),
        (
            "mesh.assistant-configure",
            json!({ "add_contact": { "id": "!0000abcd", "name": "Eve" } }),
        ),
        ("mesh.assistant-configure", json!({ "deny": { "asker": "!0000abcd" } })),
        ("mesh.assistant-configure", json!({ "trusted_only": true })),
        ("mesh.pair", json!({ "cancel": true })),
        ("mesh.send", json!({ "to": "!a1b2c3d4", "text": "hello", "ack": false })),
        ("system.disk-status", json!({})),
        ("system.log", json!({})),
        ("system.log", json!({ "limit": 1, "level": "warn" })),
        ("system.info", json!({})),
        ("auth.sessions", json!({})),
        ("auth.set-password", json!({ "role": "viewer", "new": "only looking around" })),
        ("auth.set-password", json!({ "role": "viewer", "new": null })),
        ("auth.logout", json!({})),
    ] {
        let row = &contract["methods"][method];
        fits(&row["params"], &params, method).unwrap();
        let answer = node.rpc(method, params).session(&session).send().await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.body);
        fits(&row["result"], &answer.json()["result"], method).unwrap();
        received.push(answer.everything());
        covered.push(method);
    }
    for method in METHODS {
        assert!(covered.contains(&method.name), "{} was not compared", method.name);
    }
    for path in ["/", "/aiui/", "/chat/", "/healthz", "/aiui/rpc.js"] {
        received.push(node.get(path).await.everything());
    }
    for text in &received {
        for secret in [canary, hash.expose(), PASSWORD, &token] {
            assert!(!text.contains(secret), "a secret in {text}");
        }
    }
    node.stop().await;
}
