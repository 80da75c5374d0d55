//! The outbox: the one gate for everything that leaves for the air.
//!
//! Owns what waits to be sent, what is on its way and what is known of it; on disk, so that a restart
//! loses nothing and repeats nothing. A state machine without I/O to the radio and without a clock: it is
//! told what happened and when, and says what to send. Must not know why an answer says what it says.

mod backlog;
mod event;
mod flight;
mod folder;
mod gate;
mod keep;
mod part;
mod recall;
mod refusal;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use self::event::Events;
use self::flight::Flight;
use self::folder::Folder;
use self::gate::Gate;
use self::part::{Known, Reply, Stage, Stamp};
pub use self::recall::Again;
use crate::assistant::{PeerId, TurnId};
use crate::clock::Now;
use crate::mesh::airtime::Ledger;
use crate::mesh::airtime::law::{Air, Law};
use crate::mesh::view::{AirtimeView, MeshEvent};
use crate::node::{NodeNum, PacketId, PublicKey};
use crate::radio::{Outbound, RadioInfo, Telemetry};
use crate::secrets::Secret;
use crate::store::StoreError;

/// Where a reply goes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Destination {
    /// A direct message.
    Direct {
        /// The peer's present number.
        node: NodeNum,
        /// With a key: PKI to exactly that key, never the channel key. Without: an unverified peer, whose
        /// question came as a direct message; sent as the radio sends it.
        key: Option<PublicKey>,
    },
    /// A broadcast on a channel.
    Channel {
        /// The local index.
        index: u32,
    },
}

/// What kind of reply it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ReplyKind {
    /// An answer of the assistant: planned in bursts, kept for `more`.
    Answer,
    /// The fixed answer to a command: one part, not kept.
    Command,
    /// The acknowledgement of a distress text: one part, not kept, before everything else that has not left yet.
    Distress,
    /// A notice such as "busy": one part, not kept, dropped rather than delayed over two minutes.
    Notice,
    /// A reaction to the question: the text is the emoji. Best effort.
    Reaction,
    /// Asks for a confirmation: one part with a code that is in no file, no event and no list. Dropped rather than
    /// delayed over two minutes; after a restart it says that nothing was done.
    Confirm,
    /// A text of the operator's: one part, counted like an answer, no peer's `more`, `again` or `stop` touches it.
    Text {
        /// Does it ask for an ack?
        ack: bool,
    },
}

/// A reply to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReply {
    /// The turn it ends. Submitting the same id again does nothing.
    pub id: TurnId,
    /// Whose it is: `more` and `stop` go by this.
    pub peer: PeerId,
    /// What to call the peer.
    pub name: String,
    /// Where it goes.
    pub to: Destination,
    /// The packet that it replies to.
    pub in_reply_to: Option<PacketId>,
    /// What kind it is.
    pub kind: ReplyKind,
    /// The hops that the packet took to us, where known: the reply is given one more, and the radio's own limit
    /// when that was too few.
    pub hops: Option<u32>,
    /// Markdown or plain text; the outbox plans it.
    pub text: String,
    /// What is masked wherever the text is shown: a confirmation code.
    pub secret: Option<Secret>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Hand this to the radio now. It is charged and on disk already.
    Send(Outbound),
    /// Nothing before that time ([`Now::mono_ms`]); `None`: until something happens.
    Wait(Option<u64>),
}

/// The gate, and everything that waits behind it or is on its way.
///
/// Three stages of a part make the promise that nothing is lost and nothing sent twice. *Queued*: it goes
/// under a new id. *Handed*, with a flight in memory: what happens next is told by the radio or by a timer.
/// *Handed* without one (the link broke, the process died): its fate is unknown, so it goes again first,
/// under the same id, which radios that had it drop. Every change of stage is on disk before the radio
/// sees its effect.
#[derive(Debug)]
pub struct Outbox {
    folder: Folder,
    ledger: Ledger,
    air: Air,
    boot: String,
    max_parts: usize,
    /// What the last handshake told; kept while the link is down.
    radio: Option<Arc<RadioInfo>>,
    law: Result<Law, String>,
    up: bool,
    /// The operator has stopped everything.
    stopped: bool,
    /// By order. Bounded: see [`keep`].
    replies: BTreeMap<u64, Reply>,
    next_order: u64,
    /// By the packet's id: at most one of a peer.
    flights: BTreeMap<PacketId, Flight>,
    gate: Gate,
    /// When each peer was last served, in turns: the one that waits longest goes first.
    served: HashMap<PeerId, u64>,
    turn: u64,
    /// Replies whose file is older than memory: nothing is sent until they are written.
    unwritten: BTreeSet<u64>,
    next_sweep_ms: u64,
    /// See [`Outbox::take_unheld`]; at most one a flight until it is taken.
    unheld: Vec<NodeNum>,
    events: Events,
}

impl Outbox {
    /// Opens `replies/` and `airtime.log` in the data folder and goes on where the last process stopped.
    /// `share` of what the law allows; `max_parts` in a burst.
    ///
    /// # Errors
    /// When the folder or the ledger can't be read or written.
    pub fn open(
        data: &Path,
        share: f64,
        max_parts: usize,
        now: Now,
        boot_id: &str,
    ) -> Result<Outbox, StoreError> {
        let ledger = Ledger::open(data, boot_id, now)?;
        let (folder, replies) = Folder::open(data)?;
        let mut kept = BTreeMap::new();
        let mut unwritten = BTreeSet::new();
        for (mut reply, order) in replies.into_iter().zip(0..) {
            if reply.order != order {
                unwritten.insert(order);
            }
            reply.order = order;
            kept.insert(order, reply);
        }
        let mut outbox = Outbox {
            gate: Gate::new(ledger.last_text_ms()),
            folder,
            ledger,
            air: Air::new(share),
            boot: boot_id.to_owned(),
            max_parts,
            radio: None,
            law: Err("there has been no radio yet".to_owned()),
            up: false,
            stopped: false,
            next_order: kept.len() as u64,
            replies: kept,
            flights: BTreeMap::new(),
            served: HashMap::new(),
            turn: 0,
            unwritten,
            next_sweep_ms: now.mono_ms,
            unheld: Vec::new(),
            events: Events::default(),
        };
        outbox.take_over(now)?;
        Ok(outbox)
    }

    /// Takes settings that were read again. Replies that are planned already stay as they are.
    pub fn configure(&mut self, share: f64, max_parts: usize) {
        self.air.set_share(share);
        self.max_parts = max_parts;
    }

    /// A handshake is complete.
    pub fn link_up(&mut self, radio: Arc<RadioInfo>, now: Now) {
        self.link_down(now); // if nobody said so: what was on its way to an earlier session
        self.law = Law::of(&radio);
        self.radio = Some(radio);
        self.up = true;
        self.gate.link_up();
    }

    /// The link is lost: the fate of what was on its way is unknown.
    pub fn link_down(&mut self, now: Now) {
        self.up = false;
        let lost: Vec<PacketId> = self.flights.keys().copied().collect();
        for id in lost {
            self.lose(id, now);
        }
        self.flush();
    }

    /// Our own node's figures.
    pub fn telemetry(&mut self, metrics: Telemetry, now: Now) {
        self.air.telemetry(metrics, now);
    }

    /// Plans and keeps a reply; it is safe from a kill when this returns. The same id again does nothing.
    /// Gives the number of parts.
    ///
    /// # Errors
    /// When it can't be written: then it is not kept.
    pub fn submit(&mut self, reply: NewReply, now: Now) -> Result<usize, StoreError> {
        if let Some(known) = self.replies.values().find(|kept| kept.id == reply.id) {
            return Ok(known.parts.len());
        }
        let order = self.next_order;
        let reply = Reply::plan(reply, order, self.max_parts, self.stamp(now));
        let parts = reply.parts.len();
        if parts == 0 {
            return Ok(0);
        }
        self.folder.write(&reply)?;
        self.next_order += 1;
        self.replies.insert(order, reply);
        self.make_room();
        Ok(parts)
    }

    /// A reply of that name may come: what can be done for it before is done now.
    pub fn expect(&mut self, id: &TurnId) {
        self.folder.prepare(id);
    }

    /// No reply of that name will come any more, if none has.
    pub fn expect_no_more(&mut self, id: &TurnId) {
        self.folder.unprepare(id);
    }

    /// Was it submitted before, and is it still kept?
    pub fn knows(&self, id: &TurnId) -> bool {
        self.replies.values().any(|reply| reply.id == *id)
    }

    /// Was that packet answered by a reply that is still kept, or did it release parts of one?
    pub fn has_done(&self, order: &TurnId) -> bool {
        self.replies.values().any(|reply| reply.id == *order || reply.orders.contains(order))
    }

    /// What happened since this was last asked. Bounded: when nobody asks, the oldest are dropped.
    pub fn take_events(&mut self) -> Vec<MeshEvent> {
        self.events.take()
    }

    /// For `mesh.airtime`.
    pub fn airtime(&self, now: Now) -> AirtimeView {
        let law = self.law.as_ref().ok();
        let full_us = law.map_or(0, flight::full_part_us);
        let mut view = self.air.view(law, full_us, &self.ledger, now);
        view.paused = self.obstacle(now).map(|obstacle| obstacle.reason);
        view
    }

    /// Parts that wait to leave, and answers that are kept for peers who are away or may ask for more.
    pub fn counts(&self) -> (usize, usize) {
        let waiting = |reply: &Reply| {
            let released = reply.parts.iter().take(reply.released);
            let unsettled = released.filter(|part| part.stage != Stage::Settled);
            unsettled.filter(|p| !p.id().is_some_and(|id| self.flights.contains_key(&id))).count()
        };
        let parts = self.replies.values().map(waiting).sum();
        let kept = self.replies.values().filter(|r| r.waits_for_more() || r.held()).count();
        (parts, kept)
    }

    /// How much is held in memory.
    pub fn sizes(&self) -> [(&'static str, usize); 6] {
        [
            ("replies", self.replies.len()),
            ("parts", self.replies.values().map(|reply| reply.parts.len()).sum()),
            ("flights", self.flights.len()),
            ("served peers", self.served.len()),
            ("events", self.events.len()),
            ("ledger lines", self.ledger.len()),
        ]
    }

    /// How long a full part is on air, ms; 0 while that is not known.
    pub fn full_frame_ms(&self) -> u64 {
        let us = self.law.as_ref().map_or(0, flight::full_part_us) / flight::TRANSMISSIONS;
        us / 1000
    }

    fn stamp(&self, now: Now) -> Stamp {
        Stamp { boot: self.boot.clone(), mono_ms: now.mono_ms }
    }

    /// Where a packet of ours belongs: the reply's order and the part, counted from 0.
    fn part_of(&self, id: PacketId) -> Option<(u64, usize)> {
        if id.0 == 0 {
            return None;
        }
        self.replies.iter().find_map(|(order, reply)| {
            let part = reply.parts.iter().position(|part| part.ids.contains(&id))?;
            Some((*order, part))
        })
    }

    /// Changes a part, and says so.
    fn set(&mut self, order: u64, part: usize, stage: Stage, known: Known) {
        let Some(reply) = self.replies.get_mut(&order) else { return };
        let Some(entry) = reply.parts.get_mut(part) else { return };
        let changed = entry.known != known;
        entry.stage = stage;
        entry.known = known;
        if changed {
            self.events.state(reply, part);
        }
        self.unwritten.insert(order);
    }

    /// Writes what has changed. What can't be written stays marked.
    fn flush(&mut self) {
        let folder = &mut self.folder;
        let replies = &self.replies;
        self.unwritten.retain(|order| {
            let Some(reply) = replies.get(order) else { return false };
            match folder.write(reply) {
                Ok(()) => false,
                Err(error) => {
                    tracing::error!(%error, "a reply's state can't be written");
                    true
                }
            }
        });
    }
}
