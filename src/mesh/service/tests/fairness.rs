//! Many at once: order, bounds, and that everything ends in an answer or a reason.

use std::collections::BTreeSet;
use std::time::Duration;

use super::bench::{Act, Bench, MALLORY, ME, open};
use crate::config::{Contact, MeshConfig};
use crate::mesh::budget::SHARED_PER_HOUR;
use crate::mesh::packets::{KEY_M, pki_packet};
use crate::mesh::queue::MAX_WAITING;
use crate::node::{NodeNum, PublicKey};

fn peer(i: u8) -> (NodeNum, PublicKey) {
    (NodeNum(0x5000_0000 + u32::from(i)), PublicKey([i + 1; 32]))
}

fn many(count: u8) -> MeshConfig {
    let contact = |i| {
        let (id, key) = peer(i);
        Contact { id, key: Some(key), name: Some(format!("p{i}")), grants: None }
    };
    MeshConfig { allowed_contacts: (0..count).map(contact).collect(), ..MeshConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_questions_of_fifty_peers_are_all_answered_or_refused_in_fair_order() {
    let bench = Bench::start(many(50)).await;
    bench.rule(|text| Act::After(Duration::from_secs(4), format!("re {text}")));
    let before = bench.clock.now().mono_ms;
    for i in 0..50u8 {
        let (node, key) = peer(i);
        for question in 0..2u32 {
            let text = format!("!ai p{i}q{question}");
            bench.hear(pki_packet(node, ME, key, 100 + question, &text)).await;
        }
    }
    bench.handle.status().await.unwrap();
    assert_eq!(bench.clock.now().mono_ms, before, "reading does not wait for any of them");
    bench.until("all over", |b| b.journalled() == 0 && b.texts().len() >= 64).await;
    bench.pass(600).await;

    let refused = bench.ignored().await.iter().filter(|why| *why == "busy").count();
    let asked: Vec<String> = bench.asked().into_iter().map(|asked| asked.text).collect();
    assert_eq!(asked.len() + refused, 100);
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len());
    assert_eq!(asked.len(), MAX_WAITING + 2);
    // Everybody's first question was asked, in the order of arrival, before anybody's second.
    let firsts: Vec<String> = (0..50).map(|i| format!("p{i}q0")).collect();
    assert_eq!(asked[..50], firsts);
    assert!(asked[50..].iter().all(|text| text.ends_with("q1")));
    // And each of them has its answer, to the right peer.
    for i in 0..50u8 {
        let answer = format!("re p{i}q0");
        let found: Vec<_> =
            bench.sent().into_iter().filter(|p| p.bytes == answer.as_bytes()).collect();
        assert_eq!(found.len(), 1, "{answer}");
        assert_eq!((found[0].to, found[0].pki_key), (peer(i).0, Some(peer(i).1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flooding_contact_is_told_once_and_others_are_served() {
    let config = MeshConfig { queries_per_hour: 3, ..many(2) };
    let bench = Bench::start(config).await;
    let (node, key) = peer(0);
    for id in 1..=20u32 {
        bench.hear(pki_packet(node, ME, key, id, &format!("!ai q{id}"))).await;
        bench.pass(20).await;
    }
    let (other, other_key) = peer(1);
    bench.hear(pki_packet(other, ME, other_key, 1, "!ai hello")).await;
    bench.until("the other is served", |b| b.sent().iter().any(|p| p.to == other)).await;
    assert_eq!(bench.asked().len(), 4);
    let notices = bench.texts().iter().filter(|text| text.contains("a lot of questions")).count();
    assert_eq!(notices, 1);
    // An hour later it may ask again.
    bench.pass(3600).await;
    bench.hear(pki_packet(node, ME, key, 99, "!ai once more")).await;
    bench.until("asked", |b| b.asked().len() == 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_third_question_of_one_peer_is_refused_with_one_notice() {
    let bench = Bench::start(many(1)).await;
    bench.rule(|_| Act::After(Duration::from_secs(100), "done".to_owned()));
    let (node, key) = peer(0);
    for id in 1..=5u32 {
        bench.hear(pki_packet(node, ME, key, id, &format!("!ai q{id}"))).await;
    }
    bench
        .until("both answered", |b| b.texts().iter().filter(|text| *text == "done").count() == 2)
        .await;
    assert_eq!(bench.asked().len(), 2);
    let notices: Vec<_> =
        bench.texts().into_iter().filter(|text| text.starts_with("Busy")).collect();
    assert_eq!(notices, ["Busy, please try again in 1 min."]);
    assert_eq!(bench.ignored().await, ["", "", "busy", "busy", "busy"]);
    // What was refused did not cost a question of the hour.
    for id in 10..28u32 {
        bench.rule(|_| Act::Say("quick".to_owned()));
        bench.hear(pki_packet(node, ME, key, id, &format!("!ai r{id}"))).await;
        bench.pass(15).await;
    }
    assert_eq!(bench.asked().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn many_strangers_share_one_small_budget_and_one_notice() {
    let bench = Bench::start(open()).await;
    for i in 0..60u32 {
        let forged = NodeNum(0x6000_0000 + i);
        bench.channel(forged, i + 1, &format!("!ai question {i}")).await;
        bench.hear(pki_packet(MALLORY, ME, KEY_M, i + 1, &format!("!ai ask {i}"))).await;
        bench.pass(10).await;
    }
    bench.pass(60).await;
    // One more comes back every ten minutes; ten minutes have passed.
    let asked = bench.asked().len();
    assert!((SHARED_PER_HOUR as usize..=SHARED_PER_HOUR as usize + 1).contains(&asked), "{asked}");
    let notices = bench.texts().iter().filter(|text| text.contains("a lot of questions")).count();
    assert_eq!(notices, 1);
    bench.ana(1, "!ai me too").await;
    bench.until("a contact is not touched by it", |b| b.asked().len() == asked + 1).await;
}

#[tokio::test(start_paused = true)]
async fn when_the_hour_is_full_questions_are_refused_as_busy_until_there_is_room_again() {
    // With LONG_SLOW an answer of three parts takes 40 s of the 342 s that an hour has for answers.
    let mut config = many(12);
    config.queries_per_hour = 60;
    let bench = Bench::offline(tempfile::tempdir().unwrap(), config, |text| {
        Act::Say(format!("{text} {}", "word ".repeat(100)))
    });
    let mut radio = super::bench::radio_info();
    radio.lora.preset = 1;
    bench.up(radio).await;
    let ask = async |i: u8, id: u32| {
        let (node, key) = peer(i);
        bench.hear(pki_packet(node, ME, key, id, &format!("!ai q{i} {id}"))).await;
    };
    for i in 0..12 {
        ask(i, 1).await;
        bench.pass(20).await;
    }
    let ignored = bench.ignored().await;
    let accepted = ignored.iter().filter(|why| why.is_empty()).count();
    let busy = ignored.iter().filter(|why| *why == "busy").count();
    assert_eq!(accepted + busy, 12, "{ignored:?}");
    assert!((6..=9).contains(&accepted), "{ignored:?}");
    assert_eq!(bench.asked().len(), accepted, "no model works for an answer that can't leave");
    // A refusal says for how long, once; what stops something is never refused.
    ask(11, 2).await;
    let (node, key) = peer(11);
    bench.hear(pki_packet(node, ME, key, 3, "!ai stop")).await;
    bench.pass(60).await;
    assert_eq!(bench.ignored().await[12..], ["busy", ""]);
    let to_last = bench.sent().into_iter().filter(|packet| packet.to == node);
    let texts: Vec<String> =
        to_last.map(|packet| String::from_utf8_lossy(&packet.bytes).into_owned()).collect();
    assert_eq!(texts.iter().filter(|text| text.starts_with("Busy")).count(), 1, "{texts:?}");
    // An hour later there is room again.
    bench.pass(3_700).await;
    ask(11, 4).await;
    bench.pass(60).await;
    assert_eq!(bench.ignored().await[14], "");
}
