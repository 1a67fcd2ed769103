//! The lane's machine against a model that is too slow to ship and too short to be wrong, and in simulated time.

mod model;
mod simulation;

use std::time::Duration;

use tokio::time::Instant;

use super::core::{Core, Entry, Rank};
use super::{FullReason, Limits, Priority, Ticket};

fn limits(permits: usize) -> Limits {
    Limits { permits, max_waiting: 2_000, per_key: 2_000 }
}

fn ticket(key: u64) -> Ticket {
    Ticket { key, priority: Priority::Normal, deadline: None }
}

/// A machine with one permit, which is out, so that all that enters waits.
fn busy<W>(now: Instant) -> Core<W> {
    let mut core = Core::new(limits(1));
    assert!(core.try_enter(|| now));
    core
}

fn queued<W>(core: &mut Core<W>, ticket: Ticket, now: Instant, waiter: W) -> Rank {
    match core.enter(ticket, now, waiter) {
        Ok(Entry::Queued(rank)) => rank,
        other => panic!("expected to wait, got {other:?}"),
    }
}

fn served<W>(core: &mut Core<W>, now: Instant) -> Vec<W> {
    std::iter::from_fn(|| core.leave(|| now)).collect()
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
        queued(&mut core, Ticket { key: 1, priority, deadline }, now, name);
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
    assert_eq!(core.cancel(&place), Some("1"));
    assert_eq!(core.cancel(&place), None);
    queued(&mut core, ticket(1), now, "1 again");
    assert_eq!(served(&mut core, now), ["2", "1 again"]);
}

#[test]
fn the_queue_and_each_keys_part_of_it_are_bounded() {
    let now = Instant::now();
    let mut core = Core::new(Limits { permits: 0, max_waiting: 3, per_key: 2 });
    for _ in 0..2 {
        queued(&mut core, ticket(1), now, ());
    }
    assert_eq!(core.enter(ticket(1), now, ()).unwrap_err().reason, FullReason::Key);
    queued(&mut core, ticket(2), now, ());
    assert_eq!(core.enter(ticket(3), now, ()).unwrap_err().reason, FullReason::Queue);
}

#[test]
fn a_shrunk_lane_admits_nobody_until_it_is_below_its_limit() {
    let now = Instant::now();
    let mut core = Core::new(limits(3));
    while core.try_enter(|| now) {}
    queued(&mut core, ticket(1), now, ());
    assert!(core.resize(limits(1), now).is_empty());
    assert_eq!([core.leave(|| now), core.leave(|| now)], [None, None]);
    assert_eq!(core.stats().in_flight, 1);
    assert_eq!(core.leave(|| now), Some(()));
}

#[test]
fn a_lane_with_room_never_asks_for_the_time() {
    let mut core = Core::<()>::new(limits(3));
    let never = || -> Instant { panic!("the clock was read") };
    for _ in 0..10 {
        assert!(core.try_enter(never) && core.try_enter(never));
        assert_eq!([core.leave(never), core.leave(never)], [None, None]);
    }
}
