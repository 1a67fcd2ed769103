//! Whose turn it is: weights, costs, and who is passed over.

use super::*;

const KIB_32: u64 = 32 * 1024;

fn weighing(key: u64, weight: u32) -> Ticket {
    Ticket { party: Party { weight, ..party(key) }, ..ticket(key) }
}

fn at_most(key: u64, parallel: usize) -> Ticket {
    Ticket { party: Party { parallel, ..party(key) }, ..ticket(key) }
}

fn to(target: u64, key: u64) -> Ticket {
    Ticket { target: Some(target), ..ticket(key) }
}

fn large(key: u64, bytes: u64) -> Ticket {
    Ticket { bytes, ..ticket(key) }
}

#[test]
fn a_weight_is_a_share_of_the_turns() {
    let now = Instant::now();
    let mut core = busy(now);
    for _ in 0..400 {
        queued(&mut core, weighing(1, 3), now, 'a');
        queued(&mut core, weighing(2, 1), now, 'b');
    }
    let order: String = served(&mut core, now).into_iter().collect();
    assert_eq!(&order[..16], "aaabaaabaaabaaab");
}

#[test]
fn a_long_prompt_costs_turns_afterwards() {
    let now = Instant::now();
    let mut core = busy(now);
    for _ in 0..2 {
        queued(&mut core, large(1, 4 * KIB_32), now, 'L');
    }
    for _ in 0..8 {
        queued(&mut core, ticket(2), now, 's');
    }
    let order: String = served(&mut core, now).into_iter().collect();
    assert_eq!(order, "LsssssLsss", "what costs five turns is followed by five of another's");
}

#[test]
fn what_costs_less_than_a_turn_more_is_one_turn() {
    let now = Instant::now();
    let mut core = busy(now);
    for _ in 0..3 {
        queued(&mut core, large(1, KIB_32 - 1), now, 'a');
        queued(&mut core, ticket(2), now, 'b');
    }
    assert_eq!(served(&mut core, now).into_iter().collect::<String>(), "ababab");
}

#[test]
fn a_debt_outlives_the_last_waiter_as_long_as_anybody_waits() {
    let now = Instant::now();
    let mut core = busy(now);
    queued(&mut core, large(1, 3 * KIB_32), now, 'L');
    for _ in 0..8 {
        queued(&mut core, ticket(2), now, 's');
    }
    assert_eq!(left(&mut core, now), ['L']);
    // The key has left the queue; back in it, it is where it would have been.
    queued(&mut core, ticket(1), now, 'a');
    queued(&mut core, ticket(3), now, 'n');
    let order: String = served(&mut core, now).into_iter().collect();
    assert_eq!(order, "snsssassss");
}

#[test]
fn nobody_owes_anything_once_nobody_waits() {
    let now = Instant::now();
    let mut core = busy(now);
    queued(&mut core, large(1, 1 << 30), now, 'L');
    queued(&mut core, ticket(2), now, 's');
    assert_eq!(served(&mut core, now), ['L', 's']);
    assert!(core.is_idle());
    assert!(core.try_enter(&ticket(0), || now));
    queued(&mut core, ticket(1), now, 'a');
    queued(&mut core, ticket(2), now, 'b');
    assert_eq!(served(&mut core, now), ['a', 'b']);
}

#[test]
fn the_largest_cost_is_no_loop_and_starves_nobody() {
    let now = Instant::now();
    let mut core = busy(now);
    for _ in 0..2 {
        queued(&mut core, large(1, u64::MAX / 4), now, 'L');
    }
    for _ in 0..3 {
        queued(&mut core, ticket(2), now, 's');
    }
    assert_eq!(served(&mut core, now).into_iter().collect::<String>(), "LsssL");
}

#[test]
fn a_key_with_all_its_flights_is_passed_over_until_one_ends() {
    let now = Instant::now();
    let mut core = Core::new(limits(3));
    let (one, two) = (at_most(1, 2), ticket(2));
    assert!(core.try_enter(&one, || now) && core.try_enter(&one, || now));
    assert!(!core.try_enter(&one, || now), "its limit, with a permit free");
    queued(&mut core, one, now, 'a');
    assert!(core.try_enter(&two, || now), "a permit is free, and nobody may have it before");
    queued(&mut core, two, now, 'b');
    assert_eq!(left(&mut core, now), ['b'], "the first in line may not");
    assert_eq!(core.leave(Claim::of(&one), || now).to_vec(), ['a']);
}

#[test]
fn one_end_may_start_two_who_waited_for_different_things() {
    let now = Instant::now();
    let mut core = Core::new(limits(10));
    core.cap(7, Some(1), now);
    let both = Ticket { target: Some(7), ..at_most(1, 1) };
    assert!(core.try_enter(&both, || now));
    queued(&mut core, at_most(1, 1), now, 'k');
    queued(&mut core, to(7, 2), now, 't');
    assert_eq!(core.leave(Claim::of(&both), || now).to_vec(), ['k', 't']);
    assert_eq!(core.stats().in_flight, 2);
}

#[test]
fn a_full_target_holds_up_no_other_target_of_the_key() {
    let now = Instant::now();
    let mut core = busy(now);
    core.cap(7, Some(0), now);
    queued(&mut core, Ticket { priority: Priority::High, ..to(7, 1) }, now, "capped");
    queued(&mut core, to(8, 1), now, "free");
    queued(&mut core, ticket(2), now, "other");
    assert_eq!(served(&mut core, now), ["free", "other"]);
    assert_eq!(core.cap(7, Some(1), now).to_vec(), ["capped"]);
}

#[test]
fn lifting_the_other_caps_starts_who_waited_for_them() {
    let now = Instant::now();
    let mut core = Core::new(limits(10));
    core.cap(7, Some(0), now);
    core.cap(8, Some(0), now);
    queued(&mut core, to(7, 1), now, 7);
    queued(&mut core, to(8, 1), now, 8);
    assert_eq!(core.uncap_all_but(&[7], now).to_vec(), [8]);
    assert_eq!(core.cap(7, None, now).to_vec(), [7]);
}

#[test]
fn a_key_passed_over_keeps_its_turn_and_gathers_no_others() {
    let now = Instant::now();
    let mut core = busy(now);
    core.cap(7, Some(0), now);
    for _ in 0..3 {
        queued(&mut core, to(7, 1), now, 'c');
    }
    for _ in 0..8 {
        queued(&mut core, ticket(2), now, 'o');
    }
    for _ in 0..4 {
        assert_eq!(left(&mut core, now), ['o']);
    }
    assert!(core.cap(7, None, now).is_empty());
    assert_eq!(served(&mut core, now).into_iter().collect::<String>(), "cococoo");
}

#[test]
fn a_wider_limit_starts_the_keys_waiters_before_the_call_that_brings_it() {
    let now = Instant::now();
    let mut core = Core::new(limits(4));
    assert!(core.try_enter(&at_most(1, 1), || now));
    for name in ["first", "second"] {
        queued(&mut core, at_most(1, 1), now, name);
    }
    let (entry, woken) = core.enter(&at_most(1, 3), now, "third");
    assert!(matches!(entry, Ok(Entry::Queued(_))));
    assert_eq!(woken.to_vec(), ["first", "second"]);
}
