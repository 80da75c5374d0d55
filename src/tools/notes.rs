//! `notes`: short texts that callers want to find again.
//!
//! Owns the notebooks, files of lines below `notes/` in the data folder. With `notes = "own"` each caller
//! has one, and callers cannot meet; the operator's is one whatever the login. With `"shared"` there is one,
//! and each note says whose it is. A note that does not fit is refused; none is ever dropped to make room.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::folder;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};
use crate::assistant::{CallerScope, PermissionCategory};
use crate::config::tools::Notes;
use crate::store::{self, Durability, Journal};
use crate::{clock, invisible};

/// Notes in one notebook.
const MAX_NOTES: usize = 500;
/// Characters of a note.
const MAX_CHARS: usize = 1000;
/// Notes that are shown without a wish of the caller's.
const DEFAULT_SHOWN: usize = 10;
/// Notes that are shown at most.
const MAX_SHOWN: usize = 50;
/// Characters of what is shown, below what the loop cuts.
const MAX_RESULT_CHARS: usize = MAX_TOOL_RESULT_CHARS - 200;
/// Characters of the name of whoever wrote a note.
const MAX_NAME: usize = 40;

/// A line of a notebook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    id: u64,
    /// Unix milliseconds.
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    text: String,
}

/// All notebooks.
#[derive(Debug)]
struct Notebooks {
    folder: PathBuf,
    kind: Notes,
    /// One change at a time.
    changing: Mutex<()>,
}

/// One of them, of one caller.
#[derive(Debug)]
struct Notebook {
    books: Arc<Notebooks>,
    path: PathBuf,
    by: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddArguments {
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    words: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteArguments {
    number: u64,
}

/// All of the category; none where notes are not kept.
pub(super) fn tools(kind: Option<Notes>, data_dir: &Path) -> Vec<ToolDef> {
    let Some(kind) = kind else { return Vec::new() };
    let folder = data_dir.join("notes");
    let books = Arc::new(Notebooks { folder, kind, changing: Mutex::new(()) });
    vec![
        add_tool(books.clone()),
        list_tool(books.clone()),
        search_tool(books.clone()),
        delete_tool(books),
    ]
}

fn add_tool(books: Arc<Notebooks>) -> ToolDef {
    let about = Description::changes(PermissionCategory::Notes, "notes_add", "Keeps a note.")
        .taking(
            json!({"text": {"type": "string", "minLength": 1, "maxLength": MAX_CHARS}}),
            &["text"],
        );
    ToolDef::for_caller(about, move |caller, AddArguments { text }| {
        let book = books.of(caller);
        Box::pin(super::blocking(move || book?.add(&text, clock::unix_ms())))
    })
    .with_own_results()
}

fn list_tool(books: Arc<Notebooks>) -> ToolDef {
    let about =
        Description::reads(PermissionCategory::Notes, "notes_list", "The notes, newest first.")
            .taking(json!({"limit": {"type": "integer", "minimum": 1, "maximum": MAX_SHOWN}}), &[]);
    ToolDef::for_caller(about, move |caller, ListArguments { limit }| {
        let book = books.of(caller);
        Box::pin(super::blocking(move || {
            Ok(words(&book?.notes()?, limit.unwrap_or(DEFAULT_SHOWN), "[there are no notes]"))
        }))
    })
}

fn search_tool(books: Arc<Notebooks>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Notes,
        "notes_search",
        "The notes that have all of these words in them.",
    )
    .taking(json!({"words": {"type": "string"}}), &["words"]);
    ToolDef::for_caller(about, move |caller, arguments: SearchArguments| {
        let book = books.of(caller);
        Box::pin(super::blocking(move || {
            let wanted = arguments.words.to_lowercase();
            let wanted: Vec<&str> = wanted.split_whitespace().collect();
            if wanted.is_empty() {
                return Err("`words` is empty; expected words to look for".to_owned());
            }
            let mut notes = book?.notes()?;
            notes.retain(|note| {
                let text = note.text.to_lowercase();
                wanted.iter().all(|word| text.contains(word))
            });
            Ok(words(&notes, MAX_SHOWN, "[no note has these words]"))
        }))
    })
}

fn delete_tool(books: Arc<Notebooks>) -> ToolDef {
    let about = Description::changes(
        PermissionCategory::Notes,
        "notes_delete",
        "Deletes the note of that number.",
    )
    .taking(json!({"number": {"type": "integer", "minimum": 1}}), &["number"]);
    ToolDef::for_caller(about, move |caller, DeleteArguments { number }| {
        let book = books.of(caller);
        Box::pin(super::blocking(move || book?.delete(number)))
    })
    .with_own_results()
}

/// The newest notes first, as many as fit.
fn words(notes: &[Note], limit: usize, none: &str) -> String {
    if notes.is_empty() {
        return none.to_owned();
    }
    let mut words = String::new();
    let mut chars = 0;
    for (shown, note) in notes.iter().rev().enumerate() {
        let by = note.by.as_ref().map_or_else(String::new, |by| format!(" {by}"));
        let at = folder::date(i128::from(note.at) * 1_000_000);
        // A line of a note must not look like a note.
        let line = format!("#{} {at}{by}: {}\n", note.id, note.text.replace('\n', "\n  "));
        chars += line.chars().count();
        if shown == limit || chars > MAX_RESULT_CHARS {
            words.push_str(&format!("[{} older]\n", notes.len() - shown));
            break;
        }
        words.push_str(&line);
    }
    words
}

impl Notebooks {
    /// The notebook of that caller. A caller without an identity has none.
    fn of(self: &Arc<Self>, caller: &CallerScope) -> Result<Notebook, String> {
        let (name, by) = match (self.kind, caller) {
            (Notes::Shared, CallerScope::Mesh { name, .. }) => {
                let name = invisible::visible(name).replace(['\n', ':'], " ");
                ("shared".to_owned(), Some(name.chars().take(MAX_NAME).collect()))
            }
            (Notes::Shared, CallerScope::LocalOperator { .. }) => {
                ("shared".to_owned(), Some("operator".to_owned()))
            }
            (Notes::Own, CallerScope::LocalOperator { .. }) => ("operator".to_owned(), None),
            (Notes::Own, CallerScope::Mesh { .. }) => match caller.history_key() {
                Some(key) => (key.as_str().to_owned(), None),
                None => return Err("this caller has no notes".to_owned()),
            },
        };
        let path = self.folder.join(format!("{name}.jsonl"));
        Ok(Notebook { books: Arc::clone(self), path, by })
    }
}

impl Notebook {
    /// Oldest first. A line that can't be read is left out, and stays in the file.
    fn notes(&self) -> Result<Vec<Note>, String> {
        Ok(self.lines()?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn lines(&self) -> Result<Vec<String>, String> {
        store::journal_lines(&self.path).map_err(|_| "the notes can't be read".to_owned())
    }

    fn add(&self, text: &str, now: u64) -> Result<String, String> {
        let visible = invisible::visible(text);
        let text = visible.trim();
        if text.is_empty() {
            return Err("`text` is empty; expected what is to be noted".to_owned());
        }
        let _alone = self.books.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = self.lines()?;
        if lines.len() >= MAX_NOTES {
            return Err(format!(
                "the notebook has {MAX_NOTES} notes and is full; delete one first"
            ));
        }
        let id = self.notes()?.iter().map(|note| note.id).max().unwrap_or(0).saturating_add(1);
        let note = Note { id, at: now, by: self.by.clone(), text: text.to_owned() };
        let line = serde_json::to_string(&note).map_err(|e| e.to_string())?;
        store::private_dir(&self.books.folder)
            .and_then(|()| Journal::open(&self.path))
            .and_then(|mut journal| journal.append(&line, Durability::Disk))
            .map_err(|_| "the note can't be written".to_owned())?;
        Ok(format!("Noted as #{id}."))
    }

    fn delete(&self, number: u64) -> Result<String, String> {
        let _alone = self.books.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = self.lines()?;
        let is_it =
            |line: &String| serde_json::from_str::<Note>(line).is_ok_and(|note| note.id == number);
        if !lines.iter().any(is_it) {
            return Err(format!("there is no note #{number}"));
        }
        let kept: String =
            lines.iter().filter(|line| !is_it(line)).map(|line| format!("{line}\n")).collect();
        store::replace(&self.path, kept.as_bytes(), Durability::Disk)
            .map_err(|_| "the notes can't be written".to_owned())?;
        Ok(format!("#{number} is deleted."))
    }
}

#[cfg(test)]
mod tests;
