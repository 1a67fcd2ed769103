//! Whether the queue stands: it does not drain, it only delays everybody.
//!
//! Controlled delay (Nichols and Jacobson, "Controlling queue delay", 2012) in the form that Maurer described
//! for servers ("Fail at scale", 2015, with adaptive LIFO): a queue is good that absorbs a burst and empties,
//! and bad if its shortest wait stays long. Since a long burst looks like that for a while too, one thing more
//! is asked for here: that at least as many came meanwhile as left. A burst that drains is never dropped.

use std::time::Duration;

use tokio::time::Instant;

/// The least wait worth calling long.
const LEAST: Duration = Duration::from_millis(100);

/// The least time over which a queue is judged.
const WINDOW: Duration = Duration::from_secs(1);

/// Below this many exits, chance decides whether as many come as leave.
const KNOWN: u32 = 40;

/// Parts in which the window moves on.
const SLOTS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    came: u64,
    left: u64,
}

#[derive(Debug, Default)]
pub(super) struct Stand {
    /// Since when the oldest waiter has been late without a break.
    late: Option<Instant>,
    stands: bool,
    seen: Option<Instant>,
    /// The present slot first.
    slots: [Slot; SLOTS],
    slot_since: Option<Instant>,
}

/// The wait that counts as long, from the mean service time.
pub(super) fn long_wait(service: Duration) -> Duration {
    service.max(LEAST)
}

/// The time over which the queue is judged: 1 s, four long waits, or [`KNOWN`] exits, whichever is most.
fn window(long: Duration, permits: usize) -> Duration {
    let exits = long.saturating_mul(KNOWN) / u32::try_from(permits).unwrap_or(u32::MAX).max(1);
    WINDOW.max(long.saturating_mul(4)).max(exits)
}

impl Stand {
    /// Looks at the age of the oldest waiter (none: nobody waits), as it was up to now and as it is after an
    /// event. Nothing stands before a flight was measured (`long` unknown): there is nothing to judge by.
    pub(super) fn look(
        &mut self,
        now: Instant,
        oldest: Option<Instant>,
        long: Option<Duration>,
        permits: usize,
    ) {
        let seen = self.seen.max(Some(now)).unwrap_or(now);
        let before = self.seen.replace(seen).unwrap_or(now);
        let late = oldest.zip(long).and_then(|(oldest, long)| {
            let from = oldest.checked_add(long)?;
            (now > from).then_some((from, long))
        });
        let Some((from, long)) = late else {
            self.late = None;
            self.stands = false;
            return;
        };
        let window = window(long, permits);
        let since = match self.late {
            Some(since) => since,
            None => self.begin(from.max(before).min(now)),
        };
        self.move_on(now, window);
        let (came, left) = self.slots.iter().fold((0, 0), |sum, slot| (sum.0 + slot.came, sum.1 + slot.left));
        if now.saturating_duration_since(since) >= window && came > 0 && came >= left {
            self.stands = true;
        }
    }

    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// A call took a place in the queue, or found none.
    pub(super) fn came(&mut self) {
        self.slots[0].came += 1;
    }

    /// A waiter was served or gave up.
    pub(super) fn left(&mut self) {
        self.slots[0].left += 1;
    }

    /// Counts from here: what came before the waits were long is the burst that made them so.
    fn begin(&mut self, late: Instant) -> Instant {
        self.late = Some(late);
        self.slot_since = Some(late);
        self.slots = [Slot::default(); SLOTS];
        late
    }

    fn move_on(&mut self, now: Instant, window: Duration) {
        let since = self.slot_since.unwrap_or(now);
        let width = window / SLOTS as u32;
        let slots = now.saturating_duration_since(since).as_nanos() / width.as_nanos();
        if slots == 0 {
            return;
        }
        // At most the window: what is older counts no more.
        let slots = usize::try_from(slots).unwrap_or(SLOTS).min(SLOTS);
        self.slots.rotate_right(slots);
        self.slots[..slots].fill(Slot::default());
        let rest = now.saturating_duration_since(since).as_nanos() % width.as_nanos();
        self.slot_since = now.checked_sub(Duration::from_nanos(u64::try_from(rest).unwrap_or(0)));
    }
}
