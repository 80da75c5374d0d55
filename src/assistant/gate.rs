//! What stands at the choke point beside the checks: the present authority, the confirmation, the record.
//!
//! Owns the questions, not the answers. `execute_tool` asks what the caller may do now, then, after the grant and the
//! arguments were checked and right before the tool would run, whether it is confirmed. Whoever answers sees the exact
//! arguments. A confirmation gives no authority: what the caller was not granted never gets here.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::caller::{CallerScope, PermissionCategory};
use super::grants::Authority;
use super::tools::ToolDef;
use super::{ToolOutcome, TurnId};

/// The answer to come. Dropping it withdraws the question.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// The note to come: without it the tool must not run, and the words say why.
pub type Noting<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// What becomes of a call that needs a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs, once, with exactly these arguments.
    Approved,
    /// It doesn't; the words are for the model and the caller.
    Denied(String),
    /// Nobody can say so now: it doesn't run.
    NotNow,
    /// It is kept until somebody decides, and the turn ends here; the words are for the caller.
    Waits(String),
}

/// What is recorded of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called<'a> {
    /// A tool of ours; `None` for anything else.
    pub tool: Option<&'a str>,
    /// Its category.
    pub category: Option<PermissionCategory>,
    /// What became of it.
    pub outcome: ToolOutcome,
    /// What it gave may hold words of somebody else than the caller, the operator and this program.
    pub foreign: bool,
    /// Milliseconds.
    pub millis: u64,
}

/// Who is asked.
pub trait Gate: Send + Sync {
    /// The turn whose calls pass here.
    fn turn(&self) -> Option<&TurnId> {
        None
    }

    /// What this caller may do at this instant: asked for every call, and again after a confirmation.
    fn authority(&self, scope: &CallerScope) -> Authority {
        Authority::of(scope)
    }

    /// May this tool run with these arguments? They fit its schema.
    fn ask<'a>(&'a self, tool: &'a ToolDef, arguments: &'a Value) -> Asking<'a>;

    /// A tool that changes something runs as soon as this says so.
    fn begins<'a>(&'a self, _tool: &'a ToolDef) -> Noting<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A call is over, whatever became of it.
    fn called(&self, _call: &Called<'_>) {}
}

/// Nobody is there to ask, so nothing that changes something is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Closed;

impl Gate for Closed {
    fn ask<'a>(&'a self, _: &'a ToolDef, _: &'a Value) -> Asking<'a> {
        Box::pin(async { Decision::NotNow })
    }
}
