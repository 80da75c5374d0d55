//! An answer again, an answer gone, and the operator's stop.

use super::*;
use crate::mesh::view::Delivery;

fn ana() -> PeerId {
    PeerId(format!("key:{ANA}"))
}

/// Sends and acknowledges whatever leaves, and gives the packets.
fn drain(bench: &mut Bench) -> Vec<Outbound> {
    std::iter::from_fn(|| {
        let (_, sent) = bench.next()?;
        bench.ack(&sent);
        Some(sent)
    })
    .collect()
}

fn recall(bench: &mut Bench, part: Option<usize>) -> Again {
    bench.outbox.recall(&ana(), part, &packet(), bench.now).unwrap()
}

#[test]
fn an_answer_comes_again_byte_for_byte_under_new_ids_after_a_restart_too() {
    for restart in [false, true] {
        let mut bench = Bench::new();
        assert_eq!(recall(&mut bench, None), Again::Nothing);
        bench.answer("a", ANA, &words(1_300)); // seven parts, three of them now
        let first = drain(&mut bench);
        bench.outbox.more(&ana(), &packet(), bench.now).unwrap();
        let second = drain(&mut bench);
        if restart {
            bench.restart();
            bench.up();
        }
        assert_eq!(recall(&mut bench, None), Again::Going(3));
        let again = drain(&mut bench);
        let bytes = |sent: &[Outbound]| sent.iter().map(|p| p.bytes.clone()).collect::<Vec<_>>();
        assert_eq!(bytes(&again), bytes(&second), "the last burst");
        assert!(again.iter().all(|p| p.reply_id == Some(PacketId(77)) && p.pki_key.is_some()));
        let old: Vec<PacketId> = first.iter().chain(&second).map(|p| p.id).collect();
        assert!(again.iter().all(|p| !old.contains(&p.id)));
        assert_eq!(recall(&mut bench, Some(2)), Again::Going(1));
        assert_eq!(bytes(&drain(&mut bench)), bytes(&first[1..2]));
        for wrong in [0, 7, usize::MAX] {
            assert_eq!(recall(&mut bench, Some(wrong)), Again::NoSuchPart(6), "{wrong}");
        }
        assert_eq!(recall(&mut bench, Some(6)), Again::Going(1));
        assert_eq!(recall(&mut bench, None), Again::OnItsWay);
        drain(&mut bench);
        // What waits for `more` still does.
        assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 1);
        assert!(text(&drain(&mut bench)[0]).starts_with("7/7 "));
        assert_eq!(
            bench.outbox.recall(&PeerId("key:other".into()), None, &packet(), bench.now).unwrap(),
            Again::Nothing
        );
    }
}

#[test]
fn what_failed_or_was_stopped_can_be_had_again() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(1_300));
    let first = bench.sent();
    bench.routing(OURS, first.id, routing::NO_CHANNEL);
    assert_eq!(bench.next(), None);
    assert_eq!(recall(&mut bench, None), Again::Going(3));
    assert_eq!(drain(&mut bench).len(), 3);
    assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 3);
    bench.sent();
    bench.outbox.stop(&ana(), bench.now).unwrap();
    assert_eq!(drain(&mut bench).len(), 0);
    bench.pass(600_000);
    assert_eq!(recall(&mut bench, None), Again::Going(3));
    assert_eq!(drain(&mut bench).len(), 3);
}

#[test]
fn a_forgotten_answer_is_gone_from_the_disk_and_one_on_its_way_when_it_has_ended() {
    let mut bench = Bench::new();
    let files =
        |bench: &Bench| std::fs::read_dir(bench.folder.path().join("replies")).unwrap().count();
    bench.answer("old", ANA, "an old answer");
    drain(&mut bench);
    bench.answer("a", ANA, &words(THREE));
    let (_, going) = bench.next().unwrap();
    assert!(text(&going).starts_with("1/3 "));
    bench.answer("b", BEN, "of another peer");
    bench.outbox.forget_peer(&ana(), bench.now).unwrap();
    assert_eq!(files(&bench), 2, "the one on its way, and the other peer's");
    assert_eq!(recall(&mut bench, None), Again::Nothing);
    assert_eq!(bench.outbox.last_answer_of(&ana()), None);
    assert_eq!(bench.outbox.more(&ana(), &packet(), bench.now).unwrap(), 0);
    let sent = drain(&mut bench);
    assert_eq!(sent.len(), 1, "nothing more of it");
    assert_eq!(files(&bench), 1);
    assert!(bench.outbox.knows(&TurnId("b".into())));

    // A kill in between loses the wish no more than the answer.
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(THREE));
    bench.sent();
    bench.outbox.forget_peer(&ana(), bench.now).unwrap();
    bench.restart();
    bench.up();
    assert_eq!(bench.next(), None);
    assert_eq!(files(&bench), 0);
}

#[test]
fn the_operators_stop_withdraws_everything_and_lets_nothing_leave_until_it_is_taken_back() {
    let mut bench = Bench::new();
    bench.answer("a", ANA, &words(THREE));
    bench.submit("c", BEN, ReplyKind::Command, "pong");
    bench.sent(); // the command
    assert_eq!(bench.outbox.stop_all(bench.now).unwrap(), 3);
    assert!(bench.paused().unwrap().contains("operator"));
    bench.answer("b", BEN, "late");
    bench.pass(3_600_000);
    assert_eq!(bench.next(), None);
    bench.outbox.resume();
    assert_eq!(text(&bench.next().unwrap().1), "late");
    assert_eq!(bench.state("a", 1), Some(Delivery::Cancelled));
    assert_eq!(recall(&mut bench, None), Again::Going(3), "it is kept");
}

#[test]
fn an_answer_gets_one_hop_more_than_its_question_took_and_the_radios_own_when_that_was_too_few() {
    for (taken, own, given) in [
        (Some(0), 3, 1),
        (Some(1), 3, 2),
        (Some(2), 3, 3),
        (Some(7), 3, 3),
        (None, 3, 3),
        (Some(u32::MAX), 7, 7),
        (Some(0), 0, 1),
        (None, 0, 3),
    ] {
        let mut bench = Bench::down(1.0);
        let mut info = radio();
        info.lora.hop_limit = own;
        bench.outbox.link_up(Arc::new(info), bench.now);
        let reply = NewReply { hops: taken, ..bench.reply("a", ANA, ReplyKind::Answer, "text") };
        bench.outbox.submit(reply, bench.now).unwrap();
        let first = bench.sent();
        assert_eq!(first.hop_limit, given, "{taken:?} {own}");
        let most = if own == 0 { 3 } else { own };
        bench.routing(OURS, first.id, routing::MAX_RETRANSMIT);
        let (_, second) = bench.next().unwrap();
        assert_eq!(second.hop_limit, most, "that was too few");
        bench.ack(&second);
        assert_eq!(recall(&mut bench, None), Again::Going(1));
        assert_eq!(bench.next().unwrap().1.hop_limit, most, "so it was for the one who asks again");
    }
}

#[test]
fn in_licensed_mode_what_was_for_a_key_is_never_sent_in_the_clear() {
    let mut bench = Bench::down(1.0);
    bench.answer("a", ANA, &words(390));
    let to = Destination::Direct { node: BEN, key: None };
    let reply = NewReply { to, ..bench.reply("b", BEN, ReplyKind::Answer, "in the clear") };
    bench.outbox.submit(reply, bench.now).unwrap();
    let mut ham = radio();
    ham.owner.licensed = true;
    ham.owner.long_name = "N0CALL".to_owned();
    ham.announces_every_s = 600;
    bench.outbox.link_up(Arc::new(ham), bench.now);
    let (_, sent) = bench.next().unwrap();
    assert_eq!((text(&sent).as_str(), sent.pki_key), ("in the clear", None));
    bench.ack(&sent);
    assert_eq!(bench.next(), None);
    assert!(matches!(bench.state("a", 1), Some(Delivery::Failed(why)) if why.contains("licensed")));
    assert_eq!(bench.state("a", 2), Some(Delivery::Cancelled));
}
