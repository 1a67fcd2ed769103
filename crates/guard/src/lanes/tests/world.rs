//! Calls that run for a time, ended in order on a clock of our own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::*;

pub(super) struct World {
    pub(super) core: Core<u32>,
    pub(super) started: Instant,
    pub(super) now: Duration,
    pub(super) ends: BinaryHeap<Reverse<(Duration, u32)>>,
    calls: HashMap<u32, Call>,
    next_id: u32,
    /// Who got its permit, in order: the call's key, when it came, and when it started.
    pub(super) starts: Vec<(u64, Duration, Duration)>,
    pub(super) ended: usize,
    pub(super) sheds: Vec<Shed>,
    pub(super) refusals: Vec<Full>,
}

struct Call {
    ticket: Ticket,
    lasts: Duration,
    came: Duration,
    rank: Option<Rank>,
}

impl World {
    pub(super) fn new(limits: Limits) -> World {
        World {
            core: Core::new(limits),
            started: Instant::now(),
            now: Duration::ZERO,
            ends: BinaryHeap::new(),
            calls: HashMap::new(),
            next_id: 0,
            starts: vec![],
            ended: 0,
            sheds: vec![],
            refusals: vec![],
        }
    }

    pub(super) fn instant(&self) -> Instant {
        self.started + self.now
    }

    /// A call comes; it runs for `lasts` once it has a permit.
    pub(super) fn enter(&mut self, ticket: Ticket, lasts: Duration) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        let (entry, woken) = self.core.enter(&ticket, self.instant(), id);
        self.calls.insert(id, Call { ticket, lasts, came: self.now, rank: None });
        match entry {
            Ok(Entry::Admitted) => self.start(id),
            Ok(Entry::Queued(rank)) => self.calls.get_mut(&id).unwrap().rank = Some(rank),
            Err(full) => {
                self.refusals.push(full);
                self.calls.remove(&id);
            }
        }
        self.heard(woken);
        id
    }

    fn start(&mut self, id: u32) {
        let call = &self.calls[&id];
        self.starts.push((call.ticket.party.key, call.came, self.now));
        self.ends.push(Reverse((self.now + call.lasts, id)));
    }

    pub(super) fn heard(&mut self, woken: Woken<u32>) {
        for id in woken {
            let rank = self.calls[&id].rank.unwrap();
            match self.core.fate(&rank) {
                Fate::Granted => self.start(id),
                Fate::Shed(shed) => {
                    self.sheds.push(shed);
                    self.calls.remove(&id);
                }
                Fate::Waits(_) => panic!("woken for nothing"),
            }
        }
    }

    /// Goes to the next end of a call; false where none runs.
    pub(super) fn end_one(&mut self) -> bool {
        let Some(Reverse((end, id))) = self.ends.pop() else { return false };
        self.now = end;
        let claim = Claim::of(&self.calls.remove(&id).unwrap().ticket);
        let now = self.instant();
        let woken = self.core.leave(claim, || now);
        self.ended += 1;
        self.heard(woken);
        true
    }

    pub(super) fn until(&mut self, time: Duration) {
        while self.ends.peek().is_some_and(|Reverse((end, _))| *end <= time) {
            self.end_one();
        }
        self.now = time;
    }

    pub(super) fn drain(&mut self) {
        while self.end_one() {}
    }

    pub(super) fn waiting(&self) -> usize {
        self.core.stats().waiting
    }

    /// The longest wait of those of the keys that started at or after a time.
    pub(super) fn longest_wait(&self, from: Duration, of: impl Fn(u64) -> bool) -> Duration {
        let starts = self.starts.iter().filter(|(key, _, start)| *start >= from && of(*key));
        starts.map(|(_, came, start)| *start - *came).max().unwrap_or_default()
    }
}
