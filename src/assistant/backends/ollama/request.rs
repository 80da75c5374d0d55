//! The body of a request to `/api/chat`.
//!
//! Owns its form and what is left out when the window is too small. Sends nothing.

use serde_json::{Map, Value, json};

use super::super::{ASSISTANT_MAX_TOKENS, Request, ToolCall, ToolSpec, Turn};
use crate::assistant::leaked_call::arguments_object;

/// Seconds that the server keeps the model: loading it takes a small machine minutes.
const KEEP_ALIVE_SECONDS: u32 = 1800;
/// An estimate that rather takes a text for too long: most texts have four bytes a token.
const BYTES_PER_TOKEN: usize = 3;
/// What the template adds to a message, in tokens.
const MESSAGE_TOKENS: usize = 8;

/// What the prompt may take of a window, in tokens: the rest is the answer's.
pub(super) fn budget(num_ctx: u32) -> usize {
    let answer = ASSISTANT_MAX_TOKENS.min(num_ctx / 4);
    usize::try_from(num_ctx - answer).unwrap_or(usize::MAX)
}

/// The whole body. The system's words, the tools and the question are always in it; `budget` limits the
/// rest, in tokens.
pub(super) fn body(model: &str, num_ctx: u32, request: Request<'_>, budget: usize) -> Value {
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let fixed = tokens(request.system.len())
        + tools.iter().map(|tool| tokens(tool.to_string().len())).sum::<usize>();
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.extend(fitting(request.history, budget.saturating_sub(fixed)));
    let mut body = json!({
        "model": model,
        "stream": false,
        "think": false,
        // Rather an error than a question that is dropped silently.
        "truncate": false,
        "keep_alive": KEEP_ALIVE_SECONDS,
        "options": { "num_predict": ASSISTANT_MAX_TOKENS, "num_ctx": num_ctx },
        "messages": messages,
    });
    if !tools.is_empty()
        && let Some(body) = body.as_object_mut()
    {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    })
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN) + MESSAGE_TOKENS
}

fn size(messages: &[Value]) -> usize {
    messages.iter().map(|message| tokens(message.to_string().len())).sum()
}

/// The messages that fit: the oldest turns go first, then the oldest calls of this turn with their results.
/// The question stays, and so do the last calls.
fn fitting(history: &[Turn], budget: usize) -> Vec<Value> {
    let question = history.iter().rposition(|turn| matches!(turn, Turn::User(_))).unwrap_or(0);
    let (past, present) = history.split_at(question);
    let mut past: Vec<Vec<Value>> = groups(past, |turn| matches!(turn, Turn::User(_)));
    let mut present = groups(present, |turn| !matches!(turn, Turn::ToolResult { .. }));

    let total = |groups: &[Vec<Value>]| groups.iter().map(|group| size(group)).sum::<usize>();
    let (mut old, mut new) = (total(&past), total(&present));
    while old + new > budget && !past.is_empty() {
        old -= size(&past.remove(0));
    }
    // The question is the first group, the last calls are the last.
    while new > budget && present.len() > 2 {
        new -= size(&present.remove(1));
    }
    past.into_iter().chain(present).flatten().collect()
}

/// Messages in groups that go or stay together; a new one begins where `first` says so.
fn groups(turns: &[Turn], first: impl Fn(&Turn) -> bool) -> Vec<Vec<Value>> {
    let mut groups: Vec<Vec<&Turn>> = Vec::new();
    for turn in turns {
        match groups.last_mut() {
            Some(group) if !first(turn) => group.push(turn),
            _ => groups.push(vec![turn]),
        }
    }
    groups.into_iter().map(|group| messages(&group)).collect()
}

fn messages(turns: &[&Turn]) -> Vec<Value> {
    let mut turns = turns.to_vec();
    // Most templates know results by their order only.
    let order: Vec<String> = turns
        .iter()
        .filter_map(|turn| match turn {
            Turn::Assistant { calls, .. } => Some(calls.iter().map(|call| call.id.clone())),
            _ => None,
        })
        .flatten()
        .collect();
    for run in turns.chunk_by_mut(|a, b| is_result(a) && is_result(b)) {
        run.sort_by_key(|turn| match turn {
            Turn::ToolResult { id, .. } => order.iter().position(|known| known == id),
            _ => None,
        });
    }
    turns.into_iter().map(message).collect()
}

fn is_result(turn: &Turn) -> bool {
    matches!(turn, Turn::ToolResult { .. })
}

fn message(turn: &Turn) -> Value {
    match turn {
        Turn::User(text) => json!({ "role": "user", "content": text }),
        Turn::Assistant { text, calls, .. } => {
            let mut message = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                message["tool_calls"] = calls.iter().enumerate().map(call).collect();
            }
            message
        }
        Turn::ToolResult { id, name, content, .. } => json!({
            "role": "tool",
            "content": content,
            "tool_name": name,
            "tool_call_id": id,
        }),
    }
}

fn call((index, call): (usize, &ToolCall)) -> Value {
    // The server takes nothing but an object; its place is with the call's refusal anyhow.
    let arguments: Map<String, Value> =
        arguments_object(call.arguments.clone()).unwrap_or_default();
    json!({
        "id": call.id,
        "function": { "index": index, "name": call.name, "arguments": arguments },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Turn {
        Turn::User(text.to_owned())
    }

    fn said(text: &str) -> Turn {
        Turn::Assistant { text: text.to_owned(), calls: Vec::new(), raw: None }
    }

    fn called(id: &str) -> Turn {
        let call = ToolCall { id: id.to_owned(), name: "t".to_owned(), arguments: json!({}) };
        Turn::Assistant { text: String::new(), calls: vec![call], raw: None }
    }

    fn result(id: &str, content: &str) -> Turn {
        Turn::ToolResult {
            id: id.to_owned(),
            name: "t".to_owned(),
            content: content.to_owned(),
            is_error: false,
        }
    }

    fn contents(messages: &[Value]) -> Vec<&str> {
        messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
    }

    #[test]
    fn the_oldest_turns_go_first_and_only_when_they_must() {
        let history = [user("one"), said("1"), user("two"), said("2"), user("three")];
        let all = fitting(&history, usize::MAX);
        let exact = size(&all);
        assert_eq!(contents(&fitting(&history, exact)), ["one", "1", "two", "2", "three"]);
        assert_eq!(contents(&fitting(&history, exact - 1)), ["two", "2", "three"]);
        assert_eq!(contents(&fitting(&history, 0)), ["three"]);
    }

    #[test]
    fn the_question_and_the_last_call_stay_when_nothing_fits() {
        let history = [
            user("old"),
            said("answer"),
            user("question"),
            called("a"),
            result("a", "first"),
            called("b"),
            result("b", "second"),
        ];
        assert_eq!(contents(&fitting(&history, 0)), ["question", "", "second"]);
        let all = size(&fitting(&history[2..], usize::MAX));
        assert_eq!(
            contents(&fitting(&history, all)),
            ["question", "", "first", "", "second"],
            "the past goes before a call of this turn does"
        );
    }

    #[test]
    fn results_are_sent_in_the_order_of_their_calls() {
        let call = |id: &str| ToolCall { id: id.into(), name: "t".into(), arguments: json!({}) };
        let calls = vec![call("a"), call("b")];
        let asked = Turn::Assistant { text: String::new(), calls, raw: None };
        let history = [user("q"), asked, result("b", "B"), result("a", "A")];
        assert_eq!(contents(&fitting(&history, usize::MAX)), ["q", "", "A", "B"]);
    }

    #[test]
    fn arguments_in_the_history_are_an_object_whatever_came() {
        for (came, sent) in [
            (json!({"a": "{\"b\": 1}"}), json!({"a": "{\"b\": 1}"})),
            (json!("{\"a\": 1}"), json!({"a": 1})),
            (json!("nonsense"), json!({})),
            (json!(3), json!({})),
        ] {
            let asked = ToolCall { id: "x".into(), name: "t".into(), arguments: came };
            assert_eq!(call((0, &asked))["function"]["arguments"], sent);
        }
    }

    #[test]
    fn an_answer_keeps_its_share_of_every_window() {
        assert_eq!(budget(8192), 6144);
        assert_eq!(budget(4096), 3072);
        assert_eq!(budget(256), 192);
    }
}
