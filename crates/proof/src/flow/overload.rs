//! `flow-overload`: twice what the provider can do, with a short queue before it.

use std::time::Duration;

use anyhow::Result;

use super::drive::{Ask, Ending, Pace, Plan, Seen, count_others, enough};
use super::{Setting, goodput, judged, judged_worst, lateness, short_of, times};
use crate::report::Row;
use crate::scenarios::Bench;
use crate::stats::percentile;

const CAP: usize = 8;
const RATE: f64 = 800.0;
/// More than can be under way at once: 16 for 50 ms, and refusals.
const CALLERS: usize = 96;
const SETTINGS: [Setting; 3] =
    [("SLUICEGATE_CONCURRENCY", "8"), ("SLUICEGATE_QUEUE__MAX", "8"), ("SLUICEGATE_QUEUE__TIMEOUT", "50ms")];

impl Bench {
    pub(super) async fn flow_overload(&self) -> Result<Vec<Row>> {
        let gate = self.flow_gate(&SETTINGS).await?;
        let (warm, lasting) = (Duration::from_millis(500), self.sizes.flow.lasting);
        let [
            mut short,
            mut rates,
            mut ideals,
            mut accepted,
            mut refused,
            mut other,
            mut floor,
            mut late,
            mut twice,
        ] = <[Vec<f64>; 9]>::default();
        let mut first = String::new();
        for _ in 0..self.sizes.flow.rounds {
            let service = self.service(CAP, 20, lasting / 2).await?;
            let ideal = service.ideal(CAP);
            // Who comes last into a full queue waits for eight to leave, and then takes as long itself.
            twice.push(service.ms * 2.0);
            // What the generator and the machine alone add at this rate: answers that take no time.
            let still = Plan::new(Pace::rate(RATE, lasting / 4), CALLERS, |_| Ask::default());
            let still = still.run(self.upstream.addr).await?;
            let plan = Plan::new(Pace::rate(RATE, lasting), CALLERS, |_| Ask { delay: 20, ..Ask::default() });
            let run = plan.run(gate.addr).await?;
            let rate = goodput(&run, warm, lasting);
            short.push(short_of(rate, ideal));
            rates.push(rate);
            ideals.push(ideal);
            let turned = times(&run.calls, is_turned_away);
            enough(&run.calls, 100, "were made")?;
            accepted.push(percentile(&times(&run.calls, Seen::is_whole), 0.99));
            refused.push(percentile(&turned, 0.99));
            let (others, what) = count_others(&run.calls, |seen| seen.is_whole() || is_turned_away(seen));
            if others > 0 {
                first = what;
            }
            other.push(others as f64);
            floor.push(percentile(&times(&still.calls, Seen::is_whole), 0.99));
            late.push(lateness(&run.calls));
        }
        let name = "flow-overload";
        Ok(vec![
            judged(name, "goodput, % short of the ideal", &short, 3.0),
            judged(name, "p99 ms of accepted calls (direct: twice a mean one)", &accepted, 45.0)
                .direct(&twice),
            judged(name, "p99 ms of refusals (direct: of answers that take no time)", &refused, 3.0)
                .direct(&floor),
            judged_worst(name, "neither an answer nor a 429 with Retry-After", &other, 0.0).note(first),
            Row::info(name, "answers a second (direct: the ideal)", &[], &rates).direct(&ideals),
            Row::info(name, "p99 ms that calls were sent late", &[], &late),
        ])
    }
}

/// By the gate, which says when to come back.
pub(super) fn is_turned_away(seen: &Seen) -> bool {
    matches!(seen.ending, Ending::Refused { status: 429, retry_after: Some(1..), provider: false })
}
