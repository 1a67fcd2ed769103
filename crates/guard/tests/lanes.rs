//! What a lane promises to tasks and threads.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use guard::{Full, Lane, Limits, Permit, Place, Priority, Ticket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const TICKET: Ticket = Ticket { key: 1, priority: Priority::Normal, deadline: None };

fn lane(permits: usize) -> Arc<Lane> {
    Lane::new(Limits { permits, max_waiting: 100, per_key: 100 })
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

fn poll(place: &mut Place, bell: &Arc<Bell>) -> Poll<Permit> {
    let waker = Waker::from(Arc::clone(bell));
    pin!(place).poll(&mut Context::from_waker(&waker))
}

#[test]
fn nobody_waits_while_a_permit_is_free() {
    let lane = lane(2);
    let first = lane.try_enter().expect("a free permit");
    let bell = Arc::default();
    let Poll::Ready(second) = poll(&mut enter(&lane), &bell) else { panic!("should not wait") };
    assert!(lane.try_enter().is_none());
    drop((first, second));
    let stats = lane.stats();
    assert_eq!((stats.in_flight, stats.waiting, stats.most_in_flight), (0, 0, 2));
}

#[test]
fn a_returned_permit_goes_to_the_waiter_and_not_to_a_passer_by() {
    let lane = lane(1);
    let permit = lane.try_enter().expect("a free permit");
    let bell = Arc::default();
    let mut place = enter(&lane);
    assert!(poll(&mut place, &bell).is_pending() && place.is_waiting());
    drop(permit);
    assert!(lane.try_enter().is_none(), "handed over, though not picked up");
    assert!(!place.is_waiting());
    assert_eq!(bell.0.load(SeqCst), 1);
    assert!(poll(&mut place, &bell).is_ready());
    assert!(poll(&mut place, &bell).is_pending(), "one permit to a place");
}

#[test]
fn a_place_dropped_at_any_moment_gives_its_permit_to_the_next() {
    let lane = lane(1);
    let bell = Arc::default();
    let permit = lane.try_enter().expect("a free permit");
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
    let _running = lane.try_enter();
    let mut places: Vec<Place> = (0..3).map(|_| enter(&lane)).collect();
    assert!(places.iter_mut().all(|place| poll(place, &bell).is_pending()));
    lane.resize(Limits { permits: 3, max_waiting: 0, per_key: 0 });
    assert_eq!(bell.0.load(SeqCst), 2);
    let permits: Vec<_> = places.iter_mut().map(|place| poll(place, &bell)).collect();
    assert_eq!(permits.iter().filter(|p| p.is_ready()).count(), 2);
    lane.resize(Limits { permits: 1, max_waiting: 0, per_key: 0 });
    let stats = lane.stats();
    assert_eq!((stats.permits, stats.in_flight, stats.waiting), (1, 3, 1));
    assert!(matches!(lane.enter(TICKET, Instant::now()), Err(Full { .. })));
}

#[test]
fn the_last_task_that_polled_is_the_one_woken() {
    let lane = lane(1);
    let permit = lane.try_enter();
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
    let holder = Waker::from(Arc::new(Holder(lane.try_enter().expect("a free permit"))));
    let other = lane.try_enter().expect("a free permit");
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
            let permit = timeout(Duration::from_millis(1_001), place).await.ok()?;
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
                let ticket = Ticket { key: task as u64 % 5, ..TICKET };
                let place = lane.enter(ticket, Instant::now()).expect("fewer tasks than places");
                let permit = match call % 3 {
                    0 => tokio::select! { biased; permit = place => permit, () = std::future::ready(()) => continue },
                    1 => tokio::select! { biased; permit = place => permit, () = tokio::task::yield_now() => continue },
                    _ => place.await,
                };
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
