//! The window as a pure machine: an event and the time in, whom to let go out. No locks, wakers or timers.
//!
//! Invariants: a window that is open holds at least one flight and fewer than `max_size`; a flight is in `waiting`
//! until it leaves or its window flushes, so one that never left and is not there may go.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Cause, Settings, Wave};

/// Where a flight waits: the how many-eth it was to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

/// Who may go on, in the order in which they came.
#[derive(Debug)]
pub(super) struct Released<W> {
    pub(super) waiting: Vec<W>,
    pub(super) wave: Option<Wave>,
}

impl<W> Released<W> {
    fn nobody() -> Released<W> {
        Released { waiting: Vec::new(), wave: None }
    }
}

/// `W` is what the shell wants back when a flight may go.
#[derive(Debug)]
pub(super) struct Core<W> {
    settings: Settings,
    closed: bool,
    /// When the window opened that is open, or was last.
    since: Option<Instant>,
    waiting: BTreeMap<u64, W>,
    arrivals: u64,
}

impl<W> Core<W> {
    pub(super) fn new(settings: Settings) -> Core<W> {
        Core { settings, closed: false, since: None, waiting: BTreeMap::new(), arrivals: 0 }
    }

    /// A place, or none where the flight may go on at once, perhaps with others.
    pub(super) fn join(&mut self, now: Instant, waiter: W) -> (Option<Place>, Released<W>) {
        if self.closed {
            return (None, Released::nobody());
        }
        if self.waiting.len() + 1 >= self.settings.max_size {
            let mut released = self.flush(Cause::Size);
            // The newcomer, which made it full, is part of the wave and waits for nothing.
            released.wave = Some(Wave { size: released.waiting.len() + 1, cause: Cause::Size });
            return (None, released);
        }
        if self.waiting.is_empty() {
            self.since = Some(now);
        }
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.waiting.insert(arrival, waiter);
        (Some(Place(arrival)), Released::nobody())
    }

    /// When the flight may go at the latest; none where it may go.
    pub(super) fn due(&self, place: &Place) -> Option<Instant> {
        self.since.filter(|_| self.waiting.contains_key(&place.0)).map(|since| since + self.settings.max_wait)
    }

    pub(super) fn waiter(&mut self, place: &Place) -> Option<&mut W> {
        self.waiting.get_mut(&place.0)
    }

    /// Takes a flight out that will not fly.
    pub(super) fn leave(&mut self, place: &Place) -> Option<W> {
        self.waiting.remove(&place.0)
    }

    pub(super) fn flush(&mut self, cause: Cause) -> Released<W> {
        let waiting: Vec<W> = std::mem::take(&mut self.waiting).into_values().collect();
        let wave = (!waiting.is_empty()).then_some(Wave { size: waiting.len(), cause });
        Released { waiting, wave }
    }

    /// Those who wait are among the released also where they have only to look at the clock again.
    pub(super) fn resize(&mut self, settings: Settings, now: Instant) -> Released<W>
    where
        W: Default,
    {
        self.settings = settings;
        let due = self.since.is_some_and(|since| now >= since + settings.max_wait);
        if self.waiting.len() >= settings.max_size {
            return self.flush(Cause::Size);
        }
        if due {
            return self.flush(Cause::Time);
        }
        Released { waiting: self.waiting.values_mut().map(std::mem::take).collect(), wave: None }
    }

    pub(super) fn close(&mut self) -> Released<W> {
        self.closed = true;
        self.flush(Cause::Drain)
    }

    pub(super) fn fill(&self) -> usize {
        self.waiting.len()
    }
}
