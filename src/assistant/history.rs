//! Transcripts: what each caller said and was answered.
//!
//! Owns `transcripts/`, one file a caller. A file is opened by the caller's own key only, so no caller can
//! meet another's. A turn is appended as a line, because replacing a file makes some file systems wait for the
//! disk, between a model's answer and its caller. Keeps no arguments of tools, and nothing of callers
//! without a key.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::backends::Turn;
use super::caller::HistoryKey;
use super::{ChatStatus, ToolRecord, TurnId};
use crate::store::{self, Durability, Journal, StoreError};

/// Turns that a model is given verbatim.
pub const KEEP_VERBATIM_TURNS: usize = 12;
/// Turns that are kept of a caller.
const MAX_TURNS: usize = 200;
/// Bytes of text that are kept of a caller.
const MAX_BYTES: usize = 256 * 1024;
/// A file that grows larger is written anew, without what is kept no longer; bytes.
const MAX_FILE: u64 = 2 * MAX_BYTES as u64;
/// How long a line may wait to be synced to the disk: the answer's own way there must be free first.
const SYNC_AFTER: Duration = Duration::from_millis(500);
/// Of the form of a line.
const VERSION: u32 = 1;

/// One turn of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTurn {
    /// Names it.
    pub turn_id: TurnId,
    /// Unix milliseconds.
    pub at: u64,
    /// The caller's text.
    pub question: String,
    /// What the caller was answered.
    pub answer: String,
    /// How it ended.
    pub status: ChatStatus,
    /// The leg that answered.
    pub backend: String,
    /// The tool ledger.
    pub tools: Vec<ToolRecord>,
}

/// A line of a transcript.
#[derive(Debug, Serialize, Deserialize)]
struct Line<E> {
    version: u32,
    entry: E,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    /// A later turn of the same name counts instead of an earlier one.
    Turn(StoredTurn),
    /// A fresh conversation begins: no model is given what stands before.
    Anew,
}

/// What is read of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// The last answered turns of this conversation.
    ForModel,
}

/// All transcripts.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    // One writer at a time.
    writing: Mutex<()>,
}

/// Turns read from the end of a file.
struct Read {
    /// The newest first.
    turns: Vec<StoredTurn>,
    /// So many of them belong to this conversation; the others to earlier ones.
    fresh: usize,
    /// Lines among them that can't be read.
    broken: usize,
}

impl History {
    /// Below `data_dir/transcripts`.
    pub fn open(data_dir: &Path) -> Result<History, StoreError> {
        let folder = data_dir.join("transcripts");
        store::private_dir(&folder)?;
        Ok(History { folder, writing: Mutex::new(()) })
    }

    /// The transcript, oldest first; empty when there is none. Of a file that can't be read everywhere the
    /// rest is taken; it is set aside, and said so.
    pub fn turns(&self, key: &HistoryKey) -> Vec<StoredTurn> {
        self.read(key, Which::All)
    }

    /// The turn of that name, if it was answered.
    pub fn answered(&self, key: &HistoryKey, turn: &TurnId) -> Option<StoredTurn> {
        let lines = store::journal_lines(&self.path(key)).unwrap_or_default();
        // Nearly always there is none: no line is parsed for nothing.
        let named = lines.iter().rev().filter(|line| line.contains(&turn.0));
        named
            .filter_map(|line| match parse(line) {
                Some(Entry::Turn(stored)) => Some(stored),
                _ => None,
            })
            .find(|stored| stored.turn_id == *turn)
            .filter(|stored| stored.status == ChatStatus::Answered)
    }

    /// Adds a turn, safe from a kill when this returns; one of the same name is replaced. The oldest go when
    /// there are too many.
    pub fn add(&self, key: &HistoryKey, turn: StoredTurn) -> Result<(), StoreError> {
        self.append(key, &Entry::Turn(turn))
    }

    /// Begins a fresh conversation: models are given nothing of what was said so far. The transcript stays.
    pub fn begin_anew(&self, key: &HistoryKey) -> Result<(), StoreError> {
        if self.turns(key).is_empty() {
            return Ok(());
        }
        self.append(key, &Entry::Anew)
    }

    fn append(&self, key: &HistoryKey, entry: &Entry) -> Result<(), StoreError> {
        let _one_at_a_time = self.lock();
        let path = self.path(key);
        let line = line(&path, entry)?;
        let mut journal = Journal::open(&path)?;
        journal.append(&line, Durability::Process)?;
        if journal.len()? > MAX_FILE {
            rewrite(&path, read(&path, Which::All)?)?;
        } else if let Ok(file) = journal.handle() {
            sync_later(file);
        }
        Ok(())
    }

    /// Deletes the transcript.
    pub fn clear(&self, key: &HistoryKey) -> Result<(), StoreError> {
        let _one_at_a_time = self.lock();
        store::remove(&self.path(key))
    }

    /// What a model is given of it: the last answered turns.
    pub fn for_model(&self, key: &HistoryKey) -> Vec<Turn> {
        self.read(key, Which::ForModel)
            .into_iter()
            .flat_map(|turn| {
                [
                    Turn::User(turn.question),
                    Turn::Assistant { text: turn.answer, calls: Vec::new(), raw: None },
                ]
            })
            .collect()
    }

    /// Oldest first.
    fn read(&self, key: &HistoryKey, which: Which) -> Vec<StoredTurn> {
        let path = self.path(key);
        let mut turns = match read(&path, which) {
            Ok(read) => {
                if read.broken > 0 {
                    self.repair(&path);
                }
                read.turns
            }
            Err(error) => {
                warn!(%error, "a transcript can't be read");
                Vec::new()
            }
        };
        turns.reverse();
        turns
    }

    /// Sets a file with lines that can't be read aside, and goes on with those that can.
    fn repair(&self, path: &Path) {
        let _one_at_a_time = self.lock();
        let repaired = read(path, Which::All).and_then(|read| {
            let aside = store::set_aside(path)?;
            warn!(lines = read.broken, ?aside, "a transcript can't be read everywhere");
            rewrite(path, read)
        });
        if let Err(error) = repaired {
            warn!(%error, "a transcript can't be repaired");
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, key: &HistoryKey) -> PathBuf {
        self.folder.join(format!("{}.jsonl", key.as_str()))
    }
}

/// The newest turns, within the bounds. No line older than these is looked at.
fn read(path: &Path, which: Which) -> Result<Read, StoreError> {
    let mut turns: Vec<StoredTurn> = Vec::new();
    let (mut fresh, mut broken) = (None, 0);
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    for line in store::journal_lines(path)?.iter().rev() {
        let turn = match parse(line) {
            Some(Entry::Turn(turn)) => turn,
            Some(Entry::Anew) if which == Which::ForModel => break,
            Some(Entry::Anew) => {
                fresh.get_or_insert(turns.len());
                continue;
            }
            None => {
                broken += 1;
                continue;
            }
        };
        if !seen.insert(turn.turn_id.0.clone()) {
            continue;
        }
        bytes += turn.bytes();
        // One turn alone may be larger than everything; it stays.
        if seen.len() > MAX_TURNS || bytes > MAX_BYTES && seen.len() > 1 {
            break;
        }
        if which == Which::All || turn.status == ChatStatus::Answered {
            turns.push(turn);
        }
        if which == Which::ForModel && turns.len() >= KEEP_VERBATIM_TURNS {
            break;
        }
    }
    let fresh = fresh.unwrap_or(turns.len());
    Ok(Read { turns, fresh, broken })
}

fn parse(line: &str) -> Option<Entry> {
    let line: Line<Entry> = serde_json::from_str(line).ok()?;
    (line.version == VERSION).then_some(line.entry)
}

fn line(path: &Path, entry: &Entry) -> Result<String, StoreError> {
    let line = Line { version: VERSION, entry };
    serde_json::to_string(&line).map_err(|error| StoreError {
        doing: "encoding",
        path: path.to_owned(),
        source: error.into(),
    })
}

fn rewrite(path: &Path, read: Read) -> Result<(), StoreError> {
    let mut entries: Vec<Entry> = read.turns.into_iter().map(Entry::Turn).collect();
    if read.fresh < entries.len() {
        entries.insert(read.fresh, Entry::Anew);
    }
    let mut text = String::new();
    for entry in entries.iter().rev() {
        text.push_str(&line(path, entry)?);
        text.push('\n');
    }
    store::replace(path, text.as_bytes(), Durability::Process)
}

/// Syncs in a moment, on a thread where it may take its time. Without a runtime the system does it in its own time.
fn sync_later(file: File) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        tokio::time::sleep(SYNC_AFTER).await;
        let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
        if let Ok(Err(error)) = synced {
            warn!(%error, "a transcript could not be synced to the disk");
        }
    });
}

impl StoredTurn {
    fn bytes(&self) -> usize {
        self.question.len() + self.answer.len() + 200
    }
}

#[cfg(test)]
mod tests;
