//! How fast a lane drains, learned from the exits of the last ten seconds or so.
//!
//! Measured only while the lane is full: the exits of an idle lane show how many calls came, not how many it
//! could serve. Kept as exits per permit and second, so that it stays right when the number of permits changes.
//! Both sums fade with the same time constant, which makes them a moving window without a ring of slots.

use std::time::Duration;

use tokio::time::Instant;

/// Time after which a measurement weighs 1/e.
const FADE: f64 = 10.0;

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
    /// Lets time pass up to `now`, in all of which `busy` permits were out of a full lane (none: not full).
    pub(super) fn advance(&mut self, now: Instant, busy: usize) {
        let passed = now.saturating_duration_since(self.at.unwrap_or(now)).as_secs_f64();
        self.at = self.at.max(Some(now));
        if passed > 0.0 {
            let kept = (-passed / FADE).exp();
            self.exits *= kept;
            self.busy = self.busy * kept + busy as f64 * FADE * (1.0 - kept);
        }
    }

    pub(super) fn exit(&mut self) {
        self.exits += 1.0;
    }

    /// The likely time until `turns` flights have left a full lane. Before the first exit it is taken to be
    /// about to happen: a lane that has been stuck for long says a long time, a fresh one says none.
    pub(super) fn expected(&self, turns: usize, permits: usize) -> Duration {
        wait(turns, permits, self.exits.max(1.0), self.busy)
    }

    /// The least time until `turns` flights have left, or `None` while too little was measured.
    ///
    /// Flights that start together end together, and the next wave may be just about to leave. The true rate
    /// is thus at most what was measured plus one exit of every permit.
    pub(super) fn soonest(&self, turns: usize, permits: usize) -> Option<Duration> {
        (self.exits >= KNOWN).then(|| wait(turns, permits, self.exits + permits as f64, self.busy))
    }
}

fn wait(turns: usize, permits: usize, exits: f64, busy: f64) -> Duration {
    let seconds = turns as f64 * busy / (exits * permits as f64);
    // Without permits (or past what a Duration holds) there is no end in sight.
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
