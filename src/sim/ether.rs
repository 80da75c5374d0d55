//! The simulated air around our radio: who hears what, and when.
//!
//! Owns propagation over relays, loss, duplicates, and what relays repeat. Relays stand in rings: ring 1 is
//! next to our radio, a peer with `hops` n is next to ring n. Must not know what a packet says.
//!
//! A relay that knows the way passes a direct packet on, listens for the next one doing the same (or for the
//! destination's ack), and repeats it once when it hears nothing. A broadcast is passed on once.

use meshtastic::protobufs::PortNum;

use super::air::AirPacket;
use super::config::SimPeer;
use super::router::last_byte;
use super::world::{Event, World};

/// Transmissions of a relay that knows the way.
const RELAY_TRIES: u32 = 2;

/// What all relays have transmitted: our packets and those for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Relayed {
    /// Transmissions.
    pub count: u64,
    /// Their time on air, µs.
    pub airtime_us: u64,
}

impl World {
    /// Our radio has sent a packet: who hears it, over which relays.
    pub fn propagate(&mut self, packet: &AirPacket) {
        let airtime_us = self.airtime_us(packet);
        let destination = self.peers.iter().position(|p| p.spec.num.0 == packet.to);
        let furthest = match destination {
            _ if packet.is_broadcast() => self.peers.iter().map(|p| p.spec.hops).max().unwrap_or(0),
            // What is for a neighbour is not relayed.
            Some(peer) => self.peers.get(peer).map_or(0, |p| p.spec.hops),
            None => 0,
        };
        let mut at = self.now_us;
        self.reach(0, at, airtime_us, packet);
        let furthest = furthest.min(packet.hop_limit);
        if furthest == 0 || self.rng.chance(self.config.hop_loss) {
            return;
        }
        for ring in 1..=furthest {
            let copy = AirPacket {
                hop_limit: packet.hop_limit - ring,
                relay: relay_byte(ring),
                ..packet.clone()
            };
            let to_destination = ring == furthest && !packet.is_broadcast();
            let loss = match destination.and_then(|peer| self.peers.get(peer)) {
                Some(peer) if to_destination && !peer.spec.reachable => 1.0,
                Some(peer) if to_destination => peer.spec.loss,
                _ => self.config.hop_loss,
            };
            let mut passed_on = None;
            for attempt in 0..self.relay_tries(packet) {
                at += self.relay_us(airtime_us);
                if attempt > 0 {
                    at += self.repeat_us(packet);
                }
                self.note_relayed(airtime_us);
                if ring == 1 && !self.rng.chance(self.config.hop_loss) {
                    let (boot, id) = (self.boot, packet.id);
                    self.plan_carrier(at, airtime_us);
                    self.at(at, Event::OwnRelayed { boot, id, airtime_us });
                }
                let reached = self.reach(ring, at, airtime_us, &copy);
                let arrived = if to_destination { reached } else { !self.rng.chance(loss) };
                if arrived {
                    passed_on = passed_on.or(Some(at));
                }
                if passed_on.is_some() && !self.rng.chance(loss) {
                    break; // it hears the next one
                }
            }
            let Some(arrival) = passed_on else { return };
            at = arrival;
        }
    }

    /// A transmission of a ring (0: ours) reaches the peers next to it. Did any of those concerned hear it?
    fn reach(&mut self, ring: u32, at: u64, airtime_us: u64, packet: &AirPacket) -> bool {
        let mut heard = false;
        for peer in 0..self.peers.len() {
            let Some(spec) = self.peers.get(peer).map(|p| &p.spec) else { continue };
            let concerned = packet.is_broadcast() || spec.num.0 == packet.to;
            if !concerned || spec.hops != ring {
                continue;
            }
            let (loss, reachable) = (spec.loss, spec.reachable);
            if !self.rng.chance(loss) {
                heard |= reachable;
                self.at(at, Event::PeerHears { peer, packet: Box::new(packet.clone()) });
            }
            if ring > 0 && self.rng.chance(self.config.duplicates) && !self.rng.chance(loss) {
                heard |= reachable;
                let later = at + self.relay_us(airtime_us);
                self.at(later, Event::PeerHears { peer, packet: Box::new(packet.clone()) });
            }
        }
        heard
    }

    /// A peer's radio transmits: whether and when our radio hears it.
    pub fn peer_transmits(&mut self, index: usize, packet: AirPacket) {
        let airtime_us = self.airtime_us(&packet);
        let Some(peer) = self.peers.get(index) else { return };
        let SimPeer { hops, loss, snr, rssi, reachable, drop_acks, ack_loss, .. } =
            peer.spec.clone();
        let is_ack = packet.data.portnum == PortNum::RoutingApp as i32;
        let mut lost = !reachable || (is_ack && drop_acks);
        // Every chance is drawn, so that one peer's fate does not shift the others'.
        lost |= self.rng.chance(if is_ack { ack_loss } else { 0.0 });
        lost |= self.rng.chance(loss);
        // A neighbour hears us and waits; it can't do better about what it does not hear.
        let from = if hops == 0 { self.now_us.max(self.tx.sends_until_us) } else { self.now_us };
        let mut at = from + self.relay_us(airtime_us);
        if lost || hops > packet.hop_limit {
            return;
        }
        if hops > 0 && !self.rng.chance(loss) {
            // It hears the relay next to it: an ack, for its firmware.
            self.peer_relayed(index, packet.id);
        }
        let mut arrivals = vec![at];
        for ring in (1..=hops).rev() {
            let Some(first) = arrivals.first() else { return };
            at = *first;
            arrivals.clear();
            for attempt in 0..self.relay_tries(&packet) {
                at += self.relay_us(airtime_us);
                if attempt > 0 {
                    at += self.repeat_us(&packet);
                }
                self.note_relayed(airtime_us);
                let loss = self.config.hop_loss;
                if !self.rng.chance(loss) {
                    arrivals.push(at);
                }
                if !arrivals.is_empty() && !self.rng.chance(loss) {
                    break;
                }
            }
            if ring == 1 && !arrivals.is_empty() && self.rng.chance(self.config.duplicates) {
                arrivals.push(at + self.relay_us(airtime_us));
            }
        }
        let arriving = AirPacket {
            hop_limit: packet.hop_limit - hops,
            relay: if hops == 0 { packet.relay } else { relay_byte(1) },
            ..packet
        };
        for at in arrivals {
            self.plan_carrier(at, airtime_us);
            self.at(at, Event::RadioHears { packet: Box::new(arriving.clone()), snr, rssi });
        }
    }

    /// Something of that length will have arrived at our radio by then.
    fn plan_carrier(&mut self, end_us: u64, airtime_us: u64) {
        let begin = end_us.saturating_sub(self.real(airtime_us)).max(self.now_us);
        self.at(begin, Event::Carrier { until_us: end_us });
    }

    /// Time on the air of a packet, unscaled.
    pub fn airtime_us(&self, packet: &AirPacket) -> u64 {
        let len = packet.frame_len().unwrap_or(255);
        self.modem().map_or(0, |m| u64::from(m.time_on_air_us(len)))
    }

    /// One relay's pause and its transmission, by the simulation's clock.
    fn relay_us(&mut self, airtime_us: u64) -> u64 {
        let slots = 1 + self.rng.below(8);
        let pause = self.modem().map_or(0, |m| u64::from(m.slot_ms()) * 1000 * slots);
        self.real(pause + airtime_us)
    }

    /// How long a relay listens for the next one before it repeats a packet.
    fn repeat_us(&self, packet: &AirPacket) -> u64 {
        let len = packet.frame_len().unwrap_or(255);
        let ms = self.modem().map_or(5000, |m| m.retransmission_ms(len, 0));
        self.real(u64::from(ms) * 1000)
    }

    fn relay_tries(&self, packet: &AirPacket) -> u32 {
        if self.config.routes && !packet.is_broadcast() { RELAY_TRIES } else { 1 }
    }

    fn note_relayed(&mut self, airtime_us: u64) {
        self.relayed.count += 1;
        self.relayed.airtime_us += airtime_us;
    }
}

/// By which byte the relay of a ring names itself.
fn relay_byte(ring: u32) -> u8 {
    0x50u8.wrapping_add(last_byte(ring))
}
