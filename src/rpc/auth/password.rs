//! A password: its length, its hash, its check.
//!
//! Owns the parameters of argon2id. Both functions take a while and much memory on purpose: the callers
//! run them one at a time and off the runtime's thread. Never prints a password.

use argon2::{Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};

use crate::secrets::Secret;

/// Shorter ones are guessed.
pub const MIN_CHARS: usize = 8;
/// Longer ones only cost work.
pub const MAX_CHARS: usize = 512;

// The first of OWASP's equivalent settings for argon2id that fits a 512 MB board.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const SALT_BYTES: usize = 16;

/// Why a password can't be stored.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PasswordError {
    /// It is too short.
    #[error("the password needs at least {MIN_CHARS} characters")]
    TooShort,
    /// It is too long.
    #[error("the password may have at most {MAX_CHARS} characters")]
    TooLong,
    /// It opens another role already.
    #[error("this is the password of another role: each role needs another password")]
    OfAnotherRole,
    /// The system's random source or the hash failed.
    #[error("the password could not be hashed: {0}")]
    Hash(String),
}

/// Is it long enough, and not too long? Characters are counted, not bytes.
pub fn check_length(password: &str) -> Result<(), PasswordError> {
    match password.chars().take(MAX_CHARS + 1).count() {
        count if count < MIN_CHARS => Err(PasswordError::TooShort),
        count if count > MAX_CHARS => Err(PasswordError::TooLong),
        _ => Ok(()),
    }
}

/// The argon2id hash with its salt and parameters, as one printable line.
pub fn hash(password: &Secret) -> Result<Secret, PasswordError> {
    let failed = |reason: String| PasswordError::Hash(reason);
    check_length(password.expose())?;
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|e| failed(e.to_string()))?;
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|e| failed(e.to_string()))?;
    let hash: PasswordHash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_with_salt(password.expose().as_bytes(), &salt)
        .map_err(|e| failed(e.to_string()))?;
    Ok(Secret::new(hash.to_string()))
}

/// Is that an argon2id hash, with salt and parameters, against which a password can be checked?
pub fn is_hash(text: &Secret) -> bool {
    PasswordHash::new(text.expose()).is_ok_and(|hash| {
        hash.algorithm.as_str() == "argon2id" && hash.salt.is_some() && hash.hash.is_some()
    })
}

/// Does the password belong to the stored hash? A hash that can't be read belongs to none.
pub fn matches(password: &Secret, hash: &Secret) -> bool {
    if check_length(password.expose()).is_err() {
        return false;
    }
    PasswordHash::new(hash.expose()).is_ok_and(|hash| {
        Argon2::default().verify_password(password.expose().as_bytes(), &hash).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_itself_matches_its_hash() {
        let hash = hash(&Secret::new("correct horse")).unwrap();
        assert!(hash.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.expose());
        assert!(matches(&Secret::new("correct horse"), &hash));
        assert!(!matches(&Secret::new("correct horsf"), &hash));
        assert!(!matches(&Secret::new("correct horse"), &Secret::new("not a hash")));
        assert!(!matches(&Secret::new("correct horse"), &Secret::new("")));
    }

    #[test]
    fn the_length_has_two_ends() {
        for (chars, right) in [
            (7, Err(PasswordError::TooShort)),
            (8, Ok(())),
            (512, Ok(())),
            (513, Err(PasswordError::TooLong)),
        ] {
            assert_eq!(check_length(&"ä".repeat(chars)), right, "{chars}");
        }
    }
}
