//! `flow-fairness`: one key sends a hundred times what another sends, and twice what the provider can do.
//!
//! Keys are the callers' own credentials: the gate has none. The provider takes 30 to 50 ms, as chance will have it, so
//! that permits come back one by one.

use std::time::Duration;

use anyhow::Result;

use super::drive::{Ask, Pace, Plan, Run, Seen, count_others, enough};
use super::overload::is_turned_away;
use super::{Setting, judged, judged_worst, lateness, times};
use crate::report::Row;
use crate::scenarios::Bench;
use crate::stats::percentile;

const SMALL: f64 = 8.0;
const SETTINGS: [Setting; 4] = [
    ("OPENAI_API_KEY", ""),
    ("SLUICEGATE_CONCURRENCY", "16"),
    ("SLUICEGATE_QUEUE__MAX", "64"),
    ("SLUICEGATE_QUEUE__TIMEOUT", "1s"),
];

impl Bench {
    pub(super) async fn flow_fairness(&self) -> Result<Vec<Row>> {
        let gate = self.flow_gate(&SETTINGS).await?;
        let lasting = self.sizes.flow.fairness;
        let small = |addr| small(lasting).start(addr);
        let direct = small(self.upstream.addr).await?.finish().await?;
        let alone = small(gate.addr).await?.finish().await?;
        let large = Plan::new(Pace::rate(SMALL * 100.0, lasting), 128, |call| Ask {
            delay: delay(call + 7),
            key: Some("sk-large"),
            ..Ask::default()
        });
        let large = large.start(gate.addr).await?;
        let beside = small(gate.addr).await?.finish().await?;
        let large = large.finish().await?;
        enough(&beside.calls, 50, "of the small key were made")?;
        let p = |run: &Run, share| percentile(&times(&run.calls, Seen::is_whole), share);
        let (refused, first) = count_others(&beside.calls, Seen::is_whole);
        let (others, which) = count_others(&large.calls, |seen| seen.is_whole() || is_turned_away(seen));
        let good = large.calls.iter().filter(|seen| seen.is_whole()).count() as f64 / lasting.as_secs_f64();
        let name = "flow-fairness";
        Ok(vec![
            judged(
                name,
                "the small key's p99, times what it is alone",
                &[p(&beside, 0.99) / p(&alone, 0.99)],
                1.5,
            ),
            judged_worst(name, "calls of the small key that got no answer", &[refused as f64], 0.0)
                .note(first),
            Row::info(name, "p50 ms of the small key", &[], &[p(&beside, 0.5)]).direct(&[p(&direct, 0.5)]),
            Row::info(name, "p99 ms of the small key", &[], &[p(&beside, 0.99)])
                .direct(&[p(&direct, 0.99)])
                .note(format!("alone through the gate: {:.1}", p(&alone, 0.99))),
            judged_worst(name, "of the large key: neither an answer nor a 429", &[others as f64], 0.0)
                .note(which),
            Row::info(name, "answers a second for the large key", &[], &[good]),
            Row::info(name, "p99 ms that calls were sent late", &[], &[lateness(&large.calls)]),
        ])
    }
}

fn small(lasting: Duration) -> Plan {
    let ask = |call| Ask { delay: delay(call), key: Some("sk-small"), ..Ask::default() };
    Plan::new(Pace::rate(SMALL, lasting), 16, ask)
}

/// 30 to 50 ms, each as often, with no pattern that matters here.
pub(super) fn delay(call: usize) -> u64 {
    30 + super::leaks::dice(call as u64)(21)
}
