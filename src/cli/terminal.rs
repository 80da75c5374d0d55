//! What may stand on a terminal.
//!
//! Owns the rule that no text of a model, a file or a server steers it, and whether there is colour. Text
//! for standard error goes through here: a closed one is no reason to break off.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::invisible::{hidden, legible};

/// An answer for a person: without what would steer a terminal, turn the order of its letters or not be seen. Lines are
/// only where a line feed is.
pub fn printable(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let text: String = text.chars().filter(|c| matches!(c, '\n' | '\t') || !breaks(*c)).collect();
    legible(&text)
}

/// The value as JSON on one line, with everything that is not seen written as an escape: what stands
/// there is exactly what is meant, and still JSON.
pub fn exact(value: &Value) -> String {
    let mut shown = String::new();
    for c in value.to_string().chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Standard output, at once.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("printing")
}

/// One line on standard error, as every complaint of this program.
pub fn complain(words: &str) {
    note(&format!("tombolo: {words}"));
}

/// One line on standard error.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Colour on standard error: only on a terminal, and not where nobody wants it.
pub fn has_colour() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let able = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    wanted && able && std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\r\u{9b}b\n\tc\u{202E}d"), "a[2Jb\n\tcd");
        assert_eq!(printable("a\u{200b}b\u{e0041}c\u{2028}d ❤\u{fe0f}"), "abcd ❤\u{fe0f}");
        assert_eq!(printable("👩\u{200D}🔬"), "👩\u{200D}🔬");
    }

    #[test]
    fn what_is_asked_for_is_shown_exactly_and_stays_json() {
        for text in ["rm x\u{1b}[2K\r", "a\u{202E}b", "\u{7f}\u{9b}", "\u{E0041}", "ä\"\\", "a\nb"]
        {
            let value = json!({ "command": text });
            let shown = exact(&value);
            assert!(shown.chars().all(|c| !hidden(c)), "{shown:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
        assert_eq!(exact(&json!("a\u{202E}")), "\"a\\u202e\"");
    }
}
