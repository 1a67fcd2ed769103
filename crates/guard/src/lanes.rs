//! A lane caps how many flights use one provider account at once, and queues the surplus fairly.
//!
//! Promises:
//! - nobody eligible waits while a permit is free, and nobody overtakes the queue to take one; eligible is a
//!   call whose key has fewer flights than it may, and its target too;
//! - a permit that is returned goes straight to the next eligible call, so it never lies idle between two; calls
//!   that are not eligible are passed over, and hold up no other key and no other target of their own;
//! - dropping a [`Permit`] or a [`Place`] is always right, at any moment: the permit goes on, none is lost;
//! - limits can change while calls run: growing starts waiters at once, shrinking interrupts nobody;
//! - one key's flood costs another neither its turn nor its place: the queue is bounded in calls and in bytes,
//!   and when it is full, the newest call of whoever holds most of it gives way;
//! - a queue that drains keeps everybody, however long it got; one that stands keeps waits short instead.
//!
//! Order: keys take turns by weight, whatever their calls' priority, and a call costs its key one and one more
//! for every 32 KiB (`core/round.rs`). Inside a key: priority, then earliest deadline, then arrival. So a high
//! priority moves a caller ahead of its own other calls and never ahead of somebody else's turn.
//!
//! A queue stands (`core/stand.rs`) when its oldest call has waited longer than q, the larger of 100 ms and the
//! mean service time, for max(1 s, 4 q) without a break (longer where that is fewer than 40 exits), while at
//! least as many came as left. Then calls that wait longer than 2 q are given up, and inside a key and priority
//! the newest is first: under lasting overload some callers are served soon rather than all too late. It ends
//! when the oldest has waited no longer than q.
//!
//! Not here: waits have no deadline of their own (the caller puts one around its [`Place`] and drops it), and
//! rates and money are counted elsewhere. Nothing here runs by itself: everything is decided when somebody
//! enters, leaves or gives up.

mod core;
mod drain;
mod place;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use self::core::{Claim, Core, Entry, Woken};
use self::place::State;
pub use self::place::{Permit, Place};
use crate::sync::{Mutex, now};

/// How much a lane takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flights that may run at once.
    pub permits: usize,
    /// Calls that may wait, all keys together.
    pub max_waiting: usize,
    /// Bytes of the requests that wait, all keys together. One that is larger by itself may wait alone.
    pub max_bytes: u64,
    /// Calls of one key that may wait.
    pub per_key: usize,
}

/// Order among the waiting calls of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    High,
    #[default]
    Normal,
    Low,
}

/// Whom the queue is fair to. What the newest call says of its key counts for all of the key's waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    pub key: u64,
    /// The key's share of the turns beside others'. None counts as one.
    pub weight: u32,
    /// Flights it may have in the lane at once; `usize::MAX`: no bound of its own. Only calls with a bound are
    /// counted.
    pub parallel: usize,
}

/// What a call shows when it asks to enter.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub party: Party,
    /// What in the lane has a cap of its own: [`Lane::cap`]. `None`, where no cap will ever apply, spares the
    /// counting.
    pub target: Option<u64>,
    /// Of the request: for the bound on waiting bytes, and as the call's cost in its key's turns.
    pub bytes: u64,
    pub priority: Priority,
    /// When the answer stops being of use to the caller; orders the calls of a key, ends no wait.
    pub deadline: Option<Instant>,
}

/// The queue has no room for this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    pub retry_after: Duration,
    pub reason: FullReason,
}

/// Which bound refused the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullReason {
    /// The lane's whole queue, of which nobody holds more than the call's key would.
    Queue,
    /// The share of the call's key.
    Key,
    /// The bytes of the whole queue, of which nobody holds more than the call's key would.
    Bytes,
}

/// The queue took this call, and gives it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    pub retry_after: Duration,
    pub reason: ShedReason,
}

/// Why a waiting call was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// The queue was full, and the call's key held most of it when another's call came.
    Displaced,
    /// The queue stands, and the call has waited for longer than others now will.
    Stale,
}

/// A lane's counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    pub permits: usize,
    /// Permits that are out; above `permits` for a while after shrinking.
    pub in_flight: usize,
    pub waiting: usize,
    /// Of the requests that wait.
    pub waiting_bytes: u64,
    /// The highest `in_flight` ever seen.
    pub most_in_flight: usize,
    /// Whether the queue stood at the last event: it did not drain, and drops who waited too long.
    pub stands: bool,
}

/// The lane itself, shared by everything that flies to one account.
#[derive(Debug)]
pub struct Lane {
    core: Mutex<Core<Option<Waker>>>,
}

impl Lane {
    pub fn new(limits: Limits) -> Arc<Lane> {
        Arc::new(Lane { core: Mutex::new(Core::new(limits)) })
    }

    /// Takes a permit where one is free at once, for this call. Since a free permit never stays free while
    /// somebody waits who may have it, this cannot overtake the queue.
    pub fn try_enter(self: &Arc<Self>, ticket: &Ticket) -> Option<Permit> {
        let entered = self.core.lock().try_enter(ticket, now);
        entered.then(|| Permit { lane: Arc::clone(self), claim: Claim::of(ticket) })
    }

    /// Takes a permit or a place in the queue. In a full queue that may be the place of the newest waiter of
    /// the key that holds most of it.
    pub fn enter(self: &Arc<Self>, ticket: Ticket, now: Instant) -> Result<Place, Full> {
        let (entry, woken) = self.core.lock().enter(&ticket, now, None);
        wake(woken);
        let state = match entry? {
            Entry::Admitted => State::Handed,
            Entry::Queued(rank) => State::Queued(rank),
        };
        Ok(Place { lane: Arc::clone(self), claim: Claim::of(&ticket), state })
    }

    /// Changes the limits. Calls that run or wait already keep what they have, also above the new bounds.
    pub fn resize(&self, limits: Limits) {
        let woken = self.core.lock().resize(limits, now());
        wake(woken);
    }

    /// Sets or lifts the bound on the flights of one target. Interrupts nobody; lifting it starts waiters.
    pub fn cap(&self, target: u64, most: Option<usize>) {
        let woken = self.core.lock().cap(target, most, now());
        wake(woken);
    }

    /// Lifts the caps of all other targets.
    pub fn uncap_all_but(&self, targets: &[u64]) {
        let woken = self.core.lock().uncap_all_but(targets, now());
        wake(woken);
    }

    pub fn stats(&self) -> Stats {
        self.core.lock().stats()
    }

    /// When to come back: the time to drain the present queue at the measured rate, 1 to 60 s.
    pub fn retry_after(&self, now: Instant) -> Duration {
        self.core.lock().retry_after(now)
    }

    /// Whether a call with this ticket, entering now, would get its permit only after `by`.
    ///
    /// A refusal must be right, so the estimate errs towards letting the call wait: it says yes only after 20
    /// measured exits, reckons with the fastest rate that they allow, and counts ahead of the call only those
    /// who need nothing but a permit. Whether callers ahead give up or are displaced is not part of it.
    pub fn hopeless(&self, ticket: &Ticket, by: Instant, now: Instant) -> bool {
        self.core.lock().hopeless(ticket, by, now)
    }
}

/// Outside the lock, since a waker runs and drops what it likes.
fn wake(woken: Woken<Option<Waker>>) {
    woken.into_iter().flatten().for_each(Waker::wake);
}
