//! The OpenAI-compatible leg and Claude's against llama.cpp's `llama-server`, with a toy model that says exactly what it is told
//! to (`tests/tools/toy_model.py`).
//!
//! Not among the usual tests: `.ci/real-servers` starts the server and runs them. Needs no network.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tombolo::assistant::backends::claude::Claude;
use tombolo::assistant::backends::openai::Openai;
use tombolo::assistant::backends::{
    Backend, BackendError, BackendTurn, CUT_MARK, Request, ToolSpec, Turn,
};
use tombolo::assistant::http::HttpClient;
use tombolo::assistant::tools::{Description, ToolDef, ToolRegistry};
use tombolo::assistant::{
    Assistant, CallerScope, ChatContext, ChatStatus, PermissionCategory, SessionId, TurnId,
};
use tombolo::config::{ClaudeConfig, CloudPolicy, OpenaiConfig};
use tombolo::secrets::{Secret, SecretName, Secrets};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run .ci/real-servers"))
}

/// Both legs before the server, with that key.
fn legs(key: &str) -> (Openai, Claude, tempfile::TempDir) {
    let url = variable("TOMBOLO_MODEL_SERVER");
    let data = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(data.path()).unwrap();
    for name in [SecretName::ClaudeApiKey, SecretName::OpenaiApiKey] {
        secrets.write(name, &Secret::new(key)).unwrap();
    }
    let config = OpenaiConfig { url: format!("{url}/v1"), model: "toy".to_owned(), local: true };
    let openai = Openai::new(&config, secrets.clone());
    let claude = Claude::new(&ClaudeConfig { url, model: "toy".to_owned() }, secrets);
    (openai, claude, data)
}

fn weather() -> ToolSpec {
    ToolSpec {
        name: "get_weather".to_owned(),
        description: "The weather in a city.".to_owned(),
        parameters: json!({
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        }),
    }
}

fn offered() -> Vec<ToolSpec> {
    let parameters = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let (name, description) = ("send_message".to_owned(), "Sends a message.".to_owned());
    vec![weather(), ToolSpec { name, description, parameters }]
}

async fn say(leg: &dyn Backend, script: &str) -> Result<BackendTurn, BackendError> {
    let history = [Turn::User(format!("st:{script} please"))];
    leg.send(Request { system: "", tools: &offered(), history: &history }).await
}

#[tokio::test]
async fn whatever_the_model_says_has_its_outcome() {
    let (openai, claude, _data) = legs(&variable("TOMBOLO_MODEL_KEY"));
    let one = |name: &str, arguments: Value| vec![(name.to_owned(), arguments)];
    let city = |city: &str| json!({ "city": city });
    let calls = [
        ("toolcall", "", one("get_weather", city("Paris"))),
        ("mixed", "Let me look that up.", one("get_weather", city("Oslo"))),
        ("strargs", "", one("get_weather", city("Bern"))),
        ("badargs", "", one("get_weather", json!({"location": "Bonn", "days": "3"}))),
        ("jsontext", "", one("get_weather", city("Lyon"))),
        ("fenced", "", one("get_weather", city("Nice"))),
        ("leak", "", one("get_weather", json!({}))),
        (
            "parallel",
            "",
            [one("get_weather", city("Rome")), one("send_message", json!({"to": "!a1b2c3d4"}))]
                .concat(),
        ),
    ];
    let legs: [&dyn Backend; 2] = [&openai, &claude];
    for leg in legs {
        for (script, beside, wanted) in &calls {
            match say(leg, script).await {
                Ok(BackendTurn::ToolCalls { text, calls, .. }) => {
                    assert!(calls.iter().all(|call| !call.id.is_empty()));
                    let made: Vec<(String, Value)> =
                        calls.into_iter().map(|call| (call.name, call.arguments)).collect();
                    assert_eq!(
                        (text.as_str(), &made),
                        (*beside, wanted),
                        "{} {script}",
                        leg.name()
                    );
                }
                other => panic!("{} {script}: {other:?}", leg.name()),
            }
        }
        for (script, words) in
            [("text", "It is 18 C and sunny in Paris."), ("think", "Hello from the mesh.")]
        {
            let text = BackendTurn::Text(words.to_owned());
            assert_eq!(say(leg, script).await, Ok(text), "{} {script}", leg.name());
        }
        for script in ["unknown", "broken", "badjson", "empty", "thinkonly"] {
            let outcome = say(leg, script).await;
            let is_broken = matches!(outcome, Err(BackendError::Broken(_)));
            assert!(is_broken, "{} {script}: {outcome:?}", leg.name());
        }
        // Without an end: cut at our cap, and marked.
        let Ok(BackendTurn::Text(text)) = say(leg, "loop").await else { panic!("no text") };
        assert!(text.starts_with("la lala ") && text.ends_with(CUT_MARK), "{}", leg.name());
    }
}

#[tokio::test]
async fn a_wrong_key_and_a_prompt_that_is_too_long_are_told() {
    let (openai, claude, _data) = legs("another-key");
    for leg in [&openai as &dyn Backend, &claude] {
        let outcome = say(leg, "text").await;
        assert!(matches!(outcome, Err(BackendError::Auth(_))), "{}: {outcome:?}", leg.name());
    }
    // The toy model's tokens are single bytes: 4096 of them are the window.
    let (openai, claude, _data) = legs(&variable("TOMBOLO_MODEL_KEY"));
    let long = [Turn::User("x".repeat(5000))];
    let old = [Turn::User("y".repeat(5000)), Turn::User("st:text".to_owned())];
    for leg in [&openai as &dyn Backend, &claude] {
        let ask =
            async |history: &[Turn]| leg.send(Request { system: "", tools: &[], history }).await;
        assert_eq!(ask(&long).await, Err(BackendError::TooLong), "{}", leg.name());
        // What is old is left out, and the question is answered.
        let answered = BackendTurn::Text("It is 18 C and sunny in Paris.".to_owned());
        assert_eq!(ask(&old).await, Ok(answered), "{}", leg.name());
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct City {
    city: String,
}

#[tokio::test]
async fn whole_turns_with_a_tool_run_over_both_forms() {
    for leg in 0..2 {
        let (openai, claude, data) = legs(&variable("TOMBOLO_MODEL_KEY"));
        let legs: Vec<Box<dyn Backend>> =
            vec![if leg == 0 { Box::new(openai) } else { Box::new(claude) }];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let about = Description {
            name: "get_weather",
            description: "The weather in a city.",
            parameters: weather().parameters,
            category: PermissionCategory::System,
            destructive: false,
        };
        let tool = ToolDef::new(about, move |City { city }| {
            seen.lock().unwrap().push(city);
            Box::pin(async { Ok("18 C, sunny".to_owned()) })
        });
        let tools = ToolRegistry::new([tool]);
        let assistant = Assistant::with_legs(legs, CloudPolicy::All, tools, data.path()).unwrap();
        let context = |turn: &str| ChatContext {
            scope: CallerScope::LocalOperator {
                session_id: SessionId("s".to_owned()),
                granted: [PermissionCategory::System].into(),
            },
            turn_id: TurnId(turn.to_owned()),
            cancel: CancellationToken::new(),
            answer_bytes: None,
            quotes: None,
        };
        // The second turn carries the first one along.
        for turn in ["1", "2"] {
            let reply = assistant.chat(context(turn), "st:toolcall").await;
            assert_eq!(
                (reply.status, reply.text.as_str()),
                (ChatStatus::Answered, "It is 18 C and sunny in Paris."),
                "{:?}",
                reply.reasons
            );
        }
        assert_eq!(*asked.lock().unwrap(), ["Paris", "Paris"]);
    }
}

#[tokio::test]
async fn a_request_that_is_dropped_stops_the_servers_work() {
    let (openai, _claude, _data) = legs(&variable("TOMBOLO_MODEL_KEY"));
    let url = variable("TOMBOLO_MODEL_SERVER");
    let http = HttpClient::new(&url);
    let http = http.get().unwrap();
    let works = async || {
        let slots = http.get(format!("{url}/slots")).bearer_auth(variable("TOMBOLO_MODEL_KEY"));
        let slots: Value = slots.send().await.unwrap().json().await.unwrap();
        slots[0]["is_processing"].as_bool().unwrap()
    };
    let until = async |wanted: bool| {
        for _ in 0..500 {
            if works().await == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server never came to is_processing = {wanted}");
    };
    until(false).await;
    {
        let asking = say(&openai, "loop");
        tokio::select! {
            outcome = asking => panic!("it was not dropped: {outcome:?}"),
            () = until(true) => {}
        }
    }
    until(false).await;
    assert!(say(&openai, "text").await.is_ok());
}
