//! A waiter's place among all, and what its flight will take up beside the permit.

use std::cmp::Reverse;

use tokio::time::Instant;

use super::super::{Priority, Ticket};

/// Calls of one key for one target: they become eligible and stop being so together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Bucket {
    pub(super) key: u64,
    pub(super) target: Option<u64>,
}

/// Sorted by bucket first, so that a bucket's waiters stand side by side in one tree; the rest is the order
/// inside it. The arrival alone tells a waiter from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Rank {
    pub(super) bucket: Bucket,
    pub(super) priority: Priority,
    /// Sorts calls without a deadline behind those with one.
    endless: bool,
    deadline: Option<Instant>,
    pub(super) arrival: u64,
}

impl Rank {
    pub(super) fn of(ticket: &Ticket, arrival: u64) -> Rank {
        let bucket = Bucket { key: ticket.party.key, target: ticket.target };
        let Ticket { priority, deadline, .. } = *ticket;
        Rank { bucket, priority, endless: deadline.is_none(), deadline, arrival }
    }

    /// Sorts before every waiter of the bucket.
    pub(super) fn first(bucket: Bucket) -> Rank {
        Rank { bucket, priority: Priority::High, endless: false, deadline: None, arrival: 0 }
    }

    /// The same place in the line for another target.
    pub(super) fn beside(self, target: Option<u64>) -> Rank {
        Rank { bucket: Bucket { target, ..self.bucket }, ..self }
    }

    /// Which of a key's calls goes first, whatever their targets.
    pub(super) fn order(&self) -> impl Ord + use<> {
        (self.priority, self.endless, self.deadline, self.arrival)
    }

    /// The same while the queue stands.
    pub(super) fn newest_first(&self) -> impl Ord + use<> {
        (self.priority, Reverse(self.arrival))
    }
}

/// What a flight takes up beside its permit. Nothing, for a call without a limit of its own: it is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Claim {
    pub(super) key: Option<u64>,
    pub(super) target: Option<u64>,
}

impl Claim {
    pub(in super::super) fn of(ticket: &Ticket) -> Claim {
        let bounded = ticket.party.parallel != usize::MAX;
        Claim { key: bounded.then_some(ticket.party.key), target: ticket.target }
    }
}
