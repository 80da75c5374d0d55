//! Identity: which contact a packet comes from, and how sure that is.
//!
//! Owns the contacts and their pinned keys: what a packet shows, and what it teaches. `book` keeps them in
//! `contacts.json`, `change` is what the operator decides. A contact is its key; its number is a hint that
//! follows the key. Must not decide who is answered: that is `policy`. Sees only an [`Envelope`], so no text
//! can change what it says.

mod book;
mod change;
mod key;
mod shown;

use std::path::{Path, PathBuf};

use self::book::Book;
pub use self::book::VERSION;
pub use self::change::Planned;
use super::inbox::Envelope;
use crate::assistant::{Assurance, CategorySet, PeerId};
use crate::clock::Now;
use crate::config::{Contact, MeshConfig};
use crate::node::{NodeNum, PublicKey};
use crate::store::{Durability, StoreError};

const FILE: &str = "contacts.json";

/// The key that a contact is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// None yet: the first PKI direct message from its number brings it.
    None,
    /// Written in the configuration.
    Configured(PublicKey),
    /// Taken from its first PKI direct message.
    Learned {
        /// The key.
        key: PublicKey,
        /// Has the operator confirmed the fingerprint? Until then the contact is answered and has no grants.
        confirmed: bool,
    },
}

impl Pin {
    /// The key, if there is one.
    pub fn key(self) -> Option<PublicKey> {
        match self {
            Pin::None => None,
            Pin::Configured(key) | Pin::Learned { key, .. } => Some(key),
        }
    }

    /// May grants follow from it?
    pub fn is_confirmed(self) -> bool {
        matches!(self, Pin::Configured(_) | Pin::Learned { confirmed: true, .. })
    }
}

/// A contact as it stands.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The number under which it is configured; names it in `contacts.json`.
    pub id: NodeNum,
    /// The number that its key was last seen under.
    pub number: NodeNum,
    /// What to call it.
    pub name: String,
    /// Its key.
    pub pin: Pin,
    /// Another key that was seen under its number.
    pub foreign: Option<PublicKey>,
    /// What the configuration grants it once its key is confirmed.
    pub grants: CategorySet,
    /// Not answered, until the operator takes that back.
    pub suspended: bool,
    /// Why it is a contact.
    pub source: Source,
}

/// Where something was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In the configuration.
    Configuration,
    /// On this node, by the operator at run time.
    Node,
}

impl Source {
    /// The contract's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Configuration => "configuration",
            Source::Node => "node",
        }
    }
}

/// Who sent a packet, as far as it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// `key:` for a key that decrypted the packet, `signed:` for one that a signature names, `claim:` and the
    /// number for everybody else: three kinds that never meet, so nobody acts on another's turns or answers.
    pub id: PeerId,
    /// The contact's name, or the node id.
    pub name: String,
    /// How sure that is.
    pub assurance: Assurance,
    /// What the operator granted: empty unless the peer is verified and its key confirmed.
    pub grants: CategorySet,
    /// The key that the packet was decrypted with, pinned or not.
    pub key: Option<PublicKey>,
    /// The number under which the contact is configured, if a key shows that it is one.
    pub contact: Option<NodeNum>,
    /// The operator has suspended that contact; or one without a key, whose number this is.
    pub suspended: bool,
}

/// Something that a packet taught about a contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A word, as in `MeshEvent::Security`.
    pub kind: &'static str,
    /// For people.
    pub detail: String,
}

/// The contacts.
#[derive(Debug)]
pub struct Contacts {
    path: PathBuf,
    book: Book,
    configured: Vec<Contact>,
    entries: Vec<Entry>,
    warnings: Vec<String>,
    own_key: Option<PublicKey>,
}

impl Contacts {
    /// Reads `contacts.json` and joins it with the configured contacts. A file that can't be read is an error:
    /// to go on without the pins would let anybody be pinned anew.
    pub fn open(data_dir: &Path, configured: &[Contact]) -> Result<Contacts, StoreError> {
        let path = data_dir.join(FILE);
        let mut contacts = Contacts {
            book: Book::read(&path)?,
            path,
            configured: Vec::new(),
            entries: Vec::new(),
            warnings: Vec::new(),
            own_key: None,
        };
        contacts.configure(configured);
        Ok(contacts)
    }

    /// Has a text the form of `contacts.json`? What is wrong with it, else. Changes nothing.
    pub fn look(text: &[u8]) -> Result<(), String> {
        Book::look(text)
    }

    /// Takes the configured contacts anew; what was learnt and decided stays.
    pub fn configure(&mut self, configured: &[Contact]) {
        self.configured = configured.to_vec();
        if self.book.outdate(configured)
            && let Err(error) = self.book.write(&self.path, Durability::Process)
        {
            tracing::error!(error = %error, "a pin that the configuration replaces is still on the disk");
        }
        self.join();
    }

    fn join(&mut self) {
        (self.entries, self.warnings) = self.book.join(&self.configured);
    }

    /// The settings as they are in force: with what the operator decided at run time.
    pub fn effective(&self, configured: &MeshConfig) -> MeshConfig {
        self.book.over(configured)
    }

    /// Our own radio's key, which is nobody else's.
    pub fn set_own_key(&mut self, key: Option<PublicKey>) {
        self.own_key = key;
    }

    /// Who sent it. Changes nothing.
    pub fn identify(&self, envelope: &Envelope) -> Peer {
        if let Some(key) = envelope.proven_key {
            let contact = self.by_key(key);
            return Peer {
                id: PeerId(format!("key:{key}")),
                name: contact.map_or_else(|| envelope.from.to_string(), |c| c.name.clone()),
                assurance: contact.map_or(Assurance::Unverified, |_| Assurance::Verified),
                grants: contact
                    .filter(|contact| contact.pin.is_confirmed())
                    .map_or_else(CategorySet::new, |contact| contact.grants.clone()),
                key: Some(key),
                contact: contact.map(|contact| contact.id),
                suspended: match contact {
                    Some(contact) => contact.suspended,
                    // Its first message would have pinned it.
                    None => self
                        .of_number(envelope.from)
                        .is_some_and(|claimed| claimed.suspended && claimed.pin == Pin::None),
                },
            };
        }
        let signer = envelope.signed_key.and_then(|key| self.by_key(key).map(|c| (key, c)));
        match signer {
            Some((key, contact)) => Peer {
                id: PeerId(format!("signed:{key}")),
                name: contact.name.clone(),
                assurance: Assurance::Signed,
                grants: CategorySet::new(),
                key: None,
                contact: Some(contact.id),
                suspended: contact.suspended,
            },
            None => Peer {
                id: PeerId(format!("claim:{}", envelope.from)),
                name: envelope.from.to_string(),
                assurance: Assurance::Unverified,
                grants: CategorySet::new(),
                key: None,
                contact: None,
                suspended: false,
            },
        }
    }

    /// Learns from a packet: pins the key of a contact without one, follows a contact to a new number, notes a
    /// foreign key, and tells what the operator should know. Call it before [`Contacts::identify`], and not for
    /// senders who are denied. An error means that it is known now and will be forgotten at a restart.
    pub fn observe(
        &mut self,
        envelope: &Envelope,
        now: Now,
    ) -> (Option<Finding>, Result<(), StoreError>) {
        let claimed = self
            .entries
            .iter()
            .position(|c| c.number == envelope.from)
            .or_else(|| self.entries.iter().position(|c| c.id == envelope.from));
        let Some(key) = envelope.proven_key else {
            return (claimed.and_then(|at| self.unproven(at, envelope)), Ok(()));
        };
        if self.own_key == Some(key) {
            return (None, Ok(()));
        }
        let owner = self.entries.iter().position(|c| c.pin.key() == Some(key));
        match (owner, claimed) {
            (Some(owner), Some(claimed)) if owner != claimed => self.foreign(claimed, key),
            (Some(owner), None) => self.moved(owner, envelope.from),
            (Some(owner), Some(_)) if self.entries[owner].number != envelope.from => {
                self.moved(owner, envelope.from)
            }
            (Some(_), Some(_)) | (None, None) => (None, Ok(())),
            (None, Some(claimed)) if self.entries[claimed].pin == Pin::None => {
                self.pin(claimed, key, now)
            }
            (None, Some(claimed)) => self.foreign(claimed, key),
        }
    }

    fn unproven(&self, at: usize, envelope: &Envelope) -> Option<Finding> {
        let contact = self.entries.get(at)?;
        if envelope.channel.is_none() {
            let detail = format!("a direct message under {} was not encrypted to us", contact.name);
            return Some(Finding { kind: "downgrade", detail });
        }
        if contact.pin.key().is_some() && envelope.signed_key == contact.pin.key() {
            return None;
        }
        let detail = format!("a channel text under the number of {} proves nothing", contact.name);
        Some(Finding { kind: "unverified_claim", detail })
    }

    fn pin(
        &mut self,
        at: usize,
        key: PublicKey,
        now: Now,
    ) -> (Option<Finding>, Result<(), StoreError>) {
        let Some(contact) = self.entries.get_mut(at) else { return (None, Ok(())) };
        let refused = self.book.record(contact.id).is_some_and(|r| r.refused.contains(&key));
        if refused || contact.suspended {
            return (None, Ok(()));
        }
        contact.pin = Pin::Learned { key, confirmed: false };
        contact.foreign = contact.foreign.filter(|foreign| *foreign != key);
        let detail = format!(
            "the key {} is now pinned to {}; it has no grants until it is confirmed",
            key.fingerprint(),
            contact.name
        );
        let saved = self.save(at, |record| record.pin(key, false, now.unix_ms));
        (Some(Finding { kind: "new_pin", detail }), saved)
    }

    fn foreign(&mut self, at: usize, key: PublicKey) -> (Option<Finding>, Result<(), StoreError>) {
        let Some(contact) = self.entries.get_mut(at) else { return (None, Ok(())) };
        if self.book.record(contact.id).is_some_and(|record| record.refused.contains(&key)) {
            return (None, Ok(()));
        }
        let pinned = contact.pin.key().map_or("no key".to_owned(), |key| key.fingerprint());
        let detail = format!(
            "under the number of {} came the key {}; pinned is {pinned}, and stays",
            contact.name,
            key.fingerprint()
        );
        let news = contact.foreign != Some(key);
        contact.foreign = Some(key);
        let saved = if news { self.save(at, |r| r.foreign = Some(key)) } else { Ok(()) };
        (Some(Finding { kind: "foreign_key", detail }), saved)
    }

    fn moved(&mut self, at: usize, to: NodeNum) -> (Option<Finding>, Result<(), StoreError>) {
        let Some(contact) = self.entries.get_mut(at) else { return (None, Ok(())) };
        let detail = format!("{} moved from {} to {to}, same key", contact.name, contact.number);
        contact.number = to;
        (Some(Finding { kind: "moved", detail }), self.save(at, |record| record.number = to))
    }

    /// Writes down what a packet taught. It is on the disk when the file is synced.
    fn save(
        &mut self,
        at: usize,
        learnt: impl FnOnce(&mut book::Record),
    ) -> Result<(), StoreError> {
        let Some(entry) = self.entries.get(at) else { return Ok(()) };
        learnt(self.book.record_mut(entry.id, entry.number));
        self.book.write(&self.path, Durability::Process)
    }

    fn by_key(&self, key: PublicKey) -> Option<&Entry> {
        self.entries.iter().find(|contact| contact.pin.key() == Some(key))
    }

    /// The contact with that key.
    pub fn of_key(&self, key: PublicKey) -> Option<&Entry> {
        self.by_key(key)
    }

    /// The contact that a number stands for, which is a hint and no proof.
    pub fn of_number(&self, number: NodeNum) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|contact| contact.number == number)
            .or_else(|| self.entries.iter().find(|contact| contact.id == number))
    }

    /// All of them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests;
