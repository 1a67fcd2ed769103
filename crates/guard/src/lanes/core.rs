//! The lane as a pure machine: an event and the time in, whom to start out. No locks, wakers or timers.
//!
//! Invariants: while anybody waits, `in_flight >= permits`; a waiter is in `waiting` until it is granted or
//! cancelled, so one that never cancelled and is not there has been granted a permit, which `in_flight` counts.
//!
//! Every step costs O(log n) of the waiters, save [`Core::hopeless`], which walks the queue once, and only
//! where the answer is in doubt.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::drain::Drain;
use super::{Full, FullReason, Limits, Priority, Stats, Ticket};

/// A waiter's place among all. Sorted by key first, so that a key's waiters stand side by side in one tree;
/// the rest is the order inside the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    key: u64,
    priority: Priority,
    /// Sorts calls without a deadline behind those with one.
    endless: bool,
    deadline: Option<Instant>,
    arrival: u64,
}

impl Rank {
    fn of(ticket: &Ticket, arrival: u64) -> Rank {
        let Ticket { key, priority, deadline } = *ticket;
        Rank { key, priority, endless: deadline.is_none(), deadline, arrival }
    }

    /// Sorts before every waiter of the key.
    fn first(key: u64) -> Rank {
        Rank { key, priority: Priority::High, endless: false, deadline: None, arrival: 0 }
    }
}

/// A key that has waiters.
#[derive(Debug)]
struct Line {
    /// Its entry in `turns`; the lowest is served next.
    turn: u64,
    waiting: usize,
}

/// How an entering call fared.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Admitted,
    Queued(Rank),
}

/// `W` is what the shell wants back when a waiter is granted its permit.
#[derive(Debug)]
pub(super) struct Core<W> {
    limits: Limits,
    in_flight: usize,
    most_in_flight: usize,
    waiting: BTreeMap<Rank, W>,
    lines: HashMap<u64, Line>,
    /// The round: turn → key, each key with waiters once.
    turns: BTreeMap<u64, u64>,
    next_turn: u64,
    next_arrival: u64,
    drain: Drain,
}

impl<W> Core<W> {
    pub(super) fn new(limits: Limits) -> Core<W> {
        Core {
            limits,
            in_flight: 0,
            most_in_flight: 0,
            waiting: BTreeMap::new(),
            lines: HashMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
            next_arrival: 0,
            drain: Drain::default(),
        }
    }

    /// Takes a free permit. The clock is read only where the lane fills up by it, or is full.
    pub(super) fn try_enter(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if self.is_full() {
            return false;
        }
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        if self.is_full() {
            self.drain.advance(now(), 0);
        }
        true
    }

    pub(super) fn enter(&mut self, ticket: Ticket, now: Instant, waiter: W) -> Result<Entry, Full> {
        if self.try_enter(|| now) {
            return Ok(Entry::Admitted);
        }
        if let Some(reason) = self.refusal(ticket.key) {
            return Err(Full { retry_after: self.retry_after(now), reason });
        }
        let rank = Rank::of(&ticket, self.next_arrival);
        self.next_arrival += 1;
        self.waiting.insert(rank, waiter);
        let (turns, next_turn) = (&mut self.turns, &mut self.next_turn);
        let line = self.lines.entry(ticket.key).or_insert_with(|| {
            let turn = *next_turn;
            *next_turn += 1;
            turns.insert(turn, ticket.key);
            Line { turn, waiting: 0 }
        });
        line.waiting += 1;
        Ok(Entry::Queued(rank))
    }

    /// A flight is over. Returns the waiter that got its permit.
    pub(super) fn leave(&mut self, now: impl FnOnce() -> Instant) -> Option<W> {
        self.release(now, true)
    }

    /// A permit comes back unused: it says nothing about how fast the lane drains.
    pub(super) fn decline(&mut self, now: impl FnOnce() -> Instant) -> Option<W> {
        self.release(now, false)
    }

    /// Takes a waiter out; `None` where it has its permit already.
    pub(super) fn cancel(&mut self, rank: &Rank) -> Option<W> {
        let waiter = self.waiting.remove(rank)?;
        self.shorten(rank.key, false);
        Some(waiter)
    }

    pub(super) fn waiter(&mut self, rank: &Rank) -> Option<&mut W> {
        self.waiting.get_mut(rank)
    }

    /// Returns the waiters that start because of it.
    pub(super) fn resize(&mut self, limits: Limits, now: Instant) -> Vec<W> {
        self.settle(now);
        self.limits = limits;
        let mut started = Vec::new();
        while !self.is_full() {
            let Some(waiter) = self.next() else { break };
            self.in_flight += 1;
            started.push(waiter);
        }
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        started
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            permits: self.limits.permits,
            in_flight: self.in_flight,
            waiting: self.waiting.len(),
            most_in_flight: self.most_in_flight,
        }
    }

    pub(super) fn retry_after(&mut self, now: Instant) -> Duration {
        self.settle(now);
        let turns = self.surplus() + self.waiting.len() + 1;
        let wait = self.drain.expected(turns, self.limits.permits);
        wait.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Whether the ticket's deadline comes before its permit could.
    pub(super) fn hopeless(&mut self, ticket: &Ticket, now: Instant) -> bool {
        let Some(deadline) = ticket.deadline else { return false };
        let left = deadline.saturating_duration_since(now);
        if left.is_zero() {
            return true;
        }
        if !self.is_full() {
            return false;
        }
        self.settle(now);
        let surplus = self.surplus();
        let too_late = |ahead: usize| {
            let soonest = self.drain.soonest(surplus + ahead + 1, self.limits.permits);
            soonest.is_some_and(|wait| wait > left)
        };
        // Nobody can be worse off than behind everybody: mostly that answers it without a walk.
        too_late(self.waiting.len()) && too_late(self.ahead(&Rank::of(ticket, self.next_arrival)))
    }

    /// How many of those waiting now would be served before a newcomer of this rank.
    pub(super) fn ahead(&self, rank: &Rank) -> usize {
        let own = self.waiting.range(Rank::first(rank.key)..*rank).count();
        let turn = self.lines.get(&rank.key).map_or(self.next_turn, |line| line.turn);
        let others = self.lines.iter().filter(|&(&key, _)| key != rank.key);
        let before = others.map(|(_, line)| {
            // Keys whose turn comes first have one turn more by then than those that come after us.
            let turns = if line.turn < turn { own + 1 } else { own };
            line.waiting.min(turns)
        });
        own + before.sum::<usize>()
    }

    fn is_full(&self) -> bool {
        self.in_flight >= self.limits.permits
    }

    /// Flights above the limit, left over from before it shrank: they leave without letting anybody in.
    fn surplus(&self) -> usize {
        self.in_flight.saturating_sub(self.limits.permits)
    }

    fn refusal(&self, key: u64) -> Option<FullReason> {
        let of_key = self.lines.get(&key).map_or(0, |line| line.waiting);
        if self.waiting.len() >= self.limits.max_waiting {
            Some(FullReason::Queue)
        } else if of_key >= self.limits.per_key {
            Some(FullReason::Key)
        } else {
            None
        }
    }

    fn release(&mut self, now: impl FnOnce() -> Instant, served: bool) -> Option<W> {
        if self.is_full() {
            self.settle(now());
            if served {
                self.drain.exit();
            }
        }
        self.in_flight -= 1;
        let next = if self.is_full() { None } else { self.next() };
        if next.is_some() {
            self.in_flight += 1;
        }
        next
    }

    /// Takes the next waiter out of the queue.
    fn next(&mut self) -> Option<W> {
        let (_, &key) = self.turns.first_key_value()?;
        let (&rank, _) = self.waiting.range(Rank::first(key)..).next()?;
        let waiter = self.waiting.remove(&rank);
        self.shorten(key, true);
        waiter
    }

    /// One waiter less for the key, which has had its turn if it was served. A key without waiters leaves the
    /// round, and joins at the end when it comes back, so that leaving gains nothing.
    fn shorten(&mut self, key: u64, served: bool) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        line.waiting -= 1;
        let empty = line.waiting == 0;
        if empty || served {
            self.turns.remove(&line.turn);
        }
        if empty {
            self.lines.remove(&key);
        } else if served {
            line.turn = self.next_turn;
            self.next_turn += 1;
            self.turns.insert(line.turn, key);
        }
    }

    /// Books the time since the last event, before anything changes.
    fn settle(&mut self, now: Instant) {
        let busy = if self.is_full() { self.in_flight } else { 0 };
        self.drain.advance(now, busy);
    }
}
