//! The local leg against a scripted server: what is sent, and what becomes of a connection.
//! Helpers for the tests of the other leg too.

use std::path::Path;

use serde_json::{Value, json};
use tombolo::assistant::backends::ollama::{self, Ollama};
use tombolo::assistant::backends::{
    ASSISTANT_MAX_TOKENS, Backend, BackendError, BackendTurn, Request, ToolCall, ToolSpec, Turn,
};
use tombolo::config::OllamaConfig;

use crate::support::ollama::{Answer, ScriptedOllama};

/// The tools that were offered when the answers were recorded.
pub fn offered() -> Vec<ToolSpec> {
    [
        ("get_weather", json!({"type": "object", "properties": {"city": {"type": "string"}}})),
        ("send_message", json!({"type": "object", "properties": {"to": {"type": "string"}}})),
    ]
    .map(|(name, parameters)| ToolSpec {
        name: name.to_owned(),
        description: format!("About {name}."),
        parameters,
    })
    .to_vec()
}

/// The response of a recording: status and body.
pub fn recorded(name: &str) -> (u16, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let recording: Value = serde_json::from_str(&text).unwrap();
    let response = &recording["response"];
    (u16::try_from(response["status"].as_u64().unwrap()).unwrap(), response["body"].clone())
}

/// A recording as an answer.
pub fn replay(name: &str) -> Answer {
    let (status, body) = recorded(name);
    answer_of(status, body)
}

/// A status and a body as they were recorded; a list is a stream, line by line.
pub fn answer_of(status: u16, body: Value) -> Answer {
    match body {
        Value::Array(lines) => {
            let lines: Vec<String> = lines
                .into_iter()
                .map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned))
                .collect();
            let content_type = "text/event-stream".to_owned();
            Answer::Raw { status, content_type, headers: Vec::new(), body: lines.join("\n") }
        }
        Value::String(body) => {
            let content_type = "text/plain".to_owned();
            Answer::Raw { status, content_type, headers: Vec::new(), body }
        }
        body => Answer::json(status, body),
    }
}

pub fn leg(server: &ScriptedOllama) -> Ollama {
    Ollama::new(&OllamaConfig {
        url: server.url(),
        model: "toy".to_owned(),
        ..OllamaConfig::default()
    })
}

pub async fn ask(leg: &dyn Backend, history: &[Turn]) -> Result<BackendTurn, BackendError> {
    leg.send(Request { system: "Be brief.", tools: &offered(), history }).await
}

pub fn question() -> Vec<Turn> {
    vec![Turn::User("What is the weather in Paris?".to_owned())]
}

#[tokio::test]
async fn ollama_uses_chat_endpoint_not_generate() {
    let server = ScriptedOllama::start().await;
    let leg = leg(&server);
    assert!(leg.available().await.unwrap().tools);
    for _ in 0..3 {
        assert_eq!(ask(&leg, &question()).await.unwrap(), BackendTurn::Text("ok".to_owned()));
    }
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/api/show", "/api/chat", "/api/chat", "/api/chat"]);
}

#[tokio::test]
async fn a_server_that_has_gone_is_no_longer_there_whatever_is_remembered_of_its_model() {
    let server = ScriptedOllama::start().await;
    let leg = leg(&server);
    assert!(leg.there().await.unwrap().tools);
    drop(server);
    assert!(leg.available().await.is_ok(), "asked once in the life of the leg");
    assert!(matches!(leg.there().await, Err(BackendError::Unreachable(_))));
}

#[tokio::test]
async fn every_request_has_a_length_cap_and_the_same_window() {
    let server = ScriptedOllama::start().await;
    let leg = leg(&server);
    let long: Vec<Turn> = (0..40)
        .map(|n| Turn::User(format!("{n} {}", "x".repeat(2000))))
        .chain(question())
        .collect();
    ask(&leg, &question()).await.unwrap();
    ask(&leg, &long).await.unwrap();
    leg.send(Request { system: "", tools: &[], history: &question() }).await.unwrap();
    let requests = server.requests_to("/api/chat");
    assert_eq!(requests.len(), 3);
    assert!(requests.is_sorted_by_key(|request| request.at));
    for request in &requests {
        let body = &request.body;
        assert_eq!(body["options"], json!({"num_predict": ASSISTANT_MAX_TOKENS, "num_ctx": 8192}));
        assert_eq!(body["stream"], false);
        assert_eq!(body["think"], false);
        assert!(body["keep_alive"].is_u64());
        assert_eq!(body.get("format"), None);
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last, &json!({"role": "user", "content": "What is the weather in Paris?"}));
    }
    assert_eq!(requests[0].body["tools"][0]["function"]["name"], "get_weather");
    assert_eq!(requests[2].body.get("tools"), None);
    assert!(requests[1].body.to_string().len() < 8192 * 3, "the prompt is cut by our own rules");
}

#[tokio::test]
async fn the_window_follows_what_the_model_has() {
    let show = |length: Value| {
        json!({
            "capabilities": ["tools"],
            "model_info": {"general.architecture": "gemma3", "gemma3.context_length": length},
        })
    };
    for (body, num_ctx) in [
        (show(json!(2048)), 2048),
        (show(json!(8192)), 8192),
        (show(json!(8193)), 8192),
        (show(json!("many")), 4096),
        (show(json!(0)), 4096),
        (json!({"capabilities": ["tools"]}), 4096),
        (recorded("ollama-show-toy-toolcall").1, 8192),
    ] {
        let server = ScriptedOllama::start().await;
        server.set_show(200, body);
        ask(&leg(&server), &question()).await.unwrap();
        assert_eq!(server.requests_to("/api/chat")[0].body["options"]["num_ctx"], num_ctx);
    }
}

#[tokio::test]
async fn tool_calls_get_synthesized_ids() {
    let server = ScriptedOllama::start().await;
    let function = json!({"name": "get_weather", "arguments": {"city": "Paris"}});
    let calls = json!([
        {"function": function},
        {"id": "", "function": function},
        {"id": "call_given", "function": function},
        {"id": "call_given", "function": function},
    ]);
    let message = json!({"role": "assistant", "content": "", "tool_calls": calls});
    server.push(Answer::json(200, json!({"message": message, "done": true})));
    let leg = leg(&server);
    let Ok(BackendTurn::ToolCalls { calls, .. }) = ask(&leg, &question()).await else {
        panic!("no calls");
    };
    let ids: std::collections::HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 4, "each id is another: {ids:?}");
    assert!(!ids.contains(""));
    assert_eq!(calls[2].id, "call_given", "a given id is kept");

    // And they come back with the calls and their results, in the order of the calls.
    let mut history = question();
    history.push(Turn::Assistant { text: String::new(), calls: calls.clone(), raw: None });
    for call in calls.iter().rev() {
        history.push(Turn::ToolResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content: format!("result of {}", call.id),
            is_error: false,
        });
    }
    ask(&leg, &history).await.unwrap();
    let sent = server.requests_to("/api/chat").pop().unwrap().body;
    let messages = sent["messages"].as_array().unwrap();
    for (index, call) in calls.iter().enumerate() {
        assert_eq!(messages[2]["tool_calls"][index]["id"], call.id.as_str());
        let result = json!({
            "role": "tool",
            "content": format!("result of {}", call.id),
            "tool_name": "get_weather",
            "tool_call_id": call.id,
        });
        assert_eq!(messages[3 + index], result);
    }
}

#[tokio::test]
async fn arguments_object_is_not_string_parsed() {
    let arguments = json!({
        "text": "{\"not\": \"parsed\"}",
        "number": "12",
        "large": 18_446_744_073_709_551_615_u64,
        "nested": {"z": [1, {"a": null}], "a": "true"},
    });
    let server = ScriptedOllama::start().await;
    server.push(Answer::tool_call("get_weather", arguments.clone()));
    let leg = leg(&server);
    let Ok(BackendTurn::ToolCalls { calls, .. }) = ask(&leg, &question()).await else {
        panic!("no calls");
    };
    assert_eq!(calls[0].arguments, arguments);

    let mut history = question();
    history.push(Turn::Assistant { text: String::new(), calls, raw: None });
    ask(&leg, &history).await.unwrap();
    let sent = server.requests_to("/api/chat").pop().unwrap().body;
    assert_eq!(sent["messages"][2]["tool_calls"][0]["function"]["arguments"], arguments);
}

#[tokio::test]
async fn what_a_model_can_do_is_asked_once_and_learned_otherwise() {
    let server = ScriptedOllama::start().await;
    let (status, show) = recorded("ollama-show-toy-notools");
    server.set_show(status, show);
    let toolless = leg(&server);
    assert!(!toolless.available().await.unwrap().tools);
    assert!(!toolless.model_supports_tools().await.unwrap());
    assert_eq!(ask(&toolless, &question()).await, Err(BackendError::NoTools));
    let bare = Request { system: "", tools: &[], history: &question() };
    assert_eq!(toolless.send(bare).await, Ok(BackendTurn::Text("ok".to_owned())));
    assert_eq!(server.requests_to("/api/show").len(), 1);
    assert_eq!(server.requests_to("/api/chat").len(), 1);

    // An old server doesn't say: it is tried, and its refusal is remembered.
    let server = ScriptedOllama::start().await;
    server.set_capabilities(None);
    server.push(replay("ollama-chat-no-tools-capability"));
    let old = leg(&server);
    assert!(old.available().await.unwrap().tools);
    assert_eq!(ask(&old, &question()).await, Err(BackendError::NoTools));
    assert!(!old.available().await.unwrap().tools);
    assert_eq!(ask(&old, &question()).await, Err(BackendError::NoTools));
    assert_eq!(server.requests_to("/api/chat").len(), 1);
    assert_eq!(server.requests_to("/api/show").len(), 1);
}

#[tokio::test]
async fn a_missing_model_is_named_with_those_there_are() {
    let server = ScriptedOllama::start().await;
    let (status, show) = recorded("ollama-show-not-found");
    server.set_show(status, show);
    let outcome = leg(&server).available().await;
    assert_eq!(outcome, Err(BackendError::NoModel("toy; the server has toy:latest".to_owned())));
    assert_eq!(ollama::models(&server.url()).await.unwrap(), ["toy:latest"]);
}

#[tokio::test]
async fn no_server_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let leg = Ollama::new(&OllamaConfig { url: url.clone(), ..OllamaConfig::default() });
    assert!(matches!(leg.available().await, Err(BackendError::Unreachable(_))));
    assert!(matches!(ask(&leg, &question()).await, Err(BackendError::Unreachable(_))));
    assert!(matches!(ollama::models(&url).await, Err(BackendError::Unreachable(_))));
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection() {
    let server = ScriptedOllama::start().await;
    server.push(Answer::hang());
    let leg = leg(&server);
    let history = question();
    {
        let asking = ask(&leg, &history);
        tokio::select! {
            outcome = asking => panic!("answered: {outcome:?}"),
            () = server.wait_requests(2) => {}
        }
        assert_eq!(server.disconnected(), 0);
    }
    server.wait_disconnected(1).await;
    assert_eq!(ask(&leg, &history).await, Ok(BackendTurn::Text("ok".to_owned())));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unreachable() {
    let server = ScriptedOllama::start().await;
    server.push(Answer::cut());
    let leg = leg(&server);
    let outcome = ask(&leg, &question()).await;
    assert!(matches!(outcome, Err(BackendError::Unreachable(_))), "{outcome:?}");
    assert_eq!(ask(&leg, &question()).await, Ok(BackendTurn::Text("ok".to_owned())));
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_greatest_size() {
    let server = ScriptedOllama::start().await;
    let leg = leg(&server);
    let answer = |size: usize| {
        let body = |text: String| json!({"message": {"content": text}, "done": true}).to_string();
        let frame = body(String::new()).len();
        Answer::Raw {
            status: 200,
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            body: body("x".repeat(size - frame)),
        }
    };
    server.push(answer(1 << 20));
    server.push(answer((1 << 20) + 1));
    assert!(matches!(ask(&leg, &question()).await, Ok(BackendTurn::Text(_))));
    assert!(matches!(ask(&leg, &question()).await, Err(BackendError::Broken(_))));
}

#[tokio::test]
async fn a_tools_result_reaches_the_model() {
    let server = ScriptedOllama::start().await;
    let echo = Answer::echo_tool_result("The tool says: ");
    server.push(Answer::delayed(std::time::Duration::from_millis(30), echo));
    let outcome = ask(&leg(&server), &one_call("call_1", None)).await;
    assert_eq!(outcome, Ok(BackendTurn::Text("The tool says: 18 C".to_owned())));
}

#[tokio::test]
async fn strange_bodies_with_status_200_are_broken() {
    for body in ["", "null", "[]", "{}", "{\"message\": 3}", "{\"error\": \"gone\"}", "<html>"] {
        let server = ScriptedOllama::start().await;
        server.push(Answer::Raw {
            status: 200,
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            body: body.to_owned(),
        });
        let outcome = ask(&leg(&server), &question()).await;
        assert!(matches!(outcome, Err(BackendError::Broken(_))), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = ScriptedOllama::start().await;
    let elsewhere = ScriptedOllama::start().await;
    server.push(
        Answer::json(307, json!({}))
            .with_header("location", &format!("{}/api/chat", elsewhere.url())),
    );
    let outcome = ask(&leg(&server), &question()).await;
    assert!(matches!(outcome, Err(BackendError::Refused { status: 307, .. })), "{outcome:?}");
    assert!(elsewhere.requests().is_empty());
}

/// A call and its result, as another leg left them.
pub fn one_call(id: &str, raw: Option<Value>) -> Vec<Turn> {
    let call = ToolCall {
        id: id.to_owned(),
        name: "get_weather".to_owned(),
        arguments: json!({"city": "Paris"}),
    };
    let mut history = question();
    history.push(Turn::Assistant { text: "Looking.".to_owned(), calls: vec![call], raw });
    history.push(Turn::ToolResult {
        id: id.to_owned(),
        name: "get_weather".to_owned(),
        content: "18 C".to_owned(),
        is_error: false,
    });
    history
}

#[tokio::test]
async fn a_model_that_ollama_runs_elsewhere_is_in_a_cloud_whatever_its_name() {
    let server = ScriptedOllama::start().await;
    let named = |model: &str| {
        let config =
            OllamaConfig { url: server.url(), model: model.to_owned(), ..OllamaConfig::default() };
        Ollama::new(&config)
    };
    for (model, cloud) in [
        ("toy", false),
        ("toy:7b", false),
        ("cloud", false),
        ("cloudy:7b", false),
        ("toy:cloud", true),
        ("gpt-oss:120b-cloud", true),
        ("hf.co/me/toy:Cloud", true),
    ] {
        assert_eq!(named(model).is_cloud(), cloud, "{model}");
    }
    // A copy of one has any name; the server says whose it is.
    let leg = named("toy");
    server.set_show(
        200,
        json!({"remote_host": "https://ollama.com:443", "remote_model": "gpt-oss:120b"}),
    );
    leg.available().await.unwrap();
    assert!(leg.is_cloud());
}
