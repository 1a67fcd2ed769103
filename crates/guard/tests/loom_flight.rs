//! Every interleaving of callers who board and leave a flight. Built and run with `RUSTFLAGS="--cfg loom"`; without
//! it there is nothing here.
#![cfg(loom)]

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use guard::flight::{Aircraft, Boarded, Flights, Seat};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

type Fixed = BuildHasherDefault<DefaultHasher>;
type Board = Flights<u8, Craft, Fixed>;

struct Craft {
    abandoned: Arc<AtomicUsize>,
    /// For this flight alone: nobody may be aboard a flight that was given up.
    gone: AtomicBool,
}

impl Aircraft for Craft {
    fn abandon(&self) {
        assert!(!self.gone.swap(true, Ordering::SeqCst), "a flight is given up once");
        self.abandoned.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Counts {
    led: Arc<AtomicUsize>,
    abandoned: Arc<AtomicUsize>,
    kept: Arc<AtomicBool>,
}

impl Clone for Counts {
    fn clone(&self) -> Counts {
        Counts { led: self.led.clone(), abandoned: self.abandoned.clone(), kept: self.kept.clone() }
    }
}

fn board(flights: &std::sync::Arc<Board>, counts: &Counts) -> Option<Seat<u8, Craft, Fixed>> {
    let start = || {
        counts.led.fetch_add(1, Ordering::SeqCst);
        Craft { abandoned: counts.abandoned.clone(), gone: AtomicBool::new(false) }
    };
    let kept = || counts.kept.load(Ordering::SeqCst).then_some(());
    match flights.board(1, |_| true, kept, start) {
        Boarded::Joined(seat) | Boarded::Led(seat) => Some(seat),
        Boarded::Kept(()) => None,
    }
}

/// Up to three switches away from a thread that could go on: more find nothing new here and take hours.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Three callers board and leave as they like: who is aboard flies, each flight ends once, none is left behind.
#[test]
fn nobody_is_aboard_a_flight_that_was_given_up() {
    check(|| {
        let (flights, counts) = (Board::new(1), Counts::default());
        let caller = |flights: std::sync::Arc<Board>, counts: Counts| {
            move || {
                let seat = board(&flights, &counts).expect("nothing is kept");
                assert!(!seat.craft().gone.load(Ordering::SeqCst));
                drop(seat);
            }
        };
        let others: Vec<_> = (0..2).map(|_| thread::spawn(caller(flights.clone(), counts.clone()))).collect();
        caller(flights.clone(), counts.clone())();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(counts.led.load(Ordering::SeqCst), counts.abandoned.load(Ordering::SeqCst));
        assert!(flights.is_empty());
    });
}

/// The leader keeps its answer and then takes the flight off the board: whoever comes, when ever, joins or finds
/// the answer. Nothing is asked for twice.
#[test]
fn an_answer_that_is_kept_is_never_asked_for_twice() {
    check(|| {
        let (flights, counts) = (Board::new(1), Counts::default());
        let seat = board(&flights, &counts).expect("nothing is kept yet");
        let comer = |flights: std::sync::Arc<Board>, counts: Counts| move || drop(board(&flights, &counts));
        let others: Vec<_> = (0..2).map(|_| thread::spawn(comer(flights.clone(), counts.clone()))).collect();
        counts.kept.store(true, Ordering::SeqCst);
        seat.close();
        drop(seat);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(counts.led.load(Ordering::SeqCst), 1);
        assert!(flights.is_empty());
    });
}
