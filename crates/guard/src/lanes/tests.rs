//! The lane's machine against a model that is too slow to ship and too short to be wrong, and in simulated time.

mod bounds;
mod leak;
mod model;
mod overload;
mod simulation;
mod turns;
mod world;

use std::time::Duration;

use tokio::time::Instant;

use super::core::{Claim, Core, Entry, Fate, Rank, Woken};
use super::{Full, FullReason, Limits, Party, Priority, Shed, ShedReason, Ticket};

fn limits(permits: usize) -> Limits {
    Limits { permits, max_waiting: 2_000, max_bytes: u64::MAX, per_key: 2_000 }
}

fn party(key: u64) -> Party {
    Party { key, weight: 1, parallel: usize::MAX }
}

fn ticket(key: u64) -> Ticket {
    Ticket { party: party(key), target: None, bytes: 0, priority: Priority::Normal, deadline: None }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A machine with one permit, which is out, so that all that enters waits.
fn busy<W>(now: Instant) -> Core<W> {
    let mut core = Core::new(limits(1));
    assert!(core.try_enter(&ticket(0), || now));
    core
}

fn queued<W: std::fmt::Debug>(core: &mut Core<W>, ticket: Ticket, now: Instant, waiter: W) -> Rank {
    let (entry, woken) = core.enter(&ticket, now, waiter);
    assert!(woken.is_empty(), "{woken:?}");
    match entry {
        Ok(Entry::Queued(rank)) => rank,
        other => panic!("expected to wait, got {other:?}"),
    }
}

/// Who is served as one uncounted flight after the other ends.
fn served<W>(core: &mut Core<W>, now: Instant) -> Vec<W> {
    std::iter::from_fn(|| core.leave(Claim::default(), || now).pop()).collect()
}

fn left<W>(core: &mut Core<W>, now: Instant) -> Vec<W> {
    core.leave(Claim::default(), || now).into_vec()
}

#[test]
fn a_flood_by_one_key_leaves_every_other_turn_to_another() {
    let now = Instant::now();
    let mut core = busy(now);
    for _ in 0..1_000 {
        queued(&mut core, ticket(1), now, 'a');
    }
    for _ in 0..10 {
        queued(&mut core, ticket(2), now, 'b');
    }
    let order: String = served(&mut core, now).into_iter().collect();
    assert_eq!(&order[..24], "ababababababababababaaaa");
    assert_eq!(order.len(), 1_010);
}

#[test]
fn inside_a_key_priority_then_deadline_then_arrival() {
    let now = Instant::now();
    let at = |s| Some(now + Duration::from_secs(s));
    let mut core = busy(now);
    for (priority, deadline, name) in [
        (Priority::Low, at(1), "low, soonest"),
        (Priority::Normal, None, "normal, endless, first"),
        (Priority::Normal, None, "normal, endless, second"),
        (Priority::Normal, at(9), "normal, late"),
        (Priority::Normal, at(5), "normal, soon"),
        (Priority::High, None, "high"),
    ] {
        queued(&mut core, Ticket { priority, deadline, ..ticket(1) }, now, name);
    }
    assert_eq!(
        served(&mut core, now),
        [
            "high",
            "normal, soon",
            "normal, late",
            "normal, endless, first",
            "normal, endless, second",
            "low, soonest"
        ]
    );
}

#[test]
fn a_high_priority_does_not_jump_another_keys_turn() {
    let now = Instant::now();
    let mut core = busy(now);
    queued(&mut core, Ticket { priority: Priority::Low, ..ticket(1) }, now, "low");
    queued(&mut core, Ticket { priority: Priority::High, ..ticket(2) }, now, "high");
    assert_eq!(served(&mut core, now), ["low", "high"]);
}

#[test]
fn leaving_the_queue_and_coming_back_gains_no_turn() {
    let now = Instant::now();
    let mut core = busy(now);
    let place = queued(&mut core, ticket(1), now, "1");
    queued(&mut core, ticket(2), now, "2");
    assert_eq!(core.quit(&place, Claim::default(), || now), (Some("1"), Woken::new()));
    queued(&mut core, ticket(1), now, "1 again");
    assert_eq!(served(&mut core, now), ["2", "1 again"]);
}

#[test]
fn a_shrunk_lane_admits_nobody_until_it_is_below_its_limit() {
    let now = Instant::now();
    let mut core = Core::new(limits(3));
    while core.try_enter(&ticket(1), || now) {}
    queued(&mut core, ticket(1), now, ());
    assert!(core.resize(limits(1), now).is_empty());
    assert_eq!([left(&mut core, now), left(&mut core, now)], [vec![], vec![]]);
    assert_eq!(core.stats().in_flight, 1);
    assert_eq!(left(&mut core, now), [()]);
}

#[test]
fn a_lane_with_room_never_asks_for_the_time() {
    let mut core = Core::<()>::new(limits(3));
    let never = || -> Instant { panic!("the clock was read") };
    for _ in 0..10 {
        assert!(core.try_enter(&ticket(1), never) && core.try_enter(&ticket(2), never));
        for _ in 0..2 {
            assert!(core.leave(Claim::default(), never).is_empty());
        }
    }
}

/// Of each wave three leave a lane with room; they count like the first.
#[test]
fn waves_that_just_fit_are_measured_as_what_they_are() {
    let mut now = Instant::now();
    let mut core = Core::<()>::new(limits(4));
    for _ in 0..30 {
        while core.try_enter(&ticket(1), || now) {}
        now += ms(100);
        for _ in 0..4 {
            assert!(left(&mut core, now).is_empty());
        }
        now += ms(10);
    }
    while core.try_enter(&ticket(1), || now) {}
    for _ in 0..40 {
        queued(&mut core, ticket(1), now, ());
    }
    // Ten more waves and its own: 1.1 s.
    assert!(!core.hopeless(&ticket(1), now + ms(1100), now));
    assert!(core.hopeless(&ticket(1), now + ms(400), now));
    for _ in 0..360 {
        queued(&mut core, ticket(1), now, ());
    }
    let after = core.retry_after(now);
    assert!(after >= ms(9_900) && after <= ms(10_500), "{after:?}");
}
