//! The cloud leg against a scripted server.

use serde_json::{Value, json};
use tombolo::assistant::backends::claude::Claude;
use tombolo::assistant::backends::{
    ASSISTANT_MAX_TOKENS, Backend, BackendError, BackendTurn, Request, Turn,
};
use tombolo::config::ClaudeConfig;
use tombolo::secrets::{Secret, SecretName, Secrets};

use crate::backends::{ask, offered, one_call, question};
use crate::support::ollama::{Answer, ScriptedOllama};

/// Without the usual form, so that only its value gives it away.
const KEY: &str = "canary+key+0123456789";

struct Cloud {
    server: ScriptedOllama,
    data: tempfile::TempDir,
    leg: Claude,
}

async fn cloud() -> Cloud {
    let server = ScriptedOllama::start().await;
    server.set_default(Answer::json(200, text("ok")));
    let data = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(data.path()).unwrap();
    secrets.write(SecretName::ClaudeApiKey, &Secret::new(KEY)).unwrap();
    let config = ClaudeConfig { url: server.url(), model: "claude-toy".to_owned() };
    let leg = Claude::new(&config, secrets);
    Cloud { server, data, leg }
}

fn message(content: Value, stop_reason: &str) -> Value {
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-toy",
        "content": content,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}

fn text(text: &str) -> Value {
    message(json!([{"type": "text", "text": text}]), "end_turn")
}

fn failure(kind: &str, words: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"})
}

#[tokio::test]
async fn a_request_has_the_documented_shape_and_no_sampling_parameter() {
    let cloud = cloud().await;
    assert_eq!(ask(&cloud.leg, &question()).await, Ok(BackendTurn::Text("ok".to_owned())));
    let bare = Request { system: "", tools: &[], history: &question() };
    cloud.leg.send(bare).await.unwrap();

    let requests = cloud.server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/v1/messages"));
    assert_eq!(requests[0].headers["x-api-key"], KEY);
    assert_eq!(requests[0].headers["anthropic-version"], "2023-06-01");
    assert_eq!(requests[0].headers["content-type"], "application/json");
    let tools: Vec<Value> = offered()
        .into_iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
            })
        })
        .collect();
    let asked = json!([{
        "role": "user",
        "content": [{"type": "text", "text": "What is the weather in Paris?"}],
    }]);
    // The whole of it: no `temperature`, no `top_p`, no `top_k`.
    let whole = json!({
        "model": "claude-toy",
        "max_tokens": ASSISTANT_MAX_TOKENS,
        "system": "Be brief.",
        "tools": tools,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "messages": asked,
    });
    assert_eq!(requests[0].body, whole);
    let bare = json!({
        "model": "claude-toy", "max_tokens": ASSISTANT_MAX_TOKENS, "messages": asked,
    });
    assert_eq!(requests[1].body, bare);
}

#[tokio::test]
async fn tool_use_ids_are_echoed_and_blocks_come_back_unchanged() {
    let cloud = cloud().await;
    let content = json!([
        {"type": "thinking", "thinking": "Where?", "signature": "c2ln"},
        {"type": "text", "text": "Looking. "},
        {"type": "tool_use", "id": "toolu_01A", "name": "get_weather", "input": {"city": "Paris"}},
    ]);
    cloud.server.push(Answer::json(200, message(content.clone(), "tool_use")));
    let Ok(BackendTurn::ToolCalls { text, calls, raw }) = ask(&cloud.leg, &question()).await else {
        panic!("no calls");
    };
    assert_eq!((text.as_str(), calls[0].id.as_str()), ("Looking.", "toolu_01A"));

    ask(&cloud.leg, &one_call("toolu_01A", raw)).await.unwrap();
    let sent = cloud.server.requests().pop().unwrap().body;
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": content}));
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_01A", "content": "18 C"});
    assert_eq!(sent["messages"][2], json!({"role": "user", "content": [result]}));
}

#[tokio::test]
async fn another_legs_history_is_put_into_this_ones_form() {
    let cloud = cloud().await;
    let mut history = vec![Turn::Assistant { text: "stray".into(), calls: vec![], raw: None }];
    history.push(Turn::User("first".to_owned()));
    // Another leg's raw form is not understood here, and its id holds what this server refuses.
    history.extend(one_call("call:1", Some(json!({"ollama": [1]}))));
    // A call that nothing has answered, a result that nothing has asked for, an empty text.
    history.extend(one_call("call_2", None).into_iter().take(2));
    history.push(Turn::Assistant { text: " ".into(), calls: vec![], raw: None });
    history.push(Turn::ToolResult {
        id: "unknown".into(),
        name: "x".into(),
        content: "y".into(),
        is_error: false,
    });
    history.push(Turn::User("last".to_owned()));
    ask(&cloud.leg, &history).await.unwrap();

    let said = |words: &str| json!({"type": "text", "text": words});
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "get_weather", "input": {"city": "Paris"}});
    let asked = "What is the weather in Paris?";
    let ran = json!({"type": "tool_result", "tool_use_id": "call_1", "content": "18 C"});
    let not_done = json!({
        "type": "tool_result", "tool_use_id": "call_2", "content": "Not done.", "is_error": true,
    });
    assert_eq!(
        cloud.server.requests().pop().unwrap().body["messages"],
        json!([
            {"role": "user", "content": [said("first"), said(asked)]},
            {"role": "assistant", "content": [said("Looking."), used("call_1")]},
            {"role": "user", "content": [ran, said(asked)]},
            {"role": "assistant", "content": [said("Looking."), used("call_2")]},
            {"role": "user", "content": [not_done, said("last")]},
        ])
    );
}

#[tokio::test]
async fn every_stop_has_its_meaning() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}});
    let begun = json!([{"type": "text", "text": "Well"}]);
    let declined = "The model declined to answer that.";
    for (body, expected) in [
        (message(begun.clone(), "refusal"), Some(declined)),
        (message(json!([]), "refusal"), Some(declined)),
        (message(begun.clone(), "max_tokens"), Some("Well […]")),
        (message(begun.clone(), "model_context_window_exceeded"), Some("Well […]")),
        (message(begun.clone(), "stop_sequence"), Some("Well")),
        (message(json!([call]), "max_tokens"), None),
        (message(json!([call]), "model_context_window_exceeded"), None),
        (message(begun, "pause_turn"), None),
        (message(json!([]), "end_turn"), None),
        (message(Value::Null, "end_turn"), None),
        (json!({}), None),
    ] {
        let cloud = cloud().await;
        cloud.server.push(Answer::json(200, body.clone()));
        let outcome = ask(&cloud.leg, &question()).await;
        match expected {
            Some(text) => assert_eq!(outcome, Ok(BackendTurn::Text(text.to_owned())), "{body}"),
            None => assert!(matches!(outcome, Err(BackendError::Broken(_))), "{body}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn refusals_have_their_meaning() {
    use std::time::Duration;
    let spent = json!({
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "spend",
            "details": {"error_code": "enforced_spend_limit_reached"},
        },
    });
    let retry = |seconds| BackendError::Overloaded { retry_after: seconds };
    let not_accepted =
        BackendError::Auth("the key in secrets/claude-api-key was not accepted".to_owned());
    for (answer, expected) in [
        (Answer::json(401, failure("authentication_error", "bad")), not_accepted.clone()),
        (Answer::json(403, failure("permission_error", "no")), not_accepted),
        (
            Answer::json(404, failure("not_found_error", "model: claude-toy")),
            BackendError::NoModel("claude-toy".to_owned()),
        ),
        (
            Answer::json(429, failure("rate_limit_error", "slow")).with_header("retry-after", "17"),
            retry(Some(Duration::from_secs(17))),
        ),
        (Answer::json(429, failure("rate_limit_error", "slow")), retry(None)),
        (
            Answer::json(429, spent),
            BackendError::NoMoney("the account's spend limit is reached".to_owned()),
        ),
        (Answer::json(529, failure("overloaded_error", "busy")), retry(None)),
        (
            Answer::json(500, failure("api_error", "oops")),
            BackendError::Refused { status: 500, reason: "oops".to_owned() },
        ),
    ] {
        let cloud = cloud().await;
        cloud.server.push(answer);
        assert_eq!(ask(&cloud.leg, &question()).await, Err(expected));
    }
}

#[tokio::test]
async fn the_key_comes_from_its_file_only_and_at_each_use() {
    let cloud = cloud().await;
    assert!(cloud.leg.available().await.unwrap().tools);
    let file = cloud.data.path().join("secrets/claude-api-key");
    std::fs::remove_file(&file).unwrap();
    let none = BackendError::Unconfigured("no key in secrets/claude-api-key".to_owned());
    assert_eq!(cloud.leg.available().await, Err(none.clone()));
    assert_eq!(ask(&cloud.leg, &question()).await, Err(none));
    assert!(cloud.server.requests().is_empty(), "without a key nothing is sent");

    let secrets = Secrets::open(cloud.data.path()).unwrap();
    secrets.write(SecretName::ClaudeApiKey, &Secret::new("another-key")).unwrap();
    ask(&cloud.leg, &question()).await.unwrap();
    assert_eq!(cloud.server.requests()[0].headers["x-api-key"], "another-key");
}

#[tokio::test]
async fn the_key_is_in_no_error_and_in_no_debug_form() {
    let cloud = cloud().await;
    assert!(!format!("{:?}", cloud.leg).contains(KEY));
    for status in [400, 401, 402, 403, 404, 413, 429, 500, 529] {
        let words = format!("the key {KEY} is not good, and sk-ant-{KEY} neither");
        cloud.server.push(Answer::json(status, failure("some_error", &words)));
        let error = ask(&cloud.leg, &question()).await.unwrap_err();
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(!shown.contains("canary"), "{status}: {shown}");
        }
    }
    cloud.server.push(Answer::cut());
    let error = ask(&cloud.leg, &question()).await.unwrap_err();
    assert!(matches!(error, BackendError::Unreachable(_)));
    assert!(!format!("{error:?} {error}").contains("canary"));
}

/// An assistant with both legs, whose Ollama is that server.
fn both(cloud: Cloud, ollama: &ScriptedOllama) -> (tombolo::assistant::Assistant, Cloud) {
    use tombolo::config::{AssistantConfig, OllamaConfig};
    let config = AssistantConfig {
        ollama: OllamaConfig {
            url: ollama.url(),
            model: "toy".to_owned(),
            ..OllamaConfig::default()
        },
        claude: ClaudeConfig { url: cloud.server.url(), model: "claude-toy".to_owned() },
        ..AssistantConfig::default()
    };
    let secrets = Secrets::open(cloud.data.path()).unwrap();
    let assistant =
        tombolo::assistant::Assistant::new(&config, secrets, cloud.data.path()).unwrap();
    (assistant, cloud)
}

async fn operator_asks(assistant: &tombolo::assistant::Assistant) -> tombolo::assistant::ChatReply {
    use tombolo::assistant::{CallerScope, ChatContext, PermissionCategory, SessionId, TurnId};
    let context = ChatContext {
        scope: CallerScope::LocalOperator {
            session_id: SessionId("s".to_owned()),
            granted: PermissionCategory::ALL.into_iter().collect(),
        },
        turn_id: TurnId("t-1".to_owned()),
        cancel: tokio_util::sync::CancellationToken::new(),
        answer_bytes: None,
        quotes: None,
    };
    assistant.chat(context, "What is new?").await
}

#[tokio::test]
async fn a_model_without_tools_is_passed_over_by_its_own_word() {
    let ollama = ScriptedOllama::start().await;
    ollama.set_capabilities(Some(vec!["completion"]));
    let (assistant, cloud) = both(cloud().await, &ollama);
    let reply = operator_asks(&assistant).await;
    assert_eq!((reply.backend.as_str(), reply.text.as_str()), ("claude", "ok"));
    assert_eq!(reply.reasons[0].leg, "ollama");
    assert!(ollama.requests_to("/api/chat").is_empty());
    assert_eq!(cloud.server.requests_to("/v1/messages").len(), 1);
}

#[tokio::test]
async fn a_broken_connection_falls_through_and_its_reason_is_kept() {
    let ollama = ScriptedOllama::start().await;
    ollama.set_default(Answer::cut());
    let (assistant, _cloud) = both(cloud().await, &ollama);
    let reply = operator_asks(&assistant).await;
    assert_eq!((reply.backend.as_str(), reply.text.as_str()), ("claude", "ok"));
    assert_eq!(reply.reasons.len(), 1);
    assert!(reply.reasons[0].reason.starts_with("unreachable"), "{:?}", reply.reasons);
}
