//! The mesh service: the one task that everything of the mesh side goes through.
//!
//! Owns the order of things: packets in, decisions, turns, replies, packets out. Never waits for anything slow: a
//! model runs in a task of its own and reports by a bounded channel, the disk is synced elsewhere, and what the link
//! can't take now is kept. What is decided is written in the neighbouring modules; here it is only joined.

mod accept;
mod answerer;
mod confirm;
mod decisions;
mod distress;
mod halt;
mod link;
mod orders;
mod outgoing;
mod pairing;
mod sending;
mod shown;
mod turns;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::budget::Budgets;
use super::changes::ChangeLog;
use super::distress::DistressBook;
use super::drift::Drift;
use super::identity::Contacts;
use super::inbox::Ignored;
use super::journal::{QuestionJournal, Unsynced};
use super::loops::LoopGuard;
use super::messages::Messages;
use super::nodes::Nodes;
use super::outbox::Outbox;
use super::pairing::Pairing;
use super::queue::Queue;
use super::seen::Seen;
use super::trigger::Trigger;
use super::view::{MeshEvent, MeshHandle, MeshQuery};
use crate::assistant::grants::Standing;
use crate::assistant::{CallerScope, PeerId, TurnId};
use crate::clock::{self, Clock, Now};
use crate::config::{AirtimeConfig, MeshConfig};
use crate::node::{NodeNum, PublicKey};
use crate::radio::known::{NotAccepted, RefusedRadio};
use crate::radio::link::{LinkHandle, NotSent};
use crate::radio::{LinkEvent, Outbound, RadioInfo};
use crate::store::StoreError;

pub use answerer::{Answer, Answerer, Place, Settling};
use outgoing::{Shown, Unsubmitted};
use turns::{Report, Turn};

/// Queries that may wait; a caller waits when it is full.
const QUERIES: usize = 64;
/// Events that a slow listener may be behind before it loses the oldest.
const EVENTS: usize = 512;
/// Ends of turns that may wait. No more turns than that run, so a turn never waits here.
const RESULTS: usize = 16;

/// What takes packets for the radio. Never waits.
pub trait RadioSink: Send + Sync + 'static {
    /// Hands a packet to the session that it was made for.
    fn send(&self, session: u64, packet: Outbound) -> Result<(), NotSent>;

    /// Keeps a contact in the radio's own table, so that it can encrypt to the pinned key.
    fn add_contact(
        &self,
        session: u64,
        node: NodeNum,
        name: &str,
        key: PublicKey,
    ) -> Result<(), NotSent>;

    /// Accepts the radio that is refused now. A sink without a radio of its own refuses none.
    ///
    /// # Errors
    /// When none is refused, or another one.
    fn accept_radio(&self, _fingerprint: &str) -> Result<(), NotAccepted> {
        Err(NotAccepted::NoneRefused)
    }
}

impl RadioSink for LinkHandle {
    fn send(&self, session: u64, packet: Outbound) -> Result<(), NotSent> {
        LinkHandle::send(self, session, packet)
    }

    fn add_contact(
        &self,
        session: u64,
        node: NodeNum,
        name: &str,
        key: PublicKey,
    ) -> Result<(), NotSent> {
        LinkHandle::add_contact(self, session, node, name, key)
    }

    fn accept_radio(&self, fingerprint: &str) -> Result<(), NotAccepted> {
        LinkHandle::accept_radio(self, fingerprint)
    }
}

/// What the service is made of.
pub struct MeshParts {
    /// `[mesh]`
    pub mesh: MeshConfig,
    /// `[airtime]`
    pub airtime: AirtimeConfig,
    /// Where questions, answers and pins are kept.
    pub data_dir: PathBuf,
    /// Who answers.
    pub answerer: Arc<dyn Answerer>,
    /// The way to the radio.
    pub radio: Arc<dyn RadioSink>,
    /// What the link tells. The service reads it at once.
    pub events: mpsc::Receiver<LinkEvent>,
    /// The clocks.
    pub clock: Clock,
    /// Ends the service. Turns that run then are asked again after the next start.
    pub cancel: CancellationToken,
    /// Counts the tasks.
    pub tracker: TaskTracker,
}

/// Starts the service: reads the data folder, takes up what an earlier run accepted, and runs until cancelled.
pub fn spawn(parts: MeshParts) -> Result<MeshHandle, StoreError> {
    let now = parts.clock.now();
    let (queries, query_inbox) = mpsc::channel(QUERIES);
    let (events, _) = broadcast::channel(EVENTS);
    let (results, result_inbox) = mpsc::channel(RESULTS);
    let (questions, left_over, broken) = QuestionJournal::open(&parts.data_dir)?;
    for path in broken {
        tracing::warn!(path = %path.display(), "a question on disk could not be read; set aside");
    }
    let AirtimeConfig { share, max_parts } = parts.airtime;
    let contacts = Contacts::open(&parts.data_dir, &parts.mesh.allowed_contacts)?;
    let mut mesh = Mesh {
        trigger: Trigger::new(&parts.mesh.trigger),
        config: contacts.effective(&parts.mesh),
        configured: parts.mesh,
        contacts,
        pairing: Pairing::default(),
        changes: ChangeLog::open(&parts.data_dir)?,
        distress: DistressBook::open(&parts.data_dir)?,
        seen: Seen::open(&parts.data_dir, now)?,
        outbox: Outbox::open(&parts.data_dir, share, max_parts, now, &clock::boot_id())?,
        questions,
        data_dir: parts.data_dir,
        nodes: Nodes::default(),
        messages: Messages::default(),
        budgets: Budgets::default(),
        queue: Queue::default(),
        unsynced: Unsynced::default(),
        radio: None,
        up: false,
        link: "waiting for the radio".to_owned(),
        refused: None,
        drift: Drift::default(),
        kept_in_radio: HashSet::new(),
        lost_by_radio: HashSet::new(),
        contacts_due_ms: None,
        turns: HashMap::new(),
        turn_ms: turns::FIRST_GUESS_MS,
        shown: Vec::new(),
        unsubmitted: Vec::new(),
        retry_at_ms: None,
        handed_over: Vec::new(),
        told: HashMap::new(),
        loops: LoopGuard::default(),
        told_contacts: None,
        forget_until: HashMap::new(),
        forgetting: HashMap::new(),
        asking_around: HashSet::new(),
        stopped: false,
        answerer: parts.answerer,
        sink: parts.radio,
        results,
        events: events.clone(),
        cancel: parts.cancel,
        tracker: parts.tracker.clone(),
    };
    mesh.take_up(left_over, now);
    if mesh.data_dir.join(halt::STOPPED_FILE).exists() {
        mesh.stop_all(false, now);
    }
    parts.tracker.spawn(run(mesh, parts.clock, parts.events, query_inbox, result_inbox));
    Ok(MeshHandle { queries, events })
}

/// May it be answered, as far as loops go?
type LoopCheck = Result<(), Ignored>;

/// The state of the mesh side.
struct Mesh {
    /// What is in force: the configuration, and what the operator decided over it.
    config: MeshConfig,
    /// The configuration alone.
    configured: MeshConfig,
    pairing: Pairing,
    changes: ChangeLog,
    distress: DistressBook,
    trigger: Trigger,
    contacts: Contacts,
    nodes: Nodes,
    messages: Messages,
    budgets: Budgets,
    queue: Queue,
    seen: Seen,
    questions: QuestionJournal,
    outbox: Outbox,
    unsynced: Unsynced,
    data_dir: PathBuf,
    /// Of the last handshake, also while the link is down.
    radio: Option<Arc<RadioInfo>>,
    up: bool,
    /// For people: the state of the link.
    link: String,
    /// The radio that is on the port and not used.
    refused: Option<RefusedRadio>,
    drift: Drift,
    /// Contacts that the radio was told of in this session.
    kept_in_radio: HashSet<(NodeNum, PublicKey)>,
    /// Contacts that it has lost in this session and was told of again.
    lost_by_radio: HashSet<NodeNum>,
    /// When further contacts are told.
    contacts_due_ms: Option<u64>,
    /// Accepted and not ended.
    turns: HashMap<TurnId, Turn>,
    /// How long a turn takes, a moving average.
    turn_ms: u64,
    /// To whom replies went, for the message list; bounded, the oldest first.
    shown: Vec<(TurnId, Shown)>,
    /// Ends of turns that could not be stored; tried again, bounded.
    unsubmitted: Vec<Unsubmitted>,
    retry_at_ms: Option<u64>,
    /// Ends of turns whose answers are stored, to be recorded before anything else is looked at.
    handed_over: Vec<(Unsubmitted, usize)>,
    /// Security events that were told a moment ago.
    told: HashMap<(&'static str, NodeNum), u64>,
    loops: LoopGuard,
    /// The contacts as they were last told to the assistant.
    told_contacts: Option<Vec<Standing>>,
    /// Contacts who said `forget` once, and until when the second counts.
    forget_until: HashMap<PeerId, u64>,
    /// Turns that still run though their peer wants everything deleted.
    forgetting: HashMap<TurnId, CallerScope>,
    /// A `status` waits until the model servers were asked; bounded by the budgets of those who ask.
    asking_around: HashSet<TurnId>,
    /// The operator has stopped everything.
    stopped: bool,
    answerer: Arc<dyn Answerer>,
    sink: Arc<dyn RadioSink>,
    results: mpsc::Sender<Report>,
    events: broadcast::Sender<MeshEvent>,
    cancel: CancellationToken,
    tracker: TaskTracker,
}

async fn run(
    mut mesh: Mesh,
    clock: Clock,
    mut link: mpsc::Receiver<LinkEvent>,
    mut queries: mpsc::Receiver<MeshQuery>,
    mut results: mpsc::Receiver<Report>,
) {
    let cancel = mesh.cancel.clone();
    let mut queries_open = true;
    loop {
        let wake = mesh.step(clock.now());
        if !mesh.handed_over.is_empty() {
            // Once round the runtime: the link writes the answer first.
            tokio::task::yield_now().await;
            mesh.tidy(clock.now());
        }
        let sleep = async {
            match wake {
                Some(at) => tokio::time::sleep_until(clock.instant_at(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Before everything: a turn that the shutdown stops must not be taken for one that its peer stopped.
            biased;
            () = cancel.cancelled() => return,
            Some(report) = results.recv() => match report {
                Report::Turn(finished) => mesh.finished(finished, clock.now()),
                Report::Model(asker, place) => mesh.report_status(&asker, place, clock.now()),
                Report::Decided(asker, words) => mesh.report_decided(&asker, words, clock.now()),
            },
            event = link.recv() => match event {
                Some(event) => mesh.link_event(event, clock.now()),
                // Deaf and dumb for good: better an end that a supervisor sees.
                None => {
                    tracing::error!("the link's task has ended by itself");
                    return;
                }
            },
            query = queries.recv(), if queries_open => match query {
                Some(query) => mesh.query(query, clock.now()),
                None => queries_open = false,
            },
            () = sleep => {}
        }
    }
}

impl Mesh {
    /// Does everything that can be done now; gives the time at which there is more to do.
    fn step(&mut self, now: Now) -> Option<u64> {
        self.tell_contacts();
        self.start_turns(now);
        self.react(now);
        self.retry_unsubmitted(now);
        let next_prepared = self.prepare(now);
        let next_part = self.pump(now);
        self.keep_more_contacts_in_radio(now);
        self.unsynced.sync(now);
        [
            next_part,
            next_prepared,
            self.next_reaction_ms(),
            self.unsynced.due_ms(),
            self.retry_at_ms,
            self.contacts_due_ms,
        ]
        .into_iter()
        .flatten()
        .min()
        // Never a busy loop, whatever a part answers.
        .map(|at| at.max(now.mono_ms.saturating_add(1)))
    }

    fn reconfigure(&mut self, config: MeshConfig, airtime: &AirtimeConfig, now: Now) {
        self.trigger = Trigger::new(&config.trigger);
        self.contacts.configure(&config.allowed_contacts);
        self.outbox.configure(airtime.share, airtime.max_parts);
        self.config = self.contacts.effective(&config);
        self.configured = config;
        self.stop_those_no_longer_answered();
        self.keep_contacts_in_radio(now);
    }

    /// Tells whoever listens; that nobody does is fine.
    fn tell(&self, event: MeshEvent) {
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests;
