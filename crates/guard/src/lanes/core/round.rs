//! Whose turn it is: deficit round robin over the keys that wait, in the form that pays after the service.
//!
//! Every round brings a key its weight in credit. A key with credit is served in its turn, until what its calls
//! cost has used the credit up; then it sits out as many rounds as it takes to be in credit again, which are
//! computed and not walked. So over time keys are served in the ratio of their weights (Shreedhar and
//! Varghese, "Efficient fair queuing using deficit round robin", 1995; that the debt comes after the service
//! makes a turn independent of which of the key's calls will use it: "surplus round robin", Adiseshu,
//! Parulkar and Varghese, 1996). With equal weights and calls of cost one, keys take turns, one call each.
//!
//! A key that starts to wait joins behind everybody who waits. A debt outlives the key's last waiter, for as
//! long as anybody is queued: leaving and coming back gains nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use smallvec::SmallVec;

use super::super::Party;
use super::rank::Bucket;

/// When a key is served: the lowest is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) round: u64,
    seat: u64,
}

/// A key that has waiters.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) turn: Turn,
    /// Above zero: what the key may still spend in this turn, to be overdrawn by its last call.
    pub(super) credit: i64,
    pub(super) party: Party,
    /// Its waiters by target.
    pub(super) buckets: SmallVec<[(Option<u64>, usize); 1]>,
    /// Whether it stands in `turns`; not while it has all the flights it may have.
    listed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Round {
    now: u64,
    next_seat: u64,
    lines: HashMap<u64, Line>,
    /// By target, so that a full one hides its waiters without a look at any: the listed keys that wait for it.
    turns: HashMap<Option<u64>, BTreeMap<Turn, u64>>,
    /// Keys that do not wait, whose next turn is further off than a newcomer's: its round, and the credit then.
    debts: HashMap<u64, (u64, i64)>,
    debts_by_round: BTreeSet<(u64, u64)>,
}

impl Round {
    /// One waiter more. A key that is new in the round starts unlisted.
    pub(super) fn join(&mut self, bucket: Bucket, party: Party) {
        if !self.lines.contains_key(&bucket.key) {
            let (turn, credit) = self.start_of(&party);
            self.next_seat += 1;
            if let Some((round, _)) = self.debts.remove(&bucket.key) {
                self.debts_by_round.remove(&(round, bucket.key));
            }
            let line = Line { turn, credit, party, buckets: SmallVec::new(), listed: false };
            self.lines.insert(bucket.key, line);
        }
        let Some(line) = self.lines.get_mut(&bucket.key) else { return };
        if let Some((_, waiting)) = line.buckets.iter_mut().find(|(target, _)| *target == bucket.target) {
            *waiting += 1;
            return;
        }
        line.buckets.push((bucket.target, 1));
        if line.listed {
            self.turns.entry(bucket.target).or_default().insert(line.turn, bucket.key);
        }
    }

    /// One waiter less. A key without waiters leaves the round.
    pub(super) fn quit(&mut self, bucket: Bucket) {
        let Some(line) = self.lines.get_mut(&bucket.key) else { return };
        let Some(at) = line.buckets.iter().position(|(target, _)| *target == bucket.target) else { return };
        line.buckets[at].1 -= 1;
        if line.buckets[at].1 > 0 {
            return;
        }
        line.buckets.swap_remove(at);
        if line.listed {
            unlist(&mut self.turns, bucket.target, line.turn);
        }
        if line.buckets.is_empty() {
            let (round, credit) = (line.turn.round, line.credit);
            self.lines.remove(&bucket.key);
            if round > self.now + 1 {
                self.debts.insert(bucket.key, (round, credit));
                self.debts_by_round.insert((round, bucket.key));
            }
        }
    }

    /// The key is served a call of this cost in its turn.
    pub(super) fn charge(&mut self, key: u64, cost: i64) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        let before = line.turn;
        self.now = self.now.max(before.round);
        line.credit -= cost;
        let rounds = rounds_until_credit(line.credit, line.party.weight);
        if rounds > 0 {
            line.credit += rounds * quantum(line.party.weight);
            line.turn = Turn { round: self.now + rounds.unsigned_abs(), seat: self.next_seat };
            self.next_seat += 1;
            for (target, _) in line.buckets.iter().filter(|_| line.listed) {
                unlist(&mut self.turns, *target, before);
                self.turns.entry(*target).or_default().insert(line.turn, key);
            }
        }
        // What is due by the time a newcomer would be served is no debt any more.
        while let Some(&(round, debtor)) = self.debts_by_round.first() {
            if round > self.now + 1 {
                break;
            }
            self.debts_by_round.pop_first();
            self.debts.remove(&debtor);
        }
    }

    /// Puts the key into the turns or takes it out of them; its turn stays what it is.
    pub(super) fn list(&mut self, key: u64, listed: bool) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        if std::mem::replace(&mut line.listed, listed) == listed {
            return;
        }
        for (target, _) in &line.buckets {
            if listed {
                self.turns.entry(*target).or_default().insert(line.turn, key);
            } else {
                unlist(&mut self.turns, *target, line.turn);
            }
        }
    }

    /// The newest word on a key's weight and limit counts for all its waiters.
    pub(super) fn amend(&mut self, party: Party) {
        if let Some(line) = self.lines.get_mut(&party.key) {
            line.party = party;
        }
    }

    /// The listed key that is served next of those that wait for an open target.
    pub(super) fn first(&self, open: impl Fn(Option<u64>) -> bool) -> Option<u64> {
        let turns = self.turns.iter().filter(|(target, _)| open(**target));
        let firsts = turns.filter_map(|(_, turns)| turns.first_key_value());
        firsts.min().map(|(_, key)| *key)
    }

    pub(super) fn forget_debts(&mut self) {
        if !self.debts.is_empty() {
            self.debts.clear();
            self.debts_by_round.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let debts = self.debts.is_empty() && self.debts_by_round.is_empty();
        debts && self.lines.is_empty() && self.turns.is_empty()
    }

    pub(super) fn line(&self, key: u64) -> Option<&Line> {
        self.lines.get(&key)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &Line)> {
        self.lines.iter().map(|(key, line)| (*key, line))
    }

    /// The round in which a turn comes: a key that was passed over has kept its turn, and has it as soon as it
    /// is eligible.
    pub(super) fn present(&self, turn: Turn) -> u64 {
        turn.round.max(self.now)
    }

    /// The turn and credit that a key would join with.
    pub(super) fn start_of(&self, party: &Party) -> (Turn, i64) {
        let newcomer = (self.now + 1, quantum(party.weight));
        let (round, credit) = self.debts.get(&party.key).copied().unwrap_or(newcomer);
        (Turn { round: round.max(self.now + 1), seat: self.next_seat }, credit)
    }
}

/// What a round brings.
pub(super) fn quantum(weight: u32) -> i64 {
    i64::from(weight.max(1))
}

/// The fewest rounds that bring a key above zero.
pub(super) fn rounds_until_credit(credit: i64, weight: u32) -> i64 {
    if credit > 0 { 0 } else { -credit / quantum(weight) + 1 }
}

fn unlist(turns: &mut HashMap<Option<u64>, BTreeMap<Turn, u64>>, target: Option<u64>, turn: Turn) {
    if let Some(of_target) = turns.get_mut(&target) {
        of_target.remove(&turn);
        if of_target.is_empty() {
            turns.remove(&target);
        }
    }
}
