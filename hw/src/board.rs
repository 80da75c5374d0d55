//! The USB ids under which a radio may show up, and the udev rules made from them.
//!
//! Owns the table. An id does not say that a device is a radio (every second gadget has the same serial
//! bridge): only its answer to the handshake does, and nothing here is permission to open a port.

use core::fmt::{self, Write};

/// The kernel driver that makes the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the kernel's own
pub enum Driver {
    CdcAcm,
    Cp210x,
    Ch341,
}

impl Driver {
    /// The kernel module's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Driver::CdcAcm => "cdc_acm",
            Driver::Cp210x => "cp210x",
            Driver::Ch341 => "ch341",
        }
    }
}

/// One pair of USB ids.
///
/// With every board DTR and RTS stay asserted from before the open: a native port without DTR is silent,
/// and on a bridge any other pair holds an ESP32 in reset or sends it into its bootloader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Board {
    /// USB vendor.
    pub vid: u16,
    /// USB product.
    pub pid: u16,
    /// The chip, and boards that have it.
    pub name: &'static str,
    /// Who makes the port.
    pub driver: Driver,
    /// The microcontroller is itself the USB device: a reboot takes the port away, and it may come back
    /// under another number. Else a bridge, whose port stays.
    pub native_usb: bool,
    /// The board waits for new firmware. Never to be opened.
    pub bootloader: bool,
    /// Each device has a serial number of its own. Where not, two of them can be told apart only by
    /// the sockets that they are plugged into.
    pub unique_serial: bool,
}

const fn native(vid: u16, pid: u16, name: &'static str) -> Board {
    let driver = Driver::CdcAcm;
    Board { vid, pid, name, driver, native_usb: true, bootloader: false, unique_serial: true }
}

const fn bootloader(vid: u16, pid: u16, name: &'static str) -> Board {
    Board { bootloader: true, ..native(vid, pid, name) }
}

const fn bridge(
    vid: u16,
    pid: u16,
    name: &'static str,
    driver: Driver,
    unique_serial: bool,
) -> Board {
    Board { vid, pid, name, driver, native_usb: false, bootloader: false, unique_serial }
}

const ADAFRUIT: u16 = 0x239A;
const SEEED: u16 = 0x2886;
const ESPRESSIF: u16 = 0x303A;
const QINHENG: u16 = 0x1A86;
const SILABS: u16 = 0x10C4;
const RASPBERRY: u16 = 0x2E8A;

#[rustfmt::skip]
static BOARDS: [Board; 30] = [
    // Bridges. Many CP210x modules all say serial "0001", a CH340 has none.
    bridge(SILABS,  0xEA60, "CP210x (Heltec V1 to V3, T-Lora, DIY)", Driver::Cp210x, false),
    bridge(QINHENG, 0x7523, "CH340 (RAK11200, DIY)",                 Driver::Ch341,  false),
    bridge(QINHENG, 0x55D3, "CH343",                                 Driver::CdcAcm, true),
    bridge(QINHENG, 0x55D4, "CH9102 (T-Beam, T-Lora, Nano G1)",      Driver::CdcAcm, true),
    // ESP32 with USB of its own; the serial is made from the MAC.
    native(ESPRESSIF, 0x0002, "ESP32-S2"),
    native(ESPRESSIF, 0x1001, "ESP32-S3/C3/C6 (T-Deck, Heltec V4, Station G2)"),
    native(ESPRESSIF, 0x80D6, "ESP32-S3 Pico"),
    // nRF52840; the serial comes from the chip's factory registers.
    native(ADAFRUIT, 0x4404, "nRF52840"),
    native(ADAFRUIT, 0x4405, "nRF52840 (T-Echo, Heltec T114)"),
    native(ADAFRUIT, 0x8029, "nRF52840 (RAK4631, T-Echo, Nano G2)"),
    native(ADAFRUIT, 0x802A, "nRF52840"),
    native(ADAFRUIT, 0x810B, "nRF52840"),
    native(ADAFRUIT, 0x810C, "nRF52840"),
    native(ADAFRUIT, 0xCAFE, "nRF52840"),
    native(SEEED, 0x0059, "Seeed XIAO ESP32-S3"),
    native(SEEED, 0x0166, "Seeed nRF52840"),
    native(SEEED, 0x1668, "Seeed nRF52840 (Wio Tracker L1)"),
    native(0x16D0, 0x1178, "nRF52840"),
    // RP2040 and RP2350.
    native(RASPBERRY, 0x000A, "RP2040 (Pico)"),
    native(RASPBERRY, 0x000F, "RP2350 (Pico 2)"),
    native(RASPBERRY, 0xF00A, "RP2040 (Pico W)"),
    // Waiting for firmware. 00b3 is also what some home-made boards run under: those need their port
    // in the configuration.
    bootloader(ADAFRUIT, 0x0029, "nRF52840 bootloader"),
    bootloader(ADAFRUIT, 0x002A, "nRF52840 bootloader"),
    bootloader(ADAFRUIT, 0x0071, "nRF52840 bootloader (Heltec T114)"),
    bootloader(ADAFRUIT, 0x009F, "nRF52840 bootloader"),
    bootloader(ADAFRUIT, 0x00B3, "nRF52840 bootloader (nice!nano)"),
    bootloader(ADAFRUIT, 0x010B, "nRF52840 bootloader"),
    bootloader(SEEED, 0x0057, "Seeed nRF52840 bootloader (T1000-E)"),
    bootloader(SEEED, 0x1667, "Seeed nRF52840 bootloader (Wio Tracker L1)"),
    bootloader(RASPBERRY, 0x0003, "RP2040 bootloader"),
];

impl Board {
    /// The whole table, bootloaders among it.
    pub fn all() -> impl Iterator<Item = &'static Board> {
        BOARDS.iter()
    }

    /// Is this port never opened, not even when the configuration names it? One bootloader's ids are also what some
    /// home-made boards run under.
    #[must_use]
    pub const fn is_never_opened(&self) -> bool {
        self.bootloader && !(self.vid == ADAFRUIT && self.pid == 0x00B3)
    }

    /// `None` for a device that is in no table: it is never probed.
    #[must_use]
    pub fn from_usb_ids(vid: u16, pid: u16) -> Option<&'static Board> {
        BOARDS.iter().find(|board| board.vid == vid && board.pid == pid)
    }
}

const HEAD: &str = "\
# Serial ports of LoRa radios: who may open them, and a name that stays.
# Made by `tombolo udev` from the board table of the crate tombolo-hw; changes belong there.
#
# An own rule in a file that sorts after this one (71-my-radio.rules) may say for one device what it
# should be set to; see the operator guide:
#   SUBSYSTEM==\"tty\", ENV{ID_SERIAL_SHORT}==\"E9A1B2C3D4E5F607\", ENV{TOMBOLO_REGION}=\"EU_868\"

ACTION==\"remove\", GOTO=\"tombolo_end\"
SUBSYSTEM==\"usb\", ENV{DEVTYPE}==\"usb_device\", GOTO=\"tombolo_device\"
SUBSYSTEM==\"tty\", SUBSYSTEMS==\"usb\", GOTO=\"tombolo_port\"
GOTO=\"tombolo_end\"

# The USB device: ModemManager looks here, and must not send AT commands to a radio.
LABEL=\"tombolo_device\"
";

const PORTS: &str = "GOTO=\"tombolo_end\"

# The port. Bootloaders are in no line: a board that waits for firmware is left alone.
LABEL=\"tombolo_port\"
";

const BY_SERIAL: &str = "GOTO=\"tombolo_end\"

# A serial number of its own names the radio wherever it is plugged in.
LABEL=\"tombolo_by_serial\"
ENV{ID_SERIAL_SHORT}!=\"?*\", GOTO=\"tombolo_by_path\"
SYMLINK+=\"tombolo/by-serial/$env{ID_SERIAL_SHORT}\", GOTO=\"tombolo_grant\"

# Warning: these have no serial number, or one that many share. The name is that of the socket: a radio
# that is plugged in elsewhere gets another name, another one plugged in here gets this name.
LABEL=\"tombolo_by_path\"
ENV{TOMBOLO_WARNING}=\"no unique serial number: named by its USB socket\"
ENV{ID_PATH_TAG}==\"?*\", SYMLINK+=\"tombolo/by-path/$env{ID_PATH_TAG}\"

LABEL=\"tombolo_grant\"
GROUP=\"dialout\", MODE=\"0660\"
ENV{ID_MM_DEVICE_IGNORE}=\"1\", ENV{ID_MM_PORT_IGNORE}=\"1\"
# Plugging a radio in starts the service, where it is installed.
TAG+=\"systemd\", ENV{SYSTEMD_WANTS}+=\"tombolo.service\"

LABEL=\"tombolo_end\"
";

/// Writes the udev rules of the whole table. Fails only as `out` does.
///
/// The symlinks are `/dev/tombolo/by-serial/…` and, for boards without a unique serial number,
/// `/dev/tombolo/by-path/…` with the property `TOMBOLO_WARNING`. Every matched port gets the property
/// `TOMBOLO_BOARD`.
pub fn udev_rules(out: &mut dyn Write) -> fmt::Result {
    out.write_str(HEAD)?;
    for board in radios() {
        writeln!(
            out,
            "ATTR{{idVendor}}==\"{:04x}\", ATTR{{idProduct}}==\"{:04x}\", \
             ENV{{ID_MM_DEVICE_IGNORE}}=\"1\"",
            board.vid, board.pid
        )?;
    }
    out.write_str(PORTS)?;
    for board in radios() {
        let naming = if board.unique_serial { "serial" } else { "path" };
        writeln!(
            out,
            "ATTRS{{idVendor}}==\"{:04x}\", ATTRS{{idProduct}}==\"{:04x}\", \
             ENV{{TOMBOLO_BOARD}}=\"{}\", GOTO=\"tombolo_by_{naming}\"",
            board.vid, board.pid, board.name
        )?;
    }
    out.write_str(BY_SERIAL)
}

fn radios() -> impl Iterator<Item = &'static Board> {
    BOARDS.iter().filter(|board| !board.bootloader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> String {
        let mut text = String::new();
        udev_rules(&mut text).unwrap();
        text
    }

    #[test]
    fn no_pair_of_ids_stands_twice() {
        for (index, board) in BOARDS.iter().enumerate() {
            assert_eq!(Board::from_usb_ids(board.vid, board.pid), BOARDS.get(index), "{board:?}");
        }
        assert_eq!(Board::from_usb_ids(0x1366, 0x0101), None, "a debug probe is no radio");
    }

    #[test]
    fn every_radio_is_in_the_rules_twice_and_no_bootloader_is() {
        let rules = rules();
        for board in Board::all() {
            let ids = |attribute| {
                format!(
                    "{attribute}{{idVendor}}==\"{:04x}\", {attribute}{{idProduct}}==\"{:04x}\"",
                    board.vid, board.pid
                )
            };
            let expected = usize::from(!board.bootloader);
            for attribute in ["ATTR", "ATTRS"] {
                let lines = rules.lines().filter(|line| line.starts_with(&ids(attribute))).count();
                assert_eq!(lines, expected, "{board:?}");
            }
        }
    }

    #[test]
    fn every_goto_has_its_label_further_down() {
        let rules = rules();
        let mut labels: Vec<&str> = Vec::new();
        for line in rules.lines().rev() {
            for part in line.split(", ") {
                if let Some(label) = part.strip_prefix("LABEL=") {
                    labels.push(label);
                }
                if let Some(target) = part.strip_prefix("GOTO=") {
                    assert!(labels.contains(&target), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_shared_serial_number_is_never_a_name() {
        for board in radios() {
            let line = rules()
                .lines()
                .find(|line| {
                    line.starts_with("ATTRS")
                        && line.contains(&format!("{:04x}", board.vid))
                        && line.contains(&format!("\"{:04x}\"", board.pid))
                })
                .unwrap()
                .to_owned();
            assert_eq!(line.ends_with("\"tombolo_by_serial\""), board.unique_serial, "{line}");
            assert!(!board.name.contains(['"', '\\', '$', '%']), "a name stands between quotes");
        }
    }
}
