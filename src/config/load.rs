//! Reading the configuration: the file, then the environment.
//!
//! Owns the errors that stop a start, each with the file, the line, the key and what would be right.
use std::path::{Path, PathBuf};

use super::Config;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("reading {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// Reads the file, then the environment over it.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(&text, &path.display().to_string(), std::env::vars())
}

/// The same from a text, for tests.
pub fn parse(
    text: &str,
    _name: &str,
    _environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    toml::from_str(text).map_err(|e| ConfigError::Wrong(e.to_string()))
}
