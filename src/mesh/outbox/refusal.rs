//! Refusals, each in its own way.
//!
//! Owns what follows when a radio says no. What comes from another node can be forged by anyone with the
//! channel key: it is shown, and ends nothing; only `PKI_UNKNOWN_PUBKEY` earns one more try.

use super::gate::GAP_MS;
use super::part::{Known, Stage};
use super::{Destination, Outbox, ReplyKind};
use crate::clock::Now;
use crate::node::{NodeNum, PacketId};
use crate::radio::{QueueStatus, routing};

/// Codes of `QueueStatus.res` that are no routing error.
const QUEUE_FULL: i32 = 32;
const DISABLED: i32 = 34;
const DELIVERED_LOCALLY: i32 = 35;

/// The radio counts the duty cycle in minutes: asking again sooner is no use.
const DUTY_MS: u64 = 600_000;
/// After which the radio is asked again when it has no transmitter or no queue.
const NO_RADIO_MS: u64 = 60_000;
const QUEUE_FULL_MS: u64 = 10_000;
/// Our radio introduces itself to a peer that lost our key; then once more.
const INTRODUCTION_MS: u64 = 5_000;

impl Outbox {
    /// The radio's answer to a packet. Not a receipt: most of them never come, and foreign ids are normal.
    pub fn queue_status(&mut self, status: QueueStatus, now: Now) {
        self.gate.room(status.free, now);
        if !self.flights.contains_key(&status.id) {
            return;
        }
        let id = status.id;
        let pinned = self
            .part_of(id)
            .and_then(|(order, _)| self.replies.get(&order))
            .is_some_and(|reply| matches!(reply.to, Destination::Direct { key: Some(_), .. }));
        match status.res {
            0 | DELIVERED_LOCALLY => self.taken(id, now),
            QUEUE_FULL => {
                let wait = if status.free == 0 { 0 } else { QUEUE_FULL_MS };
                self.again(id, "the radio's queue is full", now.mono_ms + wait, now);
            }
            // With a key it is what the radio says when it can't encrypt; the routing error that is.
            DISABLED if !pinned => self.no_radio(id, now),
            code => self.refused(id, code, now),
        }
        self.flush();
    }

    /// An ack (`error` 0) or a refusal that names the packet `request_id`. True when that was one of ours.
    pub fn routing(&mut self, from: NodeNum, request_id: PacketId, error: i32, now: Now) -> bool {
        let Some(at) = self.part_of(request_id) else { return false };
        let own = self.radio.as_ref().is_some_and(|radio| radio.my_node == from);
        if error == routing::NONE {
            self.acked(at, request_id, from, now);
        } else if own {
            if error == routing::RATE_LIMIT_EXCEEDED {
                self.reopen_broadcast(at, request_id);
            }
            self.refused(request_id, error, now);
        } else {
            self.refused_by_peer(at, request_id, from, error, now);
        }
        self.flush();
        true
    }

    /// The link did not take it: it is not on air.
    pub fn send_failed(&mut self, id: PacketId, now: Now) {
        let Some(flight) = self.land(id, 0, now) else { return };
        if let Some(part) = self.part_mut(flight.order, flight.part) {
            part.ids.retain(|known| *known != id);
            part.not_before_ms = now.mono_ms + GAP_MS;
        }
        self.requeue(flight.order, flight.part, Known::Queued);
        self.flush();
    }

    /// Our own radio refuses a packet that is on its way.
    fn refused(&mut self, id: PacketId, error: i32, now: Now) {
        let Some(flight) = self.flights.get(&id) else { return }; // told twice, or settled meanwhile
        let (order, part) = (flight.order, flight.part);
        let reaction =
            self.replies.get(&order).is_some_and(|reply| reply.kind == ReplyKind::Reaction);
        match error {
            _ if reaction => self.fail(id, "the radio refused the reaction".to_owned(), now),
            routing::RATE_LIMIT_EXCEEDED => {
                self.gate.refused_for_pace(now);
                let tries = self.part_mut(order, part).map_or(0, |part| {
                    part.refused = part.refused.saturating_add(1);
                    part.refused
                });
                let wait = GAP_MS << tries.saturating_sub(1).min(4);
                self.again(id, "the radio refused it for its pace", now.mono_ms + wait, now);
            }
            routing::TOO_LARGE => self.too_large(id, now),
            routing::MAX_RETRANSMIT
            | routing::NO_ROUTE
            | routing::NO_RESPONSE
            | routing::TIMEOUT
            | routing::GOT_NAK => self.silent(id, now),
            routing::DUTY_CYCLE_LIMIT => {
                self.gate.pause(
                    "the radio has used up its airtime for this hour (duty cycle)",
                    now.mono_ms + DUTY_MS,
                    now,
                );
                self.again(id, "the radio's duty cycle", now.mono_ms, now);
            }
            routing::NO_INTERFACE => self.no_radio(id, now),
            code => {
                if matches!(code, routing::PKI_FAILED | routing::PKI_SEND_FAIL_PUBLIC_KEY) {
                    self.unheld.extend(self.replies.get(&order).and_then(|reply| reply.to.node()));
                }
                self.fail(id, reason(code), now);
            }
        }
    }

    /// Peers whose key our radio turned out not to hold, since the last call.
    pub fn take_unheld(&mut self) -> Vec<NodeNum> {
        std::mem::take(&mut self.unheld)
    }

    /// Another node refuses. Whoever that really was.
    fn refused_by_peer(
        &mut self,
        at: (u64, usize),
        id: PacketId,
        from: NodeNum,
        error: i32,
        now: Now,
    ) {
        let (order, part) = at;
        let from_destination =
            self.replies.get(&order).is_some_and(|reply| reply.to.node() == Some(from));
        if !from_destination || !self.flights.contains_key(&id) {
            return;
        }
        if error != routing::PKI_UNKNOWN_PUBKEY {
            let why = format!("the peer's radio answered: {}", reason(error));
            self.set(order, part, Stage::Handed, Known::Waiting(why));
            return;
        }
        let tries = self.part_mut(order, part).map_or(0, |part| {
            part.unknown_key = part.unknown_key.saturating_add(1);
            part.unknown_key
        });
        if tries == 1 {
            let why = "the peer's radio does not know our key yet";
            self.again(id, why, now.mono_ms + INTRODUCTION_MS, now);
        } else {
            let why = "the peer's radio does not know our key".to_owned();
            self.set(order, part, Stage::Handed, Known::Waiting(why));
        }
    }

    /// The time of a part is over that the peer's radio seemed to refuse: it waits once until the peer is
    /// heard again. Forged, that costs a moment; true, it saves the part. False: it has waited before.
    pub(super) fn hold_refused(&mut self, order: u64, index: usize, now: Now) -> bool {
        let Some(part) = self.part_mut(order, index) else { return false };
        if !matches!(part.known, Known::Waiting(_)) || part.silent >= 2 {
            return false;
        }
        part.silent = 2;
        self.hold(order, index, now);
        true
    }

    /// Passed on by others, and not acknowledged by its peer: either it was lost on the way or its ack was. It goes once
    /// more, now if the peer is there, else when it is heard again. False: that was done before, or is not worth it.
    pub(super) fn again_relayed(
        &mut self,
        order: u64,
        index: usize,
        peer_heard: bool,
        now: Now,
    ) -> bool {
        let worth = |reply: &super::part::Reply| {
            !matches!(reply.kind, ReplyKind::Notice | ReplyKind::Confirm) && !reply.stopped
        };
        if !self.replies.get(&order).is_some_and(worth) {
            return false;
        }
        let Some(part) = self.part_mut(order, index).filter(|part| !part.relayed_again) else {
            return false;
        };
        part.relayed_again = true;
        if peer_heard {
            let why = "passed on, but the peer's radio has not confirmed it: once more".to_owned();
            self.requeue(order, index, Known::Waiting(why));
        } else {
            self.hold(order, index, now);
        }
        true
    }

    fn hold(&mut self, order: u64, index: usize, now: Now) {
        let why = "until the peer is heard again, at most 24 hours".to_owned();
        self.requeue(order, index, Known::Waiting(why));
        if let Some(part) = self.part_mut(order, index)
            && part.stage == Stage::Queued
        {
            part.stage = Stage::Held;
            part.held_ms = now.mono_ms;
        }
    }

    /// The radio's tries are over without an ack. It may have arrived all the same: once more under a new
    /// id; then, once, when the peer is heard again.
    fn silent(&mut self, id: PacketId, now: Now) {
        let Some(flight) = self.flights.get(&id) else { return };
        let repeats = if flight.want_ack { 2 * u64::from(flight.airtime_us) } else { 0 };
        let Some(flight) = self.land(id, repeats, now) else { return };
        let (order, index) = (flight.order, flight.part);
        if !flight.want_ack {
            self.set(order, index, Stage::Settled, Known::NotConfirmed);
            return;
        }
        let Some(part) = self.part_mut(order, index) else { return };
        part.silent = part.silent.saturating_add(1);
        match part.silent {
            1 => self.requeue(
                order,
                index,
                Known::Waiting("no answer from the peer's radio: once more".to_owned()),
            ),
            2 => self.hold(order, index, now),
            _ => self.break_off(order, index, "the peer's radio does not answer".to_owned()),
        }
    }

    /// Planned again, smaller, from this part on; the parts before it stay as they are.
    fn too_large(&mut self, id: PacketId, now: Now) {
        let Some(flight) = self.land(id, 0, now) else { return };
        self.shrink(flight.order, flight.part, "the radio refuses even the smallest part");
    }

    /// See [`too_large`](Self::too_large).
    pub(super) fn shrink(&mut self, order: u64, part: usize, otherwise: &str) {
        let Some(reply) = self.replies.get_mut(&order) else { return };
        if reply.stopped {
            self.requeue(order, part, Known::Queued);
        } else if reply.plan_smaller(part) {
            self.unwritten.insert(order);
            self.events.state(reply, part);
        } else {
            self.break_off(order, part, otherwise.to_owned());
        }
    }

    /// The radio has no transmitter just now: its region or its switch, changed by somebody else.
    fn no_radio(&mut self, id: PacketId, now: Now) {
        let why = "the radio says that it may not transmit: look at its region and its transmitter";
        self.gate.pause(why, now.mono_ms + NO_RADIO_MS, now);
        self.again(id, why, now.mono_ms, now);
    }

    /// It was not transmitted and goes again, under a new id, at that time or later.
    fn again(&mut self, id: PacketId, why: &str, not_before_ms: u64, now: Now) {
        let Some(flight) = self.land(id, 0, now) else { return };
        if let Some(part) = self.part_mut(flight.order, flight.part) {
            part.not_before_ms = not_before_ms;
        }
        let reaction = self.replies.get(&flight.order).map(|reply| reply.kind);
        if reaction == Some(ReplyKind::Reaction) {
            self.set(flight.order, flight.part, Stage::Settled, Known::Cancelled);
        } else {
            self.requeue(flight.order, flight.part, Known::Waiting(why.to_owned()));
        }
    }

    fn fail(&mut self, id: PacketId, why: String, now: Now) {
        if let Some(flight) = self.land(id, 0, now) {
            self.break_off(flight.order, flight.part, why);
        }
    }

    /// That part will not arrive; those behind it don't leave.
    pub(super) fn break_off(&mut self, order: u64, part: usize, why: String) {
        self.set(order, part, Stage::Settled, Known::Failed(why));
        let count = self.replies.get(&order).map_or(0, |reply| reply.parts.len());
        for behind in part + 1..count {
            self.set(order, behind, Stage::Settled, Known::Cancelled);
        }
    }

    /// Back into the queue; a reply that was stopped does not come back.
    pub(super) fn requeue(&mut self, order: u64, part: usize, known: Known) {
        let stopped = self.replies.get(&order).is_some_and(|reply| reply.stopped);
        if stopped {
            self.set(order, part, Stage::Settled, Known::Cancelled);
        } else {
            self.set(order, part, Stage::Queued, known);
        }
    }

    /// A broadcast is done when the radio took it; for its pace the radio says so and refuses it after.
    fn reopen_broadcast(&mut self, at: (u64, usize), id: PacketId) {
        let (order, part) = at;
        let Some(reply) = self.replies.get(&order) else { return };
        let channel = matches!(reply.to, Destination::Channel { .. });
        let last = reply.parts.get(part).is_some_and(|part| {
            part.id() == Some(id) && part.stage == Stage::Settled && part.known == Known::Sent
        });
        // The next part leaves 2.3 s later at the earliest: after this refusal.
        let behind = reply.parts.iter().skip(part + 1).all(|part| part.ids.is_empty());
        if channel && last && behind && reply.kind != ReplyKind::Reaction {
            self.requeue(order, part, Known::Waiting("the radio refused it for its pace".into()));
        }
    }

    pub(super) fn part_mut(&mut self, order: u64, part: usize) -> Option<&mut super::part::Part> {
        self.unwritten.insert(order);
        self.replies.get_mut(&order)?.parts.get_mut(part)
    }
}

/// For people.
fn reason(code: i32) -> String {
    match code {
        routing::NO_CHANNEL => "the radio has no such channel".to_owned(),
        routing::PKI_FAILED => "the radio can't encrypt to the peer's key".to_owned(),
        routing::PKI_SEND_FAIL_PUBLIC_KEY => {
            "the radio does not know the peer's key, or knows another one than the pinned"
                .to_owned()
        }
        routing::NOT_AUTHORIZED => "the radio does not allow it".to_owned(),
        routing::BAD_REQUEST => "the radio calls it a bad request".to_owned(),
        routing::TOO_LARGE => "too large".to_owned(),
        code => format!("refused (code {code})"),
    }
}
