//! Grants: which tools a caller may use, as the operator set it while the node runs.
//!
//! Owns `grants.json`, and the one place where what the configuration grants and what was set meet:
//! [`Grants::authority`]. What was set wins for the callers that it names; nobody else is touched by it. A file
//! that can't be read grants nothing to anybody until the operator sets grants anew. Must not know what a tool does.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::error;

use super::caller::{Assurance, CallerScope, CategorySet, PeerId, PermissionCategory};
use crate::clock;
use crate::store::{self, Durability, StoreError};

const FILE: &str = "grants.json";
/// Of the form of the file.
const VERSION: u32 = 1;
/// The operator's name among the callers.
pub const OPERATOR: &str = "operator";
/// Callers that may be named; one more is refused.
const MAX_CALLERS: usize = 256;
/// Tools that may be named for a caller; one more is refused.
const MAX_TOOLS: usize = 256;
/// Changes that are kept; the oldest go.
const MAX_HISTORY: usize = 1_000;
/// Changes of one caller that a view shows.
const SHOWN_HISTORY: usize = 20;

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
    categories: CategorySet,
    tools: BTreeMap<String, ToolMode>,
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

/// The store.
#[derive(Debug)]
pub struct Grants {
    path: PathBuf,
    state: RwLock<State>,
    // One change at a time, from its decision to the disk.
    writing: Mutex<()>,
    changed: watch::Sender<u64>,
    warning: Option<String>,
}

#[derive(Debug, Clone, Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    history: VecDeque<Change>,
    /// The file could not be read: who is not named has nothing.
    closed: bool,
    /// `None` until the mesh side has said who they are; then nobody else of the mesh has anything.
    contacts: Option<Vec<Standing>>,
}

/// All that was set for one caller: it replaces the base.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    categories: Vec<CategoryGrant>,
    tools: Vec<ToolGrant>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    closed: bool,
    callers: BTreeMap<String, Entry>,
    history: VecDeque<Change>,
}

/// What the operator has where nothing was set.
pub fn operator_base() -> CategorySet {
    CategorySet::from([PermissionCategory::System])
}

impl Grants {
    /// Reads `grants.json`. One that makes no sense is set aside and grants nothing; [`Grants::warning`] says so.
    ///
    /// # Errors
    /// When the file is there and can't be read, or can't be set aside.
    pub fn open(data_dir: &Path) -> Result<Grants, StoreError> {
        let path = data_dir.join(FILE);
        let (mut state, mut warning) = (State::default(), None);
        match store::read_json::<File>(&path) {
            Ok(None) => {}
            Ok(Some(file)) if file.version == VERSION => {
                state.entries = file.callers;
                state.history = file.history;
                state.closed = file.closed;
            }
            Err(error) if error.source.kind() != std::io::ErrorKind::InvalidData => {
                return Err(error);
            }
            Ok(Some(_)) | Err(_) => {
                state.closed = true;
                let aside = store::set_aside(&path)?;
                error!(
                    file = %path.display(), copy = %aside.display(),
                    "the grants can't be read: nobody has any until they are set anew"
                );
                // So that the next start does not take the missing file for one that never was.
                write(&path, &state)?;
            }
        }
        if state.closed {
            warning = Some(
                "grants.json could not be read and was set aside: whoever is not named here has no grants until \
                 they are set; to go back to the configuration's, stop the node and remove grants.json"
                    .to_owned(),
            );
        }
        Ok(Grants {
            path,
            state: RwLock::new(state),
            writing: Mutex::default(),
            changed: watch::Sender::new(0),
            warning,
        })
    }

    /// What the operator should know of the file.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Counts the changes: whoever shows grants learns that there is something new.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Who the contacts are now. From the first call on nobody else of the mesh has any authority.
    pub fn set_contacts(&self, contacts: Vec<Standing>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.contacts.as_ref() != Some(&contacts) {
            state.contacts = Some(contacts);
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// What that caller may do at this instant. A mesh caller who is not `Verified` may do nothing, and neither may
    /// anybody in a scope that was built with nothing: a session that is not the operator's own, a turn without tools.
    pub fn authority(&self, scope: &CallerScope) -> Authority {
        match scope {
            CallerScope::Mesh { granted, .. } | CallerScope::LocalOperator { granted, .. }
                if granted.is_empty() =>
            {
                Authority::default()
            }
            _ => self.of(scope, clock::unix_ms()),
        }
    }

    /// What was granted to whoever that scope names.
    fn of(&self, scope: &CallerScope, now_ms: u64) -> Authority {
        let state = self.read();
        match scope {
            CallerScope::Mesh { assurance: Assurance::Verified, peer_id, granted, .. } => {
                let base = match &state.contacts {
                    None => granted,
                    Some(contacts) => {
                        let known = contacts.iter().find(|known| known.caller == *peer_id);
                        match known.filter(|known| known.confirmed) {
                            Some(known) => &known.base,
                            None => return Authority::default(),
                        }
                    }
                };
                state.authority(&peer_id.0, base, now_ms)
            }
            CallerScope::Mesh { .. } => Authority::default(),
            CallerScope::LocalOperator { granted, .. } => {
                state.authority(OPERATOR, granted, now_ms)
            }
        }
    }

    /// For who builds a peer's scope: the same with what is granted at this instant, be it more or less.
    pub fn current(&self, scope: CallerScope) -> CallerScope {
        let now = match &scope {
            CallerScope::Mesh { .. } => self.of(&scope, clock::unix_ms()),
            CallerScope::LocalOperator { .. } => self.authority(&scope),
        };
        with_categories(scope, now.categories)
    }

    /// For who uses a scope: the same with what it can be used for at this instant.
    pub fn usable(&self, scope: CallerScope) -> CallerScope {
        let now = self.authority(&scope).categories;
        with_categories(scope, now)
    }

    /// From where a caller's grants come: `default`, `configuration` or `grants.json`.
    pub fn source(&self, caller: &str) -> &'static str {
        let state = self.read();
        let contact = state.contact(caller).is_some_and(|contact| contact.configured);
        state.source(caller, contact)
    }

    /// Everybody's grants: the operator, the contacts, and who was named and is no contact now.
    pub fn list(&self) -> Vec<CallerGrants> {
        let (state, now_ms) = (self.read(), clock::unix_ms());
        let mut all = vec![state.view(OPERATOR, "operator", &operator_base(), false, true, now_ms)];
        let contacts = state.contacts.iter().flatten();
        all.extend(contacts.map(|contact| {
            let Standing { caller, name, base, configured, confirmed } = contact;
            state.view(&caller.0, name, base, *configured, *confirmed, now_ms)
        }));
        let gone = state
            .entries
            .iter()
            .filter(|(caller, _)| caller.as_str() != OPERATOR && state.contact(caller).is_none());
        // Where nobody says who the contacts are, what was set counts.
        let in_force = state.contacts.is_none();
        all.extend(gone.map(|(caller, entry)| {
            state.view(caller, &entry.name, &CategorySet::new(), false, in_force, now_ms)
        }));
        all
    }

    /// Changes a caller's grants, on the disk before they are in force. The first change begins with what the caller had.
    ///
    /// # Errors
    /// Nothing has changed then; the text says what would be right.
    pub fn set(&self, caller: &str, wish: Wish, by: &str) -> Result<(), GrantError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = clock::unix_ms();
        let mut state = self.read().clone();
        let mut entry = match state.entries.get(caller) {
            Some(entry) => entry.clone(),
            None => state.beginning(caller)?,
        };
        if let Some(contact) = state.contact(caller) {
            if !contact.confirmed {
                return Err(GrantError::Unconfirmed { name: contact.name.clone() });
            }
            entry.name.clone_from(&contact.name);
        }
        entry.take(&wish, now_ms)?;
        if state.entries.len() >= MAX_CALLERS && !state.entries.contains_key(caller) {
            return Err(GrantError::TooMany { what: "callers" });
        }
        state.entries.insert(caller.to_owned(), entry);
        while state.history.len() >= MAX_HISTORY {
            state.history.pop_front();
        }
        let (caller, by) = (caller.to_owned(), by.to_owned());
        state.history.push_back(Change { at: now_ms, caller, by, wish });
        write(&self.path, &state)?;
        let mut now = self.state.write().unwrap_or_else(PoisonError::into_inner);
        (now.entries, now.history) = (state.entries, state.history);
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn authority(&self, caller: &str, base: &CategorySet, now_ms: u64) -> Authority {
        match self.entries.get(caller) {
            Some(entry) => entry.authority(now_ms),
            None if self.closed => Authority::default(),
            None => Authority { categories: base.clone(), tools: BTreeMap::new() },
        }
    }

    fn contact(&self, caller: &str) -> Option<&Standing> {
        self.contacts.iter().flatten().find(|contact| contact.caller.0 == caller)
    }

    fn source(&self, caller: &str, configured: bool) -> &'static str {
        match (self.closed || self.entries.contains_key(caller), configured) {
            (true, _) => "grants.json",
            (false, true) => "configuration",
            (false, false) => "default",
        }
    }

    /// What a caller has of whom nothing was set.
    fn beginning(&self, caller: &str) -> Result<Entry, GrantError> {
        let (name, base) = match (caller, self.contact(caller)) {
            (OPERATOR, _) => ("operator".to_owned(), operator_base()),
            (_, Some(contact)) => (contact.name.clone(), contact.base.clone()),
            (_, None) => {
                let contacts = self.contacts.iter().flatten().map(|c| c.caller.0.as_str());
                let known: Vec<&str> = [OPERATOR].into_iter().chain(contacts).collect();
                return Err(GrantError::UnknownCaller {
                    caller: shown(caller),
                    known: known.join(", "),
                });
            }
        };
        let base = if self.closed { CategorySet::new() } else { base };
        let categories =
            base.into_iter().map(|category| CategoryGrant { category, until: None }).collect();
        Ok(Entry { name, categories, tools: Vec::new() })
    }

    fn view(
        &self,
        caller: &str,
        name: &str,
        base: &CategorySet,
        configured: bool,
        in_force: bool,
        now_ms: u64,
    ) -> CallerGrants {
        let (categories, tools) = match self.entries.get(caller) {
            Some(entry) => {
                let entry = entry.without_what_is_over(now_ms);
                (entry.categories, entry.tools)
            }
            None if self.closed => (Vec::new(), Vec::new()),
            None => {
                let base = base.iter();
                let row = |category: &PermissionCategory| CategoryGrant {
                    category: *category,
                    until: None,
                };
                (base.map(row).collect(), Vec::new())
            }
        };
        let history: Vec<Change> =
            self.history.iter().filter(|change| change.caller == caller).cloned().collect();
        let first = history.len().saturating_sub(SHOWN_HISTORY);
        CallerGrants {
            caller: caller.to_owned(),
            name: name.to_owned(),
            source: self.source(caller, configured),
            in_force,
            categories,
            tools,
            history: history.into_iter().skip(first).collect(),
        }
    }
}

impl Entry {
    fn authority(&self, now_ms: u64) -> Authority {
        let categories = self.categories.iter().filter(|row| in_force(row.until, now_ms));
        let tools = self.tools.iter().filter(|row| in_force(row.until, now_ms));
        Authority {
            categories: categories.map(|row| row.category).collect(),
            tools: tools.map(|row| (row.tool.clone(), row.mode)).collect(),
        }
    }

    fn without_what_is_over(&self, now_ms: u64) -> Entry {
        let mut entry = self.clone();
        entry.categories.retain(|row| in_force(row.until, now_ms));
        entry.tools.retain(|row| in_force(row.until, now_ms));
        entry
    }

    fn take(&mut self, wish: &Wish, now_ms: u64) -> Result<(), GrantError> {
        *self = self.without_what_is_over(now_ms);
        match wish {
            Wish::Category { category, granted, until } => {
                if *granted && !in_force(*until, now_ms) {
                    return Err(GrantError::Past);
                }
                self.categories.retain(|row| row.category != *category);
                if *granted {
                    self.categories.push(CategoryGrant { category: *category, until: *until });
                    self.categories.sort_by_key(|row| row.category);
                }
            }
            Wish::Tool { tool, mode, until } => {
                if mode.is_some() && !in_force(*until, now_ms) {
                    return Err(GrantError::Past);
                }
                self.tools.retain(|row| row.tool != *tool);
                if let Some(mode) = *mode {
                    if self.tools.len() >= MAX_TOOLS {
                        return Err(GrantError::TooMany { what: "tools" });
                    }
                    self.tools.push(ToolGrant { tool: tool.clone(), mode, until: *until });
                    self.tools.sort_by(|one, other| one.tool.cmp(&other.tool));
                }
            }
        }
        Ok(())
    }
}

fn with_categories(mut scope: CallerScope, categories: CategorySet) -> CallerScope {
    match &mut scope {
        CallerScope::Mesh { granted, .. } | CallerScope::LocalOperator { granted, .. } => {
            *granted = categories;
        }
    }
    scope
}

fn in_force(until: Option<u64>, now_ms: u64) -> bool {
    until.is_none_or(|until| now_ms < until)
}

fn write(path: &Path, state: &State) -> Result<(), StoreError> {
    let file = File {
        version: VERSION,
        closed: state.closed,
        callers: state.entries.clone(),
        history: state.history.clone(),
    };
    store::replace_json(path, &file, Durability::Disk)
}

/// What somebody typed, fit for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests;
