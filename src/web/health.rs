//! `GET /healthz`: is the daemon serving, and in what state are its parts?
//!
//! Owns the body: states and counts, readable by anyone who reaches the port. Must hold no name, no path,
//! no text and no secret. The status is 200 whenever the daemon serves.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::rpc::Services;

/// A part that doesn't answer within this is shown as unknown.
const PATIENCE: Duration = Duration::from_millis(500);

/// The body.
pub async fn body(services: &Services) -> Value {
    let (mesh, legs) = tokio::join!(
        timeout(PATIENCE, services.mesh.status()),
        timeout(PATIENCE, services.legs()),
    );
    let backend = legs.map_or(
        Value::Null,
        |legs| json!({ "ollama": legs.ollama_detected, "claude": legs.claude_available }),
    );
    let (link, queue) = match mesh {
        Ok(Ok(status)) => (
            json!({ "connected": status.connected, "sending_paused": status.airtime.paused.is_some() }),
            json!({
                "turns_running": status.turns_running,
                "turns_waiting": status.turns_waiting,
                "parts_waiting": status.parts_waiting,
                "kept_answers": status.kept_answers,
            }),
        ),
        Ok(Err(_)) | Err(_) => (Value::Null, Value::Null),
    };
    json!({ "status": "serving", "link": link, "backend": backend, "queue": queue })
}
