//! The rolling hour: how much of it one transmitter has used.
//!
//! Owns the arithmetic of the duty ledger, in a fixed piece of memory. It errs in one direction only:
//! a transmission is counted for an hour and up to five seconds, never for less. Keeps no file and
//! reads no clock.

/// The window, ms.
pub const HOUR_MS: u64 = 3_600_000;
/// Transmissions that fall into the same so many ms are counted as one, until the last is an hour old.
pub const BUCKET_MS: u64 = 5_000;
/// How far a charge may lie ahead of a later question, ms, without anything being forgotten early.
pub const AHEAD_MS: u64 = 600_000;

/// An hour, what lies ahead, and one for the bucket that the hour's start cuts.
const BUCKETS: usize = (HOUR_MS / BUCKET_MS + AHEAD_MS / BUCKET_MS + 1) as usize;

const _: () = assert!(HOUR_MS.is_multiple_of(BUCKET_MS) && AHEAD_MS.is_multiple_of(BUCKET_MS));

/// What was sent, by when.
///
/// Times are milliseconds of one clock that doesn't go back. Charges may come out of order; one that is
/// older than everything kept counts as the oldest kept.
#[derive(Debug, Clone)]
pub struct Duty {
    /// µs on air, by the bucket's number modulo their count.
    buckets: [u32; BUCKETS],
    /// The number of the latest bucket charged.
    newest: u64,
}

impl Default for Duty {
    fn default() -> Duty {
        Duty::new()
    }
}

impl Duty {
    /// Nothing sent.
    #[must_use]
    pub const fn new() -> Duty {
        Duty { buckets: [0; BUCKETS], newest: 0 }
    }

    /// Counts a transmission of `us` microseconds that ends at `at_ms` (or earlier: a later time is the
    /// safe one).
    pub fn charge(&mut self, at_ms: u64, us: u32) {
        let number = at_ms / BUCKET_MS;
        if number > self.newest {
            // Buckets between the two are empty; after a whole turn all of them are.
            let steps = (number - self.newest).min(BUCKETS as u64);
            for step in 0..steps {
                *self.bucket(number - step) = 0;
            }
            self.newest = number;
        }
        let kept = number.max(self.oldest());
        let bucket = self.bucket(kept);
        // At its limit a bucket holds more than an hour, so nothing fits anyway.
        *bucket = bucket.saturating_add(us);
    }

    /// µs on air in the hour before `now_ms`, and whatever was charged ahead of it.
    #[must_use]
    pub fn used_us(&self, now_ms: u64) -> u64 {
        self.kept().filter(|&(gone_ms, _)| gone_ms > now_ms).map(|(_, us)| u64::from(us)).sum()
    }

    /// The earliest time, `now_ms` or later, at which `need_us` more fit into `limit_us`, if nothing
    /// else is charged until then; `None` when they never fit.
    #[must_use]
    pub fn fits_at_ms(&self, now_ms: u64, need_us: u64, limit_us: u64) -> Option<u64> {
        let room = limit_us.checked_sub(need_us)?;
        let mut used = self.used_us(now_ms);
        if used <= room {
            return Some(now_ms);
        }
        for (gone_ms, us) in self.kept().filter(|&(gone_ms, _)| gone_ms > now_ms) {
            used -= u64::from(us);
            if used <= room {
                return Some(gone_ms);
            }
        }
        // Not reached: with everything gone `used` is 0.
        None
    }

    /// The buckets from the oldest to the newest: the time from which each no longer counts, and what
    /// it holds.
    fn kept(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        (self.oldest()..=self.newest).map(|number| {
            let last_ms = (number * BUCKET_MS).saturating_add(BUCKET_MS - 1);
            let us = self.buckets.get(index(number)).copied().unwrap_or_default();
            (last_ms.saturating_add(HOUR_MS), us)
        })
    }

    fn oldest(&self) -> u64 {
        self.newest.saturating_sub(BUCKETS as u64 - 1)
    }

    fn bucket(&mut self, number: u64) -> &mut u32 {
        // In range: `index` is a remainder of the length.
        &mut self.buckets[index(number)]
    }
}

const fn index(number: u64) -> usize {
    (number % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests;
