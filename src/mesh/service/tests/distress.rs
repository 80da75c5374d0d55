//! `sos`: who is recorded, who is acknowledged, and what stands in neither's way.

use super::bench::{ANA, Act, BEN, Bench, MALLORY, ME, open, radio_info, trusted};
use crate::assistant::{Assurance, TurnId};
use crate::config::{Asker, MeshConfig};
use crate::mesh::commands::DISTRESS_SHOWN;
use crate::mesh::operator::{Change, Why, Wish};
use crate::mesh::packets::{KEY_A, KEY_M, pki_packet, text_packet};
use crate::mesh::view::{DistressView, MeshEvent};
use crate::node::{NodeNum, PacketId};
use crate::radio::{Inbound, RadioInfo};

fn wish<T>(what: T) -> Wish<T> {
    Wish { by: "operator ab12cd34".to_owned(), what }
}

async fn texts(bench: &Bench) -> Vec<DistressView> {
    bench.handle.distress().await.unwrap()
}

/// Who called, how sure that is and with what, the oldest first.
async fn calls(bench: &Bench) -> Vec<(NodeNum, Assurance, String)> {
    let texts = texts(bench).await.into_iter().rev();
    texts.map(|text| (text.node, text.assurance, text.text)).collect()
}

fn acknowledgements(bench: &Bench) -> usize {
    bench.texts().iter().filter(|text| *text == DISTRESS_SHOWN).count()
}

/// A direct message that is not encrypted to us.
fn in_the_clear(from: NodeNum, id: u32, text: &str) -> Inbound {
    Inbound { id: PacketId(id), ..text_packet(from, ME, text) }
}

#[tokio::test(start_paused = true)]
async fn everybodys_call_is_recorded_with_what_it_proves_and_only_who_is_answered_hears_of_it() {
    let mut bench = Bench::on(tempfile::tempdir().unwrap(), trusted(), |_| Act::Hang).await;
    bench.ana(1, "!ai hang").await; // the model has enough to do
    bench.ana(2, "sos broken leg at the causeway").await;
    bench.ben(3, "!ai: SOS!").await;
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 4, "sos under a key that nobody knows")).await;
    bench.hear(in_the_clear(ANA, 5, "Sos under the number of a contact")).await;
    bench.channel(MALLORY, 6, "!ai sos on a channel").await;
    bench.channel(MALLORY, 7, "sos on a channel, to nobody here").await;
    bench
        .hear(Inbound { via_mqtt: true, ..in_the_clear(MALLORY, 8, "sos by way of the net") })
        .await;
    bench.settle().await;
    let say = |text: &str| text.to_owned();
    assert_eq!(
        calls(&bench).await,
        [
            (ANA, Assurance::Verified, say("broken leg at the causeway")),
            (BEN, Assurance::Verified, say("")),
            (MALLORY, Assurance::Unverified, say("under a key that nobody knows")),
            (ANA, Assurance::Unverified, say("under the number of a contact")),
            (MALLORY, Assurance::Unverified, say("on a channel")),
            (MALLORY, Assurance::Unverified, say("by way of the net")),
        ]
    );
    let texts = texts(&bench).await;
    let [net, channel, claimed, key, ben, ana] = texts.as_slice() else { panic!("{texts:?}") };
    assert_eq!((ana.name.as_str(), ana.fingerprint.clone()), ("Ana", Some(KEY_A.fingerprint())));
    assert_eq!((ana.snr, ana.hops, ana.seen_at, &ana.claims), (Some(6.25), Some(0), None, &None));
    assert_eq!((ben.name.as_str(), ben.channel.clone()), ("Ben", None));
    assert_eq!(key.fingerprint, Some(KEY_M.fingerprint()));
    assert_eq!((claimed.name.as_str(), claimed.claims.as_deref()), ("!a1b2c3d4", Some("Ana")));
    assert_eq!((claimed.fingerprint.clone(), channel.channel.as_deref()), (None, Some("bots")));
    assert!(net.mqtt && !channel.mqtt);
    bench.until("two acknowledgements", |b| acknowledgements(b) == 2).await;
    bench.pass(120).await;
    let sent = bench.sent();
    assert_eq!(acknowledgements(&bench), 2);
    assert!(sent.iter().all(|p| [ANA, BEN].contains(&p.to)), "and the strangers hear nothing");
    assert_eq!(
        (sent[0].to, sent[0].pki_key, sent[0].reply_id),
        (ANA, Some(KEY_A), Some(PacketId(2)))
    );
    assert_eq!(bench.asked().len(), 1, "no model was asked about it");
    assert_eq!(
        bench.ignored().await[1..],
        [
            "",
            "",
            "not a verified contact",
            "not a verified contact",
            "channel not listed",
            "no trigger",
            "came by MQTT"
        ]
    );
    assert_eq!(bench.handle.status().await.unwrap().distress, 6);
    let told = bench.events();
    let told = told.iter().filter(|e| matches!(e, MeshEvent::Distress { cleared: false, .. }));
    assert_eq!(told.count(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_only_holds_the_word_is_a_question() {
    let bench = Bench::start(open()).await;
    for (id, text) in [
        (1, "!ai what does sos mean?"),
        (2, "!ai sosta vietata?"),
        (3, "!ai sos?"),
        (4, "!ai help me, the sos button is stuck"),
        (5, "!ai help"),
        (6, "what does sos mean?"),
        (7, "help"),
    ] {
        bench.ana(id, text).await;
        bench.pass(30).await;
    }
    assert!(texts(&bench).await.is_empty());
    let asked: Vec<String> = bench.asked().into_iter().map(|asked| asked.text).collect();
    assert_eq!(asked.len(), 4, "{asked:?}");
    bench.ana(8, "!ai sos").await;
    bench.settle().await;
    assert_eq!(texts(&bench).await.len(), 1);
    assert_eq!(bench.asked().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_is_denied_is_not_heard_and_who_is_suspended_is_heard_and_not_answered() {
    let config = MeshConfig { denied_askers: vec![Asker::Node(MALLORY)], ..open() };
    let bench = Bench::start(config).await;
    let suspend = Change::Suspend { id: ANA, suspended: true };
    bench.handle.change(wish(suspend)).await.unwrap().unwrap();
    bench.hear(in_the_clear(MALLORY, 1, "sos wolf")).await;
    bench.ana(2, "sos").await;
    bench.pass(60).await;
    assert_eq!(calls(&bench).await, [(ANA, Assurance::Verified, String::new())]);
    assert_eq!(bench.ignored().await, ["denied", "suspended"]);
    assert!(bench.sent().is_empty());
    // The same for one who is denied later: what was recorded before stays, for a person has to see it.
    let deny = Change::Deny { asker: Asker::Key(KEY_A), denied: true };
    bench.handle.change(wish(deny)).await.unwrap().unwrap();
    bench.ana(3, "sos again").await;
    bench.settle().await;
    assert_eq!(texts(&bench).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_is_answered_calls_are_recorded_in_silence() {
    let bench = Bench::start(MeshConfig { enabled: false, ..open() }).await;
    bench.ana(1, "sos one").await;
    bench.settle().await;
    bench.handle.change(wish(Change::Enabled(true))).await.unwrap().unwrap();
    bench.handle.stop_all(false).await.unwrap();
    bench.ana(2, "sos two").await;
    bench.pass(60).await;
    assert_eq!(texts(&bench).await.len(), 2);
    assert_eq!(bench.ignored().await, ["answering is off", "stopped by the operator"]);
    bench.handle.stop_all(true).await.unwrap();
    bench.pass(60).await;
    assert!(bench.sent().is_empty(), "nor later");
    bench.ana(3, "sos three").await;
    bench.until("an acknowledgement", |b| acknowledgements(b) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn one_acknowledgement_in_ten_minutes_and_a_few_for_all_who_prove_nothing() {
    let bench = Bench::start(open()).await;
    for id in 1..=5 {
        bench.ana(id, &format!("sos {id}")).await;
        bench.pass(100).await;
    }
    assert_eq!(acknowledgements(&bench), 1);
    assert_eq!(bench.ignored().await[1..], ["recorded; acknowledged a moment ago"; 4]);
    bench.pass(101).await; // more than ten minutes after the first
    bench.ana(6, "sos 6").await;
    bench.pass(60).await;
    assert_eq!(acknowledgements(&bench), 2);
    for n in 0..20 {
        bench.channel(NodeNum(0x0bad_0000 + n), 1, "!ai sos").await;
        bench.pass(5).await;
    }
    bench.pass(60).await;
    assert_eq!(acknowledgements(&bench), 2 + 6);
    let budget = bench.ignored().await;
    assert_eq!(budget.iter().filter(|why| *why == "over the hourly budget").count(), 14);
    bench.ben(1, "sos").await;
    bench.until("a contact has its own", |b| acknowledgements(b) == 2 + 7).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_asked_too_much_and_too_fast_is_acknowledged_all_the_same() {
    let bench = Bench::start(MeshConfig { queries_per_hour: 1, ..trusted() }).await;
    for id in 1..=70 {
        bench.ana(id, "!ai ping").await;
    }
    bench.ana(100, "!ai sos").await;
    bench.until("an acknowledgement", |b| acknowledgements(b) == 1).await;
    let before = bench.texts().iter().position(|text| text == DISTRESS_SHOWN).unwrap();
    assert!(before <= 1, "it waits for nothing but what is on its way: {before}");
}

#[tokio::test(start_paused = true)]
async fn a_packet_is_one_record_and_one_acknowledgement_however_often_it_comes() {
    let mut bench = Bench::start(open()).await;
    for _ in 0..3 {
        bench.ana(1, "sos broken leg").await;
        bench.hear(in_the_clear(MALLORY, 2, "sos wolf")).await;
    }
    bench.pass(60).await;
    let found = texts(&bench).await;
    assert_eq!(found.iter().map(|text| text.times).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(acknowledgements(&bench), 2);
    assert_eq!(bench.security(), ["replay", "downgrade"][..1], "a claim proves no replay");
    for text in found {
        bench.handle.clear_distress(wish(text.id)).await.unwrap().unwrap();
    }
    let bench = Bench::on(bench.end().await, open(), |_| Act::Hang).await;
    bench.pass(3_600).await;
    bench.ana(1, "sos broken leg").await;
    bench.hear(in_the_clear(MALLORY, 2, "sos wolf")).await;
    bench.pass(60).await;
    assert_eq!((texts(&bench).await.len(), bench.sent().len()), (2, 0));
    assert_eq!(bench.handle.status().await.unwrap().distress, 0);
}

#[tokio::test(start_paused = true)]
async fn a_kill_after_the_acknowledgement_loses_nothing_and_repeats_nothing() {
    let bench = Bench::start(trusted()).await;
    bench.ana(1, "sos broken leg").await;
    bench.until("it left", |b| acknowledgements(b) == 1).await;
    let before = texts(&bench).await;
    let killed = bench.snapshot();
    let bench = Bench::on(killed, trusted(), |_| Act::Hang).await;
    assert_eq!(texts(&bench).await, before);
    assert_eq!(bench.handle.status().await.unwrap().distress, 1);
    bench.ana(1, "sos broken leg").await;
    bench.pass(120).await;
    assert_eq!(texts(&bench).await, before);
    let ids: Vec<PacketId> = bench.sent().iter().map(|sent| sent.id).collect();
    assert!(ids.len() <= 1, "its fate was unknown: once more under the same id at most");
}

#[tokio::test(start_paused = true)]
async fn clearing_is_recorded_and_done_once() {
    let mut bench = Bench::start(trusted()).await;
    bench.ana(1, "sos broken leg").await;
    bench.ben(2, "sos too").await;
    bench.settle().await;
    let id = texts(&bench).await[1].id.clone();
    for _ in 0..2 {
        let left = bench.handle.clear_distress(wish(id.clone())).await.unwrap().unwrap();
        assert!(left[1].seen_at.is_some() && left[0].seen_at.is_none());
    }
    let unknown = wish(TurnId("m-nothing".to_owned()));
    let refusal = bench.handle.clear_distress(unknown).await.unwrap().unwrap_err();
    assert_eq!((refusal.why, refusal.field), (Why::Wrong, "id"));
    let changes = std::fs::read_to_string(bench.folder.path().join("changes.log")).unwrap();
    assert_eq!(changes.lines().count(), 1, "{changes}");
    assert!(
        changes.contains("operator ab12cd34") && changes.contains("Ana (!a1b2c3d4, pinned key)")
    );
    assert!(!changes.contains("leg"), "no words of it: {changes}");
    let events = bench.events();
    let cleared = events.iter().filter(|e| matches!(e, MeshEvent::Distress { cleared: true, .. }));
    assert_eq!(cleared.count(), 1);
    assert_eq!(bench.handle.status().await.unwrap().distress, 1);
}

#[tokio::test(start_paused = true)]
async fn in_licensed_mode_a_call_is_recorded_as_a_claim() {
    let mut info: RadioInfo = radio_info();
    info.owner.licensed = true;
    let bench = Bench::offline(tempfile::tempdir().unwrap(), trusted(), |_| Act::Hang);
    bench.up(info).await;
    bench.ana(1, "sos").await;
    bench.pass(60).await;
    assert_eq!(calls(&bench).await, [(ANA, Assurance::Unverified, String::new())]);
    assert!(bench.sent().is_empty());
}
