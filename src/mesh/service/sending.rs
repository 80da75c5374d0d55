//! Texts of the operator's: `mesh.send`.
//!
//! Owns which may go, and to whom. They leave through the outbox like anything else, under the same law and pace.

use super::Mesh;
use super::outgoing::Shown;
use crate::assistant::{Assurance, PeerId, TurnId};
use crate::clock::Now;
use crate::mesh::operator::{Queued, Refusal, Text, Wish};
use crate::mesh::outbox::{Destination, NewReply, ReplyKind};
use crate::mesh::reply;
use crate::mesh::view::{Delivery, MessageView};
use crate::node::{NodeNum, PacketId, PublicKey};
use tombolo_hw::text::DIRECT_BUDGET;

/// With so many parts waiting, one more of the operator's would not leave soon.
const MOST_WAITING: usize = 16;

/// Whom a text goes to.
struct Receiver {
    node: NodeNum,
    key: PublicKey,
    name: String,
    assurance: Assurance,
}

impl Mesh {
    /// Takes a text for one node. Refused where it could not leave about now: nothing of the operator's waits unseen.
    pub(super) fn send_text(&mut self, wish: &Wish<Text>, now: Now) -> Result<Queued, Refusal> {
        let Text { to, text, ack } = &wish.what;
        let text = reply::tidy(text);
        if text.is_empty() {
            return Err(Refusal::wrong("text", "a text is not empty"));
        }
        if text.len() > DIRECT_BUDGET {
            let bytes = text.len();
            let reason =
                format!("this text has {bytes} bytes of UTF-8; one message holds {DIRECT_BUDGET}");
            return Err(Refusal::wrong("text", reason));
        }
        let receiver = self.receiver(*to)?;
        self.can_send_now(now)?;
        let id = new_id()?;
        // Who, to whom and how long; the words are the receiver's.
        let what = format!("text of {} bytes to {} ({to})", text.len(), receiver.name);
        self.note_change(&wish.by, &what, now)?;
        let new = NewReply {
            secret: None,
            id: id.clone(),
            peer: PeerId(format!("key:{}", receiver.key)),
            name: receiver.name.clone(),
            to: Destination::Direct { node: receiver.node, key: Some(receiver.key) },
            in_reply_to: None,
            kind: ReplyKind::Text { ack: *ack },
            hops: None,
            text: text.clone(),
        };
        self.outbox.submit(new, now)?;
        self.outbox_changed(now);
        let shown = Shown {
            // What comes back soon after it is no loop.
            peer: PeerId(String::new()),
            node: receiver.node,
            assurance: receiver.assurance,
            channel: None,
        };
        self.remember_receiver(id.clone(), shown);
        let view = MessageView {
            at: now.unix_ms,
            direction: "out",
            node: receiver.node,
            name: receiver.name.clone(),
            assurance: receiver.assurance,
            channel: None,
            text: text.clone(),
            delivery: Some(Delivery::Queued),
            ignored: None,
            id: PacketId(0),
            snr: None,
            rssi: None,
        };
        self.messages.push_out(&id, 1, view);
        Ok(Queued {
            reply: id.0,
            to: receiver.node,
            name: receiver.name,
            bytes: text.len(),
            budget: DIRECT_BUDGET,
        })
    }

    /// Only with a key: without one the radio may send it with the channel's, for everybody to read.
    fn receiver(&self, to: NodeNum) -> Result<Receiver, Refusal> {
        if let Some(contact) = self.contacts.of_number(to) {
            let Some(key) = contact.pin.key() else {
                let reason = format!(
                    "no key of {} is known yet: a text to it could be read by everybody on the channel",
                    contact.name
                );
                return Err(Refusal::state("to", reason));
            };
            let (node, name) = (contact.number, contact.name.clone());
            return Ok(Receiver { node, key, name, assurance: Assurance::Verified });
        }
        let ours = self.radio.as_ref().is_some_and(|radio| radio.my_node == to);
        if ours || !to.is_peer() {
            let reason =
                format!("{to} is no other node: write the number of a contact or of a heard node");
            return Err(Refusal::wrong("to", reason));
        }
        let Some(name) = self.nodes.knows(to) else {
            return Err(Refusal::wrong(
                "to",
                format!("no node {to} was heard, and it is no contact"),
            ));
        };
        let Some(key) = self.nodes.key_of(to) else {
            let reason = format!(
                "the radio has no key of {to}: a text to it could be read by everybody on the channel"
            );
            return Err(Refusal::state("to", reason));
        };
        let name = if name.is_empty() { to.to_string() } else { name.to_owned() };
        Ok(Receiver { node: to, key, name, assurance: Assurance::Unverified })
    }

    fn can_send_now(&self, now: Now) -> Result<(), Refusal> {
        if self.stopped {
            let reason = "everything is stopped: resume first (mesh.stop-all)";
            return Err(Refusal::state("", reason));
        }
        let Some(radio) = self.radio.as_ref().filter(|_| self.up) else {
            return Err(Refusal::state("", format!("there is no radio: {}", self.link)));
        };
        if radio.owner.licensed {
            let reason = "the radio is in licensed mode: it encrypts nothing, and the text was for one node alone";
            return Err(Refusal::state("", reason));
        }
        let air = self.outbox.airtime(now);
        if let Some(paused) = air.paused {
            return Err(Refusal::state("", format!("nothing is sent now: {paused}")));
        }
        if air.recovers_in_s > 0 {
            let minutes = air.recovers_in_s.div_ceil(60);
            let reason = format!("this hour's airtime is used up: free again in {minutes} min");
            return Err(Refusal::state("", reason));
        }
        if self.outbox.counts().0 >= MOST_WAITING {
            let reason =
                format!("{MOST_WAITING} parts wait to leave already: try again in some minutes");
            return Err(Refusal::state("", reason));
        }
        Ok(())
    }
}

fn new_id() -> Result<TurnId, Refusal> {
    let random = getrandom::u64().map_err(|error| {
        tracing::error!(error = %error, "the system gives no random numbers");
        Refusal::state("", "the system gives no random numbers")
    })?;
    Ok(TurnId(format!("s-{random:016x}")))
}
