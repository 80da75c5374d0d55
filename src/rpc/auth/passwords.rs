//! The password of each role: where its hash is, and what may be stored.
//!
//! Owns `secrets/operator-password` and `secrets/viewer-password` in form. They are read at each use, so
//! that `tombolo operator set-password` takes effect in a running daemon. Never prints one. Whoever asks
//! runs [`Passwords::role_of`] and [`Passwords::store`] off the runtime's thread: they hash.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::password::{self, PasswordError};
use super::role::Role;
use super::token;
use crate::secrets::{Secret, SecretError, SecretName, Secrets};

/// Why a stored password is of no use; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// Somebody wrote something else into the file, perhaps the password itself.
    #[error("{} holds no argon2id hash; set the password anew: tombolo operator set-password{}", path.display(), if *role == Role::Viewer { " --role viewer" } else { "" })]
    NotAHash {
        /// The file.
        path: PathBuf,
        /// Whose.
        role: Role,
    },
    /// It can't be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// Why a password was not stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not one that may be stored.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// It could not be written, or the other role's could not be read.
    #[error(transparent)]
    Stored(#[from] StoredError),
}

/// Names the passwords in force without saying anything about them: each a hash of the hash. A session
/// ends when the tag of its role is another than at its login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags {
    /// Empty while there is no password.
    pub operator: String,
    /// `None`: nobody is a viewer.
    pub viewer: Option<String>,
}

impl Tags {
    /// The tag of a role.
    pub fn of(&self, role: Role) -> Option<&str> {
        match role {
            Role::Operator => Some(&self.operator),
            Role::Viewer => self.viewer.as_deref(),
        }
    }
}

/// The stored passwords.
#[derive(Debug, Clone)]
pub struct Passwords {
    secrets: Secrets,
}

impl Passwords {
    /// Those of this folder.
    pub fn new(secrets: Secrets) -> Passwords {
        Passwords { secrets }
    }

    /// The hash of a role's password, if it has one.
    pub fn stored(&self, role: Role) -> Result<Option<Secret>, StoredError> {
        let name = file_of(role);
        let not_a_hash = || StoredError::NotAHash { path: self.secrets.path(name), role };
        match self.secrets.read(name) {
            Ok(Some(hash)) if !password::is_hash(&hash) => Err(not_a_hash()),
            Ok(hash) => Ok(hash),
            // Two words, or a letter with an accent: somebody's password as it is.
            Err(SecretError::NotText { .. }) => Err(not_a_hash()),
            Err(error) => Err(error.into()),
        }
    }

    /// The tags of all roles. A viewer's password that can't be read counts as none: it must not keep the
    /// operator out.
    pub fn tags(&self) -> Result<Tags, StoredError> {
        let tag = |hash: Secret| token::hex(&Sha256::digest(hash.expose().as_bytes()));
        Ok(Tags {
            operator: self.stored(Role::Operator)?.map_or_else(String::new, tag),
            viewer: self.stored(Role::Viewer).ok().flatten().map(tag),
        })
    }

    /// Whose password it is. Takes as long as two hashes.
    pub fn role_of(&self, password: &Secret) -> Result<Option<Role>, StoredError> {
        let is = |hash: Option<Secret>| hash.is_some_and(|hash| password::matches(password, &hash));
        if is(self.stored(Role::Operator)?) {
            return Ok(Some(Role::Operator));
        }
        Ok(is(self.stored(Role::Viewer)?).then_some(Role::Viewer))
    }

    /// Is it that role's password?
    pub fn is_of(&self, role: Role, password: &Secret) -> Result<bool, StoredError> {
        Ok(self.stored(role)?.is_some_and(|hash| password::matches(password, &hash)))
    }

    /// Stores the role's new password. One password can't open both roles, for it alone says which is
    /// meant.
    pub fn store(&self, role: Role, password: &Secret) -> Result<(), StoreError> {
        let hash = password::hash(password)?;
        for other in Role::ALL.into_iter().filter(|other| *other != role) {
            // One that can't be read is nobody's.
            if self.is_of(other, password).unwrap_or(false) {
                return Err(PasswordError::OfAnotherRole.into());
            }
        }
        self.secrets.write(file_of(role), &hash).map_err(StoredError::from)?;
        Ok(())
    }

    /// Takes the viewers' password away; that there is none is fine.
    pub fn remove_viewers(&self) -> Result<(), StoredError> {
        Ok(self.secrets.remove(SecretName::ViewerPassword)?)
    }
}

fn file_of(role: Role) -> SecretName {
    match role {
        Role::Operator => SecretName::OperatorPassword,
        Role::Viewer => SecretName::ViewerPassword,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (tempfile::TempDir, Passwords) {
        let folder = tempfile::tempdir().unwrap();
        let passwords = Passwords::new(Secrets::open(folder.path()).unwrap());
        (folder, passwords)
    }

    #[test]
    fn a_password_says_its_role_and_is_nobody_elses() {
        let (_folder, passwords) = here();
        let [operator, viewer] = ["correct horse", "only looking"].map(Secret::new);
        assert_eq!(passwords.role_of(&operator).unwrap(), None);
        passwords.store(Role::Operator, &operator).unwrap();
        assert_eq!(passwords.tags().unwrap().viewer, None);
        let refused = passwords.store(Role::Viewer, &operator).unwrap_err();
        assert!(refused.to_string().contains("another password"), "{refused}");
        passwords.store(Role::Viewer, &viewer).unwrap();
        assert_eq!(passwords.role_of(&operator).unwrap(), Some(Role::Operator));
        assert_eq!(passwords.role_of(&viewer).unwrap(), Some(Role::Viewer));
        assert_eq!(passwords.role_of(&Secret::new("neither one")).unwrap(), None);
        let tags = passwords.tags().unwrap();
        passwords.remove_viewers().unwrap();
        passwords.remove_viewers().unwrap();
        assert_eq!(passwords.role_of(&viewer).unwrap(), None);
        assert_eq!(passwords.tags().unwrap(), Tags { viewer: None, ..tags });
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // writes what an editor would
    fn a_file_that_holds_no_hash_names_itself_and_the_command() {
        let hash = password::hash(&Secret::new("correct horse")).unwrap();
        let other_kind = hash.expose().replace("argon2id", "argon2i");
        let cut = &hash.expose()[..hash.expose().len() / 2];
        for (text, role, command) in [
            ("hunter2hunter2", Role::Operator, "tombolo operator set-password"),
            ("two words", Role::Operator, "tombolo operator set-password"),
            ("zwei\nZeilen", Role::Operator, "tombolo operator set-password"),
            ("$2b$12$abcdefghijklmnopqrstuv", Role::Operator, "tombolo operator set-password"),
            (other_kind.as_str(), Role::Operator, "tombolo operator set-password"),
            (cut, Role::Operator, "tombolo operator set-password"),
            ("hunter2hunter2", Role::Viewer, "tombolo operator set-password --role viewer"),
        ] {
            let (folder, passwords) = here();
            let path = folder.path().join("secrets").join(file_of(role).file_name());
            crate::store::replace(&path, text.as_bytes(), crate::store::Durability::Process)
                .unwrap();
            let error = passwords.stored(role).unwrap_err().to_string();
            assert!(error.ends_with(command), "{error}");
            assert!(error.contains(file_of(role).file_name()) && !error.contains(text), "{error}");
            // Setting it anew repairs it.
            let passwords = Passwords::new(Secrets::open(folder.path()).unwrap());
            passwords.store(role, &Secret::new("a better one")).unwrap();
            assert_eq!(passwords.role_of(&Secret::new("a better one")).unwrap(), Some(role));
        }
    }
}
