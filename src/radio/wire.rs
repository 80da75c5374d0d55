//! Frames of the radio, to and from this program's own types.
//!
//! Owns every protobuf type: none leaves this module. Text is read from bytes, so a name that is no
//! UTF-8 costs nobody a frame; an unknown variant, port or enum value is never an error. Must not log
//! what it decodes, and must not read the radio's private key or a channel's key at all.

mod encode;
pub mod settings;

use meshtastic::protobufs as radio;
use prost::Message as _;

use super::{
    Channel, Data, Inbound, LoraSettings, NodeInfo, Payload, QueueStatus, Telemetry, port,
};
use crate::node::{NodeNum, PacketId, PublicKey};

pub use encode::{
    FLUSH, LONG_NAME_MAX, add_contact, disconnect, heartbeat, packet, set_time, want_config,
};

#[allow(missing_docs)] // generated
mod overlay {
    include!(concat!(env!("OUT_DIR"), "/tombolo.overlay.rs"));
}

/// What one frame of the radio says.
#[derive(Debug, Clone, PartialEq)]
pub enum FromRadio {
    /// Our own number.
    MyInfo(NodeNum),
    /// A node, our own among them.
    NodeInfo(NodeInfo),
    /// The firmware's version.
    Metadata {
        /// For instance `2.7.26.54e0d8d`.
        firmware: String,
    },
    /// A channel that is in use.
    Channel(Channel),
    /// The channel with this index is disabled.
    NoChannel(u32),
    /// Of `Config.DeviceConfig`.
    Device {
        /// `Config.DeviceConfig.Role`.
        role: i32,
        /// See [`super::RadioInfo::announces_every_s`].
        announces_every_s: u32,
    },
    /// The LoRa settings.
    Lora(LoraSettings),
    /// The radio's own public key, where it has one.
    OwnKey(Option<PublicKey>),
    /// The end of the answer to the `want_config_id` with that nonce.
    ConfigComplete(u32),
    /// A packet.
    Packet(Inbound),
    /// The fate of a packet that the radio was given.
    QueueStatus(QueueStatus),
    /// Words for the radio's user.
    Notification {
        /// The packet it is about; 0 for none.
        reply_id: PacketId,
        /// The words.
        text: String,
    },
    /// A line of the radio's log. It may quote messages of peers.
    Log(String),
    /// The radio says that it has just started.
    Rebooted,
    /// Known and of no use here, or of newer firmware, or empty.
    Other,
}

/// The payload of a frame is not a message of the radio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a message of the radio")]
pub struct Undecodable;

impl From<prost::DecodeError> for Undecodable {
    fn from(_: prost::DecodeError) -> Undecodable {
        Undecodable
    }
}

/// Decodes the payload of one frame. The whole depth of a known message must hold: a frame that was
/// cut short and filled up with the next one must not pass.
///
/// # Errors
/// [`Undecodable`] when it is no protobuf message of the expected form. Unknown fields, variants, ports
/// and bytes that are no UTF-8 are not errors.
pub fn decode(payload: &[u8]) -> Result<FromRadio, Undecodable> {
    use overlay::from_radio::Variant;
    let Some(variant) = overlay::FromRadio::decode(payload)?.variant else {
        return Ok(FromRadio::Other);
    };
    Ok(match variant {
        Variant::Packet(bytes) => FromRadio::Packet(inbound(&bytes)?),
        Variant::MyInfo(bytes) => {
            let info = overlay::MyNodeInfo::decode(bytes.as_slice())?;
            FromRadio::MyInfo(NodeNum(info.my_node_num))
        }
        Variant::NodeInfo(bytes) => FromRadio::NodeInfo(node_info(&bytes)?),
        Variant::Config(bytes) => config(&bytes)?,
        Variant::Channel(bytes) => channel(&bytes)?,
        Variant::Metadata(bytes) => {
            let metadata = overlay::DeviceMetadata::decode(bytes.as_slice())?;
            FromRadio::Metadata { firmware: text(&metadata.firmware_version) }
        }
        Variant::QueueStatus(bytes) => {
            let status = radio::QueueStatus::decode(bytes.as_slice())?;
            FromRadio::QueueStatus(QueueStatus {
                res: status.res,
                free: status.free,
                maxlen: status.maxlen,
                id: PacketId(status.mesh_packet_id),
            })
        }
        Variant::ClientNotification(bytes) => {
            let notification = overlay::ClientNotification::decode(bytes.as_slice())?;
            FromRadio::Notification {
                reply_id: PacketId(notification.reply_id.unwrap_or(0)),
                text: text(&notification.message),
            }
        }
        Variant::LogRecord(bytes) => {
            let record = overlay::LogRecord::decode(bytes.as_slice())?;
            FromRadio::Log(format!("[{}] {}", text(&record.source), text(&record.message)))
        }
        Variant::ConfigCompleteId(nonce) => FromRadio::ConfigComplete(nonce),
        Variant::Rebooted(true) => FromRadio::Rebooted,
        Variant::Rebooted(false) => FromRadio::Other,
    })
}

/// What a node announces of itself in a packet on [`port::NODEINFO`]: names only. The key in it is a
/// claim of the sender, not one that our radio holds, so it is left out.
pub fn announced(packet: &Inbound) -> Option<NodeInfo> {
    let Payload::Data(data) = &packet.payload else { return None };
    if data.port != port::NODEINFO || !packet.from.is_peer() {
        return None;
    }
    let user = overlay::User::decode(data.bytes.as_slice()).ok()?;
    Some(NodeInfo {
        num: packet.from.0,
        long_name: text(&user.long_name),
        short_name: text(&user.short_name),
        public_key: None,
        last_heard: packet.rx_time.unwrap_or(0),
        snr: packet.rx_snr,
        hops_away: (packet.hop_start > 0)
            .then(|| packet.hop_start.checked_sub(packet.hop_limit))
            .flatten(),
        licensed: user.is_licensed,
        telemetry: None,
    })
}

fn inbound(bytes: &[u8]) -> Result<Inbound, Undecodable> {
    use radio::mesh_packet::PayloadVariant;
    let packet = radio::MeshPacket::decode(bytes)?;
    let newer = overlay::NewerMeshPacket::decode(bytes)?;
    let payload = match packet.payload_variant {
        Some(PayloadVariant::Decoded(inner)) => Payload::Data(data(inner)),
        Some(PayloadVariant::Encrypted(secret)) => Payload::Encrypted { len: secret.len() },
        None => Payload::Empty,
    };
    Ok(Inbound {
        from: NodeNum(packet.from),
        to: NodeNum(packet.to),
        id: PacketId(packet.id),
        channel: packet.channel,
        hop_limit: packet.hop_limit,
        hop_start: packet.hop_start,
        want_ack: packet.want_ack,
        via_mqtt: packet.via_mqtt,
        transport: packet.transport_mechanism,
        pki_encrypted: packet.pki_encrypted,
        public_key: PublicKey::from_slice(&packet.public_key),
        xeddsa_signed: newer.xeddsa_signed,
        rx_snr: finite(packet.rx_snr).unwrap_or(0.0),
        rx_rssi: packet.rx_rssi,
        // 0: the radio has no clock, or no packet of the air.
        rx_time: Some(packet.rx_time).filter(|seconds| *seconds != 0),
        payload,
    })
}

fn data(inner: radio::Data) -> Data {
    let payload = inner.payload;
    // A broken inside of these two is the sender's fault and no reason to lose the packet.
    let routing_error = (inner.portnum == port::ROUTING).then(|| routing_error(&payload)).flatten();
    let telemetry = (inner.portnum == port::TELEMETRY).then(|| telemetry(&payload)).flatten();
    Data {
        port: inner.portnum,
        bytes: payload,
        request_id: PacketId(inner.request_id),
        reply_id: PacketId(inner.reply_id),
        emoji: inner.emoji,
        want_response: inner.want_response,
        routing_error,
        telemetry,
    }
}

fn routing_error(payload: &[u8]) -> Option<i32> {
    match radio::Routing::decode(payload).ok()?.variant? {
        radio::routing::Variant::ErrorReason(reason) => Some(reason),
        _ => None, // a traced route
    }
}

fn telemetry(payload: &[u8]) -> Option<Telemetry> {
    match radio::Telemetry::decode(payload).ok()?.variant? {
        radio::telemetry::Variant::DeviceMetrics(metrics) => Some(device_metrics(&metrics)),
        radio::telemetry::Variant::LocalStats(stats) => Some(Telemetry {
            channel_utilization: finite(stats.channel_utilization),
            air_util_tx: finite(stats.air_util_tx),
            battery_level: None,
        }),
        _ => None,
    }
}

fn device_metrics(metrics: &radio::DeviceMetrics) -> Telemetry {
    Telemetry {
        channel_utilization: metrics.channel_utilization.and_then(finite),
        air_util_tx: metrics.air_util_tx.and_then(finite),
        battery_level: metrics.battery_level,
    }
}

fn node_info(bytes: &[u8]) -> Result<NodeInfo, Undecodable> {
    let info = overlay::NodeInfo::decode(bytes)?;
    let telemetry = match info.device_metrics.as_slice() {
        [] => None,
        metrics => Some(device_metrics(&radio::DeviceMetrics::decode(metrics)?)),
    };
    let user = info.user.unwrap_or_default();
    Ok(NodeInfo {
        num: info.num,
        long_name: text(&user.long_name),
        short_name: text(&user.short_name),
        public_key: PublicKey::from_slice(&user.public_key),
        last_heard: info.last_heard,
        snr: finite(info.snr).unwrap_or(0.0),
        hops_away: info.hops_away,
        licensed: user.is_licensed,
        telemetry,
    })
}

fn config(bytes: &[u8]) -> Result<FromRadio, Undecodable> {
    use overlay::config::Variant;
    Ok(match overlay::Config::decode(bytes)?.variant {
        Some(Variant::Device(device)) => FromRadio::Device {
            role: device.role,
            announces_every_s: device.node_info_broadcast_secs,
        },
        Some(Variant::Security(security)) => {
            FromRadio::OwnKey(PublicKey::from_slice(&security.public_key))
        }
        Some(Variant::Lora(lora)) => {
            let lora = radio::config::LoRaConfig::decode(lora.as_slice())?;
            FromRadio::Lora(LoraSettings {
                region: lora.region,
                use_preset: lora.use_preset,
                preset: lora.modem_preset,
                bandwidth: lora.bandwidth,
                spread_factor: lora.spread_factor,
                coding_rate: lora.coding_rate,
                hop_limit: lora.hop_limit.min(HOP_MAX),
                tx_enabled: lora.tx_enabled,
                override_duty_cycle: lora.override_duty_cycle,
                override_frequency: finite(lora.override_frequency).unwrap_or(0.0),
                channel_num: lora.channel_num,
                frequency_offset: finite(lora.frequency_offset).unwrap_or(0.0),
            })
        }
        None => FromRadio::Other,
    })
}

/// The hop limit has three bits on air.
const HOP_MAX: u32 = 7;

fn channel(bytes: &[u8]) -> Result<FromRadio, Undecodable> {
    use radio::channel::Role;
    let channel = overlay::Channel::decode(bytes)?;
    let Ok(index) = u32::try_from(channel.index) else { return Ok(FromRadio::Other) };
    if channel.role == Role::Disabled as i32 {
        return Ok(FromRadio::NoChannel(index));
    }
    let settings = channel.settings.unwrap_or_default();
    Ok(FromRadio::Channel(Channel {
        index,
        name: text(&settings.name),
        primary: channel.role == Role::Primary as i32,
    }))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A figure of the radio may be infinite or no number; arithmetic must not see that.
fn finite(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests;
