//! The record of airtime by the hour, for whoever has to show it to a regulator.
//!
//! Owns `airtime-hours.csv`: one line a charge as it is made, joined to one line an hour when the file is opened or
//! has grown. It only reports: what may be sent is the ledger's matter, and that file's loss changes nothing there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::store::{self, Durability, Journal, StoreError};

const FILE: &str = "airtime-hours.csv";
const HEADER: &str = "hour_utc,transmissions,airtime_us,possible_retries_us";
/// Hours that are kept: four hundred days.
const HOURS: usize = 9_600;
/// The lines are joined after so many more.
const LINES: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// What was sent in one hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hour {
    /// Transmissions that were handed to the radio.
    pub transmissions: u64,
    /// Their time on air, µs.
    pub airtime_us: u64,
    /// What the radio may have added by repeating them, µs: an upper bound.
    pub retries_us: u64,
}

/// The record.
#[derive(Debug)]
pub(super) struct Hours {
    path: PathBuf,
    journal: Journal,
    lines: usize,
}

impl Hours {
    /// Opens it and joins its lines.
    pub fn open(data: &Path) -> Result<Hours, StoreError> {
        let path = data.join(FILE);
        let mut hours = Hours { journal: Journal::open(&path)?, path, lines: 0 };
        hours.join()?;
        Ok(hours)
    }

    /// Adds to the hour of that time, Unix ms.
    pub fn add(&mut self, unix_ms: u64, hour: Hour) -> Result<(), StoreError> {
        self.journal.append(&line(unix_ms / HOUR_MS, hour), Durability::Process)?;
        self.lines += 1;
        if self.lines >= LINES { self.join() } else { Ok(()) }
    }

    fn join(&mut self) -> Result<(), StoreError> {
        let hours = read_file(&self.path)?;
        let old = hours.len().saturating_sub(HOURS);
        let mut text = format!("{HEADER}\n");
        for (number, hour) in hours.iter().skip(old) {
            text.push_str(&line(*number, *hour));
            text.push('\n');
        }
        store::replace(&self.path, text.as_bytes(), Durability::Process)?;
        self.journal = Journal::open(&self.path)?;
        self.lines = 0;
        Ok(())
    }
}

/// The hours of a data folder, oldest first, each with its beginning as ISO 8601 has it. Also while a daemon writes.
///
/// # Errors
/// When the file can't be read. That there is none is no error.
pub fn read(data: &Path) -> Result<Vec<(String, Hour)>, StoreError> {
    let hours = read_file(&data.join(FILE))?;
    Ok(hours.into_iter().map(|(number, hour)| (name(number), hour)).collect())
}

/// The same by the number of the hour since 1970.
///
/// # Errors
/// When the file can't be read.
pub fn by_number(data: &Path) -> Result<BTreeMap<u64, Hour>, StoreError> {
    read_file(&data.join(FILE))
}

/// By the number of the hour since 1970. Lines that can't be read are left out.
fn read_file(path: &Path) -> Result<BTreeMap<u64, Hour>, StoreError> {
    let mut hours: BTreeMap<u64, Hour> = BTreeMap::new();
    for (number, more) in store::journal_lines(path)?.iter().filter_map(|line| parse(line)) {
        let hour = hours.entry(number).or_default();
        hour.transmissions = hour.transmissions.saturating_add(more.transmissions);
        hour.airtime_us = hour.airtime_us.saturating_add(more.airtime_us);
        hour.retries_us = hour.retries_us.saturating_add(more.retries_us);
    }
    Ok(hours)
}

fn line(number: u64, hour: Hour) -> String {
    let Hour { transmissions, airtime_us, retries_us } = hour;
    format!("{},{transmissions},{airtime_us},{retries_us}", name(number))
}

fn parse(line: &str) -> Option<(u64, Hour)> {
    let fields: Vec<&str> = line.split(',').collect();
    let [hour, transmissions, airtime, retries] = fields.as_slice() else { return None };
    let hour = hour.strip_suffix(":00Z")?;
    let (date, clock) = hour.split_once('T')?;
    let mut date = date.split('-').map(|field| field.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let clock = clock.parse::<u64>().ok().filter(|clock| *clock < 24)?;
    let valid = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && date.next().is_none();
    let figures = Hour {
        transmissions: transmissions.parse().ok()?,
        airtime_us: airtime.parse().ok()?,
        retries_us: retries.parse().ok()?,
    };
    valid.then(|| (days(year, month, day) * 24 + clock, figures))
}

/// `2026-11-30T14:00Z` of an hour since 1970.
fn name(number: u64) -> String {
    // Counted from 1 March of the year 0, so that the leap day is a year's last.
    let day = number / 24 + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    format!("{year:04}-{month:02}-{day:02}T{:02}:00Z", number % 24)
}

/// Days from 1 January 1970 to that date, which is not before it.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Hour = Hour { transmissions: 1, airtime_us: 2_000_000, retries_us: 0 };

    #[test]
    fn an_hour_has_the_name_that_people_give_it() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00Z"),
            (951_782_400, "2000-02-29T00:00Z"),
            (951_868_800, "2000-03-01T00:00Z"),
            (1_700_000_000, "2023-11-14T22:00Z"),
            (4_107_538_800, "2100-02-28T23:00Z"),
            (4_107_542_400, "2100-03-01T00:00Z"),
        ] {
            assert_eq!(name(seconds / 3600), text);
            assert_eq!(parse(&line(seconds / 3600, ONE)), Some((seconds / 3600, ONE)));
        }
    }

    #[test]
    fn charges_of_an_hour_are_one_row_across_restarts_and_joins() {
        let folder = tempfile::tempdir().unwrap();
        let hour = 1_700_000_000_000 / HOUR_MS * HOUR_MS;
        let mut hours = Hours::open(folder.path()).unwrap();
        hours.add(hour - 1, ONE).unwrap();
        for _ in 0..LINES {
            hours.add(hour, ONE).unwrap();
        }
        drop(hours);
        let mut hours = Hours::open(folder.path()).unwrap();
        let retry = Hour { retries_us: 7, ..Hour::default() };
        hours.add(hour + HOUR_MS - 1, retry).unwrap();
        let count = LINES as u64;
        let sum = Hour { transmissions: count, airtime_us: count * 2_000_000, retries_us: 7 };
        let rows = [("2023-11-14T21:00Z".to_owned(), ONE), ("2023-11-14T22:00Z".to_owned(), sum)];
        assert_eq!(read(folder.path()).unwrap(), rows);
        drop(Hours::open(folder.path()).unwrap());
        assert_eq!(read(folder.path()).unwrap(), rows);
        assert_eq!(store::journal_lines(&folder.path().join(FILE)).unwrap().len(), 3);
        assert!(store::is_private(&folder.path().join(FILE)).unwrap());
    }

    #[test]
    fn rubbish_costs_only_itself_and_old_hours_go() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        let mut text = format!("{HEADER}\n\nx\n2026-13-01T00:00Z,1,1,1\n2026-01-01T24:00Z,1,1,1\n");
        text += "99999999999999-01-01T00:00Z,1,1,1\n2026-01-01T00:00Z,1,-1,1\n2026-01-01,1,1,1\n";
        for number in 0..=HOURS as u64 {
            text += &(line(500_000 + number, ONE) + "\n");
        }
        text += "2026-01-01T0";
        store::replace(&folder.path().join(FILE), text.as_bytes(), Durability::Process).unwrap();
        drop(Hours::open(folder.path()).unwrap());
        let rows = read(folder.path()).unwrap();
        assert_eq!(rows.len(), HOURS);
        assert_eq!(rows[0], (name(500_001), ONE));
    }
}
