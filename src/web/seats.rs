//! Places for connections: so many at once, and whose goes when one more comes.
//!
//! Owns that whoever connects and says nothing keeps nobody else out. A connection waits (its request is
//! not there as a whole, or it has been answered) or is being served. When all places are taken, one that
//! waits is given up: the oldest of the address that has most of them. One that is being served never is.
//! Knows nothing of HTTP.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Connections at once; further ones wait in the kernel's queue while all of these are being served.
pub const MAX_CONNECTIONS: usize = 64;

/// The places. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Seats(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    table: Mutex<Table>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// Oldest first.
    taken: Vec<Entry>,
    next: u64,
    given_up: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    household: IpAddr,
    served: bool,
    cut: CancellationToken,
}

/// One connection's place; given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    number: u64,
    /// Cancelled when the place is given to somebody else.
    pub cut: CancellationToken,
}

impl Seats {
    /// A place for a connection from there, at the cost of one that waits where all are taken. Waits
    /// itself while every one is being served.
    pub async fn take(&self, address: IpAddr) -> Seat {
        loop {
            let freed = self.0.freed.notified();
            if let Some(seat) = self.try_take(address) {
                return seat;
            }
            freed.await;
        }
    }

    /// How many are taken, and how many were given up since the start.
    pub fn counts(&self) -> (usize, u64) {
        let table = self.table();
        (table.taken.len(), table.given_up)
    }

    fn try_take(&self, address: IpAddr) -> Option<Seat> {
        let mut table = self.table();
        if table.taken.len() >= MAX_CONNECTIONS {
            let index = table.to_give_up()?;
            table.taken.remove(index).cut.cancel();
            table.given_up += 1;
        }
        table.next += 1;
        let (number, cut) = (table.next, CancellationToken::new());
        let household = household(address);
        table.taken.push(Entry { number, household, served: false, cut: cut.clone() });
        Some(Seat { seats: self.clone(), number, cut })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The oldest that waits, of the household that has most of them.
    fn to_give_up(&self) -> Option<usize> {
        let mut waiting: HashMap<IpAddr, usize> = HashMap::new();
        for entry in self.taken.iter().filter(|entry| !entry.served) {
            *waiting.entry(entry.household).or_default() += 1;
        }
        let most = waiting.values().max()?;
        self.taken
            .iter()
            .position(|entry| !entry.served && waiting.get(&entry.household) == Some(most))
    }
}

impl Seat {
    /// A request is there as a whole and is being answered, or (`false`) the connection waits again.
    pub fn is_served(&self, served: bool) {
        let mut table = self.seats.table();
        if let Some(entry) = table.taken.iter_mut().find(|entry| entry.number == self.number) {
            entry.served = served;
        }
        drop(table);
        if !served {
            // Whoever waits for a place can have this one.
            self.seats.0.freed.notify_one();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.table().taken.retain(|entry| entry.number != self.number);
        self.seats.0.freed.notify_one();
    }
}

/// Of IPv6 the first 64 bits: one household has them all.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn take(seats: &Seats, last: u8) -> Option<Seat> {
        seats.try_take(from(last))
    }

    fn cut(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|index| seats[*index].cut.is_cancelled()).collect()
    }

    #[test]
    fn a_crowd_of_one_address_costs_nobody_else() {
        let seats = Seats::default();
        let early = take(&seats, 1).unwrap();
        let crowd: Vec<Seat> = (1..MAX_CONNECTIONS).map(|_| take(&seats, 66).unwrap()).collect();
        assert!(cut(&crowd).is_empty(), "as many as there are places");
        let more: Vec<Seat> = (0..3).map(|_| take(&seats, 66).unwrap()).collect();
        let mine = take(&seats, 2).unwrap();
        assert_eq!(cut(&crowd), [0, 1, 2, 3], "its own oldest, in order");
        assert!(!early.cut.is_cancelled() && !mine.cut.is_cancelled() && cut(&more).is_empty());
        assert_eq!(seats.counts(), (MAX_CONNECTIONS, 4));
        drop((crowd, more, early, mine));
        assert_eq!(seats.counts(), (0, 4));
    }

    #[test]
    fn many_addresses_lose_the_oldest_and_who_is_served_keeps_its_place() {
        let seats = Seats::default();
        let all: Vec<Seat> =
            (0..MAX_CONNECTIONS).map(|n| take(&seats, u8::try_from(n).unwrap()).unwrap()).collect();
        all[0].is_served(true);
        let _mine = take(&seats, 200).unwrap();
        assert_eq!(cut(&all), [1]);
        // The same household under many addresses is one.
        let v6 = |last: &str| household(format!("2001:db8:1:2::{last}").parse().unwrap());
        assert_eq!(v6("1"), v6("ffff"));
        assert_ne!(v6("1"), household("2001:db8:1:3::1".parse().unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_are_served_the_next_one_waits_until_one_is_done() {
        let seats = Seats::default();
        let mut all: Vec<Seat> = (0..MAX_CONNECTIONS).map(|_| take(&seats, 1).unwrap()).collect();
        all.iter().for_each(|seat| seat.is_served(true));
        assert!(take(&seats, 2).is_none());
        for freed_by_its_end in [true, false] {
            let waiting = tokio::spawn({
                let seats = seats.clone();
                async move { seats.take(from(2)).await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            if freed_by_its_end {
                drop(all.pop());
            } else {
                all[0].is_served(false);
            }
            let seat = waiting.await.unwrap();
            seat.is_served(true);
            all.push(seat);
        }
        assert_eq!(cut(&all), [0], "done, and the connection kept idle");
    }
}
