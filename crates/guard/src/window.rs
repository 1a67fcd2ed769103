//! An admission window gathers flights for a moment and lets them go together.
//!
//! It opens with the first flight that comes, and flushes when it is full or when it has been open for long
//! enough, whichever is first. What leaves together is a wave; from there each flight goes on by itself, so
//! that nobody waits for another's answer, error or deadline.
//!
//! Promises:
//! - a flight waits at most `max_wait`, and only behind one that came before it;
//! - no task and no timer of the window's own: each flight that waits watches the clock for all of them, so one
//!   that is stuck or gone holds up nobody;
//! - dropping a [`Member`] takes it out, at any moment: it is in no wave, and a window that is left empty closes;
//! - once [`Window::close`] was called nobody waits any more.
//!
//! Not here: how many of a wave may go on at once (`lanes`), and how long a caller is willing to wait (who polls a
//! member puts a deadline around it).

mod core;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use self::core::{Core, Place};
use crate::sync::Mutex;

/// When a window flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// As soon as so many flights wait in it.
    pub max_size: usize,
    /// As soon as it has been open for so long.
    pub max_wait: Duration,
}

/// Flights that left a window together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wave {
    pub size: usize,
    pub cause: Cause,
}

/// Why a window flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was full.
    Size,
    /// It had been open for long enough.
    Time,
    /// It was closed.
    Drain,
}

impl Cause {
    pub const ALL: [Cause; 3] = [Cause::Size, Cause::Time, Cause::Drain];

    /// Its name in events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Size => "size",
            Cause::Time => "time",
            Cause::Drain => "drain",
        }
    }
}

/// How a flight left the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The wave, told to one of its members: the one that made the window full, or that saw its time come.
    pub wave: Option<Wave>,
}

/// The window itself, shared by everything that flies to one account.
#[derive(Debug)]
pub struct Window {
    core: Mutex<Core<Option<Waker>>>,
}

impl Window {
    pub fn new(settings: Settings) -> Arc<Window> {
        Arc::new(Window { core: Mutex::new(Core::new(settings)) })
    }

    /// Takes a place in the window that is open, or opens one.
    pub fn join(self: &Arc<Self>, now: Instant) -> Member {
        let mut core = self.core.lock();
        let (place, released) = core.join(now, None);
        let fill = released.wave.map_or(core.fill(), |wave| wave.size);
        drop(core);
        wake_all(released.waiting);
        let state = match place {
            Some(place) => State::Waiting(place),
            None => State::Released(released.wave),
        };
        Member { window: Arc::clone(self), fill, state, timer: None }
    }

    /// How many wait.
    pub fn fill(&self) -> usize {
        self.core.lock().fill()
    }

    /// Changes when it flushes, for those who wait already too.
    pub fn resize(&self, settings: Settings, now: Instant) -> Option<Wave> {
        let released = self.core.lock().resize(settings, now);
        wake_all(released.waiting);
        released.wave
    }

    /// Lets go whoever waits, and whoever comes from now on at once.
    pub fn close(&self) -> Option<Wave> {
        let released = self.core.lock().close();
        wake_all(released.waiting);
        released.wave
    }
}

/// A flight in the window: a future that is ready when it may go on. Dropping it leaves the window.
#[must_use = "dropping a member leaves the window"]
#[derive(Debug)]
pub struct Member {
    window: Arc<Window>,
    fill: usize,
    state: State,
    /// Made when it has to wait.
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum State {
    Waiting(Place),
    /// It may go, and has not been told yet.
    Released(Option<Wave>),
    Done,
}

impl Member {
    /// How many the window held when this one had come, itself included; none where it was closed.
    pub fn fill(&self) -> usize {
        self.fill
    }

    /// Whether the flight may go on by what is known at `now`. Else it wakes the task when that changes, and says when
    /// to look again if nothing does: for who has a timer already, or none.
    pub fn poll_release(&mut self, now: Instant, cx: &Context<'_>) -> Result<Departure, Instant> {
        let place = match &self.state {
            State::Waiting(place) => place,
            State::Released(wave) => {
                let wave = *wave;
                self.state = State::Done;
                return Ok(Departure { wave });
            }
            State::Done => return Ok(Departure { wave: None }),
        };
        let mut core = self.window.core.lock();
        let Some(due) = core.due(place) else {
            drop(core);
            self.state = State::Done;
            return Ok(Departure { wave: None });
        };
        if now >= due {
            let released = core.flush(Cause::Time);
            drop(core);
            // One's own waker is among them: woken for nothing, once.
            wake_all(released.waiting);
            self.state = State::Done;
            return Ok(Departure { wave: released.wave });
        }
        let Some(waker) = core.waiter(place) else { return Err(due) };
        if waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            return Err(due);
        }
        let old = waker.replace(cx.waker().clone());
        drop(core);
        // Last, since dropping a waker may drop its task, and with it a member of this window.
        drop(old);
        Err(due)
    }
}

impl Future for Member {
    type Output = Departure;

    /// Needs a tokio runtime with its timer around it.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Departure> {
        loop {
            let due = match self.poll_release(Instant::now(), cx) {
                Ok(departure) => return Poll::Ready(departure),
                Err(due) => due,
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let State::Waiting(place) = &self.state {
            let waker = self.window.core.lock().leave(place);
            drop(waker);
        }
    }
}

fn wake_all(waiting: Vec<Option<Waker>>) {
    waiting.into_iter().flatten().for_each(Waker::wake);
}
