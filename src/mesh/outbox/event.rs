//! What the outbox tells of its doings.
//!
//! Owns the events and their bounded row. The text of a part goes to those who show it, never to a log.

use std::collections::VecDeque;

use super::part::Reply;
use crate::assistant::TurnId;
use crate::mesh::view::{Delivery, MeshEvent};
use crate::node::PacketId;

/// Events that nobody has taken yet; when there are more, the oldest go.
const KEPT: usize = 2048;

/// What happened, with the fields of [`MeshEvent`].
#[derive(Debug, Clone, PartialEq)]
pub enum OutboxEvent {
    /// A part was handed to the radio.
    PartSent {
        /// The reply: the turn's id.
        reply: TurnId,
        /// To whom.
        name: String,
        /// Its packet.
        id: PacketId,
        /// From 1.
        part: usize,
        /// Of how many.
        of: usize,
        /// Bytes of text.
        bytes: usize,
        /// Its time on air, one transmission.
        airtime_us: u32,
        /// The text.
        text: String,
    },
    /// Something was learnt of a part.
    PartState {
        /// The reply.
        reply: TurnId,
        /// From 1.
        part: usize,
        /// Of how many.
        of: usize,
        /// What.
        delivery: Delivery,
    },
    /// Sending waits, and why; or goes on (`None`).
    Paused {
        /// For people.
        reason: Option<String>,
    },
}

impl From<OutboxEvent> for MeshEvent {
    fn from(event: OutboxEvent) -> MeshEvent {
        match event {
            OutboxEvent::PartSent { reply, name, id, part, of, bytes, airtime_us, text } => {
                MeshEvent::PartSent { reply, name, id, part, of, bytes, airtime_us, text }
            }
            OutboxEvent::PartState { reply, part, of, delivery } => {
                MeshEvent::PartState { reply, part, of, delivery }
            }
            OutboxEvent::Paused { reason } => MeshEvent::Paused { reason },
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<OutboxEvent>);

impl Events {
    pub fn push(&mut self, event: OutboxEvent) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// What is known now of that part (counted from 0).
    pub fn state(&mut self, reply: &Reply, part: usize) {
        if let Some(known) = reply.parts.get(part).map(|part| &part.known) {
            let (id, of) = (reply.id.clone(), reply.parts.len());
            let delivery = known.into();
            self.push(OutboxEvent::PartState { reply: id, part: part + 1, of, delivery });
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn take(&mut self) -> Vec<OutboxEvent> {
        self.0.drain(..).collect()
    }
}
