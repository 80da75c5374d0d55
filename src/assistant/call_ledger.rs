//! The record of tool calls: `calls.log`.
//!
//! Owns one line a call, added when the call is over: who, in which turn, which tool, what became of it, how
//! long it took. Never arguments and never results, whatever the tool. Bounded: a full file becomes the older one,
//! and the older one before it goes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::error;

use super::caller::PermissionCategory;
use super::{ToolOutcome, TurnId};
use crate::store::{self, Durability, Journal, StoreError};

const FILE: &str = "calls.log";
const OLDER: &str = "calls.1.log";
/// Calls in a file; then the next is begun.
const MAX_LINES: usize = 10_000;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// When it was over, Unix milliseconds.
    pub at: u64,
    /// The turn that it was made in.
    pub turn_id: TurnId,
    /// `operator`, or what the peer proved or claimed: `key:…`, `signed:…`, `claim:…`.
    pub caller: String,
    /// A tool of ours; `(unknown)` for whatever else a model wrote.
    pub tool: String,
    /// `None` for an unknown tool.
    pub category: Option<PermissionCategory>,
    /// What became of it.
    pub outcome: ToolOutcome,
    /// How long it took, the wait for a confirmation at a terminal included.
    pub millis: u64,
}

/// The record.
#[derive(Debug)]
pub struct CallLedger {
    folder: PathBuf,
    writing: Mutex<Option<Writing>>,
}

#[derive(Debug)]
struct Writing {
    journal: Journal,
    lines: usize,
}

impl CallLedger {
    /// In the data folder. Nothing is opened before there is a call.
    pub fn new(data_dir: &Path) -> CallLedger {
        CallLedger { folder: data_dir.to_owned(), writing: Mutex::default() }
    }

    /// Adds a call, safe from a kill when this returns. One that can't be written is said in the log: a full disk must
    /// not keep the operator from the tools that would show it.
    pub fn add(&self, call: &RecordedCall) {
        if let Err(error) = self.write(call) {
            error!(%error, source = %error.source, "a tool call could not be recorded");
        }
    }

    fn write(&self, call: &RecordedCall) -> Result<(), StoreError> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join(FILE);
        let mut open = match writing.take() {
            Some(open) => open,
            None => {
                let lines = store::journal_lines(&path)?.len();
                Writing { journal: Journal::open(&path)?, lines }
            }
        };
        if open.lines >= MAX_LINES {
            store::rotate(&path, &self.folder.join(OLDER))?;
            open = Writing { journal: Journal::open(&path)?, lines: 0 };
        }
        let line = serde_json::to_string(call).map_err(|error| StoreError {
            doing: "encoding",
            path,
            source: error.into(),
        })?;
        open.journal.append(&line, Durability::Process)?;
        open.lines += 1;
        *writing = Some(open);
        Ok(())
    }

    /// The last calls, the newest last. Lines that make no sense are left out.
    pub fn last(&self, limit: usize) -> Result<Vec<RecordedCall>, StoreError> {
        // No rotation between the two files.
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls: Vec<RecordedCall> = Vec::new();
        for name in [FILE, OLDER] {
            let lines = store::journal_lines(&self.folder.join(name))?;
            let read = lines.iter().rev().filter_map(|line| serde_json::from_str(line).ok());
            calls.extend(read.take(limit - calls.len()));
            if calls.len() >= limit {
                break;
            }
        }
        calls.reverse();
        Ok(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: usize) -> RecordedCall {
        RecordedCall {
            at: number as u64,
            turn_id: TurnId(format!("t{number}")),
            caller: "operator".to_owned(),
            tool: "system_disk_status".to_owned(),
            category: Some(PermissionCategory::System),
            outcome: ToolOutcome::Ran,
            millis: 3,
        }
    }

    #[test]
    fn the_last_calls_come_back_in_order_after_a_restart_and_over_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(CallLedger::new(folder.path()).last(10).unwrap(), []);
        let ledger = CallLedger::new(folder.path());
        for number in 0..MAX_LINES - 1 {
            ledger.add(&call(number));
        }
        drop(ledger);
        let ledger = CallLedger::new(folder.path());
        ledger.add(&call(MAX_LINES - 1));
        assert!(!folder.path().join(OLDER).exists(), "the last that fits");
        ledger.add(&call(MAX_LINES));
        assert!(folder.path().join(OLDER).exists(), "the first that does not");
        assert_eq!(store::journal_lines(&folder.path().join(FILE)).unwrap().len(), 1);
        let ats: Vec<u64> = ledger.last(3).unwrap().iter().map(|call| call.at).collect();
        assert_eq!(ats, [MAX_LINES as u64 - 2, MAX_LINES as u64 - 1, MAX_LINES as u64]);
        assert_eq!(ledger.last(0).unwrap(), []);
        assert!(store::is_private(&folder.path().join(FILE)).unwrap());
        // A second rotation: never more than two files.
        for number in 0..MAX_LINES {
            ledger.add(&call(number));
        }
        assert_eq!(ledger.last(usize::MAX).unwrap().len(), MAX_LINES + 1);
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        CallLedger::new(folder.path()).add(&call(1));
        let path = folder.path().join(FILE);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"at\":2,\"tu");
        std::fs::write(&path, text).unwrap();
        let ledger = CallLedger::new(folder.path());
        ledger.add(&call(3));
        assert_eq!(ledger.last(10).unwrap(), [call(1), call(3)]);
    }
}
