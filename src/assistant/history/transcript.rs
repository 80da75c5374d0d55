//! One transcript: its turns, its summary, and the lines of the file that it is read from.
//!
//! Owns the form of a line, the bounds, and which turns the summary stands for. Reads a file; what is written, and
//! when, is the [`History`](super::History)'s.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::assistant::caller::CategorySet;
use crate::assistant::{ChatStatus, ToolOutcome, ToolRecord, TurnId};
use crate::store::{self, Durability, StoreError};

/// A model is given at least this many turns verbatim, where their texts are of the usual length.
pub const KEEP_VERBATIM_TURNS: usize = 8;
/// With so many, or with more text than [`VERBATIM_BYTES`], the older ones are due to be folded into the summary. A
/// prompt begins with all of the one before until then, and the server's cache serves it.
const FOLD_AT_TURNS: usize = 2 * KEEP_VERBATIM_TURNS;
/// With so many it can't wait for a model any more, and no prompt ever has more.
const OVERDUE_TURNS: usize = 3 * KEEP_VERBATIM_TURNS;
/// Bytes of verbatim text above which the older turns are due; after folding at most half of it is left, but one turn
/// always is.
const VERBATIM_BYTES: usize = 12_000;
/// Characters of a summary.
pub const MAX_SUMMARY_CHARS: usize = 1600;
/// Turns that are kept in a file.
pub(super) const MAX_TURNS: usize = 200;
/// Bytes of text that are kept in a file.
pub(super) const MAX_BYTES: usize = 256 * 1024;
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
    /// The answer may be made of words of somebody else than the caller, the operator and this program. `None`: it is
    /// from a time when nobody noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<bool>,
    /// The categories of the tools whose results went into the earlier turns that the answer may be made of. `None`: it is
    /// from a time when nobody noted it, so all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<CategorySet>,
}

/// What is left of turns that no model is given verbatim any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// At most [`MAX_SUMMARY_CHARS`].
    pub text: String,
    /// Of the oldest turn in it, Unix milliseconds.
    pub since: u64,
    /// The categories of the tools whose results went into these turns.
    pub categories: CategorySet,
    /// Foreign words may have gone into it. One that doesn't say is from a time when nobody noted it.
    #[serde(default = "unknown_is_foreign")]
    pub foreign: bool,
}

fn unknown_is_foreign() -> bool {
    true
}

/// Turns that are to be folded into a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// The summary that is to be extended.
    pub before: Option<Summary>,
    /// The turns that go into it, oldest first.
    pub turns: Vec<StoredTurn>,
    /// A model is not to be waited for.
    pub overdue: bool,
    /// Answered turns of the conversation that the summary stands for now.
    from: usize,
}

/// A transcript as it stands after all lines of its file.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    pub turns: Vec<StoredTurn>,
    /// So many of the turns belong to earlier conversations: no model is given them.
    pub earlier: usize,
    /// So many answered turns of the present conversation are in the file no more.
    pub gone: usize,
    /// So many answered turns of the present conversation, those that are gone included, are in the summary.
    pub folded: usize,
    pub summary: Option<Summary>,
    /// Foreign words may have been in what is no more: turns of the present conversation, a summary.
    pub gone_foreign: bool,
    /// Lines that could be read, and those that could not.
    pub lines: usize,
    pub broken: usize,
}

/// A line: the whole transcript so far, or one turn more, or a summary that stands for more turns, or the beginning of a
/// fresh conversation.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<StoredTurn>>,
    #[serde(skip_serializing_if = "is_zero")]
    pub earlier: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub gone: usize,
    /// Beside `turns`; of a line that does not say, whatever is gone counts as foreign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_foreign: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<StoredTurn>,
    /// The turn was begun in the conversation before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    #[serde(skip_serializing_if = "is_zero")]
    pub folded: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Transcript {
    /// A line that makes no sense, such as one that a power cut has torn, costs only itself.
    pub fn read(path: &Path) -> Result<Transcript, StoreError> {
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

    pub fn take(&mut self, line: Line) {
        self.lines += 1;
        if let Some(turns) = line.turns {
            (self.turns, self.earlier, self.gone) = (turns, line.earlier, line.gone);
            (self.summary, self.folded) = (line.summary, line.folded);
            self.gone_foreign = line.gone_foreign.unwrap_or(line.gone > 0);
            self.earlier = self.earlier.min(self.turns.len());
        } else if let Some(turn) = line.turn {
            self.add(turn, line.late);
        } else if line.anew {
            (self.earlier, self.gone, self.folded) = (self.turns.len(), 0, 0);
            (self.summary, self.gone_foreign) = (None, false);
        } else if line.summary.is_some() {
            (self.summary, self.folded) = (line.summary, line.folded);
        }
    }

    fn add(&mut self, turn: StoredTurn, late: bool) {
        let again = self.turns.iter().position(|stored| stored.turn_id == turn.turn_id);
        if let Some(old) = again {
            // It counts as new: the summary may know it, and stands for one turn less.
            let folded = self.conversation().take(self.folded_here()).any(|(at, _)| at == old);
            self.folded -= usize::from(folded);
            self.turns.remove(old);
            self.earlier -= usize::from(old < self.earlier);
        }
        if late {
            self.turns.insert(self.earlier.min(self.turns.len()), turn);
            self.earlier += 1;
        } else {
            self.turns.push(turn);
        }
        let mut bytes: usize = self.turns.iter().map(StoredTurn::bytes).sum();
        let mut surplus = self.turns.len().saturating_sub(MAX_TURNS);
        let but_the_last = self.turns.len().saturating_sub(1);
        for (index, stored) in self.turns.iter().enumerate().take(but_the_last) {
            if bytes <= MAX_BYTES {
                break;
            }
            bytes -= stored.bytes();
            surplus = surplus.max(index + 1);
        }
        self.drop_oldest(surplus);
    }

    fn drop_oldest(&mut self, count: usize) {
        let Transcript { turns, earlier, gone, gone_foreign, .. } = self;
        for (index, old) in turns.drain(..count.min(turns.len())).enumerate() {
            if index >= *earlier && old.status == ChatStatus::Answered {
                *gone += 1;
                *gone_foreign |= old.is_foreign();
            }
        }
        *earlier = earlier.saturating_sub(count);
    }

    /// Leaves out what is from before that time, in Unix milliseconds. Did anything go?
    pub fn expire(&mut self, before: u64) -> bool {
        let old = self.turns.iter().take_while(|turn| turn.at < before).count();
        self.drop_oldest(old);
        let stale = self.summary.as_ref().is_some_and(|summary| summary.since < before);
        if stale && let Some(summary) = self.summary.take() {
            // What was answered since may be made of it.
            self.gone_foreign |= summary.foreign;
        }
        old > 0 || stale
    }

    /// The answered turns of the present conversation that are in the file, with their places.
    fn conversation(&self) -> impl Iterator<Item = (usize, &StoredTurn)> {
        let present = self.turns.iter().enumerate().skip(self.earlier);
        present.filter(|(_, turn)| turn.status == ChatStatus::Answered)
    }

    /// So many of these are in the summary.
    fn folded_here(&self) -> usize {
        self.folded.saturating_sub(self.gone)
    }

    /// May foreign words be in what a model is given of it?
    pub fn has_foreign_text(&self) -> bool {
        self.gone_foreign
            || self.summary.as_ref().is_some_and(|summary| summary.foreign)
            || self.conversation().any(|(_, turn)| turn.is_foreign())
    }

    /// What a model is given verbatim.
    pub fn verbatim(&self) -> Vec<&StoredTurn> {
        let turns: Vec<&StoredTurn> =
            self.conversation().skip(self.folded_here()).map(|(_, turn)| turn).collect();
        let surplus = turns.len().saturating_sub(OVERDUE_TURNS);
        turns.into_iter().skip(surplus).collect()
    }

    /// What is to be folded now, if anything is.
    pub fn fold(&self) -> Option<Fold> {
        let turns: Vec<&StoredTurn> =
            self.conversation().skip(self.folded_here()).map(|(_, turn)| turn).collect();
        let bytes: usize = turns.iter().map(|turn| turn.bytes()).sum();
        let due = turns.len() >= FOLD_AT_TURNS || (bytes > VERBATIM_BYTES && turns.len() > 1);
        if !due {
            return None;
        }
        let mut left = 0;
        let kept = turns.iter().rev().take(KEEP_VERBATIM_TURNS).take_while(|turn| {
            left += turn.bytes();
            left <= VERBATIM_BYTES / 2
        });
        let folding = turns.len() - kept.count().max(1);
        Some(Fold {
            before: self.summary.clone(),
            turns: turns.iter().take(folding).map(|turn| (*turn).clone()).collect(),
            overdue: turns.len() >= OVERDUE_TURNS || bytes > 2 * VERBATIM_BYTES,
            from: self.folded.max(self.gone),
        })
    }

    /// As one line.
    pub fn write(self, path: &Path) -> Result<(), StoreError> {
        let Transcript { turns, earlier, gone, summary, folded, gone_foreign, .. } = self;
        let (turns, gone_foreign) = (Some(turns), Some(gone_foreign));
        let line = Line { turns, earlier, gone, summary, folded, gone_foreign, ..Line::default() };
        let text = line.text(path)? + "\n";
        store::replace(path, text.as_bytes(), Durability::Process)
    }
}

impl Fold {
    /// The line that puts the summary in the place of the turns.
    pub(super) fn line(&self, text: &str) -> Line {
        let mut categories =
            self.before.as_ref().map_or_else(CategorySet::new, |before| before.categories.clone());
        for turn in &self.turns {
            let of = turn.categories(&categories);
            categories.extend(of);
        }
        let foreign = self.before.as_ref().is_some_and(|before| before.foreign)
            || self.turns.iter().any(StoredTurn::is_foreign);
        let first = self.turns.first().map_or(0, |turn| turn.at);
        let since = self.before.as_ref().map_or(first, |before| before.since.min(first));
        let text = text.chars().take(MAX_SUMMARY_CHARS).collect();
        Line {
            summary: Some(Summary { text, since, categories, foreign }),
            folded: self.from + self.turns.len(),
            ..Line::default()
        }
    }
}

impl Line {
    pub fn text(self, path: &Path) -> Result<String, StoreError> {
        serde_json::to_string(&Line { version: VERSION, ..self }).map_err(|error| StoreError {
            doing: "encoding",
            path: path.to_owned(),
            source: error.into(),
        })
    }
}

impl StoredTurn {
    pub(super) fn bytes(&self) -> usize {
        self.question.len() + self.answer.len() + 200
    }

    /// May the answer be made of foreign words? Where nobody noted it, the result of any tool counts as such.
    pub fn is_foreign(&self) -> bool {
        self.foreign.unwrap_or_else(|| self.tools.iter().any(ToolRecord::ran))
    }

    /// The categories of the tools whose results the answer may hold, where `before` went into the turns before it.
    pub fn categories(&self, before: &CategorySet) -> CategorySet {
        let ran = self.tools.iter().filter(|tool| tool.ran()).filter_map(|tool| tool.category);
        ran.chain(self.made_of.as_ref().unwrap_or(before).iter().copied()).collect()
    }
}

impl ToolRecord {
    /// Did it run, so that its result may hold content?
    pub fn ran(&self) -> bool {
        matches!(self.outcome, ToolOutcome::Ran | ToolOutcome::Failed)
    }
}
