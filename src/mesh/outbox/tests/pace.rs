//! The gate: the gap, the room, the order between peers, the pauses.

use super::*;
use crate::mesh::view::Delivery;

#[test]
fn two_texts_are_2300_ms_apart() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "one");
    bench.answer("b", BEN, "two");
    let first = bench.sent();
    bench.status(first.id, 0);
    bench.ack(&first);
    bench.pass(2_299);
    assert_eq!(bench.poll(), None);
    bench.pass(1);
    assert_eq!(text(&bench.sent()), "two");
}

#[test]
fn the_gap_outlives_the_process() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "one");
    bench.answer("b", BEN, "two");
    let first = bench.sent();
    bench.ack(&first);
    bench.restart();
    bench.up();
    bench.pass(2_299);
    assert_eq!(bench.poll(), None);
    bench.pass(1);
    assert_eq!(text(&bench.sent()), "two");
}

#[test]
fn a_direct_message_asks_for_an_ack_from_exactly_that_key() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "hello");
    let sent = bench.sent();
    assert_eq!((sent.to, sent.channel, sent.port), (ANA, 0, 1));
    assert_eq!(sent.pki_key, Some(PublicKey([7; 32])));
    assert!(sent.want_ack && !sent.want_response && !sent.emoji);
    assert_eq!((sent.hop_limit, sent.reply_id), (3, Some(PacketId(77))));
    assert_ne!(sent.id, PacketId(0));
}

#[test]
fn a_channel_gets_a_broadcast_without_ack() {
    let mut bench = Bench::new();
    assert_eq!(bench.channel("c", &words(300)), 2);
    let sent = bench.sent();
    assert_eq!((sent.to, sent.channel), (NodeNum::BROADCAST, 2));
    assert!(!sent.want_ack && sent.pki_key.is_none() && sent.bytes.len() <= 160);
    // Done when the radio took it: the next part needs no ack.
    bench.status(sent.id, 0);
    let (waited, next) = bench.next().unwrap();
    assert_eq!(waited, 2_300);
    assert!(text(&next).starts_with("2/2 "));
    // No answer from the radio within 5 s: it had it.
    bench.pass(5_000);
    assert_eq!(bench.poll(), None);
    assert_eq!(bench.state("c", 2), None, "it was sent, and nothing more is ever known");
    assert_eq!(bench.outbox.counts(), (0, 0));
}

#[test]
fn a_reaction_is_a_text_too() {
    let mut bench = Bench::new();
    bench.submit("r", ANA, ReplyKind::Reaction, "\u{1F440}");
    bench.answer("b", BEN, "answer");
    let sent = bench.sent();
    assert!(sent.emoji && !sent.want_ack);
    assert_eq!((text(&sent).as_str(), sent.reply_id), ("\u{1F440}", Some(PacketId(77))));
    let (waited, _) = bench.next().unwrap();
    assert_eq!(waited, 2_300);
    assert!(!bench.folder.path().join("replies").read_dir().unwrap().any(|entry| {
        std::fs::read_to_string(entry.unwrap().path()).unwrap().contains("Reaction")
    }));
}

#[test]
fn waiting_for_an_ack_blocks_only_that_peer_and_the_turn_goes_round() {
    let mut bench = Bench::new();
    assert_eq!(bench.answer("a", ANA, &words(THREE)), 3);
    assert_eq!(bench.answer("b", BEN, &words(THREE)), 3);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let (_, sent) = bench.next().unwrap();
        seen.push((sent.to, text(&sent)[..4].to_owned()));
        if seen.len() == 2 {
            bench.pass(2_300);
            assert_eq!(bench.poll(), None, "both wait for their acks");
        }
        if sent.to == ANA {
            continue;
        }
        // Acks of both peers come late and in another order.
        let waiting: Vec<_> = bench.outbox.flights.keys().copied().collect();
        for id in waiting.into_iter().rev() {
            let (order, _) = bench.outbox.part_of(id).unwrap();
            let from = if order == 0 { ANA } else { BEN };
            assert!(bench.routing(from, id, routing::NONE));
        }
    }
    let expected = [(ANA, "1/3 "), (BEN, "1/3 "), (ANA, "2/3 "), (BEN, "2/3 "), (ANA, "3/3 ")];
    for (index, (to, mark)) in expected.into_iter().enumerate() {
        assert_eq!(seen[index], (to, mark.to_owned()));
    }
}

#[test]
fn commands_go_before_answers() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, "answer");
    bench.submit("c", BEN, ReplyKind::Command, "pong <file> *x*");
    assert_eq!(text(&bench.sent()), "pong <file> *x*", "and are no Markdown");
}

#[test]
fn never_more_than_the_radio_has_room_for() {
    let mut bench = Bench::new();
    bench
        .outbox
        .queue_status(QueueStatus { res: 0, free: 1, maxlen: 16, id: PacketId(0) }, bench.now);
    bench.answer("a", ANA, "one");
    bench.answer("b", BEN, "two");
    bench.sent();
    bench.pass(10_000);
    assert_eq!(bench.poll(), None, "the one place is taken");
    bench.status(PacketId(0), 0);
    bench.sent();
}

#[test]
fn nothing_at_all_while_the_radio_may_not_transmit() {
    type Change = fn(&mut LoraSettings);
    let cases: [(Change, &str); 5] = [
        (|lora| lora.region = 0, "region is not set"),
        (|lora| lora.region = 999, "not known"),
        (|lora| lora.tx_enabled = false, "switched off"),
        (|lora| lora.override_duty_cycle = true, "override"),
        (|lora| lora.preset = 8, "band"), // 500 kHz in a band of 250
    ];
    for (change, words) in cases {
        let mut bench = Bench::down(1.0);
        let mut wrong = radio();
        change(&mut wrong.lora);
        bench.outbox.link_up(Arc::new(wrong), bench.now);
        bench.submit("a", ANA, ReplyKind::Command, "text");
        assert_eq!(bench.next(), None, "{words}");
        assert!(bench.paused().unwrap().contains(words), "{:?}", bench.paused());
        bench.up();
        assert!(bench.next().is_some(), "set right, it leaves");
        assert_eq!(bench.paused(), None);
    }
}

#[test]
fn slower_above_25_percent_and_stopped_above_40() {
    for (percent, wait) in [(25.0, Some(2_300)), (25.1, Some(9_200)), (40.0, Some(9_200))] {
        let mut bench = Bench::new();
        bench.answer("a", ANA, "one");
        bench.answer("b", BEN, "two");
        bench.sent();
        let busy = Telemetry { channel_utilization: Some(percent), ..Telemetry::default() };
        bench.outbox.telemetry(busy, bench.now);
        assert_eq!(bench.next().map(|(waited, _)| waited), wait, "{percent}");
    }
    let mut bench = Bench::new();
    let full = Telemetry { channel_utilization: Some(40.1), ..Telemetry::default() };
    bench.outbox.telemetry(full, bench.now);
    bench.answer("a", ANA, "one");
    assert_eq!(bench.poll(), None);
    assert!(bench.paused().unwrap().contains("full"));
    // Telemetry of more than three minutes ago says nothing any more.
    let (waited, _) = bench.next().unwrap();
    assert_eq!(waited, 180_001);
    assert!(bench.outbox.airtime(bench.now).notes.iter().any(|note| note.contains("no telemetry")));
}

#[test]
fn impossible_telemetry_is_left_out() {
    for percent in [f32::NAN, -1.0, 7000.0, f32::INFINITY] {
        let mut bench = Bench::new();
        let metrics = Telemetry {
            channel_utilization: Some(percent),
            air_util_tx: Some(percent),
            battery_level: None,
        };
        bench.outbox.telemetry(metrics, bench.now);
        bench.answer("a", ANA, "one");
        assert!(bench.poll().is_some());
        assert_eq!(bench.outbox.airtime(bench.now).notes.len(), 2);
    }
}

#[test]
fn answers_stop_at_the_share_and_commands_have_a_reserve() {
    let mut bench = Bench::new();
    bench.outbox.configure(0.1, 3); // of 360 s: 36 s
    let mut answers = 0;
    for turn in 0..40 {
        bench.answer(&format!("a{turn}"), ANA, &words(195));
        let Some((waited, sent)) = bench.next() else { break };
        if waited > 60_000 {
            break;
        }
        answers += 1;
        bench.ack(&sent);
    }
    // A part costs 1.99 s and may cost three times that; 34.2 s are for answers.
    assert_eq!(answers, 15);
    assert!(bench.events.iter().any(|event| matches!(event,
        MeshEvent::PartState { delivery: Delivery::Waiting(why), .. } if why.contains("UTC"))));

    let mut bench = Bench::new();
    bench.outbox.configure(0.1, 3);
    for turn in 0..15 {
        bench.answer(&format!("a{turn}"), ANA, &words(195));
        let (_, sent) = bench.next().unwrap();
        bench.ack(&sent);
    }
    bench.answer("more", BEN, &words(195));
    bench.pass(10_000);
    assert_eq!(bench.poll(), None);
    assert!(bench.paused().unwrap().contains("airtime"));
    assert!(bench.outbox.airtime(bench.now).recovers_in_s > 3_000);
    bench.submit("stop", ANA, ReplyKind::Command, "stopped");
    bench.submit("sos", BEN, ReplyKind::Distress, "shown");
    assert_eq!(text(&bench.sent()), "shown", "before everything else");
    let (_, sent) = bench.next().unwrap();
    bench.ack(&sent);
    assert_eq!(text(&sent), "stopped");
}

#[test]
fn the_radios_own_count_is_believed_when_it_is_higher() {
    for (percent, goes) in [(9.85, true), (9.99, false)] {
        let mut bench = Bench::new();
        let metrics = Telemetry { air_util_tx: Some(percent), ..Telemetry::default() };
        bench.outbox.telemetry(metrics, bench.now);
        bench.answer("a", ANA, &words(195)); // 3 × 1.99 s are 0.17 % of an hour
        assert_eq!(bench.poll(), None);
        bench.outbox.stop(&PeerId(format!("key:{ANA}")), bench.now).unwrap();
        bench.channel("c", "ok"); // 0.5 s are 0.014 %
        assert_eq!(bench.poll().is_some(), goes, "{percent}");
    }
}

#[test]
fn a_part_that_never_fits_the_share_is_planned_smaller_or_given_up() {
    let mut slow = radio();
    slow.lora.region = 14; // 10 %
    slow.lora.preset = 1; // LONG_SLOW
    let slow = Arc::new(slow);
    let mut bench = Bench::down(0.09); // 32 s: less than three full parts of 13 s
    bench.outbox.link_up(Arc::clone(&slow), bench.now);
    bench.answer("a", ANA, &words(195));
    let (_, sent) = bench.next().unwrap();
    assert!(sent.bytes.len() < 160 && text(&sent).starts_with("1/"), "{}", text(&sent));

    let mut bench = Bench::down(0.02);
    bench.outbox.link_up(slow, bench.now);
    bench.answer("a", ANA, &words(195));
    assert_eq!(bench.next(), None);
    assert!(matches!(bench.state("a", 1), Some(Delivery::Failed(_))));
}
