//! Logging in, from password to session. No socket: that is `tests/rpc_authorisation.rs`.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use super::*;

const PASSWORD: &str = "correct horse";

fn open(folder: &Path) -> Arc<Auth> {
    let secrets = Secrets::open(folder).unwrap();
    Arc::new(Auth::open(folder, secrets, Clock::start()).unwrap())
}

fn store_password(folder: &Path, password: &str) {
    let hash = password::hash(&Secret::new(password)).unwrap();
    Secrets::open(folder).unwrap().write(SecretName::OperatorPassword, &hash).unwrap();
}

fn with_password() -> (tempfile::TempDir, Arc<Auth>) {
    let folder = tempfile::tempdir().unwrap();
    store_password(folder.path(), PASSWORD);
    let auth = open(folder.path());
    (folder, auth)
}

fn stranger() -> Client {
    Client { address: IpAddr::from([192, 0, 2, 1]), tokens: Vec::new() }
}

fn holding(new: &NewLogin) -> Client {
    Client { tokens: vec![new.token.clone()], ..stranger() }
}

#[tokio::test]
async fn the_right_password_opens_a_session_that_survives_a_restart() {
    let (folder, auth) = with_password();
    assert!(auth.setup_token().is_none());
    let new = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    assert_eq!(auth.authenticate(&holding(&new)), Some(new.login.clone()));
    let again = open(folder.path());
    assert_eq!(again.authenticate(&holding(&new)), Some(new.login.clone()));
    again.logout(&new.login).await.unwrap();
    assert_eq!(again.authenticate(&holding(&new)), None);
    assert_eq!(open(folder.path()).authenticate(&holding(&new)), None, "ended on disk too");
    let file = folder.path().join("sessions.json");
    assert!(store::is_private(&file).unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains(&new.token.text()) && !text.contains(&new.login.csrf));
}

#[tokio::test(start_paused = true)]
async fn wrong_passwords_are_all_the_same_and_slow_down_only_who_sent_them() {
    let (_folder, auth) = with_password();
    let known = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    let too_long = "x".repeat(password::MAX_CHARS + 1);
    for wrong in ["correct horsf", "", &too_long] {
        let refused = auth.login(Secret::new(wrong), &stranger()).await.unwrap_err();
        assert!(matches!(refused, LoginError::Failed), "{refused}");
    }
    // Three failures: now even the right password waits, and the wait says how long it is.
    let refused = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap_err();
    assert!(matches!(refused, LoginError::Throttled { wait_s: 1 }), "{refused}");
    // The operator's own browser doesn't.
    auth.login(Secret::new(PASSWORD), &holding(&known)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_the_wait_the_right_password_still_gets_in() {
    let (_folder, auth) = with_password();
    for _ in 0..throttle::FREE_TRIES {
        auth.login(Secret::new("wrong wrong"), &stranger()).await.unwrap_err();
    }
    let refused = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap_err();
    let LoginError::Throttled { wait_s } = refused else { panic!("{refused}") };
    tokio::time::advance(std::time::Duration::from_secs(wait_s)).await;
    auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
}

#[tokio::test]
async fn setup_works_once_with_the_token_and_no_default_password_exists() {
    let folder = tempfile::tempdir().unwrap();
    let auth = open(folder.path());
    let token = auth.setup_token().unwrap();
    assert!(auth.needs_setup());
    for nothing in ["", "operator", "tombolo"] {
        auth.login(Secret::new(nothing), &stranger()).await.unwrap_err();
    }
    let elsewhere = Client { address: IpAddr::from([192, 0, 2, 2]), tokens: Vec::new() };
    let setup = async |token: &Secret, password: &str| {
        auth.setup(token.clone(), Secret::new(password), &elsewhere).await
    };
    let wrong = Token::random().unwrap().text();
    assert!(matches!(setup(&Secret::new(wrong), PASSWORD).await, Err(LoginError::Failed)));
    assert!(matches!(setup(&token, "short").await, Err(LoginError::Password(_))));
    let new = setup(&token, PASSWORD).await.unwrap();
    assert!(auth.authenticate(&holding(&new)).is_some());
    assert!(auth.setup_token().is_none() && !auth.needs_setup());
    assert!(matches!(setup(&token, "another one").await, Err(LoginError::SetUpAlready)));
    auth.login(Secret::new(PASSWORD), &elsewhere).await.unwrap();
    assert!(open(folder.path()).setup_token().is_none());
}

#[tokio::test]
async fn a_password_set_beside_a_running_daemon_voids_setup_and_ends_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let auth = open(folder.path());
    let token = auth.setup_token().unwrap();
    store_password(folder.path(), PASSWORD);
    let refused = auth.setup(token, Secret::new("another one"), &stranger()).await.unwrap_err();
    assert!(matches!(refused, LoginError::SetUpAlready));
    let new = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    store_password(folder.path(), "another one");
    assert_eq!(auth.authenticate(&holding(&new)), None);
    let again = auth.login(Secret::new("another one"), &holding(&new)).await.unwrap();
    assert_eq!(again.login.session_id, new.login.session_id, "the transcript goes on");
}

#[tokio::test(start_paused = true)]
async fn a_link_logs_in_once_and_soon() {
    let folder = tempfile::tempdir().unwrap();
    let auth = open(folder.path());
    let first = auth.one_time_link_token();
    let second = auth.one_time_link_token();
    assert_ne!(first, second);
    assert!(auth.redeem_link("", &stranger()).await.is_none());
    let new = auth.redeem_link(first.expose(), &stranger()).await.unwrap();
    assert!(auth.authenticate(&holding(&new)).is_some());
    assert!(auth.redeem_link(first.expose(), &stranger()).await.is_none(), "used");
    tokio::time::advance(std::time::Duration::from_millis(LINK_MS)).await;
    assert!(auth.redeem_link(second.expose(), &stranger()).await.is_none(), "too old");
    // Nine links: the oldest of them is void.
    let links: Vec<Secret> = (0..=MAX_LINKS).map(|_| auth.one_time_link_token()).collect();
    assert!(auth.redeem_link(links[0].expose(), &stranger()).await.is_none());
    assert!(auth.redeem_link(links[1].expose(), &stranger()).await.is_some());
}

#[tokio::test]
#[allow(clippy::disallowed_methods)] // breaks it on purpose
async fn a_broken_file_of_sessions_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    store_password(folder.path(), PASSWORD);
    std::fs::write(folder.path().join("sessions.json"), "{\"live\":[1]}").unwrap();
    let auth = open(folder.path());
    auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    assert!(folder.path().join("sessions.json.broken").exists());
}

#[test]
fn debug_forms_hold_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let auth = open(folder.path());
    let link = auth.one_time_link_token();
    let shown = format!("{auth:?}");
    assert!(
        !shown.contains(auth.setup_token().unwrap().expose()) && !shown.contains(link.expose())
    );
}
