//! When an alarm rings, on a paused clock.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use guard::Alarm;
use tokio::time::{Instant, advance, timeout};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Waits for the ring and says how long that took.
async fn ring(alarm: &mut Alarm) -> Duration {
    let started = Instant::now();
    poll_fn(|cx| alarm.poll_ring(cx)).await;
    started.elapsed()
}

async fn is_silent(alarm: &mut Alarm, wait: Duration) -> bool {
    timeout(wait, ring(alarm)).await.is_err()
}

fn near(took: Duration, wanted: u64) -> bool {
    (ms(wanted)..=ms(wanted + 2)).contains(&took)
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn it_rings_once_and_on_time() {
    let mut alarm = Alarm::new();
    assert!(is_silent(&mut alarm, ms(200_000_000)).await, "never set, and past where it was first armed");
    alarm.set(Instant::now() + ms(300));
    assert!(near(ring(&mut alarm).await, 300));
    assert_eq!(alarm.at(), None);
    assert!(is_silent(&mut alarm, ms(10_000)).await, "rang twice");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_moves_on_with_every_chunk_never_rings_early() {
    let mut alarm = Alarm::new();
    for _ in 0..100 {
        alarm.set(Instant::now() + ms(200));
        assert!(is_silent(&mut alarm, ms(150)).await);
    }
    assert!(near(ring(&mut alarm).await, 50));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_takes_over() {
    let mut alarm = Alarm::new();
    alarm.set(Instant::now() + ms(10_000));
    assert!(is_silent(&mut alarm, ms(10)).await);
    alarm.set(Instant::now() + ms(40));
    assert!(near(ring(&mut alarm).await, 40));
    // Earlier, and later again, before anybody polled.
    alarm.set(Instant::now() + ms(10));
    alarm.set(Instant::now() + ms(90));
    assert!(near(ring(&mut alarm).await, 90));
}

#[tokio::test(start_paused = true)]
async fn what_has_passed_rings_at_once() {
    let mut alarm = Alarm::new();
    advance(ms(100)).await;
    alarm.set(Instant::now() - ms(50));
    assert!(near(ring(&mut alarm).await, 0));
    // The timer fired long ago for an earlier wait, and this one is over as well.
    alarm.set(Instant::now() + ms(10));
    alarm.set(Instant::now() + ms(30));
    advance(ms(1_000)).await;
    assert!(near(ring(&mut alarm).await, 0));
}

#[tokio::test(start_paused = true)]
async fn one_alarm_serves_many_calls() {
    let mut alarm = Alarm::new();
    for call in 0..50 {
        alarm.set(Instant::now() + ms(100 + call));
        if call % 2 == 0 {
            assert!(near(ring(&mut alarm).await, 100 + call));
        } else {
            assert!(is_silent(&mut alarm, ms(20)).await);
            alarm.clear();
            assert!(is_silent(&mut alarm, ms(200)).await, "a cleared alarm rang");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_wakes_the_task_that_polled_last() {
    let (before, after) = (Arc::<Bell>::default(), Arc::<Bell>::default());
    let mut alarm = Alarm::new();
    alarm.set(Instant::now() + ms(100));
    for bell in [&before, &after] {
        let waker = Waker::from(Arc::clone(bell));
        assert!(alarm.poll_ring(&mut Context::from_waker(&waker)).is_pending());
    }
    advance(ms(101)).await;
    assert_eq!((before.0.load(SeqCst), after.0.load(SeqCst)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_steady_stream_wakes_its_task_once_per_deadline_and_not_per_chunk() {
    let bell = Arc::<Bell>::default();
    let waker = Waker::from(Arc::clone(&bell));
    let mut cx = Context::from_waker(&waker);
    let mut alarm = Alarm::new();
    for _ in 0..1_000 {
        alarm.set(Instant::now() + ms(1_000));
        assert!(alarm.poll_ring(&mut cx).is_pending());
        advance(ms(10)).await;
    }
    let woken = bell.0.load(SeqCst);
    assert!((1..=11).contains(&woken), "woken {woken} times in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_budget_left_still_gets_its_ring() {
    let mut alarm = Alarm::new();
    alarm.set(Instant::now() + ms(100));
    let took = timeout(ms(10_000), async {
        let mut spent = false;
        let started = Instant::now();
        poll_fn(|cx| {
            while !spent && std::pin::pin!(tokio::task::coop::consume_budget()).poll(cx).is_ready() {}
            // Nothing else that wakes this task may be polled from here on.
            let rung = alarm.poll_ring(cx);
            spent = true;
            if rung.is_ready() { Poll::Ready(started.elapsed()) } else { Poll::Pending }
        })
        .await
    });
    assert!(near(took.await.expect("it rings"), 100));
}
