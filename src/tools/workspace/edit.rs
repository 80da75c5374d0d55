//! `edit_file`: one change of one text file.
//!
//! Owns the three ways of a change, and how a file is replaced: a temporary sibling and a rename, so
//! that the old or the new file is there at any instant. Changes nothing outside of the workspace, and
//! nothing that was changed by someone else meanwhile.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};

use super::patch::Patch;
use super::path::{Place, Workspace, refusal, regular};
use super::read::{MAX_FILE_BYTES, content};
use crate::assistant::PermissionCategory;
use crate::assistant::tools::{Description, ToolDef};

/// How many places of an ambiguous text are named.
const MAX_PLACES: usize = 10;

/// What is to be changed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Arguments {
    /// In the workspace.
    pub path: String,
    /// What is there.
    pub old_text: Option<String>,
    /// What takes its place.
    pub new_text: Option<String>,
    /// A unified patch.
    pub patch: Option<String>,
}

enum Change<'a> {
    Create(&'a str),
    Replace { old: &'a str, new: &'a str },
    Patch(Patch<'a>),
}

/// `edit_file`
pub(super) fn tool(workspace: Arc<Workspace>) -> ToolDef {
    let about = Description {
        name: "edit_file",
        description: "Changes one text file of the workspace. Give old_text and new_text to replace \
                      old_text, which must be in the file exactly once; or only new_text to create a \
                      new file with it; or a unified patch, whose context must match exactly.",
        parameters: parameters("Path in the workspace"),
        category: PermissionCategory::Files,
        destructive: true,
    };
    ToolDef::new(about, move |arguments: Arguments| {
        let workspace = workspace.clone();
        Box::pin(super::blocking(move || edit(&workspace, &arguments)))
    })
}

/// The schema of [`Arguments`]; `path` says what a path is.
pub(in crate::tools) fn parameters(path: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": path},
            "old_text": {"type": "string", "description": "Text that is there, exactly, once"},
            "new_text": {"type": "string", "description": "Text that takes its place, or the new \
                                                           file's content"},
            "patch": {"type": "string", "description": "Unified patch of this one file"}
        },
        "required": ["path"],
        "additionalProperties": false
    })
}

/// Makes the change, or says why not.
pub(in crate::tools) fn edit(
    workspace: &Workspace,
    arguments: &Arguments,
) -> Result<String, String> {
    let path = &arguments.path;
    match change(arguments)? {
        Change::Create(text) => create(workspace, path, text),
        Change::Patch(patch) if patch.creates() => create(workspace, path, &patch.apply("")?),
        Change::Patch(patch) => {
            let place = workspace.place(path, false).map_err(|e| e.to_string())?;
            alter(&place, path, |text| {
                Ok((patch.apply(text)?, format!("{} hunk(s)", patch.hunks())))
            })
        }
        Change::Replace { old, new } => {
            let place = workspace.place(path, false).map_err(|e| e.to_string())?;
            alter(&place, path, |text| {
                let at = only_match(text, old)?;
                let line = line_at(text, at);
                let after = text.get(at + old.len()..).unwrap_or_default();
                let before = text.get(..at).unwrap_or_default();
                Ok((format!("{before}{new}{after}"), format!("one place, at line {line}")))
            })
        }
    }
}

fn change(arguments: &Arguments) -> Result<Change<'_>, String> {
    let Arguments { path, old_text, new_text, patch } = arguments;
    match (old_text, new_text, patch) {
        (None, Some(new), None) => Ok(Change::Create(new)),
        (Some(old), Some(_), None) if old.is_empty() => {
            Err("old_text is empty; leave it out to create a file".to_owned())
        }
        (Some(old), Some(new), None) => Ok(Change::Replace { old, new }),
        (None, None, Some(patch)) => {
            let patch = Patch::parse(patch)?;
            match patch.other_name(path) {
                Some(_) => Err("the patch is of another file than path".to_owned()),
                None => Ok(Change::Patch(patch)),
            }
        }
        _ => Err("give old_text and new_text, or only new_text, or only patch".to_owned()),
    }
}

/// Where the text is, in bytes; refused if it is there more than once, or not at all.
fn only_match(text: &str, old: &str) -> Result<usize, String> {
    let mut places = Vec::new();
    let mut from = 0;
    // Matches that overlap are two places as well.
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(old)) {
        let at = from + found;
        places.push(at);
        if places.len() > MAX_PLACES {
            break;
        }
        from = at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    }
    match places.as_slice() {
        [at] => Ok(*at),
        [] => Err(format!("old_text is not in the file{}", nearly(text, old))),
        _ => {
            let more = if places.len() > MAX_PLACES { ", and more" } else { "" };
            let lines: Vec<String> =
                places.iter().take(MAX_PLACES).map(|&at| line_at(text, at).to_string()).collect();
            let lines = lines.join(", ");
            Err(format!(
                "old_text is there more than once, at lines {lines}{more}; give more of it"
            ))
        }
    }
}

/// Where its first line is, but for the blanks around it.
fn nearly(text: &str, old: &str) -> String {
    let Some(first) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return String::new();
    };
    let lines: Vec<String> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.trim() == first)
        .map(|(number, _): (usize, _)| number.to_string())
        .take(MAX_PLACES)
        .collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!(
            " as it is written; its first line, but for blanks, is at line {}",
            lines.join(", ")
        )
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// Reads, changes and replaces a file that is there. `change` gives the new text and says what it did.
fn alter(
    place: &Place,
    path: &str,
    change: impl FnOnce(&str) -> Result<(String, String), String>,
) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle =
        rustix::fs::openat(&place.dir, &place.name, flags, Mode::empty()).map_err(|errno| {
            match errno {
                Errno::LOOP => format!("{} is a link; edit the file that it leads to", place.shown),
                other => refusal(path, other).to_string(),
            }
        })?;
    let mut file = regular(path, handle).map_err(|e| e.to_string())?;
    let facts = rustix::fs::fstat(&file).map_err(|e| system(place, e))?;
    let bytes = content(&mut file, path)?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", place.shown))?;
    let (new, did) = with_its_newlines(&text, change)?;
    if new == text {
        return Err("the change leaves the file as it is".to_owned());
    }
    fits(&new)?;
    replace(place, &facts, new.as_bytes())?;
    Ok(format!("Changed {}: {did}. It has {} lines now.", place.shown, new.lines().count()))
}

/// A file whose lines all end in CR LF is changed as if they ended in LF, as a model sees and writes
/// them. One with both kinds is taken as it is.
fn with_its_newlines(
    text: &str,
    change: impl FnOnce(&str) -> Result<(String, String), String>,
) -> Result<(String, String), String> {
    let lines = text.matches('\n').count();
    let returns = text.matches('\r').count();
    if lines == 0 || returns != lines || text.matches("\r\n").count() != lines {
        return change(text);
    }
    let (new, did) = change(&text.replace("\r\n", "\n"))?;
    Ok((new.replace("\r\n", "\n").replace('\n', "\r\n"), did))
}

fn fits(text: &str) -> Result<(), String> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("the file would be larger than {} MiB", MAX_FILE_BYTES / 1024 / 1024));
    }
    if text.contains('\0') {
        return Err("the text has a NUL in it".to_owned());
    }
    Ok(())
}

fn create(workspace: &Workspace, path: &str, text: &str) -> Result<String, String> {
    fits(text)?;
    let place = workspace.place(path, true).map_err(|e| e.to_string())?;
    let exists = || format!("{} is there already; change it with old_text or patch", place.shown);
    if rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err(exists());
    }
    let sibling = Sibling::create(&place, 0o666)?;
    sibling.fill(text.as_bytes())?;
    let moved = rustix::fs::renameat_with(
        &place.dir,
        &sibling.name,
        &place.dir,
        &place.name,
        RenameFlags::NOREPLACE,
    );
    // Some file systems can't rename without replacing; a second name replaces nothing either.
    let moved = match moved {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(&place.dir, &sibling.name, &place.dir, &place.name, AtFlags::empty())
        }
        other => other,
    };
    moved.map_err(|errno| match errno {
        Errno::EXIST => exists(),
        other => refusal(path, other).to_string(),
    })?;
    Ok(match text.lines().count() {
        1 => format!("Created {} with 1 line.", place.shown),
        lines => format!("Created {} with {lines} lines.", place.shown),
    })
}

/// Puts a new file in the place of the one with those `facts`, with its mode and, where we may, its
/// owner.
fn replace(place: &Place, facts: &Stat, bytes: &[u8]) -> Result<(), String> {
    // A rename asks only for the folder; a file that is kept from writing stays kept.
    rustix::fs::accessat(&place.dir, &place.name, Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|e| system(place, e))?;
    let sibling = Sibling::create(place, 0o600)?;
    let now = rustix::fs::fstat(&sibling.file).map_err(|e| system(place, e))?;
    if (now.st_uid, now.st_gid) != (facts.st_uid, facts.st_gid) {
        let owner = rustix::fs::Uid::from_raw(facts.st_uid);
        let group = rustix::fs::Gid::from_raw(facts.st_gid);
        // Only root may give a file away; another keeps its own, as with every editor.
        let _ = rustix::fs::fchown(&sibling.file, Some(owner), Some(group));
    }
    // Without set-user-id and the like: the kernel takes them off a changed program as well.
    rustix::fs::fchmod(&sibling.file, Mode::from_raw_mode(facts.st_mode & 0o777))
        .map_err(|e| system(place, e))?;
    sibling.fill(bytes)?;
    let present = rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| system(place, e))?;
    if version(&present) != version(facts) {
        return Err(format!("{} was changed meanwhile; read it again", place.shown));
    }
    rustix::fs::renameat(&place.dir, &sibling.name, &place.dir, &place.name)
        .map_err(|e| system(place, e))
}

/// What differs once a file was replaced or written.
fn version(facts: &Stat) -> (u64, u64, i64, i64, u64) {
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    // the fields' widths differ by platform
    (
        facts.st_dev as u64,
        facts.st_ino as u64,
        facts.st_size as i64,
        facts.st_mtime as i64,
        facts.st_mtime_nsec as u64,
    )
}

/// A temporary file in the same folder; gone when it is dropped, unless it was renamed.
struct Sibling<'a> {
    place: &'a Place,
    name: String,
    file: File,
}

impl<'a> Sibling<'a> {
    /// `mode` is subject to the umask.
    fn create(place: &'a Place, mode: u32) -> Result<Sibling<'a>, String> {
        let random = getrandom::u64().map_err(|e| format!("no random number: {e}"))?;
        let name = format!(".tombolo-{random:016x}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&place.dir, &name, flags, Mode::from_raw_mode(mode))
            .map_err(|e| system(place, e))?;
        Ok(Sibling { place, name, file: File::from(handle) })
    }

    fn fill(&self, bytes: &[u8]) -> Result<(), String> {
        let written = (&self.file).write_all(bytes).and_then(|()| self.file.sync_data());
        written.map_err(|e| format!("{}: {e}", self.place.shown))
    }
}

impl Drop for Sibling<'_> {
    fn drop(&mut self) {
        // After a rename the name is free, and there is nothing to remove.
        let _ = rustix::fs::unlinkat(&self.place.dir, &self.name, AtFlags::empty());
    }
}

fn system(place: &Place, errno: Errno) -> String {
    format!("{}: {}", place.shown, std::io::Error::from(errno))
}

#[cfg(test)]
mod tests;
