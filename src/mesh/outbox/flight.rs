//! What is on its way: from the hand-over to the radio until its end is known.
//!
//! Owns the flights and their timers, acks, and the loss of the link. Refusals are [`super::refusal`]'s.
//!
//! How an ack moves a part on: the destination's ack delivers it and the next part may leave. After another
//! node's repetition (*relayed*) the radio repeats no more, and what is lost behind that relay nobody repeats: one
//! full retry time after the hand-over, without a real ack, the part goes once more if its peer was heard meanwhile,
//! else it waits until it is heard; once, then the next part leaves. After silence it leaves when three of
//! those times have passed (*not confirmed*). A real ack counts whenever it comes.

use super::part::{Known, Stage};
use super::{Outbox, ReplyKind};
use crate::assistant::PeerId;
use crate::clock::Now;
use crate::mesh::airtime::law::Law;
use crate::node::{NodeNum, PacketId};
use tombolo_hw::text::{self, PacketKind};

/// The radio transmits a packet that wants an ack so many times.
pub(super) const TRANSMISSIONS: u64 = 3;
/// Without a `QueueStatus` for so long the radio had the packet already, or its answer was lost.
const TAKEN_MS: u64 = 5_000;
/// Silence counts as *not confirmed* after so many full retry times.
const PATIENCE: u64 = 3;

#[derive(Debug, Clone)]
pub(super) struct Flight {
    pub order: u64,
    pub part: usize,
    pub peer: PeerId,
    pub handed_ms: u64,
    /// The radio repeats at the earliest after so long.
    pub interval_ms: u64,
    /// The radio gives up after about so long.
    pub full_ms: u64,
    pub airtime_us: u32,
    pub want_ack: bool,
    /// When another node was first heard passing it on.
    pub relayed_ms: Option<u64>,
    /// Something was heard of the peer since: it is there.
    pub peer_heard: bool,
}

impl Flight {
    /// When its timer ends.
    pub fn due_ms(&self) -> u64 {
        let (since, patience) = match (self.want_ack, self.relayed_ms) {
            (false, _) => (self.handed_ms, TAKEN_MS),
            (true, Some(heard_ms)) => (heard_ms, self.full_ms),
            (true, None) => (self.handed_ms, PATIENCE * self.full_ms),
        };
        since.saturating_add(patience)
    }

    /// The most that the radio's repetitions can have cost.
    fn all_repeats_us(&self) -> u64 {
        if self.want_ack { (TRANSMISSIONS - 1) * u64::from(self.airtime_us) } else { 0 }
    }

    /// The same when the radio has stopped by now.
    fn repeats_us(&self, now: Now) -> u64 {
        let passed = now.mono_ms.saturating_sub(self.handed_ms) / self.interval_ms.max(1);
        passed.saturating_mul(u64::from(self.airtime_us)).min(self.all_repeats_us())
    }
}

/// How a text to that destination is framed, and its bytes on air; counts too much rather than too little.
pub(super) fn frame_len(direct: bool, law: &Law, text: &str, reply: bool, reaction: bool) -> usize {
    let emoji = if reaction { 5 } else { 0 };
    let len = |kind| text::frame_len(kind, text.len(), reply) + emoji;
    if direct {
        return len(PacketKind::Direct); // without a pinned key the radio may still encrypt to one
    }
    let signed = len(PacketKind::ChannelSigned);
    if law.signs && signed <= text::MAX_FRAME { signed } else { len(PacketKind::Channel) }
}

/// What a full part in a direct message costs with its retries, µs.
pub(super) fn full_part_us(law: &Law) -> u64 {
    let len = text::frame_len(PacketKind::Direct, text::DIRECT_BUDGET, true);
    u64::from(law.modem.time_on_air_us(len)) * TRANSMISSIONS
}

impl Outbox {
    /// Ends a flight: what the radio may have spent on repetitions is charged.
    pub(super) fn land(&mut self, id: PacketId, repeats_us: u64, now: Now) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        self.ledger.settle(id, repeats_us, now);
        Some(flight)
    }

    /// The link is lost, and with it what became of this packet. It stays *handed*, to go again under the
    /// same id; unless nobody wants it any more.
    pub(super) fn lose(&mut self, id: PacketId, now: Now) {
        let Some(flight) = self.flights.get(&id) else { return };
        let repeats = flight.all_repeats_us();
        let Some(flight) = self.land(id, repeats, now) else { return };
        let Some(reply) = self.replies.get(&flight.order) else { return };
        if flight.relayed_ms.is_some() {
            self.set(flight.order, flight.part, Stage::Settled, Known::Relayed);
        } else if reply.kind == ReplyKind::Reaction {
            self.set(flight.order, flight.part, Stage::Settled, Known::Cancelled);
        } else if reply.stopped {
            self.set(flight.order, flight.part, Stage::Settled, Known::NotConfirmed);
        }
    }

    /// An ack for one of our packets, under the present id or an earlier one.
    pub(super) fn acked(&mut self, at: (u64, usize), id: PacketId, from: NodeNum, now: Now) {
        let (order, part) = at;
        let Some(reply) = self.replies.get(&order) else { return };
        let Some(entry) = reply.parts.get(part) else { return };
        let from_destination = reply.to.node() == Some(from);
        let ours = self.radio.as_ref().is_some_and(|radio| radio.my_node == from);
        if from_destination {
            // Where a newer packet of the same part is on its way, the radio goes on with that one.
            if let Some(present) = entry.id() {
                let same = present == id;
                let repeats = self.flights.get(&present).map_or(0, |flight| {
                    if same { flight.repeats_us(now) } else { flight.all_repeats_us() }
                });
                self.land(present, repeats, now);
            }
            self.set(order, part, Stage::Settled, Known::Delivered);
        } else if ours
            && let Some(flight) = self.flights.get_mut(&id)
            && flight.want_ack
            && flight.relayed_ms.is_none()
        {
            flight.relayed_ms = Some(now.mono_ms);
            let repeats = flight.repeats_us(now);
            self.ledger.settle(id, repeats, now);
            self.set(order, part, Stage::Handed, Known::Relayed);
        }
    }

    /// The radio has taken the packet: all that is ever known of one without an ack.
    pub(super) fn taken(&mut self, id: PacketId, now: Now) {
        if self.flights.get(&id).is_some_and(|flight| !flight.want_ack)
            && let Some(flight) = self.land(id, 0, now)
        {
            self.set(flight.order, flight.part, Stage::Settled, Known::Sent);
        }
    }

    /// Ends the flights whose timer is over.
    pub(super) fn time_flights(&mut self, now: Now) {
        let due = self.flights.iter().filter(|(_, flight)| flight.due_ms() <= now.mono_ms);
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(flight) = self.flights.get(&id) else { continue };
            if !flight.want_ack {
                self.taken(id, now);
                continue;
            }
            let relayed = flight.relayed_ms.is_some();
            let known = if relayed { Known::Relayed } else { Known::NotConfirmed };
            let repeats = flight.all_repeats_us();
            let Some(flight) = self.land(id, repeats, now) else { continue };
            let (order, part) = (flight.order, flight.part);
            if relayed && self.again_relayed(order, part, flight.peer_heard, now) {
                continue;
            }
            if !relayed && self.hold_refused(order, part, now) {
                continue;
            }
            self.set(order, part, Stage::Settled, known);
        }
    }
}
