//! Where the process stands between start and end, and who must hear of it.
//!
//! Running → draining (new calls are refused, running ones go on) → cut (what is left ends with an error its
//! client can read) → closed (connections go). Each step is one way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::Context;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio_util::sync::CancellationToken;

/// The steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Calls are taken.
    Running = 0,
    /// New calls are refused.
    Draining = 1,
    /// Running calls end with an error.
    Cut = 2,
    /// Connections close.
    Closed = 3,
}

/// The process's step, and the number of calls that are not over.
#[derive(Default)]
pub struct Life {
    step: AtomicU8,
    calls: AtomicUsize,
    moved: Arc<Notify>,
    empty: Notify,
    closing: CancellationToken,
}

impl Life {
    /// Where we are.
    pub fn step(&self) -> Step {
        match self.step.load(Ordering::Acquire) {
            0 => Step::Running,
            1 => Step::Draining,
            2 => Step::Cut,
            _ => Step::Closed,
        }
    }

    /// Goes on to `step`, never back, and wakes every connection.
    pub fn advance(&self, step: Step) {
        self.step.fetch_max(step as u8, Ordering::AcqRel);
        self.moved.notify_waiters();
        if step == Step::Closed {
            self.closing.cancel();
        }
    }

    /// Cancelled when the gate closes.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Follows the steps from here on, for one task.
    pub(crate) fn moves(&self) -> Moves {
        Moves { next: Box::pin(self.moved.clone().notified_owned()), seen: None }
    }

    /// A call begins.
    pub(crate) fn enter(&self) {
        self.calls.fetch_add(1, Ordering::AcqRel);
    }

    /// A call is over and settled.
    pub(crate) fn leave(&self) {
        if self.calls.fetch_sub(1, Ordering::AcqRel) == 1 && self.step() != Step::Running {
            self.empty.notify_waiters();
        }
    }

    /// How many calls are not over.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// Waits until no call is left.
    pub async fn empty(&self) {
        loop {
            let empty = self.empty.notified();
            if self.calls() == 0 {
                return;
            }
            empty.await;
        }
    }
}

/// Wakes the task that polls it whenever the step changes, and costs one atomic load while it does not: the
/// waker is registered at the first poll and after each step, since a task's waker stays the same.
pub(crate) struct Moves {
    next: Pin<Box<OwnedNotified>>,
    seen: Option<Step>,
}

impl Moves {
    /// The step, if it is another one than at the last poll.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>, life: &Life) -> Option<Step> {
        let step = life.step();
        if self.seen == Some(step) {
            return None;
        }
        while self.next.as_mut().poll(cx).is_ready() {
            self.next.set(life.moved.clone().notified_owned());
        }
        self.seen = Some(step);
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_call_ends_the_wait_and_steps_never_go_back() {
        let life = Life::default();
        life.enter();
        life.advance(Step::Cut);
        life.advance(Step::Draining);
        assert_eq!(life.step(), Step::Cut);
        let wait = life.empty();
        let leave = async { life.leave() };
        tokio::join!(wait, leave);
        assert_eq!(life.calls(), 0);
    }
}
