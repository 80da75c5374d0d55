//! Every method, in every role, is refused to whoever lacks what it asks for, and runs nothing then.
//!
//! The method table drives it: a new method is covered without a line here. Only where the least
//! parameters that fit its schema don't make it run does it need a row in [`params_of`].

use std::path::Path;

use serde_json::{Value, json};
use tombolo::rpc::auth::Role;
use tombolo::rpc::auth::passwords::Passwords;
use tombolo::rpc::methods::{Access, METHODS, Method};
use tombolo::secrets::{Secret, Secrets};

use crate::rpc_node::{Answer, Node, PASSWORD, Request, Session, folder};

/// The viewers', where one is stored.
pub const VIEWERS: &str = "only looking around";

/// Parameters under which a method would run, and whether it runs under them here.
fn params_of(method: &Method) -> (Value, bool) {
    let params = match method.name {
        "auth.login" => json!({ "password": PASSWORD }),
        "auth.setup" => json!({ "token": "t", "password": "another password" }),
        "auth.set-password" => json!({ "role": "viewer", "new": "yet another password" }),
        "mesh.stop-all" => json!({ "resume": true }),
        "assistant.grants-set" => {
            json!({ "caller": "operator", "category": "network", "granted": true })
        }
        // No session has that id.
        "auth.revoke" => return (json!({ "id": "0000000000000000" }), false),
        _ => {
            let schema = (method.params)();
            let runs = schema["required"].as_array().is_none_or(Vec::is_empty);
            return (least(&schema), runs || method.name.starts_with("assistant."));
        }
    };
    (params, method.name != "auth.setup")
}

/// The least that fits a schema.
fn least(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0).or(schema.get("const")) {
        return first.clone();
    }
    if let Some(first) = schema["anyOf"].get(0).or(schema["oneOf"].get(0)) {
        return least(first);
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            required
                .filter_map(Value::as_str)
                .map(|name| (name.to_owned(), least(&schema["properties"][name])))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Some("array") => json!([]),
        Some("string") if schema["pattern"].as_str().is_some_and(|p| p.starts_with("^!")) => {
            json!("!a1b2c3d4")
        }
        Some("string") => {
            json!("x".repeat(schema["minLength"].as_u64().unwrap_or(1).try_into().unwrap()))
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some("boolean") => json!(false),
        _ => Value::Null,
    }
}

fn allows(method: &Method, role: Role) -> bool {
    matches!(method.access, Access::Session(roles) if roles.contains(&role))
}

/// A folder with both passwords.
pub fn folder_of_both() -> tempfile::TempDir {
    let folder = folder();
    let passwords = Passwords::new(Secrets::open(folder.path()).unwrap());
    passwords.store(Role::Viewer, &Secret::new(VIEWERS)).unwrap();
    folder
}

pub async fn login(node: &Node, role: Role) -> Session {
    let password = if role == Role::Operator { PASSWORD } else { VIEWERS };
    let answer = node.rpc("auth.login", json!({ "password": password })).send().await;
    assert_eq!(answer.json()["result"]["role"], role.as_str());
    Session::of(&answer)
}

/// Sessions of both roles that nobody has used for years.
async fn expired(data_dir: &Path) -> [Session; 2] {
    let node = Node::start(data_dir).await;
    let sessions = [login(&node, Role::Operator).await, login(&node, Role::Viewer).await];
    node.stop().await;
    let path = data_dir.join("sessions.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for session in file["live"].as_array_mut().unwrap() {
        session["last_seen"] = json!(1);
    }
    std::fs::write(&path, file.to_string()).unwrap();
    sessions
}

/// Everything on the disk but the sessions, whose times move on.
fn files(data_dir: &Path) -> Vec<(String, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![data_dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.ends_with("sessions.json") => {}
                path => found.push((path.display().to_string(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

/// What is wrong with a request, how it gets so, and what then answers a method that needs a session and
/// one that needs none; `None`: the latter is not refused for that.
type Wrong<'a> = (&'a str, Box<dyn Fn(Request) -> Request + 'a>, u16, Option<u16>);

fn wrongs<'a>(ended: &'a Session, expired: &'a Session, other: &'a Session) -> Vec<Wrong<'a>> {
    let unknown = format!("tombolo_session={}", "A".repeat(43));
    let header = |name: &'static str, value: &'static str| {
        Box::new(move |r: Request| r.with(name, value)) as Box<dyn Fn(Request) -> Request>
    };
    let without = |name: &'static str| {
        Box::new(move |r: Request| r.without(name)) as Box<dyn Fn(Request) -> Request>
    };
    vec![
        ("no session", without("Cookie"), 401, None),
        ("unknown session", Box::new(move |r| r.with("Cookie", &unknown)), 401, None),
        ("ended session", Box::new(|r| r.session(ended)), 401, None),
        ("expired session", Box::new(|r| r.session(expired)), 401, None),
        ("no token", without("X-CSRF-Token"), 403, None),
        ("empty token", header("X-CSRF-Token", ""), 403, None),
        ("another's token", Box::new(|r| r.with("X-CSRF-Token", &other.csrf)), 403, None),
        ("foreign origin", header("Origin", "http://evil.example"), 403, Some(403)),
        ("null origin", header("Origin", "null"), 403, Some(403)),
        ("two origins", Box::new(|r| r.header("Origin", "null")), 403, Some(403)),
        ("another port's origin", header("Origin", "http://127.0.0.1:1"), 403, Some(403)),
        ("wrong host", header("Host", "evil.example"), 403, Some(403)),
        ("host without port", header("Host", "127.0.0.1"), 403, Some(403)),
        ("no host", without("Host"), 403, Some(403)),
        ("a form's type", header("Content-Type", "text/plain"), 415, Some(415)),
        ("no type", without("Content-Type"), 415, Some(415)),
    ]
}

#[tokio::test]
async fn every_method_is_refused_in_every_role_to_who_lacks_what_it_asks_for() {
    let folder = folder_of_both();
    let [expired_operator, expired_viewer] = expired(folder.path()).await;
    let node = Node::start(folder.path()).await;
    let operator = login(&node, Role::Operator).await;
    let said = node.rpc("assistant.chat", json!({ "text": "remember" })).session(&operator);
    assert_eq!(said.send().await.status, 200);
    let other = login(&node, Role::Operator).await;
    let mut checked = 0;
    for (role, session, expired) in [
        (Role::Operator, operator.clone(), expired_operator),
        (Role::Viewer, login(&node, Role::Viewer).await, expired_viewer),
    ] {
        let ended = login(&node, role).await;
        let answer = node.rpc("auth.logout", json!({})).session(&ended).send().await;
        assert_eq!(answer.status, 200);
        let before = (node.mesh_asked(), node.leg.asked(), files(folder.path()));
        let wrongs = wrongs(&ended, &expired, &other);
        for method in METHODS {
            let (params, _) = params_of(method);
            let request = node.rpc(method.name, params).session(&session);
            let refused = |what: &str, answer: &Answer, wanted: u16| {
                let name = method.name;
                assert_eq!(answer.status, wanted, "{name} with {what}: {}", answer.body);
                assert!(!answer.body.contains("\"result\""), "{name} with {what}");
                assert!(answer.header("set-cookie").is_none(), "{name} with {what}");
            };
            for (what, spoil, status, open_status) in &wrongs {
                let token_only = *status == 403 && open_status.is_none();
                let open = method.access == Access::Open;
                let wanted = if open { *open_status } else { Some(*status) };
                // A method that needs no token is not refused for one.
                let Some(wanted) = wanted.filter(|_| method.csrf || !token_only) else { continue };
                let answer = spoil(request.clone()).send().await;
                refused(&format!("{what} as {}", role.as_str()), &answer, wanted);
                checked += 1;
            }
            if method.access != Access::Open && !allows(method, role) {
                let answer = request.send().await;
                refused(role.as_str(), &answer, 403);
                assert_eq!(answer.error_name(), "forbidden", "{}", method.name);
                checked += 1;
            }
        }
        let after = (node.mesh_asked(), node.leg.asked(), files(folder.path()));
        assert!(before == after, "something was run as {}", role.as_str());
    }
    assert!(checked > METHODS.len() * 2 * 12, "{checked}");
    let answer = node.rpc("assistant.history", json!({})).session(&operator).send().await;
    assert_eq!(answer.status, 200, "the session was touched");
    assert!(answer.body.contains("remember"), "the transcript was touched");
    node.stop().await;
}

#[tokio::test]
async fn every_method_runs_for_the_roles_that_it_names() {
    let folder = folder_of_both();
    let node = Node::start(folder.path()).await;
    for role in [Role::Viewer, Role::Operator] {
        let session = login(&node, role).await;
        // What ends the session comes last, below; a login would renew it.
        let rest = METHODS.iter().filter(|method| method.name != "auth.logout");
        for method in rest.filter(|method| allows(method, role)) {
            let (params, runs) = params_of(method);
            // With an `Origin` as our page sends it, and without one as a program does.
            let request = node.rpc(method.name, params).session(&session);
            for request in [request.clone().without("Origin"), request] {
                let (answer, name) = (request.send().await, method.name);
                let error = answer.error_name();
                let refusals = ["not_logged_in", "csrf_token", "forbidden"];
                assert!(!refusals.contains(&error.as_str()), "{name} as {role:?}: {error}");
                if runs {
                    assert_eq!(answer.status, 200, "{name}: {}", answer.body);
                }
            }
        }
        let answer = node.rpc("auth.logout", json!({})).session(&session).send().await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = node.rpc("auth.whoami", json!({})).session(&session).send().await;
        assert_eq!(answer.status, 401, "logged out");
    }
    node.stop().await;
}

#[tokio::test]
async fn events_and_figures_are_read_by_who_may() {
    let folder = folder_of_both();
    let [expired, _] = expired(folder.path()).await;
    let node = Node::start(folder.path()).await;
    let ended = login(&node, Role::Operator).await;
    node.rpc("auth.logout", json!({})).session(&ended).send().await;
    for role in [Role::Operator, Role::Viewer] {
        let session = login(&node, role).await;
        for path in ["/events", "/metrics"] {
            // From elsewhere: to this machine itself the figures are open.
            let right = node
                .request("GET", path)
                .header("X-Forwarded-For", "203.0.113.9")
                .header("Cookie", &session.cookie);
            for (what, spoil, status, _) in wrongs(&ended, &expired, &ended) {
                if what.contains("token") || what.contains("type") || what == "two origins" {
                    continue; // a GET changes nothing and has neither
                }
                let answer = spoil(right.clone()).send().await;
                assert_eq!(answer.status, status, "{path} with {what}: {}", answer.body);
                assert!(!answer.body.contains("tombolo_link_up"), "{path} with {what}");
            }
        }
        let figures = node.request("GET", "/metrics").header("Via", "1.1 proxy");
        let answer = figures.header("Cookie", &session.cookie).send().await;
        assert_eq!(answer.status, 200);
        let page = node.request("GET", "/events").header("Cookie", &session.cookie);
        let mut page = crate::rpc_events::Listening::open(&page).await;
        assert_eq!(page.next().await.unwrap().name, "hello");
    }
    node.stop().await;
}
