//! What the provider counts while a gate shapes what reaches it: calls in flight, connections, and when which call came.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Asks the upstream for its [`Counts`].
pub const FLOW_PATH: &str = "/flow";
/// The same, and begins to count anew.
pub const FLOW_RESET_PATH: &str = "/flow/reset";
/// Which call this is: the upstream notes when it came, and its plain answer carries the number.
pub const MARK_HEADER: &str = "x-proof-mark";
/// The upstream answers with this status and an error.
pub const STATUS_HEADER: &str = "x-proof-status";
/// The upstream never answers.
pub const HANG_HEADER: &str = "x-proof-hang";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub in_flight: usize,
    pub most_in_flight: usize,
    /// That carried a call.
    pub connections: usize,
    /// Marks of the calls, in the order in which they came, each with the microseconds since 1970.
    pub arrivals: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub struct Book {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Of the counts: a connection counts once in each.
    era: u64,
    counts: Counts,
}

/// A client's connection.
#[derive(Debug, Default)]
pub struct Guest {
    counted_in: Mutex<Option<u64>>,
}

/// A call in flight: from its head's arrival until this is dropped.
#[derive(Debug)]
pub struct Seat(&'static Book);

impl Book {
    pub const fn new() -> Self {
        let counts = Counts { in_flight: 0, most_in_flight: 0, connections: 0, arrivals: Vec::new() };
        Self { state: Mutex::new(State { era: 0, counts }) }
    }

    pub fn arrive(&'static self, guest: &Arc<Guest>, mark: Option<u64>) -> Seat {
        let mut state = self.lock();
        let era = state.era;
        let counted_in = guest.counted_in.lock().unwrap_or_else(PoisonError::into_inner).replace(era);
        let counts = &mut state.counts;
        counts.connections += usize::from(counted_in != Some(era));
        counts.in_flight += 1;
        counts.most_in_flight = counts.most_in_flight.max(counts.in_flight);
        if let Some(mark) = mark {
            counts.arrivals.push((mark, wall_micros()));
        }
        Seat(self)
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    pub fn reset(&self) -> Counts {
        let mut state = self.lock();
        state.era += 1;
        let in_flight = state.counts.in_flight;
        let fresh = Counts { in_flight, most_in_flight: in_flight, ..Counts::default() };
        std::mem::replace(&mut state.counts, fresh)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Book {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.lock().counts.in_flight -= 1;
    }
}

/// The clock that all processes of a machine share.
pub fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    static BOOK: Book = Book::new();

    #[test]
    fn calls_and_connections_are_counted_anew_and_none_is_lost() {
        let guest = Arc::<Guest>::default();
        let first = BOOK.arrive(&guest, Some(7));
        let second = BOOK.arrive(&guest, None);
        drop(first);
        let counts = BOOK.reset();
        assert_eq!((counts.in_flight, counts.most_in_flight, counts.connections), (1, 2, 1));
        assert_eq!(counts.arrivals.iter().map(|(mark, _)| *mark).collect::<Vec<_>>(), [7]);
        drop(second);
        let _third = BOOK.arrive(&guest, None);
        let counts = BOOK.counts();
        assert_eq!((counts.in_flight, counts.most_in_flight, counts.connections), (1, 1, 1));
    }
}
