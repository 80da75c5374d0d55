//! `workspace`: the files and programs of one folder, for the operator's own assistant.
//!
//! Owns the four tools that read, search, change and run things there. Everything outside of the
//! folder is refused, links included. Who may call is decided before a tool runs, and what changes
//! something is confirmed before; neither is this module's business.

pub(super) mod command;
pub(super) mod edit;
mod patch;
pub(super) mod path;
mod policy;
pub(super) mod process;
pub(super) mod read;
pub(super) mod search;
mod shell;

use std::sync::Arc;

use super::blocking;
use crate::assistant::tools::ToolDef;

pub use path::{PathError, Workspace};
pub use policy::ShellPolicy;
pub use shell::check_command;

/// The four tools: `read_file` and `search_files`, and the destructive `edit_file` and
/// `run_shell_command`.
pub fn tools(workspace: Arc<Workspace>, policy: ShellPolicy) -> Vec<ToolDef> {
    vec![
        read::tool(workspace.clone()),
        search::tool(workspace.clone()),
        edit::tool(workspace.clone()),
        shell::tool(workspace, policy),
    ]
}

#[cfg(test)]
mod fixture;
