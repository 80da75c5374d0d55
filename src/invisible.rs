//! Characters that are not seen: which they are, and where an emoji needs them.
//!
//! Owns the rule by which control, bidi and invisible characters leave a text. An answer may quote a
//! hostile text; what people can't see must not travel in it, nor turn the order of what they can.

use unicode_segmentation::UnicodeSegmentation as _;

const JOINER: char = '\u{200D}';
const EMOJI_STYLE: char = '\u{FE0F}';
const KEYCAP: char = '\u{20E3}';
const BLACK_FLAG: char = '\u{1F3F4}';
const END_TAG: char = '\u{E007F}';

/// Drops what is not seen, except inside a well-formed emoji. White space becomes a space or a line feed.
pub fn visible(text: &str) -> String {
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
