//! The contract of `assistant.*`: the schemas of its parameters and results.
//!
//! Owns these schemas and the limits in them. Tests compare real answers with them.

use serde_json::{Value, json};

use super::assistant_grants;
use super::schema::{count, flag, list, object, one_of, or_null, text};
use crate::assistant::PermissionCategory;

/// A question may be so long; the assistant would cut a longer one.
pub const MAX_TEXT_CHARS: usize = 16_000;
/// A turn's name may be so long.
pub const MAX_TURN_ID_BYTES: usize = 64;

pub(super) fn chat_params() -> Value {
    let question = json!({
        "type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS,
        "description": "the question, not blank",
    });
    object(&[("text", question), ("turn_id?", turn_id())])
}

pub(super) fn chat_result() -> Value {
    object(&[
        ("turn_id", turn_id()),
        ("status", status()),
        ("text", text("the answer in Markdown, or one line that says why there is none")),
        ("html", text("the same as sanitised HTML, safe to insert")),
        ("backend", text("the leg that answered")),
        ("tools", tools()),
        ("reasons", reasons()),
        ("pending?", assistant_grants::pending_call()),
    ])
}

pub(super) fn stop_params() -> Value {
    object(&[("turn_id", turn_id())])
}

pub(super) fn stop_result() -> Value {
    object(&[("stopped", flag("false when no such turn of this session runs"))])
}

pub(super) fn history_result() -> Value {
    let entry = object(&[
        ("role", one_of(&["user", "assistant"])),
        ("turn_id", turn_id()),
        ("at", count("Unix milliseconds")),
        ("text", text("the question, or the answer in Markdown")),
        ("html?", text("of an answer: the same as sanitised HTML, safe to insert")),
        ("status?", status()),
        ("backend?", text("the leg that answered")),
        ("tools?", tools()),
    ]);
    let running = object(&[("turn_id", turn_id()), ("text", text("what was asked"))]);
    object(&[("entries", list(entry)), ("running", or_null(running))])
}

pub(super) fn tools_result() -> Value {
    let tool = object(&[
        ("name", text("the tool")),
        ("description", text("what the model is told of it")),
        ("category", category()),
        ("destructive", flag("does it change something and ask for a confirmation?")),
        ("granted", flag("may this caller use it?")),
    ]);
    object(&[("tools", list(tool)), ("unconfigured", list(category()))])
}

pub(super) fn turn_id() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" })
}

fn status() -> Value {
    one_of(&["answered", "stopped", "failed"])
}

pub(super) fn category() -> Value {
    one_of(&PermissionCategory::ALL.map(PermissionCategory::as_str))
}

pub(super) fn outcome() -> Value {
    one_of(&assistant_grants::OUTCOMES)
}

pub(super) fn tools() -> Value {
    list(object(&[
        ("name", text("as the model named it: untrusted text")),
        ("category", or_null(category())),
        ("outcome", outcome()),
    ]))
}

fn reasons() -> Value {
    list(object(&[
        ("leg", text("a leg that was tried and did not answer")),
        ("reason", text("why, for the operator")),
    ]))
}
