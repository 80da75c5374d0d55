//! The radio's clock against ours.
//!
//! Owns the last times that the radio put on packets as it heard them. Sets no clock and gives no authority: the
//! figure is only shown.

use std::collections::VecDeque;

/// Packets that are looked at.
const SAMPLES: usize = 8;
/// One that is older says nothing of now, milliseconds.
const STALE_MS: u64 = 3_600_000;
/// After a handshake the radio gives what it kept, with the times at which it was heard.
const SETTLE_MS: u64 = 10_000;

/// The last packets' times.
#[derive(Debug, Default)]
pub struct Drift {
    /// When each came, and how far the radio's clock was ahead then, seconds.
    samples: VecDeque<(u64, i64)>,
    from_ms: u64,
}

impl Drift {
    /// A session begins: what was known may be another radio's.
    pub fn link_up(&mut self, mono_ms: u64) {
        self.samples.clear();
        self.from_ms = mono_ms.saturating_add(SETTLE_MS);
    }

    /// A packet came, which the radio heard at `heard_s` by its own clock.
    pub fn packet(&mut self, heard_s: Option<u32>, mono_ms: u64, unix_ms: u64) {
        let Some(heard_s) = heard_s.filter(|seconds| *seconds != 0 && mono_ms >= self.from_ms)
        else {
            return;
        };
        let ours_s = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((mono_ms, i64::from(heard_s).saturating_sub(ours_s)));
    }

    /// Seconds by which the radio's clock is ahead. A packet may have waited before it reached us, so the one that
    /// waited least counts.
    pub fn seconds(&self, mono_ms: u64) -> Option<i64> {
        let fresh = self.samples.iter().filter(|(at, _)| mono_ms.saturating_sub(*at) < STALE_MS);
        fresh.map(|(_, ahead)| *ahead).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;
    const NOW_S: u32 = 1_800_000_000;

    #[test]
    fn a_clock_that_is_ahead_or_behind_is_told_and_one_that_is_not_set_is_not() {
        for (heard, ahead) in [
            (Some(NOW_S), Some(0)),
            (Some(NOW_S + 90), Some(90)),
            (Some(NOW_S - 90), Some(-90)),
            (Some(0), None),
            (None, None),
        ] {
            let mut drift = Drift::default();
            drift.packet(heard, 5, NOW_MS);
            assert_eq!(drift.seconds(5), ahead, "{heard:?}");
        }
    }

    #[test]
    fn a_packet_that_waited_in_the_radio_is_no_slow_clock() {
        let mut drift = Drift::default();
        drift.packet(Some(NOW_S + 3), 0, NOW_MS);
        drift.packet(Some(NOW_S - 700), 0, NOW_MS);
        assert_eq!(drift.seconds(0), Some(3));
        // A clock that was put back is believed once eight packets say so.
        for more in 1..SAMPLES {
            assert_eq!(drift.seconds(0), Some(3), "{more}");
            drift.packet(Some(NOW_S - 60), 0, NOW_MS);
        }
        assert_eq!(drift.seconds(0), Some(-60));
    }

    #[test]
    fn what_is_stale_or_another_sessions_says_nothing() {
        let mut drift = Drift::default();
        drift.packet(Some(NOW_S), 0, NOW_MS);
        assert_eq!(drift.seconds(STALE_MS - 1), Some(0));
        assert_eq!(drift.seconds(STALE_MS), None);
        drift.link_up(100);
        assert_eq!(drift.seconds(100), None);
        drift.packet(Some(NOW_S), 100 + SETTLE_MS - 1, NOW_MS);
        assert_eq!(drift.seconds(20_000), None);
        drift.packet(Some(NOW_S), 100 + SETTLE_MS, NOW_MS);
        assert_eq!(drift.seconds(20_000), Some(0));
    }
}
