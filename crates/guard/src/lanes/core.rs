//! The lane as a pure machine: an event and the time in, whom to wake out. No locks, wakers or timers.
//!
//! Invariants: while anybody waits who is eligible, `in_flight >= permits`; a waiter is in `queue` until it is
//! granted, shed or cancelled, and in `shed` from then on if it was shed, until it has heard. So one that
//! never cancelled and is in neither has been granted a permit, which `in_flight` counts.
//!
//! With n waiters and t targets that anybody waits for (a handful), every step costs O(t log n) for each waiter
//! that it moves, save [`Core::hopeless`], which walks the queue once, and only where the answer is in doubt.

mod caps;
mod outlook;
mod queue;
mod rank;
mod room;
mod round;
mod stand;

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use self::caps::Caps;
use self::queue::{Queue, Waiter};
pub(super) use self::rank::{Claim, Rank};
use self::round::Round;
use self::stand::Stand;
use super::drain::Drain;
use super::{Full, Limits, Shed, ShedReason, Stats, Ticket};

/// Bytes that cost as much as the call itself. A permit is held longer for a longer prompt: about one short
/// call's time for every 8k tokens, at four bytes each.
const BYTES_PER_COST: u64 = 32 * 1024;

/// No request is larger; so no sum of them overflows.
const MOST_BYTES: u64 = 1 << 40;

/// What a call costs its key: one, and one more for every 32 KiB.
fn cost(bytes: u64) -> i64 {
    1 + (bytes / BYTES_PER_COST).cast_signed()
}

/// How an entering call fared.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Admitted,
    Queued(Rank),
}

/// How a call fares that was queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate<'a, W> {
    Waits(&'a mut W),
    Shed(Shed),
    Granted,
}

/// What the shells of waiters that were granted or shed want back. One event mostly moves one waiter.
pub(super) type Woken<W> = SmallVec<[W; 1]>;

/// `W` is what the shell wants back when a waiter's wait is over.
#[derive(Debug)]
pub(super) struct Core<W> {
    limits: Limits,
    in_flight: usize,
    most_in_flight: usize,
    /// Flights that were measured while the lane was crowded, and are to be measured to their end.
    measured: usize,
    queue: Queue<W>,
    round: Round,
    caps: Caps,
    stand: Stand,
    drain: Drain,
    shed: HashMap<u64, Shed>,
    next_arrival: u64,
}

impl<W> Core<W> {
    pub(super) fn new(limits: Limits) -> Core<W> {
        Core {
            limits,
            in_flight: 0,
            most_in_flight: 0,
            measured: 0,
            queue: Queue::new(),
            round: Round::default(),
            caps: Caps::default(),
            stand: Stand::default(),
            drain: Drain::default(),
            shed: HashMap::new(),
            next_arrival: 0,
        }
    }

    /// Takes a free permit. The clock is read only where the lane fills up by it, or somebody waits.
    pub(super) fn try_enter(&mut self, ticket: &Ticket, now: impl FnOnce() -> Instant) -> bool {
        if !self.admits(ticket) {
            return false;
        }
        if self.is_measured() || self.in_flight + 1 >= self.limits.permits {
            self.book(now());
        }
        self.fly(Claim::of(ticket));
        true
    }

    /// Takes a permit or a place in the queue.
    pub(super) fn enter(
        &mut self,
        ticket: &Ticket,
        now: Instant,
        waiter: W,
    ) -> (Result<Entry, Full>, Woken<W>) {
        let mut woken = Woken::new();
        if !self.queue.is_empty() {
            self.tend(now, &mut woken);
            self.amend(ticket, now, &mut woken);
        }
        if self.try_enter(ticket, || now) {
            return (Ok(Entry::Admitted), woken);
        }
        self.book(now);
        let entry = self.queue_up(ticket, now, waiter, &mut woken);
        self.stand.came();
        self.tend(now, &mut woken);
        (entry, woken)
    }

    /// A flight is over.
    pub(super) fn leave(&mut self, claim: Claim, now: impl FnOnce() -> Instant) -> Woken<W> {
        self.release(claim, now, true)
    }

    /// A permit comes back unused: it says nothing about how fast the lane drains.
    pub(super) fn decline(&mut self, claim: Claim, now: impl FnOnce() -> Instant) -> Woken<W> {
        self.release(claim, now, false)
    }

    /// A place is given up, in whatever state. Returns the waiter that it was, for the shell to drop.
    pub(super) fn quit(
        &mut self,
        rank: &Rank,
        claim: Claim,
        now: impl FnOnce() -> Instant,
    ) -> (Option<W>, Woken<W>) {
        if self.shed.remove(&rank.arrival).is_some() {
            return (None, Woken::new());
        }
        if self.queue.get(rank).is_none() {
            return (None, self.decline(claim, now));
        }
        let (now, mut woken) = (now(), Woken::new());
        self.book(now);
        let waiter = self.take_out(rank);
        self.stand.left();
        self.tend(now, &mut woken);
        (waiter.map(|waiter| waiter.shell), woken)
    }

    /// A call that was shed hears of it once.
    pub(super) fn fate(&mut self, rank: &Rank) -> Fate<'_, W> {
        if let Some(shed) = self.shed.remove(&rank.arrival) {
            return Fate::Shed(shed);
        }
        self.queue.get_mut(rank).map_or(Fate::Granted, |waiter| Fate::Waits(&mut waiter.shell))
    }

    pub(super) fn is_waiting(&self, rank: &Rank) -> bool {
        self.queue.get(rank).is_some()
    }

    pub(super) fn resize(&mut self, limits: Limits, now: Instant) -> Woken<W> {
        self.change(now, |core| core.limits = limits)
    }

    pub(super) fn cap(&mut self, target: u64, most: Option<usize>, now: Instant) -> Woken<W> {
        self.change(now, |core| core.caps.cap(target, most))
    }

    pub(super) fn uncap_all_but(&mut self, targets: &[u64], now: Instant) -> Woken<W> {
        self.change(now, |core| core.caps.uncap_all_but(targets))
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            permits: self.limits.permits,
            in_flight: self.in_flight,
            waiting: self.queue.len(),
            waiting_bytes: self.queue.bytes(),
            most_in_flight: self.most_in_flight,
            stands: self.stand.stands(),
        }
    }

    fn is_full(&self) -> bool {
        self.in_flight >= self.limits.permits
    }

    /// Flights above the limit, left over from before it shrank: they leave without letting anybody in.
    fn surplus(&self) -> usize {
        self.in_flight.saturating_sub(self.limits.permits)
    }

    /// Whether a permit is free and the call is eligible.
    fn admits(&self, ticket: &Ticket) -> bool {
        !self.is_full()
            && self.caps.key_room(ticket.party.key, ticket.party.parallel) > 0
            && self.caps.target_room(ticket.target) > 0
    }

    fn fly(&mut self, claim: Claim) {
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        self.measure();
        self.caps.start(claim);
        self.relist(claim.key);
    }

    /// A key's flights have changed, or how many it may have: is there a turn for it?
    fn relist(&mut self, key: Option<u64>) {
        let Some((key, line)) = key.and_then(|key| Some((key, self.round.line(key)?))) else { return };
        let room = self.caps.key_room(key, line.party.parallel);
        self.round.list(key, room > 0);
    }

    /// A call that shows another limit than its key's waiters did changes it for them; who may start by that
    /// starts before the call itself.
    fn amend(&mut self, ticket: &Ticket, now: Instant, woken: &mut Woken<W>) {
        let known = self.round.line(ticket.party.key).map(|line| line.party);
        if known.is_some_and(|known| known != ticket.party) {
            self.book(now);
            self.round.amend(ticket.party);
            self.relist(Some(ticket.party.key));
            self.start(woken);
        }
    }

    fn queue_up(
        &mut self,
        ticket: &Ticket,
        now: Instant,
        waiter: W,
        woken: &mut Woken<W>,
    ) -> Result<Entry, Full> {
        let bytes = ticket.bytes.min(MOST_BYTES);
        let victims = room::make_room(&self.queue, &self.limits, ticket.party.key, bytes);
        let victims = victims.map_err(|reason| Full { retry_after: self.retry_after(now), reason })?;
        for victim in victims {
            self.shed(&victim, ShedReason::Displaced, now, woken);
        }
        let rank = Rank::of(ticket, self.next_arrival);
        self.next_arrival += 1;
        self.round.join(rank.bucket, ticket.party);
        self.relist(Some(ticket.party.key));
        let waiter = Waiter { shell: waiter, since: now, bytes, claim: Claim::of(ticket) };
        self.queue.insert(rank, waiter);
        Ok(Entry::Queued(rank))
    }

    fn change(&mut self, now: Instant, change: impl FnOnce(&mut Self)) -> Woken<W> {
        let mut woken = Woken::new();
        self.tend(now, &mut woken);
        change(self);
        self.start(&mut woken);
        self.tend(now, &mut woken);
        woken
    }

    fn release(&mut self, claim: Claim, now: impl FnOnce() -> Instant, served: bool) -> Woken<W> {
        let mut woken = Woken::new();
        let now = self.is_measured().then(now);
        if let Some(now) = now {
            self.tend(now, &mut woken);
            if served {
                self.drain.exit();
            }
        }
        self.in_flight -= 1;
        self.measured = self.measured.saturating_sub(1);
        self.measure();
        self.caps.end(claim);
        self.relist(claim.key);
        if let Some(now) = now {
            self.start(&mut woken);
            self.tend(now, &mut woken);
        }
        woken
    }

    /// Hands free permits to whoever is next.
    fn start(&mut self, woken: &mut Woken<W>) {
        while !self.is_full() {
            let Some(rank) = self.next() else { break };
            let Some(waiter) = self.queue.get(&rank) else { break };
            let (claim, cost) = (waiter.claim, cost(waiter.bytes));
            self.round.charge(rank.bucket.key, cost);
            self.fly(claim);
            let waiter = self.take_out(&rank);
            self.stand.left();
            woken.extend(waiter.map(|waiter| waiter.shell));
        }
        self.forgive();
    }

    /// Where a permit is free and nobody waits, nobody is owed a turn.
    fn forgive(&mut self) {
        if self.queue.is_empty() && !self.is_full() {
            self.round.forget_debts();
        }
    }

    /// The waiter whose turn it is among the eligible.
    fn next(&self) -> Option<Rank> {
        let open = |target| self.caps.target_room(target) > 0;
        let key = self.round.first(open)?;
        let line = self.round.line(key)?;
        let buckets = line.buckets.iter().map(|(target, _)| rank::Bucket { key, target: *target });
        let buckets = buckets.filter(|bucket| open(bucket.target));
        if self.stand.stands() {
            buckets.filter_map(|bucket| self.queue.newest_in(bucket)).min_by_key(Rank::newest_first)
        } else {
            buckets.filter_map(|bucket| self.queue.first_in(bucket)).min_by_key(Rank::order)
        }
    }

    fn take_out(&mut self, rank: &Rank) -> Option<Waiter<W>> {
        let waiter = self.queue.remove(rank)?;
        self.round.quit(rank.bucket);
        self.forgive();
        Some(waiter)
    }

    fn shed(&mut self, rank: &Rank, reason: ShedReason, now: Instant, woken: &mut Woken<W>) {
        let retry_after = self.retry_after(now);
        if let Some(waiter) = self.take_out(rank) {
            self.shed.insert(rank.arrival, Shed { retry_after, reason });
            woken.push(waiter.shell);
        }
    }

    fn is_crowded(&self) -> bool {
        self.is_full() || !self.queue.is_empty()
    }

    /// Whoever flies in a crowded lane is measured to its end. Of a wave that just fits only the first to leave
    /// leaves a full lane: counted alone, it would stand for the time of them all.
    fn measure(&mut self) {
        if self.is_crowded() {
            self.measured = self.in_flight;
        }
    }

    /// In a lane with room nothing is measured: asking for the time would cost every one of its calls.
    fn is_measured(&self) -> bool {
        self.measured > 0 || self.is_crowded()
    }

    /// Books the time since the last event, before anything changes.
    fn book(&mut self, now: Instant) {
        let busy = if self.is_measured() { self.in_flight } else { 0 };
        self.drain.advance(now, busy);
        self.look(now);
    }

    fn look(&mut self, now: Instant) {
        let oldest = self.queue.oldest().map(|(_, since)| since);
        self.stand.look(now, oldest, self.long_wait(), self.limits.permits);
    }

    /// Books the time, and while the queue stands drops who has waited too long in it.
    fn tend(&mut self, now: Instant, woken: &mut Woken<W>) {
        self.book(now);
        while self.stand.stands() {
            let Some((oldest, since)) = self.queue.oldest() else { break };
            let bound = self.long_wait().and_then(|long| long.checked_mul(2)).unwrap_or(Duration::MAX);
            if now.saturating_duration_since(since) <= bound {
                break;
            }
            self.shed(&oldest, ShedReason::Stale, now, woken);
            self.look(now);
        }
    }

    fn long_wait(&self) -> Option<Duration> {
        self.drain.service().map(stand::long_wait)
    }
}

#[cfg(test)]
impl<W> Core<W> {
    /// Lets the time pass; whether the queue stands then, and whom it drops.
    pub(super) fn probe(&mut self, now: Instant) -> (bool, Woken<W>) {
        let mut woken = Woken::new();
        self.tend(now, &mut woken);
        (self.stand.stands(), woken)
    }

    /// What a shed call will hear.
    pub(super) fn shed_of(&self, rank: &Rank) -> Option<Shed> {
        self.shed.get(&rank.arrival).copied()
    }

    /// Whether nothing is left of any call.
    pub(super) fn is_idle(&self) -> bool {
        let stats = self.stats();
        (stats.in_flight, stats.waiting, stats.waiting_bytes) == (0, 0, 0)
            && self.caps.is_idle()
            && self.shed.is_empty()
            && self.round.is_idle()
            && self.queue.is_idle()
    }
}
