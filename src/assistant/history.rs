//! Transcripts: what each caller said and was answered.
//!
//! Owns `transcripts/`, one file a caller. A file is opened by the caller's own key only, so no caller can
//! meet another's. A turn is appended as a line, because replacing a file makes some file systems wait for
//! the disk, between a model's answer and its caller. Keeps no arguments of tools, and nothing of callers
//! without a key.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::backends::Turn;
use super::caller::HistoryKey;
use super::{ChatStatus, ToolOutcome, ToolRecord, TurnId};
use crate::store::{self, Durability, Journal, StoreError};

/// A model is given at least this many turns verbatim, and fewer than twice as many: the number grows to
/// the double before it falls back, so that a prompt begins with all of the one before for that many
/// turns, and the server's cache serves it.
pub const KEEP_VERBATIM_TURNS: usize = 8;
/// Turns that are kept in a file.
const MAX_TURNS: usize = 200;
/// Bytes of text that are kept in a file.
const MAX_BYTES: usize = 256 * 1024;
/// A file with so many lines is written anew as one.
const LINES: usize = 64;
/// Files whose number of lines is remembered; what is forgotten is counted again.
const MAX_COUNTED: usize = 256;
/// Of the form of a line.
const VERSION: u32 = 1;
/// How long a line may wait to be synced to the disk: the answer's own way must be free first.
const SYNC_AFTER: Duration = Duration::from_millis(500);

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

/// A transcript as it stands after all lines of its file.
#[derive(Debug, Default)]
struct Transcript {
    turns: Vec<StoredTurn>,
    /// So many of the turns belong to earlier conversations: no model is given them.
    earlier: usize,
    /// So many answered turns of the present conversation are in the file no more.
    gone: usize,
    /// Lines that could be read, and those that could not.
    lines: usize,
    broken: usize,
}

/// A line: the whole transcript so far, or one turn more, or the beginning of a fresh conversation.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<Vec<StoredTurn>>,
    #[serde(skip_serializing_if = "is_zero")]
    earlier: usize,
    #[serde(skip_serializing_if = "is_zero")]
    gone: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<StoredTurn>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    anew: bool,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// All transcripts.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    // One writer at a time; how many lines each file has.
    writing: Mutex<HashMap<PathBuf, usize>>,
}

impl History {
    /// Below `data_dir/transcripts`.
    pub fn open(data_dir: &Path) -> Result<History, StoreError> {
        let folder = data_dir.join("transcripts");
        store::private_dir(&folder)?;
        Ok(History { folder, writing: Mutex::default() })
    }

    /// The transcript, oldest first; empty when there is none.
    pub fn turns(&self, key: &HistoryKey) -> Vec<StoredTurn> {
        self.shown(key).turns
    }

    /// The transcript for whoever only looks: none where it can't be read now.
    fn shown(&self, key: &HistoryKey) -> Transcript {
        self.transcript(key).unwrap_or_else(|error| {
            warn!(%error, source = %error.source, "a transcript can't be read");
            Transcript::default()
        })
    }

    fn transcript(&self, key: &HistoryKey) -> Result<Transcript, StoreError> {
        Transcript::read(&self.path(key))
    }

    /// The turn of that name, if it was answered.
    pub fn answered(&self, key: &HistoryKey, turn: &TurnId) -> Option<StoredTurn> {
        self.turns(key)
            .into_iter()
            .find(|stored| stored.turn_id == *turn && stored.status == ChatStatus::Answered)
    }

    /// Adds a turn, safe from a kill when this returns; one of the same name is replaced. The oldest go
    /// when there are too many.
    pub fn add(&self, key: &HistoryKey, turn: StoredTurn) -> Result<(), StoreError> {
        self.append(key, Line { turn: Some(turn), ..Line::default() })
    }

    /// Begins a fresh conversation: models are given nothing of what was said so far. The transcript stays.
    pub fn begin_anew(&self, key: &HistoryKey) -> Result<(), StoreError> {
        if self.transcript(key)?.turns.is_empty() {
            return Ok(());
        }
        self.append(key, Line { anew: true, ..Line::default() })
    }

    fn append(&self, key: &HistoryKey, line: Line) -> Result<(), StoreError> {
        let mut counts = self.lock();
        let path = self.path(key);
        let lines = match counts.get(&path) {
            Some(lines) => *lines,
            None => mended(&path)?,
        };
        if counts.len() >= MAX_COUNTED {
            counts.clear();
        }
        // What went wrong in between is counted anew.
        counts.remove(&path);
        let lines = if lines < LINES {
            let mut journal = Journal::open(&path)?;
            journal.append(&line.text(&path)?, Durability::Process)?;
            if let Ok(file) = journal.handle() {
                sync_later(file);
            }
            lines + 1
        } else {
            let mut transcript = Transcript::read(&path)?;
            transcript.take(line);
            transcript.write(&path)?;
            1
        };
        counts.insert(path, lines);
        Ok(())
    }

    /// Deletes the transcript.
    pub fn clear(&self, key: &HistoryKey) -> Result<(), StoreError> {
        let mut counts = self.lock();
        let path = self.path(key);
        counts.remove(&path);
        store::remove(&path)
    }

    /// What a model is given of it: the last answered turns.
    pub fn for_model(&self, key: &HistoryKey) -> Vec<Turn> {
        let Transcript { turns, earlier, gone, .. } = self.shown(key);
        let answered: Vec<&StoredTurn> =
            turns.iter().skip(earlier).filter(|turn| turn.status == ChatStatus::Answered).collect();
        let first =
            ((gone + answered.len()) / KEEP_VERBATIM_TURNS).saturating_sub(1) * KEEP_VERBATIM_TURNS;
        answered
            .iter()
            .skip(first.saturating_sub(gone))
            .flat_map(|turn| {
                [
                    Turn::User(turn.question.clone()),
                    Turn::Assistant { text: turn.answer.clone(), calls: Vec::new(), raw: None },
                ]
            })
            .collect()
    }

    /// Does a conversation that goes on hold text that neither the caller nor we wrote: answers made from the results
    /// of tools?
    pub fn has_foreign_text(&self, key: &HistoryKey) -> bool {
        let Transcript { turns, earlier, gone, .. } = self.shown(key);
        gone > 0
            || turns
                .iter()
                .skip(earlier)
                .flat_map(|turn| &turn.tools)
                .any(|call| matches!(call.outcome, ToolOutcome::Ran | ToolOutcome::Failed))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, usize>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, key: &HistoryKey) -> PathBuf {
        self.folder.join(format!("{}.json", key.as_str()))
    }
}

impl Transcript {
    /// A line that makes no sense, such as one that a power cut has torn, costs only itself.
    fn read(path: &Path) -> Result<Transcript, StoreError> {
        let mut transcript = Transcript::default();
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(transcript),
            Err(source) => {
                return Err(StoreError { doing: "reading", path: path.to_owned(), source });
            }
        };
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(line) if line.version == VERSION => transcript.take(line),
                _ => transcript.broken += 1,
            }
        }
        Ok(transcript)
    }

    fn take(&mut self, line: Line) {
        self.lines += 1;
        if let Some(turns) = line.turns {
            (self.turns, self.earlier, self.gone) = (turns, line.earlier, line.gone);
            self.earlier = self.earlier.min(self.turns.len());
        } else if let Some(turn) = line.turn {
            self.add(turn);
        } else if line.anew {
            (self.earlier, self.gone) = (self.turns.len(), 0);
        }
    }

    fn add(&mut self, turn: StoredTurn) {
        let Transcript { turns, earlier, gone, .. } = self;
        if let Some(old) = turns.iter().position(|stored| stored.turn_id == turn.turn_id) {
            turns.remove(old);
            *earlier -= usize::from(old < *earlier);
        }
        turns.push(turn);
        let mut bytes: usize = turns.iter().map(StoredTurn::bytes).sum();
        let mut surplus = turns.len().saturating_sub(MAX_TURNS);
        for (index, stored) in turns.iter().enumerate().take(turns.len().saturating_sub(1)) {
            if bytes <= MAX_BYTES {
                break;
            }
            bytes -= stored.bytes();
            surplus = surplus.max(index + 1);
        }
        for (index, old) in turns.drain(..surplus).enumerate() {
            *gone += usize::from(index >= *earlier && old.status == ChatStatus::Answered);
        }
        *earlier = earlier.saturating_sub(surplus);
    }

    /// As one line.
    fn write(self, path: &Path) -> Result<(), StoreError> {
        let Transcript { turns, earlier, gone, .. } = self;
        let line = Line { turns: Some(turns), earlier, gone, ..Line::default() };
        let text = line.text(path)? + "\n";
        store::replace(path, text.as_bytes(), Durability::Process)
    }
}

impl Line {
    fn text(self, path: &Path) -> Result<String, StoreError> {
        serde_json::to_string(&Line { version: VERSION, ..self }).map_err(|error| StoreError {
            doing: "encoding",
            path: path.to_owned(),
            source: error.into(),
        })
    }
}

/// How many lines a file has. One with lines that make no sense is set aside, and said so, and the rest is written anew.
fn mended(path: &Path) -> Result<usize, StoreError> {
    let transcript = Transcript::read(path)?;
    if transcript.broken == 0 {
        return Ok(transcript.lines);
    }
    let aside = store::set_aside(path)?;
    warn!(lines = transcript.broken, ?aside, "a transcript makes no sense everywhere");
    if transcript.lines == 0 {
        return Ok(0);
    }
    transcript.write(path).map(|()| 1)
}

/// Syncs in a moment, on a thread where it may take its time. Without a runtime the system does it in its own.
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
