//! What a newcomer has to expect.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::Ticket;
use super::rank::{Bucket, Rank};
use super::round::{Line, Turn, quantum, rounds_until_credit};
use super::{Core, cost};

/// A newcomer's way to its turn.
struct Way {
    /// The next turn of its key.
    start: Turn,
    /// The round of its own turn.
    last: u64,
    /// Whether the key is served in each round from `start` to `last`.
    steady: bool,
}

/// Targets that have no room for all who wait for them: who of those is served is not known.
type Scarce = HashSet<Option<u64>>;

impl<W> Core<W> {
    pub(in super::super) fn retry_after(&mut self, now: Instant) -> Duration {
        self.book(now);
        let turns = self.surplus() + self.queue.len() + 1;
        let wait = self.drain.expected(turns, self.limits.permits);
        wait.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Whether a call entering now would get its permit only after `by`. Where in doubt: no.
    pub(in super::super) fn hopeless(&mut self, ticket: &Ticket, by: Instant, now: Instant) -> bool {
        if by < now {
            return true;
        }
        if self.admits(ticket) {
            return false;
        }
        if by == now {
            return true;
        }
        // With permits free, what the call waits for is one flight of its key or target, which may end any
        // moment; and a standing queue serves the newest first, and drops who is ahead.
        if !self.is_full() || self.stand.stands() {
            return false;
        }
        self.book(now);
        let surplus = self.surplus();
        let left = by.saturating_duration_since(now);
        let too_late = |ahead: usize| {
            let soonest = self.drain.soonest(surplus + ahead + 1, self.limits.permits);
            soonest.is_some_and(|wait| wait > left)
        };
        // Nobody can be worse off than behind everybody: mostly that answers it without a walk.
        too_late(self.queue.len()) && too_late(self.ahead(ticket))
    }

    /// How many of those waiting now would surely be served before this newcomer, if nobody else comes and
    /// nobody gives up. Exact where calls cost one and no key or target has a limit; else it counts those who
    /// may start even if no flight of their key or target ends.
    pub(in super::super) fn ahead(&self, ticket: &Ticket) -> usize {
        let (key, weight) = (ticket.party.key, ticket.party.weight);
        let scarce = self.scarce();
        let line = self.round.line(key);
        let mut own = line.map_or_else(Vec::new, |line| self.own_ahead(line, ticket));
        // Short of room, the cheapest: they bring the newcomer's turn closest.
        own.retain(|(target, _)| !scarce.contains(target));
        own.truncate(self.caps.key_room(key, ticket.party.parallel));
        let (start, credit) =
            line.map_or_else(|| self.round.start_of(&ticket.party), |line| (line.turn, line.credit));
        let owed = own.iter().fold(credit, |credit, (_, cost)| credit - cost);
        let waits = rounds_until_credit(owed, weight);
        let last = self.round.present(start) + waits.unsigned_abs();
        let steady = own.iter().all(|(_, cost)| *cost <= quantum(weight));
        let way = Way { start, last, steady: steady || waits == 0 };
        let others = self.round.lines().filter(|(other, _)| *other != key);
        own.len() + others.map(|(other, line)| self.served_by(other, line, &way, &scarce)).sum::<usize>()
    }

    /// Target and cost of the key's own calls that go first, the cheapest first.
    fn own_ahead(&self, line: &Line, ticket: &Ticket) -> Vec<(Option<u64>, i64)> {
        let newcomer = Rank::of(ticket, self.next_arrival);
        let buckets = line.buckets.iter().flat_map(|(target, _)| {
            let before = newcomer.beside(*target);
            self.queue.bytes_in(before.bucket, Some(before)).map(|bytes| (*target, cost(bytes)))
        });
        let mut own: Vec<_> = buckets.collect();
        own.sort_unstable_by_key(|(_, cost)| *cost);
        own
    }

    /// How many calls another key is surely served before the newcomer.
    fn served_by(&self, key: u64, line: &Line, way: &Way, scarce: &Scarce) -> usize {
        let calls = self.calls_of(key, line);
        let quantum = quantum(line.party.weight);
        let (theirs, ours) = (self.round.present(line.turn), self.round.present(way.start));
        // Keys that are served in each round keep their order in it, and one that joins the other's rounds
        // later is in front, having had its seat before. Of all else, who is first in the last round is left
        // open.
        let first = if theirs == ours { line.turn < way.start } else { theirs > ours };
        let meets = way.last == ours || way.steady && calls.iter().all(|(_, cost)| *cost <= quantum);
        let rounds = (way.last + u64::from(first && meets)).saturating_sub(theirs);
        let Some(more) = rounds.checked_sub(1) else { return 0 };
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        let mut credit = line.credit.saturating_add(more.saturating_mul(quantum));
        let mut room = self.caps.key_room(key, line.party.parallel);
        let mut served = 0;
        for (target, cost) in calls {
            if credit <= 0 || room == 0 {
                break;
            }
            credit -= cost;
            if !scarce.contains(&target) {
                room -= 1;
                served += 1;
            }
        }
        served
    }

    /// Target and cost of all that wait for a key, in the order in which they are served, or in one in which
    /// no more of them are.
    fn calls_of(&self, key: u64, line: &Line) -> Vec<(Option<u64>, i64)> {
        let buckets = line.buckets.iter().flat_map(|(target, _)| {
            let bytes = self.queue.bytes_in(Bucket { key, target: *target }, None);
            bytes.map(|bytes| (*target, cost(bytes)))
        });
        let mut calls: Vec<_> = buckets.collect();
        if line.buckets.len() > 1 {
            calls.sort_unstable_by_key(|(_, cost)| Reverse(*cost));
        }
        calls
    }

    fn scarce(&self) -> Scarce {
        let mut waiting = HashMap::<Option<u64>, usize>::new();
        for (target, of_key) in self.round.lines().flat_map(|(_, line)| &line.buckets) {
            *waiting.entry(*target).or_default() += of_key;
        }
        let scarce =
            waiting.into_iter().filter(|(target, waiting)| self.caps.target_room(*target) < *waiting);
        scarce.map(|(target, _)| target).collect()
    }
}
