//! What the status says, and the warnings in it.

use super::bench::{Act, Bench, open, radio_info, trusted};
use crate::mesh::view::MeshStatus;
use crate::radio::{LinkEvent, RadioInfo};

async fn status(bench: &Bench) -> MeshStatus {
    bench.handle.status().await.unwrap()
}

fn licensed(info: &mut RadioInfo) {
    info.owner.licensed = true;
    info.owner.long_name = "N0CALL".to_owned();
    info.announces_every_s = 600;
}

/// The warnings after a handshake with a radio that is so.
async fn warnings(bench: &Bench, change: impl FnOnce(&mut RadioInfo)) -> Vec<String> {
    let mut info = radio_info();
    change(&mut info);
    bench.up(info).await;
    bench.settle().await;
    status(bench).await.warnings
}

#[tokio::test(start_paused = true)]
async fn a_healthy_radio_is_shown_without_warnings() {
    let bench = Bench::offline(tempfile::tempdir().unwrap(), open(), |_| Act::Hang);
    let before = status(&bench).await;
    assert!(!before.connected);
    assert_eq!((before.my_node, before.firmware.as_str()), (None, ""));
    assert_eq!(warnings(&bench, |_| {}).await, Vec::<String>::new());
    let up = status(&bench).await;
    assert!(up.connected);
    assert_eq!((up.owner.as_str(), up.region.as_str()), ("Tombolo Node", "EU_868"));
    assert_eq!(up.modem, "LONG_FAST");
    bench.tell(LinkEvent::Down { reason: "unplugged; trying again".to_owned() }).await;
    bench.settle().await;
    let down = status(&bench).await;
    assert!(!down.connected);
    assert_eq!(down.link, "unplugged; trying again");
    assert_eq!(down.my_node, up.my_node, "what was known is still shown");
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_should_put_right_is_named() {
    let bench = Bench::start(open()).await;
    let old = |firmware: &'static str| move |info: &mut RadioInfo| info.firmware = firmware.into();
    assert!(warnings(&bench, old("2.7.14.aaaaaa")).await[0].contains("older than 2.7.15"));
    assert!(warnings(&bench, old("2.6.99.aaaaaa")).await[0].contains("older than 2.7.15"));
    assert!(warnings(&bench, old("2.7.15.bbbbbb")).await.is_empty());
    assert!(warnings(&bench, old("3.0.0")).await.is_empty());
    assert!(warnings(&bench, old("")).await[0].contains("does not say its firmware"));
    for (word, found) in [
        ("region is not set", warnings(&bench, |info| info.lora.region = 0).await),
        ("switched off", warnings(&bench, |info| info.lora.tx_enabled = false).await),
        ("duty cycle", warnings(&bench, |info| info.lora.override_duty_cycle = true).await),
        ("licensed", warnings(&bench, licensed).await),
        ("no key of its own", warnings(&bench, |info| info.public_key = None).await),
        ("no channel `bots`", warnings(&bench, |info| info.channels.truncate(1)).await),
    ] {
        assert_eq!(found.len(), 1, "{word}");
        assert!(found[0].contains(word), "{}", found[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn contradictions_among_the_contacts_are_named() {
    let mut config = trusted();
    config.allowed_contacts[1].key = config.allowed_contacts[0].key;
    config.trigger = String::new();
    let bench = Bench::start(config).await;
    bench.settle().await;
    let warnings = status(&bench).await.warnings;
    assert!(warnings[0].contains("have the same key"), "{warnings:?}");
    assert!(warnings[1].contains("trigger is empty"), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn a_primary_channel_without_name_is_known_by_its_presets() {
    let config = crate::config::MeshConfig { channels: vec!["LongFast".to_owned()], ..open() };
    let bench = Bench::start(config).await;
    let packet = crate::mesh::packets::text_packet(
        super::bench::MALLORY,
        crate::node::NodeNum::BROADCAST,
        "!ai hello",
    );
    bench.hear(packet).await;
    bench.channel(super::bench::MALLORY, 2, "!ai hello").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    bench.settle().await;
    assert_eq!(bench.sent()[0].channel, 0);
    assert_eq!(bench.ignored().await, ["", "channel not listed"]);
}

#[tokio::test(start_paused = true)]
async fn turns_are_counted() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|_| Act::Hang);
    for id in 1..=2 {
        bench.ana(id, &format!("!ai {id}")).await;
        bench.ben(id, &format!("!ai {id}")).await;
    }
    bench.settle().await;
    let status = status(&bench).await;
    assert_eq!((status.turns_running, status.turns_waiting), (2, 2));
}
