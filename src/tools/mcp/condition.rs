//! How each server is, for people who ask from outside the daemon: `mcp-servers.json`.
//!
//! Owns that file: whether a server is there, since when, and why not. A report and nothing else: nothing is decided by
//! what stands in it, and one that makes no sense is written anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::clock;
use crate::store::{self, Durability};

const FILE: &str = "mcp-servers.json";

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Since when, Unix milliseconds.
    pub since: u64,
    /// Why it is not there; `None`: it is.
    pub why_not: Option<String>,
}

/// The conditions of all servers, as the file has them.
#[derive(Debug)]
pub struct Conditions {
    path: PathBuf,
    now: Mutex<BTreeMap<String, Condition>>,
}

impl Conditions {
    /// Of these servers, none of which was looked at yet.
    pub fn new<'a>(data_dir: &Path, servers: impl Iterator<Item = &'a str>) -> Conditions {
        let starting =
            Condition { since: clock::unix_ms(), why_not: Some("it is being started".to_owned()) };
        let now: BTreeMap<String, Condition> =
            servers.map(|name| (name.to_owned(), starting.clone())).collect();
        let conditions = Conditions { path: data_dir.join(FILE), now: Mutex::default() };
        // Without servers there is nothing to report; what stands there is of none that is configured.
        if !now.is_empty() {
            write(&conditions.path, &now);
        }
        *conditions.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
        conditions
    }

    /// Notes it, where it has changed.
    pub fn set(&self, server: &str, why_not: Option<&str>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let known = now.get(server);
        if known.is_some_and(|known| known.why_not.as_deref() == why_not) {
            return;
        }
        let condition = Condition { since: clock::unix_ms(), why_not: why_not.map(str::to_owned) };
        now.insert(server.to_owned(), condition);
        write(&self.path, &now);
    }

    /// What a daemon has written last; empty where there is nothing, or nothing that makes sense.
    pub fn read(data_dir: &Path) -> BTreeMap<String, Condition> {
        store::read_json(&data_dir.join(FILE)).ok().flatten().unwrap_or_default()
    }
}

fn write(path: &Path, now: &BTreeMap<String, Condition>) {
    if let Err(error) = store::replace_json(path, now, Durability::Process) {
        warn!(%error, "how the tool servers are could not be written down");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_kept_with_the_moment_when_it_began() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Conditions::read(folder.path()).is_empty());
        let conditions = Conditions::new(folder.path(), ["a", "b"].into_iter());
        let read = || Conditions::read(folder.path());
        assert_eq!(read()["a"].why_not.as_deref(), Some("it is being started"));
        conditions.set("a", None);
        let since = read()["a"].since;
        assert_eq!(read()["a"].why_not, None);
        // The same again is not written: the file may be gone, and stays so.
        store::remove(&folder.path().join(FILE)).unwrap();
        conditions.set("a", None);
        assert!(read().is_empty());
        conditions.set("a", Some("it ended"));
        assert_eq!(read()["a"].why_not.as_deref(), Some("it ended"));
        assert!(read()["a"].since >= since && read().len() == 2);
        store::replace(&folder.path().join(FILE), b"{ no", Durability::Process).unwrap();
        assert!(read().is_empty());
    }
}
