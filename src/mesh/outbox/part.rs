//! A reply as it is kept, and its parts.
//!
//! Owns the form on disk and what may follow what: a part's stage and what is known of it. Must not know
//! the radio, the clock or the gate.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Destination, NewReply, ReplyKind};
use crate::assistant::{PeerId, TurnId};
use crate::mesh::commands::DROPPED_BY_RESTART;
use crate::mesh::reply::{self, Piece};
use crate::mesh::view::Delivery;
use crate::node::PacketId;
use crate::secrets::Secret;
use tombolo_hw::text::{CHANNEL_BUDGET, DIRECT_BUDGET};

/// A text longer than this is cut, visibly; bytes.
const MAX_TEXT: usize = 16_384;
/// The word that asks for what waits, in the note at a burst's end.
const MORE_WORD: &str = "more";
/// The smallest budget that is tried when a radio refuses a part as too large.
const LEAST_BUDGET: usize = 60;
/// Packets remembered that released parts of a reply. What is older is in the memory of answered packets long since.
const ORDERS: usize = 8;
/// Packet ids remembered for each part, so that a late ack still finds it.
const IDS: usize = 16;

/// Where a part stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// To be handed to the radio.
    Queued,
    /// Handed to the radio. Without a flight in memory its fate is unknown: same id again.
    Handed,
    /// Not before the peer is heard.
    Held,
    /// Nothing more will be done for it.
    Settled,
}

/// What is known of a part, as [`Delivery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Known {
    Queued,
    Sent,
    Relayed,
    Delivered,
    NotConfirmed,
    Waiting(String),
    Failed(String),
    Cancelled,
}

impl From<&Known> for Delivery {
    fn from(known: &Known) -> Delivery {
        match known {
            Known::Queued => Delivery::Queued,
            Known::Sent => Delivery::Sent,
            Known::Relayed => Delivery::Relayed,
            Known::Delivered => Delivery::Delivered,
            Known::NotConfirmed => Delivery::NotConfirmed,
            Known::Waiting(why) => Delivery::Waiting(why.clone()),
            Known::Failed(why) => Delivery::Failed(why.clone()),
            Known::Cancelled => Delivery::Cancelled,
        }
    }
}

/// One packet's text and its story.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    /// Where its body begins in the reply's text, bytes.
    pub start: usize,
    /// With mark and note.
    pub text: String,
    pub stage: Stage,
    pub known: Known,
    /// The packet ids that it went under, the present one last.
    pub ids: Vec<PacketId>,
    /// Of one transmission, µs.
    pub airtime_us: u32,
    /// How often the radio gave up on it.
    pub silent: u8,
    /// It went once more because it was only passed on.
    #[serde(default)]
    pub relayed_again: bool,
    /// How often the peer's radio did not know our key.
    pub unknown_key: u8,
    /// How often our radio refused it for its pace.
    pub refused: u8,
    /// The radio's possible repetitions before a restart are charged.
    pub doubted: bool,
    /// Not before that time, by this process's clock.
    #[serde(skip)]
    pub not_before_ms: u64,
    #[serde(skip)]
    pub held_ms: u64,
}

impl Part {
    fn new(piece: Piece) -> Part {
        Part {
            start: piece.start,
            text: piece.text,
            stage: Stage::Queued,
            known: Known::Queued,
            ids: Vec::new(),
            airtime_us: 0,
            silent: 0,
            relayed_again: false,
            unknown_key: 0,
            refused: 0,
            doubted: false,
            not_before_ms: 0,
            held_ms: 0,
        }
    }

    /// The id that it is, or was last, on its way under.
    pub fn id(&self) -> Option<PacketId> {
        self.ids.last().copied()
    }

    pub fn add_id(&mut self, id: PacketId) {
        if self.id() != Some(id) {
            self.ids.push(id);
        }
        if self.ids.len() > IDS {
            self.ids.remove(0);
        }
    }

    /// As it was before it ever left; late acks of earlier packets don't count for it.
    fn reset(&mut self) {
        let text = std::mem::take(&mut self.text);
        *self = Part::new(Piece { start: self.start, end: 0, text });
    }
}

/// When something happened, so that a later process can tell how long ago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub boot: String,
    pub mono_ms: u64,
}

/// A reply and all that is known of it: one file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Reply {
    pub id: TurnId,
    pub peer: PeerId,
    pub name: String,
    pub to: Destination,
    pub in_reply_to: Option<PacketId>,
    pub kind: ReplyKind,
    /// Counts the replies: the older goes first.
    pub order: u64,
    /// The plain text.
    pub text: String,
    pub budget: usize,
    pub burst: usize,
    pub parts: Vec<Part>,
    /// So many parts may leave; the rest waits for `more`.
    pub released: usize,
    /// The first burst was sent once more.
    pub repeated: bool,
    /// The peer asked to stop: what is refused now does not go again.
    pub stopped: bool,
    /// When it was last asked for.
    pub used: Stamp,
    /// The hops that the question took, where known; `None` after it had to be sent again.
    #[serde(default)]
    pub hops: Option<u32>,
    /// The peer wants it deleted: as soon as nothing of it is on its way.
    #[serde(default)]
    pub forgotten: bool,
    /// What is masked wherever the text is shown.
    #[serde(skip)]
    pub secret: Option<Secret>,
    /// The last packets that released parts of it, so that none does so twice.
    #[serde(default)]
    pub orders: Vec<TurnId>,
}

impl Reply {
    /// Plans it. No parts: there is nothing to send.
    pub fn plan(new: NewReply, order: u64, max_parts: usize, used: Stamp) -> Reply {
        let answer = new.kind == ReplyKind::Answer;
        let source = cut(&new.text);
        let text = if answer { reply::plain(&source) } else { reply::tidy(&source) };
        let budget = match new.to {
            Destination::Direct { .. } => DIRECT_BUDGET,
            Destination::Channel { .. } => CHANNEL_BUDGET,
        };
        let burst = if answer { max_parts.max(1) } else { usize::MAX };
        let mut reply = Reply {
            id: new.id,
            peer: new.peer,
            name: new.name,
            to: new.to,
            in_reply_to: new.in_reply_to,
            kind: new.kind,
            order,
            text,
            budget,
            burst,
            parts: Vec::new(),
            released: 0,
            repeated: false,
            stopped: false,
            used,
            hops: new.hops,
            forgotten: false,
            secret: new.secret,
            orders: Vec::new(),
        };
        reply.plan_from(0, 0);
        reply.released = reply.parts.len().min(burst);
        reply
    }

    /// As read from a file: figures that no planning gives are put right.
    pub fn within_bounds(mut self) -> Reply {
        self.burst = self.burst.max(1);
        self.budget = self.budget.min(DIRECT_BUDGET);
        self
    }

    fn plan_from(&mut self, part: usize, start: usize) {
        let rest = self.text.get(start..).unwrap_or_default();
        let pieces = reply::layout(rest, self.budget, self.burst, MORE_WORD, part);
        self.parts.truncate(part);
        self.parts.extend(pieces.into_iter().map(|mut piece| {
            piece.start += start;
            Part::new(piece)
        }));
    }

    /// Plans the rest from that part on into smaller ones. False: they are as small as they may be.
    pub fn plan_smaller(&mut self, part: usize) -> bool {
        let Some(old) = self.parts.get(part) else { return false };
        let (start, len) = (old.start, old.text.len());
        if self.budget <= LEAST_BUDGET || len <= LEAST_BUDGET || self.kind == ReplyKind::Reaction {
            return false;
        }
        self.budget = (self.budget * 4 / 5).min(len - 1).max(LEAST_BUDGET);
        self.plan_from(part, start);
        let bursts = self.released.div_ceil(self.burst).max(1);
        self.released = bursts.saturating_mul(self.burst).min(self.parts.len());
        true
    }

    /// Does it ask for an ack?
    pub fn wants_ack(&self) -> bool {
        let wanted = !matches!(self.kind, ReplyKind::Reaction | ReplyKind::Text { ack: false });
        wanted && matches!(self.to, Destination::Direct { .. })
    }

    /// Notes that this packet released parts.
    pub fn ordered_by(&mut self, order: &TurnId) {
        if self.orders.len() >= ORDERS {
            self.orders.remove(0);
        }
        self.orders.push(order.clone());
    }

    /// As it goes into its file: a question for a code has only what it says after a restart there.
    pub fn for_disk(&self) -> Cow<'_, Reply> {
        if self.kind != ReplyKind::Confirm {
            return Cow::Borrowed(self);
        }
        let mut masked = self.clone();
        DROPPED_BY_RESTART.clone_into(&mut masked.text);
        masked.parts.truncate(1);
        masked.released = masked.released.min(1);
        for part in &mut masked.parts {
            part.start = 0;
            DROPPED_BY_RESTART.clone_into(&mut part.text);
        }
        Cow::Owned(masked)
    }

    /// That text of it as it may be shown.
    pub fn shown(&self, text: String) -> String {
        match &self.secret {
            Some(secret) => text.replace(secret.expose(), "…"),
            None => text,
        }
    }

    /// Reactions are worth nothing after a restart.
    pub fn on_disk(&self) -> bool {
        self.kind != ReplyKind::Reaction
    }

    /// The part that is next to leave, or on its way: the first that is not settled.
    pub fn front(&self) -> Option<usize> {
        let released = self.parts.iter().take(self.released);
        released.enumerate().find(|(_, part)| part.stage != Stage::Settled).map(|(index, _)| index)
    }

    /// Nothing that was released is left to do.
    pub fn done(&self) -> bool {
        self.front().is_none()
    }

    /// Is something kept for `more`?
    pub fn waits_for_more(&self) -> bool {
        self.kind == ReplyKind::Answer
            && !self.stopped
            && self.released < self.parts.len()
            && self.parts.iter().all(|p| !matches!(p.known, Known::Failed(_) | Known::Cancelled))
    }

    /// Is a part held until the peer is heard?
    pub fn held(&self) -> bool {
        self.parts.iter().any(|part| part.stage == Stage::Held)
    }

    /// The first burst as if it had never left, and nothing more of what failed.
    pub fn rewind(&mut self) {
        let broken =
            self.parts.iter().any(|p| matches!(p.known, Known::Failed(_) | Known::Cancelled));
        for (index, part) in self.parts.iter_mut().enumerate() {
            if index < self.burst || matches!(part.known, Known::Failed(_) | Known::Cancelled) {
                part.reset();
            }
        }
        if broken {
            self.released = self.burst.min(self.parts.len());
        }
        self.stopped = false;
        self.repeated = true;
        self.hops = None;
    }

    /// Those parts as if they had never left; what failed behind them waits for `more` again.
    pub fn send_again(&mut self, wanted: std::ops::Range<usize>) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            let unsent = matches!(part.known, Known::Failed(_) | Known::Cancelled);
            if wanted.contains(&index) || (unsent && index >= self.released) {
                part.reset();
            }
        }
        self.stopped = false;
        self.hops = None;
    }
}

/// At most [`MAX_TEXT`] bytes, and said so.
fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{} [cut]", text.get(..end).unwrap_or_default())
}
