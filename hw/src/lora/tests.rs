//! Time on air against the tables of `hw/tests/`, which were computed from the firmware's own code.

use super::*;
use crate::text::{MAX_FRAME, PacketKind, frame_len, max_text};

const SIZES: [usize; 7] = [1, 50, 100, 150, 200, 232, 233];

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

#[test]
fn all_tables_of_the_time_on_air() {
    let mut compared = 0;
    for row in rows(include_str!("../../tests/airtime.tsv")) {
        let (kind, wide) = match row[0] {
            "A" => (PacketKind::Channel, false),
            "B" => (PacketKind::Direct, false),
            "C" => (PacketKind::ChannelSigned, false),
            "D" => (PacketKind::Channel, true),
            other => panic!("table {other}"),
        };
        let modem = Preset::from_name(row[1]).unwrap().modem(wide);
        assert_eq!(modem.spreading_factor.to_string(), row[2], "{row:?}");
        assert_eq!(modem.bandwidth_hz.to_string(), row[3], "{row:?}");
        assert_eq!(modem.coding_rate.to_string(), row[4], "{row:?}");
        if !wide {
            assert_eq!(modem.symbol_us().to_string(), row[5], "{row:?}");
            assert_eq!(modem.slot_ms().to_string(), row[6], "{row:?}");
        }
        for (size, expected) in SIZES.into_iter().zip(&row[7..]) {
            compared += 1;
            let len = frame_len(kind, size, false);
            if *expected == "-" {
                assert!(size > max_text(kind, false), "{row:?} {size}");
                continue;
            }
            assert!(size <= max_text(kind, false), "{row:?} {size}");
            let ms = modem.time_on_air_us(len) / 1000;
            assert_eq!(ms.to_string(), *expected, "{} {} with {size} bytes", row[0], row[1]);
        }
    }
    assert_eq!(compared, (16 * 3 + 10) * SIZES.len());
}

#[test]
fn the_table_of_derived_times() {
    let mut presets = 0;
    for row in rows(include_str!("../../tests/derived.tsv")) {
        let modem = Preset::from_name(row[0]).unwrap().modem(false);
        let full_us = modem.time_on_air_us(MAX_FRAME);
        // These two columns are rounded.
        assert_eq!(((full_us + 500) / 1000).to_string(), row[1], "{row:?}");
        assert_eq!(((modem.ack_us() + 500) / 1000).to_string(), row[2], "{row:?}");
        let interval = modem.retransmission_ms(frame_len(PacketKind::Channel, 100, false), 0);
        assert_eq!(interval.to_string(), row[3], "{row:?}");
        // Rounded to tenths of a second, as the table is.
        assert_eq!(((3 * interval + 50) / 100).to_string(), row[4], "{row:?}");
        for (column, percent_of_10000) in [(5, 1_000u64), (6, 250), (7, 100)] {
            let frames = 360_000 * percent_of_10000 / u64::from(full_us);
            assert_eq!(frames.to_string(), row[column], "{row:?}");
        }
        presets += 1;
    }
    assert_eq!(presets, 16);
}

#[test]
fn the_chip_makers_published_example() {
    // SF 9, 125 kHz, 4/5, 13 bytes, preamble 8: 164.864 ms by Semtech's own calculator.
    let modem = Modem { preamble: 8, ..Modem::new(125_000, 9, 5, false).unwrap() };
    assert_eq!(modem.time_on_air_us(13), 164_864);
}

#[test]
fn the_small_spreading_factors_have_a_longer_sync_and_no_extra_byte() {
    // By hand. SF 5, 500 kHz: 64 µs a symbol; bits 8·20 + 36 - 20 = 176, 176/20 → 9 blocks of 5.
    // 16 + 6.25 + 8 + 45 = 75.25 symbols.
    assert_eq!(Modem::new(500_000, 5, 5, false).unwrap().time_on_air_us(20), 4_816);
    // SF 6: 128 µs; bits 196 - 24 = 172, 172/24 → 8 blocks of 5. 70.25 symbols.
    assert_eq!(Modem::new(500_000, 6, 5, false).unwrap().time_on_air_us(20), 8_992);
    // SF 7 for comparison: 256 µs; bits 196 - 28 + 8 = 176, 176/28 → 7 blocks. 63.25 symbols.
    assert_eq!(Modem::new(500_000, 7, 5, false).unwrap().time_on_air_us(20), 16_192);
}

#[test]
fn the_low_data_rate_optimisation_starts_at_sixteen_milliseconds() {
    // SF 11 at 128 kHz takes exactly 16 ms a symbol, a little above less: 4·(11-2) against 4·11.
    let slow = Modem { bandwidth_hz: 128_000, ..Preset::LongModerate.modem(false) };
    let fast = Modem { bandwidth_hz: 128_001, ..slow };
    let blocks = |modem: &Modem| {
        // Up, for the time was truncated.
        let quarters =
            (u64::from(modem.time_on_air_us(100)) * 4).div_ceil(u64::from(modem.symbol_us()));
        (quarters - 113) / 32
    };
    // 8·100 + 36 - 44 + 8 = 800 bits.
    assert_eq!(blocks(&slow), 23);
    assert_eq!(blocks(&fast), 19);
}

#[test]
fn a_coding_rate_of_five_to_eight_replaces_the_presets() {
    let rate = |preset, rate| {
        Modem::from_settings(true, preset, 0, 0, rate, false).map(|modem| modem.coding_rate)
    };
    // LONG_FAST is 4/5, LONG_SLOW 4/8.
    for (given, fast, slow) in
        [(0, 5, 8), (4, 5, 8), (5, 5, 5), (6, 6, 6), (7, 7, 7), (8, 8, 8), (9, 5, 8), (255, 5, 8)]
    {
        assert_eq!(rate(0, given), Some(fast), "LONG_FAST with {given}");
        assert_eq!(rate(1, given), Some(slow), "LONG_SLOW with {given}");
    }
    let newer = |preset, rate| {
        Modem::from_settings_2_8(true, preset, 0, 0, rate, false).map(|modem| modem.coding_rate)
    };
    assert_eq!(newer(1, 5), Some(8), "2.8 never lowers it");
    assert_eq!(newer(0, 8), Some(8), "but raises it");
    assert_eq!(newer(0, 0), Some(5));
    assert_eq!(rate(2, 0), Some(5), "VERY_LONG_SLOW runs as LONG_FAST");
    assert_eq!(rate(17, 0), None);
}

#[test]
fn raw_settings() {
    let raw =
        |bandwidth, factor, rate| Modem::from_settings(false, 0, bandwidth, factor, rate, false);
    for (code, hz) in [
        (8, 7_800),
        (10, 10_400),
        (16, 15_600),
        (21, 20_800),
        (31, 31_250),
        (42, 41_700),
        (62, 62_500),
        (125, 125_000),
        (200, 203_125),
        (250, 250_000),
        (400, 406_250),
        (500, 500_000),
        (800, 812_500),
        (1600, 1_625_000),
    ] {
        assert_eq!(raw(code, 9, 5).map(|modem| modem.bandwidth_hz), Some(hz));
    }
    assert_eq!(raw(250, 11, 5), Some(Preset::LongFast.modem(false)));
    assert_eq!(raw(250, 11, 0), Some(Preset::LongFast.modem(false)), "0 is what firmware makes 5");
    for (ok, wrong) in [
        (raw(7, 9, 5), raw(6, 9, 5)),
        (raw(2000, 9, 5), raw(2001, 9, 5)),
        (raw(250, 5, 5), raw(250, 4, 5)),
        (raw(250, 12, 5), raw(250, 13, 5)),
        (raw(250, 9, 5), raw(250, 9, 4)),
        (raw(250, 9, 8), raw(250, 9, 9)),
    ] {
        assert!(ok.is_some());
        assert_eq!(wrong, None);
    }
    assert_eq!(raw(0, 9, 5), None);
    assert_eq!(raw(u32::MAX, u32::MAX, u32::MAX), None);
    let wide = Modem::from_settings(true, 0, 0, 0, 0, true).unwrap();
    assert_eq!((wide.bandwidth_hz, wide.preamble, wide.wide), (812_500, 12, true));
}

#[test]
fn a_busy_channel_widens_the_window() {
    let modem = Preset::LongFast.modem(false);
    // Slots of 28 ms: 8, 16, 32, 64, 128, 256 and always 48.
    let base = 2 * (modem.time_on_air_us(122) / 1000) + 4500;
    for (percent, slots) in [
        (0, 56),
        (19, 56),
        (20, 64),
        (39, 64),
        (40, 80),
        (60, 112),
        (99, 176),
        (100, 304),
        (255, 304),
    ] {
        assert_eq!(modem.retransmission_ms(122, percent), base + slots * 28, "{percent} %");
    }
}

#[test]
fn no_field_value_panics_or_wraps() {
    for bandwidth_hz in [0, 1, 7_800, u32::MAX] {
        for spreading_factor in [0, 1, 5, 12, 13, 255] {
            for coding_rate in [0, 5, 255] {
                for wide in [false, true] {
                    let modem = Modem {
                        bandwidth_hz,
                        spreading_factor,
                        coding_rate,
                        preamble: u16::MAX,
                        wide,
                    };
                    for len in [0, 255, usize::MAX] {
                        let _ = modem.time_on_air_us(len);
                        let _ = modem.retransmission_ms(len, 255);
                    }
                    let _ = modem.slot_ms();
                }
            }
        }
    }
}
