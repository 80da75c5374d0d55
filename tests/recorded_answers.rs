//! What the local leg makes of recorded answers that take more than one request, or are put together.
//! What becomes of each by itself stands in `recordings_table`.

use serde_json::json;
use tombolo::assistant::backends::{BackendError, BackendTurn, Turn};

use crate::backends::{ask, leg, question, recorded, replay};
use crate::support::ollama::{Answer, ScriptedOllama};

#[tokio::test]
async fn a_printed_call_of_a_tool_that_was_not_offered_is_shown_to_nobody() {
    // The lines of the stream, put together.
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
