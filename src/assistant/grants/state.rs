//! What was set, in memory and in `grants.json`, and what of it counts when.
//!
//! Owns the rules of one caller's grants. Does no I/O but the one write.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::form::{
    Authority, CallerGrants, CategoryGrant, Change, GrantError, LONGEST_MS, Standing, ToolGrant,
    Wish,
};
use super::{OPERATOR, operator_base, shown};
use crate::assistant::caller::{CategorySet, PermissionCategory};
use crate::store::{self, Durability, StoreError};

/// Of the form of the file.
pub const VERSION: u32 = 1;
/// Tools that may be named for a caller; one more is refused.
pub const MAX_TOOLS: usize = 256;
/// Changes of one caller that a view shows.
const SHOWN_HISTORY: usize = 20;

#[derive(Debug, Clone, Default)]
pub struct State {
    pub entries: BTreeMap<String, Entry>,
    pub history: VecDeque<Change>,
    /// The file could not be read: who is not named has nothing.
    pub closed: bool,
    /// `None` until the mesh side has said who they are; then nobody else of the mesh has anything.
    pub contacts: Option<Vec<Standing>>,
}

/// All that was set for one caller: it replaces the base.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    pub categories: Vec<CategoryGrant>,
    pub tools: Vec<ToolGrant>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub version: u32,
    #[serde(default)]
    pub closed: bool,
    pub callers: BTreeMap<String, Entry>,
    pub history: VecDeque<Change>,
}

impl State {
    pub fn authority(&self, caller: &str, base: &CategorySet, now_ms: u64) -> Authority {
        match self.entries.get(caller) {
            Some(entry) => entry.authority(now_ms),
            None if self.closed => Authority::default(),
            None => Authority { categories: base.clone(), tools: BTreeMap::new() },
        }
    }

    pub fn contact(&self, caller: &str) -> Option<&Standing> {
        self.contacts.iter().flatten().find(|contact| contact.caller.0 == caller)
    }

    pub fn source(&self, caller: &str, configured: bool) -> &'static str {
        match (self.closed || self.entries.contains_key(caller), configured) {
            (true, _) => "grants.json",
            (false, true) => "configuration",
            (false, false) => "default",
        }
    }

    /// What a caller has of whom nothing was set.
    pub fn beginning(&self, caller: &str) -> Result<Entry, GrantError> {
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

    pub fn view(
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
    pub fn authority(&self, now_ms: u64) -> Authority {
        let categories = self.categories.iter().filter(|row| in_force(row.until, now_ms));
        let tools = self.tools.iter().filter(|row| in_force(row.until, now_ms));
        Authority {
            categories: categories.map(|row| row.category).collect(),
            tools: tools.map(|row| (row.tool.clone(), row.mode)).collect(),
        }
    }

    pub fn without_what_is_over(&self, now_ms: u64) -> Entry {
        let mut entry = self.clone();
        entry.categories.retain(|row| in_force(row.until, now_ms));
        entry.tools.retain(|row| in_force(row.until, now_ms));
        entry
    }

    pub fn take(&mut self, wish: &Wish, now_ms: u64) -> Result<(), GrantError> {
        *self = self.without_what_is_over(now_ms);
        match wish {
            Wish::Category { category, granted, until } => {
                if *granted {
                    check_end(*until, now_ms)?;
                }
                self.categories.retain(|row| row.category != *category);
                if *granted {
                    self.categories.push(CategoryGrant { category: *category, until: *until });
                    self.categories.sort_by_key(|row| row.category);
                }
            }
            Wish::Tool { tool, mode, until } => {
                if mode.is_some() {
                    check_end(*until, now_ms)?;
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

fn check_end(until: Option<u64>, now_ms: u64) -> Result<(), GrantError> {
    match until {
        Some(until) if until <= now_ms => Err(GrantError::Past),
        Some(until) if until - now_ms > LONGEST_MS => Err(GrantError::TooLate),
        _ => Ok(()),
    }
}

pub fn in_force(until: Option<u64>, now_ms: u64) -> bool {
    until.is_none_or(|until| now_ms < until)
}

pub fn write(path: &Path, state: &State) -> Result<(), StoreError> {
    let file = File {
        version: VERSION,
        closed: state.closed,
        callers: state.entries.clone(),
        history: state.history.clone(),
    };
    store::replace_json(path, &file, Durability::Disk)
}
