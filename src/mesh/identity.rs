//! Identity: which contact a packet comes from, and how sure that is.
//!
//! Owns the contacts, their pinned keys and `contacts.json`. A contact is its key; its number is a hint that
//! follows the key. Must not decide who is answered: that is `policy`. Sees only an [`Envelope`], so no text
//! can change what it says.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::inbox::{self, Envelope};
use super::view::ContactView;
use crate::assistant::{Assurance, CategorySet, PeerId, PermissionCategory};
use crate::clock::Now;
use crate::config::Contact;
use crate::node::{NodeNum, PublicKey};
use crate::store::{self, Durability, StoreError};

const FILE: &str = "contacts.json";
/// Longest name of a contact, in characters.
const MAX_NAME: usize = 40;

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
    entries: Vec<Entry>,
    records: Vec<Record>,
    warnings: Vec<String>,
    own_key: Option<PublicKey>,
}

/// `contacts.json`. Records of contacts that are not configured any more stay, so that a pin is not lost by
/// editing the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct File {
    version: u32,
    contacts: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    id: NodeNum,
    number: NodeNum,
    #[serde(default)]
    key: Option<PublicKey>,
    #[serde(default)]
    confirmed: bool,
    #[serde(default)]
    foreign: Option<PublicKey>,
    #[serde(default)]
    pinned_at: u64,
}

impl Contacts {
    /// Reads `contacts.json` and joins it with the configured contacts. A file that can't be read is an error:
    /// to go on without the pins would let anybody be pinned anew.
    pub fn open(data_dir: &Path, configured: &[Contact]) -> Result<Contacts, StoreError> {
        let path = data_dir.join(FILE);
        let file: Option<File> = store::read_json(&path).map_err(|mut error| {
            let why = format!(
                "{}; repair it, or move it away: then contacts without a key in the configuration are pinned anew",
                error.source
            );
            error.source = std::io::Error::new(error.source.kind(), why);
            error
        })?;
        let file = file.unwrap_or_default();
        let mut contacts = Contacts {
            path,
            entries: Vec::new(),
            records: file.contacts,
            warnings: Vec::new(),
            own_key: None,
        };
        contacts.configure(configured);
        Ok(contacts)
    }

    /// Takes the configured contacts anew; what was learnt stays.
    pub fn configure(&mut self, configured: &[Contact]) {
        self.warnings.clear();
        let mut entries: Vec<Entry> = Vec::new();
        for contact in configured {
            if entries.iter().any(|entry| entry.id == contact.id) {
                self.warnings
                    .push(format!("contact {} is listed twice: the second is ignored", contact.id));
                continue;
            }
            let twin = contact.key.and_then(|key| {
                configured.iter().find(|c| c.key == Some(key) && c.id != contact.id)
            });
            if let Some(twin) = twin.filter(|twin| entries.iter().any(|entry| entry.id == twin.id))
            {
                self.warnings.push(format!(
                    "contacts {} and {} have the same key: the second is ignored",
                    twin.id, contact.id
                ));
                continue;
            }
            entries.push(self.join(contact, configured));
        }
        self.entries = entries;
    }

    fn join(&self, contact: &Contact, configured: &[Contact]) -> Entry {
        let record = self.records.iter().find(|record| record.id == contact.id);
        let learned = record.and_then(|record| record.key).filter(|key| {
            // A key that the configuration gives to somebody else belongs to that one.
            !configured.iter().any(|other| other.key == Some(*key))
        });
        let pin = match (contact.key, learned) {
            (Some(key), _) => Pin::Configured(key),
            (None, Some(key)) => {
                Pin::Learned { key, confirmed: record.is_some_and(|record| record.confirmed) }
            }
            (None, None) => Pin::None,
        };
        let name = inbox::clean_name(contact.name.as_deref().unwrap_or_default(), MAX_NAME);
        Entry {
            id: contact.id,
            number: record.map_or(contact.id, |record| record.number),
            name: if name.is_empty() { contact.id.to_string() } else { name },
            pin,
            foreign: record.and_then(|record| record.foreign).filter(|key| Some(*key) != pin.key()),
            grants: match &contact.grants {
                Some(grants) => grants.iter().copied().collect(),
                None => CategorySet::from([PermissionCategory::System]),
            },
        }
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
            },
            None => Peer {
                id: PeerId(format!("claim:{}", envelope.from)),
                name: envelope.from.to_string(),
                assurance: Assurance::Unverified,
                grants: CategorySet::new(),
                key: None,
                contact: None,
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
        contact.pin = Pin::Learned { key, confirmed: false };
        let detail = format!(
            "the key {} is now pinned to {}; it has no grants until it is confirmed",
            key.fingerprint(),
            contact.name
        );
        (Some(Finding { kind: "new_pin", detail }), self.save(at, Some(now.unix_ms)))
    }

    fn foreign(&mut self, at: usize, key: PublicKey) -> (Option<Finding>, Result<(), StoreError>) {
        let Some(contact) = self.entries.get_mut(at) else { return (None, Ok(())) };
        let pinned = contact.pin.key().map_or("no key".to_owned(), |key| key.fingerprint());
        let detail = format!(
            "under the number of {} came the key {}; pinned is {pinned}, and stays",
            contact.name,
            key.fingerprint()
        );
        let news = contact.foreign != Some(key);
        contact.foreign = Some(key);
        let saved = if news { self.save(at, None) } else { Ok(()) };
        (Some(Finding { kind: "foreign_key", detail }), saved)
    }

    fn moved(&mut self, at: usize, to: NodeNum) -> (Option<Finding>, Result<(), StoreError>) {
        let Some(contact) = self.entries.get_mut(at) else { return (None, Ok(())) };
        let detail = format!("{} moved from {} to {to}, same key", contact.name, contact.number);
        contact.number = to;
        (Some(Finding { kind: "moved", detail }), self.save(at, None))
    }

    fn save(&mut self, at: usize, pinned_at: Option<u64>) -> Result<(), StoreError> {
        let Some(entry) = self.entries.get(at) else { return Ok(()) };
        let old = self.records.iter().position(|record| record.id == entry.id);
        let (key, confirmed) = match entry.pin {
            Pin::Learned { key, confirmed } => (Some(key), confirmed),
            Pin::Configured(_) | Pin::None => (None, false),
        };
        let record = Record {
            id: entry.id,
            number: entry.number,
            key,
            confirmed,
            foreign: entry.foreign,
            pinned_at: pinned_at
                .or(old.and_then(|at| self.records.get(at)).map(|old| old.pinned_at))
                .unwrap_or(0),
        };
        match old.and_then(|at| self.records.get_mut(at)) {
            Some(old) => *old = record,
            None => self.records.push(record),
        }
        let file = File { version: 1, contacts: self.records.clone() };
        store::replace_json(&self.path, &file, Durability::Process)
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

    /// Where the pins are, for syncing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with the configured contacts.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// As `mesh.assistant-status` shows them.
    pub fn view(&self) -> Vec<ContactView> {
        let view = |contact: &Entry| ContactView {
            id: contact.number,
            name: contact.name.clone(),
            fingerprint: contact.pin.key().map(|key| key.fingerprint()),
            pin: match contact.pin {
                Pin::None => "none",
                Pin::Configured(_) => "configured",
                Pin::Learned { confirmed: true, .. } => "confirmed",
                Pin::Learned { confirmed: false, .. } => "unconfirmed",
            },
            foreign_fingerprint: contact.foreign.map(|key| key.fingerprint()),
            grants: contact.grants.iter().map(ToString::to_string).collect(),
            grants_source: "default",
        };
        self.entries.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests;
