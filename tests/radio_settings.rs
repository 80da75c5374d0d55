//! `tombolo radio` and `tombolo check`: the program itself against a simulated radio on TCP and on a
//! pseudo-terminal.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tombolo::radio::transport::Connector;
use tombolo::sim::{Sim, SimConfig};

use crate::support::ollama::ScriptedOllama;

/// A machine with a configuration.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new(toml: &str) -> Machine {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
        let text = format!("data_dir = \"{}\"\n{toml}", data.display());
        std::fs::write(folder.path().join("tombolo.toml"), text).unwrap();
        Machine { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    async fn run(&self, arguments: &[&str]) -> Output {
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
    fn held(&self) -> std::fs::File {
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

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn line<'a>(text: &'a str, starts: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(starts)).unwrap_or_else(|| panic!("{starts}: {text}"))
}

async fn on_tcp(config: SimConfig) -> (Sim, String, CancellationToken) {
    let sim = Sim::start(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = format!("tcp://{}", listener.local_addr().unwrap());
    let cancel = CancellationToken::new();
    tokio::spawn(sim.clone().serve_tcp(listener, cancel.clone()));
    (sim, port, cancel)
}

fn on_pty() -> (Sim, PathBuf, CancellationToken) {
    let sim = Sim::start(SimConfig::default());
    let cancel = CancellationToken::new();
    let path = sim.serve_pty(cancel.clone()).unwrap();
    (sim, path, cancel)
}

#[tokio::test]
async fn on_the_network_settings_are_shown_written_and_shown_again() {
    let config = SimConfig { boot_time: Duration::from_millis(200), ..SimConfig::default() };
    let (_sim, port, _cancel) = on_tcp(config).await;
    let machine = Machine::new(&format!(
        "[radio]\nport = \"{port}\"\n[radio.settings]\nregion = \"US\"\nowner = \"Hilltop\"\n"
    ));
    let before = machine.run(&["radio", "info"]).await;
    let text = out(&before);
    assert!(before.status.success(), "{}", err(&before));
    assert!(line(&text, "firmware").ends_with("2.7.26.54e0d8d"), "{text}");
    assert!(line(&text, "node").ends_with("!70b01001"), "{text}");
    let region: Vec<&str> = text.lines().filter(|line| line.starts_with("region")).collect();
    let words: Vec<&str> = region[1].split_whitespace().collect();
    assert_eq!(words, ["region", "EU_868", "US", "radio.settings.region", "yes"]);
    assert!(text.contains("2 differ"), "{text}");

    let applied = machine.run(&["radio", "apply"]).await;
    assert!(applied.status.success(), "{}", err(&applied));
    let text = out(&applied);
    assert!(text.contains("region is EU_868, wanted US (radio.settings.region)"), "{text}");
    assert!(text.contains("Done"), "{text}");

    let after = out(&machine.run(&["radio", "info"]).await);
    assert!(after.contains("It is set as wanted"), "{after}");
    assert!(line(&after, "name").ends_with("Hilltop"), "{after}");
    let again = out(&machine.run(&["radio", "apply"]).await);
    assert!(again.contains("Nothing to do"), "{again}");
}

#[tokio::test]
async fn a_port_on_a_wire_is_named_on_the_command_line_and_refused_while_another_has_it() {
    let (_sim, path, _cancel) = on_pty();
    let machine = Machine::new("");
    let port = path.to_str().unwrap();
    let info = machine.run(&["radio", "info", "--port", port]).await;
    assert!(info.status.success(), "{}", err(&info));
    assert!(out(&info).contains("Nothing is wanted"), "{}", out(&info));

    let held = Connector::serial(path.clone()).open().await.unwrap();
    let busy = machine.run(&["radio", "apply", "--port", port]).await;
    // Nothing is wanted, so nothing is opened.
    assert!(busy.status.success());
    let busy = machine.run(&["radio", "info", "--port", port]).await;
    assert!(!busy.status.success());
    assert!(err(&busy).contains("in use by another program"), "{}", err(&busy));
    drop(held);
}

#[tokio::test]
async fn what_is_wrong_is_said_before_anything_is_opened() {
    for (toml, words) in [
        ("[radio.settings]\nregion = \"EU868\"", &["tombolo.toml:3", "write EU_868"][..]),
        (
            "[radio.settings]\nregion = \"EU_868\"\npreset = \"SHORT_TURBO\"",
            &["radio.settings.preset", "500 kHz"],
        ),
        ("[radio.settings]\nhop_limit = 9", &["radio.settings.hop_limit", "1 to 7"]),
        (
            "[radio.settings]\nowner = \"Hilltop ÄÖÜ äöü ÄÖÜ äöü ÄÖÜ äöü\"",
            &["radio.settings.owner", "49 bytes", "at most 39"],
        ),
        ("[radio]\nport = \"/dev/serial/by-id/usb-nothing\"", &["plugged in"]),
    ] {
        let machine = Machine::new(toml);
        for command in [&["radio", "info"][..], &["check"]] {
            let output = machine.run(command).await;
            assert_eq!(output.status.code(), Some(1), "{toml}");
            let said = out(&output) + &err(&output);
            for word in words {
                assert!(said.contains(word), "{toml}: {said} lacks {word}");
            }
        }
    }
}

#[tokio::test]
async fn a_radio_that_a_daemon_holds_is_not_touched() {
    let (sim, port, _cancel) = on_tcp(SimConfig::default()).await;
    let machine =
        Machine::new(&format!("[radio]\nport = \"{port}\"\n[radio.settings]\nregion = \"US\"\n"));
    let daemons = tokio::net::TcpStream::connect(port.strip_prefix("tcp://").unwrap()).await;
    sim.wait_attached(true, Duration::from_secs(30)).await.unwrap();
    let held = machine.held();
    for command in ["info", "apply"] {
        let refused = machine.run(&["radio", command]).await;
        assert!(!refused.status.success());
        assert!(err(&refused).contains("in use"), "{}", err(&refused));
    }
    let text = out(&machine.run(&["check"]).await);
    assert!(line(&text, "note   radio").contains("in use by the running daemon"), "{text}");
    assert!(sim.is_attached(), "the daemon's own connection was taken away");
    drop((daemons, held));
}

async fn model_server() -> (ScriptedOllama, String) {
    let server = ScriptedOllama::start().await;
    server.set_capabilities(Some(vec!["completion", "tools"]));
    let toml = format!("[assistant.ollama]\nurl = \"{}\"\nmodel = \"toy\"\n", server.url());
    (server, toml)
}

fn secret(machine: &Machine, name: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = machine.data().join("secrets");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, "sk-canary\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn failed(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("FAILED "))
        .map(|line| line.get(..14).unwrap_or(line).trim())
        .collect()
}

#[tokio::test]
async fn a_machine_that_is_ready_passes_the_check() {
    let (_sim, path, _cancel) = on_pty();
    let (_server, model) = model_server().await;
    let machine = Machine::new(&format!("[radio]\nport = \"{}\"\n{model}", path.display()));
    secret(&machine, "claude-api-key", 0o600);
    let before = listing(&machine.data());
    let output = machine.run(&["check"]).await;
    let text = out(&output);
    assert!(output.status.success(), "{text}");
    for starts in ["ok     configuration", "ok     data folder", "ok     claude", "ok     radio"] {
        line(&text, starts);
    }
    assert!(line(&text, "ok     radio").contains("firmware 2.7.26"), "{text}");
    assert!(line(&text, "ok     ollama").contains("can call tools"), "{text}");
    assert!(!text.contains("sk-canary"));
    assert_eq!(listing(&machine.data()), before, "a check makes nothing");
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn each_part_that_is_not_ready_fails_the_check_by_itself() {
    use std::os::unix::fs::PermissionsExt as _;
    let (server, model) = model_server().await;
    let unset = {
        let mut config = SimConfig::default();
        config.lora.region = 0;
        config
    };
    let old = SimConfig { firmware: "2.7.14.aaaaaaa".to_owned(), ..SimConfig::default() };
    for (config, words) in [(unset, "region is set"), (old, "2.7.15")] {
        let (_sim, port, _cancel) = on_tcp(config).await;
        let machine = Machine::new(&format!("[radio]\nport = \"{port}\"\n{model}"));
        let output = machine.run(&["check"]).await;
        let text = out(&output);
        assert_eq!((output.status.code(), failed(&text)), (Some(1), vec!["radio"]), "{text}");
        assert!(text.contains(words), "{text}");
    }

    let simulated = format!("[radio]\nport = \"sim\"\n{model}");
    let machine = Machine::new(&simulated);
    assert!(machine.run(&["check"]).await.status.success());
    secret(&machine, "claude-api-key", 0o644);
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["secrets"], "{text}");
    assert!(text.contains("chmod 600") && !text.contains("sk-canary"), "{text}");

    let machine = Machine::new(&simulated);
    std::fs::set_permissions(machine.data(), std::fs::Permissions::from_mode(0o750)).unwrap();
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["data folder"], "{text}");

    let other = simulated.replace("\"toy\"", "\"another:7b\"");
    let text = out(&Machine::new(&other).run(&["check"]).await);
    assert_eq!(failed(&text), ["ollama"], "{text}");
    assert!(text.contains("ollama pull another:7b"), "{text}");

    server.set_show(200, json!({"capabilities": ["completion"]}));
    let output = Machine::new(&simulated).run(&["check"]).await;
    assert!(output.status.success());
    assert!(line(&out(&output), "note   ollama").contains("can't call tools"));

    let nowhere = "[radio]\nport = \"sim\"\n[assistant.ollama]\nurl = \"http://127.0.0.1:9\"\n";
    let text = out(&Machine::new(nowhere).run(&["check"]).await);
    assert_eq!(failed(&text), ["ollama"], "{text}");
}

#[tokio::test]
async fn a_file_or_a_program_that_the_node_needs_and_that_is_not_as_it_should_be_fails_the_check() {
    let (_server, model) = model_server().await;
    let simulated = format!("[radio]\nport = \"sim\"\n{model}");
    for (file, words) in [
        ("contacts.json", "the daemon does not start with it"),
        ("grants.json", "nobody has any grants"),
        ("settings.json", "the model of the configuration is used"),
        ("sessions.json", "everybody must log in again"),
        #[cfg(feature = "mcp")]
        ("mcp.json", "every foreign tool waits"),
    ] {
        let machine = Machine::new(&simulated);
        let path = machine.data().join(file);
        std::fs::write(&path, "{ broken").unwrap();
        let output = machine.run(&["check"]).await;
        let text = out(&output);
        assert_eq!((output.status.code(), failed(&text)), (Some(1), vec![file]), "{text}");
        assert!(line(&text, &format!("FAILED {file}")).contains(words), "{text}");
        assert_eq!(listing(&machine.data()), [path], "a check changes nothing");
    }
    let pause = "[tools]\nservices = [\"tombolo-no-such\"]\n";
    let output = Machine::new(&format!("{simulated}{pause}")).run(&["check"]).await;
    let text = out(&output);
    // A machine without systemd can't say which services it has.
    let there =
        text.contains("FAILED services") && text.contains("this machine has no tombolo-no-such");
    assert!(there || text.contains("note   services"), "{text}");
    for (config, part, words) in [
        (
            "[tools.bitcoin]\ncookie = \"/nowhere/.cookie\"\n",
            "bitcoin",
            "can't read /nowhere/.cookie",
        ),
        #[cfg(feature = "mcp")]
        (
            "[[mcp]]\nname = \"toy\"\ncommand = [\"/nowhere/toy\"]\n",
            "mcp",
            "toy: there is no program /nowhere/toy",
        ),
        #[cfg(feature = "mcp")]
        (
            "[[mcp]]\nname = \"toy\"\nurl = \"http://127.0.0.1:9/mcp\"\n",
            "mcp",
            "toy: http://127.0.0.1:9/mcp",
        ),
    ] {
        let output = Machine::new(&format!("{simulated}{config}")).run(&["check"]).await;
        let text = out(&output);
        assert_eq!((output.status.code(), failed(&text)), (Some(1), vec![part]), "{text}");
        assert!(text.contains(words), "{text}");
    }
    #[cfg(feature = "mcp")]
    for (tools, words) in [
        ("", "no tool of it is named in [[mcp.tools]]"),
        ("[[mcp.tools]]\nname = \"a\"\n", "for want of category or destructive: a"),
        (
            "[[mcp.tools]]\nname = \"a\"\ncategory = \"search\"\ndestructive = false\n",
            "it was not started",
        ),
    ] {
        let config =
            format!("{simulated}[[mcp]]\nname = \"toy\"\ncommand = [\"/bin/true\"]\n{tools}");
        let output = Machine::new(&config).run(&["check"]).await;
        let text = out(&output);
        assert!(output.status.success() && text.contains(words), "{text}");
    }
    // The Bitcoin node answers, and then it refuses the password.
    for (status, words) in [(200, "ok     bitcoin"), (401, "FAILED bitcoin")] {
        let app = axum::Router::new().fallback(
            move |axum::Json(asked): axum::Json<serde_json::Value>| async move {
                let result = match asked["method"].as_str() {
                    Some("getblockchaininfo") => {
                        json!({"chain": "main", "blocks": 9, "headers": 9})
                    }
                    _ => json!({}),
                };
                let status = axum::http::StatusCode::from_u16(status).unwrap();
                (status, axum::Json(json!({"result": result, "error": null})))
            },
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let machine = Machine::new(&format!(
            "{simulated}[tools]\nwallet = \"tips\"\n[tools.bitcoin]\nurl = \"{url}\"\n"
        ));
        secret(&machine, "bitcoin-rpc", 0o600);
        std::fs::write(machine.data().join("secrets/bitcoin-rpc"), "user:sk-canary").unwrap();
        let text = out(&machine.run(&["check"]).await);
        assert!(text.contains(words) && !text.contains("sk-canary"), "{text}");
    }
}

#[tokio::test]
async fn without_a_local_model_a_key_for_another_leg_is_enough_where_everybody_may_use_it() {
    let nowhere = "[radio]\nport = \"sim\"\n[assistant.ollama]\nurl = \"http://127.0.0.1:9\"\n";
    let openai = "[assistant.openai]\nurl = \"https://models.example/v1\"\nmodel = \"toy\"\n";
    for (key, leg, more) in
        [("claude-api-key", "Claude", ""), ("openai-api-key", "OpenAI-compatible", openai)]
    {
        let machine = Machine::new(&format!("{nowhere}{more}"));
        secret(&machine, key, 0o600);
        let output = machine.run(&["check"]).await;
        let text = out(&output);
        assert!(output.status.success(), "{key}: {text}");
        let words = line(&text, "note   ollama");
        assert!(words.contains("is Ollama running?") && words.contains(leg), "{words}");
    }
    // Peers' questions have nowhere to go.
    for cloud in ["operator", "none"] {
        let machine = Machine::new(&format!("{nowhere}[assistant]\ncloud = \"{cloud}\"\n"));
        secret(&machine, "claude-api-key", 0o600);
        assert_eq!(failed(&out(&machine.run(&["check"]).await)), ["ollama"], "{cloud}");
    }
}

#[tokio::test]
async fn another_radio_than_the_one_used_last_fails_the_check() {
    let (_sim, port, _cancel) = on_tcp(SimConfig::default()).await;
    let (_server, model) = model_server().await;
    let machine = Machine::new(&format!("[radio]\nport = \"{port}\"\n{model}"));
    let file = machine.data().join("radio.json");
    let key = tombolo::sim::key_for("Another");
    std::fs::write(&file, json!({"key": key.to_string(), "node": "!70b01001"}).to_string())
        .unwrap();
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["radio"], "{text}");
    assert!(text.contains("another radio") && text.contains("tombolo radio accept"), "{text}");
    let key = tombolo::sim::key_for("Tombolo Node");
    std::fs::write(&file, json!({"key": key.to_string(), "node": "!00000009"}).to_string())
        .unwrap();
    assert!(machine.run(&["check"]).await.status.success());
    std::fs::write(&file, "{").unwrap();
    let text = out(&machine.run(&["check"]).await);
    assert_eq!(failed(&text), ["radio"], "{text}");
    assert!(text.contains("radio.json") && text.contains("move it away"), "{text}");
}

#[tokio::test]
async fn the_simulator_says_both_ways_to_reach_it() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    let output = command.arg("sim").stdin(Stdio::null()).output().await.unwrap();
    assert!(!output.status.success());
    let said = err(&output);
    assert!(said.contains("--listen <ADDR>") && said.contains("--pty"), "{said}");
}
