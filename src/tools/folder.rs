//! The folders that the operator opened to tools.
//!
//! Owns the way from a path that a caller wrote, `NAME/rest`, to a file in one of them. A folder is opened
//! anew for each call, so that a disk may come later; what the kernel keeps inside is `workspace`'s. The
//! node's own data is never in reach, whatever is mounted or linked where.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType};

use super::workspace::Workspace;
use super::workspace::path::shown;
use crate::config::tools::Folder;

/// Entries of one folder that are looked at; the rest is left out.
const MAX_ENTRIES: usize = 5000;
/// Folders within folders.
const MAX_DEPTH: usize = 24;

/// Folders under their names. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Folders {
    folders: Arc<Vec<Folder>>,
    data_dir: PathBuf,
}

/// A place in one of the folders.
#[derive(Debug)]
pub struct Spot {
    /// The folder.
    pub workspace: Workspace,
    /// The folder's name, with a slash behind it: how its paths begin.
    pub prefix: String,
    /// From the folder, `.` for itself.
    pub path: String,
    /// May files be changed there?
    pub writable: bool,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One component.
    pub name: String,
    /// Is it a folder?
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    /// When it was last changed, nanoseconds since 1970.
    pub changed: i128,
}

/// A listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Folders and regular files, in order of name; what is hidden is left out.
    pub entries: Vec<Entry>,
    /// There are more than are listed.
    pub more: bool,
}

impl Folders {
    /// Those of the configuration.
    pub fn new(folders: &[Folder], data_dir: &Path) -> Folders {
        Folders { folders: Arc::new(folders.to_vec()), data_dir: data_dir.to_owned() }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// The folders.
    pub fn all(&self) -> &[Folder] {
        &self.folders
    }

    /// Their names, for messages.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.folders.iter().map(|folder| folder.name.as_str()).collect();
        names.join(", ")
    }

    /// The place that a caller's path names.
    pub fn spot(&self, path: &str) -> Result<Spot, String> {
        let path = path.trim_start_matches("./");
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let folder = self.folders.iter().find(|folder| folder.name == name).ok_or_else(|| {
            format!(
                "{} is in no folder that is open to tools; paths begin with: {}",
                shown(path),
                self.names()
            )
        })?;
        let rest = rest.trim_start_matches('/');
        for part in Path::new(rest).components() {
            match part {
                Component::Normal(part) if part.as_bytes().starts_with(b".") => {
                    return Err(format!("{} is hidden and not open to tools", shown(path)));
                }
                Component::Normal(_) | Component::CurDir => {}
                _ => return Err(format!("{} has \"..\" in it, which leads outside", shown(path))),
            }
        }
        Ok(Spot {
            workspace: self.open(folder)?,
            prefix: format!("{name}/"),
            path: if rest.is_empty() { ".".to_owned() } else { rest.to_owned() },
            writable: folder.writable,
        })
    }

    /// Opens a folder. Its path is resolved again each time.
    pub fn open(&self, folder: &Folder) -> Result<Workspace, String> {
        let workspace = Workspace::open(&folder.path)
            .map_err(|e| format!("the folder {} can't be opened: {e}", folder.name))?;
        if holds_or_is_in(workspace.root(), &self.data_dir) {
            return Err(format!("the folder {} would show the node's own data", folder.name));
        }
        Ok(workspace)
    }
}

/// Would one of the two show the other? Both with their links resolved.
pub fn holds_or_is_in(folder: &Path, data_dir: &Path) -> bool {
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.starts_with(&data_dir) || data_dir.starts_with(&folder)
}

/// What is in a folder: `path` is from the workspace's root. Links are left out, as everything that is
/// neither file nor folder.
pub fn list(workspace: &Workspace, path: &Path) -> Result<Listing, String> {
    let unreadable = |e: rustix::io::Errno| {
        format!("{}: {}", shown(&path.to_string_lossy()), std::io::Error::from(e))
    };
    let handle = workspace.folder(path).map_err(unreadable)?;
    let mut listing = Listing::default();
    for entry in Dir::read_from(&handle).map_err(unreadable)? {
        let Ok(entry) = entry else { break };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let Some(name) = name.to_str() else { continue };
        let Ok(facts) = rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let is_dir = match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => continue,
        };
        if listing.entries.len() == MAX_ENTRIES {
            listing.more = true;
            break;
        }
        listing.entries.push(Entry {
            name: name.to_owned(),
            is_dir,
            size: u64::try_from(facts.st_size).unwrap_or(0),
            changed: i128::from(facts.st_mtime) * 1_000_000_000 + i128::from(facts.st_mtime_nsec),
        });
    }
    listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listing)
}

/// Goes through all regular files below the root, in order of name, until `each` says `false`. The path is
/// from the root. `false`: not all was seen.
pub fn walk(workspace: &Workspace, mut each: impl FnMut(&str, &Entry) -> bool) -> bool {
    let mut stack = vec![(PathBuf::new(), 0)];
    let mut all = true;
    while let Some((folder, depth)) = stack.pop() {
        let Ok(listing) = list(workspace, &folder) else {
            all = false;
            continue;
        };
        all &= !listing.more;
        let mut below = Vec::new();
        for entry in listing.entries {
            let path = folder.join(&entry.name);
            if entry.is_dir {
                if depth < MAX_DEPTH {
                    below.push((path, depth + 1));
                } else {
                    all = false;
                }
            } else if !each(&path.to_string_lossy(), &entry) {
                return false;
            }
        }
        stack.extend(below.into_iter().rev());
    }
    all
}

/// `2026-11-30 21:08`, UTC, from nanoseconds since 1970.
pub fn date(nanoseconds: i128) -> String {
    let minutes = i64::try_from(nanoseconds.div_euclid(60_000_000_000)).unwrap_or(0);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    // From days to a date in the calendar of today, by eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn folder(path: PathBuf, name: &str) -> Folder {
        Folder { name: name.to_owned(), path, writable: false }
    }

    #[test]
    fn a_path_names_its_folder_and_leads_nowhere_else() {
        let temp = tempfile::tempdir().unwrap();
        write(&temp.path().join("plans/heating.md"), "x");
        write(&temp.path().join("data/secrets/key"), "the secret");
        let opened =
            [folder(temp.path().join("plans"), "plans"), folder(temp.path().join("gone"), "gone")];
        let folders = Folders::new(&opened, &temp.path().join("data"));
        for (path, inside) in [
            ("plans", "."),
            ("plans/", "."),
            ("./plans/heating.md", "heating.md"),
            ("plans//a/b", "a/b"),
        ] {
            let spot = folders.spot(path).unwrap();
            assert_eq!((spot.path.as_str(), spot.prefix.as_str()), (inside, "plans/"), "{path}");
        }
        for (path, reason) in [
            ("heating.md", "paths begin with: plans, gone"),
            ("/etc/passwd", "paths begin with"),
            ("", "paths begin with"),
            ("../data/secrets/key", "paths begin with"),
            ("plans/../data/secrets/key", "leads outside"),
            ("plans/x/../../../etc/passwd", "leads outside"),
            ("plans/.ssh/id", "hidden"),
            ("plans/a/.env", "hidden"),
            ("gone/x", "can't be opened"),
        ] {
            let refused = folders.spot(path).unwrap_err();
            assert!(refused.contains(reason), "{path}: {refused}");
        }
    }

    #[test]
    fn the_nodes_own_data_is_not_in_reach_even_by_a_link_to_it() {
        let temp = tempfile::tempdir().unwrap();
        write(&temp.path().join("data/secrets/key"), "the secret");
        std::os::unix::fs::symlink(temp.path().join("data"), temp.path().join("innocent")).unwrap();
        for path in
            [temp.path().join("innocent"), temp.path().join("data/secrets"), temp.path().to_owned()]
        {
            let folders = Folders::new(&[folder(path.clone(), "f")], &temp.path().join("data"));
            let refused = folders.spot("f/key").unwrap_err();
            assert!(refused.contains("the node's own data"), "{path:?}: {refused}");
        }
    }

    #[test]
    fn a_listing_shows_files_and_folders_and_no_link_nor_anything_hidden() {
        let temp = tempfile::tempdir().unwrap();
        write(&temp.path().join("b.txt"), "four");
        write(&temp.path().join("a/deep.txt"), "x");
        write(&temp.path().join(".hidden"), "x");
        std::os::unix::fs::symlink("/etc/passwd", temp.path().join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            temp.path().join("fifo"),
            FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let workspace = Workspace::open(temp.path()).unwrap();
        let names: Vec<(String, bool, u64)> = list(&workspace, Path::new("."))
            .unwrap()
            .entries
            .into_iter()
            .map(|entry| (entry.name, entry.is_dir, if entry.is_dir { 0 } else { entry.size }))
            .collect();
        assert_eq!(names, [("a".to_owned(), true, 0), ("b.txt".to_owned(), false, 4)]);
        let mut seen = Vec::new();
        assert!(walk(&workspace, |path, _| {
            seen.push(path.to_owned());
            true
        }));
        assert_eq!(seen, ["b.txt", "a/deep.txt"]);
        assert!(!walk(&workspace, |_, _| false));
        assert!(list(&workspace, Path::new("b.txt")).is_err());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0_i128, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (1_796_083_199, "2026-11-30 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
            (-1, "1969-12-31 23:59"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), text);
        }
        assert_eq!(date(i128::MAX).len(), 16);
    }
}
