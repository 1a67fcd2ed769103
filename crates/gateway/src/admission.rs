//! How a flight comes by its permit: the provider's admission window, where there is one, and then its lane.
//!
//! A flight that is turned away here was never sent. Whatever it waits in, dropping it takes it out.

use std::time::Duration;

use guard::lanes::{Full, Permit, Shed, ShedReason, Ticket};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::gateway::Provider;
use crate::observe::Event;
use crate::refusal::{Crowd, Refusal};
use crate::upstream::exchange::Patience;

/// How a flight asks to be let in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) ticket: Ticket,
    /// It goes through the window.
    pub(crate) windowed: bool,
    /// The call whose waits are told, if they are.
    pub(crate) watched: Option<Uuid>,
}

impl Admission {
    /// A permit, where nothing has to be waited for.
    pub(crate) fn at_once(&self, provider: &Provider) -> Option<Permit> {
        if self.windowed { None } else { provider.standing.lane.try_enter(&self.ticket) }
    }

    /// Waits for a permit from `since` on, with an end.
    pub(crate) async fn wait(
        self,
        provider: &Provider,
        patience: &Patience,
        since: Instant,
    ) -> Result<Permit, Refusal> {
        let waited = if self.windowed { self.window(provider, patience, since).await } else { Ok(since) };
        let permit = match waited {
            Ok(now) => self.queue(provider, patience, now).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = &permit {
            provider.standing.handles.shed(refusal.row().reason.unwrap_or_default());
        }
        permit
    }

    /// Goes on with the wave. Returns when that was.
    async fn window(
        &self,
        provider: &Provider,
        patience: &Patience,
        since: Instant,
    ) -> Result<Instant, Refusal> {
        let standing = &provider.standing;
        let member = standing.window.join(since);
        let fill = member.fill();
        standing.bus.tell(self.watched, |id| Event::Windowed { id, provider: provider.name.clone(), fill });
        let left = timeout_at(patience.end(), member).await;
        let now = Instant::now();
        standing.handles.window_waited(now.duration_since(since));
        let Ok(departure) = left else { return Err(deadline(patience, now)) };
        standing.flushed(departure.wave);
        Ok(now)
    }

    async fn queue(&self, provider: &Provider, patience: &Patience, now: Instant) -> Result<Permit, Refusal> {
        let lane = &provider.standing.lane;
        if let Some(permit) = lane.try_enter(&self.ticket) {
            return Ok(permit);
        }
        let turn = now + provider.config.queue.timeout;
        // Who would wait for nothing is told at once.
        if lane.hopeless(&self.ticket, turn, now) {
            return Err(Refusal::QueueFull { crowd: Crowd::Provider, retry_after: lane.retry_after(now) });
        }
        let place = lane.enter(self.ticket, now).map_err(full)?;
        provider.standing.bus.tell(self.watched, |id| {
            let waiting = lane.stats().waiting;
            Event::Queued { id, provider: provider.name.clone(), waiting }
        });
        let until = turn.min(patience.end());
        match timeout_at(until, place).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(shed)) => Err(given_up(&shed, now.elapsed())),
            Err(_) => {
                let then = Instant::now();
                if then >= patience.end() {
                    return Err(deadline(patience, then));
                }
                let waited = then.duration_since(now);
                let retry_after = lane.retry_after(then);
                Err(Refusal::QueueTimeout { crowd: Crowd::Provider, waited, retry_after })
            }
        }
    }
}

fn deadline(patience: &Patience, now: Instant) -> Refusal {
    Refusal::Deadline { after: now.duration_since(patience.arrived) }
}

fn full(full: Full) -> Refusal {
    Refusal::QueueFull { crowd: Crowd::Provider, retry_after: full.retry_after }
}

/// Why the queue let one go that waited.
fn given_up(shed: &Shed, waited: Duration) -> Refusal {
    let (crowd, retry_after) = (Crowd::Provider, shed.retry_after);
    match shed.reason {
        ShedReason::Displaced => Refusal::QueueFull { crowd, retry_after },
        ShedReason::Stale => Refusal::QueueTimeout { crowd, waited, retry_after },
    }
}
