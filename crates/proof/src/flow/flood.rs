//! `flow-flood`: ten times what fits, for a minute.
//!
//! Goodput by the second: an answer counts in each second by the share of its time at the provider that lies in it, so
//! that eight answers at once a moment before or after a second's end make no difference. It is flat if no second differs
//! from the middle one by more than the limit. Beside it stands the same of direct callers, eight at a time: what the
//! machine does to the provider alone.

use std::time::Duration;

use anyhow::Result;
use lab::procfs::Memory;
use tokio::time::{Instant, sleep_until};

use super::drive::{Ask, Pace, Plan, Run, Seen, count_others};
use super::overload::is_turned_away;
use super::{Service, Setting, all_whole, judged, judged_worst, lateness, short_of, times};
use crate::report::Row;
use crate::scenarios::Bench;
use crate::stats::{Middle, percentile};

const CAP: usize = 8;
const DELAY: u64 = 40;
const CALLERS: usize = 256;
const WAIT_MS: f64 = 250.0;
const SETTINGS: [Setting; 4] = [
    ("SLUICEGATE_CONCURRENCY", "8"),
    ("SLUICEGATE_QUEUE__MAX", "64"),
    ("SLUICEGATE_QUEUE__TIMEOUT", "250ms"),
    // Answers that are kept would grow the memory as they should.
    ("SLUICEGATE_CACHE__WHEN", "never"),
];

impl Bench {
    pub(super) async fn flow_flood(&self) -> Result<Vec<Row>> {
        let lasting = self.sizes.flow.flood;
        let gate = self.flow_gate(&SETTINGS).await?;
        let beside = (lasting / 3).max(Duration::from_secs(10));
        let alone = Plan::new(Pace::Closed(beside), CAP, |_| Ask { delay: DELAY, ..Ask::default() });
        let alone = alone.run(self.upstream.addr).await?;
        all_whole(&alone.calls, "direct")?;
        let took = times(&alone.calls, Seen::is_whole);
        let service =
            Service { ms: took.iter().sum::<f64>() / took.len() as f64, p99: percentile(&took, 0.99) };
        let rate = 10.0 * service.ideal(CAP);
        let plan = Plan::new(Pace::rate(rate, lasting), CALLERS, |_| Ask { delay: DELAY, ..Ask::default() });
        let flood = plan.start(gate.addr).await?;
        let start = flood.start();
        sleep_until(start + lasting / 3).await;
        let before = Memory::of(gate.pid())?.rss / 1024.0;
        sleep_until(start + lasting).await;
        let after = Memory::of(gate.pid())?.rss / 1024.0;
        let normal = self.normal_again(gate.addr, start + lasting, service).await?;
        let run = flood.finish().await?;
        let (others, first) = count_others(&run.calls, |seen| seen.is_whole() || is_turned_away(seen));
        let (ours, theirs) = (seconds(&run, service, lasting), seconds(&alone, service, beside));
        let accepted = percentile(&times(&run.calls, Seen::is_whole), 0.99);
        let name = "flow-flood";
        let good = Middle::of(ours.iter().copied());
        Ok(vec![
            judged(name, "goodput of the worst second, % from the middle one", &[unevenness(&ours)], 3.0)
                .direct(&[unevenness(&theirs)]),
            judged(name, "goodput, % that the last third is less than the first", &[decline(&ours)], 3.0)
                .direct(&[decline(&theirs)]),
            Row::info(name, "answers a second, middle second", &[], &[good.median])
                .direct(&[Middle::of(theirs).median])
                .note(format!(
                    "{rate:.0} calls a second for {} s, seconds from {:.1} to {:.1}, {:.1}% short of the ideal",
                    lasting.as_secs(),
                    good.low,
                    good.high,
                    short_of(good.median, service.ideal(CAP)),
                )),
            judged(name, "MiB RSS more at the end than after a third", &[after - before], 1.0),
            judged(name, "p99 ms that accepted calls wait (limit: queue.timeout)", &[accepted - service.p99], WAIT_MS),
            Row::info(name, "p50 ms of refusals", &[], &[at_once(&run)]),
            judged(name, "s after the flood until a call takes its normal time", &[normal], 1.0),
            judged_worst(name, "neither an answer nor a 429 with Retry-After", &[others as f64], 0.0).note(first),
            Row::info(name, "p99 ms that calls were sent late", &[], &[lateness(&run.calls)]),
        ])
    }

    /// How long after `since`, in s, until a call takes no longer than a direct one may, and a fifth.
    async fn normal_again(
        &self,
        addr: std::net::SocketAddr,
        since: Instant,
        service: Service,
    ) -> Result<f64> {
        for _ in 0..100 {
            let plan =
                Plan::new(Pace::Open(vec![Duration::ZERO]), 1, |_| Ask { delay: DELAY, ..Ask::default() });
            let run = plan.run(addr).await?;
            if let Some(seen) =
                run.calls.iter().find(|seen| seen.is_whole() && seen.ms() <= service.p99 * 1.2)
            {
                return Ok(seen.end.duration_since(since).as_secs_f64());
            }
        }
        Ok(f64::INFINITY)
    }
}

/// Most find no room; who waited and gave way took longer.
fn at_once(run: &Run) -> f64 {
    percentile(&times(&run.calls, is_turned_away), 0.5)
}

/// Whole answers in each second but the first and the last, in parts.
fn seconds(run: &Run, service: Service, lasting: Duration) -> Vec<f64> {
    let mut buckets = vec![0.0; lasting.as_secs() as usize];
    let takes = service.ms / 1e3;
    for seen in run.calls.iter().filter(|seen| seen.is_whole()) {
        let to = seen.end.saturating_duration_since(run.start).as_secs_f64();
        share(&mut buckets, (to - takes).max(0.0), to);
    }
    let last = buckets.len().saturating_sub(1);
    buckets.drain(..last).skip(1).collect()
}

fn share(buckets: &mut [f64], from: f64, to: f64) {
    for second in from as usize..=to as usize {
        let inside = to.min(second as f64 + 1.0) - from.max(second as f64);
        if let Some(bucket) = buckets.get_mut(second) {
            *bucket += inside.max(0.0) / (to - from).max(f64::MIN_POSITIVE);
        }
    }
}

/// Of the second that is farthest from the middle one, in percent.
fn unevenness(seconds: &[f64]) -> f64 {
    let Middle { median, low, high } = Middle::of(seconds.iter().copied());
    (high - median).max(median - low) / median * 100.0
}

fn decline(seconds: &[f64]) -> f64 {
    let third = (seconds.len() / 3).max(1);
    let sum = |part: &[f64]| part.iter().sum::<f64>();
    let (first, last) = (sum(&seconds[..third]), sum(&seconds[seconds.len() - third..]));
    (1.0 - last / first) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_in_each_second_by_its_share() {
        let mut buckets = vec![0.0; 3];
        share(&mut buckets, 0.75, 1.75);
        share(&mut buckets, 2.2, 2.4);
        share(&mut buckets, 2.5, 3.5);
        assert_eq!(buckets, [0.25, 0.75, 1.5]);
    }

    #[test]
    fn flat_is_what_no_second_leaves() {
        assert_eq!(unevenness(&[100.0, 100.0, 97.0, 102.0, 100.0]), 3.0);
        assert!((decline(&[100.0, 90.0, 80.0]) - 20.0).abs() < 1e-9);
    }
}
