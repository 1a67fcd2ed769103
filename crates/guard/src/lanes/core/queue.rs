//! Who waits, in every order that a decision asks for: inside a bucket, by age, the newest, by how much a key
//! holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::time::Instant;

use super::super::Priority;
use super::rank::{Bucket, Claim, Rank};

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) shell: W,
    pub(super) since: Instant,
    pub(super) bytes: u64,
    pub(super) claim: Claim,
}

/// What the waiters of one key hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) waiting: usize,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Queue<W> {
    waiting: BTreeMap<Rank, Waiter<W>>,
    /// By arrival, which is by age.
    arrivals: BTreeMap<u64, Rank>,
    of_key: BTreeSet<(u64, u64)>,
    newest: BTreeSet<(Bucket, Priority, Reverse<u64>)>,
    shares: HashMap<u64, Share>,
    by_waiting: BTreeSet<(usize, u64)>,
    by_bytes: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl<W> Queue<W> {
    pub(super) fn new() -> Queue<W> {
        Queue {
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            of_key: BTreeSet::new(),
            newest: BTreeSet::new(),
            shares: HashMap::new(),
            by_waiting: BTreeSet::new(),
            by_bytes: BTreeSet::new(),
            bytes: 0,
        }
    }

    pub(super) fn insert(&mut self, rank: Rank, waiter: Waiter<W>) {
        let Rank { bucket, priority, arrival, .. } = rank;
        self.arrivals.insert(arrival, rank);
        self.of_key.insert((bucket.key, arrival));
        self.newest.insert((bucket, priority, Reverse(arrival)));
        let share = self.share(bucket.key);
        self.reckon(bucket.key, Share { waiting: share.waiting + 1, bytes: share.bytes + waiter.bytes });
        self.waiting.insert(rank, waiter);
    }

    pub(super) fn remove(&mut self, rank: &Rank) -> Option<Waiter<W>> {
        let waiter = self.waiting.remove(rank)?;
        let Rank { bucket, priority, arrival, .. } = *rank;
        self.arrivals.remove(&arrival);
        self.of_key.remove(&(bucket.key, arrival));
        self.newest.remove(&(bucket, priority, Reverse(arrival)));
        let share = self.share(bucket.key);
        self.reckon(bucket.key, Share { waiting: share.waiting - 1, bytes: share.bytes - waiter.bytes });
        Some(waiter)
    }

    fn reckon(&mut self, key: u64, share: Share) {
        let before = self.shares.insert(key, share).unwrap_or_default();
        self.by_waiting.remove(&(before.waiting, key));
        self.by_bytes.remove(&(before.bytes, key));
        self.bytes = self.bytes - before.bytes + share.bytes;
        if share.waiting == 0 {
            self.shares.remove(&key);
        } else {
            self.by_waiting.insert((share.waiting, key));
            self.by_bytes.insert((share.bytes, key));
        }
    }

    pub(super) fn get(&self, rank: &Rank) -> Option<&Waiter<W>> {
        self.waiting.get(rank)
    }

    pub(super) fn get_mut(&mut self, rank: &Rank) -> Option<&mut Waiter<W>> {
        self.waiting.get_mut(rank)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn share(&self, key: u64) -> Share {
        self.shares.get(&key).copied().unwrap_or_default()
    }

    /// The key with the most waiters, and how many.
    pub(super) fn longest(&self) -> Option<(usize, u64)> {
        self.by_waiting.last().copied()
    }

    /// Keys and their bytes, the most first.
    pub(super) fn heaviest(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_bytes.iter().rev().copied()
    }

    pub(super) fn oldest(&self) -> Option<(Rank, Instant)> {
        let (_, rank) = self.arrivals.first_key_value()?;
        Some((*rank, self.waiting.get(rank)?.since))
    }

    /// The last of a key's waiters that came before this arrival.
    pub(super) fn newest_of(&self, key: u64, before: u64) -> Option<(Rank, u64)> {
        let &(_, arrival) = self.of_key.range((key, 0)..(key, before)).next_back()?;
        let rank = *self.arrivals.get(&arrival)?;
        Some((rank, self.waiting.get(&rank)?.bytes))
    }

    pub(super) fn first_in(&self, bucket: Bucket) -> Option<Rank> {
        let (rank, _) = self.waiting.range(Rank::first(bucket)..).next()?;
        (rank.bucket == bucket).then_some(*rank)
    }

    /// The same by priority, then the newest.
    pub(super) fn newest_in(&self, bucket: Bucket) -> Option<Rank> {
        let from = (bucket, Priority::High, Reverse(u64::MAX));
        let &(of, _, Reverse(arrival)) = self.newest.range(from..).next()?;
        if of != bucket {
            return None;
        }
        self.arrivals.get(&arrival).copied()
    }

    /// The bytes of a bucket's waiters, in order, up to a rank.
    pub(super) fn bytes_in(&self, bucket: Bucket, before: Option<Rank>) -> impl Iterator<Item = u64> {
        let ranks = self.waiting.range(Rank::first(bucket)..);
        let ranks = ranks.take_while(move |(rank, _)| {
            rank.bucket == bucket && before.is_none_or(|before| **rank < before)
        });
        ranks.map(|(_, waiter)| waiter.bytes)
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let orders = self.arrivals.is_empty() && self.of_key.is_empty() && self.newest.is_empty();
        orders && self.shares.is_empty() && self.by_waiting.is_empty() && self.by_bytes.is_empty()
    }
}
