//! `assistant.grants-*`, `assistant.pending`, `assistant.confirm-tool`, `assistant.ledger`: what the operator
//! decides about tools.
//!
//! Owns their parameters and their schemas. Decides nothing: who may call them stands in the method table, what
//! counts is the assistant's matter.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::error;

use super::assistant_schema::{category, outcome, turn_id};
use super::dispatcher::{Call, no_such_method};
use super::error::{ErrorCode, RpcError};
use super::fields::wrong;
use super::message::{self, NoParams};
use super::schema::{count, flag, list, object, one_of, or_null, text};
use crate::assistant::PermissionCategory;
use crate::assistant::chat::Settled;
use crate::assistant::grants::{GrantError, ToolMode, Wish};

/// Calls that one answer holds at most.
const MAX_CALLS: usize = 1_000;
/// And where nothing is asked for.
const SOME_CALLS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetParams {
    caller: String,
    category: Option<PermissionCategory>,
    granted: Option<bool>,
    tool: Option<String>,
    /// `null` takes a mode back, so that its presence matters.
    #[serde(default, deserialize_with = "present")]
    mode: Option<Option<ToolMode>>,
    until: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfirmParams {
    id: String,
    approve: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LedgerParams {
    limit: Option<usize>,
}

fn present<'de, D: serde::Deserializer<'de>>(
    value: D,
) -> Result<Option<Option<ToolMode>>, D::Error> {
    Option::<ToolMode>::deserialize(value).map(Some)
}

/// Runs one of these methods.
pub(super) async fn handle(
    call: &Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let assistant = Arc::clone(&call.services.assistant);
    match method {
        "assistant.grants-list" => {
            let NoParams {} = message::params(params)?;
            Ok(grants(call))
        }
        "assistant.grants-set" => {
            let params: SetParams = message::params(params)?;
            let caller = params.caller.clone();
            let wish = wish(params)?;
            // The disk may take its time.
            let set = move || assistant.set_grant(&caller, wish, "page");
            match tokio::task::spawn_blocking(set).await {
                Ok(Ok(())) => Ok(grants(call)),
                Ok(Err(GrantError::Store(error))) => {
                    error!(%error, source = %error.source, "grants could not be stored");
                    Err(RpcError::new(
                        ErrorCode::Internal,
                        "the grants could not be stored, so nothing has changed; the node's log says why",
                    ))
                }
                Ok(Err(error)) => {
                    let (field, detail) = (field_of(&error), error.to_string());
                    let error = RpcError::params(detail.clone());
                    Err(error.with(json!({ "field": field, "detail": detail })))
                }
                Err(_) => Err(RpcError::new(ErrorCode::Internal, "the grants were not changed")),
            }
        }
        "assistant.pending" => {
            let NoParams {} = message::params(params)?;
            Ok(json!({ "pending": assistant.pending() }))
        }
        "assistant.confirm-tool" => {
            let ConfirmParams { id, approve } = message::params(params)?;
            let Some(taken) = assistant.take(&id) else {
                let words = "Nothing of that id waits: it was decided already, or its two minutes are over.";
                return Ok(json!({ "outcome": "gone", "text": words }));
            };
            // In a task of its own: it goes on when the page hangs up.
            let settled =
                tokio::spawn(async move { assistant.settle(taken, approve, true).await }).await;
            match settled {
                Ok(settled) => Ok(settled_json(&settled)),
                Err(_) => Err(RpcError::new(
                    ErrorCode::Internal,
                    "the tool broke; it may have been done in part, and the node's log says why",
                )),
            }
        }
        "assistant.ledger" => {
            let LedgerParams { limit } = message::params(params)?;
            let limit = limit.unwrap_or(SOME_CALLS);
            if limit > MAX_CALLS {
                return Err(wrong("limit", format!("write at most {MAX_CALLS}")));
            }
            match tokio::task::spawn_blocking(move || assistant.calls(limit)).await {
                Ok(Ok(calls)) => Ok(json!({ "calls": calls })),
                Ok(Err(error)) => {
                    error!(%error, source = %error.source, "the record of tool calls can't be read");
                    Err(RpcError::new(ErrorCode::Internal, "the record of calls can't be read"))
                }
                Err(_) => Err(RpcError::new(ErrorCode::Internal, "the record can't be read")),
            }
        }
        _ => Err(no_such_method(method)),
    }
}

/// Which parameter a refusal is about.
fn field_of(error: &GrantError) -> &'static str {
    match error {
        GrantError::UnknownCaller { .. } | GrantError::Unconfirmed { .. } => "caller",
        GrantError::Past | GrantError::TooLate => "until",
        GrantError::TooMany { what: "tools" } | GrantError::UnknownTool { .. } => "tool",
        GrantError::TooMany { .. } => "caller",
        GrantError::OperatorOnly { .. } => "mode",
        GrantError::Store(_) => "",
    }
}

fn grants(call: &Call<'_>) -> Value {
    let assistant = &call.services.assistant;
    json!({
        "callers": assistant.list_grants(),
        "warning": assistant.grants().warning(),
    })
}

fn wish(params: SetParams) -> Result<Wish, RpcError> {
    match params {
        SetParams {
            category: Some(category),
            granted: Some(granted),
            tool: None,
            mode: None,
            until,
            ..
        } => Ok(Wish::Category { category, granted, until }),
        SetParams {
            category: None,
            granted: None,
            tool: Some(tool),
            mode: Some(mode),
            until,
            ..
        } => Ok(Wish::Tool { tool, mode, until }),
        _ => Err(RpcError::params(
            "give `category` and `granted`, or `tool` and `mode`, and nothing else but `until`",
        )),
    }
}

fn settled_json(settled: &Settled) -> Value {
    match settled.outcome {
        Some(outcome) => json!({ "outcome": outcome, "text": settled.text }),
        None => json!({ "outcome": "dropped", "text": settled.text }),
    }
}

fn mode() -> Value {
    one_of(&["always", "ask", "never"])
}

fn until() -> Value {
    count(
        "in force before that time, Unix milliseconds, at most ten years from now; for good without it",
    )
}

fn caller() -> Value {
    text("`operator`, or `key:` and the pinned key of a contact")
}

pub(super) fn list_result() -> Value {
    let category_row = object(&[("category", category()), ("until?", until())]);
    let tool_row = object(&[("tool", text("its name")), ("mode", mode()), ("until?", until())]);
    let change = object(&[
        ("at", count("Unix milliseconds")),
        ("caller", caller()),
        ("by", text("`page` or `command line`")),
        ("category?", category()),
        ("granted?", flag("given, or taken")),
        ("tool?", text("its name")),
        ("mode?", or_null(mode())),
        ("until?", until()),
    ]);
    let row = object(&[
        ("caller", caller()),
        ("name", text("what to call it: untrusted text")),
        ("source", one_of(&["default", "configuration", "grants.json"])),
        (
            "in_force",
            flag("false for a contact whose key is not confirmed, or who is none any more"),
        ),
        ("categories", list(category_row)),
        ("tools", list(tool_row)),
        ("history", list(change)),
    ]);
    object(&[
        ("callers", list(row)),
        ("warning", or_null(text("what is wrong with the stored grants"))),
    ])
}

pub(super) fn set_params() -> Value {
    object(&[
        ("caller", caller()),
        ("category?", category()),
        ("granted?", flag("with `category`: give it, or take it")),
        ("tool?", text("instead of `category`: a tool's name")),
        ("mode?", or_null(mode())),
        ("until?", until()),
    ])
}

/// A call that waits.
pub(super) fn pending_call() -> Value {
    object(&[
        ("id", text("for assistant.confirm-tool")),
        ("caller", caller()),
        ("name", text("what to call the caller: untrusted text")),
        ("tool", text("its name")),
        ("category", category()),
        ("arguments", arguments()),
        ("asked_at", count("Unix milliseconds")),
        ("expires_in_ms", count("so long it can be confirmed")),
        ("code_for_peer", flag("the peer has a code for it too")),
    ])
}

fn arguments() -> Value {
    json!({ "type": "object", "description": "exactly these; a model wrote them: untrusted text" })
}

pub(super) fn pending_result() -> Value {
    object(&[("pending", list(pending_call()))])
}

pub(super) fn confirm_params() -> Value {
    object(&[
        ("id", text("from assistant.pending or assistant.chat")),
        ("approve", flag("run it now, or drop it")),
    ])
}

pub(super) fn confirm_result() -> Value {
    let outcomes = ["gone", "dropped"].into_iter().chain(OUTCOMES);
    object(&[
        ("outcome", one_of(&outcomes.collect::<Vec<_>>())),
        ("text", text("the tool's result, or one line on why there is none: untrusted text")),
    ])
}

/// What becomes of a call, as it is written.
pub(super) const OUTCOMES: [&str; 6] =
    ["ran", "failed", "unknown", "denied", "bad_arguments", "needs_confirmation"];

pub(super) fn ledger_params() -> Value {
    let limit = json!({
        "type": "integer", "minimum": 0, "maximum": MAX_CALLS, "default": SOME_CALLS,
        "description": "so many of the last calls",
    });
    object(&[("limit?", limit)])
}

pub(super) fn ledger_result() -> Value {
    let call = object(&[
        ("at", count("when it was over, Unix milliseconds")),
        ("turn_id", turn_id()),
        (
            "caller",
            text("`operator`, or `key:`, `signed:` or `claim:` and what the peer proved or claims"),
        ),
        ("tool", text("its name; `(unknown)` for what is none")),
        ("category", or_null(category())),
        ("outcome", outcome()),
        ("millis", count("how long it took")),
    ]);
    object(&[("calls", list(call))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::ToolOutcome;

    #[test]
    fn the_words_for_outcomes_are_those_that_are_served() {
        let all = [
            ToolOutcome::Ran,
            ToolOutcome::Failed,
            ToolOutcome::Unknown,
            ToolOutcome::Denied,
            ToolOutcome::BadArguments,
            ToolOutcome::NeedsConfirmation,
        ];
        assert_eq!(all.map(|outcome| json!(outcome)), OUTCOMES.map(|word| json!(word)));
    }

    #[test]
    fn a_wish_is_one_thing() {
        let read = |params: Value| {
            let Value::Object(params) = params else { panic!() };
            message::params::<SetParams>(params).and_then(wish)
        };
        let whole =
            json!({ "caller": "operator", "category": "notes", "granted": true, "until": 7 });
        let category = PermissionCategory::Notes;
        let right = Wish::Category { category, granted: true, until: Some(7) };
        assert_eq!(read(whole).unwrap(), right);
        let taken_back = json!({ "caller": "operator", "tool": "x", "mode": null });
        let right = Wish::Tool { tool: "x".to_owned(), mode: None, until: None };
        assert_eq!(read(taken_back).unwrap(), right);
        for wrong in [
            json!({ "caller": "operator" }),
            json!({ "caller": "operator", "category": "notes" }),
            json!({ "caller": "operator", "granted": true }),
            json!({ "caller": "operator", "tool": "x" }),
            json!({ "caller": "operator", "mode": "ask" }),
            json!({ "caller": "operator", "category": "notes", "granted": true, "tool": "x", "mode": "ask" }),
            json!({ "caller": "operator", "category": "notes", "granted": true, "mode": "ask" }),
            json!({ "caller": "operator", "category": "Notes", "granted": true }),
            json!({ "caller": "operator", "tool": "x", "mode": "sometimes" }),
            json!({ "caller": "operator", "category": "notes", "granted": true, "until": -1 }),
            json!({ "category": "notes", "granted": true }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
