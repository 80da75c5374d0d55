//! A copy of the data folder, made while a daemon may be writing in it.
//!
//! Owns what goes into a copy, in which order, and that a copy is whole or not there; and the note of the last one,
//! `backup.json`. Only reads the data folder, but for that note. Deletes nothing that it did not begin itself.

#![allow(clippy::disallowed_methods)] // writes outside the data folder, where `store` has no say

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::document::{self, Document};
use crate::store::{self, Durability, StoreError};

/// The note of the last backup.
pub const NOTE: &str = "backup.json";
/// Of its form.
const VERSION: u64 = 1;
/// How a finished copy's name begins.
const PREFIX: &str = "tombolo-backup-";
/// One that is being made is hidden, and so is what a kill left of one.
const UNFINISHED: (&str, &str) = (".tombolo-backup-", ".unfinished");
/// What no copy needs: logins, which are made anew; the lock; the index, which is made from the documents.
const LEFT_OUT: [&str; 4] = ["sessions.json", "sessions.json.broken", "lock", "index"];
/// What goes first: a question leaves `inbox` only after its answer lies in `replies` and its packet is in `seen.log`,
/// so a copy in this order may hold both, and never neither.
const FIRST: [&str; 2] = ["inbox", "replies"];
/// Folders below folders; the data folder has one level.
const MAX_DEPTH: usize = 8;
/// Read at once.
const CHUNK: usize = 128 * 1024;

/// When the last one was made, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    #[serde(default)]
    version: u64,
    /// Unix milliseconds.
    pub at: u64,
    /// The copy's folder.
    pub folder: PathBuf,
}

/// A copy that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its folder.
    pub folder: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is neither file nor folder, and was left out.
    pub skipped: Vec<PathBuf>,
    /// Why the note of it could not be written; the copy is whole all the same.
    pub not_noted: Option<String>,
}

/// Why there is no copy; the text says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy.
    #[error("there is no data folder at {}", .0.display())]
    NoData(PathBuf),
    /// The place is not there.
    #[error("{} is not a folder that is there: create it, or mount the disk", .0.display())]
    NoFolder(PathBuf),
    /// The copy would be copied into the next one, and be lost with the folder.
    #[error("{} lies in the data folder: choose a folder outside it, best on another disk", .0.display())]
    Inside(PathBuf),
    /// It does not fit.
    #[error("no space in {}: {needed} bytes are needed and {free} are free", folder.display())]
    NoSpace {
        /// Where.
        folder: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// One of that second is there.
    #[error("{} is there already: try again in a second", .0.display())]
    There(PathBuf),
    /// The place can't be written.
    #[error("{} can't be written ({source}): choose a folder that this user may write to", folder.display())]
    NotWritable {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something could not be read or written half-way; what was copied is removed again.
    #[error("{doing} {}: {source}; there is no backup", path.display())]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Failed { doing, path, source }
}

/// Makes a copy of `data_dir` below the folder `to`, and notes it. `unix_ms`: now.
pub fn make(data_dir: &Path, to: &Path, unix_ms: u64) -> Result<Made, BackupError> {
    make_within(data_dir, to, unix_ms, free_in)
}

/// `free`: what may still be written below a folder, where that is known.
fn make_within(
    data_dir: &Path,
    to: &Path,
    unix_ms: u64,
    free: impl Fn(&Path) -> Option<u64>,
) -> Result<Made, BackupError> {
    let data = fs::canonicalize(data_dir).ok().filter(|data| data.is_dir());
    let data = data.ok_or_else(|| BackupError::NoData(data_dir.to_owned()))?;
    let place = fs::canonicalize(to).ok().filter(|place| place.is_dir());
    let place = place.ok_or_else(|| BackupError::NoFolder(to.to_owned()))?;
    if place.starts_with(&data) {
        return Err(BackupError::Inside(to.to_owned()));
    }
    let stamp = stamp(unix_ms);
    let folder = place.join(format!("{PREFIX}{stamp}"));
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(BackupError::There(folder));
    }
    remove_unfinished(&place);
    let (before, after) = UNFINISHED;
    let unfinished = place.join(format!("{before}{stamp}{after}"));
    let created = DirBuilder::new().mode(0o700).create(&unfinished);
    created.map_err(|source| BackupError::NotWritable { folder: place.clone(), source })?;
    let copied = (|| {
        // Held while it is being made, so that another backup does not take it for a left-over.
        let held = File::open(&unfinished).map_err(at("opening", &unfinished))?;
        held.lock().map_err(at("locking", &unfinished))?;
        let needed = bytes_in(&data);
        if let Some(free) = free(&place).filter(|free| *free < needed) {
            return Err(BackupError::NoSpace { folder: place.clone(), needed, free });
        }
        let mut copy = Copy::default();
        copy.folder(&data, &unfinished, 0)?;
        fs::rename(&unfinished, &folder).map_err(at("renaming", &unfinished))?;
        File::open(&place).and_then(|f| f.sync_all()).map_err(at("writing", &place))?;
        Ok(copy)
    })();
    let Copy { files, bytes, skipped } = copied.inspect_err(|_| {
        let _ = fs::remove_dir_all(&unfinished);
    })?;
    let not_noted = note(&data, &folder, unix_ms).err();
    let not_noted = not_noted.map(|error| format!("{error}: {}", error.source));
    Ok(Made { folder, files, bytes, skipped, not_noted })
}

/// The note of the last copy.
///
/// # Errors
/// It can't be read, makes no sense, or is of a newer version. It is only shown: nothing else depends on it.
pub fn last(data_dir: &Path) -> Result<Option<Note>, StoreError> {
    match document::read(&data_dir.join(NOTE), VERSION)? {
        Document::Missing => Ok(None),
        Document::Whole(note) => Ok(Some(note)),
        Document::Broken(error) => Err(error),
    }
}

fn note(data: &Path, folder: &Path, unix_ms: u64) -> Result<(), StoreError> {
    let note = Note { version: VERSION, at: unix_ms, folder: folder.to_owned() };
    store::replace_json(&data.join(NOTE), &note, Durability::Disk)
}

/// What was copied so far.
#[derive(Debug, Default)]
struct Copy {
    files: u64,
    bytes: u64,
    skipped: Vec<PathBuf>,
}

impl Copy {
    /// What is in `from`, into `to`, which is there. What vanishes meanwhile is done with.
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), BackupError> {
        for (name, path) in entries(from, depth).map_err(at("listing", from))? {
            let Ok(kind) = fs::symlink_metadata(&path).map(|facts| facts.file_type()) else {
                continue;
            };
            let target = to.join(&name);
            if kind.is_dir() && depth < MAX_DEPTH {
                let created = DirBuilder::new().mode(0o700).create(&target);
                created.map_err(at("creating", &target))?;
                self.folder(&path, &target, depth + 1)?;
            } else if kind.is_file() {
                self.file(&path, &target)?;
            } else {
                self.skipped.push(path);
            }
        }
        File::open(to).and_then(|folder| folder.sync_all()).map_err(at("writing", to))
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let source = OpenOptions::new().read(true).custom_flags(nofollow).open(from);
        let mut source = match source {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at("reading", from)(error)),
        };
        let mut target = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to)
            .map_err(at("writing", to))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = source.read(&mut chunk).map_err(at("reading", from))?;
            let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else { break };
            target.write_all(read).map_err(at("writing", to))?;
            self.bytes += count as u64;
        }
        target.sync_all().map_err(at("writing", to))?;
        self.files += 1;
        Ok(())
    }
}

/// The entries that are copied, in the order in which they are.
fn entries(folder: &Path, depth: usize) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && depth > 0 => return Ok(entries),
        listed => listed?,
    };
    for entry in listed {
        let entry = entry?;
        // Names in the data folder are ours, and ASCII.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let left_out = depth == 0 && LEFT_OUT.contains(&name.as_str());
        // A file that is being replaced: the old or the new one is copied under its own name.
        if !left_out && !name.ends_with(".tmp") {
            entries.push((name, entry.path()));
        }
    }
    let place = |name: &str| FIRST.iter().position(|first| depth == 0 && *first == name);
    entries.sort_by_key(|(name, _)| (place(name).unwrap_or(FIRST.len()), name.clone()));
    Ok(entries)
}

/// The bytes of the files that a copy of that folder holds.
fn bytes_in(folder: &Path) -> u64 {
    let (mut bytes, mut folders) = (0u64, vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        for (_, path) in entries(&folder, depth).unwrap_or_default() {
            let Ok(facts) = fs::symlink_metadata(&path) else { continue };
            if facts.is_dir() && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if facts.is_file() {
                bytes = bytes.saturating_add(facts.len());
            }
        }
    }
    bytes
}

/// What this user may still write there, in bytes, where that is known.
pub fn free_in(folder: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(folder).ok()?;
    Some(facts.f_bavail.saturating_mul(facts.f_frsize.max(1)))
}

/// What a kill left of a copy: one that nobody holds.
fn remove_unfinished(place: &Path) {
    let (before, after) = UNFINISHED;
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name.starts_with(before) && name.ends_with(after);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// `20261201-143005`, UTC.
fn stamp(unix_ms: u64) -> String {
    let date = crate::tools::folder::date(i128::from(unix_ms) * 1_000_000);
    let plain: String = date.chars().filter(char::is_ascii_digit).collect();
    let (day, minute) = plain.split_at(plain.len().saturating_sub(4));
    format!("{day}-{minute}{:02}", unix_ms / 1000 % 60)
}

#[cfg(test)]
mod tests;
