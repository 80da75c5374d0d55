//! One open stream: from the first byte to its end.
//!
//! Owns the timers of the stream and the order of what is written. A frame is written whole or the stream
//! is given up.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::Instant;
use tracing::{debug, trace};

use super::{Backoff, Command, Keeper};
use crate::node::{NodeNum, PacketId};
use crate::radio::LinkEvent;
use crate::radio::handshake::{Handshake, Progress};
use crate::radio::known::RefusedRadio;
use crate::radio::settings::session::{SessionError, waits_for_download};
use crate::radio::transport::Stream;
use crate::radio::wire::{self, FromRadio};
use tombolo_hw::frame::{self, Decoder, Item};

/// The radio closes a connection that is silent for 15 minutes.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// A radio with a session sends something of its own every minute; one that has silently restarted
/// answers heartbeats and nothing else.
const SIGN_OF_LIFE: Duration = Duration::from_secs(180);
/// No byte for this long inside a frame: it was no frame.
const STALL: Duration = Duration::from_secs(2);
/// A radio that takes no bytes for this long is gone.
const WRITE: Duration = Duration::from_secs(5);
/// What a boot loader of ESP32 begins a line with: the radio has restarted under an open port. Only at the
/// beginning: firmware quotes peers' texts inside its lines.
const BOOT_MARKS: [&str; 2] = ["rst:0x", "ESP-ROM:"];

/// How a stream ended.
pub(super) enum End {
    /// For good.
    Over,
    /// It will be opened again; why it ended.
    Lost(String),
    /// The handshake told that it is not our radio. Nothing more is said to it.
    Refused(RefusedRadio),
}

impl From<super::Over> for End {
    fn from(_: super::Over) -> End {
        End::Over
    }
}

enum State {
    Greeting(Box<Handshake>),
    Up { session: u64 },
}

/// The stream and all that is known of it.
pub(super) struct Session<'a> {
    keeper: &'a mut Keeper,
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    decoder: Box<Decoder>,
    state: State,
    my_node: NodeNum,
    heartbeat: Instant,
    life: Instant,
    byte: Instant,
    clock_is_set: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(keeper: &'a mut Keeper, stream: Box<dyn Stream>) -> Session<'a> {
        let (reader, writer) = tokio::io::split(stream);
        let now = Instant::now();
        Session {
            keeper,
            reader,
            writer,
            decoder: Box::new(Decoder::new()),
            state: State::Greeting(Box::new(Handshake::begin(Handshake::fresh_nonce(), now))),
            my_node: NodeNum(0),
            heartbeat: now + HEARTBEAT,
            life: now + SIGN_OF_LIFE,
            byte: now,
            clock_is_set: false,
        }
    }

    /// Stays until the end.
    pub(super) async fn run(mut self, backoff: &mut Backoff) -> End {
        match self.live(backoff).await {
            Err(end) => {
                if matches!(end, End::Over) {
                    // Frees the radio's only slot at once. It may be gone already.
                    let _ = self.write(&wire::disconnect()).await;
                    let _ = self.writer.shutdown().await;
                }
                end
            }
            Ok(never) => match never {},
        }
    }

    async fn live(&mut self, backoff: &mut Backoff) -> Result<std::convert::Infallible, End> {
        self.write_raw(&wire::FLUSH).await?;
        self.ask().await?;
        let mut buffer = [0; 1024];
        loop {
            let wake = self.wake_at();
            let cancel = self.keeper.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(End::Over),
                command = self.keeper.commands.recv() => match command {
                    Some(command) => self.command(command).await?,
                    None => return Err(End::Over),
                },
                () = tokio::time::sleep_until(wake) => self.timers(backoff).await?,
                // Last, so that a flood of bytes can hold up neither our packets nor the timers.
                read = self.reader.read(&mut buffer) => {
                    let count = read.map_err(|e| End::Lost(format!("the link was lost: {e}")))?;
                    if count == 0 {
                        return Err(End::Lost("the radio closed the link".to_owned()));
                    }
                    self.byte = Instant::now();
                    self.bytes(buffer.get(..count).unwrap_or_default(), backoff).await?;
                }
            }
        }
    }

    fn wake_at(&self) -> Instant {
        let mut wake = self.heartbeat;
        if self.decoder.in_frame() {
            wake = wake.min(self.byte + STALL);
        }
        match &self.state {
            State::Greeting(handshake) => wake.min(handshake.deadline()),
            State::Up { .. } => wake.min(self.life),
        }
    }

    async fn timers(&mut self, backoff: &mut Backoff) -> Result<(), End> {
        let now = Instant::now();
        if self.decoder.in_frame() && now >= self.byte + STALL {
            self.byte = now;
            self.decoder.stalled();
            self.items(backoff).await?;
        }
        if now >= self.heartbeat {
            self.heartbeat = now + HEARTBEAT;
            self.write(&wire::heartbeat()).await?;
            self.set_clock().await?;
        }
        match &mut self.state {
            State::Greeting(handshake) => {
                if handshake.expired(now) {
                    let name = self.keeper.connector.place();
                    let why = if handshake.is_answered() {
                        SessionError::Incomplete { name }
                    } else {
                        SessionError::Silent { name }
                    };
                    return Err(End::Lost(why.to_string()));
                }
                if handshake.ask_again(now) {
                    self.ask().await?;
                }
            }
            State::Up { .. } if now >= self.life => {
                self.greet_again("the radio has been silent for three minutes").await?;
            }
            State::Up { .. } => {}
        }
        Ok(())
    }

    /// Repeats the handshake on the same stream.
    async fn greet_again(&mut self, reason: &str) -> Result<(), End> {
        if let State::Up { .. } = self.state {
            self.keeper.current.store(0, std::sync::atomic::Ordering::Release);
            let reason = format!("{reason}; greeting it again");
            debug!("{reason}");
            self.keeper.tell(LinkEvent::Down { reason }).await?;
        }
        let now = Instant::now();
        self.state = State::Greeting(Box::new(Handshake::begin(Handshake::fresh_nonce(), now)));
        self.ask().await
    }

    async fn ask(&mut self) -> Result<(), End> {
        let State::Greeting(handshake) = &self.state else { return Ok(()) };
        let frame = wire::want_config(handshake.nonce());
        self.write(&frame).await
    }

    async fn bytes(&mut self, mut rest: &[u8], backoff: &mut Backoff) -> Result<(), End> {
        while !rest.is_empty() {
            let taken = self.decoder.feed(rest);
            rest = rest.get(taken..).unwrap_or_default();
            let found = self.items(backoff).await?;
            if taken == 0 && !found {
                // The decoder neither takes nor gives: it would be its fault. Lose the bytes, not the link.
                debug!(bytes = rest.len(), "the decoder is stuck");
                return Ok(());
            }
        }
        Ok(())
    }

    /// Everything that the decoder can give now; false if that was nothing.
    async fn items(&mut self, backoff: &mut Backoff) -> Result<bool, End> {
        let mut found = false;
        loop {
            let mut decoded = None;
            let mut accept = |payload: &[u8]| match wire::decode(payload) {
                Ok(frame) => {
                    decoded = Some(frame);
                    true
                }
                Err(wire::Undecodable) => false,
            };
            let line = match self.decoder.next(&mut accept) {
                None => return Ok(found),
                Some(Item::Frame(_)) => None,
                Some(Item::Log(line)) => Some(String::from_utf8_lossy(line).into_owned()),
            };
            found = true;
            if let Some(line) = line {
                self.line(&line).await?;
            }
            if let Some(frame) = decoded {
                self.frame(frame, backoff).await?;
            }
        }
    }

    /// A line of text between frames. It may quote peers' messages.
    async fn line(&mut self, line: &str) -> Result<(), End> {
        trace!(line, "the radio prints");
        // On the network there is no boot loader to be heard.
        let booted = !self.keeper.connector.is_tcp()
            && BOOT_MARKS.iter().any(|mark| line.trim_start().starts_with(mark));
        match &self.state {
            State::Greeting(handshake) if !handshake.is_answered() && waits_for_download(line) => {
                let name = self.keeper.connector.place();
                Err(End::Lost(SessionError::Bootloader { name }.to_string()))
            }
            // It is being asked already, and will be every five seconds until it is up.
            State::Greeting(handshake) if !handshake.is_answered() => Ok(()),
            _ if booted => self.greet_again("the radio has restarted").await,
            _ => Ok(()),
        }
    }

    async fn frame(&mut self, frame: FromRadio, backoff: &mut Backoff) -> Result<(), End> {
        match &mut self.state {
            State::Greeting(handshake) => {
                if let FromRadio::Packet(packet) = frame {
                    // It belongs to the session before, and is nonetheless somebody's message.
                    self.keeper.hold(packet);
                    return Ok(());
                }
                let Progress::Complete(info) = handshake.take(frame) else { return Ok(()) };
                let my_node = info.my_node;
                let session = self.keeper.up(*info).await?;
                self.my_node = my_node;
                self.life = Instant::now() + SIGN_OF_LIFE;
                self.clock_is_set = false;
                backoff.succeeded();
                self.state = State::Up { session };
                self.set_clock().await?;
                while let Some(packet) = self.keeper.held.pop_front() {
                    self.live_frame(FromRadio::Packet(packet)).await?;
                }
                Ok(())
            }
            State::Up { .. } => self.live_frame(frame).await,
        }
    }

    async fn live_frame(&mut self, frame: FromRadio) -> Result<(), End> {
        let event = match frame {
            FromRadio::Packet(packet) => {
                // Only a radio that has a session with us sends packets.
                self.life = Instant::now() + SIGN_OF_LIFE;
                if let Some(node) = wire::announced(&packet) {
                    self.keeper.tell(LinkEvent::Node(node)).await?;
                }
                LinkEvent::Packet(packet)
            }
            FromRadio::QueueStatus(status) => LinkEvent::QueueStatus(status),
            FromRadio::NodeInfo(node) => LinkEvent::Node(node),
            FromRadio::Notification { reply_id, text } => {
                LinkEvent::Notification { reply_id, text }
            }
            FromRadio::MyInfo(node) if node != self.my_node => {
                return self.greet_again("the radio has another number now").await;
            }
            FromRadio::Rebooted => return self.greet_again("the radio has restarted").await,
            FromRadio::Log(line) => {
                trace!(line, "the radio logs");
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.keeper.tell(event).await?;
        Ok(())
    }

    async fn command(&mut self, command: Command) -> Result<(), End> {
        let State::Up { session: current } = self.state else { return Ok(()) };
        let frame = match command {
            Command::Packet { session, packet } if session == current => {
                wire::packet(self.my_node, &packet)
            }
            Command::AddContact { session, node, name, key } if session == current => {
                wire::add_contact(self.my_node, admin_id(), node, &name, &key)
            }
            // Made for a session that is over; its owner has been told.
            _ => return Ok(()),
        };
        self.write(&frame).await
    }

    /// A radio without satellites has no clock. Only a clock that is known to be right is passed on, once a
    /// session, as soon as it is.
    async fn set_clock(&mut self) -> Result<(), End> {
        if self.clock_is_set || !matches!(self.state, State::Up { .. }) {
            return Ok(());
        }
        let Some(seconds) = (self.keeper.right_time)() else { return Ok(()) };
        self.clock_is_set = true;
        let frame = wire::set_time(self.my_node, admin_id(), seconds);
        self.write(&frame).await
    }

    async fn write(&mut self, payload: &[u8]) -> Result<(), End> {
        let Some(header) = frame::header(payload.len()) else {
            debug!(bytes = payload.len(), "a message is too long for a frame and is not written");
            return Ok(());
        };
        let mut bytes = Vec::with_capacity(header.len() + payload.len());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(payload);
        self.write_raw(&bytes).await
    }

    async fn write_raw(&mut self, bytes: &[u8]) -> Result<(), End> {
        let written = tokio::time::timeout(WRITE, async {
            self.writer.write_all(bytes).await?;
            self.writer.flush().await
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(End::Lost(format!("the link was lost: {e}"))),
            Err(_) => Err(End::Lost("the radio takes no bytes".to_owned())),
        }
    }
}

fn admin_id() -> PacketId {
    PacketId(getrandom::u32().unwrap_or(1).max(1))
}
