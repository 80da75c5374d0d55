//! The sessions: who is logged in, and whose transcript a new login goes on with.
//!
//! Owns `sessions.json` in form and rule; the time is an argument. Tokens are kept only as hashes. Does
//! no I/O and no password check.
//!
//! A session id names a login and with it a transcript; tokens come and go under it. When a session has
//! ended, the hash of its last token stays for a while, so that the same browser's next login goes on
//! under the same id, with a new token.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::passwords::Tags;
use super::role::Role;
use super::token::{self, Token, TokenHash};
use crate::assistant::SessionId;

/// A session that nobody used for so long is over.
pub const IDLE_MS: u64 = 3 * DAY_MS;
/// A session is over after so long, however busy.
pub const ABSOLUTE_MS: u64 = 30 * DAY_MS;
/// So long an ended session's browser finds its transcript again.
pub const REMEMBER_MS: u64 = 60 * DAY_MS;
/// Sessions of a role at most; past it the one unused for longest ends.
pub const MAX_SESSIONS: usize = 32;
/// Ended sessions of a role at most; past it the one that ended first is forgotten.
pub const MAX_ENDED: usize = 64;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// `last_seen` is moved on in steps of this, so that not every request writes a file.
const STEP_MS: u64 = 60_000;

/// One live session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    token: TokenHash,
    session_id: SessionId,
    role: Role,
    /// Unix milliseconds.
    created: u64,
    /// Unix milliseconds, at most a minute old.
    last_seen: u64,
    /// Which password it was opened with: a hash of the hash. Another password ends it.
    password: String,
    /// Where it was opened from.
    #[serde(default)]
    address: Option<IpAddr>,
}

impl Session {
    // A clock that went back makes a session younger, never older than it is.
    fn is_over(&self, tags: &Tags, now_ms: u64) -> bool {
        tags.of(self.role) != Some(&self.password)
            || now_ms.saturating_sub(self.last_seen) >= IDLE_MS
            || now_ms.saturating_sub(self.created) >= ABSOLUTE_MS
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ended {
    token: TokenHash,
    session_id: SessionId,
    role: Role,
    ended: u64,
}

/// A session as `auth.sessions` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// For `auth.revoke`; says nothing about the session's id or token.
    pub id: String,
    /// What it may do.
    pub role: Role,
    /// Unix milliseconds.
    pub since: u64,
    /// Unix milliseconds, at most a minute old.
    pub last_seen: u64,
    /// Where it was opened from, where that is known.
    pub address: Option<IpAddr>,
    /// Is it the one that asks?
    pub current: bool,
}

/// What a new session is opened with.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Its token, which must be new.
    pub token: &'a Token,
    /// Its id, unless it goes on with an earlier one.
    pub fresh: SessionId,
    /// Its role.
    pub role: Role,
    /// The tokens that the browser holds.
    pub held: &'a [Token],
    /// Where the browser is.
    pub address: IpAddr,
}

/// A session as the dispatcher sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The login: whose transcript.
    pub session_id: SessionId,
    /// What it may do.
    pub role: Role,
    /// What `X-CSRF-Token` must be.
    pub csrf: String,
    pub(super) token: TokenHash,
}

/// A name for lists: no one can be had from the other.
fn shown_id(token: &TokenHash) -> String {
    let digest = token::hex(&Sha256::digest(format!("tombolo session 1 {token}").as_bytes()));
    digest.chars().take(16).collect()
}

#[cfg(test)]
impl Login {
    /// One that no file knows.
    pub fn of_test(session_id: &str, role: Role) -> Login {
        let session_id = SessionId(session_id.to_owned());
        Login { session_id, role, csrf: String::new(), token: String::new() }
    }
}

/// All sessions: the content of `sessions.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sessions {
    live: Vec<Session>,
    ended: Vec<Ended>,
    /// Is there something that the file doesn't know yet?
    #[serde(skip)]
    pub(super) changed: bool,
}

impl Sessions {
    /// The live session of a token, which is now seen.
    pub fn find(&mut self, token: &Token, tags: &Tags, now_ms: u64) -> Option<Login> {
        let hash = token.hash();
        let index = self.live.iter().position(|session| session.token == hash)?;
        let session = self.live.get_mut(index)?;
        if session.is_over(tags, now_ms) {
            self.end_at(index, now_ms);
            return None;
        }
        if now_ms.abs_diff(session.last_seen) >= STEP_MS {
            session.last_seen = now_ms;
            self.changed = true;
        }
        Some(Login {
            session_id: session.session_id.clone(),
            role: session.role,
            csrf: token.csrf(),
            token: hash,
        })
    }

    /// Is that session live? Nothing of it is changed by looking.
    pub fn is_live(&self, login: &Login, tags: &Tags, now_ms: u64) -> bool {
        let session = self.live.iter().find(|session| session.token == login.token);
        session.is_some_and(|session| !session.is_over(tags, now_ms))
    }

    /// The id that a token had or has, live or ended: it says which browser this is, and permits nothing.
    pub fn known(&self, token: &Token) -> Option<(&SessionId, Role)> {
        let hash = token.hash();
        let live = self.live.iter().find(|s| s.token == hash).map(|s| (&s.session_id, s.role));
        live.or_else(|| {
            self.ended.iter().find(|s| s.token == hash).map(|s| (&s.session_id, s.role))
        })
    }

    /// Opens a session; `None` for a role that has no password. It goes on with the session of the first
    /// of the held tokens that is known in this role. What the browser held ends with it.
    pub fn open(&mut self, opening: Opening<'_>, tags: &Tags, now_ms: u64) -> Option<Login> {
        let Opening { token, fresh, role, held, address } = opening;
        let password = tags.of(role)?.to_owned();
        self.sweep(tags, now_ms);
        let earlier = held
            .iter()
            .filter_map(|token| self.known(token))
            .find(|(_, had)| *had == role)
            .map(|(id, _)| id.clone());
        let session_id = earlier.unwrap_or(fresh);
        // One browser, one live token: what it held before is worth nothing from now on. Other
        // browsers never share a session id, so this ends nobody else's.
        let hashes: Vec<TokenHash> = held.iter().map(Token::hash).collect();
        while let Some(index) =
            self.live.iter().position(|s| s.session_id == session_id || hashes.contains(&s.token))
        {
            self.end_at(index, now_ms);
        }
        // Each role has places of its own: no crowd of viewers ends an operator's session.
        let same = |(_, session): &(usize, &Session)| session.role == role;
        if self.live.iter().enumerate().filter(same).count() >= MAX_SESSIONS
            && let Some((index, _)) =
                self.live.iter().enumerate().filter(same).min_by_key(|(_, s)| s.last_seen)
        {
            self.end_at(index, now_ms);
        }
        self.live.push(Session {
            token: token.hash(),
            session_id: session_id.clone(),
            role,
            created: now_ms,
            last_seen: now_ms,
            password,
            address: Some(address).filter(|address| !address.is_unspecified()),
        });
        self.changed = true;
        Some(Login { session_id, role, csrf: token.csrf(), token: token.hash() })
    }

    /// The live sessions, in the order of their logins; `login` is the one that asks.
    pub fn views(&self, login: &Login, tags: &Tags, now_ms: u64) -> Vec<SessionView> {
        let live = self.live.iter().filter(|session| !session.is_over(tags, now_ms));
        let mut views: Vec<SessionView> = live
            .map(|session| SessionView {
                id: shown_id(&session.token),
                role: session.role,
                since: session.created,
                last_seen: session.last_seen,
                address: session.address,
                current: session.token == login.token,
            })
            .collect();
        views.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        views
    }

    /// Ends the session that [`Sessions::views`] calls so.
    pub fn revoke(&mut self, id: &str, now_ms: u64) -> Option<SessionId> {
        let index = self.live.iter().position(|session| shown_id(&session.token) == id)?;
        let ended = self.live.get(index)?.session_id.clone();
        self.end_at(index, now_ms);
        Some(ended)
    }

    /// A password was set: the session that did it goes on under the new one, others of that role end.
    /// Gives the ids of those that ended.
    pub fn password_set(&mut self, asking: &Login, tags: &Tags, now_ms: u64) -> Vec<SessionId> {
        for session in self.live.iter_mut().filter(|session| session.token == asking.token) {
            if let Some(tag) = tags.of(session.role) {
                session.password = tag.to_owned();
                self.changed = true;
            }
        }
        self.sweep(tags, now_ms)
    }

    /// Ends a session; that it is already over is fine.
    pub fn end(&mut self, login: &Login, now_ms: u64) {
        if let Some(index) = self.live.iter().position(|s| s.token == login.token) {
            self.end_at(index, now_ms);
        }
    }

    /// Ends what is over, gives its ids, and forgets what ended long ago.
    fn sweep(&mut self, tags: &Tags, now_ms: u64) -> Vec<SessionId> {
        let mut over = Vec::new();
        while let Some(index) = self.live.iter().position(|s| s.is_over(tags, now_ms)) {
            over.extend(self.live.get(index).map(|session| session.session_id.clone()));
            self.end_at(index, now_ms);
        }
        self.ended.retain(|s| now_ms.saturating_sub(s.ended) < REMEMBER_MS);
        over
    }

    fn end_at(&mut self, index: usize, now_ms: u64) {
        let Session { token, session_id, role, .. } = self.live.swap_remove(index);
        // The newest token of a login is enough to find its transcript.
        self.ended.retain(|ended| ended.session_id != session_id);
        let same = |ended: &Ended| ended.role == role;
        if self.ended.iter().filter(|ended| same(ended)).count() >= MAX_ENDED
            && let Some(oldest) = self.ended.iter().position(same)
        {
            self.ended.remove(oldest);
        }
        self.ended.push(Ended { token, session_id, role, ended: now_ms });
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
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
                assert_eq!(
                    sessions.find(&token, &tags("p"), at).is_some(),
                    found,
                    "{seen_every} {at}"
                );
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
        let opening =
            Opening { token: &token, fresh: id("w"), role: Role::Viewer, held: &[], address };
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
}
