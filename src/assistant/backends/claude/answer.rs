//! What the Messages API answered.
//!
//! Owns the reading of its answers and of its errors. Never lets the key into an error.

use serde_json::{Value, json};

use super::super::reading::{self, broken};
use super::super::{BackendError, BackendTurn, DECLINED, ToolCall, ToolSpec};
use super::request::RAW;
use crate::assistant::http::{Reply, redact};
use crate::secrets::Secret;

/// Error codes of a 429 that lasts until the operator does something.
const SPEND_LIMITS: [&str; 2] = ["enforced_spend_limit_reached", "contract_spend_limit_reached"];

/// What servers of this form say of a prompt that is longer than the model's window.
const TOO_LONG: [&str; 2] = ["prompt is too long", "exceeds the available context size"];

/// Reads an answer with status 200.
pub(super) fn read(reply: &Reply, offered: &[ToolSpec]) -> Result<BackendTurn, BackendError> {
    let body = reply.json().ok_or_else(|| broken("the answer is no JSON"))?;
    if body["type"] != "message" {
        return Err(broken("the answer is no message"));
    }
    let stop = body["stop_reason"].as_str().unwrap_or_default();
    if stop == "refusal" {
        return Ok(BackendTurn::Text(DECLINED.to_owned()));
    }
    // `null` when there is nothing.
    let content = body["content"].as_array().cloned().unwrap_or_default();
    let text: Vec<&str> = content
        .iter()
        .filter(|block| block["type"] == "text")
        .filter_map(|block| block["text"].as_str())
        .collect();
    let text = text.concat();
    let calls = calls(&content)?;
    if stop == "pause_turn" {
        return Err(broken("the model paused"));
    }
    let made = !calls.is_empty();
    let cut = matches!(stop, "max_tokens" | "model_context_window_exceeded");
    // Other servers speak this form too, and pass on what their models print.
    match reading::turn(&text, calls, offered, cut)? {
        BackendTurn::ToolCalls { text, calls, .. } if made => {
            Ok(BackendTurn::ToolCalls { text, calls, raw: Some(json!({ RAW: content })) })
        }
        turn => Ok(turn),
    }
}

fn calls(content: &[Value]) -> Result<Vec<ToolCall>, BackendError> {
    let uses = content.iter().filter(|block| block["type"] == "tool_use");
    uses.map(|block| match (block["id"].as_str(), block["name"].as_str()) {
        (Some(id), Some(name)) => Ok(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: block["input"].clone(),
        }),
        _ => Err(BackendError::Broken("a call without a name or an id".to_owned())),
    })
    .collect()
}

/// What an answer with another status than 200 means.
pub(super) fn refusal(reply: &Reply, model: &str, key: &Secret) -> BackendError {
    let body = reply.json().unwrap_or_default();
    let error = &body["error"];
    let status = reply.status;
    let known = error["type"].is_string();
    let words = error["message"].as_str().unwrap_or("without a reason");
    if matches!(status, 400 | 413) && TOO_LONG.iter().any(|part| words.contains(part)) {
        return BackendError::TooLong;
    }
    let billing = error["type"] == "billing_error";
    match status {
        _ if status == 402 || billing => {
            BackendError::NoMoney("the account has to be topped up".to_owned())
        }
        401 | 403 => {
            BackendError::Auth("the key in secrets/claude-api-key was not accepted".to_owned())
        }
        404 if known => BackendError::NoModel(model.to_owned()),
        429 => {
            let code = error["details"]["error_code"].as_str().unwrap_or_default();
            if SPEND_LIMITS.contains(&code) {
                return BackendError::NoMoney("the account's spend limit is reached".to_owned());
            }
            BackendError::Overloaded { retry_after: reply.retry_after() }
        }
        503 | 529 => BackendError::Overloaded { retry_after: reply.retry_after() },
        _ => {
            // Masked by its value first: not every key has the usual form.
            let words = words.replace(key.expose(), "***");
            BackendError::Refused { status, reason: redact(&words) }
        }
    }
}
