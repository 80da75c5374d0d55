//! What the status says, and the warnings in it.

use super::bench::{Act, Bench, open, radio_info, trusted};
use crate::config::MeshConfig;
use crate::mesh::view::{MeshStatus, Quota};
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

#[tokio::test(start_paused = true)]
async fn the_radio_is_shown_with_its_port_frequency_role_and_mode() {
    let bench = Bench::offline(tempfile::tempdir().unwrap(), open(), |_| Act::Hang);
    let before = status(&bench).await;
    assert_eq!((before.port, before.frequency_mhz, before.role), (None, None, None));
    assert!(!before.licensed);
    let shown = async |change: &dyn Fn(&mut RadioInfo)| {
        let mut info = radio_info();
        info.port = "/dev/ttyACM0".to_owned();
        change(&mut info);
        bench.up(info).await;
        bench.settle().await;
        status(&bench).await
    };
    let plain = shown(&|_| {}).await;
    assert_eq!(plain.port.as_deref(), Some("/dev/ttyACM0"));
    assert_eq!(plain.frequency_mhz, Some(869.525));
    assert_eq!((plain.role.as_deref(), plain.licensed), (Some("CLIENT"), false));
    assert_eq!(plain.firmware_note, None);
    let ham = shown(&licensed).await;
    assert!(ham.licensed);
    for (code, name) in [(2, "ROUTER"), (12, "CLIENT_BASE"), (99, "unknown (99)")] {
        let info = shown(&|info| info.role = code).await;
        assert_eq!(info.role.as_deref(), Some(name));
    }
    for (firmware, old) in [("2.7.14.aaaaaa", true), ("2.7.15.aaaaaa", false), ("", false)] {
        let info = shown(&|info| info.firmware = firmware.to_owned()).await;
        assert_eq!(info.firmware_note.is_some(), old, "{firmware}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_frequency_is_that_of_the_radios_own_settings() {
    let bench = Bench::start(open()).await;
    let found = async |change: &dyn Fn(&mut RadioInfo)| {
        let mut info = radio_info();
        change(&mut info);
        bench.up(info).await;
        bench.settle().await;
        status(&bench).await.frequency_mhz
    };
    let us = |info: &mut RadioInfo| info.lora.region = 1;
    assert_eq!(found(&us).await, Some(906.875));
    let named = |info: &mut RadioInfo| {
        us(info);
        info.channels[0].name = "Home".to_owned();
    };
    assert_ne!(found(&named).await, Some(906.875));
    let slot = |info: &mut RadioInfo| {
        named(info);
        info.lora.channel_num = 20;
    };
    assert_eq!(found(&slot).await, Some(906.875), "a slot wins over the name");
    let chosen = |info: &mut RadioInfo| {
        slot(info);
        info.lora.override_frequency = 913.3;
    };
    assert_eq!(found(&chosen).await, Some(913.3));
    let shifted = |info: &mut RadioInfo| info.lora.frequency_offset = 0.0015;
    assert_eq!(found(&shifted).await, Some(869.5265));
    for nothing in [0, 30] {
        assert_eq!(found(&|info| info.lora.region = nothing).await, None);
    }
    let own = |info: &mut RadioInfo| {
        us(info);
        info.lora.use_preset = false;
        (info.lora.bandwidth, info.lora.spread_factor) = (250, 9);
    };
    // An unnamed channel without a preset is called `Custom`.
    assert_eq!(found(&own).await, Some(902.125 + 0.25 * f64::from(custom_slot(104))));
}

/// djb2 of `Custom`, by the slots of a band.
fn custom_slot(slots: u32) -> u32 {
    b"Custom".iter().fold(5381u32, |hash, b| hash.wrapping_mul(33).wrapping_add((*b).into()))
        % slots
}

#[tokio::test(start_paused = true)]
async fn a_contacts_quota_is_what_the_budget_counts() {
    let config = MeshConfig { queries_per_hour: 3, ..trusted() };
    let bench = Bench::start(config).await;
    let quotas = async || {
        let view = bench.handle.answering().await.unwrap();
        view.allowed_contacts.iter().map(|contact| contact.queries).collect::<Vec<_>>()
    };
    let of = |used| Some(Quota { used, limit: Some(3) });
    assert_eq!(quotas().await, [of(0), of(0)]);
    for id in 1..=5u32 {
        bench.ana(id, &format!("!ai question {id}")).await;
        bench.pass(20).await;
        assert_eq!(quotas().await, [of(id.min(3)), of(0)], "after {id}");
    }
    bench.ana(6, "!ai ping").await;
    bench.pass(20).await;
    assert_eq!(quotas().await[0], of(3), "a command is no question");
    bench.pass(1200).await;
    assert_eq!(quotas().await[0], of(2));
    bench.pass(3600).await;
    assert_eq!(quotas().await, [of(0), of(0)]);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_key_has_no_quota() {
    let mut config = trusted();
    config.allowed_contacts[0].key = None;
    let bench = Bench::start(config).await;
    let view = bench.handle.answering().await.unwrap();
    assert_eq!(view.allowed_contacts[0].queries, None);
    assert!(view.allowed_contacts[1].queries.is_some());
}
