//! How a turn of the operator's goes on.
//!
//! Owns the moments that a page is told of: that a model is asked, which leg answered, which tool runs
//! and what became of it. No text of a question, an argument, a result or an answer is in them.

use std::collections::HashMap;

use serde::Serialize;

use super::{Bus, Event};
use crate::assistant::backends::{BackendTurn, ToolCall};
use crate::assistant::observer::Observer;
use crate::assistant::tools::Executed;
use crate::assistant::{ChatStatus, LegReason, PermissionCategory, SessionId, ToolOutcome, TurnId};

/// A tool's name is a model's text; no tool of ours has a longer one.
const MAX_NAME_CHARS: usize = 64;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A model is being asked.
    Thinking,
    /// A tool is called (no outcome yet), or was.
    Tool,
    /// A leg answered, or did not.
    Leg,
    /// The turn is over.
    Ended,
}

/// One moment of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    turn_id: TurnId,
    stage: Stage,
    #[serde(skip_serializing_if = "Option::is_none")]
    leg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<PermissionCategory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

/// What became of a leg, a tool or the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// Of a leg.
    Leg(LegOutcome),
    /// Of a tool's call.
    Tool(ToolOutcome),
    /// Of the turn.
    Turn(ChatStatus),
}

/// Did the leg answer?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LegOutcome {
    /// Yes.
    Answered,
    /// No, and the next one is asked; the reply's `reasons` say why.
    Skipped,
}

impl Moment {
    fn new(turn_id: TurnId, stage: Stage) -> Moment {
        Moment { turn_id, stage, leg: None, tool: None, category: None, outcome: None }
    }

    /// A model is being asked.
    pub fn thinking(turn_id: &str) -> Moment {
        Moment::new(TurnId(turn_id.to_owned()), Stage::Thinking)
    }
}

/// Tells the bus of one turn, from its beginning to its end, however it ends.
#[derive(Debug)]
pub struct Watch {
    bus: Bus,
    session: SessionId,
    turn_id: TurnId,
    categories: HashMap<String, PermissionCategory>,
    end: Option<(ChatStatus, String)>,
}

impl Watch {
    /// The turn begins. `tools` are the categories of the node's tools by their names.
    pub fn begin(
        bus: Bus,
        session: SessionId,
        turn_id: TurnId,
        tools: HashMap<String, PermissionCategory>,
    ) -> Watch {
        let watch = Watch { bus, session, turn_id, categories: tools, end: None };
        watch.tell(watch.moment(Stage::Thinking));
        watch
    }

    /// The turn has ended by itself. Dropped without it, the watch says that it failed.
    pub fn end(mut self, status: ChatStatus, leg: &str) {
        self.end = Some((status, leg.to_owned()));
    }

    fn moment(&self, stage: Stage) -> Moment {
        Moment::new(self.turn_id.clone(), stage)
    }

    fn tell(&self, moment: Moment) {
        self.bus.publish(Event::Turn { session: self.session.clone(), moment });
    }

    fn of_tool(&self, name: &str, category: Option<PermissionCategory>) -> Moment {
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        Moment { tool: Some(name), category, ..self.moment(Stage::Tool) }
    }
}

impl Observer for Watch {
    fn skipped(&self, leg: &LegReason) {
        self.tell(Moment {
            leg: Some(leg.leg.clone()),
            outcome: Some(Outcome::Leg(LegOutcome::Skipped)),
            ..self.moment(Stage::Leg)
        });
    }

    fn answered(&self, leg: &'static str, _: &BackendTurn) {
        self.tell(Moment {
            leg: Some(leg.to_owned()),
            outcome: Some(Outcome::Leg(LegOutcome::Answered)),
            ..self.moment(Stage::Leg)
        });
    }

    fn calling(&self, call: &ToolCall) {
        self.tell(self.of_tool(&call.name, self.categories.get(&call.name).copied()));
    }

    fn called(&self, _: &ToolCall, executed: &Executed) {
        let record = &executed.record;
        self.tell(Moment {
            outcome: Some(Outcome::Tool(record.outcome)),
            ..self.of_tool(&record.name, record.category)
        });
        self.tell(self.moment(Stage::Thinking));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (status, leg) = self.end.take().unwrap_or((ChatStatus::Failed, String::new()));
        self.tell(Moment {
            leg: Some(leg).filter(|leg| !leg.is_empty()),
            outcome: Some(Outcome::Turn(status)),
            ..self.moment(Stage::Ended)
        });
    }
}
