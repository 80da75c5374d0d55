//! What RPC asks of the assistant, and the forms in which it shows the answers.
//!
//! Owns the trait and the views. Decides nothing; every question names the caller's scope, and the
//! answer is about that caller alone.

use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::assistant::{
    CallerScope, ChatContext, ChatReply, ChatStatus, PermissionCategory, ToolRecord, TurnId,
};
use crate::store::StoreError;

/// How long the state of the legs is remembered.
pub const LEGS_MEMORY: Duration = Duration::from_secs(5);

/// A boxed future, for a trait that is used as an object.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The assistant as RPC needs it.
pub trait Desk: Send + Sync {
    /// Runs a turn; ends early when the context's token is cancelled.
    fn chat<'a>(&'a self, context: ChatContext, text: &'a str) -> Answer<'a, ChatReply>;
    /// The caller's own transcript, oldest first.
    fn history(&self, scope: &CallerScope) -> Vec<HistoryLine>;
    /// Deletes the caller's own transcript.
    fn clear_history(&self, scope: &CallerScope) -> Result<(), StoreError>;
    /// All tools, as the caller sees them.
    fn list_tools(&self, scope: &CallerScope) -> Vec<ToolView>;
    /// The legs. May ask the local model server, and waits for it a short time only.
    fn legs(&self) -> Answer<'_, LegsView>;
}

/// The last answer to [`Desk::legs`], kept for a moment: pages and health checks ask often, and each
/// question may go to a model server.
#[derive(Default)]
pub struct LegsMemory {
    last: Mutex<Option<(Instant, LegsView)>>,
}

impl LegsMemory {
    /// The legs, at most [`LEGS_MEMORY`] old. Whoever asks at the same time waits for the same answer.
    pub async fn of(&self, desk: &dyn Desk) -> LegsView {
        let mut last = self.last.lock().await;
        if let Some((at, view)) = &*last
            && at.elapsed() < LEGS_MEMORY
        {
            return view.clone();
        }
        let view = desk.legs().await;
        *last = Some((Instant::now(), view.clone()));
        view
    }
}

/// One line of a transcript.
#[derive(Debug, Clone)]
pub struct HistoryLine {
    /// The turn that it belongs to.
    pub turn_id: TurnId,
    /// Unix milliseconds.
    pub at: u64,
    /// Who said it, and what belongs to that.
    pub said: Said,
}

/// A question or an answer.
#[derive(Debug, Clone)]
pub enum Said {
    /// By the caller.
    Question(String),
    /// By the assistant.
    Answer {
        /// In Markdown.
        text: String,
        /// How the turn ended.
        status: ChatStatus,
        /// The leg that answered.
        backend: String,
        /// The turn's tool ledger.
        tools: Vec<ToolRecord>,
    },
}

/// One tool.
#[derive(Debug, Clone, Serialize)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// Its category.
    pub category: PermissionCategory,
    /// Does it change something?
    pub destructive: bool,
    /// May this caller use it?
    pub granted: bool,
}

/// The assistant's part of `mesh.assistant-status`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LegsView {
    /// Does Ollama answer?
    pub ollama_detected: bool,
    /// The models that it has.
    pub models: Vec<String>,
    /// Is there a key for Claude?
    pub claude_available: bool,
    /// The legs, in the order in which they are tried.
    pub legs: Vec<LegView>,
}

/// One leg.
#[derive(Debug, Clone, Serialize)]
pub struct LegView {
    /// `ollama`, `claude`, `openai` or `offline`.
    pub name: String,
    /// In a word what is known of it.
    pub state: String,
    /// Why it is not used.
    pub reason: Option<String>,
}
