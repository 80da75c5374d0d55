//! What the operator may ask of the mesh side while it runs, and what it answers.
//!
//! Owns these forms and the ways in which such a wish is refused. Must not know roles or sessions: who may ask is RPC's
//! to check, and only a name for the record comes along.

use serde::Serialize;
use tokio::sync::oneshot;

use super::pairing::Code;
use super::view::{AnsweringView, MeshGone, MeshHandle, MeshQuery};
use crate::config::Asker;
use crate::node::{NodeNum, PublicKey};
use crate::store::StoreError;

/// A change of who is answered. A contact is named by its number as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// One more contact. Without a key it is pinned at its first encrypted message.
    AddContact {
        /// Its number.
        id: NodeNum,
        /// What it is; pinned and confirmed.
        key: Option<PublicKey>,
        /// What to call it.
        name: Option<String>,
    },
    /// A contact that was added here goes, with its pin.
    RemoveContact {
        /// Its number.
        id: NodeNum,
    },
    /// A contact is not answered any more, or is again.
    Suspend {
        /// Its number.
        id: NodeNum,
        /// Suspended?
        suspended: bool,
    },
    /// What to call a contact.
    Rename {
        /// Its number.
        id: NodeNum,
        /// The new name.
        name: String,
    },
    /// Somebody is refused whatever else holds, or is not any more.
    Deny {
        /// Whom.
        asker: Asker,
        /// Denied?
        denied: bool,
    },
    /// Only contacts are answered.
    TrustedOnly(bool),
    /// Peers are answered at all.
    Enabled(bool),
    /// The model was chosen. Only recorded here: the assistant has taken it already.
    Model(String),
    /// A decision on a key that was seen under a contact's number.
    Key {
        /// The contact's number.
        id: NodeNum,
        /// Of the key that is decided on.
        fingerprint: String,
        /// Of the key that is pinned as the operator saw it; compared where it is given.
        pinned: Option<String>,
        /// It is the contact's, or it is not.
        accept: bool,
    },
}

/// A wish of the operator, and who it was for the record: a role and the start of a login's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish<T> {
    /// Who.
    pub by: String,
    /// What.
    pub what: T,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// Who is answered now.
    pub answering: AnsweringView,
    /// What the operator should look at because of this change.
    pub warnings: Vec<String>,
}

/// A pairing that was opened, or closed: then there is no code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// For the operator's eyes only.
    pub code: Option<Code>,
    /// Seconds.
    pub expires_in_s: u64,
    /// What the operator should look at.
    pub warnings: Vec<String>,
}

/// A text of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// A contact's or a heard node's number.
    pub to: NodeNum,
    /// One part.
    pub text: String,
    /// Ask the peer's radio to confirm it, which may cost three transmissions.
    pub ack: bool,
}

/// `mesh.send`: it waits for the air now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// Names it in the events about its parts.
    pub reply: String,
    /// Whom it goes to.
    pub to: NodeNum,
    /// What that one is called.
    pub name: String,
    /// Bytes of text as it goes on air.
    pub bytes: usize,
    /// Bytes that it may have.
    pub budget: usize,
}

/// How a wish is refused. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// What was given can't be right.
    Wrong,
    /// It stands in the configuration under this key, and is changed there.
    Configured(&'static str),
    /// It can't be done as things stand.
    State,
    /// It could not be written to the disk.
    Storage,
}

/// A refused wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In which way.
    pub why: Why,
    /// The field that it is about; empty where it is about none.
    pub field: &'static str,
    /// For people: the rule, and what would be right.
    pub reason: String,
}

impl Refusal {
    /// What was given in that field can't be right.
    pub fn wrong(field: &'static str, reason: impl Into<String>) -> Refusal {
        Refusal { why: Why::Wrong, field, reason: reason.into() }
    }

    /// It can't be done as things stand.
    pub fn state(field: &'static str, reason: impl Into<String>) -> Refusal {
        Refusal { why: Why::State, field, reason: reason.into() }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        tracing::error!(error = %error, "a change of the operator's could not be stored");
        let reason =
            "the data folder could not be written, so nothing was changed; the log says why";
        Refusal { why: Why::Storage, field: "", reason: reason.to_owned() }
    }
}

/// Where an answer to a wish goes.
pub type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

impl MeshHandle {
    /// Changes who is answered; in force when it returns.
    pub async fn change(&self, wish: Wish<Change>) -> Result<Result<Changed, Refusal>, MeshGone> {
        self.ask(|reply| MeshQuery::Change(Box::new(wish), reply)).await
    }

    /// `mesh.pair`: opens a code for a contact of that name; `None` voids the open one.
    pub async fn pair(
        &self,
        wish: Wish<Option<String>>,
    ) -> Result<Result<Opened, Refusal>, MeshGone> {
        self.ask(|reply| MeshQuery::Pair(wish, reply)).await
    }

    /// `mesh.send`
    pub async fn send_text(&self, wish: Wish<Text>) -> Result<Result<Queued, Refusal>, MeshGone> {
        self.ask(|reply| MeshQuery::SendText(wish, reply)).await
    }
}
