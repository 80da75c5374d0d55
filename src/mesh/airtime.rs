//! Airtime: what this transmitter has sent in the rolling hour, on disk.
//!
//! Owns `airtime.log`, written before anything is sent, so that a crash at any instant counts too much
//! and never too little. The rolling hour's arithmetic is `tombolo_hw`'s; what the law and good manners
//! make of the sum is [`law`]'s. Must not know what was sent.

pub mod hours;
pub mod law;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use tombolo_hw::duty::{Duty, HOUR_MS};

use self::hours::{Hour, Hours};
use crate::clock::Now;
use crate::node::PacketId;
use crate::store::{self, Durability, Journal, StoreError};

/// How long after it was handed over a frame may still wait in the radio's queue, ms: it counts until an
/// hour after that.
const QUEUE_MS: u64 = 30_000;
/// How long a line is kept.
const KEPT_MS: u64 = HOUR_MS + QUEUE_MS + 10_000;
/// What a line that can't be read counts: the longest frame of the slowest preset, µs.
const UNREADABLE_US: u32 = 15_000_000;
/// The file is written anew after so many lines; an hour at full pace has fewer than 3200.
const LINES: usize = 8_000;

/// What a line was charged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first transmission of a text.
    Text,
    /// The radio's own retransmissions, as far as they can't be ruled out.
    Retry,
    /// Taken over from another boot or from a line that could not be read.
    Old,
}

impl Kind {
    const ALL: [(Kind, &'static str); 3] =
        [(Kind::Text, "text"), (Kind::Retry, "retry"), (Kind::Old, "old")];

    fn word(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("old", |(_, word)| word)
    }
}

#[derive(Debug, Clone)]
struct Line {
    boot: String,
    mono_ms: u64,
    unix_ms: u64,
    us: u32,
    kind: Kind,
}

impl Line {
    /// `boot_id mono_ms unix_ms us kind`; anything else, a torn line too, is unreadable.
    fn parse(text: &str) -> Option<Line> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [boot, mono, unix, us, word] = fields.as_slice() else { return None };
        let (kind, _) = Kind::ALL.iter().find(|(_, known)| known == word)?;
        Some(Line {
            boot: (*boot).to_owned(),
            mono_ms: mono.parse().ok()?,
            unix_ms: unix.parse().ok()?,
            us: u32::try_from(us.parse::<u64>().ok()?).unwrap_or(u32::MAX),
            kind: *kind,
        })
    }

    fn text(&self) -> String {
        let Line { boot, mono_ms, unix_ms, us, kind } = self;
        format!("{boot} {mono_ms} {unix_ms} {us} {}", kind.word())
    }
}

/// The ledger. Every figure in it is an upper bound.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    journal: Journal,
    boot: String,
    duty: Duty,
    /// The lines of the last hour, oldest first. As many as the 2.3 s between texts allow.
    recent: VecDeque<Line>,
    /// Retransmissions that the radio may be making right now, by packet, µs: counted, not yet charged.
    open: BTreeMap<PacketId, u64>,
    lines: usize,
    unreadable: usize,
    hours: Hours,
}

impl Ledger {
    /// Opens `airtime.log` in the data folder and drops what is provably older than an hour. A line of
    /// another boot counts as just sent, and so does one from the future.
    ///
    /// # Errors
    /// When the file can't be read or written.
    pub fn open(data: &Path, boot_id: &str, now: Now) -> Result<Ledger, StoreError> {
        let path = data.join("airtime.log");
        let boot: String = boot_id.split_whitespace().collect();
        let boot = if boot.is_empty() { "unknown".to_owned() } else { boot };
        let mut read = Vec::new();
        let mut unreadable = 0;
        drop(Journal::open(&path)?); // ends a torn line, so that it is seen
        for text in store::journal_lines(&path)?.iter().filter(|text| !text.trim().is_empty()) {
            match Line::parse(text) {
                Some(line) => read.push(line),
                None => unreadable += 1,
            }
        }
        let mut recent: Vec<Line> = read
            .iter()
            .filter_map(|line| {
                let ours = line.boot == boot && boot != "unknown";
                if ours && line.mono_ms <= now.mono_ms.saturating_add(1_000) {
                    let fresh = line.mono_ms.saturating_add(KEPT_MS) > now.mono_ms;
                    return fresh.then(|| line.clone());
                }
                // Of another boot only what was sent in the hour before its last line can be recent.
                let last = read.iter().filter(|l| l.boot == line.boot).map(|l| l.mono_ms).max();
                let fresh = last.is_some_and(|last| line.mono_ms.saturating_add(KEPT_MS) > last);
                fresh.then(|| Line {
                    boot: boot.clone(),
                    mono_ms: now.mono_ms,
                    unix_ms: line.unix_ms,
                    us: line.us,
                    kind: Kind::Old,
                })
            })
            .collect();
        for _ in 0..unreadable {
            recent.push(Line {
                boot: boot.clone(),
                mono_ms: now.mono_ms,
                unix_ms: now.unix_ms,
                us: UNREADABLE_US,
                kind: Kind::Old,
            });
        }
        recent.sort_by_key(|line| line.mono_ms);
        if unreadable > 0 {
            tracing::warn!(unreadable, "airtime.log: lines that can't be read count as just sent");
        }
        let mut ledger = Ledger {
            journal: Journal::open(&path)?,
            path,
            boot,
            duty: Duty::new(),
            recent: recent.into(),
            open: BTreeMap::new(),
            lines: 0,
            unreadable,
            hours: Hours::open(data)?,
        };
        for line in &ledger.recent {
            ledger.duty.charge(line.mono_ms.saturating_add(QUEUE_MS), line.us);
        }
        ledger.rewrite()?;
        Ok(ledger)
    }

    /// Charges a transmission before it is made: `us` for the first, and up to `retries_us` for what the
    /// radio may add by itself, counted from now on and settled later.
    ///
    /// # Errors
    /// When the line can't be written: then it must not be sent.
    pub fn charge(
        &mut self,
        id: PacketId,
        us: u32,
        retries_us: u64,
        now: Now,
    ) -> Result<(), StoreError> {
        self.append(us, Kind::Text, now)?;
        if retries_us > 0 {
            self.open.insert(id, retries_us);
        }
        Ok(())
    }

    /// The radio has stopped repeating that packet; at most `us` went into repetitions. What can't be
    /// written stays counted as if it were still repeating.
    pub fn settle(&mut self, id: PacketId, us: u64, now: Now) {
        let Some(reserved) = self.open.remove(&id) else { return };
        let us = us.min(reserved);
        if us > 0 && self.append(clamp(us), Kind::Retry, now).is_err() {
            self.open.insert(id, us);
        }
    }

    /// Repetitions whose number nobody knows any more: the process that would have seen their end died.
    ///
    /// # Errors
    /// When the line can't be written.
    pub fn doubt(&mut self, us: u64, now: Now) -> Result<(), StoreError> {
        self.append(clamp(us), Kind::Retry, now)
    }

    /// µs on air in the last hour, what the radio may still be repeating included.
    pub fn used_us(&self, now: Now) -> u64 {
        self.duty.used_us(now.mono_ms) + self.open_us()
    }

    /// µs charged at or after `mono_ms`, and what the radio may still be repeating.
    pub fn since_us(&self, mono_ms: u64) -> u64 {
        let charged = self.recent.iter().rev().take_while(|line| line.mono_ms >= mono_ms);
        charged.map(|line| u64::from(line.us)).sum::<u64>() + self.open_us()
    }

    /// The earliest time at which `need_us` more fit into `limit_us`; `None` when they never do.
    pub fn fits_at_ms(&self, need_us: u64, limit_us: u64, now: Now) -> Option<u64> {
        if need_us > limit_us {
            return None;
        }
        let at = self.duty.fits_at_ms(now.mono_ms, need_us + self.open_us(), limit_us);
        Some(at.unwrap_or(now.mono_ms + 5_000)) // only what is being repeated stands in the way
    }

    /// When the last text was handed over, by this boot's clock.
    pub fn last_text_ms(&self) -> Option<u64> {
        let texts = self.recent.iter().rev().filter(|line| line.kind == Kind::Text);
        texts.map(|line| line.mono_ms).next()
    }

    /// How many lines are held in memory.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.recent.len() + self.open.len()
    }

    /// How many lines could not be read when the file was opened.
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    fn open_us(&self) -> u64 {
        self.open.values().sum()
    }

    fn append(&mut self, us: u32, kind: Kind, now: Now) -> Result<(), StoreError> {
        let line =
            Line { boot: self.boot.clone(), mono_ms: now.mono_ms, unix_ms: now.unix_ms, us, kind };
        if self.lines >= LINES {
            self.rewrite()?;
        }
        self.journal.append(&line.text(), Durability::Process)?;
        self.lines += 1;
        let (us64, text) = (u64::from(us), kind == Kind::Text);
        let hour = Hour {
            transmissions: u64::from(text),
            airtime_us: if text { us64 } else { 0 },
            retries_us: if text { 0 } else { us64 },
        };
        if let Err(error) = self.hours.add(now.unix_ms, hour) {
            tracing::error!(%error, "the hourly record of airtime misses a transmission");
        }
        self.duty.charge(now.mono_ms.saturating_add(QUEUE_MS), us);
        let old = now.mono_ms.saturating_sub(KEPT_MS);
        while self.recent.front().is_some_and(|line| line.mono_ms < old) {
            self.recent.pop_front();
        }
        self.recent.push_back(line);
        Ok(())
    }

    /// Replaces the file by the lines of the last hour.
    fn rewrite(&mut self) -> Result<(), StoreError> {
        let mut text = String::new();
        for line in &self.recent {
            text.push_str(&line.text());
            text.push('\n');
        }
        store::replace(&self.path, text.as_bytes(), Durability::Process)?;
        self.journal = Journal::open(&self.path)?;
        self.lines = self.recent.len();
        Ok(())
    }
}

fn clamp(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
