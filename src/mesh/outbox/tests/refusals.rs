//! Each refusal in its own way.

use super::*;
use crate::mesh::view::Delivery;

#[test]
fn rate_limit_sends_the_same_part_under_a_new_id_after_the_gap() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    bench.status(first.id, 0); // the radio calls it success
    bench.pass(200);
    bench.routing(OURS, first.id, routing::RATE_LIMIT_EXCEEDED);
    let (waited, second) = bench.next().unwrap();
    assert_eq!((waited, &second.bytes), (2_300, &first.bytes));
    assert_ne!(second.id, first.id);
    bench.routing(OURS, first.id, routing::RATE_LIMIT_EXCEEDED);
    bench.pass(5_000);
    assert_eq!(bench.poll(), None, "told twice, it goes once");
}

#[test]
fn a_broadcast_that_was_taken_and_then_refused_for_its_pace_goes_again() {
    let mut bench = Bench::new();
    bench.channel("c", &words(300));
    let first = bench.sent();
    bench.status(first.id, 0);
    bench.routing(OURS, first.id, routing::RATE_LIMIT_EXCEEDED);
    let (_, second) = bench.next().unwrap();
    assert_eq!(second.bytes, first.bytes);
    assert_ne!(second.id, first.id);
    bench.status(second.id, 0);
    assert!(text(&bench.next().unwrap().1).starts_with("2/2 "));
}

#[test]
fn too_large_plans_the_rest_again_and_keeps_what_is_delivered() {
    let mut bench = Bench::new();
    let answer = words(THREE);
    bench.answer("a", ANA, &answer);
    let first = bench.sent();
    bench.ack(&first);
    let (_, second) = bench.next().unwrap();
    bench.status(second.id, 7);
    bench.routing(OURS, second.id, routing::TOO_LARGE); // the same refusal, told twice
    let mut bodies = vec![text(&first)[4..].to_owned()];
    loop {
        let part = bodies.len() + 1;
        if part == 4 {
            assert_eq!(bench.next(), None, "a burst is three parts");
            assert_eq!(
                bench.outbox.more(&PeerId(format!("key:{ANA}")), &packet(), bench.now).unwrap(),
                1
            );
        }
        let Some((_, sent)) = bench.next() else { break };
        assert!(sent.bytes.len() <= 160, "a fifth less");
        assert!(text(&sent).starts_with(&format!("{part}/4 ")), "{}", text(&sent));
        bodies.push(text(&sent)[4..].trim_end_matches(" (more)").to_owned());
        bench.ack(&sent);
    }
    assert_eq!(bodies.join(" "), answer.trim());
}

#[test]
fn too_large_at_the_smallest_size_is_the_end() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(195));
    let mut sizes = Vec::new();
    while let Some((_, sent)) = bench.next() {
        sizes.push(sent.bytes.len());
        bench.status(sent.id, 7);
    }
    assert!(sizes.windows(2).all(|pair| pair[1] < pair[0]), "{sizes:?}");
    assert!(sizes.len() < 8 && *sizes.last().unwrap() <= 60, "{sizes:?}");
    assert!(matches!(bench.state("a", 1), Some(Delivery::Failed(_))));
    assert_eq!(bench.state("a", 2), Some(Delivery::Cancelled));
}

#[test]
fn max_retransmit_goes_once_more_and_then_waits_until_the_peer_is_heard() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    bench.pass(25_000);
    bench.routing(OURS, first.id, routing::MAX_RETRANSMIT);
    let second = bench.sent();
    assert_eq!(second.bytes, first.bytes, "the same part number");
    assert_ne!(second.id, first.id);
    bench.pass(25_000);
    bench.routing(OURS, second.id, routing::MAX_RETRANSMIT);
    assert_eq!(bench.next(), None, "neither it nor the part behind it");
    assert!(matches!(bench.state("a", 1), Some(Delivery::Waiting(_))));
    assert_eq!(bench.outbox.counts().1, 1);
    // It waits across a restart too; another peer's packet is not the peer's.
    bench.restart();
    bench.up();
    bench.outbox.heard(BEN, bench.now);
    assert_eq!(bench.next(), None);
    bench.outbox.heard(ANA, bench.now);
    let (_, third) = bench.next().unwrap();
    assert_eq!(third.bytes, first.bytes);
    assert!(third.id != first.id && third.id != second.id);
    bench.pass(25_000);
    bench.routing(OURS, third.id, routing::MAX_RETRANSMIT);
    bench.pass(10_000);
    bench.outbox.heard(ANA, bench.now);
    assert_eq!(bench.next(), None, "once");
    assert!(matches!(bench.state("a", 1), Some(Delivery::Failed(_))));
    assert_eq!(bench.state("a", 2), Some(Delivery::Cancelled));
}

#[test]
fn an_ack_of_the_first_packet_spares_the_second() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    bench.routing(OURS, first.id, routing::MAX_RETRANSMIT);
    bench.ack(&first);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state("a", 1), Some(Delivery::Delivered));
}

#[test]
fn a_held_part_is_given_up_after_24_hours() {
    for (hours, goes) in [(23, true), (25, false)] {
        let mut bench = Bench::new();
        bench.answer("a", ANA, "hello");
        for _ in 0..2 {
            let (_, sent) = bench.next().unwrap();
            bench.routing(OURS, sent.id, routing::MAX_RETRANSMIT);
        }
        bench.pass(hours * 3_600_000);
        bench.poll();
        bench.outbox.heard(ANA, bench.now);
        assert_eq!(bench.next().is_some(), goes, "{hours} h");
        let failed = matches!(bench.state("a", 1), Some(Delivery::Failed(_)));
        assert_eq!(failed, !goes, "and says so");
    }
}

#[test]
fn the_duty_cycle_waits_and_says_until_when() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    bench.status(first.id, 9);
    bench.routing(OURS, first.id, routing::DUTY_CYCLE_LIMIT);
    assert!(bench.paused().unwrap().contains("UTC"));
    bench.submit("c", BEN, ReplyKind::Command, "pong");
    bench.pass(599_999);
    assert_eq!(bench.poll(), None);
    bench.pass(1);
    assert_eq!(text(&bench.sent()), "pong");
    let (_, again) = bench.next().unwrap();
    assert_eq!(again.bytes, first.bytes);
    assert_ne!(again.id, first.id);
}

#[test]
fn a_peer_that_lost_our_key_is_tried_once_more_after_5_s() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    bench.pass(1_200);
    bench.routing(ANA, first.id, routing::PKI_UNKNOWN_PUBKEY);
    bench.pass(4_999);
    assert_eq!(bench.poll(), None);
    bench.pass(1);
    let second = bench.sent();
    assert_eq!(second.pki_key, first.pki_key);
    assert_ne!(second.id, first.id);
    // A second such refusal may be anybody's: shown, and the part goes on its way.
    bench.routing(ANA, second.id, routing::PKI_UNKNOWN_PUBKEY);
    assert!(matches!(bench.state("a", 1), Some(Delivery::Waiting(_))));
    bench.ack(&second);
    assert_eq!(bench.state("a", 1), Some(Delivery::Delivered));
}

#[test]
fn a_peers_refusal_marks_and_holds_but_never_cancels() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(390));
    let first = bench.sent();
    for error in [routing::NO_CHANNEL, routing::MAX_RETRANSMIT, routing::TOO_LARGE, 99] {
        assert!(bench.routing(ANA, first.id, error));
        assert!(bench.routing(BEN, first.id, error), "ours, whoever says it");
    }
    bench.pass(20_000);
    assert_eq!(bench.poll(), None, "still on its way");
    assert_eq!(bench.next(), None, "in the end it waits for the peer");
    bench.outbox.heard(ANA, bench.now);
    let (_, second) = bench.next().unwrap();
    assert_eq!(second.bytes, first.bytes);
    bench.ack(&second);
    assert!(text(&bench.next().unwrap().1).starts_with("2/2 "));
}

#[test]
fn a_key_that_our_own_radio_refuses_is_the_end_of_it() {
    for code in [
        routing::PKI_FAILED,
        routing::PKI_SEND_FAIL_PUBLIC_KEY,
        routing::NO_CHANNEL,
        routing::NOT_AUTHORIZED,
        12345,
        -1,
    ] {
        for by_status in [true, false] {
            let mut bench = Bench::new();
            bench.answer("a", ANA, &words(390));
            let first = bench.sent();
            if by_status {
                bench.status(first.id, code);
            } else {
                bench.routing(OURS, first.id, code);
            }
            assert!(matches!(bench.state("a", 1), Some(Delivery::Failed(_))), "{code}");
            assert_eq!(bench.state("a", 2), Some(Delivery::Cancelled), "{code}");
            assert_eq!(bench.next(), None, "{code}: no retry, and never without the key");
        }
    }
}

#[test]
fn a_full_queue_waits_for_room() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let first = bench.sent();
    let full = QueueStatus { res: 32, free: 0, maxlen: 16, id: first.id };
    bench.outbox.queue_status(full, bench.now);
    bench.pass(30_000);
    assert_eq!(bench.poll(), None);
    bench.status(PacketId(0), 0);
    let second = bench.sent();
    assert_eq!(second.bytes, first.bytes);
    assert_ne!(second.id, first.id);
}

#[test]
fn a_transmitter_that_was_switched_off_pauses_everything() {
    let mut bench = Bench::new();
    bench.channel("c", "hello");
    let first = bench.sent();
    bench.status(first.id, 34);
    assert!(bench.paused().unwrap().contains("transmit"));
    let (waited, second) = bench.next().unwrap();
    assert_eq!((waited, &second.bytes), (60_000, &first.bytes));
}

#[test]
fn a_refused_reaction_is_dropped() {
    for code in [7, 9, 32, 38] {
        let mut bench = Bench::new();
        bench.submit("r", ANA, ReplyKind::Reaction, "\u{1F440}");
        let sent = bench.sent();
        bench.routing(OURS, sent.id, code);
        bench.status(sent.id, code);
        assert_eq!(bench.next(), None, "{code}");
    }
}
