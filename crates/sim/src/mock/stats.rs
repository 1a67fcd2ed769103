//! Exact counts of what arrived, and of who went away.
//!
//! Invariant: every call is in flight from its head's arrival until its last byte was handed over or it was
//! dropped; a [`Call`] gives its place back when dropped, so cancellation needs no code. Calls on control
//! paths never come here, and a connection counts from its first call that is not one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

/// Paths counted by name; the rest share one row, so that a scan cannot fill the memory.
const MOST_PATHS: usize = 256;
const OTHER_PATHS: &str = "(other paths)";
/// Calls with at least so long between them are of two groups.
const GROUP_GAP: Duration = Duration::from_millis(2);
/// Hang-ups whose time is kept; all are counted.
const MOST_TIMES: usize = 1_000;

/// What `GET /__stats` tells.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    pub arrived: u64,
    pub in_flight: u64,
    pub most_in_flight: u64,
    /// By status, or by what came instead of one: `hang`, `reset`, `left` (hung up before there was one).
    pub by_status: BTreeMap<String, u64>,
    pub by_path: BTreeMap<String, PathStats>,
    pub hang_ups: HangUps,
    pub connections: Connections,
    pub groups: Groups,
}

/// Calls that came one upon the other: less than two milliseconds after the one before.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Groups {
    pub count: u64,
    pub largest: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct PathStats {
    pub arrived: u64,
    pub by_status: BTreeMap<String, u64>,
}

/// Clients that went away before they had their whole answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HangUps {
    pub count: u64,
    /// Seconds since the start or the last reset; the first thousand.
    pub times: Vec<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Connections {
    /// That carried a call, or were closed without one.
    pub opened: u64,
    pub open: u64,
    pub most_open: u64,
    /// That carried a call since the start or the last reset, whenever they were opened.
    pub used: u64,
    /// Open, and nothing has come on them yet.
    pub unused: u64,
    pub most_calls_on_one: u64,
}

pub(crate) struct Counters {
    state: Mutex<State>,
}

struct State {
    stats: Stats,
    since: Instant,
    /// When the last call came, and how many the group has that it belongs to.
    last: Option<(Instant, u64)>,
    /// Raised by a reset; calls that began before it end uncounted.
    era: u64,
}

impl Counters {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { stats: Stats::default(), since: Instant::now(), last: None, era: 0 }),
        })
    }

    pub(crate) fn snapshot(&self) -> Stats {
        self.state.lock().stats.clone()
    }

    /// Counts start again; what is open or in flight now stays so.
    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        let Stats { in_flight, connections, .. } = &state.stats;
        let connections = Connections {
            opened: 0,
            most_open: connections.open,
            used: 0,
            most_calls_on_one: 0,
            ..connections.clone()
        };
        let (in_flight, most_in_flight) = (*in_flight, *in_flight);
        state.stats = Stats { in_flight, most_in_flight, connections, ..Stats::default() };
        state.since = Instant::now();
        state.last = None;
        state.era += 1;
    }

    /// Counts a call, and lets it in unless that would put more than `most` in flight.
    pub(crate) fn arrive(self: &Arc<Self>, path: &str, most: Option<u64>) -> Call {
        let mut state = self.state.lock();
        let State { stats, era, last, .. } = &mut *state;
        let now = Instant::now();
        let before = last.filter(|(at, _)| now.duration_since(*at) < GROUP_GAP).map_or(0, |(_, size)| size);
        *last = Some((now, before + 1));
        stats.groups.count += u64::from(before == 0);
        stats.groups.largest = stats.groups.largest.max(before + 1);
        let known = stats.by_path.contains_key(path) || stats.by_path.len() < MOST_PATHS;
        let path = if known { path } else { OTHER_PATHS };
        stats.arrived += 1;
        match stats.by_path.get_mut(path) {
            Some(row) => row.arrived += 1,
            None => {
                let row = PathStats { arrived: 1, ..PathStats::default() };
                stats.by_path.insert(path.to_owned(), row);
            }
        }
        let admitted = most.is_none_or(|most| stats.in_flight < most);
        if admitted {
            stats.in_flight += 1;
            stats.most_in_flight = stats.most_in_flight.max(stats.in_flight);
        }
        Call { counters: self.clone(), path: path.to_owned(), era: *era, admitted, fate: None, done: false }
    }

    pub(crate) fn connect(self: &Arc<Self>) -> Connection {
        self.state.lock().stats.connections.unused += 1;
        Connection { counters: self.clone(), use_: Mutex::new(Use::Unused), used_in: Mutex::new(None) }
    }
}

/// One call's place in the counts.
#[must_use = "a dropped call has ended"]
pub(crate) struct Call {
    counters: Arc<Counters>,
    path: String,
    era: u64,
    admitted: bool,
    fate: Option<Fate>,
    done: bool,
}

/// What a call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Status(u16),
    Hang,
    Reset,
}

impl Fate {
    fn label(self) -> String {
        match self {
            Self::Status(code) => code.to_string(),
            Self::Hang => "hang".into(),
            Self::Reset => "reset".into(),
        }
    }
}

impl Call {
    /// Whether there was room for it.
    pub(crate) fn admitted(&self) -> bool {
        self.admitted
    }

    /// Books what the call got; only the first counts.
    pub(crate) fn meets(&mut self, fate: Fate) {
        if self.fate.replace(fate).is_none() {
            self.book(&fate.label());
        }
    }

    /// All was handed over, or the mock itself broke it off: from here on, going away is no hang-up.
    pub(crate) fn finish(mut self) {
        self.done = true;
    }

    fn book(&self, label: &str) {
        let mut state = self.counters.state.lock();
        if state.era != self.era {
            return;
        }
        add(&mut state.stats.by_status, label);
        if let Some(row) = state.stats.by_path.get_mut(&self.path) {
            add(&mut row.by_status, label);
        }
    }
}

fn add(counts: &mut BTreeMap<String, u64>, label: &str) {
    match counts.get_mut(label) {
        Some(count) => *count += 1,
        None => {
            counts.insert(label.to_owned(), 1);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.fate.is_none() {
            self.book("left");
        }
        let mut state = self.counters.state.lock();
        let state = &mut *state;
        if self.admitted {
            state.stats.in_flight -= 1;
        }
        if !self.done && state.era == self.era {
            let hang_ups = &mut state.stats.hang_ups;
            hang_ups.count += 1;
            if hang_ups.times.len() < MOST_TIMES {
                hang_ups.times.push(state.since.elapsed().as_secs_f64());
            }
        }
    }
}

/// One connection's place in the counts.
pub(crate) struct Connection {
    counters: Arc<Counters>,
    use_: Mutex<Use>,
    /// The era in which it was last counted as used.
    used_in: Mutex<Option<u64>>,
}

#[derive(Clone, Copy)]
enum Use {
    Unused,
    Control,
    Calls(u64),
}

impl Connection {
    pub(crate) fn carries_control(&self) {
        let mut use_ = self.use_.lock();
        if let Use::Unused = *use_ {
            self.counters.state.lock().stats.connections.unused -= 1;
            *use_ = Use::Control;
        }
    }

    pub(crate) fn carries_call(&self) {
        let mut use_ = self.use_.lock();
        let mut state = self.counters.state.lock();
        let era = state.era;
        let connections = &mut state.stats.connections;
        connections.used += u64::from(self.used_in.lock().replace(era) != Some(era));
        let calls = match *use_ {
            Use::Calls(calls) => calls + 1,
            Use::Unused | Use::Control => {
                if let Use::Unused = *use_ {
                    connections.unused -= 1;
                }
                connections.opened += 1;
                connections.open += 1;
                connections.most_open = connections.most_open.max(connections.open);
                1
            }
        };
        connections.most_calls_on_one = connections.most_calls_on_one.max(calls);
        *use_ = Use::Calls(calls);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.counters.state.lock();
        let connections = &mut state.stats.connections;
        match *self.use_.lock() {
            Use::Unused => {
                connections.unused -= 1;
                connections.opened += 1;
            }
            Use::Control => {}
            Use::Calls(_) => connections.open -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_are_counted_by_path_and_status() {
        let counters = Counters::new();
        let mut first = counters.arrive("/a", None);
        let mut second = counters.arrive("/a", None);
        first.meets(Fate::Status(200));
        second.meets(Fate::Status(503));
        first.finish();
        second.finish();
        let stats = counters.snapshot();
        assert_eq!((stats.arrived, stats.in_flight, stats.most_in_flight), (2, 0, 2));
        assert_eq!(stats.by_path["/a"].by_status["200"], 1);
        assert_eq!(stats.by_status["503"], 1);
        assert_eq!(stats.hang_ups.count, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_is_a_hang_up_and_gives_its_place_back() {
        let counters = Counters::new();
        drop(counters.arrive("/a", Some(1)));
        let stats = counters.snapshot();
        assert_eq!((stats.in_flight, stats.hang_ups.count, stats.by_status["left"]), (0, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_are_in_flight() {
        let counters = Counters::new();
        let first = counters.arrive("/a", Some(1));
        let second = counters.arrive("/a", Some(1));
        assert!(first.admitted() && !second.admitted());
        second.finish();
        let stats = counters.snapshot();
        assert_eq!((stats.arrived, stats.in_flight, stats.most_in_flight), (2, 1, 1));
        drop(first);
        assert!(counters.arrive("/a", Some(1)).admitted());
    }

    #[tokio::test(start_paused = true)]
    async fn control_connections_do_not_count() {
        let counters = Counters::new();
        let control = counters.connect();
        control.carries_control();
        let client = counters.connect();
        client.carries_call();
        client.carries_call();
        let idle = counters.connect();
        let connections = counters.snapshot().connections;
        assert_eq!((connections.opened, connections.open, connections.unused), (1, 1, 1));
        assert_eq!((connections.most_open, connections.most_calls_on_one), (1, 2));
        drop((control, client, idle));
        let connections = counters.snapshot().connections;
        assert_eq!((connections.opened, connections.open, connections.unused), (2, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_forgets_counts_but_not_what_is_running() {
        let counters = Counters::new();
        let mut call = counters.arrive("/a", None);
        counters.reset();
        assert_eq!(counters.snapshot().in_flight, 1);
        call.meets(Fate::Status(200));
        drop(call);
        let stats = counters.snapshot();
        assert_eq!((stats.arrived, stats.in_flight, stats.hang_ups.count), (0, 0, 0));
        assert!(stats.by_status.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_scan_cannot_fill_the_memory() {
        let counters = Counters::new();
        for path in 0..2 * MOST_PATHS {
            counters.arrive(&format!("/{path}"), None).finish();
        }
        let stats = counters.snapshot();
        assert_eq!(stats.arrived, 2 * MOST_PATHS as u64);
        assert_eq!(stats.by_path.len(), MOST_PATHS + 1);
    }
}
