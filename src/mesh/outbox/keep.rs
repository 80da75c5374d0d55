//! What is kept: answers for `more` and for the same question again, replies for peers who are away.
//!
//! Owns `more`, `repeat`, `stop`, and what is forgotten: at most [`KEPT`] replies, a day after they were last
//! asked for. What may still be on its way or in the queue is never forgotten.

use super::part::{Known, Reply, Stage};
use super::{Destination, Outbox, ReplyKind};
use crate::assistant::{PeerId, TurnId};
use crate::clock::Now;
use crate::node::{NodeNum, PublicKey};
use crate::store::StoreError;

/// Replies kept. Above it the oldest go: first the finished, then what waits for `more`, then what waits
/// for an absent peer.
const KEPT: usize = 256;
/// How long after it was last asked for, ms. After a reboot of the machine the time starts anew.
const DAY_MS: u64 = 86_400_000;
/// A notice that could not leave for so long is dropped, ms.
const NOTICE_MS: u64 = 120_000;
/// A reaction says "being worked on": soon it is no use.
const REACTION_MS: u64 = 60_000;
/// How often old replies are looked for.
const SWEEP_MS: u64 = 600_000;
/// The refusal itself may make the peer count as heard.
const HELD_MS: u64 = 5_000;

impl Outbox {
    /// Releases the next burst of the peer's last answer. Gives how many parts that are; 0: nothing waits. `packet`
    /// names the one that asked for it: [`Outbox::has_done`] knows it from then on.
    ///
    /// # Errors
    /// When it can't be written: then nothing is released.
    pub fn more(&mut self, peer: &PeerId, packet: &TurnId, now: Now) -> Result<usize, StoreError> {
        let Some(order) = self.last_answer(peer).map(|reply| reply.order) else { return Ok(0) };
        let stamp = self.stamp(now);
        self.change(order, |reply| {
            if !reply.waits_for_more() {
                return 0;
            }
            let before = reply.released;
            reply.released = before.saturating_add(reply.burst).min(reply.parts.len());
            reply.used = stamp;
            reply.ordered_by(packet);
            reply.released - before
        })
    }

    /// The same question came again: its whole first burst goes once more, under new ids. False when that
    /// was done before or the answer is not kept. An answer that is still on its way is not sent again.
    ///
    /// # Errors
    /// When it can't be written: then nothing goes.
    pub fn repeat(&mut self, id: &TurnId, now: Now) -> Result<bool, StoreError> {
        let Some((&order, reply)) = self.replies.iter().find(|(_, reply)| reply.id == *id) else {
            return Ok(false);
        };
        if !reply.done() {
            return Ok(true);
        }
        if reply.repeated {
            return Ok(false);
        }
        let stamp = self.stamp(now);
        self.change(order, |reply| {
            reply.rewind();
            reply.used = stamp;
            true
        })
    }

    /// Withdraws the peer's answers as far as they have not left. Gives the number of parts.
    ///
    /// # Errors
    /// When it can't be written. What could not be written is withdrawn in memory all the same.
    pub fn stop(&mut self, peer: &PeerId, now: Now) -> Result<usize, StoreError> {
        self.withdraw(|reply| reply.peer == *peer && reply.kind == ReplyKind::Answer, now)
    }

    /// Withdraws those replies as far as they have not left. Gives the number of parts.
    pub(super) fn withdraw(
        &mut self,
        wanted: impl Fn(&Reply) -> bool,
        now: Now,
    ) -> Result<usize, StoreError> {
        let going = self.replies.values().filter(|reply| !reply.stopped && wanted(reply));
        let orders: Vec<u64> = going.map(|reply| reply.order).collect();
        let mut withdrawn = 0;
        let mut written = Ok(());
        for order in orders {
            let Some(reply) = self.replies.get_mut(&order) else { continue };
            let unsent = |stage: Stage| matches!(stage, Stage::Queued | Stage::Held);
            let open: Vec<(usize, Stage)> = reply
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| part.stage != Stage::Settled)
                .filter(|(_, p)| !p.id().is_some_and(|id| self.flights.contains_key(&id)))
                .map(|(index, part)| (index, part.stage))
                .collect();
            if reply.done() && open.is_empty() {
                continue;
            }
            reply.stopped = true;
            reply.used.mono_ms = now.mono_ms;
            for (index, stage) in open {
                // Handed over and lost sight of: it may have arrived.
                let known = if unsent(stage) { Known::Cancelled } else { Known::NotConfirmed };
                withdrawn += usize::from(unsent(stage));
                self.set(order, index, Stage::Settled, known);
            }
            if let Some(reply) = self.replies.get(&order) {
                match self.folder.write(reply) {
                    Ok(()) => {
                        self.unwritten.remove(&order);
                    }
                    Err(error) => written = Err(error),
                }
            }
        }
        written.map(|()| withdrawn)
    }

    /// Some packet of that node was received: what was held for it goes.
    pub fn heard(&mut self, node: NodeNum, now: Now) {
        for flight in self.flights.values_mut() {
            let reply = self.replies.get(&flight.order);
            flight.peer_heard |= reply.is_some_and(|reply| reply.to.node() == Some(node));
        }
        let mut released = Vec::new();
        for reply in self.replies.values_mut().filter(|reply| reply.to.node() == Some(node)) {
            for (index, part) in reply.parts.iter_mut().enumerate() {
                let rested = part.held_ms == 0 || part.held_ms + HELD_MS <= now.mono_ms;
                if part.stage == Stage::Held && rested {
                    part.stage = Stage::Queued;
                    released.push((reply.order, index));
                }
            }
        }
        for (order, part) in released {
            self.set(order, part, Stage::Queued, Known::Queued);
        }
        self.flush();
    }

    /// Changes one reply on disk and in memory, or neither.
    pub(super) fn change<T>(
        &mut self,
        order: u64,
        change: impl FnOnce(&mut Reply) -> T,
    ) -> Result<T, StoreError>
    where
        T: Default,
    {
        let Some(reply) = self.replies.get_mut(&order) else { return Ok(T::default()) };
        let mut changed = reply.clone();
        let result = change(&mut changed);
        self.folder.write(&changed)?;
        *reply = changed;
        self.unwritten.remove(&order);
        Ok(result)
    }

    /// After a start: what the last process's radio may have repeated is charged, once; and replies of
    /// another boot, whose age nobody knows, count as just asked for.
    pub(super) fn take_over(&mut self, now: Now) -> Result<(), StoreError> {
        let stamp = self.stamp(now);
        for (order, reply) in &mut self.replies {
            if reply.used.boot != stamp.boot || reply.used.mono_ms > now.mono_ms {
                reply.used = stamp.clone();
                self.unwritten.insert(*order);
            }
            let wants_ack = reply.wants_ack();
            for part in reply.parts.iter_mut().filter(|part| part.stage == Stage::Handed) {
                if reply.stopped || part.known == Known::Relayed {
                    // Nobody wants it any more; or it was on air, and only an ack was to come.
                    let known = if reply.stopped { Known::NotConfirmed } else { Known::Relayed };
                    part.stage = Stage::Settled;
                    part.known = known;
                    self.unwritten.insert(*order);
                }
                if wants_ack && !part.doubted {
                    self.ledger.doubt(2 * u64::from(part.airtime_us), now)?;
                    part.doubted = true;
                    self.unwritten.insert(*order);
                }
            }
        }
        self.flush();
        Ok(())
    }

    /// Drops notices and reactions that are too late, and what has been kept for a day.
    pub(super) fn sweep(&mut self, now: Now) {
        let late: Vec<u64> = self
            .replies
            .values()
            .filter_map(|reply| {
                let age = now.mono_ms.saturating_sub(reply.used.mono_ms);
                let limit = match reply.kind {
                    ReplyKind::Notice | ReplyKind::Confirm => NOTICE_MS,
                    ReplyKind::Reaction => REACTION_MS,
                    ReplyKind::Answer
                    | ReplyKind::Command
                    | ReplyKind::Distress
                    | ReplyKind::Text { .. } => return None,
                };
                (age > limit && !reply.done()).then_some(reply.order)
            })
            .collect();
        for order in late {
            let parts = self.replies.get(&order).map_or(0, |reply| reply.parts.len());
            for part in 0..parts {
                let unsent = self.replies.get(&order).and_then(|r| r.parts.get(part));
                if unsent.is_some_and(|part| matches!(part.stage, Stage::Queued | Stage::Held)) {
                    self.set(order, part, Stage::Settled, Known::Cancelled);
                }
            }
        }
        let spent = |r: &&Reply| (r.kind == ReplyKind::Reaction || r.forgotten) && r.done();
        for order in self.replies.values().filter(spent).map(|r| r.order).collect::<Vec<_>>() {
            self.forget(order);
        }
        if now.mono_ms < self.next_sweep_ms {
            return;
        }
        self.next_sweep_ms = now.mono_ms + SWEEP_MS;
        let old: Vec<u64> = self
            .replies
            .values()
            .filter(|reply| now.mono_ms.saturating_sub(reply.used.mono_ms) > DAY_MS)
            .map(|reply| reply.order)
            .collect();
        for order in old {
            if let Some(index) = self.replies.get(&order).and_then(Reply::front) {
                let held = self.replies.get(&order).is_some_and(Reply::held);
                if !held {
                    continue; // it still waits for the air: nothing is lost
                }
                self.break_off(order, index, "the peer was not heard for 24 hours".to_owned());
            }
            self.forget(order);
        }
        let peers: std::collections::HashSet<&PeerId> =
            self.replies.values().map(|reply| &reply.peer).collect();
        self.served.retain(|peer, _| peers.contains(peer));
    }

    /// Forgets the least valuable replies above the limit.
    pub(super) fn make_room(&mut self) {
        while self.replies.len() > KEPT {
            let value = |reply: &Reply| match reply {
                r if r.done() && !r.waits_for_more() => Some(0),
                r if r.done() => Some(1),
                r if r.held() => Some(2),
                _ => None,
            };
            let least = self.replies.values().filter_map(|r| Some((value(r)?, r.order))).min();
            let Some((value, order)) = least else { return };
            if value == 2
                && let Some(index) = self.replies.get(&order).and_then(Reply::front)
            {
                self.break_off(order, index, "too many answers wait for absent peers".to_owned());
            }
            self.forget(order);
        }
    }

    pub(super) fn forget(&mut self, order: u64) {
        let Some(reply) = self.replies.get(&order) else { return };
        if reply.on_disk()
            && let Err(error) = self.folder.remove(&reply.id)
        {
            tracing::error!(%error, "a reply that is over can't be removed");
        }
        self.replies.remove(&order);
        self.unwritten.remove(&order);
    }
}

impl Destination {
    /// The key that it is for.
    pub(super) fn key(&self) -> Option<PublicKey> {
        match self {
            Destination::Direct { key, .. } => *key,
            Destination::Channel { .. } => None,
        }
    }

    /// The node of a direct message.
    pub(super) fn node(&self) -> Option<NodeNum> {
        match self {
            Destination::Direct { node, .. } => Some(*node),
            Destination::Channel { .. } => None,
        }
    }
}
