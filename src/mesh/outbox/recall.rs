//! What is asked of kept answers beyond `more`: to have them again, or to have them gone; and the operator's stop.
//!
//! Owns which parts that means. What becomes of them then is the gate's matter, as for any other part.

use super::part::Reply;
use super::{Outbox, ReplyKind};
use crate::assistant::{PeerId, TurnId};
use crate::clock::Now;
use crate::store::StoreError;

/// What became of the wish to have an answer again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// No answer is kept.
    Nothing,
    /// There is no such part; so many have been sent.
    NoSuchPart(usize),
    /// Something of it is still on its way: nothing was added.
    OnItsWay,
    /// So many parts go once more.
    Going(usize),
}

impl Outbox {
    /// Sends the last burst of the peer's last answer once more, or that part of the answer (counted from 1): the same
    /// bytes, from what is kept, under new ids. `packet` names the one that asked for it, as in [`Outbox::more`].
    ///
    /// # Errors
    /// When it can't be written: then nothing goes.
    pub fn recall(
        &mut self,
        peer: &PeerId,
        part: Option<usize>,
        packet: &TurnId,
        now: Now,
    ) -> Result<Again, StoreError> {
        let Some(reply) = self.last_answer(peer) else { return Ok(Again::Nothing) };
        let (order, released) = (reply.order, reply.released);
        let wanted = match part {
            Some(part) if (1..=released).contains(&part) => part - 1..part,
            Some(_) => return Ok(Again::NoSuchPart(released)),
            None => released.saturating_sub(1) / reply.burst * reply.burst..released,
        };
        if !reply.done() {
            return Ok(Again::OnItsWay);
        }
        let stamp = self.stamp(now);
        let count = wanted.len();
        self.change(order, |reply| {
            reply.send_again(wanted);
            reply.ordered_by(packet);
            reply.used = stamp;
        })?;
        Ok(Again::Going(count))
    }

    /// The peer's last answer: the turn that gave it, and its plain text.
    pub fn last_answer_of(&self, peer: &PeerId) -> Option<(&TurnId, &str)> {
        self.last_answer(peer).map(|reply| (&reply.id, reply.text.as_str()))
    }

    /// Deletes the peer's answers. One that is just on its way is deleted when that has ended.
    ///
    /// # Errors
    /// When it can't be written: then something may be left, and is deleted by the next try.
    pub fn forget_peer(&mut self, peer: &PeerId, now: Now) -> Result<(), StoreError> {
        self.stop(peer, now)?;
        let theirs = self.replies.values().filter(|reply| is_answer_of(reply, peer));
        let (done, going): (Vec<&Reply>, Vec<&Reply>) = theirs.partition(|reply| reply.done());
        let done: Vec<u64> = done.into_iter().map(|reply| reply.order).collect();
        let going: Vec<u64> = going.into_iter().map(|reply| reply.order).collect();
        for order in done {
            self.forget(order);
        }
        for order in going {
            self.change(order, |reply| reply.forgotten = true)?;
        }
        Ok(())
    }

    /// Stops everything: withdraws what has not left, and lets nothing leave until that is taken back. Answers stay
    /// kept. Gives the number of parts withdrawn.
    ///
    /// # Errors
    /// When something can't be written. It is stopped all the same.
    pub fn stop_all(&mut self, now: Now) -> Result<usize, StoreError> {
        self.stopped = true;
        self.withdraw(|_| true, now)
    }

    /// Lets replies leave again.
    pub fn resume(&mut self) {
        self.stopped = false;
    }

    pub(super) fn last_answer(&self, peer: &PeerId) -> Option<&Reply> {
        self.replies.values().rev().find(|reply| is_answer_of(reply, peer) && !reply.forgotten)
    }
}

fn is_answer_of(reply: &Reply, peer: &PeerId) -> bool {
    reply.peer == *peer && reply.kind == ReplyKind::Answer
}
