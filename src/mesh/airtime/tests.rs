//! Tests of the ledger on disk and of the admission. (What the outbox makes of them is tested there.)
#![allow(clippy::disallowed_methods)] // files are broken here on purpose

use proptest::prelude::*;

use super::law::{Admission, Air, Law, Use};
use super::*;
use crate::node::NodeNum;
use crate::radio::{LoraSettings, NodeInfo, RadioInfo, Telemetry};

fn at(mono_ms: u64) -> Now {
    Now { mono_ms, unix_ms: 1_700_000_000_000 + mono_ms }
}

fn open(folder: &tempfile::TempDir, boot: &str, mono_ms: u64) -> Ledger {
    Ledger::open(folder.path(), boot, at(mono_ms)).unwrap()
}

fn log(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("airtime.log")).unwrap()
}

fn write_log(folder: &tempfile::TempDir, text: &str) {
    std::fs::write(folder.path().join("airtime.log"), text).unwrap();
}

const HOUR: u64 = 3_600_000;

#[test]
fn a_charge_is_on_disk_at_once_and_counts_for_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 50_000);
    ledger.charge(PacketId(1), 2_000_000, 0, at(50_000)).unwrap();
    assert_eq!(log(&folder), "boot-a 50000 1700000050000 2000000 text\n");
    // Handed over at 50 s it may be on air until 80 s; it is forgotten an hour later, at most 5 s late.
    assert_eq!(ledger.used_us(at(80_000 + HOUR - 1)), 2_000_000);
    assert_eq!(ledger.used_us(at(85_000 + HOUR)), 0);
    drop(ledger);
    let ledger = open(&folder, "boot-a", 60_000);
    assert_eq!(ledger.used_us(at(60_000)), 2_000_000);
    assert_eq!(ledger.last_text_ms(), Some(50_000));
}

#[test]
fn repetitions_count_while_they_may_be_made_and_then_as_far_as_they_may_have_been() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 0);
    for (id, settled, used) in [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 9, 3)] {
        let before = ledger.used_us(at(0));
        ledger.charge(PacketId(id), 1_000_000, 2_000_000, at(0)).unwrap();
        assert_eq!(ledger.used_us(at(0)) - before, 3_000_000);
        ledger.settle(PacketId(id), settled * 1_000_000, at(0));
        ledger.settle(PacketId(id), 1_000_000, at(0)); // settled once
        assert_eq!(ledger.used_us(at(0)) - before, used * 1_000_000);
    }
    let used = ledger.used_us(at(0));
    drop(ledger);
    assert_eq!(open(&folder, "boot-a", 0).used_us(at(0)), used);
}

#[test]
fn another_boot_counts_as_just_sent_as_far_as_it_can_be_recent() {
    let folder = tempfile::tempdir().unwrap();
    write_log(
        &folder,
        "boot-a 1000 1 7000000 text\n\
         boot-a 9000000 1 1000000 text\n\
         boot-a 9001000 1 2000000 retry\n",
    );
    let ledger = open(&folder, "boot-b", 10_000);
    assert_eq!(ledger.used_us(at(10_000)), 3_000_000, "the first was two hours before the last");
    assert_eq!(ledger.used_us(at(30_000 + HOUR)), 3_000_000);
    assert_eq!(ledger.last_text_ms(), None);
    assert_eq!(ledger.used_us(at(50_000 + HOUR)), 0);
    // And they are this boot's now: another restart does not make them new again.
    drop(ledger);
    assert_eq!(open(&folder, "boot-b", 50_000 + HOUR).used_us(at(50_000 + HOUR)), 0);
}

#[test]
fn a_line_from_the_future_counts_as_just_sent() {
    let folder = tempfile::tempdir().unwrap();
    write_log(&folder, "boot-a 99999999999 1 1000000 text\n");
    let ledger = open(&folder, "boot-a", 10_000);
    assert_eq!(ledger.used_us(at(10_000)), 1_000_000);
    assert_eq!(ledger.used_us(at(50_000 + HOUR)), 0);
}

#[test]
fn a_boot_without_a_name_is_never_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "", 5_000_000);
    ledger.charge(PacketId(1), 1_000_000, 0, at(5_000_000)).unwrap();
    drop(ledger);
    let ledger = open(&folder, "unknown", 9_000_000);
    assert_eq!(ledger.used_us(at(9_000_000)), 1_000_000);
}

#[test]
fn a_line_that_cannot_be_read_counts_as_the_longest_frame() {
    for (bad, count) in [
        ("boot-a 1 1 1000 text\nboot-a 1 1 10", 1), // torn
        ("boot-a 1 1 1000 tex\n", 1),
        ("boot-a 1 1 -5 text\n", 1),
        ("\u{0}\u{0}\u{0}\n", 1),
        ("boot-a x 1 1000 text\nboot-a 1 1 1000 text more\n", 2),
        ("\n\n", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_log(&folder, bad);
        let ledger = open(&folder, "boot-a", 10_000);
        assert_eq!(ledger.unreadable(), count, "{bad:?}");
        let used = ledger.used_us(at(10_000));
        assert!(used >= count as u64 * 15_000_000, "{bad:?}");
        drop(ledger);
        let again = open(&folder, "boot-a", 10_000);
        assert_eq!((again.unreadable(), again.used_us(at(10_000))), (0, used), "{bad:?}");
    }
}

#[test]
fn an_absurd_figure_does_not_wrap() {
    let folder = tempfile::tempdir().unwrap();
    write_log(&folder, &"boot-a 1 1 18446744073709551615 text\n".repeat(3));
    let ledger = open(&folder, "boot-a", 10_000);
    assert!(ledger.used_us(at(10_000)) >= u64::from(u32::MAX));
}

#[test]
fn the_file_is_trimmed_at_open_and_while_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 0);
    for turn in 0..9_000 {
        ledger.charge(PacketId(turn), 1, 0, at(u64::from(turn) * 2_300)).unwrap();
    }
    let lines = log(&folder).lines().count();
    assert!(lines < 3_000, "{lines}");
    drop(ledger);
    open(&folder, "boot-a", 9_000 * 2_300 + 2 * HOUR);
    assert_eq!(log(&folder), "");
}

#[test]
fn what_never_fits_is_told_from_what_fits_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 0);
    assert_eq!(ledger.fits_at_ms(1_001, 1_000, at(0)), None);
    assert_eq!(ledger.fits_at_ms(1_000, 1_000, at(0)), Some(0));
    ledger.charge(PacketId(1), 500, 300, at(0)).unwrap();
    assert_eq!(ledger.fits_at_ms(200, 1_000, at(0)), Some(0));
    let later = ledger.fits_at_ms(201, 1_000, at(0)).unwrap();
    assert!(later > HOUR);
    assert_eq!(ledger.fits_at_ms(1_000, 1_000, at(0)), Some(5_000), "until that is settled");
}

fn radio() -> RadioInfo {
    RadioInfo {
        session: 1,
        port: String::new(),
        my_node: NodeNum(9),
        public_key: None,
        owner: NodeInfo::default(),
        firmware: "2.7.26".to_owned(),
        role: 0,
        announces_every_s: 0,
        lora: LoraSettings {
            region: 3,
            use_preset: true,
            hop_limit: 3,
            tx_enabled: true,
            ..LoraSettings::default()
        },
        channels: Vec::new(),
        nodes: Vec::new(),
    }
}

#[test]
fn the_law_comes_from_the_region_and_the_modems_real_settings() {
    let law = Law::of(&radio()).unwrap();
    assert_eq!((law.limit_us, law.signs), (360_000_000, false));
    let mut info = radio();
    info.lora.region = 1; // US: no duty cycle
    assert_eq!(Law::of(&info).unwrap().limit_us, 3_600_000_000);
    info.lora.region = 29; // EU_866
    info.lora.preset = 9; // LITE_FAST
    assert_eq!(Law::of(&info).unwrap().limit_us, 90_000_000);
    info.role = 2;
    assert_eq!(Law::of(&info).unwrap().limit_us, 360_000_000);

    // LONG_SLOW configured with 4/5: 2.7 runs 4/5, 2.8 never below the preset's 4/8.
    let mut slow = radio();
    slow.lora.region = 14;
    slow.lora.preset = 1;
    slow.lora.coding_rate = 5;
    let rates = [("2.7.26", 5), ("2.8.0", 8), ("3.0", 8), ("", 8), ("weird", 8)];
    for (firmware, rate) in rates {
        slow.firmware = firmware.to_owned();
        assert_eq!(Law::of(&slow).unwrap().modem.coding_rate, rate, "{firmware}");
    }
}

#[test]
fn the_duty_cycle_override_is_refused_outside_licensed_mode_and_outside_amateur_bands() {
    for (licensed, region, allowed) in [
        (false, 3, false),
        (false, 34, false),
        (true, 3, false), // EU_868
        (true, 29, false),
        (true, 2, true),  // EU_433
        (true, 34, true), // ITU1_70CM
    ] {
        let mut info = radio();
        info.owner.licensed = licensed;
        info.owner.long_name = "N0CALL".to_owned();
        info.announces_every_s = 600;
        info.lora.region = region;
        assert!(Law::of(&info).is_ok(), "{region}: without the override");
        info.lora.override_duty_cycle = true;
        let law = Law::of(&info);
        assert_eq!(law.is_ok(), allowed, "{licensed} {region}");
        match law {
            // The override lifts nothing here.
            Ok(law) if region == 2 => assert_eq!(law.limit_us, 360_000_000),
            Ok(_) => {}
            Err(why) => assert!(why.contains("override"), "{why}"),
        }
    }
}

#[test]
fn a_licensed_station_that_does_not_say_its_call_sign_sends_nothing() {
    let mut info = radio();
    info.owner.licensed = true;
    for (name, every, words) in [
        ("N0CALL", 600, None),
        ("N0CALL", 601, Some("every 601 s")),
        ("Hilltop", 600, Some("no call sign")),
    ] {
        info.owner.long_name = name.to_owned();
        info.announces_every_s = every;
        match (Law::of(&info), words) {
            (Ok(_), None) => {}
            (Err(why), Some(words)) => assert!(why.contains(words), "{why}"),
            (law, _) => panic!("{name} {every}: {law:?}"),
        }
    }
}

#[test]
fn both_edges_of_a_frequency_of_the_owners_own_are_in_the_band() {
    let law = |mhz: f32, bandwidth: u32| {
        let mut info = radio();
        info.lora.use_preset = false;
        (info.lora.bandwidth, info.lora.spread_factor, info.lora.coding_rate) = (bandwidth, 11, 5);
        info.lora.override_frequency = mhz;
        Law::of(&info)
    };
    // EU_868 is 869.4 to 869.65 MHz.
    for (mhz, bandwidth, allowed) in [
        (0.0, 250, true),
        (869.525, 250, true),
        (869.526, 250, false),
        (869.524, 250, false),
        (869.4625, 125, true),
        (869.4615, 125, false),
        (869.5875, 125, true),
        (869.5885, 125, false),
        (433.0, 125, false),
        (f32::NAN, 125, false),
        (f32::INFINITY, 125, false),
        (-1.0, 125, false),
    ] {
        let law = law(mhz, bandwidth);
        assert_eq!(law.is_ok(), allowed, "{mhz} {bandwidth} {law:?}");
    }
}

#[test]
fn a_fiftieth_of_the_law_is_left_to_the_radios_acks_even_at_full_share() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(&folder, "boot-a", 0);
    let law = Law::of(&radio()).unwrap();
    let admit = |share, us, purpose| Air::new(share).admit(us, purpose, &law, &ledger, at(0));
    assert_eq!(admit(1.0, 352_800_000, Use::Command), Admission::Now);
    assert_eq!(admit(1.0, 352_800_001, Use::Command), Admission::Never);
    assert_eq!(admit(1.0, 342_000_000, Use::Answer), Admission::Now);
    assert_eq!(admit(1.0, 342_000_001, Use::Answer), Admission::Never);
    assert_eq!(
        admit(0.5, 180_000_000, Use::Command),
        Admission::Now,
        "far below it nothing changes"
    );
}

#[test]
fn the_share_only_ever_lowers_the_limit() {
    let law = Law::of(&radio()).unwrap();
    for (share, us) in [(0.5, 180_000_000), (1.0, 360_000_000), (7.0, 360_000_000), (-1.0, 0)] {
        assert_eq!(Air::new(share).share_us(&law), us);
    }
    assert_eq!(Air::new(f64::NAN).share_us(&law), 0);
}

#[test]
fn the_last_microsecond_is_admitted_and_one_more_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 0);
    let law = Law::of(&radio()).unwrap();
    let air = Air::new(0.5);
    ledger.charge(PacketId(1), 100_000_000, 0, at(0)).unwrap();
    // 180 s, of which a twentieth is for commands.
    for (purpose, room) in [(Use::Answer, 71_000_000), (Use::Command, 80_000_000)] {
        assert_eq!(air.admit(room, purpose, &law, &ledger, at(0)), Admission::Now);
        let later = air.admit(room + 1, purpose, &law, &ledger, at(0));
        assert!(matches!(later, Admission::At(at) if at > HOUR), "{later:?}");
    }
    assert_eq!(air.admit(180_000_001, Use::Command, &law, &ledger, at(0)), Admission::Never);
}

#[test]
fn by_the_radios_count_everything_stays_under_the_law() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 0);
    let law = Law::of(&radio()).unwrap();
    let mut air = Air::new(1.0);
    let metrics = Telemetry { air_util_tx: Some(9.5), ..Telemetry::default() }; // 342 s
    air.telemetry(metrics, at(100_000));
    assert_eq!(air.admit(18_000_000, Use::Answer, &law, &ledger, at(100_000)), Admission::Now);
    // What was sent since, and in the minute before, comes on top.
    ledger.charge(PacketId(1), 1_000_000, 0, at(39_999)).unwrap();
    assert_eq!(air.admit(18_000_000, Use::Answer, &law, &ledger, at(100_000)), Admission::Now);
    ledger.charge(PacketId(2), 1_000_000, 0, at(40_000)).unwrap();
    let later = air.admit(18_000_000, Use::Answer, &law, &ledger, at(100_000));
    assert_eq!(later, Admission::At(160_000), "the next sample is due");
    // Stale after three minutes.
    assert!(air.admit(18_000_000, Use::Answer, &law, &ledger, at(280_000)) != Admission::Now);
    assert_eq!(air.admit(18_000_000, Use::Answer, &law, &ledger, at(280_001)), Admission::Now);
}

#[test]
fn the_view_says_what_is_used_and_when_it_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(&folder, "boot-a", 0);
    let law = Law::of(&radio()).unwrap();
    let air = Air::new(0.5);
    let empty = air.view(Some(&law), 6_000_000, &ledger, at(0));
    assert_eq!((empty.used_ms, empty.recovers_in_s), (0, 0));
    assert_eq!((empty.limit_ms, empty.share_ms), (Some(360_000), Some(180_000)));
    ledger.charge(PacketId(1), 170_000_000, 0, at(0)).unwrap();
    let full = air.view(Some(&law), 6_000_000, &ledger, at(0));
    assert_eq!(full.used_ms, 170_000);
    assert!((3_600..3_700).contains(&full.recovers_in_s), "{}", full.recovers_in_s);
    let unset = air.view(None, 0, &ledger, at(0));
    assert_eq!((unset.limit_ms, unset.share_ms), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is sent, and wherever the process or the machine restarts: the ledger never says less than
    /// what was on air in the last hour.
    #[test]
    fn it_never_counts_too_little(
        steps in proptest::collection::vec((1u64..600_000, 1u32..15_000_000, 0u8..10), 1..80)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut boot, mut mono, mut real) = (0u32, 1_000u64, 0u64);
        let mut ledger = open(&folder, "boot-0", mono);
        let mut sent: Vec<(u64, u64)> = Vec::new();
        for (index, (pass, us, what)) in steps.into_iter().enumerate() {
            mono += pass;
            real += pass;
            match what {
                0 => { // the machine restarts; its clock begins anew
                    boot += 1;
                    mono = pass % 50_000;
                    ledger = open(&folder, &format!("boot-{boot}"), mono);
                }
                1 => ledger = open(&folder, &format!("boot-{boot}"), mono),
                _ => {
                    let id = PacketId(index as u32 + 1);
                    ledger.charge(id, us, 0, at(mono)).unwrap();
                    sent.push((real, u64::from(us)));
                }
            }
            let hour = sent.iter().filter(|(then, _)| then + HOUR > real).map(|(_, us)| us);
            prop_assert!(ledger.used_us(at(mono)) >= hour.sum::<u64>());
        }
    }
}
