//! HTTP/1.1 connections to one provider account, last in first out.
//!
//! A connection at rest is polled by nobody; whether the provider has closed it meanwhile is seen when it is
//! taken. There is no bound of its own: the account's lane caps how many are in use, and what rests too long
//! is dropped by `sweep`.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::link::Link;

/// How long a connection may rest; below what providers commonly allow, so that they seldom close first.
const REST: Duration = Duration::from_secs(50);

/// A connection that has rested for less than this is taken as open.
const FRESH: Duration = Duration::from_millis(20);

/// The resting connections of one account.
#[derive(Default)]
pub struct Pool {
    #[expect(clippy::vec_box, reason = "a connection is moved from call to call by its pointer")]
    resting: Mutex<Vec<Box<Link>>>,
}

impl Pool {
    /// The connection that was used last, if there is one. One that has rested for a while is looked at first;
    /// of any other its next exchange will tell whether the provider has closed it.
    pub(super) fn take(&self, now: Instant) -> Option<Box<Link>> {
        loop {
            let mut link = self.resting.lock().pop()?;
            if now.duration_since(link.rests_since) < FRESH || link.is_fit() {
                link.reused = true;
                return Some(link);
            }
        }
    }

    /// Gives a connection back after an exchange; one that can't take another call is closed.
    pub(super) fn put(&self, mut link: Box<Link>) {
        if link.is_reusable() {
            link.rests_since = Instant::now();
            self.resting.lock().push(link);
        }
    }

    /// Closes what has rested for too long.
    pub fn sweep(&self, now: Instant) {
        let stale: Vec<Box<Link>> = {
            let mut resting = self.resting.lock();
            // The longest rest lies at the bottom.
            let keep = resting.partition_point(|link| now.duration_since(link.rests_since) > REST);
            resting.drain(..keep).collect()
        };
        drop(stale);
    }

    /// How many rest.
    pub fn resting(&self) -> usize {
        self.resting.lock().len()
    }
}
