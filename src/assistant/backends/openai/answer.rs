//! What an OpenAI-compatible server answered with success.
//!
//! Owns the reading of its messages and of its list of models. What is a call is decided by the calls in the
//! message, never by what the server says why it ended.

use serde_json::{Map, Value, json};

use super::super::reading::{self, broken};
use super::super::{BackendError, BackendTurn, DECLINED, ToolCall, ToolSpec};
use crate::assistant::http::Reply;
use crate::assistant::leaked_call::arguments_object;

/// Reads an answer with status 200.
pub(super) fn read(reply: &Reply, offered: &[ToolSpec]) -> Result<BackendTurn, BackendError> {
    let body = reply.json().ok_or_else(|| broken("the answer is no JSON"))?;
    let choice = &body["choices"][0];
    let message = &choice["message"];
    if !message.is_object() {
        return Err(broken("the answer holds no message"));
    }
    let ended = choice["finish_reason"].as_str().unwrap_or_default();
    let refused = message["refusal"].as_str().is_some_and(|words| !words.trim().is_empty());
    if ended == "content_filter" || refused {
        return Ok(BackendTurn::Text(DECLINED.to_owned()));
    }
    reading::turn(&text(&message["content"]), calls(message)?, offered, ended == "length")
}

/// A text, or the texts of its parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().concat()
        }
        _ => String::new(),
    }
}

fn calls(message: &Value) -> Result<Vec<ToolCall>, BackendError> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for call in message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice) {
        calls.push(one(&call["function"], call["id"].as_str(), &calls)?);
    }
    // The form before there were several.
    if calls.is_empty() && message["function_call"].is_object() {
        calls.push(one(&message["function_call"], None, &calls)?);
    }
    Ok(calls)
}

fn one(function: &Value, id: Option<&str>, before: &[ToolCall]) -> Result<ToolCall, BackendError> {
    let Some(name) = function["name"].as_str().filter(|name| !name.is_empty()) else {
        return Err(broken("a call without a name"));
    };
    let id = reading::call_id(id, before);
    Ok(ToolCall { id, name: name.to_owned(), arguments: arguments(&function["arguments"]) })
}

/// The text of an object, the object itself, nothing, or a text of a text. What is none of these stays as it is,
/// and the check of the arguments refuses it.
fn arguments(value: &Value) -> Value {
    match value {
        Value::String(text) if text.trim().is_empty() => json!({}),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(object)) => Value::Object(object),
            Ok(Value::Null) => json!({}),
            Ok(Value::String(inner)) => serde_json::from_str::<Map<String, Value>>(&inner)
                .map_or_else(|_| value.clone(), Value::Object),
            _ => value.clone(),
        },
        other => arguments_object(other.clone()).map_or_else(|value| value, Value::Object),
    }
}

/// The window of that model, in tokens, as far as the list of models tells it: what the server runs it with
/// before what it was trained for.
pub(super) fn window(reply: &Reply, model: &str) -> Option<u32> {
    let body = reply.json()?;
    let models = body["data"].as_array()?;
    // A server of one model takes any name for it.
    let listed = models
        .iter()
        .find(|listed| listed["id"] == model)
        .or_else(|| models.first().filter(|_| models.len() == 1))?;
    [
        "/meta/n_ctx",
        "/max_model_len",
        "/loaded_context_length",
        "/context_length",
        "/meta/n_ctx_train",
    ]
    .iter()
    .find_map(|at| listed.pointer(at)?.as_u64())
    .and_then(|window| u32::try_from(window).ok())
    .filter(|window| *window > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_in_many_forms() {
        for (came, read) in [
            (json!("{\"a\":1}"), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": 1})),
            (json!("\"{\\\"a\\\":1}\""), json!({"a": 1})),
            (json!(""), json!({})),
            (json!(" \n"), json!({})),
            (json!("null"), json!({})),
            (Value::Null, json!({})),
            // Refused later, with what would be right.
            (json!("{\"a\":"), json!("{\"a\":")),
            (json!("[1]"), json!("[1]")),
            (json!("\"x\""), json!("\"x\"")),
            (json!([1]), json!([1])),
        ] {
            assert_eq!(arguments(&came), read, "{came}");
        }
    }

    #[test]
    fn the_window_is_what_the_server_runs_the_model_with() {
        let reply = |body: Value| Reply {
            status: 200,
            headers: Default::default(),
            body: body.to_string().into_bytes(),
        };
        let one = |more: Value| json!({"data": [{"id": "m", "meta": more}]});
        for (body, expected) in [
            (one(json!({"n_ctx": 4096, "n_ctx_train": 32768})), Some(4096)),
            (one(json!({"n_ctx_train": 32768})), Some(32768)),
            (one(json!({"n_ctx": 0})), None),
            (json!({"data": [{"id": "other", "max_model_len": 2048}]}), Some(2048)),
            (
                json!({"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}),
                None,
            ),
            (
                json!({"data": [{"id": "a", "max_model_len": 1}, {"id": "m", "context_length": 9}]}),
                Some(9),
            ),
            (json!({"data": []}), None),
            (json!([]), None),
        ] {
            assert_eq!(window(&reply(body.clone()), "m"), expected, "{body}");
        }
    }
}
