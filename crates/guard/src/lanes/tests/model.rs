//! Random histories, step by step beside the reference model.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Who waits, in order of arrival, and whose turn it is.
#[derive(Default)]
struct Model {
    waiting: Vec<(Ticket, u32)>,
    round: VecDeque<u64>,
}

impl Model {
    fn push(&mut self, ticket: Ticket, id: u32) {
        self.waiting.push((ticket, id));
        if !self.round.contains(&ticket.key) {
            self.round.push_back(ticket.key);
        }
    }

    fn remove(&mut self, id: u32) -> bool {
        let Some(at) = self.waiting.iter().position(|w| w.1 == id) else { return false };
        let key = self.waiting.remove(at).0.key;
        if self.waiting.iter().all(|w| w.0.key != key) {
            self.round.retain(|k| *k != key);
        }
        true
    }

    fn next(&mut self) -> Option<u32> {
        let key = self.round.pop_front()?;
        self.round.push_back(key);
        let mine = self.waiting.iter().filter(|w| w.0.key == key);
        // min_by_key takes the first of equals, which is the one that came first.
        let id = mine.min_by_key(|(t, _)| (t.priority, t.deadline.is_none(), t.deadline))?.1;
        self.remove(id);
        Some(id)
    }
}

#[derive(Clone, Debug)]
enum Step {
    TryEnter,
    Enter(u64, Priority, Option<u64>),
    /// A call that runs ends.
    Leave(prop::sample::Index),
    /// A call that entered the queue gives up, whether it waits still or was just handed its permit.
    GiveUp(prop::sample::Index),
    Resize(Limits),
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::High), Just(Priority::Normal), Just(Priority::Low)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::TryEnter),
        6 => (0..5_u64, priority(), prop::option::of(0..4_u64)).prop_map(|(k, p, d)| Step::Enter(k, p, d)),
        4 => any::<prop::sample::Index>().prop_map(Step::Leave),
        2 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
        1 => (0..6_usize, 0..20_usize, 0..8_usize).prop_map(|(permits, max_waiting, per_key)| {
            Step::Resize(Limits { permits, max_waiting, per_key })
        }),
    ]
}

/// The machine and the model side by side, and what the shell would know.
struct Pair {
    core: Core<u32>,
    model: Model,
    limits: Limits,
    places: Vec<(Rank, u32)>,
    running: Vec<u32>,
    started: Instant,
    next_id: u32,
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        let (core, model) = (Core::new(limits), Model::default());
        Pair { core, model, limits, places: vec![], running: vec![], started: Instant::now(), next_id: 0 }
    }

    fn step(&mut self, step: Step) {
        let now = self.started + Duration::from_millis(self.next_id.into());
        self.next_id += 1;
        match step {
            Step::TryEnter => {
                let room = self.running.len() < self.limits.permits;
                assert_eq!(self.core.try_enter(|| now), room);
                self.running.extend(room.then_some(self.next_id));
            }
            Step::Enter(key, priority, deadline) => {
                let deadline = deadline.map(|s| self.started + Duration::from_secs(s));
                self.enter(Ticket { key, priority, deadline }, now);
            }
            Step::Leave(_) if self.running.is_empty() => {}
            Step::Leave(which) => {
                self.running.swap_remove(which.index(self.running.len()));
                let next = self.core.leave(|| now);
                self.handed(next);
            }
            Step::GiveUp(_) if self.places.is_empty() => {}
            Step::GiveUp(which) => {
                let (rank, id) = self.places.swap_remove(which.index(self.places.len()));
                self.give_up(rank, id, now);
            }
            Step::Resize(limits) => {
                self.limits = limits;
                let room = limits.permits.saturating_sub(self.running.len());
                let expected: Vec<u32> = (0..room).map_while(|_| self.model.next()).collect();
                assert_eq!(self.core.resize(limits, now), expected);
                self.running.extend(expected);
            }
        }
    }

    fn enter(&mut self, ticket: Ticket, now: Instant) {
        let id = self.next_id;
        let of_key = self.model.waiting.iter().filter(|w| w.0.key == ticket.key).count();
        match self.core.enter(ticket, now, id) {
            Ok(Entry::Admitted) => {
                assert!(self.running.len() < self.limits.permits);
                self.running.push(id);
            }
            Ok(Entry::Queued(rank)) => {
                assert!(self.running.len() >= self.limits.permits);
                assert!(self.model.waiting.len() < self.limits.max_waiting && of_key < self.limits.per_key);
                self.places.push((rank, id));
                self.model.push(ticket, id);
            }
            Err(full) => {
                assert!(self.running.len() >= self.limits.permits);
                let bound = match full.reason {
                    FullReason::Queue => self.model.waiting.len() >= self.limits.max_waiting,
                    FullReason::Key => of_key >= self.limits.per_key,
                };
                assert!(bound, "refused with room left");
                assert!((1..=60).contains(&full.retry_after.as_secs()));
            }
        }
    }

    fn give_up(&mut self, rank: Rank, id: u32, now: Instant) {
        if self.model.remove(id) {
            assert_eq!(self.core.cancel(&rank), Some(id));
            return;
        }
        assert_eq!(self.core.cancel(&rank), None);
        // It has been handed its permit, unless it ran and has left since.
        if let Some(at) = self.running.iter().position(|r| *r == id) {
            self.running.swap_remove(at);
            let next = self.core.decline(|| now);
            self.handed(next);
        }
    }

    /// After one permit came back, the model says whom it goes to.
    fn handed(&mut self, next: Option<u32>) {
        let room = self.running.len() < self.limits.permits;
        assert_eq!(next, if room { self.model.next() } else { None });
        self.running.extend(next);
    }

    fn check(&mut self) {
        let stats = self.core.stats();
        assert_eq!(stats.in_flight, self.running.len(), "permits are conserved");
        assert_eq!(stats.waiting, self.model.waiting.len(), "no waiter is lost");
        assert!(
            stats.waiting == 0 || stats.in_flight >= stats.permits,
            "nobody waits while a permit is free"
        );
        assert!(stats.most_in_flight >= stats.in_flight);
        for (rank, id) in &self.places {
            let waits = self.model.waiting.iter().any(|w| w.1 == *id);
            assert_eq!(self.core.waiter(rank).is_some(), waits);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_history_is_the_models(permits in 1..5_usize, steps in vec(step(), 1..120)) {
        let mut pair = Pair::new(Limits { permits, max_waiting: 12, per_key: 6 });
        for step in steps {
            let before = pair.running.len();
            pair.step(step);
            prop_assert!(pair.running.len() <= pair.limits.permits.max(before), "over the limit");
            pair.check();
        }
        while let Some(id) = pair.running.pop() {
            let next = pair.core.leave(|| pair.started + Duration::from_secs(u64::from(id)));
            pair.handed(next);
        }
        prop_assert!(pair.model.waiting.is_empty() || pair.limits.permits == 0, "stranded in the queue");
    }

    #[test]
    fn ahead_counts_exactly_who_is_served_first(
        served_before in 0..20_usize,
        waiting in vec((0..5_u64, priority()), 0..60),
        (key, newcomers) in (0..6_u64, priority()),
    ) {
        let now = Instant::now();
        let mut core = busy(now);
        for (key, priority) in waiting {
            queued(&mut core, Ticket { key, priority, deadline: None }, now, false);
        }
        for _ in 0..served_before {
            if core.stats().waiting > 0 {
                core.leave(|| now);
            }
        }
        let newcomer = Ticket { key, priority: newcomers, deadline: None };
        let rank = queued(&mut core, newcomer, now, true);
        core.cancel(&rank);
        let ahead = core.ahead(&rank);
        queued(&mut core, newcomer, now, true);
        let order = served(&mut core, now);
        prop_assert_eq!(order.iter().position(|newcomer| *newcomer), Some(ahead));
    }
}
