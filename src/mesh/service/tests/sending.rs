//! `mesh.send`: the operator's own texts, under the same law and pace as answers.

use super::bench::{ANA, Act, BEN, Bench, MALLORY, ME, open, radio_info, trusted};
use crate::config::{Contact, MeshConfig};
use crate::mesh::operator::{Queued, Refusal, Text, Why, Wish};
use crate::mesh::packets::{KEY_A, KEY_M, pki_packet};
use crate::mesh::view::{Delivery, MessageView};
use crate::node::NodeNum;
use crate::radio::{LinkEvent, NodeInfo, RadioInfo};

impl Bench {
    async fn send(&self, to: NodeNum, text: &str, ack: bool) -> Result<Queued, Refusal> {
        let what = Text { to, text: text.to_owned(), ack };
        let wish = Wish { by: "operator 0".to_owned(), what };
        self.handle.send_text(wish).await.unwrap()
    }

    async fn outgoing(&self) -> Vec<MessageView> {
        let messages = self.handle.messages(500).await.unwrap();
        messages.into_iter().filter(|message| message.direction == "out").collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_goes_to_the_pinned_key_and_is_in_the_message_list_all_the_way() {
    let bench = Bench::start(trusted()).await;
    let queued = bench.send(ANA, "Storm from the west at noon.", true).await.unwrap();
    assert_eq!((queued.bytes, queued.budget, queued.name.as_str()), (28, 200, "Ana"));
    bench.until("it leaves", |b| b.sent().len() == 1).await;
    let sent = &bench.sent()[0];
    assert_eq!((sent.to, sent.pki_key, sent.want_ack), (ANA, Some(KEY_A), true));
    assert_eq!((sent.reply_id, sent.emoji), (None, false));
    bench.settle().await;
    let row = &bench.outgoing().await[0];
    assert_eq!((row.text.as_str(), row.id), ("Storm from the west at noon.", sent.id));
    assert_eq!(row.delivery, Some(Delivery::Delivered));
    assert_eq!(bench.outgoing().await.len(), 1, "one row from the queue to the end");
    let record = std::fs::read_to_string(bench.folder.path().join("changes.log")).unwrap();
    assert!(record.contains("text of 28 bytes to Ana") && !record.contains("Storm"), "{record}");
    // Ana's own words do nothing to it: it is no answer of hers.
    bench.ana(1, "!ai again").await;
    bench.until("answered", |b| b.sent().len() == 2).await;
    assert_eq!(bench.texts()[1], crate::mesh::commands::NOTHING_KEPT);
    assert!(bench.handle.airtime().await.unwrap().used_ms > 0, "counted like any other");
}

#[tokio::test(start_paused = true)]
async fn without_an_ack_it_is_sent_once_and_that_is_all_that_is_known() {
    let bench = Bench::start(trusted()).await;
    bench.send(ANA, "no need to answer", false).await.unwrap();
    bench.until("it leaves", |b| b.sent().len() == 1).await;
    bench.pass(30).await;
    assert!(!bench.sent()[0].want_ack);
    assert_eq!(bench.outgoing().await[0].delivery, Some(Delivery::Sent));
}

#[tokio::test(start_paused = true)]
async fn texts_keep_the_gap_and_the_order_of_everything_else() {
    let bench = Bench::start(trusted()).await;
    for text in ["one", "two", "three"] {
        bench.send(BEN, text, true).await.unwrap();
    }
    bench.pass(2).await;
    assert_eq!(bench.sent().len(), 1, "2.3 s between texts");
    let waiting: Vec<_> = bench.outgoing().await.into_iter().map(|row| row.delivery).collect();
    assert_eq!(waiting[1..], [Some(Delivery::Queued), Some(Delivery::Queued)]);
    bench.until("all", |b| b.texts() == ["one", "two", "three"]).await;
    // A kill loses none: what was accepted is on disk.
    bench.send(BEN, "four", true).await.unwrap();
    let killed = bench.snapshot();
    drop(bench);
    let bench = Bench::on(killed, trusted(), |_| Act::Hang).await;
    bench.until("it leaves after all", |b| b.texts().contains(&"four".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_bytes_go_and_no_more() {
    let bench = Bench::start(trusted()).await;
    assert_eq!(bench.send(ANA, &"a".repeat(200), true).await.unwrap().bytes, 200);
    let refusal = bench.send(ANA, &"a".repeat(201), true).await.unwrap_err();
    assert_eq!((refusal.why, refusal.field), (Why::Wrong, "text"));
    assert!(refusal.reason.contains("201 bytes") && refusal.reason.contains("200"));
    // Bytes, not characters.
    assert!(bench.send(ANA, &"ї".repeat(100), true).await.is_ok());
    assert!(
        bench.send(ANA, &"ї".repeat(101), true).await.unwrap_err().reason.contains("202 bytes")
    );
    for empty in ["", " \n ", "\u{200b}\u{202e}"] {
        assert_eq!(bench.send(ANA, empty, true).await.unwrap_err().field, "text");
    }
    let hidden = bench.send(ANA, "do\u{202e}or\u{1b}[2J", true).await.unwrap();
    assert_eq!(hidden.bytes, "door[2J".len());
}

#[tokio::test(start_paused = true)]
async fn only_who_has_a_key_is_sent_to() {
    let unpinned = Contact { id: NodeNum(0x7777), key: None, name: None, grants: None };
    let mut config = trusted();
    config.allowed_contacts.push(unpinned);
    let bench = Bench::start(config).await;
    let node = |num: u32, key| NodeInfo {
        num,
        long_name: "Heard".to_owned(),
        public_key: key,
        ..NodeInfo::default()
    };
    bench.tell(LinkEvent::Node(node(0x8888, Some(KEY_M)))).await;
    bench.tell(LinkEvent::Node(node(0x9999, None))).await;
    for (to, why) in [
        (NodeNum(0x7777), Why::State),
        (NodeNum(0x9999), Why::State),
        (MALLORY, Why::Wrong),
        (ME, Why::Wrong),
        (NodeNum::BROADCAST, Why::Wrong),
    ] {
        let refusal = bench.send(to, "hello", true).await.unwrap_err();
        assert_eq!((refusal.why, refusal.field), (why, "to"), "{to}: {}", refusal.reason);
    }
    let queued = bench.send(NodeNum(0x8888), "hello", true).await.unwrap();
    assert_eq!(queued.name, "Heard");
    bench.until("it leaves", |b| b.sent().len() == 1).await;
    assert_eq!(bench.sent()[0].pki_key, Some(KEY_M));
    // A contact that has moved is reached where it is.
    let new = NodeNum(0x1234_5678);
    bench.hear(pki_packet(new, ME, KEY_A, 1, "hi")).await;
    bench.settle().await;
    for to in [new, ANA] {
        assert_eq!(bench.send(to, "hello", true).await.unwrap().to, new);
    }
}

/// Why nothing is taken after a handshake with a radio that is so.
async fn refused(change: impl FnOnce(&mut RadioInfo)) -> String {
    let bench = Bench::start(trusted()).await;
    let mut info = radio_info();
    change(&mut info);
    bench.up(info).await;
    bench.settle().await;
    let refusal = bench.send(ANA, "hello", true).await.unwrap_err();
    assert_eq!((refusal.why, refusal.field), (Why::State, ""));
    bench.pass(60).await;
    assert!(bench.sent().is_empty() && bench.outgoing().await.is_empty());
    refusal.reason
}

#[tokio::test(start_paused = true)]
async fn what_could_not_leave_is_refused_with_the_reason() {
    assert!(refused(|info| info.lora.region = 0).await.contains("region"));
    assert!(refused(|info| info.lora.tx_enabled = false).await.contains("switched off"));
    assert!(refused(|info| info.owner.licensed = true).await.contains("licensed"));

    let bench = Bench::offline(tempfile::tempdir().unwrap(), open(), |_| Act::Hang);
    assert!(bench.send(ANA, "x", true).await.unwrap_err().reason.contains("no radio"));
    bench.up(radio_info()).await;
    bench.settle().await;
    bench.tell(LinkEvent::Down { reason: "unplugged".to_owned() }).await;
    bench.settle().await;
    assert!(bench.send(ANA, "x", true).await.unwrap_err().reason.contains("unplugged"));

    let bench = Bench::start(trusted()).await;
    bench.handle.stop_all(false).await.unwrap();
    assert!(bench.send(ANA, "x", true).await.unwrap_err().reason.contains("stopped"));
}

#[tokio::test(start_paused = true)]
async fn a_crowded_hour_takes_no_more_texts() {
    let bench = Bench::start(MeshConfig { queries_per_hour: 1, ..trusted() }).await;
    let (mut taken, mut last) = (0, String::new());
    for _ in 0..300 {
        match bench.send(ANA, &"a".repeat(200), true).await {
            Ok(_) => taken += 1,
            Err(refusal) => {
                assert_eq!(refusal.why, Why::State);
                last = refusal.reason;
            }
        }
        bench.pass(8).await;
    }
    assert!(taken > 20, "{taken}");
    assert!(last.contains("airtime"), "{last}");
    let air = bench.handle.airtime().await.unwrap();
    assert!(air.used_ms <= air.limit_ms.unwrap(), "{air:?}");
}
