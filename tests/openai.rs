//! The OpenAI-compatible leg against a scripted server.

use serde_json::{Value, json};
use tombolo::assistant::backends::openai::Openai;
use tombolo::assistant::backends::{
    ASSISTANT_MAX_TOKENS, Backend, BackendError, BackendTurn, Request, ToolCall, Turn,
};
use tombolo::config::OpenaiConfig;
use tombolo::secrets::{Secret, SecretName, Secrets};

use crate::backends::{ask, offered, one_call, question, replay};
use crate::support::ollama::{Answer, ScriptedOllama};

/// Without the usual form, so that only its value gives it away.
const KEY: &str = "canary+key+0123456789";
const COMPLETIONS: &str = "/v1/chat/completions";

pub struct Node {
    pub server: ScriptedOllama,
    pub data: tempfile::TempDir,
    pub leg: Openai,
}

pub async fn node(local: bool, key: Option<&str>) -> Node {
    let server = ScriptedOllama::start().await;
    server.set_default(Answer::json(200, text("ok")));
    let data = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(data.path()).unwrap();
    if let Some(key) = key {
        secrets.write(SecretName::OpenaiApiKey, &Secret::new(key)).unwrap();
    }
    let url = format!("{}/v1/", server.url());
    let leg = Openai::new(&OpenaiConfig { url, model: "toy".to_owned(), local }, secrets);
    Node { server, data, leg }
}

fn message(message: Value, ended: &str) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "toy",
        "choices": [{"index": 0, "message": message, "finish_reason": ended}],
        "usage": {"cost_sats": 3},
    })
}

pub fn text(words: &str) -> Value {
    message(json!({"role": "assistant", "content": words}), "stop")
}

fn call(id: Value, arguments: Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}})
}

fn calling(calls: Value) -> Value {
    message(json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
}

#[tokio::test]
async fn a_request_has_the_documented_shape_and_no_sampling_parameter() {
    let Node { server, leg, data: _data } = node(false, Some(KEY)).await;
    assert_eq!(ask(&leg, &question()).await, Ok(BackendTurn::Text("ok".to_owned())));
    let bare = Request { system: "", tools: &[], history: &question() };
    leg.send(bare).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "a cloud is asked for nothing else");
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", COMPLETIONS));
    assert_eq!(requests[0].headers["authorization"], format!("Bearer {KEY}"));
    let tools: Vec<Value> = offered()
        .into_iter()
        .map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }})
        })
        .collect();
    let asked = json!({"role": "user", "content": "What is the weather in Paris?"});
    let whole = json!({
        "model": "toy",
        "stream": false,
        "max_tokens": ASSISTANT_MAX_TOKENS,
        "tools": tools,
        "messages": [{"role": "system", "content": "Be brief."}, asked],
    });
    assert_eq!(requests[0].body, whole);
    let bare = json!({
        "model": "toy", "stream": false, "max_tokens": ASSISTANT_MAX_TOKENS, "messages": [asked],
    });
    assert_eq!(requests[1].body, bare);
    // What is written down as the size of a request is its size.
    let request = Request { system: "Be brief.", tools: &offered(), history: &question() };
    assert_eq!(leg.size(request), whole.to_string().len());
}

#[tokio::test]
async fn ids_are_kept_or_made_up_and_come_back_with_their_results() {
    let Node { server, leg, data: _data } = node(true, None).await;
    server.push(Answer::json(
        200,
        calling(json!([
            call(json!("call_given"), json!("{\"city\": \"Paris\"}")),
            call(json!(""), json!({"city": "Rome"})),
            call(Value::Null, json!("")),
            call(json!("call_given"), json!("not json")),
        ])),
    ));
    let Ok(BackendTurn::ToolCalls { calls, .. }) = ask(&leg, &question()).await else {
        panic!("no calls");
    };
    let ids: std::collections::HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!((ids.len(), calls[0].id.as_str()), (4, "call_given"));
    let arguments: Vec<&Value> = calls.iter().map(|call| &call.arguments).collect();
    let (paris, rome) = (json!({"city": "Paris"}), json!({"city": "Rome"}));
    assert_eq!(arguments, [&paris, &rome, &json!({}), &json!("not json")]);

    let mut history = question();
    history.push(Turn::Assistant { text: String::new(), calls: calls.clone(), raw: None });
    for ToolCall { id, name, .. } in &calls {
        let content = format!("result of {id}");
        let (id, name) = (id.clone(), name.clone());
        history.push(Turn::ToolResult { id, name, content, is_error: false });
    }
    ask(&leg, &history).await.unwrap();
    let sent = server.requests_to(COMPLETIONS).pop().unwrap().body;
    let messages = sent["messages"].as_array().unwrap();
    assert_eq!(messages[2]["content"], Value::Null);
    for (index, call) in calls.iter().enumerate() {
        let asked = &messages[2]["tool_calls"][index];
        assert_eq!((&asked["id"], &asked["type"]), (&json!(call.id), &json!("function")));
        let text = asked["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(text).unwrap().is_object(), "{text}");
        let result = json!({
            "role": "tool", "tool_call_id": call.id, "content": format!("result of {}", call.id),
        });
        assert_eq!(messages[3 + index], result);
    }
}

#[tokio::test]
async fn another_legs_history_is_put_into_this_ones_form() {
    let Node { server, leg, data: _data } = node(true, None).await;
    let mut history = vec![Turn::Summary("They spoke of boats.".to_owned())];
    history.extend(one_call("toolu_1", Some(json!({"claude": [1]}))));
    ask(&leg, &history).await.unwrap();
    let sent = server.requests_to(COMPLETIONS).pop().unwrap().body;
    let messages = sent["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "tool"]);
    assert!(messages[1]["content"].as_str().unwrap().ends_with("They spoke of boats."));
    assert_eq!(messages[4]["content"], "Looking.");
    assert_eq!(messages[5]["tool_call_id"], "toolu_1");
}

#[tokio::test]
async fn what_is_a_call_is_decided_by_the_calls_and_not_by_what_the_server_says() {
    let words = |words: &str| Some(words.to_owned());
    let one = json!([call(json!("c"), json!({}))]);
    let declined = "The model declined to answer that.";
    for (body, expected) in [
        // Prose with the word for calls, a call with the word for prose.
        (message(json!({"content": "Hello", "tool_calls": []}), "tool_calls"), words("Hello")),
        (message(json!({"content": "Hello", "tool_calls": null}), "stop"), words("Hello")),
        (
            message(json!({"content": [{"type": "text", "text": "Hel"}, {"text": "lo"}]}), "stop"),
            words("Hello"),
        ),
        (message(json!({"content": "Hello"}), "length"), words("Hello […]")),
        (message(json!({"content": null, "refusal": "I won't"}), "stop"), words(declined)),
        (message(json!({"content": "He"}), "content_filter"), words(declined)),
        (message(json!({"content": null, "reasoning_content": "Hm."}), "stop"), None),
        (message(json!({"content": " \n"}), "stop"), None),
        (message(json!({"content": null, "tool_calls": one}), "length"), None),
        (
            message(json!({"content": null, "tool_calls": [{"function": {"name": ""}}]}), "stop"),
            None,
        ),
        (json!({"choices": []}), None),
        (json!("OK"), None),
    ] {
        let Node { server, leg, data: _data } = node(true, None).await;
        server.push(Answer::json(200, body.clone()));
        let outcome = ask(&leg, &question()).await;
        match expected {
            Some(words) => assert_eq!(outcome, Ok(BackendTurn::Text(words)), "{body}"),
            None => assert!(matches!(outcome, Err(BackendError::Broken(_))), "{body}: {outcome:?}"),
        }
    }
    for body in [
        message(json!({"content": "", "tool_calls": one}), "stop"),
        message(
            json!({"content": null, "function_call": {"name": "get_weather", "arguments": "{}"}}),
            "function_call",
        ),
    ] {
        let Node { server, leg, data: _data } = node(true, None).await;
        server.push(Answer::json(200, body.clone()));
        let outcome = ask(&leg, &question()).await;
        assert!(matches!(outcome, Ok(BackendTurn::ToolCalls { .. })), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_cap_goes_by_the_name_that_the_server_wants_and_that_is_remembered() {
    let Node { server, leg, data: _data } = node(true, None).await;
    let refusal = json!({"error": {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter",
    }});
    server.push(Answer::json(400, refusal.clone()));
    for _ in 0..2 {
        assert_eq!(ask(&leg, &question()).await, Ok(BackendTurn::Text("ok".to_owned())));
    }
    let caps: Vec<(bool, bool)> = server
        .requests_to(COMPLETIONS)
        .iter()
        .map(|request| {
            let has = |name: &str| request.body.get(name) == Some(&json!(ASSISTANT_MAX_TOKENS));
            (has("max_tokens"), has("max_completion_tokens"))
        })
        .collect();
    assert_eq!(caps, [(true, false), (false, true), (false, true)]);
    // A server that is never content is not asked for ever.
    server.set_default(Answer::json(400, refusal));
    assert!(matches!(ask(&leg, &question()).await, Err(BackendError::Refused { .. })));
    assert_eq!(server.requests_to(COMPLETIONS).len(), 4);
}

#[tokio::test]
async fn a_local_server_needs_no_key_and_a_cloud_one_does() {
    let Node { server, leg, data: _data } = node(true, None).await;
    assert!(!leg.is_cloud());
    assert!(leg.available().await.unwrap().tools);
    ask(&leg, &question()).await.unwrap();
    assert!(server.requests().iter().all(|request| !request.headers.contains_key("authorization")));

    let Node { server, leg, data } = node(false, None).await;
    assert!(leg.is_cloud());
    let none = BackendError::Unconfigured("no key in secrets/openai-api-key".to_owned());
    assert_eq!(leg.available().await, Err(none.clone()));
    assert_eq!(ask(&leg, &question()).await, Err(none));
    assert!(server.requests().is_empty(), "without a key nothing is sent");
    // The key comes from its file at each use.
    let secrets = Secrets::open(data.path()).unwrap();
    secrets.write(SecretName::OpenaiApiKey, &Secret::new(KEY)).unwrap();
    ask(&leg, &question()).await.unwrap();
    assert_eq!(server.requests()[0].headers["authorization"], format!("Bearer {KEY}"));

    // A server that wants one says so, and so does the leg.
    let Node { server, leg, data: _data } = node(true, None).await;
    server.push(replay("llamacpp-err-no-key"));
    let wants = "the server wants a key: put it into secrets/openai-api-key".to_owned();
    assert_eq!(ask(&leg, &question()).await, Err(BackendError::Auth(wants)));
}

#[tokio::test]
async fn a_key_never_crosses_a_network_in_the_clear() {
    let data = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(data.path()).unwrap();
    secrets.write(SecretName::OpenaiApiKey, &Secret::new(KEY)).unwrap();
    for local in [true, false] {
        // A documentation address: a request to it would end as unreachable.
        let url = "http://192.0.2.1:8080/v1".to_owned();
        let leg = Openai::new(&OpenaiConfig { url, model: "m".to_owned(), local }, secrets.clone());
        for outcome in [leg.available().await.err(), ask(&leg, &question()).await.err()] {
            let Some(BackendError::Unconfigured(words)) = outcome else { panic!("{outcome:?}") };
            assert!(words.contains("https://") && words.contains("in the clear"), "{words}");
        }
    }
}

#[tokio::test]
async fn the_window_is_known_before_a_prompt_would_overflow_it() {
    let long: Vec<Turn> = (0..12).map(|_| Turn::User("x".repeat(1500))).chain(question()).collect();
    let sent = async |server: &ScriptedOllama, leg: &Openai| {
        ask(leg, &long).await.unwrap();
        server.requests_to(COMPLETIONS).pop().unwrap().body["messages"].as_array().unwrap().len()
    };
    // As the server tells; as it is taken for where it doesn't; all of it in a cloud.
    let models = |window: u32| {
        Answer::json(200, json!({"data": [{"id": "toy", "meta": {"n_ctx": window}}]}))
    };
    let mut lengths = Vec::new();
    for window in [2048, 4096, 8192, 100_000] {
        let Node { server, leg, data: _data } = node(true, None).await;
        server.set_path("/v1/models", models(window));
        lengths.push(sent(&server, &leg).await);
        assert_eq!(server.requests_to("/v1/models").len(), 1, "asked once");
    }
    assert_eq!(lengths, [4, 7, 13, 13], "system, turns, question");
    let Node { server, leg, data: _data } = node(true, None).await;
    server.set_path("/v1/models", Answer::json(404, json!({"error": "nothing"})));
    assert_eq!(sent(&server, &leg).await, 7);
    let Node { server, leg, data: _data } = node(false, Some(KEY)).await;
    assert_eq!(sent(&server, &leg).await, 14);

    // Learned from a refusal, where it was thought larger than it is.
    let Node { server, leg, data: _data } = node(true, None).await;
    server.set_path("/v1/models", models(8192));
    server.push(Answer::json(
        400,
        json!({"error": {
            "code": 400, "type": "exceed_context_size_error", "n_ctx": 2048, "n_prompt_tokens": 5000,
            "message": "request (5000 tokens) exceeds the available context size (2048 tokens)",
        }}),
    ));
    assert_eq!(sent(&server, &leg).await, 4);
    assert_eq!(sent(&server, &leg).await, 4);
    assert_eq!(server.requests_to(COMPLETIONS).len(), 3);
    // A question that fits no window is not sent for ever.
    server.set_default(Answer::json(400, json!({"error": {"code": "context_length_exceeded"}})));
    assert_eq!(ask(&leg, &question()).await, Err(BackendError::TooLong));
    assert_eq!(server.requests_to(COMPLETIONS).len(), 5);
}

#[tokio::test]
async fn a_model_that_cannot_call_tools_is_learned_of_once() {
    for name in ["ollama-v1-err-no-tools"] {
        let Node { server, leg, data: _data } = node(true, None).await;
        server.push(replay(name));
        assert_eq!(ask(&leg, &question()).await, Err(BackendError::NoTools));
        assert!(!leg.available().await.unwrap().tools);
        assert_eq!(ask(&leg, &question()).await, Err(BackendError::NoTools));
        assert_eq!(server.requests_to(COMPLETIONS).len(), 1);
        let bare = Request { system: "", tools: &[], history: &question() };
        assert_eq!(leg.send(bare).await, Ok(BackendTurn::Text("ok".to_owned())));
    }
}

#[tokio::test]
async fn money_is_told_apart_and_neither_key_nor_change_is_in_any_word() {
    const CHANGE: &str = "cashuBo2FteCJodHRwczovL21pbnQuZXhhbXBsZSJ9";
    let Node { server, leg, data: _data } = node(false, Some(KEY)).await;
    let words =
        format!("Insufficient balance: 900 mSats required. 12 available. {KEY} {CHANGE} sk-{KEY}");
    let inner =
        json!({"message": words, "type": "insufficient_quota", "code": "insufficient_balance"});
    for (status, body) in [
        (402, json!({"detail": {"error": inner}})),
        (402, json!({"error": inner, "request_id": "r"})),
        (402, json!({"detail": words})),
        (400, json!({"detail": {"error": {"message": words, "code": "token_already_spent"}}})),
        (401, json!({"detail": {"error": {"message": words, "code": "invalid_api_key"}}})),
        (500, json!({"error": {"message": words, "code": "token_consumed"}})),
        (418, json!({"error": words})),
    ] {
        server.push(Answer::json(status, body.clone()).with_header("x-cashu", CHANGE));
        let error = ask(&leg, &question()).await.unwrap_err();
        let money = matches!(error, BackendError::NoMoney(_));
        assert_eq!(money, !matches!(status, 401 | 418), "{body}: {error:?}");
        for shown in [error.to_string(), format!("{error:?}"), format!("{leg:?}")] {
            assert!(!shown.contains("canary") && !shown.contains("o2Fte"), "{shown}");
        }
    }
    // Change that comes with an answer goes nowhere either.
    server.push(Answer::json(200, text("paid")).with_header("x-cashu", CHANGE));
    assert_eq!(ask(&leg, &question()).await, Ok(BackendTurn::Text("paid".to_owned())));
}

#[tokio::test]
async fn a_server_that_has_gone_is_unreachable_and_one_that_loads_is_busy() {
    let Node { server, leg, data: _data } = node(true, None).await;
    leg.there().await.unwrap();
    server.set_path("/v1/models", replay("llamacpp-health-loading"));
    assert_eq!(leg.there().await, Err(BackendError::Overloaded { retry_after: None }));
    server.push(Answer::cut());
    assert!(matches!(ask(&leg, &question()).await, Err(BackendError::Unreachable(_))));
    drop(server);
    assert!(matches!(leg.there().await, Err(BackendError::Unreachable(_))));
    assert!(matches!(ask(&leg, &question()).await, Err(BackendError::Unreachable(_))));
}
