//! The door of the whole process: so many calls past it, so many waiting at it. Before a body is read, so that those
//! who wait hold no memory.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use guard::lanes::{Full, Lane, Limits, Party, Permit, ShedReason, Ticket};
use tokio::time::Instant;

use crate::call::Call;
use crate::config::Gate;
use crate::gateway::hash_of;
use crate::pipeline::Entered;
use crate::refusal::{Crowd, Refusal};

/// The door's bounds, as its lane has them. With none set it is never asked, and whoever waits at it goes in.
pub(crate) fn limits(gate: &Gate) -> Limits {
    Limits {
        permits: if gate.max_in_flight == 0 { usize::MAX } else { gate.max_in_flight },
        max_waiting: gate.max_waiting,
        max_bytes: u64::MAX,
        per_key: gate.max_waiting,
    }
}

/// Lets the call pass, at once or after a wait; it keeps its permit to its end.
pub(crate) async fn pass(call: &mut Call, entered: &Entered) -> Result<(), Refusal> {
    let gate = entered.snapshot.config.gate;
    if gate.max_in_flight == 0 {
        return Ok(());
    }
    let ticket = ticket(call, entered);
    let lane = call.gate.door.clone();
    let permit = match lane.try_enter(&ticket) {
        Some(permit) => permit,
        None => {
            let came = Instant::now();
            let permit = Box::pin(wait(call, &lane, ticket, &gate, came)).await;
            call.at_the_door(came.elapsed());
            permit?
        }
    };
    call.passes(permit);
    Ok(())
}

async fn wait(
    call: &mut Call,
    lane: &std::sync::Arc<Lane>,
    ticket: Ticket,
    gate: &Gate,
    came: Instant,
) -> Result<Permit, Refusal> {
    let crowd = Crowd::Gate;
    let place = lane.enter(ticket, came).map_err(|Full { retry_after, .. }| {
        let retry_after = gate.retry_after.unwrap_or(retry_after);
        Refusal::QueueFull { crowd, retry_after }
    })?;
    let turn = came + gate.wait;
    let until = ticket.deadline.map_or(turn, |deadline| deadline.min(turn));
    let mut place = pin!(place);
    poll_fn(|cx| {
        if call.is_cut(cx) {
            return Poll::Ready(Err(Refusal::Cut));
        }
        if let Poll::Ready(let_in) = place.as_mut().poll(cx) {
            return Poll::Ready(let_in.map_err(|shed| {
                let retry_after = gate.retry_after.unwrap_or(shed.retry_after);
                match shed.reason {
                    ShedReason::Displaced => Refusal::QueueFull { crowd, retry_after },
                    ShedReason::Stale => Refusal::QueueTimeout { crowd, waited: came.elapsed(), retry_after },
                }
            }));
        }
        std::task::ready!(call.poll_due(cx, until));
        let now = Instant::now();
        Poll::Ready(Err(match ticket.deadline {
            Some(deadline) if now >= deadline => Refusal::Deadline { after: call.age() },
            _ => {
                let retry_after = gate.retry_after.unwrap_or_else(|| lane.retry_after(now));
                Refusal::QueueTimeout { crowd, waited: now.duration_since(came), retry_after }
            }
        }))
    })
    .await
}

/// Of the caller's own deadline alone: the others depend on the provider, which is not known yet.
fn ticket(call: &Call, entered: &Entered) -> Ticket {
    let forwards = entered.snapshot.forwards;
    let key = entered.client().filter(|_| forwards).map_or(0, hash_of);
    Ticket {
        party: Party { key, weight: 1, parallel: usize::MAX },
        target: None,
        bytes: 0,
        priority: entered.wishes.priority.unwrap_or_default(),
        deadline: entered.wishes.timeout.map(|timeout| call.arrived + timeout),
    }
}
