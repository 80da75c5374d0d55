//! What becomes of a packet: noted, ignored with a reason, a command, or an accepted question.

use super::Mesh;
use super::turns::Asked;
use crate::assistant::{Assurance, PeerId, TurnId};
use crate::clock::Now;
use crate::mesh::airtime::law::Use;
use crate::mesh::budget::{Cost, NoticeKind};
use crate::mesh::commands::{self, Command};
use crate::mesh::identity::Peer;
use crate::mesh::inbox::{self, Envelope, Ignored, Letter, Receiver, Signal};
use crate::mesh::outbox::ReplyKind;
use crate::mesh::seen::{self, Outcome, Words};
use crate::mesh::view::{MeshEvent, MessageView};
use crate::mesh::{policy, trigger};
use crate::node::{NodeNum, PacketId};
use crate::radio::{Inbound, Payload, port};

/// The transport of what our own radio made itself.
const TRANSPORT_INTERNAL: i32 = 0;
/// An answer that would have to wait longer than this for its airtime is not made, milliseconds.
const LONGEST_WAIT_MS: u64 = 900_000;
/// The same security event about the same number is told once in this time, milliseconds.
const TELL_AGAIN_MS: u64 = 60_000;
/// Numbers that are remembered for that.
const MAX_TOLD: usize = 256;

impl Mesh {
    pub(super) fn packet(&mut self, packet: &Inbound, now: Now) {
        let Some(radio) = self.radio.clone() else { return };
        let ours = packet.from == radio.my_node;
        // Old firmware doesn't tell the transport, but what was received has a signal.
        let received = packet.transport != TRANSPORT_INTERNAL || packet.rx_rssi != 0;
        if ours && received {
            // What our own radio says is not heard on the air: a forged refusal, telemetry or text.
            self.security(
                "spoofed_sender",
                packet.from,
                "a packet under our own number was heard on the air",
                now,
            );
            return;
        }
        self.nodes.heard(packet, radio.my_node, now);
        // From the system: `now` doesn't see the clock being put right.
        self.drift.packet(packet.rx_time, now.mono_ms, crate::clock::unix_ms());
        // After a handshake firmware 2.8 gives old packets of others again: whose they are is not there for that.
        if !ours && received && packet.from.is_peer() {
            self.outbox.heard(packet.from, now);
        }
        let Payload::Data(data) = &packet.payload else { return };
        match data.port {
            port::ROUTING => {
                if let Some(error) = data.routing_error.filter(|_| data.request_id != PacketId(0)) {
                    self.outbox.routing(packet.from, data.request_id, error, now);
                }
            }
            port::TELEMETRY => {
                if let Some(telemetry) = data.telemetry.filter(|_| ours) {
                    self.outbox.telemetry(telemetry, now);
                }
            }
            // A text under our own number was written on the radio itself: it is no question to us.
            port::TEXT_MESSAGE if !ours => self.text(packet, now),
            _ => {}
        }
    }

    fn text(&mut self, packet: &Inbound, now: Now) {
        let Some(radio) = self.radio.clone() else { return };
        let receiver = Receiver {
            my_node: radio.my_node,
            tags_transport: super::shown::tags_transport(&radio.firmware),
            licensed: radio.owner.licensed,
            channel_name: &|index| super::shown::channel_name(&radio, index),
            key_of: &|node| self.nodes.key_of(node),
        };
        let envelope = Envelope::of(packet, &receiver);
        match inbox::read(packet, &receiver) {
            None => {}
            Some(Ok(letter)) => self.letter(&letter, now),
            Some(Err((reason, text))) => {
                let text = self.masked(&text);
                if reason == Ignored::SpoofedSender {
                    let detail = "a text under a number that no node has";
                    self.security("spoofed_sender", packet.from, detail, now);
                }
                if reason != Ignored::NotForUs {
                    let peer = self.identify(&envelope);
                    let signal = Signal::of(packet);
                    self.note(&envelope, &peer, (text, signal), Some(reason), false, now);
                }
            }
        }
    }

    fn letter(&mut self, letter: &Letter, now: Now) {
        let envelope = &letter.envelope;
        let triggered = self.trigger.question(&letter.text);
        if let Some(code) = triggered.and_then(commands::pairing_code) {
            let text = self.masked(&letter.text);
            let ignored = self.pair(letter, code, now);
            let peer = self.identify(envelope);
            self.note(envelope, &peer, (text, letter.signal), ignored, true, now);
            return;
        }
        if let Some(words) = Mesh::words_of_distress(letter, triggered) {
            self.distress(letter, words, now);
            return;
        }
        let mut peer = self.identify(envelope);
        if !policy::is_denied(&self.config, envelope, &peer) {
            self.observe(envelope, triggered.is_some(), now);
            peer = self.identify(envelope);
        }
        let question = match triggered {
            _ if trigger::starts_with_part_mark(&letter.text) => Err(Ignored::PartMark),
            Some(question) => Ok(question.to_owned()),
            None => self.untriggered(letter, &peer, now),
        };
        let text = self.masked(&letter.text);
        let done = question.and_then(|question| self.accept(letter, &peer, &question, now));
        let could_be_one = envelope.channel.is_none() || triggered.is_some();
        let text = (text, letter.signal);
        self.note(envelope, &peer, text, done.as_ref().err().copied(), could_be_one, now);
        if let Ok(Some(command)) = done {
            self.carry_out(command, letter, &peer, now);
        }
    }

    /// The text as it may be shown: without a code that confirms or pairs.
    fn masked(&self, text: &str) -> String {
        let heard_as = self.trigger.question(text).unwrap_or(text);
        self.pairing.masked(&commands::masked(text, heard_as))
    }

    /// The command that a text without trigger is: only in a conversation that a verified peer is in.
    fn untriggered(&self, letter: &Letter, peer: &Peer, now: Now) -> Result<String, Ignored> {
        // A code is only taken for one while one is waited for: `ok thanks` is no command.
        let one_word = letter.text.split_whitespace().count() == 1
            || (commands::confirmation(&letter.text).is_some()
                && self.waits_for_code(&letter.envelope, peer));
        let in_conversation = letter.envelope.channel.is_none()
            && peer.assurance == Assurance::Verified
            && self.seen.had_turn_lately(&peer.id, now);
        if one_word && in_conversation && Command::parse(&letter.text).is_some() {
            Ok(letter.text.clone())
        } else {
            Err(Ignored::NoTrigger)
        }
    }

    /// Decides on a question: a command to carry out, or `None` when it now waits for a model.
    fn accept(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        question: &str,
        now: Now,
    ) -> Result<Option<Command>, Ignored> {
        policy::scope(&self.config, &letter.envelope, peer)?;
        if self.stopped {
            return Err(Ignored::Stopped);
        }
        let turn = seen::turn_id(&peer.id, letter.envelope.id, &letter.text);
        // The outbox knows of commands whose packet a kill kept from being recorded.
        if self.seen.contains(&turn) || self.outbox.has_done(&turn) {
            if peer.assurance != Assurance::Unverified {
                let detail = format!("packet {} of {} came again", letter.envelope.id, peer.name);
                self.security("replay", letter.envelope.from, &detail, now);
            }
            return Err(Ignored::Replay);
        }
        if self.turns.contains_key(&turn) || self.asking_around.contains(&turn) {
            return Err(Ignored::BeingAnswered);
        }
        let command = Command::parse(question);
        self.guard_against_loops(letter, peer, command, now)?;
        if command == Some(Command::Short)
            && let Some(wish) = self.wish_for_less(letter, peer)
        {
            return self.question(letter, peer, turn, wish, now).map(|()| None);
        }
        if let Some(command) = command {
            // What stops something is never refused; only its confirmation costs.
            if command != Command::Stop {
                self.room_on_air(letter, peer, &turn, Use::Command, now)?;
                self.charge(letter, peer, &turn, Cost::Command, now)?;
            }
            return Ok(Some(command));
        }
        let asked = Asked { text: question.to_owned(), quotes: None };
        self.question(letter, peer, turn, asked, now).map(|()| None)
    }

    fn question(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: TurnId,
        question: Asked,
        now: Now,
    ) -> Result<(), Ignored> {
        let words = Words::of(&question.text, letter.envelope.channel.as_ref());
        if self.is_being_answered(&peer.id, words) {
            return Err(Ignored::BeingAnswered);
        }
        let answered = self.seen.recent_answer(&peer.id, words, now);
        if let Some(answered) = answered.filter(|answered| self.outbox.knows(answered)) {
            return match self.outbox.repeat(&answered, now) {
                Ok(true) => {
                    self.record(&turn, &peer.id, None, Outcome::Repeated, now);
                    Err(Ignored::Repeated)
                }
                Ok(false) => Err(Ignored::RepeatedAgain),
                Err(error) => {
                    tracing::error!(error = %error, "an answer could not be sent again");
                    Err(Ignored::Storage)
                }
            };
        }
        if !self.queue.admits(&peer.id) {
            self.notify(&letter.envelope, peer, &turn, NoticeKind::Busy, now);
            return Err(Ignored::Busy);
        }
        self.room_on_air(letter, peer, &turn, Use::Answer, now)?;
        self.charge(letter, peer, &turn, Cost::Question, now)?;
        self.admit(letter, peer, turn, question, words, now)
    }

    /// Could its answer leave within a time that somebody waits? The busiest part of a mesh is its air.
    fn room_on_air(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: &TurnId,
        purpose: Use,
        now: Now,
    ) -> Result<(), Ignored> {
        let to_come = self.queue.waiting() + self.queue.running();
        // Who has an answer waiting already leaves the rest of the room to others.
        let longest = if purpose == Use::Answer && self.outbox.is_waiting(&peer.id) {
            LONGEST_WAIT_MS / 3
        } else {
            LONGEST_WAIT_MS
        };
        if self.outbox.wait_ms(purpose, to_come, now) <= longest {
            return Ok(());
        }
        self.notify(&letter.envelope, peer, turn, NoticeKind::Busy, now);
        Err(Ignored::Busy)
    }

    /// Takes it from the peer's budget. Over it: one notice a window, then silence.
    fn charge(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: &TurnId,
        cost: Cost,
        now: Now,
    ) -> Result<(), Ignored> {
        let per_hour = self.config.queries_per_hour;
        if self.budgets.take(verified(peer), cost, per_hour, now.mono_ms) {
            return Ok(());
        }
        self.notify(&letter.envelope, peer, turn, NoticeKind::OverBudget, now);
        Err(Ignored::OverBudget)
    }

    /// Says why there is no answer, unless that was said in this window.
    pub(super) fn notify(
        &mut self,
        envelope: &Envelope,
        peer: &Peer,
        turn: &TurnId,
        kind: NoticeKind,
        now: Now,
    ) {
        if !self.budgets.may_notify(kind, verified(peer), now.mono_ms) {
            return;
        }
        let text = match kind {
            NoticeKind::OverBudget => commands::OVER_BUDGET.to_owned(),
            NoticeKind::Busy => commands::busy(self.minutes_to_wait(now)),
        };
        let id = TurnId(format!("{}-n", turn.0));
        // What can't be stored is not said, and that is in the log.
        let _ = self.reply(id, envelope, peer, ReplyKind::Notice, text, now);
    }

    pub(super) fn observe(&mut self, envelope: &Envelope, triggered: bool, now: Now) {
        let (finding, saved) = self.contacts.observe(envelope, now);
        if let Err(error) = saved {
            tracing::error!(error = %error, "a pinned key could not be stored");
        }
        let Some(finding) = finding else { return };
        if matches!(finding.kind, "new_pin" | "moved" | "foreign_key") {
            self.unsynced.mark(self.contacts.path().to_owned(), now);
        }
        if matches!(finding.kind, "new_pin" | "moved") {
            self.keep_contacts_in_radio(now);
        }
        // A contact may chat on a channel; only a question there would be a claim to something.
        if finding.kind != "unverified_claim" || triggered {
            self.security(finding.kind, envelope.from, &finding.detail, now);
        }
    }

    pub(super) fn note(
        &mut self,
        envelope: &Envelope,
        peer: &Peer,
        (text, signal): (String, Signal),
        ignored: Option<Ignored>,
        could_be_question: bool,
        now: Now,
    ) {
        let channel = envelope.channel.as_ref().map(|channel| channel.name.clone());
        let ignored = ignored.map(|reason| reason.to_string());
        if could_be_question {
            self.tell(MeshEvent::Heard {
                from: envelope.from,
                name: peer.name.clone(),
                assurance: peer.assurance,
                channel: channel.clone(),
                text: text.clone(),
                ignored: ignored.clone(),
            });
        }
        self.messages.push_in(MessageView {
            at: now.unix_ms,
            direction: "in",
            node: envelope.from,
            name: peer.name.clone(),
            assurance: peer.assurance,
            channel,
            text,
            delivery: None,
            ignored,
            id: envelope.id,
            snr: signal.snr(),
            rssi: signal.rssi,
        });
    }

    /// May this be told of that number? Once in a while: a flood must not fill the log.
    pub(super) fn may_tell(&mut self, kind: &'static str, from: NodeNum, now: Now) -> bool {
        self.told.retain(|_, until| *until > now.mono_ms);
        if self.told.contains_key(&(kind, from)) || self.told.len() >= MAX_TOLD {
            return false;
        }
        self.told.insert((kind, from), now.mono_ms.saturating_add(TELL_AGAIN_MS));
        true
    }

    pub(super) fn security(&mut self, kind: &'static str, from: NodeNum, detail: &str, now: Now) {
        if !self.may_tell(kind, from, now) {
            return;
        }
        tracing::warn!(kind, from = %from, "{detail}");
        let (kind, detail) = (kind.to_owned(), detail.to_owned());
        self.tell(MeshEvent::Security { kind, from, detail });
    }

    /// Records the end of a packet. What can't be written is still known until a restart.
    pub(super) fn record(
        &mut self,
        turn: &TurnId,
        peer: &PeerId,
        words: Option<Words>,
        outcome: Outcome,
        now: Now,
    ) {
        if let Err(error) = self.seen.record(turn, peer, words, outcome, now) {
            tracing::error!(error = %error, "the end of a turn could not be recorded");
        }
        self.unsynced.mark(self.seen.path().to_owned(), now);
    }
}

/// The peer, if a budget of its own is safe to keep for it.
pub(super) fn verified(peer: &Peer) -> Option<&PeerId> {
    (peer.assurance == Assurance::Verified).then_some(&peer.id)
}
