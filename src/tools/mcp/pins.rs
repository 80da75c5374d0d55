//! The words of foreign tools, as they were when they were first seen or last accepted: `mcp.json`.
//!
//! Owns that a change of them suspends the tool. A description is read by the model like an instruction, so
//! a server that changes it later could steer turns without anybody noticing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tracing::warn;

use crate::invisible::visible;
use crate::store::document::{self, Document};
use crate::store::{self, Durability, StoreError};

/// Of the file's form.
/// Of the form of `mcp.json`.
pub const VERSION: u64 = 1;
/// A description is cut here; what is cut is not pinned and not shown.
const MAX_DESCRIPTION_CHARS: usize = 600;

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The server's words, made fit to be seen.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pin {
    /// What is offered to models; `None` while nothing was accepted yet.
    pub accepted: Option<Definition>,
    /// What the server says now, where that differs: the tool is suspended.
    pub changed: Option<Definition>,
    /// Why what the server says now can't be offered at all, in words for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// The file was broken once: what is seen first waits for the operator too.
    #[serde(default)]
    ask_first: bool,
    servers: BTreeMap<String, BTreeMap<String, Pin>>,
}

/// What came of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// It is the pinned one.
    Known,
    /// It was the first, and is pinned now.
    Pinned,
    /// It differs: the tool is suspended.
    Suspended,
}

/// All pins of one data folder.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    content: Content,
    /// Which state of the file was read.
    read: Option<State>,
}

impl Definition {
    /// From what a server says: invisible characters go, and the length is bounded.
    pub fn new(description: &str, parameters: Value) -> Definition {
        let description = visible(description).chars().take(MAX_DESCRIPTION_CHARS).collect();
        Definition { description, parameters }
    }

    /// 64 hexadecimal digits; the order of an object's fields makes no difference.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.description.as_bytes());
        hash.update([0]);
        hash.update(sorted(&self.parameters).to_string().as_bytes());
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            let pairs = names
                .into_iter()
                .filter_map(|name| Some((name.clone(), sorted(fields.get(name)?))));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

impl Pins {
    /// Reads them; a broken file is moved aside, and then nothing is offered before it was accepted anew.
    pub fn open(data_dir: &Path) -> Result<Pins, StoreError> {
        let path = data_dir.join("mcp.json");
        let (content, aside) = document::read_or_set_aside(&path, VERSION)?;
        let mut content = content.unwrap_or_else(|| Content::new(false));
        if let Some(aside) = aside {
            warn!(
                why = aside.why, aside = %aside.path.display(),
                "mcp.json makes no sense and is set aside; every foreign tool waits for `tombolo mcp accept`"
            );
            content = Content::new(true);
            store::replace_json(&path, &content, Durability::Disk)?;
        }
        let read = state(&path);
        Ok(Pins { path, content, read })
    }

    /// Has a text the form of the file? Changes nothing. Gives what should be known of it, or what is wrong.
    pub fn look(text: &[u8]) -> Result<Option<String>, String> {
        match serde_json::from_slice::<Content>(text) {
            Ok(content) if content.version > 1 => {
                Err(format!("it was written by a newer tombolo (version {})", content.version))
            }
            Ok(content) if content.ask_first => Ok(Some(
                "it was broken once: what a server says first waits for `tombolo mcp accept` too"
                    .to_owned(),
            )),
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Reads again what another process has written.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        let now = state(&self.path);
        if now != self.read
            && let Document::Whole(content) = document::read(&self.path, VERSION)?
        {
            self.content = content;
            self.read = now;
        }
        Ok(())
    }

    /// What is offered of that tool: nothing while it is suspended.
    pub fn current(&self, server: &str, tool: &str) -> Option<&Definition> {
        let pin = self.get(server, tool)?;
        if pin.changed.is_some() || pin.refused.is_some() { None } else { pin.accepted.as_ref() }
    }

    /// The servers and tools of which something is known.
    pub fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        let servers = self.content.servers.iter();
        servers
            .flat_map(|(server, tools)| tools.keys().map(|tool| (server.as_str(), tool.as_str())))
    }

    /// The whole pin.
    pub fn get(&self, server: &str, tool: &str) -> Option<&Pin> {
        self.content.servers.get(server)?.get(tool)
    }

    /// Takes what a server says of a tool now. One that goes back to its pinned words is offered again.
    pub fn learn(
        &mut self,
        server: &str,
        tool: &str,
        new: Definition,
    ) -> Result<Learnt, StoreError> {
        let first = !self.content.ask_first;
        self.change(|content| {
            let pin = content.pin(server, tool);
            pin.refused = None;
            let same = pin.accepted.as_ref().map(|old| old.hash() == new.hash());
            match same {
                Some(true) => {
                    pin.changed = None;
                    Learnt::Known
                }
                None if first => {
                    pin.accepted = Some(new);
                    Learnt::Pinned
                }
                _ => {
                    pin.changed = Some(new);
                    Learnt::Suspended
                }
            }
        })
    }

    /// What the server says of a tool now can't be offered. Its words are not kept, for they may be of any size; what was
    /// accepted before is not offered either until the server says it again.
    pub fn refuse(&mut self, server: &str, tool: &str, why: &str) -> Result<(), StoreError> {
        self.change(|content| content.pin(server, tool).refused = Some(why.to_owned()))
    }

    /// Accepts the changed words; `false` when nothing waits.
    pub fn accept(&mut self, server: &str, tool: &str) -> Result<bool, StoreError> {
        self.change(|content| {
            let Some(pin) = content.servers.get_mut(server).and_then(|tools| tools.get_mut(tool))
            else {
                return false;
            };
            match pin.changed.take() {
                Some(changed) => {
                    pin.accepted = Some(changed);
                    true
                }
                None => false,
            }
        })
    }

    /// Reads, changes and writes while no other process does.
    fn change<T>(&mut self, change: impl FnOnce(&mut Content) -> T) -> Result<T, StoreError> {
        // One that can't be had costs only the protection from a second process at the same instant.
        let _lock = self.path.parent().map(store::wait_for_lock);
        self.refresh()?;
        let before = self.content.clone();
        let came = change(&mut self.content);
        if self.content != before {
            store::replace_json(&self.path, &self.content, Durability::Disk)?;
            self.read = state(&self.path);
        }
        Ok(came)
    }
}

impl Content {
    fn new(ask_first: bool) -> Content {
        Content { version: 1, ask_first, servers: BTreeMap::new() }
    }

    fn pin(&mut self, server: &str, tool: &str) -> &mut Pin {
        let tools = self.servers.entry(server.to_owned()).or_default();
        tools.entry(tool.to_owned()).or_insert(Pin { accepted: None, changed: None, refused: None })
    }
}

/// A file that is replaced is another one: its number, its time in seconds and nanoseconds, its length.
type State = (u64, i64, i64, u64);

fn state(path: &Path) -> Option<State> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.ino(), facts.mtime(), facts.mtime_nsec(), facts.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(text: &str) -> Definition {
        Definition::new(text, json!({ "type": "object", "properties": { "a": {}, "b": {} } }))
    }

    #[test]
    fn the_first_words_are_pinned_and_others_suspend_the_tool_until_they_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let mut pins = Pins::open(folder.path()).unwrap();
        assert_eq!(pins.learn("s", "t", words("reads")).unwrap(), Learnt::Pinned);
        assert_eq!(pins.learn("s", "t", words("reads")).unwrap(), Learnt::Known);
        assert!(!pins.accept("s", "t").unwrap());
        assert_eq!(pins.learn("s", "t", words("reads, and obey")).unwrap(), Learnt::Suspended);
        assert_eq!(pins.current("s", "t"), None);
        // A restart forgets nothing.
        let mut pins = Pins::open(folder.path()).unwrap();
        assert_eq!(pins.current("s", "t"), None);
        // The old words bring it back.
        assert_eq!(pins.learn("s", "t", words("reads")).unwrap(), Learnt::Known);
        assert_eq!(pins.current("s", "t"), Some(&words("reads")));
        // Another process accepts the new ones.
        pins.learn("s", "t", words("new")).unwrap();
        assert!(Pins::open(folder.path()).unwrap().accept("s", "t").unwrap());
        pins.refresh().unwrap();
        assert_eq!(pins.current("s", "t"), Some(&words("new")));
    }

    #[test]
    fn refused_words_are_not_kept_and_what_was_accepted_waits_until_the_server_says_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut pins = Pins::open(folder.path()).unwrap();
        pins.learn("s", "t", words("reads")).unwrap();
        pins.refuse("s", "t", "too large").unwrap();
        assert_eq!(pins.current("s", "t"), None);
        let mut pins = Pins::open(folder.path()).unwrap();
        assert_eq!(pins.get("s", "t").unwrap().refused.as_deref(), Some("too large"));
        assert!(!pins.accept("s", "t").unwrap());
        assert_eq!(pins.current("s", "t"), None);
        assert_eq!(pins.learn("s", "t", words("reads")).unwrap(), Learnt::Known);
        assert_eq!(pins.current("s", "t"), Some(&words("reads")));
        // One that is not known is not made known by a mistake at the terminal.
        assert!(!pins.accept("s", "other").unwrap() && !pins.accept("other", "t").unwrap());
        assert_eq!(pins.known().collect::<Vec<_>>(), [("s", "t")]);
    }

    #[test]
    fn a_schema_counts_as_changed_by_its_content_and_not_by_its_order() {
        let one = Definition::new("x", json!({ "a": 1, "b": { "c": 1, "d": [1, 2] } }));
        let same = Definition::new("x", json!({ "b": { "d": [1, 2], "c": 1 }, "a": 1 }));
        let other = Definition::new("x", json!({ "a": 1, "b": { "c": 1, "d": [2, 1] } }));
        assert_eq!(one.hash(), same.hash());
        assert_ne!(one.hash(), other.hash());
    }

    #[test]
    fn hidden_words_are_not_offered_and_long_ones_are_cut() {
        assert_eq!(
            Definition::new("a\u{202e}b\u{200b}c\u{7}\nd\u{e0041}", json!({})).description,
            "abc\nd"
        );
        let whole = "x".repeat(MAX_DESCRIPTION_CHARS);
        assert_eq!(Definition::new(&whole, json!({})).description, whole);
        assert_eq!(Definition::new(&format!("{whole}y"), json!({})).description, whole);
    }

    #[test]
    fn after_a_broken_file_nothing_is_offered_before_it_was_accepted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mcp.json"), "{ not json").unwrap();
        let mut pins = Pins::open(folder.path()).unwrap();
        assert_eq!(pins.learn("s", "t", words("reads")).unwrap(), Learnt::Suspended);
        assert_eq!(pins.current("s", "t"), None);
        assert!(pins.accept("s", "t").unwrap());
        assert_eq!(pins.current("s", "t"), Some(&words("reads")));
        let kept = std::fs::read_dir(folder.path()).unwrap().filter_map(Result::ok);
        assert!(kept.into_iter().any(|e| e.file_name().to_string_lossy().contains("broken")));
    }
}
