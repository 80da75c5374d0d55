//! A kill between a command and its record: none is lost, and none is carried out twice.

use super::bench::{Act, Bench, trusted};
use crate::mesh::commands;

fn long(_: &str) -> Act {
    Act::Say("word ".repeat(250))
}

/// A folder in which Ana has an answer of which a part waits for `more`.
async fn with_an_answer() -> tempfile::TempDir {
    let bench = Bench::on(tempfile::tempdir().unwrap(), trusted(), long).await;
    bench.ana(1, "!ai tell me").await;
    bench.until("the burst", |b| b.sent().len() == 3).await;
    bench.pass(60).await;
    bench.end().await
}

fn seen(bench: &Bench) -> usize {
    let log = std::fs::read_to_string(bench.folder.path().join("seen.log")).unwrap();
    log.lines().count()
}

#[tokio::test(start_paused = true)]
async fn killed_before_its_record_a_command_is_not_carried_out_twice() {
    for text in ["help", "ping", "who", "status", "again", "again 2", "more", "short", "ok 7KQ2M"] {
        let bench = Bench::on(with_an_answer().await, trusted(), long).await;
        let before = std::fs::read(bench.folder.path().join("seen.log")).unwrap();
        let asked_before = bench.asked().len();
        bench.ana(2, &format!("!ai {text}")).await;
        bench.until(text, |b| !b.sent().is_empty()).await;
        bench.pass(120).await;
        let done = bench.sent().len();
        if bench.asked().len() > asked_before {
            continue; // `short` asks the model: that is a question
        }
        // As if the record had not come to pass.
        let killed = bench.end().await;
        let path = killed.path().join("seen.log");
        crate::store::replace(&path, &before, crate::store::Durability::Process).unwrap();
        let bench = Bench::on(killed, trusted(), long).await;
        bench.ana(2, &format!("!ai {text}")).await; // its radio repeats it
        bench.pass(120).await;
        assert!(bench.sent().is_empty(), "{text}, done {done}: {:?}", bench.texts());
        assert_eq!(bench.ignored().await, ["replay"], "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn killed_before_its_answer_is_stored_a_command_is_answered_when_it_comes_again() {
    for text in ["help", "ping", "who", "status", "new", "forget", "stop", "ok"] {
        let bench = Bench::on(with_an_answer().await, trusted(), long).await;
        let records = seen(&bench);
        // A disk that takes no reply, which is what a kill in between comes to.
        let replies = bench.folder.path().join("replies");
        let aside = bench.folder.path().join("aside");
        move_path(&replies, &aside);
        crate::store::replace(&replies, b"no folder", crate::store::Durability::Process).unwrap();
        bench.ana(2, &format!("!ai {text}")).await;
        bench.pass(10).await;
        assert_eq!(seen(&bench), records, "{text}: nothing is recorded that was not answered");
        assert!(bench.sent().is_empty());
        std::fs::remove_file(&replies).unwrap();
        move_path(&aside, &replies);
        let bench = Bench::on(bench.end().await, trusted(), long).await;
        bench.ana(2, &format!("!ai {text}")).await;
        bench.until(text, |b| !b.sent().is_empty()).await;
        bench.pass(120).await;
        assert_eq!(bench.sent().len(), 1, "{text}");
        assert_eq!(seen(&bench), records + 1, "{text}");
        bench.ana(2, &format!("!ai {text}")).await;
        bench.pass(60).await;
        assert_eq!(bench.sent().len(), 1, "{text}: and then it is a replay");
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_instant_a_command_is_answered_once() {
    for text in ["ping", "status", "more"] {
        let bench = Bench::on(with_an_answer().await, trusted(), long).await;
        bench.ana(2, &format!("!ai {text}")).await;
        let mut instants = vec![(0, bench.snapshot())];
        for _ in 0..40 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            instants.push((bench.sent().len(), bench.snapshot()));
        }
        bench.pass(60).await;
        let wanted = bench.texts();
        drop(bench);
        for (already, folder) in instants {
            let bench = Bench::on(folder, trusted(), long).await;
            bench.ana(2, &format!("!ai {text}")).await;
            bench.pass(120).await;
            // A part whose fate is unknown may leave again under its old id, which receivers drop.
            let ids: std::collections::BTreeSet<_> = bench.sent().iter().map(|p| p.id).collect();
            assert_eq!(ids.len(), bench.sent().len(), "{text}");
            assert!(already + bench.sent().len() >= wanted.len(), "{text}: lost");
            assert!(bench.sent().len() <= wanted.len(), "{text}: twice");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_model_servers_are_asked_a_status_is_not_asked_twice() {
    let bench = Bench::start(trusted()).await;
    *bench.script.place.lock().unwrap() = None; // nobody says
    for _ in 0..3 {
        bench.ana(1, "!ai status").await;
    }
    bench.pass(30).await;
    assert_eq!(bench.sent().len(), 1);
    assert_eq!(bench.ignored().await, ["", "already being answered", "already being answered"]);
    bench.ana(1, "!ai status").await;
    bench.pass(30).await;
    assert_eq!(bench.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_stops_is_not_repeated_by_its_replay() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|_| Act::Hang);
    bench.ana(1, "!ai stop").await;
    bench.until("told", |b| b.sent().len() == 1).await;
    bench.ana(2, "!ai a question").await;
    bench.settle().await;
    bench.ana(1, "!ai stop").await;
    bench.settle().await;
    assert_eq!(bench.journalled(), 1, "the question still runs");
    assert_eq!(bench.texts(), [commands::stopped(false)]);
}

#[allow(clippy::disallowed_methods)] // what the test breaks is the store itself
fn move_path(from: &std::path::Path, to: &std::path::Path) {
    std::fs::rename(from, to).unwrap();
}
