//! What leaves for a cloud: when, for which turn, to which leg, how much, and what kind of content. Never the content.
//!
//! Owns `cloud.log` in the data folder: a line for each request, written before it is sent, and the figures that are
//! shown of it. Decides nothing about what may leave.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::TurnId;
use super::backends::Turn;
use super::caller::CategorySet;
use crate::clock;
use crate::store::{self, Durability, Journal, StoreError};

const FILE: &str = "cloud.log";
/// A file that grows over this keeps the newer half of its lines, in bytes.
const MAX_BYTES: u64 = 1 << 20;
const DAY_MS: u64 = 24 * 3_600_000;

/// One request, as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Unix milliseconds.
    pub at: u64,
    /// Whose question it is part of, by the turn's name.
    pub turn_id: TurnId,
    /// Where to.
    pub leg: String,
    /// Of the request's body.
    pub bytes: usize,
    /// `question`, `history`, `summary`, and the categories of the tools whose results are in it.
    pub content: BTreeSet<String>,
}

/// What is shown of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftForCloud {
    /// Requests in the last 24 hours.
    pub requests: usize,
    /// Bytes of their bodies.
    pub bytes: usize,
    /// The last one there is.
    pub last: Option<Leaving>,
}

/// The file, and the last day of it in memory.
#[derive(Debug)]
pub struct CloudLog {
    path: PathBuf,
    day: Mutex<Day>,
}

#[derive(Debug, Default)]
struct Day {
    /// When, and bytes; none older than a day, oldest first. Each stands for a request that was paid for.
    requests: VecDeque<(u64, usize)>,
    last: Option<Leaving>,
    /// Of the file.
    size: u64,
}

impl Leaving {
    /// A request with that conversation, in which tools of these categories have run.
    pub fn of(turn_id: &TurnId, leg: &str, history: &[Turn], seen: &CategorySet) -> Leaving {
        let question = history.iter().rposition(|turn| matches!(turn, Turn::User(_)));
        let past = history.get(..question.unwrap_or_default()).unwrap_or_default();
        let mut content = BTreeSet::from(["question".to_owned()]);
        for turn in past {
            let word = if matches!(turn, Turn::Summary(_)) { "summary" } else { "history" };
            content.insert(word.to_owned());
        }
        content.extend(seen.iter().map(ToString::to_string));
        Leaving {
            at: clock::unix_ms(),
            turn_id: turn_id.clone(),
            leg: leg.to_owned(),
            bytes: 0,
            content,
        }
    }

    /// With so many bytes.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Leaving {
        Leaving { bytes, ..self }
    }
}

impl CloudLog {
    /// Below `data_dir`. A line that makes no sense costs only itself.
    pub fn open(data_dir: &Path) -> Result<CloudLog, StoreError> {
        let path = data_dir.join(FILE);
        let lines = trimmed(&path)?;
        let mut day = Day::default();
        let mut broken = 0;
        for line in &lines {
            day.size += line.len() as u64 + 1;
            match serde_json::from_str::<Leaving>(line) {
                Ok(leaving) => day.take(leaving),
                Err(_) => broken += 1,
            }
        }
        if broken > 0 {
            warn!(lines = broken, path = %path.display(), "lines that make no sense were passed over");
        }
        Ok(CloudLog { path, day: Mutex::new(day) })
    }

    /// Writes a request down, safe from a kill when this returns.
    pub fn add(&self, leaving: Leaving) -> Result<(), StoreError> {
        let mut day = self.lock();
        if day.size > MAX_BYTES {
            day.size = trimmed(&self.path)?.iter().map(|line| line.len() as u64 + 1).sum();
        }
        let line = serde_json::to_string(&leaving).map_err(|error| StoreError {
            doing: "encoding",
            path: self.path.clone(),
            source: error.into(),
        })?;
        Journal::open(&self.path)?.append(&line, Durability::Process)?;
        day.size += line.len() as u64 + 1;
        day.take(leaving);
        Ok(())
    }

    /// The last 24 hours before `now`, in Unix milliseconds.
    pub fn last_day(&self, now: u64) -> LeftForCloud {
        let mut day = self.lock();
        day.forget(now);
        LeftForCloud {
            requests: day.requests.len(),
            bytes: day.requests.iter().map(|(_, bytes)| bytes).sum(),
            last: day.last.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Day> {
        self.day.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of the file, and only the newer half of them, there too, where it has grown too large.
fn trimmed(path: &Path) -> Result<Vec<String>, StoreError> {
    let mut lines = store::journal_lines(path)?;
    if lines.iter().map(|line| line.len() as u64 + 1).sum::<u64>() > MAX_BYTES {
        let mut bytes = 0;
        let newer = lines.iter().rev().take_while(|line| {
            bytes += line.len() as u64 + 1;
            bytes <= MAX_BYTES / 2
        });
        lines = lines.split_off(lines.len() - newer.count());
        let text = lines.join("\n") + "\n";
        store::replace(path, text.as_bytes(), Durability::Process)?;
    }
    Ok(lines)
}

impl Day {
    fn take(&mut self, leaving: Leaving) {
        self.forget(leaving.at);
        self.requests.push_back((leaving.at, leaving.bytes));
        self.last = Some(leaving);
    }

    fn forget(&mut self, now: u64) {
        while self.requests.front().is_some_and(|(at, _)| at.saturating_add(DAY_MS) <= now) {
            self.requests.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::PermissionCategory;

    fn leaving(at: u64, bytes: usize) -> Leaving {
        let history = [Turn::User("a secret".to_owned())];
        let turn = TurnId(format!("t-{at}"));
        let seen = CategorySet::from([PermissionCategory::System]);
        Leaving { at, ..Leaving::of(&turn, "claude", &history, &seen) }.bytes(bytes)
    }

    #[test]
    fn a_day_is_counted_across_a_restart_and_no_text_is_in_the_file() {
        let data = tempfile::tempdir().unwrap();
        let log = CloudLog::open(data.path()).unwrap();
        for (at, bytes) in [(1000, 10), (2000, 20)] {
            log.add(leaving(at, bytes)).unwrap();
        }
        let log = CloudLog::open(data.path()).unwrap();
        for (now, requests, bytes) in [
            (2000, 2, 30),
            (1000 + DAY_MS - 1, 2, 30),
            (1000 + DAY_MS, 1, 20),
            (2000 + DAY_MS, 0, 0),
        ] {
            let day = log.last_day(now);
            assert_eq!((day.requests, day.bytes), (requests, bytes), "{now}");
            assert_eq!(day.last, Some(leaving(2000, 20)));
        }
        let text = std::fs::read_to_string(data.path().join(FILE)).unwrap();
        assert!(!text.contains("secret") && text.contains("\"content\":[\"question\",\"system\"]"));
        assert!(store::is_private(&data.path().join(FILE)).unwrap());
    }

    #[test]
    fn what_kind_of_content_left_is_told() {
        let user = |text: &str| Turn::User(text.to_owned());
        let said = Turn::Assistant { text: "a".to_owned(), calls: Vec::new(), raw: None };
        let summary = Turn::Summary("s".to_owned());
        let turn = TurnId("t".to_owned());
        let none = CategorySet::new();
        for (history, content) in [
            (vec![user("q")], vec!["question"]),
            (vec![user("p"), said.clone(), user("q")], vec!["history", "question"]),
            (vec![summary.clone(), user("q")], vec!["question", "summary"]),
            (vec![summary, user("p"), said, user("q")], vec!["history", "question", "summary"]),
        ] {
            let told: Vec<String> =
                Leaving::of(&turn, "openai", &history, &none).content.into_iter().collect();
            assert_eq!(told, content);
        }
    }

    #[test]
    fn a_file_that_is_too_large_keeps_the_newer_half_and_a_torn_line_costs_itself() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        let line = serde_json::to_string(&leaving(1, 1)).unwrap();
        let many = usize::try_from(MAX_BYTES).unwrap() / (line.len() + 1) + 1;
        let text = format!("{line}\n").repeat(many) + "{\"at\":2,\"tu";
        store::replace(&path, text.as_bytes(), Durability::Process).unwrap();
        let log = CloudLog::open(data.path()).unwrap();
        let kept = log.last_day(1).requests;
        assert!((many / 2 - 2..=many / 2).contains(&kept), "{kept} of {many}");
        // And while it runs.
        for _ in 0..many {
            log.add(leaving(3, 1)).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= MAX_BYTES + line.len() as u64 + 1);
        assert_eq!(log.last_day(3).requests, kept + many);
    }
}
