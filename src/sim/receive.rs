//! Our simulated radio's way in: what it does with a packet that it hears.
//!
//! Owns decryption by the marks, duplicates, acks, the node table's updates and hand-over to the
//! client. Must not know who really sent a packet: a radio doesn't either.

use meshtastic::Message as _;
use meshtastic::protobufs::config::device_config::Role;
use meshtastic::protobufs::{
    Data, MeshPacket, NodeInfo, PortNum, Routing, User, mesh_packet, routing,
};

use super::air::{AirPacket, Lock};
use super::device::user;
use super::router::{DISABLED, last_byte};
use super::world::World;

/// What the radio can make of a packet.
enum Opened {
    /// On this channel of ours.
    Channel(u32),
    /// With the key that we hold for its sender.
    Sealed(Vec<u8>),
    /// Not at all; which refusal its sender gets.
    No(routing::Error),
}

impl World {
    pub fn radio_hears(&mut self, packet: AirPacket, snr: f32, rssi: i32) {
        if self.down || self.device.region().is_none() {
            return;
        }
        let airtime = self.airtime_us(&packet);
        self.hear_airtime(airtime);
        self.counters.heard += 1;
        if self.has_collided() {
            self.counters.bad += 1;
            return;
        }
        self.debug(
            "RadioIf",
            &format!("Lora RX (id=0x{:08x} fr=0x{:08x})", packet.id, packet.from),
        );
        if packet.from == self.device.num {
            // Whoever repeats our packets is a relay, for a radio.
            self.own_relayed(packet.id, 0);
            return;
        }
        let to_us = packet.to == self.device.num;
        let new = packet.id == 0 || self.seen.insert((packet.from, packet.id));
        let opened = self.open(&packet);
        // A copy that came over relays is not acked again: flooding has made the ack redundant.
        if to_us && packet.want_ack && (new || packet.hop_start == packet.hop_limit) {
            self.answer(&packet, &opened);
        }
        if !new {
            self.counters.known += 1;
            return;
        }
        self.pass_on(&packet);
        self.note_node(&packet, snr);
        let signed = packet.signed && matches!(opened, Opened::Channel(_));
        let mut shown = MeshPacket {
            from: packet.from,
            to: packet.to,
            id: packet.id,
            rx_time: self.radio_time(),
            rx_snr: snr,
            rx_rssi: rssi,
            hop_limit: packet.hop_limit,
            hop_start: packet.hop_start,
            want_ack: packet.want_ack,
            via_mqtt: packet.via_mqtt,
            relay_node: u32::from(packet.relay),
            transport_mechanism: mesh_packet::TransportMechanism::TransportLora as i32,
            ..MeshPacket::default()
        };
        if packet.via_mqtt {
            shown.transport_mechanism = mesh_packet::TransportMechanism::TransportMqtt as i32;
        }
        match opened {
            Opened::No(_) => {
                shown.channel = match &packet.lock {
                    Lock::Channel(name) => channel_hash(name),
                    Lock::Sealed { .. } => 0,
                };
                let hidden = self.scramble(&packet.data);
                shown.payload_variant = Some(mesh_packet::PayloadVariant::Encrypted(hidden));
            }
            Opened::Channel(index) => {
                self.learn(&packet);
                let cached = [PortNum::PositionApp as i32, PortNum::TelemetryApp as i32];
                if let Some(node) = self.device.node_mut(packet.from)
                    && cached.contains(&packet.data.portnum)
                {
                    node.cached = Some(packet.data.clone());
                }
                shown.channel = index;
                shown.payload_variant = Some(mesh_packet::PayloadVariant::Decoded(packet.data));
            }
            Opened::Sealed(key) => {
                shown.pki_encrypted = true;
                shown.public_key = key;
                shown.payload_variant = Some(mesh_packet::PayloadVariant::Decoded(packet.data));
            }
        }
        if to_us || shown.to == u32::MAX {
            self.show_client(shown, signed);
        }
    }

    /// A radio that is no mute client passes on what is not for itself, once, and pays for it with its own airtime.
    fn pass_on(&mut self, packet: &AirPacket) {
        let mute = self.device.owner.role == Role::ClientMute as i32;
        if mute || packet.to == self.device.num || packet.hop_limit == 0 || self.over_duty() {
            return;
        }
        let copy = AirPacket {
            hop_limit: packet.hop_limit - 1,
            relay: last_byte(self.device.num),
            ..packet.clone()
        };
        let priority = mesh_packet::Priority::Default as i32;
        if self.enqueue(copy, priority, 1).is_err() {
            self.debug("Router", "not passed on");
        }
    }

    /// Our radio begins to hear something. It waits with its own, and if it was not silent before, the
    /// two have met.
    pub fn carrier(&mut self, until_us: u64) {
        if self.config.collisions && self.now_us < self.tx.busy_until_us.max(self.tx.sends_until_us)
        {
            // Receptions that are under way at once: few. Taken out again when they end.
            self.tx.collided.push(until_us);
        }
        self.tx.busy_until_us = self.tx.busy_until_us.max(until_us);
    }

    /// Was what ends now disturbed?
    pub fn has_collided(&mut self) -> bool {
        let now = self.now_us;
        let hit = self.tx.collided.contains(&now);
        self.tx.collided.retain(|end| *end > now);
        hit
    }

    /// Airtime of others: the channel is busy, and timers wait.
    pub fn hear_airtime(&mut self, airtime_us: u64) {
        self.meter.heard(self.now_us, airtime_us);
        self.postpone(0, airtime_us);
    }

    fn open(&self, packet: &AirPacket) -> Opened {
        match &packet.lock {
            Lock::Sealed { by, to } => match self.device.key_of(packet.from) {
                Some(key) if key == *by && *to == self.device.key => Opened::Sealed(key.0.to_vec()),
                Some(_) => Opened::No(routing::Error::NoChannel),
                None => Opened::No(routing::Error::PkiUnknownPubkey),
            },
            Lock::Channel(name) => match self.device.channel_index(name) {
                // A direct text in the open is not accepted (firmware 2.7.14 and later).
                Some(_)
                    if packet.to == self.device.num
                        && packet.data.portnum == PortNum::TextMessageApp as i32
                        && !self.device.owner.is_licensed =>
                {
                    Opened::No(routing::Error::NoChannel)
                }
                Some(index) => Opened::Channel(index),
                None => Opened::No(routing::Error::NoChannel),
            },
        }
    }

    /// The radio's own ack or refusal, whoever is attached.
    fn answer(&mut self, packet: &AirPacket, opened: &Opened) {
        let used = packet.hop_start.saturating_sub(packet.hop_limit);
        let is_ack = packet.data.portnum == PortNum::RoutingApp as i32;
        let hops = if is_ack { used } else { (used + 2).min(7) };
        let (reason, text) = match opened {
            Opened::No(reason) => (*reason, false),
            _ => (routing::Error::None, packet.data.portnum == PortNum::TextMessageApp as i32),
        };
        self.send_routing(packet.from, packet.id, reason as i32, text, hops);
    }

    /// Our names and key, to a node or to everybody.
    pub fn send_node_info(&mut self, to: u32) {
        let hops = self.device.lora().hop_limit;
        let packet = AirPacket {
            from: self.device.num,
            to,
            id: self.rng.id(),
            data: Data {
                portnum: PortNum::NodeinfoApp as i32,
                payload: self.device.owner.encode_to_vec(),
                bitfield: Some(0),
                ..Data::default()
            },
            lock: Lock::Channel(self.device.channel_name(0).unwrap_or_default().to_owned()),
            hop_limit: hops,
            hop_start: hops,
            want_ack: to != u32::MAX,
            via_mqtt: false,
            signed: false,
            relay: last_byte(self.device.num),
        };
        let id = packet.id;
        let sent = !self.over_duty()
            && self.submit(packet, mesh_packet::Priority::Background as i32).is_ok();
        self.queue_status(if sent { 0 } else { DISABLED }, id);
    }

    /// What an opened packet teaches the radio.
    fn learn(&mut self, packet: &AirPacket) {
        match PortNum::try_from(packet.data.portnum) {
            Ok(PortNum::RoutingApp) if packet.to == self.device.num => {
                self.settled(packet.data.request_id);
                let unknown = Routing::decode(packet.data.payload.as_slice()).is_ok_and(|r| {
                    r.variant
                        == Some(routing::Variant::ErrorReason(
                            routing::Error::PkiUnknownPubkey as i32,
                        ))
                });
                if unknown {
                    self.send_node_info(packet.from);
                }
            }
            Ok(PortNum::NodeinfoApp) => {
                if let Ok(said) = User::decode(packet.data.payload.as_slice()) {
                    self.learn_user(packet.from, said);
                }
            }
            _ => {}
        }
    }

    /// The first key that comes with a number stays; a NodeInfo with another one is not believed.
    fn learn_user(&mut self, num: u32, said: User) {
        let held = self.device.key_of(num);
        if held.is_some_and(|key| key.0.as_slice() != said.public_key.as_slice()) {
            return;
        }
        if let Some(node) = self.device.node_mut(num) {
            node.saved &= node.info.user.as_ref() == Some(&said);
            node.info.user = Some(said);
        }
    }

    fn note_node(&mut self, packet: &AirPacket, snr: f32) {
        let heard_at = self.radio_time();
        let hops = packet.hop_start.saturating_sub(packet.hop_limit);
        if self.device.node(packet.from).is_none() {
            self.device.remember(NodeInfo {
                num: packet.from,
                user: Some(user(
                    packet.from,
                    &format!("Meshtastic {:04x}", packet.from & 0xffff),
                    &format!("{:04x}", packet.from & 0xffff),
                    None,
                )),
                ..NodeInfo::default()
            });
        }
        if let Some(node) = self.device.node_mut(packet.from) {
            node.info.snr = snr;
            node.info.last_heard = heard_at;
            node.info.hops_away = Some(hops);
            node.info.via_mqtt = packet.via_mqtt;
        }
    }

    /// What an unopened packet looks like: noise of the right length.
    fn scramble(&mut self, data: &Data) -> Vec<u8> {
        (0..data.encoded_len()).map(|_| self.rng.next().to_le_bytes()[0]).collect()
    }
}

/// A channel's one-byte name on the air. Invented like the channels' keys, but stable.
fn channel_hash(name: &str) -> u32 {
    u32::from(name.bytes().fold(8u8, |hash, byte| hash ^ byte))
}
