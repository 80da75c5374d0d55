//! The body of a request to `/v1/messages`.
//!
//! Owns its form: turns that alternate, every call answered at once, and no sampling parameter. Sends
//! nothing.

use serde_json::{Value, json};

use super::super::window;
use super::super::{
    ASSISTANT_MAX_TOKENS, Request, SUMMARY_AFTER, SUMMARY_BEFORE, ToolCall, ToolSpec, Turn,
};
use crate::assistant::leaked_call::arguments_object;

/// Marks the raw form of an answer as this leg's: another leg's is not given back here.
pub(super) const RAW: &str = "claude";
/// The prompt is kept within this, in tokens: every model's window is larger, and more of a conversation is not sent
/// away.
pub(super) const BUDGET: usize = 14_336;
/// The result of a call whose own is not in the history.
const NOT_DONE: &str = "Not done.";

/// The whole body. The system's words, the tools and the question are always in it; `budget` limits the rest, in tokens.
pub(super) fn body(model: &str, request: Request<'_>, budget: usize) -> Value {
    let mut body = json!({ "model": model, "max_tokens": ASSISTANT_MAX_TOKENS });
    if !request.system.is_empty() {
        body["system"] = json!(request.system);
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
        body["tool_choice"] = json!({ "type": "auto", "disable_parallel_tool_use": true });
    }
    let left = budget.saturating_sub(window::fixed(request.system, request.tools));
    body["messages"] = Value::Array(messages(&window::fitting(request.history, left)));
    body
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    })
}

/// User and assistant in turn, the user first.
fn messages(history: &[&Turn]) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    // The calls that the last message made and nothing has answered yet.
    let mut open: Vec<String> = Vec::new();
    for turn in history {
        match turn {
            Turn::ToolResult { id, content, is_error, .. } => {
                let id = wire_id(id);
                let Some(at) = open.iter().position(|waiting| *waiting == id) else { continue };
                open.remove(at);
                add(&mut messages, "user", vec![result(&id, content, *is_error)]);
            }
            Turn::Summary(text) => {
                add(&mut messages, "user", text_block(&format!("{SUMMARY_BEFORE}{text}")));
                add(&mut messages, "assistant", text_block(SUMMARY_AFTER));
            }
            Turn::User(text) => {
                close(&mut messages, &mut open);
                add(&mut messages, "user", text_block(text));
            }
            Turn::Assistant { text, calls, raw } => {
                close(&mut messages, &mut open);
                let own = raw.as_ref().and_then(|raw| raw[RAW].as_array());
                let blocks = own.cloned().unwrap_or_else(|| blocks(text, calls));
                open = blocks
                    .iter()
                    .filter(|block| block["type"] == "tool_use")
                    .filter_map(|block| Some(block["id"].as_str()?.to_owned()))
                    .collect();
                add(&mut messages, "assistant", blocks);
            }
        }
    }
    close(&mut messages, &mut open);
    messages
        .into_iter()
        .skip_while(|(role, _)| *role == "assistant")
        .map(|(role, content)| json!({ "role": role, "content": content }))
        .collect()
}

/// Adds to the last message if it is of the same side.
fn add<'a>(messages: &mut Vec<(&'a str, Vec<Value>)>, role: &'a str, blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some((last, content)) if *last == role => content.extend(blocks),
        _ => messages.push((role, blocks)),
    }
}

/// Answers what is open: a call without a result is refused by the server.
fn close(messages: &mut Vec<(&str, Vec<Value>)>, open: &mut Vec<String>) {
    let results = open.drain(..).map(|id| result(&id, NOT_DONE, true)).collect();
    add(messages, "user", results);
}

fn result(id: &str, content: &str, is_error: bool) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
    if is_error {
        block["is_error"] = json!(true);
    }
    block
}

/// An empty block is refused by the server.
fn text_block(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({ "type": "text", "text": text })] }
}

fn blocks(text: &str, calls: &[ToolCall]) -> Vec<Value> {
    let mut blocks = text_block(text);
    blocks.extend(calls.iter().map(|call| {
        let input = arguments_object(call.arguments.clone()).unwrap_or_default();
        json!({ "type": "tool_use", "id": wire_id(&call.id), "name": wire_name(&call.name), "input": input })
    }));
    blocks
}

/// Another leg's id may hold what this server refuses.
fn wire_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Another leg's model may have made up a tool with a name that this server refuses.
fn wire_name(name: &str) -> String {
    let fitting: String = wire_id(name).chars().take(64).collect();
    if fitting.is_empty() { "_".to_owned() } else { fitting }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_server_would_refuse_is_made_to_fit() {
        for (name, sent) in [
            ("system_disk_status", "system_disk_status".to_owned()),
            ("web search!é", "web_search__".to_owned()),
            ("", "_".to_owned()),
            (&"x".repeat(65), "x".repeat(64)),
        ] {
            let call =
                ToolCall { id: "a b".to_owned(), name: name.to_owned(), arguments: json!({}) };
            let block = &blocks("", &[call])[0];
            assert_eq!((&block["name"], &block["id"]), (&json!(sent), &json!("a_b")));
        }
    }
}
