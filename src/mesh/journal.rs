//! The journal of accepted questions: `inbox/`.
//!
//! Owns one file for every question that was accepted and has no answer yet: written before a model is asked, removed
//! after the answer is safe. What is in it is enough to ask again after a kill, and to resolve the caller again from
//! the lists as they are then; no authority is stored. Also owns the syncing of such files to the disk, off the way
//! from frame to model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::inbox::Envelope;
use super::seen;
use crate::assistant::TurnId;
use crate::clock::Now;
use crate::store::{self, Durability, StoreError};

/// How many starts of the daemon a question may live through before it is given up: one that kills the daemon must not
/// do so for ever.
pub const MAX_RESTARTS: u32 = 3;
/// A question older than this is not asked any more, milliseconds.
pub const MAX_AGE_MS: u64 = 86_400_000;
/// How long a change may wait to be synced to the disk, milliseconds.
const SYNC_AFTER_MS: u64 = 500;
/// Changed files that are remembered for syncing.
const MAX_DIRTY: usize = 256;

/// An accepted question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Of this form: 1.
    pub version: u32,
    /// Its turn, and the name of its file.
    pub turn: TurnId,
    /// Everything that identity and policy need to resolve the caller again.
    pub envelope: Envelope,
    /// What was asked, without the trigger.
    pub text: String,
    /// The text repeats the answer of that turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotes: Option<TurnId>,
    /// When it was accepted, Unix milliseconds.
    pub accepted_at: u64,
    /// Its place among those that were accepted: clocks jump, this doesn't.
    pub order: u64,
    /// How often it was found here at a start of the daemon.
    pub restarts: u32,
}

/// The folder of accepted questions.
#[derive(Debug)]
pub struct QuestionJournal {
    folder: PathBuf,
    next_order: u64,
}

impl QuestionJournal {
    /// Opens the folder, creating it closed. Gives the questions in it, oldest first; a file that can't be read is set
    /// aside and named in the second list.
    pub fn open(
        data_dir: &Path,
    ) -> Result<(QuestionJournal, Vec<Question>, Vec<PathBuf>), StoreError> {
        let folder = data_dir.join("inbox");
        store::private_dir(&folder)?;
        let mut journal = QuestionJournal { folder, next_order: 0 };
        let (mut questions, mut broken) = (Vec::new(), Vec::new());
        for path in store::json_files(&journal.folder)? {
            let read = store::read_json::<Question>(&path).ok().flatten();
            match read.filter(|q| seen::is_turn_id(&q.turn) && journal.path(&q.turn) == path) {
                Some(question) => questions.push(question),
                None => broken.push(store::set_aside(&path)?),
            }
        }
        questions.sort_by(|a, b| (a.order, &a.turn).cmp(&(b.order, &b.turn)));
        journal.next_order = questions.last().map_or(0, |last| last.order.saturating_add(1));
        Ok((journal, questions, broken))
    }

    /// The place of the next question.
    pub fn next_order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order = order.saturating_add(1);
        order
    }

    /// Writes a question, safe from a kill when it returns. Gives the file.
    pub fn write(&self, question: &Question) -> Result<PathBuf, StoreError> {
        let path = self.path(&question.turn);
        store::replace_json(&path, question, Durability::Process)?;
        Ok(path)
    }

    /// Forgets a question.
    pub fn remove(&self, turn: &TurnId) -> Result<(), StoreError> {
        store::remove(&self.path(turn))
    }

    fn path(&self, turn: &TurnId) -> PathBuf {
        self.folder.join(format!("{}.json", turn.0))
    }
}

/// Files that changed and are not known to be on the disk. They are synced together, on a thread where it may take its
/// time, at the latest half a second after the first change (and not before the last syncing has ended).
#[derive(Debug, Default)]
pub struct Unsynced {
    files: BTreeSet<PathBuf>,
    due_ms: Option<u64>,
    running: Option<tokio::task::JoinHandle<()>>,
}

impl Unsynced {
    /// That file changed, or files in that folder.
    pub fn mark(&mut self, path: PathBuf, now: Now) {
        if self.files.len() < MAX_DIRTY {
            self.files.insert(path);
        }
        self.due_ms.get_or_insert(now.mono_ms.saturating_add(SYNC_AFTER_MS));
    }

    /// When [`Unsynced::sync`] wants to be called, [`Now::mono_ms`].
    pub fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// Starts syncing if it is due.
    pub fn sync(&mut self, now: Now) {
        if self.due_ms.is_none_or(|due| due > now.mono_ms) {
            return;
        }
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            self.due_ms = Some(now.mono_ms.saturating_add(SYNC_AFTER_MS));
            return;
        }
        self.due_ms = None;
        let files = std::mem::take(&mut self.files);
        self.running = Some(tokio::task::spawn_blocking(move || sync_all(&files)));
    }
}

fn sync_all(changed: &BTreeSet<PathBuf>) {
    let inside = changed.iter().filter_map(|path| std::fs::read_dir(path).ok());
    let inside = inside.flatten().flatten().map(|entry| entry.path());
    let mut files: BTreeSet<PathBuf> = inside.chain(changed.iter().cloned()).collect();
    // A renamed file is safe when its folder is.
    files.extend(changed.iter().filter_map(|path| path.parent()).map(Path::to_owned));
    for path in files {
        // A file that is gone again needs no syncing.
        match std::fs::File::open(&path).and_then(|file| file.sync_all()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), error = %e, "could not sync to the disk");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::PeerId;
    use crate::node::{NodeNum, PacketId};

    fn question(id: u32, order: u64) -> Question {
        let peer = PeerId("key:ana".to_owned());
        Question {
            version: 1,
            turn: seen::turn_id(&peer, PacketId(id), ""),
            envelope: Envelope {
                hops: Some(1),
                from: NodeNum(0xa1b2_c3d4),
                id: PacketId(id),
                channel: None,
                mqtt: false,
                proven_key: Some(crate::mesh::packets::KEY_A),
                signed_key: None,
            },
            text: "how much disk?".to_owned(),
            quotes: None,
            accepted_at: 7,
            order,
            restarts: 0,
        }
    }

    #[test]
    fn what_a_turn_began_is_remembered_longer_than_it_can_be_taken_up() {
        const { assert!(crate::assistant::begun::MAX_AGE_MS > MAX_AGE_MS) }
    }

    #[test]
    fn questions_survive_oldest_first_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, found, _) = QuestionJournal::open(folder.path()).unwrap();
        assert!(found.is_empty());
        let (new, old) = (question(1, 200), question(2, 100));
        let path = journal.write(&new).unwrap();
        journal.write(&old).unwrap();
        assert!(store::is_private(&path).unwrap());
        assert!(store::is_private(&folder.path().join("inbox")).unwrap());
        let (mut again, found, broken) = QuestionJournal::open(folder.path()).unwrap();
        assert_eq!((found, broken), (vec![old.clone(), new.clone()], vec![]));
        assert_eq!((again.next_order(), again.next_order()), (201, 202));
        journal.remove(&old.turn).unwrap();
        journal.remove(&old.turn).unwrap();
        assert_eq!(QuestionJournal::open(folder.path()).unwrap().1, vec![new]);
    }

    #[test]
    fn a_file_that_is_not_one_of_ours_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, ..) = QuestionJournal::open(folder.path()).unwrap();
        let good = question(1, 5);
        journal.write(&good).unwrap();
        let inbox = folder.path().join("inbox");
        store::replace(&inbox.join("m-x.json"), b"{", Durability::Process).unwrap();
        let mut wrong = question(2, 5);
        wrong.turn = TurnId("../../etc/x".to_owned());
        store::replace_json(&inbox.join("m-y.json"), &wrong, Durability::Process).unwrap();
        let (_, found, broken) = QuestionJournal::open(folder.path()).unwrap();
        assert_eq!((found, broken.len()), (vec![good], 2));
        assert!(QuestionJournal::open(folder.path()).unwrap().2.is_empty());
    }

    #[tokio::test]
    async fn changed_files_are_synced_together_and_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        store::replace(&path, b"x", Durability::Process).unwrap();
        let mut unsynced = Unsynced::default();
        let now = Now { mono_ms: 1000, unix_ms: 0 };
        unsynced.mark(path.clone(), now);
        unsynced.mark(folder.path().join("gone"), Now { mono_ms: 1400, unix_ms: 0 });
        assert_eq!(unsynced.due_ms(), Some(1500));
        unsynced.sync(Now { mono_ms: 1499, unix_ms: 0 });
        assert_eq!(unsynced.due_ms(), Some(1500));
        unsynced.sync(Now { mono_ms: 1500, unix_ms: 0 });
        assert_eq!(unsynced.due_ms(), None);
        unsynced.running.take().unwrap().await.unwrap();
    }
}
