//! One Model Context Protocol server: its process or its address, and the connection to it.
//!
//! Owns that it is started, left and started again with a growing pause. Hands it nothing of this program:
//! no secret, no variable that is not named in the configuration, no request of its own is answered.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, PaginatedRequestParams, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use rmcp::{ServiceExt, model};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::condition::Conditions;
use super::listener::{ASKED_WITHIN, Listener, MAX_ASKED};
use super::pins::Definition;
use super::result::text_of;
use crate::assistant::http::{HttpClient, redact};
use crate::config::mcp::McpServer;
use crate::invisible::word;

/// A message of a server is at most this long, in bytes.
const MAX_MESSAGE: usize = 1 << 20;
/// Its start, the handshake and its list of tools may take so long.
const START: Duration = Duration::from_secs(30);
/// The pause before it is started again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// One that has closed its standard output ends within this, or runs on.
const END: Duration = Duration::from_secs(1);
/// One that ran so long had begun well: the pause is the first again.
const RAN_WELL: Duration = Duration::from_secs(60);
/// What a program gets of our environment without being named.
const ENVIRONMENT: [&str; 3] = ["PATH", "HOME", "LANG"];

/// A list of tools has at most so many pages, and so many tools: more is none that anybody could look through.
const MAX_PAGES: usize = 16;
const MAX_TOOLS: usize = 1024;
type Running = RunningService<RoleClient, Listener>;

/// One server.
pub struct Server {
    /// As it is configured.
    pub config: McpServer,
    state: Mutex<State>,
    conditions: Arc<Conditions>,
}

enum State {
    Up(Peer<RoleClient>),
    Down(String),
}

impl Server {
    /// Not started yet. How it is from then on is noted in `conditions`.
    pub fn new(config: McpServer, conditions: Arc<Conditions>) -> Server {
        let state = Mutex::new(State::Down("it is being started".to_owned()));
        Server { config, state, conditions }
    }

    /// Calls a tool of it, once: a call whose answer got lost is not made again.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let peer = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Up(peer) => peer.clone(),
            State::Down(why) => {
                return Err(format!("the server \"{}\" is not there: {why}", self.config.name));
            }
        };
        let mut params = CallToolRequestParams::new(tool.to_owned());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        let request = model::ClientRequest::CallToolRequest(model::CallToolRequest::new(params));
        let limit = Duration::from_secs(self.config.timeout_s);
        // With a time limit of the library's own, so that the server is told when we no longer wait.
        let options = PeerRequestOptions::with_timeout(limit);
        let sent = peer.send_cancellable_request(request, options).await;
        let answered = match sent {
            Ok(handle) => handle.await_response().await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(ServerResult::CallToolResult(result)) => text_of(&result),
            Ok(_) => Err("the server answered something else".to_owned()),
            Err(ServiceError::Timeout { .. }) => {
                Err(format!("no answer within {} s", self.config.timeout_s))
            }
            Err(ServiceError::McpError(error)) => {
                let words = word(&error.message, 200);
                Err(format!("the server refused: {}", words.trim_end_matches('.')))
            }
            Err(_) => Err("the connection to the server ended".to_owned()),
        }
    }

    /// Keeps it connected until `cancel`. `learn` is given what it says of its tools, each time it says so.
    pub async fn run(
        self: Arc<Server>,
        learn: impl Fn(Vec<(String, Definition)>, &McpServer) + Send,
        cancel: CancellationToken,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let why = tokio::select! {
                why = self.once(&learn) => why,
                () = cancel.cancelled() => return,
            };
            if began.elapsed() >= RAN_WELL {
                pause = FIRST_PAUSE;
            }
            warn!(
                server = self.config.name,
                why,
                again_in_s = pause.as_secs(),
                "a tool server is not there"
            );
            self.set(State::Down(why));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cancel.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// From a start to its end; says why it ended. Dropped, it leaves no process behind.
    async fn once(
        &self,
        learn: &(impl Fn(Vec<(String, Definition)>, &McpServer) + Send),
    ) -> String {
        let listener = Listener::new();
        let too_much = listener.too_much.clone();
        tokio::select! {
            why = self.connected(learn, listener) => why,
            () = too_much.cancelled() => format!(
                "it asked for more than {MAX_ASKED} things within {} s", ASKED_WITHIN.as_secs()
            ),
        }
    }

    async fn connected(
        &self,
        learn: &(impl Fn(Vec<(String, Definition)>, &McpServer) + Send),
        listener: Listener,
    ) -> String {
        let changed = Arc::clone(&listener.changed);
        let started = tokio::time::timeout(START, self.start(listener)).await;
        let (mut running, mut process) = match started {
            Ok(Ok(started)) => started,
            Ok(Err(why)) => return why,
            Err(_) => return format!("it was not ready within {} s", START.as_secs()),
        };
        // One that changes its tools all the time is asked for them ever more seldom.
        let mut pause = Duration::ZERO;
        loop {
            let began = Instant::now();
            match tokio::time::timeout(START, list(running.peer())).await {
                Ok(Ok(tools)) => learn(tools, &self.config),
                Ok(Err(Some(why))) => return why,
                Ok(Err(None)) => {
                    let ended = match &mut process {
                        Some(process) => process.ended().await,
                        None => None,
                    };
                    return ended.unwrap_or_else(|| "it did not list its tools".to_owned());
                }
                Err(_) => {
                    return format!("it did not list its tools within {} s", START.as_secs());
                }
            }
            self.set(State::Up(running.peer().clone()));
            if pause.is_zero() {
                info!(server = self.config.name, "a tool server is there");
            }
            let changes = async {
                changed.notified().await;
                let often = began.elapsed() < RAN_WELL + pause;
                let next = if often { pause } else { Duration::ZERO };
                tokio::time::sleep(next).await;
                (next * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
            };
            tokio::select! {
                next = changes => pause = next,
                () = ended(&mut running) => {
                    let ended = match &mut process {
                        Some(process) => process.ended().await,
                        None => None,
                    };
                    return ended.unwrap_or_else(|| "it closed the connection".to_owned());
                }
            }
        }
    }

    async fn start(&self, listener: Listener) -> Result<(Running, Option<Process>), String> {
        if let Some(url) = &self.config.url {
            let client = HttpClient::new(url).get().map_err(|e| e.to_string())?.clone();
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            config.max_sse_event_size = MAX_MESSAGE;
            config.max_json_response_size = MAX_MESSAGE;
            let transport = StreamableHttpClientTransport::with_client(client, config);
            return match listener.serve(transport).await {
                Ok(running) => Ok((running, None)),
                Err(error) => Err(format!(
                    "no Model Context Protocol server answers at {url}: {}",
                    redact(&cause(&error))
                )),
            };
        }
        let mut process = self.spawn()?;
        let (Some(input), Some(output)) = (process.0.stdin.take(), process.0.stdout.take()) else {
            return Err("it has no standard input and output".to_owned());
        };
        let transport = AsyncRwTransport::new(output, input).with_max_line_length(MAX_MESSAGE);
        match listener.serve(transport).await {
            Ok(running) => Ok((running, Some(process))),
            Err(_) => Err(process.ended().await.unwrap_or_else(|| {
                "it does not speak the Model Context Protocol on its standard output".to_owned()
            })),
        }
    }

    fn spawn(&self) -> Result<Process, String> {
        let (program, arguments) = self.config.command.split_first().ok_or("it has no command")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        let named = self.config.environment.iter().map(String::as_str);
        for name in ENVIRONMENT.into_iter().chain(named) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What it says there may be anybody's words.
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("there is no program {program}"),
            ErrorKind::PermissionDenied => format!("this user may not run {program}"),
            _ => format!("{program} can't be started: {error}"),
        })?;
        Ok(Process(child))
    }

    fn set(&self, state: State) {
        self.conditions.set(
            &self.config.name,
            match &state {
                State::Up(_) => None,
                State::Down(why) => Some(why),
            },
        );
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// A process with all that it started: gone when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Process {
    /// How it ended; `None`: it runs on, in silence.
    async fn ended(&mut self) -> Option<String> {
        let status = tokio::time::timeout(END, self.0.wait()).await.ok()?.ok()?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, Some(signal)) => format!("it was ended by signal {signal}"),
            (None, None) => "it ended".to_owned(),
        })
    }
}

/// What is at the bottom of an error.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Waits until the connection has ended.
async fn ended(running: &mut Running) {
    // The library tells of an end only whoever gives the service away, so it is looked at.
    let mut look = tokio::time::interval(Duration::from_millis(500));
    while !running.is_closed() && !running.peer().is_transport_closed() {
        look.tick().await;
    }
}

/// All its tools. `Err(None)`: it gave no list.
async fn list(peer: &Peer<RoleClient>) -> Result<Vec<(String, Definition)>, Option<String>> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await.map_err(|_| None)?;
        tools.extend(page.tools.into_iter().map(definition));
        if tools.len() > MAX_TOOLS {
            return Err(Some(format!("it lists more than {MAX_TOOLS} tools")));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    Err(Some(format!("its list of tools has more than {MAX_PAGES} pages")))
}

fn definition(tool: model::Tool) -> (String, Definition) {
    let parameters = Value::Object(tool.input_schema.as_ref().clone());
    let description = tool.description.as_deref().unwrap_or_default();
    (tool.name.into_owned(), Definition::new(description, parameters))
}
