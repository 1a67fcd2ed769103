//! The machine in simulated time: what it says about waiting, held against what then happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// Calls that run for a time, ended in order on a clock of our own.
struct World {
    core: Core<u32>,
    started: Instant,
    now: Duration,
    ends: BinaryHeap<Reverse<Duration>>,
}

impl World {
    fn new(permits: usize) -> World {
        World {
            core: Core::new(limits(permits)),
            started: Instant::now(),
            now: Duration::ZERO,
            ends: BinaryHeap::new(),
        }
    }

    fn instant(&self) -> Instant {
        self.started + self.now
    }

    fn enter(&mut self, ticket: Ticket, id: u32, lasts: Duration) {
        match self.core.enter(ticket, self.instant(), id) {
            Ok(Entry::Admitted) => self.ends.push(Reverse(self.now + lasts)),
            Ok(Entry::Queued(_)) => {}
            Err(full) => panic!("{full:?}"),
        }
    }

    /// Goes to the next end of a call; returns the waiter that starts then, and lasts as long.
    fn end_one(&mut self, lasts: Duration) -> Option<u32> {
        let Reverse(end) = self.ends.pop()?;
        self.now = end;
        let next = self.core.leave(|| self.started + end);
        if next.is_some() {
            self.ends.push(Reverse(end + lasts));
        }
        next
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn many_calls_pass_through_and_none_stays() {
    const CALLS: u32 = 200_000;
    let mut world = World::new(64);
    let (mut entered, mut served) = (0, 0_u32);
    while served < CALLS {
        while entered < CALLS && world.core.stats().waiting < 1_000 {
            let admitted = world.core.stats().in_flight < 64;
            world.enter(ticket(u64::from(entered) % 50), entered, ms(300));
            served += u32::from(admitted);
            entered += 1;
        }
        served += u32::from(world.end_one(ms(200 + u64::from(served) % 200)).is_some());
    }
    while world.end_one(ms(1)).is_some() || !world.ends.is_empty() {}
    let stats = world.core.stats();
    assert_eq!((stats.in_flight, stats.waiting, stats.most_in_flight), (0, 0, 64));
}

#[test]
fn the_retry_hint_is_the_time_that_the_queue_takes() {
    // 10 permits, 500 ms a call: 20 calls a second. With 200 waiting, that is 10 s.
    let mut world = World::new(10);
    for id in 0..600 {
        world.enter(ticket(1), id, ms(500 + u64::from(id) * 50));
    }
    while world.core.stats().waiting > 200 {
        world.end_one(ms(500));
    }
    let hint = world.core.retry_after(world.instant());
    assert!((9.0..=11.5).contains(&hint.as_secs_f64()), "{hint:?}");
    // Twice the permits, half the time, from the first moment on.
    let started = world.core.resize(limits(20), world.instant());
    assert_eq!(started.len(), 10);
    let hint = world.core.retry_after(world.instant());
    assert!((4.0..=6.0).contains(&hint.as_secs_f64()), "{hint:?}");
}

#[test]
fn a_retry_hint_stays_between_a_second_and_a_minute() {
    let now = Instant::now();
    let mut core = busy(now);
    assert_eq!(core.retry_after(now), Duration::from_secs(1));
    queued(&mut core, ticket(1), now, ());
    assert_eq!(core.retry_after(now), Duration::from_secs(1));
    // Nothing has ended for ten seconds, and two have to.
    assert_eq!(core.retry_after(now + Duration::from_secs(10)), Duration::from_secs(20));
    assert_eq!(core.retry_after(now + Duration::from_secs(600)), Duration::from_secs(60));
    core.resize(limits(0), now + Duration::from_secs(600));
    assert_eq!(core.retry_after(now + Duration::from_secs(600)), Duration::from_secs(60));
}

#[test]
fn a_quiet_lane_is_not_taken_for_a_slow_one() {
    // A call a second for a minute, of 64 permits: the lane could do far more.
    let mut world = World::new(64);
    for id in 0..60 {
        world.enter(ticket(1), id, ms(300));
        world.end_one(ms(300));
        world.now = Duration::from_secs(u64::from(id) + 1);
    }
    for id in 0..564 {
        world.enter(ticket(1), id, ms(300));
    }
    let deadline = Some(world.instant() + Duration::from_secs(5));
    assert!(!world.core.hopeless(&Ticket { deadline, ..ticket(1) }, world.instant()));
    assert_eq!(world.core.retry_after(world.instant()), Duration::from_secs(1));
}

#[test]
fn a_deadline_beyond_reach_is_told_at_once_and_one_within_reach_is_not_refused() {
    // 4 permits, a second a call: 4 calls a second; 400 waiting take 100 s.
    let mut world = World::new(4);
    for id in 0..504 {
        world.enter(ticket(1), id, ms(1_000 + u64::from(id) * 250));
    }
    while world.core.stats().waiting > 400 {
        world.end_one(ms(1_000));
    }
    let now = world.instant();
    let with = |s, key| Ticket { deadline: Some(now + Duration::from_secs(s)), ..ticket(key) };
    assert!(!world.core.hopeless(&with(120, 1), now), "in reach at its place in the queue");
    assert!(!world.core.hopeless(&with(5, 2), now), "another key's turn comes soon");
    assert!(!world.core.hopeless(&ticket(1), now), "no deadline, no hurry");
    assert!(!world.core.hopeless(&with(5, 1), now), "the earliest deadline of its key is first");
    let last = Ticket { priority: Priority::Low, ..with(60, 1) };
    assert!(world.core.hopeless(&last, now), "behind all of its key");
    assert!(world.core.hopeless(&with(0, 2), now), "over already");
}

/// Runs a long queue dry, asking for a newcomer behind everybody all the while. Returns how many were told
/// that it is hopeless, and how many of those would have had their permit in time.
fn refusals(permits: usize, mut lasts: impl FnMut() -> Duration) -> (usize, usize) {
    let mut world = World::new(permits);
    for id in 0..1_500 {
        world.enter(ticket(1), id, lasts());
    }
    let mut refused = Vec::new();
    for step in 0_u64.. {
        if world.core.stats().waiting == 0 {
            break;
        }
        let deadline = world.instant() + ms(step * 7_919 % 120_000);
        let last = Ticket { priority: Priority::Low, deadline: Some(deadline), key: 1 };
        if world.core.hopeless(&last, world.instant()) {
            refused.push(deadline);
        }
        world.end_one(lasts());
    }
    // The whole queue has started, so the next exit is the one that would have let the newcomer in.
    let Some(&Reverse(turn)) = world.ends.peek() else { panic!("flights are left") };
    let wrong = refused.iter().filter(|deadline| **deadline > world.started + turn).count();
    (refused.len(), wrong)
}

#[test]
fn nobody_is_refused_who_would_have_been_in_time() {
    // The hard case: flights that start together and end together, so that exits come in waves.
    for (permits, lasts) in [(1, 700), (8, 3_000), (64, 300), (64, 9_000), (300, 20_000)] {
        let (refused, wrong) = refusals(permits, || ms(lasts));
        assert_eq!(wrong, 0, "of {refused} refused; {permits} permits, {lasts} ms");
        assert!(refused > 20, "{permits} permits, {lasts} ms: the estimate hardly spoke");
    }
}

#[test]
fn refusals_are_right_where_durations_scatter() {
    // Exponential durations, drawn evenly in mixed order by the golden ratio's multiples.
    for (permits, mean) in [(1, 0.7), (8, 3.0), (64, 0.3), (64, 9.0)] {
        let mut draw = 0.0_f64;
        let (refused, wrong) = refusals(permits, || {
            draw = (draw + 0.618_033_988_749_895).fract();
            Duration::from_secs_f64(-mean * (1.0 - draw).ln())
        });
        assert!(wrong * 100 <= refused, "{wrong} of {refused} refused; {permits} permits, {mean} s");
        assert!(refused > 20, "{permits} permits, {mean} s: the estimate hardly spoke");
    }
}
