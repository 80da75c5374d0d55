//! A short session with a radio, for one question or one change: opened, greeted, left.
//!
//! Owns the stream while it lasts, and the wait for each answer. Not for the daemon's own link, which has
//! more to keep alive. Keeps no key but the public one.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use tombolo_hw::frame::{self, Decoder, Item};
use tracing::trace;

use crate::node::{NodeNum, PacketId};
use crate::radio::handshake::{Handshake, Progress};
use crate::radio::transport::{Connector, OpenError, Stream};
use crate::radio::wire::settings::{self as wire_settings, Kept, Request};
use crate::radio::wire::{self, FromRadio};
use crate::radio::{Payload, RadioInfo, port};

/// A radio names itself within this time, or it is none.
const SILENT: Duration = Duration::from_secs(15);
/// No byte for this long inside a frame: it was no frame.
const STALL: Duration = Duration::from_secs(2);
/// A radio that takes no bytes for this long is gone.
const WRITE: Duration = Duration::from_secs(5);
/// A request to our own radio is answered within this time.
const ANSWER: Duration = Duration::from_secs(5);
/// Some boards only say that they took it.
const AFTER_TAKEN: Duration = Duration::from_secs(2);
/// `QueueStatus.res` of a packet that was for the radio itself.
const DELIVERED_LOCALLY: i32 = 35;
/// What the boot loaders of ESP32 print.
const BOOT_MARKS: [&str; 2] = ["rst:0x", "ESP-ROM:"];

/// Why there was no session, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The way is closed.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Not a word of a radio.
    #[error(
        "{name} opens and does not answer: is it a Meshtastic radio, is it running, and is its serial \
         console switched on (security.serial_enabled)?"
    )]
    Silent {
        /// The device or host.
        name: String,
    },
    /// The ROM of an ESP32 answers in place of the firmware.
    #[error(
        "{name} is a board in its bootloader, which waits for firmware: press its reset button once, without \
         holding another one"
    )]
    Bootloader {
        /// The device or host.
        name: String,
    },
    /// It began to answer and did not end.
    #[error("{name} does not complete the handshake: restart the radio and try again")]
    Incomplete {
        /// The device or host.
        name: String,
    },
    /// The stream ended.
    #[error("the link to the radio was lost: {reason}")]
    Lost {
        /// What happened.
        reason: String,
    },
    /// The radio refused a request.
    #[error("the radio refused {what} (reason {reason})")]
    Refused {
        /// The request, for people.
        what: &'static str,
        /// `Routing.Error`, or the result of its queue.
        reason: i32,
    },
    /// No answer to a request.
    #[error("the radio does not answer to {what}")]
    NoAnswer {
        /// The request, for people.
        what: &'static str,
    },
}

/// Is that line what the ROM of an ESP32 says when it waits for firmware?
pub fn waits_for_download(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("waiting for download")
}

/// What the handshake told of the settings, beside [`RadioInfo`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// `DeviceConfig` as it came.
    pub device: Option<Vec<u8>>,
    /// `LoRaConfig` as it came.
    pub lora: Option<Vec<u8>>,
    /// Our own `User` as it came.
    pub owner: Option<Vec<u8>>,
    /// Is Bluetooth on?
    pub bluetooth: Option<bool>,
    /// Does the radio sleep to save power?
    pub power_saving: Option<bool>,
    /// Does it take settings only from its administrators?
    pub managed: bool,
}

/// What comes from the radio.
enum Seen {
    Frame(Box<FromRadio>, Option<Kept>),
    Text(String),
}

/// The open stream.
struct Line {
    stream: Box<dyn Stream>,
    decoder: Box<Decoder>,
    // What one read brought and nobody has looked at: bounded by the size of a read.
    seen: VecDeque<Seen>,
    byte: Instant,
}

/// An open session after its handshake.
pub struct Session {
    line: Line,
    /// What the radio said of itself.
    pub info: RadioInfo,
    /// And of its settings.
    pub details: Details,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.info.my_node)
    }
}

impl Session {
    /// Opens and greets.
    ///
    /// # Errors
    /// When the port can't be opened, or nothing behind it answers as a radio.
    pub async fn open(connector: &Connector) -> Result<Session, SessionError> {
        let mut line = Line {
            stream: connector.open().await?,
            decoder: Box::new(Decoder::new()),
            seen: VecDeque::new(),
            byte: Instant::now(),
        };
        line.write_raw(&wire::FLUSH).await?;
        let (info, details) = line.greet(&connector.place()).await?;
        Ok(Session { line, info, details })
    }

    /// Asks our own radio for something and waits until it says that it took it.
    ///
    /// # Errors
    /// A refusal, or silence; what was asked for may have happened then.
    pub async fn request(&mut self, request: &Request) -> Result<(), SessionError> {
        let id = PacketId(getrandom::u32().unwrap_or(1).max(1));
        let what = request.words();
        self.line.write(&wire_settings::request(self.info.my_node, id, request)).await?;
        let mut until = Instant::now() + ANSWER;
        let mut result = Err(SessionError::NoAnswer { what });
        loop {
            let Some(seen) = self.line.next(until).await? else { return result };
            let Seen::Frame(frame, _) = seen else { continue };
            match *frame {
                FromRadio::QueueStatus(status) if status.id == id => {
                    result = match status.res {
                        0 | DELIVERED_LOCALLY => Ok(()),
                        reason => Err(SessionError::Refused { what, reason }),
                    };
                    until = until.min(Instant::now() + AFTER_TAKEN);
                }
                FromRadio::Packet(packet) => {
                    let Payload::Data(data) = packet.payload else { continue };
                    if data.request_id != id || packet.from != self.info.my_node {
                        continue;
                    }
                    match (data.port, data.routing_error) {
                        (port::ROUTING, Some(0) | None) => return Ok(()),
                        (port::ROUTING, Some(reason)) => {
                            return Err(SessionError::Refused { what, reason });
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Waits until the radio restarts, and says whether it was seen to.
    pub async fn restarts(&mut self, within: Duration, beat: Duration) -> bool {
        let end = Instant::now() + within;
        let mut next = Instant::now() + beat;
        loop {
            match self.line.next(end.min(next)).await {
                Err(_) => return true,
                Ok(Some(Seen::Frame(frame, _))) if *frame == FromRadio::Rebooted => return true,
                Ok(Some(Seen::Text(line))) if BOOT_MARKS.iter().any(|m| line.contains(m)) => {
                    return true;
                }
                Ok(Some(_)) => {}
                Ok(None) if Instant::now() >= end => return false,
                Ok(None) => {
                    // A network radio that has restarted refuses the old connection at the next byte only.
                    next = Instant::now() + beat;
                    if self.line.write(&wire::heartbeat()).await.is_err() {
                        return true;
                    }
                }
            }
        }
    }

    /// Says goodbye, which frees a network radio's only slot at once.
    pub async fn leave(mut self) {
        // It may be gone already.
        let _ = self.line.write(&wire::disconnect()).await;
        let _ = self.line.stream.shutdown().await;
    }
}

impl Line {
    async fn greet(&mut self, name: &str) -> Result<(RadioInfo, Details), SessionError> {
        let begun = Instant::now();
        let mut handshake = Handshake::begin(Handshake::fresh_nonce(), begun);
        self.write(&wire::want_config(handshake.nonce())).await?;
        let mut named = false;
        let mut details = Details::default();
        let mut users: Vec<(NodeNum, Vec<u8>)> = Vec::new();
        loop {
            let now = Instant::now();
            if !named && now >= begun + SILENT {
                return Err(SessionError::Silent { name: name.to_owned() });
            }
            if handshake.expired(now) {
                return Err(SessionError::Incomplete { name: name.to_owned() });
            }
            if handshake.ask_again(now) {
                self.write(&wire::want_config(handshake.nonce())).await?;
            }
            let mut until = handshake.deadline();
            if !named {
                until = until.min(begun + SILENT);
            }
            let Some(seen) = self.next(until).await? else { continue };
            let (frame, kept) = match seen {
                Seen::Frame(frame, kept) => (frame, kept),
                Seen::Text(line) if !named && waits_for_download(&line) => {
                    return Err(SessionError::Bootloader { name: name.to_owned() });
                }
                Seen::Text(_) => continue,
            };
            if let FromRadio::MyInfo(_) = *frame {
                named = true;
                details = Details::default();
                users.clear();
            }
            match kept {
                Some(Kept::Device(bytes)) => details.device = Some(bytes),
                Some(Kept::Lora(bytes)) => details.lora = Some(bytes),
                // Our own is the first; the others are not needed.
                Some(Kept::User(node, bytes)) if users.len() < 4 => users.push((node, bytes)),
                Some(Kept::User(..)) | None => {}
                Some(Kept::Bluetooth(on)) => details.bluetooth = Some(on),
                Some(Kept::PowerSaving(on)) => details.power_saving = Some(on),
                Some(Kept::Managed(managed)) => details.managed = managed,
            }
            match handshake.take(*frame) {
                Progress::Going => {}
                Progress::Complete(info) => {
                    details.owner = users
                        .into_iter()
                        .find(|(node, _)| *node == info.my_node)
                        .map(|(_, bytes)| bytes);
                    return Ok((*info, details));
                }
            }
        }
    }

    /// The next thing that the radio says; `None` when there is nothing until then.
    async fn next(&mut self, until: Instant) -> Result<Option<Seen>, SessionError> {
        let mut buffer = [0; 1024];
        loop {
            if let Some(seen) = self.seen.pop_front() {
                return Ok(Some(seen));
            }
            let stalls = self.byte + STALL;
            let wake = if self.decoder.in_frame() { until.min(stalls) } else { until };
            match tokio::time::timeout_at(wake, self.stream.read(&mut buffer)).await {
                Ok(Ok(0)) => return Err(lost("the radio closed it")),
                Ok(Ok(count)) => {
                    self.byte = Instant::now();
                    self.take(buffer.get(..count).unwrap_or_default());
                }
                Ok(Err(error)) => return Err(lost(&error.to_string())),
                Err(_) if self.decoder.in_frame() && Instant::now() >= stalls => {
                    self.byte = Instant::now();
                    self.decoder.stalled();
                    self.items();
                }
                Err(_) => return Ok(None),
            }
        }
    }

    fn take(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            let taken = self.decoder.feed(rest);
            rest = rest.get(taken..).unwrap_or_default();
            if !self.items() && taken == 0 {
                return; // a fault of the decoder: lose the bytes, not the session
            }
        }
    }

    /// Everything that the decoder can give now; false if that was nothing.
    fn items(&mut self) -> bool {
        let mut found = false;
        loop {
            let mut decoded = None;
            let mut accept = |payload: &[u8]| match wire::decode(payload) {
                Ok(frame) => {
                    decoded = Some(Seen::Frame(Box::new(frame), wire_settings::kept(payload)));
                    true
                }
                Err(wire::Undecodable) => false,
            };
            let line = match self.decoder.next(&mut accept) {
                None => return found,
                Some(Item::Frame(_)) => None,
                Some(Item::Log(line)) => Some(String::from_utf8_lossy(line).into_owned()),
            };
            found = true;
            if let Some(line) = line {
                trace!(line, "the radio prints");
                self.seen.push_back(Seen::Text(line));
            }
            self.seen.extend(decoded);
        }
    }

    async fn write(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        let Some(header) = frame::header(payload.len()) else {
            return Err(lost("a message is too long for a frame"));
        };
        self.write_raw(&[header.as_slice(), payload].concat()).await
    }

    async fn write_raw(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let written = tokio::time::timeout(WRITE, async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(lost(&error.to_string())),
            Err(_) => Err(lost("it takes no bytes")),
        }
    }
}

fn lost(reason: &str) -> SessionError {
    SessionError::Lost { reason: reason.to_owned() }
}
