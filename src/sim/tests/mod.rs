//! The rules that real firmware was measured by, each against the simulator.
//!
//! Owns a bare client for the in-process stream. Must not use the program's own link.

mod admin;
mod delivery;
mod door;
mod newer;
mod relays;
mod session;

use std::time::Duration;

use meshtastic::Message as _;
use meshtastic::protobufs::{
    Data, FromRadio, Heartbeat, MeshPacket, PortNum, QueueStatus, Routing, ToRadio, from_radio,
    mesh_packet, routing, to_radio,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;

use super::*;

const ANA: u32 = 0xa1b2_c3d4;
const BEN: u32 = 0xb0b0_b0b2;
const OURS: u32 = 0x70b0_1001;
/// By virtual time: longer than anything but the idle limit.
const LONG: Duration = Duration::from_secs(120);

/// A mesh without chance in the 2 s rule.
fn exact() -> SimConfig {
    SimConfig { jitter: Duration::ZERO, ..SimConfig::default() }
}

struct Client {
    stream: DuplexStream,
    buffer: Vec<u8>,
    next_id: u32,
}

impl Client {
    fn new(sim: &Sim) -> Client {
        Client { stream: sim.connect(), buffer: Vec::new(), next_id: 1000 }
    }

    /// Connected, handshake done and what waited after it left unread.
    async fn ready(sim: &Sim) -> Client {
        let mut client = Client::new(sim);
        client.want_config(7).await;
        client
    }

    async fn send(&mut self, variant: to_radio::PayloadVariant) {
        self.stream.write_all(&framed(variant)).await.unwrap();
    }

    async fn send_at_once(&mut self, packets: Vec<MeshPacket>) {
        let bytes: Vec<u8> =
            packets.into_iter().map(to_radio::PayloadVariant::Packet).flat_map(framed).collect();
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn want_config(&mut self, nonce: u32) -> Vec<from_radio::PayloadVariant> {
        self.send(to_radio::PayloadVariant::WantConfigId(nonce)).await;
        let mut frames = Vec::new();
        loop {
            let frame = self.next(LONG).await.expect("no config_complete_id");
            frames.push(frame);
            if matches!(frames.last(), Some(from_radio::PayloadVariant::ConfigCompleteId(_))) {
                return frames;
            }
        }
    }

    /// The next frame; `None` when none comes in that time or the stream ends.
    async fn next(&mut self, within: Duration) -> Option<from_radio::PayloadVariant> {
        let known = async {
            loop {
                // A variant that the types don't know reads as none.
                let variant = self.read_frame().await?.payload_variant;
                if variant.is_some() {
                    return variant;
                }
            }
        };
        timeout(within, known).await.ok().flatten()
    }

    async fn read_frame(&mut self) -> Option<FromRadio> {
        loop {
            if let [0x94, 0xc3, high, low, ..] = self.buffer[..] {
                let end = 4 + usize::from(u16::from_be_bytes([high, low]));
                if self.buffer.len() >= end {
                    let rest = self.buffer.split_off(end);
                    let frame = std::mem::replace(&mut self.buffer, rest);
                    return Some(FromRadio::decode(&frame[4..]).unwrap());
                }
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
            self.buffer.extend_from_slice(&chunk[..count]);
        }
    }

    /// True when the radio ends the connection within that time.
    async fn ends(&mut self, within: Duration) -> bool {
        timeout(within, async { while self.read_frame().await.is_some() {} }).await.is_ok()
    }

    async fn queue_status(&mut self) -> QueueStatus {
        loop {
            match self.next(LONG).await.expect("no QueueStatus") {
                from_radio::PayloadVariant::QueueStatus(s) if s.mesh_packet_id != 0 => return s,
                _ => {}
            }
        }
    }

    async fn packet(&mut self) -> MeshPacket {
        self.packet_within(LONG).await.expect("no packet")
    }

    /// The next packet that is not the radio's own telemetry.
    async fn packet_within(&mut self, within: Duration) -> Option<MeshPacket> {
        timeout(within, async {
            loop {
                if let from_radio::PayloadVariant::Packet(packet) = self.next(LONG * 10).await?
                    && data(&packet).portnum != PortNum::TelemetryApp as i32
                {
                    return Some(packet);
                }
            }
        })
        .await
        .ok()
        .flatten()
    }

    /// The next packet of any kind.
    async fn packet_and_telemetry(&mut self, within: Duration) -> MeshPacket {
        loop {
            let frame = self.next(within).await.expect("no packet");
            if let from_radio::PayloadVariant::Packet(packet) = frame {
                return packet;
            }
        }
    }

    /// The next routing packet: its sender, the packet it is about, and the reason.
    async fn verdict(&mut self) -> (u32, u32, routing::Error) {
        self.verdict_within(LONG).await.expect("no ack and no refusal")
    }

    async fn verdict_within(&mut self, within: Duration) -> Option<(u32, u32, routing::Error)> {
        let packet = self.packet_within(within).await?;
        let data = data(&packet);
        assert_eq!(data.portnum, PortNum::RoutingApp as i32, "{packet:?}");
        let reason = match Routing::decode(data.payload.as_slice()).unwrap().variant {
            Some(routing::Variant::ErrorReason(reason)) => routing::Error::try_from(reason),
            other => panic!("{other:?}"),
        };
        Some((packet.from, data.request_id, reason.unwrap()))
    }

    fn text(&mut self, to: u32, text: &[u8]) -> MeshPacket {
        self.next_id += 1;
        MeshPacket {
            from: OURS,
            to,
            id: self.next_id,
            hop_limit: 3,
            want_ack: to != u32::MAX,
            payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
                portnum: PortNum::TextMessageApp as i32,
                payload: text.to_vec(),
                ..Data::default()
            })),
            ..MeshPacket::default()
        }
    }

    async fn send_packet(&mut self, packet: MeshPacket) -> u32 {
        let id = packet.id;
        self.send(to_radio::PayloadVariant::Packet(packet)).await;
        id
    }

    async fn send_text(&mut self, to: u32, text: &str) -> u32 {
        let packet = self.text(to, text.as_bytes());
        self.send_packet(packet).await
    }
}

fn framed(variant: to_radio::PayloadVariant) -> Vec<u8> {
    let payload = ToRadio { payload_variant: Some(variant) }.encode_to_vec();
    let [high, low] = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0x94, 0xc3, high, low], payload.as_slice()].concat()
}

fn data(packet: &MeshPacket) -> Data {
    match &packet.payload_variant {
        Some(mesh_packet::PayloadVariant::Decoded(data)) => data.clone(),
        _ => Data::default(),
    }
}

/// A name for the kind of a frame, settings by their variant.
fn kind(variant: &from_radio::PayloadVariant) -> String {
    let shown = format!("{variant:?}");
    match variant {
        from_radio::PayloadVariant::Config(_) | from_radio::PayloadVariant::ModuleConfig(_) => {
            shown.split('(').take(2).chain(shown.split('(').nth(2)).collect::<Vec<_>>().join(":")
        }
        from_radio::PayloadVariant::Channel(channel) => format!("Channel {}", channel.index),
        _ => shown.split('(').next().unwrap_or_default().to_owned(),
    }
}
