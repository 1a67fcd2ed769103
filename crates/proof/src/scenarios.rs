//! One function per figure. The relay's round and the gate's follow each other closely, again and
//! again, so that whatever else the machine does meets both.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lab::procfs::{Cpu, Memory};
use tokio::time::{Instant, sleep};

use crate::fate::{Fate, Fates};
use crate::load::{Load, Round, Which, arrived, one_call};
use crate::process::{Process, Proxy, Speaks};
use crate::report::{Of, Row};
use crate::shapes::{Prompts, StreamShape};
use crate::stats::{percentile, sorted};
use crate::streams::Streams;

/// After a round: what a proxy still does for calls that it has answered belongs to them.
const SETTLE: Duration = Duration::from_millis(150);
const OPEN_LIMIT: Duration = Duration::from_secs(30);

pub const SCENARIOS: [&str; 25] = [
    "cpu-small",
    "cpu-large",
    "cpu-small-alone",
    "cpu-large-alone",
    "cpu-joined",
    "cpu-hit",
    "cpu-chunk",
    "cpu-translated",
    "cpu-translated-chunk",
    "cpu-1000rps",
    "cpu-1000rps-alone",
    "latency-1",
    "saturation",
    "memory",
    "cache-memory",
    "fates",
    "start",
    "flow-wave",
    "flow-groups",
    "flow-closed",
    "flow-overload",
    "flow-flood",
    "flow-fairness",
    "flow-leaks",
    "flow-drain",
];

/// Variables for a gate that shares no call and keeps no answer.
const ALONE: [(&str, &str); 2] =
    [("SLUICEGATE_COALESCE__ENABLED", "false"), ("SLUICEGATE_CACHE__WHEN", "never")];

/// How much of everything.
#[derive(Clone, Copy)]
pub struct Sizes {
    rounds: usize,
    /// Of closed-loop CPU, where a round is short and the machine's other work shows most.
    busy_rounds: usize,
    pub(crate) small_calls: usize,
    large_calls: usize,
    /// Of equal calls at the same time, in a round.
    pub(crate) waves: usize,
    /// Bounds of the cache, in MiB.
    pub(crate) caches: &'static [usize],
    pub(crate) kept_calls: usize,
    pub(crate) random_calls: usize,
    pub(crate) flow: crate::flow::Sizes,
    chunks: u32,
    paced_calls: usize,
    single_calls: usize,
    restarts: usize,
}

impl Sizes {
    pub const FULL: Self = Self {
        rounds: 5,
        busy_rounds: 15,
        small_calls: 20_000,
        large_calls: 5_000,
        waves: 100,
        caches: &[64, 256],
        kept_calls: 1_000_000,
        random_calls: 100_000,
        flow: crate::flow::Sizes::FULL,
        chunks: 200,
        paced_calls: 12_000,
        single_calls: 3_000,
        restarts: 3,
    };

    pub const QUICK: Self = Self {
        rounds: 2,
        busy_rounds: 5,
        small_calls: 10_000,
        large_calls: 2_000,
        waves: 40,
        caches: &[64],
        kept_calls: 100_000,
        random_calls: 20_000,
        flow: crate::flow::Sizes::QUICK,
        chunks: 60,
        paced_calls: 2_500,
        single_calls: 1_000,
        restarts: 1,
    };
}

/// The three processes, started once and warmed up.
pub struct Bench {
    pub(crate) upstream: Process,
    pub(crate) relay: Process,
    pub(crate) gate: Process,
    pub(crate) gate_kind: Proxy,
    pub(crate) sizes: Sizes,
}

/// The fate that a gate's calls must have had, and how many of a hundred at least, for their round to count.
#[derive(Clone, Copy)]
pub(crate) struct Mostly(pub(crate) Fate, pub(crate) usize);

impl Bench {
    pub async fn start(gate_kind: Proxy, sizes: Sizes) -> Result<Self> {
        let upstream = Process::upstream().await?;
        let relay = Process::proxy(&Proxy::Relay, upstream.addr).await?;
        let gate = Process::proxy(&gate_kind, upstream.addr).await?;
        let bench = Self { upstream, relay, gate, gate_kind, sizes };
        for process in [&bench.relay, &bench.gate] {
            bench.round(process, &closed(Prompts::small(), 64, 2_000)).await?;
        }
        Ok(bench)
    }

    pub async fn run(&self, scenario: &'static str) -> Vec<Row> {
        let rows = match scenario {
            "cpu-small" => self.cpu_small().await,
            "cpu-large" => self.cpu_large().await,
            "cpu-small-alone" => self.cpu_small_alone().await,
            "cpu-large-alone" => self.cpu_large_alone().await,
            "cpu-joined" => self.cpu_joined().await,
            "cpu-hit" => self.cpu_hit().await,
            "cpu-chunk" => self.cpu_chunk().await,
            "cpu-translated" => self.cpu_translated().await,
            "cpu-translated-chunk" => self.cpu_translated_chunk().await,
            "cpu-1000rps" => self.cpu_paced().await,
            "cpu-1000rps-alone" => self.cpu_alone("cpu-1000rps-alone", &self.paced(), 1.6).await,
            "latency-1" => self.latency().await,
            "saturation" => self.saturation().await,
            "memory" => self.memory().await,
            "cache-memory" => self.cache_memory().await,
            "fates" => self.fates().await,
            "start" => self.first_answer().await,
            _ if scenario.starts_with("flow-") => Box::pin(self.flow(scenario)).await,
            _ => Ok(Vec::new()),
        };
        rows.unwrap_or_else(|error| vec![Row::error(scenario, &error)])
    }

    async fn cpu_small(&self) -> Result<Vec<Row>> {
        let load = closed(Prompts::small(), 64, self.sizes.small_calls);
        let lines = self.gate.log_lines();
        let row = self.cpu_of_calls("cpu-small", &self.gate, &load, MISSES, 1.5).await?;
        // Shows whether the gate logged while it was measured, as it must have.
        let logged = self.gate.log_lines().saturating_sub(lines);
        let calls = self.sizes.small_calls * self.sizes.busy_rounds;
        Ok(vec![row.note(format!("the measured side logged {logged} lines for {calls} calls"))])
    }

    async fn cpu_large(&self) -> Result<Vec<Row>> {
        let load = closed(Prompts::large(), 64, self.sizes.large_calls);
        Ok(vec![self.cpu_of_calls("cpu-large", &self.gate, &load, MISSES, 2.0).await?])
    }

    async fn cpu_small_alone(&self) -> Result<Vec<Row>> {
        let load = closed(Prompts::small(), 64, self.sizes.small_calls);
        self.cpu_alone("cpu-small-alone", &load, 1.4).await
    }

    async fn cpu_large_alone(&self) -> Result<Vec<Row>> {
        let load = closed(Prompts::large(), 64, self.sizes.large_calls);
        self.cpu_alone("cpu-large-alone", &load, 1.6).await
    }

    /// A gate of its own, with what finds out whether calls are equal switched off.
    async fn cpu_alone(&self, scenario: &'static str, load: &Load, limit: f64) -> Result<Vec<Row>> {
        let gate = Process::proxy_with(&self.gate_kind, self.upstream.addr, Speaks::Chat, &ALONE).await?;
        self.round(&gate, &closed(Prompts::small(), 64, 2_000)).await?;
        let bypasses = Mostly(Fate::Bypass, 100);
        Ok(vec![self.cpu_of_calls(scenario, &gate, load, bypasses, limit).await?])
    }

    /// A gate of its own, whose provider speaks the other protocol. The relay passes on what needs no translation.
    async fn translating(&self) -> Result<Process> {
        Process::proxy_with(&self.gate_kind, self.upstream.addr, Speaks::Messages, &[]).await
    }

    async fn cpu_translated(&self) -> Result<Vec<Row>> {
        let gate = self.translating().await?;
        let load = Load { translated: true, ..closed(Prompts::small(), 64, self.sizes.small_calls) };
        self.round(&gate, &Load { calls: 2_000, ..load.clone() }).await?;
        Ok(vec![self.cpu_of_calls("cpu-translated", &gate, &load, MISSES, 3.0).await?])
    }

    async fn cpu_translated_chunk(&self) -> Result<Vec<Row>> {
        let gate = self.translating().await?;
        Ok(vec![self.cpu_of_chunks("cpu-translated-chunk", &gate, Streams::start_translated, 2.5).await?])
    }

    async fn cpu_paced(&self) -> Result<Vec<Row>> {
        Ok(vec![self.cpu_of_calls("cpu-1000rps", &self.gate, &self.paced(), MISSES, 1.6).await?])
    }

    /// A call each millisecond.
    fn paced(&self) -> Load {
        let interval = Duration::from_millis(1);
        Load { interval: Some(interval), ..closed(Prompts::small(), 64, self.sizes.paced_calls) }
    }

    pub(crate) async fn cpu_of_calls(
        &self,
        scenario: &'static str,
        gate: &Process,
        load: &Load,
        mostly: Mostly,
        limit: f64,
    ) -> Result<Row> {
        let rounds = if load.interval.is_none() { self.sizes.busy_rounds } else { self.sizes.rounds };
        let fates = Cell::new(Fates::default());
        let [relay, gate] = self
            .alternate(rounds, [&self.relay, gate], async |process| {
                let before = Cpu::of(process.pid())?;
                let round = self.round(process, load).await?;
                sleep(SETTLE).await;
                let spent = Cpu::of(process.pid())?.since(before);
                if let Some(interval) = load.interval {
                    let planned = interval.mul_f64(load.calls as f64);
                    ensure!(round.wall < planned.mul_f64(1.1), "the rate was not kept: {:?}", round.wall);
                }
                if process.admin.is_some() {
                    mostly.check(&round.fates)?;
                    let mut all = fates.get();
                    all += round.fates;
                    fates.set(all);
                }
                Ok(micros(spent) / load.calls as f64)
            })
            .await?;
        let row =
            Row::info(scenario, "CPU µs per call", &relay, &gate).claim(Of::Ratio, &relay, &gate, limit);
        let fates = fates.get();
        Ok(if mostly.1 == 100 || fates.total() == 0 { row } else { row.note(fates.to_string()) })
    }

    /// Counted in a window in which all streams are open, so that opening them does not count.
    async fn cpu_chunk(&self) -> Result<Vec<Row>> {
        Ok(vec![self.cpu_of_chunks("cpu-chunk", &self.gate, Streams::start, 1.25).await?])
    }

    async fn cpu_of_chunks(
        &self,
        scenario: &'static str,
        gate: &Process,
        open: impl Fn(SocketAddr, usize, StreamShape, Duration) -> Streams,
        limit: f64,
    ) -> Result<Row> {
        let shape = StreamShape { chunks: self.sizes.chunks, every: Duration::from_millis(40), size: 220 };
        let whole = shape.every * shape.chunks;
        let [relay, gate] = self
            .alternate(self.sizes.rounds, [&self.relay, gate], async |process| {
                let start = Instant::now();
                let mut streams = open(process.addr, 500, shape, shape.every * 10);
                streams.all_open(OPEN_LIMIT).await?;
                let (chunks, before) = (streams.chunks(shape), Cpu::of(process.pid())?);
                let window = whole.saturating_sub(start.elapsed() + shape.every * 2);
                ensure!(window > whole / 3, "the streams opened too slowly");
                sleep(window).await;
                let (chunks, after) = (streams.chunks(shape) - chunks, Cpu::of(process.pid())?);
                streams.all_ended(OPEN_LIMIT).await?;
                Ok(micros(after.since(before)) / chunks)
            })
            .await?;
        Ok(Row::info(scenario, "CPU µs per chunk", &relay, &gate).claim(Of::Ratio, &relay, &gate, limit))
    }

    async fn latency(&self) -> Result<Vec<Row>> {
        let load = closed(Prompts::small(), 1, self.sizes.single_calls);
        let all =
            self.alternate(self.sizes.rounds, [&self.upstream, &self.relay, &self.gate], async |process| {
                Ok(millis(&self.round(process, &load).await?))
            });
        let all = all.await?;
        let row = |what, share, limit| {
            let [direct, relay, gate] = all.each_ref().map(|rounds| at(rounds, share));
            Row::info("latency-1", what, &relay, &gate).direct(&direct).claim(
                Of::Difference,
                &relay,
                &gate,
                limit,
            )
        };
        Ok(vec![row("p50 ms", 0.50, 0.06), row("p99 ms", 0.99, 0.15)])
    }

    async fn saturation(&self) -> Result<Vec<Row>> {
        let load = closed(Prompts::small(), 256, self.sizes.small_calls);
        let all =
            self.alternate(self.sizes.rounds, [&self.upstream, &self.relay, &self.gate], async |process| {
                let round = self.round(process, &load).await?;
                Ok(Loaded { rate: load.calls as f64 / round.wall.as_secs_f64(), took: millis(&round) })
            });
        let all = all.await?;
        let row = |what, value: &dyn Fn(&Loaded) -> f64| {
            let [direct, relay, gate] =
                all.each_ref().map(|rounds| rounds.iter().map(value).collect::<Vec<_>>());
            Row::info("saturation", what, &relay, &gate).direct(&direct)
        };
        Ok(vec![
            row("calls/s, 256 connections", &|round| round.rate),
            row("p50 ms", &|round| percentile(&round.took, 0.50)),
            row("p99 ms", &|round| percentile(&round.took, 0.99)),
            row("p99.9 ms", &|round| percentile(&round.took, 0.999)),
        ])
    }

    /// Fresh processes: memory that an earlier scenario had claimed would hide what streams take.
    async fn memory(&self) -> Result<Vec<Row>> {
        const STREAMS: usize = 2_000;
        let shape = StreamShape { chunks: 2, every: Duration::from_secs(600), size: 220 };
        let mut seen = [Vec::new(), Vec::new()];
        for _ in 0..self.sizes.restarts {
            for (kind, seen) in [&Proxy::Relay, &self.gate_kind].into_iter().zip(&mut seen) {
                let process = Process::proxy(kind, self.upstream.addr).await?;
                sleep(Duration::from_secs(1)).await;
                let idle = Memory::of(process.pid())?;
                self.round(&process, &closed(Prompts::small(), 1, 200)).await?;
                let before = Memory::of(process.pid())?;
                let mut streams = Streams::start(process.addr, STREAMS, shape, Duration::from_secs(2));
                streams.all_open(OPEN_LIMIT).await?;
                sleep(Duration::from_secs(1)).await;
                let open = Memory::of(process.pid())?;
                seen.push((idle, (open.rss - before.rss) / STREAMS as f64));
            }
        }
        let row = |scenario, what, value: &dyn Fn(&(Memory, f64)) -> f64, limit| {
            let [relay, gate] = seen.each_ref().map(|runs| runs.iter().map(value).collect::<Vec<_>>());
            let row = Row::info(scenario, what, &relay, &gate);
            if let Some(limit) = limit { row.claim(Of::Gate, &relay, &gate, limit) } else { row }
        };
        Ok(vec![
            row("idle-streams", "KiB RSS per stream", &|(_, stream)| *stream, Some(28.0)),
            row("idle-rss", "MiB RSS", &|(idle, _)| idle.rss / 1024.0, Some(12.0)),
            row("idle-rss", "MiB PSS", &|(idle, _)| idle.pss / 1024.0, None),
        ])
    }

    async fn first_answer(&self) -> Result<Vec<Row>> {
        let prompts = Prompts::small();
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..=self.sizes.restarts * 2 {
            for (kind, took) in [&Proxy::Relay, &self.gate_kind].into_iter().zip(&mut took) {
                let process = Process::proxy(kind, self.upstream.addr).await?;
                one_call(process.addr, &prompts).await?;
                took.push(process.since.elapsed().as_secs_f64() * 1e3);
            }
        }
        let [relay, gate] = took;
        Ok(vec![Row::info("start", "ms to first answer", &relay, &gate).claim(Of::Gate, &relay, &gate, 50.0)])
    }

    /// Measures the processes in turn, `rounds` times over: one list of figures for each process.
    pub(crate) async fn alternate<T, const N: usize>(
        &self,
        rounds: usize,
        processes: [&Process; N],
        measure: impl AsyncFn(&Process) -> Result<T>,
    ) -> Result<[Vec<T>; N]> {
        let mut figures = std::array::from_fn(|_| Vec::new());
        for _ in 0..rounds {
            for (process, figures) in processes.into_iter().zip(&mut figures) {
                figures.push(measure(process).await?);
            }
        }
        Ok(figures)
    }

    /// A round of calls. Unless a gate may share them, each must reach the upstream once: an answer from
    /// anywhere else would make the figure meaningless. Shared ones must not: the upstream's count is
    /// then that of the answers that say they are its own.
    pub(crate) async fn round(&self, process: &Process, load: &Load) -> Result<Round> {
        let before = arrived(self.upstream.addr).await?;
        let round = load.run(process.addr).await?;
        let upstream_calls = arrived(self.upstream.addr).await? - before;
        let (calls, is_gate) = (load.calls as u64, process.admin.is_some());
        if load.which == Which::Distinct || !is_gate {
            ensure!(upstream_calls == calls, "{calls} calls made {upstream_calls} upstream");
        }
        if is_gate {
            let fates = round.fates;
            ensure!(
                upstream_calls == fates.upstream(),
                "{upstream_calls} upstream calls were made by {fates}"
            );
        }
        Ok(round)
    }
}

/// A round at saturation: calls per second, latencies in ms, sorted.
struct Loaded {
    rate: f64,
    took: Vec<f64>,
}

const MISSES: Mostly = Mostly(Fate::Miss, 100);

impl Mostly {
    fn check(self, fates: &Fates) -> Result<()> {
        let Self(fate, least) = self;
        let enough = fates[fate] * 100 >= fates.total() * least as u64;
        ensure!(enough, "too few had the fate that is measured, {fate:?}: {fates}");
        Ok(())
    }
}

pub(crate) fn closed(prompts: Prompts, connections: usize, calls: usize) -> Load {
    Load {
        prompts: Arc::new(prompts),
        which: Which::Distinct,
        connections,
        calls,
        interval: None,
        delay: None,
        no_store: false,
        translated: false,
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The latencies of a round in ms, sorted.
fn millis(round: &Round) -> Vec<f64> {
    sorted(round.took.iter().map(|took| took.as_secs_f64() * 1e3))
}

/// The same percentile of each round.
fn at(rounds: &[Vec<f64>], share: f64) -> Vec<f64> {
    rounds.iter().map(|round| percentile(round, share)).collect()
}
