//! `tombolo radio`: the program itself against a simulated radio on TCP and on a pseudo-terminal.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tombolo::radio::transport::Connector;
use tombolo::sim::SimConfig;

use crate::support::machine::{Machine, err, line, on_pty, on_tcp, out};

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

#[tokio::test]
async fn the_simulator_says_both_ways_to_reach_it() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    let output = command.arg("sim").stdin(Stdio::null()).output().await.unwrap();
    assert!(!output.status.success());
    let said = err(&output);
    assert!(said.contains("--listen <ADDR>") && said.contains("--pty"), "{said}");
}

#[tokio::test]
async fn the_simulated_radio_needs_no_acceptance_and_a_file_is_no_radio() {
    let machine = Machine::new("[radio]\nport = \"sim\"\n");
    let accepted = machine.run(&["radio", "accept"]).await;
    assert!(
        accepted.status.success() && out(&accepted).contains("Nothing to do"),
        "{}",
        err(&accepted)
    );
    let file = machine.run(&["radio", "info", "--port", "/dev/null"]).await;
    assert!(
        err(&file).contains("/dev/null is no serial port: `tombolo radio list`"),
        "{}",
        err(&file)
    );
}
