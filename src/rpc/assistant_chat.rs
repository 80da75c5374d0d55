//! `assistant.*`: the operator's own conversation.
//!
//! Owns the one prefix arm through which every call of the assistant goes, and the one place where a
//! session becomes a [`CallerScope`]. A call names no session, no category and no tool: whose transcript
//! and which authority comes from the session alone.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::Services;
use super::assistant_grants;
use super::assistant_schema::{MAX_TEXT_CHARS, MAX_TURN_ID_BYTES};
use super::auth::{Login, Role, Token};
use super::dispatcher::Call;
use super::error::{ErrorCode, RpcError};
use super::events::turn::Watch;
use super::fields::wrong;
use super::markdown;
use super::message::{self, NoParams};
use super::turns::NotBegun;
use crate::assistant::grants::operator_base;
use crate::assistant::history::StoredTurn;
use crate::assistant::{CallerScope, ChatContext, ChatReply, TurnId};

/// A stopped turn ends within this; past it `clear-history` gives up rather than clear under its feet.
const STOP_WAIT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatParams {
    text: String,
    turn_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopParams {
    turn_id: String,
}

/// Runs an `assistant.*` method.
pub(super) async fn handle_assistant(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let services = call.services;
    let login = call.login()?.clone();
    match method {
        "assistant.chat" => chat(services, &login, message::params(params)?).await,
        "assistant.stop" => {
            let StopParams { turn_id } = message::params(params)?;
            let stopped = services.turns.stop(&login.session_id, &turn_id_of(turn_id)?);
            Ok(json!({ "stopped": stopped }))
        }
        "assistant.history" => {
            let NoParams {} = message::params(params)?;
            Ok(history(services, &login))
        }
        "assistant.clear-history" => {
            let NoParams {} = message::params(params)?;
            clear(services, &login).await
        }
        "assistant.list-tools" => {
            let NoParams {} = message::params(params)?;
            Ok(tools(services, &login))
        }
        _ => assistant_grants::handle(call, method, params).await,
    }
}

/// What a session may do: the only place where one becomes authority.
pub(super) fn operator_scope(login: &Login) -> CallerScope {
    let granted = match login.role {
        // What was set for the operator counts instead: see `Grants::authority`. A scope without anything stays so.
        Role::Operator => operator_base(),
        // Calls nothing of the assistant's; and if it did, it could do nothing.
        Role::Viewer => crate::assistant::CategorySet::new(),
    };
    CallerScope::LocalOperator { session_id: login.session_id.clone(), granted }
}

async fn chat(
    services: &Arc<Services>,
    login: &Login,
    ChatParams { text, turn_id }: ChatParams,
) -> Result<Value, RpcError> {
    if text.trim().is_empty() {
        return Err(wrong("text", "it is empty"));
    }
    if text.chars().nth(MAX_TEXT_CHARS).is_some() {
        return Err(wrong("text", format!("it may have at most {MAX_TEXT_CHARS} characters")));
    }
    let turn_id = match turn_id {
        Some(turn_id) => turn_id_of(turn_id)?,
        None => TurnId(Token::random().map_err(|_| internal())?.text()),
    };
    let (assistant, scope) = (Arc::clone(&services.assistant), operator_scope(login));
    let (question, id) = (text.clone(), turn_id.clone());
    let (bus, session) = (services.events.clone(), login.session_id.clone());
    let counting = Arc::clone(services);
    let turn =
        services.turns.begin(&login.session_id, turn_id.clone(), &text, |cancel| async move {
            let tools = assistant.list_tools(&scope).into_iter();
            let categories =
                tools.map(|(tool, _)| (tool.name.to_string(), tool.category)).collect();
            let watch = Watch::begin(bus, session, id.clone(), categories);
            let context =
                ChatContext { scope, turn_id: id, cancel, answer_bytes: None, quotes: None };
            let began = counting.clock.now().mono_ms;
            let reply = assistant.chat_watched(context, &question, &watch).await;
            watch.end(reply.status, &reply.backend);
            let millis = counting.clock.now().mono_ms.saturating_sub(began);
            counting.figures.operator_turn(&reply, millis);
            reply
        });
    let running = turn.map_err(|not_begun| match not_begun {
        NotBegun::Running(turn_id) => running_error(&turn_id),
        NotBegun::TooMany => RpcError::new(
            ErrorCode::TooManyTurns,
            "too many questions are being answered at once; try again in a moment",
        ),
    })?;
    let reply = running.ended().await.ok_or_else(internal)?;
    let mut result = reply_json(&turn_id, &reply);
    if let Some(pending) = services.assistant.pending_of(&turn_id) {
        result["pending"] = json!(pending);
    }
    Ok(result)
}

fn reply_json(turn_id: &TurnId, reply: &ChatReply) -> Value {
    json!({
        "turn_id": turn_id,
        "status": reply.status,
        "text": reply.text,
        "html": markdown::to_html(&reply.text),
        "backend": reply.backend,
        "tools": reply.tools,
        "reasons": reply.reasons,
    })
}

fn history(services: &Arc<Services>, login: &Login) -> Value {
    let turns = services.assistant.history(&operator_scope(login));
    let entries: Vec<Value> = turns.into_iter().flat_map(entries_of).collect();
    let running = services
        .turns
        .of(&login.session_id)
        .map(|turn| json!({ "turn_id": turn.turn_id, "text": turn.text }));
    json!({ "entries": entries, "running": running })
}

/// A turn is two lines: what was asked, and what was answered.
fn entries_of(turn: StoredTurn) -> [Value; 2] {
    let question = json!({
        "role": "user",
        "turn_id": turn.turn_id,
        "at": turn.at,
        "text": turn.question,
    });
    let answer = json!({
        "role": "assistant",
        "turn_id": turn.turn_id,
        "at": turn.at,
        "text": turn.answer,
        "html": markdown::to_html(&turn.answer),
        "status": turn.status,
        "backend": turn.backend,
        "tools": turn.tools,
    });
    [question, answer]
}

fn tools(services: &Arc<Services>, login: &Login) -> Value {
    let tools = services.assistant.list_tools(&operator_scope(login));
    let rows: Vec<Value> = tools
        .into_iter()
        .map(|(tool, granted)| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "category": tool.category,
                "destructive": tool.destructive,
                "granted": granted,
            })
        })
        .collect();
    json!({ "tools": rows, "unconfigured": services.assistant.unconfigured() })
}

async fn clear(services: &Arc<Services>, login: &Login) -> Result<Value, RpcError> {
    if let Some(running) = services.turns.of(&login.session_id) {
        let turn_id = running.turn_id.clone();
        services.turns.stop(&login.session_id, &turn_id);
        if tokio::time::timeout(STOP_WAIT, running.ended()).await.is_err() {
            return Err(running_error(&turn_id));
        }
    }
    services.assistant.clear_history(&operator_scope(login)).map_err(|error| {
        warn!(%error, "a transcript could not be cleared");
        internal()
    })?;
    Ok(json!({}))
}

/// Letters, digits, `-` and `_`. Ids that begin with `m-` belong to the mesh.
fn turn_id_of(text: String) -> Result<TurnId, RpcError> {
    let right = (1..=MAX_TURN_ID_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && !text.starts_with("m-");
    if right {
        return Ok(TurnId(text));
    }
    Err(wrong("turn_id", "write 1 to 64 of the characters A-Z a-z 0-9 - _, and not `m-` first"))
}

fn running_error(turn_id: &TurnId) -> RpcError {
    RpcError::new(
        ErrorCode::TurnRunning,
        "your last question is still being answered; stop it or wait",
    )
    .with(json!({ "turn_id": turn_id }))
}

fn internal() -> RpcError {
    RpcError::new(ErrorCode::Internal, "the assistant failed; the node's log says why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_id_is_short_plain_and_not_the_meshs() {
        for right in ["a", "m", "A-z_09", &"x".repeat(64)] {
            assert!(turn_id_of(right.to_owned()).is_ok(), "{right}");
        }
        for wrong in ["", &"x".repeat(65), "m-1", "a b", "../x", "é", "a\n"] {
            assert!(turn_id_of(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
