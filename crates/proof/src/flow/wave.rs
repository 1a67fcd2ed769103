//! `flow-wave`: a spike that a cap of 8 turns into a flow. `flow-closed`: callers who wait for their answers.

use std::time::Duration;

use anyhow::Result;

use super::drive::{Ask, Pace, Plan, Run, Seen, count_others};
use super::{Setting, WINDOW, all_whole, goodput, judged, judged_worst, short_of, times};
use crate::process::Process;
use crate::report::{Of, Row};
use crate::scenarios::Bench;
use crate::stats::percentile;

const CAP: usize = 8;
const CALLS: usize = 200;

/// What came of a wave.
struct Wave {
    took: Vec<f64>,
    total: f64,
    wrong: f64,
    most: f64,
    connections: f64,
}

impl Bench {
    pub(super) async fn flow_wave(&self) -> Result<Vec<Row>> {
        let mut settings = vec![("SLUICEGATE_CONCURRENCY", "8")];
        settings.extend(WINDOW);
        let gate = self.flow_gate(&settings).await?;
        let (mut direct, mut through, mut stretch) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = String::new();
        for _ in 0..self.sizes.flow.rounds {
            direct.push(self.wave(&self.upstream, &mut first).await?);
            let service = self.service(CAP, 50, Duration::from_millis(600)).await?;
            let wave = self.wave(&gate, &mut first).await?;
            let ideal = CALLS as f64 / service.ideal(CAP) * 1e3;
            stretch.push(wave.total / ideal);
            through.push(wave);
        }
        let of =
            |rounds: &[Wave], figure: &dyn Fn(&Wave) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
        let name = "flow-wave";
        let worst = |what, figure: &dyn Fn(&Wave) -> f64, limit| {
            judged_worst(name, what, &of(&through, figure), limit).direct(&of(&direct, figure))
        };
        let info = |what, share| {
            let figure = |wave: &Wave| percentile(&wave.took, share);
            Row::info(name, what, &[], &of(&through, &figure)).direct(&of(&direct, &figure))
        };
        Ok(vec![
            worst("most calls at the provider at once", &|wave| wave.most, CAP as f64),
            worst("answers that are not right", &|wave| wave.wrong, 0.0).note(first),
            judged(name, "total time ÷ ideal", &stretch, 1.1),
            worst("connections to the provider", &|wave| wave.connections, CAP as f64),
            Row::info(name, "total ms", &[], &of(&through, &|wave| wave.total))
                .direct(&of(&direct, &|wave| wave.total)),
            info("p50 ms", 0.50),
            info("p95 ms", 0.95),
            info("p99 ms", 0.99),
        ])
    }

    async fn wave(&self, process: &Process, first: &mut String) -> Result<Wave> {
        self.quiet_provider().await?;
        self.reset_counts().await?;
        let pace = Pace::within(CALLS, Duration::from_millis(50));
        let run = Plan::new(pace, CALLS, |_| Ask { delay: 50, ..Ask::default() }).run(process.addr).await?;
        let counts = self.counts().await?;
        let (wrong, what) = count_others(&run.calls, Seen::is_whole);
        if wrong > 0 {
            *first = what;
        }
        Ok(Wave {
            took: times(&run.calls, Seen::is_whole),
            total: total(&run),
            wrong: (wrong + CALLS.abs_diff(run.calls.len())) as f64,
            most: counts.most_in_flight as f64,
            connections: counts.connections as f64,
        })
    }

    pub(super) async fn flow_closed(&self) -> Result<Vec<Row>> {
        const SETTINGS: [Setting; 4] = [
            ("SLUICEGATE_CONCURRENCY", "8"),
            ("SLUICEGATE_WINDOW__ENABLED", "true"),
            ("SLUICEGATE_WINDOW__MAX_SIZE", "16"),
            ("SLUICEGATE_WINDOW__MAX_WAIT", "10ms"),
        ];
        let gate = self.flow_gate(&SETTINGS).await?;
        let (warm, lasting) = (Duration::from_millis(500), self.sizes.flow.lasting / 2);
        let [mut short, mut rates, mut ideals, mut relays] = <[Vec<f64>; 4]>::default();
        for _ in 0..self.sizes.flow.rounds {
            let ideal = self.service(CAP, 8, lasting).await?.ideal(CAP);
            // A relay shapes nothing: what the way through any process costs eight callers.
            let relay = Self::service_of(&self.relay, CAP, 8, lasting / 2).await?.ideal(CAP);
            relays.push(short_of(relay, ideal));
            let plan = Plan::new(Pace::Closed(lasting), 32, |_| Ask { delay: 8, ..Ask::default() });
            let run = plan.run(gate.addr).await?;
            all_whole(&run.calls, "through the gate")?;
            let rate = goodput(&run, warm, lasting);
            short.push(short_of(rate, ideal));
            rates.push(rate);
            ideals.push(ideal);
        }
        let name = "flow-closed";
        Ok(vec![
            Row::info(name, "goodput, % short of the ideal", &relays, &short).claim(
                Of::Gate,
                &[],
                &short,
                5.0,
            ),
            Row::info(name, "answers a second (direct: the ideal)", &[], &rates).direct(&ideals),
        ])
    }
}

/// From when the first call should have been sent to the last answer, in ms.
fn total(run: &Run) -> f64 {
    let last = run.calls.iter().map(|seen| seen.end).max().unwrap_or(run.start);
    last.duration_since(run.start).as_secs_f64() * 1e3
}
