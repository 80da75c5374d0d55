//! The loop: from a question to an answer, with tools in between.
//!
//! Owns the limits of a turn. Every call goes through `execute_tool`; the loop itself can do nothing.

use std::collections::HashMap;

use super::backends::offline::Offline;
use super::backends::{BackendTurn, Request, ToolCall, Turn};
use super::caller::CallerScope;
use super::gate::Gate;
use super::legs::{Nobody, Walk};
use super::observer::Observer;
use super::tools::{ToolRegistry, execute_tool};
use super::{ChatStatus, LegReason, ToolRecord};

/// Requests to a model in one turn.
pub const MAX_TURNS: usize = 8;
/// Characters of a tool's result that a model is given.
pub const MAX_TOOL_RESULT_CHARS: usize = 4000;
/// Calls that are carried out of one answer of a model.
const MAX_CALLS: usize = 8;
/// The same call this often ends the turn.
const MAX_REPEATS: usize = 4;

/// What a caller is told when no model could be reached.
pub const NO_MODEL: &str = "No model can be reached now. Please ask again later.";
/// The same for a caller for whom the node itself knows something.
pub const NO_MODEL_BUT_FIXED: &str =
    "No model can be reached now; only fixed questions, such as free disk space, are answered.";
/// What a caller is told when a model was reached and said nothing of use.
pub const NO_USE: &str = "The model gave no usable answer. Please ask it in another way.";
/// What a caller is told when the question is larger than any model's window.
pub const TOO_MUCH: &str = "That question is too long for the model.";
/// What a caller is told when the model did not come to an end.
const NO_END: &str = "I could not find an answer to that. Please ask it in another way.";

/// How the loop ended.
#[derive(Debug)]
pub struct Outcome {
    /// Answered, or failed.
    pub status: ChatStatus,
    /// The answer, or one honest line.
    pub text: String,
    /// The leg that answered.
    pub backend: &'static str,
    /// The ledger.
    pub tools: Vec<ToolRecord>,
    /// A model wrote the text, and may have made it of foreign words.
    pub foreign: bool,
}

/// What holds for a turn from its first request to its end.
pub struct Rules<'a> {
    /// The tools; a call of anything else is an error.
    pub registry: &'a ToolRegistry,
    /// Whose turn it is.
    pub scope: &'a CallerScope,
    /// Who confirms what changes something.
    pub gate: &'a dyn Gate,
    /// Who watches.
    pub observer: &'a dyn Observer,
    /// The system prompt.
    pub system: &'a str,
    /// Requests to a model; more than [`MAX_TURNS`] are never made.
    pub max_turns: usize,
    /// The call without which the question can't be answered, if that is plain from its words. A model
    /// that answers without it is reminded once; then the call is made for it, as any other: through
    /// `execute_tool`, under the same scope and gate.
    pub needed: Option<ToolCall>,
}

/// How far the loop went to have the needed call made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nudge {
    /// Nothing is needed, or it was made.
    Over,
    Waiting,
    Reminded,
}

/// A turn under way.
struct Running<'r, 'a> {
    rules: &'r Rules<'a>,
    history: Vec<Turn>,
    tools: Vec<ToolRecord>,
    /// How often each call was made, and what came of it.
    made: HashMap<String, (usize, String)>,
    nudge: Nudge,
    /// A call waits for somebody to decide: the turn ends with these words.
    waits: Option<String>,
    /// The model has been given foreign words.
    foreign: bool,
}

/// Runs until there is an answer, or a limit is met. `history` ends with the question.
pub async fn run_loop(walk: &mut Walk<'_>, rules: &Rules<'_>, history: Vec<Turn>) -> Outcome {
    let specs = rules.registry.offered_to(rules.scope);
    let needed = rules.needed.as_ref();
    let can = needed.is_some_and(|call| specs.iter().any(|spec| spec.name == call.name));
    let mut running = Running {
        rules,
        history,
        tools: Vec::new(),
        made: HashMap::new(),
        nudge: if can { Nudge::Waiting } else { Nudge::Over },
        waits: None,
        foreign: false,
    };
    let mut backend = "offline";
    let mut told: Vec<LegReason> = Vec::new();
    for _ in 0..rules.max_turns.min(MAX_TURNS) {
        let request = Request { system: rules.system, tools: &specs, history: &running.history };
        walk.kept
            .seen
            .extend(running.tools.iter().filter(|tool| tool.ran()).filter_map(|t| t.category));
        let answer = walk.send(request).await;
        for reason in walk.reasons.iter().filter(|reason| !told.contains(reason)) {
            rules.observer.skipped(reason);
        }
        told.clone_from(&walk.reasons);
        let Some((leg, turn)) = answer else {
            let line = match walk.nobody {
                Nobody::NoModel if Offline::knows_any(&specs) => NO_MODEL_BUT_FIXED,
                Nobody::NoModel => NO_MODEL,
                Nobody::NoUse => NO_USE,
                Nobody::TooMuch => TOO_MUCH,
            };
            return running.end(ChatStatus::Failed, line.to_owned(), backend);
        };
        backend = leg;
        rules.observer.answered(leg, &turn);
        match turn {
            BackendTurn::Text(mut text) => {
                if walk.toolless {
                    text.push_str("\n\n(Answered without tools.)");
                } else if running.asks_again().await {
                    continue;
                }
                return running.end(ChatStatus::Answered, text, backend);
            }
            BackendTurn::ToolCalls { text, calls, raw } => {
                running.history.push(Turn::Assistant { text, calls: calls.clone(), raw });
                for (index, call) in calls.iter().enumerate() {
                    if !running.call(call, index).await {
                        return running.end(ChatStatus::Failed, NO_END.to_owned(), backend);
                    }
                    if let Some(words) = running.waits.take() {
                        // Words of ours, whatever the model had read.
                        running.foreign = false;
                        return running.end(ChatStatus::Answered, words, backend);
                    }
                }
            }
        }
    }
    running.end(ChatStatus::Failed, NO_END.to_owned(), backend)
}

impl Running<'_, '_> {
    fn end(self, status: ChatStatus, text: String, backend: &'static str) -> Outcome {
        Outcome { status, text, backend, tools: self.tools, foreign: self.foreign }
    }

    /// Carries out one call. `false`: the model goes round in circles.
    async fn call(&mut self, call: &ToolCall, index: usize) -> bool {
        let Rules { registry, scope, gate, observer, .. } = self.rules;
        if self.rules.needed.as_ref().is_some_and(|needed| needed.name == call.name) {
            self.nudge = Nudge::Over;
        }
        let repeats = self.made.entry(fingerprint(call)).or_default();
        repeats.0 += 1;
        if repeats.0 >= MAX_REPEATS {
            return false;
        }
        let (content, is_error) = if index >= MAX_CALLS {
            ("Not done: too many calls at once.".to_owned(), true)
        } else if repeats.0 > 1 {
            let again = format!(
                "You have made this very call already. Its result was:\n{}\nAnswer now.",
                repeats.1
            );
            (again, false)
        } else {
            observer.calling(call);
            let executed = execute_tool(registry, scope, call, *gate).await;
            observer.called(call, &executed);
            let content = cut(&executed.content);
            self.foreign |= executed.foreign;
            self.waits = executed.waits.then(|| content.clone());
            self.tools.push(executed.record);
            repeats.1.clone_from(&content);
            (content, executed.is_error)
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        self.history.push(Turn::ToolResult { id, name, content, is_error });
        true
    }

    /// The model answered. Is the tool that the question needs still to be used, and the model to be
    /// asked once more?
    async fn asks_again(&mut self) -> bool {
        let Some(needed) = &self.rules.needed else { return false };
        match self.nudge {
            Nudge::Over => false,
            Nudge::Waiting => {
                self.nudge = Nudge::Reminded;
                self.rules.observer.reminded(&needed.name);
                // With the question, so that both stay together when the window is small; the answer
                // without the tool is worth nothing and is not repeated.
                if let Some(Turn::User(question)) = self.history.last_mut() {
                    question.push_str(&format!(
                        "\n\n(This needs the tool {}. Call it first, then answer from its result.)",
                        needed.name
                    ));
                }
                true
            }
            Nudge::Reminded => {
                self.rules.observer.made_for_the_model(needed);
                let calls = vec![needed.clone()];
                self.history.push(Turn::Assistant { text: String::new(), calls, raw: None });
                self.call(needed, 0).await
            }
        }
    }
}

/// The same call is the same name with the same arguments, whatever its id.
fn fingerprint(call: &ToolCall) -> String {
    let mut arguments = call.arguments.clone();
    arguments.sort_all_objects();
    format!("{}\u{0}{arguments}", call.name)
}

fn cut(content: &str) -> String {
    match content.char_indices().nth(MAX_TOOL_RESULT_CHARS) {
        None => content.to_owned(),
        Some((end, _)) => {
            let rest = content.get(end..).map_or(0, |rest| rest.chars().count());
            format!("{}\n[… {rest} more characters cut]", content.get(..end).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests;
