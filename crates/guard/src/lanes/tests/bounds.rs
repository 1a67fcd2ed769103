//! A full queue: who is refused, and who gives way.

use super::*;

fn bounded(max_waiting: usize, max_bytes: u64) -> Core<u32> {
    Core::new(Limits { permits: 0, max_waiting, max_bytes, per_key: 100 })
}

fn sized(key: u64, bytes: u64) -> Ticket {
    Ticket { bytes, ..ticket(key) }
}

/// Enters a call that has to find room; whom it displaces.
fn squeezed(core: &mut Core<u32>, ticket: Ticket, id: u32) -> Result<Vec<u32>, FullReason> {
    let (entry, woken) = core.enter(&ticket, Instant::now(), id);
    match entry {
        Ok(Entry::Queued(_)) => Ok(woken.to_vec()),
        Ok(Entry::Admitted) => panic!("no permit is free"),
        Err(full) => {
            assert!(woken.is_empty() && (1..=60).contains(&full.retry_after.as_secs()));
            Err(full.reason)
        }
    }
}

#[test]
fn each_keys_part_of_the_queue_is_bounded() {
    let mut core = Core::new(Limits { per_key: 2, ..limits(0) });
    assert_eq!(squeezed(&mut core, ticket(1), 0), Ok(vec![]));
    assert_eq!(squeezed(&mut core, ticket(1), 1), Ok(vec![]));
    assert_eq!(squeezed(&mut core, ticket(1), 2), Err(FullReason::Key));
    assert_eq!(squeezed(&mut core, ticket(2), 3), Ok(vec![]));
}

#[test]
fn in_a_full_queue_the_newest_of_the_largest_key_gives_way() {
    let mut core = bounded(4, u64::MAX);
    for id in 0..4 {
        assert_eq!(squeezed(&mut core, ticket(1), id), Ok(vec![]));
    }
    assert_eq!(squeezed(&mut core, ticket(1), 4), Err(FullReason::Queue), "nobody displaces its own");
    assert_eq!(squeezed(&mut core, ticket(2), 5), Ok(vec![3]));
    assert_eq!(squeezed(&mut core, ticket(2), 6), Ok(vec![2]));
    assert_eq!(squeezed(&mut core, ticket(2), 7), Err(FullReason::Queue), "it holds as much by now");
    assert_eq!(squeezed(&mut core, ticket(3), 8), Ok(vec![6]), "of equals, any");
    assert_eq!(squeezed(&mut core, ticket(4), 9), Ok(vec![1]));
    assert_eq!(squeezed(&mut core, ticket(5), 10), Err(FullReason::Queue), "one each");
}

#[test]
fn who_is_displaced_hears_of_it_once() {
    let now = Instant::now();
    let mut core = bounded(2, u64::MAX);
    queued(&mut core, ticket(1), now, 0);
    let displaced = queued(&mut core, ticket(1), now, 1);
    assert_eq!(squeezed(&mut core, ticket(2), 2), Ok(vec![1]));
    let Fate::Shed(shed) = core.fate(&displaced) else { panic!("should be shed") };
    assert_eq!(shed.reason, ShedReason::Displaced);
    assert!((1..=60).contains(&shed.retry_after.as_secs()));
    assert_eq!(core.stats().waiting, 2);
}

#[test]
fn a_queue_above_its_bound_gets_shorter_first() {
    let mut core = bounded(4, u64::MAX);
    for id in 0..4 {
        assert_eq!(squeezed(&mut core, ticket(1), id), Ok(vec![]));
    }
    core.resize(Limits { permits: 0, max_waiting: 3, ..limits(0) }, Instant::now());
    assert_eq!(squeezed(&mut core, ticket(2), 4), Err(FullReason::Queue));
}

#[test]
fn waiting_bytes_are_bounded() {
    let mut core = bounded(100, 1_000);
    for id in 0..4 {
        assert_eq!(squeezed(&mut core, sized(1, 250), id), Ok(vec![]));
    }
    assert_eq!(core.stats().waiting_bytes, 1_000);
    assert_eq!(squeezed(&mut core, sized(1, 1), 4), Err(FullReason::Bytes));
    assert_eq!(squeezed(&mut core, sized(2, 500), 5), Ok(vec![3, 2]), "as many as it takes");
    assert_eq!(squeezed(&mut core, sized(2, 1), 6), Err(FullReason::Bytes), "half of it each");
    assert_eq!(squeezed(&mut core, sized(3, 600), 7), Err(FullReason::Bytes), "nobody held as much");
    assert_eq!(squeezed(&mut core, sized(4, 0), 8), Ok(vec![]), "without bytes there is always room");
    assert_eq!(core.stats().waiting_bytes, 1_000);
}

#[test]
fn one_that_is_larger_than_the_bound_may_wait_alone() {
    let mut core = bounded(100, 1_000);
    assert_eq!(squeezed(&mut core, sized(1, 5_000), 0), Ok(vec![]));
    assert_eq!(squeezed(&mut core, sized(2, 1), 1), Err(FullReason::Bytes));
    let mut core = bounded(100, 1_000);
    assert_eq!(squeezed(&mut core, sized(1, 1), 0), Ok(vec![]));
    assert_eq!(squeezed(&mut core, sized(2, 5_000), 1), Err(FullReason::Bytes));
}

#[test]
fn eight_long_prompts_do_not_make_a_hundred_short_ones_wait_for_them_all() {
    let now = Instant::now();
    let mut core = busy(now);
    for id in 0..8 {
        queued(&mut core, sized(1, 480_000), now, id);
    }
    for id in 8..108 {
        queued(&mut core, ticket(2), now, id);
    }
    let order = served(&mut core, now);
    let long_before_last = order.iter().take_while(|id| **id != 107).filter(|id| **id < 8).count();
    assert_eq!(long_before_last, 7, "one for every fifteen");
}
