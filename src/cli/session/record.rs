//! Sessions on disk: what was asked at the terminal, what was answered, and which tools were used.
//!
//! Owns the files below `terminal/` of the data folder, and which part of a call is kept: no argument of
//! a tool of `files` or `wallet`, no result of a tool that can show a file, and nothing that looks like a
//! key.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::assistant::backends::{ToolCall, Turn};
use crate::assistant::tools::Executed;
use crate::assistant::{ChatStatus, PermissionCategory, ToolOutcome};
use crate::store::{self, Durability, StoreError};

/// Turns that a model is given of a session.
const GIVEN_TURNS: usize = 12;
/// Turns that a session keeps.
const MAX_TURNS: usize = 200;
/// Bytes that its file keeps.
const MAX_BYTES: usize = 512 * 1024;
/// Characters of a result that are kept.
const MAX_RESULT_CHARS: usize = 1000;
/// What stands for a result that is not kept.
const NOT_KEPT: &str = "[this was done in an earlier turn; its result is not kept]";
/// What a key, or a token of money, begins with.
const KEY_MARKS: [&str; 6] = ["sk-", "cashuA", "cashuB", "ghp_", "xoxb-", "nsec1"];
/// And how long it is at least: `sk-` alone may be a word's end.
const KEY_LENGTH: usize = 20;

/// A session's name; it becomes a file's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionName(String);

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<SessionName, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=64).contains(&text.len()) && text.chars().all(fits) {
            Ok(SessionName(text.to_owned()))
        } else {
            Err("a name has 1 to 64 letters, digits, - and _".to_owned())
        }
    }
}

impl SessionName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One call of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptCall {
    /// The name that the model used.
    pub name: String,
    /// `None` for an unknown tool.
    pub category: Option<PermissionCategory>,
    /// What became of it.
    pub outcome: ToolOutcome,
    /// Where they may be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Where it may be kept, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptTurn {
    /// Unix milliseconds.
    pub at: u64,
    /// What was asked.
    pub question: String,
    /// What was answered.
    pub answer: String,
    /// How it ended.
    pub status: ChatStatus,
    /// The model that answered.
    pub model: String,
    /// The calls, in order.
    pub tools: Vec<KeptCall>,
}

/// A whole session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Of this form.
    pub version: u32,
    /// Oldest first.
    pub turns: Vec<KeptTurn>,
}

impl Default for Session {
    fn default() -> Session {
        Session { version: 1, turns: Vec::new() }
    }
}

/// All sessions of one data folder.
#[derive(Debug, Clone)]
pub struct Sessions {
    folder: PathBuf,
}

impl Sessions {
    /// Below that data folder. Nothing is made before something is kept.
    pub fn of(data_dir: &Path) -> Sessions {
        Sessions { folder: data_dir.join("terminal") }
    }

    /// The session, if there is one.
    pub fn get(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        store::read_json(&self.path(name))
    }

    /// Adds a turn; the oldest go when there are too many.
    pub fn add(&self, name: &SessionName, turn: KeptTurn) -> Result<(), StoreError> {
        store::private_dir(&self.folder)?;
        // Two runs that end at the same instant each add their turn; a lock that can't be had costs only that.
        let _lock = store::wait_for_lock(&self.folder);
        let mut session = self.get(name)?.unwrap_or_default();
        session.turns.push(turn);
        let mut bytes: usize = session.turns.iter().map(KeptTurn::bytes).sum();
        let mut surplus = session.turns.len().saturating_sub(MAX_TURNS);
        bytes -= session.turns.iter().take(surplus).map(KeptTurn::bytes).sum::<usize>();
        while bytes > MAX_BYTES && surplus + 1 < session.turns.len() {
            bytes -= session.turns.get(surplus).map_or(0, KeptTurn::bytes);
            surplus += 1;
        }
        session.turns.drain(..surplus);
        store::replace_json(&self.path(name), &session, Durability::Disk)
    }

    /// Every name, in order.
    pub fn names(&self) -> Result<Vec<SessionName>, StoreError> {
        let files = store::json_files(&self.folder)?;
        let stem = |path: &PathBuf| path.file_stem()?.to_str()?.parse().ok();
        Ok(files.iter().filter_map(stem).collect())
    }

    /// Deletes it; `false`: there was none.
    pub fn delete(&self, name: &SessionName) -> Result<bool, StoreError> {
        let path = self.path(name);
        let there = path.exists();
        store::remove(&path)?;
        Ok(there)
    }

    fn path(&self, name: &SessionName) -> PathBuf {
        self.folder.join(format!("{}.json", name.0))
    }
}

impl Session {
    /// What a model is given of it: the last answered turns, with those calls whose arguments were kept.
    pub fn for_model(&self) -> Vec<Turn> {
        let answered: Vec<&KeptTurn> =
            self.turns.iter().filter(|turn| turn.status == ChatStatus::Answered).collect();
        let mut turns = Vec::new();
        for (at, turn) in
            answered.iter().enumerate().skip(answered.len().saturating_sub(GIVEN_TURNS))
        {
            turns.push(Turn::User(turn.question.clone()));
            for (number, kept) in turn.tools.iter().enumerate() {
                let Some(arguments) = kept.arguments.clone() else { continue };
                let (id, name) = (format!("kept_{at}_{number}"), kept.name.clone());
                let call = ToolCall { id: id.clone(), name: name.clone(), arguments };
                turns.push(Turn::Assistant { text: String::new(), calls: vec![call], raw: None });
                let content = kept.result.clone().unwrap_or_else(|| NOT_KEPT.to_owned());
                let is_error = kept.outcome != ToolOutcome::Ran;
                turns.push(Turn::ToolResult { id, name, content, is_error });
            }
            let text = turn.answer.clone();
            turns.push(Turn::Assistant { text, calls: Vec::new(), raw: None });
        }
        turns
    }
}

impl KeptTurn {
    /// With what may be kept of the texts and calls.
    pub fn new(
        at: u64,
        question: &str,
        answer: &str,
        status: ChatStatus,
        model: &str,
        calls: &[(ToolCall, Executed)],
    ) -> KeptTurn {
        KeptTurn {
            at,
            question: masked(question),
            answer: masked(answer),
            status,
            model: model.to_owned(),
            tools: calls.iter().map(|(call, executed)| KeptCall::of(call, executed)).collect(),
        }
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |bytes| bytes.len())
    }
}

impl KeptCall {
    fn of(call: &ToolCall, executed: &Executed) -> KeptCall {
        use PermissionCategory::{Apps, Files, Wallet};
        let record = &executed.record;
        // What an unknown tool was given may be anything; what a program prints may be any file.
        let (arguments, result) = match record.category {
            None | Some(Files | Wallet) => (false, false),
            Some(Apps) => (true, false),
            Some(_) => (true, true),
        };
        // A refusal quotes no file, but it may quote the arguments.
        let result =
            result || (arguments && record.outcome != ToolOutcome::Failed && executed.is_error);
        KeptCall {
            name: record.name.clone(),
            category: record.category,
            outcome: record.outcome,
            arguments: arguments.then(|| masked_value(&call.arguments)),
            result: result
                .then(|| masked(&executed.content).chars().take(MAX_RESULT_CHARS).collect()),
        }
    }
}

fn masked_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(masked(text)),
        Value::Array(values) => values.iter().map(masked_value).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), masked_value(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// The text with everything that looks like a key replaced.
fn masked(text: &str) -> String {
    let belongs = |c: char| c.is_ascii_alphanumeric() || "-_+/=.".contains(c);
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let bearer = kept.trim_end().to_ascii_lowercase().ends_with("bearer") && !word.is_empty();
        let key = word.len() >= KEY_LENGTH
            && KEY_MARKS.iter().any(|mark| {
                // `API_KEY=sk-…` is one word; the mark begins it or stands after a sign.
                word.match_indices(mark).any(|(at, _)| {
                    let before = word.get(..at).and_then(|before| before.chars().next_back());
                    before.is_none_or(|c| !c.is_ascii_alphanumeric())
                        && word.len() - at >= KEY_LENGTH
                })
            });
        kept.push_str(if key || (bearer && word.len() >= KEY_LENGTH) { "***" } else { word });
        let next = after.chars().next();
        kept.extend(next);
        rest = next.map_or("", |c| after.get(c.len_utf8()..).unwrap_or_default());
    }
    kept
}

#[cfg(test)]
mod tests;
