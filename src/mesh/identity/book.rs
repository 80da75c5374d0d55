//! `contacts.json`: what was learnt and decided at run time, and how it is joined with the configuration.
//!
//! Owns the form on disk and the rule which of the two wins. A file that can't be read stops the start: without the pins
//! anybody could be pinned anew.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Entry, Pin, Source};
use crate::assistant::{CategorySet, PermissionCategory};
use crate::config::{Asker, Contact, MeshConfig};
use crate::mesh::{inbox, names};
use crate::node::{NodeNum, PublicKey};
use crate::store::document::{self, Document};
use crate::store::{self, Durability, StoreError};

/// The version that is written. Version 1 had only pins; it reads as this one.
pub const VERSION: u32 = 2;
/// Longest configured name that is shown, in characters.
const MAX_NAME: usize = 40;

/// The file. Records of contacts that are not configured any more stay, so that a pin is not lost by editing the
/// configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Book {
    version: u32,
    pub contacts: Vec<Record>,
    /// Refused, beside those of the configuration.
    pub denied: Vec<Asker>,
    /// Instead of the configuration's.
    pub enabled: Option<bool>,
    /// Instead of the configuration's.
    pub trusted_only: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub id: NodeNum,
    pub number: NodeNum,
    #[serde(default)]
    pub key: Option<PublicKey>,
    #[serde(default)]
    pub confirmed: bool,
    #[serde(default)]
    pub foreign: Option<PublicKey>,
    #[serde(default)]
    pub pinned_at: u64,
    /// It is a contact because the operator added it here.
    #[serde(default)]
    pub added: bool,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub suspended: bool,
    /// The configured key that `key` was accepted instead of. With another key in the configuration, that one counts.
    #[serde(default)]
    pub replaces: Option<PublicKey>,
    /// Keys that the operator said are not this contact's: they are not pinned, and not told again.
    #[serde(default)]
    pub refused: Vec<PublicKey>,
}

impl Record {
    pub fn new(id: NodeNum, number: NodeNum) -> Record {
        Record {
            id,
            number,
            key: None,
            confirmed: false,
            foreign: None,
            pinned_at: 0,
            added: false,
            name: None,
            suspended: false,
            replaces: None,
            refused: Vec::new(),
        }
    }

    pub fn pin(&mut self, key: PublicKey, confirmed: bool, at: u64) {
        (self.key, self.confirmed, self.pinned_at) = (Some(key), confirmed, at);
        self.replaces = None;
        self.foreign = self.foreign.filter(|foreign| *foreign != key);
        self.refused.retain(|refused| *refused != key);
    }
}

impl Book {
    pub fn read(path: &Path) -> Result<Book, StoreError> {
        match document::read(path, u64::from(VERSION))? {
            Document::Missing => Ok(Book::default()),
            Document::Whole(book) => Ok(book),
            Document::Broken(mut error) => {
                let why = format!(
                    "{}; repair it, or move it away: then contacts without a key in the configuration are pinned anew, \
                     and those that were added on the node page are gone",
                    error.source
                );
                error.source = io::Error::new(error.source.kind(), why);
                Err(error)
            }
        }
    }

    /// Has a text the form of the file? What is wrong with it, else.
    pub fn look(text: &[u8]) -> Result<(), String> {
        match serde_json::from_slice::<Book>(text) {
            Ok(book) if book.version > VERSION => {
                Err(format!("it was written by a newer tombolo (version {})", book.version))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub fn write(&self, path: &Path, durability: Durability) -> Result<(), StoreError> {
        store::replace_json(path, &Book { version: VERSION, ..self.clone() }, durability)
    }

    pub fn record(&self, id: NodeNum) -> Option<&Record> {
        self.contacts.iter().find(|record| record.id == id)
    }

    /// The record of that contact, made where there is none.
    pub fn record_mut(&mut self, id: NodeNum, number: NodeNum) -> &mut Record {
        let at = self.contacts.iter().position(|record| record.id == id).unwrap_or_else(|| {
            self.contacts.push(Record::new(id, number));
            self.contacts.len() - 1
        });
        &mut self.contacts[at] // just found, or just pushed
    }

    /// Drops the pins that a key in the configuration has taken the place of, so that they don't come back when it goes.
    /// Was there one?
    pub fn outdate(&mut self, configured: &[Contact]) -> bool {
        let mut any = false;
        for record in &mut self.contacts {
            let given = configured.iter().find(|contact| contact.id == record.id);
            let Some(given) = given.and_then(|contact| contact.key) else { continue };
            let other = record.key.is_some_and(|key| key != given);
            if other && record.replaces != Some(given) {
                (record.key, record.confirmed, record.replaces) = (None, false, None);
                any = true;
            }
        }
        any
    }

    /// The settings as they are in force: what was decided here wins, and nobody who is denied there is answered.
    pub fn over(&self, configured: &MeshConfig) -> MeshConfig {
        let mut effective = configured.clone();
        effective.enabled = self.enabled.unwrap_or(configured.enabled);
        effective.trusted_only = self.trusted_only.unwrap_or(configured.trusted_only);
        let new = self.denied.iter().filter(|asker| !configured.denied_askers.contains(asker));
        effective.denied_askers.extend(new.cloned());
        effective
    }

    /// The contacts of both, and what is odd about them. A contact that stands twice, or whose key another has, is left
    /// out the second time; the configuration comes first.
    pub fn join(&self, configured: &[Contact]) -> (Vec<Entry>, Vec<String>) {
        let mut entries: Vec<Entry> = Vec::new();
        let mut warnings = Vec::new();
        for contact in configured {
            if entries.iter().any(|entry| entry.id == contact.id) {
                warnings
                    .push(format!("contact {} is listed twice: the second is ignored", contact.id));
                continue;
            }
            take(self.configured(contact, configured), &mut entries, &mut warnings);
        }
        for record in self.contacts.iter().filter(|record| record.added) {
            if !entries.iter().any(|entry| entry.id == record.id) {
                take(added(record), &mut entries, &mut warnings);
            }
        }
        (entries, warnings)
    }

    /// A key that the configuration gives to somebody else belongs to that one, unless another was accepted instead.
    fn is_anothers(&self, record: &Record, configured: &[Contact]) -> bool {
        let Some(key) = record.key else { return false };
        configured.iter().any(|other| {
            let instead = self.record(other.id).is_some_and(|r| r.replaces == Some(key));
            other.id != record.id && other.key == Some(key) && !instead
        })
    }

    fn configured(&self, contact: &Contact, configured: &[Contact]) -> Entry {
        let record = self.record(contact.id);
        let learned = record.filter(|record| !self.is_anothers(record, configured));
        let pin = match (contact.key, learned.and_then(|record| record.key), learned) {
            (Some(given), Some(key), Some(record)) if record.replaces == Some(given) => {
                Pin::Learned { key, confirmed: record.confirmed }
            }
            (Some(given), _, _) => Pin::Configured(given),
            (None, Some(key), Some(record)) => Pin::Learned { key, confirmed: record.confirmed },
            (None, _, _) => Pin::None,
        };
        // A name that was given here wins.
        let renamed = record.and_then(|record| record.name.clone());
        let given = contact.name.as_deref().map(|name| inbox::clean_name(name, MAX_NAME));
        let name = renamed.or(given);
        Entry {
            id: contact.id,
            number: record.map_or(contact.id, |record| record.number),
            name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| contact.id.to_string()),
            pin,
            foreign: record.and_then(|record| record.foreign).filter(|key| Some(*key) != pin.key()),
            grants: match &contact.grants {
                Some(grants) => grants.iter().copied().collect(),
                None => default_grants(),
            },
            suspended: record.is_some_and(|record| record.suspended),
            source: Source::Configuration,
        }
    }
}

/// A contact that stands here only. Where the configuration gives its key to another, it is a twin, never one without a
/// key: that would let the next comer be pinned.
fn added(record: &Record) -> Entry {
    let confirmed = record.confirmed;
    let pin = record.key.map_or(Pin::None, |key| Pin::Learned { key, confirmed });
    // The file may have been edited: its names are held to the same rule.
    let name = record.name.as_deref().and_then(|name| names::check(name).ok());
    Entry {
        id: record.id,
        number: record.number,
        name: name.unwrap_or_else(|| record.id.to_string()),
        pin,
        foreign: record.foreign.filter(|key| Some(*key) != pin.key()),
        grants: default_grants(),
        suspended: record.suspended,
        source: Source::Node,
    }
}

fn take(entry: Entry, entries: &mut Vec<Entry>, warnings: &mut Vec<String>) {
    let twin = entry.pin.key().and_then(|key| entries.iter().find(|e| e.pin.key() == Some(key)));
    match twin {
        Some(twin) => warnings.push(format!(
            "contacts {} and {} have the same key: the second is ignored",
            twin.id, entry.id
        )),
        None => entries.push(entry),
    }
}

/// Of a contact to whom nobody gave others.
pub(super) fn default_grants() -> CategorySet {
    CategorySet::from([PermissionCategory::System])
}
