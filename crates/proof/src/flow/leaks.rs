//! `flow-leaks`: callers who leave at any moment, with door, window, cap and queue on. In the end nothing is held.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::drive::{Ask, Ending, Pace, Plan, Seen, count_others};
use super::{Setting, judged_worst, metric_sum};
use crate::process::Process;
use crate::report::Row;
use crate::scenarios::Bench;
use crate::shapes::{Prompts, StreamShape};

const CALLERS: usize = 72;
const LIMIT: Duration = Duration::from_secs(10);
const SETTINGS: [Setting; 9] = [
    ("SLUICEGATE_CONCURRENCY", "16"),
    ("SLUICEGATE_WINDOW__ENABLED", "true"),
    ("SLUICEGATE_WINDOW__MAX_SIZE", "8"),
    ("SLUICEGATE_WINDOW__MAX_WAIT", "4ms"),
    ("SLUICEGATE_QUEUE__MAX", "40"),
    ("SLUICEGATE_QUEUE__TIMEOUT", "30ms"),
    ("SLUICEGATE_GATE__MAX_IN_FLIGHT", "64"),
    ("SLUICEGATE_GATE__MAX_WAITING", "24"),
    ("SLUICEGATE_GATE__WAIT", "20ms"),
];
const GAUGES: [&str; 6] = [
    "sluicegate_in_flight",
    "sluicegate_waiting",
    "sluicegate_window_fill",
    "sluicegate_queue_bytes",
    "sluicegate_gate_in_flight",
    "sluicegate_gate_waiting",
];

impl Bench {
    pub(super) async fn flow_leaks(&self) -> Result<Vec<Row>> {
        let gate = self.flow_gate(&SETTINGS).await?;
        let calls = self.sizes.flow.leaks;
        let first = Prompts::fresh(calls);
        let plan =
            Plan::new(Pace::Closed(Duration::from_secs(600)), CALLERS, move |call| random(call, first));
        let began = Instant::now();
        let run = plan.most(calls).run(gate.addr).await?;
        let took = began.elapsed();
        let page = emptied(&gate).await?;
        let left = run.calls.iter().filter(|seen| seen.ending == Ending::Left).count();
        let good = run.calls.iter().filter(|seen| seen.is_whole()).count();
        let refused = |code: u16| {
            let of = |seen: &&Seen| matches!(seen.ending, Ending::Refused { status, .. } if status == code);
            run.calls.iter().filter(of).count()
        };
        let (others, what) = count_others(&run.calls, |seen| {
            matches!(seen.ending, Ending::Whole | Ending::Left | Ending::Refused { status: 429, .. })
        });
        let name = "flow-leaks";
        let mut rows = vec![
            judged_worst(name, "answers that are neither whole nor a 429", &[others as f64], 0.0).note(what),
            Row::info(name, "calls whose callers left", &[], &[left as f64]).note(format!(
                "of {calls} in {:.0} s; {good} whole answers, {} times 429",
                took.as_secs_f64(),
                refused(429)
            )),
        ];
        for gauge in GAUGES {
            rows.push(judged_worst(name, &format!("{gauge} in the end"), &[metric_sum(&page, gauge)?], 0.0));
        }
        let held = self.provider_holds().await?;
        rows.push(judged_worst(name, "calls left at the provider", &[held], 0.0));
        let again =
            Plan::new(Pace::Open(vec![Duration::ZERO; 16]), 16, |_| Ask { delay: 5, ..Ask::default() });
        let (stuck, what) = count_others(&again.run(gate.addr).await?.calls, Seen::is_whole);
        rows.push(
            judged_worst(name, "of 16 calls afterwards, without an answer", &[stuck as f64], 0.0).note(what),
        );
        Ok(rows)
    }

    async fn provider_holds(&self) -> Result<f64> {
        let _given_up = self.quiet_provider().await;
        Ok(self.counts().await?.in_flight as f64)
    }
}

/// The gate's metrics once nothing is held, or after a while.
async fn emptied(gate: &Process) -> Result<String> {
    let end = Instant::now() + LIMIT;
    loop {
        let page = gate.metrics().await?;
        let mut held = 0.0;
        for gauge in GAUGES {
            held += metric_sum(&page, gauge)?;
        }
        if held == 0.0 || Instant::now() > end {
            return Ok(page);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A call by its number alone: a third leave, at any moment of what a call goes through; a third are streams, and a
/// fifth are equal to one nearby.
fn random(call: usize, first: u64) -> Ask {
    let mut below = dice(call as u64);
    let shape = StreamShape { chunks: 3, every: Duration::from_millis(2), size: 220 };
    Ask {
        delay: below(9),
        shape: (below(100) < 33).then_some(shape),
        leaves: (below(100) < 33).then(|| Duration::from_micros(100 + below(40_000))),
        prompt: (below(100) < 20).then(|| first + call as u64 / 16),
        ..Ask::default()
    }
}

/// Numbers below a bound, the same each time for the same seed.
pub(super) fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        // SplitMix64: consecutive seeds give independent numbers.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
