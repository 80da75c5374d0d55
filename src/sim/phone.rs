//! What our simulated radio gives its client: the small queues, telemetry, and when they are emptied.
//!
//! Owns everything on its way to the client. What a client says is handled in `client`.

use std::collections::VecDeque;
use std::sync::Arc;

use meshtastic::Message as _;
use meshtastic::protobufs::{
    ClientNotification, Data, DeviceMetrics, FromRadio, MeshPacket, PortNum, QueueStatus, Routing,
    Telemetry, from_radio, log_record, mesh_packet, routing, telemetry,
};

use super::air::Recent;
use super::router::MAX_TX_QUEUE;
use super::stream::{Conn, Reader};
use super::world::{Event, World, micros};

/// `QueueStatus`es that wait for the client; older ones are dropped.
const STATUSES: usize = 2;
/// Notifications that wait for the client; older ones are dropped.
const NOTICES: usize = 2;
/// Packets that the radio has addressed to itself; older ones are dropped.
const LOOPBACK: usize = 4;
/// Ids of a client that are remembered, per connection.
const CLIENT_IDS: usize = 20;

/// The client's side of the radio.
#[derive(Debug)]
pub(super) struct Phone {
    pub conn: Option<Arc<Conn>>,
    /// Counts the connections.
    pub session: u64,
    pub reader: Reader,
    /// The handshake is through: packets may follow.
    pub streaming: bool,
    pub ids: Recent<u32>,
    /// When which kind of packet was last let in.
    pub last: Vec<(i32, u64)>,
    pub last_input_us: u64,
    pub heartbeat: bool,
    /// A client has said something since the radio started.
    pub spoken: bool,
    statuses: VecDeque<QueueStatus>,
    notices: VecDeque<ClientNotification>,
    /// With whether the radio has checked a signature.
    packets: VecDeque<(MeshPacket, bool)>,
    pub to_self: VecDeque<MeshPacket>,
    pumped_us: Option<u64>,
    pump_planned: bool,
    pub node_info_us: Option<u64>,
}

impl Default for Phone {
    fn default() -> Phone {
        Phone {
            conn: None,
            session: 0,
            reader: Reader::default(),
            streaming: false,
            ids: Recent::new(CLIENT_IDS),
            last: Vec::new(),
            last_input_us: 0,
            heartbeat: false,
            spoken: false,
            statuses: VecDeque::new(),
            notices: VecDeque::new(),
            packets: VecDeque::new(),
            to_self: VecDeque::new(),
            pumped_us: None,
            pump_planned: false,
            node_info_us: None,
        }
    }
}

impl Phone {
    /// A reboot. Over a UART bridge the line stays open and nobody is told.
    pub fn forget(&mut self, close: bool) {
        let conn = self.conn.take();
        let kept =
            Phone { session: self.session, last_input_us: self.last_input_us, ..Phone::default() };
        // An event for the pump may be on its way; it must stay the only one.
        let pump_planned = self.pump_planned;
        *self = Phone { pump_planned, ..kept };
        match conn {
            Some(conn) if close => conn.close(),
            conn => self.conn = conn,
        }
    }

    pub fn new_session(&mut self) {
        self.streaming = false;
        self.ids = Recent::new(CLIENT_IDS);
        self.last.clear();
        self.reader = Reader::default();
    }

    /// Is nothing waiting for the client?
    pub fn is_idle(&self) -> bool {
        self.packets.is_empty()
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, cap: usize) {
    while queue.len() >= cap {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl World {
    /// A word of the radio to its own client about a packet: from and to itself.
    pub fn tell_self(&mut self, reason: i32, request_id: u32) {
        let packet = MeshPacket {
            from: self.device.num,
            to: self.device.num,
            id: self.rng.id(),
            priority: mesh_packet::Priority::Ack as i32,
            rx_time: self.radio_time(),
            payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
                bitfield: None,
                ..routing_data(reason, request_id)
            })),
            ..MeshPacket::default()
        };
        push_bounded(&mut self.phone.to_self, packet, LOOPBACK);
        self.after(micros(self.config.poll), Event::Loopback);
    }

    /// The radio handles what it addressed to itself.
    pub fn loopback(&mut self) {
        while let Some(packet) = self.phone.to_self.pop_front() {
            self.show_client(packet, false);
        }
    }

    /// Queues a packet for the client. A full queue drops the oldest for a text, else the new one.
    pub fn show_client(&mut self, packet: MeshPacket, signed: bool) {
        if self.rng.chance(self.config.stolen) {
            return;
        }
        let cap = self.config.phone_queue.max(1);
        if self.phone.packets.len() >= cap {
            if !is_text(&packet) {
                return;
            }
            self.phone.packets.pop_front();
        }
        self.phone.packets.push_back((packet, signed));
        self.wake_client();
    }

    /// Queues a `QueueStatus`.
    pub fn queue_status(&mut self, res: i32, id: u32) {
        let free = MAX_TX_QUEUE.saturating_sub(self.tx.waiting());
        let status = QueueStatus {
            res,
            free: u32::try_from(free).unwrap_or(0),
            maxlen: u32::try_from(MAX_TX_QUEUE).unwrap_or(0),
            mesh_packet_id: id,
        };
        push_bounded(&mut self.phone.statuses, status, STATUSES);
        self.wake_client();
    }

    /// Queues words for the user.
    pub fn notify(&mut self, reply_id: u32, message: &str) {
        let notice = ClientNotification {
            reply_id: Some(reply_id),
            time: self.radio_time(),
            level: log_record::Level::Warning as i32,
            message: message.to_owned(),
            payload_variant: None,
        };
        push_bounded(&mut self.phone.notices, notice, NOTICES);
        self.wake_client();
    }

    /// Own telemetry, once a minute, unless the client has not taken the last things yet.
    pub fn telemetry(&mut self) {
        self.after(60_000_000, Event::Telemetry { boot: self.boot });
        if !self.phone.is_idle() {
            return;
        }
        let telemetry = Telemetry {
            time: self.radio_time(),
            variant: Some(telemetry::Variant::DeviceMetrics(self.metrics())),
        };
        self.own_telemetry(&telemetry);
    }

    /// What the radio says of itself.
    pub fn metrics(&self) -> DeviceMetrics {
        let uptime = self.now_us.saturating_sub(self.booted_us) / 1_000_000;
        DeviceMetrics {
            battery_level: Some(101),
            voltage: Some(0.0),
            channel_utilization: Some(self.meter.channel_utilization(self.now_us)),
            air_util_tx: Some(self.meter.air_util_tx(self.now_us)),
            uptime_seconds: Some(u32::try_from(uptime).unwrap_or(u32::MAX)),
        }
    }

    /// Something waits for the client: at once if the radio's loop has just been idle, else when it
    /// comes round. So only the first of many answers given at once escapes the small queues.
    pub fn wake_client(&mut self) {
        if self.phone.pump_planned {
            return;
        }
        let due = self.phone.pumped_us.map_or(0, |at| at + micros(self.config.poll));
        if due <= self.now_us {
            self.pump();
        } else {
            self.phone.pump_planned = true;
            self.at(due, Event::Pump);
        }
    }

    /// Hands over what waits, in the firmware's order.
    pub fn pump(&mut self) {
        self.phone.pump_planned = false;
        self.phone.pumped_us = Some(self.now_us);
        if self.phone.conn.is_none() {
            return;
        }
        if std::mem::take(&mut self.phone.heartbeat) {
            // Answered in any state: it proves nothing about the session.
            let free = MAX_TX_QUEUE.saturating_sub(self.tx.waiting());
            self.frame(from_radio::PayloadVariant::QueueStatus(QueueStatus {
                res: 0,
                free: u32::try_from(free).unwrap_or(0),
                maxlen: u32::try_from(MAX_TX_QUEUE).unwrap_or(0),
                mesh_packet_id: 0,
            }));
        }
        if !self.phone.streaming {
            return;
        }
        while let Some(status) = self.phone.statuses.pop_front() {
            self.frame(from_radio::PayloadVariant::QueueStatus(status));
        }
        while let Some(notice) = self.phone.notices.pop_front() {
            self.frame(from_radio::PayloadVariant::ClientNotification(notice));
        }
        while let Some((packet, signed)) = self.phone.packets.pop_front() {
            if signed {
                self.signed_frame(&packet);
            } else {
                self.frame(from_radio::PayloadVariant::Packet(packet));
            }
        }
    }

    pub fn frame(&self, variant: from_radio::PayloadVariant) {
        if let Some(conn) = &self.phone.conn {
            let message = FromRadio { id: 0, payload_variant: Some(variant) };
            conn.push_frame(&message.encode_to_vec());
        }
    }

    /// A packet with the mark of a checked signature, a field that the protobuf types don't have.
    fn signed_frame(&self, packet: &MeshPacket) {
        // `MeshPacket.xeddsa_signed`, field 22, true; and `FromRadio.packet`, field 2.
        let inner = [packet.encode_to_vec().as_slice(), &[0xb0, 0x01, 0x01]].concat();
        let mut outer = vec![0x12];
        prost::encode_length_delimiter(inner.len(), &mut outer).unwrap_or_default();
        outer.extend(inner);
        if let Some(conn) = &self.phone.conn {
            conn.push_frame(&outer);
        }
    }

    /// Bytes between the frames.
    pub fn raw_to_client(&self, bytes: &[u8]) {
        if let Some(conn) = &self.phone.conn {
            conn.push_raw(bytes);
        }
    }

    /// A line of the firmware's log, where it is wanted.
    pub fn debug(&self, place: &str, line: &str) {
        // Since 2.8 the text ends with the first word of a client that speaks protobuf.
        let silenced = self.is_2_8() && self.phone.spoken;
        if self.config.debug_text && !silenced {
            let uptime = self.now_us.saturating_sub(self.booted_us) / 1_000_000;
            self.raw_to_client(
                format!(
                    "\x1b[34mDEBUG \x1b[0m| ??:??:?? {uptime} [{place}] \x1b[34m{line}\r\n\x1b[0m"
                )
                .as_bytes(),
            );
        }
    }

    /// What a board prints before its firmware runs: the only sign of a reboot on a UART bridge.
    pub fn boot_text(&self) {
        if self.config.debug_text || !self.config.reboot_closes {
            self.raw_to_client(b"\r\nESP-ROM:esp32s3-20210327\r\nrst:0x1 (POWERON),boot:0x8\r\n");
        }
    }
}

/// The inside of an ack or a refusal.
pub(super) fn routing_data(reason: i32, request_id: u32) -> Data {
    Data {
        portnum: PortNum::RoutingApp as i32,
        payload: Routing { variant: Some(routing::Variant::ErrorReason(reason)) }.encode_to_vec(),
        request_id,
        bitfield: Some(0),
        ..Data::default()
    }
}

fn is_text(packet: &MeshPacket) -> bool {
    matches!(
        &packet.payload_variant,
        Some(mesh_packet::PayloadVariant::Decoded(data))
            if data.portnum == PortNum::TextMessageApp as i32
    )
}
