//! The sessions: who is logged in, and whose transcript a new login goes on with.
//!
//! Owns `sessions.json` in form and rule; the time is an argument. Tokens are kept only as hashes. Does
//! no I/O and no password check.
//!
//! A session id names a login and with it a transcript; tokens come and go under it. When a session has
//! ended, the hash of its last token stays for a while, so that the same browser's next login goes on
//! under the same id, with a new token.

use serde::{Deserialize, Serialize};

use super::role::Role;
use super::token::{Token, TokenHash};
use crate::assistant::SessionId;

/// A session that nobody used for so long is over.
pub const IDLE_MS: u64 = 3 * DAY_MS;
/// A session is over after so long, however busy.
pub const ABSOLUTE_MS: u64 = 30 * DAY_MS;
/// So long an ended session's browser finds its transcript again.
pub const REMEMBER_MS: u64 = 60 * DAY_MS;
/// Sessions at most; past it the one unused for longest ends.
pub const MAX_SESSIONS: usize = 32;
/// Ended sessions at most; past it the one that ended first is forgotten.
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
}

impl Session {
    // A clock that went back makes a session younger, never older than it is.
    fn is_over(&self, password: &str, now_ms: u64) -> bool {
        self.password != password
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
    pub fn find(&mut self, token: &Token, password: &str, now_ms: u64) -> Option<Login> {
        let hash = token.hash();
        let index = self.live.iter().position(|session| session.token == hash)?;
        let session = self.live.get_mut(index)?;
        if session.is_over(password, now_ms) {
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
    pub fn is_live(&self, login: &Login, password: &str, now_ms: u64) -> bool {
        let session = self.live.iter().find(|session| session.token == login.token);
        session.is_some_and(|session| !session.is_over(password, now_ms))
    }

    /// The id that a token had or has, live or ended: it says which browser this is, and permits nothing.
    pub fn known(&self, token: &Token) -> Option<(&SessionId, Role)> {
        let hash = token.hash();
        let live = self.live.iter().find(|s| s.token == hash).map(|s| (&s.session_id, s.role));
        live.or_else(|| {
            self.ended.iter().find(|s| s.token == hash).map(|s| (&s.session_id, s.role))
        })
    }

    /// Opens a session under `token`, which must be new. It goes on with the session of the first of the
    /// `held` tokens that is known in this role; a live one ends with it.
    pub fn open(
        &mut self,
        token: &Token,
        fresh: SessionId,
        role: Role,
        password: &str,
        held: &[Token],
        now_ms: u64,
    ) -> Login {
        self.sweep(password, now_ms);
        let earlier = held
            .iter()
            .filter_map(|token| self.known(token))
            .find(|(_, had)| *had == role)
            .map(|(id, _)| id.clone());
        let session_id = earlier.unwrap_or(fresh);
        // One browser, one live token: what it held before is worth nothing from now on. Other
        // browsers never share a session id, so this ends nobody else's.
        while let Some(index) = self.live.iter().position(|s| s.session_id == session_id) {
            self.end_at(index, now_ms);
        }
        if self.live.len() >= MAX_SESSIONS
            && let Some((index, _)) = self.live.iter().enumerate().min_by_key(|(_, s)| s.last_seen)
        {
            self.end_at(index, now_ms);
        }
        self.live.push(Session {
            token: token.hash(),
            session_id: session_id.clone(),
            role,
            created: now_ms,
            last_seen: now_ms,
            password: password.to_owned(),
        });
        self.changed = true;
        Login { session_id, role, csrf: token.csrf(), token: token.hash() }
    }

    /// Ends a session; that it is already over is fine.
    pub fn end(&mut self, login: &Login, now_ms: u64) {
        if let Some(index) = self.live.iter().position(|s| s.token == login.token) {
            self.end_at(index, now_ms);
        }
    }

    /// Ends what is over and forgets what ended long ago.
    fn sweep(&mut self, password: &str, now_ms: u64) {
        while let Some(index) = self.live.iter().position(|s| s.is_over(password, now_ms)) {
            self.end_at(index, now_ms);
        }
        self.ended.retain(|s| now_ms.saturating_sub(s.ended) < REMEMBER_MS);
    }

    fn end_at(&mut self, index: usize, now_ms: u64) {
        let Session { token, session_id, role, .. } = self.live.swap_remove(index);
        // The newest token of a login is enough to find its transcript.
        self.ended.retain(|ended| ended.session_id != session_id);
        if self.ended.len() >= MAX_ENDED {
            self.ended.remove(0);
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

    fn opened(sessions: &mut Sessions, held: &[Token], name: &str, now: u64) -> (Token, Login) {
        let token = Token::random().unwrap();
        let login = sessions.open(&token, id(name), Role::Operator, "p", held, now);
        (token, login)
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
                    assert!(sessions.find(&token, "p", seen).is_some());
                    seen = seen.saturating_add(seen_every);
                }
                assert_eq!(sessions.find(&token, "p", at).is_some(), found, "{seen_every} {at}");
                // Over once is over, even for a clock that goes back.
                assert_eq!(sessions.find(&token, "p", NOW).is_some(), found);
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_ends_nothing() {
        let mut sessions = Sessions::default();
        let (token, _) = opened(&mut sessions, &[], "a", NOW);
        assert!(sessions.find(&token, "p", 0).is_some());
    }

    #[test]
    fn a_login_from_the_browser_of_an_ended_session_goes_on_under_a_new_token() {
        let mut sessions = Sessions::default();
        let (first, login) = opened(&mut sessions, &[], "a", NOW);
        sessions.end(&login, NOW + 1);
        assert!(sessions.find(&first, "p", NOW + 2).is_none());
        let (second, again) = opened(&mut sessions, std::slice::from_ref(&first), "b", NOW + 3);
        assert_eq!(again.session_id, id("a"));
        assert_ne!(again.csrf, login.csrf);
        assert!(sessions.find(&first, "p", NOW + 4).is_none());
        assert_eq!(sessions.find(&second, "p", NOW + 4), Some(again));
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
        assert!(sessions.find(&first, "p", NOW).is_none());
        assert!(sessions.find(&second, "p", NOW).is_some());
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
        assert!(sessions.find(&token, "q", NOW).is_none());
        assert!(sessions.find(&token, "p", NOW).is_none());
    }

    #[test]
    fn the_file_is_bounded_and_holds_no_token() {
        let mut sessions = Sessions::default();
        let tokens: Vec<Token> =
            (0..200).map(|n| opened(&mut sessions, &[], &format!("s{n}"), NOW + n).0).collect();
        assert_eq!((sessions.live.len(), sessions.ended.len()), (MAX_SESSIONS, MAX_ENDED));
        assert!(sessions.find(&tokens[199], "p", NOW + 200).is_some());
        assert!(sessions.find(&tokens[0], "p", NOW + 200).is_none());
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
            sessions.find(&token, "p", NOW + later);
            assert_eq!(sessions.changed, written, "{later}");
        }
    }
}
