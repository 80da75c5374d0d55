//! `more`, the same question again, `stop`, and what is forgotten.

use super::*;
use crate::mesh::view::Delivery;

fn ana() -> PeerId {
    PeerId(format!("key:{ANA}"))
}

/// Sends and acknowledges whatever leaves, and gives the texts.
fn drain(bench: &mut Bench) -> Vec<String> {
    std::iter::from_fn(|| {
        let (_, sent) = bench.next()?;
        bench.ack(&sent);
        Some(text(&sent))
    })
    .collect()
}

#[test]
fn what_is_past_a_burst_waits_for_more_across_a_restart() {
    let mut bench = Bench::new();
    let answer = words(1_300);
    assert_eq!(bench.answer("a", ANA, &answer), 7);
    let first = drain(&mut bench);
    assert_eq!(first.len(), 3);
    assert!(first[2].ends_with(" (more)"));
    assert_eq!(bench.outbox.counts(), (0, 1));
    bench.restart();
    bench.up();
    assert_eq!(bench.next(), None);
    assert_eq!(bench.outbox.more(&PeerId("key:other".into()), &packet(), bench.now).unwrap(), 0);
    assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 3);
    let second = drain(&mut bench);
    assert!(second[0].starts_with("4/7 ") && second[2].ends_with(" (more)"));
    assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 1);
    let third = drain(&mut bench);
    assert!(third[0].starts_with("7/7 ") && !third[0].ends_with(" (more)"));
    assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 0);
    let joined: Vec<&str> = [first.iter(), second.iter(), third.iter()]
        .into_iter()
        .flatten()
        .map(|part| part[4..].trim_end_matches(" (more)"))
        .collect();
    assert_eq!(joined.join(" "), answer.trim());
}

#[test]
fn the_same_question_gets_the_same_bytes_once_more() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(THREE));
    let id = TurnId("a".into());
    assert!(bench.outbox.repeat(&id, bench.now).unwrap(), "it is on its way: nothing to do");
    let first = drain(&mut bench);
    assert_eq!(first.len(), 3);
    bench.restart();
    bench.up();
    assert!(bench.outbox.repeat(&id, bench.now).unwrap());
    assert_eq!(drain(&mut bench), first);
    assert!(!bench.outbox.repeat(&id, bench.now).unwrap(), "then silence");
    assert_eq!(bench.next(), None);
    assert!(!bench.outbox.repeat(&TurnId("b".into()), bench.now).unwrap());
}

#[test]
fn stop_withdraws_what_has_not_left() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(1_300));
    bench.answer("b", BEN, "another peer's");
    let first = bench.sent();
    assert_eq!(bench.outbox.stop(&ana(), bench.now).unwrap(), 6);
    assert_eq!(bench.outbox.stop(&ana(), bench.now).unwrap(), 0);
    // The part on its way is refused: it does not come back.
    bench.routing(OURS, first.id, routing::RATE_LIMIT_EXCEEDED);
    assert_eq!(drain(&mut bench), ["another peer's"]);
    assert_eq!(bench.state("a", 2), Some(Delivery::Cancelled));
    assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 0);
    bench.restart();
    bench.up();
    assert_eq!(bench.next(), None);
    // A later answer is not stopped.
    bench.answer("c", ANA, "later");
    assert_eq!(drain(&mut bench), ["later"]);
}

#[test]
fn stopped_with_a_part_on_its_way_nothing_goes_again_after_a_restart() {
    for restart in [true, false] {
        let mut bench = Bench::new();
        bench.answer("a", ANA, &words(THREE));
        bench.sent();
        assert_eq!(bench.outbox.stop(&ana(), bench.now).unwrap(), 2);
        if restart {
            bench.restart();
        } else {
            bench.outbox.link_down(bench.now);
        }
        bench.up();
        assert_eq!(bench.next(), None);
    }
}

#[test]
fn a_notice_is_dropped_rather_than_late() {
    for (wait, goes) in [(120_000, true), (120_001, false)] {
        let mut bench = Bench::down(1.0);
        bench.submit("n", ANA, ReplyKind::Notice, "busy");
        bench.submit("c", BEN, ReplyKind::Command, "pong");
        bench.pass(wait);
        bench.up();
        let sent = drain(&mut bench);
        assert_eq!(sent.contains(&"busy".to_owned()), goes);
        assert!(sent.contains(&"pong".to_owned()), "a command's answer is not dropped");
    }
}

#[test]
fn at_most_256_are_kept_and_nothing_that_waits_is_forgotten() {
    let mut bench = Bench::new();
    bench.channel("first", "text");
    let sent = bench.sent();
    bench.status(sent.id, 0);
    for turn in 0..256 {
        bench.answer(&format!("t{turn}"), ANA, "text");
    }
    assert!(!bench.outbox.knows(&TurnId("first".into())), "the finished one goes");
    assert!((0..256).all(|turn| bench.outbox.knows(&TurnId(format!("t{turn}")))));
    bench.answer("one more", ANA, "text");
    assert!(bench.outbox.knows(&TurnId("t0".into())), "nothing finished: nothing goes");
    let files = std::fs::read_dir(bench.folder.path().join("replies")).unwrap().count();
    assert_eq!(files, 257);
}

#[test]
fn a_day_after_its_last_use_an_answer_is_forgotten() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(1_300));
    drain(&mut bench); // which waits for two hours until nothing more comes
    bench.pass(79_000_000);
    bench.outbox.more(&ana(), &packet(), bench.now).unwrap();
    drain(&mut bench);
    bench.pass(79_000_000);
    bench.poll();
    assert!(bench.outbox.knows(&TurnId("a".into())), "it was used a day ago");
    bench.pass(1_200_000);
    bench.poll();
    assert!(!bench.outbox.knows(&TurnId("a".into())));
    assert_eq!(std::fs::read_dir(bench.folder.path().join("replies")).unwrap().count(), 0);
}

#[test]
fn an_empty_text_is_nothing_to_send_and_a_huge_one_is_cut_visibly() {
    let mut bench = Bench::new();
    assert_eq!(bench.answer("a", ANA, " \u{200B}\n"), 0);
    bench.outbox.configure(1.0, 1000);
    let parts = bench.answer("b", ANA, &words(100_000));
    assert!(parts < 100);
    let kept = bench.outbox.replies.values().next().unwrap();
    assert!(kept.parts.last().unwrap().text.ends_with("[cut]"));
}
