//! The event bus: what happens in the gate, live, for whoever watches.
//!
//! Publishing costs one relaxed load while nobody listens: the event is not even made. The bus is bounded; a
//! listener that falls behind loses the oldest events and is told how many. It is not a record of anything:
//! what must not be lost goes to a [`CallLog`](super::CallLog).
//!
//! Invariant: whole calls are told, or not at all. Whether a call is told is asked once, when it arrives
//! ([`Bus::admits`]), and kept with it; its later events are published only if it is.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use guard::window::Cause;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;
use uuid::Uuid;

use super::CallRecord;
use super::sampling::Sampler;

/// Events kept for a listener that is slow.
const DEPTH: usize = 1024;

/// Something that happened in the gate, mostly to a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A call came in, and is understood as far as its head goes. One that its head alone has turned away is
    /// settled without this.
    Arrived { id: Uuid, protocol: &'static str },
    /// It rides on the flight that the call `flight` began.
    Joined { id: Uuid, flight: Uuid },
    /// It waits in a provider's admission window, which now holds `fill`.
    Windowed { id: Uuid, provider: Arc<str>, fill: usize },
    /// A window has let go of all that it held, as one wave.
    Flushed { provider: Arc<str>, size: usize, cause: Cause },
    /// The call waits for a permit, as one of `waiting`.
    Queued { id: Uuid, provider: Arc<str>, waiting: usize },
    /// It was sent to the provider, where now `in_flight` are.
    Started { id: Uuid, provider: Arc<str>, in_flight: usize },
    /// Its answer begins.
    FirstByte { id: Uuid },
    /// It is over, or was turned away.
    Settled(Arc<CallRecord>),
    /// From here on one call in so many is told.
    Sampling { one_in: u32 },
}

/// An event, and when it was published.
#[derive(Clone, Debug)]
pub struct Told {
    /// By the wall clock.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// Where events are published and listened to. Clones are the same bus.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    sender: broadcast::Sender<Told>,
    listeners: Arc<AtomicUsize>,
    sampler: Mutex<Sampler>,
    wall: OnceLock<fn() -> Timestamp>,
}

impl Default for Bus {
    fn default() -> Self {
        Bus(Arc::new(Inner {
            sender: broadcast::Sender::new(DEPTH),
            listeners: Arc::default(),
            sampler: Mutex::default(),
            wall: OnceLock::new(),
        }))
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Bus").field("listeners", &self.0.listeners).finish_non_exhaustive()
    }
}

impl Bus {
    /// Tells the time by this clock. The first one stays; without any it is the system's.
    pub fn tell_time_by(&self, wall: fn() -> Timestamp) {
        let _already_set = self.0.wall.set(wall);
    }

    /// What its clock says.
    pub fn now(&self) -> Timestamp {
        self.0.wall.get().map_or_else(Timestamp::now, |wall| wall())
    }

    /// Whether a call that arrives now is told: asked once for each. Never while nobody listens.
    pub fn admits(&self, now: Instant) -> bool {
        if !self.is_heard() {
            return false;
        }
        let mut sampler = self.0.sampler.lock();
        let before = sampler.one_in();
        let admitted = sampler.admit(now);
        let one_in = sampler.one_in();
        if one_in != before {
            // Under the lock, so that changes are told in their order.
            self.publish(|| Event::Sampling { one_in });
        }
        admitted
    }

    /// One call in so many is told now.
    pub fn one_in(&self) -> u32 {
        self.0.sampler.lock().one_in()
    }

    /// Publishes what `make` returns, if anybody listens.
    pub fn publish(&self, make: impl FnOnce() -> Event) {
        if self.is_heard() {
            let _nobody_left = self.0.sender.send(Told { at: self.now(), event: make() });
        }
    }

    /// Publishes what became of a call, if it is `watched` and anybody listens still.
    pub fn tell(&self, watched: Option<Uuid>, make: impl FnOnce(Uuid) -> Event) {
        if let Some(id) = watched {
            self.publish(|| make(id));
        }
    }

    /// Relaxed: a listener that has just come may miss an event that was under way.
    fn is_heard(&self) -> bool {
        self.0.listeners.load(Ordering::Relaxed) > 0
    }

    /// Listens from now on, until the listener is dropped.
    pub fn listen(&self) -> Listener {
        let receiver = self.0.sender.subscribe();
        if self.0.listeners.fetch_add(1, Ordering::Relaxed) == 0 {
            // What was counted before nobody listened says nothing about now.
            *self.0.sampler.lock() = Sampler::default();
        }
        Listener { receiver, _counted: Counted(self.0.listeners.clone()) }
    }
}

/// One listener. Dropping it ends the listening.
#[derive(Debug)]
pub struct Listener {
    receiver: broadcast::Receiver<Told>,
    _counted: Counted,
}

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The next event.
    Told(Told),
    /// It was too slow: so many events are lost.
    Missed(u64),
}

impl Listener {
    /// Waits for the next event; `None` once the bus is gone. The waiting has no deadline of its own: it
    /// lasts as long as the listener wants it to. Cancel-safe.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.receiver.recv().await {
            Ok(told) => Some(Heard::Told(told)),
            Err(RecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn arrived(n: u128) -> Event {
        Event::Arrived { id: Uuid::from_u128(n), protocol: "chat" }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_made_or_counted_while_nobody_listens() {
        let bus = Bus::default();
        let idle = |why| {
            bus.publish(|| unreachable!("{why}"));
            assert!((0..10_000).all(|_| !bus.admits(Instant::now())), "{why}");
            assert_eq!(bus.one_in(), 1, "{why}");
        };
        idle("nobody listens");
        drop(bus.listen());
        idle("nobody listens any more");
    }

    #[tokio::test]
    async fn listeners_hear_events_in_order_and_when_they_were() {
        let bus = Bus::default();
        bus.tell_time_by(|| Timestamp::UNIX_EPOCH);
        let mut listener = bus.listen();
        for n in 0..3 {
            bus.publish(|| arrived(n));
        }
        for n in 0..3 {
            let Some(Heard::Told(Told { at, event: Event::Arrived { id, .. } })) = listener.next().await
            else {
                panic!()
            };
            assert_eq!((id, at), (Uuid::from_u128(n), Timestamp::UNIX_EPOCH));
        }
        drop(bus);
        assert!(listener.next().await.is_none());
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_what_it_missed_and_delays_nobody() {
        let bus = Bus::default();
        let mut slow = bus.listen();
        for n in 0..(DEPTH as u128 + 10) {
            bus.publish(|| arrived(n));
        }
        let Some(Heard::Missed(missed)) = slow.next().await else { panic!("not told") };
        assert_eq!(missed, 10);
        assert!(matches!(slow.next().await, Some(Heard::Told(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_sampling_is_told_where_it_happens() {
        let bus = Bus::default();
        let mut listener = bus.listen();
        for n in 0..3_000 {
            if bus.admits(Instant::now()) {
                bus.publish(|| arrived(n));
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // Of the calls that come under one sampling, one in so many is told.
        let (mut one_in, mut last, mut changes) = (1_u128, None, Vec::new());
        while let Some(Heard::Told(Told { event, .. })) = next_now(&mut listener) {
            match event {
                Event::Arrived { id, .. } => {
                    let told_before = last.replace(id.as_u128());
                    assert!(told_before.is_none_or(|before| id.as_u128() - before == one_in), "{id}");
                }
                Event::Sampling { one_in: now } => {
                    (one_in, last) = (now.into(), None);
                    changes.push(now);
                }
                _ => unreachable!("nothing else is published"),
            }
        }
        assert_eq!(changes, [2, 4, 8, 16, 5], "a rush is thinned at once, and then by what came in a second");
        assert_eq!(bus.one_in(), 5);
        drop(listener);
        let _anew = bus.listen();
        assert_eq!(bus.one_in(), 1, "who comes later begins with all calls");
    }

    fn next_now(listener: &mut Listener) -> Option<Heard> {
        use futures_util::FutureExt;
        // A task that finds so many events ready would be asked to let others run.
        tokio::task::unconstrained(listener.next()).now_or_never().flatten()
    }
}
