//! The body of a request to `/api/chat`.
//!
//! Owns its form and what is left out when the window is too small. Sends nothing.

use serde_json::{Map, Value, json};

use super::super::window;
use super::super::{
    ASSISTANT_MAX_TOKENS, Request, SUMMARY_AFTER, SUMMARY_BEFORE, ToolCall, ToolSpec, Turn,
};
use crate::assistant::leaked_call::arguments_object;

/// Seconds that the server keeps the model: loading it takes a small machine minutes.
const KEEP_ALIVE_SECONDS: u32 = 1800;
/// The whole body. The system's words, the tools and the question are always in it; `budget` limits the
/// rest, in tokens.
pub(super) fn body(model: &str, num_ctx: u32, request: Request<'_>, budget: usize) -> Value {
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let left = budget.saturating_sub(window::fixed(request.system, request.tools));
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.extend(self::messages(&window::fitting(request.history, left)));
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
    turns.into_iter().flat_map(message).collect()
}

fn is_result(turn: &Turn) -> bool {
    matches!(turn, Turn::ToolResult { .. })
}

fn message(turn: &Turn) -> Vec<Value> {
    vec![match turn {
        Turn::Summary(text) => {
            return vec![
                json!({ "role": "user", "content": format!("{SUMMARY_BEFORE}{text}") }),
                json!({ "role": "assistant", "content": SUMMARY_AFTER }),
            ];
        }
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
    }]
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

    fn contents(messages: &[Value]) -> Vec<&str> {
        messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_summary_is_told_and_taken_note_of() {
        let history = [Turn::Summary("S".to_owned()), Turn::User("q".to_owned())];
        let sent = body("m", 4096, Request { system: "", tools: &[], history: &history }, 1000);
        let messages = sent["messages"].as_array().unwrap();
        assert_eq!(contents(messages), [&format!("{SUMMARY_BEFORE}S"), SUMMARY_AFTER, "q"]);
        let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
    }

    #[test]
    fn results_are_sent_in_the_order_of_their_calls() {
        let call = |id: &str| ToolCall { id: id.into(), name: "t".into(), arguments: json!({}) };
        let calls = vec![call("a"), call("b")];
        let asked = Turn::Assistant { text: String::new(), calls, raw: None };
        let result = |id: &str, content: &str| Turn::ToolResult {
            id: id.into(),
            name: "t".into(),
            content: content.into(),
            is_error: false,
        };
        let (b, a) = (result("b", "B"), result("a", "A"));
        let question = Turn::User("q".into());
        assert_eq!(contents(&messages(&[&question, &asked, &b, &a])), ["q", "", "A", "B"]);
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
}
