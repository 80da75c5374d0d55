//! The frequency slot: where in its band a radio transmits.
//!
//! Owns the firmware's arithmetic from region, bandwidth and the primary channel's name to a frequency. Firmware 2.8
//! rounds the number of slots and knows bands with gaps between them; 2.7 cuts it off and knows none.

use crate::lora::Modem;
use crate::region::Region;

/// What decides about the slot, beside the band and the modem.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The slot that was chosen, from 1; 0 for the one that follows from the name.
    pub slot: u32,
    /// The primary channel's name, as it counts: the preset's own where it has none.
    pub channel: &'a str,
    /// Firmware 2.8 or later?
    pub since_2_8: bool,
}

/// How a band is cut, where it is not simply filled.
struct Raster {
    /// Between two slots, and before the first, Hz.
    spacing_hz: u32,
    /// At either end of a slot, Hz.
    padding_hz: u32,
    /// The slot that is taken where none is chosen, from 1; 0 for the name's.
    usual: u32,
}

/// Four channels 600 kHz apart.
const LITE: Raster = raster(400_000, 37_500, 0);
const NARROW: Raster = raster(0, 10_400, 1);

const fn raster(spacing_hz: u32, padding_hz: u32, usual: u32) -> Raster {
    Raster { spacing_hz, padding_hz, usual }
}

/// 15.6 kHz filled up to 20.
const fn amateur_20_khz(usual: u32) -> Raster {
    raster(0, 2_200, usual)
}

/// 62.5 kHz filled up to 100.
const fn amateur_100_khz(usual: u32) -> Raster {
    raster(0, 18_750, usual)
}

/// By the region's code.
const fn raster_of(region: &Region, since_2_8: bool) -> Raster {
    if !since_2_8 {
        return raster(0, 0, 0);
    }
    match region.code {
        27 => amateur_20_khz(26),
        28 => amateur_20_khz(51),
        29 => LITE,
        32 => NARROW,
        33 => amateur_20_khz(33),
        34 | 36 | 37 => amateur_100_khz(37),
        35 => amateur_100_khz(137),
        _ => raster(0, 0, 0),
    }
}

/// The middle of the slot that a radio uses, Hz. `None` where the band holds no such slot.
#[must_use]
pub fn frequency_hz(region: &Region, modem: &Modem, choice: Choice<'_>) -> Option<u32> {
    let raster = raster_of(region, choice.since_2_8);
    let band = (region.end_khz - region.start_khz) * 1000;
    let width =
        raster.spacing_hz.checked_add(2 * raster.padding_hz)?.checked_add(modem.bandwidth_hz)?;
    if width == 0 || modem.bandwidth_hz > band {
        return None;
    }
    let whole = band + raster.spacing_hz;
    let count = if choice.since_2_8 { (whole + width / 2) / width } else { whole / width };
    let slot = match choice.slot {
        0 if raster.usual > 0 => raster.usual - 1,
        0 => name_hash(choice.channel).checked_rem(count)?,
        // 2.8 refuses a slot beyond the last, 2.7 begins at the first again.
        chosen if choice.since_2_8 && chosen > count => return None,
        chosen => (chosen - 1).checked_rem(count)?,
    };
    let first = region.start_khz * 1000 + raster.padding_hz + modem.bandwidth_hz / 2;
    let middle = first.checked_add(slot.checked_mul(width)?)?;
    // A modem that is not meant for the band: its firmware will run another.
    if middle < region.end_khz * 1000 { Some(middle) } else { None }
}

/// djb2 of the name's bytes.
fn name_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    fn of(region: &str, preset: Preset, slot: u32, channel: &str, since_2_8: bool) -> Option<u32> {
        let region = Region::from_name(region).unwrap();
        let choice = Choice { slot, channel, since_2_8 };
        frequency_hz(region, &preset.modem(region.wide), choice)
    }

    #[test]
    fn the_known_frequencies_of_the_presets_own_channel() {
        for (region, preset, hz) in [
            ("US", Preset::LongFast, 906_875_000),
            ("US", Preset::LongSlow, 905_312_500),
            ("US", Preset::LongModerate, 902_687_500),
            ("US", Preset::MediumFast, 913_125_000),
            ("EU_868", Preset::LongFast, 869_525_000),
            ("EU_868", Preset::LongSlow, 869_462_500),
            ("EU_868", Preset::LongModerate, 869_587_500),
            ("EU_433", Preset::LongFast, 433_875_000),
            ("ANZ", Preset::LongFast, 919_875_000),
            ("JP", Preset::LongFast, 923_375_000),
            ("IN", Preset::LongFast, 865_875_000),
        ] {
            for since_2_8 in [false, true] {
                let found = of(region, preset, 0, preset.display_name(), since_2_8);
                assert_eq!(found, Some(hz), "{region} {preset:?} {since_2_8}");
            }
        }
    }

    #[test]
    fn the_bands_of_2_8_have_gaps_and_usual_slots() {
        for (region, preset, slot, hz) in [
            ("EU_866", Preset::LiteFast, 1, 865_700_000),
            ("EU_866", Preset::LiteFast, 4, 867_500_000),
            ("EU_N_868", Preset::NarrowSlow, 0, 869_441_650),
            ("EU_N_868", Preset::NarrowSlow, 2, 869_524_950),
            ("ITU1_70CM", Preset::NarrowSlow, 0, 433_650_000),
        ] {
            assert_eq!(of(region, preset, slot, "x", true), Some(hz), "{region} {slot}");
        }
    }

    #[test]
    fn a_chosen_slot_wins_over_the_name_up_to_the_last() {
        let us = |slot, since_2_8| of("US", Preset::LongFast, slot, "Home", since_2_8);
        assert_eq!(us(1, false), Some(902_125_000));
        assert_eq!(us(104, true), Some(927_875_000));
        assert_eq!(us(105, true), None);
        assert_eq!(us(105, false), us(1, false));
        assert_eq!(us(u32::MAX, true), None);
        assert!(us(u32::MAX, false).is_some());
        assert_ne!(us(0, true), of("US", Preset::LongFast, 0, "LongFast", true));
    }

    #[test]
    fn what_does_not_fit_has_no_frequency_and_2_7_counts_whole_slots_only() {
        assert_eq!(of("EU_868", Preset::ShortTurbo, 0, "x", true), None);
        assert_eq!(of("EU_866", Preset::TinyFast, 5, "x", true), None);
        // 1.7 MHz are 6.8 slots.
        assert_eq!(of("UA_433", Preset::LongFast, 7, "x", true), Some(434_625_000));
        assert_eq!(of("UA_433", Preset::LongFast, 7, "x", false), Some(433_125_000));
        for region in Region::all() {
            for preset in Preset::all() {
                for since_2_8 in [false, true] {
                    let choice = Choice { slot: 0, channel: "any", since_2_8 };
                    let modem = preset.modem(region.wide);
                    let Some(hz) = frequency_hz(region, &modem, choice) else { continue };
                    assert!((region.start_khz * 1000..region.end_khz * 1000).contains(&hz));
                }
            }
        }
    }
}
