//! The named modem presets.
//!
//! Owns code, names and modem parameters of each. A radio's real settings may differ: see
//! [`Modem::from_settings`].

use crate::lora::{Modem, PREAMBLE, PREAMBLE_WIDE, in_range};

/// A named set of modem parameters. The last seven exist since firmware 2.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the protobufs' own
pub enum Preset {
    LongFast,
    LongSlow,
    MediumSlow,
    MediumFast,
    ShortSlow,
    ShortFast,
    LongModerate,
    ShortTurbo,
    LongTurbo,
    LiteFast,
    LiteSlow,
    NarrowFast,
    NarrowSlow,
    TinyFast,
    TinySlow,
    MediumTurbo,
}

/// One row of the table.
struct Row {
    preset: Preset,
    code: i32,
    name: &'static str,
    display_name: &'static str,
    spreading_factor: u8,
    bandwidth_hz: u32,
    /// On the 2.4 GHz chip; the same as above where the firmware knows no other.
    wide_hz: u32,
    coding_rate: u8,
}

macro_rules! row {
    ($preset:ident, $code:literal, $name:literal, $shown:literal, $sf:literal, $hz:literal, $wide:literal, $cr:literal) => {
        Row {
            preset: Preset::$preset,
            code: $code,
            name: $name,
            display_name: $shown,
            spreading_factor: $sf,
            bandwidth_hz: $hz,
            wide_hz: $wide,
            coding_rate: $cr,
        }
    };
}

#[rustfmt::skip]
const ROWS: [Row; 16] = [
    row!(LongFast,       0, "LONG_FAST",     "LongFast",    11, 250_000,   812_500, 5),
    row!(LongSlow,       1, "LONG_SLOW",     "LongSlow",    12, 125_000,   406_250, 8),
    row!(MediumSlow,     3, "MEDIUM_SLOW",   "MediumSlow",  10, 250_000,   812_500, 5),
    row!(MediumFast,     4, "MEDIUM_FAST",   "MediumFast",   9, 250_000,   812_500, 5),
    row!(ShortSlow,      5, "SHORT_SLOW",    "ShortSlow",    8, 250_000,   812_500, 5),
    row!(ShortFast,      6, "SHORT_FAST",    "ShortFast",    7, 250_000,   812_500, 5),
    row!(LongModerate,   7, "LONG_MODERATE", "LongMod",     11, 125_000,   406_250, 8),
    row!(ShortTurbo,     8, "SHORT_TURBO",   "ShortTurbo",   7, 500_000, 1_625_000, 5),
    row!(LongTurbo,      9, "LONG_TURBO",    "LongTurbo",   11, 500_000, 1_625_000, 8),
    row!(LiteFast,      10, "LITE_FAST",     "LiteFast",     9, 125_000,   125_000, 5),
    row!(LiteSlow,      11, "LITE_SLOW",     "LiteSlow",    10, 125_000,   125_000, 5),
    row!(NarrowFast,    12, "NARROW_FAST",   "NarrowFast",   7,  62_500,    62_500, 6),
    row!(NarrowSlow,    13, "NARROW_SLOW",   "NarrowSlow",   8,  62_500,    62_500, 6),
    row!(TinyFast,      14, "TINY_FAST",     "TinyFast",     7,  15_600,    15_600, 5),
    row!(TinySlow,      15, "TINY_SLOW",     "TinySlow",     8,  15_600,    15_600, 6),
    row!(MediumTurbo,   16, "MEDIUM_TURBO",  "MediumTurbo",  9, 500_000, 1_625_000, 5),
];

/// `VERY_LONG_SLOW`: the firmware has no parameters for it and runs it as `LONG_FAST`.
const VERY_LONG_SLOW: i32 = 2;

impl Preset {
    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Preset> {
        ROWS.iter().map(|row| row.preset)
    }

    /// The preset of a `ModemPreset` code; `None` for one that is newer than this table.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Preset> {
        let code = if code == VERY_LONG_SLOW { 0 } else { code };
        ROWS.iter().find(|row| row.code == code).map(|row| row.preset)
    }

    /// By the protobufs' name (`LONG_FAST`) or the display name (`LongFast`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Preset> {
        ROWS.iter().find(|row| row.name == name || row.display_name == name).map(|row| row.preset)
    }

    /// The protobufs' code.
    #[must_use]
    pub const fn code(self) -> i32 {
        self.row().code
    }

    /// The protobufs' name, for instance `LONG_FAST`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The name that stands for an empty channel name, for instance `LongFast`. Part of the protocol: the
    /// channel's hash and the frequency slot are made from it.
    #[must_use]
    pub const fn display_name(self) -> &'static str {
        self.row().display_name
    }

    /// Its parameters; `wide` for the 2.4 GHz region.
    #[must_use]
    pub const fn modem(self, wide: bool) -> Modem {
        let row = self.row();
        Modem {
            bandwidth_hz: if wide { row.wide_hz } else { row.bandwidth_hz },
            spreading_factor: row.spreading_factor,
            coding_rate: row.coding_rate,
            preamble: if wide { PREAMBLE_WIDE } else { PREAMBLE },
            wide,
        }
    }

    const fn row(self) -> &'static Row {
        // The table stands in the order of the variants; the assert below shows it.
        &ROWS[self as usize]
    }
}

const _: () = {
    let mut index = 0;
    while index < ROWS.len() {
        let row = &ROWS[index];
        assert!(row.preset as usize == index, "the table must stand in the order of the variants");
        assert!(in_range(&row.preset.modem(false)) && in_range(&row.preset.modem(true)));
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_code_and_by_both_names() {
        for preset in Preset::all() {
            assert_eq!(Preset::from_code(preset.code()), Some(preset));
            assert_eq!(Preset::from_name(preset.name()), Some(preset));
            assert_eq!(Preset::from_name(preset.display_name()), Some(preset));
        }
        assert_eq!(Preset::all().count(), 16);
    }

    #[test]
    fn the_display_name_is_the_name_in_one_word_but_for_one() {
        for preset in Preset::all() {
            let word = preset.name().replace('_', "").to_lowercase();
            let shown = preset.display_name().to_lowercase();
            let same = preset != Preset::LongModerate;
            assert_eq!(word == shown, same, "{preset:?}");
        }
        assert_eq!(Preset::LongModerate.display_name(), "LongMod");
    }

    #[test]
    fn codes_outside_the_table() {
        assert_eq!(Preset::from_code(2), Some(Preset::LongFast));
        assert_eq!(Preset::from_code(16), Some(Preset::MediumTurbo));
        assert_eq!(Preset::from_code(17), None);
        assert_eq!(Preset::from_code(-1), None);
        assert_eq!(Preset::from_name("long_fast"), None);
    }
}
