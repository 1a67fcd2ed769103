//! How fast a lane drains, learned from its exits of the last ten seconds, or the last thirty of them where
//! that takes longer.
//!
//! Measured only while the lane is full or somebody waits in it, and from then on until as many have left as flew
//! then: asking for the time would cost every call of an idle lane. Kept as exits and permit-seconds, so that it stays
//! right when the number of permits changes, and where not all of them are taken.
//! Both sums fade together, which makes them a moving window without a ring of slots.

use std::time::Duration;

use tokio::time::Instant;

/// Seconds after which a measurement weighs 1/e.
const FADE: f64 = 10.0;

/// A full lane remembers this many exits, however slowly they come.
const REMEMBERED: f64 = 30.0;

/// Below this many exits the rate may inform, and may refuse nobody.
const KNOWN: f64 = 20.0;

#[derive(Debug, Default)]
pub(super) struct Drain {
    exits: f64,
    /// Permit-seconds in which those exits happened.
    busy: f64,
    at: Option<Instant>,
}

impl Drain {
    /// Lets time pass up to `now`, in all of which `busy` permits were out of the lane (none: not measured).
    pub(super) fn advance(&mut self, now: Instant, busy: usize) {
        let passed = now.saturating_duration_since(self.at.unwrap_or(now)).as_secs_f64();
        self.at = self.at.max(Some(now));
        if passed == 0.0 {
            return;
        }
        let faded = (-passed / FADE).exp();
        // What was learned before a quiet time is out of date after it; in a full lane it is replaced.
        let kept = if busy == 0 { faded } else { faded.max((REMEMBERED / self.exits).min(1.0)) };
        self.exits *= kept;
        // The span itself fades on its way: its middle by the mean of its two ends, near enough.
        self.busy = self.busy * kept + busy as f64 * passed * (1.0 + kept) / 2.0;
    }

    pub(super) fn exit(&mut self) {
        self.exits += 1.0;
    }

    /// How long a flight takes on average: by Little's law, the permit-seconds of an exit. `None` while less
    /// than a flight was measured.
    pub(super) fn service(&self) -> Option<Duration> {
        // A little less than one, since even the first exit may have faded by a hair.
        (self.exits >= 0.9).then(|| wait(1, 1, self.exits, self.busy))
    }

    /// The likely time until `turns` flights have left a full lane. Before the first exit it is taken to be
    /// about to happen: a lane that has been stuck for long says a long time, a fresh one says none.
    pub(super) fn expected(&self, turns: usize, permits: usize) -> Duration {
        wait(turns, permits, self.exits.max(1.0), self.busy)
    }

    /// The least time until `turns` flights have left, or `None` while too little was measured.
    ///
    /// Two allowances make it the least. Flights that start together end together, and the next wave may be
    /// just about to leave: one exit of every permit. And a count scatters: twice its root.
    pub(super) fn soonest(&self, turns: usize, permits: usize) -> Option<Duration> {
        let most = self.exits + permits as f64 + 2.0 * self.exits.sqrt();
        (self.exits >= KNOWN).then(|| wait(turns, permits, most, self.busy))
    }
}

fn wait(turns: usize, permits: usize, exits: f64, busy: f64) -> Duration {
    let seconds = turns as f64 * busy / (exits * permits as f64);
    // Without permits (or past what a Duration holds) there is no end in sight.
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
