//! Characters that are not seen: which they are, and where an emoji needs them.
//!
//! Owns the one rule by which control, bidi and invisible characters leave a text. An answer may quote a
//! hostile text; what people can't see must not travel in it, nor turn the order of what they can.

use unicode_segmentation::UnicodeSegmentation as _;

const JOINER: char = '\u{200D}';
const NON_JOINER: char = '\u{200C}';
const EMOJI_STYLE: char = '\u{FE0F}';
const KEYCAP: char = '\u{20E3}';
const BLACK_FLAG: char = '\u{1F3F4}';
const END_TAG: char = '\u{E007F}';

/// Drops what is not seen, except inside a well-formed emoji. White space becomes a space or a line feed.
pub fn visible(text: &str) -> String {
    cleaned(text, false)
}

/// The same for where nobody counts bytes: tabs stay, and the joiners with which some scripts spell.
pub fn legible(text: &str) -> String {
    text.split('\t').map(|part| cleaned(part, true)).collect::<Vec<_>>().join("\t")
}

/// The beginning of a foreign text as one word in a line of ours: at most so many characters, all of them seen.
pub fn word(text: &str, max: usize) -> String {
    text.chars().filter(|c| !hidden(*c)).take(max).collect()
}

/// From Arabic to Sinhala, where a zero-width joiner is spelling and not a trick.
pub fn spells_with_joiners(c: char) -> bool {
    ('\u{0600}'..='\u{0dff}').contains(&c)
}

fn cleaned(text: &str, spelling: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let rest = chars.get(at + 1..).unwrap_or_default();
        at += 1;
        match c {
            '\r' if rest.first() == Some(&'\n') => {}
            '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            c if c.is_whitespace() => out.push(' '),
            BLACK_FLAG => {
                let tags = flag_tags(rest);
                out.push(c);
                out.extend(rest.iter().take(tags));
                at += tags;
            }
            c if !hidden(c) || joins_emoji(c, &out, rest) => out.push(c),
            JOINER | NON_JOINER if spelling && joins_letters(&out, rest) => out.push(c),
            _ => {}
        }
    }
    out
}

/// Is it a character that nobody sees, or that only steers others?
pub fn hidden(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || code & 0xFFFE == 0xFFFE
        || matches!(code,
            0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164
            | 0xFDD0..=0xFDEF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFC
            | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

/// Whether `c`, hidden by itself, holds an emoji together: the emoji style after a pictograph or in a
/// keycap, the joiner between two pictographs. `before` is what has been kept so far.
fn joins_emoji(c: char, before: &str, rest: &[char]) -> bool {
    let mut back = before.chars().rev();
    let last = back.next();
    let next = rest.first().copied();
    match c {
        EMOJI_STYLE => {
            last.is_some_and(pictograph)
                || (next == Some(KEYCAP)
                    && last.is_some_and(|l| l.is_ascii_digit() || l == '#' || l == '*'))
        }
        JOINER if next.is_some_and(pictograph) => match last {
            Some(EMOJI_STYLE | '\u{1F3FB}'..='\u{1F3FF}') => back.next().is_some_and(pictograph),
            Some(l) => pictograph(l),
            None => false,
        },
        _ => false,
    }
}

fn joins_letters(before: &str, rest: &[char]) -> bool {
    before.chars().next_back().is_some_and(spells_with_joiners)
        && rest.first().copied().is_some_and(spells_with_joiners)
}

/// How many tag characters follow a black flag as the name of a region: at most six of `a`–`z`, `0`–`9`,
/// and the end. Any other run of tags is hidden text.
fn flag_tags(rest: &[char]) -> usize {
    let name = rest
        .iter()
        .take_while(|c| matches!(**c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}'))
        .count();
    if (3..=6).contains(&name) && rest.get(name) == Some(&END_TAG) { name + 1 } else { 0 }
}

/// Is it a pictograph by the Unicode tables? Only those join with a joiner into one grapheme.
pub fn pictograph(c: char) -> bool {
    if c.is_ascii() || hidden(c) {
        return false;
    }
    let pair: String = [c, JOINER, c].iter().collect();
    let lone: String = ['a', c].iter().collect(); // a combining mark joins with anything
    pair.graphemes(true).count() == 1 && lone.graphemes(true).count() == 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_seen_stays_and_what_is_not_goes() {
        for (text, visible_now, legible_now) in [
            ("a\u{202e}b\u{200b}c\u{7}\u{e0041}d", "abcd", "abcd"),
            ("a\tb\r\nc\u{2028}d", "a b\nc\nd", "a\tb\nc\nd"),
            (
                "👩\u{200d}🚀 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
                "👩\u{200d}🚀 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
                "👩\u{200d}🚀 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
            ),
            // Joiners as spelling, and between letters that need none.
            ("می\u{200c}خواهم", "میخواهم", "می\u{200c}خواهم"),
            ("a\u{200c}b\u{200d}c", "abc", "abc"),
            ("م\u{200c}\u{200c}\u{200c}ی", "می", "م\u{200c}ی"),
        ] {
            assert_eq!(visible(text), visible_now, "{text:?}");
            assert_eq!(legible(text), legible_now, "{text:?}");
        }
        assert_eq!(word("a\u{1b}[2J\n\u{202e}b\u{e0041}", 5), "a[2Jb");
        assert_eq!(word("abcdef", 5), "abcde");
    }

    proptest! {
        #[test]
        fn a_text_that_was_cleaned_stays_as_it_is(text in any::<String>()) {
            let once = legible(&text);
            prop_assert_eq!(&legible(&once), &once);
            let once = visible(&text);
            prop_assert_eq!(&visible(&once), &once);
            prop_assert!(!word(&text, 50).chars().any(hidden));
        }
    }
}
