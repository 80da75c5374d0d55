//! Distress texts: what peers sent with `sos`, until a person has seen it: `distress.json`.
//!
//! Owns the record, which is bounded, what gives way when it is full, and that no packet stands in it twice. Nothing but
//! a person clears a text. Must not decide whose text is recorded or acknowledged: a record is no authority.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::view::DistressView;
use crate::assistant::{Assurance, PeerId, TurnId};
use crate::clock::Now;
use crate::store::document::{self, Aside};
use crate::store::{self, Durability, StoreError};

const FILE: &str = "distress.json";
/// Of the file's form.
pub const VERSION: u32 = 1;
/// Texts that are kept, cleared ones too.
pub const MOST: usize = 32;
/// Of those, texts of senders who proved nothing: the rest of the room is for contacts.
pub const MOST_UNPROVED: usize = 16;
/// Texts of one caller that are kept.
pub const MOST_OF_ONE: usize = 4;
/// Packets that are remembered after their texts gave way: of contacts, and of all others.
const REMEMBERED: usize = 512;
const REMEMBERED_UNPROVED: usize = 128;

/// A distress text as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distress {
    /// Whose: the same caller's texts go by it.
    pub peer: PeerId,
    /// What is shown of it.
    #[serde(flatten)]
    pub view: DistressView,
}

/// What became of a text that was to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It stands there now.
    New,
    /// The same packet was recorded before.
    Known,
}

/// What came of clearing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleared {
    /// No text has that id, or it has given way to newer ones.
    Unknown,
    /// Somebody cleared it before.
    Already,
    /// It is cleared now.
    Now,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    texts: Vec<Distress>,
    /// Packets of contacts, the oldest first.
    #[serde(default)]
    proved: VecDeque<TurnId>,
    /// Packets of all others.
    #[serde(default)]
    unproved: VecDeque<TurnId>,
}

/// The record.
#[derive(Debug)]
pub struct DistressBook {
    path: PathBuf,
    file: File,
    /// What the operator should know of the file, until the next start.
    warning: Option<String>,
}

impl DistressBook {
    /// Reads the record in the data folder. A broken file is set aside and named in the warnings: a node that does not
    /// start would hear no further call.
    ///
    /// # Errors
    /// As [`document::read_or_set_aside`].
    pub fn open(data_dir: &Path) -> Result<DistressBook, StoreError> {
        let path = data_dir.join(FILE);
        let empty = || File {
            version: VERSION,
            texts: Vec::new(),
            proved: VecDeque::new(),
            unproved: VecDeque::new(),
        };
        let (file, aside) = document::read_or_set_aside(&path, u64::from(VERSION))?;
        let warning = aside.map(|Aside { path, why }| {
            let warning = format!(
                "the record of distress texts could not be read ({why}) and was set aside as {}: look into it for calls \
                 that nobody has seen",
                path.display()
            );
            tracing::error!("{warning}");
            warning
        });
        let mut file = file.unwrap_or_else(empty);
        // Whatever wrote it: the bounds hold here.
        make_room(&mut file.texts, MOST + 1, |_| true);
        let rings = [(&mut file.proved, REMEMBERED), (&mut file.unproved, REMEMBERED_UNPROVED)];
        for (ring, most) in rings {
            ring.drain(..ring.len().saturating_sub(most));
        }
        Ok(DistressBook { path, file, warning })
    }

    /// Has a text the form of the file? What is wrong with it, else. Changes nothing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn look(text: &[u8]) -> Result<(), String> {
        serde_json::from_slice::<File>(text).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Was that packet recorded? Cleared ones and those that gave way count too.
    pub fn knows(&self, id: &TurnId) -> bool {
        self.file.proved.contains(id) || self.file.unproved.contains(id)
    }

    /// Records a text. The same words of the same caller, not cleared yet, are one text with the time of the newest. Is
    /// the room used up, cleared ones give way first, then those of senders who proved nothing, then those of the caller
    /// with the most, the oldest first.
    ///
    /// # Errors
    /// When it can't be written: it is recorded until a restart, and written with the next change.
    pub fn record(&mut self, mut new: Distress) -> Result<Recorded, StoreError> {
        if self.knows(&new.view.id) {
            return Ok(Recorded::Known);
        }
        let proved = is_proved(&new);
        let (ring, most) = match proved {
            true => (&mut self.file.proved, REMEMBERED),
            false => (&mut self.file.unproved, REMEMBERED_UNPROVED),
        };
        ring.push_back(new.view.id.clone());
        while ring.len() > most {
            ring.pop_front();
        }
        let texts = &mut self.file.texts;
        let same = texts.iter().position(|old| {
            old.peer == new.peer
                && old.view.seen_at.is_none()
                && (&old.view.text, &old.view.channel) == (&new.view.text, &new.view.channel)
        });
        if let Some(same) = same {
            // Under the new packet's id: who clears the older call has not seen this one.
            let old = texts.remove(same);
            new.view.times = old.view.times.saturating_add(1);
            new.view.first_at = old.view.first_at;
        }
        let peer = new.peer.clone();
        make_room(texts, MOST_OF_ONE, |text| text.peer == peer);
        if !proved {
            make_room(texts, MOST_UNPROVED, |text| !is_proved(text));
        }
        make_room(texts, MOST, |_| true);
        texts.push(new);
        self.write().map(|()| Recorded::New)
    }

    /// A person has seen it.
    ///
    /// # Errors
    /// When it can't be written: then it is not cleared.
    pub fn clear(&mut self, id: &TurnId, now: Now) -> Result<Cleared, StoreError> {
        match self.get(id).map(|text| text.view.seen_at) {
            None => return Ok(Cleared::Unknown),
            Some(Some(_)) => return Ok(Cleared::Already),
            Some(None) => {}
        }
        self.set_seen(id, Some(now.unix_ms));
        self.write().inspect_err(|_| self.set_seen(id, None)).map(|()| Cleared::Now)
    }

    /// A text by its id.
    pub fn get(&self, id: &TurnId) -> Option<&Distress> {
        self.file.texts.iter().find(|text| text.view.id == *id)
    }

    /// All of them, the newest first.
    pub fn view(&self) -> Vec<DistressView> {
        self.file.texts.iter().rev().map(|text| text.view.clone()).collect()
    }

    /// How many nobody has cleared.
    pub fn uncleared(&self) -> usize {
        self.file.texts.iter().filter(|text| text.view.seen_at.is_none()).count()
    }

    /// How many are kept.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.file.texts.len()
    }

    /// What the operator should know of the file.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Where it is, for syncing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn set_seen(&mut self, id: &TurnId, at: Option<u64>) {
        let text = self.file.texts.iter_mut().find(|text| text.view.id == *id);
        if let Some(text) = text {
            text.view.seen_at = at;
        }
    }

    fn write(&self) -> Result<(), StoreError> {
        store::replace_json(&self.path, &self.file, Durability::Process)
    }
}

/// Did a key show who it is, be it by a signature?
fn is_proved(text: &Distress) -> bool {
    text.view.assurance != Assurance::Unverified
}

/// Makes room for one more among those texts, of which there may be `most`.
fn make_room(texts: &mut Vec<Distress>, most: usize, among: impl Fn(&Distress) -> bool) {
    while texts.iter().filter(|text| among(text)).count() >= most {
        let of_one = |peer: &PeerId| texts.iter().filter(|text| text.peer == *peer).count();
        let least =
            texts.iter().enumerate().filter(|(_, text)| among(text)).min_by_key(|(age, text)| {
                let open = text.view.seen_at.is_none();
                let crowd = std::cmp::Reverse(of_one(&text.peer));
                (open, text.view.assurance, crowd, *age)
            });
        let Some((at, _)) = least else { return };
        let gone = texts.remove(at);
        if gone.view.seen_at.is_none() {
            let (from, at) = (gone.view.node, gone.view.at);
            tracing::warn!(from = %from, at, "a distress text that nobody has cleared made room for a newer one");
        }
    }
}

#[cfg(test)]
mod tests;
