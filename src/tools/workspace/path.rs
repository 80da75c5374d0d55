//! The folder, and the only way to a file in it.
//!
//! Owns [`Workspace`]: a handle of the folder from which every path is resolved by the kernel, so that
//! no `..`, no absolute path and no link leads outside, not even one that is swapped in meanwhile. A
//! file is opened once, judged by its handle, and only the handle is used from then on.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Bytes of a path, without the closing NUL: what the kernel takes.
const MAX_PATH: usize = 4095;
/// How often an opening is tried that failed because something was renamed meanwhile.
const MAX_TRIES: usize = 16;

/// A folder and what is in it.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    dir: OwnedFd,
    /// The kernel keeps us inside; else links are refused altogether.
    resolves: bool,
}

/// Why a path was refused: one line each, with the path as it was written.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It leads outside, by itself or through a link.
    #[error("{0} is outside of the workspace")]
    Outside(String),
    /// There is no such file or folder.
    #[error("{0} does not exist")]
    Missing(String),
    /// It is something else than a regular file.
    #[error("{0} is {1}, not a file")]
    NotAFile(String, &'static str),
    /// It can't be the name of a file.
    #[error("{0} {1}")]
    Malformed(String, &'static str),
    /// What else the system said.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

/// Where a file is or will be: an open folder and a name in it.
#[derive(Debug)]
pub(in crate::tools) struct Place {
    /// The folder.
    pub dir: OwnedFd,
    /// One component.
    pub name: OsString,
    /// For messages.
    pub shown: String,
}

impl Workspace {
    /// Opens the folder. Links on the way to `root` itself are followed: it is the operator's choice.
    pub fn open(root: &Path) -> io::Result<Workspace> {
        let root = root.canonicalize()?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&root, flags, Mode::empty())?;
        let resolves =
            rustix::fs::openat2(&dir, ".", flags, Mode::empty(), ResolveFlags::BENEATH).is_ok();
        Ok(Workspace { root, dir, resolves })
    }

    /// The folder's own path, without links. For showing, and as the current folder of programs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path from the root, `.` for the root itself. Only the form is checked here: what it leads to
    /// shows when it is opened.
    pub(in crate::tools) fn relative(&self, path: &str) -> Result<PathBuf, PathError> {
        let malformed = |why| Err(PathError::Malformed(shown(path), why));
        if path.is_empty() {
            return malformed("(the empty path) names no file");
        }
        if path.contains('\0') {
            return malformed("has a NUL in it");
        }
        if path.len() > MAX_PATH {
            return malformed("is too long");
        }
        let written = Path::new(path);
        let relative = if written.is_absolute() {
            written.strip_prefix(&self.root).map_err(|_| PathError::Outside(shown(path)))?
        } else {
            written
        };
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative.to_owned() })
    }

    /// A regular file, for reading.
    pub(in crate::tools) fn open_file(&self, path: &str) -> Result<File, PathError> {
        // Not blocking: the opening of a FIFO would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = self
            .resolve(&self.relative(path)?, flags, Mode::empty())
            .map_err(|errno| refusal(path, errno))?;
        regular(path, handle)
    }

    /// A regular file, for writing, made if it is missing. Its content is as it was.
    pub(super) fn open_for_output(&self, path: &str, append: bool) -> Result<File, PathError> {
        let mut flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::APPEND, append);
        let handle = self
            .resolve(&self.relative(path)?, flags, Mode::from_raw_mode(0o666))
            .map_err(|errno| refusal(path, errno))?;
        regular(path, handle)
    }

    /// Whether it is a folder.
    pub(in crate::tools) fn is_dir(&self, path: &str) -> Result<bool, PathError> {
        let handle = self
            .resolve(&self.relative(path)?, OFlags::PATH, Mode::empty())
            .map_err(|errno| refusal(path, errno))?;
        Ok(kind(path, handle.as_fd())? == FileType::Directory)
    }

    /// The folder of a file that may not exist yet, and the file's name in it. With `make`, missing
    /// folders are made.
    pub(in crate::tools) fn place(&self, path: &str, make: bool) -> Result<Place, PathError> {
        let relative = self.relative(path)?;
        let name = match relative.file_name() {
            Some(name) if !path.ends_with('/') && !path.ends_with("/.") => name.to_owned(),
            _ => return Err(PathError::NotAFile(shown(path), "a folder")),
        };
        let parent = relative.parent().unwrap_or(Path::new(""));
        let dir = match self.folder(parent) {
            Err(Errno::NOENT) if make => self.make_folders(parent),
            other => other,
        };
        let dir = dir.map_err(|errno| refusal(path, errno))?;
        Ok(Place { dir, name, shown: shown(path) })
    }

    /// A folder, for listing and as a place to name files in. `relative` is from the root.
    pub(in crate::tools) fn folder(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.resolve(relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    fn make_folders(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        let mut so_far = PathBuf::new();
        let mut dir = self.folder(&so_far)?;
        for component in relative.components() {
            so_far.push(component);
            dir = match (self.folder(&so_far), component) {
                (Err(Errno::NOENT), Component::Normal(name)) => {
                    match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => self.folder(&so_far)?,
                        Err(errno) => return Err(errno),
                    }
                }
                (other, _) => other?,
            };
        }
        Ok(dir)
    }

    fn resolve(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        if !self.resolves {
            return self.walk(relative, flags, mode);
        }
        let mut tries = 0;
        loop {
            let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.dir, relative, flags, mode, inside) {
                // Something was renamed while the kernel looked, and it can't vouch for the result.
                Err(Errno::AGAIN | Errno::INTR) if tries < MAX_TRIES => tries += 1,
                other => return other,
            }
        }
    }

    /// For kernels before 5.6: step by step, each from the handle before, and no link at all.
    fn walk(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let mut names = Vec::new();
        for component in relative.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(Errno::XDEV),
            }
        }
        let Some(last) = names.pop() else {
            return rustix::fs::openat(&self.dir, ".", flags, mode);
        };
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = self.dir.try_clone().map_err(|_| Errno::MFILE)?;
        for name in names {
            dir = rustix::fs::openat(&dir, name, step, Mode::empty())?;
        }
        let handle = rustix::fs::openat(&dir, last, flags | OFlags::NOFOLLOW, mode)?;
        // A handle that is only a path can be one of a link.
        let facts = rustix::fs::fstat(&handle)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Symlink => Err(Errno::LOOP),
            _ => Ok(handle),
        }
    }

    /// One that refuses all links, as on an old kernel.
    #[cfg(test)]
    pub(super) fn without_resolving(mut self) -> Workspace {
        self.resolves = false;
        self
    }
}

/// A path in a message: bounded, and without anything that would write on a terminal.
pub(in crate::tools) fn shown(path: &str) -> String {
    const MAX_SHOWN: usize = 200;
    let mut escaped: String = path.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
    if path.chars().nth(MAX_SHOWN).is_some() {
        escaped.push('…');
    }
    escaped
}

/// What an opening's error means here.
pub(in crate::tools) fn refusal(path: &str, errno: Errno) -> PathError {
    let shown = shown(path);
    match errno {
        Errno::XDEV => PathError::Outside(shown),
        Errno::LOOP => PathError::Malformed(shown, "goes through a link that is not followed"),
        Errno::NOENT => PathError::Missing(shown),
        Errno::NOTDIR => PathError::Malformed(shown, "goes through something that is no folder"),
        Errno::NAMETOOLONG => PathError::Malformed(shown, "is too long"),
        Errno::ISDIR => PathError::NotAFile(shown, "a folder"),
        // A socket, a device without a driver, or a FIFO that nobody reads.
        Errno::NXIO | Errno::NODEV => PathError::NotAFile(shown, "a socket, FIFO or device"),
        other => PathError::System(shown, other.into()),
    }
}

fn kind(path: &str, handle: std::os::fd::BorrowedFd<'_>) -> Result<FileType, PathError> {
    let facts =
        rustix::fs::fstat(handle).map_err(|errno| PathError::System(shown(path), errno.into()))?;
    Ok(FileType::from_raw_mode(facts.st_mode))
}

/// The handle as a file, if it is one.
pub(super) fn regular(path: &str, handle: OwnedFd) -> Result<File, PathError> {
    let what = match kind(path, handle.as_fd())? {
        FileType::RegularFile => return Ok(File::from(handle)),
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a link",
        _ => "of an unknown kind",
    };
    Err(PathError::NotAFile(shown(path), what))
}

#[cfg(test)]
mod tests;
