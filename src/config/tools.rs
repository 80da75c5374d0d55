//! `[tools]`: what the assistant's tools may reach.
//!
//! Owns these keys and what a wrong one is answered with. A category that nothing is configured for has no
//! tool. Looks at no folder and no server: whether they are there is shown by `tombolo check`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::check::{Fault, is_base_url};
use crate::assistant::http::is_private_way;
use crate::invisible;

/// Longest name that stands in a tool's name, so that all of it fits the 64 characters of the wire.
const MAX_NAME: usize = 32;
/// Entries of a list.
const MAX_ENTRIES: usize = 32;
/// Seconds that a command may take at most.
const MAX_SECONDS: u64 = 120;
/// Characters that a model is told of a command.
const MAX_DESCRIPTION: usize = 200;

/// `[tools]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsConfig {
    /// Services of systemd whose state is shown.
    pub services: Vec<Service>,
    /// Folders whose files may be read.
    pub folders: Vec<Folder>,
    /// Folders of documents that are indexed for full-text search.
    pub documents: Vec<Folder>,
    /// Folders of pictures, sound and films.
    pub media: Vec<Folder>,
    /// Whether notes are kept, and who sees them.
    pub notes: Option<Notes>,
    /// Commands that may be run.
    pub commands: Vec<Command>,
    /// A Bitcoin node.
    pub bitcoin: Option<Bitcoin>,
    /// The name of its wallet; `""` is its default wallet.
    pub wallet: Option<String>,
}

/// A service: its name, or `{ name, restart }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ServiceForm")]
pub struct Service {
    /// The unit, with its ending.
    pub unit: String,
    /// May it be restarted?
    pub restart: bool,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a service such as \"mosquitto\", or { name = \"mosquitto\", restart = true }"
)]
enum ServiceForm {
    Name(String),
    Full(ServiceTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTable {
    name: String,
    #[serde(default)]
    restart: bool,
}

impl TryFrom<ServiceForm> for Service {
    type Error = String;

    fn try_from(form: ServiceForm) -> Result<Service, String> {
        let (name, restart) = match form {
            ServiceForm::Name(name) => (name, false),
            ServiceForm::Full(ServiceTable { name, restart }) => (name, restart),
        };
        // What systemd takes as a unit's name, without what it takes as a pattern, an option or a path.
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@:\\".contains(&b));
        if !plain || name.is_empty() || name.len() > 100 || name.starts_with(['-', '.']) {
            return Err(format!(
                "`{}` is no service: write its name, such as \"mosquitto\"",
                cut(&name)
            ));
        }
        let unit = if name.contains('.') { name } else { format!("{name}.service") };
        if !unit.ends_with(".service") {
            return Err(format!(
                "`{unit}` is no service: only units that end in .service are taken"
            ));
        }
        Ok(Service { unit, restart })
    }
}

/// A folder: its path, or `{ path, name, writable }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "FolderForm")]
pub struct Folder {
    /// The first part of the paths in it, as callers see them.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// May files in it be changed? Of `tools.folders` only.
    pub writable: bool,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a folder such as \"/srv/library\", or { path = \"/srv/library\", name = \"library\", writable = true }"
)]
enum FolderForm {
    Path(PathBuf),
    Full(FolderTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderTable {
    path: PathBuf,
    name: Option<String>,
    #[serde(default)]
    writable: bool,
}

impl TryFrom<FolderForm> for Folder {
    type Error = String;

    fn try_from(form: FolderForm) -> Result<Folder, String> {
        let (path, name, writable) = match form {
            FolderForm::Path(path) => (path, None, false),
            FolderForm::Full(FolderTable { path, name, writable }) => (path, name, writable),
        };
        if !path.is_absolute() {
            return Err(format!(
                "`{}` is no absolute path: write one such as \"/srv/library\"",
                cut(&path.to_string_lossy())
            ));
        }
        if path.parent().is_none() {
            return Err(
                "`/` is the whole machine, with the node's own secrets: write the folders that are meant, such as \
                 [\"/srv/library\", { path = \"/home/ana/plans\", name = \"plans\", writable = true }]"
                    .to_owned(),
            );
        }
        let name = match name {
            Some(name) => name,
            None => path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned(),
        };
        let right = !name.is_empty()
            && name.chars().count() <= MAX_NAME
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_alphanumeric() || "-_. ".contains(c));
        if !right {
            return Err(format!(
                "`{}` can't be a folder's name here: write {{ path = \"…\", name = \"…\" }} with a name of 1 to \
                 {MAX_NAME} letters, digits and - _ .",
                cut(&name)
            ));
        }
        Ok(Folder { name, path, writable })
    }
}

/// Who sees whose notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notes {
    /// Each caller has notes of its own; the operator's are one notebook, whatever the login.
    Own,
    /// One notebook for all who have the grant.
    Shared,
}

/// `[[tools.commands]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The tool is called `app_` and this.
    pub name: ToolWord,
    /// For the model.
    pub description: Described,
    /// The program's absolute path and its arguments.
    pub command: Argv,
    /// Does it change nothing? Then it runs without a confirmation.
    #[serde(default)]
    pub safe: bool,
    /// After which it is killed.
    #[serde(default)]
    pub timeout_s: Seconds,
}

/// A word in a tool's name: `a-z`, `0-9` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ToolWord(pub String);

impl TryFrom<String> for ToolWord {
    type Error = String;

    fn try_from(text: String) -> Result<ToolWord, String> {
        let right = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if right {
            return Ok(ToolWord(text));
        }
        Err(format!("`{}` is no name: write 1 to {MAX_NAME} of a-z, 0-9 and _", cut(&text)))
    }
}

/// What a model is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Described(pub String);

impl TryFrom<String> for Described {
    type Error = String;

    fn try_from(text: String) -> Result<Described, String> {
        let text = text.trim().to_owned();
        if text.is_empty()
            || text.chars().count() > MAX_DESCRIPTION
            || text.contains(char::is_control)
        {
            return Err(format!(
                "write one line of 1 to {MAX_DESCRIPTION} characters that says what it does"
            ));
        }
        Ok(Described(text))
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Argv(pub Vec<String>);

impl TryFrom<Vec<String>> for Argv {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Argv, String> {
        let program = words.first().map(String::as_str).unwrap_or_default();
        if !Path::new(program).is_absolute() || program.ends_with('/') {
            return Err(
                "write a list with the program's absolute path first, such as [\"/usr/bin/uptime\", \"-p\"]"
                    .to_owned(),
            );
        }
        if words.len() > MAX_ENTRIES || words.iter().any(|word| word.contains('\0')) {
            return Err(format!("write at most {MAX_ENTRIES} words, none with a NUL in it"));
        }
        Ok(Argv(words))
    }
}

/// 1 to 120 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct Seconds(pub u64);

impl Default for Seconds {
    fn default() -> Seconds {
        Seconds(20)
    }
}

impl TryFrom<u64> for Seconds {
    type Error = String;

    fn try_from(seconds: u64) -> Result<Seconds, String> {
        if (1..=MAX_SECONDS).contains(&seconds) {
            Ok(Seconds(seconds))
        } else {
            Err(format!("write 1 to {MAX_SECONDS} seconds"))
        }
    }
}

/// `[tools.bitcoin]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bitcoin {
    /// Where bitcoind's JSON-RPC is.
    pub url: String,
    /// Its cookie file; without it the secret `bitcoin-rpc` (`user:password`) is used.
    pub cookie: Option<PathBuf>,
}

impl Default for Bitcoin {
    fn default() -> Bitcoin {
        Bitcoin { url: "http://127.0.0.1:8332".to_owned(), cookie: None }
    }
}

/// A value in an error: bounded, for somebody may have put something else there by mistake.
fn cut(text: &str) -> String {
    invisible::word(text, 60)
}

/// Rules between keys.
pub(super) fn faults(tools: &ToolsConfig, data_dir: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |key, right: String| faults.push(Fault { key, right });

    let lists = [
        ("tools.folders", &tools.folders),
        ("tools.documents", &tools.documents),
        ("tools.media", &tools.media),
    ];
    for (key, folders) in lists {
        let names: HashSet<_> = folders.iter().map(|folder| &folder.name).collect();
        if names.len() < folders.len() {
            fault(
                key,
                "two folders have one name; write { path = \"…\", name = \"…\" } with another name"
                    .to_owned(),
            );
        }
        if folders.iter().any(|f| f.path.starts_with(data_dir) || data_dir.starts_with(&f.path)) {
            fault(
                key,
                "the data folder, with its secrets, would be in reach; name another folder"
                    .to_owned(),
            );
        }
        if key != "tools.folders" && folders.iter().any(|folder| folder.writable) {
            fault(key, "only folders of tools.folders can be writable".to_owned());
        }
    }
    let counts = [
        ("tools.services", tools.services.len()),
        ("tools.folders", tools.folders.len()),
        ("tools.documents", tools.documents.len()),
        ("tools.media", tools.media.len()),
        ("tools.commands", tools.commands.len()),
    ];
    for (key, count) in counts {
        if count > MAX_ENTRIES {
            fault(key, format!("write at most {MAX_ENTRIES} of them"));
        }
    }
    let units: HashSet<_> = tools.services.iter().map(|service| &service.unit).collect();
    if units.len() < tools.services.len() {
        fault("tools.services", "a service stands here twice; write each once".to_owned());
    }
    let names: HashSet<_> = tools.commands.iter().map(|command| &command.name).collect();
    if names.len() < tools.commands.len() {
        fault("tools.commands", "two commands have one name; write another".to_owned());
    }
    if let Some(bitcoin) = &tools.bitcoin {
        if !is_base_url(&bitcoin.url) {
            fault(
                "tools.bitcoin.url",
                "write http://host:port, without a user name, a query or a fragment".to_owned(),
            );
        } else if !is_private_way(&bitcoin.url) {
            fault(
                "tools.bitcoin.url",
                "write https:// or an address of this machine: the password would cross the network in the clear"
                    .to_owned(),
            );
        }
        if bitcoin.cookie.as_ref().is_some_and(|path| !path.is_absolute()) {
            fault("tools.bitcoin.cookie", "write an absolute path".to_owned());
        }
    }
    if let Some(wallet) = &tools.wallet {
        if tools.bitcoin.is_none() {
            fault(
                "tools.wallet",
                "a wallet needs its node; write [tools.bitcoin] as well".to_owned(),
            );
        }
        // It becomes a part of a path.
        let right = wallet.len() <= 64
            && !wallet.starts_with('.')
            && wallet.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-. ".contains(&b));
        if !right {
            fault("tools.wallet", "write a wallet's name of letters, digits and - _ .".to_owned());
        }
    }
    faults
}

#[cfg(test)]
mod tests;
