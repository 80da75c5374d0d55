//! The assistant: one loop for every caller.
//!
//! Owns the way from a question to its answer. Knows no radio, no HTTP session and no constant of the
//! air; it is given a [`CallerScope`] and a text, and gives a text back.

pub mod backends;
pub mod begun;
pub mod call_ledger;
pub mod caller;
pub mod chat;
pub mod cloud;
pub mod confirm;
#[cfg(test)]
pub mod fixture;
pub mod gate;
pub mod grants;
pub mod guard;
pub mod history;
pub mod http;
pub mod leaked_call;
pub mod legs;
pub mod loop_;
pub mod models;
pub mod observer;
pub mod prompt;
pub(crate) mod schema;
pub mod summaries;
pub mod tools;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use caller::{
    Assurance, CallerScope, CategorySet, HistoryKey, PeerId, PermissionCategory, SessionId,
};
pub use chat::Assistant;

/// Names one turn: chosen by the caller's side, the same again after a restart. A turn whose answer is
/// already in the transcript is not run again: its stored answer is returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub String);

/// Everything about a question but its text.
#[derive(Debug, Clone)]
pub struct ChatContext {
    /// Who asks, and with which authority.
    pub scope: CallerScope,
    /// Names the turn.
    pub turn_id: TurnId,
    /// Stops model and tools; the connection to the model server is closed.
    pub cancel: CancellationToken,
    /// How many bytes the answer should fit in, told to the model; `None` for no wish.
    pub answer_bytes: Option<usize>,
    /// The text repeats the answer of that turn: what went into it is in this one too. Of a turn that nobody knows,
    /// anything may have.
    pub quotes: Option<TurnId>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatStatus {
    /// There is an answer.
    Answered,
    /// The caller stopped it.
    Stopped,
    /// There is none; `text` is one short honest line for the caller, without a raw error.
    Failed,
}

/// Where the model runs that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelPlace {
    /// On the operator's own machines.
    Local,
    /// In a cloud.
    Cloud,
    /// None is reachable.
    Off,
}

/// What became of one tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It ran and succeeded.
    Ran,
    /// It ran and failed.
    Failed,
    /// There is no such tool.
    Unknown,
    /// The caller has no grant for its category, or who was asked said no.
    Denied,
    /// The arguments don't fit its schema.
    BadArguments,
    /// It changes something and waits for a confirmation.
    NeedsConfirmation,
}

/// One line of the tool ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRecord {
    /// The name that the model used.
    pub name: String,
    /// `None` for an unknown tool.
    pub category: Option<PermissionCategory>,
    /// What became of it.
    pub outcome: ToolOutcome,
}

/// Why a leg did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegReason {
    /// `ollama`, `claude`, `openai` or `offline`.
    pub leg: String,
    /// For the operator: no secret, no message text.
    pub reason: String,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatReply {
    /// How it ended.
    pub status: ChatStatus,
    /// The answer in Markdown, or the short line of a failure.
    pub text: String,
    /// The leg that answered.
    pub backend: String,
    /// The tool ledger of the turn, in order.
    pub tools: Vec<ToolRecord>,
    /// The legs that were tried and did not answer, in order.
    pub reasons: Vec<LegReason>,
}
