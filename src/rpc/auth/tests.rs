//! Logging in, from password to session. No socket: that is `tests/rpc_authorisation.rs`.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use super::links::{LINK_MS, MAX_LINKS};
use super::*;
use crate::secrets::SecretName;

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

const VIEWERS: &str = "only looking";

fn with_both_passwords() -> (tempfile::TempDir, Arc<Auth>) {
    let (folder, auth) = with_password();
    auth.passwords.store(Role::Viewer, &Secret::new(VIEWERS)).unwrap();
    (folder, auth)
}

async fn wrong(auth: &Arc<Auth>, client: &Client) -> LoginError {
    auth.login(Secret::new("wrong wrong"), client).await.unwrap_err()
}

#[tokio::test]
async fn a_password_opens_its_own_role() {
    let (folder, auth) = with_both_passwords();
    let operator = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    let viewer = auth.login(Secret::new(VIEWERS), &stranger()).await.unwrap();
    assert_eq!((operator.login.role, viewer.login.role), (Role::Operator, Role::Viewer));
    let again = open(folder.path());
    assert_eq!(again.authenticate(&holding(&viewer)), Some(viewer.login.clone()));
    // An operator's cookie that a browser holds makes no operator of a viewer's login.
    let both = auth.login(Secret::new(VIEWERS), &holding(&operator)).await.unwrap();
    assert_eq!(both.login.role, Role::Viewer);
    assert_ne!(both.login.session_id, operator.login.session_id);
    assert_eq!(auth.authenticate(&holding(&operator)), None);
}

#[tokio::test(start_paused = true)]
async fn the_viewers_password_pardons_no_guess_at_the_operators() {
    let (_folder, auth) = with_both_passwords();
    let mut viewer = auth.login(Secret::new(VIEWERS), &stranger()).await.unwrap();
    for guess in 1..=throttle::FREE_TRIES {
        let refused = wrong(&auth, &holding(&viewer)).await;
        assert!(matches!(refused, LoginError::Failed), "{guess}: {refused}");
        if guess < throttle::FREE_TRIES {
            // Neither by a login in between, nor as another session.
            viewer = auth.login(Secret::new(VIEWERS), &stranger()).await.unwrap();
        }
    }
    for client in [holding(&viewer), stranger()] {
        let refused = wrong(&auth, &client).await;
        assert!(matches!(refused, LoginError::Throttled { .. }), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_strangers_keeps_neither_the_operators_browser_nor_a_tunnel_out() {
    let (_folder, auth) = with_password();
    let known = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    for last in 1..=throttle::FREE_TRIES_OF_ALL {
        let address = IpAddr::from([198, 51, 100, u8::try_from(last).unwrap()]);
        wrong(&auth, &Client { address, tokens: Vec::new() }).await;
    }
    let refused = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap_err();
    assert!(matches!(refused, LoginError::Throttled { .. }), "{refused}");
    auth.login(Secret::new(PASSWORD), &holding(&known)).await.unwrap();
    let tunnel = Client { address: IpAddr::from([127, 0, 0, 1]), tokens: Vec::new() };
    auth.login(Secret::new(PASSWORD), &tunnel).await.unwrap();
}

#[tokio::test]
async fn a_password_is_changed_by_who_knows_it() {
    let (folder, auth) = with_both_passwords();
    let mine = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    let other = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    let viewer = auth.login(Secret::new(VIEWERS), &stranger()).await.unwrap();
    let set = async |role, old: Option<&str>, new: Option<&str>| {
        let (old, new) = (old.map(Secret::new), new.map(Secret::new));
        auth.set_password(&mine.login, role, old, new, &holding(&mine)).await
    };
    for (role, old, new, why) in [
        (Role::Operator, None, Some("a new password"), "did not match"),
        (Role::Operator, Some("not the old"), Some("a new password"), "did not match"),
        (Role::Operator, Some(PASSWORD), Some("1234567"), "at least 8"),
        (Role::Operator, Some(PASSWORD), Some(VIEWERS), "another role"),
        (Role::Viewer, None, Some(PASSWORD), "another role"),
        (Role::Viewer, Some("not the old"), None, "did not match"),
    ] {
        let refused = set(role, old, new).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}, not {why}");
        for session in [&mine, &other, &viewer] {
            assert!(auth.authenticate(&holding(session)).is_some(), "nothing has changed");
        }
        // How often may be tried is another test's matter.
        *lock(&auth.throttle) = Throttle::default();
    }
    let ended = set(Role::Operator, Some(PASSWORD), Some("a new password")).await.unwrap();
    assert!(ended.contains(&other.login.session_id) && !ended.contains(&mine.login.session_id));
    assert!(auth.authenticate(&holding(&mine)).is_some());
    assert!(auth.authenticate(&holding(&other)).is_none());
    assert!(auth.authenticate(&holding(&viewer)).is_some());
    assert!(open(folder.path()).authenticate(&holding(&mine)).is_some(), "after a restart too");
    let ended = set(Role::Viewer, None, None).await.unwrap();
    assert_eq!(ended, std::slice::from_ref(&viewer.login.session_id));
    assert!(auth.authenticate(&holding(&viewer)).is_none());
    auth.login(Secret::new(VIEWERS), &stranger()).await.unwrap_err();
}

#[tokio::test]
async fn sessions_are_listed_and_revoked_and_that_is_told() {
    let (folder, auth) = with_both_passwords();
    let mine = auth.login(Secret::new(PASSWORD), &stranger()).await.unwrap();
    let viewer = auth.login(Secret::new(VIEWERS), &stranger()).await.unwrap();
    let mut changes = auth.changes();
    let listed = auth.list(&mine.login);
    let told: Vec<(Role, bool)> = listed.iter().map(|s| (s.role, s.current)).collect();
    assert_eq!(told, [(Role::Operator, true), (Role::Viewer, false)]);
    assert!(!changes.has_changed().unwrap());
    let ended = auth.revoke(&listed[1].id).await.unwrap();
    assert_eq!(ended.as_ref(), Some(&viewer.login.session_id));
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert!(!auth.is_live(&viewer.login) && auth.is_live(&mine.login));
    assert_eq!(auth.revoke(&listed[1].id).await.unwrap(), None);
    assert!(open(folder.path()).authenticate(&holding(&viewer)).is_none(), "on disk too");
}

#[tokio::test]
async fn a_password_file_that_holds_no_hash_refuses_the_start_and_names_the_command() {
    for (file, command) in [
        ("operator-password", "tombolo operator set-password"),
        ("viewer-password", "tombolo operator set-password --role viewer"),
    ] {
        let (folder, auth) = with_both_passwords();
        let path = folder.path().join("secrets").join(file);
        store::replace(&path, b"my plain password\n", Durability::Process).unwrap();
        let secrets = Secrets::open(folder.path()).unwrap();
        let error = Auth::open(folder.path(), secrets, Clock::start()).unwrap_err().to_string();
        assert!(error.contains(file) && error.ends_with(command), "{error}");
        assert!(!error.contains("my plain"), "{error}");
        // In a daemon that runs already, nobody gets in by it.
        auth.login(Secret::new("my plain password"), &stranger()).await.unwrap_err();
    }
}
