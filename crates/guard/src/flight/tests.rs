use std::collections::hash_map::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;

use super::*;

/// Counts how often it was given up.
#[derive(Default)]
struct Craft {
    boardable: bool,
    abandoned: Arc<AtomicUsize>,
}

impl Aircraft for Craft {
    fn abandon(&self) {
        self.abandoned.fetch_add(1, Relaxed);
    }
}

type Board = Flights<u8, Craft, RandomState>;
type Aboard = Seat<u8, Craft, RandomState>;

fn board(board: &Arc<Board>, key: u8, abandoned: &Arc<AtomicUsize>) -> (bool, Aboard) {
    let start = || Craft { boardable: true, abandoned: abandoned.clone() };
    match board.board(key, |craft| craft.boardable, || None::<()>, start) {
        Boarded::Joined(seat) => (false, seat),
        Boarded::Led(seat) => (true, seat),
        Boarded::Kept(()) => unreachable!("nothing is kept"),
    }
}

#[test]
fn the_second_joins_and_the_last_to_leave_ends_it() {
    let (flights, abandoned) = (Board::new(4), Arc::default());
    let (led, first) = board(&flights, 1, &abandoned);
    let (led_too, second) = board(&flights, 1, &abandoned);
    let (other, _other) = board(&flights, 2, &abandoned);
    assert!(led && !led_too && other);
    drop(first);
    assert_eq!(abandoned.load(Relaxed), 0);
    let third = second.another();
    drop(second);
    assert_eq!((abandoned.load(Relaxed), flights.len()), (0, 2));
    drop(third);
    assert_eq!((abandoned.load(Relaxed), flights.len()), (1, 1));
    assert!(board(&flights, 1, &abandoned).0, "a new one is led");
}

#[test]
fn a_closed_flight_takes_nobody_and_keeps_whom_it_has() {
    let (flights, abandoned) = (Board::new(1), Arc::default());
    let (_, seat) = board(&flights, 1, &abandoned);
    seat.close();
    let (led, _second) = board(&flights, 1, &abandoned);
    assert!(led);
    assert_eq!(abandoned.load(Relaxed), 0);
    drop(seat);
    assert_eq!((abandoned.load(Relaxed), flights.len()), (1, 1));
}

#[test]
fn what_does_not_fit_or_is_kept_is_not_joined() {
    let (flights, abandoned) = (Board::new(1), Arc::<AtomicUsize>::default());
    let start = |boardable| Craft { boardable, abandoned: abandoned.clone() };
    let fits = |craft: &Craft| craft.boardable;
    let first = flights.board(1, fits, || None::<u8>, || start(false));
    let second = flights.board(1, fits, || None::<u8>, || start(true));
    let third = flights.board(1, fits, || Some(9), || start(true));
    let fourth = flights.board(2, fits, || Some(9), || start(true));
    assert!(matches!(first, Boarded::Led(_)) && matches!(second, Boarded::Led(_)));
    assert!(matches!(third, Boarded::Joined(_)), "a running flight comes before what is kept");
    assert!(matches!(fourth, Boarded::Kept(9)));
}

proptest! {
    /// Ten thousand callers who come and leave in any order: whoever leads, each flight ends once, with its last
    /// seat, and the board is empty in the end.
    #[test]
    fn flights_end_with_their_last_seat(steps in prop::collection::vec((any::<bool>(), 0..4_u8, any::<prop::sample::Index>()), 1..400)) {
        let (flights, abandoned) = (Board::new(2), Arc::<AtomicUsize>::default());
        let mut seats: Vec<(u8, Aboard)> = Vec::new();
        let mut led = 0;
        for (comes, key, which) in steps {
            if comes || seats.is_empty() {
                let runs = seats.iter().any(|(other, _)| *other == key);
                let (leads, seat) = board(&flights, key, &abandoned);
                prop_assert_eq!(leads, !runs);
                led += usize::from(leads);
                seats.push((key, seat));
            } else {
                let (key, seat) = seats.swap_remove(which.index(seats.len()));
                let before = abandoned.load(Relaxed);
                drop(seat);
                let last = !seats.iter().any(|(other, _)| *other == key);
                prop_assert_eq!(abandoned.load(Relaxed) - before, usize::from(last));
            }
        }
        drop(seats);
        prop_assert_eq!(abandoned.load(Relaxed), led);
        prop_assert!(flights.is_empty());
    }
}
