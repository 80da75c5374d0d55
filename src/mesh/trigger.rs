//! The trigger: which texts are questions.
//!
//! Owns the one rule by which a text is split into trigger and question. Must not know who wrote it.

use super::inbox;

/// The configured word, ready to compare.
#[derive(Debug, Clone)]
pub struct Trigger {
    word: String,
    folded: Vec<char>,
}

impl Trigger {
    /// The word as configured, cleaned like the texts that it is compared with. An empty one never matches.
    pub fn new(word: &str) -> Trigger {
        let word = inbox::clean(word.as_bytes());
        let folded = word.chars().flat_map(char::to_lowercase).collect();
        Trigger { word, folded }
    }

    /// The word, for showing.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// What follows the trigger, trimmed (empty for the bare trigger); `None` when the text doesn't start
    /// with it. White space before it doesn't matter, upper and lower case neither; it ends at white space,
    /// at a colon, or with the text.
    pub fn question<'a>(&self, text: &'a str) -> Option<&'a str> {
        let text = text.trim();
        let mut wanted = self.folded.iter().copied();
        let mut rest = text.chars();
        if wanted.len() == 0 {
            return None;
        }
        while wanted.len() > 0 {
            for folded in rest.next()?.to_lowercase() {
                if wanted.next() != Some(folded) {
                    return None;
                }
            }
        }
        let rest = rest.as_str();
        match rest.chars().next() {
            None => Some(""),
            Some(':') => Some(rest[1..].trim()),
            Some(c) if c.is_whitespace() => Some(rest.trim()),
            Some(_) => None,
        }
    }
}

/// Does the text start like a part of one of our answers (`2/3 `)? Two gateways that hear each other must not
/// start a conversation.
pub fn starts_with_part_mark(text: &str) -> bool {
    let Some((mark, _)) = text.trim_start().split_once(char::is_whitespace) else {
        return false;
    };
    let number = |digits: &str| {
        (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    mark.split_once('/').is_some_and(|(part, of)| number(part) && number(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_starts_with_the_whole_word() {
        let trigger = Trigger::new("!ai");
        for (text, question) in [
            ("!ai", Some("")),
            ("  !AI  ", Some("")),
            ("!ai:", Some("")),
            ("!Ai how much disk?", Some("how much disk?")),
            ("!ai: how much disk? ", Some("how much disk?")),
            ("!ai:now", Some("now")),
            ("\n!ai\nfirst line\nsecond", Some("first line\nsecond")),
            ("\u{a0}!ai\u{3000}全角", Some("全角")),
            ("!ai !ai again", Some("!ai again")),
            ("!ai : x", Some(": x")),
            ("!airport", None),
            ("!ai, hello", None),
            ("!ai-x", None),
            ("!a", None),
            ("", None),
            ("ai hello", None),
            ("hello !ai", None),
            ("!aı x", None),
        ] {
            assert_eq!(trigger.question(text), question, "{text:?}");
        }
    }

    #[test]
    fn case_is_ignored_beyond_ascii() {
        let trigger = Trigger::new("ÄFFCHEN");
        assert_eq!(trigger.question("äffchen hallo"), Some("hallo"));
        assert_eq!(trigger.question("Äffchen: hallo"), Some("hallo"));
        assert_eq!(trigger.question("affchen hallo"), None);
        let greek = Trigger::new("βοτ");
        assert_eq!(greek.question("ΒΟΤ γεια"), Some("γεια"));
        // One letter that becomes two when it is lowered must not split in the middle.
        assert_eq!(Trigger::new("i").question("İ x"), None);
        assert_eq!(Trigger::new("İ").question("İ x"), Some("x"));
    }

    #[test]
    fn an_empty_trigger_matches_nothing_and_an_emoji_matches_with_or_without_its_selector() {
        assert_eq!(Trigger::new("").question(""), None);
        assert_eq!(Trigger::new(" \u{200b}").question("x"), None);
        let heart = Trigger::new("❤\u{fe0f}");
        assert_eq!(heart.question(&inbox::clean("❤\u{fe0f} hi".as_bytes())), Some("hi"));
        assert_eq!(heart.question(&inbox::clean("❤ hi".as_bytes())), Some("hi"));
    }

    #[test]
    fn our_own_part_marks_are_known() {
        for text in ["2/3 and so on", " 1/12 x", "10/12\nx"] {
            assert!(starts_with_part_mark(text), "{text:?}");
        }
        for text in ["2/3", "2/3and", "a/3 x", "/3 x", "2/ x", "2 /3 x", "1/2/3 x", "1234/3 x", ""]
        {
            assert!(!starts_with_part_mark(text), "{text:?}");
        }
    }
}
