//! When calls are made: open loop, each at its own time whether or not others were answered, or by workers that send
//! as soon as they have their answer.
//!
//! A call's time runs from when it should have been sent. A client that comes late, because it is busy or its
//! machine is, does not make the target look better for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::client::{Ask, Client, Place, Seen};

/// For the task of one call to be made, on a slow machine.
const MAKING: Duration = Duration::from_micros(20);

/// The calls of one round.
#[derive(Clone, Debug)]
pub struct Plan {
    pub asks: Vec<Ask>,
    pub pace: Pace,
    /// Calls that last longer are looked at no more, and hung up on.
    pub patience: Duration,
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub enum Pace {
    /// Each call at its time.
    Open(Vec<Duration>),
    /// So many callers, each of whom sends when it has its answer.
    Closed(usize),
}

impl Pace {
    pub fn at_once(calls: usize) -> Pace {
        Pace::Open(vec![Duration::ZERO; calls])
    }

    /// `per_second`, evenly.
    pub fn rate(calls: usize, per_second: f64) -> Pace {
        Pace::Open((0..calls).map(|n| Duration::from_secs_f64(n as f64 / per_second)).collect())
    }

    /// Spread evenly over `time`.
    pub fn within(calls: usize, time: Duration) -> Pace {
        let step = time.as_secs_f64() / calls.saturating_sub(1).max(1) as f64;
        Pace::Open((0..calls).map(|n| Duration::from_secs_f64(n as f64 * step)).collect())
    }
}

/// A round as it happened.
#[derive(Debug)]
pub struct Round {
    pub start: Instant,
    /// With the time after the start at which each should have been sent, in that order.
    pub calls: Vec<(Duration, Seen)>,
}

impl Plan {
    /// Makes all calls, and calls `ended` after each.
    pub async fn run(
        self,
        client: &Client,
        place: &Place,
        ended: impl Fn() + Clone + Send + 'static,
    ) -> Round {
        // Nobody should be late because the tasks of the others were still being made.
        let making = MAKING * u32::try_from(self.asks.len()).unwrap_or(u32::MAX);
        let start = Instant::now() + Duration::from_millis(5) + making;
        let mut callers = JoinSet::new();
        match self.pace {
            Pace::Open(times) => {
                for (number, (ask, after)) in self.asks.into_iter().zip(times).enumerate() {
                    let (client, place, ended) = (client.clone(), place.clone(), ended.clone());
                    let random = dice(self.seed, number);
                    callers.spawn(async move {
                        sleep_until(start + after).await;
                        let seen = one(&client, &place, &ask, start + after + self.patience, random).await;
                        ended();
                        vec![(after, seen)]
                    });
                }
            }
            Pace::Closed(workers) => {
                let (asks, next) = (Arc::new(self.asks), Arc::new(AtomicUsize::new(0)));
                for _ in 0..workers {
                    let (client, place, ended) = (client.clone(), place.clone(), ended.clone());
                    let (asks, next) = (asks.clone(), next.clone());
                    callers.spawn(async move {
                        sleep_until(start).await;
                        let mut calls = Vec::new();
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            let Some(ask) = asks.get(number) else { return calls };
                            let now = Instant::now();
                            let random = dice(self.seed, number);
                            calls.push((
                                now - start,
                                one(&client, &place, ask, now + self.patience, random).await,
                            ));
                            ended();
                        }
                    });
                }
            }
        }
        let mut calls: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
        calls.sort_by_key(|(intended, _)| *intended);
        Round { start, calls }
    }
}

/// A call until it ends, or until `until`.
async fn one(client: &Client, place: &Place, ask: &Ask, until: Instant, random: impl FnMut() -> f64) -> Seen {
    let mut seen = Seen::default();
    if timeout_at(until, client.call(place, ask, &mut seen, random)).await.is_err() {
        seen.end = Some(Instant::now());
    }
    seen
}

/// Each call has numbers of its own, the same for the same seed, whatever the order in which calls end.
fn dice(seed: u64, number: usize) -> impl FnMut() -> f64 + Send {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
    move || random.random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_spread_evenly() {
        let Pace::Open(times) = Pace::within(3, Duration::from_millis(50)) else { panic!() };
        assert_eq!(times, [0, 25, 50].map(Duration::from_millis));
        let Pace::Open(times) = Pace::rate(3, 4.0) else { panic!() };
        assert_eq!(times, [0, 250, 500].map(Duration::from_millis));
    }

    #[test]
    fn the_same_seed_throws_the_same_dice() {
        let throw = |seed| std::iter::repeat_with(dice(seed, 3)).take(4).collect::<Vec<_>>();
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(9));
        assert!(throw(7).iter().all(|random| (0.0..1.0).contains(random)));
    }
}
