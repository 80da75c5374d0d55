//! Pairing: a code that the operator hands to somebody, who sends it back over the air under the key to be pinned.
//!
//! Owns the one open code, its time and its tries; in memory only, so that a restart voids it. Must not decide who may
//! try, nor pin anything: that is `service`'s and `identity`'s matter.

use std::fmt;

use subtle::ConstantTimeEq as _;

use crate::clock::Now;

/// A code can be used for so long, milliseconds.
pub const OPEN_MS: u64 = 600_000;
/// After so many wrong codes it is void.
pub const TRIES: u8 = 5;
/// Characters of a code, five bits each: 25 random bits.
const LEN: usize = 5;
/// Crockford's base 32: no letter that is read for a digit or another letter.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A code. `Debug` prints `***`; its text goes to the operator who asked for it and nowhere else.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; LEN]);

impl Code {
    /// A new one from the system's random source.
    pub fn random() -> Result<Code, getrandom::Error> {
        let mut bytes = [0; LEN];
        getrandom::fill(&mut bytes)?;
        // 256 is a multiple of 32: each character is as likely as any other.
        Ok(Code(bytes.map(|byte| ALPHABET.get(usize::from(byte % 32)).copied().unwrap_or(b'0'))))
    }

    /// Reads what somebody typed: any case, `O` for 0, `I` and `L` for 1, hyphens anywhere. `None` for what no code
    /// looks like.
    pub fn parse(typed: &str) -> Option<Code> {
        let mut code = [0; LEN];
        let mut digits = typed.bytes().filter(|byte| *byte != b'-');
        for place in &mut code {
            let digit = match digits.next()?.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                other => other,
            };
            *place = Some(digit).filter(|digit| ALPHABET.contains(digit))?;
        }
        digits.next().is_none().then_some(Code(code))
    }

    /// For the operator's eyes.
    pub fn text(&self) -> String {
        self.0.iter().copied().map(char::from).collect()
    }

    /// Compares in the same time whatever is wrong.
    fn is(&self, other: &Code) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What a code that somebody sent comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// No code is open.
    NothingOpen,
    /// It is not the open one; so many wrong ones are left, 0 when the open one is void now.
    Wrong(u8),
    /// It is: for a contact of that name. It stays open until [`Pairing::close`].
    Right(String),
}

/// What is shown of an open code, without it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PairingView {
    /// Whom it is for.
    pub name: String,
    /// How long it can be used, seconds.
    pub expires_in_s: u64,
    /// Wrong codes that are left.
    pub tries_left: u8,
}

/// The open code, if there is one.
#[derive(Debug, Default)]
pub struct Pairing {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    code: Code,
    name: String,
    until_ms: u64,
    tries: u8,
}

impl Pairing {
    /// Opens a code for a contact of that name; one that was open is void.
    pub fn open(&mut self, code: Code, name: String, now: Now) {
        let until_ms = now.mono_ms.saturating_add(OPEN_MS);
        self.open = Some(Open { code, name, until_ms, tries: TRIES });
    }

    /// Voids the open code, or ends it after it was used.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Somebody sent a code.
    pub fn attempt(&mut self, code: &Code, now: Now) -> Attempt {
        self.expire(now);
        let Some(open) = &mut self.open else { return Attempt::NothingOpen };
        if open.code.is(code) {
            return Attempt::Right(open.name.clone());
        }
        open.tries = open.tries.saturating_sub(1);
        let left = open.tries;
        if left == 0 {
            self.open = None;
        }
        Attempt::Wrong(left)
    }

    /// The text with the open code masked, wherever it stands in it as a word of its own.
    pub fn masked(&self, text: &str) -> String {
        let Some(open) = &self.open else { return text.to_owned() };
        let mut masked = text.to_owned();
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            if Code::parse(word).is_some_and(|code| code.is(&open.code)) {
                masked = masked.replace(word, "…");
            }
        }
        masked
    }

    /// What is shown of it.
    pub fn view(&self, now: Now) -> Option<PairingView> {
        let open = self.open.as_ref().filter(|open| now.mono_ms < open.until_ms)?;
        Some(PairingView {
            name: open.name.clone(),
            expires_in_s: open.until_ms.saturating_sub(now.mono_ms).div_ceil(1000),
            tries_left: open.tries,
        })
    }

    fn expire(&mut self, now: Now) {
        if self.open.as_ref().is_some_and(|open| now.mono_ms >= open.until_ms) {
            self.open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { mono_ms: 1_000, unix_ms: 1_700_000_000_000 };

    fn at(ms: u64) -> Now {
        NOW.plus(std::time::Duration::from_millis(ms))
    }

    fn code(text: &str) -> Code {
        Code::parse(text).unwrap()
    }

    fn open() -> Pairing {
        let mut pairing = Pairing::default();
        pairing.open(code("7KQ2M"), "Ana".to_owned(), NOW);
        pairing
    }

    fn right() -> Attempt {
        Attempt::Right("Ana".to_owned())
    }

    #[test]
    fn a_code_is_twenty_five_random_bits_that_print_as_stars() {
        let (one, other) = (Code::random().unwrap(), Code::random().unwrap());
        assert_ne!(one, other, "one in 33 million");
        assert_eq!(one.text().len(), 5);
        assert_eq!(Code::parse(&one.text()), Some(one.clone()));
        assert_eq!(ALPHABET.iter().collect::<std::collections::BTreeSet<_>>().len(), 32);
        assert_eq!(format!("{one:?} {:?}", open()).matches(&one.text()).count(), 0);
        assert!(!format!("{:?}", open()).contains("7KQ2M"));
    }

    #[test]
    fn a_typed_code_is_read_kindly_and_nothing_else_is_one() {
        for typed in ["7KQ2M", "7kq2m", "7k-Q2m", "-7KQ2M-"] {
            assert_eq!(Code::parse(typed), Some(code("7KQ2M")), "{typed}");
        }
        assert_eq!(code("OIL00"), code("01100"));
        for typed in ["", "7KQ2", "7KQ2MM", "7KQ2U", "7KQ2 M", "7KQ2é", "-----"] {
            assert_eq!(Code::parse(typed), None, "{typed}");
        }
    }

    #[test]
    fn a_code_lasts_ten_minutes_and_no_longer() {
        assert_eq!(open().attempt(&code("7KQ2M"), at(OPEN_MS - 1)), right());
        assert_eq!(open().attempt(&code("7KQ2M"), at(OPEN_MS)), Attempt::NothingOpen);
        assert_eq!(open().view(at(OPEN_MS - 1)).unwrap().expires_in_s, 1);
        assert_eq!(open().view(at(OPEN_MS)), None);
    }

    #[test]
    fn the_fifth_wrong_code_voids_it() {
        for (wrong, last) in [(4, right()), (5, Attempt::NothingOpen)] {
            let mut pairing = open();
            for tried in 1..=wrong {
                let left = TRIES - tried;
                assert_eq!(pairing.attempt(&code("7KQ2N"), NOW), Attempt::Wrong(left));
            }
            assert_eq!(pairing.attempt(&code("7KQ2M"), NOW), last, "after {wrong} wrong ones");
        }
    }

    #[test]
    fn a_code_is_used_once_and_a_new_one_voids_the_old() {
        let mut pairing = open();
        assert_eq!(pairing.attempt(&code("7KQ2M"), NOW), right());
        pairing.close();
        assert_eq!(pairing.attempt(&code("7KQ2M"), NOW), Attempt::NothingOpen);
        let mut pairing = open();
        pairing.open(code("AAAAA"), "Ben".to_owned(), NOW);
        assert_eq!(pairing.attempt(&code("7KQ2M"), NOW), Attempt::Wrong(4));
        assert_eq!(pairing.attempt(&code("AAAAA"), NOW), Attempt::Right("Ben".to_owned()));
    }

    #[test]
    fn the_open_code_is_masked_wherever_it_stands() {
        let pairing = open();
        for (text, masked) in [
            ("!ai pair 7KQ2M", "!ai pair …"),
            ("!ai pair 7kq-2m please", "!ai pair … please"),
            ("(7kq2m) 7KQ2N", "(…) 7KQ2N"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(pairing.masked(text), masked);
        }
        assert_eq!(Pairing::default().masked("7KQ2M"), "7KQ2M");
    }
}
