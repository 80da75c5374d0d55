//! Budgets: how much each peer may ask in an hour, and how seldom a refusal is put into words.
//!
//! Owns the counters, all bounded and all in memory. A verified key has a budget of its own; everybody else
//! shares one, so that a forger can neither exhaust a contact's budget nor make memory grow.

use std::collections::HashMap;

use super::inbox::Ignored;
use crate::assistant::PeerId;

const HOUR_MS: u64 = 3_600_000;
/// Answers in an hour for everybody who is not verified, together.
pub const SHARED_PER_HOUR: u32 = 6;
/// Commands in an hour for a verified peer: they cost air, but no model.
pub const COMMANDS_PER_HOUR: u32 = 60;
/// A distress text of the same caller is acknowledged once in this time, milliseconds.
pub const ACKNOWLEDGE_AGAIN_MS: u64 = 600_000;
/// Distress texts that are acknowledged in an hour for everybody who is not verified, together.
pub const SHARED_ACKNOWLEDGEMENTS: u32 = 6;
/// How many keys are remembered. Only contacts have one, and those are configured by hand.
const MAX_KEYS: usize = 1024;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// A model's answer.
    Question,
    /// A command's.
    Command,
}

/// What a notice says: each kind has a window of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    /// Over the hourly budget.
    OverBudget,
    /// Too many questions wait.
    Busy,
}

impl NoticeKind {
    /// For how long nothing more is said of it, milliseconds.
    pub fn window_ms(self) -> u64 {
        match self {
            NoticeKind::OverBudget => HOUR_MS,
            NoticeKind::Busy => 600_000,
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct Budgets {
    questions: HashMap<PeerId, Meter>,
    commands: HashMap<PeerId, Meter>,
    shared: Meter,
    noticed: HashMap<(NoticeKind, Option<PeerId>), u64>,
    acknowledged: HashMap<PeerId, u64>,
    shared_acknowledgements: Meter,
}

/// A token bucket, kept as the time at which it will be full again.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    full_at_ms: u64,
}

impl Meter {
    fn take(&mut self, per_hour: u32, now_ms: u64) -> bool {
        let Some(token_ms) = HOUR_MS.checked_div(u64::from(per_hour)) else {
            return false;
        };
        let full_at = self.full_at_ms.max(now_ms).saturating_add(token_ms);
        if full_at - now_ms > token_ms * u64::from(per_hour) {
            return false;
        }
        self.full_at_ms = full_at;
        true
    }

    fn left(self, per_hour: u32, now_ms: u64) -> u32 {
        let Some(token_ms) = HOUR_MS.checked_div(u64::from(per_hour)) else { return 0 };
        let spent = self.full_at_ms.saturating_sub(now_ms).div_ceil(token_ms);
        per_hour.saturating_sub(u32::try_from(spent).unwrap_or(u32::MAX))
    }
}

impl Budgets {
    /// How many counters there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.questions.len() + self.commands.len() + self.noticed.len() + self.acknowledged.len()
    }

    /// How many questions [`Budgets::take`] would grant now.
    pub fn questions_left(&self, verified: Option<&PeerId>, per_hour: u32, now_ms: u64) -> u32 {
        match verified {
            None => self.shared.left(SHARED_PER_HOUR, now_ms),
            Some(peer) => {
                self.questions.get(peer).copied().unwrap_or_default().left(per_hour, now_ms)
            }
        }
    }

    /// Takes one from the budget; false when it is used up. `verified` is the peer, if it is that; `per_hour` its
    /// questions in an hour.
    pub fn take(
        &mut self,
        verified: Option<&PeerId>,
        cost: Cost,
        per_hour: u32,
        now_ms: u64,
    ) -> bool {
        let (meters, per_hour) = match (verified, cost) {
            (None, _) => return self.shared.take(SHARED_PER_HOUR, now_ms),
            (Some(_), Cost::Question) => (&mut self.questions, per_hour),
            (Some(_), Cost::Command) => (&mut self.commands, COMMANDS_PER_HOUR),
        };
        let Some(peer) = verified else { return false };
        if !meters.contains_key(peer) && meters.len() >= MAX_KEYS {
            meters.retain(|_, meter| meter.full_at_ms > now_ms);
            if meters.len() >= MAX_KEYS {
                return false;
            }
        }
        meters.entry(peer.clone()).or_default().take(per_hour, now_ms)
    }

    /// May this refusal be put into words? Once a window for each verified peer, and once for all others together.
    pub fn may_notify(&mut self, kind: NoticeKind, verified: Option<&PeerId>, now_ms: u64) -> bool {
        self.noticed.retain(|_, until| *until > now_ms);
        let key = (kind, verified.cloned());
        if self.noticed.contains_key(&key) || self.noticed.len() >= MAX_KEYS {
            return false;
        }
        self.noticed.insert(key, now_ms.saturating_add(kind.window_ms()));
        true
    }

    /// May a distress text be acknowledged? Says why not. Apart from all other budgets: whoever has asked much may still
    /// be in distress.
    pub fn may_acknowledge(
        &mut self,
        peer: &PeerId,
        verified: bool,
        now_ms: u64,
    ) -> Result<(), Ignored> {
        self.acknowledged.retain(|_, until| *until > now_ms);
        if self.acknowledged.contains_key(peer) {
            return Err(Ignored::Acknowledged);
        }
        let left =
            verified || self.shared_acknowledgements.left(SHARED_ACKNOWLEDGEMENTS, now_ms) > 0;
        if left && self.acknowledged.len() < MAX_KEYS { Ok(()) } else { Err(Ignored::OverBudget) }
    }

    /// It was acknowledged.
    pub fn acknowledged(&mut self, peer: &PeerId, verified: bool, now_ms: u64) {
        if !verified {
            self.shared_acknowledgements.take(SHARED_ACKNOWLEDGEMENTS, now_ms);
        }
        self.acknowledged.insert(peer.clone(), now_ms.saturating_add(ACKNOWLEDGE_AGAIN_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str) -> PeerId {
        PeerId(format!("key:{name}"))
    }

    #[test]
    fn a_verified_peer_has_so_many_questions_an_hour_and_no_more() {
        let mut budgets = Budgets::default();
        let (ana, ben) = (peer("a"), peer("b"));
        let take = |budgets: &mut Budgets, who: &PeerId, at| {
            budgets.take(Some(who), Cost::Question, 20, at)
        };
        for taken in 0..20 {
            assert_eq!(budgets.questions_left(Some(&ana), 20, 1000), 20 - taken);
            assert!(take(&mut budgets, &ana, 1000));
        }
        assert_eq!(budgets.questions_left(Some(&ana), 20, 1000 + 179_999), 0);
        assert_eq!(budgets.questions_left(Some(&ana), 20, 1000 + 180_000), 1);
        assert_eq!(budgets.questions_left(Some(&ana), 0, 1000), 0);
        assert!(!take(&mut budgets, &ana, 1000));
        assert!(take(&mut budgets, &ben, 1000), "another key has its own");
        assert!(!take(&mut budgets, &ana, 1000 + 179_999));
        assert!(take(&mut budgets, &ana, 1000 + 180_000), "one comes back every three minutes");
        assert!(!take(&mut budgets, &ana, 1000 + 180_000));
        assert!(budgets.take(Some(&ana), Cost::Command, 20, 1000), "commands are counted apart");
        assert!(!budgets.take(Some(&peer("c")), Cost::Question, 0, 1000));
    }

    #[test]
    fn everybody_else_shares_one_small_budget() {
        let mut budgets = Budgets::default();
        let taken = (0..100).filter(|_| budgets.take(None, Cost::Question, 20, 7)).count();
        assert_eq!(taken, SHARED_PER_HOUR as usize);
        assert!(!budgets.take(None, Cost::Command, 20, 7));
        assert!(budgets.take(Some(&peer("a")), Cost::Question, 20, 7), "contacts keep theirs");
    }

    #[test]
    fn a_refusal_is_said_once_a_window() {
        let mut budgets = Budgets::default();
        let ana = peer("a");
        assert!(budgets.may_notify(NoticeKind::Busy, Some(&ana), 0));
        assert!(!budgets.may_notify(NoticeKind::Busy, Some(&ana), 599_999));
        assert!(budgets.may_notify(NoticeKind::OverBudget, Some(&ana), 0));
        assert!(budgets.may_notify(NoticeKind::Busy, Some(&ana), 600_000));
        assert!(budgets.may_notify(NoticeKind::Busy, None, 0));
        assert!(!budgets.may_notify(NoticeKind::Busy, None, 1));
    }

    #[test]
    fn a_distress_text_is_acknowledged_once_in_ten_minutes() {
        let mut budgets = Budgets::default();
        let mut take = |who: &PeerId, verified, at| {
            let may = budgets.may_acknowledge(who, verified, at);
            if may.is_ok() {
                budgets.acknowledged(who, verified, at);
            }
            may
        };
        let ana = peer("a");
        assert_eq!(take(&ana, true, 5), Ok(()));
        assert_eq!(take(&ana, true, 5 + ACKNOWLEDGE_AGAIN_MS - 1), Err(Ignored::Acknowledged));
        assert_eq!(take(&ana, true, 5 + ACKNOWLEDGE_AGAIN_MS), Ok(()));
        for n in 0..SHARED_ACKNOWLEDGEMENTS {
            assert_eq!(take(&peer(&format!("s{n}")), false, 7), Ok(()));
        }
        let last = peer("last");
        let one_back = 7 + HOUR_MS / u64::from(SHARED_ACKNOWLEDGEMENTS);
        assert_eq!(take(&last, false, one_back - 1), Err(Ignored::OverBudget));
        assert_eq!(take(&peer("b"), true, 7), Ok(()), "contacts have their own");
        assert_eq!(take(&last, false, one_back), Ok(()));
    }

    #[test]
    fn the_tables_are_bounded() {
        let mut budgets = Budgets::default();
        for i in 0..MAX_KEYS + 10 {
            let who = peer(&i.to_string());
            budgets.take(Some(&who), Cost::Question, 20, 5);
            budgets.may_notify(NoticeKind::Busy, Some(&who), 5);
        }
        assert_eq!(budgets.questions.len(), MAX_KEYS);
        assert_eq!(budgets.noticed.len(), MAX_KEYS);
        let late = 5 + HOUR_MS;
        assert!(budgets.take(Some(&peer("new")), Cost::Question, 20, late), "old ones make room");
    }
}
