//! Calls that change something and were begun: `inbox/begun.log`.
//!
//! Owns the note that is on the disk before such a call runs. A turn that is taken up again after a kill does
//! not run another one: nobody knows how far the first one came. Holds no arguments.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::TurnId;
use crate::clock;
use crate::store::{self, Durability, Journal, StoreError};

const FILE: &str = "begun.log";
/// Notes that are kept.
const MAX_LINES: usize = 4_096;
/// An older note is forgotten: no turn is taken up after a day. Milliseconds.
pub const MAX_AGE_MS: u64 = 2 * 86_400_000;

/// The notes.
#[derive(Debug)]
pub struct Begun {
    path: PathBuf,
    /// Turns of an earlier process that had begun such a call.
    earlier: HashSet<TurnId>,
    // One writer at a time.
    writing: Arc<Mutex<()>>,
}

impl Begun {
    /// Reads what earlier processes began.
    pub fn open(data_dir: &Path) -> Result<Begun, StoreError> {
        Begun::open_at(data_dir, clock::unix_ms())
    }

    fn open_at(data_dir: &Path, now_ms: u64) -> Result<Begun, StoreError> {
        let folder = data_dir.join("inbox");
        store::private_dir(&folder)?;
        let path = folder.join(FILE);
        let lines = store::journal_lines(&path)?;
        let young = |line: &&String| {
            let at = line.split(' ').next().and_then(|at| at.parse::<u64>().ok());
            // One from the future counts: the clock may have been wrong then or now.
            at.is_some_and(|at| now_ms.saturating_sub(at) < MAX_AGE_MS)
        };
        let kept: Vec<&String> = lines.iter().filter(young).collect();
        let kept = kept.get(kept.len().saturating_sub(MAX_LINES)..).unwrap_or_default();
        if kept.len() < lines.len() {
            let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
            store::replace(&path, text.as_bytes(), Durability::Disk)?;
        }
        let turn = |line: &&String| line.split(' ').nth(1).map(|turn| TurnId(turn.to_owned()));
        let earlier = kept.iter().filter_map(turn).collect();
        Ok(Begun { path, earlier, writing: Arc::default() })
    }

    /// Notes, on the disk, that this turn begins a call of that tool. Writes on a thread where it may take its time.
    ///
    /// # Errors
    /// Why it must not run, in words for the model: it may have run before, or it could not be noted.
    pub async fn note(&self, turn: &TurnId, tool: &str) -> Result<(), String> {
        if self.earlier.contains(turn) {
            return Err("the node was restarted, and it may have been done already".to_owned());
        }
        let line = format!("{} {} {tool}", clock::unix_ms(), turn.0);
        let (path, writing) = (self.path.clone(), Arc::clone(&self.writing));
        let written = tokio::task::spawn_blocking(move || {
            let _one = writing.lock().unwrap_or_else(PoisonError::into_inner);
            Journal::open(&path)?.append(&line, Durability::Disk)
        })
        .await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::error!(%error, source = %error.source, "a call could not be noted, so it is not run");
                Err("it could not be noted on the disk".to_owned())
            }
            Err(_) => Err("it could not be noted".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(name: &str) -> TurnId {
        TurnId(name.to_owned())
    }

    #[tokio::test]
    async fn a_turn_that_began_something_before_a_restart_begins_nothing_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let begun = Begun::open(folder.path()).unwrap();
        begun.note(&turn("a"), "x").await.unwrap();
        begun.note(&turn("a"), "y").await.unwrap();
        let again = Begun::open(folder.path()).unwrap();
        assert!(again.note(&turn("a"), "x").await.unwrap_err().contains("restarted"));
        again.note(&turn("b"), "x").await.unwrap();
        // No note, no run.
        std::fs::remove_dir_all(folder.path().join("inbox")).unwrap();
        assert!(again.note(&turn("c"), "x").await.is_err());
    }

    #[tokio::test]
    async fn a_note_is_kept_as_long_as_a_turn_can_be_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        Begun::open(folder.path()).unwrap().note(&turn("a"), "x").await.unwrap();
        let path = folder.path().join("inbox").join(FILE);
        let at: u64 =
            std::fs::read_to_string(&path).unwrap().split(' ').next().unwrap().parse().unwrap();
        for (age, kept) in [(MAX_AGE_MS - 1, true), (MAX_AGE_MS, false)] {
            let begun = Begun::open_at(folder.path(), at + age).unwrap();
            assert_eq!(begun.earlier.contains(&turn("a")), kept, "{age}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "forgotten on the disk too");
    }
}
