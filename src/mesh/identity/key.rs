//! Which key is a contact's: the operator's decision, and pairing by a code.
//!
//! Owns what each makes of `contacts.json`, as a plan. Must not know how a code was checked, nor who may decide.

use super::book::{Record, default_grants};
use super::change::{Planned, about, peers_of};
use super::{Contacts, Entry, Pin};
use crate::clock::Now;
use crate::mesh::operator::Refusal;
use crate::node::{NodeNum, PublicKey};

/// Refused keys that are remembered of a contact; the oldest makes room.
const MOST_REFUSED: usize = 8;

impl Contacts {
    /// The holder of this key sent the code that was meant for `name`: it is a contact now, and its key is confirmed.
    /// Gives the contact's name.
    ///
    /// The number that it came under is a claim, so it gives nobody another contact's place or grants: only a contact
    /// without a key under that number is taken to be meant, if it has exactly that name, or none and the usual grants.
    pub fn plan_pairing(
        &self,
        key: PublicKey,
        from: NodeNum,
        name: &str,
        now: Now,
    ) -> Result<(Planned, String), Refusal> {
        let mut plan = self.nothing();
        let fingerprint = key.fingerprint();
        if let Some(known) = self.of_key(key)
            && (known.pin.is_confirmed() || known.name == name)
        {
            plan.what = format!("paired: {fingerprint} is {}, and confirmed", about(known));
            if !known.pin.is_confirmed() {
                plan.book.record_mut(known.id, known.number).pin(key, true, now.unix_ms);
            }
            return Ok((plan, known.name.clone()));
        }
        // Pinned to somebody else by its number alone: the code says more.
        if let Some(known) = self.of_key(key) {
            let record = plan.book.record_mut(known.id, known.number);
            (record.key, record.confirmed) = (None, false);
        }
        let claimed = self.of_number(from);
        let nobody = |contact: &Entry| {
            contact.name == contact.id.to_string() && contact.grants == default_grants()
        };
        let meant = claimed.filter(|c| c.pin == Pin::None && (c.name == name || nobody(c)));
        if let Some(meant) = meant {
            let record = plan.book.record_mut(meant.id, meant.number);
            record.pin(key, true, now.unix_ms);
            if meant.name != name {
                record.name = Some(name.to_owned());
            }
            plan.what = format!("paired: {} has the key {fingerprint}", about(meant));
            return Ok((plan, name.to_owned()));
        }
        self.has_room()?;
        let id = if claimed.is_none() { from } else { self.id_of_its_own(key) };
        let record = plan.book.record_mut(id, id);
        *record = Record::new(id, id);
        (record.added, record.name) = (true, Some(name.to_owned()));
        record.pin(key, true, now.unix_ms);
        plan.what = format!("paired: {name} ({id}) has the key {fingerprint}");
        Ok((plan, name.to_owned()))
    }

    /// An id that no contact has, for a key whose number belongs to another contact.
    fn id_of_its_own(&self, key: PublicKey) -> NodeNum {
        let first = u32::from_le_bytes([key.0[0], key.0[1], key.0[2], key.0[3]]);
        let taken = |id: &NodeNum| {
            !id.is_peer() || self.of_number(*id).is_some() || self.book.record(*id).is_some()
        };
        // Some 200 contacts: one of so many is free.
        let tried = (0..=u32::from(u16::MAX)).map(|step| NodeNum(first.wrapping_add(step)));
        tried.into_iter().find(|id| !taken(id)).unwrap_or(NodeNum(first))
    }

    pub(super) fn accept_key(
        &self,
        plan: &mut Planned,
        contact: &Entry,
        fingerprint: &str,
        now: Now,
    ) -> Result<(), Refusal> {
        if let Some(foreign) = contact.foreign.filter(|key| same(&key.fingerprint(), fingerprint)) {
            self.check_key("fingerprint", foreign)?;
            let configured = self.configured.iter().find(|c| c.id == contact.id);
            let record = plan.book.record_mut(contact.id, contact.number);
            record.pin(foreign, true, now.unix_ms);
            record.replaces = configured.and_then(|c| c.key);
            plan.what = format!(
                "key accepted: {} has {} now; before it had {}",
                about(contact),
                foreign.fingerprint(),
                pinned(contact)
            );
            (plan.void, plan.silenced) = (peers_of(contact), true);
            return Ok(());
        }
        match contact.pin {
            Pin::Learned { key, confirmed: false } if same(&key.fingerprint(), fingerprint) => {
                plan.book.record_mut(contact.id, contact.number).confirmed = true;
                plan.what = format!("key confirmed: {} has {}", about(contact), key.fingerprint());
                plan.void = peers_of(contact);
                Ok(())
            }
            _ if contact.pin.key().is_some_and(|key| same(&key.fingerprint(), fingerprint)) => {
                Ok(())
            }
            _ => Err(stale(contact, fingerprint)),
        }
    }
}

/// That key is not this contact's: it is dropped, and not told again.
pub(super) fn refuse(
    plan: &mut Planned,
    contact: &Entry,
    fingerprint: &str,
) -> Result<(), Refusal> {
    let is = |key: &PublicKey| same(&key.fingerprint(), fingerprint);
    let record = plan.book.record_mut(contact.id, contact.number);
    let refused = match (contact.foreign.filter(is), contact.pin) {
        (Some(foreign), _) => {
            record.foreign = None;
            foreign
        }
        (None, Pin::Learned { key, confirmed: false }) if is(&key) => {
            record.key = None;
            (plan.void, plan.silenced) = (peers_of(contact), true);
            key
        }
        (None, Pin::Configured(key) | Pin::Learned { key, .. }) if is(&key) => {
            let reason = format!(
                "this is the confirmed key of {}: suspend the contact, or remove it",
                about(contact)
            );
            return Err(Refusal::wrong("fingerprint", reason));
        }
        _ => return Err(stale(contact, fingerprint)),
    };
    if record.refused.len() >= MOST_REFUSED {
        record.refused.remove(0);
    }
    record.refused.push(refused);
    plan.what = format!("key refused: {} is not {}", refused.fingerprint(), about(contact));
    Ok(())
}

/// The operator decided on what it saw: has that changed since?
pub(super) fn check_pinned(contact: &Entry, seen: Option<&str>) -> Result<(), Refusal> {
    let pinned = contact.pin.key().map(|key| key.fingerprint());
    match seen {
        Some(seen) if !pinned.as_deref().is_some_and(|pinned| same(pinned, seen)) => {
            let reason = format!(
                "the pinned key of {} is {} meanwhile: look again",
                contact.name,
                pinned.as_deref().unwrap_or("none")
            );
            Err(Refusal::wrong("pinned", reason))
        }
        _ => Ok(()),
    }
}

fn stale(contact: &Entry, fingerprint: &str) -> Refusal {
    let shown: String = fingerprint.chars().filter(|c| c.is_ascii_graphic()).take(40).collect();
    let foreign = contact.foreign.map_or("none".to_owned(), |key| key.fingerprint());
    let reason = format!(
        "no key `{shown}` waits for a decision at {}: pinned is {}, foreign is {foreign}; look again",
        contact.name,
        pinned(contact)
    );
    Refusal::wrong("fingerprint", reason)
}

fn pinned(contact: &Entry) -> String {
    contact.pin.key().map_or("none".to_owned(), |key| key.fingerprint())
}

/// Are they the same digits? Spaces and case don't matter.
fn same(fingerprint: &str, given: &str) -> bool {
    let digits = |text: &str| -> String {
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()).collect()
    };
    digits(fingerprint) == digits(given)
}
