//! Equal calls: what one costs that is joined with others or answered from the cache, and what the cache holds.

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::procfs::Memory;
use tokio::time::sleep;

use crate::fate::{Fate, metric};
use crate::load::{Load, Which, kept};
use crate::process::{Process, Proxy, Speaks};
use crate::report::{Of, Row};
use crate::scenarios::{Bench, Mostly, closed};
use crate::shapes::{Prompts, answer};

const MIB: f64 = 1024.0 * 1024.0;
/// How long the upstream takes for a call that others shall join: longer than the client takes to send a wave.
const JOINABLE: Duration = Duration::from_millis(10);
/// Kept calls are made in rounds of so many, each with the bound in time that a round has.
const FILLING: usize = 100_000;
const SAMPLE: usize = 2_000;

impl Bench {
    /// On a busy machine some of a wave are sent when the answer is there already: those are hits.
    pub(crate) async fn cpu_joined(&self) -> Result<Vec<Row>> {
        let load = Load {
            which: Which::Waves,
            delay: Some(JOINABLE),
            ..closed(Prompts::small(), 64, 64 * self.sizes.waves)
        };
        let joined = Mostly(Fate::Joined, 75);
        Ok(vec![self.cpu_of_calls("cpu-joined", &self.gate, &load, joined, 1.0).await?])
    }

    /// Whoever asks before the first answer is there is joined; all others are hits.
    pub(crate) async fn cpu_hit(&self) -> Result<Vec<Row>> {
        let load = Load { which: Which::Same, ..closed(Prompts::small(), 64, self.sizes.small_calls) };
        let hits = Mostly(Fate::Hit, 99);
        Ok(vec![self.cpu_of_calls("cpu-hit", &self.gate, &load, hits, 1.0).await?])
    }

    pub(crate) async fn cache_memory(&self) -> Result<Vec<Row>> {
        if matches!(self.gate_kind, Proxy::Relay) {
            return Ok(vec![Row::info("cache-memory", "a relay keeps nothing", &[], &[])]);
        }
        let mut rows = Vec::new();
        for most in self.sizes.caches {
            rows.append(&mut self.cache_of(*most).await?);
        }
        Ok(rows)
    }

    /// A fresh gate whose cache holds so many MiB, before and after many more distinct answers than that.
    async fn cache_of(&self, most: usize) -> Result<Vec<Row>> {
        let bytes = format!("{most}MiB");
        let variables = [("SLUICEGATE_CACHE__MAX_BYTES", &*bytes)];
        let gate = Process::proxy_with(&self.gate_kind, self.upstream.addr, Speaks::Chat, &variables).await?;
        // Warm in all but the cache: connections, buffers, the allocator's own.
        let warming = Load { no_store: true, ..closed(Prompts::small(), 64, 2_000) };
        self.round(&gate, &warming).await?;
        sleep(Duration::from_secs(1)).await;
        let before = Memory::of(gate.pid())?;

        let calls = self.sizes.kept_calls;
        let first = Prompts::fresh(0);
        for _ in 0..calls / FILLING {
            let round = self.round(&gate, &closed(Prompts::small(), 64, FILLING)).await?;
            ensure!(round.fates[Fate::Miss] == FILLING as u64, "not all could be kept: {}", round.fates);
        }
        sleep(Duration::from_secs(1)).await;
        let grown = (Memory::of(gate.pid())?.rss - before.rss) / 1024.0;
        let gauge = metric(&gate.metrics().await?, "sluicegate_cache_bytes")?;

        // A cache that kept little would be small and prove nothing, so some are asked for again, without
        // changing what is kept.
        let prompts = Prompts::small();
        let sample = (0..SAMPLE).map(|nth| prompts.numbered(first + (nth * calls / SAMPLE) as u64));
        let there = kept(gate.addr, sample).await?.into_iter().filter(|kept| *kept).count();
        ensure!(there < SAMPLE, "all {calls} answers are kept: too few to fill the cache");
        let answers = calls * there / SAMPLE;
        let body_bytes = (answers * answer().len()) as f64 / MIB;
        ensure!(body_bytes > most as f64 / 4.0, "of {most} MiB the bodies kept take {body_bytes:.1} only");

        let most = most as f64;
        let row = |what: String, figure: f64, limit: f64| {
            Row::info("cache-memory", what, &[], &[figure]).claim(Of::Gate, &[], &[figure], limit)
        };
        let note = format!("about {answers} of {calls} answers are kept, bodies of {body_bytes:.1} MiB");
        let mut rows = vec![row(format!("MiB RSS more, cache {most}"), grown, most * 1.3).note(note)];
        if let Some(gauge) = gauge {
            let gauge = gauge / MIB;
            ensure!(gauge > 0.0, "the gauge says that nothing is kept");
            rows.push(row(format!("MiB by the gauge, cache {most}"), gauge, most));
        }
        Ok(rows)
    }
}
