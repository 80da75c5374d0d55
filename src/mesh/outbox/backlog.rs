//! How long something new would wait for the air.
//!
//! Owns the estimate by which questions are refused at the door: an answer that could leave only much later helps
//! nobody, and answers must not pile up behind an hour that is full. Must not decide who is refused.

use super::flight::{self, TRANSMISSIONS};
use super::gate::GAP_MS;
use super::part::Stage;
use super::{Outbox, ReplyKind};
use crate::assistant::PeerId;
use crate::clock::Now;
use crate::mesh::airtime::law::{Admission, Use};

const HOUR_MS: u64 = 3_600_000;

impl Outbox {
    /// Does an answer to that peer wait for the air?
    pub fn is_waiting(&self, peer: &PeerId) -> bool {
        let theirs = self.replies.values().filter(|reply| reply.peer == *peer && !reply.stopped);
        theirs
            .filter(|reply| reply.kind == ReplyKind::Answer)
            .flat_map(|reply| reply.parts.iter().take(reply.released))
            .any(|part| part.stage == Stage::Queued)
    }

    /// How long one more reply of that kind would wait, ms, behind what waits already and behind so many answers that
    /// are still being made (each taken for one full part). An estimate: losses make it longer, silence shorter.
    /// 0 while nobody knows what may be sent.
    pub fn wait_ms(&self, purpose: Use, to_come: usize, now: Now) -> u64 {
        let Ok(law) = &self.law else { return 0 };
        let full_us = flight::full_part_us(law) / TRANSMISSIONS;
        let (mut parts, mut need_us) = (1, full_us * TRANSMISSIONS);
        for reply in self.replies.values() {
            let first =
                matches!(reply.kind, ReplyKind::Command | ReplyKind::Notice | ReplyKind::Distress);
            if reply.stopped || (purpose == Use::Command && !first) {
                continue; // what answers wait for does not keep a command
            }
            let direct = reply.to.node().is_some();
            let reaction = reply.kind == ReplyKind::Reaction;
            for part in reply.parts.iter().take(reply.released) {
                if part.stage == Stage::Queued {
                    let threaded = reply.in_reply_to.is_some();
                    let len = flight::frame_len(direct, law, &part.text, threaded, reaction);
                    need_us += u64::from(law.modem.time_on_air_us(len));
                    parts += 1;
                }
            }
        }
        if purpose == Use::Answer {
            parts += to_come as u64;
            need_us += to_come as u64 * full_us;
        }
        let share_us = self.air.share_us(law).max(1);
        let by_air = match self.air.admit(need_us, purpose, law, &self.ledger, now) {
            Admission::Now => 0,
            Admission::At(at) => at.saturating_sub(now.mono_ms),
            // More than an hour of it.
            Admission::Never => need_us.saturating_mul(HOUR_MS) / share_us,
        };
        by_air.max(parts * GAP_MS)
    }
}
