//! The data folder: who may read it, and how a file in it is replaced or extended.
//!
//! Owns every write below `data_dir`. A file is replaced through a temporary sibling and a rename, so
//! that a kill at any instant leaves the old or the new one. Must not know what the files mean.

#![allow(clippy::disallowed_methods)] // the one place that replaces files

pub mod document;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A failure on a file, with the file's name.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}", path.display())]
pub struct StoreError {
    /// What was being done, for instance `writing`.
    pub doing: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl StoreError {
    fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError { doing, path, source }
    }
}

/// When a write is safe from a power cut, not only from a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Safe from a kill of this process at once; the kernel writes it to the disk within seconds.
    /// For what lies between a question and its answer.
    Process,
    /// On the disk when the call returns.
    Disk,
}

/// Creates the folder with mode 0700 if it is missing.
pub fn private_dir(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(StoreError::at("creating folder", path))?;
    if let (Some(above), Ok(made)) = (path.parent(), File::open(path)) {
        give_to_owner(&made, above);
    }
    Ok(())
}

/// What root makes belongs to the owner of the folder that it lies in, as all else there: whoever sets something with
/// `sudo` must not keep the daemon from reading it. Nothing changes where the system doesn't let root give it away, nor
/// for any other user.
pub fn give_to_owner(file: &File, folder: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (Ok(owner), Ok(made)) = (fs::metadata(folder), file.metadata()) else { return };
    // A second name may lie anywhere: such a file was not made here.
    let ours = made.uid() == 0 && (made.is_dir() || made.nlink() == 1);
    if ours && owner.uid() != 0 {
        let _ = std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid()));
    }
}

/// Closes a folder to everyone but its owner, where it is not. True if it had to be.
///
/// # Errors
/// It belongs to another user; or it holds files and none of `marks`, by which a folder of ours is known: then it is
/// somebody else's, and closing it could take it away from them.
pub fn close_dir(path: &Path, marks: &[&str]) -> Result<bool, StoreError> {
    let facts = rustix::fs::stat(path).map_err(|e| StoreError::at("looking at", path)(e.into()))?;
    if facts.st_mode & 0o077 == 0 {
        return Ok(false);
    }
    let refuse = |why: &str| {
        let why = format!(
            "others can read it, and {why}: run chmod 700 on it as its owner, or give another data_dir"
        );
        let source = io::Error::new(io::ErrorKind::PermissionDenied, why);
        StoreError { doing: "closing", path: path.to_owned(), source }
    };
    if facts.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refuse("it belongs to another user"));
    }
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if !marks.iter().any(|mark| path.join(mark).exists()) && !is_empty() {
        return Err(refuse("it holds files that are not tombolo's"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        .map_err(StoreError::at("closing", path))?;
    Ok(true)
}

/// Replaces `path` as a whole, mode 0600.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), StoreError> {
    let sibling = sibling_of(path);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&sibling)?;
        if let Some(folder) = path.parent() {
            give_to_owner(&file, folder);
        }
        file.write_all(bytes)?;
        if durability == Durability::Disk {
            file.sync_all()?;
        }
        fs::rename(&sibling, path)?;
        if durability == Durability::Disk
            && let Some(folder) = path.parent()
        {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    })();
    written.map_err(|source| {
        let _ = fs::remove_file(&sibling);
        StoreError { doing: "writing", path: path.to_owned(), source }
    })
}

/// The same for a value, as JSON.
pub fn replace_json<T: Serialize>(
    path: &Path,
    value: &T,
    durability: Durability,
) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(value).map_err(|e| {
        StoreError::at("encoding", path)(io::Error::new(io::ErrorKind::InvalidData, e))
    })?;
    replace(path, &bytes, durability)
}

/// Reads a JSON file; `None` when there is none. A broken one is an error that names it.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            StoreError::at("reading", path)(io::Error::new(io::ErrorKind::InvalidData, e))
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::at("reading", path)(e)),
    }
}

/// Files of one name that are set aside; after that the last one makes room.
const ASIDE: usize = 16;

/// Moves a file that can't be read aside, to `NAME.broken`, `NAME.broken.2` and so on: what was set aside
/// before is not overwritten.
pub fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let free = (1..ASIDE).map(|number| aside_of(path, number)).find(|aside| !aside.exists());
    let aside = free.unwrap_or_else(|| aside_of(path, ASIDE));
    fs::rename(path, &aside).map_err(StoreError::at("setting aside", path))?;
    Ok(aside)
}

fn aside_of(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".broken");
    if number > 1 {
        name.push(format!(".{number}"));
    }
    PathBuf::from(name)
}

/// Removes all that was ever set aside of that file.
pub fn remove_set_aside(path: &Path) -> Result<(), StoreError> {
    (1..=ASIDE).try_for_each(|number| remove(&aside_of(path, number)))
}

/// Removes what was set aside in that folder and not written since `before`, in Unix milliseconds.
pub fn remove_set_aside_before(folder: &Path, before: u64) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).map_err(StoreError::at("listing", folder))? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let is_aside = name.to_string_lossy().rsplit_once(".broken").is_some_and(|(_, number)| {
            number.trim_start_matches('.').chars().all(|c| c.is_ascii_digit())
        });
        if !is_aside {
            continue;
        }
        let path = entry.path();
        let written = rustix::fs::lstat(&path)
            .map_err(|e| StoreError::at("looking at", &path)(e.into()))?
            .st_mtime;
        if u64::try_from(written).unwrap_or(0).saturating_mul(1000) < before {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Makes a full file the older one; what was the older one before is gone.
pub fn rotate(path: &Path, older: &Path) -> Result<(), StoreError> {
    fs::rename(path, older).map_err(StoreError::at("renaming", path))
}

/// Waits until this process alone holds that folder's lock, which is released with the file. It is a lock on
/// the folder itself: nothing is left in it.
pub fn wait_for_lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    file.lock()?;
    Ok(file)
}

/// Removes a file; that it is already gone is fine.
pub fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::at("removing", path)(e)),
        _ => Ok(()),
    }
}

/// The regular files of a folder whose names end in `.json`, in order of name.
pub fn json_files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::at("listing", folder)(e)),
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    Ok(files)
}

/// A file of lines that only grows: opened for appending, mode 0600. A torn last line (no newline
/// at its end) is for the reader to skip.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates it and ends a torn last line, so that the next line stands alone.
    pub fn open(path: &Path) -> Result<Journal, StoreError> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(StoreError::at("opening", path))?;
        if let Some(folder) = path.parent() {
            give_to_owner(&file, folder);
        }
        let torn = is_torn(&file).map_err(StoreError::at("reading", path))?;
        if torn {
            file.write_all(b"\n").map_err(StoreError::at("writing", path))?;
        }
        Ok(Journal { path: path.to_owned(), file })
    }

    /// Appends one line with one write call; `line` must hold no newline.
    pub fn append(&mut self, line: &str, durability: Durability) -> Result<(), StoreError> {
        debug_assert!(!line.contains('\n'));
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes).and_then(|()| match durability {
            Durability::Disk => self.file.sync_data(),
            Durability::Process => Ok(()),
        });
        written.map_err(StoreError::at("writing", &self.path))
    }

    /// A second handle on the same file, so that another thread can sync it to the disk.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Does the file end within a line? Looks at its last byte only: this is on the way of an answer.
fn is_torn(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != [b'\n'])
}

/// The lines of a journal, a torn last line left out; empty when there is no file. Bytes that are
/// not UTF-8 are replaced, so that one bad line costs only itself.
pub fn journal_lines(path: &Path) -> Result<Vec<String>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::at("reading", path)(e)),
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    Ok(String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_owned).collect())
}

/// Is the file or folder closed to everyone but its owner?
pub fn is_private(path: &Path) -> Result<bool, StoreError> {
    let mode = fs::symlink_metadata(path)
        .map_err(StoreError::at("looking at", path))?
        .permissions()
        .mode();
    Ok(mode & 0o077 == 0)
}

fn sibling_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests;
