//! `mesh.history`: the last day by the hour, and the file in which it survives a restart.
//!
//! Owns `history.json`. It is only shown: that it is broken or can't be written is said in the log, once, and
//! changes nothing.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tracing::warn;

use super::Services;
use super::error::{ErrorCode, RpcError};
use super::figures::hours::{Hours, began, numbers};
use super::schema::{count, list, number, object, or_null};
use crate::mesh::airtime::hours as airtime;
use crate::store::{self, Durability, StoreError, document};

/// Of the file's form.
const VERSION: u64 = 1;

/// The hours of an earlier run.
///
/// # Errors
/// As [`document::read`].
pub(super) fn read(data_dir: &Path) -> Result<Hours, StoreError> {
    let (hours, aside) = document::read_or_set_aside(&path(data_dir), VERSION)?;
    if let Some(aside) = aside {
        warn!(
            why = aside.why, aside = %aside.path.display(),
            "history.json makes no sense and is set aside; the charts begin anew"
        );
    }
    Ok(hours.unwrap_or_default())
}

/// Writes the hours where they are others than those written last. Does I/O.
pub(super) fn write(data_dir: &Path, hours: &Hours) -> Result<(), store::StoreError> {
    store::replace_json(&path(data_dir), hours, Durability::Process)
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("history.json")
}

/// The last 24 hours, the present one last.
pub(super) async fn history(services: &Services) -> Result<Value, RpcError> {
    let data_dir = services.data_dir.clone();
    // A year of hours is a file of half a megabyte.
    let sent = tokio::task::spawn_blocking(move || airtime::by_number(&data_dir)).await;
    let failed = |reason: &dyn std::fmt::Display| {
        warn!("the record of airtime could not be read: {reason}");
        RpcError::new(ErrorCode::Internal, "the record of airtime could not be read")
    };
    let sent = sent.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let now_ms = services.clock.now().unix_ms;
    let hours: Vec<Value> = numbers(now_ms)
        .zip(services.figures.counts().hours.last_day(now_ms))
        .map(|(number, hour)| {
            let own_ms = sent.get(&number).map_or(0, |hour| hour.airtime_us / 1000);
            json!({
                "from": began(number),
                "own_ms": own_ms,
                "channel_percent": hour.channel_percent(),
                "answered": hour.answered,
                "refused": hour.refused,
            })
        })
        .collect();
    Ok(json!({ "hours": hours }))
}

pub(super) fn result() -> Value {
    let hour = object(&[
        ("from", count("when it began, Unix milliseconds")),
        ("own_ms", count("sent by this node, without the radio's own repeats")),
        (
            "channel_percent",
            or_null(number("how busy the channel was on average; null: not known")),
        ),
        ("answered", count("questions of peers that were answered")),
        ("refused", count("questions of peers that were refused")),
    ]);
    object(&[("hours", list(hour))])
}
