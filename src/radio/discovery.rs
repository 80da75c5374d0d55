//! Finding the radio that is plugged in.
//!
//! Owns the walk through the kernel's device tree, and who holds a port. Opens nothing: a USB id does not say that a device is a
//! radio, and opening somebody else's device can disturb it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tombolo_hw::board::Board;

use super::settings::compare::printable;

/// Programs that are named as holding a port.
const MAX_HOLDERS: usize = 3;

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

/// There is not exactly one candidate. The text lists what is there, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct NotOne {
    /// Those that there are.
    pub found: Vec<Candidate>,
    /// Other serial ports on USB, each with what is known of it.
    pub others: Vec<String>,
}

impl NotOne {
    fn words(&self) -> String {
        if !self.found.is_empty() {
            let names: Vec<String> = self
                .found
                .iter()
                .map(|c| format!("\"{}\" ({})", c.path.display(), c.board.name))
                .collect();
            return format!(
                "several devices could be the radio; set radio.port to one of: {}",
                names.join(", ")
            );
        }
        let mut words = "no radio found on USB: plug one in, or name it with radio.port".to_owned();
        if !self.others.is_empty() {
            words.push_str("; what is there is not opened by itself: ");
            words.push_str(&self.others.join(", "));
        }
        words
    }
}

/// What is plugged in, each in a few words: for who waits for a port that is not there.
pub fn seen(sys: &Path, dev: &Path) -> Vec<String> {
    let (found, others) = ports(sys, dev);
    let named = |c: &Candidate| format!("\"{}\" ({})", c.path.display(), c.board.name);
    found.iter().map(named).chain(others).collect()
}

/// The board behind a port, by its USB ids; `None` where it has none, or they are in no table.
pub fn board_of(sys: &Path, dev: &Path, port: &Path) -> Option<&'static Board> {
    let device = fs::canonicalize(port).ok()?;
    let mut terminals = fs::read_dir(sys.join("class/tty")).ok()?.filter_map(Result::ok);
    let terminal = terminals
        .find(|tty| fs::canonicalize(dev.join(tty.file_name())).is_ok_and(|is| is == device))?;
    let usb = usb_device(&fs::canonicalize(terminal.path().join("device")).ok()?)?;
    Board::from_usb_ids(hex(&usb.join("idVendor"))?, hex(&usb.join("idProduct"))?)
}

/// The other programs that have a port open, as far as this user may see them, for instance `minicom (pid 812)`.
pub fn holders(proc: &Path, port: &Path) -> Vec<String> {
    let Ok(device) = fs::canonicalize(port) else { return Vec::new() };
    let own = std::process::id();
    let mut holders: Vec<(u32, String)> = fs::read_dir(proc)
        .into_iter()
        .flatten()
        .filter_map(|process| {
            let process = process.ok()?;
            let pid: u32 = process.file_name().to_str()?.parse().ok()?;
            let holds =
                |handle: fs::DirEntry| fs::read_link(handle.path()).is_ok_and(|to| to == device);
            let mut handles = fs::read_dir(process.path().join("fd")).ok()?.filter_map(Result::ok);
            (pid != own && handles.any(holds)).then_some(())?;
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            Some((pid, format!("{} (pid {pid})", printable(name.trim()))))
        })
        .collect();
    holders.sort();
    holders.into_iter().map(|(_, words)| words).take(MAX_HOLDERS).collect()
}

/// The group that a port belongs to, by name; `dialout` where the system doesn't say.
pub fn group_of(groups: &Path, port: &Path) -> String {
    let usual = || "dialout".to_owned();
    let Ok(metadata) = fs::metadata(port) else { return usual() };
    let gid = metadata.gid().to_string();
    let table = fs::read_to_string(groups).unwrap_or_default();
    let line = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    // The group of root is no group to put anybody in.
    line.filter(|fields| gid != "0" && fields.get(2) == Some(&gid.as_str()))
        .find_map(|fields| fields.first().map(|name| printable(name)))
        .unwrap_or_else(usual)
}

/// The only radio, by its stable name. `sys` is `/sys` and `dev` is `/dev` but in tests.
pub fn only_radio(sys: &Path, dev: &Path) -> Result<PathBuf, NotOne> {
    let (found, others) = ports(sys, dev);
    match found.as_slice() {
        [one] => Ok(one.path.clone()),
        _ => Err(NotOne { found, others }),
    }
}

/// Every serial port on USB whose ids are in the board table; bootloaders are left out.
pub fn candidates(sys: &Path, dev: &Path) -> Vec<Candidate> {
    ports(sys, dev).0
}

/// Words about the serial ports on USB that are no candidates.
pub fn others(sys: &Path, dev: &Path) -> Vec<String> {
    ports(sys, dev).1
}

/// The candidates, and words about the serial ports on USB that are none.
fn ports(sys: &Path, dev: &Path) -> (Vec<Candidate>, Vec<String>) {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    // A device may have several ports; the radio is on the first. Names sort as their numbers do, up to
    // the tenth port of a kind.
    let mut devices = BTreeSet::new();
    let mut names: Vec<String> = fs::read_dir(sys.join("class/tty"))
        .into_iter()
        .flatten()
        .filter_map(|port| port.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    for name in names {
        let Ok(interface) = fs::canonicalize(sys.join("class/tty").join(&name).join("device"))
        else {
            continue;
        };
        let Some(usb) = usb_device(&interface) else { continue };
        let (Some(vid), Some(pid)) = (hex(&usb.join("idVendor")), hex(&usb.join("idProduct")))
        else {
            continue;
        };
        if !devices.insert(usb.clone()) {
            continue;
        }
        let path = |unique| stable_name(dev, &name, unique);
        match Board::from_usb_ids(vid, pid) {
            Some(board) if board.bootloader => {
                let path = path(board.unique_serial);
                others.push(format!("\"{}\" (a board in its bootloader: press its reset button once, or give it firmware)", path.display()));
            }
            Some(board) => {
                let serial =
                    fs::read_to_string(usb.join("serial")).ok().map(|s| s.trim().to_owned());
                found.push(Candidate { path: path(board.unique_serial), board, serial });
            }
            None => others.push(format!(
                "\"{}\" (USB {vid:04x}:{pid:04x}, no known board)",
                path(true).display()
            )),
        }
    }
    found.sort_by(|a: &Candidate, b: &Candidate| a.path.cmp(&b.path));
    (found, others)
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
/// port's own name, which may change at the next plug-in. The other way round for boards whose serial
/// numbers are not unique: two of them share one name by id, and it leads to either.
fn stable_name(dev: &Path, port: &str, unique_serial: bool) -> PathBuf {
    let mut folders = ["serial/by-id", "serial/by-path"];
    if !unique_serial {
        folders.reverse();
    }
    let Ok(device) = fs::canonicalize(dev.join(port)) else { return dev.join(port) };
    for folder in folders {
        let links = fs::read_dir(dev.join(folder)).into_iter().flatten().filter_map(Result::ok);
        let first = links
            .map(|link| link.path())
            .filter(|link| fs::canonicalize(link).is_ok_and(|target| target == device))
            .min();
        if let Some(first) = first {
            return first;
        }
    }
    dev.join(port)
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
            fs::create_dir_all(root.path().join("dev/serial/by-path")).unwrap();
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

        /// A further port of a device that is plugged in, and a name by socket for a port.
        fn second_port(&self, port: &str, of: &str) {
            let root = self.root.path();
            let interface = root.join(format!("sys/devices/usb1/{of}-device/1-1:1.2"));
            fs::create_dir_all(&interface).unwrap();
            let tty = root.join(format!("sys/class/tty/{port}"));
            fs::create_dir_all(&tty).unwrap();
            symlink(&interface, tty.join("device")).unwrap();
        }

        fn by_path(&self, port: &str, name: &str) {
            let dev = self.root.path().join("dev");
            symlink(dev.join(port), dev.join("serial/by-path").join(name)).unwrap();
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

    #[test]
    fn what_is_there_and_not_opened_is_listed() {
        let machine = Machine::new();
        machine.plug("ttyUSB7", ("0403", "6001"), Some("usb-Printer_1"));
        machine.plug("ttyACM1", ("239a", "0029"), None);
        let error = machine.only().unwrap_err();
        assert!(error.found.is_empty());
        let words = error.to_string();
        assert!(words.contains("usb-Printer_1\" (USB 0403:6001"), "{words}");
        assert!(words.contains("ttyACM1\" (a board in its bootloader: press its reset"), "{words}");
    }

    #[test]
    fn a_device_with_two_ports_is_one_candidate_and_its_first_port_is_taken() {
        let machine = Machine::new();
        machine.plug("ttyACM0", ("239a", "8029"), None);
        machine.second_port("ttyACM1", "ttyACM0");
        assert!(machine.only().unwrap().ends_with("dev/ttyACM0"));
    }

    #[test]
    fn a_serial_number_that_many_boards_share_names_no_port() {
        let machine = Machine::new();
        machine.plug("ttyUSB0", ("10c4", "ea60"), Some("usb-CP2102_0001-if00"));
        assert!(machine.only().unwrap().ends_with("serial/by-id/usb-CP2102_0001-if00"));
        machine.by_path("ttyUSB0", "pci-0000:00:14.0-usb-0:1");
        assert!(machine.only().unwrap().ends_with("serial/by-path/pci-0000:00:14.0-usb-0:1"));
        let unique = Machine::new();
        unique.plug("ttyACM0", ("239a", "8029"), Some("usb-RAK_E9A1-if00"));
        unique.by_path("ttyACM0", "pci-0000:00:14.0-usb-0:2");
        assert!(unique.only().unwrap().ends_with("serial/by-id/usb-RAK_E9A1-if00"));
    }

    #[test]
    fn who_holds_a_port_is_named_as_far_as_it_can_be_seen() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("ttyACM0");
        fs::write(&port, "").unwrap();
        let link = root.path().join("by-id");
        symlink(&port, &link).unwrap();
        let proc = root.path().join("proc");
        assert!(holders(&proc, &link).is_empty());
        let own = std::process::id();
        for (pid, name, held) in [
            (own, "tombolo", true),
            (u32::MAX, "minicom", true),
            (u32::MAX - 1, "screen\x1b[2J", true),
            (u32::MAX - 2, "bash", false),
        ] {
            let process = proc.join(pid.to_string());
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            symlink("/dev/null", process.join("fd/0")).unwrap();
            if held {
                symlink(&port, process.join("fd/3")).unwrap();
            }
        }
        fs::create_dir_all(proc.join("sys")).unwrap();
        let (first, second) = (u32::MAX - 1, u32::MAX);
        let named = [format!("screen\u{fffd}[2J (pid {first})"), format!("minicom (pid {second})")];
        assert_eq!(holders(&proc, &link), named);
    }

    #[test]
    fn the_group_is_the_ports_own_and_never_that_of_root() {
        let root = tempfile::tempdir().unwrap();
        let (port, groups) = (root.path().join("ttyACM0"), root.path().join("group"));
        fs::write(&port, "").unwrap();
        assert_eq!(group_of(&groups, &port), "dialout");
        let gid = fs::metadata(&port).unwrap().gid();
        fs::write(&groups, format!("root:x:0:\nother:x:4711:\nuucp:x:{gid}:ana\n")).unwrap();
        assert_eq!(group_of(&groups, &port), if gid == 0 { "dialout" } else { "uucp" });
        std::os::unix::fs::chown(&port, None, Some(4711)).unwrap_or_default();
        if fs::metadata(&port).unwrap().gid() == 4711 {
            assert_eq!(group_of(&groups, &port), "other");
        }
        assert_eq!(group_of(&groups, &root.path().join("nothing")), "dialout");
    }
}
