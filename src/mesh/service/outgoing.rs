//! What leaves: replies into the outbox, parts out of it to the link, and what is learnt of them.

use super::Mesh;
use super::turns::Turn;
use crate::assistant::{Assurance, PeerId, ToolRecord, TurnId};
use crate::clock::Now;
use crate::mesh::identity::Peer;
use crate::mesh::inbox::Envelope;
use crate::mesh::outbox::{Destination, NewReply, ReplyKind, Step};
use crate::mesh::seen::{Outcome, Words};
use crate::mesh::view::{Delivery, MeshEvent, MessageView};
use crate::node::{NodeNum, PacketId};
use crate::radio::Outbound;
use crate::store::StoreError;

/// Packets handed over in one go at most; the rest follows at once.
const BURST: usize = 8;
/// How long to wait after the link took nothing, milliseconds.
const LINK_FULL_MS: u64 = 1_000;
/// How long to wait after the disk took nothing, milliseconds.
const DISK_FULL_MS: u64 = 10_000;
/// Ends of turns that are kept in memory while the disk takes nothing. Past it an answer is lost, its question is not:
/// it is asked again after a restart.
const MAX_UNSUBMITTED: usize = 64;
/// Replies whose receiver is remembered for the message list.
const MAX_SHOWN: usize = 256;

/// Whom a reply is for.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// Whose next text may be an answer to this one, for the loop guard.
    pub(super) peer: PeerId,
    pub(super) node: NodeNum,
    pub(super) assurance: Assurance,
    pub(super) channel: Option<String>,
}

/// A finished turn on its way to the disk.
pub(super) struct Unsubmitted {
    pub(super) reply: NewReply,
    pub(super) peer: PeerId,
    pub(super) words: Words,
    pub(super) outcome: Outcome,
    pub(super) backend: String,
    pub(super) tools: Vec<ToolRecord>,
    pub(super) millis: u64,
}

impl Mesh {
    /// A reply to the packet of that envelope: to the key that it was decrypted with, or to where it came from.
    pub(super) fn new_reply(
        &mut self,
        id: TurnId,
        envelope: &Envelope,
        peer: &Peer,
        kind: ReplyKind,
        text: String,
    ) -> NewReply {
        let shown = Shown {
            peer: peer.id.clone(),
            node: envelope.from,
            assurance: peer.assurance,
            channel: envelope.channel.as_ref().map(|channel| channel.name.clone()),
        };
        self.remember_receiver(id.clone(), shown);
        let to = match &envelope.channel {
            Some(channel) => Destination::Channel { index: channel.index },
            None => Destination::Direct { node: envelope.from, key: peer.key },
        };
        NewReply {
            id,
            peer: peer.id.clone(),
            name: peer.name.clone(),
            to,
            in_reply_to: Some(envelope.id).filter(|id| *id != PacketId(0)),
            kind,
            hops: envelope.hops,
            text,
            secret: None,
        }
    }

    /// For the message list.
    pub(super) fn remember_receiver(&mut self, id: TurnId, shown: Shown) {
        if self.shown.len() >= MAX_SHOWN {
            self.shown.remove(0);
        }
        self.shown.push((id, shown));
    }

    /// Sends a reply that is not the end of a turn. One that can't be stored is not sent, and said so in the log: then
    /// what it answers is not done.
    pub(super) fn reply(
        &mut self,
        id: TurnId,
        envelope: &Envelope,
        peer: &Peer,
        kind: ReplyKind,
        text: String,
        now: Now,
    ) -> Result<(), StoreError> {
        let reply = self.new_reply(id, envelope, peer, kind, text);
        let stored = self.outbox.submit(reply, now).map(|_parts| ()).inspect_err(|error| {
            tracing::error!(error = %error, "a short reply could not be stored");
        });
        self.outbox_changed(now);
        stored
    }

    /// Stores the end of a turn; where that fails, later again.
    pub(super) fn hand_over(&mut self, end: Unsubmitted, now: Now) {
        match self.outbox.submit(end.reply.clone(), now) {
            Ok(parts) => {
                self.outbox_changed(now);
                // The rest is only tidying, as a start does it too: the answer goes first.
                self.handed_over.push((end, parts));
            }
            Err(error) => {
                tracing::error!(error = %error, "an answer could not be stored; trying again");
                if self.unsubmitted.len() < MAX_UNSUBMITTED {
                    self.unsubmitted.push(end);
                }
                self.retry_at_ms = Some(now.mono_ms.saturating_add(DISK_FULL_MS));
            }
        }
    }

    /// Ends the turns whose answers are stored.
    pub(super) fn tidy(&mut self, now: Now) {
        for (end, parts) in std::mem::take(&mut self.handed_over) {
            let id = end.reply.id;
            let answered = matches!(end.outcome, Outcome::Answered);
            self.end(&id, &end.peer, Some(end.words), end.outcome, now);
            self.tell(MeshEvent::TurnEnded {
                turn_id: id,
                answered,
                backend: end.backend,
                tools: end.tools,
                millis: end.millis,
                parts,
            });
        }
    }

    /// Its files are safe from a kill; from a power cut when they are synced.
    pub(super) fn outbox_changed(&mut self, now: Now) {
        self.unsynced.mark(self.data_dir.join("replies"), now);
        self.unsynced.mark(self.data_dir.join("airtime.log"), now);
    }

    pub(super) fn retry_unsubmitted(&mut self, now: Now) {
        if self.retry_at_ms.is_none_or(|at| at > now.mono_ms) {
            return;
        }
        self.retry_at_ms = None;
        for end in std::mem::take(&mut self.unsubmitted) {
            self.hand_over(end, now);
        }
    }

    /// Hands over what may leave now; gives the time at which there may be more.
    pub(super) fn pump(&mut self, now: Now) -> Option<u64> {
        let mut handed: Vec<Outbound> = Vec::new();
        let wait = loop {
            if handed.len() >= BURST {
                break Some(now.mono_ms);
            }
            match self.outbox.poll(now) {
                Step::Wait(until) => break until,
                Step::Send(packet) => {
                    let session = self.radio.as_ref().map_or(0, |radio| radio.session);
                    match self.sink.send(session, packet.clone()) {
                        Ok(()) => handed.push(packet),
                        Err(_busy_or_down) => {
                            self.outbox.send_failed(packet.id, now);
                            break Some(now.mono_ms.saturating_add(LINK_FULL_MS));
                        }
                    }
                }
            }
        };
        let events = self.outbox.take_events();
        if !events.is_empty() {
            self.outbox_changed(now);
        }
        for event in events {
            self.outbox_event(event, &handed, now);
        }
        wait
    }

    fn outbox_event(&mut self, event: MeshEvent, handed: &[Outbound], now: Now) {
        match &event {
            MeshEvent::PartSent { reply, name, id, part, text, .. } => {
                let shown = self.shown.iter().rev().find(|(known, _)| known == reply);
                let shown = shown.map_or_else(|| unknown(*id, handed), |(_, shown)| shown.clone());
                self.loops.answered(&shown.peer, now.mono_ms);
                let view = MessageView {
                    at: now.unix_ms,
                    direction: "out",
                    node: shown.node,
                    name: name.clone(),
                    assurance: shown.assurance,
                    channel: shown.channel,
                    text: text.clone(),
                    delivery: Some(Delivery::Sent),
                    ignored: None,
                    id: *id,
                    snr: None,
                    rssi: None,
                };
                self.messages.push_out(reply, *part, view);
            }
            MeshEvent::PartState { reply, part, delivery, .. } => {
                self.messages.delivery(reply, *part, delivery);
            }
            _ => {}
        }
        self.tell(event);
    }

    pub(super) fn running_and_waiting(&self) -> (usize, usize) {
        let running = self.turns.values().filter(|turn| Turn::is_running(turn)).count();
        (running, self.turns.len() - running)
    }
}

/// Of a reply that an earlier run accepted, only its packet says whom it is for.
fn unknown(id: PacketId, handed: &[Outbound]) -> Shown {
    let packet = handed.iter().find(|packet| packet.id == id);
    Shown {
        peer: PeerId(String::new()),
        node: packet.map_or(NodeNum::BROADCAST, |packet| packet.to),
        assurance: match packet.and_then(|packet| packet.pki_key) {
            Some(_) => Assurance::Verified,
            None => Assurance::Unverified,
        },
        channel: packet
            .filter(|packet| packet.to == NodeNum::BROADCAST)
            .map(|packet| format!("channel {}", packet.channel)),
    }
}
