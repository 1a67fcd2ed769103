//! A lane caps how many flights use one provider account at once, and queues the surplus fairly.
//!
//! Promises:
//! - nobody waits while a permit is free, and nobody overtakes the queue to take one;
//! - a permit that is returned goes straight to the next in line, so it never lies idle between two calls;
//! - dropping a [`Permit`] or a [`Place`] is always right, at any moment: the permit goes on, none is lost;
//! - limits can change while calls run: growing starts waiters at once, shrinking interrupts nobody.
//!
//! Order: keys take turns, one call each, whatever their calls' priority; a key that starts to wait joins at
//! the end of the round. Inside a key: priority, then earliest deadline, then arrival. So a high priority
//! moves a caller ahead of its own other calls and never ahead of somebody else's turn.
//!
//! Not here: waits have no deadline of their own (the caller puts one around its [`Place`] and drops it),
//! rates and money are counted elsewhere, and being fair to keys does not reserve room for them in a full
//! queue; `per_key` is there for that.

mod core;
mod drain;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use self::core::{Core, Entry, Rank};

/// How much a lane takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flights that may run at once.
    pub permits: usize,
    /// Calls that may wait, all keys together.
    pub max_waiting: usize,
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

/// What a call shows when it asks to enter.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Whom the queue is fair to.
    pub key: u64,
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
    /// The lane's whole queue.
    Queue,
    /// The share of the call's key.
    Key,
}

/// A lane's counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    pub permits: usize,
    /// Permits that are out; above `permits` for a while after shrinking.
    pub in_flight: usize,
    pub waiting: usize,
    /// The highest `in_flight` ever seen.
    pub most_in_flight: usize,
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

    /// Takes a permit where one is free at once. Since a free permit never stays free while somebody waits,
    /// this cannot overtake the queue.
    pub fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let entered = self.core.lock().try_enter(Instant::now);
        entered.then(|| Permit { lane: Arc::clone(self) })
    }

    /// Takes a permit or a place in the queue.
    pub fn enter(self: &Arc<Self>, ticket: Ticket, now: Instant) -> Result<Place, Full> {
        let state = match self.core.lock().enter(ticket, now, None)? {
            Entry::Admitted => State::Handed,
            Entry::Queued(rank) => State::Queued(rank),
        };
        Ok(Place { lane: Arc::clone(self), state })
    }

    /// Changes the limits. Calls that run or wait already keep what they have, also above the new bounds.
    pub fn resize(&self, limits: Limits) {
        let started = self.core.lock().resize(limits, Instant::now());
        wake_all(started);
    }

    pub fn stats(&self) -> Stats {
        self.core.lock().stats()
    }

    /// When to come back: the time to drain the present queue at the measured rate, 1 to 60 s.
    pub fn retry_after(&self, now: Instant) -> Duration {
        self.core.lock().retry_after(now)
    }

    /// Whether a call with this ticket, entering now, would get its permit only after its deadline.
    ///
    /// A refusal must be right, so the estimate errs towards letting the call wait: it says yes only after 20
    /// measured exits, and reckons with the fastest rate that they allow. How long the call then takes is not
    /// part of it.
    pub fn hopeless(&self, ticket: &Ticket, now: Instant) -> bool {
        self.core.lock().hopeless(ticket, now)
    }
}

/// The right to run one flight; dropping it lets the next one start.
#[must_use = "dropping a permit gives it to the next call"]
#[derive(Debug)]
pub struct Permit {
    lane: Arc<Lane>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.lane.core.lock().leave(Instant::now);
        wake(next);
    }
}

/// A place in the queue: a future that yields the permit. Dropping it leaves the queue.
#[must_use = "dropping a place leaves the queue"]
#[derive(Debug)]
pub struct Place {
    lane: Arc<Lane>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Entered the queue; whether the permit has been handed over since, the core knows.
    Queued(Rank),
    /// A permit is ours, and not yet picked up.
    Handed,
    /// The permit was picked up.
    Done,
}

impl Place {
    /// Whether the call still waits for a permit.
    pub fn is_waiting(&self) -> bool {
        match &self.state {
            State::Queued(rank) => self.lane.core.lock().waiter(rank).is_some(),
            State::Handed | State::Done => false,
        }
    }
}

impl Future for Place {
    type Output = Permit;

    /// Once it has yielded its permit, a place stays pending.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        match &self.state {
            State::Done => return Poll::Pending,
            State::Queued(rank) if self.lane.keep_waiting(rank, cx) => return Poll::Pending,
            State::Queued(_) | State::Handed => {}
        }
        self.state = State::Done;
        Poll::Ready(Permit { lane: Arc::clone(&self.lane) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match &self.state {
            State::Done => {}
            State::Handed => self.lane.decline(),
            State::Queued(rank) => self.lane.quit(rank),
        }
    }
}

impl Lane {
    /// Notes whom to wake for a place that still waits; false where its permit has been handed over.
    fn keep_waiting(&self, rank: &Rank, cx: &Context<'_>) -> bool {
        let mut core = self.core.lock();
        let Some(waker) = core.waiter(rank) else { return false };
        if waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            return true;
        }
        let old = waker.replace(cx.waker().clone());
        drop(core);
        // Last, since dropping a waker may drop its task, and with it a permit of this lane.
        drop(old);
        true
    }

    fn quit(&self, rank: &Rank) {
        let left = self.core.lock().cancel(rank);
        // Not in the queue any more: the permit was handed over, and nobody will pick it up.
        if left.is_none() {
            self.decline();
        }
    }

    fn decline(&self) {
        let next = self.core.lock().decline(Instant::now);
        wake(next);
    }
}

fn wake(next: Option<Option<Waker>>) {
    if let Some(waker) = next.flatten() {
        waker.wake();
    }
}

fn wake_all(started: Vec<Option<Waker>>) {
    started.into_iter().flatten().for_each(Waker::wake);
}
