//! How long a call waits, and for what.

use std::time::Duration;

use super::wishes::Wishes;
use crate::call::Call;
use crate::config::Limit;
use crate::gateway::{Model, Provider};
use crate::upstream::exchange::Patience;

/// The configuration's limits or what was learned, never longer than the caller wants.
pub(crate) fn patience(
    call: &Call,
    provider: &Provider,
    model: &Model,
    wishes: &Wishes,
    streams: bool,
) -> Patience {
    let limits = &provider.config.timeouts;
    let first_byte = match limits.first_byte {
        Limit::Learned => model.first_byte_limit(),
        Limit::Fixed(wait) => wait,
    };
    let stall = match limits.stall {
        Limit::Learned => model.stall_limit(),
        Limit::Fixed(wait) => wait,
    };
    let sooner = |ours: Duration, asked: Option<Duration>| match asked {
        Some(asked) if asked < ours => (asked, true),
        _ => (ours, false),
    };
    let (total, _) = sooner(limits.total, wishes.timeout);
    let (total, _) = sooner(total, wishes.sdk_timeout.filter(|_| !streams));
    let (first_byte, callers_first_byte) =
        sooner(first_byte, [wishes.sdk_timeout, wishes.read_timeout].into_iter().flatten().min());
    let (stall, callers_stall) = sooner(stall, wishes.read_timeout);
    Patience {
        arrived: call.arrived,
        total,
        connect: limits.connect,
        first_byte,
        stall,
        callers_first_byte,
        callers_stall,
    }
}
