//! Distress texts: recorded at once, shown to the operator, acknowledged where the policy lets the caller be answered.
//!
//! Owns what is done with one, in this order: the record, then the acknowledgement. No queue, no model, no budget of
//! questions and no guard against loops stands before it. Whose calls are kept and what gives way is written in
//! `mesh::distress`.
//!
//! Everybody's text is recorded, for a record costs no air and gives nobody anything; a suspended contact's too, for it
//! is the same person as before. Only who is denied is not heard: the operator has asked for that, and it is the one means
//! against a sender of false alarms.

use super::Mesh;
use super::accept::verified;
use crate::assistant::{Assurance, TurnId};
use crate::clock::Now;
use crate::mesh::commands;
use crate::mesh::distress::{Cleared, Distress, Recorded};
use crate::mesh::identity::Peer;
use crate::mesh::inbox::{Ignored, Letter};
use crate::mesh::operator::{Refusal, Wish};
use crate::mesh::outbox::ReplyKind;
use crate::mesh::policy;
use crate::mesh::seen::{self, Outcome};
use crate::mesh::view::{DistressView, MeshEvent};

impl Mesh {
    /// What follows `sos` in that text, if it is one for us: in a direct message with or without the trigger, on a channel
    /// only with it.
    pub(super) fn words_of_distress<'a>(
        letter: &'a Letter,
        triggered: Option<&'a str>,
    ) -> Option<&'a str> {
        let direct = letter.envelope.channel.is_none();
        triggered.or(direct.then_some(letter.text.as_str())).and_then(commands::distress)
    }

    /// A distress text. Gives what is to be noted of it: why there is no acknowledgement, if there is none.
    pub(super) fn distress(&mut self, letter: &Letter, words: &str, now: Now) {
        let envelope = &letter.envelope;
        let mut peer = self.identify(envelope);
        if policy::is_denied(&self.config, envelope, &peer) {
            let text = (letter.text.clone(), letter.signal);
            self.note(envelope, &peer, text, Some(Ignored::Denied), true, now);
            return;
        }
        self.observe(envelope, true, now);
        peer = self.identify(envelope);
        let turn = seen::turn_id(&peer.id, envelope.id, &letter.text);
        let done = self.record_distress(letter, &peer, &turn, words, now);
        let done = done.and_then(|()| self.acknowledge(letter, &peer, &turn, now));
        let text = (letter.text.clone(), letter.signal);
        self.note(envelope, &peer, text, done.err(), true, now);
    }

    fn record_distress(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: &TurnId,
        words: &str,
        now: Now,
    ) -> Result<(), Ignored> {
        let Letter { envelope, signal, .. } = letter;
        let from = envelope.from;
        let signed = peer.assurance == Assurance::Signed;
        let key = peer.key.or(envelope.signed_key.filter(|_| signed));
        let claimed = self.contacts.of_number(from).filter(|_| peer.contact.is_none());
        let view = DistressView {
            id: turn.clone(),
            at: now.unix_ms,
            first_at: now.unix_ms,
            times: 1,
            node: from,
            name: peer.name.clone(),
            assurance: peer.assurance,
            fingerprint: key.map(|key| key.fingerprint()),
            claims: claimed.map(|contact| contact.name.clone()),
            channel: envelope.channel.as_ref().map(|channel| channel.name.clone()),
            mqtt: envelope.mqtt,
            text: words.to_owned(),
            seen_at: None,
            snr: signal.snr(),
            hops: signal.hops,
        };
        let before = self.seen.contains(turn) || self.outbox.has_done(turn);
        let recorded = match before {
            true => Recorded::Known,
            false => {
                let recorded = self.distress.record(Distress { peer: peer.id.clone(), view });
                recorded.unwrap_or_else(|error| {
                    tracing::error!(error = %error, "a distress text would not outlive a restart");
                    Recorded::New
                })
            }
        };
        if recorded == Recorded::Known {
            if peer.assurance != Assurance::Unverified {
                let detail = format!("packet {} of {} came again", envelope.id, peer.name);
                self.security("replay", from, &detail, now);
            }
            return Err(Ignored::Replay);
        }
        self.unsynced.mark(self.distress.path().to_owned(), now);
        if self.may_tell("distress", from, now) {
            tracing::warn!(
                "distress text from {from} ({}), see the node page",
                sure(peer.assurance)
            );
        }
        self.tell(MeshEvent::Distress {
            id: turn.clone(),
            from,
            name: peer.name.clone(),
            assurance: peer.assurance,
            cleared: false,
        });
        Ok(())
    }

    /// Says by radio what was done with it, and what was not. Who is not answered at all gets none; nobody gets more than
    /// one in ten minutes, and all who proved nothing share a few.
    fn acknowledge(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: &TurnId,
        now: Now,
    ) -> Result<(), Ignored> {
        policy::scope(&self.config, &letter.envelope, peer)?;
        if self.stopped {
            return Err(Ignored::Stopped);
        }
        self.budgets.may_acknowledge(&peer.id, verified(peer).is_some(), now.mono_ms)?;
        let text = commands::DISTRESS_SHOWN.to_owned();
        let (envelope, kind) = (&letter.envelope, ReplyKind::Distress);
        if self.reply(turn.clone(), envelope, peer, kind, text, now).is_err() {
            return Err(Ignored::Storage);
        }
        self.budgets.acknowledged(&peer.id, verified(peer).is_some(), now.mono_ms);
        self.record(turn, &peer.id, None, Outcome::Command, now);
        Ok(())
    }

    /// `mesh.distress-clear`. Recorded before it is done.
    pub(super) fn clear_distress(
        &mut self,
        wish: &Wish<TurnId>,
        now: Now,
    ) -> Result<Vec<DistressView>, Refusal> {
        let id = &wish.what;
        let Some(text) = self.distress.get(id) else {
            let rule = "no distress text has this id, or it made room for newer ones: ask mesh.distress again";
            return Err(Refusal::wrong("id", rule));
        };
        let (from, name) = (text.view.node, text.view.name.clone());
        let assurance = text.view.assurance;
        if text.view.seen_at.is_none() {
            let what = format!("distress text of {name} ({from}, {}) cleared", sure(assurance));
            self.changes.record(&wish.by, &what, now)?;
            if self.distress.clear(id, now)? == Cleared::Now {
                self.unsynced.mark(self.distress.path().to_owned(), now);
                tracing::info!(by = wish.by, "{what}");
                self.tell(MeshEvent::Distress {
                    id: id.clone(),
                    from,
                    name,
                    assurance,
                    cleared: true,
                });
            }
        }
        Ok(self.distress.view())
    }
}

/// In words of the log.
fn sure(assurance: Assurance) -> &'static str {
    match assurance {
        Assurance::Verified => "pinned key",
        Assurance::Signed => "signed, not verified",
        Assurance::Unverified => "not verified",
    }
}
