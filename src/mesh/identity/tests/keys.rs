//! Which key is whose: foreign keys accepted and refused, pairing, and that no order of decisions gives a key two owners.

use super::decisions::{Bench, EVE, bench, key};
use super::*;
use crate::config::Asker;
use crate::mesh::operator::Change;

#[test]
fn a_foreign_key_is_accepted_as_it_was_seen_or_not_at_all() {
    let mut bench = bench();
    bench.hear(ANA, KEY_M);
    let as_seen = |fingerprint: String, pinned: Option<String>| Change::Key {
        id: ANA,
        fingerprint,
        pinned,
        accept: true,
    };
    let stale = as_seen("0000 1111".to_owned(), None);
    assert_eq!(bench.refused(&stale).field, "fingerprint");
    let looked_away = as_seen(KEY_M.fingerprint(), Some(KEY_B.fingerprint()));
    assert_eq!(bench.refused(&looked_away).field, "pinned");

    let typed = KEY_M.fingerprint().to_uppercase().replace(' ', "");
    let planned = bench.change(&as_seen(typed, Some(KEY_A.fingerprint())));
    assert!(planned.what.contains(&KEY_A.fingerprint()), "{}", planned.what);
    assert_eq!(planned.void[0].0, format!("key:{KEY_A}"), "what the old key was to confirm");
    let ana = bench.view(ANA);
    assert_eq!((ana.pin, ana.foreign_fingerprint), ("confirmed", None));
    assert_eq!(bench.hear(ANA, KEY_M).grants.len(), 1);
    assert_eq!(bench.hear(ANA, KEY_A).assurance, Assurance::Unverified);
    // The configured key was replaced knowingly; another one there is news, and counts.
    bench.config.allowed_contacts[0].key = Some(KEY_B);
    bench.restart();
    assert_eq!(bench.view(ANA).pin, "configured");
    assert_eq!(bench.hear(ANA, KEY_B).assurance, Assurance::Verified);
    bench.config.allowed_contacts[0].key = None;
    bench.restart();
    assert_eq!(bench.view(ANA).pin, "none", "an outdated pin does not come back");
}

#[test]
fn a_refused_key_is_dropped_for_good() {
    let mut bench = bench();
    bench.hear(ANA, KEY_M);
    bench.change(&key(ANA, KEY_M, false));
    assert_eq!(bench.view(ANA).foreign_fingerprint, None);
    bench.hear(ANA, KEY_M);
    assert_eq!(bench.view(ANA).foreign_fingerprint, None, "it is not told again");
    assert_eq!(bench.refused(&key(ANA, KEY_M, true)).field, "fingerprint");
    bench.hear(ANA, KEY_B);
    assert_eq!(bench.view(ANA).foreign_fingerprint, Some(KEY_B.fingerprint()), "another one is");
    assert_eq!(bench.hear(ANA, KEY_A).grants.len(), 1, "Ana has lost nothing");
    // A pin that nobody confirmed goes the same way, and is not pinned again.
    bench.hear(BEN, KEY_M);
    assert_eq!(bench.view(BEN).pin, "unconfirmed");
    let planned = bench.change(&key(BEN, KEY_M, false));
    assert!(planned.silenced);
    assert_eq!(bench.hear(BEN, KEY_M).assurance, Assurance::Unverified);
    assert_eq!(bench.view(BEN).pin, "none");
    // A confirmed one is no matter of refusing.
    assert!(bench.refused(&key(ANA, KEY_A, false)).reason.contains("suspend"));
    assert!(bench.plan(&key(ANA, KEY_A, true)).unwrap().is_nothing());
}

#[test]
fn a_key_that_is_another_contacts_is_not_accepted() {
    let mut bench = bench();
    bench.hear(BEN, KEY_A); // Ana's key under Ben's number
    let refusal = bench.refused(&key(BEN, KEY_A, true));
    assert!(refusal.reason.contains("pinned to Ana"), "{}", refusal.reason);
}

/// Pairs, carries it out and gives the name and the peer.
fn pair(bench: &mut Bench, from: NodeNum, key: PublicKey, name: &str) -> (String, Peer) {
    let (planned, called) = bench.contacts.plan_pairing(key, from, name, NOW).unwrap();
    bench.contacts.carry_out(planned).unwrap();
    bench.restart();
    let heard = envelope(&pki_packet(from, ME, key, 1, "x"), true, None);
    let peer = bench.contacts.identify(&heard);
    (called, peer)
}

#[test]
fn whoever_pairs_is_a_contact_of_that_name_with_a_confirmed_key() {
    let mut bench = bench();
    let (called, peer) = pair(&mut bench, EVE, KEY_M, "Eve");
    assert_eq!((called.as_str(), peer.name.as_str()), ("Eve", "Eve"));
    assert_eq!((peer.assurance, peer.grants.len()), (Assurance::Verified, 1));
    assert_eq!(bench.view(EVE).source, "node");
    // Ben is meant by his name, and has no key yet.
    let (_, peer) = pair(&mut bench, BEN, KEY_B, "Ben");
    assert_eq!((peer.contact, peer.grants.len()), (Some(BEN), 1));
    assert_eq!(bench.contacts.entries().len(), 3);
}

#[test]
fn pairing_under_anothers_number_gives_nothing_of_that_contact() {
    for (claimed, seen_before) in [(ANA, false), (BEN, false), (BEN, true)] {
        let mut bench = bench();
        bench.config.allowed_contacts[1].grants =
            Some(vec![PermissionCategory::System, PermissionCategory::Files]);
        bench.restart();
        if seen_before {
            bench.hear(claimed, KEY_M); // pinned to Ben by his number alone
            assert_eq!(bench.view(BEN).pin, "unconfirmed");
        }
        let (called, peer) = pair(&mut bench, claimed, KEY_M, "Eve");
        assert_eq!((called.as_str(), peer.name.as_str()), ("Eve", "Eve"));
        assert_eq!(peer.grants, CategorySet::from([PermissionCategory::System]), "not Ben's");
        assert_ne!(peer.contact, Some(claimed));
        let other = bench.view(claimed);
        assert_eq!(other.key, (claimed == ANA).then(|| KEY_A.to_string()));
        // What it says later under that number moves nothing.
        bench.hear(claimed, KEY_M);
        assert_eq!(bench.contacts.of_key(KEY_M).unwrap().name, "Eve");
        assert_ne!(bench.contacts.of_key(KEY_M).unwrap().number, claimed);
    }
}

#[test]
fn a_listed_number_without_name_key_or_grants_of_its_own_is_the_one_that_pairs() {
    let mut bench = bench();
    for (grants, same) in [(None, true), (Some(vec![PermissionCategory::Files]), false)] {
        let listed = Contact { id: EVE, key: None, name: None, grants };
        bench.config.allowed_contacts = vec![listed];
        bench.folder = tempfile::tempdir().unwrap();
        bench.restart();
        let (_, peer) = pair(&mut bench, EVE, KEY_M, "Eve");
        assert_eq!(peer.name, "Eve");
        assert_eq!(peer.contact == Some(EVE), same);
    }
}

#[test]
fn a_contact_that_uses_a_code_for_another_stays_who_it_is() {
    let mut bench = bench();
    let (called, peer) = pair(&mut bench, ANA, KEY_A, "Eve");
    assert_eq!((called.as_str(), peer.name.as_str(), peer.contact), ("Ana", "Ana", Some(ANA)));
    assert_eq!(bench.contacts.entries().len(), 2);
}

/// One of few ids, keys and names, so that they meet.
fn any_change() -> impl proptest::strategy::Strategy<Value = Change> {
    use proptest::prelude::*;
    let id = prop::sample::select(vec![ANA, BEN, EVE, NodeNum(0x1111)]);
    let key = prop::sample::select(vec![KEY_A, KEY_B, KEY_M]);
    let name = prop::sample::select(vec!["Ana", "Аna", "Eve", ""]).prop_map(str::to_owned);
    let asker = prop_oneof![id.clone().prop_map(Asker::Node), key.clone().prop_map(Asker::Key)];
    prop_oneof![
        (id.clone(), prop::option::of(key.clone()), prop::option::of(name.clone()))
            .prop_map(|(id, key, name)| Change::AddContact { id, key, name }),
        id.clone().prop_map(|id| Change::RemoveContact { id }),
        (id.clone(), any::<bool>()).prop_map(|(id, suspended)| Change::Suspend { id, suspended }),
        (id.clone(), name).prop_map(|(id, name)| Change::Rename { id, name }),
        (asker, any::<bool>()).prop_map(|(asker, denied)| Change::Deny { asker, denied }),
        any::<bool>().prop_map(Change::TrustedOnly),
        (id, key, any::<bool>())
            .prop_map(|(id, wanted, accept)| super::decisions::key(id, wanted, accept)),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]
    #[test]
    fn whatever_is_decided_no_key_has_two_owners_and_a_restart_changes_nothing(
        steps in proptest::collection::vec((any_change(), 0_usize..4, 0_usize..3), 1..25),
    ) {
        let mut bench = bench();
        let (numbers, keys) = ([ANA, BEN, EVE, NodeNum(0x1111)], [KEY_A, KEY_B, KEY_M]);
        for (step, (change, from, key)) in steps.into_iter().enumerate() {
            match step % 3 {
                // A message of somebody, under some number.
                0 => drop(bench.hear(numbers[from], keys[key])),
                // A code that was right.
                1 if from == 0 => drop(pair(&mut bench, numbers[key], keys[key], "Eve")),
                _ => {
                    if let Ok(planned) = bench.plan(&change) {
                        bench.contacts.carry_out(planned).unwrap();
                    }
                }
            }
            let entries = bench.contacts.entries();
            let pinned: Vec<_> = entries.iter().filter_map(|entry| entry.pin.key()).collect();
            let owners: std::collections::BTreeSet<_> = pinned.iter().collect();
            proptest::prop_assert_eq!(pinned.len(), owners.len(), "a key has two owners");
            let ids: std::collections::BTreeSet<_> = entries.iter().map(|entry| entry.id).collect();
            proptest::prop_assert_eq!(ids.len(), entries.len());
            proptest::prop_assert!(ids.contains(&ANA) && ids.contains(&BEN), "listed, so a contact");
            let before = format!("{entries:?}");
            bench.restart();
            proptest::prop_assert_eq!(format!("{:?}", bench.contacts.entries()), before);
        }
    }
}
