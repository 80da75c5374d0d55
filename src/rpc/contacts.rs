//! What the operator decides about the mesh side: `mesh.assistant-configure`, `mesh.peer-accept-key`, `mesh.pair` and
//! `mesh.send`.
//!
//! Owns the parameters and schemas of these methods, and how a refusal is told. Decides nothing: the rules are the mesh
//! side's.

use serde_json::{Map, Value, json};

use super::dispatcher::{Call, no_such_method};
use super::error::{ErrorCode, RpcError};
use super::events::{Changed, Event};
use super::fields::{Fields, about, as_flag, as_object, as_text};
use super::mesh::{assistant_status, gone, to_json};
use super::schema::{count, flag, list, node_id, object, or_null, text};
use crate::assistant::models::ModelError;
use crate::mesh::operator::{Change, Refusal, Text, Why, Wish};

/// The wishes of `mesh.assistant-configure`.
const WISHES: [&str; 10] = [
    "add_contact",
    "remove_contact",
    "suspend",
    "unsuspend",
    "deny",
    "undeny",
    "rename",
    "trusted_only",
    "enabled",
    "model",
];
/// Letters of a login's id that go into the record.
const LOGIN_LETTERS: usize = 8;

/// Runs one of these methods.
pub(super) async fn handle(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    match method {
        "mesh.assistant-configure" => {
            let (wish, value) = Fields::only(params, &WISHES)?;
            if wish == "model" {
                let name = as_text("model", value)?;
                choose_model(call, &name).await?;
                return decide(call, Change::Model(name)).await;
            }
            let change = change(&wish, value)?;
            decide(call, change).await
        }
        "mesh.peer-accept-key" => {
            let mut fields = Fields::of(params);
            let change = Change::Key {
                id: fields.node("id")?,
                fingerprint: fields.text("fingerprint")?,
                pinned: fields.text_if_any("pinned")?,
                accept: fields.flag("accept")?,
            };
            fields.end()?;
            decide(call, change).await
        }
        "mesh.pair" => pair(call, params).await,
        "mesh.send" => {
            let mut fields = Fields::of(params);
            let what = Text {
                to: fields.node("to")?,
                text: fields.text("text")?,
                ack: fields.flag_if_any("ack")?.unwrap_or(true),
            };
            fields.end()?;
            let wish = Wish { by: by(call)?, what };
            let queued = call.services.mesh.send_text(wish).await.map_err(gone)?;
            to_json(&queued.map_err(|refusal| refused(call, refusal))?)
        }
        _ => Err(no_such_method(method)),
    }
}

fn change(wish: &str, value: Value) -> Result<Change, RpcError> {
    if matches!(wish, "trusted_only" | "enabled") {
        let wanted = as_flag(wish, &value)?;
        let trusted = wish == "trusted_only";
        return Ok(if trusted { Change::TrustedOnly(wanted) } else { Change::Enabled(wanted) });
    }
    let mut fields = Fields::of(as_object(wish, value)?);
    let change = match wish {
        "deny" | "undeny" => Change::Deny { asker: fields.asker("asker")?, denied: wish == "deny" },
        "add_contact" => Change::AddContact {
            id: fields.node("id")?,
            key: fields.key("key")?,
            name: fields.text_if_any("name")?,
        },
        "remove_contact" => Change::RemoveContact { id: fields.node("id")? },
        "rename" => Change::Rename { id: fields.node("id")?, name: fields.text("name")? },
        _ => Change::Suspend { id: fields.node("id")?, suspended: wish == "suspend" },
    };
    fields.end()?;
    Ok(change)
}

/// Brings a change into force, and shows what is so then. `warnings` are those about this change.
async fn decide(call: &Call<'_>, change: Change) -> Result<Value, RpcError> {
    let wish = Wish { by: by(call)?, what: change };
    let changed = call.services.mesh.change(wish).await.map_err(gone)?;
    let mut changed = changed.map_err(|refusal| refused(call, refusal))?;
    changed.answering.warnings = changed.warnings;
    assistant_status(call, &changed.answering).await
}

async fn pair(call: &Call<'_>, params: Map<String, Value>) -> Result<Value, RpcError> {
    let mut fields = Fields::of(params);
    let cancel = fields.flag_if_any("cancel")?.unwrap_or(false);
    let name = fields.text_if_any("name")?;
    fields.end()?;
    let what = match (name, cancel) {
        (Some(name), false) => Some(name),
        (None, true) => None,
        _ => {
            let rule =
                "give the name of the contact to pair with, or cancel = true to void the open code";
            return Err(super::fields::wrong("name", rule));
        }
    };
    let opened = call.services.mesh.pair(Wish { by: by(call)?, what }).await.map_err(gone)?;
    let opened = opened.map_err(|refusal| refused(call, refusal))?;
    Ok(json!({
        "code": opened.code.map(|code| code.text()),
        "expires_in_s": opened.expires_in_s,
        "warnings": opened.warnings,
    }))
}

/// The role and the start of the login's id, which is no secret: whose change it was.
pub(super) fn by(call: &Call<'_>) -> Result<String, RpcError> {
    let login = call.login()?;
    let id: String = login.session_id.0.chars().take(LOGIN_LETTERS).collect();
    Ok(format!("{} {id}", login.role.as_str()))
}

pub(super) fn refused(call: &Call<'_>, refusal: Refusal) -> RpcError {
    let Refusal { why, field, reason } = refusal;
    match why {
        Why::Wrong => about(ErrorCode::InvalidParams, field, reason),
        Why::State => about(ErrorCode::Refused, field, reason),
        Why::Storage => about(ErrorCode::Internal, field, reason),
        Why::Configured(key) => {
            let file = call.services.config_file.as_ref();
            let file =
                file.map_or("the configuration file".to_owned(), |f| f.display().to_string());
            let rule = format!("{reason}: take it out of `{key}` in {file}, then reload");
            about(ErrorCode::Refused, field, rule)
        }
    }
}

pub(super) fn configure_params() -> Value {
    let id = |name| object(&[(name, object(&[("id", node_id())]))]);
    let asker = |name| object(&[(name, object(&[("asker", text("a node id or a key"))]))]);
    let contact = object(&[
        ("id", node_id()),
        ("key?", or_null(text("base64; without it the first encrypted message brings one"))),
        ("name?", or_null(text("what to call it: at most 39 bytes"))),
    ]);
    let renamed = object(&[("id", node_id()), ("name", text("at most 39 bytes"))]);
    json!({ "anyOf": [
        object(&[("add_contact", contact)]),
        id("remove_contact"),
        id("suspend"),
        id("unsuspend"),
        asker("deny"),
        asker("undeny"),
        object(&[("rename", renamed)]),
        object(&[("trusted_only", flag("are only contacts answered?"))]),
        object(&[("enabled", flag("are peers answered at all?"))]),
        object(&[("model", text("a model that the local server has"))]),
    ] })
}

pub(super) fn accept_key_params() -> Value {
    object(&[
        ("id", node_id()),
        (
            "fingerprint",
            text("of the key that is decided on: a foreign one, or a pinned one to confirm"),
        ),
        ("accept", flag("it is this contact's; or it is not")),
        ("pinned?", or_null(text("the fingerprint that is pinned, as it was seen: compared"))),
    ])
}

pub(super) fn pair_params() -> Value {
    json!({ "anyOf": [
        object(&[("name", text("what to call the contact: at most 39 bytes"))]),
        object(&[("cancel", flag("true: voids the open code"))]),
    ] })
}

pub(super) fn pair_result() -> Value {
    object(&[
        ("code", or_null(text("for the peer to send, once; null after a cancel"))),
        ("expires_in_s", count("how long it can be used")),
        ("warnings", list(text("what the operator should look at"))),
    ])
}

pub(super) fn send_params() -> Value {
    object(&[
        ("to", node_id()),
        ("text", text("one message: at most 200 bytes of UTF-8")),
        ("ack?", flag("ask the peer's radio to confirm it; true without it")),
    ])
}

pub(super) fn send_result() -> Value {
    object(&[
        ("reply", text("names it in the events about its part")),
        ("to", node_id()),
        ("name", text("what that node is called")),
        ("bytes", count("of text, as it goes on air")),
        ("budget", count("that it may have")),
    ])
}

/// Which model the local leg asks. The model server is asked whether it has it.
async fn choose_model(call: &Call<'_>, name: &str) -> Result<(), RpcError> {
    let chosen = call.services.assistant.choose_model(name).await;
    chosen.map_err(|error| {
        let code = match &error {
            ModelError::Unknown { .. } => ErrorCode::Refused,
            ModelError::Server(_) => ErrorCode::Unavailable,
            ModelError::Store(_) => ErrorCode::Internal,
        };
        about(code, "model", error.to_string())
    })?;
    call.services.forget_legs().await;
    call.services.events.publish(Event::Changed(Changed::Legs));
    Ok(())
}
