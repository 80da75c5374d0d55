//! A workspace for the agent, a scripted server, and what a run left.
//!
//! Owns what both protocols look like on the wire, so that each test is written once.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::support::ollama::{Answer, ScriptedOllama};

/// What lies beside the workspace and must never be seen.
pub const OUTSIDE: &str = "canary outside";

/// A workspace with a few files, a file beside it, and a data folder.
pub struct Place {
    pub temp: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path().join("w/src");
        std::fs::create_dir_all(&source).unwrap();
        std::fs::write(source.join("main.rs"), "fn main() {\n    // TODO: all\n}\n").unwrap();
        std::fs::write(source.join("lib.rs"), "pub fn one() {}\n").unwrap();
        std::fs::write(temp.path().join("outside.txt"), OUTSIDE).unwrap();
        std::os::unix::fs::symlink("../outside.txt", temp.path().join("w/link.txt")).unwrap();
        Place { temp }
    }

    pub fn workspace(&self) -> PathBuf {
        self.temp.path().join("w")
    }

    pub fn data(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    pub fn start(&self, server: &str, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_tombolo"))
            .args(arguments)
            .current_dir(self.workspace())
            .env("OLLAMA_HOST", server)
            .env("XDG_DATA_HOME", self.data())
            .env_remove("TOMBOLO_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub async fn run(&self, server: &str, arguments: &[&str]) -> Ended {
        let output = self.start(server, arguments).wait_with_output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// The lines of the trace that begin so.
    pub fn trace(&self, key: &str) -> Vec<&str> {
        let start = format!("[trace] {key}");
        self.err.lines().filter(|line| line.starts_with(&start)).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Protocol {
    Native,
    Json,
}

pub const BOTH: [Protocol; 2] = [Protocol::Native, Protocol::Json];

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Native => "native",
            Protocol::Json => "json",
        }
    }

    pub fn call(self, name: &str, arguments: Value) -> Answer {
        match self {
            Protocol::Native => Answer::tool_call(name, arguments),
            Protocol::Json => {
                let call = json!({"type": "tool_call", "name": name, "arguments": arguments});
                Answer::text(call.to_string())
            }
        }
    }

    pub fn text(self, text: &str) -> Answer {
        match self {
            Protocol::Native => Answer::text(text),
            Protocol::Json => Answer::text(json!({"type": "final", "content": text}).to_string()),
        }
    }

    /// Names of the tools in a request, as the model sees them.
    pub fn offered(self, body: &Value) -> Vec<String> {
        match self {
            Protocol::Native => body["tools"]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
                .collect(),
            Protocol::Json => body["messages"][0]["content"]
                .as_str()
                .unwrap()
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .filter_map(|tool| Some(tool["name"].as_str()?.to_owned()))
                .filter(|name| name != "the tool's name" && name != "…")
                .collect(),
        }
    }
}

/// The texts of the tool results in a request.
pub fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let text = |message: &Value| {
        let content = message["content"].as_str().unwrap().to_owned();
        if message["role"] == "tool" {
            return Some(content);
        }
        let result: Value = serde_json::from_str(&content).ok()?;
        (message["role"] == "user" && result["type"] == "tool_result")
            .then(|| result["content"].as_str().unwrap().to_owned())
    };
    messages.iter().filter_map(text).collect()
}

/// One scripted turn in the place.
pub async fn agent(
    place: &Place,
    protocol: Protocol,
    script: Vec<Answer>,
    arguments: &[&str],
) -> (Ended, ScriptedOllama) {
    let server = ScriptedOllama::start().await;
    for answer in script {
        server.push(answer);
    }
    let all = [&["agent", "--trace", "--protocol", protocol.name()], arguments].concat();
    let ended = place.run(&server.url(), &all).await;
    (ended, server)
}

pub fn last_request(server: &ScriptedOllama) -> Value {
    server.requests_to("/api/chat").pop().unwrap().body
}

/// Every file below the folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}
