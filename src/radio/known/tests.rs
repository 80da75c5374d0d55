//! Which radio is the same one, and what is kept of it.

use super::*;
use crate::radio::{LoraSettings, NodeInfo};

fn radio(node: u32, key: Option<u8>) -> RadioInfo {
    let node = NodeNum(node);
    RadioInfo {
        session: 0,
        port: String::new(),
        my_node: node,
        public_key: key.map(|byte| PublicKey([byte; 32])),
        owner: NodeInfo {
            num: node.0,
            long_name: "Hilltop\x1b[2J".to_owned(),
            ..NodeInfo::default()
        },
        firmware: "2.7.26".to_owned(),
        role: 0,
        announces_every_s: 0,
        lora: LoraSettings { region: 3, ..LoraSettings::default() },
        channels: Vec::new(),
        nodes: Vec::new(),
    }
}

fn unset(mut radio: RadioInfo) -> RadioInfo {
    radio.lora.region = 0;
    radio
}

#[test]
fn the_first_radio_is_taken_and_another_one_is_refused_after_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    assert!(known.admit(&radio(7, Some(1))).is_ok());
    for known in [known, KnownRadio::open(folder.path()).unwrap()] {
        let refused = known.admit(&radio(7, Some(2))).unwrap_err();
        assert_eq!(refused.fingerprint, PublicKey([2; 32]).fingerprint());
        assert_eq!((refused.node, refused.owner.as_str()), (NodeNum(7), "Hilltop\u{fffd}[2J"));
        assert!(refused.to_string().contains(&refused.fingerprint), "{refused}");
        assert!(known.admit(&radio(7, Some(1))).is_ok(), "the right one is still right");
        assert!(matches!(known.accept(&refused.fingerprint), Err(NotAccepted::NoneRefused)));
    }
}

#[test]
fn the_key_is_the_radio_and_the_number_only_where_there_is_none() {
    for (first, then, same) in [
        ((7, Some(1)), (7, Some(1)), true),
        ((7, Some(1)), (8, Some(1)), true), // the number follows the key
        ((7, Some(1)), (7, Some(2)), false),
        ((7, Some(1)), (7, None), false), // a number proves nothing
        ((7, None), (7, None), true),
        ((7, None), (8, None), false),
        ((7, None), (7, Some(1)), true), // newer firmware gave it a key
        ((7, None), (8, Some(1)), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownRadio::open(folder.path()).unwrap();
        assert!(known.admit(&radio(first.0, first.1)).is_ok());
        assert_eq!(known.admit(&radio(then.0, then.1)).is_ok(), same, "{first:?} {then:?}");
    }
    // And from then on it is the key.
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    for (key, good) in [(None, true), (Some(1), true), (None, false), (Some(2), false)] {
        assert_eq!(known.admit(&radio(7, key)).is_ok(), good, "{key:?}");
    }
}

#[test]
fn a_radio_that_has_yet_to_be_set_up_is_used_and_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    assert!(known.admit(&unset(radio(7, None))).is_ok());
    // Its first region gives it a key, and newer firmware another number.
    assert!(known.admit(&radio(8, Some(1))).is_ok());
    assert!(known.admit(&unset(radio(7, None))).is_err(), "now there is one");
    assert!(known.admit(&unset(radio(7, Some(1)))).is_ok());
}

#[test]
fn accepted_is_the_one_that_waits_by_its_fingerprint_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    assert!(matches!(known.accept(""), Err(NotAccepted::NoneRefused)));
    known.admit(&radio(7, Some(1))).unwrap();
    let refused = known.admit(&radio(8, Some(2))).unwrap_err();
    for wrong in ["", "!00000008", &PublicKey([1; 32]).fingerprint()] {
        let error = known.accept(wrong).unwrap_err();
        assert!(error.to_string().contains(&refused.fingerprint), "{error}");
    }
    assert!(known.admit(&radio(8, Some(2))).is_err());
    let sloppy = format!(" {} ", refused.fingerprint.to_uppercase().replace(' ', ""));
    known.accept(&sloppy).unwrap();
    for known in [known, KnownRadio::open(folder.path()).unwrap()] {
        assert!(known.admit(&radio(8, Some(2))).is_ok());
        assert!(known.admit(&radio(7, Some(1))).is_err(), "the old one is another one now");
    }
}

#[test]
fn a_radio_without_a_key_is_accepted_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    known.admit(&radio(7, Some(1))).unwrap();
    let refused = known.admit(&radio(7, None)).unwrap_err();
    assert_eq!(refused.fingerprint, "!00000007");
    assert!(refused.to_string().contains("without a key"), "{refused}");
    known.accept("!00000007").unwrap();
    assert!(known.admit(&radio(7, None)).is_ok());
}

#[test]
fn what_waited_and_is_gone_cannot_be_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownRadio::open(folder.path()).unwrap();
    known.admit(&radio(7, Some(1))).unwrap();
    let refused = known.admit(&radio(8, Some(2))).unwrap_err();
    known.gone();
    assert!(matches!(known.accept(&refused.fingerprint), Err(NotAccepted::NoneRefused)));
}

#[test]
#[allow(clippy::disallowed_methods)] // a test lays out files of its own
fn a_broken_file_stops_the_start_and_a_folder_that_cannot_be_written_accepts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "{\"key\":1}").unwrap();
    let error = KnownRadio::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains(FILE), "{error}");
    std::fs::remove_file(folder.path().join(FILE)).unwrap();

    let known = KnownRadio::open(folder.path()).unwrap();
    known.admit(&radio(7, Some(1))).unwrap();
    let refused = known.admit(&radio(8, Some(2))).unwrap_err();
    drop(folder);
    assert!(matches!(known.accept(&refused.fingerprint), Err(NotAccepted::Store(_))));
    assert!(known.admit(&radio(8, Some(2))).is_err(), "not accepted, not even in memory");
}

#[test]
fn where_any_radio_will_do_nothing_is_checked() {
    let known = KnownRadio::any();
    for key in [1, 2] {
        assert!(known.admit(&radio(7, Some(key))).is_ok());
    }
}
