//! How long something new would wait.

use super::*;

/// A twentieth of EU_868: 18 s in an hour, 17.1 s of them for answers. A full part takes 2.03 s.
fn small() -> Bench {
    let mut bench = Bench::down(0.05);
    bench.up();
    bench
}

fn wait(bench: &Bench, purpose: Use, to_come: usize) -> u64 {
    bench.outbox.wait_ms(purpose, to_come, bench.now)
}

fn full() -> String {
    words(200)
}

#[test]
fn with_room_in_the_hour_only_the_gap_is_waited_for() {
    let mut bench = small();
    assert_eq!(wait(&bench, Use::Answer, 0), 2_300);
    bench.answer("a", ANA, &full());
    bench.answer("b", BEN, &full());
    assert_eq!(wait(&bench, Use::Answer, 0), 3 * 2_300);
    assert_eq!(wait(&bench, Use::Answer, 2), 5 * 2_300, "answers that are being made count");
    assert_eq!(wait(&bench, Use::Command, 2), 2_300, "a command goes before them");
}

#[test]
fn the_last_answer_that_fits_into_the_hour_waits_seconds_and_the_next_one_an_hour() {
    let mut bench = small();
    // With its retries the new one takes 6.1 s; four and a half others fit beside it.
    for n in 0..5 {
        bench.answer(&format!("{n}"), ANA, &words(180));
    }
    assert_eq!(wait(&bench, Use::Answer, 0), 6 * 2_300);
    bench.answer("one more", ANA, &full());
    let later = wait(&bench, Use::Answer, 0);
    assert!(later > 3_400_000, "{later} ms");
    assert_eq!(wait(&bench, Use::Command, 0), 2_300);
}

#[test]
fn what_was_sent_counts_until_its_hour_is_over() {
    let mut bench = small();
    for n in 0..5 {
        bench.answer(&format!("{n}"), ANA, &full());
        let (_, sent) = bench.next().unwrap();
        bench.ack(&sent);
    }
    // 10.2 s are used: 6.1 s fit, and so does one more part; two don't.
    assert_eq!(wait(&bench, Use::Answer, 0), 2_300);
    let later = wait(&bench, Use::Answer, 1);
    assert!((3_500_000..3_700_000).contains(&later), "{later} ms");
    bench.pass(3_700_000);
    assert_eq!(wait(&bench, Use::Answer, 1), 2 * 2_300);
}

#[test]
fn what_is_held_for_an_absent_peer_or_stopped_keeps_nobody() {
    let mut bench = small();
    for n in 0..8 {
        bench.answer(&format!("{n}"), ANA, &full());
    }
    assert!(wait(&bench, Use::Answer, 0) > 3_500_000);
    let waits = |bench: &Bench, node| bench.outbox.is_waiting(&PeerId(format!("key:{node}")));
    assert!(waits(&bench, ANA) && !waits(&bench, BEN));
    bench.outbox.stop(&PeerId(format!("key:{ANA}")), bench.now).unwrap();
    assert_eq!(wait(&bench, Use::Answer, 0), 2_300);
    assert!(!waits(&bench, ANA));
}

#[test]
fn while_nobody_knows_what_may_be_sent_nobody_is_kept() {
    let bench = Bench::down(0.05);
    assert_eq!(wait(&bench, Use::Answer, 50), 0);
}
