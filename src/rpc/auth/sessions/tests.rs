//! Sessions with a time of the tests' own: limits, roles, the list, what is written.

use super::*;

const NOW: u64 = 1_000_000_000_000;

fn id(text: &str) -> SessionId {
    SessionId(text.to_owned())
}

fn tags(operator: &str) -> Tags {
    Tags { operator: operator.to_owned(), viewer: Some("v".to_owned()) }
}

fn opened_as(
    sessions: &mut Sessions,
    token: &Token,
    role: Role,
    held: &[Token],
    name: &str,
    now: u64,
) -> Login {
    let address = IpAddr::from([192, 0, 2, 1]);
    let opening = Opening { token, fresh: id(name), role, held, address };
    sessions.open(opening, &tags("p"), now).unwrap()
}

fn opened(sessions: &mut Sessions, held: &[Token], name: &str, now: u64) -> (Token, Login) {
    let token = Token::random().unwrap();
    (token.clone(), opened_as(sessions, &token, Role::Operator, held, name, now))
}

#[test]
fn a_session_has_an_idle_and_an_absolute_limit() {
    for (seen_every, last_good, first_bad) in [
        (u64::MAX, NOW + IDLE_MS - 1, NOW + IDLE_MS),
        (DAY_MS, NOW + ABSOLUTE_MS - 1, NOW + ABSOLUTE_MS),
    ] {
        for (at, found) in [(last_good, true), (first_bad, false)] {
            let mut sessions = Sessions::default();
            let (token, _) = opened(&mut sessions, &[], "a", NOW);
            let mut seen = NOW.saturating_add(seen_every);
            while seen < at {
                assert!(sessions.find(&token, &tags("p"), seen).is_some());
                seen = seen.saturating_add(seen_every);
            }
            assert_eq!(sessions.find(&token, &tags("p"), at).is_some(), found, "{seen_every} {at}");
            // Over once is over, even for a clock that goes back.
            assert_eq!(sessions.find(&token, &tags("p"), NOW).is_some(), found);
        }
    }
}

#[test]
fn a_clock_that_goes_back_ends_nothing() {
    let mut sessions = Sessions::default();
    let (token, _) = opened(&mut sessions, &[], "a", NOW);
    assert!(sessions.find(&token, &tags("p"), 0).is_some());
}

#[test]
fn a_login_from_the_browser_of_an_ended_session_goes_on_under_a_new_token() {
    let mut sessions = Sessions::default();
    let (first, login) = opened(&mut sessions, &[], "a", NOW);
    sessions.end(&login, NOW + 1);
    assert!(sessions.find(&first, &tags("p"), NOW + 2).is_none());
    let (second, again) = opened(&mut sessions, std::slice::from_ref(&first), "b", NOW + 3);
    assert_eq!(again.session_id, id("a"));
    assert_ne!(again.csrf, login.csrf);
    assert!(sessions.find(&first, &tags("p"), NOW + 4).is_none());
    assert_eq!(sessions.find(&second, &tags("p"), NOW + 4), Some(again));
    // A browser without that cookie starts afresh and finds nothing of it.
    let (_, other) = opened(&mut sessions, &[Token::random().unwrap()], "c", NOW + 5);
    assert_eq!(other.session_id, id("c"));
}

#[test]
fn a_login_over_a_live_session_renews_its_token() {
    let mut sessions = Sessions::default();
    let (first, _) = opened(&mut sessions, &[], "a", NOW);
    let (second, login) = opened(&mut sessions, std::slice::from_ref(&first), "b", NOW);
    assert_eq!(login.session_id, id("a"));
    assert!(sessions.find(&first, &tags("p"), NOW).is_none());
    assert!(sessions.find(&second, &tags("p"), NOW).is_some());
}

#[test]
fn an_ended_session_is_remembered_for_a_while_only() {
    for (later, name) in [(REMEMBER_MS - 1, "a"), (REMEMBER_MS, "b")] {
        let mut sessions = Sessions::default();
        let (token, login) = opened(&mut sessions, &[], "a", NOW);
        sessions.end(&login, NOW);
        let (_, again) = opened(&mut sessions, &[token], "b", NOW + later);
        assert_eq!(again.session_id, id(name));
    }
}

#[test]
fn another_password_ends_every_session() {
    let mut sessions = Sessions::default();
    let (token, _) = opened(&mut sessions, &[], "a", NOW);
    assert!(sessions.find(&token, &tags("q"), NOW).is_none());
    assert!(sessions.find(&token, &tags("p"), NOW).is_none());
}

#[test]
fn the_file_is_bounded_and_holds_no_token() {
    let mut sessions = Sessions::default();
    let tokens: Vec<Token> =
        (0..200).map(|n| opened(&mut sessions, &[], &format!("s{n}"), NOW + n).0).collect();
    assert_eq!((sessions.live.len(), sessions.ended.len()), (MAX_SESSIONS, MAX_ENDED));
    assert!(sessions.find(&tokens[199], &tags("p"), NOW + 200).is_some());
    assert!(sessions.find(&tokens[0], &tags("p"), NOW + 200).is_none());
    let text = serde_json::to_string(&sessions).unwrap();
    for token in &tokens {
        assert!(!text.contains(&token.text()) && !text.contains(&token.csrf()));
    }
    let read: Sessions = serde_json::from_str(&text).unwrap();
    assert_eq!(read.live, sessions.live);
}

#[test]
fn last_seen_is_written_once_a_minute() {
    let mut sessions = Sessions::default();
    let (token, _) = opened(&mut sessions, &[], "a", NOW);
    for (later, written) in [(STEP_MS - 1, false), (STEP_MS, true), (STEP_MS + 1, false)] {
        sessions.changed = false;
        sessions.find(&token, &tags("p"), NOW + later);
        assert_eq!(sessions.changed, written, "{later}");
    }
}

#[test]
fn each_role_has_places_of_its_own() {
    let mut sessions = Sessions::default();
    let (operator, _) = opened(&mut sessions, &[], "o", NOW);
    let mut viewers = Vec::new();
    for n in 0..=MAX_SESSIONS as u64 {
        let token = Token::random().unwrap();
        opened_as(&mut sessions, &token, Role::Viewer, &[], &format!("v{n}"), NOW + 1 + n);
        viewers.push(token);
    }
    assert!(sessions.find(&operator, &tags("p"), NOW + 100).is_some());
    assert!(sessions.find(&viewers[0], &tags("p"), NOW + 100).is_none(), "one too many");
    assert!(sessions.find(&viewers[1], &tags("p"), NOW + 100).is_some());
    // Taking the viewers' password away ends them all, and nobody else.
    let none = Tags { viewer: None, ..tags("p") };
    assert!(sessions.find(&viewers[1], &none, NOW + 100).is_none());
    assert!(sessions.find(&operator, &none, NOW + 100).is_some());
    let token = Token::random().unwrap();
    let address = IpAddr::from([192, 0, 2, 1]);
    let opening = Opening { token: &token, fresh: id("w"), role: Role::Viewer, held: &[], address };
    assert!(sessions.open(opening, &none, NOW + 100).is_none());
}

#[test]
fn a_login_in_another_role_ends_what_the_browser_held() {
    let mut sessions = Sessions::default();
    let (operator, login) = opened(&mut sessions, &[], "o", NOW);
    let token = Token::random().unwrap();
    let held = [operator.clone()];
    let viewer = opened_as(&mut sessions, &token, Role::Viewer, &held, "v", NOW);
    assert_eq!((viewer.role, viewer.session_id), (Role::Viewer, id("v")));
    assert!(!sessions.is_live(&login, &tags("p"), NOW));
    assert!(sessions.find(&token, &tags("p"), NOW).is_some());
}

#[test]
fn sessions_are_listed_and_each_can_be_ended() {
    let mut sessions = Sessions::default();
    let (_, mine) = opened(&mut sessions, &[], "a", NOW);
    let (other, _) = opened(&mut sessions, &[], "b", NOW + 5);
    let views = sessions.views(&mine, &tags("p"), NOW + 5);
    assert_eq!(
        views.iter().map(|v| (v.since, v.current)).collect::<Vec<_>>(),
        [(NOW, true), (NOW + 5, false)]
    );
    assert_eq!(views[0].address, Some(IpAddr::from([192, 0, 2, 1])));
    assert!(views.iter().all(|v| v.id.len() == 16 && v.id != "a" && v.id != "b"));
    assert_eq!(sessions.revoke("", NOW + 6), None);
    assert_eq!(sessions.revoke(&views[1].id, NOW + 6), Some(id("b")));
    assert_eq!(sessions.revoke(&views[1].id, NOW + 6), None);
    assert!(sessions.find(&other, &tags("p"), NOW + 6).is_none());
    assert_eq!(sessions.views(&mine, &tags("p"), NOW + IDLE_MS), [], "over, not yet swept");
}

#[test]
fn a_new_password_ends_the_others_of_its_role() {
    let mut sessions = Sessions::default();
    let (mine, asking) = opened(&mut sessions, &[], "a", NOW);
    opened(&mut sessions, &[], "b", NOW);
    let token = Token::random().unwrap();
    opened_as(&mut sessions, &token, Role::Viewer, &[], "v", NOW);
    assert_eq!(sessions.password_set(&asking, &tags("q"), NOW), [id("b")]);
    assert!(sessions.find(&mine, &tags("q"), NOW).is_some());
    assert!(sessions.find(&token, &tags("q"), NOW).is_some());
    let other = Tags { viewer: Some("w".to_owned()), ..tags("q") };
    assert_eq!(sessions.password_set(&asking, &other, NOW), [id("v")]);
    assert!(sessions.find(&mine, &other, NOW).is_some());
}

#[test]
fn a_file_from_before_addresses_were_kept_is_read() {
    let mut sessions = Sessions::default();
    let (token, _) = opened(&mut sessions, &[], "a", NOW);
    let mut file = serde_json::to_value(&sessions).unwrap();
    file["live"][0].as_object_mut().unwrap().remove("address").unwrap();
    let mut read: Sessions = serde_json::from_value(file).unwrap();
    assert!(read.find(&token, &tags("p"), NOW).is_some());
}
