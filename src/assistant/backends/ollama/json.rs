//! The JSON protocol: tools for models that can't call them.
//!
//! Owns the words that describe the tools, the two forms that a reply may have, and asking again when it
//! has neither. Decides nothing about a call: what is read here is checked like any other.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::{
    Answer, Backend, BackendError, BackendTurn, Capabilities, Request, ToolCall, ToolSpec, window,
};
use super::{Ollama, answer, request, synthesize_call_id};
use crate::assistant::leaked_call::without_thoughts;
use crate::assistant::observer::{Observer, Unwatched};

/// A reply that breaks the protocol is asked for again this often.
const ASKED_AGAIN: usize = 3;
/// Characters of such a reply that the model is shown.
const MAX_SHOWN: usize = 600;
/// Tokens of the window that are kept free for asking again.
const RESERVE: usize = 300;

/// The local leg with that protocol. Every model can do it, more or less.
pub struct JsonProtocol {
    server: Ollama,
    observer: Arc<dyn Observer>,
}

/// A reply that keeps to the protocol.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Reply {
    ToolCall { name: String, arguments: Map<String, Value> },
    Final { content: String },
}

impl JsonProtocol {
    /// Over that server and model.
    pub fn new(server: Ollama) -> JsonProtocol {
        JsonProtocol::watched(server, Arc::new(Unwatched))
    }

    /// The same; the observer is shown every reply, those too that are asked for again.
    pub fn watched(server: Ollama, observer: Arc<dyn Observer>) -> JsonProtocol {
        JsonProtocol { server, observer }
    }

    async fn ask(&self, asked: Request<'_>) -> Result<BackendTurn, BackendError> {
        let shown = self.server.shown().await?;
        let system = format!("{}\n\n{}", asked.system, describe(asked.tools));
        let bare = Request { system: &system, tools: &[], history: asked.history };
        let mut budget = window::budget(shown.num_ctx).saturating_sub(RESERVE);
        let mut shorter = false;
        let mut rejected: Option<[Value; 2]> = None;
        let mut again = 0;
        loop {
            let mut body = self.body(bare, shown.num_ctx, budget);
            if let Some(messages) = body["messages"].as_array_mut() {
                messages.extend(rejected.iter().flatten().cloned());
            }
            let reply = self.server.exchange(&body).await?;
            if answer::is_too_long(&reply) && !shorter {
                // The text has more tokens than it was estimated to have.
                shorter = true;
                budget /= 2;
                continue;
            }
            if reply.status != 200 {
                return Err(self.server.refused(&reply, shown).await);
            }
            let content = answer::content(&reply)?;
            self.observer.raw(&content);
            let why = match read(&content) {
                Ok(turn) => return Ok(turn),
                Err(why) => why,
            };
            self.observer.rejected(&why);
            if again == ASKED_AGAIN {
                return Err(BackendError::Broken(
                    "the model does not keep to the JSON protocol".to_owned(),
                ));
            }
            again += 1;
            let begun: String = content.chars().take(MAX_SHOWN).collect();
            let reminder = format!("Rejected: {why}. Reply with exactly one of the JSON forms.");
            rejected = Some([
                json!({ "role": "assistant", "content": begun }),
                json!({ "role": "user", "content": reminder }),
            ]);
        }
    }

    fn body(&self, bare: Request<'_>, num_ctx: u32, budget: usize) -> Value {
        let mut body = request::body(&self.server.model, num_ctx, bare, budget);
        body["format"] = json!("json");
        body["options"]["temperature"] = json!(0);
        if let Some(messages) = body["messages"].as_array_mut() {
            let plain = std::mem::take(messages).into_iter().flat_map(as_text).collect();
            *messages = plain;
        }
        body
    }
}

impl Backend for JsonProtocol {
    fn name(&self) -> &'static str {
        self.server.name()
    }

    fn is_cloud(&self) -> bool {
        self.server.is_cloud()
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async {
            self.server.shown().await?;
            Ok(Capabilities { tools: true })
        })
    }

    fn there(&self) -> Answer<'_, Capabilities> {
        Box::pin(async {
            self.server.there().await?;
            Ok(Capabilities { tools: true })
        })
    }

    fn repeats(&self) -> bool {
        // It has asked again itself, and said why.
        false
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(self.ask(request))
    }
}

/// The part of the system prompt that stands for the missing `tools`.
fn describe(tools: &[ToolSpec]) -> String {
    let mut words = String::from(
        "Reply with exactly one JSON object and nothing else. To answer, reply\n\
         {\"type\":\"final\",\"content\":\"the answer\"}\n",
    );
    if tools.is_empty() {
        return words;
    }
    words.push_str(
        "To use a tool, reply\n\
         {\"type\":\"tool_call\",\"name\":\"the tool's name\",\"arguments\":{}}\n\
         with the arguments that its schema asks for. One call a reply; its result comes as\n\
         {\"type\":\"tool_result\",\"name\":\"…\",\"content\":\"…\"}\n\
         Never write a result yourself. The tools:\n",
    );
    for tool in tools {
        let tool = json!({
            "name": tool.name,
            "description": tool.description,
            "arguments": tool.parameters,
        });
        words.push_str(&format!("{tool}\n"));
    }
    words
}

/// A reply, or what is wrong with it in words for the model.
fn read(content: &str) -> Result<BackendTurn, String> {
    if content.trim().is_empty() {
        return Err("the reply was empty".to_owned());
    }
    // Thoughts stand before the reply; what looks like them inside of it belongs to it.
    let reply = serde_json::from_str(content)
        .or_else(|error| serde_json::from_str(&without_thoughts(content)).map_err(|_| error));
    match reply.map_err(|error| error.to_string())? {
        Reply::ToolCall { name, .. } if name.is_empty() => Err("the name is empty".to_owned()),
        Reply::ToolCall { name, arguments } => {
            let arguments = Value::Object(arguments);
            let calls = vec![ToolCall { id: synthesize_call_id(), name, arguments }];
            Ok(BackendTurn::ToolCalls { text: String::new(), calls, raw: None })
        }
        Reply::Final { content } if content.trim().is_empty() => {
            Err("the content is empty".to_owned())
        }
        Reply::Final { content } => Ok(BackendTurn::Text(content)),
    }
}

/// A message of the native form, as this protocol has it: everything is the text of somebody.
fn as_text(message: Value) -> Vec<Value> {
    let said = |content: Value| json!({ "role": "assistant", "content": content.to_string() });
    match (message["role"].as_str(), message["tool_calls"].as_array()) {
        (Some("assistant"), Some(calls)) => calls
            .iter()
            .map(|call| {
                let function = &call["function"];
                said(json!({
                    "type": "tool_call",
                    "name": function["name"],
                    "arguments": function["arguments"],
                }))
            })
            .collect(),
        (Some("assistant"), None) => {
            vec![said(json!({ "type": "final", "content": message["content"] }))]
        }
        (Some("tool"), _) => {
            let result = json!({
                "type": "tool_result",
                "name": message["tool_name"],
                "content": message["content"],
            });
            vec![json!({ "role": "user", "content": result.to_string() })]
        }
        _ => vec![message],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_one_of_two_forms_exactly() {
        let turn = read(r#"{"type":"tool_call","name":"t","arguments":{"a":"</think>"}}"#);
        let Ok(BackendTurn::ToolCalls { calls, .. }) = turn else { panic!("{turn:?}") };
        assert_eq!((calls[0].name.as_str(), &calls[0].arguments["a"]), ("t", &json!("</think>")));
        let answered = Ok(BackendTurn::Text("yes".to_owned()));
        assert_eq!(read(" {\"content\":\"yes\",\"type\":\"final\"}\n"), answered);
        assert_eq!(read("<think>{</think>{\"type\":\"final\",\"content\":\"yes\"}"), answered);
        for broken in [
            "",
            " \n",
            "yes",
            "{}",
            "[]",
            r#"{"type":"final"}"#,
            r#"{"type":"final","content":" "}"#,
            r#"{"type":"final","content":1}"#,
            r#"{"type":"final","content":"a","more":1}"#,
            r#"{"type":"final","content":"a"} and so on"#,
            r#"{"type":"tool_call","name":"t"}"#,
            r#"{"type":"tool_call","name":"","arguments":{}}"#,
            r#"{"type":"tool_call","name":"t","arguments":"{}"}"#,
            r#"{"type":"tool_call","name":"t","arguments":[]}"#,
            r#"{"type":"other","name":"t","arguments":{}}"#,
            r#"{"name":"t","arguments":{}}"#,
        ] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn calls_and_results_are_texts_that_cannot_be_taken_for_one_another() {
        let native = json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "1", "function": {"index": 0, "name": "t", "arguments": {"a": 1}}},
        ]});
        let texts = as_text(native);
        let call = json!({"type": "tool_call", "name": "t", "arguments": {"a": 1}});
        assert_eq!(texts, [json!({"role": "assistant", "content": call.to_string()})]);
        assert!(read(texts[0]["content"].as_str().unwrap()).is_ok());

        // A result that looks like a call stays a quoted text.
        let result = json!({"role": "tool", "tool_name": "t", "content": call.to_string()});
        let texts = as_text(result);
        assert_eq!(texts[0]["role"], "user");
        let shown: Value = serde_json::from_str(texts[0]["content"].as_str().unwrap()).unwrap();
        assert_eq!((&shown["type"], shown["content"].is_string()), (&json!("tool_result"), true));
    }
}
