//! How long a call waits, and for what.

use std::time::Duration;

use super::wishes::Wishes;
use crate::call::Call;
use crate::config::Limit;
use crate::gateway::{Model, Provider};
use crate::upstream::exchange::Patience;

/// Longer than any call lasts.
const ENDLESS: Duration = Duration::from_secs(7 * 24 * 3600);

/// Who waits how long.
#[derive(Clone, Copy)]
pub(crate) struct Patiences {
    /// The caller, who may have set limits of its own.
    pub(crate) of_caller: Patience,
    /// A flight that may be others' too: it ends by what the provider does, or when all its callers have left.
    pub(crate) of_provider: Patience,
}

/// The configuration's limits or what was learned; the caller's, never longer than it wants.
pub(crate) fn patience(
    call: &Call,
    provider: &Provider,
    model: &Model,
    wishes: &Wishes,
    streams: bool,
) -> Patiences {
    let limits = &provider.config.timeouts;
    let first_byte = match limits.first_byte {
        Limit::Learned => model.first_byte_limit(),
        Limit::Fixed(wait) => wait,
    };
    let stall = match limits.stall {
        Limit::Learned => model.stall_limit(),
        Limit::Fixed(wait) => wait,
    };
    let of_provider = Patience {
        arrived: call.arrived,
        total: ENDLESS,
        connect: limits.connect,
        first_byte,
        stall,
        callers_first_byte: false,
        callers_stall: false,
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
    let of_caller = Patience { total, first_byte, stall, callers_first_byte, callers_stall, ..of_provider };
    Patiences { of_caller, of_provider }
}
