//! Taken once, for two minutes, three tries, by whom it belongs to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;
use crate::assistant::{Assurance, CategorySet, PeerId, SessionId};

fn peer(key: &str) -> CallerScope {
    CallerScope::Mesh {
        peer_id: PeerId(key.to_owned()),
        name: "Ana".to_owned(),
        assurance: Assurance::Verified,
        granted: CategorySet::from([PermissionCategory::Notes]),
    }
}

fn operator() -> CallerScope {
    let session_id = SessionId("s".to_owned());
    CallerScope::LocalOperator { session_id, granted: CategorySet::new() }
}

fn turn(name: &str) -> TurnId {
    TurnId(name.to_owned())
}

fn add(all: &Confirmations, scope: &CallerScope, name: &str, with_code: bool) {
    all.add(&NewCall {
        scope,
        turn: &turn(name),
        tool: "notes_add",
        category: PermissionCategory::Notes,
        arguments: &json!({"text": "milk"}),
        with_code,
    })
    .unwrap();
}

fn code(all: &Confirmations, name: &str) -> String {
    all.prompt(&turn(name)).unwrap().code.expose().to_owned()
}

#[test]
fn a_code_has_more_than_twenty_bits_of_signs_that_cannot_be_mistaken() {
    let bits = (ALPHABET.len() as f64).log2() * CODE_SIGNS as f64;
    assert!(bits >= 20.0, "{bits}");
    let signs: BTreeSet<u8> = ALPHABET.iter().copied().collect();
    assert_eq!(signs.len(), ALPHABET.len());
    for mistaken in b"0O1IL8B5S2Z6" {
        assert!(!signs.contains(mistaken), "{}", char::from(*mistaken));
    }
    // Uniform: of all bytes each sign comes from the same number.
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for byte in 0..=u8::MAX {
        if let Some(sign) = sign(byte) {
            *counts.entry(sign).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), 24);
    assert!(counts.values().all(|count| *count == 10));
    let codes: BTreeSet<String> = (0..200).map(|_| random_code().unwrap()).collect();
    assert!(codes.len() > 195 && codes.iter().all(|code| code.len() == CODE_SIGNS));
}

#[tokio::test(start_paused = true)]
async fn the_last_instant_confirms_and_the_next_does_not() {
    for (after, counts) in [(WINDOW - Duration::from_millis(1), true), (WINDOW, false)] {
        for by_code in [true, false] {
            let all = Confirmations::default();
            add(&all, &peer("key:a"), "t", true);
            let (code, id) = (code(&all, "t"), all.list()[0].id.clone());
            tokio::time::advance(after).await;
            let taken = if by_code { all.take_by_code("key:a", &code) } else { all.take(&id) };
            assert_eq!(taken.is_some(), counts, "{after:?} {by_code}");
            assert!(all.list().is_empty());
        }
    }
}

#[tokio::test]
async fn of_three_tries_the_third_confirms_and_a_fourth_finds_nothing() {
    for (wrong, counts) in [(2, true), (3, false)] {
        let all = Confirmations::default();
        add(&all, &peer("key:a"), "t", true);
        let right = code(&all, "t");
        for _ in 0..wrong {
            assert!(all.take_by_code("key:a", "XXXXX").is_none());
        }
        let taken = all.take_by_code("key:a", &right.to_lowercase());
        assert_eq!(taken.is_some(), counts, "after {wrong} wrong ones");
        assert_eq!(*all.watch().borrow(), 0);
    }
}

#[tokio::test]
async fn whoever_watches_is_told_of_each_call_also_of_one_that_takes_anothers_place() {
    let all = Confirmations::default();
    let mut watch = all.watch();
    for turn in ["a", "b"] {
        add(&all, &peer("key:a"), turn, true);
        assert!(watch.has_changed().unwrap(), "{turn}");
        assert_eq!(*watch.borrow_and_update(), 1);
    }
    all.list();
    assert!(!watch.has_changed().unwrap(), "looking changes nothing");
    all.drop_caller("key:a");
    assert_eq!(*watch.borrow_and_update(), 0);
}

#[tokio::test]
async fn only_its_caller_takes_it_by_code_and_only_once() {
    let all = Confirmations::default();
    add(&all, &peer("key:a"), "a", true);
    add(&all, &peer("key:b"), "b", true);
    let (a, b) = (code(&all, "a"), code(&all, "b"));
    for stranger in ["key:b", "key:c", "signed:a", "claim:a", "operator", ""] {
        assert!(all.take_by_code(stranger, &a).is_none(), "{stranger}");
    }
    let taken = all.take_by_code("key:a", &a).unwrap();
    assert_eq!((taken.tool.as_str(), &taken.arguments), ("notes_add", &json!({"text": "milk"})));
    assert!(all.take_by_code("key:a", &a).is_none(), "approved twice is run once");
    assert!(all.take(&taken.id).is_none());
    // The wrong tries of others cost only themselves.
    assert!(all.take_by_code("key:b", &b).is_some());
}

#[test]
fn of_many_who_take_at_once_one_has_it() {
    for _ in 0..50 {
        let all = Confirmations::default();
        add(&all, &peer("key:a"), "t", true);
        let (code, id) = (code(&all, "t"), all.list()[0].id.clone());
        let got: usize = std::thread::scope(|scope| {
            let takes: Vec<_> = (0..4)
                .map(|n| {
                    let (all, code, id) = (&all, &code, &id);
                    scope.spawn(move || match n % 2 {
                        0 => usize::from(all.take(id).is_some()),
                        _ => usize::from(all.take_by_code("key:a", code).is_some()),
                    })
                })
                .collect();
            takes.into_iter().map(|take| take.join().unwrap()).sum()
        });
        assert_eq!(got, 1);
    }
}

#[tokio::test]
async fn a_newer_call_replaces_a_peers_and_a_new_key_drops_it() {
    let all = Confirmations::default();
    add(&all, &peer("key:a"), "one", true);
    let old = code(&all, "one");
    add(&all, &peer("key:a"), "two", true);
    assert_eq!(all.list().len(), 1);
    assert!(all.take_by_code("key:a", &old).is_none());
    let new = code(&all, "two");
    all.drop_caller("key:b");
    assert!(all.waits_for_code("key:a"));
    all.drop_caller("key:a");
    assert!(!all.waits_for_code("key:a"));
    assert!(all.take_by_code("key:a", &new).is_none());
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let all = Confirmations::default();
    for n in 0..MAX_OF_OPERATOR + 2 {
        add(&all, &operator(), &format!("t{n}"), false);
    }
    assert_eq!(all.list().len(), MAX_OF_OPERATOR);
    assert!(all.of_turn(&turn("t1")).is_none() && all.of_turn(&turn("t2")).is_some());
    for n in MAX_OF_OPERATOR..MAX_WAITING {
        add(&all, &peer(&format!("key:{n}")), &format!("p{n}"), true);
    }
    let scope = peer("key:more");
    let arguments = json!({});
    let (tool, turn) = ("notes_add", turn("more"));
    let category = PermissionCategory::Notes;
    let new = NewCall {
        scope: &scope,
        turn: &turn,
        tool,
        category,
        arguments: &arguments,
        with_code: true,
    };
    assert!(all.add(&new).is_err());
    assert_eq!(all.list().len(), MAX_WAITING);
}

#[tokio::test(start_paused = true)]
async fn who_waits_learns_the_end_and_a_call_that_runs_past_the_time_still_tells_its_result() {
    // Not in time: a word where the operator was asked, none where the peer had a code.
    for (with_code, words) in [(false, Some(NOT_IN_TIME.to_owned())), (true, None)] {
        let all = Arc::new(Confirmations::default());
        add(&all, &peer("key:a"), "t", with_code);
        let told = all.told(&turn("t")).unwrap();
        assert!(all.told(&turn("t")).is_none(), "one listens");
        assert_eq!(told.await, words);
        assert!(all.list().is_empty());
    }
    // Taken at the last moment, done after it.
    let all = Arc::new(Confirmations::default());
    add(&all, &peer("key:a"), "t", false);
    let told = all.told(&turn("t")).unwrap();
    let id = all.list()[0].id.clone();
    let told = tokio::spawn(told);
    tokio::time::sleep(WINDOW - Duration::from_secs(1)).await;
    let mut taken = all.take(&id).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    taken.tell(Some("done".to_owned()));
    assert_eq!(told.await.unwrap(), Some("done".to_owned()));
    // Dropped: silence.
    add(&all, &peer("key:a"), "t", false);
    let told = all.told(&turn("t")).unwrap();
    all.drop_caller("key:a");
    assert_eq!(told.await, None);
}

#[test]
fn nothing_of_it_is_in_a_debug_form() {
    let all = Confirmations::default();
    assert_eq!(format!("{all:?}"), "Confirmations(0)");
}

#[test]
fn writes_that_touch_the_machine_or_money_need_the_operator() {
    let operators: Vec<&str> = PermissionCategory::ALL
        .into_iter()
        .filter(|category| needs_operator(*category))
        .map(PermissionCategory::as_str)
        .collect();
    assert_eq!(operators, ["apps", "system", "wallet", "files", "bitcoin"]);
}

#[test]
fn a_call_is_shown_whole_and_nothing_in_it_is_invisible() {
    let arguments = json!({"text": "мілк  \u{202e}x\u{200b}\n\u{1b}[2J\u{e0041}", "n": 1});
    assert_eq!(
        shown_call("notes_add", &arguments),
        "notes_add {\"text\":\"мілк  \\u{202e}x\\u{200b}\\n\\u001b[2J\\u{e0041}\",\"n\":1}"
    );
}
