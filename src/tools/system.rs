//! `system`: the machine under the node.
//!
//! Owns the figures of the disks, for the tool and for `system.disk-status` alike, and the tools of this
//! category. Only a service that the operator named for it is ever restarted.

mod machine;
mod services;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::assistant::PermissionCategory;
use crate::assistant::tools::{Description, ToolDef};
use crate::config::tools::Service;

pub(crate) use machine::span;
use services::Services;

pub use machine::{Machine, MachineStatus};

/// Which file systems are looked at.
#[derive(Debug, Clone)]
pub struct Disks {
    places: Vec<PathBuf>,
}

/// One file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// A folder on it.
    pub path: String,
    /// Bytes.
    pub total: u64,
    /// Bytes that a program without privileges may still write.
    pub available: u64,
    /// Of what is usable by such a program, the used part, 0 to 100, rounded up.
    pub used_percent: u8,
}

/// `system.disk-status`
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiskStatus {
    /// Each file system once.
    pub disks: Vec<Disk>,
}

impl Disks {
    /// The root, and the one with the data folder where that is another.
    pub fn of_node(data_dir: &Path) -> Disks {
        Disks { places: vec![PathBuf::from("/"), data_dir.to_owned()] }
    }

    /// The present figures.
    pub fn status(&self) -> Result<DiskStatus, String> {
        let mut seen = Vec::new();
        let mut disks = Vec::new();
        for place in &self.places {
            let (Ok(facts), Ok(place_facts)) =
                (rustix::fs::statvfs(place), rustix::fs::stat(place))
            else {
                continue;
            };
            if seen.contains(&place_facts.st_dev) {
                continue;
            }
            seen.push(place_facts.st_dev);
            let block = facts.f_frsize.max(1);
            let used = facts.f_blocks.saturating_sub(facts.f_bfree);
            let usable = used.saturating_add(facts.f_bavail);
            disks.push(Disk {
                path: place.display().to_string(),
                total: facts.f_blocks.saturating_mul(block),
                available: facts.f_bavail.saturating_mul(block),
                used_percent: percent(used, usable),
            });
        }
        if disks.is_empty() {
            Err("no disk could be read".to_owned())
        } else {
            Ok(DiskStatus { disks })
        }
    }
}

impl DiskStatus {
    /// For a model, and for a peer without one.
    pub fn words(&self) -> String {
        self.disks
            .iter()
            .map(|disk| {
                format!(
                    "{}: {} free of {}, {} % used",
                    disk.path,
                    size(disk.available),
                    size(disk.total),
                    disk.used_percent
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Rounded up, as `df` does: a disk that is almost full is not called less.
fn percent(used: u64, usable: u64) -> u8 {
    if usable == 0 {
        return 100;
    }
    let hundredfold = u128::from(used) * 100;
    u8::try_from(hundredfold.div_ceil(u128::from(usable)).min(100)).unwrap_or(100)
}

/// Decimal units, as on the label of a disk.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit);
        }
    }
    format!("{bytes} B")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// Of these services, those that this machine does not have. `Err`: why that can't be known.
pub async fn missing_services(services: &[Service]) -> Result<Vec<String>, String> {
    if services.is_empty() {
        return Ok(Vec::new());
    }
    Services::new(services).missing().await
}

/// All of the category.
pub(super) fn tools(data_dir: &Path, services: &[Service]) -> Vec<ToolDef> {
    let services = Services::new(services);
    let mut tools = vec![disk_tool(Disks::of_node(data_dir))];
    tools.extend(services::tool(&services));
    tools.push(status_tool(Machine::here(), services));
    tools
}

/// `system_status`
fn status_tool(machine: Machine, services: Services) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::System,
        "system_status",
        "Uptime, load, memory, temperature, battery and services of this node.",
    );
    ToolDef::new(about, move |NoArguments {}| {
        let (machine, services) = (machine.clone(), services.clone());
        Box::pin(async move {
            let mut words = super::blocking(move || Ok(machine.status().words())).await?;
            let services = services.words().await;
            if !services.is_empty() {
                words.push('\n');
                words.push_str(&services);
            }
            Ok(words)
        })
    })
    .with_own_results()
}

/// `system_disk_status`
pub fn disk_tool(disks: Disks) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::System,
        "system_disk_status",
        "Free and used space of this node's disks, in real figures.",
    );
    ToolDef::new(about, move |NoArguments {}| {
        let disks = disks.clone();
        // A file system on the network may let its caller wait.
        Box::pin(super::blocking(move || disks.status().map(|status| status.words())))
    })
    .with_own_results()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_up_and_stay_in_range() {
        for (used, usable, expected) in [
            (0, 100, 0),
            (1, 100, 1),
            (1, 101, 1),
            (99, 100, 99),
            (991, 1000, 100),
            (5, 5, 100),
            (0, 0, 100),
        ] {
            assert_eq!(percent(used, usable), expected, "{used}/{usable}");
        }
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
    }

    #[test]
    fn sizes_change_their_unit_at_the_thousand() {
        for (bytes, text) in
            [(999, "999 B"), (1_000, "1.0 kB"), (999_999, "999.9 kB"), (80_500_000_000, "80.5 GB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn one_file_system_is_shown_once() {
        let disks = Disks { places: vec![PathBuf::from("/"), PathBuf::from("/")] };
        let status = disks.status().unwrap();
        assert_eq!(status.disks.len(), 1);
        assert!(status.disks[0].total >= status.disks[0].available);
        assert!(Disks { places: vec![PathBuf::from("/nowhere")] }.status().is_err());
    }
}
