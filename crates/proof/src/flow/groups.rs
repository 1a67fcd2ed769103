//! `flow-groups`: with room at the provider, a window lets calls go in groups of its size; a lone call waits no longer
//! than it may; and a member in trouble is nobody else's.
//!
//! Who was in a group is read at the provider: the first 64 calls that reach it find room there, and in the order in
//! which they come each 16 are a group. What a group took is from when its last member was sent until its last reached
//! the provider: the window's work, and two processes' handling of sixteen calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::drive::{Ask, Ending, Pace, Plan, Run, Seen};
use super::{WINDOW, all_whole, judged, judged_worst};
use crate::load::{connect, driving, send};
use crate::process::Process;
use crate::report::Row;
use crate::scenarios::Bench;
use crate::stats::sorted;

const SIZE: usize = 16;
const CAP: usize = 64;
const CALLS: usize = 200;
const WAIT_MS: f64 = 20.0;

#[derive(Default)]
struct Figures {
    group: Vec<f64>,
    spread: Vec<f64>,
    odd_groups: Vec<f64>,
    early: Vec<f64>,
    lone: Vec<f64>,
    harmed: Vec<f64>,
    clean: Vec<f64>,
    beside_trouble: Vec<f64>,
}

impl Bench {
    pub(super) async fn flow_groups(&self) -> Result<Vec<Row>> {
        let mut settings = vec![("SLUICEGATE_CONCURRENCY", "64")];
        settings.extend(WINDOW);
        let gate = self.flow_gate(&settings).await?;
        let mut figures = Figures::default();
        for _ in 0..self.sizes.flow.rounds {
            self.groups(&gate, &mut figures).await?;
            self.lone(&gate, &mut figures).await?;
            self.in_trouble(&gate, &mut figures).await?;
        }
        let name = "flow-groups";
        let more: Vec<f64> =
            figures.beside_trouble.iter().zip(&figures.clean).map(|(beside, clean)| beside - clean).collect();
        Ok(vec![
            judged_worst(name, "full waves of another size than 16", &figures.odd_groups, 0.0),
            judged_worst(name, "waves before the last that were not full", &figures.early, 0.0),
            judged(
                name,
                "ms from a group's 16th call to its last at the provider, worst",
                &figures.group,
                2.0,
            ),
            Row::info(
                name,
                "ms between a group's first and last at the provider, worst",
                &[],
                &figures.spread,
            ),
            judged(name, "ms that a lone call waits beyond max_wait, worst", &figures.lone, 2.0),
            judged_worst(name, "calls harmed by an error or a hang in their group", &figures.harmed, 0.0),
            judged(name, "ms that the slowest of them takes more than without", &more, 2.0),
        ])
    }

    async fn groups(&self, gate: &Process, figures: &mut Figures) -> Result<()> {
        self.quiet_provider().await?;
        self.reset_counts().await?;
        let live = Live::listen(gate).await?;
        let pace = Pace::within(CALLS, Duration::from_millis(50));
        let run = Plan::new(pace, CALLS, |_| Ask { delay: 50, ..Ask::default() }).run(gate.addr).await?;
        all_whole(&run.calls, "through the gate")?;
        let waves = live.flushed().await?;
        ensure!(waves.iter().map(|(size, _)| size).sum::<u64>() == CALLS as u64, "waves of {waves:?}");
        let odd = waves.iter().filter(|(size, cause)| cause == "size" && *size != SIZE as u64).count();
        // A wave that time has let go is the last one: while calls come, sixteen are there long before.
        let early = waves.iter().rev().skip(1).filter(|(_, cause)| cause != "size").count();
        figures.odd_groups.push(odd as f64);
        figures.early.push(early as f64);
        let arrivals = self.counts().await?.arrivals;
        let sent = sent(&run);
        let (mut worst, mut spread) = (0.0_f64, 0.0_f64);
        for group in arrivals[..CAP].chunks(SIZE) {
            let last_sent = group.iter().filter_map(|(mark, _)| sent.get(mark)).max();
            let (first, last) = (group[0].1, group[SIZE - 1].1);
            worst = worst.max(ms(*last_sent.context("a call that nobody sent")?, last));
            spread = spread.max(ms(first, last));
        }
        figures.group.push(worst);
        figures.spread.push(spread);
        Ok(())
    }

    /// Calls that nobody else's come near to.
    async fn lone(&self, gate: &Process, figures: &mut Figures) -> Result<()> {
        self.reset_counts().await?;
        let pace = Pace::Open((0..10).map(|call| Duration::from_millis(call * 60)).collect());
        let run = Plan::new(pace, 1, |_| Ask::default()).run(gate.addr).await?;
        all_whole(&run.calls, "alone in a window")?;
        let (sent, arrivals) = (sent(&run), self.counts().await?.arrivals);
        let waits = arrivals.iter().filter_map(|(mark, at)| Some(ms(*sent.get(mark)?, *at)));
        let waits = sorted(waits);
        ensure!(waits.len() == 10, "{} of 10 lone calls at the provider", waits.len());
        ensure!(waits[0] > WAIT_MS - 1.0, "a lone call left after {} ms: there is no window", waits[0]);
        figures.lone.push(waits[9] - WAIT_MS);
        Ok(())
    }

    /// Sixteen calls at once, all well; and sixteen of which one fails and one hangs until its caller leaves.
    async fn in_trouble(&self, gate: &Process, figures: &mut Figures) -> Result<()> {
        let at_once = || Pace::Open(vec![Duration::ZERO; SIZE]);
        let clean =
            Plan::new(at_once(), SIZE, |_| Ask { delay: 50, ..Ask::default() }).run(gate.addr).await?;
        all_whole(&clean.calls, "a group without trouble")?;
        let ask = |call| match call {
            3 => Ask { status: Some(500), ..Ask::default() },
            7 => Ask { hangs: true, leaves: Some(Duration::from_millis(500)), ..Ask::default() },
            _ => Ask { delay: 50, ..Ask::default() },
        };
        let run = Plan::new(at_once(), SIZE, ask).run(gate.addr).await?;
        let (mut harmed, mut slowest) = (0, 0.0_f64);
        for seen in &run.calls {
            let fine = match seen.number {
                3 => matches!(seen.ending, Ending::Refused { status: 500, provider: true, .. }),
                7 => seen.ending == Ending::Left,
                _ => {
                    slowest = slowest.max(seen.ms());
                    seen.is_whole()
                }
            };
            harmed += usize::from(!fine);
        }
        figures.harmed.push(harmed as f64);
        figures.clean.push(clean.calls.iter().map(Seen::ms).fold(0.0, f64::max));
        figures.beside_trouble.push(slowest);
        Ok(())
    }
}

/// When each call was sent, by its mark.
fn sent(run: &Run) -> BTreeMap<u64, u64> {
    run.calls.iter().map(|seen| (seen.mark, seen.sent)).collect()
}

fn ms(from: u64, to: u64) -> f64 {
    (to as f64 - from as f64) / 1e3
}

/// A listener to a gate's events.
struct Live {
    heard: Arc<Mutex<String>>,
    _task: JoinSet<Result<()>>,
}

impl Live {
    async fn listen(gate: &Process) -> Result<Self> {
        let admin = gate.admin.context("only a gate has events")?;
        let (mut sender, connection) = connect(admin).await?;
        let heard = Arc::<Mutex<String>>::default();
        let (mut task, ear) = (JoinSet::new(), heard.clone());
        task.spawn(driving(connection, async move {
            let mut request = Request::get("/api/live").body(Full::default())?;
            request.headers_mut().insert(HOST, admin.to_string().parse()?);
            let mut body = send(&mut sender, request).await?.into_body();
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame?.into_data() {
                    let mut ear = ear.lock().unwrap_or_else(PoisonError::into_inner);
                    ear.push_str(&String::from_utf8_lossy(&data));
                }
            }
            Ok(())
        }));
        let live = Self { heard, _task: task };
        // The first event says that somebody listens.
        for _ in 0..1000 {
            if live.text().contains("event: state") {
                return Ok(live);
            }
            sleep(Duration::from_millis(5)).await;
        }
        anyhow::bail!("no live event came")
    }

    fn text(&self) -> String {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sizes and causes of the waves so far.
    async fn flushed(self) -> Result<Vec<(u64, String)>> {
        sleep(Duration::from_millis(200)).await;
        let text = self.text();
        ensure!(!text.contains("event: missed"), "events were missed");
        let events = text.split("\n\n").filter_map(|event| event.strip_prefix("event: flushed\ndata: "));
        events
            .map(|data| {
                let event: Value = serde_json::from_str(data)?;
                let (size, cause) = (event["size"].as_u64(), event["cause"].as_str());
                Ok((size.context("no size")?, cause.context("no cause")?.to_owned()))
            })
            .collect()
    }
}
