//! The radio of this data folder: which one it is, and that another one is not used until it is accepted.
//!
//! Owns `radio.json`. A radio is its own public key; its number follows the key and may change with the
//! firmware. One that has no key (licensed mode, firmware without keys) is known by its number. Opens no
//! radio and sends nothing: who talks to a radio asks here first.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::RadioInfo;
use super::settings::compare::printable;
use crate::node::{NodeNum, PublicKey};
use crate::store::document::{self, Document};
use crate::store::{self, Durability, StoreError};

const FILE: &str = "radio.json";
/// Of the file's form.
const VERSION: u64 = 1;

/// What is kept of a radio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    key: Option<PublicKey>,
    node: NodeNum,
}

impl Identity {
    fn of(radio: &RadioInfo) -> Identity {
        Identity { key: radio.public_key, node: radio.my_node }
    }

    /// Is that the same radio? One that has lost its key is another one: a number is only a claim. One that was
    /// known by its number and has a key now is the same: that is how firmware with keys comes to it.
    fn is(&self, other: &Identity) -> bool {
        match (self.key, other.key) {
            (Some(known), Some(key)) => known == key,
            (Some(_), None) => false,
            (None, _) => self.node == other.node,
        }
    }

    fn fingerprint(&self) -> String {
        self.key.map_or_else(|| self.node.to_string(), |key| key.fingerprint())
    }
}

/// A radio that is not used, for it is not the one that was used last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedRadio {
    /// Of its key; of a radio without a key its node id.
    pub fingerprint: String,
    /// Its long name: untrusted text, fit for a terminal.
    pub owner: String,
    /// Its number, a claim.
    pub node: NodeNum,
}

impl std::fmt::Display for RefusedRadio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RefusedRadio { fingerprint, owner, node } = self;
        write!(f, "another radio than the one used last is on the port: {node} \"{owner}\", ")?;
        if *fingerprint == node.to_string() {
            write!(f, "without a key; ")?;
        } else {
            write!(f, "fingerprint {fingerprint}; ")?;
        }
        write!(
            f,
            "nothing is sent to it or taken from it until it is accepted: on the node page, or with \
             `tombolo radio accept` while the daemon is stopped"
        )
    }
}

/// Why a radio was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// There is nothing to accept.
    #[error("no radio is refused now: the one that is used needs no acceptance")]
    NoneRefused,
    /// Another one waits.
    #[error(
        "the radio that waits has the fingerprint `{waits}`: compare it with the radio's own app"
    )]
    Another {
        /// Its fingerprint.
        waits: String,
    },
    /// It could not be written down, so it is not accepted.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, Default)]
struct State {
    used: Option<Identity>,
    refused: Option<(Identity, RefusedRadio)>,
}

/// The radio that is used, and the one that waits. Shared between the link and those who decide.
#[derive(Debug)]
pub struct KnownRadio {
    // None: nothing is checked and nothing is kept.
    path: Option<PathBuf>,
    state: Mutex<State>,
    accepted: Notify,
}

impl KnownRadio {
    /// Of that data folder.
    ///
    /// # Errors
    /// A file that can't be read. It is not passed over: with it would go the protection.
    pub fn open(data_dir: &Path) -> Result<KnownRadio, StoreError> {
        let path = data_dir.join(FILE);
        let used = match document::read(&path, VERSION)? {
            Document::Missing => None,
            Document::Whole(used) => used,
            Document::Broken(mut error) => {
                let why = format!(
                    "{}; repair it, or move it away: then the radio that is plugged in next is taken for the right one",
                    error.source
                );
                error.source = std::io::Error::new(error.source.kind(), why);
                return Err(error);
            }
        };
        let state = Mutex::new(State { used, refused: None });
        Ok(KnownRadio { path: Some(path), state, accepted: Notify::new() })
    }

    /// Any radio will do: for the simulator, and for a port that was named by hand.
    pub fn any() -> KnownRadio {
        KnownRadio { path: None, state: Mutex::default(), accepted: Notify::new() }
    }

    /// Who it is, if it is not the radio that is used. Changes nothing.
    pub fn refuses(&self, radio: &RadioInfo) -> Option<RefusedRadio> {
        self.path.as_ref()?;
        let found = Identity::of(radio);
        let is_used = self.state().used.as_ref().is_none_or(|used| used.is(&found));
        (!is_used).then(|| RefusedRadio {
            fingerprint: found.fingerprint(),
            owner: printable(&radio.owner.long_name),
            node: found.node,
        })
    }

    /// May this radio be used? The first one ever may, and is kept. Kept is only what can be known again: a radio
    /// without a key and without a region has yet to be set up, and gets another number with its key.
    ///
    /// # Errors
    /// Who it is, if it is another one. It waits to be accepted then.
    pub fn admit(&self, radio: &RadioInfo) -> Result<(), RefusedRadio> {
        let Some(path) = &self.path else { return Ok(()) };
        let found = Identity::of(radio);
        let refused = self.refuses(radio);
        let mut state = self.state();
        state.refused = refused.clone().map(|refused| (found.clone(), refused));
        if let Some(refused) = refused {
            return Err(refused);
        }
        let is_set_up = found.key.is_some() || radio.lora.region != 0;
        if is_set_up && state.used.as_ref() != Some(&found) {
            // Before the daemon's first start there is no data folder, and nothing to remember it for.
            let has_folder = path.parent().is_some_and(Path::is_dir);
            // The radio is the right one, written down or not.
            if has_folder && let Err(error) = store::replace_json(path, &found, Durability::Disk) {
                tracing::warn!("the radio could not be remembered: {error}: {}", error.source);
            }
            state.used = Some(found);
        }
        Ok(())
    }

    /// Accepts the radio that waits. White space and capitals in the fingerprint don't count.
    ///
    /// # Errors
    /// When none waits, or another one, or it can't be written down.
    pub fn accept(&self, fingerprint: &str) -> Result<(), NotAccepted> {
        let plain = |text: &str| -> String {
            text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
        };
        let mut state = self.state();
        let Some((found, refused)) = &state.refused else { return Err(NotAccepted::NoneRefused) };
        if plain(fingerprint) != plain(&refused.fingerprint) {
            return Err(NotAccepted::Another { waits: refused.fingerprint.clone() });
        }
        if let Some(path) = &self.path {
            store::replace_json(path, found, Durability::Disk)?;
        }
        state.used = Some(found.clone());
        state.refused = None;
        drop(state);
        self.accepted.notify_one();
        Ok(())
    }

    /// Waits until a radio is accepted.
    pub async fn accepted(&self) {
        self.accepted.notified().await;
    }

    /// The radio that waited is gone from the port.
    pub fn gone(&self) {
        self.state().refused = None;
    }

    // A panic elsewhere leaves both halves whole: each is replaced in one go.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
