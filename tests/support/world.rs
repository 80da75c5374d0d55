//! The helper world of the scenario tests: a simulated mesh on a real TCP port or pty, a scripted Ollama
//! on a real port, and the daemon itself as a child process that can be killed at any instant.
//!
//! Owns starting, stopping and asking them. Judges nothing.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tombolo::sim::{Sim, SimConfig};

use super::ollama::ScriptedOllama;

/// A part, its retries and the gap before it take this long at most with the fast modem of the tests.
pub const SOON: Duration = Duration::from_secs(30);

/// How the daemon reaches the simulated radio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// A TCP port.
    Tcp,
    /// A pseudo-terminal, opened as a serial port.
    Pty,
}

/// Everything around the daemon, and the daemon.
pub struct World {
    /// The simulated mesh.
    pub sim: Sim,
    /// The scripted model server.
    pub ollama: ScriptedOllama,
    data: TempDir,
    daemon: Option<Child>,
    http_port: u16,
    cancel: CancellationToken,
    // Of the radio's port, where it is on TCP.
    address: Option<std::net::SocketAddr>,
    generation: u32,
}

impl World {
    /// A world in which Ana is a contact with her key, on a fast modem.
    pub async fn new() -> World {
        World::with(Wire::Tcp, &ana_is_a_contact(), |_| {}).await
    }

    /// A world of one's own: `mesh` is the text of `[mesh]`.
    pub async fn with(wire: Wire, mesh: &str, change: impl FnOnce(&mut SimConfig)) -> World {
        let mut config = fast_mesh();
        change(&mut config);
        let sim = Sim::start(config);
        let cancel = CancellationToken::new();
        let mut radio_at = None;
        let port = match wire {
            Wire::Tcp => {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                radio_at = Some(address);
                tokio::spawn(sim.clone().serve_tcp(listener, cancel.clone()));
                format!("tcp://{address}")
            }
            Wire::Pty => sim.serve_pty(cancel.clone()).unwrap().display().to_string(),
        };
        let ollama = ScriptedOllama::start().await;
        let data = tempfile::tempdir().unwrap();
        let http_port = free_port();
        let text = format!(
            "data_dir = \"{}\"\n[radio]\nport = \"{port}\"\n[mesh]\n{mesh}\n[assistant.ollama]\nurl = \"{}\"\nmodel = \"toy\"\n[http]\nlisten = \"127.0.0.1:{http_port}\"\n",
            data.path().join("data").display(),
            ollama.url(),
        );
        std::fs::write(data.path().join("tombolo.toml"), text).unwrap();
        World {
            sim,
            ollama,
            data,
            daemon: None,
            http_port,
            cancel,
            address: radio_at,
            generation: 0,
        }
    }

    /// Puts another radio on the same address; from now on `sim` is that one.
    pub async fn swap_radio(&mut self, change: impl FnOnce(&mut SimConfig)) {
        self.cancel.cancel();
        let mut config = fast_mesh();
        change(&mut config);
        self.sim = Sim::start(config);
        self.cancel = CancellationToken::new();
        let address = self.address.expect("a radio on TCP");
        let listener = loop {
            // The one before lets go of the address when it gets to it.
            match tokio::net::TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        tokio::spawn(self.sim.clone().serve_tcp(listener, self.cancel.clone()));
    }

    /// Starts the daemon and waits until its link is up.
    pub async fn start(&mut self) {
        self.spawn();
        self.until("the link is up", async |world: &World| {
            world.health().await.is_some_and(|body| body["link"]["connected"] == true)
        })
        .await;
    }

    /// Starts the daemon and does not wait.
    pub fn spawn(&mut self) {
        assert!(self.daemon.is_none(), "the daemon is running");
        self.generation += 1;
        let log = std::fs::File::create(self.log_path(self.generation)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
            .args(["run", "--config"])
            .arg(self.config_path())
            .env("TOMBOLO_LOG", "tombolo=debug")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(child);
    }

    /// `SIGKILL`, at once.
    pub fn kill(&mut self) {
        let mut child = self.daemon.take().expect("the daemon is running");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("the daemon is running").id()
    }

    /// The data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.data.path().join("data")
    }

    /// The configuration file.
    pub fn config_path(&self) -> PathBuf {
        self.data.path().join("tombolo.toml")
    }

    fn log_path(&self, generation: u32) -> PathBuf {
        self.data.path().join(format!("log-{generation}.txt"))
    }

    /// Everything that the daemon printed so far, over all its starts.
    pub fn log(&self) -> String {
        let mut text = String::new();
        for generation in 1..=self.generation {
            let file = std::fs::File::open(self.log_path(generation));
            let _ = file.map(|mut f| f.read_to_string(&mut text));
        }
        text
    }

    /// The node page's address.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http_port)
    }

    /// The body of `/healthz`; `None` while nobody serves.
    pub async fn health(&self) -> Option<Value> {
        let answer = client().get(self.url("/healthz")).send().await.ok()?;
        answer.json().await.ok()
    }

    /// Logs the operator in: set-up by the token that the daemon printed, or the password.
    pub async fn operator(&self) -> Operator {
        const PASSWORD: &str = "correct horse battery";
        let mut operator = Operator {
            client: client(),
            url: self.url("/rpc"),
            cookie: String::new(),
            csrf: String::new(),
        };
        let log = self.log();
        let token = log.split("#setup=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let method = match token {
            Some(token) => ("auth.setup", json!({"token": token, "password": PASSWORD})),
            None => ("auth.login", json!({"password": PASSWORD})),
        };
        let (cookie, body) = operator.raw(method.0, method.1).await;
        let body = if body["result"].is_null() {
            let (cookie, body) = operator.raw("auth.login", json!({"password": PASSWORD})).await;
            operator.cookie = cookie.expect("a session cookie");
            body
        } else {
            operator.cookie = cookie.expect("a session cookie");
            body
        };
        operator.csrf = body["result"]["csrf_token"].as_str().expect("a CSRF token").to_owned();
        operator
    }

    /// Waits until it is so, looking again and again; fails with what was waited for and the log's end.
    #[track_caller]
    pub fn until<'a>(
        &'a self,
        what: &'a str,
        is_so: impl AsyncFn(&World) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let deadline = tokio::time::Instant::now() + 3 * SOON;
            while !is_so(self).await {
                if tokio::time::Instant::now() > deadline {
                    panic!("{caller}: waited in vain until {what}\n{}", tail(&self.log()));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Waits until the peer has received that many texts.
    pub async fn heard(&self, peer: &str, count: usize) -> Vec<tombolo::sim::Heard> {
        match self.sim.wait_heard(peer, count, 3 * SOON).await {
            Ok(heard) => heard,
            Err(state) => {
                panic!("{peer} did not hear {count} texts: {state}\n{}", tail(&self.log()))
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A logged-in operator.
pub struct Operator {
    client: reqwest::Client,
    url: String,
    cookie: String,
    csrf: String,
}

impl Operator {
    /// Calls a method; an RPC error fails the test.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let (_, body) = self.raw(method, params).await;
        assert!(body["error"].is_null(), "{method}: {body}");
        body["result"].clone()
    }

    /// Calls a method that is refused; gives the error.
    pub async fn refused(&self, method: &str, params: Value) -> Value {
        let (_, body) = self.raw(method, params).await;
        assert!(body["error"].is_object(), "{method}: {body}");
        body["error"].clone()
    }

    /// The cookie that was set, and the whole answer.
    pub async fn raw(&self, method: &str, params: Value) -> (Option<String>, Value) {
        let answer = self
            .client
            .post(&self.url)
            .header("cookie", &self.cookie)
            .header("x-csrf-token", &self.csrf)
            .json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            .send()
            .await
            .unwrap();
        let cookie = answer
            .headers()
            .get("set-cookie")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .map(str::to_owned);
        (cookie, answer.json().await.unwrap())
    }
}

/// `[mesh]` with Ana and her key.
pub fn ana_is_a_contact() -> String {
    let config = fast_mesh();
    let ana = config.peers.iter().find(|peer| peer.name == "Ana").unwrap();
    format!(
        "allowed_contacts = [{{ id = \"{}\", key = \"{}\", name = \"Ana\" }}]",
        ana.num,
        ana.key.unwrap()
    )
}

/// The default mesh on the fastest modem, in a region without a duty cycle.
pub fn fast_mesh() -> SimConfig {
    let mut config = SimConfig::default();
    config.lora.region = 1; // US
    config.lora.preset = 8; // SHORT_TURBO
    config
}

/// A client without proxies and without TLS.
pub fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(3 * SOON).build().unwrap()
}

/// Removes the number mark and the note of a kept rest, and joins: what the peer reads as one text.
pub fn joined(parts: &[tombolo::sim::Heard]) -> String {
    parts
        .iter()
        .map(|part| {
            let text = part.text.as_str();
            match text.split_once(' ') {
                Some((mark, rest)) if mark.contains('/') && parts.len() > 1 => rest,
                _ => text,
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// A text without white space: at a cut there may be more or less of it.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Reads a whole folder's files as text, for a search for what must not be there.
pub fn all_files(folder: &Path) -> String {
    let mut text = String::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }
    text
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
