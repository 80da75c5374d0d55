//! Commands: the one-word texts that no model is asked about.
//!
//! Owns their names and the fixed words that they are answered with. Must not act: what a command does is
//! `service`'s matter.

use super::inbox::Signal;

/// A text that is answered without a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// What this is and what can be asked.
    Help,
    /// The next parts of a long answer.
    More,
    /// Stops the running turn and what has not left yet.
    Stop,
    /// How the peer is heard.
    Ping,
    /// `ok CODE` or `no CODE`: for the confirm gate, never for a model.
    Confirmation,
}

impl Command {
    /// The command that the whole text is; `None` for a question. The empty text (a bare trigger) asks for help.
    pub fn parse(text: &str) -> Option<Command> {
        let mut words = text.split_whitespace();
        let first = words.next().map(str::to_lowercase);
        let second = words.next();
        if words.next().is_some() {
            return None;
        }
        match (first.as_deref(), second) {
            (None | Some("help"), None) => Some(Command::Help),
            (Some("more"), None) => Some(Command::More),
            (Some("stop"), None) => Some(Command::Stop),
            (Some("ping"), None) => Some(Command::Ping),
            (Some("ok" | "no"), None) => Some(Command::Confirmation),
            (Some("ok" | "no"), Some(code)) if is_code(code) => Some(Command::Confirmation),
            _ => None,
        }
    }
}

/// Could that word be a confirmation code? Wide on purpose: no code may reach a model, while a question of two
/// words that starts with `ok` or `no` can be asked again with a third.
fn is_code(word: &str) -> bool {
    word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The text with a confirmation code masked, for message lists and logs. `question` is the part of `text` after the
/// trigger, or the whole of it.
pub fn masked(text: &str, question: &str) -> String {
    if Command::parse(question) != Some(Command::Confirmation) {
        return text.to_owned();
    }
    let mut words = question.split_whitespace();
    match (text.strip_suffix(question), words.next(), words.next()) {
        (Some(before), Some(word), Some(_code)) => format!("{before}{word} …"),
        _ => text.to_owned(),
    }
}

/// The answer to `help`: one message even on a channel (160 bytes) with a trigger of up to eight bytes.
pub fn help(trigger: &str) -> String {
    format!(
        "I am an AI: best effort, can be wrong, NOT an emergency service. \
         Ask: {trigger} your question. Or {trigger} more, stop, ping, help."
    )
}

/// The answer to `ping`.
pub fn pong(signal: &Signal) -> String {
    let mut text = format!("pong: SNR {:.1} dB", signal.snr);
    if let Some(rssi) = signal.rssi {
        text.push_str(&format!(", RSSI {rssi} dBm"));
    }
    match signal.hops {
        Some(0) => text.push_str(", heard directly"),
        Some(1) => text.push_str(" on the last leg, 1 hop"),
        Some(hops) => text.push_str(&format!(" on the last leg, {hops} hops")),
        None => {}
    }
    text
}

/// The answer to `stop`: did anything stop?
pub fn stopped(anything: bool) -> &'static str {
    if anything { "Stopped." } else { "Nothing to stop." }
}

/// The answer to `more` when nothing is kept.
pub const NOTHING_MORE: &str = "Nothing more.";
/// The answer to `ok` and `no` while nothing waits for a confirmation.
pub const NOTHING_TO_CONFIRM: &str = "Nothing to confirm.";
/// The end of a turn that brought no answer.
pub const NO_ANSWER: &str = "Sorry, I could not answer that just now. Please try again later.";
/// Over the hourly budget, once a window.
pub const OVER_BUDGET: &str = "That was a lot of questions. Please try again later.";

/// Too many questions wait, once a window.
pub fn busy(minutes: u64) -> String {
    format!("Busy, please try again in {minutes} min.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_whole_text() {
        for (text, command) in [
            ("", Some(Command::Help)),
            ("help", Some(Command::Help)),
            (" HELP\n", Some(Command::Help)),
            ("more", Some(Command::More)),
            ("Stop", Some(Command::Stop)),
            ("ping", Some(Command::Ping)),
            ("ok", Some(Command::Confirmation)),
            ("no", Some(Command::Confirmation)),
            ("ok 7KQ2M", Some(Command::Confirmation)),
            ("NO 7kq2m", Some(Command::Confirmation)),
            ("help me", None),
            ("more about disks", None),
            ("stop it", None),
            ("ping?", None),
            ("ok what now", None),
            ("no, why?", None),
            ("ok why?", None),
            ("yes", None),
        ] {
            assert_eq!(Command::parse(text), command, "{text:?}");
        }
    }

    #[test]
    fn help_is_one_message_and_says_what_it_must() {
        let text = help("!ai");
        assert!(text.len() <= 160, "{} bytes", text.len());
        assert!(help("12345678").len() <= 160);
        for word in ["AI", "best effort", "emergency", "more", "stop", "ping", "help"] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_code_is_masked_and_nothing_else() {
        assert_eq!(masked("!ai ok 7KQ2M", "ok 7KQ2M"), "!ai ok …");
        assert_eq!(masked("!ai no ai", "no ai"), "!ai no …");
        assert_eq!(masked("!ai no", "no"), "!ai no");
        assert_eq!(masked("!ai ok then what", "ok then what"), "!ai ok then what");
    }

    #[test]
    fn ping_says_only_what_is_known() {
        let signal = Signal { snr: 6.25, rssi: Some(-45), hops: Some(0) };
        assert_eq!(pong(&signal), "pong: SNR 6.2 dB, RSSI -45 dBm, heard directly");
        let signal = Signal { snr: -7.5, rssi: None, hops: None };
        assert_eq!(pong(&signal), "pong: SNR -7.5 dB");
        let signal = Signal { snr: 1.0, rssi: Some(-90), hops: Some(2) };
        assert_eq!(pong(&signal), "pong: SNR 1.0 dB, RSSI -90 dBm on the last leg, 2 hops");
    }
}
