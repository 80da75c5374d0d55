//! Viewers, the list of sessions, passwords changed over RPC: as browsers see them.

use serde_json::json;
use tombolo::rpc::auth::Role;

use crate::rpc_authorisation::{VIEWERS, folder_of_both, login};
use crate::rpc_events::Listening;
use crate::rpc_node::{Node, PASSWORD};

#[tokio::test]
async fn a_viewer_sees_the_mesh_and_neither_asks_nor_changes() {
    let folder = folder_of_both();
    let node = Node::start(folder.path()).await;
    let viewer = login(&node, Role::Viewer).await;
    let who = node.rpc("auth.whoami", json!({})).session(&viewer).send().await;
    assert_eq!(who.json()["result"]["role"], "viewer");
    for method in ["mesh.status", "mesh.nodes", "mesh.messages", "mesh.airtime", "mesh.history"] {
        let answer = node.rpc(method, json!({})).session(&viewer).send().await;
        assert_eq!(answer.status, 200, "{method}");
    }
    for (method, params) in [
        ("assistant.chat", json!({ "text": "hello" })),
        ("assistant.history", json!({})),
        ("mesh.stop-all", json!({})),
        ("auth.sessions", json!({})),
        ("auth.set-password", json!({ "role": "viewer", "new": "something else" })),
        ("system.log", json!({})),
    ] {
        let answer = node.rpc(method, params).session(&viewer).send().await;
        assert_eq!((answer.status, answer.error_name().as_str()), (403, "forbidden"), "{method}");
    }
    assert_eq!(node.leg.asked(), 0);
    // Who may use which tools, and that a code would let somebody in now, is the operator's matter.
    let operator = login(&node, Role::Operator).await;
    let status = async |session| {
        let answer = node.rpc("mesh.assistant-status", json!({})).session(session).send().await;
        answer.json()["result"].clone()
    };
    let (seen, all) = (status(&viewer).await, status(&operator).await);
    assert_eq!(all["pairing"]["name"], "Eve");
    assert_eq!(all["allowed_contacts"][0]["grants"], json!(["system"]));
    assert_eq!(seen["pairing"], json!(null));
    assert_eq!(seen["allowed_contacts"][0]["grants"], json!(null));
    assert_eq!(seen["allowed_contacts"][0]["grants_source"], json!(null));
    assert!(!seen.to_string().contains("Eve"), "{seen}");
    // Who is denied explains what the viewer sees of the air.
    assert_eq!((&seen["denied"], &seen["denied_askers"]), (&all["denied"], &all["denied_askers"]));
    node.stop().await;
}

#[tokio::test]
async fn a_session_is_listed_and_a_revoked_one_ends_with_its_stream_and_its_turn() {
    let folder = folder_of_both();
    let node = Node::start(folder.path()).await;
    let mine = login(&node, Role::Operator).await;
    let stolen = login(&node, Role::Operator).await;
    let request = node.request("GET", "/events").header("Cookie", &stolen.cookie);
    let mut page = Listening::open(&request).await;
    page.until("status").await;
    let hanging = node.rpc("assistant.chat", json!({ "text": "hang" })).session(&stolen);
    let mut hanging = hanging.begin().await;
    node.leg.until(|progress| progress.begun == 1).await;

    let list = node.rpc("auth.sessions", json!({})).session(&mine).send().await;
    let sessions = list.json()["result"]["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2);
    assert_eq!((&sessions[0]["current"], &sessions[1]["current"]), (&json!(true), &json!(false)));
    assert_eq!(sessions[0]["address"], "127.0.0.1");
    for secret in [&mine.cookie, &mine.csrf, &stolen.cookie, &stolen.csrf] {
        assert!(!list.body.contains(secret.trim_start_matches("tombolo_session=")));
    }
    let revoke = json!({ "id": sessions[1]["id"] });
    let answer = node.rpc("auth.revoke", revoke.clone()).session(&mine).send().await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    page.ended().await;
    node.leg.until(|progress| progress.dropped == 1).await;
    let answer = crate::rpc_node::Answer::read(&mut hanging).await;
    assert_eq!(answer.json()["result"]["status"], "stopped");
    let answer = node.rpc("auth.whoami", json!({})).session(&stolen).send().await;
    assert_eq!(answer.status, 401);
    let again = node.rpc("auth.revoke", revoke).session(&mine).send().await;
    assert_eq!((again.status, again.error_name().as_str()), (400, "invalid_params"));
    node.stop().await;
}

#[tokio::test]
async fn passwords_are_set_by_the_operator_and_bad_ones_are_said_to_be_bad() {
    let folder = folder_of_both();
    let node = Node::start(folder.path()).await;
    let mine = login(&node, Role::Operator).await;
    let viewer = login(&node, Role::Viewer).await;
    let set = async |params| {
        let answer = node.rpc("auth.set-password", params).session(&mine).send().await;
        let field = answer.json()["error"]["data"]["field"].as_str().map(str::to_owned);
        (answer.status, answer.error_name(), answer.body, field)
    };
    for (params, status, name, word, wrong) in [
        (
            json!({ "role": "operator", "new": "a new password" }),
            400,
            "invalid_params",
            "old",
            Some("old"),
        ),
        (json!({ "role": "operator", "old": PASSWORD }), 400, "invalid_params", "new", Some("new")),
        (
            json!({ "role": "operator", "old": PASSWORD, "new": null }),
            400,
            "invalid_params",
            "taken",
            Some("new"),
        ),
        (
            json!({ "role": "operator", "old": PASSWORD, "new": "short" }),
            400,
            "invalid_params",
            "8",
            Some("new"),
        ),
        (
            json!({ "role": "operator", "old": PASSWORD, "new": VIEWERS }),
            400,
            "invalid_params",
            "role",
            Some("new"),
        ),
        (
            json!({ "role": "operator", "old": "wrong", "new": "a new password" }),
            401,
            "login_failed",
            "match",
            Some("old"),
        ),
        (
            json!({ "role": "root", "new": "a new password" }),
            400,
            "invalid_params",
            "operator",
            None,
        ),
        (
            json!({ "role": "viewer", "new": "x".repeat(513) }),
            400,
            "invalid_params",
            "512",
            Some("new"),
        ),
    ] {
        let (got, error, body, field) = set(params.clone()).await;
        assert_eq!(field.as_deref(), wrong, "{params}");
        assert_eq!((got, error.as_str()), (status, name), "{params}");
        assert!(body.contains(word), "{params}: {body}");
    }
    let request = node.request("GET", "/events").header("Cookie", &viewer.cookie);
    let mut page = Listening::open(&request).await;
    assert_eq!(set(json!({ "role": "viewer", "new": null })).await.0, 200);
    page.ended().await;
    let refused = node.rpc("auth.login", json!({ "password": VIEWERS })).send().await;
    assert_eq!(refused.error_name(), "login_failed");
    assert!(!folder.path().join("secrets/viewer-password").exists());

    let new = json!({ "role": "operator", "old": PASSWORD, "new": "a new password" });
    assert_eq!(set(new).await.0, 200);
    let answer = node.rpc("auth.whoami", json!({})).session(&mine).send().await;
    assert_eq!(answer.status, 200, "the session that asked goes on");
    let login = node.rpc("auth.login", json!({ "password": "a new password" })).send().await;
    assert_eq!(login.status, 200);
    node.stop().await;
}
