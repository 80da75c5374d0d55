//! The radio: one open connection to a Meshtastic device, in this program's own words.
//!
//! Owns the types that the mesh side sees of a radio. Wire types (protobuf) stay inside this module.
//! Must not decide anything about a message: who sent it and what it may do is `mesh`'s matter.

pub mod discovery;
pub mod handshake;
pub mod known;
pub mod link;
pub mod settings;
pub mod station;
pub mod system_clock;
pub mod transport;
pub mod wire;

use crate::node::{NodeNum, PacketId, PublicKey};

/// The port numbers that this program reads or writes (`PortNum` of Meshtastic's protobufs).
pub mod port {
    /// UTF-8 text.
    pub const TEXT_MESSAGE: i32 = 1;
    /// A position.
    pub const POSITION: i32 = 3;
    /// Names and key of a node.
    pub const NODEINFO: i32 = 4;
    /// Acks and refusals.
    pub const ROUTING: i32 = 5;
    /// Settings of a radio.
    pub const ADMIN: i32 = 6;
    /// Device metrics and the like.
    pub const TELEMETRY: i32 = 67;
}

/// Reasons of a refusal (`Routing.Error`), by the names of the protobufs.
pub mod routing {
    #![allow(missing_docs)] // the names are the protobufs' own
    pub const NONE: i32 = 0;
    pub const NO_ROUTE: i32 = 1;
    pub const GOT_NAK: i32 = 2;
    pub const TIMEOUT: i32 = 3;
    pub const NO_INTERFACE: i32 = 4;
    pub const MAX_RETRANSMIT: i32 = 5;
    pub const NO_CHANNEL: i32 = 6;
    pub const TOO_LARGE: i32 = 7;
    pub const NO_RESPONSE: i32 = 8;
    pub const DUTY_CYCLE_LIMIT: i32 = 9;
    pub const BAD_REQUEST: i32 = 32;
    pub const NOT_AUTHORIZED: i32 = 33;
    pub const PKI_FAILED: i32 = 34;
    pub const PKI_UNKNOWN_PUBKEY: i32 = 35;
    pub const RATE_LIMIT_EXCEEDED: i32 = 38;
    pub const PKI_SEND_FAIL_PUBLIC_KEY: i32 = 39;
}

/// A packet as the radio delivered it. Every field but `payload` of a PKI packet is a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    /// The sender's number, as the packet claims.
    pub from: NodeNum,
    /// Us, the broadcast address, or somebody else.
    pub to: NodeNum,
    /// 0 where the sender gave none.
    pub id: PacketId,
    /// The local index of the channel; of an encrypted packet the channel's hash.
    pub channel: u32,
    /// Hops left.
    pub hop_limit: u32,
    /// Hops allowed at the start; 0 on old firmware.
    pub hop_start: u32,
    /// Does the sender's radio wait for an ack? (Ours sends it by itself.)
    pub want_ack: bool,
    /// It crossed the internet at some hop. Absence proves nothing.
    pub via_mqtt: bool,
    /// `TransportMechanism`: 0 internal, 1 LoRa, 5 MQTT, 6 multicast UDP, 7 the client API.
    pub transport: i32,
    /// Our radio decrypted it with the sender's key.
    pub pki_encrypted: bool,
    /// The sender's key that our radio used.
    pub public_key: Option<PublicKey>,
    /// Our radio checked a signature on it (firmware 2.8).
    pub xeddsa_signed: bool,
    /// Signal to noise, dB.
    pub rx_snr: f32,
    /// Signal strength, dBm; 0 where unknown.
    pub rx_rssi: i32,
    /// Seconds since 1970 by the radio's clock, where it has one.
    pub rx_time: Option<u32>,
    /// What it carries.
    pub payload: Payload,
}

/// What a packet carries.
#[derive(Clone, PartialEq)]
pub enum Payload {
    /// Decoded by the radio.
    Data(Data),
    /// The radio had no key for it. Never a question.
    Encrypted {
        /// Bytes.
        len: usize,
    },
    /// Neither, or a variant of newer firmware.
    Empty,
}

impl std::fmt::Debug for Payload {
    // Text of messages must not reach a log through a debug form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Payload::Data(data) => {
                write!(f, "Data(port {}, {} bytes)", data.port, data.bytes.len())
            }
            Payload::Encrypted { len } => write!(f, "Encrypted({len} bytes)"),
            Payload::Empty => f.write_str("Empty"),
        }
    }
}

/// The decoded inside of a packet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Data {
    /// The raw port number, known to us or not.
    pub port: i32,
    /// The payload; not necessarily UTF-8 even on the text port.
    pub bytes: Vec<u8>,
    /// Which of our packets it answers; 0 for none.
    pub request_id: PacketId,
    /// Which text it replies to; 0 for none.
    pub reply_id: PacketId,
    /// Non-zero marks a reaction.
    pub emoji: u32,
    /// The sender wants an answer from a module.
    pub want_response: bool,
    /// On [`port::ROUTING`]: the reason, 0 for an ack. Decoded by the link.
    pub routing_error: Option<i32>,
    /// On [`port::TELEMETRY`]: device metrics. Decoded by the link.
    pub telemetry: Option<Telemetry>,
}

/// What a node says of its own air.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Telemetry {
    /// Percent of the last minute in which the channel was busy.
    pub channel_utilization: Option<f32>,
    /// Percent of the last hour in which that node transmitted.
    pub air_util_tx: Option<f32>,
    /// Percent; above 100 means mains.
    pub battery_level: Option<u32>,
}

/// A packet for the radio to send. `from` is filled in by the link: it must be our own number, or
/// the radio's refusals never reach us.
#[derive(Clone, PartialEq)]
pub struct Outbound {
    /// A node or the broadcast address.
    pub to: NodeNum,
    /// The local index of the channel; 0 for a PKI direct message.
    pub channel: u32,
    /// Chosen by us, never 0.
    pub id: PacketId,
    /// See [`port`].
    pub port: i32,
    /// The payload.
    pub bytes: Vec<u8>,
    /// Ask for an ack. Direct messages do, broadcasts don't.
    pub want_ack: bool,
    /// Ask the other side's module for an answer.
    pub want_response: bool,
    /// As the radio is configured, or lower. Never 0 unless zero hops are meant.
    pub hop_limit: u32,
    /// The text that it replies to.
    pub reply_id: Option<PacketId>,
    /// A reaction: the payload is the emoji.
    pub emoji: bool,
    /// Encrypt to exactly this key or refuse; never fall back to the channel key.
    pub pki_key: Option<PublicKey>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Outbound({} to {} port {} {} bytes)",
            self.id,
            self.to,
            self.port,
            self.bytes.len()
        )
    }
}

/// The radio's answer to a packet that it was given. Not a receipt: it keeps only two of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStatus {
    /// 0 for taken; else an error code or a routing error, not always told apart.
    pub res: i32,
    /// Free places in the radio's send queue.
    pub free: u32,
    /// Places in all.
    pub maxlen: u32,
    /// Whose answer it is; 0 or an id that we never used are normal.
    pub id: PacketId,
}

/// The modem settings that a radio really runs with, and the rest of its LoRa settings that matter.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoraSettings {
    /// `RegionCode`; 0 is unset: nothing may be sent.
    pub region: i32,
    /// Are the modem settings those of `preset`?
    pub use_preset: bool,
    /// `ModemPreset`.
    pub preset: i32,
    /// The configured bandwidth code (31, 62, 125, 250…); 0 with a preset.
    pub bandwidth: u32,
    /// 5..=12; 0 with a preset.
    pub spread_factor: u32,
    /// 5..=8 overrides the preset's, else 0.
    pub coding_rate: u32,
    /// 1..=7.
    pub hop_limit: u32,
    /// The radio may transmit.
    pub tx_enabled: bool,
    /// The radio ignores the duty cycle.
    pub override_duty_cycle: bool,
    /// MHz, 0 for none.
    pub override_frequency: f32,
    /// The slot, 0 for the one derived from the channel's name.
    pub channel_num: u32,
    /// MHz, on top of all that.
    pub frequency_offset: f32,
}

/// One channel of the radio, without its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// 0..=7.
    pub index: u32,
    /// Empty means the preset's own name.
    pub name: String,
    /// The one that sets the frequency.
    pub primary: bool,
}

/// What the radio knows of a node. Names are untrusted text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeInfo {
    /// Its number.
    pub num: u32,
    /// Invalid UTF-8 replaced.
    pub long_name: String,
    /// Invalid UTF-8 replaced.
    pub short_name: String,
    /// The key that the radio holds for it.
    pub public_key: Option<PublicKey>,
    /// Seconds since 1970, 0 for never.
    pub last_heard: u32,
    /// dB.
    pub snr: f32,
    /// Hops away, where known.
    pub hops_away: Option<u32>,
    /// A licensed station: no encryption, so no identity.
    pub licensed: bool,
    /// Its device metrics.
    pub telemetry: Option<Telemetry>,
}

/// What a handshake told: valid until the next [`LinkEvent::Up`].
#[derive(Debug, Clone, PartialEq)]
pub struct RadioInfo {
    /// Counts the handshakes of this process, from 1.
    pub session: u64,
    /// Where it was found, for people: a device, or `host:port`. Filled in by the link.
    pub port: String,
    /// Our own number.
    pub my_node: NodeNum,
    /// The radio's own key: what it *is*.
    pub public_key: Option<PublicKey>,
    /// Our own names.
    pub owner: NodeInfo,
    /// For instance `2.7.26.54e0d8d`; empty where the radio doesn't say.
    pub firmware: String,
    /// `Config.DeviceConfig.Role`.
    pub role: i32,
    /// It announces its name on the air each so many seconds; 0 for the firmware's default of three hours.
    pub announces_every_s: u32,
    /// Its LoRa settings.
    pub lora: LoraSettings,
    /// The channels that are not disabled.
    pub channels: Vec<Channel>,
    /// The other nodes that it knows.
    pub nodes: Vec<NodeInfo>,
}

/// Firmware below this may let a direct message fall back to the channel key, and may not say how a packet
/// arrived.
pub const MIN_FIRMWARE: (u32, u32, u32) = (2, 7, 15);

/// The first three numbers of a firmware's version; `None` where there are none.
pub fn firmware_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// What the link tells the mesh side, in order. The channel is bounded (256): when it is full the
/// link stops reading, and the radio drops; so the receiver must never wait for anything slow.
#[derive(Debug, Clone, PartialEq)]
pub enum LinkEvent {
    /// A handshake is complete.
    Up(std::sync::Arc<RadioInfo>),
    /// The link is lost, or the handshake is being repeated. What was handed over and not answered
    /// has an unknown fate.
    Down {
        /// For people: what happened, and what will be done.
        reason: String,
    },
    /// The link is down, and stays so: another radio answers than the one that was used last. Ended by an
    /// `Up`, or by a `Down` when it is gone.
    Refused(known::RefusedRadio),
    /// A packet.
    Packet(Inbound),
    /// The radio took or refused a packet.
    QueueStatus(QueueStatus),
    /// The radio learnt something of a node, or the node announced itself. In an announcement the key is
    /// `None`, which leaves what is known of it: a key in a packet is only a claim.
    Node(NodeInfo),
    /// The radio has something to say to its user.
    Notification {
        /// The packet it is about; 0 for none.
        reply_id: PacketId,
        /// Its words.
        text: String,
    },
}
