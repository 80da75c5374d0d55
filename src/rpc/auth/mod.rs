//! Who is at the node page: passwords, sessions, one-time tokens.
//!
//! Owns the way from a password to a session, and `sessions.json`. Knows no HTTP; cookies and headers are
//! read by `rpc::http`. A password or token is never logged and never part of an error.

pub mod password;
pub mod role;
pub mod sessions;
pub mod throttle;
pub mod token;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};

pub use role::Role;
pub use sessions::Login;
pub use token::Token;

use crate::assistant::SessionId;
use crate::clock::Clock;
use crate::secrets::{Secret, SecretError, SecretName, Secrets};
use crate::store::{self, Durability, StoreError};
use sessions::Sessions;
use throttle::{Throttle, Who};

/// A login link works for so long.
const LINK_MS: u64 = 10 * 60_000;
/// Links that wait to be used, at most; past it the oldest is void.
const MAX_LINKS: usize = 8;
/// Logins that wait for the one hash that may run; past it the caller is asked to come back.
const MAX_WAITING: usize = 8;

/// Why the sessions could not be set up at start.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The password's file is not as it should be.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// `sessions.json` could not be read or moved aside.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No randomness.
    #[error("the system's random source failed: {0}")]
    Random(getrandom::Error),
}

/// Why there is no session. Every wrong password, wrong token or missing password is the same `Failed`.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// Not the right password or token.
    #[error("that did not match")]
    Failed,
    /// Too many failures; nothing was checked.
    #[error("too many failed tries; wait {wait_s} s")]
    Throttled {
        /// Whole seconds until the next try is looked at.
        wait_s: u64,
    },
    /// There is a password already.
    #[error("this node is set up already: log in with its password")]
    SetUpAlready,
    /// The new password is too short or too long.
    #[error(transparent)]
    Password(#[from] password::PasswordError),
    /// A failure of ours; the log has it.
    #[error("the login could not be stored")]
    Internal,
}

/// What a browser shows of itself.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where it connects from.
    pub address: IpAddr,
    /// The session tokens in its cookies, live or not.
    pub tokens: Vec<Token>,
}

/// A login with the token that goes into the cookie.
#[derive(Debug, Clone)]
pub struct NewLogin {
    /// For the cookie, and nowhere else.
    pub token: Token,
    /// The session.
    pub login: Login,
}

#[derive(Debug)]
struct Link {
    hash: token::TokenHash,
    until_ms: u64,
}

/// The logins of one node.
#[derive(Debug)]
pub struct Auth {
    clock: Clock,
    secrets: Secrets,
    path: PathBuf,
    sessions: Mutex<Sessions>,
    /// Held while the file is written, so that an older state never overwrites a newer one.
    saving: Mutex<()>,
    throttle: Mutex<Throttle>,
    /// One hash at a time: each takes 19 MiB, and a small board has little.
    hashing: Semaphore,
    waiting: Semaphore,
    setup: Mutex<Option<Secret>>,
    /// Counts up when sessions began or ended. A watch: who is slow sees the newest count only.
    changes: watch::Sender<u64>,
    link_key: Token,
    links: Mutex<(u64, Vec<Link>)>,
}

impl Auth {
    /// Reads `sessions.json`; a broken one is moved aside, and everybody logs in anew. While no password
    /// is stored there is a one-time token for [`Auth::setup`].
    pub fn open(data_dir: &Path, secrets: Secrets, clock: Clock) -> Result<Auth, AuthError> {
        let path = data_dir.join("sessions.json");
        let sessions = match store::read_json(&path) {
            Ok(sessions) => sessions.unwrap_or_default(),
            Err(error) => {
                let aside = store::set_aside(&path)?;
                warn!(%error, aside = %aside.display(), "sessions.json can't be read; everybody must log in again");
                Sessions::default()
            }
        };
        let setup = match secrets.read(SecretName::OperatorPassword)? {
            Some(_) => None,
            None => Some(Secret::new(Token::random().map_err(AuthError::Random)?.text())),
        };
        Ok(Auth {
            clock,
            secrets,
            path,
            sessions: Mutex::new(sessions),
            saving: Mutex::new(()),
            throttle: Mutex::default(),
            hashing: Semaphore::new(1),
            waiting: Semaphore::new(MAX_WAITING),
            setup: Mutex::new(setup),
            changes: watch::Sender::new(0),
            link_key: Token::random().map_err(AuthError::Random)?,
            links: Mutex::default(),
        })
    }

    /// The one-time token for `auth.setup`: for whoever started the daemon and sees its output. `None`
    /// once there is a password.
    pub fn setup_token(&self) -> Option<Secret> {
        lock(&self.setup).clone()
    }

    /// Is there no password yet?
    pub fn needs_setup(&self) -> bool {
        lock(&self.setup).is_some() && matches!(self.password(), Ok(None))
    }

    /// A token that logs one browser in, once, within ten minutes: for a link that is printed where only
    /// the operator sees it.
    pub fn one_time_link_token(&self) -> Secret {
        let mut links = lock(&self.links);
        let (count, waiting) = &mut *links;
        *count += 1;
        // Derived from a random key of this process, so that making one can't fail.
        let mut hash = Sha256::new();
        hash.update(b"tombolo login link 1\0");
        hash.update(self.link_key.csrf());
        hash.update(count.to_be_bytes());
        let text = token::hex(&hash.finalize());
        if waiting.len() >= MAX_LINKS {
            waiting.remove(0);
        }
        waiting.push(Link {
            hash: text_hash(&text),
            until_ms: self.clock.now().mono_ms.saturating_add(LINK_MS),
        });
        Secret::new(text)
    }

    /// Takes a link's token, which is void from now on; `None` when it isn't one any more.
    pub async fn redeem_link(self: &Arc<Self>, token: &str, client: &Client) -> Option<NewLogin> {
        {
            let mut links = lock(&self.links);
            let now_ms = self.clock.now().mono_ms;
            links.1.retain(|link| now_ms < link.until_ms);
            let hash = text_hash(token);
            let index = links.1.iter().position(|link| token::same_text(&link.hash, &hash))?;
            links.1.remove(index);
        }
        info!("logged in by a one-time link from {}", client.address);
        self.begin(client).await.ok()
    }

    /// The session that the browser's cookies name, if it is live. What is written (when it was last
    /// seen) is written later, by [`Auth::save`].
    pub fn authenticate(&self, client: &Client) -> Option<Login> {
        let password = self.password_tag()?;
        let now_ms = self.clock.now().unix_ms;
        let mut sessions = lock(&self.sessions);
        client.tokens.iter().find_map(|token| sessions.find(token, &password, now_ms))
    }

    /// Is it still what [`Auth::authenticate`] found? Looking is no use of the session.
    pub fn is_live(&self, login: &Login) -> bool {
        let now_ms = self.clock.now().unix_ms;
        self.password_tag()
            .is_some_and(|password| lock(&self.sessions).is_live(login, &password, now_ms))
    }

    /// Tells when sessions began or ended. That one grew too old or that a password was set beside the
    /// daemon is not told: who depends on a session looks at it again now and then.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Checks the operator's password and opens a session.
    pub async fn login(
        self: &Arc<Self>,
        password: Secret,
        client: &Client,
    ) -> Result<NewLogin, LoginError> {
        self.attempt(client, move |auth, client| async move {
            let stored = auth.password().map_err(|error| auth.internal(&error))?;
            // Without a stored password there is nothing to match; the answer is the same.
            let right = match stored {
                Some(stored) => blocking(move || password::matches(&password, &stored)).await?,
                None => false,
            };
            if !right {
                return Err(LoginError::Failed);
            }
            let new = auth.begin(&client).await?;
            info!("logged in from {}", client.address);
            Ok(new)
        })
        .await
    }

    /// Stores the first password and opens a session: once, for whoever has the token.
    pub async fn setup(
        self: &Arc<Self>,
        token: Secret,
        password: Secret,
        client: &Client,
    ) -> Result<NewLogin, LoginError> {
        password::check_length(password.expose())?;
        self.attempt(client, move |auth, client| async move {
            let wanted = auth.setup_token().ok_or(LoginError::SetUpAlready)?;
            if auth.password().map_err(|error| auth.internal(&error))?.is_some() {
                return Err(LoginError::SetUpAlready);
            }
            if !token::same_text(wanted.expose(), token.expose()) {
                return Err(LoginError::Failed);
            }
            // Only one attempt runs at a time, so nobody else is between check and write.
            let secrets = auth.secrets.clone();
            blocking(move || {
                let hash = password::hash(&password)?;
                secrets.write(SecretName::OperatorPassword, &hash).map_err(|error| {
                    warn!(error = %chain(&error), "the password could not be stored");
                    LoginError::Internal
                })
            })
            .await??;
            *lock(&auth.setup) = None;
            info!("the operator's password was set from {}", client.address);
            auth.begin(&client).await
        })
        .await
    }

    /// Ends the session. An error means that it is over now, but may live again after a restart.
    pub async fn logout(self: &Arc<Self>, login: &Login) -> Result<(), LoginError> {
        let now_ms = self.clock.now().unix_ms;
        lock(&self.sessions).end(login, now_ms);
        self.tell();
        self.save(Durability::Disk).await
    }

    /// Writes what changed since the last time; nothing when nothing did.
    pub async fn save(self: &Arc<Self>, durability: Durability) -> Result<(), LoginError> {
        if !lock(&self.sessions).changed {
            return Ok(());
        }
        let auth = Arc::clone(self);
        blocking(move || {
            let _one_at_a_time = lock(&auth.saving);
            let copy = {
                let mut sessions = lock(&auth.sessions);
                sessions.changed = false;
                sessions.clone()
            };
            store::replace_json(&auth.path, &copy, durability).map_err(|error| {
                lock(&auth.sessions).changed = true;
                auth.internal(&error)
            })
        })
        .await?
    }

    /// One try at a secret: throttled, one at a time, and finished even when the caller goes away, so
    /// that hanging up neither frees the hash's memory early nor hides a failure.
    async fn attempt<F, R>(
        self: &Arc<Self>,
        client: &Client,
        check: F,
    ) -> Result<NewLogin, LoginError>
    where
        F: FnOnce(Arc<Auth>, Client) -> R + Send + 'static,
        R: Future<Output = Result<NewLogin, LoginError>> + Send + 'static,
    {
        let (auth, client) = (Arc::clone(self), client.clone());
        let task = tokio::spawn(async move {
            let busy = LoginError::Throttled { wait_s: 1 };
            let Ok(_place) = auth.waiting.try_acquire() else { return Err(busy) };
            let Ok(_turn) = auth.hashing.acquire().await else { return Err(busy) };
            let who = auth.who(&client);
            let wait_ms = lock(&auth.throttle).wait_ms(&who, auth.clock.now().mono_ms);
            if wait_ms > 0 {
                return Err(LoginError::Throttled { wait_s: wait_ms.div_ceil(1000) });
            }
            let result = check(Arc::clone(&auth), client.clone()).await;
            match &result {
                Ok(_) => lock(&auth.throttle).succeeded(&who),
                Err(LoginError::Failed) => {
                    // One line of a fixed form, for fail2ban; nothing of what was tried is in it.
                    warn!("login failed from {}", client.address);
                    lock(&auth.throttle).failed(&who, auth.clock.now().mono_ms);
                }
                Err(_) => {}
            }
            result
        });
        task.await.unwrap_or(Err(LoginError::Internal))
    }

    fn who(&self, client: &Client) -> Who {
        let sessions = lock(&self.sessions);
        let known = client.tokens.iter().find_map(|token| sessions.known(token));
        known.map_or_else(|| Who::stranger(client.address), |(id, _)| Who::Known(id.clone()))
    }

    /// Opens a session for someone who has shown what it takes.
    async fn begin(self: &Arc<Self>, client: &Client) -> Result<NewLogin, LoginError> {
        let token = Token::random().map_err(|error| self.internal(&error))?;
        let fresh = Token::random().map_err(|error| self.internal(&error))?;
        let password = self.password_tag().ok_or(LoginError::Internal)?;
        let now_ms = self.clock.now().unix_ms;
        let login = lock(&self.sessions).open(
            &token,
            SessionId(fresh.text()),
            Role::Operator,
            &password,
            &client.tokens,
            now_ms,
        );
        self.tell();
        // A full disk must not keep the operator out: the session then lives until the next restart.
        let _ = self.save(Durability::Disk).await;
        Ok(NewLogin { token, login })
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn password(&self) -> Result<Option<Secret>, SecretError> {
        self.secrets.read(SecretName::OperatorPassword)
    }

    /// Names the password in force without saying anything about it. Read at each use, so that
    /// `tombolo operator set-password` ends the sessions of a running daemon. `None`: it can't be read,
    /// and then nobody is logged in.
    fn password_tag(&self) -> Option<String> {
        match self.password() {
            Ok(hash) => Some(hash.map_or_else(String::new, |hash| text_hash(hash.expose()))),
            Err(error) => {
                warn!(error = %chain(&error), "the operator's password can't be read");
                None
            }
        }
    }

    fn internal(&self, error: &dyn std::error::Error) -> LoginError {
        warn!(error = %chain(error), "a login could not be stored");
        LoginError::Internal
    }
}

fn text_hash(text: &str) -> String {
    token::hex(&Sha256::digest(text.as_bytes()))
}

/// The error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

// A panic elsewhere must not lock everybody out; every change under these locks is complete in itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LoginError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| LoginError::Internal)
}

#[cfg(test)]
mod tests;
