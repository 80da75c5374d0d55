//! One-time links: tokens that log one browser in, once and soon.
//!
//! Owns how many there are and how long one works. In memory only; the time is an argument. Only hashes of
//! the tokens are kept.

use sha2::{Digest, Sha256};

use super::token::{self, Token, TokenHash};
use crate::secrets::Secret;

/// A login link works for so long.
pub const LINK_MS: u64 = 10 * 60_000;
/// Links that wait to be used, at most; past it the oldest is void.
pub const MAX_LINKS: usize = 8;

#[derive(Debug)]
struct Link {
    hash: TokenHash,
    until_ms: u64,
}

/// The links of one process.
#[derive(Debug)]
pub struct Links {
    /// Random: tokens derive from it, so that making one can't fail.
    key: Token,
    count: u64,
    waiting: Vec<Link>,
}

impl Links {
    /// None yet. `key` must be random.
    pub fn new(key: Token) -> Links {
        Links { key, count: 0, waiting: Vec::new() }
    }

    /// A new link's token.
    pub fn make(&mut self, now_ms: u64) -> Secret {
        self.count += 1;
        let mut hash = Sha256::new();
        hash.update(b"tombolo login link 1\0");
        hash.update(self.key.csrf());
        hash.update(self.count.to_be_bytes());
        let text = token::hex(&hash.finalize());
        if self.waiting.len() >= MAX_LINKS {
            self.waiting.remove(0);
        }
        self.waiting
            .push(Link { hash: text_hash(&text), until_ms: now_ms.saturating_add(LINK_MS) });
        Secret::new(text)
    }

    /// Takes a token, which is void from now on; `false` when it isn't one any more.
    pub fn take(&mut self, text: &str, now_ms: u64) -> bool {
        self.waiting.retain(|link| now_ms < link.until_ms);
        let hash = text_hash(text);
        match self.waiting.iter().position(|link| token::same_text(&link.hash, &hash)) {
            Some(index) => {
                self.waiting.remove(index);
                true
            }
            None => false,
        }
    }
}

fn text_hash(text: &str) -> TokenHash {
    token::hex(&Sha256::digest(text.as_bytes()))
}
