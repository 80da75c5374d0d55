//! What the mesh side shows of itself, and the handle through which it is asked.
//!
//! Owns the serialised forms that RPC passes on unchanged. Decides nothing.

mod answering;
mod distress;

use serde::Serialize;
use tokio::sync::{broadcast, mpsc, oneshot};

pub use self::answering::{AnsweringView, ContactView, DeniedView, Quota};
pub use self::distress::DistressView;
use super::operator::{Answer, Change, Changed, Opened, Queued, Text, Wish};
use crate::assistant::{Assurance, ToolRecord, TurnId};
use crate::node::{NodeNum, PacketId};
use crate::radio::known::{NotAccepted, RefusedRadio};

/// How sure we are that a part arrived. `Relayed` and refusals can be forged by anyone with the
/// channel key; they are shown, and never cancel anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Delivery {
    /// Not yet handed to the radio.
    Queued,
    /// Handed over, nothing heard yet.
    Sent,
    /// Another node was heard passing it on.
    Relayed,
    /// The destination's radio acknowledged it.
    Delivered,
    /// Nothing heard in three times the radio's own retry time.
    NotConfirmed,
    /// It waits, and what for.
    Waiting(String),
    /// It did not and will not arrive, and why.
    Failed(String),
    /// Withdrawn before it was sent.
    Cancelled,
}

/// What happens, as it happens: for the demo, the log and the page. The channel is bounded (512): a
/// receiver that lags loses the oldest and is told so.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum MeshEvent {
    /// The link came up or went down.
    Link {
        /// Up?
        up: bool,
        /// For people.
        detail: String,
    },
    /// A text that could have been a question was heard.
    Heard {
        /// The sender's number, a claim.
        from: NodeNum,
        /// The contact's name, or the node id.
        name: String,
        /// How sure we are.
        assurance: Assurance,
        /// The channel's name; `None` for a direct message.
        channel: Option<String>,
        /// The text.
        text: String,
        /// `None` when it was accepted, else why it is not answered.
        ignored: Option<String>,
    },
    /// A model is being asked.
    TurnStarted {
        /// The turn.
        turn_id: TurnId,
        /// Who asked.
        name: String,
    },
    /// A turn has ended and its answer is planned.
    TurnEnded {
        /// The turn.
        turn_id: TurnId,
        /// Is there an answer, and not only a line that says why there is none?
        answered: bool,
        /// The leg that answered.
        backend: String,
        /// The tool ledger.
        tools: Vec<ToolRecord>,
        /// Milliseconds in all.
        millis: u64,
        /// Parts of the answer.
        parts: usize,
    },
    /// A part was handed to the radio.
    PartSent {
        /// The reply: the turn's id.
        reply: TurnId,
        /// To whom.
        name: String,
        /// Its packet.
        id: PacketId,
        /// From 1.
        part: usize,
        /// Of how many.
        of: usize,
        /// Bytes of text.
        bytes: usize,
        /// Its time on air, one transmission.
        airtime_us: u32,
        /// The text.
        text: String,
    },
    /// Something was learnt of a part.
    PartState {
        /// The reply.
        reply: TurnId,
        /// From 1.
        part: usize,
        /// Of how many.
        of: usize,
        /// What.
        delivery: Delivery,
    },
    /// Sending waits, and why; or goes on (`None`).
    Paused {
        /// For people.
        reason: Option<String>,
    },
    /// A peer sent the code of an open pairing: its key is pinned and confirmed now.
    Paired {
        /// The number it came under.
        node: NodeNum,
        /// The contact's name.
        name: String,
        /// Of its key.
        fingerprint: String,
    },
    /// A distress text came, or a person cleared one. Its words are in `mesh.distress`.
    Distress {
        /// Names it.
        id: TurnId,
        /// The sender's number, a claim.
        from: NodeNum,
        /// The contact's name, or the node id.
        name: String,
        /// How sure we are.
        assurance: Assurance,
        /// A person has seen it.
        cleared: bool,
    },
    /// The operator changed who is answered.
    Changed {
        /// Role and login.
        by: String,
        /// A sentence, as in `changes.log`.
        what: String,
    },
    /// Something that the operator should know: a foreign key, a replay, a downgrade, a flood.
    Security {
        /// A word: `foreign_key`, `replay`, `downgrade`, `unverified_claim`, `spoofed_sender`, `new_pin`, `moved`,
        /// `loop`, `pairing`.
        kind: String,
        /// The number it came under, a claim.
        from: NodeNum,
        /// For people; no message text.
        detail: String,
    },
}

/// One row of `mesh.messages`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageView {
    /// Unix milliseconds.
    pub at: u64,
    /// From a peer to us (`in`) or from us (`out`).
    pub direction: &'static str,
    /// The peer's number, a claim.
    pub node: NodeNum,
    /// The contact's name, or the node id.
    pub name: String,
    /// How sure we are.
    pub assurance: Assurance,
    /// The channel's name; `None` for a direct message.
    pub channel: Option<String>,
    /// The text; a confirmation code in it is masked.
    pub text: String,
    /// Of an outgoing part, what is known.
    pub delivery: Option<Delivery>,
    /// Of an incoming text that is not answered, why.
    pub ignored: Option<String>,
    /// Its packet.
    pub id: PacketId,
    /// dB, of an incoming text's last hop, where the radio says.
    pub snr: Option<f32>,
    /// dBm, the same.
    pub rssi: Option<i32>,
}

/// One row of `mesh.nodes`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// Its number.
    pub node: NodeNum,
    /// Untrusted text.
    pub long_name: String,
    /// Untrusted text.
    pub short_name: String,
    /// The fingerprint of the key that the radio holds for it.
    pub fingerprint: Option<String>,
    /// The contact's name when it is one.
    pub contact: Option<String>,
    /// `pinned`, `unconfirmed`, `foreign_key`, `suspended`, `denied` or `stranger`.
    pub standing: &'static str,
    /// Unix seconds, 0 for never.
    pub last_heard: u64,
    /// dB.
    pub snr: Option<f32>,
    /// dBm of the last packet heard, where the radio says.
    pub rssi: Option<i32>,
    /// Hops, where known.
    pub hops: Option<u32>,
    /// Percent; above 100 means mains.
    pub battery: Option<u32>,
}

/// `mesh.airtime`
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct AirtimeView {
    /// Sent by us in the rolling hour, milliseconds: the higher of ledger and radio.
    pub used_ms: u64,
    /// What the law allows in an hour, milliseconds; `None` while the region is unset.
    pub limit_ms: Option<u64>,
    /// What own replies may use of it, milliseconds.
    pub share_ms: Option<u64>,
    /// Percent of the last minute in which the channel was busy, where the radio says so.
    pub channel_utilization: Option<f32>,
    /// The radio's own figure for the last hour, percent.
    pub air_util_tx: Option<f32>,
    /// Seconds until a full part fits again; 0 when it fits now.
    pub recovers_in_s: u64,
    /// Why nothing is sent now.
    pub paused: Option<String>,
    /// What the operator should know, for instance that the radio gives no telemetry.
    pub notes: Vec<String>,
}

/// `mesh.status`
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct MeshStatus {
    /// Is the link up?
    pub connected: bool,
    /// For people: the state of the link, or what is being waited for.
    pub link: String,
    /// The device, or `host:port`; as long as there is a radio.
    pub port: Option<String>,
    /// Our own number.
    pub my_node: Option<NodeNum>,
    /// Our own long name.
    pub owner: String,
    /// The radio's key, for people to compare.
    pub fingerprint: Option<String>,
    /// The radio's firmware.
    pub firmware: String,
    /// What is wrong with that firmware.
    pub firmware_note: Option<String>,
    /// The region's name.
    pub region: String,
    /// The preset's name, or the raw modem settings.
    pub modem: String,
    /// Where it transmits, MHz; `None` where that can't be told.
    pub frequency_mhz: Option<f64>,
    /// The radio's role, by the protobufs' name.
    pub role: Option<String>,
    /// Licensed mode: everything is sent in the clear.
    pub licensed: bool,
    /// Has the operator stopped all answers?
    pub stopped: bool,
    /// Another radio than the one used last, which is not used until it is accepted.
    pub refused_radio: Option<RefusedRadio>,
    /// Warnings: firmware too old, region unset…
    pub warnings: Vec<String>,
    /// Turns running and waiting.
    pub turns_running: usize,
    /// Accepted, not yet running.
    pub turns_waiting: usize,
    /// Parts that wait to leave.
    pub parts_waiting: usize,
    /// Answers kept for peers who are away or have not asked for `more`.
    pub kept_answers: usize,
    /// Distress texts that nobody has cleared.
    pub distress: usize,
    /// The airtime, as `mesh.airtime`.
    pub airtime: AirtimeView,
}

/// `mesh.stop-all`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StopView {
    /// Is everything stopped now?
    pub stopped: bool,
    /// Questions that were ended without an answer.
    pub turns: usize,
    /// Parts that were withdrawn.
    pub parts: usize,
}

/// How many entries each structure in memory holds, by its name. Every one of them is bounded.
pub type Sizes = Vec<(&'static str, usize)>;

/// A question to the mesh side. Each is answered at once, from memory.
#[derive(Debug)]
pub enum MeshQuery {
    /// `mesh.status`
    Status(oneshot::Sender<MeshStatus>),
    /// `mesh.nodes`
    Nodes(oneshot::Sender<Vec<NodeView>>),
    /// `mesh.messages`, the newest last.
    Messages(usize, oneshot::Sender<Vec<MessageView>>),
    /// `mesh.airtime`
    Airtime(oneshot::Sender<AirtimeView>),
    /// The mesh's part of `mesh.assistant-status`.
    Answering(oneshot::Sender<AnsweringView>),
    /// What is held in memory, for measurements.
    Sizes(oneshot::Sender<Sizes>),
    /// `mesh.stop-all`: stop everything (`false`), or let answers leave again (`true`).
    StopAll(bool, oneshot::Sender<StopView>),
    /// The radio's clock against ours, seconds; positive where it is ahead.
    RadioDrift(oneshot::Sender<Option<i64>>),
    /// `mesh.radio-accept`: the fingerprint of the radio that is refused now.
    AcceptRadio(String, oneshot::Sender<Result<MeshStatus, NotAccepted>>),
    /// `mesh.assistant-configure` and `mesh.peer-accept-key`; written to the disk before it is answered.
    Change(Box<Wish<Change>>, Answer<Changed>),
    /// `mesh.pair`
    Pair(Wish<Option<String>>, Answer<Opened>),
    /// `mesh.send`
    SendText(Wish<Text>, Answer<Queued>),
    /// `mesh.distress`
    Distress(oneshot::Sender<Vec<DistressView>>),
    /// `mesh.distress-clear`
    ClearDistress(Wish<TurnId>, Answer<Vec<DistressView>>),
    /// Settings that were read again.
    Reconfigure(
        Box<(crate::config::MeshConfig, crate::config::AirtimeConfig)>,
        oneshot::Sender<()>,
    ),
}

/// How others ask the mesh side. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MeshHandle {
    /// Bounded (64): a caller waits when it is full.
    pub queries: mpsc::Sender<MeshQuery>,
    /// What happens.
    pub events: broadcast::Sender<MeshEvent>,
}

/// The mesh side has stopped: the daemon is shutting down.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the mesh side has stopped")]
pub struct MeshGone;

impl MeshHandle {
    /// `mesh.status`
    pub async fn status(&self) -> Result<MeshStatus, MeshGone> {
        self.ask(MeshQuery::Status).await
    }

    /// `mesh.nodes`
    pub async fn nodes(&self) -> Result<Vec<NodeView>, MeshGone> {
        self.ask(MeshQuery::Nodes).await
    }

    /// `mesh.messages`: at most `limit`, the newest last.
    pub async fn messages(&self, limit: usize) -> Result<Vec<MessageView>, MeshGone> {
        self.ask(|reply| MeshQuery::Messages(limit, reply)).await
    }

    /// `mesh.airtime`
    pub async fn airtime(&self) -> Result<AirtimeView, MeshGone> {
        self.ask(MeshQuery::Airtime).await
    }

    /// The mesh's part of `mesh.assistant-status`.
    pub async fn answering(&self) -> Result<AnsweringView, MeshGone> {
        self.ask(MeshQuery::Answering).await
    }

    /// How far the radio's clock is ahead of ours, seconds; `None` where it has not shown its time lately.
    pub async fn radio_drift(&self) -> Result<Option<i64>, MeshGone> {
        self.ask(MeshQuery::RadioDrift).await
    }

    /// How much is held in memory.
    pub async fn sizes(&self) -> Result<Sizes, MeshGone> {
        self.ask(MeshQuery::Sizes).await
    }

    /// `mesh.stop-all`: nothing is accepted and nothing leaves until that is taken back with `resume`.
    pub async fn stop_all(&self, resume: bool) -> Result<StopView, MeshGone> {
        self.ask(|reply| MeshQuery::StopAll(resume, reply)).await
    }

    /// `mesh.radio-accept`: the radio that is refused now is used from now on.
    ///
    /// # Errors
    /// Why it is not, where the mesh side runs.
    pub async fn accept_radio(
        &self,
        fingerprint: String,
    ) -> Result<Result<MeshStatus, NotAccepted>, MeshGone> {
        self.ask(|reply| MeshQuery::AcceptRadio(fingerprint, reply)).await
    }

    /// Takes settings that were read again.
    pub async fn reconfigure(
        &self,
        mesh: crate::config::MeshConfig,
        airtime: crate::config::AirtimeConfig,
    ) -> Result<(), MeshGone> {
        self.ask(|reply| MeshQuery::Reconfigure(Box::new((mesh, airtime)), reply)).await
    }

    pub(super) async fn ask<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> MeshQuery,
    ) -> Result<T, MeshGone> {
        let (sender, receiver) = oneshot::channel();
        self.queries.send(query(sender)).await.map_err(|_| MeshGone)?;
        receiver.await.map_err(|_| MeshGone)
    }
}
