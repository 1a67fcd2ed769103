//! Polling until nothing more is to be done, in one turn of the task.
//!
//! A connection, the call that it serves and the connection to the provider all live in one task and wake each
//! other through channels. The runtime would put the task at the end of its queue for every such wake-up, and
//! rouse another thread to take it. Here a wake-up that arrives while something is being polled polls it once
//! more at once; one that arrives between polls goes on to the task as always.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

const RESTING: u8 = 0;
const POLLING: u8 = 1;
const AGAIN: u8 = 2;
/// Polls in one turn, so that something busy can't keep the others waiting.
const MOST: usize = 16;

/// The turns of one thing that is polled.
pub(crate) struct Turns {
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct Bell {
    state: AtomicU8,
    outer: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(POLLING, AGAIN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(RESTING) {
            self.outer.wake();
        }
    }
}

impl Default for Turns {
    fn default() -> Turns {
        let bell = Arc::new(Bell::default());
        Turns { waker: Waker::from(bell.clone()), bell }
    }
}

impl Turns {
    /// Polls `step` until it is ready, or is pending and was not woken meanwhile.
    pub(crate) fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let state = &self.bell.state;
        self.bell.outer.register(cx.waker());
        for _ in 0..MOST {
            state.store(POLLING, Ordering::Release);
            if let Poll::Ready(done) = step(&mut Context::from_waker(&self.waker)) {
                // Whoever is ready is polled again when more is wanted.
                state.store(RESTING, Ordering::Release);
                return Poll::Ready(done);
            }
            if state.compare_exchange(POLLING, RESTING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        state.store(RESTING, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wake_up_while_polling_polls_again_and_one_between_polls_wakes_the_task() {
        let counted = Arc::new(Counted::default());
        let outer = Waker::from(counted.clone());
        let turns = Turns::default();
        let mut polls = 0;
        let mut inner = None;
        let pending = turns.poll(&Context::from_waker(&outer), |cx| {
            polls += 1;
            if polls == 1 {
                cx.waker().wake_by_ref();
                cx.waker().wake_by_ref();
            }
            inner = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        assert!(pending.is_pending());
        assert_eq!((polls, counted.0.load(Ordering::Relaxed)), (2, 0));
        inner.unwrap().wake();
        assert_eq!(counted.0.load(Ordering::Relaxed), 1, "between polls the task is woken");
    }

    #[test]
    fn a_turn_ends_however_busy_the_connection_is() {
        let counted = Arc::new(Counted::default());
        let outer = Waker::from(counted.clone());
        let turns = Turns::default();
        let mut polls = 0;
        let pending = turns.poll(&Context::from_waker(&outer), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(pending.is_pending());
        assert_eq!((polls, counted.0.load(Ordering::Relaxed)), (MOST, 1));
    }
}
