//! What the operator decides at run time: each decision, what refuses it, and that it outlives a restart and a new
//! reading of the configuration.

use super::*;
use crate::config::Asker;
use crate::mesh::operator::{Change, Refusal, Why};

const EVE: NodeNum = NodeNum(0x00e0_e0e0);

/// A folder, the configuration, and the contacts on both.
struct Bench {
    folder: tempfile::TempDir,
    config: MeshConfig,
    contacts: Contacts,
}

/// Ana with a key, Ben without, both by the configuration.
fn bench() -> Bench {
    let config = MeshConfig {
        allowed_contacts: vec![named(ANA, Some(KEY_A), "Ana"), named(BEN, None, "Ben")],
        ..MeshConfig::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let contacts = Contacts::open(folder.path(), &config.allowed_contacts).unwrap();
    Bench { folder, config, contacts }
}

fn named(id: NodeNum, key: Option<PublicKey>, name: &str) -> Contact {
    Contact { id, key, name: Some(name.to_owned()), grants: None }
}

impl Bench {
    fn plan(&self, change: &Change) -> Result<Planned, Refusal> {
        self.contacts.plan(change, &self.config, NOW)
    }

    /// Carries it out, and starts anew: nothing may be in memory only.
    fn change(&mut self, change: &Change) -> Planned {
        let planned = self.plan(change).unwrap();
        let again = self.plan(change).unwrap();
        self.contacts.carry_out(planned).unwrap();
        let before = format!("{:?}", self.contacts.entries());
        self.restart();
        assert_eq!(format!("{:?}", self.contacts.entries()), before);
        again
    }

    fn restart(&mut self) {
        let configured = &self.config.allowed_contacts;
        self.contacts = Contacts::open(self.folder.path(), configured).unwrap();
    }

    fn refused(&self, change: &Change) -> Refusal {
        self.plan(change).unwrap_err()
    }

    fn view(&self, number: NodeNum) -> ContactView {
        let effective = self.contacts.effective(&self.config);
        let all = self.contacts.answering(&self.config, &effective).allowed_contacts;
        all.into_iter().find(|contact| contact.id == number).unwrap()
    }

    fn hear(&mut self, from: NodeNum, key: PublicKey) -> Peer {
        let heard = envelope(&pki_packet(from, ME, key, 1, "x"), true, None);
        self.contacts.observe(&heard, NOW).1.unwrap();
        self.contacts.identify(&heard)
    }
}

fn add(id: NodeNum, key: Option<PublicKey>, name: Option<&str>) -> Change {
    Change::AddContact { id, key, name: name.map(str::to_owned) }
}

fn key(id: NodeNum, key: PublicKey, accept: bool) -> Change {
    Change::Key { id, fingerprint: key.fingerprint(), pinned: None, accept }
}

#[test]
fn a_contact_is_added_with_a_key_and_removed_with_its_pin() {
    let mut bench = bench();
    let planned = bench.change(&add(EVE, Some(KEY_M), Some("Eve")));
    assert!(planned.what.contains("Eve") && planned.what.contains(&KEY_M.fingerprint()));
    assert_eq!(planned.warnings, Vec::<String>::new());
    let eve = bench.view(EVE);
    assert_eq!((eve.name.as_str(), eve.pin, eve.source), ("Eve", "confirmed", "node"));
    let peer = bench.hear(EVE, KEY_M);
    assert_eq!(peer.assurance, Assurance::Verified);
    assert_eq!(peer.grants, CategorySet::from([PermissionCategory::System]));

    let planned = bench.change(&Change::RemoveContact { id: EVE });
    assert_eq!(planned.void[0].0, format!("key:{KEY_M}"));
    assert!(planned.silenced);
    assert_eq!(bench.hear(EVE, KEY_M).assurance, Assurance::Unverified);
    assert_eq!(bench.contacts.entries().len(), 2);
}

#[test]
fn a_contact_that_is_added_without_a_key_is_pinned_unconfirmed() {
    let mut bench = bench();
    let planned = bench.change(&add(EVE, None, None));
    assert!(planned.warnings[0].contains("no key"), "{:?}", planned.warnings);
    assert_eq!((bench.view(EVE).name, bench.view(EVE).pin), (EVE.to_string(), "none"));
    let peer = bench.hear(EVE, KEY_M);
    assert_eq!((peer.assurance, peer.grants.len()), (Assurance::Verified, 0));
    assert_eq!(bench.view(EVE).pin, "unconfirmed");
    bench.change(&key(EVE, KEY_M, true));
    assert_eq!(bench.view(EVE).pin, "confirmed");
    assert_eq!(bench.hear(EVE, KEY_M).grants.len(), 1);
}

#[test]
fn what_can_not_be_added_is_refused_by_field_and_rule() {
    let mut bench = bench();
    bench.contacts.set_own_key(Some(KEY_B));
    let long = "n".repeat(40);
    for (change, field, rule) in [
        (add(ANA, None, None), "id", "a contact already: Ana"),
        (add(NodeNum::BROADCAST, None, None), "id", "broadcast"),
        (add(NodeNum(3), None, None), "id", "below"),
        (add(EVE, Some(KEY_A), None), "key", "pinned to Ana"),
        (add(EVE, Some(KEY_B), None), "key", "own radio"),
        (add(EVE, None, Some(&long)), "name", "39 bytes"),
        (add(EVE, None, Some("E\u{202e}ve")), "name", "U+202E"),
        (add(EVE, None, Some(" ")), "name", "empty"),
        (Change::Rename { id: ANA, name: long.clone() }, "name", "39 bytes"),
        (Change::Rename { id: EVE, name: "Eve".to_owned() }, "id", "no contact"),
        (Change::Suspend { id: EVE, suspended: true }, "id", "no contact"),
        (Change::RemoveContact { id: EVE }, "id", "no contact"),
        (key(EVE, KEY_A, true), "id", "no contact"),
    ] {
        let refusal = bench.refused(&change);
        assert_eq!((refusal.why, refusal.field), (Why::Wrong, field), "{change:?}");
        assert!(refusal.reason.contains(rule), "{}", refusal.reason);
    }
    let refusal = bench.refused(&Change::RemoveContact { id: ANA });
    assert_eq!(refusal.why, Why::Configured("mesh.allowed_contacts"));
    assert!(!bench.folder.path().join(FILE).exists(), "nothing was written");
}

#[test]
fn so_many_contacts_can_be_added_and_no_more() {
    let mut bench = bench();
    let number = |i: usize| NodeNum(0x1000 + u32::try_from(i).unwrap());
    for i in 0..change::MOST_ADDED {
        let planned = bench.plan(&add(number(i), None, None)).unwrap();
        bench.contacts.carry_out(planned).unwrap();
    }
    let refusal = bench.refused(&add(number(change::MOST_ADDED), None, None));
    assert_eq!(refusal.why, Why::State);
    let planned = bench.plan(&Change::RemoveContact { id: number(0) }).unwrap();
    bench.contacts.carry_out(planned).unwrap();
    assert!(bench.plan(&add(number(change::MOST_ADDED), None, None)).is_ok());
}

#[test]
fn a_suspended_contact_is_known_and_marked_and_comes_back_with_its_pin() {
    let mut bench = bench();
    let planned = bench.change(&Change::Suspend { id: ANA, suspended: true });
    assert!(planned.silenced && planned.void[0].0 == format!("key:{KEY_A}"));
    let peer = bench.hear(ANA, KEY_A);
    assert!(peer.suspended && peer.assurance == Assurance::Verified);
    let signed = Inbound { xeddsa_signed: true, ..text_packet(ANA, NodeNum::BROADCAST, "x") };
    assert!(bench.contacts.identify(&envelope(&signed, true, Some(KEY_A))).suspended);
    assert!(!bench.hear(ANA, KEY_M).suspended, "a foreign key is a stranger, not Ana");
    let planned = bench.change(&Change::Suspend { id: ANA, suspended: false });
    assert!(planned.void.is_empty());
    assert!(!bench.hear(ANA, KEY_A).suspended);
    assert!(bench.plan(&Change::Suspend { id: ANA, suspended: false }).unwrap().is_nothing());
    // Without a key its number is all there is; it is not pinned meanwhile.
    bench.change(&Change::Suspend { id: BEN, suspended: true });
    assert!(bench.hear(BEN, KEY_B).suspended);
    assert_eq!(bench.view(BEN).pin, "none");
}

#[test]
fn a_name_that_looks_like_another_is_warned_about_and_taken() {
    let mut bench = bench();
    let planned = bench.change(&add(EVE, Some(KEY_M), Some("Аna"))); // Cyrillic А
    assert_eq!(planned.warnings.len(), 2, "{:?}", planned.warnings);
    assert!(planned.warnings[0].contains("mixes Cyrillic and Latin"));
    assert!(planned.warnings[1].contains("looks like `Ana`"));
    let config = bench.config.clone();
    assert!(bench.contacts.warnings(&config)[0].contains("looks like"));
    let planned = bench.change(&Change::Rename { id: EVE, name: "Ana".to_owned() });
    assert!(planned.warnings[0].contains("two contacts are called `Ana`"));
    let planned = bench.change(&Change::Rename { id: EVE, name: "Eve".to_owned() });
    assert_eq!(planned.warnings, Vec::<String>::new());
    // A configured contact is renamed too; back to the configured name, the configuration counts again.
    bench.change(&Change::Rename { id: ANA, name: "Ana K".to_owned() });
    bench.config.allowed_contacts[0].name = Some("Anna".to_owned());
    bench.restart();
    assert_eq!(bench.view(ANA).name, "Ana K");
    bench.change(&Change::Rename { id: ANA, name: "Anna".to_owned() });
    bench.config.allowed_contacts[0].name = Some("Ana".to_owned());
    bench.restart();
    assert_eq!(bench.view(ANA).name, "Ana");
}

#[test]
fn who_is_denied_here_is_denied_until_that_is_taken_back_here() {
    let mut bench = bench();
    bench.config.denied_askers = vec![Asker::Node(NodeNum(0xbad0))];
    for asker in [Asker::Node(ANA), Asker::Key(KEY_A)] {
        let deny = |denied| Change::Deny { asker: asker.clone(), denied };
        let planned = bench.change(&deny(true));
        assert!(planned.void.contains(&PeerId(format!("key:{KEY_A}"))), "{:?}", planned.void);
        assert!(bench.contacts.effective(&bench.config).denied_askers.contains(&asker));
        assert!(bench.view(ANA).denied);
        assert!(bench.plan(&deny(true)).unwrap().is_nothing());
        bench.change(&deny(false));
        assert_eq!(
            bench.contacts.effective(&bench.config).denied_askers,
            bench.config.denied_askers
        );
        let refusal = bench.refused(&deny(false));
        assert_eq!((refusal.why, refusal.field), (Why::Wrong, "asker"));
    }
    let configured = bench.config.denied_askers[0].clone();
    let refusal = bench.refused(&Change::Deny { asker: configured, denied: false });
    assert_eq!(refusal.why, Why::Configured("mesh.denied_askers"));
    let nobody = Change::Deny { asker: Asker::Node(NodeNum::BROADCAST), denied: true };
    assert_eq!(bench.refused(&nobody).field, "asker");
}

#[test]
fn a_contact_that_has_moved_is_denied_by_the_number_that_is_shown() {
    let mut bench = bench();
    let new = NodeNum(0x1234_5678);
    bench.hear(new, KEY_A);
    bench.change(&Change::Deny { asker: Asker::Node(new), denied: true });
    let denied = bench.contacts.effective(&bench.config).denied_askers;
    assert_eq!(denied, [Asker::Node(new), Asker::Node(ANA)]);
    bench.hear(NodeNum(0x8765_4321), KEY_A); // it moves again
    assert!(bench.view(NodeNum(0x8765_4321)).denied);
}

#[test]
fn what_was_set_here_wins_over_the_configuration_until_both_agree() {
    let mut bench = bench();
    bench.change(&Change::TrustedOnly(false));
    bench.change(&Change::Enabled(false));
    let effective = bench.contacts.effective(&bench.config);
    assert_eq!((effective.trusted_only, effective.enabled), (false, false));
    let shown = bench.contacts.answering(&bench.config, &effective);
    assert_eq!((shown.trusted_only_source, shown.enabled_source), ("node", "node"));
    assert_eq!(shown.warnings.len(), 2);
    for change in [Change::TrustedOnly(true), Change::Enabled(true)] {
        bench.change(&change);
        assert!(bench.plan(&change).unwrap().is_nothing());
    }
    bench.config.trusted_only = false;
    let effective = bench.contacts.effective(&bench.config);
    assert!(!effective.trusted_only, "nothing stands in the configuration's way any more");
    assert_eq!(
        bench.contacts.answering(&bench.config, &effective).trusted_only_source,
        "configuration"
    );
}

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

#[test]
fn a_file_of_the_first_version_reads_as_it_was_meant() {
    let mut bench = bench();
    let old = serde_json::json!({"version": 1, "contacts": [
        {"id": BEN, "number": EVE, "key": KEY_B, "confirmed": true, "foreign": KEY_M, "pinned_at": 7}]});
    store::replace_json(&bench.folder.path().join(FILE), &old, Durability::Process).unwrap();
    bench.restart();
    let ben = bench.view(EVE);
    assert_eq!((ben.pin, ben.source, ben.suspended), ("confirmed", "configuration", false));
    assert_eq!(ben.foreign_fingerprint, Some(KEY_M.fingerprint()));
    assert_eq!(bench.contacts.entries().len(), 2, "a record alone makes no contact");
}

#[test]
fn an_edited_file_gives_no_name_that_hides_something() {
    let mut bench = bench();
    bench.change(&add(EVE, Some(KEY_M), Some("Eve")));
    let path = bench.folder.path().join(FILE);
    let text = std::fs::read_to_string(&path).unwrap().replace("\"Eve\"", "\"E\\u202eve\"");
    store::replace(&path, text.as_bytes(), Durability::Process).unwrap();
    bench.restart();
    assert_eq!(bench.view(EVE).name, EVE.to_string());
}

#[test]
fn what_the_disk_does_not_take_is_not_in_force() {
    let mut bench = bench();
    let planned = bench.plan(&Change::Suspend { id: ANA, suspended: true }).unwrap();
    let folder = std::mem::replace(&mut bench.folder, tempfile::tempdir().unwrap());
    drop(folder);
    assert!(bench.contacts.carry_out(planned).is_err());
    assert!(!bench.hear_only(ANA, KEY_A).suspended);
}

impl Bench {
    fn hear_only(&self, from: NodeNum, key: PublicKey) -> Peer {
        self.contacts.identify(&envelope(&pki_packet(from, ME, key, 1, "x"), true, None))
    }
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
        (id, key, any::<bool>()).prop_map(|(id, wanted, accept)| self::key(id, wanted, accept)),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
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
