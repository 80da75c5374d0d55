//! How much the data folder holds, and how much room is left, kept for a moment.
//!
//! Owns how often is looked: pages ask often, and each look walks the folder. Changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A figure is given again for so long.
const MEMORY: Duration = Duration::from_secs(60);
/// Entries that are looked at: a folder with more is told to hold at least that.
const MAX_ENTRIES: usize = 100_000;

/// The figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// Bytes of the files in the data folder.
    pub data_bytes: u64,
    /// Bytes that may still be written on its disk; `None` where the system doesn't say.
    pub free_bytes: Option<u64>,
}

/// The last figures.
#[derive(Debug, Default)]
pub struct StorageMemory {
    last: Mutex<Option<(Instant, Storage)>>,
}

impl StorageMemory {
    /// At most [`MEMORY`] old. Whoever asks at the same time waits for the same answer; `None`: it could not be looked.
    pub async fn of(&self, data_dir: &Path) -> Option<Storage> {
        let mut last = self.last.lock().await;
        if let Some((at, storage)) = *last
            && at.elapsed() < MEMORY
        {
            return Some(storage);
        }
        let folder = data_dir.to_owned();
        // A disk may let its caller wait.
        let storage = tokio::task::spawn_blocking(move || look(&folder)).await.ok()?;
        *last = Some((Instant::now(), storage));
        Some(storage)
    }
}

fn look(folder: &Path) -> Storage {
    let (mut data_bytes, mut seen) = (0u64, 0);
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                folders.clear();
                break;
            }
            // Of the entry itself: a link is not followed out of the folder.
            let Ok(facts) = entry.metadata() else { continue };
            if facts.is_dir() {
                folders.push(entry.path());
            } else if facts.is_file() {
                data_bytes = data_bytes.saturating_add(facts.len());
            }
        }
    }
    let free = rustix::fs::statvfs(folder).ok();
    let free_bytes = free.map(|facts| facts.f_bavail.saturating_mul(facts.f_frsize.max(1)));
    Storage { data_bytes, free_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn files_are_counted_at_every_depth_links_are_not_and_a_figure_is_kept_for_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let memory = StorageMemory::default();
        let bytes = async || memory.of(folder.path()).await.unwrap().data_bytes;
        assert_eq!(bytes().await, 0);
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/c"), "12345").unwrap();
        fs::write(folder.path().join("d"), "67").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        std::os::unix::fs::symlink("d", folder.path().join("again")).unwrap();
        tokio::time::advance(MEMORY.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert_eq!(bytes().await, 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(bytes().await, 7);
        assert!(memory.of(folder.path()).await.unwrap().free_bytes > Some(0));
    }
}
