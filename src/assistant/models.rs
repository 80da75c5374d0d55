//! The model that the operator chose at the node, over the one of the configuration.
//!
//! Owns the key `model` of `settings.json` in the data folder; other keys of that file are left as they are. Does not
//! know whether a server has the model.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tracing::warn;

use super::backends::BackendError;
use crate::store::{self, Durability, StoreError, document};

const FILE: &str = "settings.json";
/// Of the file's form.
/// Of the form of `settings.json`.
pub const VERSION: u64 = 1;
const KEY: &str = "model";
/// No server's model has a longer name, in bytes.
const MAX_NAME: usize = 200;

/// The model that is asked, and who chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenModel {
    /// The local leg's.
    pub name: String,
    /// `configuration`, or `node` where it was chosen over it.
    pub source: &'static str,
}

/// Why a model can't be chosen; the text says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The server doesn't have it.
    #[error("there is no model \"{name}\"; {there}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those there are, in words.
        there: String,
    },
    /// The server can't be asked which it has.
    #[error("the model server can't be asked which models it has: {0}")]
    Server(BackendError),
    /// The choice could not be stored.
    #[error("{0}: {source}", source = .0.source)]
    Store(#[from] StoreError),
}

/// The choice, as it is stored.
#[derive(Debug)]
pub struct ModelChoice {
    path: PathBuf,
}

impl ModelChoice {
    /// Below `data_dir`.
    pub fn of(data_dir: &Path) -> ModelChoice {
        ModelChoice { path: data_dir.join(FILE) }
    }

    /// The model that was chosen. A file that makes no sense is set aside, and counts as no choice.
    ///
    /// # Errors
    /// As [`document::read`].
    pub fn read(&self) -> Result<Option<String>, StoreError> {
        let settings = self.settings()?;
        Ok(match settings.get(KEY) {
            Some(Value::String(name)) if is_name(name) => Some(name.clone()),
            None | Some(Value::Null) => None,
            Some(_) => {
                let path = self.path.display();
                warn!(%path, "\"model\" is no name of a model: the configuration's is used");
                None
            }
        })
    }

    fn settings(&self) -> Result<Map<String, Value>, StoreError> {
        let (settings, aside) = document::read_or_set_aside(&self.path, VERSION)?;
        if let Some(aside) = aside {
            warn!(
                why = aside.why, aside = %aside.path.display(),
                "settings.json makes no sense and is set aside; the configuration's model is used"
            );
        }
        Ok(settings.unwrap_or_default())
    }

    /// Has a text the form of the file? What is wrong with it, else. Changes nothing.
    pub fn look(text: &[u8]) -> Result<(), String> {
        let settings: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match settings.get(KEY) {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(name)) if is_name(name) => Ok(()),
            Some(_) => Err(format!("\"{KEY}\" is no name of a model")),
        }
    }

    /// Stores a choice, on the disk when this returns; `None` takes it back. A file that makes no sense is set aside.
    pub fn write(&self, name: Option<&str>) -> Result<(), StoreError> {
        let mut settings = self.settings()?;
        match name {
            Some(name) => settings.insert(KEY.to_owned(), Value::from(name)),
            None => settings.shift_remove(KEY),
        };
        store::replace_json(&self.path, &settings, Durability::Disk)
    }
}

/// Can it be the name of a model?
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(|c| c.is_control() || c == ' ')
}

/// Are these the same model? A name without a tag means the tag `latest`.
pub fn is_same(one: &str, other: &str) -> bool {
    let bare = |name: &str| name.strip_suffix(":latest").unwrap_or(name).to_owned();
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_kept_beside_other_settings_and_can_be_taken_back() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        let choice = ModelChoice::of(data.path());
        assert_eq!(choice.read().unwrap(), None);
        store::replace(&path, b"{\"trusted_only\":true}", Durability::Process).unwrap();
        assert_eq!(choice.read().unwrap(), None);
        choice.write(Some("qwen3:4b")).unwrap();
        assert_eq!(ModelChoice::of(data.path()).read().unwrap().as_deref(), Some("qwen3:4b"));
        choice.write(None).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"trusted_only\":true}");
    }

    #[test]
    fn a_file_that_makes_no_sense_is_no_choice_and_is_not_overwritten() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        let choice = ModelChoice::of(data.path());
        for broken in
            ["{\"model\":", "[]", "{\"model\":7}", "{\"model\":\"\"}", "{\"model\":\"a b\"}"]
        {
            store::replace(&path, broken.as_bytes(), Durability::Process).unwrap();
            assert_eq!(choice.read().unwrap(), None, "{broken}");
        }
        choice.write(Some("m")).unwrap();
        assert_eq!(choice.read().unwrap().as_deref(), Some("m"));
        let aside = data.path().join("settings.json.broken");
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "{\"model\":");
    }

    #[test]
    fn a_name_has_a_greatest_length_and_latest_may_be_left_out() {
        for (length, good) in [(0, false), (1, true), (MAX_NAME, true), (MAX_NAME + 1, false)] {
            assert_eq!(is_name(&"x".repeat(length)), good);
        }
        assert!(is_same("toy", "toy:latest") && is_same("a:1", "a:1"));
        assert!(!is_same("a:1", "a") && !is_same("latest", "toy:latest"));
    }
}
