//! The files of a folder, but for the hidden and the ignored.
//!
//! Owns the walk, from the workspace's handle and without any link, and the reading of ignore files:
//! one that is a FIFO or leads outside is none. Knows nothing of contents.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType};

use super::super::path::Workspace;
use super::super::read::content;

/// Names of ignore files; what an earlier one says counts more.
const IGNORE_FILES: [&str; 3] = [".rgignore", ".ignore", ".gitignore"];
/// Patterns of the repository that are in no folder; they count least.
const EXCLUDE_FILE: &str = ".git/info/exclude";

/// What the walk gives.
pub enum Found<'a> {
    /// A path from the root.
    File(&'a str),
    /// A folder, entered.
    Folder,
    /// A folder that can't be listed, or a name that is no text.
    Unreadable,
}

/// What ignore files say, from the deepest folder up.
struct Rules {
    here: Vec<Gitignore>,
    above: Option<Rc<Rules>>,
}

struct Node {
    path: PathBuf,
    is_dir: bool,
    rules: Rc<Rules>,
}

/// Goes through the files below `folder`, in the order of their names, until `each` says `false`.
/// `folder` is a path from the root, without `..`.
pub fn walk(workspace: &Workspace, folder: &Path, mut each: impl FnMut(Found<'_>) -> bool) {
    let folder: PathBuf = folder.components().filter(|one| *one != Component::CurDir).collect();
    let top = Rc::new(Rules {
        here: read_rules(workspace, Path::new(""), EXCLUDE_FILE).into_iter().collect(),
        above: None,
    });
    let mut stack = vec![Node { path: PathBuf::new(), is_dir: true, rules: top }];
    while let Some(node) = stack.pop() {
        let go_on = if node.is_dir {
            match children(workspace, &node, &folder) {
                Some(children) => {
                    stack.extend(children.into_iter().rev());
                    each(Found::Folder)
                }
                None => each(Found::Unreadable),
            }
        } else {
            each(node.path.to_str().map_or(Found::Unreadable, Found::File))
        };
        if !go_on {
            return;
        }
    }
}

/// The children that are to be visited, in order; `None` if the folder can't be listed.
fn children(workspace: &Workspace, node: &Node, wanted: &Path) -> Option<Vec<Node>> {
    let handle = workspace.folder(&node.path).ok()?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&handle).ok()? {
        let entry = entry.ok()?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let kind = match entry.file_type() {
            // Not every file system says it in its listing.
            FileType::Unknown => rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |facts| FileType::from_raw_mode(facts.st_mode)),
            kind => kind,
        };
        if matches!(kind, FileType::Directory | FileType::RegularFile) {
            names.push((name.to_owned(), kind == FileType::Directory));
        }
    }
    names.sort();
    let here: Vec<Gitignore> =
        IGNORE_FILES.iter().filter_map(|name| read_rules(workspace, &node.path, name)).collect();
    let rules = if here.is_empty() {
        node.rules.clone()
    } else {
        Rc::new(Rules { here, above: Some(node.rules.clone()) })
    };
    let children = names.into_iter().map(|(name, is_dir)| Node {
        path: node.path.join(name),
        is_dir,
        rules: rules.clone(),
    });
    Some(
        children
            .filter(|child| child.path.starts_with(wanted) || wanted.starts_with(&child.path))
            .filter(|child| !rules.ignore(&workspace.root().join(&child.path), child.is_dir))
            .collect(),
    )
}

impl Rules {
    fn ignore(&self, path: &Path, is_dir: bool) -> bool {
        let mut level = Some(self);
        while let Some(rules) = level {
            for file in &rules.here {
                let matched = file.matched(path, is_dir);
                if !matched.is_none() {
                    return matched.is_ignore();
                }
            }
            level = rules.above.as_deref();
        }
        false
    }
}

/// The patterns in an ignore file, for the folder `at`. A line with a mistake in it is left out.
fn read_rules(workspace: &Workspace, at: &Path, name: &str) -> Option<Gitignore> {
    let path = at.join(name);
    let path = path.to_str()?;
    let text = content(&mut workspace.open_file(path).ok()?, path).ok()?;
    let mut builder = GitignoreBuilder::new(workspace.root().join(at));
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
