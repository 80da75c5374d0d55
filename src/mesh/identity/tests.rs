//! The table of assurance, row by row and with each condition taken away; pins and what attacks them.

mod decisions;
mod keys;

use super::*;
use crate::assistant::PermissionCategory;
use crate::mesh::inbox::Receiver;
use crate::mesh::packets::{KEY_A, KEY_B, KEY_M, pki_packet, text_packet};
use crate::mesh::view::ContactView;
use crate::radio::Inbound;
use crate::store;

const ME: NodeNum = NodeNum(0x70b0_1001);
const ANA: NodeNum = NodeNum(0xa1b2_c3d4);
const BEN: NodeNum = NodeNum(0xb0b0_b0b2);
const NOW: Now = Now { mono_ms: 5_000, unix_ms: 1_700_000_000_000 };

fn contact(id: NodeNum, key: Option<PublicKey>) -> Contact {
    Contact { id, key, name: Some(format!("c{}", id.0 & 0xf)), grants: None }
}

fn contacts(configured: &[Contact]) -> (tempfile::TempDir, Contacts) {
    let folder = tempfile::tempdir().unwrap();
    let contacts = Contacts::open(folder.path(), configured).unwrap();
    (folder, contacts)
}

fn view(contacts: &Contacts) -> Vec<ContactView> {
    let config = MeshConfig::default();
    contacts.answering(&config, &config).allowed_contacts
}

fn envelope(packet: &Inbound, tags_transport: bool, held: Option<PublicKey>) -> Envelope {
    let radio = Receiver {
        my_node: ME,
        tags_transport,
        licensed: false,
        channel_name: &|_| "bots".to_owned(),
        key_of: &|_| held,
    };
    Envelope::of(packet, &radio)
}

fn assurance(contacts: &Contacts, packet: &Inbound) -> Assurance {
    contacts.identify(&envelope(packet, true, Some(KEY_A))).assurance
}

#[test]
fn verified_needs_every_one_of_its_conditions() {
    let (_folder, contacts) = contacts(&[contact(ANA, Some(KEY_A))]);
    let good = pki_packet(ANA, ME, KEY_A, 1, "!ai hi");
    let peer = contacts.identify(&envelope(&good, true, None));
    assert_eq!(peer.assurance, Assurance::Verified);
    assert_eq!(peer.grants, CategorySet::from([PermissionCategory::System]));
    assert_eq!((peer.name.as_str(), peer.key), ("c4", Some(KEY_A)));

    for (what, packet) in [
        ("not encrypted to us", Inbound { pki_encrypted: false, ..good.clone() }),
        ("to everybody", Inbound { to: NodeNum::BROADCAST, ..good.clone() }),
        ("to somebody else", Inbound { to: BEN, ..good.clone() }),
        ("another key", Inbound { public_key: Some(KEY_B), ..good.clone() }),
        ("no key", Inbound { public_key: None, ..good.clone() }),
        ("by MQTT", Inbound { transport: 5, ..good.clone() }),
        ("by UDP", Inbound { transport: 6, ..good.clone() }),
        ("by another client", Inbound { transport: 7, ..good.clone() }),
        ("transport not told by firmware that tells it", Inbound { transport: 0, ..good.clone() }),
        ("a second radio", Inbound { transport: 2, ..good.clone() }),
        ("transport of the future", Inbound { transport: 8, ..good.clone() }),
    ] {
        let peer = contacts.identify(&envelope(&packet, true, Some(KEY_A)));
        assert_eq!(peer.assurance, Assurance::Unverified, "{what}");
        assert!(peer.grants.is_empty(), "{what}");
        assert_ne!(peer.id.0, format!("key:{KEY_A}"), "{what}");
    }
    // The number is no condition: the key is the contact.
    assert_eq!(assurance(&contacts, &Inbound { from: BEN, ..good.clone() }), Assurance::Verified);
    // The flag of a signature neither adds nor takes.
    let both = Inbound { xeddsa_signed: true, ..good };
    assert_eq!(assurance(&contacts, &both), Assurance::Verified);
}

#[test]
fn old_firmware_does_not_tell_the_transport() {
    let (_folder, contacts) = contacts(&[contact(ANA, Some(KEY_A))]);
    let packet = Inbound { transport: 0, ..pki_packet(ANA, ME, KEY_A, 1, "x") };
    let of = |tags| contacts.identify(&envelope(&packet, tags, None)).assurance;
    assert_eq!((of(false), of(true)), (Assurance::Verified, Assurance::Unverified));
    let udp = Inbound { transport: 6, ..packet };
    assert_eq!(contacts.identify(&envelope(&udp, false, None)).assurance, Assurance::Unverified);
}

#[test]
fn signed_needs_the_flag_and_the_pinned_key_in_the_radio() {
    let (_folder, contacts) = contacts(&[contact(ANA, Some(KEY_A))]);
    let packet = Inbound { xeddsa_signed: true, ..text_packet(ANA, NodeNum::BROADCAST, "!ai hi") };
    let signed = contacts.identify(&envelope(&packet, true, Some(KEY_A)));
    assert_eq!((signed.assurance, signed.name.as_str()), (Assurance::Signed, "c4"));
    assert!(signed.grants.is_empty());
    assert_eq!(signed.key, None);
    for held in [None, Some(KEY_B)] {
        let peer = contacts.identify(&envelope(&packet, true, held));
        assert_eq!(peer.assurance, Assurance::Unverified);
        assert_eq!(peer.name, ANA.to_string());
    }
    let unsigned = Inbound { xeddsa_signed: false, ..packet };
    assert_eq!(assurance(&contacts, &unsigned), Assurance::Unverified);
}

#[test]
fn the_three_kinds_of_peer_never_share_an_id() {
    let (_folder, contacts) = contacts(&[contact(ANA, Some(KEY_A))]);
    let direct = pki_packet(ANA, ME, KEY_A, 1, "x");
    let mut signed = text_packet(ANA, NodeNum::BROADCAST, "x");
    signed.xeddsa_signed = true;
    let claim = text_packet(ANA, NodeNum::BROADCAST, "x");
    let ids: std::collections::BTreeSet<_> = [direct, signed, claim]
        .iter()
        .map(|packet| contacts.identify(&envelope(packet, true, Some(KEY_A))).id)
        .collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_contact_without_key_is_pinned_once_without_grants_and_across_a_restart() {
    let (folder, mut contacts) = contacts(&[contact(ANA, None)]);
    let channel = envelope(&text_packet(ANA, NodeNum::BROADCAST, "x"), true, Some(KEY_M));
    assert_eq!(contacts.observe(&channel, NOW).0.unwrap().kind, "unverified_claim");
    assert_eq!(contacts.entries()[0].pin, Pin::None, "a node's information is no evidence");

    let first = envelope(&pki_packet(ANA, ME, KEY_A, 1, "x"), true, None);
    let (finding, saved) = contacts.observe(&first, NOW);
    saved.unwrap();
    let finding = finding.unwrap();
    assert_eq!(finding.kind, "new_pin");
    assert!(finding.detail.contains(&KEY_A.fingerprint()));
    let peer = contacts.identify(&first);
    assert_eq!(peer.assurance, Assurance::Verified);
    assert!(peer.grants.is_empty(), "not before the operator confirms it");
    assert!(contacts.observe(&first, NOW).0.is_none(), "pinned only once");

    let again = Contacts::open(folder.path(), &[contact(ANA, None)]).unwrap();
    assert_eq!(again.entries()[0].pin, Pin::Learned { key: KEY_A, confirmed: false });
    assert_eq!(view(&again)[0].pin, "unconfirmed");
    assert!(store::is_private(again.path()).unwrap());
    // A key in the configuration is confirmed by being there.
    let fixed = Contacts::open(folder.path(), &[contact(ANA, Some(KEY_A))]).unwrap();
    assert!(!fixed.identify(&first).grants.is_empty());
    // And another one there wins over what was learnt.
    let other = Contacts::open(folder.path(), &[contact(ANA, Some(KEY_B))]).unwrap();
    assert_eq!(other.identify(&first).assurance, Assurance::Unverified);
}

#[test]
fn a_confirmed_pin_stays_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let record = serde_json::json!({"version": 1, "contacts": [
        {"id": ANA, "number": ANA, "key": KEY_A, "confirmed": true}]});
    store::replace_json(&folder.path().join(FILE), &record, Durability::Process).unwrap();
    let contacts = Contacts::open(folder.path(), &[contact(ANA, None)]).unwrap();
    let direct = envelope(&pki_packet(ANA, ME, KEY_A, 1, "x"), true, None);
    assert!(!contacts.identify(&direct).grants.is_empty());
}

#[test]
fn a_foreign_key_under_a_contacts_number_is_a_stranger_and_the_pin_stays() {
    for configured in [Some(KEY_A), None] {
        let (folder, mut contacts) = contacts(&[contact(ANA, configured)]);
        let real = envelope(&pki_packet(ANA, ME, KEY_A, 1, "x"), true, None);
        contacts.observe(&real, NOW).1.unwrap();
        let foreign = envelope(&pki_packet(ANA, ME, KEY_M, 2, "x"), true, None);
        let (finding, saved) = contacts.observe(&foreign, NOW);
        saved.unwrap();
        let finding = finding.unwrap();
        assert_eq!(finding.kind, "foreign_key");
        for key in [KEY_A, KEY_M] {
            assert!(finding.detail.contains(&key.fingerprint()));
        }
        let stranger = contacts.identify(&foreign);
        assert_eq!(stranger.assurance, Assurance::Unverified);
        assert_eq!(stranger.name, ANA.to_string());
        assert_eq!(contacts.identify(&real).assurance, Assurance::Verified);
        let again = Contacts::open(folder.path(), &[contact(ANA, configured)]).unwrap();
        assert_eq!(view(&again)[0].foreign_fingerprint, Some(KEY_M.fingerprint()));
        assert_eq!(view(&again)[0].fingerprint, Some(KEY_A.fingerprint()));
    }
}

#[test]
fn the_same_key_under_another_number_is_the_same_contact() {
    let (folder, mut contacts) = contacts(&[contact(ANA, Some(KEY_A))]);
    let new = NodeNum(0x1234_5678);
    let moved = envelope(&pki_packet(new, ME, KEY_A, 1, "x"), true, None);
    let (finding, saved) = contacts.observe(&moved, NOW);
    saved.unwrap();
    assert_eq!(finding.unwrap().kind, "moved");
    assert_eq!(contacts.identify(&moved).name, "c4");
    assert_eq!(contacts.of_number(new).unwrap().id, ANA);
    let again = Contacts::open(folder.path(), &[contact(ANA, Some(KEY_A))]).unwrap();
    assert_eq!(again.entries()[0].number, new);
    assert!(contacts.observe(&moved, NOW).0.is_none());
}

#[test]
fn a_key_is_never_pinned_to_two_contacts() {
    let (_folder, mut contacts) = contacts(&[contact(ANA, Some(KEY_A)), contact(BEN, None)]);
    let borrowed = envelope(&pki_packet(BEN, ME, KEY_A, 1, "x"), true, None);
    assert_eq!(contacts.observe(&borrowed, NOW).0.unwrap().kind, "foreign_key");
    assert_eq!(contacts.entries()[1].pin, Pin::None);
    assert_eq!(
        contacts.entries()[0].number,
        ANA,
        "the number of another contact is not taken over"
    );
    assert_eq!(contacts.identify(&borrowed).name, "c4", "the key says who it is");

    // The other order: learnt by Ben first, then configured for Ana.
    let (folder, mut contacts) = self::contacts(&[contact(BEN, None)]);
    contacts.observe(&borrowed, NOW).1.unwrap();
    assert_eq!(contacts.entries()[0].pin.key(), Some(KEY_A));
    let configured = [contact(BEN, None), contact(ANA, Some(KEY_A))];
    let contacts = Contacts::open(folder.path(), &configured).unwrap();
    assert_eq!(contacts.entries()[0].pin, Pin::None);
    assert_eq!(contacts.identify(&borrowed).name, "c4");
}

#[test]
fn contradictions_in_the_configuration_are_named_and_the_first_holds() {
    let (_folder, contacts) = contacts(&[
        contact(ANA, Some(KEY_A)),
        contact(BEN, Some(KEY_A)),
        contact(ANA, Some(KEY_B)),
    ]);
    assert_eq!(contacts.entries().len(), 1);
    assert_eq!(contacts.entries()[0].pin.key(), Some(KEY_A));
    assert_eq!(contacts.warnings(&MeshConfig::default()).len(), 2);
}

#[test]
fn our_own_key_is_nobodys() {
    let (_folder, mut contacts) = contacts(&[contact(ANA, None)]);
    contacts.set_own_key(Some(KEY_A));
    let packet = envelope(&pki_packet(ANA, ME, KEY_A, 1, "x"), true, None);
    assert!(contacts.observe(&packet, NOW).0.is_none());
    assert_eq!(contacts.entries()[0].pin, Pin::None);
}

#[test]
fn a_message_in_the_clear_under_a_contacts_number_is_told() {
    let (_folder, mut contacts) = contacts(&[contact(ANA, Some(KEY_A))]);
    let plain = envelope(&text_packet(ANA, ME, "x"), true, None);
    assert_eq!(contacts.observe(&plain, NOW).0.unwrap().kind, "downgrade");
    let by_udp = Inbound { transport: 6, ..pki_packet(ANA, ME, KEY_A, 1, "x") };
    let by_udp = envelope(&by_udp, true, None);
    assert_eq!(contacts.observe(&by_udp, NOW).0.unwrap().kind, "downgrade");
    let stranger = envelope(&text_packet(BEN, ME, "x"), true, None);
    assert!(contacts.observe(&stranger, NOW).0.is_none());
}

#[test]
fn a_broken_file_of_pins_stops_the_start_and_names_itself() {
    let folder = tempfile::tempdir().unwrap();
    store::replace(&folder.path().join(FILE), b"{", Durability::Process).unwrap();
    let error = Contacts::open(folder.path(), &[]).unwrap_err();
    assert!(error.to_string().contains("contacts.json"));
    assert!(error.source.to_string().contains("move it away"), "{}", error.source);
}
