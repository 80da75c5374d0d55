//! The legs: what answers, behind one interface.
//!
//! Owns the forms in which the loop speaks to a leg. The loop knows no wire format; a leg knows no
//! caller and no tool beyond what it is offered.

pub mod claude;
pub mod offline;
pub mod ollama;
pub mod openai;
mod reading;
#[cfg(test)]
pub mod scripted;
mod window;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

/// The length cap on every request, in tokens.
pub const ASSISTANT_MAX_TOKENS: u32 = 2048;
/// No request to a model server may take longer.
pub const ASSISTANT_HTTP_TIMEOUT: Duration = Duration::from_secs(180);
/// The cloud model, unless configured otherwise.
pub const CLAUDE_MODEL: &str = "claude-haiku-4-5-20251001";

/// Stands at the end of an answer that was cut at the length cap.
pub const CUT_MARK: &str = " […]";
/// What a caller is told when the model declined; nothing of what it had begun is shown.
const DECLINED: &str = "The model declined to answer that.";
/// What a model is told before the summary of a conversation, and what it is taken to have answered.
const SUMMARY_BEFORE: &str = "What was said before, in short:\n";
const SUMMARY_AFTER: &str = "Noted.";

/// A future of a leg. Dropping it closes the connection, which stops the server's work.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// `[a-zA-Z0-9_-]`, at most 64.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of an object.
    pub parameters: Value,
}

/// A call that a model wants.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The server's, or made up.
    pub id: String,
    /// As the model wrote it: not necessarily a tool.
    pub name: String,
    /// The object as it came; a string where it could not be read.
    pub arguments: Value,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// What is left of the turns before the first of the others; only at the beginning.
    Summary(String),
    /// The caller's text.
    User(String),
    /// The model's text and calls.
    Assistant {
        /// May be empty beside calls.
        text: String,
        /// In order.
        calls: Vec<ToolCall>,
        /// The leg's own form of it, given back unchanged to the same leg in the same turn.
        raw: Option<Value>,
    },
    /// What became of a call.
    ToolResult {
        /// The call's.
        id: String,
        /// The call's.
        name: String,
        /// For the model.
        content: String,
        /// It did not succeed.
        is_error: bool,
    },
}

/// One request to a leg.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The same for every turn of a kind of caller, so that the server's cache serves it.
    pub system: &'a str,
    /// What the caller may use, and nothing else.
    pub tools: &'a [ToolSpec],
    /// The last entry is a question or a tool result.
    pub history: &'a [Turn],
}

/// What a leg answered.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendTurn {
    /// An answer; not empty.
    Text(String),
    /// Calls; at least one.
    ToolCalls {
        /// Text beside them.
        text: String,
        /// In order.
        calls: Vec<ToolCall>,
        /// See [`Turn::Assistant`].
        raw: Option<Value>,
    },
}

/// What a leg can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Its model can call tools.
    pub tools: bool,
}

/// Why a leg did not answer. The text is for the operator and the log: no secret, no message text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// No connection, or it broke, or no answer in time.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The server refused the request.
    #[error("refused with status {status}: {reason}")]
    Refused {
        /// HTTP.
        status: u16,
        /// The server's words, cut.
        reason: String,
    },
    /// The model can't call tools.
    #[error("the model can't call tools")]
    NoTools,
    /// The server doesn't have the model.
    #[error("the model is not there: {0}")]
    NoModel(String),
    /// The question alone is larger than the model's window.
    #[error("the question is too long for the model")]
    TooLong,
    /// Later, perhaps.
    #[error("overloaded")]
    Overloaded {
        /// The server's wish.
        retry_after: Option<Duration>,
    },
    /// The answer is of no use.
    #[error("unusable answer: {0}")]
    Broken(String),
    /// A key that was not accepted.
    #[error("{0}")]
    Auth(String),
    /// The account has no money left: waiting does not help, the operator has to pay.
    #[error("out of money: {0}")]
    NoMoney(String),
    /// The operator has not set it up; no fault, and nothing was sent.
    #[error("{0}")]
    Unconfigured(String),
}

/// A leg.
pub trait Backend: Send + Sync {
    /// `ollama`, `claude`, `openai` or `offline`.
    fn name(&self) -> &'static str;
    /// Does what it is sent leave the operator's machines?
    fn is_cloud(&self) -> bool;
    /// What it can do, if it is there; quick.
    fn available(&self) -> Answer<'_, Capabilities>;
    /// The same for someone who looks at the leg from outside: what is remembered of an earlier look is
    /// not enough.
    fn there(&self) -> Answer<'_, Capabilities> {
        self.available()
    }
    /// Is the same request worth a second try when its answer was of no use?
    fn repeats(&self) -> bool {
        true
    }
    /// Bytes of the body that this request would have, for the record of what leaves to a cloud.
    fn size(&self, request: Request<'_>) -> usize {
        let turns = request.history.iter().map(|turn| match turn {
            Turn::Summary(text) | Turn::User(text) | Turn::Assistant { text, .. } => text.len(),
            Turn::ToolResult { content, .. } => content.len(),
        });
        request.system.len() + turns.sum::<usize>()
    }
    /// One request.
    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn>;
}
