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

/// Of the file's form.
pub const VERSION: u64 = 1;
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
mod tests;
