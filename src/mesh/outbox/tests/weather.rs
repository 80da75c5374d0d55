//! A model of everything around an outbox that can go wrong: loss, delay, duplication, reordering, refusals, broken
//! links, radios and machines that restart. Owns what happens; what must hold all the same is said in `storm`.
//!
//! The model radio keeps its client's last ids while it runs, repeats what nobody acknowledges, and forgets all of it
//! when it restarts. What it tells its client may come late, twice, in another order, or go to another client.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::mesh::view::Delivery;

pub const PEERS: [NodeNum; 3] = [ANA, BEN, NodeNum(0xc0c0_c0c3)];
const BOOT_MS: u64 = 20_000;

/// What goes wrong, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// One transmission is not heard by its peer.
    pub text: u64,
    /// An ack does not come back.
    pub ack: u64,
    /// A relay is heard passing it on; half of the time to nobody.
    pub relay: u64,
    /// What the radio tells goes to another client.
    pub stolen: u64,
    /// … comes up to a minute late, and so in another order.
    pub late: u64,
    /// … comes twice.
    pub twice: u64,
    /// A hand-over is refused, in one of many ways.
    pub refused: u64,
    /// After a hand-over the link breaks.
    pub link: u64,
    /// … the radio restarts.
    pub radio: u64,
    /// … the process is killed.
    pub kill: u64,
    /// … the machine loses its power, and its clock begins anew.
    pub power: u64,
}

#[derive(Debug, Clone)]
enum Event {
    Transmit { packet: Outbound, attempt: u64, boot: u64 },
    Status { id: PacketId, res: i32, free: u32 },
    Routing { from: NodeNum, id: PacketId, error: i32 },
    Beacons,
    Telemetry,
    Up,
}

pub struct Storm {
    folder: tempfile::TempDir,
    pub outbox: Outbox,
    faults: Faults,
    random: u64,
    radio: RadioInfo,
    law: Law,
    /// The world's time, ms; the machine's clock is behind by `booted`.
    real: u64,
    booted: u64,
    boot: u64,
    /// Of the radio.
    radio_boot: u64,
    /// On a serial line the radio's memory of ids outlives the connection.
    serial: bool,
    up: bool,
    had: VecDeque<PacketId>,
    refused: BTreeSet<PacketId>,
    due: BTreeMap<(u64, u64), Event>,
    order: u64,
    door: Vec<u64>,
    handed: Vec<PacketId>,
    transmitted: Vec<(u64, u64)>,
    peers: BTreeMap<NodeNum, BTreeSet<u32>>,
    pub received: Vec<(NodeNum, String)>,
    pub permitted: BTreeMap<(NodeNum, String), usize>,
    pub told: BTreeMap<(String, usize), Delivery>,
}

impl Storm {
    pub fn new(seed: u64, faults: Faults, radio: RadioInfo) -> Storm {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let now = Now { mono_ms: 100_000, unix_ms: 1_700_000_000_000 };
        let outbox = Outbox::open(folder.path(), 1.0, 3, now, "boot-0").unwrap();
        let law = Law::of(&radio).unwrap();
        let mut storm = Storm {
            folder,
            outbox,
            faults,
            random: seed | 1,
            radio,
            law,
            real: 200_000,
            booted: 100_000,
            boot: 0,
            radio_boot: 0,
            serial: seed.is_multiple_of(2),
            up: false,
            had: VecDeque::new(),
            refused: BTreeSet::new(),
            due: BTreeMap::new(),
            order: 0,
            door: Vec::new(),
            handed: Vec::new(),
            transmitted: Vec::new(),
            peers: BTreeMap::new(),
            received: Vec::new(),
            permitted: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        storm.after(500, Event::Up);
        storm.after(60_000, Event::Telemetry);
        storm.after(300_000, Event::Beacons);
        storm
    }

    fn now(&self) -> Now {
        let mono_ms = self.real - self.booted;
        Now { mono_ms, unix_ms: 1_700_000_000_000 + self.real }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw(100) < percent
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.order += 1;
        self.due.insert((self.real + ms, self.order), event);
    }

    /// The radio tells its client something, if all goes well.
    fn tell(&mut self, event: Event) {
        if self.chance(self.faults.stolen) {
            return;
        }
        let late = if self.chance(self.faults.late) { self.draw(60_000) } else { 0 };
        if self.chance(self.faults.twice) {
            let wait = late + self.draw(20_000);
            self.after(wait, event.clone());
        }
        self.after(late, event);
    }

    pub fn answer(&mut self, id: &str, node: NodeNum, kind: ReplyKind, text: &str) {
        let reply = NewReply {
            secret: None,
            id: TurnId(id.to_owned()),
            peer: PeerId(format!("key:{node}")),
            name: "Somebody".to_owned(),
            to: Destination::Direct { node, key: Some(PublicKey([7; 32])) },
            in_reply_to: Some(PacketId(77)),
            kind,
            hops: Some(1),
            text: text.to_owned(),
        };
        self.outbox.submit(reply, self.now()).unwrap();
    }

    pub fn run(&mut self, ms: u64) {
        let end = self.real + ms;
        while self.real < end {
            while let Some(entry) = self.due.first_entry().filter(|e| e.key().0 <= self.real) {
                let event = entry.remove();
                self.happen(event);
            }
            let wake = match self.outbox.poll(self.now()) {
                Step::Send(packet) => {
                    self.note();
                    self.take(packet);
                    self.real
                }
                Step::Wait(at) => at.map_or(u64::MAX, |at| at.saturating_add(self.booted)),
            };
            self.note();
            let next = self.due.keys().next().map_or(end, |(at, _)| *at);
            self.real = next.min(wake).min(end).max(self.real + 1);
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Up if self.up => {}
            Event::Up => {
                self.up = true;
                self.outbox.link_up(Arc::new(self.radio.clone()), now);
            }
            Event::Telemetry => {
                self.after(60_000, Event::Telemetry);
                if self.up && self.faults.text < 100 {
                    let busy = Some(self.draw(30) as f32);
                    let metrics = Telemetry { channel_utilization: busy, ..Telemetry::default() };
                    self.outbox.telemetry(metrics, now);
                }
            }
            Event::Beacons => {
                self.after(600_000, Event::Beacons);
                for peer in PEERS.into_iter().filter(|_| self.up) {
                    self.outbox.heard(peer, now);
                }
            }
            Event::Transmit { boot, .. } if boot != self.radio_boot => {}
            Event::Transmit { packet, attempt, .. } => self.transmit(packet, attempt),
            // While the link is down the radio's words are lost.
            _ if !self.up => {}
            Event::Status { id, res, free } => {
                self.outbox.queue_status(QueueStatus { res, free, maxlen: 16, id }, now);
            }
            Event::Routing { from, id, error } => {
                if from != OURS {
                    self.outbox.heard(from, now);
                }
                self.outbox.routing(from, id, error, now);
            }
        }
        self.note();
    }

    fn note(&mut self) {
        for event in self.outbox.take_events() {
            if let MeshEvent::PartState { reply, part, delivery, .. } = event {
                self.told.insert((reply.0, part), delivery);
            }
        }
    }

    fn permit(&mut self, packet: &Outbound) {
        *self.permitted.entry((packet.to, text(packet))).or_default() += 1;
    }

    /// The client hands a packet over.
    fn take(&mut self, packet: Outbound) {
        let unknown = self.handed.contains(&packet.id);
        self.handed.push(packet.id);
        let broken = self.chance(self.faults.link);
        let rebooted = self.chance(self.faults.radio);
        let killed = self.chance(self.faults.kill);
        let power = self.chance(self.faults.power);
        let lost = (broken || killed || power) && self.chance(50);
        if !lost {
            self.door.push(self.real);
            self.at_door(packet, unknown);
        }
        if power || killed {
            self.restart(power);
        }
        if rebooted || power {
            self.radio_boot += 1;
        }
        if broken || rebooted || killed || power {
            if rebooted || power || !self.serial {
                self.had.clear(); // on the network each connection has its own
            }
            self.up = false;
            self.outbox.link_down(self.now());
            let away = if self.chance(50) { 3_000 } else { 60_000 };
            self.after(away, Event::Up);
        }
    }

    fn at_door(&mut self, packet: Outbound, unknown: bool) {
        if self.had.contains(&packet.id) {
            return; // without a word
        }
        let id = packet.id;
        // Before anything else: also one that is refused is ignored when it comes again.
        self.had.push_back(id);
        if self.had.len() > 20 {
            self.had.pop_front();
        }
        if unknown && self.refused.contains(&id) {
            // The first refusal may still be on its way.
            self.permit(&packet);
        }
        if self.chance(self.faults.refused) {
            if unknown {
                // Of unknown fate, and its repetition refused: the one case without a safe way.
                self.permit(&packet);
            }
            self.refused.insert(id);
            let own = |error| Event::Routing { from: OURS, id, error };
            match self.draw(8) {
                0 | 1 => self.tell(own(routing::RATE_LIMIT_EXCEEDED)),
                2 => {
                    self.tell(Event::Status { id, res: 9, free: 16 });
                    self.tell(own(routing::DUTY_CYCLE_LIMIT));
                }
                3 => self.tell(Event::Status { id, res: 32, free: 0 }),
                4 => self.tell(own(routing::NO_INTERFACE)),
                5 => self.tell(own(routing::TOO_LARGE)),
                6 => self.tell(own(routing::PKI_SEND_FAIL_PUBLIC_KEY)),
                _ => {
                    // Its peer lost our key: sent, and not opened.
                    self.on_air(&packet);
                    let error = routing::PKI_UNKNOWN_PUBKEY;
                    self.tell(Event::Routing { from: packet.to, id, error });
                }
            }
            return;
        }
        self.tell(Event::Status { id, res: 0, free: 15 });
        let (boot, wait) = (self.radio_boot, 50 + self.draw(3_000));
        self.after(wait, Event::Transmit { packet, attempt: 1, boot });
    }

    fn frame_us(&self, packet: &Outbound) -> (usize, u64) {
        let kind = tombolo_hw::text::PacketKind::Direct;
        let len = tombolo_hw::text::frame_len(kind, packet.bytes.len(), packet.reply_id.is_some());
        (len, u64::from(self.law.modem.time_on_air_us(len)))
    }

    fn on_air(&mut self, packet: &Outbound) {
        let (_, us) = self.frame_us(packet);
        self.transmitted.push((self.real + us / 1000, us));
    }

    fn transmit(&mut self, packet: Outbound, attempt: u64) {
        let id = packet.id;
        if attempt > 3 {
            self.permit(&packet);
            self.tell(Event::Routing { from: OURS, id, error: routing::MAX_RETRANSMIT });
            return;
        }
        self.on_air(&packet);
        let (len, _) = self.frame_us(&packet);
        let heard = !self.chance(self.faults.text);
        if heard && self.peers.entry(packet.to).or_default().insert(id.0) {
            self.received.push((packet.to, text(&packet)));
        }
        let relayed = self.chance(self.faults.relay);
        if relayed {
            self.tell(Event::Routing { from: OURS, id, error: routing::NONE });
        }
        let acked = heard && !self.chance(self.faults.ack);
        if acked {
            self.tell(Event::Routing { from: packet.to, id, error: routing::NONE });
        }
        if relayed {
            // Whether the ack came, or came to this client, is another matter: it may go once more.
            self.permit(&packet);
        }
        if relayed || acked {
            return; // the radio repeats it no more
        }
        let wait = u64::from(self.law.modem.retransmission_ms(len, 0));
        let boot = self.radio_boot;
        self.after(wait, Event::Transmit { packet, attempt: attempt + 1, boot });
    }

    /// The process ends at this instant and a new one begins; after a power cut on a machine whose clock is new.
    fn restart(&mut self, power: bool) {
        if power {
            self.boot += 1;
            self.real += BOOT_MS;
            self.booted = self.real - 5_000;
        }
        let boot = format!("boot-{}", self.boot);
        self.outbox = Outbox::open(self.folder.path(), 1.0, 3, self.now(), &boot).unwrap();
        self.up = false;
    }

    /// The weather clears up; what can end ends.
    pub fn calm(&mut self) {
        self.faults = Faults::default();
        // Where a part takes all of an hour that the law gives, the last one leaves days later.
        for _ in 0..400 {
            self.run(3_600_000);
            if self.outbox.replies.values().all(Reply::done) {
                return;
            }
        }
    }

    /// No two texts too close, no hour over the law; gives the fullest hour, µs.
    pub fn check_air(&self) -> u64 {
        for pair in self.door.windows(2) {
            assert!(pair[1] >= pair[0] + 2_000, "texts at {} and {} ms", pair[0], pair[1]);
        }
        let mut sorted = self.transmitted.clone();
        sorted.sort_unstable();
        let (mut first, mut sum, mut fullest) = (0, 0, 0);
        for (end, us) in &sorted {
            sum += us;
            while sorted[first].0 + 3_600_000 <= *end {
                sum -= sorted[first].1;
                first += 1;
            }
            assert!(sum <= self.law.limit_us, "{sum} µs in the hour before {end}");
            fullest = fullest.max(sum);
        }
        fullest
    }
}
