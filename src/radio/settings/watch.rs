//! The daemon's side of the settings: what differs is said after a handshake, and written at the start
//! where the operator has asked for that.
//!
//! Owns what was said and whether the start is over. Opens the radio only for that one writing.

use std::path::Path;

use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::apply::{self, Applied, ApplyError};
use super::compare::{differences, impossible};
use super::{Wanted, udev};
use crate::config::RadioSettings;
use crate::radio::RadioInfo;
use crate::radio::known::{KnownRadio, RefusedRadio};
use crate::radio::transport::Connector;

/// Why nothing was written yet. It is tried again when the radio is there.
#[derive(Debug)]
pub enum NotApplied {
    /// The radio could not be reached; why.
    Away(String),
    /// It is not the radio that the settings are for.
    Refused(RefusedRadio),
}

/// What is wanted of the radio of one link.
#[derive(Debug)]
pub struct Watch {
    file: RadioSettings,
    // Not yet written, though it should be at the start.
    to_apply: bool,
    said: Vec<String>,
}

impl Watch {
    /// For `[radio.settings]`.
    pub fn new(file: RadioSettings) -> Watch {
        Watch { to_apply: file.apply, file, said: Vec::new() }
    }

    /// Says what differs, once as long as it stays the same.
    pub fn report(&mut self, connector: &Connector, radio: &RadioInfo) {
        let lines = match self.wanted(connector) {
            Ok(wanted) => {
                let mut lines = differences(&wanted, radio);
                lines.extend(impossible(&wanted, radio));
                lines
            }
            Err(faults) => faults,
        };
        if lines != self.said {
            for line in &lines {
                warn!(radio = connector.name(), "{line}");
            }
            self.said = lines;
        }
    }

    /// Does something have to be written before the link begins?
    pub fn has_to_apply(&self) -> bool {
        self.to_apply
    }

    /// Writes it, once in the life of the daemon; a failure is said, and the radio is used as it is.
    ///
    /// # Errors
    /// When there is no radio that may be written to; it is tried again then.
    pub async fn apply(
        &mut self,
        connector: &Connector,
        known: &KnownRadio,
        cancel: &CancellationToken,
    ) -> Result<(), NotApplied> {
        let wanted = match self.wanted(connector) {
            Ok(wanted) => wanted,
            Err(faults) => {
                error!(radio = connector.name(), "settings not applied: {}", faults.join("; "));
                self.to_apply = false;
                return Ok(());
            }
        };
        let mut say = |line: &str| info!(radio = connector.name(), "{line}");
        match apply::apply(connector, &wanted, known, cancel, &mut say).await {
            Err(ApplyError::Session(error)) => return Err(NotApplied::Away(error.to_string())),
            Err(ApplyError::Foreign(radio)) => return Err(NotApplied::Refused(radio)),
            Err(error) => error!(radio = connector.name(), "settings not applied: {error}"),
            Ok(Applied::AlreadyRight(_)) => {}
            Ok(Applied::Written { .. }) => info!(radio = connector.name(), "settings applied"),
        }
        self.to_apply = false;
        Ok(())
    }

    fn wanted(&self, connector: &Connector) -> Result<Wanted, Vec<String>> {
        let properties =
            connector.device().map(|d| udev::properties(Path::new("/"), &d)).unwrap_or_default();
        Wanted::resolve(&self.file, &properties)
            .map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }
}
