//! The machine in simulated time: what it says about waiting, held against what then happens.

use std::cmp::Reverse;

use super::world::World;
use super::*;

fn by(deadline: Instant) -> Ticket {
    Ticket { deadline: Some(deadline), ..ticket(1) }
}

#[test]
fn many_calls_pass_through_and_none_stays() {
    const CALLS: u64 = 50_000;
    let mut world = World::new(limits(64));
    for call in 0..CALLS {
        while world.waiting() >= 50 {
            world.end_one();
        }
        world.enter(ticket(call % 50), ms(200 + call % 200));
    }
    world.drain();
    let stats = world.core.stats();
    assert_eq!((stats.in_flight, stats.waiting, stats.most_in_flight), (0, 0, 64));
    assert_eq!((world.ended as u64, world.sheds.len()), (CALLS, 0));
}

#[test]
fn the_retry_hint_is_the_time_that_the_queue_takes() {
    // 10 permits, 500 ms a call: 20 calls a second. With 200 waiting, that is 10 s.
    let mut world = World::new(limits(10));
    for call in 0..600 {
        world.enter(ticket(1), ms(if call < 10 { 500 + call * 50 } else { 500 }));
    }
    while world.waiting() > 200 {
        world.end_one();
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
    let mut world = World::new(limits(64));
    for call in 0..60 {
        world.enter(ticket(1), ms(300));
        world.end_one();
        world.now = Duration::from_secs(call + 1);
    }
    for _ in 0..564 {
        world.enter(ticket(1), ms(300));
    }
    let soon = world.instant() + Duration::from_secs(5);
    assert!(!world.core.hopeless(&by(soon), soon, world.instant()));
    assert_eq!(world.core.retry_after(world.instant()), Duration::from_secs(1));
}

#[test]
fn a_time_beyond_reach_is_told_at_once_and_one_within_reach_is_not_refused() {
    // 4 permits, a second a call: 4 calls a second; 400 waiting take 100 s.
    let mut world = World::new(limits(4));
    for call in 0..504 {
        world.enter(ticket(1), ms(if call < 4 { 1_000 + call * 250 } else { 1_000 }));
    }
    while world.waiting() > 400 {
        world.end_one();
    }
    let now = world.instant();
    let at = |s| now + Duration::from_secs(s);
    let core = &mut world.core;
    assert!(!core.hopeless(&ticket(1), at(120), now), "in reach at its place in the queue");
    assert!(core.hopeless(&ticket(1), at(60), now), "behind all of its key");
    assert!(!core.hopeless(&ticket(2), at(5), now), "another key's turn comes soon");
    assert!(!core.hopeless(&by(at(5)), at(5), now), "the earliest deadline of its key is first");
    let last = Ticket { priority: Priority::Low, ..by(at(5)) };
    assert!(core.hopeless(&last, at(60), now), "behind all of its key, whatever its deadline");
    assert!(core.hopeless(&ticket(2), now, now), "over already");
    let few = Ticket { party: Party { parallel: 3, ..party(1) }, ..ticket(1) };
    assert!(!core.hopeless(&few, at(60), now), "only those surely ahead count");
}

/// Runs a long queue dry, asking for a newcomer behind everybody all the while. Returns how many were told
/// that it is hopeless, and how many of those would have had their permit in time.
fn refusals(permits: usize, mut lasts: impl FnMut() -> Duration) -> (usize, usize) {
    let mut world = World::new(limits(permits));
    for _ in 0..1_500 {
        world.enter(ticket(1), lasts());
    }
    let mut refused = Vec::new();
    for step in 0_u64.. {
        if world.waiting() == 0 {
            break;
        }
        let now = world.instant();
        let by = now + ms(step * 7_919 % 120_000);
        let last = Ticket { priority: Priority::Low, ..ticket(1) };
        if world.core.hopeless(&last, by, now) {
            refused.push(by);
        }
        world.end_one();
    }
    // The whole queue has started, so the next exit is the one that would have let the newcomer in.
    let Some(&Reverse((turn, _))) = world.ends.peek() else { panic!("flights are left") };
    let wrong = refused.iter().filter(|by| **by > world.started + turn).count();
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
