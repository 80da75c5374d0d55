//! The record of distress texts: bounds, what gives way, and what a file survives.

use proptest::prelude::*;

use super::*;
use crate::node::NodeNum;

fn now(unix_ms: u64) -> Now {
    Now { mono_ms: unix_ms, unix_ms }
}

/// A text of `peer`, whose packet is named by `id`.
fn text(peer: &str, id: usize, assurance: Assurance) -> Distress {
    Distress {
        peer: PeerId(peer.to_owned()),
        view: DistressView {
            id: TurnId(format!("m-{peer}-{id}")),
            at: id as u64,
            first_at: id as u64,
            times: 1,
            node: NodeNum(7),
            name: peer.to_owned(),
            assurance,
            fingerprint: None,
            claims: None,
            channel: None,
            mqtt: false,
            text: format!("text {id}"),
            seen_at: None,
            snr: Some(-3.5),
            hops: None,
        },
    }
}

fn stranger(peer: &str, id: usize) -> Distress {
    text(peer, id, Assurance::Unverified)
}

fn contact(peer: &str, id: usize) -> Distress {
    text(peer, id, Assurance::Verified)
}

fn ids(book: &DistressBook) -> Vec<String> {
    book.view().into_iter().map(|view| view.id.0).collect()
}

fn of(book: &DistressBook, peer: &str) -> usize {
    book.view().iter().filter(|view| view.name == peer).count()
}

fn open() -> (tempfile::TempDir, DistressBook) {
    let folder = tempfile::tempdir().unwrap();
    let book = DistressBook::open(folder.path()).unwrap();
    (folder, book)
}

#[test]
fn texts_stand_newest_first_until_a_person_clears_them_and_survive() {
    let (folder, mut book) = open();
    for id in 1..=2 {
        assert_eq!(book.record(contact("ana", id)).unwrap(), Recorded::New);
    }
    assert_eq!(book.record(contact("ana", 2)).unwrap(), Recorded::Known);
    assert_eq!(ids(&book), ["m-ana-2", "m-ana-1"]);
    let first = TurnId("m-ana-1".to_owned());
    assert_eq!(book.clear(&TurnId("m-x".to_owned()), now(9)).unwrap(), Cleared::Unknown);
    assert_eq!(book.clear(&first, now(9)).unwrap(), Cleared::Now);
    assert_eq!(book.clear(&first, now(10)).unwrap(), Cleared::Already);
    assert!(store::is_private(book.path()).unwrap());

    let mut again = DistressBook::open(folder.path()).unwrap();
    assert_eq!(again.view(), book.view());
    assert_eq!((again.uncleared(), again.len(), again.warning()), (1, 2, None));
    assert_eq!(again.view()[1].seen_at, Some(9));
    assert_eq!(again.record(contact("ana", 1)).unwrap(), Recorded::Known, "cleared, and known");
}

#[test]
fn the_same_words_again_are_one_text_under_the_newest_packet() {
    let (_folder, mut book) = open();
    let again = |id: usize| {
        let mut again = contact("ana", id);
        "help".clone_into(&mut again.view.text);
        again
    };
    for id in 1..=9 {
        book.record(again(id)).unwrap();
    }
    book.record(contact("ben", 1)).unwrap();
    let view = &book.view()[1];
    assert_eq!((view.id.0.as_str(), view.times, view.first_at, view.at), ("m-ana-9", 9, 1, 9));
    assert_eq!(book.len(), 2);
    // Whoever clears the call that is shown has not seen the next one.
    book.clear(&TurnId("m-ana-9".to_owned()), now(50)).unwrap();
    book.record(again(10)).unwrap();
    assert_eq!((book.uncleared(), book.view()[0].times), (2, 1));
    let mut elsewhere = again(11);
    elsewhere.view.channel = Some("bots".to_owned());
    book.record(elsewhere).unwrap();
    assert_eq!(book.uncleared(), 3, "in another place it is another");
}

#[test]
fn one_caller_has_so_many_and_no_more() {
    let (_folder, mut book) = open();
    for id in 1..=MOST_OF_ONE {
        book.record(contact("ana", id)).unwrap();
    }
    book.clear(&TurnId("m-ana-3".to_owned()), now(1)).unwrap();
    assert_eq!(book.len(), MOST_OF_ONE);
    book.record(contact("ana", 5)).unwrap();
    assert_eq!(ids(&book), ["m-ana-5", "m-ana-4", "m-ana-2", "m-ana-1"], "a cleared one first");
    book.record(contact("ana", 6)).unwrap();
    assert_eq!(ids(&book), ["m-ana-6", "m-ana-5", "m-ana-4", "m-ana-2"], "then the oldest");
}

#[test]
fn no_flood_of_strangers_pushes_out_a_contact() {
    let (_folder, mut book) = open();
    for (n, name) in ["ana", "ben", "cleo", "dan"].into_iter().enumerate() {
        for id in 0..MOST_OF_ONE {
            book.record(contact(name, n * 10 + id)).unwrap();
        }
    }
    for id in 0..2000 {
        book.record(stranger("one", id)).unwrap();
        book.record(stranger(&format!("many {id}"), id)).unwrap();
    }
    assert_eq!(book.len(), MOST);
    for name in ["ana", "ben", "cleo", "dan"] {
        assert_eq!(of(&book, name), MOST_OF_ONE, "{name}");
    }
    // And a contact finds room among strangers.
    book.record(contact("eve", 1)).unwrap();
    assert_eq!((of(&book, "eve"), book.len()), (1, MOST));
    assert_eq!(of(&book, "ana"), MOST_OF_ONE);
}

#[test]
fn the_loudest_stranger_gives_way_first() {
    let (_folder, mut book) = open();
    for id in 0..MOST_UNPROVED - MOST_OF_ONE {
        book.record(stranger(&format!("quiet {id}"), id)).unwrap();
    }
    for id in 0..50 {
        book.record(stranger("loud", id)).unwrap();
    }
    assert_eq!((book.len(), of(&book, "loud")), (MOST_UNPROVED, MOST_OF_ONE));
    book.record(stranger("last", 1)).unwrap();
    assert_eq!((book.len(), of(&book, "loud")), (MOST_UNPROVED, MOST_OF_ONE - 1));
    assert_eq!((of(&book, "quiet 0"), of(&book, "last")), (1, 1));
}

#[test]
fn a_packet_of_a_contact_is_known_however_many_strangers_called_since() {
    let (folder, mut book) = open();
    let old = contact("ana", 1);
    book.record(old.clone()).unwrap();
    for id in 0..300 {
        book.record(contact("ana", 100 + id)).unwrap();
        book.record(stranger("one", id)).unwrap();
    }
    let mut book = DistressBook::open(folder.path()).unwrap();
    assert!(book.get(&old.view.id).is_none());
    assert_eq!(book.record(old).unwrap(), Recorded::Known);
    let file = std::fs::read_to_string(book.path()).unwrap();
    assert!(file.len() < 60_000, "{} bytes", file.len());
}

#[test]
fn a_broken_file_is_set_aside_and_said_and_a_newer_one_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    for (broken, aside) in [("{\"version\":1,", "broken"), ("", "broken.2")] {
        store::replace(&path, broken.as_bytes(), Durability::Process).unwrap();
        let mut book = DistressBook::open(folder.path()).unwrap();
        let warning = book.warning().unwrap().to_owned();
        assert!(warning.contains(&format!("distress.json.{aside}")), "{warning}");
        let kept = folder.path().join(format!("distress.json.{aside}"));
        assert_eq!(std::fs::read_to_string(kept).unwrap(), broken);
        book.record(contact("ana", 1)).unwrap();
        assert_eq!(DistressBook::open(folder.path()).unwrap().uncleared(), 1);
    }
    let newer = r#"{"version":2,"texts":[]}"#;
    store::replace(&path, newer.as_bytes(), Durability::Process).unwrap();
    DistressBook::open(folder.path()).unwrap_err();
    assert_eq!(std::fs::read_to_string(path).unwrap(), newer);
}

#[test]
fn what_the_disk_does_not_take_is_shown_all_the_same_and_not_cleared() {
    let (folder, mut book) = open();
    book.record(contact("ana", 1)).unwrap();
    let blocked = folder.path().join("distress.json.tmp");
    std::fs::create_dir(&blocked).unwrap();
    book.record(contact("ana", 2)).unwrap_err();
    let id = TurnId("m-ana-2".to_owned());
    book.clear(&id, now(5)).unwrap_err();
    assert_eq!(book.uncleared(), 2);
    std::fs::remove_dir(&blocked).unwrap();
    book.clear(&id, now(5)).unwrap();
    assert_eq!(DistressBook::open(folder.path()).unwrap().view(), book.view());
}

proptest! {
    #[test]
    fn the_bounds_hold_whatever_comes(
        calls in proptest::collection::vec((0..12_usize, 0..3_usize, 0..40_usize, any::<bool>()), 0..150)
    ) {
        let (folder, mut book) = open();
        for (peer, sure, id, clear) in calls {
            let sure = [Assurance::Unverified, Assurance::Signed, Assurance::Verified][sure];
            let new = text(&format!("{sure:?}{peer}"), id, sure);
            let turn = new.view.id.clone();
            let known = book.knows(&turn);
            let recorded = book.record(new).unwrap();
            prop_assert_eq!(recorded == Recorded::Known, known);
            prop_assert!(known || book.view()[0].id == turn, "the newest always stands");
            if clear {
                book.clear(&turn, now(1)).unwrap();
            }
            let view = book.view();
            let unproved = view.iter().filter(|v| v.assurance == Assurance::Unverified).count();
            prop_assert!(view.len() <= MOST && unproved <= MOST_UNPROVED);
            prop_assert!(view.iter().all(|v| of(&book, &v.name) <= MOST_OF_ONE));
        }
        prop_assert_eq!(DistressBook::open(folder.path()).unwrap().view(), book.view());
    }
}
