//! What the gate takes from outside: the wall clock, randomness, the network.
//!
//! Everything else it does follows from these, so a test that brings its own can replay a day in a second.
//! Monotonic time is tokio's clock, which tests pause.

use std::sync::Arc;

use jiff::Timestamp;

use crate::upstream::connect::{Connect, Net};

/// The outside.
#[derive(Clone)]
pub struct World {
    /// The wall clock: for records and ids, never for waiting.
    pub wall: fn() -> Timestamp,
    /// Fills ten bytes with randomness, for ids.
    pub random: fn() -> [u8; 10],
    /// The way to the providers.
    pub connector: Arc<dyn Connect>,
}

impl World {
    /// The real one.
    pub fn real() -> World {
        World { wall: Timestamp::now, random: rand::random, connector: Arc::new(Net::default()) }
    }
}
