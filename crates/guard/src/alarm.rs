//! One timer for all the waits of a call, moved lazily.
//!
//! A stream's stall deadline moves with every chunk, and nearly always into the future. Moving it stores an
//! instant and leaves the runtime's timer where it is; when that fires too early, the alarm re-arms it and
//! goes on. Only a deadline *before* the armed one touches the timer at once.
//!
//! Promise: it rings once for what was set, never before its instant, and in time for the task that polled
//! last. One allocation in its life, so that it can stay with a pooled connection over many calls.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// Where the timer stands before the first use: out of the way.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct Alarm {
    at: Option<Instant>,
    /// When the timer fires, or has fired.
    armed: Instant,
    sleep: Pin<Box<Sleep>>,
    /// Whom the timer wakes, as far as it is known to.
    waker: Option<Waker>,
}

impl Alarm {
    /// Needs a tokio runtime with its timer around it, as every later call does.
    #[expect(clippy::new_without_default, reason = "a default that panics outside a runtime would surprise")]
    pub fn new() -> Alarm {
        let armed = Instant::now() + UNUSED;
        Alarm { at: None, armed, sleep: Box::pin(sleep_until(armed)), waker: None }
    }

    /// Rings at this instant, and not at the one set before. Takes effect with the next `poll_ring`.
    pub fn set(&mut self, at: Instant) {
        self.at = Some(at);
        if at < self.armed {
            self.arm(at);
        }
    }

    /// Rings no more until it is set again.
    pub fn clear(&mut self) {
        self.at = None;
    }

    /// What it is set to.
    pub fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Ready, once, when the instant that was set has passed; it is cleared by then.
    pub fn poll_ring(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        if self.will_wake(cx) {
            return Poll::Pending;
        }
        while self.fired(cx) {
            if at <= Instant::now() {
                self.at = None;
                return Poll::Ready(());
            }
            self.arm(at);
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The usual case of a stream: the timer runs and knows this task already, so it need not be asked.
    fn will_wake(&self, cx: &Context<'_>) -> bool {
        !self.sleep.is_elapsed() && self.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker()))
    }

    /// Outside the task's cooperative budget: when that is spent, a timer answers "pending" without noting
    /// whom to wake, and `waker` would claim what is not so.
    fn fired(&mut self, cx: &mut Context<'_>) -> bool {
        pin!(unconstrained(self.sleep.as_mut())).poll(cx).is_ready()
    }

    fn arm(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at);
        self.armed = at;
        // Tokio does not promise that a reset timer still knows its waker, so the next poll tells it again.
        self.waker = None;
    }
}
