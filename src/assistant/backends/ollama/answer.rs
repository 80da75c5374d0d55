//! What Ollama answered.
//!
//! Owns the reading of its answers and of its errors. Decides whose fault an error is: the server's, or the
//! model's own broken call.

use serde_json::Value;

use super::super::reading::{self, broken, is_broken_call};
use super::super::{BackendError, BackendTurn, ToolCall, ToolSpec};
use crate::assistant::http::{Reply, redact};
use crate::assistant::leaked_call::arguments_object;

/// What it says when the model's process died in the middle: the next request starts it anew.
const RUNNER_DIED: &str = "error was encountered while running the model";

/// The body of an answer with status 200, with its message in it.
fn body(reply: &Reply) -> Result<Value, BackendError> {
    let body = reply.json().ok_or_else(|| broken("the answer is no JSON"))?;
    if let Some(error) = body["error"].as_str() {
        return Err(BackendError::Broken(format!("the server broke off: {}", redact(error))));
    }
    if body["message"].is_object() { Ok(body) } else { Err(broken("the answer holds no message")) }
}

/// The text of an answer with status 200, as it came.
pub(super) fn content(reply: &Reply) -> Result<String, BackendError> {
    Ok(body(reply)?["message"]["content"].as_str().unwrap_or_default().to_owned())
}

/// Reads an answer with status 200.
pub(super) fn read(reply: &Reply, offered: &[ToolSpec]) -> Result<BackendTurn, BackendError> {
    let body = body(reply)?;
    let message = &body["message"];
    let content = message["content"].as_str().unwrap_or_default();
    let cut = body["done_reason"] == "length";
    reading::turn(content, calls(&message["tool_calls"])?, offered, cut)
}

fn calls(value: &Value) -> Result<Vec<ToolCall>, BackendError> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for call in value.as_array().map_or(&[][..], Vec::as_slice) {
        let function = &call["function"];
        let Some(name) = function["name"].as_str().filter(|name| !name.is_empty()) else {
            return Err(BackendError::Broken("a call without a name".to_owned()));
        };
        // What is no object stays as it is, and the check of the arguments refuses it.
        let arguments = arguments_object(function["arguments"].clone())
            .map_or_else(|value| value, Value::Object);
        let id = reading::call_id(call["id"].as_str(), &calls);
        calls.push(ToolCall { id, name: name.to_owned(), arguments });
    }
    Ok(calls)
}

/// The prompt did not fit the window.
pub(super) fn is_too_long(reply: &Reply) -> bool {
    reply.status == 400
        && words(reply).is_some_and(|words| {
            words.contains("exceed_context_size_error")
                || words.contains("longer than the context length")
        })
}

/// What an answer with another status than 200 means.
pub(super) fn refusal(reply: &Reply) -> BackendError {
    let (status, words) = (reply.status, words(reply));
    let says = |part: &str| words.as_deref().is_some_and(|words| words.contains(part));
    match status {
        400 if says("does not support tools") => BackendError::NoTools,
        400 if is_too_long(reply) => BackendError::TooLong,
        404 if says("not found") => BackendError::NoModel(String::new()),
        429 | 503 => BackendError::Overloaded { retry_after: reply.retry_after() },
        499 => BackendError::Unreachable("the server gave the request up".to_owned()),
        // The words quote the model: they go nowhere.
        500 if words.as_deref().is_some_and(is_broken_call) => {
            BackendError::Broken("the server could not read its model's call".to_owned())
        }
        500 if says(RUNNER_DIED) => BackendError::Broken("the model's process died".to_owned()),
        403 if words.is_none() => BackendError::Refused {
            status,
            reason: "the server does not answer to this host name".to_owned(),
        },
        _ => BackendError::Refused {
            status,
            reason: words.map_or_else(|| "without a reason".to_owned(), |words| redact(&words)),
        },
    }
}

/// The text under `error`.
fn words(reply: &Reply) -> Option<String> {
    Some(reply.json()?["error"].as_str()?.to_owned())
}
