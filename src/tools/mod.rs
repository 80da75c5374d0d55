//! The tools themselves, a file a category.
//!
//! Owns what each does. A tool never asks who calls: that is decided before it runs.

mod ai_local;
mod apps;
pub mod bitcoin;
mod files;
pub mod folder;
#[cfg(feature = "mcp")]
pub mod mcp;
mod media;
pub mod names;
pub mod network;
mod notes;
mod search;
pub mod system;
pub mod workspace;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::folder::Folders;
use crate::assistant::tools::{ToolDef, ToolRegistry, ToolSource};
use crate::config::ToolsConfig;
use crate::config::tools::Folder;
use crate::secrets::Secrets;

/// Where the tools have from what this module doesn't know.
pub struct Sources {
    /// The node's data.
    pub data_dir: PathBuf,
    /// The node's secrets.
    pub secrets: Secrets,
    /// The local model server.
    pub ollama_url: String,
    /// The mesh side.
    pub mesh: Arc<dyn network::Mesh>,
    /// On which the tasks of tools run.
    pub tracker: TaskTracker,
    /// The daemon is going down.
    pub cancel: CancellationToken,
}

/// Why the tools can't be had as they are configured.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// A folder would show the secrets.
    #[error("{key}: {} would show the node's own data, by a link or otherwise; name another folder", path.display())]
    OwnData {
        /// The key.
        key: &'static str,
        /// The folder.
        path: PathBuf,
    },
}

/// The configured tools of a running node. None until it is put in reach of the other parts.
#[derive(Default)]
pub struct ToolSet {
    now: RwLock<Arc<[ToolDef]>>,
    started: Mutex<Option<Started>>,
}

struct Started {
    sources: Sources,
    /// Ends what the present tools have running.
    stop: CancellationToken,
}

impl ToolSet {
    /// From here on there are tools. Needs a runtime.
    pub fn start(&self, sources: Sources, config: &ToolsConfig) -> Result<(), ToolsError> {
        let stop = sources.cancel.child_token();
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Started { sources, stop });
        self.put(config)
    }

    /// Takes a configuration that was read again. After an error the old tools stay.
    pub fn reconfigure(&self, config: &ToolsConfig, ollama_url: &str) -> Result<(), ToolsError> {
        if let Some(started) = &mut *self.started.lock().unwrap_or_else(PoisonError::into_inner) {
            ollama_url.clone_into(&mut started.sources.ollama_url);
        }
        self.put(config)
    }

    fn put(&self, config: &ToolsConfig) -> Result<(), ToolsError> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Started { sources, stop }) = &mut *started else { return Ok(()) };
        check(config, &sources.data_dir)?;
        stop.cancel();
        *stop = sources.cancel.child_token();
        let tools = configured(config, sources, stop).into();
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = tools;
        Ok(())
    }
}

impl ToolSource for ToolSet {
    fn tools(&self) -> Vec<ToolDef> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).to_vec()
    }
}

/// Refuses a folder that would show the secrets, and warns of one that isn't there.
fn check(config: &ToolsConfig, data_dir: &Path) -> Result<(), ToolsError> {
    for (key, folder) in opened(config) {
        if folder::holds_or_is_in(&folder.path, data_dir) {
            return Err(ToolsError::OwnData { key, path: folder.path.clone() });
        }
        if !folder.path.is_dir() {
            warn!(key, path = %folder.path.display(), "this folder is not there now");
        }
    }
    Ok(())
}

/// Every folder that is open to tools, with the key that opens it.
pub fn opened(config: &ToolsConfig) -> impl Iterator<Item = (&'static str, &Folder)> {
    let lists = [
        ("tools.folders", &config.folders),
        ("tools.documents", &config.documents),
        ("tools.media", &config.media),
    ];
    lists.into_iter().flat_map(|(key, folders)| folders.iter().map(move |folder| (key, folder)))
}

/// The tools of a node for which nothing is configured and that has no mesh yet.
pub fn registry(data_dir: &Path) -> ToolRegistry {
    ToolRegistry::new(system::tools(data_dir, &[]))
}

/// All tools of this node. A category for which nothing is configured has none.
fn configured(config: &ToolsConfig, sources: &Sources, stop: &CancellationToken) -> Vec<ToolDef> {
    let data_dir = &sources.data_dir;
    let mut tools = system::tools(data_dir, &config.services);
    tools.extend(network::tools(&sources.mesh));
    tools.extend(ai_local::tools(&sources.ollama_url));
    tools.extend(files::tools(&Folders::new(&config.folders, data_dir)));
    let documents = Folders::new(&config.documents, data_dir);
    tools.extend(search::tools(&documents, data_dir, &sources.tracker, stop));
    tools.extend(notes::tools(config.notes, data_dir));
    tools.extend(media::tools(&Folders::new(&config.media, data_dir)));
    tools.extend(apps::tools(&config.commands));
    let wallet = config.wallet.as_deref();
    tools.extend(bitcoin::tools(config.bitcoin.as_ref(), wallet, &sources.secrets));
    tools
}

/// Runs what may wait for a disk away from the runtime's one thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err("it broke off inside; nothing more is known".to_owned()))
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
