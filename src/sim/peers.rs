//! The peers' radios: what they make of a packet, how they answer, what their owners say.
//!
//! Owns their memory and their side of acks. Which packets reach them is `ether`'s matter.

use std::collections::VecDeque;

use meshtastic::Message as _;
use meshtastic::protobufs::{Data, DeviceMetrics, PortNum, Telemetry, routing, telemetry};

use super::air::{AirPacket, Lock, Recent};
use super::config::SimPeer;
use super::device;
use super::phone::routing_data;
use super::router::last_byte;
use super::world::{Event, HISTORY, World, micros};
use super::{SayTo, Saying};
use crate::node::{NodeNum, PacketId};

/// Texts that are remembered for a peer; the oldest go first.
const MAX_HEARD: usize = 10_000;
/// Packets of one peer that wait for an ack at once; above it they are not repeated.
const MAX_PENDING: usize = 32;
/// Transmissions of a packet that wants an ack.
const TRIES: u32 = 3;

/// A text as a peer's radio showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// Its id.
    pub id: PacketId,
    /// Its sender: always our radio.
    pub from: NodeNum,
    /// What it says. Invalid UTF-8 is replaced.
    pub text: String,
    /// Which text it answers.
    pub reply_id: Option<PacketId>,
    /// It is a reaction.
    pub emoji: bool,
    /// Sealed to the peer's key.
    pub pki: bool,
    /// The channel it came on, by our radio's index; `None` for a direct message.
    pub channel: Option<u32>,
    /// Milliseconds after the start of the simulation.
    pub at_ms: u64,
}

/// A peer and its radio's memory.
#[derive(Debug)]
pub(super) struct Peer {
    pub spec: SimPeer,
    seen: Recent<(u32, u32)>,
    pub heard: VecDeque<Heard>,
    /// How many there were in all.
    pub heard_total: u64,
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    packet: AirPacket,
    sent: u32,
}

impl Peer {
    pub fn new(spec: SimPeer) -> Peer {
        Peer {
            spec,
            seen: Recent::new(HISTORY),
            heard: VecDeque::new(),
            heard_total: 0,
            pending: Vec::new(),
        }
    }
}

impl World {
    /// A packet of our radio arrives at a peer.
    pub fn peer_hears(&mut self, index: usize, packet: AirPacket) {
        let our_key = self.device.key;
        let channel = match &packet.lock {
            Lock::Channel(name) if packet.is_broadcast() => self.device.channel_index(name),
            _ => None,
        };
        let at_ms = self.now_us / 1000;
        let Some(peer) = self.peers.get_mut(index) else { return };
        if !peer.spec.reachable {
            return;
        }
        let for_it = packet.to == peer.spec.num.0;
        let new = peer.seen.insert((packet.from, packet.id));
        let opened = match &packet.lock {
            Lock::Sealed { .. } if peer.spec.forgets_our_key || peer.spec.key.is_none() => {
                Err(routing::Error::PkiUnknownPubkey)
            }
            Lock::Sealed { by, to } if *by == our_key && Some(*to) == peer.spec.key => Ok(()),
            Lock::Sealed { .. } => Err(routing::Error::NoChannel),
            Lock::Channel(name) => match &peer.spec.channels {
                Some(has) if !has.contains(name) => Err(routing::Error::NoChannel),
                _ => Ok(()),
            },
        };
        if let Err(reason) = opened {
            if for_it && packet.want_ack && (new || packet.hop_start == packet.hop_limit) {
                self.peer_answers(index, &packet, reason, false);
            }
            return;
        }
        let sealed = matches!(packet.lock, Lock::Sealed { .. });
        match PortNum::try_from(packet.data.portnum) {
            // A direct text in the open is refused by current firmware.
            Ok(PortNum::TextMessageApp) if new && (packet.is_broadcast() || sealed) => {
                if peer.heard.len() >= MAX_HEARD {
                    peer.heard.pop_front();
                }
                peer.heard_total += 1;
                peer.heard.push_back(Heard {
                    id: PacketId(packet.id),
                    from: NodeNum(packet.from),
                    text: String::from_utf8_lossy(&packet.data.payload).into_owned(),
                    reply_id: (packet.data.reply_id != 0).then_some(PacketId(packet.data.reply_id)),
                    emoji: packet.data.emoji != 0,
                    pki: sealed,
                    channel,
                    at_ms,
                });
            }
            Ok(PortNum::NodeinfoApp) => {
                peer.spec.forgets_our_key = false;
                if for_it && new && packet.data.want_response {
                    self.peer_introduces_itself(index, packet.id);
                }
            }
            Ok(PortNum::RoutingApp) if for_it => {
                peer.pending.retain(|p| p.packet.id != packet.data.request_id);
                let unknown = routing_data(routing::Error::PkiUnknownPubkey as i32, 0).payload;
                if new && packet.data.payload == unknown {
                    // Our radio has no key of it: it introduces itself, as ours would.
                    self.peer_introduces_itself(index, 0);
                }
            }
            _ => {}
        }
        // What comes a second time over relays is not acked again: flooding has made the ack redundant.
        let again = new || packet.hop_start == packet.hop_limit;
        if for_it && packet.want_ack && again {
            // An ack of a text wants an ack itself; an ack of that does not.
            let text = packet.data.portnum == PortNum::TextMessageApp as i32;
            self.peer_answers(index, &packet, routing::Error::None, text);
        }
    }

    /// A peer's names and key for our radio.
    fn peer_introduces_itself(&mut self, index: usize, request_id: u32) {
        let Some(spec) = self.peers.get(index).map(|p| p.spec.clone()) else { return };
        let short: String = spec.name.chars().take(3).collect();
        let user = device::user(spec.num.0, &spec.name, &short.to_uppercase(), spec.key);
        let data = Data {
            portnum: PortNum::NodeinfoApp as i32,
            payload: user.encode_to_vec(),
            request_id,
            bitfield: Some(0),
            ..Data::default()
        };
        let packet = self.on_the_first_channel(spec.num, self.device.num, data);
        self.peer_sends(index, packet);
    }

    fn peer_answers(
        &mut self,
        index: usize,
        packet: &AirPacket,
        reason: routing::Error,
        want_ack: bool,
    ) {
        let Some(peer) = self.peers.get(index) else { return };
        let used = packet.hop_start.saturating_sub(packet.hop_limit);
        let ack_of_ack = packet.data.portnum == PortNum::RoutingApp as i32;
        let hops = if ack_of_ack { used } else { (used + 2).min(7) };
        let answer = AirPacket {
            from: peer.spec.num.0,
            to: packet.from,
            id: 0,
            data: routing_data(reason as i32, packet.id),
            lock: Lock::Channel(self.device.channel_name(0).unwrap_or_default().to_owned()),
            hop_limit: hops,
            hop_start: hops,
            want_ack,
            via_mqtt: false,
            signed: false,
            relay: last_byte(peer.spec.num.0),
        };
        self.peer_sends(index, answer);
    }

    /// A peer's owner says something; the id of the packet, 0 when it does not fit the air.
    pub fn peer_says(&mut self, index: usize, saying: &Saying) -> u32 {
        let Some(spec) = self.peers.get(index).map(|p| p.spec.clone()) else { return 0 };
        let reply_id = saying.reply_id.map_or(0, |id| id.0);
        let data = text_data(&saying.text, reply_id, saying.emoji);
        let primary = self.device.channel_name(0).unwrap_or_default().to_owned();
        let (to, lock) = match (saying.to, spec.key) {
            (SayTo::Direct, Some(key)) if !saying.in_the_open => {
                (self.device.num, Lock::Sealed { by: key, to: self.device.key })
            }
            (SayTo::Direct, _) => (self.device.num, Lock::Channel(primary)),
            (SayTo::Channel(index), _) => {
                // A channel that we don't have is one that we can't open.
                let name = self.device.channel_name(index).unwrap_or("\u{1}not ours");
                (u32::MAX, Lock::Channel(name.to_owned()))
            }
        };
        let packet = AirPacket {
            from: saying.claims.unwrap_or(spec.num).0,
            to,
            id: saying.id.map_or_else(|| self.rng.id(), |id| id.0),
            data,
            lock,
            hop_limit: 3,
            hop_start: 3,
            want_ack: saying.want_ack && saying.to == SayTo::Direct,
            via_mqtt: saying.via_mqtt,
            signed: saying.signed && saying.to != SayTo::Direct,
            relay: last_byte(spec.num.0),
        };
        if packet.frame_len().is_none() {
            return 0;
        }
        self.peer_sends(index, packet)
    }

    /// A peer's radio sends a packet, and again until it is acked if it wants that.
    pub fn peer_sends(&mut self, index: usize, mut packet: AirPacket) -> u32 {
        if packet.id == 0 {
            packet.id = self.rng.id();
        }
        let id = packet.id;
        if packet.want_ack
            && let Some(peer) = self.peers.get_mut(index)
            && peer.pending.len() < MAX_PENDING
        {
            peer.pending.push(Pending { packet: packet.clone(), sent: 1 });
            self.plan_peer_retry(index, &packet);
        }
        self.peer_transmits(index, packet);
        id
    }

    /// Peers don't all begin at once.
    pub fn plan_first_beacon(&mut self, index: usize) {
        if let Some(every) = self.peers.get(index).and_then(|peer| peer.spec.beacon) {
            let wait = self.rng.below(micros(every));
            self.after(wait, Event::Beacon { peer: index });
        }
    }

    /// What a peer says on the channel that everybody has; its id is given when it is sent.
    fn on_the_first_channel(&self, from: NodeNum, to: u32, data: Data) -> AirPacket {
        AirPacket {
            from: from.0,
            to,
            id: 0,
            data,
            lock: Lock::Channel(self.device.channel_name(0).unwrap_or_default().to_owned()),
            hop_limit: 3,
            hop_start: 3,
            want_ack: false,
            via_mqtt: false,
            signed: false,
            relay: last_byte(from.0),
        }
    }

    /// A peer's telemetry for everybody, and the next one later.
    pub fn beacon(&mut self, index: usize) {
        let Some(spec) = self.peers.get(index).map(|peer| peer.spec.clone()) else { return };
        let Some(every) = spec.beacon else { return };
        self.after(micros(every), Event::Beacon { peer: index });
        let metrics = DeviceMetrics {
            battery_level: Some(87),
            channel_utilization: Some(1.5),
            air_util_tx: Some(0.25),
            ..DeviceMetrics::default()
        };
        let variant = Some(telemetry::Variant::DeviceMetrics(metrics));
        let data = Data {
            portnum: PortNum::TelemetryApp as i32,
            payload: Telemetry { time: 0, variant }.encode_to_vec(),
            bitfield: Some(0),
            ..Data::default()
        };
        let packet = self.on_the_first_channel(spec.num, u32::MAX, data);
        self.peer_sends(index, packet);
    }

    fn plan_peer_retry(&mut self, peer: usize, packet: &AirPacket) {
        let len = packet.frame_len().unwrap_or(255);
        let ms = self.modem().map_or(5000, |m| m.retransmission_ms(len, 0));
        let by = self.real(u64::from(ms) * 1000);
        self.after(by, Event::PeerRetry { peer, id: packet.id });
    }

    pub fn peer_retry(&mut self, index: usize, id: u32) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let Some(place) = peer.pending.iter().position(|p| p.packet.id == id) else { return };
        let Some(pending) = peer.pending.get_mut(place) else { return };
        if pending.sent >= TRIES {
            peer.pending.remove(place);
            return;
        }
        pending.sent += 1;
        let packet = pending.packet.clone();
        self.plan_peer_retry(index, &packet);
        self.peer_transmits(index, packet);
    }

    /// A relay repeats a peer's packet, and its radio hears that: it repeats it no more.
    pub fn peer_relayed(&mut self, index: usize, id: u32) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.pending.retain(|p| p.packet.id != id);
        }
    }

    /// Where a peer of that name or number is.
    pub fn peer_index(&self, name: &str) -> Option<usize> {
        self.peers.iter().position(|p| p.spec.name == name)
    }
}

/// A text as it goes over the air.
pub(super) fn text_data(text: &[u8], reply_id: u32, emoji: bool) -> Data {
    Data {
        portnum: PortNum::TextMessageApp as i32,
        payload: text.to_vec(),
        reply_id,
        emoji: u32::from(emoji),
        bitfield: Some(0),
        ..Data::default()
    }
}
