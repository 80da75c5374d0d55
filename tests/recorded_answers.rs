//! What the local leg makes of each recorded answer.

use serde_json::{Value, json};
use tombolo::assistant::backends::{BackendError, BackendTurn, Turn};

use crate::backends::{ask, leg, question, recorded, replay};
use crate::support::ollama::{Answer, ScriptedOllama};

async fn replayed(name: &str) -> Result<BackendTurn, BackendError> {
    let server = ScriptedOllama::start().await;
    server.set_default(replay(name));
    ask(&leg(&server), &question()).await
}

fn weather(city: &str) -> (String, Value) {
    ("get_weather".to_owned(), json!({ "city": city }))
}

/// Names and arguments of the calls, and the text beside them.
async fn calls_of(name: &str) -> (String, Vec<(String, Value)>) {
    match replayed(name).await {
        Ok(BackendTurn::ToolCalls { text, calls, .. }) => {
            assert!(calls.iter().all(|call| !call.id.is_empty()));
            (text, calls.into_iter().map(|call| (call.name, call.arguments)).collect())
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn recorded_calls_are_read() {
    for (name, text, calls) in [
        ("ollama-chat-tools-toolcall", "", vec![weather("Paris")]),
        ("ollama-chat-tools-native", "", vec![weather("Paris")]),
        ("ollama-chat-tool-result-repeat", "", vec![weather("Paris")]),
        ("ollama-chat-tools-mixed", "Let me look that up.", vec![weather("Oslo")]),
        ("ollama-chat-native-mixed", "Let me look that up.", vec![weather("Oslo")]),
        ("ollama-gemma-tools-0", "", vec![weather("Oslo")]),
        ("ollama-chat-tools-jsontext", "", vec![weather("Lyon")]),
        ("ollama-chat-native-jsontext", "", vec![weather("Lyon")]),
        ("ollama-chat-tools-leak", "", vec![("get_weather".to_owned(), json!({}))]),
    ] {
        assert_eq!(calls_of(name).await, (text.to_owned(), calls), "{name}");
    }
    for name in ["ollama-chat-tools-parallel", "ollama-chat-native-parallel"] {
        let hi = ("send_message".to_owned(), json!({"to": "!a1b2c3d4", "text": "hi"}));
        assert_eq!(calls_of(name).await.1, [weather("Rome"), hi], "{name}");
    }
    // Arguments that don't fit the schema are for the check of the arguments to refuse.
    for name in ["ollama-chat-tools-badargs", "ollama-chat-native-badargs"] {
        let bad = json!({"location": "Bonn", "days": "3"});
        assert_eq!(calls_of(name).await.1, [("get_weather".to_owned(), bad)], "{name}");
    }
}

#[tokio::test]
async fn recorded_texts_are_read() {
    for (name, text) in [
        ("ollama-chat-tools-text", "It is 18 C and sunny in Paris."),
        ("ollama-chat-tool-result", "It is 18 C and sunny in Paris."),
        ("ollama-chat-tools-think", "Hello from the mesh."),
        ("ollama-chat-native-think", "Hello from the mesh."),
        ("ollama-think-false-supported", "Hello from the mesh."),
        ("ollama-num-predict-length", "la lala lalala lala lalala"),
        ("ollama-ctx-last-message-too-long", "It is 18 C and sunny in Paris."),
    ] {
        assert_eq!(replayed(name).await.unwrap(), BackendTurn::Text(text.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn recorded_answers_of_no_use_are_broken_and_show_nothing() {
    for name in [
        "ollama-chat-tools-empty",
        "ollama-chat-native-empty",
        "ollama-chat-tools-broken",
        "ollama-chat-native-broken",
        "ollama-chat-tools-badjson",
        "ollama-chat-native-badjson",
        "ollama-chat-tools-halluc",
    ] {
        let outcome = replayed(name).await;
        assert!(matches!(outcome, Err(BackendError::Broken(_))), "{name}: {outcome:?}");
    }
    // A call of a tool that was not offered, printed: the lines of the stream, put together.
    let (_, lines) = recorded("ollama-chat-native-stream-halluc");
    let content: String = lines
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["message"]["content"].as_str().unwrap())
        .collect();
    assert!(content.contains("web_search"));
    let server = ScriptedOllama::start().await;
    server.push(Answer::text(content));
    assert!(matches!(ask(&leg(&server), &question()).await, Err(BackendError::Broken(_))));
}

#[tokio::test]
async fn recorded_refusals_have_their_meaning() {
    assert_eq!(replayed("ollama-chat-no-tools-capability").await, Err(BackendError::NoTools));
    let outcome = replayed("ollama-chat-model-not-found").await;
    let Err(BackendError::NoModel(reason)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, "toy; the server has toy:latest");
    for (name, status, words) in [
        ("ollama-err-404-path", 404, ""),
        ("ollama-err-405", 405, ""),
        ("ollama-err-bad-json", 400, "unexpected EOF"),
        ("ollama-err-bad-name", 400, "invalid model name"),
        ("ollama-err-content-array", 400, "cannot unmarshal array"),
        ("ollama-err-empty-body", 400, "missing request body"),
        ("ollama-err-format", 500, "invalid format"),
        ("ollama-err-host-header", 403, "host name"),
        ("ollama-err-keepalive-string-number", 400, "missing unit"),
        ("ollama-err-no-model", 400, "model is required"),
        ("ollama-err-option-type", 500, "must be of type integer"),
        ("ollama-err-string-arguments-in-history", 400, "closing '}'"),
        ("ollama-err-think-value", 400, "invalid think value"),
    ] {
        match replayed(name).await {
            Err(BackendError::Refused { status: got, reason }) => {
                assert_eq!(got, status, "{name}");
                assert!(reason.contains(words), "{name}: {reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_500_of_the_models_own_making_is_broken_and_quotes_nobody() {
    for words in [
        "error parsing tool call: raw='{\"a secret of the peer', err=unexpected end of JSON input",
        "llama-server returned invalid tool call arguments for \"get_weather\": a secret of the peer",
        "The model produced output that does not match the expected peg-native format",
        "XML syntax error on line 3: unexpected EOF",
        "invalid character 'a' looking for beginning of value",
        "an error was encountered while running the model: unexpected EOF",
    ] {
        let server = ScriptedOllama::start().await;
        server.push(Answer::json(500, json!({ "error": words })));
        let outcome = ask(&leg(&server), &question()).await;
        let Err(BackendError::Broken(reason)) = &outcome else { panic!("{words}: {outcome:?}") };
        assert!(!reason.contains("secret"), "{reason}");
    }
    let server = ScriptedOllama::start().await;
    server.push(Answer::json(503, json!({"error": "server busy, please try again."})));
    let outcome = ask(&leg(&server), &question()).await;
    assert_eq!(outcome, Err(BackendError::Overloaded { retry_after: None }));
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_made_shorter_once() {
    for name in [
        "ollama-ctx-truncate-false",
        "ollama-ctx-truncate-shift-false",
        "ollama-ctx-native-too-long-shift-false",
        "ollama-ctx-last-message-too-long-shift-false",
    ] {
        let server = ScriptedOllama::start().await;
        server.push(replay(name));
        let history: Vec<Turn> =
            (0..8).map(|_| Turn::User("x".repeat(1800))).chain(question()).collect();
        let leg = leg(&server);
        assert_eq!(ask(&leg, &history).await, Ok(BackendTurn::Text("ok".to_owned())), "{name}");
        let sizes: Vec<usize> = server
            .requests_to("/api/chat")
            .iter()
            .map(|request| request.body.to_string().len())
            .collect();
        assert!(sizes[1] < sizes[0] * 2 / 3, "{name}: {sizes:?}");
        server.set_default(replay(name));
        let refused = ask(&leg, &question()).await;
        assert_eq!(refused, Err(BackendError::TooLong), "{name}");
        assert_eq!(server.requests_to("/api/chat").len(), 4);
    }
}
