//! The link: one task that owns the way to the radio and keeps it open.
//!
//! Owns opening, the handshake, the heartbeat, the proof that the radio is alive, and coming back. Only
//! this task reads or writes the stream. Must not look into a message, and never decides what is sent.

mod session;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::session::{End, Session};
use super::known::{KnownRadio, NotAccepted, RefusedRadio};
use super::settings::watch::{self, Watch};
use super::system_clock::{self, RightTime};
use super::transport::Connector;
use super::{Inbound, LinkEvent, Outbound, RadioInfo};
use crate::config::RadioSettings;
use crate::node::{NodeNum, PublicKey};

/// Events that may wait. When it is full the link stops reading, and the radio drops.
const EVENTS: usize = 256;
/// Packets that may wait to be written. When it is full, `send` says so and the caller keeps the packet.
const COMMANDS: usize = 64;
/// Packets that came while a handshake was going on, and wait for its end. No radio keeps more for its
/// client; should one, the oldest goes, as it does in the radio.
const HELD: usize = 64;
/// The first try to come back comes after this.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// No try waits longer than this; a radio that is refused is looked at again after it.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// On the network looking takes the connection away from whoever uses that radio.
const LOOK_ON_TCP: Duration = Duration::from_secs(300);
/// A link that ends within this time of its success may have been taken by another client.
const SHORT_LIFE: Duration = Duration::from_secs(30);
/// From this many short lives in a row on, it probably was.
const EVICTIONS: u32 = 3;

/// The link did not take a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The session that the packet was made for is over.
    #[error("the link to the radio is down")]
    Down,
    /// Too many packets wait already.
    #[error("the link to the radio is busy")]
    Full,
}

/// A link that runs.
#[derive(Debug)]
pub struct Link {
    /// How to send.
    pub handle: LinkHandle,
    /// What happens.
    pub events: mpsc::Receiver<LinkEvent>,
}

/// How to send. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    commands: mpsc::Sender<Command>,
    // 0 while the link is down.
    session: Arc<AtomicU64>,
    known: Arc<KnownRadio>,
}

/// What the task is asked to write.
#[derive(Debug)]
enum Command {
    Packet { session: u64, packet: Outbound },
    AddContact { session: u64, node: NodeNum, name: String, key: PublicKey },
}

impl LinkHandle {
    /// Hands over a packet made for that session. Taken does not mean written: a `Down` that follows
    /// leaves its fate unknown.
    pub fn send(&self, session: u64, packet: Outbound) -> Result<(), NotSent> {
        self.command(session, Command::Packet { session, packet })
    }

    /// Keeps a node and its key in the radio's own table: without an entry the radio can't encrypt to it.
    pub fn add_contact(
        &self,
        session: u64,
        node: NodeNum,
        name: &str,
        key: PublicKey,
    ) -> Result<(), NotSent> {
        self.command(session, Command::AddContact { session, node, name: name.to_owned(), key })
    }

    /// Accepts the radio that is refused now; it is opened again at once.
    ///
    /// # Errors
    /// When none is refused, or another one than that.
    pub fn accept_radio(&self, fingerprint: &str) -> Result<(), NotAccepted> {
        self.known.accept(fingerprint)
    }

    fn command(&self, session: u64, command: Command) -> Result<(), NotSent> {
        if session == 0 || self.session.load(Ordering::Acquire) != session {
            return Err(NotSent::Down);
        }
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotSent::Full,
            mpsc::error::TrySendError::Closed(_) => NotSent::Down,
        })
    }
}

/// What a link is made of.
pub struct LinkParts {
    /// The way to the radio.
    pub connector: Connector,
    /// What is wanted of the radio: what differs is said after each handshake, and written before the first one
    /// where the settings say so.
    pub settings: RadioSettings,
    /// Which radio may be used.
    pub known: Arc<KnownRadio>,
    /// The time, where it is known to be right.
    pub right_time: RightTime,
    /// Ends the link.
    pub cancel: CancellationToken,
    /// Counts the task.
    pub tracker: TaskTracker,
}

impl LinkParts {
    /// For any radio, of which nothing is wanted.
    pub fn plain(
        connector: Connector,
        cancel: CancellationToken,
        tracker: &TaskTracker,
    ) -> LinkParts {
        LinkParts {
            connector,
            settings: RadioSettings::default(),
            known: Arc::new(KnownRadio::any()),
            right_time: system_clock::unknown(),
            cancel,
            tracker: tracker.clone(),
        }
    }
}

/// Starts a link to any radio, of which nothing is wanted.
pub fn spawn(connector: Connector, cancel: CancellationToken, tracker: &TaskTracker) -> Link {
    start(LinkParts::plain(connector, cancel, tracker))
}

/// Starts the task. It ends when `cancel` is cancelled, after finishing the frame that it is writing and
/// saying goodbye to the radio.
pub fn start(parts: LinkParts) -> Link {
    let LinkParts { connector, settings, known, right_time, cancel, tracker } = parts;
    let (commands, commands_out) = mpsc::channel(COMMANDS);
    let (events_in, events) = mpsc::channel(EVENTS);
    let session = Arc::new(AtomicU64::new(0));
    let keeper = Keeper {
        connector,
        cancel,
        events: events_in,
        commands: commands_out,
        current: session.clone(),
        sessions: 0,
        radio: None,
        held: VecDeque::new(),
        right_time,
        known: known.clone(),
        settings: Watch::new(settings),
    };
    tracker.spawn(keeper.run());
    Link { handle: LinkHandle { commands, session, known }, events }
}

/// The task.
struct Keeper {
    connector: Connector,
    cancel: CancellationToken,
    events: mpsc::Sender<LinkEvent>,
    commands: mpsc::Receiver<Command>,
    current: Arc<AtomicU64>,
    sessions: u64,
    /// The last radio's number and key.
    radio: Option<(NodeNum, Option<PublicKey>)>,
    held: VecDeque<Inbound>,
    right_time: RightTime,
    known: Arc<KnownRadio>,
    settings: Watch,
}

/// Why the task ends for good: it was told to, or nobody listens any more.
struct Over;

impl Keeper {
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let reason = match self.once(&mut backoff).await {
                End::Over => return,
                End::Lost(reason) => reason,
                End::Refused(radio) => {
                    if self.refused(radio, &mut backoff).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            self.known.gone();
            self.current.store(0, Ordering::Release);
            let wait = backoff.next();
            let mut words = format!("{reason}; trying again in {:.1} s", wait.as_secs_f32());
            if backoff.evicted() && self.connector.is_tcp() {
                words.push_str(". Another client may be taking the radio's only connection");
            }
            // The same reason again and again is said once above debug.
            if backoff.repeats(&reason) {
                tracing::debug!(radio = self.connector.name(), "{words}");
            } else {
                warn!(radio = self.connector.name(), "{words}");
            }
            if self.tell(LinkEvent::Down { reason: words }).await.is_err() {
                return;
            }
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Opens, and stays until the end. Returns why it ended.
    async fn once(&mut self, backoff: &mut Backoff) -> End {
        if self.settings.has_to_apply() {
            // Not dropped half-way: it ends by itself, at the border of a frame.
            match self.settings.apply(&self.connector, &self.known, &self.cancel).await {
                Ok(()) => {}
                Err(watch::NotApplied::Away(reason)) => return End::Lost(reason),
                Err(watch::NotApplied::Refused(radio)) => return End::Refused(radio),
            }
        }
        let opened = tokio::select! {
            () = self.cancel.cancelled() => return End::Over,
            opened = self.connector.open() => opened,
        };
        let stream = match opened {
            Ok(stream) => stream,
            Err(error) => return End::Lost(error.to_string()),
        };
        let end = Session::new(self, stream).run(backoff).await;
        if !matches!(end, End::Over) {
            backoff.ended(self.connector.is_tcp());
        }
        end
    }

    /// Another radio is on the port: it is left alone until it is accepted, and looked at again from time to time,
    /// for the right one may be back.
    async fn refused(&mut self, radio: RefusedRadio, backoff: &mut Backoff) -> Result<(), Over> {
        self.current.store(0, Ordering::Release);
        // What came from it is nobody's.
        self.held.clear();
        let words = radio.to_string();
        if backoff.repeats(&words) {
            tracing::debug!(radio = self.connector.name(), "{words}");
        } else {
            warn!(radio = self.connector.name(), "{words}");
        }
        self.tell(LinkEvent::Refused(radio)).await?;
        let wait = if self.connector.is_tcp() { LOOK_ON_TCP } else { LAST_RETRY };
        tokio::select! {
            () = self.cancel.cancelled() => Err(Over),
            () = self.known.accepted() => Ok(()),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// Tells the mesh side; waits while it is behind, which is what stops the reading.
    async fn tell(&self, event: LinkEvent) -> Result<(), Over> {
        tokio::select! {
            () = self.cancel.cancelled() => Err(Over),
            sent = self.events.send(event) => sent.map_err(|_| Over),
        }
    }

    /// A new session begins with a handshake that is complete, with the radio that was used last.
    async fn up(&mut self, mut info: RadioInfo) -> Result<u64, End> {
        self.known.admit(&info).map_err(End::Refused)?;
        self.sessions += 1;
        info.session = self.sessions;
        info.port = self.connector.place();
        let radio = Some((info.my_node, info.public_key));
        if self.radio.is_some() && self.radio != radio {
            self.held.clear(); // addressed to another radio
        }
        self.radio = radio;
        // What was handed over for an earlier session must never be written in this one.
        while self.commands.try_recv().is_ok() {}
        self.current.store(self.sessions, Ordering::Release);
        info!(
            radio = self.connector.name(),
            node = %info.my_node,
            firmware = %info.firmware,
            session = self.sessions,
            "the link is up"
        );
        self.settings.report(&self.connector, &info);
        self.tell(LinkEvent::Up(Arc::new(info))).await?;
        Ok(self.sessions)
    }
}

impl Keeper {
    /// Keeps a packet for the session that is being made.
    fn hold(&mut self, packet: Inbound) {
        if self.held.len() == HELD {
            warn!("more packets than can be held until the handshake is done; the oldest is lost");
            self.held.pop_front();
        }
        self.held.push_back(packet);
    }
}

/// How long to wait before the next try.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
    short_lives: u32,
    success: Option<Instant>,
    said: String,
}

impl Backoff {
    /// The handshake was complete.
    fn succeeded(&mut self) {
        // A handshake repeated on the same stream doesn't make the stream younger.
        self.success.get_or_insert_with(Instant::now);
        self.failures = 0;
        self.said.clear();
    }

    /// The stream ended. On TCP a short life counts: two clients that come back at once would evict each
    /// other for ever.
    fn ended(&mut self, tcp: bool) {
        let Some(success) = self.success.take() else { return };
        if tcp && success.elapsed() < SHORT_LIFE {
            self.short_lives += 1;
            if self.evicted() {
                self.failures = self.short_lives;
            }
        } else {
            self.short_lives = 0;
        }
    }

    fn evicted(&self) -> bool {
        self.short_lives >= EVICTIONS
    }

    fn repeats(&mut self, reason: &str) -> bool {
        let same = self.said == reason;
        reason.clone_into(&mut self.said);
        same
    }

    /// 0.5, 1, 2 … 30 seconds.
    fn next(&mut self) -> Duration {
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(6)).min(LAST_RETRY);
        self.failures = self.failures.saturating_add(1);
        wait
    }
}
