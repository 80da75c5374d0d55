//! Grants: which tools a caller may use, as the operator set it while the node runs.
//!
//! Owns `grants.json`, and the one place where what the configuration grants and what was set meet:
//! [`Grants::authority`]. What was set wins for the callers that it names; nobody else is touched by it. A file
//! that can't be read grants nothing to anybody until the operator sets grants anew. Must not know what a tool does.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;
use tracing::error;

mod form;
mod state;

pub use form::{
    Authority, CallerGrants, CategoryGrant, Change, GrantError, LONGEST_MS, Standing, ToolGrant,
    ToolMode, Wish,
};
pub use state::VERSION;
use state::{File, State, write};

use super::caller::{Assurance, CallerScope, CategorySet, PermissionCategory};
use crate::clock;
use crate::invisible;
use crate::store::document::{self, Document};
use crate::store::{self, StoreError};

const FILE: &str = "grants.json";
/// The operator's name among the callers.
pub const OPERATOR: &str = "operator";
/// Callers that may be named; one more is refused.
const MAX_CALLERS: usize = 256;
/// Changes that are kept; the oldest go.
const MAX_HISTORY: usize = 1_000;

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
        let broken = match document::read::<File>(&path, u64::from(VERSION))? {
            Document::Missing => None,
            Document::Whole(file) if file.version == VERSION => {
                state.entries = file.callers;
                state.history = file.history;
                state.closed = file.closed;
                None
            }
            Document::Whole(file) => Some(format!("there is no version {} of it", file.version)),
            Document::Broken(error) => Some(error.source.to_string()),
        };
        if let Some(why) = broken {
            state.closed = true;
            let aside = store::set_aside(&path)?;
            error!(
                file = %path.display(), why, copy = %aside.display(),
                "the grants make no sense: nobody has any until they are set anew"
            );
            // So that the next start does not take the missing file for one that never was.
            write(&path, &state)?;
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

    /// Has a text the form of the file? Changes nothing. Gives what should be known of it, or what is wrong.
    pub fn look(text: &[u8]) -> Result<Option<String>, String> {
        match serde_json::from_slice::<File>(text) {
            Ok(file) if file.version != VERSION => {
                Err(format!("it is of version {}; this program knows {VERSION}", file.version))
            }
            Ok(file) if file.closed => Ok(Some(
                "it was broken once: whoever is not named in it has no grants until they are set"
                    .to_owned(),
            )),
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
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

fn with_categories(mut scope: CallerScope, categories: CategorySet) -> CallerScope {
    match &mut scope {
        CallerScope::Mesh { granted, .. } | CallerScope::LocalOperator { granted, .. } => {
            *granted = categories;
        }
    }
    scope
}

/// What somebody typed, fit for a message.
pub(super) fn shown(text: &str) -> String {
    invisible::word(text, 64)
}

#[cfg(test)]
mod tests;
