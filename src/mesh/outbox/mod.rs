//! The outbox: the one gate for everything that leaves for the air.
//!
//! Owns what waits to be sent, what is on its way and what is known of it; on disk, so that a restart
//! loses nothing and repeats nothing. A state machine without I/O to the radio and without a clock: it is
//! told what happened and when, and says what to send. Must not know why an answer says what it says.

use crate::assistant::{PeerId, TurnId};
use crate::clock::Now;
use crate::node::{NodeNum, PacketId, PublicKey};
use crate::radio::Outbound;

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
    /// A notice such as "busy": one part, not kept, dropped rather than delayed over two minutes.
    Notice,
    /// A reaction to the question: the text is the emoji. Best effort.
    Reaction,
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
    /// Markdown or plain text; the outbox plans it.
    pub text: String,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Hand this to the radio now. It is charged and on disk already.
    Send(Outbound),
    /// Nothing before that time ([`Now::mono_ms`]); `None`: until something happens.
    Wait(Option<u64>),
}

const _: fn(Now) = |_| (); // the clock is always an argument
