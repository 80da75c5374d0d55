//! `files`: the files of the folders that the operator opened.
//!
//! Owns the tools of this category. How a file is read, searched and replaced is `workspace`'s, which
//! serves the assistant at the terminal in the same way; where a path leads is `folder`'s.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::folder::{self, Folders, Spot};
use super::system::size;
use super::workspace::{edit, read, search};
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};

/// Characters of a listing, below what the loop cuts.
const MAX_LISTING_CHARS: usize = MAX_TOOL_RESULT_CHARS - 200;
/// Matches that can be asked for.
const MAX_MATCHES: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
}

/// All of the category; none without folders, and none that changes something without a writable one.
pub(super) fn tools(folders: &Folders) -> Vec<ToolDef> {
    if folders.is_empty() {
        return Vec::new();
    }
    let mut tools =
        vec![list_tool(folders.clone()), read_tool(folders.clone()), search_tool(folders.clone())];
    if folders.all().iter().any(|folder| folder.writable) {
        tools.push(edit_tool(folders.clone()));
    }
    tools
}

fn list_tool(folders: Folders) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Files,
        "files_list",
        "Lists a folder of this node; without path, the folders that there are.",
    )
    .taking(json!({"path": {"type": "string", "description": "For instance: plans/2026"}}), &[]);
    ToolDef::new(about, move |ListArguments { path }| {
        let folders = folders.clone();
        Box::pin(super::blocking(move || match path.as_deref().map(str::trim) {
            None | Some("" | "." | "/") => Ok(overview(&folders)),
            Some(path) => list(&folders.spot(path)?),
        }))
    })
}

fn read_tool(folders: Folders) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Files,
        "files_read",
        "Shows lines of a text file, numbered; from the top if no lines are given.",
    )
    .taking(
        json!({
            "path": {"type": "string", "description": "For instance: plans/heating.md"},
            "start_line": {"type": "integer", "minimum": 1},
            "end_line": {"type": "integer", "minimum": 1}
        }),
        &["path"],
    );
    ToolDef::new(about, move |arguments: read::Arguments| {
        let folders = folders.clone();
        Box::pin(super::blocking(move || {
            let spot = folders.spot(&arguments.path)?;
            read::read(&spot.workspace, &read::Arguments { path: spot.path, ..arguments })
        }))
    })
}

fn search_tool(folders: Folders) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Files,
        "files_search",
        "Searches text files for a regular expression; shows path:line:content.",
    )
    .taking(
        json!({
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "Folder or file; all folders if left out"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES}
        }),
        &["pattern"],
    );
    ToolDef::new(about, move |SearchArguments { pattern, path, limit }| {
        let folders = folders.clone();
        Box::pin(async move {
            let search = search::Search::of(&pattern, limit, true)?;
            search::stoppable(move |stop| {
                let mut found = search.begin(stop);
                if let Some(path) = path {
                    let spot = folders.spot(&path)?;
                    search.look(&spot.workspace, &spot.prefix, &spot.path, &mut found)?;
                    return Ok(found.words());
                }
                let mut broken = Vec::new();
                for folder in folders.all() {
                    if found.is_over() {
                        break;
                    }
                    let looked = folders.spot(&folder.name).and_then(|spot| {
                        search.look(&spot.workspace, &spot.prefix, &spot.path, &mut found)
                    });
                    broken.extend(looked.err().map(|why| format!("[{why}]\n")));
                }
                Ok(found.words() + &broken.concat())
            })
            .await
        })
    })
}

fn edit_tool(folders: Folders) -> ToolDef {
    let about = Description {
        name: "files_edit",
        description: "Changes one text file: old_text and new_text replace old_text, which must be in \
                      it exactly once; only new_text creates a file; or a unified patch.",
        parameters: edit::parameters("For instance: shared/list.md"),
        category: PermissionCategory::Files,
        destructive: true,
    };
    ToolDef::new(about, move |arguments: edit::Arguments| {
        let folders = folders.clone();
        Box::pin(super::blocking(move || {
            let spot = folders.spot(&arguments.path)?;
            if !spot.writable {
                let open = folders.all().iter().filter(|folder| folder.writable);
                let open: Vec<&str> = open.map(|folder| folder.name.as_str()).collect();
                return Err(format!(
                    "{} can only be read; files can be changed in: {}",
                    spot.prefix.trim_end_matches('/'),
                    open.join(", ")
                ));
            }
            edit::edit(&spot.workspace, &edit::Arguments { path: spot.path, ..arguments })
        }))
    })
    .with_own_results()
}

fn overview(folders: &Folders) -> String {
    let lines = folders.all().iter().map(|folder| {
        let note = if !folder.path.is_dir() {
            " (not there now)"
        } else if folder.writable {
            " (can be changed)"
        } else {
            ""
        };
        format!("{}/{note}", folder.name)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn list(spot: &Spot) -> Result<String, String> {
    let relative = spot.workspace.relative(&spot.path).map_err(|e| e.to_string())?;
    if !spot.workspace.is_dir(&spot.path).map_err(|e| e.to_string())? {
        return Err(format!("{} is a file; read it with files_read", spot.path));
    }
    let listing = folder::list(&spot.workspace, Path::new(&relative))?;
    let mut words = String::new();
    let mut chars = 0;
    for (index, entry) in listing.entries.iter().enumerate() {
        // A name may hold anything but a slash; it must not begin a line of its own.
        let name: String = entry.name.chars().flat_map(visible).collect();
        let line = if entry.is_dir {
            format!("{name}/\n")
        } else {
            format!("{name}  {}  {}\n", size(entry.size), folder::date(entry.changed))
        };
        chars += line.chars().count();
        if chars > MAX_LISTING_CHARS {
            words.push_str(&format!("[{} more]\n", listing.entries.len() - index));
            return Ok(words);
        }
        words.push_str(&line);
    }
    if listing.more {
        words.push_str("[there are more]\n");
    }
    Ok(if words.is_empty() { "[the folder is empty]\n".to_owned() } else { words })
}

/// The character, or how it is written where it would not be seen.
fn visible(c: char) -> Vec<char> {
    if crate::invisible::hidden(c) { c.escape_default().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests;
