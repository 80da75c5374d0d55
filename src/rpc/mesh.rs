//! `mesh.*`: what the dashboard shows of the air.
//!
//! Owns the parameters and schemas of these methods. The figures are the mesh side's, passed on as they
//! are; names and texts in them are untrusted.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::auth::Role;
use super::contacts;
use super::dispatcher::{Call, no_such_method};
use super::distress;
use super::error::{ErrorCode, RpcError};
use super::fields::wrong;
use super::history;
use super::message::{self, NoParams};
use super::schema::{count, flag, list, node_id, number, object, one_of, or_null, text};
use crate::mesh::view::{AnsweringView, MeshGone};
use crate::radio::known::NotAccepted;

/// `mesh.messages` gives so many when no `limit` is given, and never more than the second.
const MESSAGES: usize = 100;
const MOST_MESSAGES: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessagesParams {
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopAllParams {
    #[serde(default)]
    resume: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RadioAcceptParams {
    fingerprint: String,
}

/// Runs a `mesh.*` method.
pub(super) async fn handle(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    if let "mesh.assistant-configure" | "mesh.peer-accept-key" | "mesh.pair" | "mesh.send" = method
    {
        return contacts::handle(call, method, params).await;
    }
    if let "mesh.distress" | "mesh.distress-clear" = method {
        return distress::handle(call, method, params).await;
    }
    let mesh = &call.services.mesh;
    if method == "mesh.messages" {
        let MessagesParams { limit } = message::params(params)?;
        let limit = limit.unwrap_or(MESSAGES);
        if !(1..=MOST_MESSAGES).contains(&limit) {
            return Err(wrong("limit", format!("write 1 to {MOST_MESSAGES}")));
        }
        return Ok(json!({ "messages": mesh.messages(limit).await.map_err(gone)? }));
    }
    if method == "mesh.stop-all" {
        let StopAllParams { resume } = message::params(params)?;
        return to_json(&mesh.stop_all(resume).await.map_err(gone)?);
    }
    if method == "mesh.radio-accept" {
        let RadioAcceptParams { fingerprint } = message::params(params)?;
        let accepted = mesh.accept_radio(fingerprint).await.map_err(gone)?;
        return to_json(&accepted.map_err(|why| not_accepted(&why))?);
    }
    let NoParams {} = message::params(params)?;
    match method {
        "mesh.status" => to_json(&mesh.status().await.map_err(gone)?),
        "mesh.nodes" => Ok(json!({ "nodes": mesh.nodes().await.map_err(gone)? })),
        "mesh.history" => history::history(call.services).await,
        "mesh.airtime" => to_json(&mesh.airtime().await.map_err(gone)?),
        "mesh.assistant-status" => {
            let answering = mesh.answering().await.map_err(gone)?;
            assistant_status(call, &answering).await
        }
        _ => Err(no_such_method(method)),
    }
}

fn not_accepted(why: &NotAccepted) -> RpcError {
    match why {
        NotAccepted::Store(error) => {
            let words = format!("{error}: {}; the radio is not accepted", error.source);
            RpcError::new(ErrorCode::Internal, words)
        }
        _ => wrong("fingerprint", why.to_string()),
    }
}

/// Who is answered, and by which models.
pub(super) async fn assistant_status(
    call: &Call<'_>,
    answering: &AnsweringView,
) -> Result<Value, RpcError> {
    let legs = call.services.legs().await;
    let states: Vec<Value> = legs
        .legs
        .iter()
        .map(|leg| {
            json!({
                "name": leg.name,
                "state": leg.state,
                "reason": leg.reason,
                "rests_for_s": leg.rests_for_s,
                "median_ms": leg.median_ms,
            })
        })
        .collect();
    let model = legs.model.map(|model| json!({ "name": model.name, "source": model.source }));
    let last = legs.left.last.map(|last| {
        json!({
            "at": last.at,
            "turn_id": last.turn_id,
            "leg": last.leg,
            "bytes": last.bytes,
            "content": last.content,
        })
    });
    let more = json!({
        "ollama_detected": legs.ollama_detected,
        "models": legs.models,
        "claude_available": legs.claude_available,
        "openai_configured": legs.openai_configured,
        "model": model,
        "legs": states,
        "cloud": {
            "requests_24h": legs.left.requests,
            "bytes_24h": legs.left.bytes,
            "last": last,
        },
    });
    let mut answering = to_json(answering)?;
    if call.login()?.role == Role::Viewer {
        leave_out_access(&mut answering);
    }
    match (answering, more) {
        (Value::Object(mut all), Value::Object(more)) => {
            all.extend(more);
            Ok(Value::Object(all))
        }
        _ => Err(unserializable()),
    }
}

/// What a viewer is not shown: that a code would let somebody in now, and who may use which tools. Who is denied stays:
/// it explains what a viewer sees of the air.
fn leave_out_access(answering: &mut Value) {
    if let Some(pairing) = answering.get_mut("pairing") {
        *pairing = Value::Null;
    }
    let contacts = answering.get_mut("allowed_contacts").and_then(Value::as_array_mut);
    for contact in contacts.into_iter().flatten() {
        for member in ["grants", "grants_source"] {
            if let Some(shown) = contact.get_mut(member) {
                *shown = Value::Null;
            }
        }
    }
}

pub(super) fn gone(_: MeshGone) -> RpcError {
    RpcError::new(ErrorCode::Unavailable, "the mesh side is not running: the node is going down")
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Result<Value, RpcError> {
    serde_json::to_value(value).map_err(|_| unserializable())
}

fn unserializable() -> RpcError {
    RpcError::new(ErrorCode::Internal, "a figure could not be written")
}

pub(super) fn messages_params() -> Value {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MOST_MESSAGES, "default": MESSAGES,
        "description": "how many at most",
    });
    object(&[("limit?", limit)])
}

pub(super) fn messages_result() -> Value {
    let message = object(&[
        ("at", count("Unix milliseconds")),
        ("direction", one_of(&["in", "out"])),
        ("node", node_id()),
        ("name", text("the contact's name, or the node id")),
        ("assurance", assurance()),
        ("channel", or_null(text("the channel's name; null for a direct message"))),
        ("text", text("untrusted text")),
        ("delivery", or_null(delivery())),
        ("ignored", or_null(text("of an incoming text that is not answered: why"))),
        ("id", count("the packet's id")),
        ("snr", or_null(number("of an incoming text, dB, where the radio says"))),
        ("rssi", or_null(number("of an incoming text, dBm, where the radio says"))),
    ]);
    object(&[("messages", list(message))])
}

pub(super) fn nodes_result() -> Value {
    let node = object(&[
        ("node", node_id()),
        ("long_name", text("untrusted text")),
        ("short_name", text("untrusted text")),
        ("fingerprint", or_null(text("of the key that the radio holds for it"))),
        ("contact", or_null(text("the contact's name when it is one"))),
        (
            "standing",
            one_of(&["pinned", "unconfirmed", "foreign_key", "suspended", "denied", "stranger"]),
        ),
        ("last_heard", count("Unix seconds, 0 for never")),
        ("snr", or_null(number("dB"))),
        ("rssi", or_null(number("dBm, where the radio says"))),
        ("hops", or_null(count("where known"))),
        ("battery", or_null(count("percent; above 100 means mains"))),
    ]);
    object(&[("nodes", list(node))])
}

pub(super) fn airtime_result() -> Value {
    object(&[
        ("used_ms", count("sent in the rolling hour: the higher of ledger and radio")),
        (
            "limit_ms",
            or_null(count("what the law allows in an hour; null while the region is unset")),
        ),
        ("share_ms", or_null(count("what own replies may use of it"))),
        ("channel_utilization", or_null(number("percent"))),
        ("air_util_tx", or_null(number("the radio's own figure for the last hour, percent"))),
        ("recovers_in_s", count("seconds until a full part fits again")),
        ("paused", or_null(text("why nothing is sent now"))),
        ("notes", list(text("what the operator should know"))),
    ])
}

pub(super) fn stop_all_params() -> Value {
    object(&[("resume?", flag("let answers leave again; without it everything is stopped"))])
}

pub(super) fn stop_all_result() -> Value {
    object(&[
        ("stopped", flag("is everything stopped now?")),
        ("turns", count("questions that were ended without an answer")),
        ("parts", count("parts that were withdrawn")),
    ])
}

pub(super) fn radio_accept_params() -> Value {
    let fingerprint = text("of the radio that is refused, as mesh.status shows it");
    object(&[("fingerprint", fingerprint)])
}

pub(super) fn status_result() -> Value {
    let refused = object(&[
        ("fingerprint", text("of its key; of a radio without a key its node id")),
        ("owner", text("its long name: untrusted text")),
        ("node", node_id()),
    ]);
    object(&[
        ("connected", flag("is the link up?")),
        ("link", text("the state of the link, or what is being waited for")),
        ("port", or_null(text("the device, or host:port; null before a radio was there"))),
        ("my_node", or_null(node_id())),
        ("owner", text("the radio's long name")),
        ("fingerprint", or_null(text("of the radio's key"))),
        ("firmware", text("the radio's firmware")),
        ("firmware_note", or_null(text("what is wrong with that firmware"))),
        ("region", text("the region's name")),
        ("modem", text("the preset's name, or the raw settings")),
        (
            "frequency_mhz",
            or_null(number("the middle of its channel; null where it can't be told")),
        ),
        ("role", or_null(text("the radio's role, such as CLIENT"))),
        ("licensed", flag("licensed mode: everything is sent in the clear")),
        ("stopped", flag("has the operator stopped all answers?")),
        ("refused_radio", or_null(refused)),
        ("warnings", list(text("what should be put right"))),
        ("turns_running", count("questions being answered")),
        ("turns_waiting", count("questions accepted, not yet begun")),
        ("parts_waiting", count("parts that wait to leave")),
        ("kept_answers", count("answers kept for peers")),
        ("distress", count("distress texts that nobody has cleared")),
        ("airtime", airtime_result()),
    ])
}

pub(super) fn assistant_status_result() -> Value {
    let quota = object(&[
        ("used", count("questions in the rolling hour")),
        ("limit", or_null(count("how many there may be; null for as many as one likes"))),
    ]);
    let contact = object(&[
        ("id", node_id()),
        ("name", text("what to call it")),
        ("key", or_null(text("the pinned key, in base64"))),
        ("fingerprint", or_null(text("of the pinned key"))),
        ("pin", one_of(&["configured", "confirmed", "unconfirmed", "none"])),
        ("foreign_fingerprint", or_null(text("of a foreign key that was seen under its number"))),
        ("grants", or_null(list(text("a category, as it counts now; not for viewers")))),
        ("grants_source", or_null(one_of(&["default", "configuration", "grants.json"]))),
        ("suspended", flag("not answered, until that is taken back")),
        ("denied", flag("refused, by its number or its key")),
        ("source", source()),
        ("queries", or_null(quota)),
    ]);
    let denied = object(&[("asker", text("a node id or a key")), ("source", source())]);
    let pairing = object(&[
        ("name", text("what the contact will be called")),
        ("expires_in_s", count("how long its code can be used")),
        ("tries_left", count("wrong codes until it is void")),
    ]);
    let leg = object(&[
        ("name", text("the leg")),
        ("state", one_of(&["ready", "failing", "resting", "unavailable", "unconfigured"])),
        ("reason", or_null(text("why it is not ready, or what it can't do"))),
        ("rests_for_s", or_null(count("of one that rests: seconds until it is asked again"))),
        ("median_ms", or_null(count("what its last answers took; null before the first"))),
    ]);
    let model = object(&[
        ("name", text("the local leg's model")),
        ("source", one_of(&["configuration", "node"])),
    ]);
    let last = object(&[
        ("at", count("Unix milliseconds")),
        ("turn_id", text("the turn")),
        ("leg", text("where to")),
        ("bytes", count("of the request's body")),
        ("content", list(text("question, history, summary, or a category of tools"))),
    ]);
    let cloud = object(&[
        ("requests_24h", count("requests that left for a cloud in the last 24 hours")),
        ("bytes_24h", count("of their bodies")),
        ("last", or_null(last)),
    ]);
    object(&[
        ("enabled", flag("are peers answered at all?")),
        ("trusted_only", flag("only contacts?")),
        ("allowed_contacts", list(contact)),
        ("denied_askers", list(text("a node id or a key"))),
        ("denied", list(denied)),
        ("enabled_source", source()),
        ("trusted_only_source", source()),
        ("pairing", or_null(pairing)),
        (
            "warnings",
            list(text("what is odd about the contacts; after a change: about this change")),
        ),
        ("trigger", text("the word that asks")),
        ("channels", list(text("the name of a channel where it is answered"))),
        ("ollama_detected", flag("does Ollama answer?")),
        ("models", list(text("a model that it has"))),
        ("claude_available", flag("is there a key for Claude?")),
        ("openai_configured", flag("is an OpenAI-compatible server configured?")),
        ("model", or_null(model)),
        ("legs", list(leg)),
        ("cloud", cloud),
    ])
}

/// Where something was written down: what is the node's own can be taken back here.
fn source() -> Value {
    one_of(&["configuration", "node"])
}

pub(super) fn assurance() -> Value {
    one_of(&["unverified", "signed", "verified"])
}

pub(super) fn delivery() -> Value {
    let state = one_of(&[
        "queued",
        "sent",
        "relayed",
        "delivered",
        "not_confirmed",
        "waiting",
        "failed",
        "cancelled",
    ]);
    object(&[("state", state), ("reason?", text("of waiting and failed: why"))])
}
