//! The udev properties of a port: what an operator's own rule wants of the radio behind it.
//!
//! Owns finding and reading the record that udev keeps of a device. Decides nothing about the values, and
//! runs no program.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Properties that our own rules set; no settings.
pub const OWN: [&str; 2] = ["TOMBOLO_BOARD", "TOMBOLO_WARNING"];
/// A record is a few kilobytes.
const MAX_RECORD: u64 = 256 * 1024;

/// The properties of that device whose names begin with `TOMBOLO_`, in udev's order; none where udev knows
/// nothing of it. `root` is `/` but in tests.
pub fn properties(root: &Path, device: &Path) -> Vec<(String, String)> {
    let Ok(found) = fs::metadata(device) else { return Vec::new() };
    let number = found.rdev();
    let name = format!("c{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let record = root.join("run/udev/data").join(name);
    if !fs::metadata(&record).is_ok_and(|m| m.is_file() && m.len() <= MAX_RECORD) {
        return Vec::new();
    }
    fs::read(&record).map(|bytes| parse(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
}

fn parse(record: &str) -> Vec<(String, String)> {
    record
        .lines()
        .filter_map(|line| line.strip_prefix("E:")?.split_once('='))
        .filter(|(name, _)| name.starts_with("TOMBOLO_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_records_own_properties_with_our_prefix_are_read() {
        let record = "S:tombolo/by-serial/E9A1\nI:4711\nE:ID_VENDOR=x\nE:TOMBOLO_REGION=EU_868\n\
                      E:TOMBOLO_NAME=Hill = top\nE:TOMBOLO_ROLE\nTOMBOLO_PRESET=LONG_FAST\nG:systemd\n";
        let expected = [("TOMBOLO_REGION", "EU_868"), ("TOMBOLO_NAME", "Hill = top")];
        assert_eq!(parse(record), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn the_record_is_the_one_of_the_devices_number_through_any_link() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("run/udev/data");
        fs::create_dir_all(&data).unwrap();
        let link = root.path().join("radio");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(properties(root.path(), &link), vec![]);
        fs::write(data.join("c1:3"), "E:TOMBOLO_REGION=US\n").unwrap(); // the null device's number
        fs::write(data.join("c1:5"), "E:TOMBOLO_REGION=EU_868\n").unwrap();
        let expected = vec![("TOMBOLO_REGION".to_owned(), "US".to_owned())];
        assert_eq!(properties(root.path(), &link), expected);
        assert_eq!(properties(root.path(), &root.path().join("nothing")), vec![]);
    }
}
