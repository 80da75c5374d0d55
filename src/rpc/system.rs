//! `system.*`: the machine under the node.
//!
//! Owns the schemas of these methods. What a tool shows too comes from the tool's own handler.

use serde_json::{Map, Value, json};

use super::dispatcher::{Call, no_such_method};
use super::error::RpcError;
use super::message::{self, NoParams};
use super::schema::{count, object, text};

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

async fn disk_status(_call: &Call<'_>) -> Result<Value, RpcError> {
    Ok(json!({}))
}

pub(super) fn info_result() -> Value {
    object(&[
        ("version", text("of the program")),
        ("uptime_s", count("seconds since its start")),
        ("data_dir", text("where transcripts, secrets and the ledger live")),
    ])
}

pub(super) fn disk_result() -> Value {
    object(&[])
}
