//! What a client says to our simulated radio: sessions, and refusals at the door.
//!
//! Owns who is attached and what of it is let in. What goes back is `phone`'s, what goes on air
//! `router`'s, settings are `admin`'s.

use std::sync::Arc;

use meshtastic::Message as _;
use meshtastic::protobufs::{
    Heartbeat, MeshPacket, PortNum, ToRadio, from_radio, mesh_packet, routing, to_radio,
};

use super::stream::{Conn, Line};
use super::world::{Event, World, micros};
use crate::node::PacketId;

/// A payload from here on does not fit the radio's own structures: the whole frame is dropped.
const MALFORMED_FROM: usize = 235;
/// A client that says nothing for so long is left.
const IDLE_US: u64 = 900_000_000;
/// How long after a client's farewell its connection is closed: when the radio's loop comes to it.
const HANGUP_US: u64 = 100_000;
/// Between two accepted texts.
const TEXT_GAP_US: u64 = 2_000_000;

/// A text that a client gave to the radio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtDoor {
    /// Milliseconds after the start of the simulation.
    pub at_ms: u64,
    /// Its packet id.
    pub id: PacketId,
    /// False: dropped, for it came too soon after the last.
    pub taken: bool,
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
        self.phone.spoken = true;
        match message.payload_variant {
            Some(to_radio::PayloadVariant::WantConfigId(nonce)) => self.handshake(nonce),
            Some(to_radio::PayloadVariant::Packet(packet)) => self.client_packet(packet),
            Some(to_radio::PayloadVariant::Heartbeat(beat)) => self.heartbeat(&beat),
            Some(to_radio::PayloadVariant::Disconnect(true)) => {
                self.phone.streaming = false;
                self.after(HANGUP_US, Event::Hangup { session: self.phone.session });
            }
            _ => {}
        }
    }

    fn handshake(&mut self, nonce: u32) {
        self.phone.streaming = false;
        let frames = self.device.handshake(nonce, self.metrics());
        for variant in frames {
            let metadata = matches!(variant, from_radio::PayloadVariant::Metadata(_));
            self.frame(variant);
            if metadata {
                self.region_presets();
            }
        }
        self.phone.streaming = true;
        self.replay(nonce);
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
        let taken = self.rate_allows(port);
        if port == PortNum::TextMessageApp as i32 {
            let (at_ms, id) = (self.now_us / 1000, PacketId(packet.id));
            self.note_at_door(AtDoor { at_ms, id, taken });
        }
        if !taken {
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
            self.own_node_gets(packet);
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

    /// A client has said goodbye. A serial line can't be closed by the radio.
    pub fn hang_up(&mut self, session: u64) {
        let network = self.phone.conn.as_ref().is_some_and(|c| c.line == Line::Network);
        if network && session == self.phone.session {
            self.drop_link();
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
