//! What the operator decides at run time: each decision, what refuses it, and that it outlives a restart and a new
//! reading of the configuration.

use super::*;
use crate::config::Asker;
use crate::mesh::operator::{Change, Refusal, Why};

pub(super) const EVE: NodeNum = NodeNum(0x00e0_e0e0);

/// A folder, the configuration, and the contacts on both.
pub(super) struct Bench {
    pub folder: tempfile::TempDir,
    pub config: MeshConfig,
    pub contacts: Contacts,
}

/// Ana with a key, Ben without, both by the configuration.
pub(super) fn bench() -> Bench {
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
    pub fn plan(&self, change: &Change) -> Result<Planned, Refusal> {
        self.contacts.plan(change, &self.config, NOW)
    }

    /// Carries it out, and starts anew: nothing may be in memory only.
    pub fn change(&mut self, change: &Change) -> Planned {
        let planned = self.plan(change).unwrap();
        let again = self.plan(change).unwrap();
        self.contacts.carry_out(planned).unwrap();
        let before = format!("{:?}", self.contacts.entries());
        self.restart();
        assert_eq!(format!("{:?}", self.contacts.entries()), before);
        again
    }

    pub fn restart(&mut self) {
        let configured = &self.config.allowed_contacts;
        self.contacts = Contacts::open(self.folder.path(), configured).unwrap();
    }

    pub fn refused(&self, change: &Change) -> Refusal {
        self.plan(change).unwrap_err()
    }

    pub fn view(&self, number: NodeNum) -> ContactView {
        let effective = self.contacts.effective(&self.config);
        let all = self.contacts.answering(&self.config, &effective).allowed_contacts;
        all.into_iter().find(|contact| contact.id == number).unwrap()
    }

    pub fn hear(&mut self, from: NodeNum, key: PublicKey) -> Peer {
        let heard = envelope(&pki_packet(from, ME, key, 1, "x"), true, None);
        self.contacts.observe(&heard, NOW).1.unwrap();
        self.contacts.identify(&heard)
    }
}

fn add(id: NodeNum, key: Option<PublicKey>, name: Option<&str>) -> Change {
    Change::AddContact { id, key, name: name.map(str::to_owned) }
}

pub(super) fn key(id: NodeNum, key: PublicKey, accept: bool) -> Change {
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
