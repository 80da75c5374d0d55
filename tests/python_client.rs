//! The official Python client judges how true the simulated radio is.
//!
//! Owns running that client as a child process against a simulator on TCP and on a
//! pseudo-terminal. Needs a Python that has the package `meshtastic`: `TOMBOLO_PYTHON`, else
//! `python3`. Without one nothing here is run, and it says so; under `CI=true` that is a failure.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tombolo::sim::{SayTo, Sim, SimConfig};

/// A client that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// The Python to use; `None` when there is none and that is allowed.
fn python() -> Option<PathBuf> {
    let wanted = std::env::var_os("TOMBOLO_PYTHON").map(PathBuf::from);
    let python = wanted.unwrap_or_else(|| PathBuf::from("python3"));
    let usable = std::process::Command::new(&python)
        .args(["-c", "import meshtastic"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if usable {
        return Some(python);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{} has no package `meshtastic`: install it, or set TOMBOLO_PYTHON",
        python.display()
    );
    eprintln!("not run: {} has no package `meshtastic`", python.display());
    None
}

/// A simulator whose air is fast, and where it listens.
async fn listening(change: impl FnOnce(&mut SimConfig)) -> (Sim, u16) {
    let mut config = SimConfig { speed: 20, ..SimConfig::default() };
    change(&mut config);
    let sim = Sim::start(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(sim.clone().serve_tcp(listener, CancellationToken::new()));
    (sim, port)
}

/// What the client printed. It must have ended by itself and well.
async fn client(python: &PathBuf, place: &[&str], args: &[&str]) -> String {
    let output = Command::new(python)
        .args(["-m", "meshtastic"])
        .args(place)
        .args(args)
        .env("PYTHONUNBUFFERED", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, output).await.expect("the client hangs").unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {}\n{text}\n{errors}", output.status);
    // Its errors are not looked at: a short command half-closes its own socket while its reader still
    // wants to write a heartbeat, and prints a trace of that with any radio.
    text
}

async fn tcp_client(python: &PathBuf, port: u16, args: &[&str]) -> String {
    client(python, &["--host", &format!("127.0.0.1:{port}")], args).await
}

#[tokio::test]
async fn info_and_nodes_show_the_radio_and_its_peers() {
    let Some(python) = python() else { return };
    let (_sim, port) = listening(|_| {}).await;
    let info = tcp_client(&python, port, &["--info"]).await;
    for expected in [
        "Owner: Tombolo Node (TMB)",
        "\"myNodeNum\": 1890586625",
        "\"firmwareVersion\": \"2.7.26.54e0d8d\"",
        "\"region\": \"EU_868\"",
        "Index 0: PRIMARY",
        "\"name\": \"bots\"",
        "\"deviceUpdateInterval\": 2147483647",
    ] {
        assert!(info.contains(expected), "no {expected} in\n{info}");
    }
    let nodes = tcp_client(&python, port, &["--nodes"]).await;
    for (name, id) in [
        ("Tombolo Node", "!70b01001"),
        ("Ana", "!a1b2c3d4"),
        ("Ben", "!b0b0b0b2"),
        ("Mallory", "!0badcafe"),
    ] {
        let line = nodes.lines().find(|line| line.contains(id)).unwrap_or_default();
        let key = tombolo::sim::key_for(name).to_string();
        assert!(line.contains(name) && line.contains(&key), "no {name} in\n{nodes}");
    }
}

#[tokio::test]
async fn sent_texts_are_acked_or_refused_as_the_mesh_has_it() {
    let Some(python) = python() else { return };
    let (sim, port) = listening(|_| {}).await;
    let send = async |to: &str, text: &str| {
        tcp_client(&python, port, &["--sendtext", text, "--dest", to, "--ack"]).await
    };

    let said = send("!b0b0b0b2", "to a neighbour").await;
    assert!(said.contains("Received an ACK."), "{said}");
    let heard = sim.wait_heard("Ben", 1, PATIENCE).await.unwrap();
    assert_eq!((heard[0].text.as_str(), heard[0].pki), ("to a neighbour", true));

    let said = send("!a1b2c3d4", "over a relay").await;
    assert!(said.contains("Received an implicit ACK"), "{said}");
    let heard = sim.wait_heard("Ana", 1, PATIENCE).await.unwrap();
    assert_eq!((heard[0].text.as_str(), heard[0].pki), ("over a relay", true));

    let said = send("!11223344", "to nobody").await;
    assert!(said.contains("PKI_SEND_FAIL_PUBLIC_KEY"), "{said}");

    sim.set_peer("Ben", |ben| ben.reachable = false);
    let said = send("!b0b0b0b2", "out of reach").await;
    assert!(said.contains("MAX_RETRANSMIT"), "{said}");
    assert_eq!(sim.heard("Ben").len(), 1);

    sim.set_peer("Ben", |ben| (ben.reachable, ben.forgets_our_key) = (true, true));
    let said = send("!b0b0b0b2", "you forgot me").await;
    assert!(said.contains("PKI_UNKNOWN_PUBKEY"), "{said}");
    let said = send("!b0b0b0b2", "now you know me").await;
    assert!(said.contains("Received an ACK."), "{said}");
    assert_eq!(sim.heard("Ben")[1].text, "now you know me");
}

#[tokio::test]
async fn a_setting_is_written_and_read_back() {
    let Some(python) = python() else { return };
    let (_sim, port) = listening(|config| config.boot_time = Duration::from_millis(100)).await;
    let said = tcp_client(&python, port, &["--set", "lora.hop_limit", "5"]).await;
    assert!(said.contains("Writing lora configuration to device"), "{said}");
    let said = tcp_client(&python, port, &["--get", "lora.hop_limit"]).await;
    assert!(said.contains("lora.hop_limit: 5"), "{said}");
}

#[tokio::test]
async fn the_client_works_on_a_pseudo_terminal_with_log_text_between_the_frames() {
    let Some(python) = python() else { return };
    let config = SimConfig { speed: 20, debug_text: true, ..SimConfig::default() };
    let sim = Sim::start(config);
    let path = sim.serve_pty(CancellationToken::new()).unwrap().display().to_string();
    let place = ["--port", path.as_str()];
    let args = ["--sendtext", "by serial", "--dest", "!b0b0b0b2", "--ack"];
    let said = client(&python, &place, &args).await;
    assert!(said.contains("Received an ACK."), "{said}");
    assert_eq!(sim.wait_heard("Ben", 1, PATIENCE).await.unwrap()[0].text, "by serial");
    let info = client(&python, &place, &["--info"]).await;
    assert!(info.contains("Owner: Tombolo Node (TMB)"), "{info}");
}

/// A running `conversation.py`.
struct Conversation {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Conversation {
    fn start(python: &PathBuf, port: u16, answers: &[&str]) -> Conversation {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/conversation.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(port.to_string())
            .args(answers)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Conversation { child, lines }
    }

    /// The next line, which must be of that kind.
    async fn next(&mut self, event: &str) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("the client hangs");
        let line = line.unwrap().expect("the client ended");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], event, "{line}");
        value
    }
}

#[tokio::test]
async fn a_conversation_both_ways() {
    let Some(python) = python() else { return };
    let (sim, port) = listening(|_| {}).await;
    let mut client = Conversation::start(&python, port, &["fine", "done"]);
    let ready = client.next("ready").await;
    assert_eq!(ready["me"], "!70b01001");
    assert_eq!(ready["nodes"].as_array().unwrap().len(), 4);

    let id = sim.say("Ben", SayTo::Direct, "how are you, 🔔é!");
    let text = client.next("text").await;
    assert_eq!(text["id"], id.0);
    assert_eq!(
        (&text["sender"], &text["text"]),
        (&"!b0b0b0b2".into(), &"how are you, 🔔é!".into())
    );
    let key = tombolo::sim::key_for("Ben").to_string();
    assert_eq!((&text["pki"], &text["key"]), (&true.into(), &key.into()));
    let sent = client.next("sent").await;
    let ack = client.next("ack").await;
    assert_eq!((&ack["sender"], &ack["reason"]), (&0xb0b0_b0b2u32.into(), &"NONE".into()));
    let heard = sim.wait_heard("Ben", 1, PATIENCE).await.unwrap();
    assert_eq!((heard[0].text.as_str(), heard[0].id.0.into()), ("fine", sent["id"].clone()));

    // Over a relay, on a channel, in the clear: the sender is only a claim.
    sim.say("Ana", SayTo::Channel(1), "on the second channel");
    let text = client.next("text").await;
    assert_eq!((&text["channel"], &text["pki"]), (&1.into(), &false.into()));
    assert_eq!((&text["hop_start"], &text["hop_limit"]), (&3.into(), &2.into()));
    client.next("sent").await;
    client.next("ack").await;
    assert_eq!(sim.wait_heard("Ana", 1, PATIENCE).await.unwrap()[0].text, "done");
    client.next("closed").await;
    let status = timeout(PATIENCE, client.child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
}
