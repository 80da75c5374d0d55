//! The last events, bounded in number and in bytes.
//!
//! Owns what is kept and what falls out. Knows neither clock nor network; who may see an item is asked of
//! its audience.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Audience;

/// Events at most; past it the oldest falls out.
pub const MAX_ITEMS: usize = 1024;
/// Bytes of data at most; past it the oldest falls out.
pub const MAX_BYTES: usize = 512 * 1024;
/// An event that is larger is not kept at all: its readers are told that they missed something.
pub const MAX_ITEM_BYTES: usize = 16 * 1024;

/// One event, as it is sent.
#[derive(Debug, Clone)]
pub struct Item {
    /// Counted from 1.
    pub number: u64,
    /// The event's name.
    pub name: &'static str,
    /// One JSON object in one line.
    pub data: Arc<str>,
    audience: Audience,
}

/// What the reader would read next has fallen out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed;

/// The ring.
#[derive(Debug, Default)]
pub struct Ring {
    items: VecDeque<Item>,
    bytes: usize,
    newest: u64,
    /// The newest event that fell out, or was too large to come in.
    lost: u64,
}

impl Ring {
    /// The number of the newest event; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Is everything there that came after that event?
    pub fn reaches_back_to(&self, number: u64) -> bool {
        (self.lost..=self.newest).contains(&number)
    }

    /// Takes an event in and gives its number. A new `status` takes the place of the one before.
    pub fn push(&mut self, name: &'static str, audience: Audience, data: String) -> u64 {
        self.newest += 1;
        if name == "status"
            && let Some(index) = self.items.iter().rposition(|item| item.name == name)
            && let Some(old) = self.items.remove(index)
        {
            self.bytes -= old.data.len();
        }
        if data.len() > MAX_ITEM_BYTES {
            self.items.clear();
            self.bytes = 0;
            self.lost = self.newest;
            return self.newest;
        }
        self.bytes += data.len();
        self.items.push_back(Item { number: self.newest, name, data: data.into(), audience });
        while self.items.len() > MAX_ITEMS || self.bytes > MAX_BYTES {
            let Some(old) = self.items.pop_front() else { break };
            self.bytes -= old.data.len();
            self.lost = old.number;
        }
        self.newest
    }

    /// At most `most` events after `cursor` that `may_see` lets through, and the cursor behind them.
    pub fn after(
        &self,
        cursor: u64,
        most: usize,
        may_see: impl Fn(&Audience) -> bool,
    ) -> Result<(Vec<Item>, u64), Missed> {
        if cursor < self.lost {
            return Err(Missed);
        }
        let start = self.items.partition_point(|item| item.number <= cursor);
        let mut items = Vec::new();
        for item in self.items.iter().skip(start).filter(|item| may_see(&item.audience)) {
            if items.len() >= most {
                let behind = items.last().map_or(cursor, |item: &Item| item.number);
                return Ok((items, behind));
            }
            items.push(item.clone());
        }
        Ok((items, self.newest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(ring: &mut Ring, name: &'static str, bytes: usize) -> u64 {
        ring.push(name, Audience::All, "x".repeat(bytes))
    }

    fn numbers(ring: &Ring, cursor: u64) -> Result<Vec<u64>, Missed> {
        let (items, _) = ring.after(cursor, usize::MAX, |_| true)?;
        Ok(items.iter().map(|item| item.number).collect())
    }

    #[test]
    fn as_many_as_fit_are_kept_and_one_more_costs_the_oldest() {
        let mut ring = Ring::default();
        for _ in 0..MAX_ITEMS {
            push(&mut ring, "mesh", 1);
        }
        assert_eq!(numbers(&ring, 0).unwrap().len(), MAX_ITEMS);
        push(&mut ring, "mesh", 1);
        assert_eq!(numbers(&ring, 0), Err(Missed));
        assert_eq!(numbers(&ring, 1).unwrap().len(), MAX_ITEMS);
        assert!(!ring.reaches_back_to(0) && ring.reaches_back_to(1));
    }

    #[test]
    fn bytes_are_bounded_too_and_one_event_is() {
        let mut ring = Ring::default();
        let fitting = MAX_BYTES / MAX_ITEM_BYTES;
        for _ in 0..fitting {
            push(&mut ring, "mesh", MAX_ITEM_BYTES);
        }
        assert_eq!(numbers(&ring, 0).unwrap().len(), fitting);
        push(&mut ring, "mesh", 1);
        assert_eq!(numbers(&ring, 0), Err(Missed));
        assert_eq!(ring.bytes, MAX_BYTES - MAX_ITEM_BYTES + 1);
        let large = push(&mut ring, "mesh", MAX_ITEM_BYTES + 1);
        assert_eq!(numbers(&ring, large - 1), Err(Missed), "its readers are told");
        assert_eq!(numbers(&ring, large), Ok(vec![]));
    }

    #[test]
    fn only_the_newest_status_is_kept_and_that_is_no_loss() {
        let mut ring = Ring::default();
        for name in ["status", "mesh", "status", "mesh", "status"] {
            push(&mut ring, name, 10);
        }
        assert_eq!(numbers(&ring, 0), Ok(vec![2, 4, 5]));
        assert_eq!(ring.bytes, 30);
    }

    #[test]
    fn what_does_not_fit_in_one_reading_comes_with_the_next() {
        let mut ring = Ring::default();
        for index in 0..6u64 {
            let audience = if index % 2 == 0 { Audience::All } else { Audience::Operators };
            ring.push("mesh", audience, String::new());
        }
        let all = |audience: &Audience| *audience == Audience::All;
        let (first, cursor) = ring.after(0, 2, all).unwrap();
        assert_eq!((first.len(), cursor), (2, 3));
        let (rest, cursor) = ring.after(cursor, 2, all).unwrap();
        assert_eq!((rest[0].number, rest.len(), cursor), (5, 1, 6));
    }

    proptest! {
        #[test]
        fn a_reader_gets_every_event_once_and_in_order_or_is_told(
            pushes in proptest::collection::vec((any::<bool>(), 0usize..MAX_ITEM_BYTES + 2), 1..200),
            every in 1usize..40,
        ) {
            let mut ring = Ring::default();
            let (mut cursor, mut seen) = (0, Vec::new());
            for (index, (status, bytes)) in pushes.iter().enumerate() {
                push(&mut ring, if *status { "status" } else { "mesh" }, *bytes);
                prop_assert!(ring.items.len() <= MAX_ITEMS && ring.bytes <= MAX_BYTES);
                prop_assert_eq!(ring.bytes, ring.items.iter().map(|i| i.data.len()).sum::<usize>());
                if index % every == 0 {
                    match ring.after(cursor, 3, |_| true) {
                        Ok((items, behind)) => {
                            seen.extend(items.iter().map(|item| item.number));
                            cursor = behind;
                        }
                        Err(Missed) => cursor = ring.newest(),
                    }
                }
            }
            prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
