//! Acks, silence, the loss of the link and of the process.
#![allow(clippy::disallowed_methods)] // files are broken here on purpose

use super::*;
use crate::mesh::view::Delivery;

/// Three of the radio's intervals for a frame of 200 bytes of text, LONG_FAST, ms.
fn full_ms(bytes: usize) -> u64 {
    let law = Law::of(&radio()).unwrap();
    let len = tombolo_hw::text::frame_len(tombolo_hw::text::PacketKind::Direct, bytes, true);
    3 * u64::from(law.modem.retransmission_ms(len, 0))
}

#[test]
fn an_answer_of_three_parts_flows_with_its_acks() {
    let mut bench = Bench::new();
    let answer = words(THREE);
    assert_eq!(bench.answer("a", ANA, &answer), 3);
    let mut bodies = Vec::new();
    for part in 1..=3 {
        let (_, sent) = bench.next().unwrap();
        let text = text(&sent);
        bodies.push(text.strip_prefix(&format!("{part}/3 ")).unwrap().to_owned());
        bench.pass(1_400);
        bench.ack(&sent);
        assert_eq!(bench.state("a", part), Some(Delivery::Delivered));
    }
    assert_eq!(bodies.join(" "), answer.trim());
    assert_eq!(bench.next(), None);
}

#[test]
fn a_relayed_part_that_its_peer_does_not_confirm_goes_once_more_and_then_the_next_follows() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    bench.pass(3_000);
    assert!(bench.routing(OURS, first.id, routing::NONE));
    assert_eq!(bench.state("a", 1), Some(Delivery::Relayed));
    bench.outbox.heard(ANA, bench.now); // it is there
    bench.pass(full_ms(first.bytes.len()) - 1);
    assert_eq!(bench.poll(), None, "the radio's tries and the relay's may still be on their way");
    bench.pass(1);
    let again = bench.sent();
    assert_eq!(again.bytes, first.bytes);
    assert_ne!(again.id, first.id);
    // The same again: nobody will ever know more of it.
    bench.routing(OURS, again.id, routing::NONE);
    bench.outbox.heard(ANA, bench.now);
    bench.pass(full_ms(first.bytes.len()));
    assert!(text(&bench.sent()).starts_with("2/2 "));
    assert_eq!(bench.state("a", 1), Some(Delivery::Relayed));
    // The real ack comes late, and twice.
    bench.ack(&first);
    bench.ack(&first);
    assert_eq!(bench.state("a", 1), Some(Delivery::Delivered));
}

#[test]
fn a_relayed_part_that_is_confirmed_in_time_does_not_go_again() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    bench.routing(OURS, first.id, routing::NONE);
    bench.outbox.heard(ANA, bench.now);
    bench.pass(full_ms(first.bytes.len()) - 1);
    assert_eq!(bench.poll(), None);
    bench.ack(&first);
    bench.pass(1);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state("a", 1), Some(Delivery::Delivered));
}

#[test]
fn a_part_that_went_again_under_its_id_and_is_only_relayed_does_not_hold_the_rest_back() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    bench.restart();
    bench.up();
    let (_, again) = bench.next().unwrap();
    assert_eq!(again.id, first.id, "its fate was unknown");
    bench.routing(OURS, again.id, routing::NONE);
    let (_, second) = bench.next().unwrap();
    assert!(text(&second).starts_with("2/2 "), "{}", text(&second));
    assert_eq!(bench.state("a", 1), Some(Delivery::Relayed));
}

#[test]
fn a_relayed_part_of_a_peer_that_is_away_waits_once_until_it_is_heard() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    bench.routing(OURS, first.id, routing::NONE);
    bench.outbox.heard(BEN, bench.now);
    assert_eq!(bench.next(), None, "neither it nor the part behind it");
    assert!(matches!(bench.state("a", 1), Some(Delivery::Waiting(_))));
    assert_eq!(bench.outbox.counts().1, 1);
    bench.restart();
    bench.up();
    assert_eq!(bench.next(), None);
    bench.outbox.heard(ANA, bench.now);
    let (_, second) = bench.next().unwrap();
    assert_eq!(second.bytes, first.bytes);
    assert_ne!(second.id, first.id);
    // Relayed only, once more: that is all that is ever known of it, and the rest follows.
    bench.routing(OURS, second.id, routing::NONE);
    let (_, third) = bench.next().unwrap();
    assert!(text(&third).starts_with("2/2 "));
    assert_eq!(bench.state("a", 1), Some(Delivery::Relayed));

    // The real ack comes after all: it does not go again.
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    bench.routing(OURS, first.id, routing::NONE);
    assert_eq!(bench.next(), None);
    bench.outbox.heard(ANA, bench.now);
    bench.ack(&first);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state("a", 1), Some(Delivery::Delivered));
}

#[test]
fn silence_is_not_confirmed_after_three_retry_times_and_a_late_ack_still_counts() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    bench.status(first.id, 0);
    bench.pass(3 * full_ms(first.bytes.len()) - 1);
    assert_eq!(bench.poll(), None);
    bench.pass(1);
    assert!(text(&bench.sent()).starts_with("2/2 "));
    assert_eq!(bench.state("a", 1), Some(Delivery::NotConfirmed));
    bench.ack(&first);
    assert_eq!(bench.state("a", 1), Some(Delivery::Delivered));
}

#[test]
fn acks_of_strangers_and_of_unknown_packets_change_nothing() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    assert!(bench.routing(BEN, first.id, routing::NONE));
    assert!(!bench.routing(ANA, PacketId(first.id.0 ^ 1), routing::NONE));
    assert!(!bench.routing(ANA, PacketId(0), routing::NONE));
    bench.pass(10_000);
    assert_eq!(bench.poll(), None);
    assert_eq!(bench.state("a", 1), None);
}

#[test]
fn after_a_broken_link_the_same_packet_goes_first_and_once() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    bench.submit("c", BEN, ReplyKind::Command, "command");
    let command = bench.sent();
    bench.ack(&command);
    let (_, first) = bench.next().unwrap();
    bench.outbox.link_down(bench.now);
    bench.submit("d", BEN, ReplyKind::Command, "another");
    bench.pass(60_000);
    assert_eq!(bench.poll(), None, "nothing leaves without a link");
    bench.up();
    assert_eq!(bench.sent(), first, "the same id, before everything else");
    bench.ack(&first);
    bench.outbox.link_down(bench.now);
    bench.up();
    let rest: Vec<String> = std::iter::from_fn(|| {
        let (_, sent) = bench.next()?;
        bench.ack(&sent);
        Some(text(&sent)[..3].to_owned())
    })
    .collect();
    assert_eq!(rest, ["ano", "2/2"], "a delivered part never goes again");
}

#[test]
fn a_killed_process_goes_on_where_it_was() {
    let mut bench = Bench::new();
    let answer = words(THREE);
    bench.answer("a", ANA, &answer);
    let (_, first) = bench.next().unwrap();
    bench.ack(&first);
    let (_, second) = bench.next().unwrap();
    bench.restart();
    assert_eq!(bench.answer("a", ANA, &answer), 3, "submitted again: nothing happens");
    assert!(bench.outbox.knows(&TurnId("a".into())));
    bench.up();
    let (_, again) = bench.next().unwrap();
    assert_eq!(again, second);
    // An ack for it that was on its way meanwhile counts.
    bench.ack(&second);
    let (_, third) = bench.next().unwrap();
    assert!(text(&third).starts_with("3/3 "));
    bench.ack(&third);
    bench.restart();
    bench.up();
    assert_eq!(bench.next(), None);
}

#[test]
fn what_the_radio_may_repeat_after_a_kill_is_charged_once() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    bench.sent();
    let used = bench.outbox.ledger.used_us(bench.now);
    for _ in 0..3 {
        bench.restart();
        assert_eq!(bench.outbox.ledger.used_us(bench.now), used, "three transmissions");
    }
    bench.up();
    bench.next().unwrap();
    assert_eq!(bench.outbox.ledger.used_us(bench.now), 2 * used, "and again as many");
}

#[test]
fn killed_before_anything_left_it_leaves_after_the_start() {
    let mut bench = Bench::down(1.0);
    bench.answer("a", ANA, "hello");
    bench.restart();
    bench.up();
    assert_eq!(text(&bench.sent()), "hello");
}

#[test]
fn what_the_link_did_not_take_is_not_on_air() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    bench.outbox.send_failed(first.id, bench.now);
    bench.outbox.send_failed(first.id, bench.now);
    let (waited, second) = bench.next().unwrap();
    assert_eq!(waited, 2_300);
    assert_eq!(text(&second), "hello");
    assert!(!bench.routing(ANA, first.id, routing::NONE), "that id was never used");
}

#[test]
fn a_disk_that_cannot_be_written_stops_the_air() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let replies = bench.folder.path().join("replies");
    std::fs::remove_dir_all(&replies).unwrap();
    std::fs::write(&replies, "in the way").unwrap();
    assert_eq!(bench.poll(), None);
    assert!(bench.paused().unwrap().contains("written"));
    let lost = bench.reply("b", BEN, ReplyKind::Answer, "lost");
    assert!(bench.outbox.submit(lost, bench.now).is_err());
    assert!(!bench.outbox.knows(&TurnId("b".into())));
    std::fs::remove_file(&replies).unwrap();
    std::fs::create_dir(&replies).unwrap();
    let (waited, sent) = bench.next().unwrap();
    assert_eq!((waited, text(&sent).as_str()), (30_000, "hello"));
}

#[test]
fn a_state_that_was_torn_by_a_kill_leaves_the_one_before() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let replies = bench.folder.path().join("replies");
    let file = std::fs::read_dir(&replies).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    bench.sent();
    let handed = std::fs::read(&file).unwrap();
    std::fs::write(&file, &handed[..whole.len() + 40]).unwrap();
    bench.restart();
    bench.up();
    let (_, first) = bench.next().unwrap();
    bench.ack(&first);
    bench.restart();
    bench.up();
    assert_eq!(bench.next(), None, "what is appended after the torn line counts");
}

#[test]
fn a_file_does_not_grow_with_what_happens_to_its_reply() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let replies = bench.folder.path().join("replies");
    let file = std::fs::read_dir(&replies).unwrap().next().unwrap().unwrap().path();
    for _ in 0..100 {
        let (_, sent) = bench.next().unwrap();
        bench.routing(OURS, sent.id, routing::RATE_LIMIT_EXCEEDED);
    }
    let lines = std::fs::read_to_string(&file).unwrap().lines().count();
    assert!((1..=64).contains(&lines), "{lines}");
}

#[test]
fn a_reply_that_cannot_be_read_is_set_aside() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let broken = bench.folder.path().join("replies/zz.jsonl");
    std::fs::write(&broken, "{\"id\": 1").unwrap();
    // What a kill leaves between the creation of a file and its first line is no reply, and no fault.
    let empty = bench.folder.path().join("replies/zy.jsonl");
    std::fs::write(&empty, "").unwrap();
    bench.restart();
    bench.up();
    assert_eq!(text(&bench.sent()), "hello");
    assert!(!empty.exists() && !empty.with_extension("jsonl.broken").exists());
    assert!(!broken.exists() && broken.with_extension("jsonl.broken").exists());
}

#[test]
fn a_file_made_ready_is_used_by_its_reply_and_removed_without_one() {
    let mut bench = Bench::new();
    let folder = bench.folder.path().join("replies");
    let files = || std::fs::read_dir(&folder).unwrap().count();
    let (comes, stays_away) = (TurnId("a".to_owned()), TurnId("b".to_owned()));
    bench.outbox.expect(&comes);
    bench.outbox.expect(&stays_away);
    assert_eq!(files(), 2);
    bench.answer("a", ANA, "hello");
    assert_eq!(files(), 2, "its own file was there");
    bench.outbox.expect_no_more(&stays_away);
    bench.outbox.expect_no_more(&comes);
    assert_eq!(files(), 1, "a reply that came stays");
    // A kill before the reply came.
    bench.outbox.expect(&stays_away);
    bench.restart();
    assert_eq!(files(), 1);
    bench.up();
    assert_eq!(text(&bench.sent()), "hello");
}
