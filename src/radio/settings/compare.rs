//! What a radio is set to beside what it should be set to.
//!
//! Owns the table, what would restart the radio, and the rules that depend on the radio's firmware. Writes
//! nothing.

use tombolo_hw::lora::Modem;
use tombolo_hw::preset::Preset;
use tombolo_hw::region::Region;

use super::{Field, LONG_NAME_KEPT_2_8, Source, Wanted, contradiction};
use crate::invisible::hidden;
use crate::radio::wire::settings::role_name;
use crate::radio::{LoraSettings, RadioInfo, firmware_version, station};

/// Regions and presets from this code on, and some behaviour, exist since firmware 2.8.
const REGIONS_OF_2_8: i32 = 27;
const PRESETS_OF_2_8: i32 = 10;
/// `UA_868`, which firmware 2.8 no longer knows.
const UA_868: i32 = 15;
/// Bands that only licensed stations may use.
const HAM: [i32; 7] = [27, 28, 33, 34, 35, 36, 37];

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub field: Field,
    /// What the radio says.
    pub actual: String,
    /// What is wanted, and who wants it.
    pub wanted: Option<(String, Source)>,
    /// Is it wanted otherwise than it is?
    pub differs: bool,
    /// Would this change alone restart the radio? (Writing by begin and commit always does, once.)
    pub restarts: bool,
}

/// All settings, in the order of [`Field::ALL`].
pub fn rows(wanted: &Wanted, radio: &RadioInfo) -> Vec<Row> {
    let lora = &radio.lora;
    Field::ALL
        .into_iter()
        .map(|field| {
            let (actual, wish, same) = match field {
                Field::Region => {
                    let wish = wanted.region.as_ref();
                    let same = wish.is_none_or(|w| w.value.code == lora.region);
                    let text = wish.map(|w| (w.value.name.to_owned(), w.source));
                    (region_words(lora.region), text, same)
                }
                Field::Preset => {
                    let wish = wanted.preset.as_ref();
                    let same = wish.is_none_or(|w| runs(lora, w.value));
                    let text = wish.map(|w| (w.value.name().to_owned(), w.source));
                    (modem_words(lora), text, same)
                }
                Field::HopLimit => {
                    let wish = wanted.hop_limit.as_ref();
                    let same = wish.is_none_or(|w| w.value == lora.hop_limit);
                    let text = wish.map(|w| (w.value.to_string(), w.source));
                    (lora.hop_limit.to_string(), text, same)
                }
                Field::Role => {
                    let wish = wanted.role.as_ref();
                    let same = wish.is_none_or(|w| w.value == radio.role);
                    let text = wish.map(|w| (role_words(w.value), w.source));
                    (role_words(radio.role), text, same)
                }
                Field::Name => {
                    let wish = wanted.name.as_ref();
                    let same = wish.is_none_or(|w| w.value == radio.owner.long_name);
                    let text = wish.map(|w| (w.value.clone(), w.source));
                    (printable(&radio.owner.long_name), text, same)
                }
            };
            let restarts = !same && restarts(field, &radio.firmware);
            Row { field, actual, wanted: wish, differs: !same, restarts }
        })
        .collect()
}

/// Those that differ, a line each.
pub fn differences(wanted: &Wanted, radio: &RadioInfo) -> Vec<String> {
    rows(wanted, radio)
        .into_iter()
        .filter(|row| row.differs)
        .filter_map(|row| {
            let (value, source) = row.wanted?;
            let (field, actual, place) = (row.field, row.actual, row.field.place(source));
            Some(format!("{field} is {actual}, wanted {value} ({place})"))
        })
        .collect()
}

/// Wanted values that this radio can't take, with the rule that forbids each.
pub fn impossible(wanted: &Wanted, radio: &RadioInfo) -> Vec<String> {
    let mut faults = Vec::new();
    let region = match &wanted.region {
        Some(wish) => Some(wish.value),
        None => Region::from_code(radio.lora.region),
    };
    let preset = match &wanted.preset {
        Some(wish) => Some(wish.value),
        None if radio.lora.use_preset => Preset::from_code(radio.lora.preset),
        None => None,
    };
    if let (Some(region), Some(preset)) = (region, preset)
        && (wanted.region.is_some() || wanted.preset.is_some())
        && let Some(rule) = contradiction(region, preset)
    {
        faults.push(format!("preset: {rule}"));
    }
    let firmware = printable(&radio.firmware);
    // Firmware that doesn't say what it is gets the rules of both.
    let version = firmware_version(&radio.firmware);
    let (old, new) = (version.is_none_or(|v| v < (2, 8, 0)), is_2_8(&radio.firmware));
    if let Some(wish) = &wanted.region {
        let region = wish.value;
        if region.code >= REGIONS_OF_2_8 && old {
            faults.push(format!("region: {} needs firmware 2.8, this is {firmware}", region.name));
        }
        if region.code == UA_868 && new {
            faults.push(format!("region: firmware 2.8 no longer knows {}", region.name));
        }
        if HAM.contains(&region.code) && !radio.owner.licensed {
            faults.push(format!(
                "region: {} is for licensed stations, which may not encrypt",
                region.name
            ));
        }
    }
    if let Some(wish) = &wanted.preset
        && wish.value.code() >= PRESETS_OF_2_8
        && old
    {
        faults
            .push(format!("preset: {} needs firmware 2.8, this is {firmware}", wish.value.name()));
    }
    if let Some(wish) = &wanted.name
        && radio.owner.licensed
        && let Some(sign) = station::call_sign(&radio.owner.long_name)
        && station::call_sign(&wish.value) != Some(sign)
    {
        faults.push(format!(
            "name: the radio is in licensed mode, where the name holds the call sign; begin it with {sign}"
        ));
    }
    if let Some(wish) = &wanted.name
        && new
        && wish.value.len() > LONG_NAME_KEPT_2_8
    {
        faults.push(format!(
            "name: firmware 2.8 keeps {LONG_NAME_KEPT_2_8} bytes, this name has {}",
            wish.value.len()
        ));
    }
    faults
}

fn is_2_8(firmware: &str) -> bool {
    firmware_version(firmware).is_some_and(|version| version >= (2, 8, 0))
}

fn restarts(field: Field, firmware: &str) -> bool {
    match field {
        Field::Region | Field::Preset => !is_2_8(firmware),
        Field::HopLimit => false,
        Field::Role | Field::Name => true,
    }
}

/// Does the radio run that preset, and with the preset's own coding rate?
fn runs(lora: &LoraSettings, preset: Preset) -> bool {
    let own = preset.modem(false).coding_rate;
    lora.use_preset
        && lora.preset == preset.code()
        && modem(lora).is_some_and(|modem| modem.coding_rate == own)
}

fn modem(lora: &LoraSettings) -> Option<Modem> {
    Modem::from_settings(
        lora.use_preset,
        lora.preset,
        lora.bandwidth,
        lora.spread_factor,
        lora.coding_rate,
        Region::from_code(lora.region).is_some_and(|region| region.wide),
    )
}

/// For people.
pub fn region_words(code: i32) -> String {
    match Region::from_code(code) {
        Some(region) => region.name.to_owned(),
        None if code == 0 => "unset".to_owned(),
        None => format!("unknown ({code})"),
    }
}

/// The preset, or the modem's own parameters; and the coding rate where it isn't the preset's.
pub fn modem_words(lora: &LoraSettings) -> String {
    let preset = Preset::from_code(lora.preset);
    match (lora.use_preset, preset, modem(lora)) {
        (true, Some(preset), _) if runs(lora, preset) => preset.name().to_owned(),
        (true, Some(preset), Some(modem)) if lora.preset == preset.code() => {
            format!("{} at 4/{}", preset.name(), modem.coding_rate)
        }
        (_, _, Some(modem)) => format!(
            "{} kHz SF{} 4/{}",
            f64::from(modem.bandwidth_hz) / 1000.0,
            modem.spreading_factor,
            modem.coding_rate
        ),
        (true, ..) => format!("unknown ({})", lora.preset),
        (false, ..) => "impossible parameters".to_owned(),
    }
}

/// For people.
pub fn role_words(code: i32) -> String {
    role_name(code).map_or_else(|| format!("unknown ({code})"), str::to_owned)
}

/// A text of the radio, fit for a terminal.
pub fn printable(text: &str) -> String {
    // What an emoji is made of stays.
    let unfit = |c: char| hidden(c) && !matches!(c, '\u{200d}' | '\u{fe0f}');
    text.chars().take(60).map(|c| if unfit(c) { '\u{fffd}' } else { c }).collect()
}
