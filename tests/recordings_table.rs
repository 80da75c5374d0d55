//! Every recorded answer of a real model server, through the leg that asks for such answers: what becomes of it.
//!
//! The row of a recording is found by its name, its leg by the path that was asked. A recording without a row fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use tombolo::assistant::backends::claude::Claude;
use tombolo::assistant::backends::ollama;
use tombolo::assistant::backends::openai::Openai;
use tombolo::assistant::backends::{Backend, BackendError, BackendTurn, CUT_MARK, ToolCall};
use tombolo::config::{ClaudeConfig, OpenaiConfig};
use tombolo::secrets::{Secret, SecretName, Secrets};

use crate::backends::{answer_of, ask, leg, question};
use crate::support::ollama::ScriptedOllama;

/// What becomes of an answer.
#[derive(Debug)]
enum Is {
    Text(&'static str),
    /// A text that begins so and ends with the mark of a cut.
    Cut(&'static str),
    /// Names and arguments.
    Calls(&'static [(&'static str, &'static str)]),
    /// The same beside a text.
    Beside(&'static str, &'static [(&'static str, &'static str)]),
    /// Of no use; nothing of it is shown.
    Broken,
    Refused(u16, &'static str),
    NoTools,
    NoModel,
    TooLong,
    Auth,
    Busy,
    /// A list of so many models.
    Models(usize),
    /// A model that can call tools, or can't.
    Tools(bool),
}

/// It holds several answers.
const FAULTS: &str = "ollama-faults";

#[rustfmt::skip]
const ROWS: &[(&str, Is)] = &[
    ("llamacpp-anthropic-err-key", Is::Auth),
    ("llamacpp-anthropic-stream", Is::Broken),
    ("llamacpp-anthropic-text", Is::Text("It is 18 C and sunny in Paris.")),
    ("llamacpp-err-bad-json", Is::Refused(500, "[json.exception.parse_error.101] parse e")),
    ("llamacpp-err-bad-role", Is::Refused(400, "All non-assistant messages must contain ")),
    ("llamacpp-err-messages-missing", Is::Refused(400, "'messages' is required")),
    ("llamacpp-err-no-key", Is::Auth),
    ("llamacpp-gemma-json-schema", Is::Text("{\n    \"city\": \"Paris, France\"\n}")),
    ("llamacpp-gemma-plain", Is::Text("What is the capital of France?")),
    ("llamacpp-gemma-tools-auto", Is::Text("What is the weather in Paris?")),
    ("llamacpp-gemma-tools-named", Is::Text("What is the weather in Paris?")),
    ("llamacpp-gemma-tools-required", Is::Text("What is the weather in Paris?")),
    ("llamacpp-gemma-tools-required-2", Is::Text("What is the weather in London?")),
    ("llamacpp-health", Is::Broken),
    ("llamacpp-health-loading", Is::Busy),
    ("llamacpp-length", Is::Cut("la lala lalala lala lalala")),
    ("llamacpp-max-completion-tokens", Is::Cut("la lala lalala lala")),
    ("llamacpp-models", Is::Tools(true)),
    ("llamacpp-toy-bad-arguments-history", Is::Broken),
    ("llamacpp-toy-badjson", Is::Broken),
    ("llamacpp-toy-empty", Is::Broken),
    ("llamacpp-toy-jsontext", Is::Calls(&[("get_weather", r#"{"city":"Lyon"}"#)])),
    ("llamacpp-toy-named-tool", Is::Text("It is 18 C and sunny in Paris.")),
    ("llamacpp-toy-object-arguments", Is::Text("It is 18 C and sunny in Paris.")),
    ("llamacpp-toy-parallel", Is::Calls(&[("get_weather", r#"{"city":"Rome"}"#), ("send_message", r#"{"to":"!a1b2c3d4","text":"hi"}"#)])),
    ("llamacpp-toy-required", Is::Cut("It is 18 C and sunny in Par")),
    ("llamacpp-toy-stream-text", Is::Broken),
    ("llamacpp-toy-stream-toolcall", Is::Broken),
    ("llamacpp-toy-text", Is::Text("It is 18 C and sunny in Paris.")),
    ("llamacpp-toy-think", Is::Text("Hello from the mesh.")),
    ("llamacpp-toy-tool-choice-none", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("llamacpp-toy-tool-result", Is::Text("It is 18 C and sunny in Paris.")),
    ("llamacpp-toy-toolcall", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("llamacpp-toy-wrong-model-name-ignored", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-after-runner-kill", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-anthropic-err-model", Is::NoModel),
    ("ollama-anthropic-err-no-max-tokens", Is::Refused(400, "max_tokens is required and must be posit")),
    ("ollama-anthropic-err-notools", Is::Refused(400, "registry.ollama.ai/library/toy-notools:l")),
    ("ollama-anthropic-max-tokens", Is::Cut("la lala lalala lala")),
    ("ollama-anthropic-mixed", Is::Beside("Let me look that up.", &[("get_weather", r#"{"city":"Oslo"}"#)])),
    ("ollama-anthropic-stream-toolcall", Is::Broken),
    ("ollama-anthropic-text", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-anthropic-think", Is::Text("Hello from the mesh.")),
    ("ollama-anthropic-tool-result", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-anthropic-toolcall", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-chat-model-not-found", Is::NoModel),
    ("ollama-chat-native-badargs", Is::Calls(&[("get_weather", r#"{"location":"Bonn","days":"3"}"#)])),
    ("ollama-chat-native-badjson", Is::Broken),
    ("ollama-chat-native-broken", Is::Broken),
    ("ollama-chat-native-empty", Is::Broken),
    ("ollama-chat-native-jsontext", Is::Calls(&[("get_weather", r#"{"city":"Lyon"}"#)])),
    ("ollama-chat-native-mixed", Is::Beside("Let me look that up.", &[("get_weather", r#"{"city":"Oslo"}"#)])),
    ("ollama-chat-native-parallel", Is::Calls(&[("get_weather", r#"{"city":"Rome"}"#), ("send_message", r#"{"to":"!a1b2c3d4","text":"hi"}"#)])),
    ("ollama-chat-native-stream-halluc", Is::Broken),
    ("ollama-chat-native-think", Is::Text("Hello from the mesh.")),
    ("ollama-chat-no-tools-capability", Is::NoTools),
    ("ollama-chat-stream-mixed", Is::Broken),
    ("ollama-chat-stream-native", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-chat-stream-parallel", Is::Broken),
    ("ollama-chat-stream-text", Is::Broken),
    ("ollama-chat-stream-think", Is::Broken),
    ("ollama-chat-stream-toolcall", Is::Broken),
    ("ollama-chat-tool-result", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-chat-tool-result-repeat", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-chat-tools-badargs", Is::Calls(&[("get_weather", r#"{"location":"Bonn","days":"3"}"#)])),
    ("ollama-chat-tools-badjson", Is::Broken),
    ("ollama-chat-tools-broken", Is::Broken),
    ("ollama-chat-tools-empty", Is::Broken),
    ("ollama-chat-tools-halluc", Is::Broken),
    ("ollama-chat-tools-jsontext", Is::Calls(&[("get_weather", r#"{"city":"Lyon"}"#)])),
    ("ollama-chat-tools-leak", Is::Calls(&[("get_weather", r#"{}"#)])),
    ("ollama-chat-tools-mixed", Is::Beside("Let me look that up.", &[("get_weather", r#"{"city":"Oslo"}"#)])),
    ("ollama-chat-tools-native", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-chat-tools-parallel", Is::Calls(&[("get_weather", r#"{"city":"Rome"}"#), ("send_message", r#"{"to":"!a1b2c3d4","text":"hi"}"#)])),
    ("ollama-chat-tools-text", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-chat-tools-think", Is::Text("Hello from the mesh.")),
    ("ollama-chat-tools-toolcall", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-ctx-last-message-too-long", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-ctx-last-message-too-long-shift-false", Is::TooLong),
    ("ollama-ctx-native-too-long-shift-false", Is::TooLong),
    ("ollama-ctx-truncate-false", Is::TooLong),
    ("ollama-ctx-truncate-shift-false", Is::TooLong),
    ("ollama-ctx-truncated-render", Is::Broken),
    ("ollama-err-404-path", Is::Refused(404, "without a reason")),
    ("ollama-err-405", Is::Refused(405, "without a reason")),
    ("ollama-err-bad-json", Is::Refused(400, "unexpected EOF")),
    ("ollama-err-bad-name", Is::Refused(400, "invalid model name")),
    ("ollama-err-content-array", Is::Refused(400, "json: cannot unmarshal array into Go str")),
    ("ollama-err-empty-body", Is::Refused(400, "missing request body")),
    ("ollama-err-format", Is::Refused(500, "invalid format: \"\\\"xml\\\"\"; expected \"jso")),
    ("ollama-err-host-header", Is::Refused(403, "the server does not answer to this host ")),
    ("ollama-err-keepalive-string-number", Is::Refused(400, "time: missing unit in duration \"300\"")),
    ("ollama-err-no-model", Is::Refused(400, "model is required")),
    ("ollama-err-option-type", Is::Refused(500, "option \"num_ctx\" must be of type integer")),
    ("ollama-err-string-arguments-in-history", Is::Refused(400, "Value looks like object, but can't find ")),
    ("ollama-err-think-value", Is::Refused(400, "invalid think value: \"maximum\" (must be ")),
    ("ollama-format-json", Is::Calls(&[("send_message", r#"{"to":"!a1b2c3d4","text":"hi"}"#)])),
    ("ollama-format-json-with-tools", Is::Broken),
    ("ollama-gemma-plain", Is::Text("Write one sentence about mountains.")),
    ("ollama-gemma-schema", Is::Text("{\"city\":\"Oslo\",\"temp_c\":1000000000000000}")),
    ("ollama-gemma-tool-result", Is::Text("It is 10 degrees and snowing in Oslo.")),
    ("ollama-gemma-tools-0", Is::Calls(&[("get_weather", r#"{"city":"Oslo"}"#)])),
    ("ollama-gemma-tools-1", Is::Calls(&[("get_weather", r#"{"city":"Madrid"}"#)])),
    ("ollama-gemma-tools-2", Is::Calls(&[("send_message", r#"{"to":"Alice","text":"I am ready for dinner"}"#)])),
    ("ollama-gemma-tools-3", Is::Calls(&[("send_message", r#"{"to":"Carol","text":"I am meeting at 5pm"}"#)])),
    ("ollama-gemma-tools-4", Is::Calls(&[("get_weather", r#"{"city":"Berlin"}"#)])),
    ("ollama-gemma-tools-5", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-keepalive-minus1", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-keepalive-minus1-string", Is::Refused(400, "time: missing unit in duration \"-1\"")),
    ("ollama-load-only", Is::Broken),
    ("ollama-loop-shift-false", Is::Cut("la lala lalala lala lalala ")),
    ("ollama-num-predict-0", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-num-predict-length", Is::Cut("la lala lalala lala lalala")),
    ("ollama-open-ended-generation", Is::Cut("la lala lalala lala lalala ")),
    ("ollama-ps", Is::Broken),
    ("ollama-ps-after-unload", Is::Broken),
    ("ollama-ps-forever", Is::Broken),
    ("ollama-root", Is::Broken),
    ("ollama-show-not-found", Is::NoModel),
    ("ollama-show-toy-native", Is::Tools(true)),
    ("ollama-show-toy-notools", Is::Tools(false)),
    ("ollama-show-toy-think", Is::Tools(true)),
    ("ollama-show-toy-toolcall", Is::Tools(true)),
    ("ollama-tags", Is::Models(19)),
    ("ollama-tags-empty", Is::Models(0)),
    ("ollama-tags-with-origin", Is::Refused(403, "the server does not answer to this host ")),
    ("ollama-think-false-supported", Is::Text("Hello from the mesh.")),
    ("ollama-think-false-unsupported", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-think-true-unsupported", Is::Refused(400, "\"toy-text\" does not support thinking")),
    ("ollama-unknown-option", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-unload", Is::Broken),
    ("ollama-v1-err-content-null", Is::Refused(400, "invalid message content type: <nil>")),
    ("ollama-v1-err-empty-arguments", Is::Refused(400, "invalid tool call arguments")),
    ("ollama-v1-err-empty-messages", Is::Refused(400, "[] is too short - 'messages'")),
    ("ollama-v1-err-model-not-found", Is::NoModel),
    ("ollama-v1-err-no-tools", Is::NoTools),
    ("ollama-v1-err-object-arguments", Is::Refused(400, "json: cannot unmarshal object into Go st")),
    ("ollama-v1-max-completion-tokens-ignored", Is::Cut("la lala lalala lala lalala lala")),
    ("ollama-v1-models", Is::Tools(true)),
    ("ollama-v1-parallel", Is::Calls(&[("get_weather", r#"{"city":"Rome"}"#), ("send_message", r#"{"to":"!a1b2c3d4","text":"hi"}"#)])),
    ("ollama-v1-stream-parallel", Is::Broken),
    ("ollama-v1-stream-text", Is::Broken),
    ("ollama-v1-stream-toolcall", Is::Broken),
    ("ollama-v1-text", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-v1-think", Is::Text("Hello from the mesh.")),
    ("ollama-v1-tool-result", Is::Text("It is 18 C and sunny in Paris.")),
    ("ollama-v1-toolcall", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-v1-toolchoice-none-ignored", Is::Calls(&[("get_weather", r#"{"city":"Paris"}"#)])),
    ("ollama-version", Is::Broken),
];

/// A leg of each kind before that server.
struct Legs {
    server: ScriptedOllama,
    claude: Claude,
    openai: Openai,
    _data: tempfile::TempDir,
}

async fn legs() -> Legs {
    let server = ScriptedOllama::start().await;
    let data = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(data.path()).unwrap();
    for name in [SecretName::ClaudeApiKey, SecretName::OpenaiApiKey] {
        secrets.write(name, &Secret::new("canary-key")).unwrap();
    }
    let config = ClaudeConfig { url: server.url(), model: "toy".to_owned() };
    let claude = Claude::new(&config, secrets.clone());
    let url = format!("{}/v1", server.url());
    let config = OpenaiConfig { url, model: "toy".to_owned(), local: true };
    let openai = Openai::new(&config, secrets);
    Legs { server, claude, openai, _data: data }
}

/// What comes of that answer on that path.
async fn outcome(path: &str, status: u16, body: Value) -> Result<Told, BackendError> {
    let Legs { server, claude, openai, _data } = legs().await;
    let ollama = leg(&server);
    let answer = answer_of(status, body);
    match path {
        "/api/show" => {
            server.set_path("/api/show", answer);
            ollama.available().await.map(|told| Told::Tools(told.tools))
        }
        "/api/tags" => {
            server.set_path("/api/tags", answer);
            ollama::models(&server.url()).await.map(|models| Told::Models(models.len()))
        }
        "/v1/models" => {
            server.set_path("/v1/models", answer);
            openai.available().await.map(|told| Told::Tools(told.tools))
        }
        path if path.starts_with("/v1/chat") || path == "/health" => {
            server.set_default(answer);
            ask(&openai, &question()).await.map(Told::Turn)
        }
        "/v1/messages" => {
            server.set_default(answer);
            ask(&claude, &question()).await.map(Told::Turn)
        }
        // Whatever else Ollama says comes where an answer was asked for.
        _ => {
            server.set_default(answer);
            ask(&ollama, &question()).await.map(Told::Turn)
        }
    }
}

#[derive(Debug)]
enum Told {
    Turn(BackendTurn),
    Models(usize),
    Tools(bool),
}

fn judge(name: &str, is: &Is, told: &Result<Told, BackendError>) {
    use BackendError as E;
    let calls_of = |calls: &[ToolCall]| {
        assert!(calls.iter().all(|call| !call.id.is_empty()), "{name}");
        calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect::<Vec<_>>()
    };
    let wanted = |calls: &[(&str, &str)]| {
        calls
            .iter()
            .map(|(name, arguments)| {
                ((*name).to_owned(), serde_json::from_str::<Value>(arguments).unwrap())
            })
            .collect::<Vec<_>>()
    };
    let right = match (is, told) {
        (Is::Text(words), Ok(Told::Turn(BackendTurn::Text(text)))) => text == words,
        (Is::Cut(begun), Ok(Told::Turn(BackendTurn::Text(text)))) => {
            text.starts_with(begun) && text.ends_with(CUT_MARK)
        }
        (Is::Calls(calls), Ok(Told::Turn(BackendTurn::ToolCalls { text, calls: made, .. }))) => {
            text.is_empty() && calls_of(made) == wanted(calls)
        }
        (
            Is::Beside(words, calls),
            Ok(Told::Turn(BackendTurn::ToolCalls { text, calls: made, .. })),
        ) => text == words && calls_of(made) == wanted(calls),
        (Is::Refused(status, words), Err(E::Refused { status: got, reason })) => {
            got == status && reason.contains(words)
        }
        (Is::Models(count), Ok(Told::Models(models))) => models == count,
        (Is::Tools(can), Ok(Told::Tools(tools))) => tools == can,
        (Is::Broken, Err(E::Broken(_)))
        | (Is::NoTools, Err(E::NoTools))
        | (Is::NoModel, Err(E::NoModel(_)))
        | (Is::TooLong, Err(E::TooLong))
        | (Is::Auth, Err(E::Auth(_)))
        | (Is::Busy, Err(E::Overloaded { .. })) => true,
        _ => false,
    };
    assert!(right, "{name}: {is:?}, and it was {told:?}");
}

#[tokio::test]
async fn every_recording_has_its_outcome() {
    let rows: BTreeMap<&str, &Is> = ROWS.iter().map(|(name, is)| (*name, is)).collect();
    assert_eq!(rows.len(), ROWS.len(), "a row stands twice");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recording: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        if name == FAULTS {
            faults(&recording).await;
            continue;
        }
        let is = rows.get(name.as_str()).unwrap_or_else(|| panic!("no row for {name}"));
        let response = &recording["response"];
        let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
        let asked = recording["request"]["path"].as_str().unwrap();
        judge(&name, is, &outcome(asked, status, response["body"].clone()).await);
        seen.insert(name);
    }
    let without: Vec<&&str> = rows.keys().filter(|name| !seen.contains(**name)).collect();
    assert!(without.is_empty(), "rows without a recording: {without:?}");
}

/// The model's process was killed: in an answer, in a stream, and what came after.
async fn faults(recording: &Value) {
    let said = |part: &str| {
        let status = u16::try_from(recording[part][0].as_u64().unwrap()).unwrap();
        (status, recording[part][1].clone())
    };
    let (status, body) = said("runner_killed_nonstream");
    judge("killed", &Is::Broken, &outcome("/api/chat", status, body).await);
    let (status, body) = said("after_kill");
    let text = Is::Text("It is 18 C and sunny in Paris.");
    judge("after it", &text, &outcome("/api/chat", status, body).await);
    let mut lines = recording["runner_killed_mid_stream"]["first"].as_array().unwrap().clone();
    lines.extend(recording["runner_killed_mid_stream"]["last_lines"].as_array().unwrap().clone());
    judge("in a stream", &Is::Broken, &outcome("/api/chat", 200, json!(lines)).await);
}
