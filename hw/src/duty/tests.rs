//! The duty arithmetic against an exact model, and at its borders.

use proptest::prelude::*;

use super::*;

/// One per cent of an hour, µs.
const ONE_PERCENT: u64 = 36_000_000;

#[test]
fn the_limit_itself_fits_and_one_microsecond_more_does_not() {
    let mut duty = Duty::new();
    assert_eq!(duty.fits_at_ms(7_000, ONE_PERCENT, ONE_PERCENT), Some(7_000));
    assert_eq!(duty.fits_at_ms(7_000, ONE_PERCENT + 1, ONE_PERCENT), None);

    duty.charge(7_000, 35_000_000);
    assert_eq!(duty.fits_at_ms(8_000, 1_000_000, ONE_PERCENT), Some(8_000));
    let later = duty.fits_at_ms(8_000, 1_000_001, ONE_PERCENT).unwrap();
    assert!((7_000 + HOUR_MS..7_000 + HOUR_MS + BUCKET_MS).contains(&later), "{later}");
}

#[test]
fn a_transmission_counts_for_an_hour_and_at_most_one_bucket_more() {
    let mut duty = Duty::new();
    duty.charge(9_999, 5);
    assert_eq!(duty.used_us(9_999 + HOUR_MS - 1), 5);
    assert_eq!(duty.used_us(9_999 + HOUR_MS), 0, "the bucket's last millisecond: no excess at all");

    let mut duty = Duty::new();
    duty.charge(5_000, 5);
    assert_eq!(duty.used_us(5_000 + HOUR_MS + BUCKET_MS - 2), 5);
    assert_eq!(duty.used_us(5_000 + HOUR_MS + BUCKET_MS - 1), 0);
}

#[test]
fn charges_ahead_of_the_question_push_nothing_out() {
    let mut duty = Duty::new();
    duty.charge(BUCKET_MS, 1);
    duty.charge(BUCKET_MS + HOUR_MS + AHEAD_MS - 1, 10);
    assert_eq!(duty.used_us(BUCKET_MS + HOUR_MS - 1), 11);
}

#[test]
fn a_charge_older_than_everything_kept_is_kept_longer_not_dropped() {
    let mut duty = Duty::new();
    duty.charge(100 * HOUR_MS, 1);
    duty.charge(0, 2);
    assert_eq!(duty.used_us(99 * HOUR_MS - AHEAD_MS), 3);
    assert_eq!(duty.used_us(100 * HOUR_MS), 1);
}

#[test]
fn extreme_values_do_no_harm() {
    let mut duty = Duty::new();
    duty.charge(0, u32::MAX);
    duty.charge(0, u32::MAX);
    assert_eq!(duty.used_us(0), u64::from(u32::MAX));
    duty.charge(u64::MAX, u32::MAX);
    let _ = duty.used_us(u64::MAX);
    let _ = duty.fits_at_ms(u64::MAX, u64::MAX, u64::MAX);
}

/// The law, to the letter: what was sent less than an hour ago.
fn exact(sent: &[(u64, u32)], now_ms: u64) -> u64 {
    sent.iter().filter(|(at, _)| at + HOUR_MS > now_ms).map(|(_, us)| u64::from(*us)).sum()
}

proptest! {
    #[test]
    fn never_less_than_the_exact_sum_and_hardly_more(
        steps in prop::collection::vec((0u64..400_000, 0u64..AHEAD_MS, 0u32..10_000_000), 1..200),
        start in 0u64..50_000_000,
    ) {
        let mut duty = Duty::new();
        let mut sent: Vec<(u64, u32)> = Vec::new();
        let mut now = start;
        for (step, ahead, us) in steps {
            now += step;
            duty.charge(now + ahead, us);
            sent.push((now + ahead, us));
            let used = duty.used_us(now);
            prop_assert!(used >= exact(&sent, now));
            prop_assert!(used <= exact(&sent, now.saturating_sub(BUCKET_MS)));
        }
        for later in [1, BUCKET_MS, HOUR_MS / 2, HOUR_MS, HOUR_MS + AHEAD_MS + 2 * BUCKET_MS] {
            prop_assert!(duty.used_us(now + later) >= exact(&sent, now + later));
        }
        prop_assert_eq!(duty.used_us(now + HOUR_MS + AHEAD_MS + BUCKET_MS), 0);
    }

    #[test]
    fn what_is_said_to_fit_fits_then_and_not_a_millisecond_earlier(
        steps in prop::collection::vec((0u64..200_000, 0u32..10_000_000), 0..100),
        need in 0u64..40_000_000,
    ) {
        let mut duty = Duty::new();
        let mut now = 0;
        for (step, us) in steps {
            now += step;
            duty.charge(now, us);
        }
        match duty.fits_at_ms(now, need, ONE_PERCENT) {
            None => prop_assert!(need > ONE_PERCENT),
            Some(at) => {
                prop_assert!(at >= now);
                prop_assert!(duty.used_us(at) + need <= ONE_PERCENT);
                if at > now {
                    prop_assert!(duty.used_us(at - 1) + need > ONE_PERCENT);
                }
            }
        }
    }

    /// Whoever sends only when told that it fits keeps the law in every window, not only in those
    /// that end now.
    #[test]
    fn an_obedient_sender_is_within_the_limit_in_every_hour(
        wishes in prop::collection::vec((0u64..120_000, 1u32..3_000_000), 1..150),
    ) {
        let mut duty = Duty::new();
        let mut sent: Vec<(u64, u32)> = Vec::new();
        let mut now = 0;
        for (pause, us) in wishes {
            now = duty.fits_at_ms(now + pause, u64::from(us), ONE_PERCENT).unwrap();
            duty.charge(now, us);
            sent.push((now, us));
        }
        for (end, _) in &sent {
            let window: u64 = sent
                .iter()
                .filter(|(at, _)| at <= end && at + HOUR_MS > *end)
                .map(|(_, us)| u64::from(*us))
                .sum();
            prop_assert!(window <= ONE_PERCENT, "{window} µs in the hour before {end}");
        }
    }
}
