//! The event bus: what happens in the gate, live, for whoever watches.
//!
//! Publishing costs one relaxed load while nobody listens: the event is not even made. The bus is bounded; a
//! listener that falls behind loses the oldest events and is told how many. It is not a record of anything:
//! what must not be lost goes to a [`CallLog`](super::CallLog).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use super::CallRecord;

/// Events kept for a listener that is slow.
const DEPTH: usize = 1024;

/// Something that happened to a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It came in.
    Arrived { id: Uuid, protocol: &'static str },
    /// An attempt at a provider began.
    Started { id: Uuid, provider: Arc<str> },
    /// It is over.
    Settled(Arc<CallRecord>),
}

/// Where events are published and listened to.
#[derive(Debug)]
pub struct Bus {
    sender: broadcast::Sender<Event>,
    listeners: Arc<AtomicUsize>,
}

impl Default for Bus {
    fn default() -> Self {
        Bus { sender: broadcast::Sender::new(DEPTH), listeners: Arc::default() }
    }
}

impl Bus {
    /// Publishes what `make` returns, if anybody listens.
    pub fn publish(&self, make: impl FnOnce() -> Event) {
        // Relaxed: a listener that has just come may miss an event that was under way.
        if self.listeners.load(Ordering::Relaxed) > 0 {
            let _nobody_left = self.sender.send(make());
        }
    }

    /// Listens from now on, until the listener is dropped.
    pub fn listen(&self) -> Listener {
        let receiver = self.sender.subscribe();
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Listener { receiver, _counted: Counted(self.listeners.clone()) }
    }
}

/// One listener. Dropping it ends the listening.
#[derive(Debug)]
pub struct Listener {
    receiver: broadcast::Receiver<Event>,
    _counted: Counted,
}

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The next event.
    Event(Event),
    /// It was too slow: so many events are lost.
    Missed(u64),
}

impl Listener {
    /// Waits for the next event; `None` once the bus is gone. The waiting has no deadline of its own: it
    /// lasts as long as the listener wants it to. Cancel-safe.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.receiver.recv().await {
            Ok(event) => Some(Heard::Event(event)),
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
    use super::*;

    fn arrived(n: u128) -> Event {
        Event::Arrived { id: Uuid::from_u128(n), protocol: "chat" }
    }

    #[test]
    fn no_event_is_made_while_nobody_listens() {
        let bus = Bus::default();
        bus.publish(|| unreachable!("nobody listens"));
        drop(bus.listen());
        bus.publish(|| unreachable!("nobody listens any more"));
    }

    #[tokio::test]
    async fn listeners_hear_events_in_order() {
        let bus = Bus::default();
        let mut listener = bus.listen();
        for n in 0..3 {
            bus.publish(|| arrived(n));
        }
        for n in 0..3 {
            let Some(Heard::Event(Event::Arrived { id, .. })) = listener.next().await else { panic!() };
            assert_eq!(id, Uuid::from_u128(n));
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
        assert!(matches!(slow.next().await, Some(Heard::Event(_))));
    }
}
