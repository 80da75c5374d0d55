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
    /// The last parts once more, or that part (from 1).
    Again(Option<usize>),
    /// The last answer in fewer words: the one command that a model is asked about.
    Short,
    /// A fresh conversation.
    New,
    /// Deletes what is kept of the peer, when it comes twice.
    Forget,
    /// How things stand: the peer's question, the model, the air.
    Status,
    /// How the peer is seen.
    Who,
    /// Stops the running turn and what has not left yet.
    Stop,
    /// How the peer is heard.
    Ping,
    /// A call for help, with or without words: see [`distress`].
    Sos,
    /// `ok CODE` or `no CODE`: for the confirm gate, never for a model.
    Confirmation,
}

impl Command {
    /// The command that the whole text is; `None` for a question. The empty text (a bare trigger) asks for help.
    pub fn parse(text: &str) -> Option<Command> {
        if distress(text).is_some() {
            return Some(Command::Sos);
        }
        let mut words = text.split_whitespace();
        let first = words.next().map(str::to_lowercase);
        let second = words.next();
        if words.next().is_some() {
            return None;
        }
        match (first.as_deref(), second) {
            (None | Some("help"), None) => Some(Command::Help),
            (Some("more"), None) => Some(Command::More),
            (Some("again"), None) => Some(Command::Again(None)),
            (Some("again"), Some(part)) => part_number(part).map(|n| Command::Again(Some(n))),
            (Some("short"), None) => Some(Command::Short),
            (Some("new"), None) => Some(Command::New),
            (Some("forget"), None) => Some(Command::Forget),
            (Some("status"), None) => Some(Command::Status),
            (Some("who"), None) => Some(Command::Who),
            (Some("stop"), None) => Some(Command::Stop),
            (Some("ping"), None) => Some(Command::Ping),
            (Some("ok" | "no"), None) => Some(Command::Confirmation),
            (Some("ok" | "no"), Some(code)) if is_code(code) => Some(Command::Confirmation),
            _ => None,
        }
    }
}

/// What follows `sos` where that is the first word, perhaps nothing; `None` for any other text. Marks may stand right
/// behind the word, as people write them in haste (`SOS!!! broken leg`); a question mark may not, nor anything that makes
/// another word of it.
pub fn distress(text: &str) -> Option<&str> {
    let text = text.trim();
    let (word, rest) = (text.get(..3)?, text.get(3..)?);
    let other_word = |c: char| c.is_alphanumeric() || matches!(c, '?' | '_' | '\'' | '’');
    if !word.eq_ignore_ascii_case("sos") || rest.starts_with(other_word) {
        return None;
    }
    Some(rest.trim_start_matches(|c: char| c.is_whitespace() || "!.,:;-–—…*".contains(c)))
}

/// `2`, or `2/5` as it stands in front of a part.
fn part_number(word: &str) -> Option<usize> {
    let (part, of) = word.split_once('/').unwrap_or((word, "1"));
    let number = |digits: &str| {
        let plain = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| plain)
    };
    number(of).and(number(part))
}

/// Could that word be a confirmation code? Wide on purpose: no code may reach a model, while a question of two
/// words that starts with `ok` or `no` can be asked again with a third.
fn is_code(word: &str) -> bool {
    word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// What `ok CODE` (true) or `no CODE` (false) says, and the code; `None` without one.
pub fn confirmation(question: &str) -> Option<(bool, &str)> {
    let mut words = question.split_whitespace();
    let yes = match words.next()?.to_lowercase().as_str() {
        "ok" => true,
        "no" => false,
        _ => return None,
    };
    let code = words.next().filter(|code| is_code(code))?;
    words.next().is_none().then_some((yes, code))
}

/// The code in `pair CODE`; `None` for any other text.
pub fn pairing_code(question: &str) -> Option<&str> {
    let mut words = question.split_whitespace();
    let is_pair = words.next().is_some_and(|word| word.eq_ignore_ascii_case("pair"));
    let code = words.next().filter(|word| is_pair && is_code(word));
    code.filter(|_| words.next().is_none())
}

/// The text with a code masked that confirms or pairs, for message lists and logs. `question` is the part of `text` after
/// the trigger, or the whole of it.
pub fn masked(text: &str, question: &str) -> String {
    let confirms = Command::parse(question) == Some(Command::Confirmation);
    if !confirms && pairing_code(question).is_none() {
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
        "AI, best effort, can be wrong, NOT an emergency service. {trigger} question, or {trigger} \
         more/again/short/stop/new/forget/status/who/ping/sos/help"
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

mod words;
pub use words::*;

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
            ("again", Some(Command::Again(None))),
            ("Again 2", Some(Command::Again(Some(2)))),
            ("again 2/5", Some(Command::Again(Some(2)))),
            ("again 0", Some(Command::Again(Some(0)))),
            ("again 1000", None),
            ("again +1", None),
            ("again 2/", None),
            ("again and again", None),
            ("short", Some(Command::Short)),
            ("short answer", None),
            ("new", Some(Command::New)),
            ("FORGET", Some(Command::Forget)),
            ("forget it", None),
            ("status", Some(Command::Status)),
            ("who", Some(Command::Who)),
            ("who are you", None),
            ("ok what now", None),
            ("no, why?", None),
            ("ok why?", None),
            ("yes", None),
            ("sos", Some(Command::Sos)),
            ("SOS broken leg at the causeway", Some(Command::Sos)),
            ("what is sos", None),
        ] {
            assert_eq!(Command::parse(text), command, "{text:?}");
        }
    }

    #[test]
    fn help_is_one_message_and_says_what_it_must() {
        let text = help("!ai");
        assert!(text.len() <= 160, "{} bytes", text.len());
        assert!(help("12345678").len() <= 160);
        let commands = "more again short stop new forget status who ping sos help";
        for word in ["AI", "best effort", "emergency"].into_iter().chain(commands.split(' ')) {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_distress_text_begins_with_the_word() {
        for (text, words) in [
            ("sos", Some("")),
            (" SOS ", Some("")),
            ("Sos broken leg", Some("broken leg")),
            ("sos\nbroken\nleg", Some("broken\nleg")),
            ("SOS!!! broken leg", Some("broken leg")),
            ("sos: broken leg", Some("broken leg")),
            ("sos,broken leg", Some("broken leg")),
            ("sos...", Some("")),
            ("sos – leg, 3 people", Some("leg, 3 people")),
            ("sos 🆘", Some("🆘")),
            ("sos sos sos", Some("sos sos")),
            ("sos help?", Some("help?")),
            ("sos?", None),
            ("soso", None),
            ("sos1", None),
            ("sosж", None),
            ("sos_button", None),
            ("sos's meaning", None),
            ("so", None),
            ("", None),
            ("что sos", None),
            ("жsos", None),
            ("help", None),
            ("help sos", None),
            ("what is sos", None),
            ("!sos", None),
            ("mayday", None),
        ] {
            assert_eq!(distress(text), words, "{text:?}");
            assert_eq!(Command::parse(text) == Some(Command::Sos), words.is_some(), "{text:?}");
        }
    }

    #[test]
    fn the_acknowledgement_of_a_distress_text_says_what_it_must() {
        for word in ["SOS", "NOT 911/112", "NOBODY", "people in range"] {
            assert!(DISTRESS_SHOWN.contains(word), "{word}");
        }
        assert!(DISTRESS_SHOWN.len() <= 160 && DISTRESS_SHOWN.is_ascii());
    }

    #[test]
    fn a_pairing_code_is_the_one_word_after_pair() {
        for (text, code) in [
            ("pair 7KQ2M", Some("7KQ2M")),
            (" PAIR  7k-q2m ", Some("7k-q2m")),
            ("pair", None),
            ("pair my phone", None),
            ("pair 7KQ2M now", None),
            ("pair шлюз", None),
            ("repair 7KQ2M", None),
            ("", None),
        ] {
            assert_eq!(pairing_code(text), code, "{text:?}");
        }
        assert!(paired(&"n".repeat(39), &"t".repeat(20)).len() <= 200);
        assert_eq!(paired("Ana", "!ai"), "Paired as Ana. Send: !ai help");
    }

    #[test]
    fn a_code_is_masked_and_nothing_else() {
        assert_eq!(masked("!ai pair 7KQ2M", "pair 7KQ2M"), "!ai pair …");
        assert_eq!(masked("pair 7KQ2M", "pair 7KQ2M"), "pair …");
        assert_eq!(masked("!ai pair my phone", "pair my phone"), "!ai pair my phone");
        assert_eq!(masked("!ai ok 7KQ2M", "ok 7KQ2M"), "!ai ok …");
        assert_eq!(masked("!ai no ai", "no ai"), "!ai no …");
        assert_eq!(masked("!ai no", "no"), "!ai no");
        assert_eq!(masked("!ai ok then what", "ok then what"), "!ai ok then what");
    }

    #[test]
    fn a_confirmation_is_a_word_and_a_code() {
        assert_eq!(confirmation("ok ACDEF"), Some((true, "ACDEF")));
        assert_eq!(confirmation(" NO  acdef "), Some((false, "acdef")));
        for none in ["ok", "no", "", "yes ACDEF", "ok a b", "ok why?", "ok ACDEFGHJKMNPQRTUV"] {
            assert_eq!(confirmation(none), None, "{none}");
        }
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
