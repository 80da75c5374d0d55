//! A radio that is unplugged and comes back under another name, on real pseudo-terminals behind a device tree
//! of plain files; and each reason for which a port stays closed, in the words that its installer needs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// `sys` and `dev` of a machine.
struct Machine {
    root: tempfile::TempDir,
}

#[allow(clippy::disallowed_methods)] // a test lays out files of its own
impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/class/tty")).unwrap();
        std::fs::create_dir_all(root.path().join("dev/serial/by-id")).unwrap();
        Machine { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// A device with those USB ids, whose port leads to a terminal.
    fn plug(&self, port: &str, ids: (&str, &str), by_id: &str, terminal: &Path) {
        let usb = self.path(&format!("sys/devices/usb1/{port}"));
        std::fs::create_dir_all(usb.join("1-1:1.0")).unwrap();
        std::fs::write(usb.join("idVendor"), ids.0).unwrap();
        std::fs::write(usb.join("idProduct"), ids.1).unwrap();
        let device = self.path("dev").join(port);
        symlink(std::fs::canonicalize(terminal).unwrap(), &device).unwrap();
        symlink(&device, self.path("dev/serial/by-id").join(by_id)).unwrap();
        let tty = self.path("sys/class/tty").join(port);
        std::fs::create_dir_all(&tty).unwrap();
        symlink(usb.join("1-1:1.0"), tty.join("device")).unwrap();
    }

    fn unplug(&self) {
        for folder in ["sys/class/tty", "sys/devices", "dev"] {
            std::fs::remove_dir_all(self.path(folder)).unwrap();
        }
        std::fs::create_dir_all(self.path("sys/class/tty")).unwrap();
        std::fs::create_dir_all(self.path("dev/serial/by-id")).unwrap();
    }

    fn auto(&self) -> Connector {
        Connector::auto().below(self.root.path())
    }

    fn by_id(&self, name: &str) -> Connector {
        Connector::serial(self.path("dev/serial/by-id").join(name)).below(self.root.path())
    }
}

const RAK: (&str, &str) = ("239a", "8029");
const LOADER: (&str, &str) = ("239a", "0029");

fn radio() -> (Sim, PathBuf, CancellationToken) {
    let sim = Sim::start(SimConfig::default());
    let stop = CancellationToken::new();
    let path = sim.serve_pty(stop.clone()).unwrap();
    (sim, path, stop)
}

async fn why(connector: &Connector) -> String {
    match connector.open().await {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

async fn comes_back_as_another_port(connector: impl Fn(&Machine) -> Connector, second_id: &str) {
    let machine = Machine::new();
    let (sim, path, stop) = radio();
    machine.plug("ttyACM0", RAK, "usb-RAK_E9A1-if00", &path);
    let folder = tempfile::tempdir().unwrap();
    let known = Arc::new(KnownRadio::open(folder.path()).unwrap());
    let mut rig = Rig::with(connector(&machine), |parts| LinkParts { known, ..parts });
    let first = rig.up().await.session;
    stop.cancel();
    machine.unplug();
    rig.down().await;
    let reason = rig.down().await;
    assert!(reason.contains("plug"), "{reason}");
    // The old name belongs to somebody else's device by now.
    let (other, _, _gadget) = terminal();
    machine.plug("ttyACM0", ("0403", "6001"), "usb-Printer-if00", &other);
    let stop = CancellationToken::new();
    let path = sim.serve_pty(stop.clone()).unwrap();
    machine.plug("ttyACM1", RAK, second_id, &path);
    assert_eq!(rig.up().await.session, first + 1);
    sim.say("Ana", SayTo::Direct, "after the replug");
    assert_eq!(rig.text().await.1, "after the replug");
    stop.cancel();
}

#[tokio::test]
async fn by_a_name_that_stays_it_is_found_under_another_number() {
    comes_back_as_another_port(|m| m.by_id("usb-RAK_E9A1-if00"), "usb-RAK_E9A1-if00").await;
}

#[tokio::test]
async fn by_auto_it_is_found_under_another_number_and_another_name() {
    comes_back_as_another_port(Machine::auto, "usb-RAK_E9A1-if00").await;
    comes_back_as_another_port(Machine::auto, "usb-RAK_again-if00").await;
}

/// A terminal behind which nothing is; its own end has to be held.
fn terminal() -> (PathBuf, PathBuf, std::os::fd::OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = PathBuf::from(ptsname(&master, Vec::new()).unwrap().into_string().unwrap());
    (name.clone(), name, master)
}

#[tokio::test]
async fn a_port_that_is_not_there_is_said_with_what_is() {
    let machine = Machine::new();
    let port = machine.by_id("usb-RAK_E9A1-if00");
    let reason = why(&port).await;
    assert!(
        reason.ends_with("usb-RAK_E9A1-if00 is not there: is the radio plugged in?"),
        "{reason}"
    );
    let (path, _, _held) = terminal();
    machine.plug("ttyACM1", LOADER, "usb-RAK_UF2_E9A1-if00", &path);
    let reason = why(&port).await;
    assert!(
        reason.contains("usb-RAK_UF2_E9A1-if00\" (a board in its bootloader: press"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_board_in_its_bootloader_is_never_opened_by_any_name() {
    let machine = Machine::new();
    let (path, _, held) = terminal();
    machine.plug("ttyACM0", LOADER, "usb-RAK_UF2-if00", &path);
    for connector in [
        machine.auto(),
        machine.by_id("usb-RAK_UF2-if00"),
        Connector::serial(machine.path("dev/ttyACM0")).below(machine.root.path()),
    ] {
        let reason = why(&connector).await;
        assert!(reason.contains("bootloader") && reason.contains("reset button"), "{reason}");
    }
    // Nothing had it open: a terminal that was open once and is closed says so to its other end.
    rustix::io::ioctl_fionbio(&held, true).unwrap();
    let read = rustix::io::read(&held, &mut [0; 1]);
    assert_eq!(read.unwrap_err(), rustix::io::Errno::AGAIN, "it was opened");
    // These ids are a bootloader's, and home-made boards': by its name it may be opened.
    let (path, _, _held) = terminal();
    machine.plug("ttyACM1", ("239a", "00b3"), "usb-home-made-if00", &path);
    assert!(machine.by_id("usb-home-made-if00").open().await.is_ok());
    assert!(why(&machine.auto()).await.contains("bootloader"));
}

#[tokio::test]
async fn several_candidates_are_named_with_what_to_write() {
    let machine = Machine::new();
    let (first, _, _one) = terminal();
    let (second, _, _two) = terminal();
    machine.plug("ttyACM0", RAK, "usb-RAK_E9A1-if00", &first);
    machine.plug("ttyACM1", ("303a", "1001"), "usb-Espressif_7C-if00", &second);
    let reason = why(&machine.auto()).await;
    for name in
        ["radio.port", "by-id/usb-RAK_E9A1-if00\" (nRF", "by-id/usb-Espressif_7C-if00\" (ESP"]
    {
        assert!(reason.contains(name), "{reason} lacks {name}");
    }
}

#[tokio::test]
async fn a_port_that_another_program_holds_is_said_with_the_program() {
    let (path, _, _held) = terminal();
    let mut holder = std::process::Command::new("sleep")
        .arg("60")
        .stdin(std::fs::File::open(&path).unwrap())
        .spawn()
        .unwrap();
    let mine = Connector::serial(path.clone()).open().await.unwrap();
    let reason = why(&Connector::serial(path)).await;
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(mine);
    let words = format!("in use by another program, sleep (pid {})", holder.id());
    assert!(reason.contains(&words), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_board_that_waits_for_a_download_is_said_at_once() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = radios.recv().await.unwrap();
    radio.asked().await;
    radio
        .stream
        .write_all(b"rst:0x1 (POWERON),boot:0x0 (DOWNLOAD)\r\nwaiting for download\r\n")
        .await
        .unwrap();
    let reason = rig.down().await;
    assert!(reason.contains("scripted is a board in its bootloader"), "{reason}");
    // What a peer is quoted with is no board's word.
    let mut radio = radios.recv().await.unwrap();
    let nonce = radio.asked().await;
    radio.stream.write_all(b"INFO | msg=waiting for download\r\n").await.unwrap();
    radio.greet(nonce).await;
    rig.up().await;
    radio.stream.write_all(b"waiting for download\r\n").await.unwrap();
    radio
        .say(meshtastic::protobufs::from_radio::PayloadVariant::Packet(super::edges::packet(
            1, "x",
        )))
        .await;
    assert_eq!(rig.text().await.1, "x");
}

#[tokio::test]
async fn a_frame_that_an_earlier_client_left_half_written_is_flushed_out() {
    use tokio::io::AsyncWriteExt as _;
    let (sim, path, stop) = radio();
    for cut in [1, 3, 4, 40, 200] {
        // A text of 200 bytes to everyone, cut short.
        let mut frame = vec![0x94, 0xC3, 0x00, 0xDC, 0x0A, 0xD9, 0x01];
        frame.extend_from_slice(&[0x41; 213]);
        let mut client = Connector::serial(path.clone()).open().await.unwrap();
        client.write_all(&frame[..cut]).await.unwrap();
        drop(client);
        let mut rig = Rig::on(Connector::serial(path.clone()));
        rig.up().await;
        rig.cancel.cancel();
        rig.tracker.close();
        rig.tracker.wait().await;
    }
    assert_eq!(sim.transmissions(), []);
    stop.cancel();
}
