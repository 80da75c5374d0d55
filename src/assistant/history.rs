//! Transcripts: what each caller said and was answered.
//!
//! Owns `transcripts/`, one file a caller. A file is opened by the caller's own key only, so no caller can
//! meet another's. A turn is appended as a line, because replacing a file makes some file systems wait for
//! the disk, between a model's answer and its caller. Keeps no arguments of tools, and nothing of callers
//! without a key.

mod transcript;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::warn;

use super::backends::Turn;
use super::caller::{CategorySet, HistoryKey, PermissionCategory};
use super::{ChatStatus, TurnId};
use crate::clock;
use crate::store::{self, Durability, Journal, StoreError};

pub use transcript::{Fold, KEEP_VERBATIM_TURNS, MAX_SUMMARY_CHARS, StoredTurn, Summary};
use transcript::{Line, Transcript};

const DAY_MS: u64 = 24 * 3_600_000;
/// A file with so many lines is written anew as one.
const LINES: usize = 64;
/// Files whose number of lines is remembered; what is forgotten is counted again.
const MAX_COUNTED: usize = 256;
/// How long a line may wait to be synced to the disk: the answer's own way must be free first.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// What a model is given of a transcript.
#[derive(Debug, Default, PartialEq)]
pub struct Given {
    /// The summary, if there is one, and the turns after it, oldest first.
    pub turns: Vec<Turn>,
    /// For each of these: the categories of the tools whose results went into it.
    pub categories: Vec<CategorySet>,
    /// There may be text in it that neither the caller nor the operator nor we wrote: an answer after the result of a tool
    /// that reads such text, or a summary of such answers. Where a file doesn't say, there is. Once in a conversation, it
    /// stays: later answers may be made of it.
    pub foreign: bool,
}

/// What an answer may be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingredients {
    /// The categories of the tools whose results went into it.
    pub categories: CategorySet,
    /// Foreign text may be in it that what a model is given now does not hold, or is not marked for.
    pub foreign: bool,
}

/// All transcripts.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    // One writer at a time.
    writing: Mutex<Writing>,
    /// Turns older than so many days are deleted; 0: none are.
    days: AtomicU32,
}

#[derive(Debug, Default)]
struct Writing {
    /// How many lines each file has.
    lines: HashMap<PathBuf, usize>,
    /// When a transcript was last deleted, and when its conversation last began anew, counted in such ends.
    ends: HashMap<PathBuf, Ends>,
    count: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    cleared: u64,
    anew: u64,
}

impl Writing {
    /// Counts one more, and gives the file's own to be set to that.
    fn end(&mut self, path: &Path) -> (&mut Ends, u64) {
        self.count += 1;
        if self.ends.len() >= MAX_COUNTED && !self.ends.contains_key(path) {
            // The one whose ends are the oldest: no turn runs that long.
            let oldest = self.ends.iter().min_by_key(|(_, ends)| ends.cleared.max(ends.anew));
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.ends.remove(&oldest);
            }
        }
        (self.ends.entry(path.to_owned()).or_default(), self.count)
    }
}

/// A moment before which a transcript may have been deleted, or its conversation have begun anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl History {
    /// Below `data_dir/transcripts`. Keeps everything.
    pub fn open(data_dir: &Path) -> Result<History, StoreError> {
        let folder = data_dir.join("transcripts");
        store::private_dir(&folder)?;
        Ok(History { folder, writing: Mutex::default(), days: AtomicU32::new(0) })
    }

    /// From now on, what is older than so many days is given to nobody, and deleted when the files are tended; 0: nothing
    /// is.
    pub fn keep_days(&self, days: u32) {
        self.days.store(days, Ordering::Relaxed);
    }

    /// Looks through all files: one that makes no sense somewhere is set aside and said so, and what is too old is
    /// deleted, also in what was set aside before.
    pub fn tend(&self) {
        let border = self.border();
        let names = match store::json_files(&self.folder) {
            Ok(names) => names,
            Err(error) => {
                warn!(%error, source = %error.source, "the transcripts can't be looked through");
                return;
            }
        };
        for path in names {
            let mut writing = self.lock();
            writing.lines.remove(&path);
            let tended = mended(&path).and_then(|_| {
                let mut transcript = Transcript::read(&path)?;
                match transcript.expire(border) {
                    true if transcript.turns.is_empty() => store::remove(&path),
                    true => transcript.write(&path),
                    false => Ok(()),
                }
            });
            if let Err(error) = tended {
                warn!(%error, source = %error.source, "a transcript can't be tended");
            }
        }
        if let Err(error) = store::remove_set_aside_before(&self.folder, border) {
            warn!(%error, source = %error.source, "old broken transcripts can't be deleted");
        }
    }

    /// What is from before that is too old, in Unix milliseconds.
    fn border(&self) -> u64 {
        match u64::from(self.days.load(Ordering::Relaxed)) {
            0 => 0,
            days => clock::unix_ms().saturating_sub(days * DAY_MS),
        }
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
        let mut transcript = Transcript::read(&self.path(key))?;
        transcript.expire(self.border());
        Ok(transcript)
    }

    /// The turn of that name, if it was answered.
    pub fn answered(&self, key: &HistoryKey, turn: &TurnId) -> Option<StoredTurn> {
        self.turns(key)
            .into_iter()
            .find(|stored| stored.turn_id == *turn && stored.status == ChatStatus::Answered)
    }

    /// To be taken when a turn begins, for [`History::add_since`].
    pub fn mark(&self) -> Mark {
        Mark(self.lock().count)
    }

    /// Adds a turn that began at that mark, safe from a kill when this returns; one of the same name is replaced. The
    /// oldest go when there are too many. Where the transcript was deleted since, the turn is not kept either; where a
    /// fresh conversation has begun, it is part of the one before.
    pub fn add_since(
        &self,
        key: &HistoryKey,
        mark: Mark,
        turn: StoredTurn,
    ) -> Result<(), StoreError> {
        let mut writing = self.lock();
        let ends = writing.ends.get(&self.path(key)).copied().unwrap_or_default();
        if ends.cleared > mark.0 {
            return Ok(());
        }
        let line = Line { turn: Some(turn), late: ends.anew > mark.0, ..Line::default() };
        self.append(&mut writing, key, line)
    }

    /// Begins a fresh conversation: models are given nothing of what was said so far. The transcript stays.
    pub fn begin_anew(&self, key: &HistoryKey) -> Result<(), StoreError> {
        let mut writing = self.lock();
        if !self.transcript(key)?.turns.is_empty() {
            self.append(&mut writing, key, Line { anew: true, ..Line::default() })?;
        }
        let (ends, now) = writing.end(&self.path(key));
        ends.anew = now;
        Ok(())
    }

    /// The turns that are due to be folded into the summary; `None`: none are.
    pub fn due(&self, key: &HistoryKey) -> Option<Fold> {
        self.shown(key).fold()
    }

    /// Puts that text in the place of the summary and the turns. Does nothing where the transcript is no longer what it
    /// was: it was deleted meanwhile, or a fresh conversation has begun.
    pub fn fold(&self, key: &HistoryKey, fold: &Fold, text: &str) -> Result<(), StoreError> {
        let mut writing = self.lock();
        let now = self.transcript(key)?.fold();
        let same = now.is_some_and(|now| {
            now.before == fold.before && now.turns.get(..fold.turns.len()) == Some(&fold.turns[..])
        });
        if !same {
            return Ok(());
        }
        self.append(&mut writing, key, fold.line(text))
    }

    fn append(
        &self,
        writing: &mut Writing,
        key: &HistoryKey,
        line: Line,
    ) -> Result<(), StoreError> {
        let path = self.path(key);
        let counts = &mut writing.lines;
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
            transcript.expire(self.border());
            transcript.write(&path)?;
            1
        };
        counts.insert(path, lines);
        Ok(())
    }

    /// Deletes the transcript, and what was ever set aside of it. A turn that runs is not kept when it ends.
    pub fn clear(&self, key: &HistoryKey) -> Result<(), StoreError> {
        let mut writing = self.lock();
        let path = self.path(key);
        writing.lines.remove(&path);
        let (ends, now) = writing.end(&path);
        ends.cleared = now;
        store::remove_set_aside(&path)?;
        store::remove(&path)
    }

    /// Does what a model is given now hold foreign text?
    #[cfg(test)]
    pub fn has_foreign_text(&self, key: &HistoryKey) -> bool {
        self.given(key).foreign
    }

    /// What a model is given of it, as turns only.
    pub fn for_model(&self, key: &HistoryKey) -> Vec<Turn> {
        self.given(key).turns
    }

    /// What went into the answer of that turn. Of one that is not there, or from a time when nobody noted it, anything may
    /// have.
    pub fn went_into(&self, key: &HistoryKey, turn: &TurnId) -> Ingredients {
        let transcript = self.shown(key);
        let at = transcript.turns.iter().position(|stored| stored.turn_id == *turn);
        let stored = at.and_then(|at| transcript.turns.get(at));
        let known = stored.filter(|stored| stored.made_of.is_some());
        let categories = match known {
            Some(stored) => stored.categories(&CategorySet::new()),
            None => PermissionCategory::ALL.into_iter().collect(),
        };
        // In the present conversation its mark counts already, and so do those of the turns before it.
        Ingredients { categories, foreign: at.is_none_or(|at| at < transcript.earlier) }
    }

    /// What a model is given of it.
    pub fn given(&self, key: &HistoryKey) -> Given {
        let transcript = match self.transcript(key) {
            Ok(transcript) => transcript,
            Err(error) => {
                warn!(%error, source = %error.source, "a transcript can't be read");
                return Given { foreign: true, ..Given::default() };
            }
        };
        let mut given = Given { foreign: transcript.has_foreign_text(), ..Given::default() };
        let mut before = CategorySet::new();
        if let Some(summary) = &transcript.summary {
            given.add(Turn::Summary(summary.text.clone()), &summary.categories);
            before.clone_from(&summary.categories);
        }
        for turn in transcript.verbatim() {
            let categories = turn.categories(&before);
            before.extend(categories.iter().copied());
            given.add(Turn::User(turn.question.clone()), &categories);
            let text = turn.answer.clone();
            given.add(Turn::Assistant { text, calls: Vec::new(), raw: None }, &categories);
        }
        given
    }

    fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, key: &HistoryKey) -> PathBuf {
        self.folder.join(format!("{}.json", key.as_str()))
    }
}

impl Given {
    fn add(&mut self, turn: Turn, categories: &CategorySet) {
        self.turns.push(turn);
        self.categories.push(categories.clone());
    }
}

/// How many lines a file has. One with lines that make no sense is set aside, and said so, and the rest is written anew.
fn mended(path: &Path) -> Result<usize, StoreError> {
    let transcript = Transcript::read(path)?;
    if transcript.broken == 0 {
        return Ok(transcript.lines);
    }
    let aside = store::set_aside(path)?;
    warn!(
        lines = transcript.broken,
        ?aside,
        "a transcript makes no sense everywhere; what does is kept"
    );
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

#[cfg(test)]
mod tests;
