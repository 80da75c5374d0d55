//! Transcripts: what each caller said and was answered.
//!
//! Owns `transcripts/`, one file a caller. A file is opened by the caller's own key only, so no caller can
//! meet another's. Keeps no arguments of tools, and nothing of callers without a key.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::backends::Turn;
use super::caller::HistoryKey;
use super::{ChatStatus, ToolRecord, TurnId};
use crate::store::{self, Durability, StoreError};

/// A model is given at least this many turns verbatim, and fewer than twice as many: the number grows to
/// the double before it falls back, so that a prompt begins with all of the one before for that many
/// turns, and the server's cache serves it.
pub const KEEP_VERBATIM_TURNS: usize = 8;
/// Turns that are kept in a file.
const MAX_TURNS: usize = 200;
/// Bytes of text that are kept in a file.
const MAX_BYTES: usize = 256 * 1024;

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

#[derive(Debug, Default, Serialize, Deserialize)]
struct Transcript {
    version: u32,
    turns: Vec<StoredTurn>,
    /// So many of the turns belong to earlier conversations: no model is given them.
    #[serde(default)]
    earlier: usize,
    /// So many answered turns of the present conversation are in the file no more.
    #[serde(default)]
    gone: usize,
}

/// All transcripts.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    // One writer at a time: a file is read, extended and replaced as a whole.
    writing: Mutex<()>,
}

impl History {
    /// Below `data_dir/transcripts`.
    pub fn open(data_dir: &Path) -> Result<History, StoreError> {
        let folder = data_dir.join("transcripts");
        store::private_dir(&folder)?;
        Ok(History { folder, writing: Mutex::new(()) })
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

    /// One whose content makes no sense is set aside, and said so. One that the system does not give us
    /// now (too many open files, a disk in trouble) stays where it is: it may be good.
    fn transcript(&self, key: &HistoryKey) -> Result<Transcript, StoreError> {
        let path = self.path(key);
        match store::read_json::<Transcript>(&path) {
            Ok(transcript) => Ok(transcript.unwrap_or_default()),
            Err(error) if error.source.kind() == ErrorKind::InvalidData => {
                let aside = store::set_aside(&path)?;
                warn!(%error, ?aside, "a transcript makes no sense; a new one is begun");
                Ok(Transcript::default())
            }
            Err(error) => Err(error),
        }
    }

    /// The turn of that name, if it was answered.
    pub fn answered(&self, key: &HistoryKey, turn: &TurnId) -> Option<StoredTurn> {
        self.turns(key)
            .into_iter()
            .find(|stored| stored.turn_id == *turn && stored.status == ChatStatus::Answered)
    }

    /// Adds a turn; one of the same name is replaced. The oldest go when there are too many.
    pub fn add(&self, key: &HistoryKey, turn: StoredTurn) -> Result<(), StoreError> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Transcript { mut turns, mut earlier, mut gone, .. } = self.transcript(key)?;
        if let Some(old) = turns.iter().position(|stored| stored.turn_id == turn.turn_id) {
            turns.remove(old);
            earlier -= usize::from(old < earlier);
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
            gone += usize::from(index >= earlier && old.status == ChatStatus::Answered);
        }
        earlier = earlier.saturating_sub(surplus);
        self.write(key, turns, earlier, gone)
    }

    /// Begins a fresh conversation: models are given nothing of what was said so far. The transcript stays.
    pub fn begin_anew(&self, key: &HistoryKey) -> Result<(), StoreError> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = self.transcript(key)?.turns;
        if turns.is_empty() {
            return Ok(());
        }
        let earlier = turns.len();
        self.write(key, turns, earlier, 0)
    }

    fn write(
        &self,
        key: &HistoryKey,
        turns: Vec<StoredTurn>,
        earlier: usize,
        gone: usize,
    ) -> Result<(), StoreError> {
        let transcript = Transcript { version: 1, turns, earlier, gone };
        store::replace_json(&self.path(key), &transcript, Durability::Process)
    }

    /// Deletes the transcript.
    pub fn clear(&self, key: &HistoryKey) -> Result<(), StoreError> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        store::remove(&self.path(key))
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

    fn path(&self, key: &HistoryKey) -> PathBuf {
        self.folder.join(format!("{}.json", key.as_str()))
    }
}

impl StoredTurn {
    fn bytes(&self) -> usize {
        self.question.len() + self.answer.len() + 200
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::{CallerScope, CategorySet, SessionId};

    fn key(session: &str) -> HistoryKey {
        let session_id = SessionId(session.to_owned());
        CallerScope::LocalOperator { session_id, granted: CategorySet::new() }
            .history_key()
            .unwrap()
    }

    fn turn(id: usize, text: &str) -> StoredTurn {
        StoredTurn {
            turn_id: TurnId(format!("t-{id}")),
            at: id as u64,
            question: text.to_owned(),
            answer: text.to_owned(),
            status: ChatStatus::Answered,
            backend: "scripted".to_owned(),
            tools: Vec::new(),
        }
    }

    #[test]
    fn a_transcript_survives_a_restart_and_is_private() {
        let data = tempfile::tempdir().unwrap();
        History::open(data.path()).unwrap().add(&key("a"), turn(1, "hello")).unwrap();
        let history = History::open(data.path()).unwrap();
        assert_eq!(history.turns(&key("a")), vec![turn(1, "hello")]);
        assert!(history.turns(&key("b")).is_empty());
        let path = history.path(&key("a"));
        assert!(store::is_private(&path).unwrap());
        assert!(store::is_private(&data.path().join("transcripts")).unwrap());
        history.clear(&key("a")).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn turns_and_bytes_are_bounded_and_the_newest_stay() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path()).unwrap();
        for id in 0..=MAX_TURNS {
            history.add(&key("a"), turn(id, "x")).unwrap();
        }
        let kept = history.turns(&key("a"));
        assert_eq!((kept.len(), kept[0].at), (MAX_TURNS, 1));

        let large = "x".repeat(MAX_BYTES / 4);
        for id in 1000..1003 {
            history.add(&key("a"), turn(id, &large)).unwrap();
        }
        let kept = history.turns(&key("a"));
        assert!(kept.iter().map(StoredTurn::bytes).sum::<usize>() <= MAX_BYTES);
        assert_eq!(kept.last().unwrap().at, 1002);
        // One turn alone may be larger than everything; it stays.
        history.add(&key("b"), turn(1, &"x".repeat(MAX_BYTES))).unwrap();
        assert_eq!(history.turns(&key("b")).len(), 1);
    }

    #[test]
    fn a_fresh_conversation_begins_where_it_was_asked_for_and_the_transcript_stays() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path()).unwrap();
        history.begin_anew(&key("a")).unwrap();
        assert!(!history.path(&key("a")).exists(), "nothing to mark");
        for id in 0..3 {
            history.add(&key("a"), turn(id, "old")).unwrap();
        }
        history.begin_anew(&key("a")).unwrap();
        let history = History::open(data.path()).unwrap();
        assert!(history.for_model(&key("a")).is_empty());
        assert_eq!(history.turns(&key("a")).len(), 3);
        history.add(&key("a"), turn(3, "new")).unwrap();
        // An old turn that is stored once more counts as new; the border moves with what is removed.
        history.add(&key("a"), turn(0, "once more")).unwrap();
        let questions: Vec<Turn> = history.for_model(&key("a")).into_iter().step_by(2).collect();
        let user = |text: &str| Turn::User(text.to_owned());
        assert_eq!(questions, [user("new"), user("once more")]);
        for id in 10..10 + MAX_TURNS {
            history.add(&key("a"), turn(id, "x")).unwrap();
        }
        let given = history.for_model(&key("a")).len() / 2;
        assert!((KEEP_VERBATIM_TURNS..2 * KEEP_VERBATIM_TURNS).contains(&given), "{given}");
    }

    #[test]
    fn a_prompt_begins_with_all_of_the_one_before_but_for_one_turn_in_eight() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path()).unwrap();
        let mut before: Vec<Turn> = Vec::new();
        let mut begun_anew = 0;
        // Past the file's own limit, and with turns in between that no model is given.
        for id in 0..2 * MAX_TURNS {
            history.add(&key("a"), turn(id, &format!("text {id}"))).unwrap();
            if id % 5 == 0 {
                let failed = StoredTurn { status: ChatStatus::Failed, ..turn(10_000 + id, "no") };
                history.add(&key("a"), failed).unwrap();
            }
            let given = history.for_model(&key("a"));
            let turns = given.len() / 2;
            assert!(turns >= KEEP_VERBATIM_TURNS.min(id + 1) && turns < 2 * KEEP_VERBATIM_TURNS);
            assert_eq!(given[given.len() - 2], Turn::User(format!("text {id}")));
            begun_anew += usize::from(!given.starts_with(&before));
            before = given;
        }
        assert_eq!(begun_anew, 2 * MAX_TURNS / KEEP_VERBATIM_TURNS - 1);
    }

    #[test]
    fn a_transcript_that_the_system_does_not_give_now_stays_where_it_is() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path()).unwrap();
        // A folder in its place: reading fails, and not because of what is in it.
        let path = history.path(&key("a"));
        std::fs::create_dir(&path).unwrap();
        assert!(history.add(&key("a"), turn(1, "x")).is_err());
        assert!(history.begin_anew(&key("a")).is_err());
        assert!(history.turns(&key("a")).is_empty() && history.for_model(&key("a")).is_empty());
        assert!(path.is_dir() && !path.with_extension("json.broken").exists());
    }

    #[test]
    fn a_turn_of_the_same_name_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path()).unwrap();
        let failed = StoredTurn { status: ChatStatus::Failed, ..turn(1, "no") };
        history.add(&key("a"), failed).unwrap();
        assert_eq!(history.answered(&key("a"), &TurnId("t-1".to_owned())), None);
        assert!(history.for_model(&key("a")).is_empty());
        history.add(&key("a"), turn(1, "yes")).unwrap();
        assert_eq!(history.turns(&key("a")).len(), 1);
        assert!(history.answered(&key("a"), &TurnId("t-1".to_owned())).is_some());
    }

    #[test]
    fn a_broken_transcript_is_set_aside_and_not_overwritten() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path()).unwrap();
        let path = history.path(&key("a"));
        store::replace(&path, b"{\"version\":1,\"tu", Durability::Process).unwrap();
        history.add(&key("a"), turn(1, "new")).unwrap();
        assert_eq!(history.turns(&key("a")).len(), 1);
        let aside = path.with_extension("json.broken");
        assert_eq!(std::fs::read(aside).unwrap(), b"{\"version\":1,\"tu");
    }
}
