//! The whole chain, Ollama → Claude → OpenAI-compatible → offline, before servers on real sockets: their order, whatever
//! they do, the model that was chosen, and connections that are closed when a turn is stopped.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tombolo::assistant::backends::Backend;
use tombolo::assistant::backends::ollama::Ollama;
use tombolo::assistant::models::ModelError;
use tombolo::assistant::tools::ToolRegistry;
use tombolo::assistant::{
    Assistant, CallerScope, ChatContext, ChatReply, ChatStatus, PermissionCategory, SessionId,
    TurnId,
};
use tombolo::config::{AssistantConfig, ClaudeConfig, CloudPolicy, OllamaConfig, OpenaiConfig};
use tombolo::secrets::{Secret, SecretName, Secrets};

use crate::openai;
use crate::support::ollama::{Answer, ScriptedOllama};

/// The three servers, and the node that asks them.
struct Node {
    servers: [Option<ScriptedOllama>; 3],
    config: AssistantConfig,
    data: tempfile::TempDir,
}

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Answer,
    /// No server is there.
    Gone,
    /// The connection breaks within the answer.
    Cut,
    Full,
    WrongKey,
    NoMoney,
    /// No answer, for ever.
    Slow,
}

const QUICK: [Does; 6] =
    [Does::Answer, Does::Gone, Does::Cut, Does::Full, Does::WrongKey, Does::NoMoney];

fn claude_text(words: &str) -> Value {
    json!({
        "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": words}],
    })
}

impl Does {
    fn answer(self, good: Answer) -> Answer {
        let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "no", "code": kind}});
        match self {
            Does::Answer | Does::Gone => good,
            Does::Cut => Answer::cut(),
            Does::Full => Answer::json(503, error("overloaded_error")),
            Does::WrongKey => Answer::json(401, error("authentication_error")),
            Does::NoMoney => Answer::json(402, error("billing_error")),
            Does::Slow => Answer::hang(),
        }
    }
}

async fn node(does: [Does; 3]) -> Node {
    let good = [
        Answer::text("local"),
        Answer::json(200, claude_text("claude")),
        Answer::json(200, openai::text("openai")),
    ];
    let mut servers = Vec::new();
    let mut urls = Vec::new();
    for (does, good) in does.into_iter().zip(good) {
        let server = ScriptedOllama::start().await;
        server.set_default(does.answer(good));
        urls.push(server.url());
        servers.push((does != Does::Gone).then_some(server));
    }
    let data = tempfile::tempdir().unwrap();
    let secrets = Secrets::open(data.path()).unwrap();
    for name in [SecretName::ClaudeApiKey, SecretName::OpenaiApiKey] {
        secrets.write(name, &Secret::new("canary-key")).unwrap();
    }
    let model = "toy".to_owned();
    let config = AssistantConfig {
        cloud: CloudPolicy::All,
        ollama: OllamaConfig { url: urls[0].clone(), model, ..OllamaConfig::default() },
        claude: ClaudeConfig { url: urls[1].clone(), ..ClaudeConfig::default() },
        openai: Some(OpenaiConfig {
            url: format!("{}/v1", urls[2]),
            model: "far".to_owned(),
            local: false,
        }),
        ..AssistantConfig::default()
    };
    let servers = servers.try_into().unwrap_or_else(|_| unreachable!("three"));
    Node { servers, config, data }
}

impl Node {
    fn assistant(&self) -> Assistant {
        let secrets = Secrets::open(self.data.path()).unwrap();
        Assistant::new(&self.config, secrets, self.data.path()).unwrap()
    }

    fn server(&self, leg: usize) -> &ScriptedOllama {
        self.servers[leg].as_ref().unwrap()
    }
}

fn context(turn: &str) -> ChatContext {
    ChatContext {
        scope: CallerScope::LocalOperator {
            session_id: SessionId("s".to_owned()),
            granted: [PermissionCategory::System].into(),
        },
        turn_id: TurnId(turn.to_owned()),
        cancel: CancellationToken::new(),
        answer_bytes: None,
        quotes: None,
    }
}

/// One question to a node whose servers do that, within so much time.
async fn asked(does: [Does; 3], time: Duration) -> ([Does; 3], ChatReply) {
    let node = node(does).await;
    let assistant = node.assistant().with_turn(time);
    (does, assistant.chat(context("t"), "hello").await)
}

#[tokio::test]
async fn killed_cut_full_wrong_key_and_out_of_money_in_every_order() {
    let orders = QUICK.into_iter().flat_map(|a| {
        QUICK.into_iter().flat_map(move |b| QUICK.into_iter().map(move |c| [a, b, c]))
    });
    let replies: Vec<_> = futures_util::stream::iter(orders)
        .map(|does| asked(does, Duration::from_secs(60)))
        .buffer_unordered(12)
        .collect()
        .await;
    assert_eq!(replies.len(), QUICK.len().pow(3));
    for (does, reply) in replies {
        let first = does.iter().position(|does| *does == Does::Answer);
        let told: Vec<&str> = reply.reasons.iter().map(|reason| reason.leg.as_str()).collect();
        let names = ["ollama", "claude", "openai", "offline"];
        match first {
            Some(first) => {
                let words = ["local", "claude", "openai"][first];
                assert_eq!(
                    (reply.status, reply.text.as_str()),
                    (ChatStatus::Answered, words),
                    "{does:?}"
                );
                assert_eq!(told, names[..first], "{does:?}");
            }
            None => {
                assert_eq!(reply.status, ChatStatus::Failed, "{does:?}");
                assert!(reply.text.starts_with("No model can be reached now"), "{}", reply.text);
                assert_eq!(told, names, "{does:?}");
            }
        }
        let all = format!("{reply:?}");
        assert!(!all.contains("canary"), "{all}");
        if does[1] == Does::NoMoney && first.is_none_or(|first| first > 1) {
            assert!(reply.reasons[1].reason.starts_with("out of money"), "{:?}", reply.reasons);
        }
    }
}

#[tokio::test]
async fn one_that_never_answers_leaves_time_for_the_others() {
    let mut orders = Vec::new();
    for slow in 0..3 {
        for other in QUICK {
            for another in QUICK {
                let mut does = [other, another, another];
                does[slow] = Does::Slow;
                does[(slow + 1) % 3] = other;
                orders.push(does);
            }
        }
    }
    let replies: Vec<_> = futures_util::stream::iter(orders)
        .map(|does| asked(does, Duration::from_secs(8)))
        .buffer_unordered(108)
        .collect()
        .await;
    assert_eq!(replies.len(), 108);
    for (does, reply) in replies {
        match does.iter().position(|does| *does == Does::Answer) {
            Some(first) => {
                assert_eq!(reply.text, ["local", "claude", "openai"][first], "{does:?}");
            }
            None => {
                assert_eq!(reply.status, ChatStatus::Failed, "{does:?}");
                let honest = ["No model can be reached now", "That took too long"];
                assert!(honest.iter().any(|line| reply.text.starts_with(line)), "{}", reply.text);
            }
        }
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_closes_the_connection_of_whichever_leg_works_at_it() {
    for leg in 0..3 {
        let mut does = [Does::Gone; 3];
        does[leg] = Does::Slow;
        let node = node(does).await;
        let assistant = node.assistant();
        let context = context("t");
        let cancel = context.cancel.clone();
        let path = ["/api/chat", "/v1/messages", "/v1/chat/completions"][leg];
        let (reply, ()) = tokio::join!(assistant.chat(context, "hello"), async {
            // The local leg is asked what it can do before.
            node.server(leg).wait_requests(if leg == 0 { 2 } else { 1 }).await;
            assert_eq!(node.server(leg).requests_to(path).len(), 1);
            assert_eq!(node.server(leg).disconnected(), 0);
            cancel.cancel();
        });
        assert_eq!(reply.status, ChatStatus::Stopped);
        node.server(leg).wait_disconnected(1).await;
    }
}

#[tokio::test]
async fn a_summary_that_is_being_made_is_given_up_for_a_question() {
    let node = node([Does::Answer, Does::Gone, Does::Gone]).await;
    let assistant = node.assistant();
    let server = node.server(0);
    for turn in 0..15 {
        assistant.chat(context(&format!("t{turn}")), "hello").await;
    }
    let before = server.requests_to("/api/chat").len();
    assert_eq!(before, 15);
    server.push(Answer::text("the sixteenth"));
    server.push(Answer::hang());
    assistant.chat(context("t15"), "hello").await;
    let shown = server.requests().len() - server.requests_to("/api/chat").len();
    server.wait_requests(shown + 17).await;
    assert_eq!(server.disconnected(), 0);
    let reply = assistant.chat(context("t16"), "hello").await;
    assert_eq!(reply.text, "local");
    server.wait_disconnected(1).await;
}

#[tokio::test]
async fn a_model_is_chosen_over_the_configurations_and_past_a_restart() {
    let node = node([Does::Answer, Does::Gone, Does::Gone]).await;
    let server = node.server(0);
    let list = |names: &[&str]| {
        let models: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        Answer::json(200, json!({ "models": models }))
    };
    server.set_path("/api/tags", list(&["toy:latest", "other:4b"]));
    let assistant = node.assistant();
    let model = async |assistant: &Assistant| {
        let model = assistant.legs().await.model.unwrap();
        (model.name, model.source)
    };
    assert_eq!(model(&assistant).await, ("toy".to_owned(), "configuration"));
    for wrong in ["none", "", "other", "x\u{7}y"] {
        let Err(error @ ModelError::Unknown { .. }) = assistant.choose_model(wrong).await else {
            panic!("{wrong:?} was chosen")
        };
        let words = error.to_string();
        assert!(words.contains("the server has toy:latest, other:4b"), "{words}");
        assert!(!words.contains('\u{7}'));
    }
    assert_eq!(model(&assistant).await.1, "configuration");

    assistant.choose_model("other:4b").await.unwrap();
    for assistant in [&assistant, &node.assistant()] {
        assert_eq!(model(assistant).await, ("other:4b".to_owned(), "node"));
        assistant.chat(context(&format!("{:p}", assistant)), "hello").await;
        assert_eq!(server.requests_to("/api/chat").pop().unwrap().body["model"], "other:4b");
    }
    // A configuration that is read again doesn't undo it; the configuration's own name does.
    assistant.reconfigure(&node.config);
    assert_eq!(model(&assistant).await, ("other:4b".to_owned(), "node"));
    assistant.choose_model("toy:latest").await.unwrap();
    assert_eq!(model(&node.assistant()).await, ("toy".to_owned(), "configuration"));

    // A server that can't be asked changes nothing.
    server.set_path("/api/tags", Answer::json(500, json!({"error": "no"})));
    assert!(matches!(assistant.choose_model("other:4b").await, Err(ModelError::Server(_))));
    assert_eq!(model(&assistant).await.1, "configuration");
    std::fs::write(node.data.path().join("settings.json"), "{\"model\":").unwrap();
    assert_eq!(model(&node.assistant()).await, ("toy".to_owned(), "configuration"));
}

#[tokio::test]
async fn what_the_cloud_may_not_have_is_not_sent_to_a_model_that_ollama_runs_elsewhere() {
    for (show, model) in [
        (json!({"remote_host": "https://ollama.com:443", "capabilities": ["tools"]}), "toy"),
        (json!({"capabilities": ["tools"]}), "toy:cloud"),
    ] {
        let server = ScriptedOllama::start().await;
        server.set_show(200, show);
        let ollama =
            OllamaConfig { url: server.url(), model: model.to_owned(), ..OllamaConfig::default() };
        for (cloud, sent) in [(CloudPolicy::None, 0), (CloudPolicy::All, 1)] {
            let data = tempfile::tempdir().unwrap();
            let legs: Vec<Box<dyn Backend>> = vec![Box::new(Ollama::new(&ollama))];
            let assistant =
                Assistant::with_legs(legs, cloud, ToolRegistry::default(), data.path()).unwrap();
            assistant.chat(context("t"), "a question").await;
            let chats = server.requests().into_iter().filter(|asked| asked.path == "/api/chat");
            assert_eq!(chats.count(), sent, "{model} {cloud:?}");
            assert_eq!(data.path().join("cloud.log").exists(), sent > 0, "{model} {cloud:?}");
        }
    }
}
