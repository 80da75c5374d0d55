//! Why there is no session.
//!
//! Owns the errors of logins. None of them holds a password, a token or a raw error of the system.

use super::password::PasswordError;
use super::passwords::StoredError;
use crate::secrets::SecretError;
use crate::store::StoreError;

/// Why the sessions could not be set up at start.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A password's file is not as it should be.
    #[error(transparent)]
    Stored(#[from] StoredError),
    /// A file of secrets is not as it should be.
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
    /// The new password may not be stored.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// A failure of ours; the log has it.
    #[error("the node could not read or store what it needs for a login; its log says why")]
    Internal,
}
