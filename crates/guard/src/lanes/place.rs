//! What a caller holds: a permit, or a place in the queue for one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::core::{Claim, Fate, Rank};
use super::{Lane, Shed};
use crate::sync::now;

/// The right to run one flight; dropping it lets the next one start.
#[must_use = "dropping a permit gives it to the next call"]
#[derive(Debug)]
pub struct Permit {
    pub(super) lane: Arc<Lane>,
    pub(super) claim: Claim,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let woken = self.lane.core.lock().leave(self.claim, now);
        super::wake(woken);
    }
}

/// A place in the queue: a future that yields the permit, or says that the wait is in vain. Dropping it leaves
/// the queue.
#[must_use = "dropping a place leaves the queue"]
#[derive(Debug)]
pub struct Place {
    pub(super) lane: Arc<Lane>,
    pub(super) claim: Claim,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// Entered the queue; how it fared since, the core knows.
    Queued(Rank),
    /// A permit is ours, and not yet picked up.
    Handed,
    /// The permit was picked up, or the news that there is none.
    Done,
}

impl Place {
    /// Whether the call still waits for a permit.
    pub fn is_waiting(&self) -> bool {
        match &self.state {
            State::Queued(rank) => self.lane.core.lock().is_waiting(rank),
            State::Handed | State::Done => false,
        }
    }

    /// How a queued call fares; notes whom to wake where it still waits.
    fn ask(&self, rank: &Rank, cx: &Context<'_>) -> Poll<Result<(), Shed>> {
        let mut core = self.lane.core.lock();
        let waker = match core.fate(rank) {
            Fate::Granted => return Poll::Ready(Ok(())),
            Fate::Shed(shed) => return Poll::Ready(Err(shed)),
            Fate::Waits(waker) => waker,
        };
        if waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let old = waker.replace(cx.waker().clone());
        drop(core);
        // Last, since dropping a waker may drop its task, and with it a permit of this lane.
        drop(old);
        Poll::Pending
    }
}

impl Future for Place {
    type Output = Result<Permit, Shed>;

    /// Once it has yielded its permit or been shed, a place stays pending.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Permit, Shed>> {
        let fate = match &self.state {
            State::Done => Poll::Pending,
            State::Queued(rank) => self.ask(rank, cx),
            State::Handed => Poll::Ready(Ok(())),
        };
        fate.map(|fate| {
            self.state = State::Done;
            fate.map(|()| Permit { lane: Arc::clone(&self.lane), claim: self.claim })
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match &self.state {
            State::Done => {}
            State::Handed => {
                let woken = self.lane.core.lock().decline(self.claim, now);
                super::wake(woken);
            }
            State::Queued(rank) => {
                // Bound, so that the waker of the place is dropped outside the lock too.
                let (_left, woken) = self.lane.core.lock().quit(rank, self.claim, now);
                super::wake(woken);
            }
        }
    }
}
