//! Commands: what they do, and what is wrong with some.

use super::*;

fn mesh() -> SimConfig {
    SimConfig::default()
}

#[tokio::test(start_paused = true)]
async fn a_command_is_done_when_it_is_given() {
    let sim = Sim::start(mesh());
    let perform = |text: &str| Act::parse(text, &mesh()).unwrap().perform(&sim);
    perform(r#"{"change": {"peer": "Ana", "reachable": false, "loss": 0.25}}"#);
    sim.set_peer("Ana", |ana| assert_eq!((ana.reachable, ana.loss), (false, 0.25)));
    perform(r#"{"change": {"peer": "Ana", "reachable": true}}"#);
    sim.set_peer("Ana", |ana| assert_eq!((ana.reachable, ana.loss), (true, 0.25)));

    let ana = NodeNum(0xa1b2_c3d4);
    assert_eq!(sim.known_key(ana), Some(super::super::key_for("Ana")));
    perform(r#"{"learn_key": {"id": "!a1b2c3d4", "peer": "Mallory"}}"#);
    assert_eq!(sim.known_key(ana), Some(super::super::key_for("Mallory")));

    let _client = sim.connect();
    sim.wait_attached(true, Duration::from_secs(1)).await.unwrap();
    perform(r#"{"drop_link": {}}"#);
    sim.wait_attached(false, Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_says_what_it_is_told_to_and_under_which_number() {
    let sim = Sim::start(mesh());
    let told = r#"{"say": {"peer": "Mallory", "text": "hello", "claims": "!a1b2c3d4"}}"#;
    let act = Act::parse(told, &mesh()).unwrap();
    let claims = Some(NodeNum(0xa1b2_c3d4));
    let saying = Saying { claims, ..Saying::new(SayTo::Direct, "hello") };
    assert_eq!(act, Act(Deed::Say { peer: "Mallory".to_owned(), saying }));
    act.perform(&sim);
    // Our radio can't open that: it answers the number that was claimed.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(sim.transmissions().iter().any(|sent| sent.to == NodeNum(0xa1b2_c3d4)));
}

#[test]
fn the_documented_commands_are_right() {
    let source = include_str!("../acts.rs");
    let example = source.split("//! ```").nth(1).unwrap().trim_start_matches("json");
    let mut count = 0;
    for line in example.lines().map(|line| line.trim_start_matches("//!")) {
        if !line.trim().is_empty() {
            Act::parse(line, &mesh()).unwrap();
            count += 1;
        }
    }
    assert_eq!(count, 6);
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("", "A command is like {\"say\""),
        ("say", "A command is like {\"say\""),
        ("{}", "A command is like {\"say\""),
        (r#"{"shout": {}}"#, "expected one of `say`, `change`, `learn_key`, `reboot`, `drop_link`"),
        (r#"{"reboot": {}, "drop_link": {}}"#, "A command is like"),
        (r#"{"say": {"peer": "Ana"}}"#, "missing field `text`"),
        (r#"{"say": {"peer": "Ana", "text": "x", "to": 1}}"#, "unknown field `to`"),
        (r#"{"say": {"peer": "Nobody", "text": "x"}}"#, "Ana, Ben, Mallory"),
        (r#"{"say": {"peer": "Ana", "text": "x", "at": 1}}"#, "done at once"),
        (r#"{"say": {"peer": "Ana", "text": "x", "every": 1}}"#, "done at once"),
        (r#"{"say": {"peer": "Ana", "text": "x", "channel": 8}}"#, "channel is 0 to 7"),
        (r#"{"change": {"peer": "Eve"}}"#, "no peer `Eve`"),
        (r#"{"change": {"peer": "Ana", "loss": 1.01}}"#, "from 0 to 1"),
        (r#"{"learn_key": {"id": "12", "peer": "Ana"}}"#, "not a node id"),
        (r#"{"reboot": {"downtime": -1}}"#, "downtime is seconds"),
    ];
    for (text, expected) in cases {
        let problem = Act::parse(text, &mesh()).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}
