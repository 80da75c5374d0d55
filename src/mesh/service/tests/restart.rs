//! Kills and restarts: an accepted question is answered once, whenever the daemon dies.

use std::time::Duration;

use super::bench::{ANA, Act, Bench, ME, open, trusted};
use crate::assistant::{Assurance, CallerScope, TurnId};
use crate::config::Asker;
use crate::mesh::journal::{MAX_AGE_MS, MAX_RESTARTS};
use crate::mesh::packets::{KEY_A, KEY_M, pki_packet, text_packet};
use crate::node::PacketId;
use crate::radio::Inbound;

fn slow(seconds: u64) -> impl Fn(&str) -> Act + Send + Sync {
    move |text| Act::After(Duration::from_secs(seconds), format!("re {text}"))
}

fn quick(text: &str) -> Act {
    Act::Say(format!("re {text}"))
}

#[tokio::test(start_paused = true)]
async fn killed_between_acceptance_and_answer_the_question_is_answered_once() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(60));
    bench.ana(1, "!ai running").await;
    bench.ana(2, "!ai waiting").await;
    bench.settle().await;
    assert_eq!(bench.asked().len(), 1);
    let killed = bench.snapshot();
    drop(bench);

    let bench = Bench::on(killed, trusted(), quick).await;
    bench.until("both answers", |b| b.sent().len() == 2).await;
    assert_eq!(bench.texts(), ["re running", "re waiting"]);
    let sent = bench.sent();
    assert_eq!(
        (sent[0].to, sent[0].pki_key, sent[0].reply_id),
        (ANA, Some(KEY_A), Some(PacketId(1)))
    );
    assert!(!bench.asked()[0].scope.granted_categories().is_empty());
    // The radio may deliver the packets again; so may a replay.
    bench.ana(1, "!ai running").await;
    bench.ana(2, "!ai waiting").await;
    bench.pass(60).await;
    assert_eq!((bench.sent().len(), bench.asked().len(), bench.journalled()), (2, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_replay_after_a_restart_is_never_answered_again() {
    let bench = Bench::start(trusted()).await;
    bench.ana(1, "!ai one").await;
    bench.ana(2, "!ai ping").await;
    bench.until("both", |b| b.sent().len() == 2).await;
    bench.settle().await;
    let folder = bench.end().await;
    for seconds in [1, 7200, 90_000] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    let mut bench = Bench::on(folder, trusted(), quick).await;
    bench.ana(1, "!ai one").await;
    bench.ana(1, "!ai something else under the same id").await;
    bench.ana(2, "!ai ping").await;
    bench.pass(60).await;
    assert!(bench.sent().is_empty() && bench.asked().is_empty());
    assert_eq!(bench.ignored().await, vec!["replay"; 3]);
    assert_eq!(bench.security(), ["replay"]);
}

#[tokio::test(start_paused = true)]
async fn every_instant_between_question_and_answer_is_a_safe_one_to_die_at() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(3));
    bench.ana(1, "!ai one").await;
    let mut instants = Vec::new();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        instants.push((bench.sent().len(), bench.snapshot()));
    }
    assert_eq!(bench.texts(), ["re one"]);
    drop(bench);
    for (already_sent, folder) in instants {
        let bench = Bench::on(folder, trusted(), quick).await;
        bench.ana(1, "!ai one").await;
        bench.pass(120).await;
        let again = bench.texts();
        assert!(bench.asked().len() <= 1);
        assert_eq!(bench.journalled(), 0);
        if already_sent == 0 && again.is_empty() {
            panic!("the answer was lost");
        }
        // A part whose fate is unknown may leave again under its old id, which receivers drop.
        let ids: std::collections::BTreeSet<_> = bench.sent().iter().map(|p| p.id).collect();
        assert!(ids.len() <= 1 && again.iter().all(|text| text == "re one"), "{again:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_caller_is_resolved_from_the_present_lists() {
    let bench = Bench::start(open()).await;
    bench.rule(slow(60));
    bench.ana(1, "!ai from Ana").await;
    bench.ben(2, "!ai from Ben").await;
    bench.hear(Inbound { id: PacketId(3), ..text_packet(ANA, ME, "!ai claimed") }).await;
    bench.settle().await;
    let killed = bench.snapshot();
    drop(bench);

    let mut config = open();
    config.denied_askers = vec![Asker::Key(KEY_A)];
    config.allowed_contacts.retain(|contact| contact.id == ANA);
    let bench = Bench::on(killed, config, quick).await;
    bench.until("one answer", |b| !b.asked().is_empty()).await;
    bench.pass(60).await;
    let asked = bench.asked();
    let texts: Vec<_> = asked.iter().map(|asked| asked.text.as_str()).collect();
    assert_eq!(texts, ["from Ben", "claimed"], "the denied one is not asked");
    for asked in &asked {
        let CallerScope::Mesh { assurance, .. } = &asked.scope else { panic!() };
        assert_eq!(*assurance, Assurance::Unverified, "no contact any more, or never proven");
        assert!(asked.scope.granted_categories().is_empty());
    }
    assert_eq!(bench.journalled(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_kills_the_daemon_is_given_up_in_the_end() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(1000));
    bench.ana(1, "!ai deadly").await;
    bench.settle().await;
    let mut folder = bench.snapshot();
    drop(bench);
    for restart in 1..=MAX_RESTARTS {
        let bench = Bench::on(folder, trusted(), slow(1000)).await;
        bench.settle().await;
        assert_eq!(bench.asked().len(), 1, "restart {restart}");
        folder = bench.snapshot();
    }
    let bench = Bench::on(folder, trusted(), slow(1000)).await;
    bench.until("an honest line", |b| b.sent().len() == 1).await;
    assert_eq!(bench.texts(), [crate::mesh::commands::NO_ANSWER]);
    assert!(bench.asked().is_empty());
    assert_eq!(bench.journalled(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_waits_for_any_more_is_not_asked() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(1000));
    bench.ana(1, "!ai old").await;
    bench.settle().await;
    let killed = bench.snapshot();
    let path = crate::store::json_files(&killed.path().join("inbox")).unwrap().remove(0);
    let mut question: serde_json::Value = crate::store::read_json(&path).unwrap().unwrap();
    let accepted = question["accepted_at"].as_u64().unwrap();
    question["accepted_at"] = (accepted - MAX_AGE_MS - 60_000).into();
    crate::store::replace_json(&path, &question, crate::store::Durability::Process).unwrap();
    drop(bench);
    let bench = Bench::on(killed, trusted(), quick).await;
    bench.pass(60).await;
    assert!(bench.asked().is_empty() && bench.sent().is_empty());
    assert_eq!(bench.journalled(), 0);
    let log = std::fs::read_to_string(bench.folder.path().join("seen.log")).unwrap();
    assert!(log.trim_end().ends_with("refused:too-old"), "the reason is recorded: {log}");
}

#[tokio::test(start_paused = true)]
async fn shutting_down_leaves_a_running_turn_for_the_next_start() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(60));
    bench.ana(1, "!ai one").await;
    bench.settle().await;
    let folder = bench.end().await;
    let bench = Bench::on(folder, trusted(), quick).await;
    bench.until("the answer", |b| b.texts() == ["re one"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_turn_has_the_same_name_before_and_after() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(60));
    bench.ana(1, "!ai one").await;
    bench.settle().await;
    let before: Vec<TurnId> = bench.asked().into_iter().map(|asked| asked.turn).collect();
    let killed = bench.snapshot();
    drop(bench);
    let bench = Bench::on(killed, trusted(), quick).await;
    bench.until("asked", |b| !b.asked().is_empty()).await;
    let after: Vec<TurnId> = bench.asked().into_iter().map(|asked| asked.turn).collect();
    assert_eq!(before, after);
    // And a forger's packet with the same id has another.
    let config = open();
    let bench = Bench::on(bench.end().await, config, quick).await;
    bench.hear(pki_packet(ANA, ME, KEY_M, 1, "!ai one")).await;
    bench.until("asked", |b| !b.asked().is_empty()).await;
    assert_ne!(bench.asked()[0].turn, after[0]);
}

#[tokio::test(start_paused = true)]
async fn a_recent_answer_is_repeated_after_a_restart_too() {
    let bench = Bench::start(trusted()).await;
    bench.ana(1, "!ai one").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    bench.settle().await;
    let bench = Bench::on(bench.end().await, trusted(), quick).await;
    bench.ana(2, "!ai one").await;
    bench.until("once more", |b| b.texts() == ["fine"]).await;
    bench.ana(3, "ping").await;
    bench.until("still in conversation", |b| b.sent().len() == 2).await;
    assert!(bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_storing_the_answer_and_forgetting_the_question_repeats_nothing() {
    for (seen_was_written, answer_is_kept) in [(false, true), (true, true), (true, false)] {
        let bench = Bench::start(trusted()).await;
        bench.rule(slow(5));
        bench.ana(1, "!ai one").await;
        bench.settle().await;
        let before = bench.snapshot();
        bench.until("the answer", |b| b.sent().len() == 1).await;
        bench.settle().await;
        let after = bench.end().await;
        // As if the last steps had not come to pass.
        let question = crate::store::json_files(&before.path().join("inbox")).unwrap().remove(0);
        let name = question.file_name().unwrap();
        std::fs::copy(&question, after.path().join("inbox").join(name)).unwrap();
        if !seen_was_written {
            std::fs::remove_file(after.path().join("seen.log")).unwrap();
        }
        if !answer_is_kept {
            std::fs::remove_dir_all(after.path().join("replies")).unwrap();
        }
        let bench = Bench::on(after, trusted(), quick).await;
        bench.ana(1, "!ai one").await;
        bench.pass(60).await;
        assert!(bench.asked().is_empty() && bench.sent().is_empty());
        assert_eq!(bench.journalled(), 0);
        assert_eq!(bench.ignored().await, ["replay"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_is_neither_lost_nor_recorded() {
    let bench = Bench::start(trusted()).await;
    bench.rule(slow(5));
    bench.ana(1, "!ai one").await;
    bench.settle().await;
    let replies = bench.folder.path().join("replies");
    let aside = bench.folder.path().join("aside");
    move_path(&replies, &aside);
    crate::store::replace(&replies, b"not a folder", crate::store::Durability::Process).unwrap();
    bench.pass(30).await;
    assert!(bench.sent().is_empty());
    assert_eq!(bench.journalled(), 1, "a kill now would still lead to an answer");
    let log = std::fs::read_to_string(bench.folder.path().join("seen.log")).unwrap();
    assert_eq!(log, "");
    bench.ana(2, "!ai one").await;
    std::fs::remove_file(&replies).unwrap();
    move_path(&aside, &replies);
    bench.until("the answer after all", |b| b.texts() == ["re one"]).await;
    bench.settle().await;
    assert_eq!((bench.asked().len(), bench.journalled()), (1, 0));
}

#[allow(clippy::disallowed_methods)] // what the test breaks is the store itself
fn move_path(from: &std::path::Path, to: &std::path::Path) {
    std::fs::rename(from, to).unwrap();
}
