//! Time-and-count machines of the gate: who may start now, how long to wait, when to give up.
//!
//! Promise: nothing here knows HTTP, JSON or a provider. Everything runs on the tokio clock, so a paused
//! clock tests it, and whatever is taken comes back by dropping its guard.

pub mod alarm;
pub mod flight;
pub mod lanes;
mod sync;
pub mod tape;
pub mod timing;
pub mod window;

pub use alarm::Alarm;
pub use lanes::{
    Full, FullReason, Lane, Limits, Party, Permit, Place, Priority, Shed, ShedReason, Stats, Ticket,
};
pub use timing::Timing;
pub use window::{Departure, Member, Wave, Window};
