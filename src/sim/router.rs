//! Our simulated radio's way out: checks, the send queue, retransmission.
//!
//! Owns what firmware decides between taking a packet and having sent it. Whom a transmission
//! reaches is `ether`'s matter.

use meshtastic::protobufs::{Data, MeshPacket, PortNum, mesh_packet, routing};

use super::air::{self, AirPacket, Lock, Transmission, frame_len};
use super::phone::routing_data;
use super::world::{Event, World};
use crate::node::{NodeNum, PacketId, PublicKey};
use tombolo_hw::lora::Modem;

/// Places in the radio's send queue.
pub(super) const MAX_TX_QUEUE: usize = 16;
/// Packets that wait for an ack at once. Above it a new one is sent without retries.
const MAX_PENDING: usize = 64;
/// Transmissions of a packet that wants an ack.
const TRIES: u32 = 3;
/// `QueueStatus.res` when the queue is full.
const QUEUE_FULL: i32 = 32;
/// `QueueStatus.res` when the transmitter is off.
pub(super) const DISABLED: i32 = 34;

/// What is on its way out.
#[derive(Debug, Default)]
pub(super) struct Transmitter {
    queue: Vec<Waiting>,
    on_air: Option<AirPacket>,
    pending: Vec<Pending>,
    order: u64,
    /// Until when others are heard.
    pub busy_until_us: u64,
    /// Until when it transmits.
    pub sends_until_us: u64,
    /// What arrives by then has met something else on its way, and is lost if that is wanted.
    pub collided: Vec<u64>,
    ready_planned: bool,
}

#[derive(Debug)]
struct Waiting {
    packet: AirPacket,
    priority: i32,
    attempt: u32,
    order: u64,
}

#[derive(Debug)]
struct Pending {
    packet: AirPacket,
    priority: i32,
    sent: u32,
    due_us: u64,
}

impl Transmitter {
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// Why a packet does not go out.
pub(super) enum Refusal {
    /// The client is told by a packet too.
    Nak(routing::Error),
    /// Only the `QueueStatus` tells.
    Status(i32),
}

impl World {
    pub(super) fn modem(&self) -> Option<Modem> {
        self.device.modem()
    }

    /// A client's packet for somebody else.
    pub fn client_sends(&mut self, packet: MeshPacket) {
        let id = packet.id;
        match self.admit(packet) {
            Ok(()) => self.queue_status(0, id),
            Err(Refusal::Status(res)) => self.queue_status(res, id),
            Err(Refusal::Nak(reason)) => {
                self.queue_status(reason as i32, id);
                if reason == routing::Error::DutyCycleLimit {
                    let minutes = self.meter.silent_minutes(self.now_us, self.duty_limit_us());
                    let words =
                        format!("Duty cycle limit exceeded. You can send again in {minutes} mins");
                    self.notify(id, &words);
                }
                self.tell_self(reason as i32, id);
            }
        }
    }

    fn admit(&mut self, packet: MeshPacket) -> Result<(), Refusal> {
        let Some(mesh_packet::PayloadVariant::Decoded(mut data)) = packet.payload_variant else {
            return Err(Refusal::Nak(routing::Error::BadRequest));
        };
        let default_hops = self.device.lora().hop_limit;
        // Without an ack wanted, an unset hop limit means no hop at all.
        let hop_limit = match packet.hop_limit {
            0 if packet.want_ack => default_hops,
            8.. => 3,
            given => given,
        };
        data.bitfield.get_or_insert(0);
        if self.over_duty() {
            return Err(Refusal::Nak(routing::Error::DutyCycleLimit));
        }
        let wanted = packet.pki_encrypted.then_some(packet.public_key.as_slice());
        let lock = self.lock_for(packet.to, packet.channel, &data, wanted)?;
        // 2.8 signs what it broadcasts, where that still fits.
        let signed = self.is_2_8()
            && packet.to == u32::MAX
            && !self.device.owner.is_licensed
            && air::signature_fits(&data);
        let priority = match PortNum::try_from(data.portnum) {
            _ if packet.priority != 0 => packet.priority,
            Ok(PortNum::TextMessageApp | PortNum::AdminApp) => mesh_packet::Priority::High as i32,
            _ if packet.want_ack => mesh_packet::Priority::Reliable as i32,
            _ => mesh_packet::Priority::Default as i32,
        };
        let air = AirPacket {
            from: self.device.num,
            to: packet.to,
            id: packet.id,
            data,
            lock,
            hop_limit,
            hop_start: hop_limit,
            want_ack: packet.want_ack,
            via_mqtt: false,
            signed,
            relay: last_byte(self.device.num),
        };
        self.submit(air, priority)
    }

    /// How a packet is closed, or why it can't be. In the firmware's order: size, key, channel.
    fn lock_for(
        &self,
        to: u32,
        channel: u32,
        data: &Data,
        wanted: Option<&[u8]>,
    ) -> Result<Lock, Refusal> {
        let in_the_open = matches!(
            PortNum::try_from(data.portnum),
            Ok(PortNum::TracerouteApp
                | PortNum::NodeinfoApp
                | PortNum::RoutingApp
                | PortNum::PositionApp)
        );
        if frame_len(data, false).is_none() {
            return Err(Refusal::Nak(routing::Error::TooLarge));
        }
        let licensed = self.device.owner.is_licensed;
        if to != u32::MAX && !licensed && (!in_the_open || wanted.is_some()) {
            if frame_len(data, true).is_none() {
                return Err(Refusal::Nak(routing::Error::TooLarge));
            }
            let Some(key) = self.device.key_of(to) else {
                return Err(Refusal::Nak(routing::Error::PkiSendFailPublicKey));
            };
            if wanted.and_then(PublicKey::from_slice).is_some_and(|k| k != key) {
                return Err(Refusal::Nak(routing::Error::PkiFailed));
            }
            return Ok(Lock::Sealed { by: self.device.key, to: key });
        }
        if wanted.is_some() {
            return Err(Refusal::Nak(routing::Error::PkiFailed));
        }
        match self.device.channel_name(channel) {
            Some(name) => Ok(Lock::Channel(name.to_owned())),
            None => Err(Refusal::Nak(routing::Error::NoChannel)),
        }
    }

    fn duty_limit_us(&self) -> u64 {
        let share = self.device.region().map_or(10_000, |r| u64::from(r.duty_permyriad));
        3_600_000_000 * share / 10_000
    }

    /// Has the last hour taken more than the region allows? Looked at before sending, so that one
    /// packet overshoots.
    pub fn over_duty(&self) -> bool {
        let share = self.device.region().map_or(10_000, |r| r.duty_permyriad);
        share < 10_000
            && !self.device.lora().override_duty_cycle
            && self.meter.air_util_tx(self.now_us) > f32::from(share) / 100.0
    }

    /// Queues a packet; one that wants an ack is tried again until it gets one.
    pub fn submit(&mut self, packet: AirPacket, priority: i32) -> Result<(), Refusal> {
        if packet.want_ack && self.tx.pending.len() < MAX_PENDING {
            let due_us = self.now_us + self.retry_us(&packet);
            let (boot, id) = (self.boot, packet.id);
            self.tx.pending.push(Pending { packet: packet.clone(), priority, sent: 1, due_us });
            self.at(due_us, Event::Retry { boot, id });
        }
        self.enqueue(packet, priority, 1)
    }

    pub fn enqueue(
        &mut self,
        packet: AirPacket,
        priority: i32,
        attempt: u32,
    ) -> Result<(), Refusal> {
        if self.device.region().is_none()
            || !self.device.lora().tx_enabled
            || self.modem().is_none()
        {
            return Err(Refusal::Status(DISABLED));
        }
        if self.tx.queue.len() >= MAX_TX_QUEUE {
            let lowest = self.tx.queue.iter().enumerate().min_by_key(|(_, w)| w.priority);
            match lowest.map(|(place, w)| (place, w.priority)) {
                Some((place, lower)) if lower < priority => {
                    self.tx.queue.remove(place);
                }
                _ => return Err(Refusal::Status(QUEUE_FULL)),
            }
        }
        self.tx.order += 1;
        let order = self.tx.order;
        self.tx.queue.push(Waiting { packet, priority, attempt, order });
        self.plan_tx();
        Ok(())
    }

    /// Plans the next transmission: when nobody is heard, after a random number of slots.
    fn plan_tx(&mut self) {
        if self.tx.ready_planned || self.tx.on_air.is_some() || self.tx.queue.is_empty() {
            return;
        }
        let slots = 1 + self.rng.below(8);
        let wait = self.modem().map_or(0, |m| u64::from(m.slot_ms()) * 1000 * slots);
        let from = self.now_us.max(self.tx.busy_until_us);
        self.tx.ready_planned = true;
        self.at(from + self.real(wait), Event::TxReady { boot: self.boot });
    }

    pub fn tx_ready(&mut self) {
        self.tx.ready_planned = false;
        if self.tx.busy_until_us > self.now_us {
            self.plan_tx();
            return;
        }
        let Some(modem) = self.modem() else { return };
        let next = self.tx.queue.iter().enumerate().max_by_key(|(_, w)| {
            // The highest priority, and of those the oldest.
            (w.priority, std::cmp::Reverse(w.order))
        });
        let Some(place) = next.map(|(place, _)| place) else { return };
        let was_full = self.tx.queue.len() >= MAX_TX_QUEUE;
        let Waiting { packet, attempt, .. } = self.tx.queue.remove(place);
        if was_full {
            self.queue_status(0, 0);
        }
        let bytes = packet.frame_len().unwrap_or(255);
        let airtime_us = modem.time_on_air_us(bytes);
        self.meter.sent(self.now_us, u64::from(airtime_us));
        self.counters.sent += 1;
        self.counters.relayed += u32::from(packet.from != self.device.num);
        self.log(Transmission {
            at_ms: self.now_us / 1000,
            id: PacketId(packet.id),
            from: NodeNum(packet.from),
            to: NodeNum(packet.to),
            bytes,
            airtime_us,
            attempt,
            port: packet.data.portnum,
        });
        self.debug("RadioIf", &format!("Started Tx (id=0x{:08x} len={bytes})", packet.id));
        self.postpone(packet.id, u64::from(airtime_us));
        self.tx.on_air = Some(packet);
        let lasts = self.real(u64::from(airtime_us));
        self.tx.sends_until_us = self.now_us + lasts;
        self.after(lasts, Event::TxDone { boot: self.boot });
    }

    pub fn tx_done(&mut self) {
        // Of what it passed on for others only the airtime matters here.
        if let Some(packet) = self.tx.on_air.take().filter(|p| p.from == self.device.num) {
            self.propagate(&packet);
        }
        self.plan_tx();
    }

    /// Other traffic puts off what waits for an ack, for it could not have come meanwhile.
    pub fn postpone(&mut self, except: u32, airtime_us: u64) {
        let by = self.real(airtime_us);
        for pending in self.tx.pending.iter_mut().filter(|p| p.packet.id != except) {
            pending.due_us += by;
        }
    }

    fn retry_us(&self, packet: &AirPacket) -> u64 {
        let busy = self.meter.channel_utilization(self.now_us).clamp(0.0, 100.0) as u8;
        let len = packet.frame_len().unwrap_or(255);
        let ms = self.modem().map_or(5000, |m| m.retransmission_ms(len, busy));
        self.real(u64::from(ms) * 1000)
    }

    pub fn retry(&mut self, id: u32) {
        let boot = self.boot;
        let now = self.now_us;
        let Some(place) = self.tx.pending.iter().position(|p| p.packet.id == id) else { return };
        let Some(pending) = self.tx.pending.get_mut(place) else { return };
        if pending.due_us > now {
            let due = pending.due_us;
            self.at(due, Event::Retry { boot, id });
            return;
        }
        if pending.sent >= TRIES {
            self.tx.pending.remove(place);
            self.tell_self(routing::Error::MaxRetransmit as i32, id);
            return;
        }
        pending.sent += 1;
        let (packet, priority, attempt) = (pending.packet.clone(), pending.priority, pending.sent);
        let due_us = now + self.retry_us(&packet);
        if let Some(pending) = self.tx.pending.get_mut(place) {
            pending.due_us = due_us;
        }
        self.at(due_us, Event::Retry { boot, id });
        if self.over_duty() {
            self.tell_self(routing::Error::DutyCycleLimit as i32, id);
        } else if self.enqueue(packet, priority, attempt).is_err() {
            self.debug("Router", "retransmission not queued");
        }
    }

    /// Ends the retries of a packet; true when there were any.
    pub fn settled(&mut self, id: u32) -> bool {
        let before = self.tx.pending.len();
        self.tx.pending.retain(|p| p.packet.id != id);
        self.tx.queue.retain(|w| w.packet.id != id || w.attempt == 1);
        self.tx.pending.len() < before
    }

    /// A relay repeats our packet: for the firmware that is an ack, though it says nothing about
    /// the destination.
    pub fn own_relayed(&mut self, id: u32, airtime_us: u64) {
        self.hear_airtime(airtime_us);
        if self.settled(id) {
            self.tell_self(routing::Error::None as i32, id);
        }
    }

    /// An ack or a refusal of the radio itself, over the air. It is never sealed.
    pub fn send_routing(&mut self, to: u32, id: u32, reason: i32, want_ack: bool, hops: u32) {
        let packet = AirPacket {
            from: self.device.num,
            to,
            id: self.rng.id(),
            data: routing_data(reason, id),
            lock: Lock::Channel(self.device.channel_name(0).unwrap_or_default().to_owned()),
            hop_limit: hops,
            hop_start: hops,
            want_ack,
            via_mqtt: false,
            signed: false,
            relay: last_byte(self.device.num),
        };
        if !self.over_duty() && self.submit(packet, mesh_packet::Priority::Ack as i32).is_err() {
            self.debug("Router", "ack not queued");
        }
    }
}

/// The byte by which relays name themselves.
pub(super) fn last_byte(num: u32) -> u8 {
    num.to_le_bytes()[0]
}
