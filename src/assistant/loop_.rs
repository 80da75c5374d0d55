//! The loop: from a question to an answer, with tools in between.
//!
//! Owns the limits of a turn. Every call goes through `execute_tool`; the loop itself can do nothing.

use std::collections::HashMap;

use super::backends::{BackendTurn, Request, ToolCall, Turn};
use super::caller::CallerScope;
use super::legs::Walk;
use super::tools::{ToolRegistry, execute_tool};
use super::{ChatStatus, ToolRecord};

/// Requests to a model in one turn.
pub const MAX_TURNS: usize = 8;
/// Characters of a tool's result that a model is given.
pub const MAX_TOOL_RESULT_CHARS: usize = 4000;
/// Calls that are carried out of one answer of a model.
const MAX_CALLS: usize = 8;
/// The same call this often ends the turn.
const MAX_REPEATS: usize = 4;

/// What a caller is told when no model could answer.
const NO_MODEL: &str =
    "No model can be reached now; only fixed questions, such as free disk space, are answered.";
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
}

/// Runs until there is an answer, or a limit is met. `history` ends with the question.
pub async fn run_loop(
    walk: &mut Walk<'_>,
    registry: &ToolRegistry,
    scope: &CallerScope,
    system: &str,
    mut history: Vec<Turn>,
) -> Outcome {
    let specs = registry.offered_to(scope);
    let mut tools = Vec::new();
    let mut made: HashMap<String, (usize, String)> = HashMap::new();
    let mut backend = "offline";
    for _ in 0..MAX_TURNS {
        let request = Request { system, tools: &specs, history: &history };
        let Some((leg, turn)) = walk.send(request).await else {
            return Outcome {
                status: ChatStatus::Failed,
                text: NO_MODEL.to_owned(),
                backend,
                tools,
            };
        };
        backend = leg;
        match turn {
            BackendTurn::Text(mut text) => {
                if walk.toolless {
                    text.push_str("\n\n(Answered without tools.)");
                }
                return Outcome { status: ChatStatus::Answered, text, backend, tools };
            }
            BackendTurn::ToolCalls { text, calls, raw } => {
                history.push(Turn::Assistant { text, calls: calls.clone(), raw });
                for (index, call) in calls.iter().enumerate() {
                    let repeats = made.entry(fingerprint(call)).or_default();
                    repeats.0 += 1;
                    if repeats.0 >= MAX_REPEATS {
                        let text = NO_END.to_owned();
                        return Outcome { status: ChatStatus::Failed, text, backend, tools };
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
                        let executed = execute_tool(registry, scope, call).await;
                        tools.push(executed.record);
                        let content = cut(&executed.content);
                        repeats.1.clone_from(&content);
                        (content, executed.is_error)
                    };
                    let (id, name) = (call.id.clone(), call.name.clone());
                    history.push(Turn::ToolResult { id, name, content, is_error });
                }
            }
        }
    }
    Outcome { status: ChatStatus::Failed, text: NO_END.to_owned(), backend, tools }
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
