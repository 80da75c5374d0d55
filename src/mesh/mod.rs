//! The mesh side: from a packet to a question, from an answer to packets.
//!
//! Owns who is asking, what is accepted, and everything that leaves for the air. Knows the assistant,
//! and nothing of RPC or of wire formats.

pub mod airtime;
pub mod outbox;
pub mod reply;
pub mod view;
