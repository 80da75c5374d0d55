//! The record of what the operator changed: `changes.log`.
//!
//! Owns one line of JSON a change: when, by whom, what. It only grows, and it is written before the change is, so that
//! none goes unrecorded. Holds no code, no text of a message and no key, only fingerprints.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::clock::Now;
use crate::store::{Durability, Journal, StoreError};

const FILE: &str = "changes.log";

/// The record.
#[derive(Debug)]
pub struct ChangeLog {
    path: PathBuf,
    journal: Journal,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Unix milliseconds.
    at: u64,
    /// Role and login.
    by: &'a str,
    /// A sentence.
    what: &'a str,
}

impl ChangeLog {
    /// Opens or creates it in the data folder.
    pub fn open(data_dir: &Path) -> Result<ChangeLog, StoreError> {
        let path = data_dir.join(FILE);
        Ok(ChangeLog { journal: Journal::open(&path)?, path })
    }

    /// Writes a line; it is on the disk when this returns.
    pub fn record(&mut self, by: &str, what: &str, now: Now) -> Result<(), StoreError> {
        self.append(by, what, Durability::Disk, now)
    }

    /// Writes a line about something that changes nobody's standing: it is on the disk when the file is synced.
    pub fn note(&mut self, by: &str, what: &str, now: Now) -> Result<(), StoreError> {
        self.append(by, what, Durability::Process, now)
    }

    /// Where it is, for syncing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append(
        &mut self,
        by: &str,
        what: &str,
        durability: Durability,
        now: Now,
    ) -> Result<(), StoreError> {
        let line = Line { at: now.unix_ms, by, what };
        // Neither a number nor a text can fail to be written as JSON.
        let line = serde_json::to_string(&line).unwrap_or_default();
        self.journal.append(&line, durability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store;

    #[test]
    fn each_change_is_one_line_whatever_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let now = Now { mono_ms: 1, unix_ms: 7 };
        let mut log = ChangeLog::open(folder.path()).unwrap();
        log.record("operator a", "first", now).unwrap();
        drop(log);
        let mut log = ChangeLog::open(folder.path()).unwrap();
        log.record("operator b", "two\nlines \u{1b}[2J", now).unwrap();
        let path = folder.path().join(FILE);
        let lines = store::journal_lines(&path).unwrap();
        assert_eq!(lines[0], r#"{"at":7,"by":"operator a","what":"first"}"#);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains(r"two\nlines \u001b[2J"));
        assert!(store::is_private(&path).unwrap());
    }
}
