//! The gate: whether something may leave now, and what.
//!
//! Owns the pace, the room in the radio's queue, the pauses, and the order between peers. Airtime is
//! `airtime`'s to judge.

use super::flight::{self, Flight, TRANSMISSIONS};
use super::part::{Known, Reply, Stage};
use super::{Destination, Outbox, ReplyKind, Step};
use crate::clock::Now;
use crate::mesh::airtime::law::{Admission, Law, Pace, Use};
use crate::mesh::view::MeshEvent;
use crate::node::{NodeNum, PacketId};
use crate::radio::{Outbound, port};

/// Between two texts, ms. Radios drop a text within 2 s of the last, and with the jitter of their loop up
/// to 2.2 s. It is also the longest time that a `QueueStatus` is waited for: one send is in flight.
pub(super) const GAP_MS: u64 = 2_300;
/// The gap is so many times as long while the channel is busy.
const BUSY_FACTOR: u64 = 4;
/// A full queue that nobody has heard of for so long may have room again, ms.
const ROOM_MS: u64 = 60_000;
/// The class of what waits longest; see [`Outbox::ready`].
const ANSWER: u8 = 4;
/// After an error of the disk, ms.
const DISK_MS: u64 = 30_000;
/// The firmware's own default, where the radio's settings hold no hop limit.
const HOPS: u32 = 3;
const MAX_HOPS: u32 = 7;

/// Why nothing leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    /// For people.
    pub reason: String,
    /// When to look again; `None`: when something happens.
    pub until_ms: Option<u64>,
}

/// The gate's own memory.
#[derive(Debug)]
pub(super) struct Gate {
    last_text_ms: Option<u64>,
    /// Free places in the radio's queue, where known, and since when.
    free: Option<(u32, u64)>,
    /// A pause that the radio asked for.
    pause: Option<Obstacle>,
    /// Waiting for airtime.
    airtime: Option<Obstacle>,
    /// Neither ledger nor replies can be written.
    disk_until_ms: u64,
    /// What was last told.
    told: Option<String>,
}

impl Gate {
    pub fn new(last_text_ms: Option<u64>) -> Gate {
        Gate { last_text_ms, free: None, pause: None, airtime: None, disk_until_ms: 0, told: None }
    }

    pub fn link_up(&mut self) {
        self.free = None;
        self.pause = None;
        self.airtime = None;
    }

    pub fn room(&mut self, free: u32, now: Now) {
        self.free = Some((free, now.mono_ms));
    }

    /// The radio counts the gap from what it accepted: begin anew.
    pub fn refused_for_pace(&mut self, now: Now) {
        self.last_text_ms = Some(now.mono_ms);
    }

    pub fn pause(&mut self, why: &str, until_ms: u64, now: Now) {
        let reason = format!("{why}; next try at {}", time_of_day(until_ms, now));
        self.pause = Some(Obstacle { reason, until_ms: Some(until_ms) });
    }
}

impl Outbox {
    /// What to do now. What is to be sent is charged and on disk when this returns it; hand it to the radio,
    /// or call [`send_failed`](Outbox::send_failed). Ask again after every event, and at the time given.
    pub fn poll(&mut self, now: Now) -> Step {
        self.time_flights(now);
        self.sweep(now);
        self.flush();
        if !self.unwritten.is_empty() && self.gate.disk_until_ms <= now.mono_ms {
            self.gate.disk_until_ms = now.mono_ms + DISK_MS;
        }
        if self.gate.airtime.as_ref().is_some_and(|o| o.until_ms.is_some_and(|t| t <= now.mono_ms))
        {
            self.gate.airtime = None;
        }
        let step = self.step(now);
        let reason = self.obstacle(now).map(|obstacle| obstacle.reason);
        if reason != self.gate.told {
            self.gate.told.clone_from(&reason);
            self.events.push(MeshEvent::Paused { reason });
        }
        step
    }

    fn step(&mut self, now: Now) -> Step {
        let mut wake = self.next_timer(now);
        if !self.up {
            return Step::Wait(wake);
        }
        if let Some(obstacle) = self.hard_obstacle(now) {
            return Step::Wait(earliest(wake, obstacle.until_ms));
        }
        let Ok(law) = self.law.as_ref().copied() else { return Step::Wait(wake) };
        let ready = self.ready(now, &mut wake);
        if ready.is_empty() {
            self.gate.airtime = None;
            return Step::Wait(wake);
        }
        if let Some(at) = self.closed_until(now) {
            return Step::Wait(earliest(wake, Some(at)));
        }
        let mut spent: Option<Use> = None;
        for (order, part) in ready {
            let Some(reply) = self.replies.get(&order) else { continue };
            let purpose = match reply.kind {
                ReplyKind::Answer | ReplyKind::Reaction | ReplyKind::Text { .. } => Use::Answer,
                ReplyKind::Command
                | ReplyKind::Notice
                | ReplyKind::Confirm
                | ReplyKind::Distress => Use::Command,
            };
            if spent == Some(purpose) {
                continue; // one that waits for airtime is not overtaken by its like
            }
            if law.licensed && reply.to.key().is_some() {
                // It was for that key alone, and a licensed radio sends everything in the clear.
                let why = "the radio is in licensed mode: nothing is encrypted, so it is not sent";
                self.break_off(order, part, why.to_owned());
                wake = earliest(wake, Some(now.mono_ms));
                continue;
            }
            let need = need_us(reply, part, &law);
            match self.air.admit(need, purpose, &law, &self.ledger, now) {
                Admission::Now => match self.hand_over(order, part, &law, now) {
                    Some(outbound) => {
                        if spent.is_none() {
                            self.gate.airtime = None;
                        }
                        return Step::Send(outbound);
                    }
                    None => return Step::Wait(earliest(wake, Some(self.gate.disk_until_ms))),
                },
                Admission::At(at) => {
                    spent = spent.or(Some(purpose));
                    let why = format!(
                        "the airtime of this hour is used up; goes on at {}",
                        time_of_day(at, now)
                    );
                    wake = earliest(wake, Some(at));
                    if self.gate.airtime.is_none() {
                        if self.stage_of(order, part) == Some(Stage::Queued) {
                            self.set(order, part, Stage::Queued, Known::Waiting(why.clone()));
                        }
                        self.gate.airtime = Some(Obstacle { reason: why, until_ms: Some(at) });
                    }
                }
                Admission::Never => {
                    if self.stage_of(order, part) == Some(Stage::Handed) {
                        self.set(order, part, Stage::Settled, Known::NotConfirmed);
                    } else {
                        let why = "with its retries it is longer than the share of an hour";
                        self.shrink(order, part, why);
                    }
                    wake = earliest(wake, Some(now.mono_ms));
                }
            }
        }
        self.flush();
        Step::Wait(wake)
    }

    /// Why nothing leaves now, for people too.
    pub(super) fn obstacle(&self, now: Now) -> Option<Obstacle> {
        self.hard_obstacle(now).or_else(|| self.gate.airtime.clone())
    }

    fn hard_obstacle(&self, now: Now) -> Option<Obstacle> {
        if self.stopped {
            let reason = "the operator has stopped all answers".to_owned();
            return Some(Obstacle { reason, until_ms: None });
        }
        if self.gate.disk_until_ms > now.mono_ms {
            let reason = "the data folder can't be written: nothing is sent meanwhile".to_owned();
            return Some(Obstacle { reason, until_ms: Some(self.gate.disk_until_ms) });
        }
        if self.radio.is_some()
            && let Err(reason) = &self.law
        {
            return Some(Obstacle { reason: reason.clone(), until_ms: None });
        }
        let pause = self.gate.pause.as_ref();
        if let Some(pause) = pause.filter(|p| p.until_ms.is_none_or(|until| until > now.mono_ms)) {
            return Some(pause.clone());
        }
        match self.air.pace(now) {
            Pace::Full(until_ms) => Some(Obstacle {
                reason: "the channel is full (over 40 % in use)".to_owned(),
                until_ms: Some(until_ms),
            }),
            Pace::Normal | Pace::Busy => None,
        }
    }

    /// When the gate opens: the gap to the last text, and the room in the radio's queue. `None`: it is open.
    fn closed_until(&self, now: Now) -> Option<u64> {
        let factor = if self.air.pace(now) == Pace::Busy { BUSY_FACTOR } else { 1 };
        let gap = self.gate.last_text_ms.map(|last| last.saturating_add(GAP_MS * factor));
        let room = self.gate.free.filter(|(free, _)| *free == 0).map(|(_, since)| since + ROOM_MS);
        gap.into_iter().chain(room).filter(|at| *at > now.mono_ms).max()
    }

    /// The parts that could leave, best first: unknown fates, distress, commands, reactions, answers; within each the
    /// peer that was served longest ago, then the older reply.
    fn ready(&self, now: Now, wake: &mut Option<u64>) -> Vec<(u64, usize)> {
        let mut busy: Vec<&crate::assistant::PeerId> =
            self.flights.values().map(|flight| &flight.peer).collect();
        let mut found = Vec::new();
        for (order, reply) in &self.replies {
            let Some(index) = reply.front() else { continue };
            let Some(part) = reply.parts.get(index) else { continue };
            if busy.contains(&&reply.peer) || part.stage == Stage::Held {
                continue;
            }
            let class = match (part.stage, reply.kind) {
                (Stage::Handed, _) => 0,
                (_, ReplyKind::Distress) => 1,
                (_, ReplyKind::Command | ReplyKind::Notice | ReplyKind::Confirm) => 2,
                (_, ReplyKind::Reaction) => 3,
                (_, ReplyKind::Answer | ReplyKind::Text { .. }) => ANSWER,
            };
            if part.not_before_ms > now.mono_ms {
                *wake = earliest(*wake, Some(part.not_before_ms));
                if class == ANSWER {
                    busy.push(&reply.peer); // a later answer does not overtake this one
                }
                continue;
            }
            let served = self.served.get(&reply.peer).copied().unwrap_or(0);
            found.push((class, served, *order, index));
        }
        found.sort_unstable();
        found.into_iter().map(|(_, _, order, index)| (order, index)).collect()
    }

    fn next_timer(&self, now: Now) -> Option<u64> {
        let flights = self.flights.values().map(Flight::due_ms).min();
        let sweep = (!self.replies.is_empty()).then_some(self.next_sweep_ms.max(now.mono_ms + 1));
        earliest(flights, sweep)
    }

    fn stage_of(&self, order: u64, part: usize) -> Option<Stage> {
        Some(self.replies.get(&order)?.parts.get(part)?.stage)
    }

    /// Charges it, writes it down, and gives the packet. `None`: the disk failed, and nothing may leave.
    fn hand_over(&mut self, order: u64, index: usize, law: &Law, now: Now) -> Option<Outbound> {
        let reply = self.replies.get(&order)?;
        let part = reply.parts.get(index)?;
        let again = if part.stage == Stage::Handed { part.id() } else { None };
        let Some(id) = again.or_else(|| self.new_id()) else {
            self.gate.disk_until_ms = now.mono_ms + DISK_MS; // no random numbers: as bad as no disk
            return None;
        };
        let reaction = reply.kind == ReplyKind::Reaction;
        let want_ack = reply.wants_ack();
        let direct = reply.to.node().is_some();
        let len = flight::frame_len(direct, law, &part.text, reply.in_reply_to.is_some(), reaction);
        let airtime_us = law.modem.time_on_air_us(len);
        let mut changed = reply.clone();
        let entry = changed.parts.get_mut(index)?;
        entry.add_id(id);
        // Under the id that it had, after a lost link: a peer behind a relay that has it acks it no second
        // time, so this is the one repetition that a part gets which is only passed on.
        entry.relayed_again |= again.is_some();
        entry.stage = Stage::Handed;
        entry.known = Known::Sent;
        entry.airtime_us = airtime_us;
        entry.doubted = false;
        let repeats = if want_ack { (TRANSMISSIONS - 1) * u64::from(airtime_us) } else { 0 };
        let charged = self.ledger.charge(id, airtime_us, repeats, now);
        if let Err(error) = charged.and_then(|()| self.folder.write(&changed)) {
            tracing::error!(%error, "nothing is sent that is not written down");
            self.ledger.settle(id, 0, now);
            self.gate.disk_until_ms = now.mono_ms + DISK_MS;
            return None;
        }
        let outbound = self.packet(&changed, index, id, want_ack)?;
        let busy = self.air.channel_utilization(now).unwrap_or(0.0).clamp(0.0, 100.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 100
        let busy = busy.ceil() as u8;
        let flight = Flight {
            order,
            part: index,
            peer: changed.peer.clone(),
            handed_ms: now.mono_ms,
            interval_ms: u64::from(law.modem.retransmission_ms(len, 0)),
            full_ms: TRANSMISSIONS * u64::from(law.modem.retransmission_ms(len, busy)),
            airtime_us,
            want_ack,
            relayed_ms: None,
            peer_heard: false,
        };
        self.flights.insert(id, flight);
        self.turn += 1;
        self.served.insert(changed.peer.clone(), self.turn);
        self.gate.last_text_ms = Some(now.mono_ms);
        if let Some((free, _)) = &mut self.gate.free {
            *free = free.saturating_sub(1);
        }
        let text = changed.parts.get(index).map(|part| part.text.clone()).unwrap_or_default();
        self.events.push(MeshEvent::PartSent {
            reply: changed.id.clone(),
            name: changed.name.clone(),
            id,
            part: index + 1,
            of: changed.parts.len(),
            bytes: text.len(),
            airtime_us,
            text: changed.shown(text),
        });
        self.replies.insert(order, changed);
        self.unwritten.remove(&order);
        Some(outbound)
    }

    fn packet(
        &self,
        reply: &Reply,
        index: usize,
        id: PacketId,
        want_ack: bool,
    ) -> Option<Outbound> {
        let part = reply.parts.get(index)?;
        let (to, channel, pki_key) = match &reply.to {
            Destination::Direct { node, key } => (*node, 0, *key),
            Destination::Channel { index } => (NodeNum::BROADCAST, *index, None),
        };
        Some(Outbound {
            to,
            channel,
            id,
            port: port::TEXT_MESSAGE,
            bytes: part.text.clone().into_bytes(),
            want_ack,
            want_response: false,
            hop_limit: self
                .hop_limit(reply.hops.filter(|_| part.silent == 0 && !part.relayed_again)),
            reply_id: reply.in_reply_to,
            emoji: reply.kind == ReplyKind::Reaction,
            pki_key,
        })
    }

    /// As far as the question came and one hop more, for the way back may be another; the radio's own limit at most,
    /// and that much where nobody knows or it was too few. Never 0: that would mean the radio's own.
    fn hop_limit(&self, taken: Option<u32>) -> u32 {
        let own = self.radio.as_ref().map_or(0, |radio| radio.lora.hop_limit);
        let own = if own == 0 { HOPS } else { own.min(MAX_HOPS) };
        taken.map_or(own, |taken| taken.saturating_add(1).min(own))
    }

    /// Random, never 0, never one that is remembered.
    fn new_id(&self) -> Option<PacketId> {
        (0..16).find_map(|_| {
            let id = PacketId(getrandom::u32().ok()?);
            (id.0 != 0 && self.part_of(id).is_none()).then_some(id)
        })
    }
}

/// What it costs with its retries.
fn need_us(reply: &Reply, index: usize, law: &Law) -> u64 {
    let Some(part) = reply.parts.get(index) else { return u64::MAX };
    let reaction = reply.kind == ReplyKind::Reaction;
    let direct = reply.to.node().is_some();
    let len = flight::frame_len(direct, law, &part.text, reply.in_reply_to.is_some(), reaction);
    let times = if reply.wants_ack() { TRANSMISSIONS } else { 1 };
    u64::from(law.modem.time_on_air_us(len)) * times
}

fn earliest(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The time of day at a time of this process's clock, for people.
fn time_of_day(mono_ms: u64, now: Now) -> String {
    let unix_ms = now.unix_ms.saturating_add(mono_ms.saturating_sub(now.mono_ms));
    let minutes = unix_ms.div_ceil(60_000) % 1440;
    format!("{:02}:{:02} UTC", minutes / 60, minutes % 60)
}
