//! Counts by the hour, for a day: `history.json`.
//!
//! Owns its form. It only shows: its loss changes nothing, and a broken one is begun anew. Does no I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Hours that are shown, the present one among them.
pub const SHOWN: usize = 24;
const HOUR_MS: u64 = 3_600_000;

/// One hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hour {
    /// Questions of peers that were answered.
    pub answered: u64,
    /// Questions of peers that were refused.
    pub refused: u64,
    /// How busy the channel was each time it was looked at, summed up, percent.
    busy_sum: f64,
    looked: u32,
}

impl Hour {
    /// The channel was looked at.
    pub fn busy(&mut self, percent: f32) {
        // A radio's figure is foreign: one that is none must not spoil the hour.
        if (0.0..=100.0).contains(&percent) {
            self.busy_sum += f64::from(percent);
            self.looked = self.looked.saturating_add(1);
        }
    }

    /// How busy the channel was on average, percent; `None` where nobody knows.
    pub fn channel_percent(&self) -> Option<f64> {
        (self.looked > 0).then(|| (self.busy_sum / f64::from(self.looked) * 10.0).round() / 10.0)
    }
}

/// The hours, by their number since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hours(BTreeMap<u64, Hour>);

impl Hours {
    /// The hour of that Unix time. Hours that are too old to be shown are forgotten.
    pub fn at(&mut self, unix_ms: u64) -> &mut Hour {
        let number = unix_ms / HOUR_MS;
        if !self.0.contains_key(&number) {
            // A clock that jumps may leave hours in the future: they are bounded too.
            while self.0.len() >= SHOWN * 2 {
                self.0.pop_first();
            }
        }
        self.0.entry(number).or_default()
    }

    /// The last day in whole hours, oldest first, the present one last.
    pub fn last_day(&self, unix_ms: u64) -> Vec<Hour> {
        numbers(unix_ms).map(|number| self.0.get(&number).copied().unwrap_or_default()).collect()
    }
}

/// The numbers of the hours that are shown, oldest first.
pub fn numbers(unix_ms: u64) -> impl Iterator<Item = u64> {
    let present = unix_ms / HOUR_MS;
    (present + 1).saturating_sub(SHOWN as u64)..=present
}

/// When an hour began, Unix milliseconds.
pub fn began(number: u64) -> u64 {
    number.saturating_mul(HOUR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn an_hour_ends_after_its_last_millisecond() {
        let mut hours = Hours::default();
        let begin = NOW / HOUR_MS * HOUR_MS;
        hours.at(begin).answered += 1;
        hours.at(begin + HOUR_MS - 1).answered += 1;
        hours.at(begin + HOUR_MS).answered += 1;
        let day = hours.last_day(begin + HOUR_MS);
        assert_eq!(day.len(), SHOWN);
        assert_eq!((day[22].answered, day[23].answered), (2, 1));
        assert_eq!(numbers(begin).map(began).last(), Some(begin));
        assert_eq!(numbers(0).count(), 1);
    }

    #[test]
    fn the_channel_is_an_average_of_what_is_a_percentage() {
        let mut hour = Hour::default();
        assert_eq!(hour.channel_percent(), None);
        for percent in [10.0, 20.5, f32::NAN, -1.0, 100.1, 0.0, 100.0] {
            hour.busy(percent);
        }
        assert_eq!(hour.channel_percent(), Some(32.6));
    }

    #[test]
    fn hours_are_bounded_whatever_the_clock_does_and_survive_their_file() {
        let mut hours = Hours::default();
        for n in 0..1000 {
            hours.at(n * HOUR_MS).refused = 1;
        }
        assert_eq!(hours.0.len(), SHOWN * 2);
        hours.at(NOW).busy(3.0);
        let text = serde_json::to_string(&hours).unwrap();
        assert_eq!(serde_json::from_str::<Hours>(&text).unwrap(), hours);
    }
}
