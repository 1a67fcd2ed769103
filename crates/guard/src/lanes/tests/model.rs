//! Random histories, step by step beside the reference model.

use std::cmp::Reverse;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy)]
struct Waiter {
    ticket: Ticket,
    id: u32,
    since: Instant,
}

/// A key that waits, or owes.
struct Line {
    party: Party,
    round: u64,
    seat: u64,
    credit: i64,
}

/// Every rule of the lane, looked up in plain lists.
struct Model {
    limits: Limits,
    /// In order of arrival.
    waiting: Vec<Waiter>,
    lines: Vec<Line>,
    debts: Vec<Line>,
    round: u64,
    seats: u64,
    caps: Vec<(u64, usize)>,
    flights: Vec<(u32, Ticket)>,
}

impl Model {
    fn eligible(&self, party: Party, target: Option<u64>) -> bool {
        let of_key = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.party.key == party.key && flight.party.parallel != usize::MAX);
        let to_target = self.flights.iter().filter(|(_, flight)| flight.target == target);
        let cap = self.caps.iter().find(|(capped, _)| Some(*capped) == target);
        let key_open = party.parallel == usize::MAX || of_key.count() < party.parallel;
        key_open && cap.is_none_or(|(_, most)| to_target.count() < *most)
    }

    fn has_room(&self) -> bool {
        self.flights.len() < self.limits.permits
    }

    fn admits(&self, ticket: &Ticket) -> bool {
        self.has_room() && self.eligible(ticket.party, ticket.target)
    }

    fn push(&mut self, ticket: Ticket, id: u32, now: Instant) {
        let key = ticket.party.key;
        if let Some(line) = self.lines.iter_mut().find(|line| line.party.key == key) {
            line.party = ticket.party;
        } else {
            let debt = self.debts.iter().position(|debt| debt.party.key == key);
            let debt = debt.map(|at| self.debts.remove(at));
            self.lines.push(Line {
                party: ticket.party,
                round: debt.as_ref().map_or(0, |debt| debt.round).max(self.round + 1),
                credit: debt.map_or(i64::from(ticket.party.weight.max(1)), |debt| debt.credit),
                seat: self.seats,
            });
            self.seats += 1;
        }
        self.waiting.push(Waiter { ticket, id, since: now });
    }

    fn remove(&mut self, id: u32) -> Option<Waiter> {
        let at = self.waiting.iter().position(|waiter| waiter.id == id)?;
        let gone = self.waiting.remove(at);
        let key = gone.ticket.party.key;
        if self.waiting.iter().all(|waiter| waiter.ticket.party.key != key) {
            let at = self.lines.iter().position(|line| line.party.key == key)?;
            let line = self.lines.remove(at);
            if line.round > self.round + 1 {
                self.debts.push(line);
            }
        }
        self.forgive();
        Some(gone)
    }

    fn forgive(&mut self) {
        if self.waiting.is_empty() && self.has_room() {
            self.debts.clear();
        }
    }

    /// Who starts now that something has changed, in order.
    fn start(&mut self, newest_first: bool) -> Vec<u32> {
        let mut started = vec![];
        while self.has_room() {
            let Some(next) = self.next(newest_first) else { break };
            let line = self.lines.iter_mut().find(|line| line.party.key == next.ticket.party.key).unwrap();
            self.round = self.round.max(line.round);
            line.credit -= 1 + (next.ticket.bytes / 32_768) as i64;
            if line.credit <= 0 {
                line.round = self.round;
                line.seat = self.seats;
                self.seats += 1;
            }
            while line.credit <= 0 {
                line.credit += i64::from(line.party.weight.max(1));
                line.round += 1;
            }
            self.debts.retain(|debt| debt.round > self.round + 1);
            self.flights.push((next.id, next.ticket));
            self.remove(next.id);
            started.push(next.id);
        }
        self.forgive();
        started
    }

    fn next(&self, newest_first: bool) -> Option<Waiter> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| (line.round, line.seat));
        lines.into_iter().find_map(|line| {
            let may = |w: &&Waiter| {
                w.ticket.party.key == line.party.key && self.eligible(line.party, w.ticket.target)
            };
            let mine = self.waiting.iter().filter(may);
            if newest_first {
                mine.min_by_key(|w| (w.ticket.priority, Reverse(w.id))).copied()
            } else {
                let order =
                    |w: &&Waiter| (w.ticket.priority, w.ticket.deadline.is_none(), w.ticket.deadline, w.id);
                mine.min_by_key(order).copied()
            }
        })
    }

    /// Who gives way to this newcomer.
    fn make_room(&self, ticket: &Ticket) -> Result<Vec<u32>, FullReason> {
        let mut left = self.waiting.clone();
        let own = ticket.party.key;
        let count = |left: &[Waiter], key| left.iter().filter(|w| w.ticket.party.key == key).count();
        let bytes = |left: &[Waiter], key| {
            left.iter().filter(|w| w.ticket.party.key == key).map(|w| w.ticket.bytes).sum::<u64>()
        };
        let newest = |left: &[Waiter], key| left.iter().rposition(|w| w.ticket.party.key == key);
        if count(&left, own) >= self.limits.per_key {
            return Err(FullReason::Key);
        }
        let mut gone = vec![];
        if left.len() >= self.limits.max_waiting {
            let longest =
                left.iter().map(|w| w.ticket.party.key).max_by_key(|key| (count(&left, *key), *key));
            let longest = longest.ok_or(FullReason::Queue)?;
            if left.len() > self.limits.max_waiting || count(&left, own) + 1 >= count(&left, longest) {
                return Err(FullReason::Queue);
            }
            gone.push(left.remove(newest(&left, longest).unwrap()).id);
        }
        let mine = bytes(&left, own) + ticket.bytes;
        while !left.is_empty()
            && left.iter().map(|w| w.ticket.bytes).sum::<u64>() + ticket.bytes > self.limits.max_bytes
        {
            let heaviest =
                left.iter().map(|w| w.ticket.party.key).max_by_key(|key| (bytes(&left, *key), *key)).unwrap();
            if heaviest == own {
                return Err(FullReason::Bytes);
            }
            gone.push(left.remove(newest(&left, heaviest).unwrap()).id);
            if bytes(&left, heaviest) < mine {
                return Err(FullReason::Bytes);
            }
        }
        Ok(gone)
    }
}

#[derive(Clone, Debug)]
enum Step {
    TryEnter(Ask),
    Enter(Ask),
    /// A call that runs ends.
    Leave(prop::sample::Index),
    /// A call that entered the queue gives up: it waits still, was shed, or was just handed its permit.
    GiveUp(prop::sample::Index),
    Resize(Limits),
    Cap(u64, Option<usize>),
    UncapAllBut(u64),
}

#[derive(Clone, Debug)]
struct Ask {
    key: u64,
    weight: u32,
    parallel: usize,
    target: Option<u64>,
    bytes: u64,
    priority: Priority,
    deadline: Option<u64>,
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::High), Just(Priority::Normal), Just(Priority::Low)]
}

fn ask() -> impl Strategy<Value = Ask> {
    let parallel = prop_oneof![4 => Just(usize::MAX), 1 => 0..4_usize];
    let target = prop_oneof![2 => Just(None), 1 => (0..3_u64).prop_map(Some)];
    let bytes = prop_oneof![2 => 1..1_000_u64, 1 => 1..200_000_u64];
    let parts = (0..5_u64, 0..4_u32, parallel, target, bytes, priority(), prop::option::of(0..4_u64));
    parts.prop_map(|(key, weight, parallel, target, bytes, priority, deadline)| {
        // Mostly a key's calls agree about it.
        let weight = if weight == 0 { 2 } else { key as u32 };
        Ask { key, weight, parallel, target, bytes, priority, deadline }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let limits = (0..6_usize, 0..20_usize, 0..600_000_u64, 0..8_usize);
    prop_oneof![
        1 => ask().prop_map(Step::TryEnter),
        9 => ask().prop_map(Step::Enter),
        6 => any::<prop::sample::Index>().prop_map(Step::Leave),
        2 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
        1 => limits.prop_map(|(permits, max_waiting, max_bytes, per_key)| {
            Step::Resize(Limits { permits, max_waiting, max_bytes, per_key })
        }),
        1 => (0..3_u64, prop::option::of(0..4_usize)).prop_map(|(target, most)| Step::Cap(target, most)),
        1 => (0..4_u64).prop_map(Step::UncapAllBut),
    ]
}

/// The machine and the model side by side, and what the shell would know.
struct Pair {
    core: Core<u32>,
    model: Model,
    places: Vec<(Rank, u32, Ticket)>,
    /// Woken by the event and not yet accounted for.
    woken: Vec<u32>,
    now: Instant,
    started: Instant,
    next_id: u32,
    stood: usize,
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        let now = Instant::now();
        let model = Model {
            limits,
            waiting: vec![],
            lines: vec![],
            debts: vec![],
            round: 0,
            seats: 0,
            caps: vec![],
            flights: vec![],
        };
        let core = Core::new(limits);
        Pair { core, model, places: vec![], woken: vec![], now, started: now, next_id: 0, stood: 0 }
    }

    fn step(&mut self, step: Step, passed: u64) {
        self.now += ms(passed);
        self.next_id += 1;
        let (stands, stale) = self.core.probe(self.now);
        self.stood += usize::from(stands);
        self.stale(stale.into_vec());
        let now = self.now;
        match step {
            Step::TryEnter(ask) => {
                let ticket = self.ticket(&ask);
                let admits = self.model.admits(&ticket);
                assert_eq!(self.core.try_enter(&ticket, || now), admits);
                self.model.flights.extend(admits.then_some((self.next_id, ticket)));
            }
            Step::Enter(ask) => self.enter(self.ticket(&ask), stands),
            Step::Leave(_) if self.model.flights.is_empty() => {}
            Step::Leave(which) => {
                let (_, ticket) = self.model.flights.swap_remove(which.index(self.model.flights.len()));
                self.woken = self.core.leave(Claim::of(&ticket), || now).into_vec();
                self.started(stands);
            }
            Step::GiveUp(_) if self.places.is_empty() => {}
            Step::GiveUp(which) => {
                let (rank, id, ticket) = self.places.swap_remove(which.index(self.places.len()));
                self.give_up(rank, id, ticket, stands);
            }
            Step::Resize(limits) => {
                self.model.limits = limits;
                self.woken = self.core.resize(limits, now).into_vec();
                self.started(stands);
            }
            Step::Cap(target, most) => {
                self.model.caps.retain(|(capped, _)| *capped != target);
                self.model.caps.extend(most.map(|most| (target, most)));
                self.woken = self.core.cap(target, most, now).into_vec();
                self.started(stands);
            }
            Step::UncapAllBut(target) => {
                self.model.caps.retain(|(capped, _)| *capped == target);
                self.woken = self.core.uncap_all_but(&[target], now).into_vec();
                self.started(stands);
            }
        }
        // With every event, the wait that is too long may have got shorter.
        let stale = std::mem::take(&mut self.woken);
        self.stale(stale);
    }

    fn ticket(&self, ask: &Ask) -> Ticket {
        let Ask { key, weight, parallel, target, bytes, priority, deadline } = *ask;
        let deadline = deadline.map(|s| self.started + Duration::from_secs(s));
        Ticket { party: Party { key, weight, parallel }, target, bytes, priority, deadline }
    }

    /// Those that the queue, standing, has dropped, the oldest first.
    fn stale(&mut self, ids: Vec<u32>) {
        for id in ids {
            assert_eq!(self.model.waiting[0].id, id, "the oldest goes first");
            let waiter = self.model.remove(id).unwrap();
            assert!(self.now - waiter.since > ms(200), "dropped too early");
            assert_eq!(self.shed_reason(id), Some(ShedReason::Stale));
        }
    }

    fn shed_reason(&self, id: u32) -> Option<ShedReason> {
        let (rank, ..) = self.places.iter().find(|place| place.1 == id)?;
        self.core.shed_of(rank).map(|shed| shed.reason)
    }

    /// The first of the woken are those that the model starts.
    fn started(&mut self, stands: bool) {
        let expected = self.model.start(stands);
        assert!(self.woken.len() >= expected.len(), "{:?} started, not {expected:?}", self.woken);
        let rest = self.woken.split_off(expected.len());
        assert_eq!(std::mem::replace(&mut self.woken, rest), expected);
    }

    fn enter(&mut self, ticket: Ticket, stands: bool) {
        let id = self.next_id;
        let (entry, woken) = self.core.enter(&ticket, self.now, id);
        self.woken = woken.into_vec();
        if let Some(line) = self.model.lines.iter_mut().find(|line| line.party.key == ticket.party.key) {
            line.party = ticket.party;
            self.started(stands);
        }
        let admits = self.model.admits(&ticket);
        let room = self.model.make_room(&ticket);
        match entry {
            Ok(Entry::Admitted) => {
                assert!(admits);
                self.model.flights.push((id, ticket));
            }
            Ok(Entry::Queued(rank)) => {
                assert!(!admits, "waits and need not");
                for victim in room.expect("refused by the model") {
                    assert_eq!(self.woken.remove(0), victim);
                    self.model.remove(victim);
                    assert_eq!(self.shed_reason(victim), Some(ShedReason::Displaced));
                }
                self.places.push((rank, id, ticket));
                self.model.push(ticket, id, self.now);
            }
            Err(full) => {
                assert!(!admits, "refused and need not wait");
                assert_eq!(room.err(), Some(full.reason));
                assert!((1..=60).contains(&full.retry_after.as_secs()));
            }
        }
    }

    fn give_up(&mut self, rank: Rank, id: u32, ticket: Ticket, stands: bool) {
        let claim = Claim::of(&ticket);
        let shed = self.core.shed_of(&rank).is_some();
        let flight = self.model.flights.iter().position(|flight| flight.0 == id);
        let waits = self.model.remove(id).is_some();
        assert_eq!(self.core.is_waiting(&rank), waits);
        // If it is nowhere, it ran and has left since: nobody holds its place any more.
        if !waits && !shed && flight.is_none() {
            return;
        }
        let now = self.now;
        let (left, woken) = self.core.quit(&rank, claim, || now);
        self.woken = woken.into_vec();
        assert_eq!(left, waits.then_some(id));
        if let Some(at) = flight {
            self.model.flights.swap_remove(at);
            self.started(stands);
        }
    }

    fn check(&mut self) {
        let stats = self.core.stats();
        let model = &self.model;
        assert_eq!(stats.in_flight, model.flights.len(), "permits are conserved");
        assert_eq!(stats.waiting, model.waiting.len(), "no waiter is lost");
        assert_eq!(stats.waiting_bytes, model.waiting.iter().map(|w| w.ticket.bytes).sum::<u64>());
        assert!(
            !model.has_room() || model.next(false).is_none(),
            "nobody eligible waits while a permit is free"
        );
        assert!(stats.most_in_flight >= stats.in_flight);
    }
}

fn unlimited((key, weight, bytes, priority): (u64, u32, u64, Priority)) -> Ticket {
    Ticket { party: Party { weight, ..party(key) }, bytes, priority, ..ticket(key) }
}

/// How many are served before a newcomer to this queue, if it is, and how many it was told. Flights either end
/// as others start, or stay to count against their keys' and targets' limits for good.
fn ahead(
    served_before: usize,
    waiting: Vec<Ticket>,
    newcomer: Ticket,
    caps: &[usize],
    they_end: bool,
) -> (Option<usize>, usize) {
    let now = Instant::now();
    let mut core = busy(now);
    for (target, most) in caps.iter().enumerate() {
        core.cap(target as u64, Some(*most), now);
    }
    for ticket in waiting {
        queued(&mut core, ticket, now, Some(ticket));
    }
    let mut last = Claim::default();
    let mut serve = |core: &mut Core<Option<Ticket>>| {
        let next = core.leave(if they_end { last } else { Claim::default() }, || now).pop();
        last = next.flatten().map_or(Claim::default(), |ticket| Claim::of(&ticket));
        next
    };
    for _ in 0..served_before {
        if core.stats().in_flight > 0 {
            serve(&mut core);
        }
    }
    if core.stats().in_flight == 0 {
        return (None, 0);
    }
    let told = core.ahead(&newcomer);
    let (entry, woken) = core.enter(&newcomer, now, None);
    assert!(matches!(entry, Ok(Entry::Queued(_))) && woken.is_empty());
    let position = std::iter::from_fn(|| serve(&mut core)).position(|ticket| ticket.is_none());
    (position, told)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_history_is_the_models(
        permits in 1..5_usize,
        pace in prop_oneof![Just(5_u64), Just(150), Just(900)],
        steps in vec((step(), 0..100_u64), 1..160),
    ) {
        let mut pair = Pair::new(Limits { permits, max_waiting: 12, max_bytes: 500_000, per_key: 6 });
        for (step, passed) in steps {
            let before = pair.model.flights.len();
            pair.step(step, passed * pace / 100);
            prop_assert!(pair.model.flights.len() <= pair.model.limits.permits.max(before), "over the limit");
            pair.check();
        }
        // Whoever is left is served, once nothing stands in the way but the permits.
        for target in 0..3 {
            pair.step(Step::Cap(target, None), 0);
        }
        while let Some((_, ticket)) = pair.model.flights.pop() {
            let now = pair.now;
            let (stands, _) = pair.core.probe(now);
            pair.woken = pair.core.leave(Claim::of(&ticket), || now).into_vec();
            pair.started(stands);
            let stale = std::mem::take(&mut pair.woken);
            pair.stale(stale);
            pair.check();
        }
        let stuck = |w: &Waiter| !pair.model.eligible(
            pair.model.lines.iter().find(|line| line.party.key == w.ticket.party.key).unwrap().party,
            w.ticket.target,
        );
        prop_assert!(pair.model.limits.permits == 0 || pair.model.waiting.iter().all(stuck), "stranded");
    }

    #[test]
    fn ahead_counts_exactly_who_is_served_first(
        served_before in 0..20_usize,
        waiting in vec((0..5_u64, priority()), 0..60),
        (key, newcomers) in (0..6_u64, priority()),
    ) {
        let one = |(key, priority)| unlimited((key, 1, 0, priority));
        let waiting: Vec<_> = waiting.into_iter().map(one).collect();
        // At least one flight is out, so that the newcomer waits.
        let served_before = served_before.min(waiting.len());
        let (served, told) = ahead(served_before, waiting, one((key, newcomers)), &[], true);
        prop_assert_eq!(served, Some(told));
    }

    #[test]
    fn ahead_never_counts_too_many(
        served_before in 0..20_usize,
        waiting in vec((0..5_u64, 0..150_000_u64, priority()), 0..60),
        weights in [1..5_u32, 1..5, 1..5, 1..5, 1..5, 1..5],
        (key, bytes, newcomers) in (0..6_u64, 0..150_000_u64, priority()),
    ) {
        let one = |(key, bytes, priority)| unlimited((key, weights[key as usize], bytes, priority));
        let served_before = served_before.min(waiting.len());
        let waiting = waiting.into_iter().map(one).collect();
        let (served, told) = ahead(served_before, waiting, one((key, bytes, newcomers)), &[], true);
        let served = served.expect("nothing but permits stands in the way");
        prop_assert!(told <= served, "{} told, {} served", told, served);
        prop_assert!(served <= told + 6 * 5, "{} told, {} served: at most one turn of each", told, served);
    }

    #[test]
    fn ahead_counts_nobody_who_may_be_passed_over(
        served_before in 0..20_usize,
        waiting in vec((0..5_u64, 0..100_000_u64, priority(), prop::option::of(0..3_u64)), 0..40),
        parallel in [0..20_usize, 0..20, 0..20, 0..20, 0..20, 0..20],
        caps in [0..10_usize, 0..10, 0..10],
        newcomer in (0..6_u64, 0..100_000_u64, priority(), prop::option::of(0..3_u64)),
        they_end in any::<bool>(),
    ) {
        let one = |(key, bytes, priority, target)| {
            let parallel = Some(parallel[key as usize]).filter(|few| *few < 15).unwrap_or(usize::MAX);
            let party = Party { parallel, ..party(key) };
            Ticket { party, target, ..unlimited((key, 1, bytes, priority)) }
        };
        let waiting = waiting.into_iter().map(one).collect();
        let (served, told) = ahead(served_before, waiting, one(newcomer), &caps, they_end);
        prop_assert!(served.is_none_or(|served| told <= served), "{} told, {:?} served", told, served);
    }
}
