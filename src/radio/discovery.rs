//! Finding the radio that is plugged in.
//!
//! Owns the walk through the kernel's device tree. Opens nothing: a USB id does not say that a device is a
//! radio, and opening somebody else's device can disturb it.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_hw::board::Board;

/// A serial port whose USB ids are in the board table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The device, by a stable name where there is one.
    pub path: PathBuf,
    /// What it may be.
    pub board: &'static Board,
    /// Its USB serial number.
    pub serial: Option<String>,
}

/// There is not exactly one candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct NotOne {
    /// Those that there are.
    pub found: Vec<Candidate>,
}

impl NotOne {
    fn words(&self) -> String {
        if self.found.is_empty() {
            return "no radio found on USB: plug one in, or name it with radio.port".to_owned();
        }
        let names: Vec<String> = self
            .found
            .iter()
            .map(|c| format!("\"{}\" ({})", c.path.display(), c.board.name))
            .collect();
        format!(
            "several devices could be the radio; set radio.port to one of: {}",
            names.join(", ")
        )
    }
}

/// The only radio, by its stable name. `sys` is `/sys` and `dev` is `/dev` but in tests.
pub fn only_radio(sys: &Path, dev: &Path) -> Result<PathBuf, NotOne> {
    let found = candidates(sys, dev);
    match found.as_slice() {
        [one] => Ok(one.path.clone()),
        _ => Err(NotOne { found }),
    }
}

/// Every serial port on USB whose ids are in the board table; bootloaders are left out.
pub fn candidates(sys: &Path, dev: &Path) -> Vec<Candidate> {
    let Ok(ports) = fs::read_dir(sys.join("class/tty")) else { return Vec::new() };
    let mut found: Vec<Candidate> = ports
        .filter_map(Result::ok)
        .filter_map(|port| {
            let name = port.file_name().into_string().ok()?;
            let device = fs::canonicalize(port.path().join("device")).ok()?;
            let usb = usb_device(&device)?;
            let board =
                Board::from_usb_ids(hex(&usb.join("idVendor"))?, hex(&usb.join("idProduct"))?)?;
            let serial = fs::read_to_string(usb.join("serial")).ok().map(|s| s.trim().to_owned());
            (!board.bootloader).then(|| Candidate { path: stable_name(dev, &name), board, serial })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The USB device above an interface: the first folder upwards that has both ids.
fn usb_device(interface: &Path) -> Option<PathBuf> {
    interface
        .ancestors()
        .take(4)
        .find(|folder| folder.join("idVendor").is_file() && folder.join("idProduct").is_file())
        .map(Path::to_owned)
}

fn hex(file: &Path) -> Option<u16> {
    u16::from_str_radix(fs::read_to_string(file).ok()?.trim(), 16).ok()
}

/// The link below `serial/by-id` that leads to the port, else the one below `serial/by-path`, else the
/// port's own name, which may change at the next plug-in.
fn stable_name(dev: &Path, port: &str) -> PathBuf {
    let plain = dev.join(port);
    for folder in ["serial/by-id", "serial/by-path"] {
        let links = fs::read_dir(dev.join(folder)).into_iter().flatten().filter_map(Result::ok);
        let mut matching: Vec<PathBuf> = links
            .map(|link| link.path())
            .filter(|link| fs::canonicalize(link).is_ok_and(|target| target.ends_with(port)))
            .collect();
        matching.sort();
        if let Some(first) = matching.into_iter().next() {
            return first;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Machine {
        root: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Machine {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("sys/class/tty/tty0")).unwrap();
            fs::create_dir_all(root.path().join("dev/serial/by-id")).unwrap();
            Machine { root }
        }

        fn plug(&self, port: &str, ids: (&str, &str), by_id: Option<&str>) {
            let root = self.root.path();
            let usb = root.join(format!("sys/devices/usb1/{port}-device"));
            let interface = usb.join("1-1:1.0");
            fs::create_dir_all(&interface).unwrap();
            fs::write(usb.join("idVendor"), format!("{}\n", ids.0)).unwrap();
            fs::write(usb.join("idProduct"), format!("{}\n", ids.1)).unwrap();
            let tty = root.join(format!("sys/class/tty/{port}"));
            fs::create_dir_all(&tty).unwrap();
            symlink(&interface, tty.join("device")).unwrap();
            fs::write(root.join("dev").join(port), "").unwrap();
            if let Some(name) = by_id {
                symlink(root.join("dev").join(port), root.join("dev/serial/by-id").join(name))
                    .unwrap();
            }
        }

        fn only(&self) -> Result<PathBuf, NotOne> {
            only_radio(&self.root.path().join("sys"), &self.root.path().join("dev"))
        }
    }

    #[test]
    fn exactly_one_candidate_is_opened_and_by_its_stable_name() {
        let machine = Machine::new();
        assert!(machine.only().unwrap_err().to_string().contains("plug one in"));
        machine.plug("ttyUSB7", ("0403", "6001"), None); // not in the table
        machine.plug("ttyACM1", ("239a", "0029"), None); // a bootloader
        assert!(machine.only().is_err());
        machine.plug("ttyACM0", ("239a", "8029"), Some("usb-RAKwireless_1-if00"));
        assert!(machine.only().unwrap().ends_with("dev/serial/by-id/usb-RAKwireless_1-if00"));
        machine.plug("ttyUSB0", ("10c4", "ea60"), None);
        let error = machine.only().unwrap_err();
        assert_eq!(error.found.len(), 2);
        assert!(error.to_string().contains("radio.port"), "{error}");
    }
}
