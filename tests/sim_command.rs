//! `tombolo sim --control` from outside: a test drives the mesh through it, and what it says is said clearly.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::support::world::World;

/// The simulator as a process.
struct Simulator {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Simulator {
    fn start(scenario: Option<&std::path::Path>) -> Simulator {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command.args(["sim", "--listen", "127.0.0.1:0", "--control"]);
        if let Some(path) = scenario {
            command.arg("--scenario").arg(path);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.rsplit(' ').next().unwrap().to_owned();
        Simulator { child, input, lines, address }
    }

    fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Reads until a line that holds this; the line.
    fn until(&mut self, words: &str) -> String {
        let found = self.lines.by_ref().map(Result::unwrap).find(|line| line.contains(words));
        found.unwrap_or_else(|| panic!("the simulator ended before it said: {words}"))
    }

    /// Ends its input: its exit code, and what it said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        let mut errors = BufReader::new(self.child.stderr.take().unwrap());
        std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
        (code, said)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_peer_of_the_driven_radio_asks_the_daemon_and_hears_its_answer() {
    let mut sim = Simulator::start(None);
    let mut world = World::new().await;
    let config = std::fs::read_to_string(world.config_path()).unwrap();
    let port = config.lines().find(|line| line.starts_with("port =")).unwrap();
    let config = config.replace(port, &format!("port = \"tcp://{}\"", sim.address));
    std::fs::write(world.config_path(), config).unwrap();
    world.start().await;

    sim.tell(r#"{"say": {"peer": "Ana", "text": "!ai ping"}}"#);
    sim.until("line 1: done");
    let heard = sim.until("Ana hears: ");
    assert!(heard.contains("pong"), "{heard}");

    // The link breaks and comes back, which the daemon says.
    let operator = world.operator().await;
    sim.tell(r#"{"reboot": {"downtime": 0.2}}"#);
    sim.until("line 2: done");
    world
        .until("the radio is back", async |world: &World| {
            let status = operator.call("mesh.status", json!({})).await;
            world.log().contains("session=2") && status["connected"] == true
        })
        .await;
    assert_eq!(sim.end(), (Some(0), String::new()));
}

#[test]
fn a_bad_line_is_said_with_its_number_and_nothing_else_happens() {
    let mut sim = Simulator::start(None);
    sim.tell("ping");
    sim.tell(r#"{"say": {"peer": "Nobody", "text": "x"}}"#);
    sim.tell("");
    sim.tell(&format!(r#"{{"say": {{"peer": "Ana", "text": "{}"}}}}"#, "x".repeat(221)));
    sim.tell("{\"say\u{9b}\": 1}");
    sim.tell(r#"{"drop_link": {}}"#);
    assert_eq!(sim.until("line"), "line 6: done", "the first that is done");
    let (code, said) = sim.end();
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(code, Some(0));
    let expected =
        ["line 1: ", "line 2: no peer `Nobody`: Ana, Ben, Mallory", "line 4: ", "line 5: "];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected) && !said.contains('\u{9b}'), "{said}");
    }
}

#[test]
fn commands_go_beside_a_scenario_and_know_its_peers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.toml");
    std::fs::write(&path, "[[peer]]\nname = \"Eve\"\nid = \"!00000100\"\n").unwrap();
    let mut sim = Simulator::start(Some(&path));
    sim.tell(r#"{"change": {"peer": "Ana", "reachable": false}}"#);
    sim.tell(r#"{"change": {"peer": "Eve", "reachable": false}}"#);
    assert_eq!(sim.until("line"), "line 2: done");
    assert_eq!(sim.end(), (Some(0), "line 1: no peer `Ana`: Eve\n".to_owned()));
}
