//! A model server whose answers a test writes beforehand, on a real socket.
//!
//! Owns what was asked and what is answered. Speaks the paths of Ollama, and `/v1/messages` and
//! `/v1/chat/completions` by the same queue. Judges nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// One scripted answer to `POST /api/chat`, `/v1/messages` or `/v1/chat/completions`.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status and a body, as they are.
    Raw { status: u16, content_type: String, headers: Vec<(String, String)>, body: String },
    /// The prefix and the content of the last tool message of the request.
    EchoToolResult(String),
    /// Never.
    Hang,
    /// The connection closes in the middle of the body, after these bytes of it.
    Cut(String),
    /// These bytes of the body, and then nothing more.
    Stalled(String),
    /// Later.
    Delayed(Duration, Box<Answer>),
}

impl Answer {
    /// A text, without calls.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer::json(200, chat(json!({"role": "assistant", "content": text.into()})))
    }

    /// One call, with an id as new servers give.
    pub fn tool_call(name: &str, arguments: Value) -> Answer {
        let function = json!({"index": 0, "name": name, "arguments": arguments});
        let calls = json!([{"id": "call_ab12cd34", "function": function}]);
        Answer::json(200, chat(json!({"role": "assistant", "content": "", "tool_calls": calls})))
    }

    /// A status and a JSON body.
    pub fn json(status: u16, body: Value) -> Answer {
        let content_type = "application/json; charset=utf-8".to_owned();
        Answer::Raw { status, content_type, headers: Vec::new(), body: body.to_string() }
    }

    /// A streamed answer: one JSON object a line.
    pub fn lines(lines: &[Value]) -> Answer {
        let body = lines.iter().map(|line| format!("{line}\n")).collect();
        let content_type = "application/x-ndjson".to_owned();
        Answer::Raw { status: 200, content_type, headers: Vec::new(), body }
    }

    /// See [`Answer::EchoToolResult`].
    pub fn echo_tool_result(prefix: impl Into<String>) -> Answer {
        Answer::EchoToolResult(prefix.into())
    }

    /// See [`Answer::Hang`].
    pub fn hang() -> Answer {
        Answer::Hang
    }

    /// See [`Answer::Cut`].
    pub fn cut() -> Answer {
        Answer::Cut("{\"model\":\"toy\",\"message\":{\"role\":\"assi".to_owned())
    }

    /// See [`Answer::Delayed`].
    pub fn delayed(by: Duration, answer: Answer) -> Answer {
        Answer::Delayed(by, Box::new(answer))
    }

    /// With one more response header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Answer {
        if let Answer::Raw { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// The frame that Ollama puts around a message.
fn chat(message: Value) -> Value {
    json!({
        "model": "toy:latest",
        "created_at": "2026-11-30T21:03:00.714278231Z",
        "message": message,
        "done": true,
        "done_reason": "stop",
    })
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    /// `Null` if there was none or it was no JSON.
    pub body: Value,
    /// When its body was complete.
    pub at: Instant,
}

#[derive(Debug)]
struct Script {
    queue: VecDeque<Answer>,
    default: Answer,
    requests: Vec<Recorded>,
    /// How many requests came, for those who wait for one.
    arrived: watch::Sender<usize>,
    left: watch::Sender<usize>,
    show: (u16, Value),
    /// What is answered on these paths whatever is asked.
    fixed: HashMap<String, Answer>,
}

type Shared = Arc<Mutex<Script>>;

/// The server; it stops with this value.
#[derive(Debug)]
pub struct ScriptedOllama {
    script: Shared,
    url: String,
    task: JoinHandle<()>,
}

impl ScriptedOllama {
    /// On a free port of the loopback interface.
    pub async fn start() -> ScriptedOllama {
        let script = Arc::new(Mutex::new(Script {
            queue: VecDeque::new(),
            default: Answer::text("ok"),
            requests: Vec::new(),
            arrived: watch::Sender::new(0),
            left: watch::Sender::new(0),
            show: (200, show(Some(&["completion", "tools"]))),
            fixed: HashMap::new(),
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(script.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        ScriptedOllama { script, url, task }
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The next answer after those that wait already.
    pub fn push(&self, answer: Answer) {
        lock(&self.script).queue.push_back(answer);
    }

    /// The answer when none waits; `ok` at first.
    pub fn set_default(&self, answer: Answer) {
        lock(&self.script).default = answer;
    }

    /// Everything that was asked, on any path, in order.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.script).requests.clone()
    }

    /// What was posted to `path`.
    pub fn requests_to(&self, path: &str) -> Vec<Recorded> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }

    /// How many clients left before their answer was complete.
    pub fn disconnected(&self) -> usize {
        *lock(&self.script).left.borrow()
    }

    /// Waits until that many clients have left; fails the test if they never do.
    pub async fn wait_disconnected(&self, count: usize) {
        let left = lock(&self.script).left.subscribe();
        reached(left, count, "clients that left").await;
    }

    /// Waits until that many requests have come, on any path; fails the test if they never do.
    pub async fn wait_requests(&self, count: usize) {
        let arrived = lock(&self.script).arrived.subscribe();
        reached(arrived, count, "requests").await;
    }

    /// What `/api/show` says; `None`: an old server, without that key.
    pub fn set_capabilities(&self, capabilities: Option<Vec<&str>>) {
        lock(&self.script).show = (200, show(capabilities.as_deref()));
    }

    /// The answer on one path, such as `/api/tags` or `/v1/models`, each time.
    pub fn set_path(&self, path: &str, answer: Answer) {
        lock(&self.script).fixed.insert(path.to_owned(), answer);
    }

    /// The whole answer of `/api/show`.
    pub fn set_show(&self, status: u16, body: Value) {
        lock(&self.script).show = (status, body);
    }
}

impl Drop for ScriptedOllama {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn reached(mut counter: watch::Receiver<usize>, count: usize, what: &str) {
    let wait = counter.wait_for(|now| *now >= count);
    if tokio::time::timeout(Duration::from_secs(20), wait).await.is_err() {
        panic!("waited for {count} {what}, and there were {}", *counter.borrow());
    }
}

fn lock(script: &Shared) -> MutexGuard<'_, Script> {
    script.lock().unwrap()
}

fn show(capabilities: Option<&[&str]>) -> Value {
    let mut body = json!({
        "details": {"family": "llama"},
        "model_info": {"general.architecture": "llama", "llama.context_length": 32768},
    });
    if let Some(capabilities) = capabilities {
        body["capabilities"] = json!(capabilities);
    }
    body
}

/// Counts a client that left: the server drops the future then.
struct Leaving {
    script: Shared,
    answered: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if !self.answered {
            lock(&self.script).left.send_modify(|left| *left += 1);
        }
    }
}

async fn serve(
    State(script): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = uri.path().to_owned();
    {
        let mut script = lock(&script);
        script.requests.push(Recorded {
            method: method.to_string(),
            path: path.clone(),
            headers,
            body: body.clone(),
            at: Instant::now(),
        });
        script.arrived.send_modify(|arrived| *arrived += 1);
    }
    let fixed = lock(&script).fixed.get(&path).cloned();
    if let Some(fixed) = fixed {
        return give(script, fixed, &body).await;
    }
    let models =
        json!({"models": [{"name": "toy:latest", "model": "toy:latest", "context_length": 8192}]});
    match (method.as_str(), path.as_str()) {
        ("POST", "/api/chat" | "/v1/messages" | "/v1/chat/completions") => {
            answer(script, &body).await
        }
        ("POST", "/api/show") => {
            let (status, body) = lock(&script).show.clone();
            respond(status, "application/json", &[], Body::from(body.to_string()))
        }
        ("GET", "/api/tags" | "/api/ps") => {
            respond(200, "application/json", &[], Body::from(models.to_string()))
        }
        ("GET", "/v1/models") => {
            let models = json!({"object": "list", "data": [{"id": "toy", "max_model_len": 8192}]});
            respond(200, "application/json", &[], Body::from(models.to_string()))
        }
        ("GET", "/api/version") => {
            let version = json!({"version": "0.33.0"}).to_string();
            respond(200, "application/json", &[], Body::from(version))
        }
        ("GET", "/") => respond(200, "text/plain", &[], Body::from("Ollama is running")),
        _ => respond(404, "text/plain", &[], Body::from("404 page not found")),
    }
}

async fn answer(script: Shared, request: &Value) -> Response {
    let queued = lock(&script).queue.pop_front();
    let next = queued.unwrap_or_else(|| lock(&script).default.clone());
    give(script, next, request).await
}

async fn give(script: Shared, mut next: Answer, request: &Value) -> Response {
    let mut leaving = Leaving { script, answered: false };
    while let Answer::Delayed(by, then) = next {
        tokio::time::sleep(by).await;
        next = *then;
    }
    if matches!(next, Answer::Hang) {
        std::future::pending::<()>().await;
    }
    leaving.answered = true;
    match next {
        Answer::Raw { status, content_type, headers, body } => {
            respond(status, &content_type, &headers, Body::from(body))
        }
        Answer::EchoToolResult(prefix) => {
            let messages = request["messages"].as_array().cloned().unwrap_or_default();
            let result = messages
                .iter()
                .rev()
                .find(|message| message["role"] == "tool")
                .and_then(|message| message["content"].as_str())
                .unwrap_or("(no tool message in the request)");
            let message = json!({"role": "assistant", "content": format!("{prefix}{result}")});
            respond(200, "application/json", &[], Body::from(chat(message).to_string()))
        }
        Answer::Cut(begun) => {
            let broken = std::io::Error::other("cut by the script");
            let chunks = stream::iter([Ok(Bytes::from(begun)), Err(broken)]);
            // The first chunk has to leave before the connection breaks.
            let chunks = futures_util::StreamExt::then(chunks, |chunk| async move {
                if chunk.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                chunk
            });
            respond(200, "application/json", &[], Body::from_stream(chunks))
        }
        Answer::Stalled(begun) => {
            leaving.answered = false;
            // The stream holds the guard: a client that leaves drops both.
            let chunks = stream::unfold((Some(begun), leaving), |(begun, leaving)| async move {
                let Some(begun) = begun else { return std::future::pending().await };
                Some((Ok::<_, std::io::Error>(Bytes::from(begun)), (None, leaving)))
            });
            respond(200, "application/x-ndjson", &[], Body::from_stream(chunks))
        }
        Answer::Hang | Answer::Delayed(..) => unreachable!("resolved above"),
    }
}

fn respond(status: u16, content_type: &str, headers: &[(String, String)], body: Body) -> Response {
    let mut response =
        Response::builder().status(status).header(header::CONTENT_TYPE, content_type);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).unwrap()
}
