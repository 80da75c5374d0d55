//! The daemon's gate: grants, confirmations and records, joined for a turn.
//!
//! Owns the rules between them: when a call that changes something runs at once, who confirms it else, and that
//! foreign text in a turn makes a fresh confirmation necessary. Must not run a tool.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::TurnId;
use super::begun::Begun;
use super::call_ledger::{CallLedger, RecordedCall};
use super::caller::{Assurance, CallerScope};
use super::confirm::{Confirmations, NewCall, Taken, needs_operator, shown_call};
use super::gate::{Asking, Called, Decision, Gate, Noting};
use super::grants::{Authority, Grants, ToolMode};
use super::tools::{ToolDef, ToolRegistry};
use crate::clock;
use crate::store::StoreError;

/// Bytes that the question for a code needs around the call itself, at most.
pub const ASKING_BYTES: usize = 56;

/// What all turns share.
#[derive(Debug)]
pub struct Guard {
    /// Who may do what.
    pub grants: Grants,
    /// What waits.
    pub confirmations: Arc<Confirmations>,
    /// What was called.
    pub calls: CallLedger,
    begun: Begun,
}

impl Guard {
    /// In the data folder.
    pub fn open(data_dir: &Path) -> Result<Guard, StoreError> {
        Ok(Guard {
            grants: Grants::open(data_dir)?,
            confirmations: Arc::default(),
            calls: CallLedger::new(data_dir),
            begun: Begun::open(data_dir)?,
        })
    }

    /// Without the tools that this caller may never use: those a model does not even know of.
    pub fn without_never(&self, tools: ToolRegistry, scope: &CallerScope) -> ToolRegistry {
        let authority = self.grants.authority(scope);
        tools.only(|tool| authority.mode(&tool.name) != Some(ToolMode::Never))
    }

    /// The gate of a turn. `tainted`: the conversation that it goes on with holds foreign text already.
    pub fn turn<'a>(
        &'a self,
        scope: &'a CallerScope,
        turn: &'a TurnId,
        answer_bytes: Option<usize>,
        tainted: bool,
    ) -> TurnGate<'a> {
        let tainted = AtomicBool::new(tainted);
        TurnGate { guard: self, scope, turn, answer_bytes, tainted, approved: None }
    }

    /// The gate of a call that was confirmed: it lets exactly this one pass.
    pub fn approved<'a>(&'a self, taken: &'a Taken) -> TurnGate<'a> {
        TurnGate {
            guard: self,
            scope: &taken.scope,
            turn: &taken.turn,
            answer_bytes: None,
            tainted: AtomicBool::new(true),
            approved: Some(taken),
        }
    }
}

/// The gate of one turn.
pub struct TurnGate<'a> {
    guard: &'a Guard,
    scope: &'a CallerScope,
    turn: &'a TurnId,
    answer_bytes: Option<usize>,
    /// Text that neither the caller nor we wrote is before the model.
    tainted: AtomicBool,
    approved: Option<&'a Taken>,
}

impl TurnGate<'_> {
    fn decide(&self, tool: &ToolDef, arguments: &Value) -> Decision {
        if let Some(taken) = self.approved {
            return if taken.tool == tool.name && taken.arguments == *arguments {
                Decision::Approved
            } else {
                Decision::Denied("something else was confirmed".to_owned())
            };
        }
        let is_peer = match self.scope {
            CallerScope::LocalOperator { .. } => false,
            CallerScope::Mesh { assurance: Assurance::Verified, .. } => true,
            CallerScope::Mesh { .. } => {
                return Decision::Denied("this caller can confirm nothing".to_owned());
            }
        };
        let by_operator = is_peer && needs_operator(tool.category);
        let mode = self.guard.grants.authority(self.scope).mode(&tool.name);
        let tainted = self.tainted.load(Ordering::Relaxed);
        if mode == Some(ToolMode::Always) && !tainted && !by_operator {
            return Decision::Approved;
        }
        // Nobody confirms what does not fit before their eyes.
        let shown = shown_call(&tool.name, arguments).len() + ASKING_BYTES;
        let fits = self.answer_bytes.is_none_or(|bytes| shown <= bytes);
        let with_code = is_peer && !by_operator && fits;
        let added = self.guard.confirmations.add(&NewCall {
            scope: self.scope,
            turn: self.turn,
            tool: &tool.name,
            category: tool.category,
            arguments,
            with_code,
        });
        match added {
            Err(why) => Decision::Denied(why),
            Ok(()) if is_peer && !with_code => Decision::Waits(format!(
                "{} needs the operator of this node, who is asked now. Within 2 min you hear what came of it.",
                tool.name
            )),
            Ok(()) => Decision::Waits(format!("{} waits for your confirmation.", tool.name)),
        }
    }
}

impl Gate for TurnGate<'_> {
    fn turn(&self) -> Option<&TurnId> {
        Some(self.turn)
    }

    fn authority(&self, scope: &CallerScope) -> Authority {
        self.guard.grants.authority(scope)
    }

    fn ask<'a>(&'a self, tool: &'a ToolDef, arguments: &'a Value) -> Asking<'a> {
        let decision = self.decide(tool, arguments);
        Box::pin(std::future::ready(decision))
    }

    fn begins<'a>(&'a self, tool: &'a ToolDef) -> Noting<'a> {
        Box::pin(self.guard.begun.note(self.turn, &tool.name))
    }

    fn called(&self, call: &Called<'_>) {
        if call.foreign {
            self.tainted.store(true, Ordering::Relaxed);
        }
        self.guard.calls.add(&RecordedCall {
            at: clock::unix_ms(),
            turn_id: self.turn.clone(),
            caller: self.scope.caller().to_owned(),
            tool: call.tool.unwrap_or("(unknown)").to_owned(),
            category: call.category,
            outcome: call.outcome,
            millis: call.millis,
        });
    }
}
