//! The tools themselves, a file a category.
//!
//! Owns what each does. A tool never asks who calls: that is decided before it runs.

#[cfg(feature = "mcp")]
pub mod mcp;
pub mod system;
pub mod workspace;

use std::path::Path;

use crate::assistant::tools::ToolRegistry;

/// All tools of this node.
pub fn registry(data_dir: &Path) -> ToolRegistry {
    ToolRegistry::new([system::disk_tool(system::Disks::of_node(data_dir))])
}
