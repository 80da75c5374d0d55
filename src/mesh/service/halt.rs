//! Ends before the answer: `stop`, `forget`, lists that changed, and the operator's stop of everything.

use super::Mesh;
use super::turns::refused;
use crate::assistant::{CallerScope, PeerId, TurnId};
use crate::clock::Now;
use crate::mesh::identity::Peer;
use crate::mesh::inbox::{Envelope, Ignored};
use crate::mesh::policy;
use crate::mesh::seen::Outcome;
use crate::mesh::view::StopView;
use crate::store::{self, Durability, StoreError};

/// In the data folder while the operator has stopped everything, so that a restart does not take it back.
pub(super) const STOPPED_FILE: &str = "stopped";

impl Mesh {
    /// Who sent it. In licensed mode nobody has proved anything, whatever was proved before.
    pub(super) fn identify(&self, envelope: &Envelope) -> Peer {
        if self.radio.as_ref().is_some_and(|radio| radio.owner.licensed) {
            return self.contacts.identify(&envelope.in_the_clear());
        }
        self.contacts.identify(envelope)
    }

    /// Stops everything of a peer: turns that run or wait, and parts that have not left. Was there anything?
    pub(super) fn stop(&mut self, peer: &PeerId, now: Now) -> bool {
        let theirs: Vec<TurnId> = self
            .turns
            .iter()
            .filter(|(_, turn)| turn.peer == *peer)
            .map(|(id, _)| id.clone())
            .collect();
        for id in &theirs {
            self.drop_turn(id, Outcome::Stopped, now);
        }
        self.answerer.drop_pending(peer);
        let withdrawn = self.outbox.stop(peer, now).unwrap_or_else(|error| {
            tracing::error!(error = %error, "waiting parts could not be withdrawn");
            0
        });
        !theirs.is_empty() || withdrawn > 0
    }

    /// After the lists changed: who is not answered any more does not get an answer that is still being made.
    pub(super) fn stop_those_no_longer_answered(&mut self) {
        for turn in self.turns.values().filter(|turn| turn.is_running()) {
            let peer = self.identify(&turn.question.envelope);
            if policy::scope(&self.config, &turn.question.envelope, &peer).is_err() {
                turn.cancel.cancel();
            }
        }
    }

    /// Deletes what is kept of a peer. A turn of it that runs is stopped, and what that leaves behind is deleted when
    /// it has ended.
    pub(super) fn forget_peer(
        &mut self,
        peer: &PeerId,
        scope: &CallerScope,
        now: Now,
    ) -> Result<(), StoreError> {
        let running = self.turns.iter().filter(|(_, turn)| turn.peer == *peer && turn.is_running());
        let running: Vec<TurnId> = running.map(|(id, _)| id.clone()).collect();
        self.stop(peer, now);
        self.unsubmitted.retain(|end| end.peer != *peer);
        self.forgetting.extend(running.into_iter().map(|id| (id, scope.clone())));
        self.outbox.forget_peer(peer, now)?;
        self.answerer.forget(scope)
    }

    /// A turn has ended that ran while its peer wanted everything deleted.
    pub(super) fn forget_late(&mut self, id: &TurnId) {
        if let Some(scope) = self.forgetting.remove(id)
            && let Err(error) = self.answerer.forget(&scope)
        {
            tracing::error!(error = %error, "what a stopped turn left could not be deleted");
        }
    }

    /// The operator stops everything, or takes that back. Questions that wait or run end without an answer; answers
    /// that are kept stay, and their peers can ask for them again.
    pub(super) fn stop_all(&mut self, resume: bool, now: Now) -> StopView {
        let file = self.data_dir.join(STOPPED_FILE);
        if resume {
            if let Err(error) = store::remove(&file) {
                tracing::error!(error = %error, "the stop is taken back until the next start only");
            }
            self.stopped = false;
            self.outbox.resume();
            return StopView { stopped: false, turns: 0, parts: 0 };
        }
        // Stopped first: what can't be written is stopped all the same.
        self.stopped = true;
        if let Err(error) = store::replace(&file, b"", Durability::Disk) {
            tracing::error!(error = %error, "the stop would not outlive a restart");
        }
        let turns: Vec<TurnId> = self.turns.keys().cloned().collect();
        for id in &turns {
            self.drop_turn(id, refused(Ignored::Stopped), now);
        }
        for contact in self.told_contacts.iter().flatten() {
            self.answerer.drop_pending(&contact.caller);
        }
        for end in std::mem::take(&mut self.unsubmitted) {
            self.end(&end.reply.id, &end.peer, None, refused(Ignored::Stopped), now);
        }
        let parts = self.outbox.stop_all(now).unwrap_or_else(|error| {
            tracing::error!(error = %error, "waiting parts could not be withdrawn on disk");
            0
        });
        StopView { stopped: true, turns: turns.len(), parts }
    }
}
