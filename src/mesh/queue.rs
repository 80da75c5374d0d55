//! The queue: whose question is asked next.
//!
//! Owns the order and the bounds: one turn a peer at a time, one more may wait, so many in all. Peers stand in a ring:
//! each has one turn, then goes to the end. So every first question that waits goes before anybody's second one, and
//! no stream of newcomers can keep one who waits from its turn. Must not know what the questions are.

use std::collections::{HashMap, VecDeque};

use crate::assistant::{PeerId, TurnId};

/// Questions that may wait, in all.
pub const MAX_WAITING: usize = 64;
/// Turns that run at the same time. A small node's model answers one at a time anyway; the second keeps it from
/// idling while a tool runs.
pub const MAX_RUNNING: usize = 2;
/// Questions of one peer, running and waiting.
pub const MAX_PER_PEER: usize = 2;

/// What became of a question at the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It waits.
    Accepted,
    /// It waits in the place of that one: its peer had another one before it, this peer has none.
    Displaced(TurnId),
    /// This peer has its two, or the queue is full of peers with no larger share.
    Refused,
}

/// Who waits and who runs.
#[derive(Debug, Default, Clone)]
pub struct Queue {
    /// Peers with a waiting question and none running: the next to be served is in front.
    ring: VecDeque<PeerId>,
    peers: HashMap<PeerId, Questions>,
    waiting: usize,
    running: usize,
    arrivals: u64,
}

/// The questions of one peer; never without any.
#[derive(Debug, Default, Clone)]
struct Questions {
    running: Option<TurnId>,
    waiting: VecDeque<(u64, TurnId)>,
}

impl Questions {
    fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.running.is_some())
    }
}

impl Queue {
    /// Would a question of that peer be taken?
    pub fn admits(&self, peer: &PeerId) -> bool {
        self.count(peer) < MAX_PER_PEER && (self.has_room() || self.displaceable(peer).is_some())
    }

    /// A new question.
    pub fn push(&mut self, peer: &PeerId, turn: &TurnId) -> Admission {
        if self.count(peer) >= MAX_PER_PEER {
            return Admission::Refused;
        }
        if self.has_room() {
            self.enter(peer, turn);
            return Admission::Accepted;
        }
        match self.displaceable(peer) {
            Some(second) => {
                self.remove(&second);
                self.enter(peer, turn);
                Admission::Displaced(second)
            }
            None => Admission::Refused,
        }
    }

    fn count(&self, peer: &PeerId) -> usize {
        self.peers.get(peer).map_or(0, Questions::count)
    }

    fn has_room(&self) -> bool {
        // A place at the model is as good as a place in the queue.
        self.waiting < MAX_WAITING + MAX_RUNNING.saturating_sub(self.running)
    }

    /// The newest second question of a peer, if this peer has none at all.
    fn displaceable(&self, peer: &PeerId) -> Option<TurnId> {
        if self.count(peer) > 0 {
            return None;
        }
        self.peers
            .values()
            .filter(|questions| questions.count() > 1)
            .filter_map(|questions| questions.waiting.back())
            .max_by_key(|(arrival, _)| *arrival)
            .map(|(_, turn)| turn.clone())
    }

    /// A question that was accepted before a restart: always taken.
    pub fn restore(&mut self, peer: &PeerId, turn: &TurnId) {
        self.enter(peer, turn);
    }

    /// The next question to ask, if there is one and a place for it; it counts as running until [`Queue::done`].
    pub fn start_next(&mut self) -> Option<TurnId> {
        if self.running >= MAX_RUNNING {
            return None;
        }
        let peer = self.ring.pop_front()?;
        let questions = self.peers.get_mut(&peer)?;
        let (_, turn) = questions.waiting.pop_front()?;
        questions.running = Some(turn.clone());
        self.waiting -= 1;
        self.running += 1;
        Some(turn)
    }

    /// A running turn has ended; its peer goes to the end of the ring.
    pub fn done(&mut self, turn: &TurnId) {
        let running = |questions: &Questions| questions.running.as_ref() == Some(turn);
        let Some(peer) = self.peers.iter().find(|(_, q)| running(q)).map(|(peer, _)| peer.clone())
        else {
            return;
        };
        self.running -= 1;
        if let Some(questions) = self.peers.get_mut(&peer) {
            questions.running = None;
            if questions.waiting.is_empty() {
                self.peers.remove(&peer);
            } else {
                self.ring.push_back(peer);
            }
        }
    }

    /// The place of a waiting question among those that wait, from 1, if nobody comes or goes.
    pub fn place(&self, turn: &TurnId) -> Option<usize> {
        let mut to_come = self.clone();
        let running: Vec<TurnId> = self.peers.values().filter_map(|q| q.running.clone()).collect();
        running.iter().for_each(|turn| to_come.done(turn));
        let order = std::iter::from_fn(|| {
            let next = to_come.start_next()?;
            to_come.done(&next);
            Some(next)
        });
        order.zip(1..).find(|(next, _)| next == turn).map(|(_, place)| place)
    }

    /// Takes a waiting question back; false when it does not wait.
    pub fn remove(&mut self, turn: &TurnId) -> bool {
        let waits = |questions: &Questions| questions.waiting.iter().any(|(_, t)| t == turn);
        let Some(peer) = self.peers.iter().find(|(_, q)| waits(q)).map(|(peer, _)| peer.clone())
        else {
            return false;
        };
        self.waiting -= 1;
        if let Some(questions) = self.peers.get_mut(&peer) {
            questions.waiting.retain(|(_, waiting)| waiting != turn);
            if questions.waiting.is_empty() {
                let idle = questions.running.is_none();
                self.ring.retain(|waiting| *waiting != peer);
                if idle {
                    self.peers.remove(&peer);
                }
            }
        }
        true
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running
    }

    fn enter(&mut self, peer: &PeerId, turn: &TurnId) {
        self.arrivals += 1;
        self.waiting += 1;
        let questions = self.peers.entry(peer.clone()).or_default();
        if questions.count() == 0 {
            self.ring.push_back(peer.clone());
        }
        questions.waiting.push_back((self.arrivals, turn.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(i: usize) -> PeerId {
        PeerId(format!("p{i}"))
    }

    fn turn(i: usize, question: usize) -> TurnId {
        TurnId(format!("p{i}q{question}"))
    }

    fn drain(queue: &mut Queue) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(turn) = queue.start_next() {
            order.push(turn.0.clone());
            queue.done(&turn);
        }
        order
    }

    #[test]
    fn a_peer_has_two_questions_and_one_runs() {
        let mut queue = Queue::default();
        assert_eq!(queue.push(&peer(1), &turn(1, 1)), Admission::Accepted);
        assert_eq!(queue.start_next(), Some(turn(1, 1)));
        assert_eq!(queue.push(&peer(1), &turn(1, 2)), Admission::Accepted);
        assert_eq!(queue.push(&peer(1), &turn(1, 3)), Admission::Refused);
        assert_eq!(queue.start_next(), None, "not two of one peer at once");
        queue.done(&turn(1, 1));
        assert_eq!(queue.start_next(), Some(turn(1, 2)));
        assert_eq!(queue.push(&peer(1), &turn(1, 4)), Admission::Accepted);
        // It is the same while the first still waits.
        queue.push(&peer(2), &turn(2, 1));
        assert_eq!(queue.push(&peer(2), &turn(2, 2)), Admission::Accepted);
        assert_eq!(queue.push(&peer(2), &turn(2, 3)), Admission::Refused);
    }

    #[test]
    fn only_so_many_run_at_once() {
        let mut queue = Queue::default();
        for i in 0..5 {
            queue.push(&peer(i), &turn(i, 1));
        }
        let started = std::iter::from_fn(|| queue.start_next()).count();
        assert_eq!((started, queue.running(), queue.waiting()), (MAX_RUNNING, MAX_RUNNING, 3));
    }

    #[test]
    fn first_questions_go_before_second_ones() {
        let mut queue = Queue::default();
        for (i, question) in [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (3, 2)] {
            queue.push(&peer(i), &turn(i, question));
        }
        assert_eq!(drain(&mut queue), ["p1q1", "p2q1", "p3q1", "p1q2", "p2q2", "p3q2"]);
    }

    #[test]
    fn newcomers_cannot_starve_one_who_waits() {
        let mut queue = Queue::default();
        queue.push(&peer(0), &turn(0, 1));
        queue.start_next();
        queue.push(&peer(0), &turn(0, 2));
        queue.done(&turn(0, 1));
        let mut before = 0;
        for i in 1..100 {
            queue.push(&peer(i), &turn(i, 1));
            let next = queue.start_next().unwrap();
            queue.done(&next);
            if next == turn(0, 2) {
                break;
            }
            before += 1;
        }
        assert!(before <= 2, "{before} newcomers went first");
    }

    #[test]
    fn a_full_queue_gives_the_place_of_a_second_question_to_a_first() {
        let mut queue = Queue::default();
        for i in 0..MAX_RUNNING {
            queue.push(&peer(i), &turn(i, 1));
            queue.start_next().unwrap();
        }
        queue.push(&peer(0), &turn(0, 2));
        for i in 0..MAX_WAITING - 1 {
            assert_eq!(queue.push(&peer(100 + i), &turn(100 + i, 1)), Admission::Accepted);
        }
        assert_eq!(queue.waiting(), MAX_WAITING);
        assert_eq!(queue.push(&peer(1), &turn(1, 2)), Admission::Refused, "no larger share waits");
        assert_eq!(queue.push(&peer(500), &turn(500, 1)), Admission::Displaced(turn(0, 2)));
        assert_eq!(queue.push(&peer(501), &turn(501, 1)), Admission::Refused);
        assert_eq!(queue.waiting(), MAX_WAITING);
    }

    #[test]
    fn the_place_in_line_is_the_order_of_service() {
        let mut queue = Queue::default();
        for (i, question) in [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1), (3, 2)] {
            queue.push(&peer(i), &turn(i, question));
        }
        queue.start_next();
        assert_eq!(queue.place(&turn(1, 1)), None, "it runs");
        let place = |i, question| queue.place(&turn(i, question)).unwrap();
        assert_eq!(
            [place(2, 1), place(3, 1), place(4, 1), place(1, 2), place(3, 2)],
            [1, 2, 3, 4, 5]
        );
        assert_eq!(queue.place(&turn(9, 9)), None);
    }

    #[test]
    fn what_is_taken_back_leaves_no_debt() {
        let mut queue = Queue::default();
        queue.push(&peer(1), &turn(1, 1));
        assert!(queue.remove(&turn(1, 1)));
        assert!(!queue.remove(&turn(1, 1)));
        queue.push(&peer(1), &turn(1, 2));
        queue.push(&peer(2), &turn(2, 1));
        assert_eq!(drain(&mut queue), ["p1q2", "p2q1"]);
    }

    #[test]
    fn restored_questions_pass_every_bound_and_memory_stays_bounded() {
        let mut queue = Queue::default();
        for i in 0..MAX_WAITING + MAX_RUNNING + 1 {
            queue.restore(&peer(i / 2), &turn(i / 2, i % 2));
        }
        assert_eq!(drain(&mut queue).len(), MAX_WAITING + MAX_RUNNING + 1);
        assert!(queue.peers.is_empty() && queue.ring.is_empty());
        assert_eq!((queue.waiting(), queue.running()), (0, 0));
    }

    proptest::proptest! {
        #[test]
        fn the_counts_hold_whatever_happens(steps in proptest::collection::vec((0..4u8, 0..6usize, 0..3usize), 0..200)) {
            let mut queue = Queue::default();
            let mut running: Vec<TurnId> = Vec::new();
            let mut known: Vec<TurnId> = Vec::new();
            for (step, who, question) in steps {
                let id = turn(who, question);
                match step {
                    0 if !known.contains(&id) => {
                        let admits = queue.admits(&peer(who));
                        let pushed = queue.push(&peer(who), &id);
                        proptest::prop_assert_eq!(admits, pushed != Admission::Refused);
                        if pushed == Admission::Accepted { known.push(id); }
                    }
                    1 => if let Some(next) = queue.start_next() { running.push(next); },
                    2 => if let Some(next) = running.pop() {
                        queue.done(&next);
                        known.retain(|id| *id != next);
                    },
                    _ => if queue.remove(&id) { known.retain(|other| *other != id); },
                }
                proptest::prop_assert_eq!(queue.running(), running.len());
                proptest::prop_assert_eq!(queue.waiting() + queue.running(), known.len());
                let distinct: std::collections::BTreeSet<_> = queue.ring.iter().collect();
                proptest::prop_assert_eq!(distinct.len(), queue.ring.len());
            }
            running.iter().for_each(|turn| queue.done(turn));
            let rest = drain(&mut queue).len();
            proptest::prop_assert_eq!(rest, known.len() - running.len());
        }
    }
}
