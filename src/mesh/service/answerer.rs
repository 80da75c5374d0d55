//! Who answers questions, as the mesh side sees it.
//!
//! Owns the interface, in the mesh side's words. Whoever implements it knows no radio; nothing here is called while a
//! packet waits, but for what is marked as quick.

use std::future::Future;
use std::pin::Pin;

use crate::assistant::confirm::{Prompt, Taken, Told};
use crate::assistant::grants::Standing;
use crate::assistant::{CallerScope, ChatContext, ChatReply, ModelPlace, PeerId, TurnId};
use crate::store::StoreError;

/// The answer to come.
pub type Answer<'a> = Pin<Box<dyn Future<Output = ChatReply> + Send + 'a>>;

/// The place to come.
pub type Place<'a> = Pin<Box<dyn Future<Output = ModelPlace> + Send + 'a>>;

/// What was decided, being done.
pub type Settling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Who answers questions: the assistant, or a script in a test.
pub trait Answerer: Send + Sync + 'static {
    /// Runs one turn. Runs in a task of its own; a panic in it ends the turn with a failure.
    fn chat(&self, context: ChatContext, text: String) -> Answer<'_>;

    /// Begins a fresh conversation: no model is given what that caller said before. Quick.
    fn new_conversation(&self, caller: &CallerScope) -> Result<(), StoreError>;

    /// Deletes what is remembered of that caller. Quick.
    fn forget(&self, caller: &CallerScope) -> Result<(), StoreError>;

    /// Where the model runs that would answer that caller now. May ask around; runs in a task of its own.
    fn model_place<'a>(&'a self, caller: &'a CallerScope) -> Place<'a>;

    /// Who the contacts are now, and what they have where nothing was set. Told after every change. Quick.
    fn contacts(&self, _contacts: Vec<Standing>) {}

    /// The same caller with what is granted to it at this instant. Quick.
    fn current(&self, caller: CallerScope) -> CallerScope {
        caller
    }

    /// From where the grants of that caller come: `default`, `configuration` or `grants.json`. Quick.
    fn grants_source(&self, _caller: &PeerId) -> &'static str {
        "default"
    }

    /// What the caller of that turn can confirm itself. Its code goes on the air and nowhere else.
    fn prompt(&self, _turn: &TurnId) -> Option<Prompt> {
        None
    }

    /// What is to be told the peer of that turn about a call that waits, once it was decided; `None` when none waits.
    fn told(&self, _turn: &TurnId) -> Option<Told> {
        None
    }

    /// Does a call of that caller wait for its code?
    fn waits_for_code(&self, _caller: &CallerScope) -> bool {
        false
    }

    /// Takes the call that waits for this code, so that nobody else can; `None` when nothing waits for it.
    fn take(&self, _caller: &CallerScope, _code: &str) -> Option<Taken> {
        None
    }

    /// Does what the peer decided. What came of it is told where [`Answerer::told`] waits. Runs in a task of its own.
    fn settle(&self, _taken: Taken, _approve: bool) -> Settling<'_> {
        Box::pin(std::future::ready(()))
    }

    /// Drops what waits for a confirmation of that peer: it said `stop`, or is to be forgotten. Quick.
    fn drop_pending(&self, _peer: &PeerId) {}

    /// Another key counts for that peer now: whatever waits for its confirmation is void. Quick.
    fn key_changed(&self, peer: &PeerId) {
        self.drop_pending(peer);
    }
}
