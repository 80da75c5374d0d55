//! The loop guard: two programs that answer each other are paused, whatever they write.
//!
//! Owns, for each peer, how often in a row its text came at once after our answer. A mark in the text would be no guard:
//! anybody can write it or leave it out. People need longer to read and type than programs do.

use std::collections::HashMap;

use crate::assistant::PeerId;

/// So many texts in a row, each at once after an answer of ours, are no person.
const IN_A_ROW: u32 = 8;
/// The first pause; each further one is twice as long, ms.
const PAUSE_MS: u64 = 600_000;
/// No pause is longer, ms.
const LONGEST_MS: u64 = 86_400_000;
/// So long after its last pause a peer begins anew, ms.
const FORGIVEN_MS: u64 = 86_400_000;
/// Peers that are remembered. Numbers can be made up, so the one that was quiet for longest makes room.
const MAX_PEERS: usize = 256;

/// What a text at the door is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is in its way.
    Pass,
    /// With this one the peer is paused, for so many ms.
    PausedNow(u64),
    /// The pause is not over.
    Paused,
}

/// The guard.
#[derive(Debug, Default)]
pub struct LoopGuard {
    peers: HashMap<PeerId, Pair>,
}

#[derive(Debug, Default)]
struct Pair {
    /// Of the last answer that no text has followed yet.
    answered_ms: Option<u64>,
    quick: u32,
    pauses: u32,
    paused_until_ms: u64,
    touched_ms: u64,
}

impl LoopGuard {
    /// How many peers are remembered.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Something of ours left for that peer.
    pub fn answered(&mut self, peer: &PeerId, now_ms: u64) {
        if !self.peers.contains_key(peer) && self.peers.len() >= MAX_PEERS {
            let quietest = self.peers.iter().min_by_key(|(_, pair)| pair.touched_ms);
            if let Some(quietest) = quietest.map(|(peer, _)| peer.clone()) {
                self.peers.remove(&quietest);
            }
        }
        let pair = self.peers.entry(peer.clone()).or_default();
        pair.answered_ms = Some(now_ms);
        pair.touched_ms = now_ms;
    }

    /// A text of that peer that would be answered. `quick_ms`: how soon after our answer no person's text can be here.
    pub fn heard(&mut self, peer: &PeerId, quick_ms: u64, now_ms: u64) -> Verdict {
        let Some(pair) = self.peers.get_mut(peer) else { return Verdict::Pass };
        pair.touched_ms = now_ms;
        if pair.paused_until_ms > now_ms {
            return Verdict::Paused;
        }
        if pair.paused_until_ms.saturating_add(FORGIVEN_MS) <= now_ms {
            pair.pauses = 0;
        }
        // One that follows no answer says nothing: the one before it was not answered.
        if let Some(answered_ms) = pair.answered_ms.take() {
            let quick = now_ms.saturating_sub(answered_ms) <= quick_ms;
            pair.quick = if quick { pair.quick + 1 } else { 0 };
        }
        if pair.quick < IN_A_ROW {
            return Verdict::Pass;
        }
        let pause = PAUSE_MS.saturating_mul(1 << pair.pauses.min(16)).min(LONGEST_MS);
        pair.quick = 0;
        pair.pauses += 1;
        pair.paused_until_ms = now_ms.saturating_add(pause);
        Verdict::PausedNow(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: u64 = 10_000;

    fn bot() -> PeerId {
        PeerId("key:bot".to_owned())
    }

    /// So many rounds, each text so long after our answer; gives the verdicts and the time after them.
    fn rounds(
        guard: &mut LoopGuard,
        count: usize,
        after_ms: u64,
        from_ms: u64,
    ) -> (Vec<Verdict>, u64) {
        let mut now = from_ms;
        let verdicts = (0..count).map(|_| {
            guard.answered(&bot(), now);
            now += after_ms;
            guard.heard(&bot(), QUICK, now)
        });
        (verdicts.collect(), now)
    }

    #[test]
    fn eight_in_a_row_at_once_are_paused_and_slower_ones_are_not() {
        let mut guard = LoopGuard::default();
        let (verdicts, _) = rounds(&mut guard, 100, QUICK + 1, 0);
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Pass));
        let mut guard = LoopGuard::default();
        let (verdicts, now) = rounds(&mut guard, 8, QUICK, 0);
        assert_eq!(verdicts[..7], [Verdict::Pass; 7]);
        assert_eq!(verdicts[7], Verdict::PausedNow(PAUSE_MS));
        assert_eq!(guard.heard(&bot(), QUICK, now + PAUSE_MS - 1), Verdict::Paused);
        assert_eq!(guard.heard(&PeerId("key:ana".to_owned()), QUICK, now), Verdict::Pass);
        assert_eq!(guard.heard(&bot(), QUICK, now + PAUSE_MS), Verdict::Pass);
    }

    #[test]
    fn one_slow_text_begins_the_row_anew_and_two_after_one_answer_count_once() {
        let mut guard = LoopGuard::default();
        let (_, now) = rounds(&mut guard, 7, 2_000, 0);
        let (_, now) = rounds(&mut guard, 1, 60_000, now);
        let (verdicts, now) = rounds(&mut guard, 7, 2_000, now);
        assert_eq!(verdicts, [Verdict::Pass; 7]);
        assert_eq!(guard.heard(&bot(), QUICK, now + 1), Verdict::Pass, "follows no answer");
        guard.answered(&bot(), now);
        assert_eq!(guard.heard(&bot(), QUICK, now + 1), Verdict::PausedNow(PAUSE_MS));
    }

    #[test]
    fn each_pause_is_longer_up_to_a_day_and_a_quiet_day_forgives() {
        let mut guard = LoopGuard::default();
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let (verdicts, after) = rounds(&mut guard, 8, 1_000, now);
            let Some(Verdict::PausedNow(pause)) = verdicts.last() else { panic!("{verdicts:?}") };
            pauses.push(*pause);
            now = after + pause;
        }
        assert_eq!(pauses[..3], [PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS]);
        assert_eq!(pauses[9], LONGEST_MS);
        let (verdicts, _) = rounds(&mut guard, 8, 1_000, now + FORGIVEN_MS);
        assert_eq!(verdicts[7], Verdict::PausedNow(PAUSE_MS));
    }

    #[test]
    fn made_up_numbers_do_not_make_it_grow() {
        let mut guard = LoopGuard::default();
        rounds(&mut guard, 7, 1_000, 1_000_000);
        for i in 0..MAX_PEERS as u64 + 50 {
            guard.answered(&PeerId(format!("claim:{i}")), 1_010_000 + i);
            guard.answered(&bot(), 1_010_000 + i);
        }
        assert_eq!(guard.peers.len(), MAX_PEERS);
        assert_eq!(guard.heard(&bot(), QUICK, 1_012_000), Verdict::PausedNow(PAUSE_MS));
    }
}
