//! The operator's decisions about who is answered, brought into force.
//!
//! What is possible is written in `identity`; here it is recorded, stored, and everybody concerned is told, in that order.

use super::Mesh;
use crate::clock::Now;
use crate::mesh::identity::Planned;
use crate::mesh::operator::{Change, Changed, Refusal, Wish};
use crate::mesh::view::MeshEvent;
use crate::node::NodeNum;
use crate::store::StoreError;

impl Mesh {
    pub(super) fn change(&mut self, wish: &Wish<Change>, now: Now) -> Result<Changed, Refusal> {
        let planned = self.contacts.plan(&wish.what, &self.configured, now)?;
        let mut warnings = planned.warnings.clone();
        match &wish.what {
            Change::AddContact { id, name: Some(name), .. } | Change::Rename { id, name } => {
                warnings.extend(self.nodes_like(name, *id));
            }
            _ => {}
        }
        self.bring_into_force(&wish.by, planned, now)?;
        Ok(Changed { answering: self.answering(now), warnings })
    }

    /// Records a decision, stores it, and lets it take effect at once.
    pub(super) fn bring_into_force(
        &mut self,
        by: &str,
        planned: Planned,
        now: Now,
    ) -> Result<(), StoreError> {
        if planned.is_nothing() {
            return Ok(());
        }
        let (what, void, silenced) = (planned.what.clone(), planned.void.clone(), planned.silenced);
        // Before it is done: nothing goes unrecorded.
        self.changes.record(by, &what, now)?;
        if let Err(error) = self.contacts.carry_out(planned) {
            let not = format!("not done, for the disk did not take it: {what}");
            if let Err(error) = self.changes.record(by, &not, now) {
                tracing::error!(error = %error, "the record of changes has one that was not made");
            }
            return Err(error);
        }
        self.config = self.contacts.effective(&self.configured);
        self.stop_those_no_longer_answered();
        for peer in &void {
            self.answerer.key_changed(peer);
            if silenced && let Err(error) = self.outbox.stop(peer, now) {
                tracing::error!(error = %error, "waiting parts could not be withdrawn on disk");
            }
        }
        self.keep_contacts_in_radio(now);
        tracing::info!(by, "{what}");
        self.tell(MeshEvent::Changed { by: by.to_owned(), what });
        Ok(())
    }

    /// Records what the operator did that changes nobody's standing.
    pub(super) fn note_change(&mut self, by: &str, what: &str, now: Now) -> Result<(), StoreError> {
        self.changes.note(by, what, now)?;
        self.unsynced.mark(self.changes.path().to_owned(), now);
        Ok(())
    }

    /// What to say of heard nodes that call themselves something like that name.
    pub(super) fn nodes_like(&self, name: &str, own: NodeNum) -> Vec<String> {
        let contact = self.contacts.of_number(own);
        let own = contact.map_or(own, |contact| contact.number);
        self.nodes
            .that_look_like(name, own)
            .into_iter()
            // A contact's own name for its own node is told of the contact.
            .filter(|(number, _)| self.contacts.of_number(*number).is_none_or(|c| c.name != name))
            .map(|(number, theirs)| {
                format!("`{name}` looks like `{theirs}`, as the node {number} calls itself")
            })
            .collect()
    }
}
