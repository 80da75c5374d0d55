//! Folders for the tests of the workspace's tools.
//!
//! Owns a temporary folder with a workspace in it and something outside that must not be touched.

#![allow(clippy::disallowed_methods)] // test data, in a folder that goes away

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Workspace;

/// What the file outside holds.
pub const SECRET: &str = "the secret outside";

/// A workspace `w` beside a file `outside.txt`.
pub struct Folder {
    temp: tempfile::TempDir,
}

impl Folder {
    pub fn new() -> Folder {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("w")).unwrap();
        fs::write(temp.path().join("outside.txt"), SECRET).unwrap();
        Folder { temp }
    }

    pub fn workspace(&self) -> Arc<Workspace> {
        Arc::new(Workspace::open(&self.root()).unwrap())
    }

    /// The workspace's folder, without links.
    pub fn root(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("w")
    }

    pub fn outside(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("outside.txt")
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub fn link(&self, at: &str, to: impl AsRef<Path>) {
        std::os::unix::fs::symlink(to, self.root().join(at)).unwrap();
    }

    /// Every name below the workspace, sorted: to see that nothing was left behind.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                names.push(path.strip_prefix(self.root()).unwrap().display().to_string());
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                }
            }
        }
        names.sort();
        names
    }
}
