//! How fast passwords may be tried.
//!
//! Owns the back-off after failed logins: counting failures only, growing to a cap, never a lock. The
//! time is an argument. Knows no password.
//!
//! Two counts: one for whoever tries (a browser that was logged in before, else an address), and one for
//! all strangers together, so that many addresses are no way around the first. A browser that still
//! holds the cookie of an earlier session is not held back by strangers: whoever floods the login page
//! can't keep the operator out. Neither is this machine itself, and with it a tunnel to it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::assistant::SessionId;

/// Failures without a wait, for each who tries.
pub const FREE_TRIES: u32 = 3;
/// The longest wait for one who tries, in milliseconds.
pub const WAIT_CAP_MS: u64 = 60_000;
/// Failures of all strangers together without a wait.
pub const FREE_TRIES_OF_ALL: u32 = 10;
/// The longest wait for strangers together, in milliseconds.
pub const WAIT_CAP_OF_ALL_MS: u64 = 8_000;
/// So long after its last failure, a count is forgotten.
pub const FORGET_MS: u64 = 15 * 60_000;
/// Entries at most; past it the one that failed longest ago is forgotten.
const MAX_ENTRIES: usize = 256;

/// Whose failures are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// A browser that holds the cookie of a session, live or ended.
    Known(SessionId),
    /// An address; of IPv6 the first 64 bits, for one household has them all.
    Stranger(IpAddr),
}

impl Who {
    /// An address, as it is counted.
    pub fn stranger(address: IpAddr) -> Who {
        Who::Stranger(match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let network = v6.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            whole => whole,
        })
    }
}

impl Who {
    /// Is it counted with all strangers?
    fn is_of_many(&self) -> bool {
        matches!(self, Who::Stranger(address) if !address.is_loopback())
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    count: u32,
    last_ms: u64,
}

impl Failures {
    fn add(&mut self, now_ms: u64) {
        self.count = self.at(now_ms).saturating_add(1);
        self.last_ms = now_ms;
    }

    /// The count, forgotten after a while.
    fn at(&self, now_ms: u64) -> u32 {
        if now_ms.saturating_sub(self.last_ms) < FORGET_MS { self.count } else { 0 }
    }

    fn wait_ms(&self, free: u32, cap_ms: u64, now_ms: u64) -> u64 {
        let Some(over) = self.at(now_ms).checked_sub(free) else { return 0 };
        // 1 s after the first failure over the free ones, twice as long after each further one.
        let wait = 1000u64.saturating_mul(1 << over.min(16)).min(cap_ms);
        self.last_ms.saturating_add(wait).saturating_sub(now_ms)
    }
}

/// The counts, in memory: a restart forgets them.
#[derive(Debug, Default)]
pub struct Throttle {
    each: HashMap<Who, Failures>,
    strangers: Failures,
}

impl Throttle {
    /// Milliseconds until `who` may try again; 0 for now.
    pub fn wait_ms(&self, who: &Who, now_ms: u64) -> u64 {
        let own = self
            .each
            .get(who)
            .map_or(0, |failures| failures.wait_ms(FREE_TRIES, WAIT_CAP_MS, now_ms));
        if !who.is_of_many() {
            return own;
        }
        own.max(self.strangers.wait_ms(FREE_TRIES_OF_ALL, WAIT_CAP_OF_ALL_MS, now_ms))
    }

    /// A wrong password.
    pub fn failed(&mut self, who: &Who, now_ms: u64) {
        if who.is_of_many() {
            self.strangers.add(now_ms);
        }
        if !self.each.contains_key(who) && self.each.len() >= MAX_ENTRIES {
            let oldest =
                self.each.iter().min_by_key(|(_, f)| f.last_ms).map(|(who, _)| who.clone());
            if let Some(oldest) = oldest {
                self.each.remove(&oldest);
            }
        }
        self.each.entry(who.clone()).or_default().add(now_ms);
    }

    /// The right one: its own count starts again; that of the strangers stands, for it counts others.
    pub fn succeeded(&mut self, who: &Who) {
        self.each.remove(who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Who {
        Who::stranger(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn the_wait_starts_after_the_free_tries_and_grows_to_its_cap() {
        let mut throttle = Throttle::default();
        let who = Who::Known(SessionId("s".to_owned()));
        for (failures, wait) in [
            (1, 0),
            (2, 0),
            (3, 1000),
            (4, 2000),
            (5, 4000),
            (8, 32_000),
            (9, 60_000),
            (40, 60_000),
        ] {
            while throttle.each.get(&who).map_or(0, |f| f.count) < failures {
                throttle.failed(&who, 5000);
            }
            assert_eq!(throttle.wait_ms(&who, 5000), wait, "after {failures}");
            if wait > 0 {
                assert_eq!(throttle.wait_ms(&who, 5000 + wait - 1), 1);
                assert_eq!(throttle.wait_ms(&who, 5000 + wait), 0);
            }
        }
        throttle.succeeded(&who);
        assert_eq!(throttle.wait_ms(&who, 5000), 0);
    }

    #[test]
    fn failures_are_forgotten_after_a_quarter_of_an_hour() {
        let mut throttle = Throttle::default();
        for _ in 0..9 {
            throttle.failed(&address(1), 0);
        }
        throttle.failed(&address(1), FORGET_MS - 1);
        assert_eq!(throttle.wait_ms(&address(1), FORGET_MS - 1), WAIT_CAP_MS, "the tenth");
        throttle.failed(&address(1), 2 * FORGET_MS - 1);
        assert_eq!(throttle.wait_ms(&address(1), 2 * FORGET_MS - 1), 0, "the first again");
    }

    #[test]
    fn many_addresses_wait_together_and_a_known_browser_does_not() {
        let mut throttle = Throttle::default();
        for last in 1..FREE_TRIES_OF_ALL {
            throttle.failed(&address(u8::try_from(last).unwrap()), 0);
        }
        assert_eq!(throttle.wait_ms(&address(99), 0), 0, "nine");
        throttle.failed(&address(98), 0);
        assert_eq!(throttle.wait_ms(&address(99), 0), 1000, "ten");
        for _ in 0..30 {
            throttle.failed(&address(98), 0);
        }
        assert_eq!(throttle.wait_ms(&address(99), 0), WAIT_CAP_OF_ALL_MS);
        assert_eq!(throttle.wait_ms(&Who::Known(SessionId("s".to_owned())), 0), 0);
        // Nor does this machine, which has a count of its own.
        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let local = Who::stranger(local.parse().unwrap());
            assert_eq!(throttle.wait_ms(&local, 0), 0, "{local:?}");
        }
        let local = Who::stranger(IpAddr::from([127, 0, 0, 1]));
        for _ in 0..FREE_TRIES {
            throttle.failed(&local, 0);
        }
        assert_eq!(throttle.wait_ms(&local, 0), 1000);
    }

    #[test]
    fn an_ipv6_household_is_one_and_memory_is_bounded() {
        let one: IpAddr = "2001:db8:1:2::1".parse().unwrap();
        let two: IpAddr = "2001:db8:1:2:ffff::9".parse().unwrap();
        let other: IpAddr = "2001:db8:1:3::1".parse().unwrap();
        assert_eq!(Who::stranger(one), Who::stranger(two));
        assert_ne!(Who::stranger(one), Who::stranger(other));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(Who::stranger(mapped), address(1));
        let mut throttle = Throttle::default();
        for n in 0..1000u32 {
            throttle.failed(&Who::stranger(IpAddr::from(n.to_be_bytes())), u64::from(n));
        }
        assert_eq!(throttle.each.len(), MAX_ENTRIES);
    }
}
