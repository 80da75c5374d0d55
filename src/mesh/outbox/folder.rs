//! The folder of replies: one file each, so that a restart goes on where the last process stopped.
//!
//! Owns `replies/` in the data folder. Must not know what a stage means.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::part::Reply;
use crate::assistant::TurnId;
use crate::store::{self, Durability, StoreError};

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens it and reads what is there, oldest first. A file that can't be read is set aside, not lost.
    pub fn open(data: &Path) -> Result<(Folder, Vec<Reply>), StoreError> {
        let folder = Folder { path: data.join("replies") };
        store::private_dir(&folder.path)?;
        let mut replies = Vec::new();
        for path in store::json_files(&folder.path)? {
            match store::read_json::<Reply>(&path) {
                Ok(Some(reply)) => replies.push(reply.within_bounds()),
                Ok(None) => {}
                Err(error) => {
                    let aside = store::set_aside(&path)?;
                    tracing::error!(%error, aside = %aside.display(), "a reply can't be read");
                }
            }
        }
        replies.sort_by_key(|reply| reply.order);
        Ok((folder, replies))
    }

    /// Safe from a kill when it returns.
    pub fn write(&self, reply: &Reply) -> Result<(), StoreError> {
        if !reply.on_disk() {
            return Ok(());
        }
        store::replace_json(&self.file(&reply.id), reply, Durability::Process)
    }

    pub fn remove(&self, id: &TurnId) -> Result<(), StoreError> {
        store::remove(&self.file(id))
    }

    /// Named by a hash: no turn id becomes a path.
    fn file(&self, id: &TurnId) -> PathBuf {
        let digest = Sha256::digest(id.0.as_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.path.join(format!("{name}.json"))
    }
}
