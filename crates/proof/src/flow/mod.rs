//! Whether the gate turns a spike into a flow: its window, cap, queue and door before a provider that counts what
//! reaches it. Calls go directly and through the gate in the same run; each figure stands beside its limit, and one that
//! is a share "short" of an ideal says how many percent.

pub mod book;
pub mod drive;

mod drain;
mod fairness;
mod flood;
mod groups;
mod leaks;
mod overload;
mod wave;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::book::{Counts, FLOW_PATH, FLOW_RESET_PATH};
use self::drive::{Ask, Pace, Plan, Run, Seen};
use crate::load::fetch;
use crate::process::{Process, Proxy, Speaks};
use crate::report::{Claim, Of, Row, Verdict};
use crate::scenarios::Bench;
use crate::stats::{percentile, sorted};

/// How much of everything.
#[derive(Clone, Copy)]
pub struct Sizes {
    rounds: usize,
    /// Of closed and open loops.
    lasting: Duration,
    flood: Duration,
    fairness: Duration,
    leaks: usize,
}

impl Sizes {
    pub const FULL: Self = Self {
        rounds: 5,
        lasting: Duration::from_secs(10),
        flood: Duration::from_secs(60),
        fairness: Duration::from_secs(30),
        leaks: 100_000,
    };

    pub const QUICK: Self = Self {
        rounds: 3,
        lasting: Duration::from_secs(4),
        flood: Duration::from_secs(10),
        fairness: Duration::from_secs(10),
        leaks: 10_000,
    };
}

/// A gate's setting, as a variable.
type Setting = (&'static str, &'static str);

const WINDOW: [Setting; 3] = [
    ("SLUICEGATE_WINDOW__ENABLED", "true"),
    ("SLUICEGATE_WINDOW__MAX_SIZE", "16"),
    ("SLUICEGATE_WINDOW__MAX_WAIT", "20ms"),
];

impl Bench {
    pub(crate) async fn flow(&self, scenario: &'static str) -> Result<Vec<Row>> {
        if matches!(self.gate_kind, Proxy::Relay) {
            return Ok(vec![Row::info(scenario, "a relay shapes no flow", &[], &[])]);
        }
        match scenario {
            "flow-wave" => self.flow_wave().await,
            "flow-groups" => self.flow_groups().await,
            "flow-closed" => self.flow_closed().await,
            "flow-overload" => self.flow_overload().await,
            "flow-flood" => self.flow_flood().await,
            "flow-fairness" => self.flow_fairness().await,
            "flow-leaks" => self.flow_leaks().await,
            "flow-drain" => self.flow_drain().await,
            _ => Ok(Vec::new()),
        }
    }

    /// A fresh gate with these settings.
    async fn flow_gate(&self, settings: &[Setting]) -> Result<Process> {
        let gate = Process::proxy_with(&self.gate_kind, self.upstream.addr, Speaks::Chat, settings).await?;
        // Code that was never run, and the connection to the provider.
        Plan::new(Pace::Closed(Duration::from_millis(300)), 8, |_| Ask::default())
            .most(500)
            .run(gate.addr)
            .await?;
        Ok(gate)
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(serde_json::from_str(&fetch(self.upstream.addr, FLOW_PATH).await?)?)
    }

    async fn reset_counts(&self) -> Result<()> {
        fetch(self.upstream.addr, FLOW_RESET_PATH).await.map(drop)
    }

    /// How long the provider takes for a call, by `callers` who call it directly, each when it has its answer.
    async fn service(&self, callers: usize, delay: u64, lasting: Duration) -> Result<Service> {
        Self::service_of(&self.upstream, callers, delay, lasting).await
    }

    async fn service_of(process: &Process, callers: usize, delay: u64, lasting: Duration) -> Result<Service> {
        let plan = Plan::new(Pace::Closed(lasting), callers, move |_| Ask { delay, ..Ask::default() });
        let run = plan.run(process.addr).await?;
        all_whole(&run.calls, "of eight callers")?;
        let took = sorted(run.calls.iter().map(Seen::ms));
        let ms = took.iter().sum::<f64>() / took.len() as f64;
        Ok(Service { ms, p99: percentile(&took, 0.99) })
    }

    /// Nothing is left at the provider.
    async fn quiet_provider(&self) -> Result<()> {
        for _ in 0..500 {
            if self.counts().await?.in_flight == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::bail!("calls are left at the provider")
    }
}

/// What the provider takes for a call, in ms, as direct callers see it.
#[derive(Clone, Copy)]
struct Service {
    ms: f64,
    p99: f64,
}

impl Service {
    /// What so many at once come to, in calls a second.
    fn ideal(self, at_once: usize) -> f64 {
        at_once as f64 * 1e3 / self.ms
    }
}

fn all_whole(calls: &[Seen], what: &str) -> Result<()> {
    ensure!(!calls.is_empty(), "{what}: no call was made");
    let (others, first) = drive::count_others(calls, Seen::is_whole);
    ensure!(others == 0, "{what}: {others} of {} calls went wrong: {first}", calls.len());
    Ok(())
}

/// Whole answers a second, from `warm` after the start to `lasting` after it.
fn goodput(run: &Run, warm: Duration, lasting: Duration) -> f64 {
    let (from, to) = (run.start + warm, run.start + lasting);
    let good = run.calls.iter().filter(|seen| seen.is_whole() && seen.end >= from && seen.end < to).count();
    good as f64 / (lasting - warm).as_secs_f64()
}

/// By how many percent `figure` is less than `ideal`; less than nothing where it is more.
fn short_of(figure: f64, ideal: f64) -> f64 {
    (1.0 - figure / ideal) * 100.0
}

/// Sorted times of the calls that `which` takes, in ms.
fn times(calls: &[Seen], which: impl Fn(&Seen) -> bool) -> Vec<f64> {
    sorted(calls.iter().filter(|seen| which(seen)).map(Seen::ms))
}

/// The generator's own lateness, 99th percentile in ms: a call's time contains it.
fn lateness(calls: &[Seen]) -> f64 {
    percentile(&sorted(calls.iter().map(|seen| seen.late.as_secs_f64() * 1e3)), 0.99)
}

/// A figure of the gate's own that is judged by the middle of its rounds.
fn judged(scenario: &str, what: &str, gate: &[f64], limit: f64) -> Row {
    Row::info(scenario, what, &[], gate).claim(Of::Gate, &[], gate, limit)
}

/// One that is judged by the worst of its rounds.
fn judged_worst(scenario: &str, what: &str, gate: &[f64], limit: f64) -> Row {
    let all = sorted(gate.iter().copied());
    let (low, worst) = (all.first().copied().unwrap_or(f64::NAN), all.last().copied().unwrap_or(f64::NAN));
    let verdict = if worst <= limit { Verdict::Pass } else { Verdict::Fail };
    let claim = Claim { of: Of::Gate, median: worst, low, high: worst, limit };
    Row { claim: Some(claim), verdict, ..Row::info(scenario, what, &[], gate) }
}

/// The sum of a metric's samples, whatever their labels.
fn metric_sum(page: &str, name: &str) -> Result<f64> {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit_once(' ')).flatten()
    });
    let mut sum = None;
    for (_, value) in samples {
        sum = Some(sum.unwrap_or(0.0) + value.parse::<f64>()?);
    }
    sum.with_context(|| format!("no metric {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_metric_are_added_and_its_namesakes_left_out() {
        let page = "a{x=\"1\"} 2\na{x=\"2 3\"} 3\na_total 9\nb 4\n";
        assert_eq!(metric_sum(page, "a").unwrap(), 5.0);
        assert_eq!(metric_sum(page, "b").unwrap(), 4.0);
        assert!(metric_sum(page, "c").is_err());
    }

    #[test]
    fn the_worst_round_is_judged_where_one_is_enough() {
        assert_eq!(judged_worst("s", "w", &[8.0, 9.0, 8.0], 8.0).verdict, Verdict::Fail);
        assert_eq!(judged_worst("s", "w", &[8.0, 7.0], 8.0).verdict, Verdict::Pass);
        assert_eq!(judged_worst("s", "w", &[], 8.0).verdict, Verdict::Fail);
    }
}
