//! `flow-drain`: the gate is told to end in the middle of it. Whoever it let in gets an answer, or an error that says
//! something, and the exit code tells which.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep_until};

use super::drive::{Ask, Ending, Pace, Plan, Seen, count_others};
use super::{Setting, WINDOW, judged_worst};
use crate::process::Process;
use crate::report::Row;
use crate::scenarios::Bench;
use crate::shapes::StreamShape;

const NAME: &str = "flow-drain";
/// What the drain's own time does not count: a cut one's last words, and its goodbye.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// What goes on when the signal comes.
struct Act {
    name: &'static str,
    settings: Vec<Setting>,
    plans: Vec<Plan>,
    after: Duration,
    drain: Duration,
    code: i32,
}

impl Bench {
    pub(super) async fn flow_drain(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for act in acts() {
            rows.extend(self.drained(act).await?);
        }
        Ok(rows)
    }

    async fn drained(&self, act: Act) -> Result<Vec<Row>> {
        self.quiet_provider().await?;
        let mut gate: Process = self.flow_gate(&act.settings).await?;
        let mut running = Vec::new();
        for plan in act.plans {
            running.push(plan.start(gate.addr).await?);
        }
        let start = running.last().map_or_else(Instant::now, super::drive::Running::start);
        sleep_until(start + act.after).await;
        gate.terminate()?;
        let told = Instant::now();
        let code = gate.ended(act.drain + AFTERWARDS * 2).await?;
        let took = told.elapsed();
        let mut calls = Vec::new();
        for running in running {
            running.stop();
            calls.append(&mut running.finish().await?.calls);
        }
        let (wordless, first) = count_others(&calls, |seen| {
            matches!(seen.ending, Ending::Whole | Ending::Refused { .. } | Ending::Told | Ending::Unsent)
        });
        // Everybody knows by the drain's end, and a moment in which errors are said.
        let late = |seen: &&Seen| {
            seen.ending != Ending::Unsent && seen.end > told + act.drain + Duration::from_millis(500)
        };
        let late = calls.iter().filter(late).count();
        // Nobody is to find the door shut before the gate has ended.
        let shut =
            calls.iter().filter(|seen| seen.ending == Ending::Unsent && seen.end < told + took / 2).count();
        let count = |which: fn(&Ending) -> bool| calls.iter().filter(|seen| which(&seen.ending)).count();
        let said = format!(
            "{} calls: {} whole, {} 429, {} 503, {} streams ended with an error, {} after the port had closed; \
             exit {code} after {:.2} s of {} s",
            calls.len(),
            count(|ending| *ending == Ending::Whole),
            count(|ending| matches!(ending, Ending::Refused { status: 429, .. })),
            count(|ending| matches!(ending, Ending::Refused { status: 503, .. })),
            count(|ending| *ending == Ending::Told),
            count(|ending| *ending == Ending::Unsent),
            took.as_secs_f64(),
            act.drain.as_secs_f64(),
        );
        let row = |what: &str, figure: usize| {
            judged_worst(NAME, &format!("{}: {what}", act.name), &[figure as f64], 0.0)
        };
        Ok(vec![
            row("callers without a word", wordless).note(format!("{said}. {first}")),
            row("callers who know only after the drain, or found it shut at once", late + shut),
            row("another exit code than documented", usize::from(code != act.code)),
        ])
    }
}

fn acts() -> Vec<Act> {
    let plain = |delay| move |_| Ask { delay, ..Ask::default() };
    let drain = |time| ("SLUICEGATE_DRAIN", time);
    let eight = ("SLUICEGATE_CONCURRENCY", "8");
    let short = [eight, ("SLUICEGATE_QUEUE__MAX", "8"), ("SLUICEGATE_QUEUE__TIMEOUT", "50ms")];
    let long = [eight, ("SLUICEGATE_QUEUE__MAX", "64"), ("SLUICEGATE_QUEUE__TIMEOUT", "250ms")];
    let streams = |chunks, millis| {
        let shape = StreamShape { chunks, every: Duration::from_millis(millis), size: 220 };
        let ask = move |_| Ask { shape: Some(shape), ..Ask::default() };
        Plan::new(Pace::within(100, Duration::from_millis(500)), 100, ask)
    };
    let (second, seconds) = (Duration::from_secs(1), Duration::from_secs);
    vec![
        Act {
            name: "wave",
            settings: [&[eight, drain("10s")][..], &WINDOW].concat(),
            plans: vec![Plan::new(Pace::within(200, Duration::from_millis(50)), 200, plain(50))],
            after: Duration::from_millis(30),
            drain: seconds(10),
            code: 0,
        },
        Act {
            name: "overload",
            settings: [&short[..], &[drain("5s")]].concat(),
            plans: vec![Plan::new(Pace::rate(800.0, seconds(3)), 96, plain(20))],
            after: second,
            drain: seconds(5),
            code: 0,
        },
        Act {
            name: "flood",
            settings: [&long[..], &[drain("5s")]].concat(),
            plans: vec![Plan::new(Pace::rate(1500.0, seconds(3)), 192, plain(40))],
            after: second,
            drain: seconds(5),
            code: 0,
        },
        Act {
            name: "fairness",
            settings: [&long[..], &[("OPENAI_API_KEY", ""), drain("5s")]].concat(),
            plans: ["sk-large", "sk-small"]
                .into_iter()
                .zip([800.0, 8.0])
                .map(|(key, rate)| {
                    let ask = move |call| Ask {
                        delay: super::fairness::delay(call),
                        key: Some(key),
                        ..Ask::default()
                    };
                    Plan::new(Pace::rate(rate, seconds(3)), 64, ask)
                })
                .collect(),
            after: second,
            drain: seconds(5),
            code: 0,
        },
        Act {
            name: "streams that end in time",
            settings: vec![drain("5s")],
            plans: vec![streams(20, 100)],
            after: second,
            drain: seconds(5),
            code: 0,
        },
        Act {
            name: "streams that do not",
            settings: vec![drain("2s")],
            plans: vec![streams(100, 100)],
            after: second,
            drain: seconds(2),
            code: 1,
        },
    ]
}
