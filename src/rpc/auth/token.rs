//! Random tokens, and what is derived from one.
//!
//! Owns the text form of a session token, the hash under which it is stored and its CSRF token. A token
//! itself is never written anywhere and never printed.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

/// Bytes from the system's random source: 256 bits.
const BYTES: usize = 32;
/// Keeps the CSRF token apart from the stored hash of the same session token.
const CSRF_DOMAIN: &[u8] = b"tombolo csrf token 1\0";

/// A secret of 256 random bits. `Debug` prints `***`.
#[derive(Clone)]
pub struct Token([u8; BYTES]);

/// The SHA-256 of a token, in hexadecimal: what is stored, and of no use to who reads it.
pub type TokenHash = String;

impl Token {
    /// A new one from the system's random source.
    pub fn random() -> Result<Token, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes))
    }

    /// Reads the text form; `None` for anything that [`Token::text`] can't have written.
    pub fn parse(text: &str) -> Option<Token> {
        let bytes = BASE64.decode(text).ok()?;
        Some(Token(bytes.try_into().ok()?))
    }

    /// 43 characters that stand in a cookie or an address unescaped.
    pub fn text(&self) -> String {
        BASE64.encode(self.0)
    }

    /// The form that is stored.
    pub fn hash(&self) -> TokenHash {
        hex(&Sha256::digest(self.0))
    }

    /// The session's CSRF token: it derives from the token, so that it outlives a restart and a reload,
    /// and says nothing about it.
    pub fn csrf(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(CSRF_DOMAIN);
        hash.update(self.0);
        BASE64.encode(hash.finalize())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Compares two texts in a time that depends on their lengths only.
pub fn same_text(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_text_form_and_nothing_else_is_one() {
        let token = Token::random().unwrap();
        let text = token.text();
        assert_eq!(text.len(), 43);
        assert_eq!(Token::parse(&text).unwrap().hash(), token.hash());
        assert_ne!(Token::random().unwrap().text(), text);
        for wrong in ["", &text[..42], &format!("{text}A"), &format!("{text}="), "é"] {
            assert!(Token::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn hash_and_csrf_token_differ_from_each_other_and_from_the_token() {
        let token = Token::parse(&"A".repeat(43)).unwrap();
        // The SHA-256 of 32 zero bytes, as any other program computes it.
        assert_eq!(
            token.hash(),
            "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
        );
        let csrf = token.csrf();
        assert_eq!(csrf.len(), 43);
        assert_ne!(BASE64.decode(&csrf).map(|bytes| hex(&bytes)).unwrap(), token.hash());
        assert_eq!(format!("{token:?}"), "***");
    }
}
