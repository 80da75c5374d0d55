//! `system.*`: the machine under the node.
//!
//! Owns the schemas of these methods. What a tool shows too comes from the tool's own handler.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::dispatcher::{Call, no_such_method};
use super::error::{ErrorCode, RpcError};
use super::fields::wrong;
use super::message::{self, NoParams};
use super::schema::{count, flag, list, object, one_of, or_null, text};
use crate::backup;
use crate::radio::system_clock::Source;
use crate::telemetry::MAX_LINES;
use crate::tools::system::Disks;

/// `system.log` gives so many lines when no `limit` is given.
const LINES: usize = 100;
/// From the gravest on; a level includes those before it.
const LEVELS: [&str; 3] = ["error", "warn", "info"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogParams {
    limit: Option<usize>,
    level: Option<String>,
}

/// Runs a `system.*` method.
pub(super) async fn handle(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    if method == "system.log" {
        return log(call, message::params(params)?);
    }
    let NoParams {} = message::params(params)?;
    match method {
        "system.disk-status" => disk_status(call).await,
        "system.info" => Ok(info(call).await),
        _ => Err(no_such_method(method)),
    }
}

async fn info(call: &Call<'_>) -> Value {
    let services = call.services;
    let up_ms = services.clock.now().mono_ms.saturating_sub(services.started.mono_ms);
    let data_dir = services.data_dir.clone();
    let backup = tokio::task::spawn_blocking(move || backup::last(&data_dir));
    let (storage, backup, drift) =
        tokio::join!(services.storage.of(&services.data_dir), backup, services.mesh.radio_drift(),);
    let backup = backup.ok().and_then(Result::ok).flatten();
    let clock = services.machine_clock.state();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": up_ms / 1000,
        "data_dir": services.data_dir.to_string_lossy(),
        "storage": storage,
        "clock": {
            "source": clock.source.as_str(),
            "synchronised": clock.synchronised,
            "radio_drift_s": drift.ok().flatten(),
        },
        "backup": backup.map(|note| json!({
            "at": note.at,
            "folder": note.folder.to_string_lossy(),
        })),
    })
}

fn log(call: &Call<'_>, LogParams { limit, level }: LogParams) -> Result<Value, RpcError> {
    let limit = limit.unwrap_or(LINES);
    if !(1..=MAX_LINES).contains(&limit) {
        return Err(wrong("limit", format!("write 1 to {MAX_LINES}")));
    }
    let shown = match level.as_deref() {
        None => &LEVELS[..],
        Some(level) => LEVELS
            .iter()
            .position(|known| *known == level)
            .and_then(|index| LEVELS.get(..=index))
            .ok_or_else(|| wrong("level", "write error, warn or info"))?,
    };
    Ok(json!({ "lines": call.services.lines.last(limit, |line| shown.contains(&line.level)) }))
}

async fn disk_status(call: &Call<'_>) -> Result<Value, RpcError> {
    let disks = Disks::of_node(&call.services.data_dir);
    // A file system on the network may let its caller wait.
    let status = tokio::task::spawn_blocking(move || disks.status()).await;
    match status {
        Ok(Ok(status)) => Ok(json!(status)),
        Ok(Err(reason)) => Err(RpcError::new(ErrorCode::Unavailable, reason)),
        Err(_) => Err(RpcError::new(ErrorCode::Internal, "the disks could not be read")),
    }
}

pub(super) fn log_params() -> Value {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": LINES,
        "description": "how many at most, the newest of all",
    });
    let level = json!({
        "type": "string", "enum": LEVELS, "default": "info",
        "description": "this level and the graver ones",
    });
    object(&[("limit?", limit), ("level?", level)])
}

pub(super) fn log_result() -> Value {
    object(&[("lines", list(log_line()))])
}

pub(super) fn log_line() -> Value {
    object(&[
        ("seq", count("counted from 1 since the start; the same as in the event log")),
        ("at", count("Unix milliseconds")),
        ("level", one_of(&LEVELS)),
        ("target", text("the part that says it")),
        ("message", text("what it says, in one line; names in it are untrusted text")),
    ])
}

pub(super) fn info_result() -> Value {
    let storage = object(&[
        ("data_bytes", count("of the files in the data folder, at most a minute ago")),
        ("free_bytes", or_null(count("that may still be written on its disk"))),
    ]);
    let drift = json!({
        "type": "integer",
        "description": "seconds by which the radio's clock is ahead of this machine's",
    });
    let clock = object(&[
        ("source", one_of(&Source::NAMES)),
        ("synchronised", flag("is this machine's clock known to be right?")),
        ("radio_drift_s", or_null(drift)),
    ]);
    let backup =
        object(&[("at", count("Unix milliseconds")), ("folder", text("where the copy was made"))]);
    object(&[
        ("version", text("of the program")),
        ("uptime_s", count("seconds since its start")),
        ("data_dir", text("where transcripts, secrets and the ledger live")),
        ("storage", or_null(storage)),
        ("clock", clock),
        ("backup", or_null(backup)),
    ])
}

pub(super) fn disk_result() -> Value {
    let disk = object(&[
        ("path", text("a folder on it")),
        ("total", count("bytes")),
        ("available", count("bytes that a program without privileges may still write")),
        ("used_percent", json!({ "type": "integer", "minimum": 0, "maximum": 100 })),
    ]);
    object(&[("disks", list(disk))])
}
