//! The confirmation of a call that changes something.
//!
//! Owns the question, not the answer: `execute_tool` asks it after the grant and the arguments were
//! checked and right before the tool would run. Whoever answers sees the exact arguments. A gate gives no
//! authority: what the caller was not granted never gets here.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::tools::ToolDef;

/// The answer to come. Dropping it withdraws the question.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// What becomes of a call that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs, once, with exactly these arguments.
    Approved,
    /// It doesn't; the words are for the model and the caller.
    Denied(String),
    /// Nobody can say so now: it doesn't run.
    NotNow,
}

/// Who is asked.
pub trait Gate: Send + Sync {
    /// May this tool run with these arguments? They fit its schema.
    fn ask<'a>(&'a self, tool: &'a ToolDef, arguments: &'a Value) -> Asking<'a>;
}

/// Nobody is there to ask, so nothing that changes something is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Closed;

impl Gate for Closed {
    fn ask<'a>(&'a self, _: &'a ToolDef, _: &'a Value) -> Asking<'a> {
        Box::pin(async { Decision::NotNow })
    }
}
