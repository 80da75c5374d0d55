//! What the outbox tells of its doings.
//!
//! Owns their bounded row; the events are `view`'s. The text of a part goes to those who show it, never to a log.

use std::collections::VecDeque;

use super::part::Reply;
use crate::mesh::view::MeshEvent;

/// Events that nobody has taken yet; when there are more, the oldest go.
const KEPT: usize = 2048;

#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<MeshEvent>);

impl Events {
    pub fn push(&mut self, event: MeshEvent) {
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
            self.push(MeshEvent::PartState { reply: id, part: part + 1, of, delivery });
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn take(&mut self) -> Vec<MeshEvent> {
        self.0.drain(..).collect()
    }
}
