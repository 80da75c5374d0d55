//! Scenario files: what they mean, and what is wrong with some.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_scenario_plays_at_its_times() {
    let scenario = Scenario::parse(
        r#"
        seed = 7
        [radio]
        region = "US"
        preset = "SHORT_FAST"
        channels = ["", "bots"]
        [[peer]]
        name = "Eve"
        id = "!00000100"
        hops = 2
        [[say]]
        at = 10
        every = 60
        peer = "Eve"
        text = "hello"
        [[change]]
        at = 100
        peer = "Eve"
        reachable = false
        "#,
    )
    .unwrap();
    let sim = Sim::start(scenario.config.clone());
    let playing = async { scenario.play(&sim).await };
    let watching = async {
        let mut begun = Vec::new();
        for wanted in [9, 11, 69, 75, 110, 200] {
            tokio::time::sleep_until(
                Instant::now() + Duration::from_millis(wanted * 1000 - sim.now_ms()),
            )
            .await;
            let acks = sim.transmissions().iter().filter(|t| t.attempt == 1).count();
            begun.push(acks);
        }
        begun
    };
    tokio::select! {
        () = playing => panic!("it repeats for ever"),
        acks = watching => assert_eq!(acks, [0, 1, 1, 2, 2, 2]),
    }
}

#[test]
fn the_documented_example_is_right() {
    let source = include_str!("../scenario.rs");
    let example = source.split("//! ```").nth(1).unwrap().trim_start_matches("toml");
    let text = example.replace("//!", "");
    let scenario = Scenario::parse(&text).unwrap();
    assert_eq!((scenario.config.peers.len(), scenario.steps.len()), (1, 5));
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("sed = 1", "unknown field `sed`"),
        ("[radio]\nregion = \"EU868\"", "EU_868"),
        ("[radio]\npreset = \"FAST\"", "LONG_FAST"),
        ("[[say]]\nat = 1\npeer = \"Nobody\"\ntext = \"x\"", "Ana, Ben, Mallory"),
        ("[[say]]\npeer = \"Ana\"\ntext = \"x\"", "[[say]] needs `at`"),
        ("[[learn_key]]\nat = 1\nid = \"!00000100\"\npeer = \"X\"", "no peer `X`"),
        ("[[say]]\nat = -1\npeer = \"Ana\"\ntext = \"x\"", "at is seconds"),
        ("[[say]]\nat = nan\npeer = \"Ana\"\ntext = \"x\"", "at is seconds"),
        ("[[say]]\nat = 1\nevery = 0\npeer = \"Ana\"\ntext = \"x\"", "more than 0"),
        ("[[peer]]\nname = \"X\"\nid = \"!ffffffff\"", "reserved"),
        ("[[peer]]\nname = \"X\"\nid = \"12\"", "not a node id"),
        ("hop_loss = 1.5", "from 0 to 1"),
        ("stolen = -0.1", "from 0 to 1"),
        ("[radio]\nfirmware = \"2.6.1\"", "2.7.x or 2.8.x"),
        ("[[peer]]\nname = \"X\"\nid = \"!00000100\"\nmetres = 0", "1 to 100000"),
        ("[[peer]]\nname = \"X\"\nid = \"!00000100\"\nbeacon = 0.5", "1 second or more"),
    ];
    for (text, expected) in cases {
        let problem = Scenario::parse(text).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}

#[test]
fn the_longest_text_passes_and_one_byte_more_does_not() {
    for (channel, most) in [("", 220), ("channel = 1", 232)] {
        let line = |len| {
            let text = "x".repeat(len);
            format!("[[say]]\nat = 1\npeer = \"Ana\"\ntext = \"{text}\"\n{channel}")
        };
        assert!(Scenario::parse(&line(most)).is_ok());
        assert!(Scenario::parse(&line(most + 1)).unwrap_err().contains("too long"));
    }
}

#[test]
fn a_whole_world_can_be_described() {
    let text = r#"
        collisions = true
        stolen = 0.25
        [radio]
        firmware = "2.8.0"
        relays = true
        bridge = true
        [[peer]]
        name = "Near"
        id = "!00000100"
        metres = 50
        [[peer]]
        name = "Far"
        id = "!00000101"
        metres = 2500
        beacon = 900
        [[peer]]
        name = "Lucky"
        id = "!00000102"
        metres = 2500
        loss = 0.1
        "#;
    let config = Scenario::parse(text).unwrap().config;
    assert_eq!((config.collisions, config.stolen, config.reboot_closes), (true, 0.25, false));
    assert_eq!((config.firmware.as_str(), config.role), ("2.8.0", 0));
    let [near, far, lucky] = config.peers.as_slice() else { panic!() };
    assert!(near.loss < 0.01 && far.loss > 0.5 && far.rssi < near.rssi);
    assert_eq!((lucky.loss, lucky.rssi), (0.1, far.rssi), "what is given counts");
    assert_eq!(far.beacon, Some(Duration::from_secs(900)));
}
