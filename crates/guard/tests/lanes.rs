//! What a lane promises to tasks and threads.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use guard::{Full, Lane, Limits, Party, Permit, Place, Priority, Shed, ShedReason, Ticket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const TICKET: Ticket = of_key(1);

const fn of_key(key: u64) -> Ticket {
    let party = Party { key, weight: 1, parallel: usize::MAX };
    Ticket { party, target: None, bytes: 0, priority: Priority::Normal, deadline: None }
}

fn limits(permits: usize) -> Limits {
    Limits { permits, max_waiting: 100, max_bytes: u64::MAX, per_key: 100 }
}

fn lane(permits: usize) -> Arc<Lane> {
    Lane::new(limits(permits))
}

fn enter(lane: &Arc<Lane>) -> Place {
    lane.enter(TICKET, Instant::now()).expect("room in the queue")
}

/// Counts how often a task would have been woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll(place: &mut Place, bell: &Arc<Bell>) -> Poll<Result<Permit, Shed>> {
    let waker = Waker::from(Arc::clone(bell));
    pin!(place).poll(&mut Context::from_waker(&waker))
}

#[test]
fn nobody_waits_while_a_permit_is_free() {
    let lane = lane(2);
    let first = lane.try_enter(&TICKET).expect("a free permit");
    let bell = Arc::default();
    let Poll::Ready(Ok(second)) = poll(&mut enter(&lane), &bell) else { panic!("should not wait") };
    assert!(lane.try_enter(&TICKET).is_none());
    drop((first, second));
    let stats = lane.stats();
    assert_eq!((stats.in_flight, stats.waiting, stats.most_in_flight), (0, 0, 2));
}

#[test]
fn a_returned_permit_goes_to_the_waiter_and_not_to_a_passer_by() {
    let lane = lane(1);
    let permit = lane.try_enter(&TICKET).expect("a free permit");
    let bell = Arc::default();
    let mut place = enter(&lane);
    assert!(poll(&mut place, &bell).is_pending() && place.is_waiting());
    drop(permit);
    assert!(lane.try_enter(&TICKET).is_none(), "handed over, though not picked up");
    assert!(!place.is_waiting());
    assert_eq!(bell.0.load(SeqCst), 1);
    assert!(poll(&mut place, &bell).is_ready());
    assert!(poll(&mut place, &bell).is_pending(), "one permit to a place");
}

#[test]
fn a_place_dropped_at_any_moment_gives_its_permit_to_the_next() {
    let lane = lane(1);
    let bell = Arc::default();
    let permit = lane.try_enter(&TICKET).expect("a free permit");
    let (waiting, handed, mut last) = (enter(&lane), enter(&lane), enter(&lane));
    assert!(poll(&mut last, &bell).is_pending());
    drop(waiting);
    drop(permit);
    assert!(!handed.is_waiting() && last.is_waiting());
    drop(handed);
    assert!(poll(&mut last, &bell).is_ready(), "the permit had been dropped with its place");
    assert_eq!(bell.0.load(SeqCst), 1);
    // Admitted at once and never polled.
    drop(enter(&lane));
    assert_eq!(lane.stats().in_flight, 0);
}

#[test]
fn growing_wakes_at_once_and_shrinking_takes_nothing_away() {
    let lane = lane(1);
    let bell = Arc::default();
    let _running = lane.try_enter(&TICKET);
    let mut places: Vec<Place> = (0..3).map(|_| enter(&lane)).collect();
    assert!(places.iter_mut().all(|place| poll(place, &bell).is_pending()));
    lane.resize(Limits { max_waiting: 0, per_key: 0, ..limits(3) });
    assert_eq!(bell.0.load(SeqCst), 2);
    let permits: Vec<_> = places.iter_mut().map(|place| poll(place, &bell)).collect();
    assert_eq!(permits.iter().filter(|p| p.is_ready()).count(), 2);
    lane.resize(Limits { max_waiting: 0, per_key: 0, ..limits(1) });
    let stats = lane.stats();
    assert_eq!((stats.permits, stats.in_flight, stats.waiting), (1, 3, 1));
    assert!(matches!(lane.enter(TICKET, Instant::now()), Err(Full { .. })));
}

#[test]
fn lifting_a_cap_wakes_who_waits_for_it() {
    let lane = lane(10);
    lane.cap(7, Some(1));
    let ticket = Ticket { target: Some(7), ..TICKET };
    let permit = lane.try_enter(&ticket).expect("below the cap");
    assert!(lane.try_enter(&ticket).is_none() && lane.try_enter(&TICKET).is_some());
    let (first, second) = (Arc::default(), Arc::default());
    let mut places = [(); 2].map(|()| lane.enter(ticket, Instant::now()).expect("room in the queue"));
    assert!(poll(&mut places[0], &first).is_pending() && poll(&mut places[1], &second).is_pending());
    drop(permit);
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (1, 0));
    lane.uncap_all_but(&[1]);
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (1, 1));
    assert!(places.iter_mut().all(|place| matches!(poll(place, &first), Poll::Ready(Ok(_)))));
    assert_eq!(lane.stats().in_flight, 0);
}

#[test]
fn a_keys_own_limit_holds_up_nobody_else() {
    let lane = lane(10);
    let few = Ticket { party: Party { parallel: 1, ..TICKET.party }, ..TICKET };
    let permit = lane.try_enter(&few).expect("its first");
    let bell = Arc::default();
    let mut place = lane.enter(few, Instant::now()).expect("room in the queue");
    assert!(poll(&mut place, &bell).is_pending());
    assert!(lane.try_enter(&of_key(2)).is_some());
    drop(permit);
    assert!(matches!(poll(&mut place, &bell), Poll::Ready(Ok(_))));
    assert_eq!(lane.stats().in_flight, 0);
}

/// A lane with its one permit out, and two calls of key 1 in a queue for two.
fn full() -> (Arc<Lane>, Permit, [Place; 2]) {
    let lane = Lane::new(Limits { max_waiting: 2, ..limits(1) });
    let permit = lane.try_enter(&TICKET).expect("a free permit");
    let places = [enter(&lane), enter(&lane)];
    (lane, permit, places)
}

#[test]
fn a_displaced_call_is_woken_and_told_once() {
    let (lane, _permit, [mut kept, mut displaced]) = full();
    let (bell, other) = (Arc::default(), Arc::default());
    assert!(poll(&mut displaced, &bell).is_pending() && poll(&mut kept, &other).is_pending());
    let newcomer = lane.enter(of_key(2), Instant::now()).expect("its key holds less");
    assert_eq!((bell.0.load(SeqCst), other.0.load(SeqCst)), (1, 0));
    assert!(kept.is_waiting() && newcomer.is_waiting() && !displaced.is_waiting());
    let Poll::Ready(Err(shed)) = poll(&mut displaced, &bell) else { panic!("should be shed") };
    assert_eq!(shed.reason, ShedReason::Displaced);
    assert!(poll(&mut displaced, &bell).is_pending(), "told once");
}

#[test]
fn a_shed_call_that_is_dropped_unheard_takes_no_permit_with_it() {
    let (lane, permit, [kept, displaced]) = full();
    let newcomer = lane.enter(of_key(2), Instant::now()).expect("its key holds less");
    drop(displaced);
    assert_eq!(lane.stats().in_flight, 1);
    drop((kept, newcomer, permit));
    let stats = lane.stats();
    assert_eq!((stats.in_flight, stats.waiting), (0, 0));
}

/// Twenty calls a second, of which ten can be served.
#[tokio::test(start_paused = true)]
async fn under_lasting_overload_some_are_served_soon_and_the_rest_told_soon() {
    let lane = lane(1);
    let mut tasks = JoinSet::new();
    for _ in 0..400 {
        let (place, came) = (enter(&lane), Instant::now());
        tasks.spawn(async move {
            let permit = place.await;
            let waited = came.elapsed();
            if permit.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (permit.map(drop), waited)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(lane.stats().stands);
    let mut calls = tasks.join_all().await;
    let late = calls.split_off(100);
    let (served, shed): (Vec<_>, Vec<_>) = late.into_iter().partition(|call| call.0.is_ok());
    assert!(served.len() >= 145, "{} served", served.len());
    assert!(served.iter().all(|call| call.1 <= Duration::from_millis(310)));
    assert!(shed.iter().all(|call| call.0.unwrap_err().reason == ShedReason::Stale));
    assert!(shed.iter().all(|call| call.1 <= Duration::from_millis(410)));
}

#[test]
fn the_last_task_that_polled_is_the_one_woken() {
    let lane = lane(1);
    let permit = lane.try_enter(&TICKET);
    let (before, after) = (Arc::default(), Arc::default());
    let mut place = enter(&lane);
    assert!(poll(&mut place, &before).is_pending());
    assert!(poll(&mut place, &after).is_pending());
    drop(permit);
    assert_eq!((before.0.load(SeqCst), after.0.load(SeqCst)), (0, 1));
}

/// A waker that owns a permit, as the waker of a task does whose future holds one.
struct Holder(#[expect(dead_code, reason = "held to be dropped")] Permit);

impl Wake for Holder {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn wakers_are_dropped_outside_the_lock() {
    let lane = lane(2);
    let holder = Waker::from(Arc::new(Holder(lane.try_enter(&TICKET).expect("a free permit"))));
    let other = lane.try_enter(&TICKET).expect("a free permit");
    let mut place = enter(&lane);
    assert!(pin!(&mut place).poll(&mut Context::from_waker(&holder)).is_pending());
    drop(holder);
    // Replacing the waker ends its task, whose permit comes back to the lane in the middle of this poll.
    let bell: Arc<Bell> = Arc::default();
    let _ = poll(&mut place, &bell);
    assert!(poll(&mut place, &bell).is_ready());
    drop(other);
    assert_eq!(lane.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_burst_runs_in_waves_and_each_caller_may_give_up() {
    let lane = lane(10);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let place = enter(&lane);
        tasks.spawn(async move {
            let permit = timeout(Duration::from_millis(1_001), place).await.ok()?.ok()?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            drop(permit);
            Some(())
        });
    }
    let served = tasks.join_all().await.into_iter().flatten().count();
    assert_eq!(served, 30, "three waves within the second that callers waited");
    assert!(started.elapsed() < Duration::from_millis(1_600), "{:?}", started.elapsed());
    let stats = lane.stats();
    assert_eq!((stats.in_flight, stats.waiting, stats.most_in_flight), (0, 0, 10));
}

/// 100,000 calls on four threads, a third of which give up at some point of the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_threads_no_permit_is_lost_and_none_is_made() {
    const TASKS: usize = 32;
    const CALLS: usize = 100_000 / TASKS;
    let lane = lane(8);
    let running = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (lane, running) = (Arc::clone(&lane), Arc::clone(&running));
        tasks.spawn(async move {
            let mut served = 0;
            for call in 0..CALLS {
                let ticket = of_key(task as u64 % 5);
                let place = lane.enter(ticket, Instant::now()).expect("fewer tasks than places");
                let permit = match call % 3 {
                    0 => tokio::select! { biased; permit = place => permit, () = std::future::ready(()) => continue },
                    1 => tokio::select! { biased; permit = place => permit, () = tokio::task::yield_now() => continue },
                    _ => place.await,
                };
                // Where the machine under the test is slow, the queue may stand for a moment.
                let Ok(permit) = permit else { continue };
                assert!(running.fetch_add(1, SeqCst) < 8, "more calls than permits");
                if call % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, SeqCst);
                drop(permit);
                served += 1;
            }
            served
        });
    }
    let all = timeout(Duration::from_secs(60), tasks.join_all()).await.expect("no waiter is stranded");
    assert!(all.iter().all(|served| *served >= CALLS / 3));
    let stats = lane.stats();
    assert_eq!((stats.in_flight, stats.waiting, stats.most_in_flight), (0, 0, 8));
}
