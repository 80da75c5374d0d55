//! A licensed (amateur) station: whether its radio says who it is, as often as the rules want it.
//!
//! Owns what a call sign looks like and how often it has to be on the air. Sends nothing: the radio announces
//! its name by itself, and a name without a call sign, or announced too rarely, keeps everything else back.

use super::RadioInfo;

/// A station identifies itself at least so often (47 CFR 97.119(a)), seconds.
pub const IDENTIFY_EVERY_S: u32 = 600;
/// What the firmware does with 0, seconds.
const FIRMWARE_DEFAULT_S: u32 = 10_800;

/// Does the station say who it is? Of a radio that is not licensed nothing is wanted.
///
/// # Errors
/// What is missing, and what would be right; for people.
pub fn identified(radio: &RadioInfo) -> Result<(), String> {
    if !radio.owner.licensed {
        return Ok(());
    }
    if call_sign(&radio.owner.long_name).is_none() {
        return Err("licensed mode, and the radio's name holds no call sign: begin its long name with it, in \
                    capitals"
            .to_owned());
    }
    let every = match radio.announces_every_s {
        0 => FIRMWARE_DEFAULT_S,
        seconds => seconds,
    };
    if every > IDENTIFY_EVERY_S {
        return Err(format!(
            "licensed mode, and the radio announces its call sign only every {every} s: set \
             device.node_info_broadcast_secs to {IDENTIFY_EVERY_S} or less"
        ));
    }
    Ok(())
}

/// The first word of a name that has the form of a call sign: a prefix with at most three signs, a digit, and one
/// to four letters at its end.
pub fn call_sign(name: &str) -> Option<&str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| {
        let Some(digit) = word.rfind(|c: char| c.is_ascii_digit()) else { return false };
        let (prefix, rest) = word.split_at(digit);
        let suffix = rest.get(1..).unwrap_or_default();
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        (1..=3).contains(&prefix.len())
            && prefix.chars().all(plain)
            && prefix.chars().any(|c| c.is_ascii_uppercase())
            && (1..=4).contains(&suffix.len())
            && suffix.chars().all(|c| c.is_ascii_uppercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeNum;
    use crate::radio::{LoraSettings, NodeInfo};

    #[test]
    fn a_call_sign_is_told_from_other_words() {
        for (name, sign) in [
            ("N0CALL", Some("N0CALL")),
            ("N0CALL Hilltop", Some("N0CALL")),
            ("Hilltop 9A0AA", Some("9A0AA")),
            ("2E0AAA/P", Some("2E0AAA")),
            ("XX1A", Some("XX1A")),
            ("Hilltop", None),
            ("NODE2", None),
            ("n0call", None),
            ("0ABC", None),
            ("12ABC", None),
            ("ABCD1EF", None),
            ("A1BCDEF", None),
            ("A1", None),
            ("", None),
            ("🔔é!", None),
        ] {
            assert_eq!(call_sign(name), sign, "{name}");
        }
    }

    #[test]
    fn a_licensed_station_has_its_call_sign_on_the_air_every_ten_minutes() {
        let radio = |licensed, name: &str, announces_every_s| RadioInfo {
            session: 0,
            port: String::new(),
            my_node: NodeNum(7),
            public_key: None,
            owner: NodeInfo { num: 7, long_name: name.to_owned(), licensed, ..NodeInfo::default() },
            firmware: "2.7.26".to_owned(),
            role: 0,
            announces_every_s,
            lora: LoraSettings::default(),
            channels: Vec::new(),
            nodes: Vec::new(),
        };
        for (licensed, name, every, wrong) in [
            (true, "N0CALL", 600, None),
            (true, "N0CALL", 1, None),
            (true, "N0CALL", 601, Some("every 601 s")),
            (true, "N0CALL", 0, Some("every 10800 s")),
            (true, "Hilltop", 600, Some("no call sign")),
            (false, "Hilltop", 0, None),
        ] {
            let found = identified(&radio(licensed, name, every)).err();
            match wrong {
                None => assert_eq!(found, None, "{name} {every}"),
                Some(words) => assert!(found.unwrap().contains(words), "{name} {every}"),
            }
        }
    }
}
