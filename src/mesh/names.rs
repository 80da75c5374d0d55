//! Names of contacts: which are refused, and which look like another.
//!
//! Owns the rule for a name that the operator gives, and the comparison of names as an eye reads them. Must not decide
//! what follows from a likeness: people may share a name, so it is only told.

use icu_normalizer::DecomposingNormalizerBorrowed;

use crate::invisible;

/// Longest name, bytes of UTF-8: what a radio keeps of a contact's name.
pub const MAX_BYTES: usize = 39;
/// The sign that asks for an emoji's coloured form. It shows nothing itself and is left out of names.
const EMOJI_STYLE: char = '\u{fe0f}';

/// The name as it is kept, or the rule that it breaks, as a sentence.
pub fn check(name: &str) -> Result<String, String> {
    let name: String = name.trim().chars().filter(|c| *c != EMOJI_STYLE).collect();
    if name.is_empty() {
        return Err("a name is not empty".to_owned());
    }
    if name.len() > MAX_BYTES {
        let bytes = name.len();
        return Err(format!("a name has at most {MAX_BYTES} bytes of UTF-8; this one has {bytes}"));
    }
    if let Some(hidden) = name.chars().find(|c| invisible::hidden(*c)) {
        return Err(format!(
            "a name holds no control, bidirectional or invisible character; this one holds U+{:04X}",
            u32::from(hidden)
        ));
    }
    Ok(name)
}

/// Might one name be read for the other? Case, accents, widths and letters that other scripts draw alike make no
/// difference. The same name looks like itself.
pub fn look_alike(one: &str, other: &str) -> bool {
    Likeness::of(one).is_like(&Likeness::of(other))
}

/// A name reduced to what an eye keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    /// As it is drawn: `I`, `l` and `1` are one stroke.
    drawn: String,
    /// As it is spoken: case makes no difference.
    folded: String,
}

impl Likeness {
    /// Of a name.
    pub fn of(name: &str) -> Likeness {
        let plain: String = DecomposingNormalizerBorrowed::new_nfkd()
            .normalize_iter(name.chars())
            .filter(|c| !is_mark(*c) && !invisible::hidden(*c))
            .collect();
        let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        let drawn: String = plain.chars().map(latin).map(stroke).collect();
        let folded: String =
            plain.chars().flat_map(char::to_lowercase).map(latin).map(digit).collect();
        Likeness { drawn: pairs(&drawn), folded: pairs(&folded) }
    }

    /// Might one be read for the other? Nothing looks like an empty name.
    pub fn is_like(&self, other: &Likeness) -> bool {
        !self.drawn.is_empty() && (self.drawn == other.drawn || self.folded == other.folded)
    }
}

/// Two of the scripts whose letters look alike, if the name mixes them.
pub fn mixed_scripts(name: &str) -> Option<(&'static str, &'static str)> {
    let mut found = name.chars().filter_map(script);
    let first = found.next()?;
    found.find(|script| *script != first).map(|second| (first, second))
}

fn script(c: char) -> Option<&'static str> {
    if !c.is_alphabetic() {
        return None;
    }
    match c {
        'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{24f}' => Some("Latin"),
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Some("Greek"),
        '\u{400}'..='\u{52f}' => Some("Cyrillic"),
        _ => None,
    }
}

/// Is it an accent, a dot or a stroke that is put on another character?
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// One stroke, one ring: what most typefaces draw alike.
fn stroke(c: char) -> char {
    match c {
        'I' | '1' | '|' | '!' => 'l',
        '0' => 'O',
        c => c,
    }
}

/// The same after case has gone.
fn digit(c: char) -> char {
    match c {
        '1' | '|' => 'l',
        '0' => 'o',
        c => c,
    }
}

/// Two letters that together look like one.
fn pairs(text: &str) -> String {
    text.replace("rn", "m").replace("vv", "w").replace("VV", "W")
}

/// The Latin letter that a letter of another script looks like; itself where there is none.
fn latin(c: char) -> char {
    match c {
        // Cyrillic
        'А' => 'A',
        'В' => 'B',
        'Е' => 'E',
        'Ѕ' => 'S',
        'І' | 'Ӏ' => 'I',
        'Ј' => 'J',
        'К' => 'K',
        'М' => 'M',
        'Н' => 'H',
        'О' => 'O',
        'Р' => 'P',
        'С' => 'C',
        'Т' => 'T',
        'У' | 'Ү' => 'Y',
        'Х' => 'X',
        'а' => 'a',
        'в' | 'ь' => 'b',
        'г' => 'r',
        'е' | 'є' => 'e',
        'ѕ' => 's',
        'і' | 'ӏ' => 'i',
        'ј' => 'j',
        'к' => 'k',
        'м' => 'm',
        'н' => 'h',
        'һ' => 'h',
        'п' => 'n',
        'о' => 'o',
        'р' => 'p',
        'с' => 'c',
        'т' => 't',
        'у' | 'ү' => 'y',
        'х' => 'x',
        'ԁ' => 'd',
        'ԛ' => 'q',
        'ԝ' => 'w',
        'ѵ' => 'v',
        // Greek
        'Α' => 'A',
        'Β' => 'B',
        'Ε' => 'E',
        'Ζ' => 'Z',
        'Η' => 'H',
        'Ι' => 'I',
        'Κ' => 'K',
        'Μ' => 'M',
        'Ν' => 'N',
        'Ο' => 'O',
        'Ρ' => 'P',
        'Τ' => 'T',
        'Υ' => 'Y',
        'Χ' => 'X',
        'α' => 'a',
        'β' => 'b',
        'γ' => 'y',
        'ε' => 'e',
        'η' => 'n',
        'ι' => 'i',
        'κ' => 'k',
        'μ' => 'u',
        'ν' => 'v',
        'ο' | 'σ' => 'o',
        'ρ' => 'p',
        'τ' => 't',
        'υ' => 'u',
        'χ' => 'x',
        'ω' => 'w',
        'ϲ' | 'ς' => 'c',
        // Latin letters that are drawn like others
        'ı' => 'i',
        'ɑ' => 'a',
        'ɡ' => 'g',
        'ᴏ' => 'o',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_so_many_bytes_and_no_more() {
        assert_eq!(check(&"n".repeat(39)).unwrap(), "n".repeat(39));
        let fault = check(&"n".repeat(40)).unwrap_err();
        assert!(fault.contains("39 bytes") && fault.contains("has 40"), "{fault}");
        // Bytes, not characters: 19 of two bytes and one more fit, 20 don't.
        assert!(check(&format!("{}a", "ї".repeat(19))).is_ok());
        assert!(check(&"ї".repeat(20)).is_err());
        for empty in ["", "  ", "\u{fe0f}"] {
            assert_eq!(check(empty).unwrap_err(), "a name is not empty");
        }
        assert_eq!(check("  Ana on the hill ").unwrap(), "Ana on the hill");
        assert_eq!(check("Ana ❤\u{fe0f}").unwrap(), "Ana ❤");
    }

    #[test]
    fn what_can_not_be_seen_is_refused_by_its_code() {
        for (c, code) in [
            ('\n', "U+000A"),
            ('\u{1b}', "U+001B"),
            ('\u{7f}', "U+007F"),
            ('\u{85}', "U+0085"),
            ('\u{ad}', "U+00AD"),
            ('\u{200b}', "U+200B"),
            ('\u{200d}', "U+200D"),
            ('\u{202e}', "U+202E"),
            ('\u{2028}', "U+2028"),
            ('\u{2066}', "U+2066"),
            ('\u{feff}', "U+FEFF"),
            ('\u{e0041}', "U+E0041"),
        ] {
            let fault = check(&format!("An{c}a")).unwrap_err();
            assert!(fault.ends_with(code), "{fault}");
        }
    }

    #[test]
    fn names_that_an_eye_can_not_tell_apart_look_alike() {
        for (one, other) in [
            ("Ana", "Ana"),
            ("Ana", "ANA"),
            ("Ana", "Аnа"),    // Cyrillic А and а
            ("Ana", "Αna"),    // Greek Α
            ("Ana", "Ａｎａ"), // full width
            ("Ana", "Ána"),
            ("Ana", "A\u{301}na"),
            ("Ana", "An\u{200b}a"),
            ("Ana  B", "Ana B"),
            ("Ivan", "lvan"),
            ("Ivan", "1van"),
            ("Bob", "B0b"),
            ("Marnie", "Mamie"),
            ("Andrew", "Andrevv"),
            ("HOME", "НОМЕ"),
            ("peter", "реtеr"),
        ] {
            assert!(look_alike(one, other), "{one} {other}");
            assert!(look_alike(other, one), "{other} {one}");
        }
        for (one, other) in [
            ("Ana", "Ben"),
            ("Ana", "Anna"),
            ("Ana", "Ana 2"),
            ("Лев", "Лов"),
            ("Lia", "Ila"),
            ("", ""),
            ("", "Ana"),
        ] {
            assert!(!look_alike(one, other), "{one} {other}");
        }
    }

    #[test]
    fn mixed_scripts_are_named() {
        assert_eq!(mixed_scripts("Аna"), Some(("Cyrillic", "Latin")));
        assert_eq!(mixed_scripts("Anα"), Some(("Latin", "Greek")));
        for one in ["Ana 2", "Оксана", "Ñandú", "mega", "山田 Ana", "1 2"] {
            assert_eq!(mixed_scripts(one), None, "{one}");
        }
    }

    proptest::proptest! {
        #[test]
        fn likeness_takes_any_text_and_a_kept_name_is_kept_again(text in "\\PC{0,30}") {
            let _ = Likeness::of(&text);
            if let Ok(kept) = check(&text) {
                assert!(kept.len() <= MAX_BYTES);
                assert_eq!(check(&kept).as_ref(), Ok(&kept));
                assert!(look_alike(&kept, &kept) || Likeness::of(&kept).drawn.is_empty());
            }
        }
    }
}
