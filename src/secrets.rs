//! Secrets on disk: `data_dir/secrets/`, and the type that keeps them out of logs.
//!
//! Owns reading and the permission check. Never takes a secret from the configuration, the
//! environment or the command line, and never prints one.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::store::{self, Durability, StoreError};

/// A text that must not be shown. `Debug` prints `***`; it can't be serialized.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself: for the one header or hash that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Which secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretName {
    /// The key of Anthropic's API.
    ClaudeApiKey,
    /// The key of an OpenAI-compatible server.
    OpenaiApiKey,
    /// The operator's password, as an argon2id hash.
    OperatorPassword,
    /// The viewers' password, as an argon2id hash.
    ViewerPassword,
    /// `user:password` of a Bitcoin node.
    BitcoinRpc,
}

impl SecretName {
    /// All of them.
    pub const ALL: [SecretName; 5] = [
        SecretName::ClaudeApiKey,
        SecretName::OpenaiApiKey,
        SecretName::OperatorPassword,
        SecretName::ViewerPassword,
        SecretName::BitcoinRpc,
    ];

    fn is_password(self) -> bool {
        matches!(self, SecretName::OperatorPassword | SecretName::ViewerPassword)
    }

    /// The file's name below `secrets/`.
    pub fn file_name(self) -> &'static str {
        match self {
            SecretName::ClaudeApiKey => "claude-api-key",
            SecretName::OpenaiApiKey => "openai-api-key",
            SecretName::OperatorPassword => "operator-password",
            SecretName::ViewerPassword => "viewer-password",
            SecretName::BitcoinRpc => "bitcoin-rpc",
        }
    }
}

/// Why a secret can't be used; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Others could read it.
    #[error("{} can be read by others; run: chmod {mode:o} {}", path.display(), path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// The mode that it should have.
        mode: u32,
    },
    /// It could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not one line of text.
    #[error("{} must hold one line of printable text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
}

/// The folder of secrets.
#[derive(Debug, Clone)]
pub struct Secrets {
    folder: PathBuf,
}

impl Secrets {
    /// Opens `data_dir/secrets`, creating it closed (0700), and refuses it when anything in it is
    /// readable by others.
    pub fn open(data_dir: &Path) -> Result<Secrets, SecretError> {
        let folder = data_dir.join("secrets");
        store::private_dir(&folder)?;
        if !store::is_private(&folder)? {
            return Err(SecretError::Exposed { path: folder, mode: 0o700 });
        }
        let secrets = Secrets { folder };
        for name in SecretName::ALL {
            match secrets.read(name) {
                // A password's file must hold a hash, which `rpc::auth` says in better words.
                Err(SecretError::NotText { .. }) if name.is_password() => {}
                read => drop(read?),
            }
        }
        Ok(secrets)
    }

    /// Where a secret is kept.
    pub fn path(&self, name: SecretName) -> PathBuf {
        self.folder.join(name.file_name())
    }

    /// The secret, or `None` when its file is missing or empty.
    pub fn read(&self, name: SecretName) -> Result<Option<Secret>, SecretError> {
        let path = self.path(name);
        if !path.exists() {
            return Ok(None);
        }
        if !store::is_private(&path)? {
            return Err(SecretError::Exposed { path, mode: 0o600 });
        }
        let bytes = std::fs::read(&path).map_err(|source| StoreError {
            doing: "reading",
            path: path.clone(),
            source,
        })?;
        let text = String::from_utf8(bytes).ok().map(|text| text.trim().to_owned());
        match text {
            Some(text) if text.is_empty() => Ok(None),
            Some(text) if text.chars().all(|c| c.is_ascii_graphic()) => Ok(Some(Secret(text))),
            _ => Err(SecretError::NotText { path }),
        }
    }

    /// Forgets a secret; that there is none is fine.
    pub fn remove(&self, name: SecretName) -> Result<(), SecretError> {
        Ok(store::remove(&self.path(name))?)
    }

    /// Writes a secret, mode 0600, on the disk when it returns.
    pub fn write(&self, name: SecretName, secret: &Secret) -> Result<(), SecretError> {
        let path = self.path(name);
        store::replace(&path, format!("{}\n", secret.expose()).as_bytes(), Durability::Disk)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_exposed_secret_refuses_the_start_and_names_the_fix() {
        let data = tempfile::tempdir().unwrap();
        let secrets = Secrets::open(data.path()).unwrap();
        secrets.write(SecretName::ClaudeApiKey, &Secret::new("sk-canary")).unwrap();
        assert_eq!(secrets.read(SecretName::ClaudeApiKey).unwrap(), Some(Secret::new("sk-canary")));
        let path = data.path().join("secrets/claude-api-key");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Secrets::open(data.path()).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        assert!(!error.contains("sk-canary"));
    }

    #[test]
    fn a_secret_is_never_in_its_debug_form() {
        assert_eq!(format!("{:?}", Secret::new("sk-canary")), "***");
    }
}
