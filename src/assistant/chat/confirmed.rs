//! What was confirmed, carried out; and what the operator asks and sets about tools.
//!
//! Owns the way from a taken call to its result without another model turn. A confirmed call goes through
//! `execute_tool` like any other, under the caller's authority at that instant.

use std::time::Duration;

use tracing::{error, info};

use super::Assistant;
use crate::assistant::backends::ToolCall;
use crate::assistant::call_ledger::RecordedCall;
use crate::assistant::caller::{CallerScope, CategorySet};
use crate::assistant::confirm::{PendingCall, Prompt, Taken, Told, needs_operator};
use crate::assistant::grants::{self, CallerGrants, GrantError, Grants, OPERATOR, ToolMode, Wish};
use crate::assistant::history::StoredTurn;
use crate::assistant::tools::execute_tool;
use crate::assistant::{ChatStatus, ToolOutcome, TurnId};
use crate::clock;
use crate::store::StoreError;

/// A confirmed call may take this long; no tool of ours takes longer.
const RUN: Duration = Duration::from_secs(150);

/// What came of a call about which was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// `None`: it was dropped, nothing was called.
    pub outcome: Option<ToolOutcome>,
    /// The tool's result, or one line on why there is none.
    pub text: String,
}

impl Assistant {
    /// What waits for a confirmation, of all callers, oldest first.
    pub fn pending(&self) -> Vec<PendingCall> {
        self.guard.confirmations.list()
    }

    /// How many wait, each time that it changes.
    pub fn pending_count(&self) -> tokio::sync::watch::Receiver<usize> {
        self.guard.confirmations.watch()
    }

    /// What that turn left waiting.
    pub fn pending_of(&self, turn: &TurnId) -> Option<PendingCall> {
        self.guard.confirmations.of_turn(turn)
    }

    /// What a peer is to be asked after that turn.
    pub fn prompt_of(&self, turn: &TurnId) -> Option<Prompt> {
        self.guard.confirmations.prompt(turn)
    }

    /// What is to be told the peer of that turn, once it was decided; `None` when nothing waits.
    pub fn told_of(&self, turn: &TurnId) -> Option<Told> {
        self.guard.confirmations.told(turn)
    }

    /// Does a call of that caller wait for its code?
    pub fn waits_for_code(&self, scope: &CallerScope) -> bool {
        scope.history_key().is_some() && self.guard.confirmations.waits_for_code(scope.caller())
    }

    /// Takes the call that waits for this code, for this caller alone.
    pub fn take_by_code(&self, scope: &CallerScope, code: &str) -> Option<Taken> {
        // The key must have been proven, for this message too.
        scope.history_key()?;
        self.guard.confirmations.take_by_code(scope.caller(), code)
    }

    /// Takes a call for the operator to decide on.
    pub fn take(&self, id: &str) -> Option<Taken> {
        self.guard.confirmations.take(id)
    }

    /// Drops whatever waits for that caller.
    pub fn drop_pending(&self, caller: &str) {
        self.guard.confirmations.drop_caller(caller);
    }

    /// Does what was decided. The one who holds a [`Taken`] is the only one who can.
    pub async fn settle(&self, mut taken: Taken, approve: bool, by_operator: bool) -> Settled {
        if !approve {
            info!(turn = taken.turn.0, tool = taken.tool, "a call was dropped");
            taken.tell(by_operator.then(|| "The operator said no: nothing was done.".to_owned()));
            return Settled { outcome: None, text: "Nothing was done.".to_owned() };
        }
        let mark = self.history.mark();
        let call = ToolCall {
            id: taken.id.clone(),
            name: taken.tool.clone(),
            arguments: taken.arguments.clone(),
        };
        let executed = {
            let gate = self.guard.approved(&taken);
            tokio::time::timeout(RUN, execute_tool(&self.registry(), &taken.scope, &call, &gate))
                .await
        };
        let Ok(executed) = executed else {
            let text = "That took too long. It may have been done in part.".to_owned();
            taken.tell(Some(text.clone()));
            return Settled { outcome: Some(ToolOutcome::Failed), text };
        };
        let outcome = executed.record.outcome;
        if let Some(key) = taken.scope.history_key() {
            // That it was done, so that the next turn knows; neither arguments nor result.
            let answer = match outcome {
                ToolOutcome::Ran => format!("{} was confirmed and done.", taken.tool),
                _ => format!("{} was confirmed and could not be done.", taken.tool),
            };
            let turn = StoredTurn {
                turn_id: TurnId(format!("c-{}", taken.id)),
                at: clock::unix_ms(),
                question: "(confirmed)".to_owned(),
                answer,
                status: ChatStatus::Answered,
                backend: String::new(),
                tools: vec![executed.record],
                foreign: Some(false),
                made_of: Some(CategorySet::new()),
            };
            if let Err(error) = self.history.add_since(&key, mark, turn) {
                error!(%error, "a confirmed call could not be written to its transcript");
            }
        }
        // For the air: no raw error.
        taken.tell(Some(match outcome {
            ToolOutcome::Ran if executed.content.trim().is_empty() => "Done.".to_owned(),
            ToolOutcome::Ran => executed.content.clone(),
            ToolOutcome::Failed => "It was tried, and did not work.".to_owned(),
            _ => "It was not done: that is not allowed any more.".to_owned(),
        }));
        Settled { outcome: Some(outcome), text: executed.content }
    }

    /// The grants store: what is granted now.
    pub fn grants(&self) -> &Grants {
        &self.guard.grants
    }

    /// Everybody's grants.
    pub fn list_grants(&self) -> Vec<CallerGrants> {
        self.guard.grants.list()
    }

    /// Changes a caller's grants.
    ///
    /// # Errors
    /// Nothing has changed then; the text says what would be right.
    pub fn set_grant(&self, caller: &str, wish: Wish, by: &str) -> Result<(), GrantError> {
        if let Wish::Tool { tool, mode: Some(mode), .. } = &wish {
            let tools = self.registry();
            let Some(known) = tools.get(tool) else {
                let names: Vec<String> = tools.all().map(|tool| tool.name.to_string()).collect();
                return Err(GrantError::UnknownTool {
                    tool: grants::shown(tool),
                    known: names.join(", "),
                });
            };
            let always = *mode == ToolMode::Always && known.destructive;
            if always && caller != OPERATOR && needs_operator(known.category) {
                let (tool, category) = (tool.clone(), known.category);
                return Err(GrantError::OperatorOnly { tool, category });
            }
        }
        self.guard.grants.set(caller, wish, by)
    }

    /// The last tool calls of all callers, the newest last.
    pub fn calls(&self, limit: usize) -> Result<Vec<RecordedCall>, StoreError> {
        self.guard.calls.last(limit)
    }
}
