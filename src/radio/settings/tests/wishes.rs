//! Names, limits, sources and rules, without a radio.

use super::super::compare::{differences, impossible, modem_words, printable, rows};
use super::*;
use crate::node::NodeNum;
use crate::radio::{LoraSettings, NodeInfo, RadioInfo};

fn property(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn radio(firmware: &str) -> RadioInfo {
    RadioInfo {
        session: 0,
        port: String::new(),
        my_node: NodeNum(7),
        public_key: None,
        owner: NodeInfo { num: 7, long_name: "Us".to_owned(), ..NodeInfo::default() },
        firmware: firmware.to_owned(),
        role: 1,
        announces_every_s: 0,
        lora: LoraSettings {
            region: 3,
            use_preset: true,
            preset: 0,
            bandwidth: 250,
            spread_factor: 11,
            coding_rate: 5,
            hop_limit: 3,
            ..LoraSettings::default()
        },
        channels: Vec::new(),
        nodes: Vec::new(),
    }
}

fn faults(file: &RadioSettings, properties: &[(String, String)]) -> Vec<String> {
    let faults = Wanted::resolve(file, properties).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_property_beats_the_file_and_the_rest_of_the_file_stays() {
    let file = RadioSettings { hop_limit: Some(4), ..file("EU_868", "LONG_FAST") };
    let properties = [
        property("TOMBOLO_BOARD", "x"),
        property("TOMBOLO_REGION", "US"),
        property("TOMBOLO_NAME", "Hilltop"),
        property("TOMBOLO_ROLE", "CLIENT"),
    ];
    let wanted = Wanted::resolve(&file, &properties).unwrap();
    let region = wanted.region.clone().unwrap();
    assert_eq!((region.value.name, region.source), ("US", Source::Udev));
    assert_eq!(wanted.preset.clone().unwrap().source, Source::File);
    assert_eq!(wanted.hop_limit, Some(Wish { value: 4, source: Source::File }));
    assert_eq!(wanted.role, Some(Wish { value: 0, source: Source::Udev }));
    let lines = differences(&wanted, &radio("2.7.26"));
    assert_eq!(
        lines,
        [
            "region is EU_868, wanted US (TOMBOLO_REGION)",
            "hop limit is 3, wanted 4 (radio.settings.hop_limit)",
            "role is CLIENT_MUTE, wanted CLIENT (TOMBOLO_ROLE)",
            "name is Us, wanted Hilltop (TOMBOLO_NAME)",
        ]
    );
}

#[test]
fn a_wrong_name_is_answered_with_the_right_one_or_with_all() {
    for (property_name, value, words) in [
        ("TOMBOLO_REGION", "eu868", "write EU_868"),
        ("TOMBOLO_REGION", "UNSET", "write one of US, EU_433"),
        ("TOMBOLO_REGION", "", "write one of US"),
        ("TOMBOLO_PRESET", "long-fast", "write LONG_FAST"),
        ("TOMBOLO_PRESET", "VERY_LONG_SLOW", "write one of LONG_FAST"),
        ("TOMBOLO_ROLE", "client_mute", "write CLIENT_MUTE"),
        ("TOMBOLO_ROLE", "REPEATER", "write one of CLIENT, CLIENT_MUTE"),
        ("TOMBOLO_HOP_LIMIT", "0", "1 to 7"),
        ("TOMBOLO_HOP_LIMIT", "8", "1 to 7"),
        ("TOMBOLO_HOP_LIMIT", "three", "1 to 7"),
        ("TOMBOLO_NAME", " ", "not blank"),
        ("TOMBOLO_REGON", "EU_868", "there are TOMBOLO_REGION"),
    ] {
        let faults = faults(&RadioSettings::default(), &[property(property_name, value)]);
        assert_eq!(faults.len(), 1, "{property_name}={value}");
        assert!(faults[0].starts_with(property_name), "{}", faults[0]);
        assert!(faults[0].contains(words), "{} lacks {words}", faults[0]);
    }
    for hops in ["1", "7"] {
        let properties = [property("TOMBOLO_HOP_LIMIT", hops)];
        assert!(faults(&RadioSettings::default(), &properties).is_empty());
    }
}

#[test]
fn a_name_is_measured_in_bytes() {
    let named = |name: String| RadioSettings { owner: Some(name), ..RadioSettings::default() };
    for (name, good) in [
        ("x".repeat(39), true),
        ("x".repeat(40), false),
        (format!("{}é", "x".repeat(37)), true),
        (format!("{}é", "x".repeat(38)), false),
        ("a\nb".to_owned(), false),
    ] {
        assert_eq!(faults(&named(name.clone()), &[]).is_empty(), good, "{name:?}");
    }
    for (bytes, firmware, good) in [(24, "2.8.0", true), (25, "2.8.0", false), (39, "2.7.26", true)]
    {
        let wanted = wanted(&named("x".repeat(bytes)));
        assert_eq!(impossible(&wanted, &radio(firmware)).is_empty(), good, "{bytes} {firmware}");
    }
}

#[test]
fn a_preset_that_the_region_forbids_is_refused_with_the_rule() {
    for (region, preset, good) in [
        ("EU_868", "LONG_FAST", true),    // 250 kHz in a band of 250 kHz
        ("EU_868", "SHORT_TURBO", false), // 500 kHz
        ("US", "SHORT_TURBO", true),
        ("LORA_24", "SHORT_TURBO", true),
        ("EU_866", "LITE_SLOW", true),
        ("EU_866", "LONG_FAST", false),
        ("EU_N_868", "NARROW_FAST", true),
        ("EU_N_868", "TINY_FAST", false),
    ] {
        let faults = faults(&file(region, preset), &[]);
        assert_eq!(faults.is_empty(), good, "{region} {preset}: {faults:?}");
        assert!(faults.iter().all(|f| f.starts_with("radio.settings.preset: ")), "{faults:?}");
    }
    // Also against what the radio has already.
    let turbo =
        RadioSettings { preset: Some("SHORT_TURBO".to_owned()), ..RadioSettings::default() };
    assert_eq!(impossible(&wanted(&turbo), &radio("2.7.26")).len(), 1);
    let us = RadioSettings { region: Some("US".to_owned()), ..RadioSettings::default() };
    assert!(impossible(&wanted(&us), &radio("2.7.26")).is_empty());
}

#[test]
fn what_a_firmware_does_not_know_is_refused() {
    for (region, preset, firmware, faults) in [
        ("EU_866", "LITE_FAST", "2.7.26", 2),
        ("EU_866", "LITE_FAST", "2.8.0", 0),
        ("EU_866", "LITE_FAST", "", 2),
        ("UA_868", "LONG_FAST", "2.7.26", 0),
        ("UA_868", "LONG_FAST", "2.8.0", 1),
        ("ITU1_2M", "TINY_FAST", "2.8.0", 1), // not licensed
    ] {
        let found = impossible(&wanted(&file(region, preset)), &radio(firmware));
        assert_eq!(found.len(), faults, "{region} {firmware}: {found:?}");
    }
}

#[test]
fn a_licensed_station_keeps_its_call_sign_in_its_name() {
    for (licensed, now, wish, good) in [
        (true, "N0CALL", "N0CALL Hilltop", true),
        (true, "N0CALL Hilltop", "N0CALL", true),
        (true, "N0CALL", "Hilltop", false),
        (true, "N0CALL", "N0CAL", false),
        (true, "Hilltop", "N0CALL", true), // there was none
        (false, "N0CALL", "Hilltop", true),
    ] {
        let mut radio = radio("2.7.26");
        radio.owner.licensed = licensed;
        radio.owner.long_name = now.to_owned();
        let named = RadioSettings { owner: Some(wish.to_owned()), ..RadioSettings::default() };
        let faults = impossible(&wanted(&named), &radio);
        assert_eq!(faults.is_empty(), good, "{now} {wish}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.contains("begin it with N0CALL")), "{faults:?}");
    }
}

#[test]
fn what_would_restart_the_radio_depends_on_its_firmware() {
    let all = RadioSettings {
        owner: Some("Hilltop".to_owned()),
        role: Some("CLIENT".to_owned()),
        hop_limit: Some(5),
        ..file("US", "SHORT_TURBO")
    };
    let restarts = |firmware| -> Vec<bool> {
        rows(&wanted(&all), &radio(firmware)).iter().map(|row| row.restarts).collect()
    };
    assert_eq!(restarts("2.7.26"), [true, true, false, true, true]);
    assert_eq!(restarts("2.8.0"), [false, false, false, true, true]);
    let none = rows(&Wanted::default(), &radio("2.7.26"));
    assert!(none.iter().all(|row| !row.differs && !row.restarts && row.wanted.is_none()));
}

#[test]
fn a_preset_with_another_coding_rate_is_not_the_preset() {
    let slow = RadioSettings { preset: Some("LONG_SLOW".to_owned()), ..RadioSettings::default() };
    let mut radio = radio("2.7.26");
    radio.lora.preset = 1;
    radio.lora.coding_rate = 8;
    assert!(differences(&wanted(&slow), &radio).is_empty());
    radio.lora.coding_rate = 5; // what 2.7 makes of an unset one
    assert_eq!(
        differences(&wanted(&slow), &radio),
        ["preset is LONG_SLOW at 4/5, wanted LONG_SLOW (radio.settings.preset)"]
    );
    radio.lora.use_preset = false;
    assert_eq!(modem_words(&radio.lora), "250 kHz SF11 4/5");
    radio.lora = LoraSettings { use_preset: true, preset: 99, ..radio.lora };
    assert_eq!(modem_words(&radio.lora), "unknown (99)");
}

#[test]
fn a_name_of_the_radio_cannot_steer_a_terminal() {
    assert_eq!(printable("a\x1b[2J\u{202e}b é'"), "a\u{fffd}[2J\u{fffd}b é'");
}
