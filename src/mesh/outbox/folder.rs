//! The folder of replies: one file each, so that a restart goes on where the last process stopped.
//!
//! Owns `replies/` in the data folder. A file holds one state of its reply a line, and the last line that
//! can be read counts: a state is appended, because replacing a file makes some file systems wait for the
//! disk, on the way from an answer to the air. Must not know what a stage means.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::part::Reply;
use crate::assistant::TurnId;
use crate::store::{self, Durability, Journal, StoreError};

/// A file is written anew after so many states.
const STATES: usize = 64;

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// How many states each file holds.
    states: HashMap<TurnId, usize>,
}

impl Folder {
    /// Opens it and reads what is there, oldest first. A file that can't be read is set aside, not lost.
    pub fn open(data: &Path) -> Result<(Folder, Vec<Reply>), StoreError> {
        let path = data.join("replies");
        store::private_dir(&path)?;
        let mut folder = Folder { path, states: HashMap::new() };
        let mut replies = Vec::new();
        for file in folder.files()? {
            if std::fs::metadata(&file).is_ok_and(|file| file.len() == 0) {
                // Created for a reply that did not come: nobody was told that it is kept.
                store::remove(&file)?;
                continue;
            }
            let lines = store::journal_lines(&file)?;
            let last = lines.iter().rev().find_map(|line| serde_json::from_str::<Reply>(line).ok());
            if let Some(reply) = last {
                folder.states.insert(reply.id.clone(), lines.len());
                replies.push(reply.within_bounds());
            } else {
                let aside = store::set_aside(&file)?;
                tracing::error!(aside = %aside.display(), "a reply can't be read");
            }
        }
        replies.sort_by_key(|reply| reply.order);
        Ok((folder, replies))
    }

    /// Safe from a kill when it returns. On an error the state before is the one that counts.
    pub fn write(&mut self, reply: &Reply) -> Result<(), StoreError> {
        if !reply.on_disk() {
            return Ok(());
        }
        let file = self.file(&reply.id);
        let line = serde_json::to_string(reply.for_disk().as_ref()).map_err(|error| {
            StoreError { doing: "encoding", path: file.clone(), source: error.into() }
        })?;
        let states = self.states.get(&reply.id).copied().unwrap_or(0);
        if states < STATES {
            Journal::open(&file)?.append(&line, Durability::Process)?;
            self.states.insert(reply.id.clone(), states + 1);
        } else {
            store::replace(&file, format!("{line}\n").as_bytes(), Durability::Process)?;
            self.states.insert(reply.id.clone(), 1);
        }
        Ok(())
    }

    /// Creates the file of a reply that may come: some file systems take longer for that than for all that follows.
    /// An error costs no more than that time later.
    pub fn prepare(&mut self, id: &TurnId) {
        if !self.states.contains_key(id) && Journal::open(&self.file(id)).is_ok() {
            self.states.insert(id.clone(), 0);
        }
    }

    /// The reply did not come.
    pub fn unprepare(&mut self, id: &TurnId) {
        if self.states.get(id) == Some(&0) && self.remove(id).is_err() {
            tracing::debug!("an empty file stays until the next start");
        }
    }

    pub fn remove(&mut self, id: &TurnId) -> Result<(), StoreError> {
        self.states.remove(id);
        store::remove(&self.file(id))
    }

    fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let failed = |source| StoreError { doing: "listing", path: self.path.clone(), source };
        let entries = std::fs::read_dir(&self.path).map_err(failed)?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .map(|entry| entry.path())
            .filter(|path| path.extension() == Some(OsStr::new("jsonl")))
            .collect();
        files.sort();
        Ok(files)
    }

    /// Named by a hash: no turn id becomes a path.
    fn file(&self, id: &TurnId) -> PathBuf {
        let digest = Sha256::digest(id.0.as_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.path.join(format!("{name}.jsonl"))
    }
}
