//! What the operator decides about contacts at run time.
//!
//! Owns which decisions are possible, and what each makes of `contacts.json`. A decision is planned first, on a copy:
//! what is refused, or can't be written, has changed nothing. Must not know who may decide.

use super::book::Book;
use super::shown::is_denied;
use super::{Contacts, Entry, Source, key};
use crate::assistant::PeerId;
use crate::clock::Now;
use crate::config::{Asker, MeshConfig};
use crate::invisible;
use crate::mesh::names;
use crate::mesh::operator::{Change, Refusal, Why};
use crate::node::{NodeNum, PublicKey};
use crate::store::{Durability, StoreError};

/// Contacts that may be added at run time.
pub const MOST_ADDED: usize = 200;
/// Askers that may be denied at run time.
const MOST_DENIED: usize = 200;

/// A decision that is possible, and not in force yet.
#[derive(Debug)]
pub struct Planned {
    pub(super) book: Book,
    /// A sentence for the record; empty where nothing changes.
    pub what: String,
    /// Whoever is not, or not surely, who they were: what waits for their confirmation is void.
    pub void: Vec<PeerId>,
    /// And what waits to be sent to them.
    pub silenced: bool,
    /// What the operator should look at.
    pub warnings: Vec<String>,
}

impl Planned {
    /// Is everything so already?
    pub fn is_nothing(&self) -> bool {
        self.what.is_empty()
    }
}

impl Contacts {
    /// What that decision would make of things. `configured` is what the configuration says.
    pub fn plan(
        &self,
        change: &Change,
        configured: &MeshConfig,
        now: Now,
    ) -> Result<Planned, Refusal> {
        let mut plan = self.nothing();
        match change {
            Change::AddContact { id, key, name } => {
                self.add(&mut plan, *id, *key, name.as_deref(), configured, now)?;
            }
            Change::RemoveContact { id } => self.remove(&mut plan, *id)?,
            Change::Suspend { id, suspended } => self.suspend(&mut plan, *id, *suspended)?,
            Change::Rename { id, name } => self.rename(&mut plan, *id, name)?,
            Change::Deny { asker, denied: true } => self.deny(&mut plan, asker, configured)?,
            Change::Deny { asker, denied: false } => self.undeny(&mut plan, asker, configured)?,
            Change::TrustedOnly(wanted) => {
                let now = plan.book.over(configured).trusted_only;
                plan.book.trusted_only = Some(*wanted).filter(|w| *w != configured.trusted_only);
                if now != *wanted {
                    let who = if *wanted { "only contacts are" } else { "everybody is" };
                    plan.what = format!("{who} answered");
                }
            }
            Change::Enabled(wanted) => {
                let now = plan.book.over(configured).enabled;
                plan.book.enabled = Some(*wanted).filter(|w| *w != configured.enabled);
                if now != *wanted {
                    plan.what = format!("answering is {}", if *wanted { "on" } else { "off" });
                }
            }
            Change::Model(name) => {
                let name = invisible::word(name, 100);
                plan.what = format!("model chosen: {name}");
            }
            Change::Key { id, fingerprint, pinned, accept } => {
                let contact = self.named("id", *id)?;
                key::check_pinned(contact, pinned.as_deref())?;
                if *accept {
                    self.accept_key(&mut plan, contact, fingerprint, now)?;
                } else {
                    key::refuse(&mut plan, contact, fingerprint)?;
                }
            }
        }
        Ok(plan)
    }

    /// Brings a decision into force; it is on the disk when this returns.
    ///
    /// # Errors
    /// When it can't be written: then it is not in force.
    pub fn carry_out(&mut self, planned: Planned) -> Result<(), StoreError> {
        if planned.book == self.book {
            return Ok(());
        }
        planned.book.write(&self.path, Durability::Disk)?;
        self.book = planned.book;
        self.join();
        Ok(())
    }

    /// Can one more contact be added?
    pub fn has_room(&self) -> Result<(), Refusal> {
        if self.book.contacts.iter().filter(|record| record.added).count() < MOST_ADDED {
            return Ok(());
        }
        let reason =
            format!("there are {MOST_ADDED} contacts already: remove one that is not needed");
        Err(Refusal::state("", reason))
    }

    pub(super) fn nothing(&self) -> Planned {
        Planned {
            book: self.book.clone(),
            what: String::new(),
            void: Vec::new(),
            silenced: false,
            warnings: Vec::new(),
        }
    }

    fn named(&self, field: &'static str, id: NodeNum) -> Result<&Entry, Refusal> {
        self.of_number(id).ok_or_else(|| Refusal::wrong(field, format!("there is no contact {id}")))
    }

    fn add(
        &self,
        plan: &mut Planned,
        id: NodeNum,
        key: Option<PublicKey>,
        name: Option<&str>,
        configured: &MeshConfig,
        now: Now,
    ) -> Result<(), Refusal> {
        if !id.is_peer() {
            let reason = "the broadcast address and ids below !00000004 are no contacts";
            return Err(Refusal::wrong("id", reason));
        }
        if let Some(known) = self.of_number(id) {
            let reason = format!("{} is a contact already: {}", id, known.name);
            return Err(Refusal::wrong("id", reason));
        }
        let name =
            name.map(names::check).transpose().map_err(|rule| Refusal::wrong("name", rule))?;
        if let Some(key) = key {
            self.check_key("key", key)?;
        }
        self.has_room()?;
        // What was learnt when it was listed before still holds, but for a key that is another's now.
        let record = plan.book.record_mut(id, id);
        record.key = record.key.filter(|key| self.check_key("key", *key).is_ok());
        (record.added, record.suspended, record.name) = (true, false, name.clone());
        if let Some(key) = key {
            record.pin(key, true, now.unix_ms);
        }
        let (key, confirmed) = (record.key, record.confirmed);
        let pinned = match key {
            Some(key) if confirmed => format!("the key {}", key.fingerprint()),
            Some(key) => format!("the key {}, not confirmed", key.fingerprint()),
            None => "no key yet".to_owned(),
        };
        let called = name.unwrap_or_else(|| id.to_string());
        plan.what = format!("contact added: {called} ({id}) with {pinned}");
        plan.warnings = self.about_name(&called, None);
        let denied = plan.book.over(configured).denied_askers.iter().any(|asker| match asker {
            Asker::Node(number) => *number == id,
            Asker::Key(denied) => key == Some(*denied),
        });
        if denied {
            plan.warnings.push(format!("{called} is denied, and so is not answered"));
        }
        if key.is_none() {
            plan.warnings.push(format!(
                "{called} has no key: the first that sends an encrypted message under {id} is pinned, and has no grants \
                 until its fingerprint is confirmed"
            ));
        }
        Ok(())
    }

    /// May that key become somebody's?
    pub(super) fn check_key(&self, field: &'static str, key: PublicKey) -> Result<(), Refusal> {
        if self.own_key == Some(key) {
            return Err(Refusal::wrong(field, "this is the key of the node's own radio"));
        }
        match self.of_key(key) {
            Some(other) => {
                Err(Refusal::wrong(field, format!("this key is pinned to {}", about(other))))
            }
            None => Ok(()),
        }
    }

    fn remove(&self, plan: &mut Planned, id: NodeNum) -> Result<(), Refusal> {
        let contact = self.named("id", id)?;
        if contact.source == Source::Configuration {
            return Err(Refusal {
                why: Why::Configured("mesh.allowed_contacts"),
                field: "id",
                reason: format!("{} is a contact by the configuration", about(contact)),
            });
        }
        plan.book.contacts.retain(|record| record.id != contact.id);
        plan.what = format!("contact removed: {}", about(contact));
        (plan.void, plan.silenced) = (peers_of(contact), true);
        Ok(())
    }

    fn suspend(&self, plan: &mut Planned, id: NodeNum, suspended: bool) -> Result<(), Refusal> {
        let contact = self.named("id", id)?;
        if contact.suspended == suspended {
            return Ok(());
        }
        plan.book.record_mut(contact.id, contact.number).suspended = suspended;
        let word = if suspended { "suspended" } else { "answered again" };
        plan.what = format!("contact {word}: {}", about(contact));
        if suspended {
            (plan.void, plan.silenced) = (peers_of(contact), true);
        }
        Ok(())
    }

    fn rename(&self, plan: &mut Planned, id: NodeNum, name: &str) -> Result<(), Refusal> {
        let contact = self.named("id", id)?;
        let name = names::check(name).map_err(|rule| Refusal::wrong("name", rule))?;
        plan.warnings = self.about_name(&name, Some(contact.id));
        if contact.name == name {
            return Ok(());
        }
        let configured = self.configured.iter().find(|c| c.id == contact.id);
        let given = configured.and_then(|c| c.name.as_deref());
        let record = plan.book.record_mut(contact.id, contact.number);
        record.name = Some(name.clone()).filter(|name| given != Some(name));
        plan.what = format!("contact renamed: {} is now {name}", about(contact));
        Ok(())
    }

    fn deny(
        &self,
        plan: &mut Planned,
        asker: &Asker,
        configured: &MeshConfig,
    ) -> Result<(), Refusal> {
        if let Asker::Node(number) = asker
            && !number.is_peer()
        {
            let reason = "the broadcast address and ids below !00000004 are nobody's: texts under them are never answered";
            return Err(Refusal::wrong("asker", reason));
        }
        if matches!(asker, Asker::Key(key) if self.own_key == Some(*key)) {
            return Err(Refusal::wrong("asker", "this is the key of the node's own radio"));
        }
        for asker in self.meant_by(asker) {
            if plan.book.denied.contains(&asker) || configured.denied_askers.contains(&asker) {
                continue;
            }
            if plan.book.denied.len() >= MOST_DENIED {
                let reason =
                    format!("{MOST_DENIED} are denied already: take one back that is not needed");
                return Err(Refusal::state("asker", reason));
            }
            plan.book.denied.push(asker);
        }
        if plan.book.denied == self.book.denied {
            return Ok(());
        }
        plan.what = format!("denied: {}", named(asker));
        let now = plan.book.over(configured);
        let hit = self.entries.iter().filter(|contact| is_denied(contact, &now));
        plan.void = hit.flat_map(peers_of).collect();
        match asker {
            Asker::Node(number) => plan.void.push(PeerId(format!("claim:{number}"))),
            Asker::Key(key) => {
                plan.void.push(PeerId(format!("key:{key}")));
                plan.void.push(PeerId(format!("signed:{key}")));
            }
        }
        plan.void.sort();
        plan.void.dedup();
        plan.silenced = true;
        Ok(())
    }

    fn undeny(
        &self,
        plan: &mut Planned,
        asker: &Asker,
        configured: &MeshConfig,
    ) -> Result<(), Refusal> {
        let meant = self.meant_by(asker);
        plan.book.denied.retain(|denied| !meant.contains(denied));
        let still = meant.iter().any(|asker| configured.denied_askers.contains(asker));
        let reason = format!("{} is denied by the configuration", named(asker));
        match (plan.book.denied == self.book.denied, still) {
            (true, true) => {
                let why = Why::Configured("mesh.denied_askers");
                return Err(Refusal { why, field: "asker", reason });
            }
            (true, false) => {
                return Err(Refusal::wrong("asker", format!("{} is not denied", named(asker))));
            }
            (false, true) => plan.warnings.push(reason),
            (false, false) => {}
        }
        plan.what = format!("no longer denied: {}", named(asker));
        Ok(())
    }

    /// A contact that has moved is meant by its present number and by the one under which it is listed.
    fn meant_by(&self, asker: &Asker) -> Vec<Asker> {
        let mut meant = vec![asker.clone()];
        if let Asker::Node(number) = asker
            && let Some(contact) = self.of_number(*number).filter(|contact| contact.id != *number)
        {
            meant.push(Asker::Node(contact.id));
        }
        meant
    }

    /// Where the pins are, for syncing.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}

/// Under which names the contact is known to queues and gates.
pub(super) fn peers_of(contact: &Entry) -> Vec<PeerId> {
    let key = contact.pin.key();
    key.map_or_else(Vec::new, |key| {
        vec![PeerId(format!("key:{key}")), PeerId(format!("signed:{key}"))]
    })
}

pub(super) fn about(contact: &Entry) -> String {
    format!("{} ({})", contact.name, contact.number)
}

/// A key is named by its fingerprint.
fn named(asker: &Asker) -> String {
    match asker {
        Asker::Node(number) => number.to_string(),
        Asker::Key(key) => format!("the key {}", key.fingerprint()),
    }
}
