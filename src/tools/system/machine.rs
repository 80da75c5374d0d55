//! How the machine is: memory, load, temperature, uptime, battery.
//!
//! Owns these figures and their words. Reads the kernel's own small files and changes nothing; what a
//! machine does not have is left out.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::size;

/// Bytes read of one of the kernel's files.
const MAX_FILE: u64 = 64 * 1024;
/// Sensors and batteries that are looked at.
const MAX_DEVICES: usize = 32;

/// Where the kernel's files are.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

/// `system_status`
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct MachineStatus {
    /// Seconds since the machine was started.
    pub uptime_s: Option<u64>,
    /// Mean number of processes that ran or waited, over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Processors.
    pub processors: Option<usize>,
    /// Bytes.
    pub memory_total: Option<u64>,
    /// Bytes that programs could still get without swapping.
    pub memory_available: Option<u64>,
    /// Bytes.
    pub swap_total: Option<u64>,
    /// Bytes.
    pub swap_free: Option<u64>,
    /// The hottest sensor, degrees Celsius.
    pub temperature: Option<f64>,
    /// Each battery.
    pub batteries: Vec<Battery>,
    /// Is mains power there? `None` where no supply says so.
    pub mains: Option<bool>,
}

/// One battery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Battery {
    /// Percent.
    pub percent: u8,
    /// As the kernel has it: `Charging`, `Discharging`, `Full`…
    pub state: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        Machine { root: PathBuf::from("/") }
    }

    /// Another folder in the place of `/`.
    #[cfg(test)]
    fn at(root: &Path) -> Machine {
        Machine { root: root.to_owned() }
    }

    /// The present figures.
    pub fn status(&self) -> MachineStatus {
        let memory = self.read("proc/meminfo").unwrap_or_default();
        let (batteries, mains) = self.supplies();
        MachineStatus {
            uptime_s: self.read("proc/uptime").and_then(|text| first_seconds(&text)),
            load: self.read("proc/loadavg").and_then(|text| loads(&text)),
            processors: std::thread::available_parallelism().ok().map(usize::from),
            memory_total: kibibytes(&memory, "MemTotal"),
            memory_available: kibibytes(&memory, "MemAvailable"),
            swap_total: kibibytes(&memory, "SwapTotal"),
            swap_free: kibibytes(&memory, "SwapFree"),
            temperature: self.hottest(),
            batteries,
            mains,
        }
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.root.join(path)).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The entries of a folder of devices, in order of name.
    fn devices(&self, folder: &str) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.root.join(folder)) else { return Vec::new() };
        let mut devices: Vec<PathBuf> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).take(MAX_DEVICES).collect();
        devices.sort();
        devices
    }

    fn hottest(&self) -> Option<f64> {
        let zones = self.devices("sys/class/thermal");
        let zones = zones.iter().filter(|zone| {
            zone.file_name().is_some_and(|name| name.to_string_lossy().starts_with("thermal_zone"))
        });
        let degrees = zones.filter_map(|zone| {
            let thousandths: i32 = self.read(zone.join("temp"))?.parse().ok()?;
            // A sensor that is switched off says something absurd.
            (-60_000..=200_000).contains(&thousandths).then(|| f64::from(thousandths) / 1000.0)
        });
        degrees.reduce(f64::max)
    }

    fn supplies(&self) -> (Vec<Battery>, Option<bool>) {
        let (mut batteries, mut mains) = (Vec::new(), None);
        for device in self.devices("sys/class/power_supply") {
            let word = |name: &str| self.read(device.join(name));
            // A mouse or a telephone has a battery, too; it is not this machine's.
            if word("scope").is_some_and(|scope| scope == "Device") {
                continue;
            }
            match word("type").as_deref() {
                Some("Battery") => {
                    let Some(percent) = word("capacity").and_then(|text| text.parse().ok()) else {
                        continue;
                    };
                    let state = word("status").unwrap_or_default();
                    let state =
                        state.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(20);
                    batteries.push(Battery { percent, state: state.collect() });
                }
                Some("Mains" | "USB" | "UPS") => {
                    let online = word("online").is_some_and(|online| online == "1");
                    mains = Some(mains.unwrap_or(false) || online);
                }
                _ => {}
            }
        }
        (batteries, mains)
    }
}

impl MachineStatus {
    /// For a model, and for a peer without one: only what there is.
    pub fn words(&self) -> String {
        let mut lines = Vec::new();
        if let Some(seconds) = self.uptime_s {
            lines.push(format!("uptime: {}", span(seconds)));
        }
        if let Some([one, five, fifteen]) = self.load {
            let of = self.processors.map_or_else(String::new, |n| format!(" on {n} processors"));
            lines.push(format!("load: {one:.2}, {five:.2}, {fifteen:.2} (1, 5, 15 min){of}"));
        }
        if let (Some(total), Some(available)) = (self.memory_total, self.memory_available) {
            lines.push(format!("memory: {} free of {}", size(available), size(total)));
        }
        if let (Some(total @ 1..), Some(free)) = (self.swap_total, self.swap_free) {
            lines.push(format!("swap: {} free of {}", size(free), size(total)));
        }
        if let Some(degrees) = self.temperature {
            lines.push(format!("temperature: {degrees:.1} °C"));
        }
        for battery in &self.batteries {
            lines.push(format!("battery: {} %, {}", battery.percent, battery.state.to_lowercase()));
        }
        if let (Some(mains), false) = (self.mains, self.batteries.is_empty()) {
            lines.push(format!("mains: {}", if mains { "yes" } else { "no" }));
        }
        lines.join("\n")
    }
}

/// `2 d 3 h 4 min`
pub(crate) fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) if seconds < 60 => format!("{seconds} s"),
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h {minutes} min"),
    }
}

fn first_seconds(text: &str) -> Option<u64> {
    text.split(['.', ' ']).next()?.parse().ok()
}

fn loads(text: &str) -> Option<[f64; 3]> {
    let mut figures = text.split(' ').map(str::parse);
    let mut next = || figures.next()?.ok().filter(|load: &f64| load.is_finite());
    Some([next()?, next()?, next()?])
}

/// A line `Name:   123 kB` in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_small_machine_with_a_battery_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/uptime", "183845.61 700000.00\n");
        write(root, "proc/loadavg", "0.52 0.58 1.00 1/123 4567\n");
        write(
            root,
            "proc/meminfo",
            "MemTotal:  1000000 kB\nMemAvailable:  250000 kB\nSwapTotal: 0 kB\n",
        );
        write(root, "sys/class/thermal/thermal_zone0/temp", "48312\n");
        write(root, "sys/class/thermal/thermal_zone1/temp", "51200\n");
        write(root, "sys/class/thermal/thermal_zone2/temp", "-274000\n");
        write(root, "sys/class/thermal/cooling_device0/temp", "99000\n");
        write(root, "sys/class/power_supply/BAT0/type", "Battery\n");
        write(root, "sys/class/power_supply/BAT0/capacity", "83\n");
        write(root, "sys/class/power_supply/BAT0/status", "Discharging\n");
        write(root, "sys/class/power_supply/AC/type", "Mains\n");
        write(root, "sys/class/power_supply/AC/online", "0\n");
        write(root, "sys/class/power_supply/mouse/type", "Battery\n");
        write(root, "sys/class/power_supply/mouse/scope", "Device\n");
        write(root, "sys/class/power_supply/mouse/capacity", "10\n");
        let mut status = Machine::at(root).status();
        status.processors = Some(4);
        assert_eq!(
            status.words(),
            "uptime: 2 d 3 h 4 min\nload: 0.52, 0.58, 1.00 (1, 5, 15 min) on 4 processors\n\
             memory: 256.0 MB free of 1.0 GB\ntemperature: 51.2 °C\nbattery: 83 %, discharging\nmains: no"
        );
    }

    #[test]
    fn a_machine_that_says_nothing_or_nonsense_has_no_figures() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = Machine::at(folder.path()).status();
        assert_eq!(nothing, MachineStatus { processors: nothing.processors, ..Default::default() });
        assert_eq!(MachineStatus::default().words(), "");
        for (path, text) in [
            ("proc/uptime", ""),
            ("proc/loadavg", "a b c"),
            ("proc/meminfo", "MemTotal: 18446744073709551615 kB\nMemAvailable: x"),
            ("sys/class/thermal/thermal_zone0/temp", "hot"),
            ("sys/class/power_supply/B/type", "Battery"),
            ("sys/class/power_supply/B/capacity", "999"),
        ] {
            write(folder.path(), path, text);
        }
        assert_eq!(Machine::at(folder.path()).status(), nothing);
    }

    #[test]
    fn the_real_machine_has_memory_and_an_uptime() {
        let status = Machine::here().status();
        assert!(status.memory_total > status.memory_available);
        assert!(status.words().starts_with("uptime: "));
    }

    #[test]
    fn spans_change_their_form_at_the_minute_the_hour_and_the_day() {
        for (seconds, words) in [
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h 0 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 d 0 h 0 min"),
        ] {
            assert_eq!(span(seconds), words);
        }
    }
}
