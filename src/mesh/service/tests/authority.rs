//! Who gets what: identity, policy and the scope that reaches the assistant.

use std::time::Duration;

use super::bench::{ANA, Act, BEN, Bench, MALLORY, ME, open, radio_info, trusted};
use crate::assistant::{Assurance, CallerScope, PermissionCategory};
use crate::config::{AirtimeConfig, Asker, Contact, MeshConfig};
use crate::mesh::packets::{KEY_A, KEY_B, KEY_M, pki_packet, text_packet};
use crate::mesh::view::MeshEvent;
use crate::node::{NodeNum, PacketId};
use crate::radio::{Data, Inbound, Payload, Telemetry, port};

fn assurance(scope: &CallerScope) -> Assurance {
    match scope {
        CallerScope::Mesh { assurance, .. } => *assurance,
        CallerScope::LocalOperator { .. } => panic!("a peer became the operator"),
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_allowed_number_a_foreign_key_and_the_pinned_key_only_the_last_gets_tools() {
    let mut bench = Bench::start(open()).await;
    bench.channel(ANA, 1, "!ai one").await;
    bench.hear(pki_packet(ANA, ME, KEY_M, 2, "!ai two")).await;
    bench.ana(3, "!ai three").await;
    bench.until("three answers", |b| b.sent().len() == 3).await;

    let asked = bench.asked();
    let texts: Vec<_> = asked.iter().map(|asked| asked.text.as_str()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let tools: Vec<bool> = asked
        .iter()
        .map(|asked| asked.scope.granted_categories().contains(&PermissionCategory::System))
        .collect();
    assert_eq!(tools, [false, false, true]);
    let memory: Vec<bool> = asked.iter().map(|a| a.scope.history_key().is_some()).collect();
    assert_eq!(memory, [false, false, true]);

    let sent = bench.sent();
    assert_eq!((sent[0].to, sent[0].channel, sent[0].pki_key), (NodeNum::BROADCAST, 1, None));
    assert_eq!((sent[1].to, sent[1].pki_key), (ANA, Some(KEY_M)), "never to the channel key");
    assert_eq!((sent[2].to, sent[2].pki_key), (ANA, Some(KEY_A)));
    let security = bench.security();
    assert_eq!(security, ["unverified_claim", "foreign_key"]);
    let contact = &bench.handle.answering().await.unwrap().allowed_contacts[0];
    assert_eq!(contact.fingerprint, Some(KEY_A.fingerprint()));
    assert_eq!(contact.foreign_fingerprint, Some(KEY_M.fingerprint()));
}

#[tokio::test(start_paused = true)]
async fn with_trusted_only_the_first_two_meet_silence() {
    let mut bench = Bench::start(MeshConfig { channels: vec!["bots".into()], ..trusted() }).await;
    bench.channel(ANA, 1, "!ai help").await;
    bench.hear(pki_packet(ANA, ME, KEY_M, 2, "!ai")).await;
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 3, "!ai ping")).await;
    bench.hear(Inbound { id: PacketId(4), ..text_packet(ANA, ME, "!ai two") }).await;
    bench.ana(5, "!ai three").await;
    bench.until("the answer", |b| !b.sent().is_empty()).await;
    bench.pass(600).await;
    assert_eq!(bench.texts(), ["fine"]);
    assert_eq!(bench.asked().len(), 1);
    let ignored = bench.ignored().await;
    assert_eq!(ignored[..4], vec!["not a verified contact"; 4]);
    assert_eq!(ignored[4], "");
    assert!(bench.security().contains(&"downgrade".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_forger_can_neither_stop_nor_hear_nor_block_a_contacts_turn() {
    let bench = Bench::start(open()).await;
    bench.rule(|_| Act::After(Duration::from_secs(10), "for Ana".to_owned()));
    bench.ana(1, "!ai three").await;
    bench.settle().await;
    bench.channel(ANA, 2, "!ai stop").await;
    bench.hear(pki_packet(ANA, ME, KEY_M, 3, "!ai stop")).await;
    bench.hear(Inbound { id: PacketId(4), ..text_packet(ANA, ME, "!ai stop") }).await;
    bench.until("the answer", |b| b.texts().contains(&"for Ana".to_owned())).await;
    let answers: Vec<_> =
        bench.sent().into_iter().filter(|packet| packet.bytes == b"for Ana").collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].pki_key, Some(KEY_A));
    // The same packet id under the forger's key is another packet.
    bench.hear(pki_packet(ANA, ME, KEY_M, 9, "!ai block")).await;
    bench.settle().await;
    bench.ana(9, "!ai not blocked").await;
    bench.until("asked", |b| b.asked().iter().any(|asked| asked.text == "not blocked")).await;
    // And nothing of the contact's is given to the forger.
    bench.hear(pki_packet(ANA, ME, KEY_M, 10, "!ai more")).await;
    bench.until("no more", |b| b.texts().contains(&"Nothing more.".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn a_listed_number_without_key_is_pinned_without_tools_until_confirmed() {
    let contact = Contact { id: ANA, key: None, name: None, grants: None };
    let config = MeshConfig { allowed_contacts: vec![contact], ..MeshConfig::default() };
    let mut bench = Bench::start(config).await;
    bench.ana(1, "!ai first").await;
    bench.until("the answer", |b| !b.sent().is_empty()).await;
    let scope = &bench.asked()[0].scope;
    assert_eq!(assurance(scope), Assurance::Verified);
    assert!(scope.granted_categories().is_empty());
    assert_eq!(bench.security(), ["new_pin"]);
    assert_eq!(bench.handle.answering().await.unwrap().allowed_contacts[0].pin, "unconfirmed");
    // Whoever comes second with that number is a stranger.
    bench.hear(pki_packet(ANA, ME, KEY_M, 2, "!ai second")).await;
    bench.settle().await;
    assert_eq!(bench.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_contact_is_followed_to_its_new_number_and_kept_in_the_radio() {
    let mut bench = Bench::start(trusted()).await;
    bench.settle().await;
    assert!(bench.radio.contacts.lock().unwrap().is_empty(), "the radio holds both keys");
    let new = NodeNum(0x1234_5678);
    bench.hear(pki_packet(new, ME, KEY_A, 1, "!ai hello")).await;
    bench.until("the answer", |b| !b.sent().is_empty()).await;
    assert_eq!(bench.sent()[0].to, new);
    assert!(!bench.asked()[0].scope.granted_categories().is_empty());
    assert_eq!(*bench.radio.contacts.lock().unwrap(), [(new, KEY_A)]);
    assert_eq!(bench.security(), ["moved"]);
    // A radio that lost one key, and took a foreign one for another contact, is told both.
    let mut info = radio_info();
    info.nodes.retain(|node| node.num == BEN.0);
    info.nodes[0].public_key = Some(KEY_M);
    bench.up(info).await;
    bench.hear(pki_packet(new, ME, KEY_A, 2, "!ai ping")).await;
    bench.settle().await;
    assert_eq!(bench.radio.contacts.lock().unwrap()[1..], [(new, KEY_A), (BEN, KEY_B)]);
}

#[tokio::test(start_paused = true)]
async fn what_claims_to_be_ourselves_is_dropped_and_told() {
    let mut bench = Bench::start(open()).await;
    for (id, from) in [(1, ME), (2, NodeNum(0)), (3, NodeNum::BROADCAST)] {
        bench.channel(from, id, "!ai hi").await;
        bench.hear(pki_packet(from, ME, KEY_M, id + 10, "!ai hi")).await;
    }
    // A forged telemetry of ours could silence us: nine tenths of the channel busy.
    let busy =
        Telemetry { channel_utilization: Some(90.0), air_util_tx: Some(90.0), battery_level: None };
    let telemetry = |transport, rx_rssi| Inbound {
        transport,
        rx_rssi,
        payload: Payload::Data(Data {
            port: port::TELEMETRY,
            telemetry: Some(busy),
            ..Data::default()
        }),
        ..text_packet(ME, NodeNum::BROADCAST, "")
    };
    bench.hear(telemetry(1, -45)).await;
    bench.hear(telemetry(0, -45)).await; // as firmware that doesn't tell the transport passes it on
    bench.settle().await;
    assert!(bench.sent().is_empty() && bench.asked().is_empty());
    assert_eq!(bench.security(), vec!["spoofed_sender"; 3]);
    assert!(bench.ignored().await.iter().all(|why| why == "spoofed sender"));
    assert_eq!(bench.handle.airtime().await.unwrap().channel_utilization, None);
    bench.hear(telemetry(0, 0)).await;
    bench.settle().await;
    assert_eq!(bench.handle.airtime().await.unwrap().channel_utilization, Some(90.0));
}

#[tokio::test(start_paused = true)]
async fn switched_off_means_silent_and_still_listening() {
    let mut bench = Bench::start(MeshConfig { enabled: false, ..open() }).await;
    bench.ana(1, "!ai help").await;
    bench.channel(MALLORY, 2, "!ai hi").await;
    bench.settle().await;
    assert!(bench.sent().is_empty() && bench.asked().is_empty());
    assert_eq!(bench.ignored().await, vec!["answering is off"; 2]);
    let heard = |event: &MeshEvent| matches!(event, MeshEvent::Heard { .. });
    assert_eq!(bench.events().iter().filter(|event| heard(event)).count(), 2);
    assert!(bench.handle.nodes().await.unwrap().iter().any(|node| node.node == MALLORY));
}

#[tokio::test(start_paused = true)]
async fn who_is_denied_while_a_turn_runs_gets_no_answer() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|text| match text {
        "one" => Act::Deaf,
        _ => Act::After(Duration::from_secs(10), "late".to_owned()),
    });
    for (id, text) in [(1, "!ai one"), (2, "!ai two")] {
        bench.ana(id, text).await;
    }
    bench.ben(3, "!ai three").await;
    bench.settle().await;
    let config = MeshConfig { denied_askers: vec![Asker::Key(KEY_A)], ..trusted() };
    bench.handle.reconfigure(config, AirtimeConfig::default()).await.unwrap();
    bench.pass(600).await;
    assert_eq!(bench.asked().len(), 2, "the waiting question is not asked");
    assert_eq!(bench.sent().iter().map(|packet| packet.to).collect::<Vec<_>>(), [BEN]);
    assert_eq!(bench.journalled(), 0);
    assert_eq!(bench.ignored().await, ["denied", "denied", ""]);
}
