//! The tools themselves, a file a category.
//!
//! Owns what each does. A tool never asks who calls: that is decided before it runs.

mod ai_local;
pub mod network;
pub mod system;
pub mod workspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::assistant::tools::{ToolDef, ToolRegistry};
use crate::config::ToolsConfig;

/// Where the tools have from what this module doesn't know.
pub struct Sources {
    /// The node's data.
    pub data_dir: PathBuf,
    /// The local model server.
    pub ollama_url: String,
    /// The mesh side.
    pub mesh: Arc<dyn network::Mesh>,
}

/// The tools of a node for which nothing is configured and that has no mesh yet.
pub fn registry(data_dir: &Path) -> ToolRegistry {
    ToolRegistry::new(system::tools(data_dir, &[]))
}

/// All tools of this node. A category for which nothing is configured has none.
pub fn configured(config: &ToolsConfig, sources: &Sources) -> Vec<ToolDef> {
    let mut tools = system::tools(&sources.data_dir, &config.services);
    tools.extend(network::tools(&sources.mesh));
    tools.extend(ai_local::tools(&sources.ollama_url));
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
