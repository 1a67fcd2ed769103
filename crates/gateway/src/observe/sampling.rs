//! Which calls are told to those who watch, once there are more than anybody can look at.
//!
//! A call is told as a whole or not at all. One in so many is, and how many that is follows each second from
//! how many came in the one before; within a second a rush is thinned at once, so that a listener is never far
//! behind. Not here: who listens. While nobody does, nothing is counted.

use std::time::Duration;

use tokio::time::Instant;

/// So many calls are told in a second, about.
const ENOUGH: u32 = 200;
/// So many in one second are a rush.
const RUSH: u32 = ENOUGH * 3 / 2;
/// In a rush, so many more are told before half of them are left out.
const MORE: u32 = ENOUGH / 4;

const SECOND: Duration = Duration::from_secs(1);

/// Counts arrivals and picks some.
#[derive(Debug)]
pub(super) struct Sampler {
    /// When the second that is counted began.
    since: Option<Instant>,
    arrived: u32,
    told: u32,
    /// Once so many have been told in this second, half of them are left out.
    most: u32,
    one_in: u32,
    /// So many are left out before the next is told.
    skip: u32,
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler { since: None, arrived: 0, told: 0, most: RUSH, one_in: 1, skip: 0 }
    }
}

impl Sampler {
    /// One call in so many is told.
    pub(super) fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Whether the call that arrives now is told.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        let counted = now.saturating_duration_since(*self.since.get_or_insert(now));
        if counted >= SECOND {
            let rate = f64::from(self.arrived) / counted.as_secs_f64();
            // To the nearest: a steady rate gives the same number each second. The cast saturates.
            let one_in = (rate / f64::from(ENOUGH)).round().max(1.0) as u32;
            *self =
                Sampler { since: Some(now), one_in, skip: self.skip.min(one_in - 1), ..Sampler::default() };
        } else if self.told >= self.most {
            self.most += MORE;
            self.one_in = self.one_in.saturating_mul(2);
        }
        self.arrived = self.arrived.saturating_add(1);
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.skip = self.one_in - 1;
        self.told += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls at a steady `rate` for so many seconds: how many of each second's were told.
    fn told_at(sampler: &mut Sampler, from: Instant, rate: u32, seconds: u32) -> Vec<usize> {
        let second = |n: u32| {
            let at = move |call| from + SECOND * n + SECOND * call / rate;
            (0..rate).filter(|call| sampler.admit(at(*call))).count()
        };
        (0..seconds).map(second).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn few_calls_are_all_told() {
        let told = told_at(&mut Sampler::default(), Instant::now(), ENOUGH, 5);
        assert_eq!(told, [ENOUGH as usize; 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_calls_about_two_hundred_a_second_are_told() {
        for rate in [400, 1_000, 5_000, 20_000] {
            let told = told_at(&mut Sampler::default(), Instant::now(), rate, 10);
            assert!(told[0] < 1_000, "the rush of the first second: {told:?}");
            assert!(told[1..].iter().all(|told| (190..=210).contains(told)), "{rate} a second: {told:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_rush_all_are_told_again() {
        let (mut sampler, start) = (Sampler::default(), Instant::now());
        told_at(&mut sampler, start, 10_000, 3);
        assert_eq!(sampler.one_in(), 50);
        // Nobody came for an hour; the first one after it is told, and every other.
        let told = told_at(&mut sampler, start + SECOND * 3_600, 10, 2);
        assert_eq!((told, sampler.one_in()), (vec![10, 10], 1));
    }
}
