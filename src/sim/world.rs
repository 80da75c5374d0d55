//! The simulated world: its state in one place, and the calendar of what happens next.
//!
//! Owns time (microseconds since the start, by Tokio's clock), the order of events, and reboots.
//! What happens in an event is in the sibling that names its place: phone, router, ether.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use meshtastic::protobufs::from_radio;

use super::air::{AirPacket, Meter, Recent, Rng, Transmission};
use super::client::AtDoor;
use super::config::{SimConfig, SimPeer};
use super::device::Device;
use super::ether::Relayed;
use super::peers::Peer;
use super::phone::Phone;
use super::router::Transmitter;
use super::stats::{self, Counters};
use super::stream::{Conn, Line};

/// Events that may wait at once. Above it new ones are dropped, as if lost on the air.
const MAX_EVENTS: usize = 65_536;
/// Transmissions that are remembered for tests; the oldest go first.
const MAX_LOG: usize = 100_000;
/// Packets that a node remembers in order to drop repetitions.
pub(super) const HISTORY: usize = 500;

/// Something that will happen. Events of the radio carry the number of the boot that they belong
/// to, so that a reboot undoes them.
#[derive(Debug)]
pub(super) enum Event {
    /// The radio looks after its client.
    Pump,
    /// The radio handles the packets that it addressed to itself.
    Loopback,
    /// The radio may start the next transmission.
    TxReady { boot: u64 },
    /// The transmission is over.
    TxDone { boot: u64 },
    /// A packet that waits for an ack is due again.
    Retry { boot: u64, id: u32 },
    /// Own telemetry goes to the client.
    Telemetry { boot: u64 },
    /// Own counters go to the client.
    LocalStats { boot: u64 },
    /// The node table is saved.
    Save { boot: u64 },
    /// Has the client said anything lately?
    Idle { session: u64 },
    /// A client has said goodbye.
    Hangup { session: u64 },
    /// The radio goes down.
    Reboot { boot: u64, downtime: Duration },
    /// The radio is back.
    Booted,
    /// A packet reaches our radio.
    RadioHears { packet: Box<AirPacket>, snr: f32, rssi: i32 },
    /// Our radio begins to hear something that lasts until then.
    Carrier { until_us: u64 },
    /// Our radio hears a relay repeat its own packet.
    OwnRelayed { boot: u64, id: u32, airtime_us: u64 },
    /// A packet of our radio reaches a peer.
    PeerHears { peer: usize, packet: Box<AirPacket> },
    /// A peer broadcasts its telemetry.
    Beacon { peer: usize },
    /// A peer's packet that waits for an ack is due again.
    PeerRetry { peer: usize, id: u32 },
}

/// Everything there is.
pub(super) struct World {
    pub config: SimConfig,
    pub now_us: u64,
    pub rng: Rng,
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    // What a reboot of our radio keeps:
    pub device: Device,
    // What it loses:
    pub boot: u64,
    pub booted_us: u64,
    pub down: bool,
    pub phone: Phone,
    pub tx: Transmitter,
    pub meter: Meter,
    pub seen: Recent<(u32, u32)>,
    pub counters: Counters,
    /// When a client set the clock, and to what.
    pub clock: Option<(u64, u32)>,
    // The rest of the world:
    pub peers: Vec<Peer>,
    pub relayed: Relayed,
    pub log: VecDeque<Transmission>,
    /// The texts of clients, taken or not; bounded like the transmissions.
    pub door: VecDeque<AtDoor>,
}

impl World {
    pub fn new(config: SimConfig) -> World {
        let mut world = World {
            now_us: 0,
            rng: Rng::new(config.seed),
            events: BTreeMap::new(),
            order: 0,
            device: Device::new(&config),
            boot: 0,
            booted_us: 0,
            down: true,
            phone: Phone::default(),
            tx: Transmitter::default(),
            meter: Meter::new(),
            seen: Recent::new(HISTORY),
            counters: Counters::default(),
            clock: None,
            peers: config.peers.iter().cloned().map(Peer::new).collect(),
            relayed: Relayed::default(),
            log: VecDeque::new(),
            door: VecDeque::new(),
            config,
        };
        world.booted();
        for peer in 0..world.peers.len() {
            world.plan_first_beacon(peer);
        }
        world
    }

    /// One more peer.
    pub fn add_peer(&mut self, spec: SimPeer) {
        self.peers.push(Peer::new(spec));
        self.plan_first_beacon(self.peers.len() - 1);
    }

    /// Plans an event.
    pub fn at(&mut self, at_us: u64, event: Event) {
        if self.events.len() >= MAX_EVENTS {
            return;
        }
        self.order += 1;
        self.events.insert((at_us, self.order), event);
    }

    /// Plans an event so much later.
    pub fn after(&mut self, by_us: u64, event: Event) {
        self.at(self.now_us.saturating_add(by_us), event);
    }

    /// When the next event is due.
    pub fn next_due(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets everything happen that is due by then, each at its own time.
    pub fn run_until(&mut self, now_us: u64) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > now_us {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now_us = self.now_us.max(at);
            self.happen(event);
        }
        self.now_us = self.now_us.max(now_us);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Pump => self.pump(),
            Event::Loopback => self.loopback(),
            Event::Idle { session } => self.check_idle(session),
            Event::Hangup { session } => self.hang_up(session),
            Event::RadioHears { packet, snr, rssi } => self.radio_hears(*packet, snr, rssi),
            Event::Carrier { until_us } => self.carrier(until_us),
            Event::PeerHears { peer, packet } => self.peer_hears(peer, *packet),
            Event::PeerRetry { peer, id } => self.peer_retry(peer, id),
            Event::Beacon { peer } => self.beacon(peer),
            Event::Booted => self.booted(),
            Event::TxReady { boot }
            | Event::TxDone { boot }
            | Event::Retry { boot, .. }
            | Event::Telemetry { boot }
            | Event::LocalStats { boot }
            | Event::Save { boot }
            | Event::Reboot { boot, .. }
            | Event::OwnRelayed { boot, .. }
                if boot != self.boot || self.down => {}
            Event::TxReady { .. } => self.tx_ready(),
            Event::TxDone { .. } => self.tx_done(),
            Event::Retry { id, .. } => self.retry(id),
            Event::Telemetry { .. } => self.telemetry(),
            Event::LocalStats { .. } => self.local_stats(),
            Event::Save { .. } => self.save_nodes(),
            Event::Reboot { downtime, .. } => self.go_down(downtime),
            Event::OwnRelayed { id, airtime_us, .. } => self.own_relayed(id, airtime_us),
        }
    }

    /// Microseconds that something on the air takes by the simulation's clock.
    pub fn real(&self, air_us: u64) -> u64 {
        air_us / u64::from(self.config.speed.max(1))
    }

    /// The radio reboots: what it had in memory is gone.
    pub fn go_down(&mut self, downtime: Duration) {
        if self.down {
            return;
        }
        self.down = true;
        self.boot += 1;
        self.phone.forget(self.config.reboot_closes);
        self.tx = Transmitter::default();
        self.seen = Recent::new(HISTORY);
        self.counters = Counters::default();
        self.clock = None;
        self.meter.forget();
        self.device.restart();
        self.after(micros(downtime), Event::Booted);
    }

    fn booted(&mut self) {
        self.down = false;
        self.booted_us = self.now_us;
        let boot = self.boot;
        self.after(60_000_000, Event::Telemetry { boot });
        self.after(stats::EVERY_US, Event::LocalStats { boot });
        self.after(60_000_000, Event::Save { boot });
        self.boot_text();
        // On a serial line 2.7 says so; 2.8 wants to, and does not.
        if !self.is_2_8() && self.phone.conn.as_ref().is_some_and(|c| c.line == Line::Serial) {
            self.frame(from_radio::PayloadVariant::Rebooted(true));
        }
        self.queue_status(0, 0);
    }

    fn save_nodes(&mut self) {
        for node in &mut self.device.nodes {
            node.saved = true;
        }
        self.after(60_000_000, Event::Save { boot: self.boot });
    }

    /// Unix seconds by the radio's clock; 0 until a client has set it.
    pub fn radio_time(&self) -> u32 {
        self.clock.map_or(0, |(at, unix)| {
            let passed = self.now_us.saturating_sub(at) / 1_000_000;
            unix.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX))
        })
    }

    /// Notes a transmission for tests.
    pub fn log(&mut self, transmission: Transmission) {
        if self.log.len() >= MAX_LOG {
            self.log.pop_front();
        }
        self.log.push_back(transmission);
    }

    /// Notes a client's text for tests.
    pub fn note_at_door(&mut self, text: AtDoor) {
        if self.door.len() >= MAX_LOG {
            self.door.pop_front();
        }
        self.door.push_back(text);
    }

    /// Ends the client's connection.
    pub fn drop_link(&mut self) {
        if let Some(conn) = self.phone.conn.take() {
            Conn::close(&conn);
        }
    }

    /// Is it the connection that the radio serves now?
    pub fn serves(&self, conn: &Arc<Conn>) -> bool {
        self.phone.conn.as_ref().is_some_and(|c| Arc::ptr_eq(c, conn))
    }
}

/// A duration in microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
