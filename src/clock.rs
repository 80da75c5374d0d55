//! The only place that reads the system's clocks.
//!
//! Owns [`Now`], the pair of times that the rest takes as an argument: milliseconds since boot,
//! advanced by Tokio's clock (so that a paused clock pauses it), and Unix time for people and files.
//! Must not be used to measure anything that a test compares.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the one place that may

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One instant, as two clocks show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Milliseconds since the machine booted, suspended time included; never goes back while it runs.
    pub mono_ms: u64,
    /// Milliseconds since 1970. May jump; never used to decide whether something may be sent.
    pub unix_ms: u64,
}

impl Now {
    /// The same instant, later by that much.
    #[must_use]
    pub fn plus(self, by: Duration) -> Now {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Now { mono_ms: self.mono_ms.saturating_add(ms), unix_ms: self.unix_ms.saturating_add(ms) }
    }
}

/// Ties Tokio's clock to the time since boot.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: tokio::time::Instant,
    origin_boot_ms: u64,
    origin_unix_ms: u64,
}

impl Clock {
    /// Starts at the real clocks' present values. Needs no runtime.
    pub fn start() -> Clock {
        Clock {
            origin: tokio::time::Instant::now(),
            origin_boot_ms: boot_ms(),
            origin_unix_ms: unix_ms(),
        }
    }

    /// The present, as far as Tokio's clock has moved on. Wall-clock steps after the start show up
    /// in `unix_ms` only where the real clock is ahead of or behind Tokio's by over two seconds.
    pub fn now(&self) -> Now {
        let passed = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now {
            mono_ms: self.origin_boot_ms.saturating_add(passed),
            unix_ms: self.origin_unix_ms.saturating_add(passed),
        }
    }

    /// The Tokio instant at which `mono_ms` will be reached; now when it has passed.
    pub fn instant_at(&self, mono_ms: u64) -> tokio::time::Instant {
        self.origin + Duration::from_millis(mono_ms.saturating_sub(self.origin_boot_ms))
    }
}

/// Unix time in milliseconds, from the real clock.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds since boot, suspended time included.
pub fn boot_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1000).saturating_add(millis)
}

/// Names this boot of the machine; `unknown` where the kernel doesn't say.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
