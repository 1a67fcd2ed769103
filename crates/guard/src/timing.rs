//! Deadlines learned from how long things took: three times the 99th percentile, within bounds.
//!
//! Promise: `record` is a few atomic operations, whatever the number of threads; a quantile is never below
//! the true one of what is remembered, and above it by at most one bucket (15 %). Old samples count half with
//! every 2,000 new ones, so a provider that changes is learned anew.
//!
//! Deliberately not here: calls that never finished. Who gives up at a deadline records nothing; the factor
//! of three above the percentile keeps that from pulling the deadline down by itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// 20 ms × 1.15⁸⁹ is 84 minutes: more than any deadline.
const BUCKETS: usize = 90;
const FIRST: f64 = 0.020;
const RATIO: f64 = 1.15;

/// Samples after which the weights halve.
const HALVE_EVERY: u64 = 2_000;
/// Samples from which on the histogram is believed.
const LEARNED: u64 = 50;
/// Samples between two looks at the percentile that deadlines come from.
const LOOK_EVERY: u64 = 16;
/// Weight of a new sample: whole numbers that can be halved ten times before they vanish. The sum stays
/// under 2 × 2,000 × 1,024, far from overflow.
const WEIGHT: u32 = 1 << 10;

/// A deadline never grows past this.
const LONGEST: Duration = Duration::from_secs(600);

/// Learns from samples how long something takes.
#[derive(Debug)]
pub struct Timing {
    samples: AtomicU64,
    /// Nanoseconds of the 99th percentile at the last look.
    p99: AtomicU64,
    /// Bucket i holds what took at most `FIRST` × `RATIO`ⁱ, and more than the bucket before it.
    weights: [AtomicU32; BUCKETS],
}

impl Timing {
    pub const fn new() -> Timing {
        Timing {
            samples: AtomicU64::new(0),
            p99: AtomicU64::new(0),
            weights: [const { AtomicU32::new(0) }; BUCKETS],
        }
    }

    pub fn record(&self, took: Duration) {
        self.weights[bucket(took)].fetch_add(WEIGHT, Relaxed);
        // Every count is handed out once, so exactly one thread halves.
        let before = self.samples.fetch_add(1, Relaxed);
        let samples = before + 1;
        if samples.is_multiple_of(HALVE_EVERY) {
            self.halve();
        }
        if (samples == LEARNED || samples.is_multiple_of(LOOK_EVERY))
            && let Some(p99) = self.quantile(0.99)
        {
            self.p99.store(p99.as_nanos() as u64, Relaxed);
        }
    }

    /// The duration that a share `q` of the samples kept within; `None` until 50 were recorded (and for NaN).
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        if self.samples.load(Relaxed) < LEARNED {
            return None;
        }
        let weights: [u64; BUCKETS] = std::array::from_fn(|i| self.weights[i].load(Relaxed).into());
        let wanted = weights.iter().sum::<u64>() as f64 * q.clamp(0.0, 1.0);
        let mut seen = 0;
        let found = weights.iter().position(|&weight| {
            seen += weight;
            weight > 0 && seen as f64 >= wanted
        });
        found.map(edge)
    }

    /// How long to wait for the next one: three times the 99th percentile, at least `floor`, at most ten
    /// minutes (or the floor, where that is longer); `unlearned` until there are enough samples.
    pub fn deadline(&self, floor: Duration, unlearned: Duration) -> Duration {
        match self.p99.load(Relaxed) {
            0 => unlearned,
            p99 => (Duration::from_nanos(p99) * 3).min(LONGEST).max(floor),
        }
    }

    fn halve(&self) {
        for weight in &self.weights {
            // Not a plain store: a sample recorded meanwhile must not be lost. The closure never declines.
            let _ = weight.fetch_update(Relaxed, Relaxed, |w| Some(w / 2));
        }
    }
}

impl Default for Timing {
    fn default() -> Timing {
        Timing::new()
    }
}

fn bucket(took: Duration) -> usize {
    let steps = (took.as_secs_f64() / FIRST).ln() / RATIO.ln();
    // A float cast saturates: what is faster than the first edge (also minus infinity) lands in bucket 0.
    (steps.ceil() as usize).min(BUCKETS - 1)
}

fn edge(bucket: usize) -> Duration {
    Duration::from_secs_f64(FIRST * RATIO.powi(bucket as i32))
}
