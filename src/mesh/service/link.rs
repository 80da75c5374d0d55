//! What the link tells the service, and the contacts that the radio itself has to know.
//!
//! Owns what the service remembers of the link, and when a pinned key is told to the radio. Decides nothing of a
//! message.

use std::sync::Arc;

use super::Mesh;
use crate::clock::Now;
use crate::mesh::inbox;
use crate::mesh::view::{MeshEvent, MeshStatus};
use crate::radio::known::NotAccepted;
use crate::radio::{LinkEvent, RadioInfo};

/// Contacts that the radio is told of at once: the link takes 64 packets, and answers need room too.
const CONTACTS_AT_ONCE: usize = 32;
/// Until the next ones: each costs the radio a write to its flash.
const CONTACTS_PAUSE_MS: u64 = 30_000;

impl Mesh {
    pub(super) fn link_event(&mut self, event: LinkEvent, now: Now) {
        match event {
            LinkEvent::Up(radio) => self.link_up(radio, now),
            LinkEvent::Down { reason } => {
                self.refused = None;
                self.link_down(reason, now);
            }
            LinkEvent::Refused(radio) => {
                let reason = radio.to_string();
                self.refused = Some(radio);
                self.link_down(reason, now);
            }
            LinkEvent::Packet(packet) => self.packet(&packet, now),
            LinkEvent::QueueStatus(status) => self.outbox.queue_status(status, now),
            LinkEvent::Node(info) => {
                if let Some(radio) = &self.radio {
                    self.nodes.learn(&info, radio.my_node);
                }
            }
            LinkEvent::Notification { reply_id, text } => {
                let text = inbox::clean_name(&text, 200);
                tracing::info!(about = %reply_id, "the radio says: {text}");
            }
        }
    }

    fn link_down(&mut self, reason: String, now: Now) {
        self.up = false;
        self.outbox.link_down(now);
        self.link.clone_from(&reason);
        self.tell(MeshEvent::Link { up: false, detail: reason });
    }

    /// The operator takes the radio that is on the port for the right one.
    pub(super) fn accept_radio(
        &mut self,
        fingerprint: &str,
        now: Now,
    ) -> Result<MeshStatus, NotAccepted> {
        self.sink.accept_radio(fingerprint)?;
        if let Some(radio) = self.refused.take() {
            self.link = format!("{} is accepted and being opened", radio.node);
        }
        Ok(self.status(now))
    }

    fn link_up(&mut self, radio: Arc<RadioInfo>, now: Now) {
        self.up = true;
        self.refused = None;
        self.drift.link_up(now.mono_ms);
        self.nodes.replace(&radio.nodes, radio.my_node);
        self.contacts.set_own_key(radio.public_key);
        self.outbox.link_up(Arc::clone(&radio), now);
        let name = inbox::clean_name(&radio.owner.long_name, 40);
        self.link = format!("connected to {} {name}", radio.my_node);
        self.radio = Some(radio);
        self.kept_in_radio.clear();
        self.lost_by_radio.clear();
        self.keep_contacts_in_radio(now);
        self.tell(MeshEvent::Link { up: true, detail: self.link.clone() });
    }

    /// Tells the radio the pinned keys that it does not hold, or holds wrongly; nothing twice in a session. What it
    /// can't take now is told a little later.
    pub(super) fn keep_contacts_in_radio(&mut self, now: Now) {
        self.contacts_due_ms = None;
        // In licensed mode the radio encrypts to nobody.
        let radio = self.radio.as_ref().filter(|radio| self.up && !radio.owner.licensed);
        let Some(radio) = radio else { return };
        let missing = self.contacts.entries().iter().filter_map(|contact| {
            let key = contact.pin.key()?;
            let wanted = (contact.number, key);
            let held = self.nodes.key_of(contact.number) == Some(key);
            (!held && !self.kept_in_radio.contains(&wanted)).then_some((wanted, &contact.name))
        });
        let (mut told, mut left) = (Vec::new(), false);
        for ((number, key), name) in missing {
            left = told.len() == CONTACTS_AT_ONCE
                || self.sink.add_contact(radio.session, number, name, key).is_err();
            if left {
                break;
            }
            told.push((number, key));
        }
        self.kept_in_radio.extend(told);
        self.contacts_due_ms = left.then(|| now.mono_ms.saturating_add(CONTACTS_PAUSE_MS));
    }

    /// The same for what was left, and for contacts whose key the radio has lost meanwhile: it makes room in its
    /// table for others. Once a session for each, so that a radio that keeps no key is not told with each answer.
    pub(super) fn keep_more_contacts_in_radio(&mut self, now: Now) {
        let mut due = self.contacts_due_ms.is_some_and(|due| due <= now.mono_ms);
        for node in self.outbox.take_unheld() {
            if self.lost_by_radio.insert(node) {
                self.nodes.forget_key(node);
                self.kept_in_radio.retain(|(kept, _)| *kept != node);
                due = true;
            }
        }
        if due {
            self.keep_contacts_in_radio(now);
        }
    }
}
