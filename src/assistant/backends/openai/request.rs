//! The body of a request to `/chat/completions`.
//!
//! Owns its form: arguments as a text of JSON, every result under its call's id, and no sampling parameter
//! (some models refuse them). Sends nothing.

use serde_json::{Value, json};

use super::super::window;
use super::super::{
    ASSISTANT_MAX_TOKENS, Request, SUMMARY_AFTER, SUMMARY_BEFORE, ToolCall, ToolSpec, Turn,
};
use crate::assistant::leaked_call::arguments_object;

/// By which name the length cap goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cap {
    /// `max_tokens`: what most servers know.
    Older,
    /// `max_completion_tokens`: what some models want instead.
    Newer,
}

/// The whole body. The system's words, the tools and the question are always in it; `budget` limits the rest,
/// in tokens.
pub(super) fn body(model: &str, request: Request<'_>, budget: usize, cap: Cap) -> Value {
    let left = budget.saturating_sub(window::fixed(request.system, request.tools));
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.extend(window::fitting(request.history, left).into_iter().flat_map(message));
    let cap = match cap {
        Cap::Older => "max_tokens",
        Cap::Newer => "max_completion_tokens",
    };
    let mut body = json!({ "model": model, "stream": false, cap: ASSISTANT_MAX_TOKENS });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body["messages"] = Value::Array(messages);
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

fn message(turn: &Turn) -> Vec<Value> {
    vec![match turn {
        Turn::Summary(text) => {
            return vec![
                json!({ "role": "user", "content": format!("{SUMMARY_BEFORE}{text}") }),
                json!({ "role": "assistant", "content": SUMMARY_AFTER }),
            ];
        }
        Turn::User(text) => json!({ "role": "user", "content": text }),
        Turn::Assistant { text, calls, .. } if calls.is_empty() => {
            json!({ "role": "assistant", "content": text })
        }
        Turn::Assistant { text, calls, .. } => {
            // Only beside calls may there be no text.
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        Turn::ToolResult { id, content, .. } => {
            json!({ "role": "tool", "tool_call_id": id, "content": content })
        }
    }]
}

fn call(call: &ToolCall) -> Value {
    // Some servers refuse what is not the text of an object; its place is with the call's refusal anyhow.
    let arguments = Value::Object(arguments_object(call.arguments.clone()).unwrap_or_default());
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": arguments.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_sent_as_the_text_of_an_object_whatever_came() {
        for (came, sent) in [
            (json!({"b": 1, "a": "x"}), r#"{"b":1,"a":"x"}"#),
            (json!("{\"a\": 1}"), r#"{"a":1}"#),
            (json!("nonsense"), "{}"),
            (json!([1]), "{}"),
            (Value::Null, "{}"),
        ] {
            let asked = ToolCall { id: "x".into(), name: "t".into(), arguments: came };
            assert_eq!(call(&asked)["function"]["arguments"], sent);
        }
    }
}
