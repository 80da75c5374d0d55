//! `system.*`: the machine under the node.
//!
//! Owns the schemas of these methods. What a tool shows too comes from the tool's own handler.

use serde_json::{Map, Value, json};

use super::dispatcher::{Call, no_such_method};
use super::error::{ErrorCode, RpcError};
use super::message::{self, NoParams};
use super::schema::{count, list, object, text};
use crate::tools::system::Disks;

/// Runs a `system.*` method.
pub(super) async fn handle(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let NoParams {} = message::params(params)?;
    match method {
        "system.disk-status" => disk_status(call).await,
        "system.info" => {
            let services = call.services;
            let up_ms = services.clock.now().mono_ms.saturating_sub(services.started.mono_ms);
            Ok(json!({
                "version": env!("CARGO_PKG_VERSION"),
                "uptime_s": up_ms / 1000,
                "data_dir": services.data_dir.to_string_lossy(),
            }))
        }
        _ => Err(no_such_method(method)),
    }
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

pub(super) fn info_result() -> Value {
    object(&[
        ("version", text("of the program")),
        ("uptime_s", count("seconds since its start")),
        ("data_dir", text("where transcripts, secrets and the ledger live")),
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
