//! The metrics: names that dashboards rely on, labels that stay few.
//!
//! Invariant: what a caller sends never decides how many time series there are. Protocol, fate, status, code
//! and outcome come from fixed sets, providers from the configuration, and a model gets a label of its own
//! only once a provider has answered for it, at most [`MODELS_MAX`] of them per provider; the rest is `other`.
//!
//! A call in the steady state costs atomic additions behind two read locks and three short mutexes; it
//! allocates nothing. Gauges are read from the gate when somebody scrapes, so keeping them costs nothing.

mod labels;
mod target;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, family::Family};
use prometheus_client::registry::Registry;

use super::{CallRecord, Fate};
use labels::{AttemptLabels, CallLabels, RefusalLabels, ShedLabels, TokenLabels, WaveLabels};
pub use target::{Outcome, TargetHandles};

/// Models with a label of their own, per provider.
pub const MODELS_MAX: usize = 200;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds, from a gate's own microseconds to past the longest timeout.
const BUCKETS: [f64; 21] = [
    0.000_1, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0, 900.0, 1800.0,
];

/// Upper bounds of a wave's size.
const SIZES: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// All metrics of the gate.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Families,
    refusals: RwLock<Vec<((&'static str, &'static str), Counter)>>,
    first_byte: Histogram,
    call: Histogram,
    queue: Histogram,
    log_dropped: Counter,
    gauges: Arc<Gauges>,
    targets: RwLock<HashMap<Arc<str>, Arc<TargetHandles>>>,
    untargeted: Arc<TargetHandles>,
}

/// What is counted at a provider: families whose series are made as they are needed, and histograms over all
/// providers. Cloning shares them.
#[derive(Clone, Debug)]
struct Families {
    calls: Family<CallLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    waves: Family<WaveLabels, Counter>,
    shed: Family<ShedLabels, Counter>,
    window: Histogram,
    wave_size: Histogram,
}

impl Default for Families {
    fn default() -> Self {
        Families {
            calls: Family::default(),
            refusals: Family::default(),
            attempts: Family::default(),
            tokens: Family::default(),
            waves: Family::default(),
            shed: Family::default(),
            window: Histogram::new(BUCKETS),
            wave_size: Histogram::new(SIZES),
        }
    }
}

/// What a provider's lane looks like now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderGauges {
    /// The provider's configured name.
    pub provider: Arc<str>,
    /// Calls at the provider.
    pub in_flight: u64,
    /// Calls waiting for a permit.
    pub waiting: u64,
    /// Permits there are, taken or not.
    pub permits: u64,
    /// Calls in the admission window.
    pub window: usize,
    /// What the admission window is set to, where there is one.
    pub window_limits: Option<WindowLimits>,
    /// Bytes of the requests that wait for a permit.
    pub queue_bytes: u64,
    /// The queue stands: it has not been empty for too long.
    pub stands: bool,
}

/// When an admission window lets go of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Once it holds so many calls.
    pub size: usize,
    /// Once its first call has waited for so long.
    pub time: Duration,
}

/// What the gate before all providers looks like now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateGauges {
    /// Calls that it let in.
    pub in_flight: u64,
    /// Calls that wait before it.
    pub waiting: u64,
}

/// What the gate holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Each provider's lane.
    pub providers: Vec<ProviderGauges>,
    /// The gate before all of them, where one is configured.
    pub gate: Option<GateGauges>,
    /// Memory that kept answers take, in bytes.
    pub cache_bytes: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        let families = Families::default();
        let [first_byte, call, queue] = std::array::from_fn(|_| Histogram::new(BUCKETS));
        let log_dropped = Counter::default();
        let gauges = Arc::new(Gauges::default());

        let mut registry = Registry::default();
        let mut add = Adder(&mut registry);
        add.metric("calls", "Calls that are over", families.calls.clone());
        add.metric("refusals", "Calls that the gate itself turned away", families.refusals.clone());
        add.metric("upstream_attempts", "Requests to a provider that are over", families.attempts.clone());
        add.metric("first_byte_seconds", "From a call's arrival to its first byte", first_byte.clone());
        add.metric("call_seconds", "From a call's arrival to its end", call.clone());
        add.metric("queue_seconds", "Spent waiting for a permit", queue.clone());
        add.metric("tokens", "Tokens that providers counted", families.tokens.clone());
        add.metric("waves", "Waves that an admission window let go", families.waves.clone());
        add.metric("wave_size", "Calls in a wave", families.wave_size.clone());
        add.metric("window_seconds", "Spent waiting in an admission window", families.window.clone());
        add.metric("shed", "Flights that got no permit", families.shed.clone());
        add.metric("log_dropped", "Log lines that could not be written", log_dropped.clone());
        registry.register_collector(Box::new(gauges.clone()));

        let untargeted = Arc::new(TargetHandles::new("".into(), families.clone()));
        Metrics {
            registry,
            families,
            refusals: RwLock::default(),
            first_byte,
            call,
            queue,
            log_dropped,
            gauges,
            targets: RwLock::default(),
            untargeted,
        }
    }
}

struct Adder<'a>(&'a mut Registry);

impl Adder<'_> {
    fn metric(&mut self, name: &str, help: &str, metric: impl prometheus_client::registry::Metric) {
        self.0.register(format!("sluicegate_{name}"), help, metric);
    }
}

impl Metrics {
    /// The handles of a provider. Resolve them when the configuration loads, and keep them: asking again
    /// gives the same ones.
    pub fn target(&self, provider: &str) -> Arc<TargetHandles> {
        if let Some(known) = self.targets.read().get(provider) {
            return known.clone();
        }
        let name: Arc<str> = provider.into();
        let make = || Arc::new(TargetHandles::new(name.clone(), self.families.clone()));
        self.targets.write().entry(name.clone()).or_insert_with(make).clone()
    }

    /// The handles of calls that never got as far as a provider.
    pub fn untargeted(&self) -> &Arc<TargetHandles> {
        &self.untargeted
    }

    /// Where the gauges are read from. The first source stays.
    pub fn read_gauges_from(&self, source: impl Fn() -> Levels + Send + Sync + 'static) {
        let _already_set = self.gauges.source.set(Box::new(source));
    }

    /// What the gauges are at this moment.
    pub fn levels(&self) -> Levels {
        self.gauges.levels()
    }

    /// Counts lines that the log could not take.
    pub fn log_dropped(&self) -> Counter {
        self.log_dropped.clone()
    }

    /// Everything, in the OpenMetrics text format.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut page = String::with_capacity(16 * 1024);
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }

    /// Counts a call that is over.
    pub(super) fn count(&self, record: &CallRecord, target: &TargetHandles) {
        target.count(record);
        if record.fate == Fate::Refused {
            self.refusal(record).inc();
        } else {
            self.call.observe(record.total.as_secs_f64());
        }
        if let Some(first_byte) = record.first_byte {
            self.first_byte.observe(first_byte.as_secs_f64());
        }
        // Who never was in question for a permit says nothing about the queue; who gave up waiting does.
        if record.attempts > 0 || !record.queue.is_zero() {
            self.queue.observe(record.queue.as_secs_f64());
        }
    }

    fn refusal(&self, record: &CallRecord) -> Counter {
        let error = record.error.as_ref();
        let cell = error.map_or(("unknown", ""), |error| (error.code, error.reason.unwrap_or("")));
        if let Some((_, counter)) = self.refusals.read().iter().find(|(known, _)| *known == cell) {
            return counter.clone();
        }
        let counter =
            self.families.refusals.get_or_create_owned(&RefusalLabels { code: cell.0, reason: cell.1 });
        let mut refusals = self.refusals.write();
        if !refusals.iter().any(|(known, _)| *known == cell) {
            refusals.push((cell, counter.clone()));
        }
        counter
    }
}

type Column = fn(&ProviderGauges) -> u64;
type GaugeSource = Box<dyn Fn() -> Levels + Send + Sync>;

#[derive(Default)]
struct Gauges {
    source: OnceLock<GaugeSource>,
}

impl Gauges {
    fn levels(&self) -> Levels {
        self.source.get().map_or_else(Levels::default, |read| read())
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Gauges").field("set", &self.source.get().is_some()).finish()
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let levels = self.levels();
        let columns: [(_, _, Column); 6] = [
            ("sluicegate_in_flight", "Calls at a provider", |row| row.in_flight),
            ("sluicegate_waiting", "Calls waiting for a permit", |row| row.waiting),
            ("sluicegate_permits", "Calls that may be at a provider at once", |row| row.permits),
            ("sluicegate_window_fill", "Calls in an admission window", |row| row.window as u64),
            ("sluicegate_queue_bytes", "Memory of requests that wait for a permit", |row| row.queue_bytes),
            ("sluicegate_queue_stands", "Whether a queue does not drain", |row| row.stands.into()),
        ];
        for (name, help, column) in columns {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in &levels.providers {
                let labels = [("provider", row.provider.as_ref())];
                ConstGauge::new(column(row) as i64).encode(family.encode_family(&labels)?)?;
            }
        }
        let single = [
            (
                "sluicegate_gate_in_flight",
                "Calls that the gate let in",
                levels.gate.map(|gate| gate.in_flight),
            ),
            (
                "sluicegate_gate_waiting",
                "Calls waiting before the gate",
                levels.gate.map(|gate| gate.waiting),
            ),
            ("sluicegate_cache_bytes", "Memory that kept answers take", Some(levels.cache_bytes)),
        ];
        for (name, help, value) in
            single.into_iter().filter_map(|(name, help, value)| Some((name, help, value?)))
        {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value as i64).encode(family)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
