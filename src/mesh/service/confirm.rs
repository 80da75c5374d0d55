//! Confirmations over the air: the question for a code, `ok CODE` and `no CODE`, and what came of it.
//!
//! Also owns telling the assistant who the contacts are. Decides nothing about authority: whether a code counts, and
//! what may still be done then, is the assistant's matter.

use std::sync::Arc;

use super::Mesh;
use super::orders::Asker;
use super::turns::Report;
use crate::assistant::grants::Standing;
use crate::assistant::{Assurance, CallerScope, PeerId, TurnId};
use crate::clock::Now;
use crate::mesh::commands;
use crate::mesh::identity::{Entry, Peer};
use crate::mesh::inbox::{Envelope, Ignored, Letter};
use crate::mesh::outbox::{NewReply, ReplyKind};
use crate::mesh::policy;
use crate::mesh::reply::plain;

impl Mesh {
    /// The caller's scope, with what is granted at this instant.
    pub(super) fn scope(&self, envelope: &Envelope, peer: &Peer) -> Result<CallerScope, Ignored> {
        policy::scope(&self.config, envelope, peer).map(|scope| self.answerer.current(scope))
    }

    /// Tells the assistant who the contacts are, when that has changed: from then on nobody else has authority.
    pub(super) fn tell_contacts(&mut self) {
        let standings: Vec<Standing> =
            self.contacts.entries().iter().filter_map(|entry| self.standing(entry)).collect();
        if self.told_contacts.as_ref() == Some(&standings) {
            return;
        }
        self.answerer.contacts(standings.clone());
        let before = self.told_contacts.replace(standings).unwrap_or_default();
        let now = self.told_contacts.as_deref().unwrap_or_default();
        // A key that counts no more can confirm nothing, not even when it counts again in a minute.
        let counts = |key: &PeerId| now.iter().any(|known| known.caller == *key && known.confirmed);
        for gone in before.iter().filter(|contact| contact.confirmed && !counts(&contact.caller)) {
            self.answerer.key_changed(&gone.caller);
        }
    }

    pub(super) fn standing(&self, contact: &Entry) -> Option<Standing> {
        let key = contact.pin.key()?;
        // As if it had just sent a message: the same rules decide about it.
        let envelope = Envelope {
            from: contact.number,
            id: crate::node::PacketId(0),
            channel: None,
            mqtt: false,
            proven_key: Some(key),
            signed_key: None,
            hops: None,
        };
        let scope = policy::scope(&self.config, &envelope, &self.identify(&envelope)).ok();
        let answered =
            matches!(&scope, Some(CallerScope::Mesh { assurance: Assurance::Verified, .. }));
        Some(Standing {
            caller: PeerId(format!("key:{key}")),
            name: contact.name.clone(),
            base: contact.grants.clone(),
            configured: self
                .config
                .allowed_contacts
                .iter()
                .any(|listed| listed.id == contact.id && listed.grants.is_some()),
            confirmed: answered && contact.pin.is_confirmed(),
        })
    }

    /// Asks for a code, where a call of that turn waits for one.
    pub(super) fn question_for_code(
        &mut self,
        turn: &TurnId,
        envelope: &Envelope,
        peer: &Peer,
    ) -> Option<NewReply> {
        let prompt = self.answerer.prompt(turn)?;
        if peer.assurance != Assurance::Verified || envelope.channel.is_some() {
            // Not over that way. It cannot have been asked for there, either.
            self.answerer.drop_pending(&peer.id);
            return None;
        }
        let text = commands::confirm(&prompt.call, prompt.code.expose());
        let reply = self.new_reply(turn.clone(), envelope, peer, ReplyKind::Confirm, text);
        Some(NewReply { secret: Some(prompt.code), ..reply })
    }

    /// Waits in a task of its own until it was decided about the call of that turn, where one waits.
    pub(super) fn wait_for_decision(&self, turn: &TurnId, envelope: &Envelope) {
        let Some(told) = self.answerer.told(turn) else { return };
        let asker = Asker { turn: TurnId(format!("{}-d", turn.0)), envelope: envelope.clone() };
        let (results, cancel) = (self.results.clone(), self.cancel.clone());
        self.tracker.spawn(async move {
            let words = tokio::select! {
                () = cancel.cancelled() => return,
                words = told => words,
            };
            // Only fails when the service is gone.
            let _ = results.send(Report::Decided(asker, words)).await;
        });
    }

    /// What came of it goes to the peer, if that may still have it.
    pub(super) fn report_decided(&mut self, asker: &Asker, words: Option<String>, now: Now) {
        let peer = self.identify(&asker.envelope);
        let verified = peer.assurance == Assurance::Verified;
        let may = verified && policy::scope(&self.config, &asker.envelope, &peer).is_ok();
        let Some(words) = words.filter(|words| !plain(words).is_empty()) else { return };
        if may && !self.stopped {
            let turn = asker.turn.clone();
            // Where it can't be stored the log says so; the call itself is done and recorded.
            let _ = self.reply(turn, &asker.envelope, &peer, ReplyKind::Answer, words, now);
        }
    }

    pub(super) fn waits_for_code(&self, envelope: &Envelope, peer: &Peer) -> bool {
        let scope = self.remembered(envelope, peer);
        scope.is_some_and(|scope| self.answerer.waits_for_code(&scope))
    }

    /// `ok CODE` and `no CODE`. What an approved call gives is told when it is there.
    pub(super) fn confirm(&self, letter: &Letter, peer: &Peer) -> Option<String> {
        let question = self.trigger.question(&letter.text).unwrap_or(&letter.text);
        let taken = self.remembered(&letter.envelope, peer).and_then(|scope| {
            let (yes, code) = commands::confirmation(question)?;
            Some((yes, self.answerer.take(&scope, code)?))
        });
        let Some((yes, taken)) = taken else {
            return Some(commands::NOTHING_TO_CONFIRM.to_owned());
        };
        let answerer = Arc::clone(&self.answerer);
        self.tracker.spawn(async move { answerer.settle(taken, yes).await });
        (!yes).then(|| commands::DROPPED.to_owned())
    }
}
