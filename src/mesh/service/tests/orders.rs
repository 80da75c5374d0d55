//! The commands about what is kept, and how things stand.

use std::time::Duration;

use super::bench::{ANA, Act, Bench, MALLORY, ME, open, trusted};
use crate::assistant::ModelPlace;
use crate::config::MeshConfig;
use crate::mesh::commands;
use crate::mesh::packets::{KEY_A, KEY_M, pki_packet};
use crate::node::PacketId;

/// Asks, and waits for the answer; gives it.
async fn command(bench: &Bench, id: u32, text: &str) -> String {
    let before = bench.sent().len();
    bench.ana(id, text).await;
    bench.until(text, |b| b.sent().len() > before).await;
    bench.pass(15).await;
    assert_eq!(bench.sent().len(), before + 1, "{text}: one message");
    let sent = bench.sent().pop().unwrap();
    assert!(sent.bytes.len() <= 200 && sent.reply_id == Some(PacketId(id)), "{text}");
    String::from_utf8(sent.bytes).unwrap()
}

fn long(_: &str) -> Act {
    Act::Say("word ".repeat(250))
}

#[tokio::test(start_paused = true)]
async fn again_sends_the_same_bytes_from_disk_after_a_restart_too() {
    let bench = Bench::start(trusted()).await;
    assert_eq!(command(&bench, 1, "!ai again").await, commands::NOTHING_KEPT);
    bench.rule(long);
    bench.ana(2, "!ai tell me").await;
    bench.until("the burst", |b| b.sent().len() == 4).await;
    bench.settle().await;
    let first = bench.sent()[1..].to_vec();
    let bench = Bench::on(bench.end().await, trusted(), long).await;
    bench.ana(3, "again").await; // in a conversation
    bench.until("the burst", |b| b.sent().len() == 3).await;
    bench.settle().await;
    for (old, new) in first.iter().zip(bench.sent()) {
        assert_eq!((&old.bytes, old.to, old.reply_id), (&new.bytes, new.to, new.reply_id));
        assert_ne!(old.id, new.id);
    }
    assert_eq!(command_bytes(&bench, 4, "!ai again 2").await, first[1].bytes);
    assert_eq!(command(&bench, 5, "!ai again 4").await, "Only parts 1 to 3 were sent.");
    // A replay of it sends nothing.
    bench.ana(4, "!ai again 2").await;
    bench.pass(30).await;
    assert_eq!((bench.sent().len(), bench.asked().len()), (5, 0));
}

async fn command_bytes(bench: &Bench, id: u32, text: &str) -> Vec<u8> {
    let before = bench.sent().len();
    bench.ana(id, text).await;
    bench.until(text, |b| b.sent().len() > before).await;
    bench.settle().await;
    bench.sent().pop().unwrap().bytes
}

#[tokio::test(start_paused = true)]
async fn short_asks_the_model_for_less_and_costs_a_question() {
    let bench = Bench::start(trusted()).await;
    assert_eq!(command(&bench, 1, "!ai short").await, commands::NOTHING_KEPT);
    bench.rule(|text| match text {
        "tell me" => long(text),
        _ => Act::Say("Few words.".to_owned()),
    });
    bench.ana(2, "!ai tell me").await;
    bench.until("the burst", |b| b.sent().len() == 4).await;
    bench.settle().await;
    assert_eq!(command(&bench, 3, "!ai short").await, "Few words.");
    let asked = bench.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].text.starts_with("Say this again in at most 195 bytes"), "{}", asked[1].text);
    assert!(asked[1].text.ends_with("word word"));
    assert_eq!(asked[1].scope, asked[0].scope.clone().without_tools(), "no tools: foreign words");
    assert_eq!((&asked[0].quotes, &asked[1].quotes), (&None, &Some(asked[0].turn.clone())));
    assert_eq!(command(&bench, 4, "!ai short").await, commands::SHORT_ALREADY);
    assert_eq!(bench.asked().len(), 2);
    assert!(command(&bench, 5, "!ai who").await.ends_with("Questions left: 18."));
}

#[tokio::test(start_paused = true)]
async fn new_begins_a_conversation_of_the_one_who_asks() {
    let bench = Bench::start(open()).await;
    assert_eq!(command(&bench, 1, "!ai new").await, commands::NEW_CONVERSATION);
    let ended = bench.script.ended.lock().unwrap().clone();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].0, "new");
    bench.ana(2, "!ai who is it").await;
    bench.until("answered", |b| b.sent().len() == 2).await;
    assert_eq!(ended[0].1, bench.asked()[0].scope);
    // Nothing is kept of a stranger, so nothing ends.
    let before = bench.sent().len();
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 3, "!ai new")).await;
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 4, "!ai forget")).await;
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 5, "!ai forget")).await;
    bench.until("told", |b| b.sent().len() == before + 3).await;
    assert_eq!(bench.texts()[before..], [commands::NOTHING_REMEMBERED; 3]);
    assert_eq!(bench.script.ended.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn forget_deletes_when_it_comes_twice_within_two_minutes() {
    let bench = Bench::start(trusted()).await;
    bench.rule(long);
    bench.ana(1, "!ai tell me").await;
    bench.until("the burst", |b| b.sent().len() == 3).await;
    bench.settle().await;
    let forgets = |b: &Bench| b.script.ended.lock().unwrap().len();
    assert_eq!(command(&bench, 2, "!ai forget").await, commands::FORGET_REALLY);
    bench.ana(2, "!ai forget").await; // a replay confirms nothing
    bench.pass(120).await;
    assert_eq!(command(&bench, 3, "!ai forget").await, commands::FORGET_REALLY, "too late");
    // Another contact's word is not hers.
    bench.ben(4, "!ai forget").await;
    bench.settle().await;
    assert_eq!(bench.texts().last().unwrap(), commands::FORGET_REALLY);
    assert_eq!(forgets(&bench), 0);
    assert_eq!(command(&bench, 5, "!ai forget").await, commands::FORGOTTEN);
    assert_eq!(forgets(&bench), 1);
    assert_eq!(command(&bench, 6, "!ai again").await, commands::NOTHING_KEPT);
    assert_eq!(command(&bench, 7, "!ai more").await, commands::NOTHING_MORE);
    assert_eq!(
        command(&bench, 8, "!ai forget").await,
        commands::FORGET_REALLY,
        "from the beginning"
    );
    let kept = std::fs::read_dir(bench.folder.path().join("replies")).unwrap();
    let kept: String =
        kept.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(!kept.contains("word word"), "nothing of the answer is on the disk");
}

#[tokio::test(start_paused = true)]
async fn forget_ends_a_running_turn_and_deletes_what_that_leaves() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|_| Act::Hang);
    bench.ana(1, "!ai secret").await;
    bench.ana(2, "!ai waiting").await;
    bench.settle().await;
    bench.ana(3, "!ai forget").await;
    bench.settle().await;
    bench.ana(4, "!ai forget").await;
    bench.settle().await;
    let ended = bench.script.ended.lock().unwrap().clone();
    assert_eq!(ended.len(), 2, "at once, and when the turn had ended");
    assert_eq!(bench.journalled(), 0);
    assert_eq!(bench.asked().len(), 1);
    let status = bench.handle.status().await.unwrap();
    assert_eq!((status.turns_running, status.turns_waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn status_says_where_the_question_and_the_model_are() {
    let bench = Bench::start(trusted()).await;
    let air = "Air: 0 % of this hour used.";
    let nothing = format!("No question of yours is open. AI: local. {air}");
    assert_eq!(command(&bench, 1, "!ai status").await, nothing);
    *bench.script.place.lock().unwrap() = Some(ModelPlace::Cloud);
    bench.rule(|_| Act::After(Duration::from_secs(3000), "late".to_owned()));
    bench.ana(2, "!ai one").await;
    bench.pass(30).await; // and the reaction has left
    let running = command(&bench, 3, "!ai status").await;
    assert!(running.starts_with("Your question is being answered. AI: cloud."), "{running}");
    bench.ana(4, "!ai stop").await;
    bench.settle().await;
    *bench.script.place.lock().unwrap() = None;
    let nobody = command(&bench, 5, "!ai status").await;
    assert!(nobody.contains("open. AI: not known."), "{nobody}");
}

#[tokio::test(start_paused = true)]
async fn who_says_how_the_peer_is_seen() {
    let bench = Bench::start(open()).await;
    let key = KEY_A.fingerprint();
    assert_eq!(
        command(&bench, 1, "!ai who").await,
        format!("You: !a1b2c3d4, key {key}, verified. May use: system. Questions left: 20.")
    );
    let before = bench.sent().len();
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 2, "!ai who")).await;
    bench.channel(ANA, 3, "!ai who").await;
    bench.until("both", |b| b.sent().len() == before + 2).await;
    let texts = bench.texts();
    let stranger = format!(
        "You: !0badcafe, key {}, not verified. May use: no tools. Questions left: 5.",
        KEY_M.fingerprint()
    );
    assert!(texts.contains(&stranger), "{texts:?}");
    let claim = "You: !a1b2c3d4, no key, not verified. May use: no tools. Questions left: 4.";
    assert!(texts.contains(&claim.to_owned()), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_keeps_the_hops_that_it_took_for_its_answer() {
    let bench = Bench::start(trusted()).await;
    for (id, start, left, given) in [(1, 3, 3, 1), (2, 3, 2, 2), (3, 7, 2, 3), (4, 0, 0, 3)] {
        let packet = pki_packet(ANA, ME, KEY_A, id, &format!("!ai {id}"));
        let before = bench.sent().len();
        bench.hear(crate::radio::Inbound { hop_start: start, hop_limit: left, ..packet }).await;
        bench.until("the answer", |b| b.sent().len() > before).await;
        assert_eq!(bench.sent().pop().unwrap().hop_limit, given, "{start} {left}");
        bench.pass(20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_answers_each_answer_at_once_is_paused_and_stop_is_not() {
    let mut bench = Bench::start(MeshConfig { queries_per_hour: 100, ..trusted() }).await;
    for id in 1..=40 {
        bench.ana(id, &format!("!ai you said {id}")).await;
        bench.pass(5).await;
    }
    assert_eq!(bench.asked().len(), 8, "eight rounds, and no ninth");
    assert_eq!(bench.security(), ["loop"]);
    bench.ana(50, "!ai stop").await;
    bench.settle().await;
    assert_eq!(bench.texts().last().unwrap(), "Nothing to stop.");
    bench.ben(1, "!ai and me?").await;
    bench.until("others are served", |b| b.asked().len() == 9).await;
    bench.pass(600).await;
    bench.ana(60, "!ai may I again?").await;
    bench.until("after the pause", |b| b.asked().len() == 10).await;
    // A person who takes a quarter of a minute is never taken for one.
    for id in 100..130 {
        bench.ben(id, &format!("!ai question {id}")).await;
        bench.pass(15).await;
    }
    assert_eq!(bench.asked().len(), 40);
}
