//! The forms of grants: on the disk, over RPC, and as an authority.
//!
//! Owns the words. What counts when is `state`'s matter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::assistant::caller::{CallerScope, CategorySet, PeerId, PermissionCategory};
use crate::store::StoreError;

/// A grant with an end lasts so long at most, milliseconds: ten years.
pub const LONGEST_MS: u64 = 10 * 366 * 86_400_000;

/// How a tool may be used by a caller that its category is granted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// Without a confirmation, unless foreign text has entered the turn.
    Always,
    /// Only with a confirmation, though it changes nothing.
    Ask,
    /// Not at all.
    Never,
}

/// A granted category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryGrant {
    /// Which.
    pub category: PermissionCategory,
    /// In force before that time, Unix milliseconds; for good without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// What was set for one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolGrant {
    /// Its name.
    pub tool: String,
    /// How it may be used.
    pub mode: ToolMode,
    /// In force before that time, Unix milliseconds; for good without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// What the operator wants changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Wish {
    /// A category, given or taken.
    Category {
        /// Which.
        category: PermissionCategory,
        /// Given?
        granted: bool,
        /// Until when, Unix milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// A tool's mode; `None` takes it back.
    Tool {
        /// Its name.
        tool: String,
        /// How it may be used.
        mode: Option<ToolMode>,
        /// Until when, Unix milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Unix milliseconds.
    pub at: u64,
    /// Whose grants.
    pub caller: String,
    /// From where: `page` or `command line`.
    pub by: String,
    /// What.
    #[serde(flatten)]
    pub wish: Wish,
}

/// Why a change was not made. The text says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// Nobody of that name.
    #[error("there is no caller `{caller}`; there are: {known}")]
    UnknownCaller {
        /// As given, cut.
        caller: String,
        /// Those that there are.
        known: String,
    },
    /// Grants go with a key, and nothing follows from this one.
    #[error(
        "nothing can be granted to {name} now: its key is not confirmed, or it is refused; put that right first"
    )]
    Unconfirmed {
        /// The contact.
        name: String,
    },
    /// It would never be in force.
    #[error("`until` is in the past: give a time to come, in Unix milliseconds")]
    Past,
    /// It would be in force longer than anybody thinks ahead.
    #[error("`until` is more than ten years ahead: give a nearer time, or leave it out for good")]
    TooLate,
    /// There are as many as may be.
    #[error("too many {what} are named: take some back first")]
    TooMany {
        /// Of what.
        what: &'static str,
    },
    /// No such tool.
    #[error("there is no tool `{tool}`; there are: {known}")]
    UnknownTool {
        /// As given, cut.
        tool: String,
        /// Those that there are.
        known: String,
    },
    /// The operator confirms such calls one by one.
    #[error(
        "{tool} changes something of the category {category}: for a peer each such call is confirmed by the \
         operator, so it can be `ask` or `never`"
    )]
    OperatorOnly {
        /// The tool.
        tool: String,
        /// Its category.
        category: PermissionCategory,
    },
    /// It could not be written; nothing has changed.
    #[error("grants.json could not be written; nothing has changed")]
    Store(#[from] StoreError),
}

/// A contact, as the mesh side knows it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `key:` and the pinned key.
    pub caller: PeerId,
    /// What to call it.
    pub name: String,
    /// What it has where nothing was set.
    pub base: CategorySet,
    /// The base stands in the configuration; else it is the default.
    pub configured: bool,
    /// May anything follow from its key? Not before the fingerprint is confirmed, and not for who is refused.
    pub confirmed: bool,
}

/// What a caller may do at this instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authority {
    pub(super) categories: CategorySet,
    pub(super) tools: BTreeMap<String, ToolMode>,
}

impl Authority {
    /// What its scope says, where nothing can have been set.
    pub fn of(scope: &CallerScope) -> Authority {
        Authority { categories: scope.granted_categories(), tools: BTreeMap::new() }
    }

    /// The granted categories.
    pub fn categories(&self) -> &CategorySet {
        &self.categories
    }

    /// What was set for that tool.
    pub fn mode(&self, tool: &str) -> Option<ToolMode> {
        self.tools.get(tool).copied()
    }

    /// May that tool be used at all? A mode never gives what the category does not.
    pub fn permits(&self, tool: &str, category: PermissionCategory) -> bool {
        self.categories.contains(&category) && self.mode(tool) != Some(ToolMode::Never)
    }
}

/// A caller's grants, as they are shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallerGrants {
    /// `operator`, or `key:` and the pinned key.
    pub caller: String,
    /// What to call it.
    pub name: String,
    /// `default`, `configuration` or `grants.json`.
    pub source: &'static str,
    /// Does it count? Not for a contact whose key is not confirmed, or who is none any more.
    pub in_force: bool,
    /// Those that are over are left out.
    pub categories: Vec<CategoryGrant>,
    /// Those that are over are left out.
    pub tools: Vec<ToolGrant>,
    /// The last changes, oldest first.
    pub history: Vec<Change>,
}
