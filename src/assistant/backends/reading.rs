//! What a model's message is: calls, an answer, or nothing of use.
//!
//! Owns the rules that hold for every server that passes its model's text on as it came: thoughts, calls
//! printed as text, calls inside of an answer that was cut. Knows no wire format.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{BackendError, BackendTurn, CUT_MARK, ToolCall, ToolSpec};
use crate::assistant::leaked_call::{self, Reading};

/// What a server says with status 500 when it could not read its model's call.
const BROKEN_CALL: [&str; 8] = [
    "error parsing tool call",
    "invalid tool call arguments",
    "model produced output that does not match",
    "xml syntax error",
    "invalid character",
    "unexpected end of json input",
    "failed to parse",
    "no user query found in messages",
];

pub(super) fn broken(why: &str) -> BackendError {
    BackendError::Broken(why.to_owned())
}

/// Do a server's words say that its model's call could not be read?
pub(super) fn is_broken_call(words: &str) -> bool {
    let words = words.to_lowercase();
    BROKEN_CALL.iter().any(|part| words.contains(part))
}

/// Reads a message: its text as it came, and the calls that the server has read. `cut`: the length cap was
/// met.
pub(super) fn turn(
    content: &str,
    calls: Vec<ToolCall>,
    offered: &[ToolSpec],
    cut: bool,
) -> Result<BackendTurn, BackendError> {
    let text = leaked_call::without_thoughts(content);
    let cut = cut && !leaked_call::ends_itself(content);
    if !calls.is_empty() {
        if cut {
            return Err(broken("the answer was cut inside a call"));
        }
        if offered.is_empty() {
            return Err(broken("the model called a tool, and none was offered"));
        }
        let text = match leaked_call::read(&text, offered) {
            Reading::Text(text) => text,
            // The same calls once more, or an attempt at them.
            Reading::Calls { .. } | Reading::Unusable => String::new(),
        };
        return Ok(BackendTurn::ToolCalls { text, calls, raw: None });
    }
    match leaked_call::read(&text, offered) {
        // An empty object is what is left of a call in a form that the server did not know.
        Reading::Text(text) if matches!(text.as_str(), "" | "{}" | "[]") => {
            Err(broken("the model answered nothing"))
        }
        Reading::Text(text) => Ok(answer(text, cut)),
        Reading::Calls { text, calls } => {
            let calls = calls
                .into_iter()
                .map(|(name, arguments)| ToolCall { id: synthesize_call_id(), name, arguments })
                .collect();
            Ok(BackendTurn::ToolCalls { text, calls, raw: None })
        }
        Reading::Unusable => Err(broken("the model printed a call that is none")),
    }
}

/// An answer, with a mark at its end where it was cut.
pub(super) fn answer(mut text: String, cut: bool) -> BackendTurn {
    if cut {
        text.push_str(CUT_MARK);
    }
    BackendTurn::Text(text)
}

/// The server's id where there is one and it is the first call's of that id, else one that is made up.
pub(super) fn call_id(given: Option<&str>, before: &[ToolCall]) -> String {
    given
        .filter(|id| !id.is_empty() && before.iter().all(|call| call.id != *id))
        .map_or_else(synthesize_call_id, str::to_owned)
}

/// An id for a call that came without one, not used before in this process.
pub fn synthesize_call_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("call_local_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
