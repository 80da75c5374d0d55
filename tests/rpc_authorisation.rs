//! Every method is refused to everyone who lacks what it asks for, and runs nothing then.
//!
//! A new method needs a case here; one without must stand in `authz_uncovered.txt`, which a reviewer sees.

use serde_json::{Value, json};
use tombolo::rpc::methods::{self, Access, METHODS};

use crate::rpc_node::{Node, PASSWORD, Request, Session, folder};

/// A method with parameters under which it would run.
struct Case {
    method: &'static str,
    params: Value,
}

fn cases() -> Vec<Case> {
    let none = || json!({});
    [
        ("auth.login", json!({ "password": PASSWORD })),
        ("auth.setup", json!({ "token": "t", "password": "another password" })),
        ("auth.whoami", none()),
        ("assistant.chat", json!({ "text": "hello" })),
        ("assistant.stop", json!({ "turn_id": "t1" })),
        ("assistant.history", none()),
        ("assistant.clear-history", none()),
        ("assistant.list-tools", none()),
        ("mesh.assistant-status", none()),
        ("mesh.status", none()),
        ("mesh.nodes", none()),
        ("mesh.messages", json!({ "limit": 5 })),
        ("mesh.airtime", none()),
        ("mesh.stop-all", json!({ "resume": true })),
        ("mesh.assistant-configure", json!({ "suspend": { "id": "!a1b2c3d4" } })),
        (
            "mesh.peer-accept-key",
            json!({ "id": "!a1b2c3d4", "fingerprint": "0011 2233 4455 6677", "accept": true }),
        ),
        ("mesh.pair", json!({ "name": "Eve" })),
        ("mesh.send", json!({ "to": "!a1b2c3d4", "text": "hello" })),
        ("system.disk-status", none()),
        ("system.info", none()),
        // Last, for it ends the session.
        ("auth.logout", none()),
    ]
    .map(|(method, params)| Case { method, params })
    .into()
}

#[test]
fn the_methods_without_a_case_are_those_of_the_list() {
    let cases = cases();
    for case in &cases {
        assert!(methods::find(case.method).is_some(), "{} is no method", case.method);
    }
    let uncovered: String = METHODS
        .iter()
        .filter(|method| cases.iter().all(|case| case.method != method.name))
        .map(|method| format!("{}\n", method.name))
        .collect();
    let listed = include_str!("authz_uncovered.txt");
    assert_eq!(uncovered, listed, "methods without a case, against tests/authz_uncovered.txt");
}

/// Logs in, then makes that session too old, as if nobody had used it for years.
async fn expired(data_dir: &std::path::Path) -> Session {
    let node = Node::start(data_dir).await;
    let session = node.login(None).await;
    node.stop().await;
    let path = data_dir.join("sessions.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    file["live"][0]["last_seen"] = json!(1);
    std::fs::write(&path, file.to_string()).unwrap();
    session
}

#[tokio::test]
async fn every_method_is_refused_to_who_lacks_what_it_asks_for() {
    let folder = folder();
    let expired = expired(folder.path()).await;
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let ended = node.login(None).await;
    let answer = node.rpc("auth.logout", json!({})).session(&ended).send().await;
    assert_eq!(answer.status, 200);
    let other = node.login(None).await;
    let unknown = format!("tombolo_session={}", "A".repeat(43));
    let said = node.rpc("assistant.chat", json!({ "text": "remember" })).session(&session);
    assert_eq!(said.send().await.status, 200);
    let asked_before = (node.mesh_asked(), node.leg.asked());

    // What is wrong, the request that has it, and what a method that needs a session answers; a fourth
    // says what one that needs none answers, where that is a refusal too.
    type Spoil<'a> = Box<dyn Fn(Request) -> Request + 'a>;
    let wrongs: Vec<(&str, Spoil<'_>, u16, Option<u16>)> = vec![
        ("no session", Box::new(|r: Request| r.without("Cookie")), 401, None),
        ("unknown session", Box::new(|r: Request| r.with("Cookie", &unknown)), 401, None),
        ("ended session", Box::new(|r: Request| r.session(&ended)), 401, None),
        ("expired session", Box::new(|r: Request| r.session(&expired)), 401, None),
        ("no token", Box::new(|r: Request| r.without("X-CSRF-Token")), 403, None),
        ("empty token", Box::new(|r: Request| r.with("X-CSRF-Token", "")), 403, None),
        ("another's token", Box::new(|r: Request| r.with("X-CSRF-Token", &other.csrf)), 403, None),
        (
            "foreign origin",
            Box::new(|r: Request| r.with("Origin", "http://evil.example")),
            403,
            Some(403),
        ),
        ("null origin", Box::new(|r: Request| r.with("Origin", "null")), 403, Some(403)),
        ("two origins", Box::new(|r: Request| r.header("Origin", "null")), 403, Some(403)),
        (
            "another port's origin",
            Box::new(|r: Request| r.with("Origin", "http://127.0.0.1:1")),
            403,
            Some(403),
        ),
        ("wrong host", Box::new(|r: Request| r.with("Host", "evil.example")), 403, Some(403)),
        ("host without port", Box::new(|r: Request| r.with("Host", "127.0.0.1")), 403, Some(403)),
        ("no host", Box::new(|r: Request| r.without("Host")), 403, Some(403)),
        (
            "a form's type",
            Box::new(|r: Request| r.with("Content-Type", "text/plain")),
            415,
            Some(415),
        ),
        ("no type", Box::new(|r: Request| r.without("Content-Type")), 415, Some(415)),
    ];
    for case in cases() {
        let method = methods::find(case.method).unwrap();
        let open = method.access == Access::Open;
        for (what, spoil, status, open_status) in &wrongs {
            let token_only = *status == 403 && open_status.is_none();
            let wanted = if open { *open_status } else { Some(*status) };
            // A method that needs no token is not refused for one.
            let Some(wanted) = wanted.filter(|_| method.csrf || !token_only) else { continue };
            let request = node.rpc(case.method, case.params.clone()).session(&session);
            let answer = spoil(request).send().await;
            assert_eq!(answer.status, wanted, "{} with {what}: {}", case.method, answer.body);
            assert!(!answer.body.contains("\"result\""), "{} with {what}", case.method);
            assert!(answer.header("set-cookie").is_none(), "{} with {what}", case.method);
        }
    }
    assert_eq!((node.mesh_asked(), node.leg.asked()), asked_before, "something was run");
    let answer = node.rpc("assistant.history", json!({})).session(&session).send().await;
    assert_eq!(answer.status, 200, "the session was touched");
    assert!(answer.body.contains("remember"), "the transcript was touched");

    let answer =
        node.rpc("auth.login", json!({ "password": PASSWORD })).session(&session).send().await;
    let renewed = Session::of(&answer);
    // The login renewed the token of this browser: the old one is worth nothing now.
    let old = node.rpc("auth.whoami", json!({})).session(&session).send().await;
    assert_eq!(old.status, 401);
    every_other_method_runs(&node, &renewed).await;
    node.stop().await;
}

async fn every_other_method_runs(node: &Node, session: &Session) {
    for case in cases().into_iter().filter(|case| case.method != "auth.login") {
        let answer = node.rpc(case.method, case.params.clone()).session(session).send().await;
        // A node that has a password is not set up again.
        let wanted = if case.method == "auth.setup" { 409 } else { 200 };
        assert_eq!(answer.status, wanted, "{}: {}", case.method, answer.body);
        // Without an `Origin`, as a program sends it, it runs as well.
        if case.method != "auth.logout" {
            let request = node.rpc(case.method, case.params.clone()).session(session);
            let answer = request.without("Origin").send().await;
            assert_eq!(answer.status, wanted, "{}: {}", case.method, answer.body);
        }
    }
    let answer = node.rpc("auth.whoami", json!({})).session(session).send().await;
    assert_eq!(answer.status, 401, "logged out");
}
