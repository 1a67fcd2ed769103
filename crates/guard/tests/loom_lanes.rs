//! Every interleaving of callers that enter, leave, give up and displace each other. Built and run with
//! `RUSTFLAGS="--cfg loom"`; without it there is nothing here.
#![cfg(loom)]

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use guard::{Lane, Limits, Party, Permit, Place, Priority, Shed, ShedReason, Ticket};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tokio::time::Instant;

/// One moment for all: what happens here may not hang on the time.
fn now() -> Instant {
    static NOW: OnceLock<Instant> = OnceLock::new();
    *NOW.get_or_init(|| Instant::from_std(std::time::Instant::now()))
}

fn ticket(key: u64) -> Ticket {
    let party = Party { key, weight: 1, parallel: usize::MAX };
    Ticket { party, target: None, bytes: 1, priority: Priority::Normal, deadline: None }
}

fn lane(permits: usize, max_waiting: usize) -> Arc<Lane> {
    Lane::new(Limits { permits, max_waiting, max_bytes: 100, per_key: 10 })
}

/// A task that is woken, and the calls that run.
#[derive(Default)]
struct World {
    bells: AtomicUsize,
    running: AtomicUsize,
}

struct Bell(Arc<World>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.bells.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(place: &mut Place, world: &Arc<World>) -> Poll<Result<Permit, Shed>> {
    let waker = Waker::from(Arc::new(Bell(Arc::clone(world))));
    pin!(place).poll(&mut Context::from_waker(&waker))
}

/// A call runs: never more of them than there are permits.
fn fly(permit: Permit, world: &World, permits: usize) {
    assert!(world.running.fetch_add(1, Ordering::SeqCst) < permits, "more calls than permits");
    world.running.fetch_sub(1, Ordering::SeqCst);
    drop(permit);
}

fn is_empty(lane: &Lane) -> bool {
    let stats = lane.stats();
    (stats.in_flight, stats.waiting, stats.waiting_bytes) == (0, 0, 0)
}

/// Three callers for one permit. Who finds none looks once and gives up, or waits until the others are gone.
#[test]
fn no_permit_is_lost_or_made_and_no_waiter_is_left_behind() {
    loom::model(|| {
        let (lane, world) = (lane(1, 10), Arc::new(World::default()));
        let caller = |lane: Arc<Lane>, world: Arc<World>, key| {
            move || {
                let mut place = lane.enter(ticket(key), now()).expect("room in the queue");
                if let Poll::Ready(permit) = poll(&mut place, &world) {
                    fly(permit.expect("nobody is shed"), &world, 1);
                }
            }
        };
        let others: Vec<_> =
            (0..2).map(|key| thread::spawn(caller(Arc::clone(&lane), Arc::clone(&world), key))).collect();
        let patient = Arc::new(World::default());
        let mut place = lane.enter(ticket(2), now()).expect("room in the queue");
        let first = poll(&mut place, &patient);
        others.into_iter().for_each(|other| other.join().unwrap());
        let waited = first.is_pending();
        let permit = match first {
            Poll::Ready(permit) => permit,
            Poll::Pending => match poll(&mut place, &patient) {
                Poll::Ready(permit) => permit,
                Poll::Pending => panic!("left behind"),
            },
        };
        assert_eq!(patient.bells.load(Ordering::SeqCst), usize::from(waited), "woken once if it waited");
        fly(permit.expect("nobody is shed"), &world, 1);
        drop(place);
        assert!(is_empty(&lane));
    });
}

/// A call is displaced while it looks, while its permit is handed over, and while it gives up.
#[test]
fn a_call_is_served_or_shed_and_never_both_or_neither() {
    loom::model(|| {
        let (lane, world) = (lane(1, 2), Arc::new(World::default()));
        let permit = lane.try_enter(&ticket(0)).expect("a free permit");
        let mut older = lane.enter(ticket(1), now()).expect("room in the queue");
        let mut newer = lane.enter(ticket(1), now()).expect("room in the queue");
        assert!(poll(&mut newer, &world).is_pending());
        let displacer = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || drop(lane.enter(ticket(2), now())))
        };
        let leaver = thread::spawn(move || drop(permit));
        let mut fate = poll(&mut newer, &world);
        let quiet = Arc::new(World::default());
        drop(poll(&mut older, &quiet));
        drop(older);
        displacer.join().unwrap();
        leaver.join().unwrap();
        if fate.is_pending() {
            fate = poll(&mut newer, &world);
        }
        match fate {
            Poll::Ready(Ok(permit)) => drop(permit),
            Poll::Ready(Err(shed)) => assert_eq!(shed.reason, ShedReason::Displaced),
            Poll::Pending => panic!("left behind"),
        }
        assert_eq!(world.bells.load(Ordering::SeqCst), 1, "woken once");
        drop(newer);
        assert!(is_empty(&lane));
    });
}

/// A key at its limit and a target at its cap: what is lifted or ends anywhere starts who waited for it.
#[test]
fn who_waits_for_a_key_or_a_target_starts_when_it_is_free() {
    loom::model(|| {
        let (lane, world) = (lane(3, 10), Arc::new(World::default()));
        lane.cap(7, Some(0));
        let few = Ticket { party: Party { parallel: 1, ..ticket(1).party }, ..ticket(1) };
        let permit = lane.try_enter(&few).expect("a free permit");
        let mut places = [
            lane.enter(few, now()).expect("room in the queue"),
            lane.enter(Ticket { target: Some(7), ..ticket(2) }, now()).expect("room in the queue"),
        ];
        let lifter = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || lane.cap(7, None))
        };
        let leaver = thread::spawn(move || drop(permit));
        let fates: Vec<_> = places.iter_mut().map(|place| poll(place, &world)).collect();
        lifter.join().unwrap();
        leaver.join().unwrap();
        let pending = fates.iter().filter(|fate| fate.is_pending()).count();
        assert_eq!(world.bells.load(Ordering::SeqCst), pending, "each that waited was woken once");
        for (place, fate) in places.iter_mut().zip(fates) {
            let fate = if fate.is_pending() { poll(place, &world) } else { fate };
            assert!(matches!(fate, Poll::Ready(Ok(_))), "left behind");
        }
        drop(places);
        assert!(is_empty(&lane));
    });
}
