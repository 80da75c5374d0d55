//! A machine with a configuration on which commands of the program are run, and what its check says.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tombolo::sim::{Sim, SimConfig};

use crate::support::ollama::ScriptedOllama;

/// A machine with a configuration.
pub struct Machine {
    folder: TempDir,
}

impl Machine {
    pub fn new(toml: &str) -> Machine {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
        let text = format!("data_dir = \"{}\"\n{toml}", data.display());
        std::fs::write(folder.path().join("tombolo.toml"), text).unwrap();
        Machine { folder }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub async fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tombolo"))
            .args(arguments)
            .arg("--config")
            .arg(self.folder.path().join("tombolo.toml"))
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap()
    }

    /// A daemon's hold on the data folder.
    pub fn held(&self) -> std::fs::File {
        let file = std::fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.data().join("lock"))
            .unwrap();
        file.try_lock().unwrap();
        file
    }
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn line<'a>(text: &'a str, starts: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(starts)).unwrap_or_else(|| panic!("{starts}: {text}"))
}

pub async fn on_tcp(config: SimConfig) -> (Sim, String, CancellationToken) {
    let sim = Sim::start(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = format!("tcp://{}", listener.local_addr().unwrap());
    let cancel = CancellationToken::new();
    tokio::spawn(sim.clone().serve_tcp(listener, cancel.clone()));
    (sim, port, cancel)
}

pub fn on_pty() -> (Sim, PathBuf, CancellationToken) {
    let sim = Sim::start(SimConfig::default());
    let cancel = CancellationToken::new();
    let path = sim.serve_pty(cancel.clone()).unwrap();
    (sim, path, cancel)
}

pub async fn model_server() -> (ScriptedOllama, String) {
    let server = ScriptedOllama::start().await;
    server.set_capabilities(Some(vec!["completion", "tools"]));
    let toml = format!("[assistant.ollama]\nurl = \"{}\"\nmodel = \"toy\"\n", server.url());
    (server, toml)
}

pub fn secret(machine: &Machine, name: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = machine.data().join("secrets");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, "sk-canary\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub fn failed(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("FAILED "))
        .map(|line| line.get(..14).unwrap_or(line).trim())
        .collect()
}

pub fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}
