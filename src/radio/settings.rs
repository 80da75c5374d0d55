//! What a radio should be set to, who says so, and whether it can be.
//!
//! Owns the names of regions, presets and roles in the configuration and in udev properties, and the rules
//! that forbid a value before anything is written. Opens no radio; [`session`] and [`apply`] do. Knows no
//! secret of a radio.

pub mod apply;
pub mod compare;
pub mod session;
pub mod udev;
pub mod watch;

#[cfg(test)]
mod tests;

use std::fmt;

use tombolo_hw::preset::Preset;
use tombolo_hw::region::Region;

use super::wire::LONG_NAME_MAX;
use super::wire::settings::{ROLES, role_code};
use crate::config::RadioSettings;
use crate::invisible;

/// Bytes of a long name that firmware 2.8 keeps.
const LONG_NAME_KEPT_2_8: usize = 24;

/// Who wants a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `[radio.settings]`.
    File,
    /// A property that a udev rule gave to the port. It beats the file.
    Udev,
}

/// The settings that can be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The region, for instance `EU_868`.
    Region,
    /// The modem preset, for instance `LONG_FAST`.
    Preset,
    /// 1 to 7.
    HopLimit,
    /// For instance `CLIENT_MUTE`.
    Role,
    /// The long name.
    Name,
}

impl Field {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Field; 5] =
        [Field::Region, Field::Preset, Field::HopLimit, Field::Role, Field::Name];

    /// The dotted key in the configuration.
    pub fn key(self) -> &'static str {
        match self {
            Field::Region => "radio.settings.region",
            Field::Preset => "radio.settings.preset",
            Field::HopLimit => "radio.settings.hop_limit",
            Field::Role => "radio.settings.role",
            Field::Name => "radio.settings.owner",
        }
    }

    /// The udev property.
    pub fn property(self) -> &'static str {
        match self {
            Field::Region => "TOMBOLO_REGION",
            Field::Preset => "TOMBOLO_PRESET",
            Field::HopLimit => "TOMBOLO_HOP_LIMIT",
            Field::Role => "TOMBOLO_ROLE",
            Field::Name => "TOMBOLO_NAME",
        }
    }

    /// Where that source writes it.
    pub fn place(self, source: Source) -> &'static str {
        match source {
            Source::File => self.key(),
            Source::Udev => self.property(),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Field::Region => "region",
            Field::Preset => "preset",
            Field::HopLimit => "hop limit",
            Field::Role => "role",
            Field::Name => "name",
        })
    }
}

/// A value and who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish<T> {
    /// The value.
    pub value: T,
    /// Who.
    pub source: Source,
}

/// What is wanted. A field that nobody named is left as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wanted {
    /// The region.
    pub region: Option<Wish<&'static Region>>,
    /// The preset.
    pub preset: Option<Wish<Preset>>,
    /// 1..=7.
    pub hop_limit: Option<Wish<u32>>,
    /// The code of a role.
    pub role: Option<Wish<i32>>,
    /// 1 to 39 bytes.
    pub name: Option<Wish<String>>,
}

/// A value that can't be wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {right}")]
pub struct Fault {
    /// The field, where there is such a one.
    pub field: Option<Field>,
    /// The key, or the property.
    pub place: String,
    /// What would be right.
    pub right: String,
}

impl Wanted {
    /// What the configuration wants.
    ///
    /// # Errors
    /// Every value that is impossible.
    pub fn from_file(file: &RadioSettings) -> Result<Wanted, Vec<Fault>> {
        Wanted::resolve(file, &[])
    }

    /// The same with the properties of the port, which win.
    ///
    /// # Errors
    /// Every value that is impossible, and every property that looks like a setting and is none.
    pub fn resolve(
        file: &RadioSettings,
        properties: &[(String, String)],
    ) -> Result<Wanted, Vec<Fault>> {
        let mut faults: Vec<Fault> = properties
            .iter()
            .filter(|(name, _)| {
                !Field::ALL.iter().any(|f| f.property() == name)
                    && !udev::OWN.contains(&name.as_str())
            })
            .map(|(name, _)| Fault {
                field: None,
                place: name.clone(),
                right: format!(
                    "no such setting; there are {}",
                    Field::ALL.map(Field::property).join(", ")
                ),
            })
            .collect();
        let mut wanted = Wanted::default();
        for field in Field::ALL {
            let property = properties.iter().rev().find(|(name, _)| name == field.property());
            let found = match property {
                Some((_, value)) => Some((value.clone(), Source::Udev)),
                None => in_file(file, field).map(|value| (value, Source::File)),
            };
            let Some((text, source)) = found else { continue };
            if let Err(right) = wanted.take(field, &text, source) {
                faults.push(Fault {
                    field: Some(field),
                    place: field.place(source).to_owned(),
                    right,
                });
            }
        }
        if let (Some(region), Some(preset)) = (&wanted.region, &wanted.preset)
            && let Some(right) = contradiction(region.value, preset.value)
        {
            let place = Field::Preset.place(preset.source).to_owned();
            faults.push(Fault { field: Some(Field::Preset), place, right });
        }
        if faults.is_empty() { Ok(wanted) } else { Err(faults) }
    }

    fn take(&mut self, field: Field, text: &str, source: Source) -> Result<(), String> {
        match field {
            Field::Region => {
                let value = Region::from_name(text).ok_or_else(|| {
                    let all: Vec<&str> = Region::all().map(|r| r.name).collect();
                    unknown("region", text, &all)
                })?;
                self.region = Some(Wish { value, source });
            }
            Field::Preset => {
                let value = Preset::from_name(text).ok_or_else(|| {
                    let all: Vec<&str> = Preset::all().map(Preset::name).collect();
                    unknown("preset", text, &all)
                })?;
                self.preset = Some(Wish { value, source });
            }
            Field::HopLimit => {
                let value = text.parse().ok().filter(|hops| (1..=7).contains(hops));
                let value = value.ok_or("write 1 to 7")?;
                self.hop_limit = Some(Wish { value, source });
            }
            Field::Role => {
                let value = role_code(text).ok_or_else(|| unknown("role", text, &ROLES))?;
                self.role = Some(Wish { value, source });
            }
            Field::Name => {
                check_name(text)?;
                self.name = Some(Wish { value: text.to_owned(), source });
            }
        }
        Ok(())
    }

    /// Is nothing wanted?
    pub fn is_empty(&self) -> bool {
        *self == Wanted::default()
    }
}

fn in_file(file: &RadioSettings, field: Field) -> Option<String> {
    match field {
        Field::Region => file.region.clone(),
        Field::Preset => file.preset.clone(),
        Field::HopLimit => file.hop_limit.map(|hops| hops.to_string()),
        Field::Role => file.role.clone(),
        Field::Name => file.owner.clone(),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("write a name that is not blank".to_owned());
    }
    if name.chars().any(char::is_control) {
        return Err("write a name without control characters".to_owned());
    }
    if name.len() > LONG_NAME_MAX {
        return Err(format!(
            "the name has {} bytes; write at most {LONG_NAME_MAX} ({LONG_NAME_KEPT_2_8} for firmware 2.8)",
            name.len()
        ));
    }
    Ok(())
}

/// The name that is wrong, and the one that was probably meant, or all.
fn unknown(what: &str, text: &str, all: &[&str]) -> String {
    let plain = |name: &str| name.replace(['_', '-', ' '], "").to_ascii_uppercase();
    let text = invisible::word(text, 40);
    match all.iter().find(|name| plain(name) == plain(&text)) {
        Some(meant) => format!("there is no {what} `{text}`; write {meant}"),
        None => format!("there is no {what} `{text}`; write one of {}", all.join(", ")),
    }
}

/// Why that preset can't be used in that region. The firmware would run another one, or move to another
/// region.
pub(super) fn contradiction(region: &Region, preset: Preset) -> Option<String> {
    let modem = preset.modem(region.wide);
    if !region.holds(&modem) {
        return Some(format!(
            "{} needs {} kHz and the band of {} has {} kHz; write a narrower preset",
            preset.name(),
            modem.bandwidth_hz / 1000,
            region.name,
            region.end_khz - region.start_khz
        ));
    }
    let only = match region.name {
        "EU_866" => "LITE_",
        "EU_N_868" => "NARROW_",
        _ => return None,
    };
    (!preset.name().starts_with(only)).then(|| {
        format!("{} takes only {only}FAST and {only}SLOW, not {}", region.name, preset.name())
    })
}
