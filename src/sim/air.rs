//! Packets on the air and what they cost: the simulated ether's own words.
//!
//! Owns the plaintext packet with its "sealed to this key" marks, its length on the air, the
//! airtime meters as firmware keeps them, and the seeded randomness. Must not know any client.

use std::collections::VecDeque;

use meshtastic::Message as _;
use meshtastic::protobufs::Data;

use crate::node::PublicKey;

/// Bytes that every LoRa packet of the mesh starts with.
const HEADER: usize = 16;
/// Bytes that encryption to a key adds.
const SEAL: usize = 12;
/// Bytes that a signature adds.
const SIGNATURE: usize = 66;
/// The longest packet on the air.
const MAX_FRAME: usize = 255;

/// How a packet is closed to others.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lock {
    /// Everyone who has the channel of this name reads it, and could have written it.
    Channel(String),
    /// Only the holder of `to` reads it, and only the holder of `by` could have written it.
    Sealed { by: PublicKey, to: PublicKey },
}

/// One packet on the air.
#[derive(Debug, Clone)]
pub(super) struct AirPacket {
    pub from: u32,
    pub to: u32,
    pub id: u32,
    pub data: Data,
    pub lock: Lock,
    pub hop_limit: u32,
    pub hop_start: u32,
    pub want_ack: bool,
    pub via_mqtt: bool,
    /// Carries a signature (firmware 2.8).
    pub signed: bool,
    /// Last byte of the number of who sent this copy.
    pub relay: u8,
}

impl AirPacket {
    /// Bytes on the air; `None` when no LoRa packet can hold it.
    pub fn frame_len(&self) -> Option<usize> {
        let len = frame_len(&self.data, matches!(self.lock, Lock::Sealed { .. }))?;
        let len = len + if self.signed { SIGNATURE } else { 0 };
        (len <= MAX_FRAME).then_some(len)
    }

    pub fn is_broadcast(&self) -> bool {
        self.to == u32::MAX
    }
}

/// Bytes on the air; `None` when they are too many.
pub(super) fn frame_len(data: &Data, sealed: bool) -> Option<usize> {
    let len = data.encoded_len() + HEADER + if sealed { SEAL } else { 0 };
    (len <= MAX_FRAME).then_some(len)
}

/// Is there room for a signature in a packet that is not sealed?
pub(super) fn signature_fits(data: &Data) -> bool {
    data.encoded_len() + HEADER + SIGNATURE <= MAX_FRAME
}

/// One transmission of our radio.
#[derive(Debug, Clone, PartialEq)]
pub struct Transmission {
    /// Milliseconds after the start of the simulation at which it began.
    pub at_ms: u64,
    /// Its packet id.
    pub id: crate::node::PacketId,
    /// Whose packet it is: our own, or another's that our radio passes on.
    pub from: crate::node::NodeNum,
    /// Whom it was for.
    pub to: crate::node::NodeNum,
    /// Length on the air, header included.
    pub bytes: usize,
    /// Time on the air.
    pub airtime_us: u32,
    /// 1 for the first try.
    pub attempt: u32,
    /// `PortNum`: texts are 1, acks of the radio itself 5.
    pub port: i32,
}

/// Airtime meters in slots, as firmware keeps them: own transmissions by the minute for an hour,
/// everything heard or sent by ten seconds for a minute.
#[derive(Debug)]
pub(super) struct Meter {
    tx: Slots<60>,
    channel: Slots<6>,
    /// What tests want the radio to claim instead.
    pub claimed_tx: Option<f32>,
    pub claimed_channel: Option<f32>,
}

impl Meter {
    pub fn new() -> Meter {
        Meter {
            tx: Slots::new(60_000_000),
            channel: Slots::new(10_000_000),
            claimed_tx: None,
            claimed_channel: None,
        }
    }

    /// A reboot: the sums are gone, what tests want claimed stays.
    pub fn forget(&mut self) {
        self.tx = Slots::new(self.tx.slot_us);
        self.channel = Slots::new(self.channel.slot_us);
    }

    pub fn sent(&mut self, now_us: u64, airtime_us: u64) {
        self.tx.add(now_us, airtime_us);
        self.channel.add(now_us, airtime_us);
    }

    pub fn heard(&mut self, now_us: u64, airtime_us: u64) {
        self.channel.add(now_us, airtime_us);
    }

    /// Percent of the last hour.
    pub fn air_util_tx(&self, now_us: u64) -> f32 {
        self.claimed_tx.unwrap_or_else(|| percent(self.tx.sum(now_us), 3_600_000_000))
    }

    /// Percent of the last minute.
    pub fn channel_utilization(&self, now_us: u64) -> f32 {
        self.claimed_channel.unwrap_or_else(|| percent(self.channel.sum(now_us), 60_000_000))
    }

    /// Minutes until the hour's sum has fallen to `limit_us`.
    pub fn silent_minutes(&self, now_us: u64, limit_us: u64) -> u32 {
        (1..=60u32)
            .find(|m| self.tx.sum(now_us + u64::from(*m) * 60_000_000) <= limit_us)
            .unwrap_or(60)
    }
}

#[allow(clippy::cast_precision_loss)]
fn percent(part_us: u64, whole_us: u64) -> f32 {
    (part_us as f64 / whole_us as f64 * 100.0).min(100.0) as f32
}

/// Sums over the last `N` slots of equal length.
#[derive(Debug)]
struct Slots<const N: usize> {
    slot_us: u64,
    /// Slot number and its sum.
    sums: [(u64, u64); N],
}

impl<const N: usize> Slots<N> {
    fn new(slot_us: u64) -> Self {
        Slots { slot_us, sums: [(0, 0); N] }
    }

    fn add(&mut self, now_us: u64, us: u64) {
        let slot = now_us / self.slot_us;
        let place = usize::try_from(slot % N as u64).unwrap_or(0);
        if let Some(entry) = self.sums.get_mut(place) {
            if entry.0 != slot {
                *entry = (slot, 0);
            }
            entry.1 += us;
        }
    }

    fn sum(&self, now_us: u64) -> u64 {
        let slot = now_us / self.slot_us;
        self.sums.iter().filter(|(s, _)| s + N as u64 > slot).map(|(_, us)| us).sum()
    }
}

/// The last so many of something: adding says whether it was there already.
#[derive(Debug)]
pub(super) struct Recent<T> {
    items: VecDeque<T>,
    cap: usize,
}

impl<T: PartialEq> Recent<T> {
    pub fn new(cap: usize) -> Self {
        Recent { items: VecDeque::new(), cap }
    }

    /// True when it is new.
    pub fn insert(&mut self, item: T) -> bool {
        // Newest first: repeats come soon.
        if self.items.iter().rev().any(|seen| *seen == item) {
            return false;
        }
        if self.items.len() >= self.cap {
            self.items.pop_front();
        }
        self.items.push_back(item);
        true
    }
}

/// A small generator (splitmix64): the simulation must be repeatable, not unpredictable.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A packet id, never 0.
    pub fn id(&mut self) -> u32 {
        ((self.next() >> 32) as u32).max(1)
    }

    /// 0..n; 0 for n = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// True with this chance. Draws always, so that one chance does not shift the next.
    #[allow(clippy::cast_precision_loss)]
    pub fn chance(&mut self, probability: f32) -> bool {
        let drawn = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        drawn < f64::from(probability)
    }
}
