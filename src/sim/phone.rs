//! Our simulated radio towards its client: sessions, the small queues, refusals at the door.
//!
//! Owns what a client sends and gets. What goes on air is `router`'s, settings are `admin`'s.

use std::collections::VecDeque;
use std::sync::Arc;

use meshtastic::Message as _;
use meshtastic::protobufs::{
    ClientNotification, Data, DeviceMetrics, FromRadio, Heartbeat, MeshPacket, PortNum,
    QueueStatus, Routing, Telemetry, ToRadio, from_radio, log_record, mesh_packet, routing,
    telemetry, to_radio,
};

use super::air::Recent;
use super::router::MAX_TX_QUEUE;
use super::stream::{Conn, Line, Reader};
use super::world::{Event, World, micros};

/// A payload from here on does not fit the radio's own structures: the whole frame is dropped.
const MALFORMED_FROM: usize = 235;
/// `QueueStatus`es that wait for the client; older ones are dropped.
const STATUSES: usize = 2;
/// Notifications that wait for the client; older ones are dropped.
const NOTICES: usize = 2;
/// Packets that the radio has addressed to itself; older ones are dropped.
const LOOPBACK: usize = 4;
/// Ids of a client that are remembered, per connection.
const CLIENT_IDS: usize = 20;
/// A client that says nothing for so long is left.
const IDLE_US: u64 = 900_000_000;
/// Between two accepted texts.
const TEXT_GAP_US: u64 = 2_000_000;

/// The client's side of the radio.
#[derive(Debug)]
pub(super) struct Phone {
    pub conn: Option<Arc<Conn>>,
    /// Counts the connections.
    pub session: u64,
    reader: Reader,
    /// The handshake is through: packets may follow.
    streaming: bool,
    ids: Recent<u32>,
    /// When which kind of packet was last let in.
    last: Vec<(i32, u64)>,
    last_input_us: u64,
    heartbeat: bool,
    statuses: VecDeque<QueueStatus>,
    notices: VecDeque<ClientNotification>,
    packets: VecDeque<MeshPacket>,
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

    fn new_session(&mut self) {
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
    /// A client comes. It evicts the one before. `None` while the radio is down.
    pub fn attach(&mut self, line: Line) -> Option<Arc<Conn>> {
        if self.down && self.config.reboot_closes {
            return None;
        }
        self.drop_link();
        let conn = Conn::new(line);
        self.phone.conn = Some(conn.clone());
        self.phone.session += 1;
        if line == Line::Network {
            self.phone.new_session();
        }
        self.phone.last_input_us = self.now_us;
        self.after(IDLE_US, Event::Idle { session: self.phone.session });
        Some(conn)
    }

    /// A client is gone.
    pub fn detach(&mut self, conn: &Arc<Conn>) {
        if self.serves(conn) {
            self.phone.conn = None;
        }
    }

    /// Bytes from a client. Those of one that was evicted count no more.
    pub fn client_bytes(&mut self, conn: &Arc<Conn>, bytes: &[u8]) {
        for byte in bytes {
            if !self.serves(conn) || self.down {
                return;
            }
            if let Some(payload) = self.phone.reader.push(*byte)
                && let Ok(message) = ToRadio::decode(payload.as_slice())
            {
                self.client_says(message);
            }
        }
    }

    fn client_says(&mut self, message: ToRadio) {
        // The radio's own structures are smaller than what protobuf allows.
        if let Some(to_radio::PayloadVariant::Packet(packet)) = &message.payload_variant
            && let Some(mesh_packet::PayloadVariant::Decoded(data)) = &packet.payload_variant
            && data.payload.len() >= MALFORMED_FROM
        {
            return;
        }
        self.phone.last_input_us = self.now_us;
        match message.payload_variant {
            Some(to_radio::PayloadVariant::WantConfigId(nonce)) => self.handshake(nonce),
            Some(to_radio::PayloadVariant::Packet(packet)) => self.client_packet(packet),
            Some(to_radio::PayloadVariant::Heartbeat(beat)) => self.heartbeat(&beat),
            Some(to_radio::PayloadVariant::Disconnect(true)) => {
                self.phone.streaming = false;
                // A serial line can't be closed by the radio.
                if self.phone.conn.as_ref().is_some_and(|c| c.line == Line::Network) {
                    self.drop_link();
                }
            }
            _ => {}
        }
    }

    fn handshake(&mut self, nonce: u32) {
        self.phone.streaming = false;
        let frames = self.device.handshake(nonce, self.metrics());
        for variant in frames {
            self.frame(variant);
        }
        self.phone.streaming = true;
        self.wake_client();
    }

    fn heartbeat(&mut self, beat: &Heartbeat) {
        self.phone.heartbeat = true;
        if beat.nonce == 1 {
            let recent = self.phone.node_info_us.is_some_and(|at| self.now_us < at + 60_000_000);
            if !recent {
                self.phone.node_info_us = Some(self.now_us);
                self.send_node_info(u32::MAX);
            }
        }
        self.wake_client();
    }

    fn client_packet(&mut self, packet: MeshPacket) {
        let Some(mesh_packet::PayloadVariant::Decoded(data)) = &packet.payload_variant else {
            return;
        };
        // The same id twice is ignored without a word.
        if packet.id != 0 && !self.phone.ids.insert(packet.id) {
            return;
        }
        let port = data.portnum;
        if !self.rate_allows(port) {
            self.queue_status(0, packet.id);
            if port == PortNum::TextMessageApp as i32 {
                self.refuse_rate(&packet);
            } else if port == PortNum::TracerouteApp as i32 {
                self.notify(packet.id, "TraceRoute can only be sent once every 30 seconds");
            }
            return;
        }
        let mut packet = packet;
        if packet.id == 0 {
            packet.id = self.rng.id();
        }
        if packet.to == self.device.num {
            self.to_own_node(packet);
        } else {
            self.client_sends(packet);
        }
    }

    /// The limits at the door, per connection and kind.
    fn rate_allows(&mut self, port: i32) -> bool {
        let gap = match PortNum::try_from(port) {
            Ok(PortNum::TextMessageApp) => TEXT_GAP_US,
            Ok(
                PortNum::PositionApp
                | PortNum::WaypointApp
                | PortNum::AlertApp
                | PortNum::TelemetryApp,
            ) => 10_000_000,
            Ok(PortNum::TracerouteApp) => 30_000_000,
            _ => return true,
        };
        // The firmware looks at its clock when its loop comes to it, not when the bytes arrived.
        let late = self.rng.below(micros(self.config.jitter));
        let at = self.now_us + late;
        match self.phone.last.iter_mut().find(|(p, _)| *p == port) {
            Some((_, last)) if at < last.saturating_add(gap) => false,
            Some((_, last)) => {
                *last = at;
                true
            }
            None => {
                self.phone.last.push((port, at));
                true
            }
        }
    }

    /// The refusal is addressed to `from` as the client wrote it: left at 0 it is sent over the air
    /// to nobody. That is a fault of the firmware, and part of what clients must live with.
    fn refuse_rate(&mut self, packet: &MeshPacket) {
        let reason = routing::Error::RateLimitExceeded as i32;
        if packet.from == self.device.num {
            self.tell_self(reason, packet.id);
        } else {
            self.send_routing(packet.from, packet.id, reason, false, self.device.lora().hop_limit);
        }
    }

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
            self.to_phone(packet);
        }
    }

    /// Queues a packet for the client. A full queue drops the oldest for a text, else the new one.
    pub fn to_phone(&mut self, packet: MeshPacket) {
        let cap = self.config.phone_queue.max(1);
        if self.phone.packets.len() >= cap {
            if !is_text(&packet) {
                return;
            }
            self.phone.packets.pop_front();
        }
        self.phone.packets.push_back(packet);
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
        let packet = MeshPacket {
            from: self.device.num,
            to: u32::MAX,
            id: self.rng.id(),
            priority: mesh_packet::Priority::Background as i32,
            hop_limit: self.device.lora().hop_limit,
            rx_time: self.radio_time(),
            payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
                portnum: PortNum::TelemetryApp as i32,
                payload: telemetry.encode_to_vec(),
                ..Data::default()
            })),
            ..MeshPacket::default()
        };
        self.to_phone(packet);
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
    fn wake_client(&mut self) {
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
        while let Some(packet) = self.phone.packets.pop_front() {
            self.frame(from_radio::PayloadVariant::Packet(packet));
        }
    }

    fn frame(&self, variant: from_radio::PayloadVariant) {
        if let Some(conn) = &self.phone.conn {
            let message = FromRadio { id: 0, payload_variant: Some(variant) };
            conn.push_frame(&message.encode_to_vec());
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
        if self.config.debug_text {
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

    /// Fifteen silent minutes end a connection.
    pub fn check_idle(&mut self, session: u64) {
        if session != self.phone.session || self.phone.conn.is_none() {
            return;
        }
        let due = self.phone.last_input_us + IDLE_US;
        if due <= self.now_us {
            self.phone.streaming = false;
            let network = self.phone.conn.as_ref().is_some_and(|c| c.line == Line::Network);
            if network {
                self.drop_link();
            } else {
                self.after(IDLE_US, Event::Idle { session });
            }
        } else {
            self.at(due, Event::Idle { session });
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
