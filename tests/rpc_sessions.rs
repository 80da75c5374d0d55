//! Sessions as a browser sees them: the cookie, the restart, the first set-up, the one-time link.

use serde_json::json;
use tombolo::store;

use crate::rpc_node::{Node, PASSWORD, Session, folder};

#[tokio::test]
async fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let answer = node.rpc("auth.login", json!({ "password": PASSWORD })).send().await;
    let cookie = answer.header("set-cookie").unwrap();
    let (pair, flags) = cookie.split_once("; ").unwrap();
    let token = pair.strip_prefix("tombolo_session=").unwrap();
    assert_eq!(token.len(), 43);
    let flags: Vec<&str> = flags.split("; ").collect();
    assert_eq!(flags, ["Path=/", "Max-Age=5184000", "HttpOnly", "SameSite=Strict"]);
    assert!(!answer.body.contains(token), "the token is in the cookie and nowhere else");
    let body = answer.json();
    assert_eq!(body["result"]["role"], "operator");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    node.stop().await;
}

#[tokio::test]
async fn a_session_and_its_token_survive_a_restart_and_only_a_hash_is_stored() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    node.stop().await;

    let path = folder.path().join("sessions.json");
    assert!(store::is_private(&path).unwrap());
    let text = std::fs::read_to_string(path).unwrap();
    let token = session.cookie.strip_prefix("tombolo_session=").unwrap();
    assert!(!text.contains(token) && !text.contains(&session.csrf));

    let node = Node::start(folder.path()).await;
    let answer = node.rpc("auth.whoami", json!({})).session(&session).send().await;
    assert_eq!(answer.json()["result"], json!({ "csrf_token": session.csrf, "role": "operator" }));
    let answer = node.rpc("mesh.status", json!({})).session(&session).send().await;
    assert_eq!(answer.status, 200, "under the token from before");
    node.stop().await;
}

#[tokio::test]
async fn a_login_gives_a_new_token_and_a_planted_one_is_never_taken_over() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let planted = format!("tombolo_session={}", "B".repeat(43));
    let session = node.login(Some(&planted)).await;
    assert_ne!(session.cookie, planted);
    let answer = node.rpc("auth.whoami", json!({})).header("Cookie", &planted).send().await;
    assert_eq!(answer.status, 401);
    let again = node.login(Some(&session.cookie)).await;
    assert_ne!((&again.cookie, &again.csrf), (&session.cookie, &session.csrf));
    // Cookies of other programs on this host don't get in the way.
    let crowd = format!("tombolo_session=x; {planted}; a=b; {}", again.cookie);
    let answer = node.rpc("auth.whoami", json!({})).header("Cookie", &crowd).send().await;
    assert_eq!(answer.status, 200);
    node.stop().await;
}

#[tokio::test]
async fn setup_works_once_and_says_when_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path()).await;
    let token = node.services.auth.setup_token().unwrap();
    let answer = node.rpc("auth.whoami", json!({})).send().await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["data"]["needs_setup"]),
        (401, &json!(true))
    );
    assert!(!answer.everything().contains(token.expose()));
    // As a query it is moved behind the `#`; anything else there is just the page.
    let answer = node.get(&format!("/?setup={}", token.expose())).await;
    let behind = format!("/#setup={}", token.expose());
    assert_eq!((answer.status, answer.header("location")), (303, Some(behind.as_str())));
    for other in ["/?setup=", "/?setup=x", "/?setup=%0d%0aSet-Cookie:a", "/?a&setup=x"] {
        assert_eq!(node.get(other).await.status, 200, "{other}");
    }

    let setup = async |token: &str, password: &str| {
        node.rpc("auth.setup", json!({ "token": token, "password": password })).send().await
    };
    assert_eq!(setup("wrong", PASSWORD).await.error_name(), "login_failed");
    assert_eq!(setup(token.expose(), "1234567").await.error_name(), "invalid_params");
    let session = Session::of(&setup(token.expose(), PASSWORD).await);
    let answer = node.rpc("mesh.status", json!({})).session(&session).send().await;
    assert_eq!(answer.status, 200);
    let again = setup(token.expose(), "another password").await;
    assert_eq!((again.status, again.error_name().as_str()), (409, "set_up_already"));
    node.login(None).await;
    assert!(store::is_private(&folder.path().join("secrets/operator-password")).unwrap());
    node.stop().await;
}

#[tokio::test]
async fn a_one_time_link_sets_the_cookie_and_leaves_the_address() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let token = node.services.auth.one_time_link_token();
    let path = format!("/?login={}", token.expose());
    let head = node.request("HEAD", &path).send().await;
    assert_eq!(head.header("set-cookie"), None, "only a real visit uses it up");
    let answer = node.get(&path).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let who = node.rpc("auth.whoami", json!({})).header("Cookie", &cookie).send().await;
    assert_eq!(who.status, 200);
    for used_or_wrong in
        [path.as_str(), "/?login=", "/?login=x", &format!("/?x=1&login={}", "0".repeat(64))]
    {
        let answer = node.get(used_or_wrong).await;
        assert!([200, 303].contains(&answer.status));
        assert!(answer.header("set-cookie").is_none(), "{used_or_wrong}");
    }
    node.stop().await;
}

#[tokio::test]
async fn what_a_page_of_another_port_sends_is_refused_though_it_has_the_cookie() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let port = node.address.port();
    for origin in
        ["http://127.0.0.1:8080", "http://localhost", &format!("https://127.0.0.1:{port}")]
    {
        let request = node.rpc("mesh.status", json!({})).session(&session).with("Origin", origin);
        assert_eq!(request.send().await.status, 403, "{origin}");
    }
    assert_eq!(node.mesh_asked(), 0);
    node.stop().await;
}
