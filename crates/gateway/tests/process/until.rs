//! Waiting for what can be seen.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// Looks every few milliseconds until `look` finds what it looks for, and fails when `within` is over.
pub(crate) async fn until<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + within;
    let mut tick = interval(Duration::from_millis(5));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "not within {within:?}: {what}");
    }
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
