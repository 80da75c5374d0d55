//! Whole turns against recorded answers of models that go wrong: what the tool ledger, the server and the caller see.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tombolo::assistant::backends::{Backend, ollama};
use tombolo::assistant::tools::{Description, ToolDef, ToolRegistry};
use tombolo::assistant::{
    Assistant, CallerScope, ChatContext, ChatReply, ChatStatus, PermissionCategory, SessionId,
    ToolOutcome, TurnId,
};
use tombolo::config::{CloudPolicy, OllamaConfig, Protocol};

use crate::backends::replay;
use crate::support::ollama::{Answer, ScriptedOllama};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Weather {
    city: String,
}

/// A node with that one tool, by that name.
struct Node {
    server: ScriptedOllama,
    assistant: Assistant,
    ran: Arc<Mutex<Vec<String>>>,
    _data: tempfile::TempDir,
}

async fn node(tool: &'static str, protocol: Protocol) -> Node {
    let server = ScriptedOllama::start().await;
    let ran = Arc::new(Mutex::new(Vec::new()));
    let runs = ran.clone();
    let about = Description {
        name: tool,
        description: "The weather in a city.",
        parameters: json!({
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        }),
        category: PermissionCategory::System,
        destructive: false,
    };
    let tool = ToolDef::new(about, move |Weather { city }| {
        runs.lock().unwrap().push(city);
        Box::pin(async { Ok("18 C".to_owned()) })
    });
    let config = OllamaConfig { url: server.url(), model: "toy".to_owned(), protocol };
    let legs: Vec<Box<dyn Backend>> = vec![ollama::leg(&config)];
    let data = tempfile::tempdir().unwrap();
    let tools = ToolRegistry::new([tool]);
    let assistant = Assistant::with_legs(legs, CloudPolicy::None, tools, data.path()).unwrap();
    Node { server, assistant, ran, _data: data }
}

impl Node {
    async fn ask(&self) -> ChatReply {
        let context = ChatContext {
            scope: CallerScope::LocalOperator {
                session_id: SessionId("s".to_owned()),
                granted: [PermissionCategory::System].into(),
            },
            turn_id: TurnId("t".to_owned()),
            cancel: CancellationToken::new(),
            answer_bytes: None,
            quotes: None,
        };
        self.assistant.chat(context, "What is the weather in Paris?").await
    }

    fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }

    /// What the model was told last of its call, request by request.
    fn told(&self) -> Vec<String> {
        let results = self.server.requests_to("/api/chat").into_iter().filter_map(|request| {
            let last = request.body["messages"].as_array()?.last()?.clone();
            (last["role"] == "tool").then(|| last["content"].as_str().unwrap().to_owned())
        });
        results.collect()
    }
}

#[tokio::test]
async fn the_same_call_over_and_over_is_told_so_and_ends_the_turn_at_the_fourth_time() {
    let node = node("get_weather", Protocol::Native).await;
    node.server.set_default(replay("ollama-chat-tool-result-repeat"));
    let reply = node.ask().await;
    assert_eq!(reply.status, ChatStatus::Failed);
    assert_eq!(node.ran(), ["Paris"]);
    let told = node.told();
    assert_eq!((told.len(), told[0].as_str()), (3, "18 C"));
    for told in &told[1..] {
        assert!(told.contains("already") && told.contains("18 C"), "{told}");
    }
    assert_eq!(node.server.requests_to("/api/chat").len(), 4);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_with_the_field_and_not_coerced() {
    for name in ["ollama-chat-tools-badargs", "ollama-chat-native-badargs"] {
        let node = node("get_weather", Protocol::Native).await;
        node.server.push(replay(name));
        let reply = node.ask().await;
        assert_eq!((reply.status, reply.text.as_str()), (ChatStatus::Answered, "ok"));
        assert_eq!(reply.tools[0].outcome, ToolOutcome::BadArguments);
        assert!(node.ran().is_empty());
        let told = node.told().remove(0);
        assert!(told.contains("get_weather") && told.contains("`city` (string)"), "{told}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_names_of_those_there_are() {
    let node = node("read_weather", Protocol::Native).await;
    node.server.push(replay("ollama-chat-tools-toolcall"));
    let reply = node.ask().await;
    assert_eq!(reply.tools[0].outcome, ToolOutcome::Unknown);
    let told = node.told().remove(0);
    assert!(told.contains("\"get_weather\"") && told.contains("read_weather"), "{told}");
    assert!(node.ran().is_empty());
}

#[tokio::test]
async fn a_call_printed_as_text_is_run_and_shown_to_nobody() {
    for (name, city) in [
        ("ollama-chat-tools-jsontext", "Lyon"),
        ("ollama-chat-native-jsontext", "Lyon"),
        ("ollama-chat-native-mixed", "Oslo"),
    ] {
        let node = node("get_weather", Protocol::Native).await;
        node.server.push(replay(name));
        let reply = node.ask().await;
        assert_eq!(
            (node.ran().as_slice(), reply.text.as_str()),
            (&[city.to_owned()][..], "ok"),
            "{name}"
        );
    }
    // In a code fence, with words around it.
    let node = node("get_weather", Protocol::Native).await;
    node.server.push(Answer::text(
        "I'll look:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Nice\"}}\n```",
    ));
    assert_eq!(node.ask().await.text, "ok");
    assert_eq!(node.ran(), ["Nice"]);
}

#[tokio::test]
async fn nothing_and_thoughts_only_get_a_second_try_and_no_third() {
    let thoughts = || Answer::text("<think>\nthinking and never answering");
    for (one, two) in [
        (replay("ollama-chat-tools-empty"), replay("ollama-chat-native-empty")),
        (thoughts(), thoughts()),
        (replay("ollama-chat-tools-halluc"), replay("ollama-chat-native-broken")),
    ] {
        let node = node("get_weather", Protocol::Native).await;
        node.server.push(one.clone());
        assert_eq!(node.ask().await.text, "ok");
        let node = self::node("get_weather", Protocol::Native).await;
        node.server.push(one);
        node.server.push(two);
        let reply = node.ask().await;
        assert_eq!(reply.status, ChatStatus::Failed);
        assert!(reply.text.starts_with("The model gave no usable answer"), "{}", reply.text);
        assert_eq!(node.server.requests_to("/api/chat").len(), 2);
    }
}

#[tokio::test]
async fn the_json_protocol_asks_again_three_times_and_says_what_was_wrong() {
    // Both recordings are JSON, and neither is one of the two forms.
    let wrong = ["ollama-format-json", "ollama-format-json-with-tools"];
    let answer = || Answer::text("{\"type\":\"final\",\"content\":\"18 C\"}");
    for (rejected, answered) in [(3, true), (4, false)] {
        let node = node("get_weather", Protocol::Json).await;
        for reply in 0..rejected {
            node.server.push(replay(wrong[reply % 2]));
        }
        node.server.push(answer());
        let reply = node.ask().await;
        assert_eq!(reply.status == ChatStatus::Answered, answered, "{}", reply.text);
        let requests = node.server.requests_to("/api/chat");
        assert_eq!(requests.len(), 4);
        for (index, request) in requests.iter().enumerate() {
            let body = &request.body;
            assert_eq!(
                (&body["format"], &body["options"]["temperature"]),
                (&json!("json"), &json!(0))
            );
            assert_eq!(body.get("tools"), None);
            let last = body["messages"].as_array().unwrap().last().unwrap();
            let reminded = last["content"].as_str().unwrap().starts_with("Rejected: ");
            assert_eq!(reminded, index > 0);
        }
    }
    // A call in its form is run like any other.
    let node = node("get_weather", Protocol::Json).await;
    let call: Value =
        json!({"type": "tool_call", "name": "get_weather", "arguments": {"city": "Rome"}});
    node.server.push(Answer::text(call.to_string()));
    node.server.push(answer());
    assert_eq!((node.ask().await.text.as_str(), node.ran()), ("18 C", vec!["Rome".to_owned()]));
}
