//! More than the lane can serve: for a moment, and for long.

use super::world::World;
use super::*;

/// 64 permits and 300 ms a call are 213 calls a second.
const CALL: Duration = ms(300);
const CAPACITY: f64 = 64.0 / 0.3;

fn lane() -> World {
    World::new(limits(64))
}

/// Calls at even distances from now on, of keys in turn.
fn arrivals(
    world: &mut World,
    per_second: f64,
    lasts: Duration,
    keys: u64,
    mut call: impl FnMut() -> Duration,
) {
    let from = world.now;
    for n in 0.. {
        let at = from + Duration::from_secs_f64(n as f64 / per_second);
        if at >= from + lasts {
            break;
        }
        world.until(at);
        world.enter(ticket(n % keys), call());
    }
    world.until(from + lasts);
}

#[test]
fn a_burst_that_drains_is_never_dropped() {
    let mut world = lane();
    for call in 0..1_000 {
        world.enter(ticket(call % 7), CALL);
    }
    world.drain();
    assert_eq!((world.ended, world.sheds.len()), (1_000, 0));
}

#[test]
fn neither_is_one_into_which_others_trickle() {
    for per_second in [20.0, 100.0, 150.0] {
        let mut world = lane();
        for call in 0..1_000 {
            world.enter(ticket(call % 7), CALL);
        }
        arrivals(&mut world, per_second, Duration::from_secs(20), 7, || CALL);
        world.drain();
        assert_eq!(world.ended, world.starts.len());
        assert_eq!((world.sheds.len(), world.refusals.len()), (0, 0), "{per_second}/s");
    }
}

#[test]
fn neither_is_one_that_waits_for_a_slow_target_in_a_lane_with_room() {
    let mut world = lane();
    world.core.cap(7, Some(4), world.started);
    for _ in 0..40 {
        world.enter(Ticket { target: Some(7), ..ticket(1) }, Duration::from_secs(3));
    }
    arrivals(&mut world, 50.0, Duration::from_secs(30), 7, || CALL);
    world.drain();
    assert_eq!(world.sheds.len(), 0);
}

/// Durations of this mean, drawn exponentially and evenly in mixed order by the golden ratio's multiples.
fn scattered(mean: f64) -> impl FnMut() -> Duration {
    let mut draw = 0.0_f64;
    move || {
        draw = (draw + 0.618_033_988_749_895).fract();
        Duration::from_secs_f64(-mean * (1.0 - draw).ln())
    }
}

#[test]
fn nor_one_that_drains_unevenly_through_few_permits() {
    for permits in [1, 2, 4, 16] {
        for share in [0.3, 0.6, 0.8] {
            let mut world = World::new(limits(permits));
            let mut call = scattered(0.3);
            for n in 0..30 * permits as u64 {
                world.enter(ticket(n % 7), call());
            }
            // Apart from the draw of durations, the arrivals are even.
            arrivals(&mut world, share * permits as f64 / 0.3, Duration::from_secs(20), 7, &mut call);
            world.drain();
            assert_eq!(world.sheds.len(), 0, "{permits} permits, {share} of the capacity");
        }
    }
}

/// Twice the capacity for a minute.
fn overloaded(keys: u64, call: impl FnMut() -> Duration) -> World {
    let mut world = lane();
    arrivals(&mut world, 2.0 * CAPACITY, Duration::from_secs(60), keys, call);
    assert!(world.core.stats().stands);
    world
}

#[test]
fn lasting_overload_costs_neither_throughput_nor_long_waits() {
    for keys in [1, 50] {
        let world = overloaded(keys, || CALL);
        let goodput = world.ended as f64 / 60.0;
        assert!(goodput > 0.98 * CAPACITY, "{goodput}/s of {CAPACITY}");
        // It takes a while to tell it from a burst.
        let longest = world.longest_wait(Duration::from_secs(3), |_| true);
        assert!(longest < ms(650), "{longest:?} with {keys} keys");
        assert!(world.sheds.iter().all(|shed| shed.reason == ShedReason::Stale));
        assert!(world.sheds.len() > 10_000, "{}", world.sheds.len());
    }
}

#[test]
fn the_same_holds_where_durations_scatter_and_the_queue_is_short() {
    let mut world = World::new(Limits { max_waiting: 200, per_key: 50, ..limits(64) });
    arrivals(&mut world, 2.0 * CAPACITY, Duration::from_secs(60), 50, scattered(0.3));
    let goodput = world.ended as f64 / 60.0;
    assert!(goodput > 0.95 * CAPACITY, "{goodput}/s of {CAPACITY}");
    let longest = world.longest_wait(Duration::from_secs(5), |_| true);
    assert!(longest < ms(800), "{longest:?}");
}

#[test]
fn after_the_overload_a_new_call_waits_no_longer_than_usual() {
    let mut world = overloaded(20, || CALL);
    let from = world.now;
    arrivals(&mut world, 0.5 * CAPACITY, Duration::from_secs(5), 20, || CALL);
    let new = world.starts.iter().filter(|(_, came, _)| *came >= from);
    let longest = new.map(|(_, came, start)| *start - *came).max();
    assert!(longest <= Some(CALL), "{longest:?}");
    let stats = world.core.stats();
    assert_eq!((stats.waiting, stats.stands), (0, false));
}

#[test]
fn who_asks_a_hundred_times_as_often_makes_no_other_wait_longer_than_a_round() {
    let mut world = World::new(limits(8));
    // 8 permits at 100 ms: 80 a second. The flood alone is four times that.
    let flood = |world: &mut World, n: u64| {
        world.until(ms(n * 3));
        world.enter(ticket(if n % 101 == 100 { 2 } else { 1 }), ms(100));
    };
    (0..20_000).for_each(|n| flood(&mut world, n));
    let small = world.longest_wait(Duration::ZERO, |key| key == 2);
    assert!(small <= ms(100), "one flight of the flood's at most: {small:?}");
    world.drain();
    let served = world.starts.iter().filter(|(key, _, _)| *key == 2).count();
    assert_eq!(served, 20_000 / 101);
}

#[test]
fn weights_share_the_service_under_backlog() {
    let mut world = World::new(limits(8));
    for n in 0..10_000_u64 {
        world.until(ms(n * 3));
        let party = Party { weight: if n % 2 == 0 { 3 } else { 1 }, ..party(n % 2) };
        world.enter(Ticket { party, ..ticket(0) }, ms(100));
    }
    let heavy = world.starts.iter().filter(|(key, _, _)| *key == 0).count();
    let ratio = heavy as f64 / (world.starts.len() - heavy) as f64;
    assert!((2.9..=3.1).contains(&ratio), "{ratio}");
}
