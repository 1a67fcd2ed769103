use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use proptest::prelude::*;

use super::*;

type T = Tape<u8, u32, &'static str>;

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn waker() -> (Arc<Counted>, Waker) {
    let counted = Arc::new(Counted::default());
    (counted.clone(), Waker::from(counted))
}

fn tape(limit: usize) -> (T, Arc<Budget>) {
    let budget = Budget::new(1 << 30);
    (Tape::new(true, limit, budget.clone()), budget)
}

fn read(tape: &T, reader: &Reader) -> Vec<Next<u32, &'static str>> {
    let mut read = Vec::new();
    while let Poll::Ready(next) = tape.poll_next(reader, &Context::from_waker(Waker::noop())) {
        let last = !matches!(next, Next::Frame(_));
        read.push(next);
        if last {
            break;
        }
    }
    read
}

#[test]
fn who_comes_when_the_beginning_is_gone_gets_no_place() {
    let (tape, _) = tape(100);
    let reader = tape.reader().unwrap();
    tape.push(1, 90);
    tape.push(2, 90);
    assert!(!tape.keeps());
    let second = tape.reader().unwrap();
    assert_eq!(read(&tape, &reader), [Next::Frame(1), Next::Frame(2)]);
    assert_eq!(read(&tape, &second), [Next::Frame(1), Next::Frame(2)]);
    // An answer that began with the third frame would look whole.
    tape.push(3, 90);
    assert!(tape.reader().is_none());
}

#[test]
fn who_waits_is_woken_by_head_frame_and_ending() {
    let (tape, _) = tape(100);
    let (woken, waker) = waker();
    let cx = Context::from_waker(&waker);
    let reader = tape.reader().unwrap();
    assert!(tape.poll_head(&reader, &cx).is_pending());
    tape.put_head(7);
    assert_eq!(woken.0.load(Relaxed), 1);
    assert_eq!(tape.poll_head(&reader, &cx), Poll::Ready(7));
    assert!(tape.poll_next(&reader, &cx).is_pending());
    tape.push(1, 10);
    assert_eq!(woken.0.load(Relaxed), 2);
    assert_eq!(tape.poll_next(&reader, &cx), Poll::Ready(Next::Frame(1)));
    // Whoever has just read and not asked again is not woken.
    tape.push(2, 10);
    assert_eq!(woken.0.load(Relaxed), 2);
    assert_eq!(tape.poll_next(&reader, &cx), Poll::Ready(Next::Frame(2)));
    assert!(tape.poll_next(&reader, &cx).is_pending());
    tape.finish("end");
    assert_eq!(woken.0.load(Relaxed), 3);
    assert_eq!(read(&tape, &reader), [Next::End("end")]);
}

#[test]
fn a_tape_past_its_bound_paces_the_writer_by_the_slowest_and_can_cast_it_off() {
    let (tape, budget) = tape(AHEAD);
    let (woken, waker) = waker();
    let cx = Context::from_waker(&waker);
    let [fast, slow] = [tape.reader().unwrap(), tape.reader().unwrap()];
    tape.push(1, AHEAD);
    assert!(tape.keeps() && tape.poll_room(&cx).is_ready());
    tape.push(2, 1);
    assert!(!tape.keeps());
    assert_eq!(read(&tape, &fast), [Next::Frame(1), Next::Frame(2)]);
    assert!(tape.poll_room(&cx).is_pending(), "the slow one has read nothing");
    assert_eq!(woken.0.load(Relaxed), 0);
    tape.cast_off();
    assert_eq!(woken.0.load(Relaxed), 1, "there is room again");
    assert!(tape.poll_room(&cx).is_ready());
    assert_eq!(read(&tape, &slow), [Next::CastOff]);
    assert_eq!(budget.used(), 0, "what everybody has read is gone");
    tape.push(3, 200);
    tape.cast_off();
    assert_eq!(read(&tape, &fast), [Next::Frame(3)], "nobody is further than the one who keeps up");
}

#[test]
fn all_tapes_together_have_a_bound_and_get_back_what_they_gave() {
    let budget = Budget::new(100);
    let one: T = Tape::new(true, 1000, budget.clone());
    let other: T = Tape::new(true, 1000, budget.clone());
    let _reader = one.reader().unwrap();
    one.push(1, 90);
    other.push(1, 20);
    assert!(one.keeps() && !other.keeps() && budget.used() == 90, "nobody reads the other");
    drop(one);
    assert_eq!(budget.used(), 0);
}

#[test]
fn an_abandoned_tape_wakes_its_writer() {
    let (tape, _) = tape(100);
    let (woken, waker) = waker();
    assert!(tape.poll_abandoned(&Context::from_waker(&waker)).is_pending());
    tape.abandon();
    assert_eq!(woken.0.load(Relaxed), 1);
    assert!(tape.poll_abandoned(&Context::from_waker(&waker)).is_ready());
}

proptest! {
    /// Whatever the order of pushes, joins, reads and leaves: everybody who joins while the tape keeps all reads
    /// all of it, in order, and the memory is given back.
    #[test]
    fn every_reader_reads_everything_once(steps in prop::collection::vec(0..5_u8, 1..200), limit in 1..400_usize) {
        let budget = Budget::new(1 << 20);
        let tape: T = Tape::new(true, limit, budget.clone());
        let mut readers: Vec<(Reader, Vec<u32>)> = Vec::new();
        let mut pushed = 0;
        for step in steps {
            match step {
                0 if tape.keeps() => readers.push((tape.reader().unwrap(), Vec::new())),
                1 if !readers.is_empty() => {
                    let (reader, _) = readers.swap_remove(0);
                    tape.leave(&reader);
                }
                2 | 3 => {
                    tape.push(pushed, 10);
                    pushed += 1;
                }
                _ => {
                    if let Some((reader, seen)) = readers.last_mut()
                        && let Poll::Ready(Next::Frame(frame)) =
                            tape.poll_next(reader, &Context::from_waker(Waker::noop()))
                    {
                        seen.push(frame);
                    }
                }
            }
        }
        tape.finish("end");
        for (reader, mut seen) in readers {
            for next in read(&tape, &reader) {
                match next {
                    Next::Frame(frame) => seen.push(frame),
                    Next::End(end) => prop_assert_eq!(end, "end"),
                    Next::CastOff => prop_assert!(false, "nobody was cast off"),
                }
            }
            prop_assert_eq!(seen, (0..pushed).collect::<Vec<_>>());
            tape.leave(&reader);
        }
        drop(tape);
        prop_assert_eq!(budget.used(), 0);
    }
}
