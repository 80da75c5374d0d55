//! Opening the way to a radio: a serial port, a TCP connection, or the simulator in this process.
//!
//! Owns what differs between them. Must not read or write a frame.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_serial::{SerialPort as _, SerialPortBuilderExt as _, SerialStream};

use super::discovery;
use crate::config::PortSpec;

/// How long a TCP connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// The baud rate of Meshtastic's serial console; native USB ignores it. Never 1200: that sends some
/// boards into their bootloader.
const BAUD: u32 = 115_200;

/// Bytes to and from a radio. Zero bytes read mean that the link is lost.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Why the way to the radio is closed; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// `auto` did not find exactly one radio.
    #[error(transparent)]
    Discovery(#[from] discovery::NotOne),
    /// There is no such device now.
    #[error("{} is not there: is the radio plugged in?{}", path.display(), there(seen))]
    Missing {
        /// The device.
        path: PathBuf,
        /// What is plugged in instead.
        seen: Vec<String>,
    },
    /// The board waits for firmware. Its port is not opened.
    #[error(
        "{} is a board in its bootloader ({board}), and its port is not opened: press its reset button once; if \
         it comes back like this, it has no firmware",
        path.display()
    )]
    Bootloader {
        /// The device.
        path: PathBuf,
        /// The board.
        board: &'static str,
    },
    /// The device belongs to somebody else.
    #[error(
        "no permission for {}: add the user that this runs as to the group `{group}` with: usermod -aG {group} \
         USER; it counts from the next login, or the next start of the service",
        path.display()
    )]
    Permission {
        /// The device.
        path: PathBuf,
        /// Its group.
        group: String,
    },
    /// Another program has it.
    #[error(
        "{} is in use by another program{}: two clients would spoil each other's stream, so stop that one",
        path.display(),
        by(holders)
    )]
    Busy {
        /// The device.
        path: PathBuf,
        /// Those that this user may see.
        holders: Vec<String>,
    },
    /// The host on the network can't be reached.
    #[error("{host} can't be reached ({source}): is the radio on, and is that its address?")]
    Unreachable {
        /// `host:port`.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file, a folder or another device.
    #[error(
        "{} is no serial port: `tombolo radio list` shows those that may be radios",
        .0.display()
    )]
    NotSerial(PathBuf),
    /// Anything else.
    #[error("opening {name}: {source}")]
    Failed {
        /// The device or host.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

fn there(seen: &[String]) -> String {
    if seen.is_empty() { String::new() } else { format!(" What is there: {}", seen.join(", ")) }
}

fn by(holders: &[String]) -> String {
    if holders.is_empty() { String::new() } else { format!(", {}", holders.join(", ")) }
}

type Opening = Pin<Box<dyn Future<Output = Result<Box<dyn Stream>, OpenError>> + Send>>;

/// Opens the way, again and again. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    name: String,
    kind: Kind,
    // Where `sys` and `dev` are: `/` but in tests.
    root: PathBuf,
}

#[derive(Clone)]
enum Kind {
    Auto,
    Serial(PathBuf),
    Tcp(String),
    Function(Arc<dyn Fn() -> DuplexStream + Send + Sync>),
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({})", self.name)
    }
}

impl Connector {
    /// The only candidate of the board table, looked for at every opening.
    pub fn auto() -> Connector {
        Connector::of("the radio on USB".to_owned(), Kind::Auto)
    }

    /// A device.
    pub fn serial(path: PathBuf) -> Connector {
        Connector::of(path.display().to_string(), Kind::Serial(path))
    }

    /// `host:port`.
    pub fn tcp(host: String) -> Connector {
        Connector::of(host.clone(), Kind::Tcp(host))
    }

    fn of(name: String, kind: Kind) -> Connector {
        Connector { name, kind, root: PathBuf::from("/") }
    }

    /// The same on a machine whose `sys` and `dev` are below that folder: for tests.
    #[must_use]
    pub fn below(self, root: &Path) -> Connector {
        Connector { root: root.to_owned(), ..self }
    }

    /// A radio in this process.
    pub fn from_fn(
        name: &str,
        open: impl Fn() -> DuplexStream + Send + Sync + 'static,
    ) -> Connector {
        Connector::of(name.to_owned(), Kind::Function(Arc::new(open)))
    }

    /// What the configuration names; `None` for the simulator, which has to be started first.
    pub fn to(port: &PortSpec) -> Option<Connector> {
        match port {
            PortSpec::Auto => Some(Connector::auto()),
            PortSpec::Serial(path) => Some(Connector::serial(path.clone())),
            PortSpec::Tcp(host) => Some(Connector::tcp(host.clone())),
            PortSpec::Sim => None,
        }
    }

    /// The device that would be opened now, where it is one.
    pub fn device(&self) -> Option<PathBuf> {
        match &self.kind {
            Kind::Auto => discovery::only_radio(&self.sys(), &self.dev()).ok(),
            Kind::Serial(path) => Some(path.clone()),
            Kind::Tcp(_) | Kind::Function(_) => None,
        }
    }

    fn sys(&self) -> PathBuf {
        self.root.join("sys")
    }

    fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// For people: the device that would be opened now, else the name.
    pub fn place(&self) -> String {
        self.device().map_or_else(|| self.name.clone(), |path| path.display().to_string())
    }

    /// For people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does another client's connection end ours, as on TCP?
    pub fn is_tcp(&self) -> bool {
        matches!(self.kind, Kind::Tcp(_))
    }

    /// Opens it.
    pub fn open(&self) -> Opening {
        match self.kind.clone() {
            Kind::Auto => {
                let (sys, dev) = (self.sys(), self.dev());
                Box::pin(aside(move || serial(&discovery::only_radio(&sys, &dev)?, &[])))
            }
            Kind::Serial(path) => {
                let (sys, dev) = (self.sys(), self.dev());
                Box::pin(aside(move || match discovery::board_of(&sys, &dev, &path) {
                    Some(board) if board.is_never_opened() => {
                        Err(OpenError::Bootloader { path, board: board.name })
                    }
                    _ if path.exists() => serial(&path, &[]),
                    _ => serial(&path, &discovery::seen(&sys, &dev)),
                }))
            }
            Kind::Tcp(host) => Box::pin(async move { tcp(host).await }),
            Kind::Function(open) => {
                Box::pin(async move { Ok(Box::new(open()) as Box<dyn Stream>) })
            }
        }
    }
}

async fn tcp(host: String) -> Result<Box<dyn Stream>, OpenError> {
    let failed = |source| OpenError::Unreachable { host: host.clone(), source };
    let stream = tokio::time::timeout(CONNECT, TcpStream::connect(&host))
        .await
        .map_err(|_| failed(io::Error::new(io::ErrorKind::TimedOut, "no answer in 5 s")))?
        .map_err(failed)?;
    // A frame is small and waits for nothing: it should leave at once.
    stream.set_nodelay(true).map_err(failed)?;
    Ok(Box::new(stream))
}

/// Opens on a thread of its own: a device may take seconds to answer, and the runtime has one thread.
async fn aside(
    open: impl FnOnce() -> Result<Box<dyn Stream>, OpenError> + Send + 'static,
) -> Result<Box<dyn Stream>, OpenError> {
    let failed = |error| OpenError::Failed {
        name: "the serial port".to_owned(),
        source: io::Error::other(error),
    };
    tokio::task::spawn_blocking(open).await.map_err(failed)?
}

/// A serial port whose flush and shutdown do nothing. Those of [`SerialStream`] wait in the kernel until the
/// line has taken every byte, and with them the whole daemon would stand still for a radio that hangs.
struct Line(SerialStream);

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Opens with DTR and RTS both asserted and never touched again: an nRF52 without DTR is silent, and any
/// unequal pair holds an ESP32 in reset or sends it into its bootloader.
/// `seen`: what is plugged in, where the port is not.
fn serial(path: &Path, seen: &[String]) -> Result<Box<dyn Stream>, OpenError> {
    let name = path.display().to_string();
    keep_lines_at_close(path);
    let mut port = tokio_serial::new(&name, BAUD)
        .data_bits(tokio_serial::DataBits::Eight)
        .parity(tokio_serial::Parity::None)
        .stop_bits(tokio_serial::StopBits::One)
        .flow_control(tokio_serial::FlowControl::None)
        .open_native_async()
        .map_err(|error| refused(path, &error, seen))?;
    // Not on a pty; elsewhere a refusal shows itself by a silent radio. TIOCEXCL comes with the open.
    let _ = port.set_exclusive(true);
    let _ = port.write_data_terminal_ready(true);
    let _ = port.write_request_to_send(true);
    Ok(Box::new(Line(port)))
}

/// Clears HUPCL, so that our closing the port does not drop the lines (which resets some boards). Best
/// effort: the open that follows says what is wrong.
fn keep_lines_at_close(path: &Path) {
    use rustix::fs::{Mode, OFlags};
    use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(device) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    if let Ok(mut settings) = tcgetattr(&device) {
        settings.control_modes.remove(ControlModes::HUPCL);
        let _ = tcsetattr(&device, OptionalActions::Now, &settings);
    }
}

fn refused(path: &Path, error: &tokio_serial::Error, seen: &[String]) -> OpenError {
    let path = path.to_owned();
    let text = error.to_string();
    let permission = |path: PathBuf| {
        let group = discovery::group_of(Path::new("/etc/group"), &path);
        OpenError::Permission { path, group }
    };
    let missing = |path| OpenError::Missing { path, seen: seen.to_vec() };
    let busy = |path: PathBuf| {
        let holders = discovery::holders(Path::new("/proc"), &path);
        OpenError::Busy { path, holders }
    };
    match error.kind() {
        tokio_serial::ErrorKind::Io(io::ErrorKind::PermissionDenied) => permission(path),
        tokio_serial::ErrorKind::Io(io::ErrorKind::NotFound) => missing(path),
        tokio_serial::ErrorKind::Io(io::ErrorKind::ResourceBusy) => busy(path),
        tokio_serial::ErrorKind::NoDevice if !path.exists() => missing(path),
        // That is how a port is reported that another program has locked, in two ways of locking.
        tokio_serial::ErrorKind::NoDevice => busy(path),
        _ if rustix::fs::access(
            &path,
            rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK,
        )
        .is_err_and(|e| e == rustix::io::Errno::ACCESS) =>
        {
            permission(path)
        }
        // As the library words ENOTTY, which it has no kind for.
        _ if text == "Not a typewriter" => OpenError::NotSerial(path),
        _ => OpenError::Failed { name: path.display().to_string(), source: io::Error::other(text) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_device_and_a_closed_port_say_what_is_wrong() {
        let missing = Connector::serial(PathBuf::from("/dev/serial/by-id/usb-nothing"));
        let error = missing.open().await.err().unwrap().to_string();
        assert!(error.contains("plugged in"), "{error}");

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error = Connector::tcp(address.clone()).open().await.err().unwrap().to_string();
        assert!(error.contains(&address), "{error}");
    }

    #[tokio::test]
    async fn a_port_is_opened_by_one_program_at_a_time_and_keeps_its_lines_at_close() {
        use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};
        let master =
            rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)
                .unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let mut settings = tcgetattr(&master).unwrap();
        settings.control_modes.insert(ControlModes::HUPCL);
        tcsetattr(&master, OptionalActions::Now, &settings).unwrap();
        assert!(tcgetattr(&master).unwrap().control_modes.contains(ControlModes::HUPCL));
        let connector = Connector::serial(PathBuf::from(&name));
        let first = connector.open().await.unwrap();
        let settings = tcgetattr(&master).unwrap();
        assert!(!settings.control_modes.contains(ControlModes::HUPCL));
        let second = connector.open().await.err().unwrap().to_string();
        assert!(second.contains(&name) && second.contains("in use"), "{second}");
        drop(first);
        assert!(connector.open().await.is_ok(), "free again after the first is closed");
    }

    #[tokio::test]
    async fn a_file_that_is_no_terminal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        assert!(Connector::serial(path).open().await.is_err());
    }

    #[test]
    fn no_permission_is_said_with_the_group_and_the_command() {
        use tokio_serial::{Error, ErrorKind};
        let error = Error::new(ErrorKind::Io(io::ErrorKind::PermissionDenied), "Permission denied");
        let words = refused(Path::new("/dev/null"), &error, &[]).to_string();
        for part in ["no permission for /dev/null", "`dialout`", "usermod -aG dialout"] {
            assert!(words.contains(part), "{words} lacks {part}");
        }
    }
}
