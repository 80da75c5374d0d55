//! Who is at the node page: passwords, sessions, one-time tokens.
//!
//! Owns the way from a password to a session, and `sessions.json`. Knows no HTTP; cookies and headers are
//! read by `rpc::http`. A password or token is never logged and never part of an error.

pub mod error;
pub mod links;
pub mod password;
pub mod passwords;
pub mod role;
pub mod sessions;
pub mod throttle;
pub mod token;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};

pub use error::{AuthError, LoginError};
pub use role::Role;
pub use sessions::{Login, SessionView};
pub use token::Token;

use crate::assistant::SessionId;
use crate::clock::Clock;
use crate::secrets::{Secret, Secrets};
use crate::store::{self, Durability, document};
use links::Links;
use passwords::{Passwords, Tags};
use sessions::{Opening, Sessions};
use throttle::{Throttle, Who};

/// Logins that wait for the one hash that may run; past it the caller is asked to come back.
const MAX_WAITING: usize = 8;

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

/// The logins of one node.
#[derive(Debug)]
pub struct Auth {
    clock: Clock,
    passwords: Passwords,
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
    links: Mutex<Links>,
}

impl Auth {
    /// Reads `sessions.json`; a broken one is moved aside, and everybody logs in anew. While the operator
    /// has no password there is a one-time token for [`Auth::setup`]. A password's file that holds no
    /// hash is an error: nobody could log in, and only the log would say why.
    pub fn open(data_dir: &Path, secrets: Secrets, clock: Clock) -> Result<Auth, AuthError> {
        let path = data_dir.join("sessions.json");
        let (sessions, aside) = document::read_or_set_aside(&path, sessions::VERSION)?;
        if let Some(aside) = aside {
            warn!(
                why = aside.why, aside = %aside.path.display(),
                "sessions.json makes no sense and is set aside; everybody must log in again"
            );
        }
        let sessions: Sessions = sessions.unwrap_or_default();
        let passwords = Passwords::new(secrets);
        passwords.stored(Role::Viewer)?;
        let setup = match passwords.stored(Role::Operator)? {
            Some(_) => None,
            None => Some(Secret::new(Token::random().map_err(AuthError::Random)?.text())),
        };
        Ok(Auth {
            clock,
            passwords,
            path,
            sessions: Mutex::new(sessions),
            saving: Mutex::new(()),
            throttle: Mutex::default(),
            hashing: Semaphore::new(1),
            waiting: Semaphore::new(MAX_WAITING),
            setup: Mutex::new(setup),
            changes: watch::Sender::new(0),
            links: Mutex::new(Links::new(Token::random().map_err(AuthError::Random)?)),
        })
    }

    /// The one-time token for `auth.setup`: for whoever started the daemon and sees its output. `None`
    /// once there is a password.
    pub fn setup_token(&self) -> Option<Secret> {
        lock(&self.setup).clone()
    }

    /// Is there no password yet?
    pub fn needs_setup(&self) -> bool {
        lock(&self.setup).is_some() && matches!(self.passwords.stored(Role::Operator), Ok(None))
    }

    /// A token that logs one browser in, once, within ten minutes: for a link that is printed where only
    /// the operator sees it.
    pub fn one_time_link_token(&self) -> Secret {
        lock(&self.links).make(self.clock.now().mono_ms)
    }

    /// Takes a link's token, which is void from now on; `None` when it isn't one any more.
    pub async fn redeem_link(self: &Arc<Self>, token: &str, client: &Client) -> Option<NewLogin> {
        if !lock(&self.links).take(token, self.clock.now().mono_ms) {
            return None;
        }
        info!("logged in by a one-time link from {}", client.address);
        self.begin(Role::Operator, client).await.ok()
    }

    /// The session that the browser's cookies name, if it is live. What is written (when it was last
    /// seen) is written later, by [`Auth::save`].
    pub fn authenticate(&self, client: &Client) -> Option<Login> {
        let tags = self.tags()?;
        let now_ms = self.clock.now().unix_ms;
        let mut sessions = lock(&self.sessions);
        client.tokens.iter().find_map(|token| sessions.find(token, &tags, now_ms))
    }

    /// Is it still what [`Auth::authenticate`] found? Looking is no use of the session.
    pub fn is_live(&self, login: &Login) -> bool {
        let now_ms = self.clock.now().unix_ms;
        self.tags().is_some_and(|tags| lock(&self.sessions).is_live(login, &tags, now_ms))
    }

    /// Tells when sessions began or ended. That one grew too old or that a password was set beside the
    /// daemon is not told: who depends on a session looks at it again now and then.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The live sessions, the newest last.
    pub fn list(&self, login: &Login) -> Vec<SessionView> {
        let now_ms = self.clock.now().unix_ms;
        let Some(tags) = self.tags() else { return Vec::new() };
        lock(&self.sessions).views(login, &tags, now_ms)
    }

    /// Ends the session that [`Auth::list`] calls so, and gives its id; `None` when there is none.
    pub async fn revoke(self: &Arc<Self>, id: &str) -> Result<Option<SessionId>, LoginError> {
        let now_ms = self.clock.now().unix_ms;
        let Some(ended) = lock(&self.sessions).revoke(id, now_ms) else { return Ok(None) };
        info!("a session was revoked");
        self.tell();
        self.save(Durability::Disk).await?;
        Ok(Some(ended))
    }

    /// Checks a password and opens a session in the role whose it is.
    pub async fn login(
        self: &Arc<Self>,
        password: Secret,
        client: &Client,
    ) -> Result<NewLogin, LoginError> {
        let new = self
            .attempt(client, move |auth, client| async move {
                let passwords = auth.passwords.clone();
                // Without a stored password there is nothing to match; the answer is the same.
                let role = blocking(move || passwords.role_of(&password)).await?;
                let role = role.map_err(|error| internal(&error))?.ok_or(LoginError::Failed)?;
                let new = auth.begin(role, &client).await?;
                info!("logged in as {} from {}", role.as_str(), client.address);
                Ok((role, new))
            })
            .await?;
        Ok(new)
    }

    /// Stores the operator's first password and opens a session: once, for whoever has the token.
    pub async fn setup(
        self: &Arc<Self>,
        token: Secret,
        password: Secret,
        client: &Client,
    ) -> Result<NewLogin, LoginError> {
        password::check_length(password.expose())?;
        self.attempt(client, move |auth, client| async move {
            let wanted = auth.setup_token().ok_or(LoginError::SetUpAlready)?;
            let stored = auth.passwords.stored(Role::Operator);
            if stored.map_err(|error| internal(&error))?.is_some() {
                return Err(LoginError::SetUpAlready);
            }
            if !token::same_text(wanted.expose(), token.expose()) {
                return Err(LoginError::Failed);
            }
            // Only one attempt runs at a time, so nobody else is between check and write.
            auth.store_password(Role::Operator, password).await?;
            *lock(&auth.setup) = None;
            info!("the operator's password was set from {}", client.address);
            Ok((Role::Operator, auth.begin(Role::Operator, &client).await?))
        })
        .await
    }

    /// Stores another password for a role; `None` takes the viewers' away. The operator's own needs the
    /// `old` one beside it. Every session of the role ends but the one that asks; the ids of those that
    /// ended are given back.
    pub async fn set_password(
        self: &Arc<Self>,
        login: &Login,
        role: Role,
        old: Option<Secret>,
        new: Option<Secret>,
        client: &Client,
    ) -> Result<Vec<SessionId>, LoginError> {
        if let Some(new) = &new {
            password::check_length(new.expose())?;
        }
        let asking = login.clone();
        self.attempt(client, move |auth, client| async move {
            let passwords = auth.passwords.clone();
            if role == Role::Operator || old.is_some() {
                let old = old.ok_or(LoginError::Failed)?;
                let right = blocking(move || passwords.is_of(role, &old)).await?;
                if !right.map_err(|error| internal(&error))? {
                    return Err(LoginError::Failed);
                }
            }
            match new {
                Some(new) => auth.store_password(role, new).await?,
                None if role == Role::Operator => return Err(LoginError::Failed),
                None => auth.passwords.remove_viewers().map_err(|error| internal(&error))?,
            }
            info!("the password of the role {} was set from {}", role.as_str(), client.address);
            let tags = auth.tags().ok_or(LoginError::Internal)?;
            let now_ms = auth.clock.now().unix_ms;
            let ended = lock(&auth.sessions).password_set(&asking, &tags, now_ms);
            auth.tell();
            auth.save(Durability::Disk).await?;
            Ok((Role::Operator, ended))
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
                internal(&error)
            })
        })
        .await?
    }

    /// One try at a secret: throttled, one at a time, and finished even when the caller goes away, so
    /// that hanging up neither frees the hash's memory early nor hides a failure. A success says in which
    /// role: that of a viewer pardons nothing, or who has the viewers' password could guess the
    /// operator's for ever.
    async fn attempt<T, F, R>(self: &Arc<Self>, client: &Client, check: F) -> Result<T, LoginError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Auth>, Client) -> R + Send + 'static,
        R: Future<Output = Result<(Role, T), LoginError>> + Send + 'static,
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
                Ok((Role::Operator, _)) => lock(&auth.throttle).succeeded(&who),
                Ok((Role::Viewer, _)) => {}
                Err(LoginError::Failed) => {
                    // One line of a fixed form, for fail2ban; nothing of what was tried is in it.
                    warn!("login failed from {}", client.address);
                    lock(&auth.throttle).failed(&who, auth.clock.now().mono_ms);
                }
                Err(_) => {}
            }
            result.map(|(_, done)| done)
        });
        task.await.unwrap_or(Err(LoginError::Internal))
    }

    // Only a browser that was the operator's is told from strangers: logins as a viewer can be had by the
    // dozen, and each would begin with free tries.
    fn who(&self, client: &Client) -> Who {
        let sessions = lock(&self.sessions);
        let known = client
            .tokens
            .iter()
            .find_map(|token| sessions.known(token).filter(|(_, role)| *role == Role::Operator));
        known.map_or_else(|| Who::stranger(client.address), |(id, _)| Who::Known(id.clone()))
    }

    /// Opens a session for someone who has shown what it takes.
    async fn begin(self: &Arc<Self>, role: Role, client: &Client) -> Result<NewLogin, LoginError> {
        let token = Token::random().map_err(|error| internal(&error))?;
        let fresh = Token::random().map_err(|error| internal(&error))?;
        let tags = self.tags().ok_or(LoginError::Internal)?;
        let now_ms = self.clock.now().unix_ms;
        let opening = Opening {
            token: &token,
            fresh: SessionId(fresh.text()),
            role,
            held: &client.tokens,
            address: client.address,
        };
        let login = lock(&self.sessions).open(opening, &tags, now_ms).ok_or(LoginError::Failed)?;
        self.tell();
        // A full disk must not keep the operator out: the session then lives until the next restart.
        let _ = self.save(Durability::Disk).await;
        Ok(NewLogin { token, login })
    }

    async fn store_password(&self, role: Role, password: Secret) -> Result<(), LoginError> {
        let passwords = self.passwords.clone();
        blocking(move || passwords.store(role, &password)).await?.map_err(|error| match error {
            passwords::StoreError::Password(error) => error.into(),
            passwords::StoreError::Stored(error) => internal(&error),
        })
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// `None`: the operator's password can't be read, and then nobody is logged in.
    fn tags(&self) -> Option<Tags> {
        self.passwords.tags().map_err(|error| internal(&error)).ok()
    }
}

fn internal(error: &dyn std::error::Error) -> LoginError {
    warn!("no login: {}", chain(error));
    LoginError::Internal
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
