//! The mesh side: from a packet to a question, from an answer to packets.
//!
//! Owns who is asking, what is accepted, and everything that leaves for the air. Knows the assistant,
//! and nothing of RPC or of wire formats.

pub mod airtime;
pub mod budget;
pub mod changes;
pub mod commands;
pub mod distress;
pub mod drift;
pub mod identity;
pub mod inbox;
pub mod journal;
pub mod loops;
pub mod messages;
pub mod names;
pub mod nodes;
pub mod operator;
pub mod outbox;
#[cfg(test)]
mod packets;
pub mod pairing;
pub mod policy;
pub mod queue;
pub mod reply;
pub mod seen;
pub mod service;
pub mod trigger;
pub mod view;

pub use service::{Answer, Answerer, MeshParts, RadioSink, spawn};
pub use view::MeshHandle;
