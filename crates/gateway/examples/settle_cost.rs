//! What it costs to settle a call: metrics, log line, call log and bus together.
//!
//! `cargo run --release -p sluicegate --example settle_cost`. Records are made beforehand and the log is written to
//! nowhere between the timed batches, so the figures are the calling thread's own time; the fastest of many
//! batches is the work itself, the median what a call sees on this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sluicegate::observe::{
    CallRecord, Format, Lines, Metrics, NanoUsd, NullLog, Observer, Sink, TargetHandles,
};
use tracing::level_filters::LevelFilter;
use uuid::Uuid;

/// Calls that fit in the log's buffer, so that none is dropped.
const BATCH: usize = 500;
const BATCHES: usize = 300;
/// For the log to be written out between two batches.
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> std::io::Result<()> {
    println!("{:<36} {:>12} {:>12}", "ns per settled call", "fastest", "median");
    let nowhere = Metrics::default();
    let mut times = batches(&nowhere.target("openai"), || {}, drop);
    show("giving the record's memory back", &mut times);
    for (name, format, level) in [
        ("metrics only", Format::Text, LevelFilter::OFF),
        ("metrics and text line", Format::Text, LevelFilter::INFO),
        ("metrics and JSON line", Format::Json, LevelFilter::INFO),
    ] {
        let metrics = Arc::new(Metrics::default());
        let sink = Sink::start(std::io::sink(), metrics.log_dropped())?;
        let observer = Observer::new(metrics.clone(), Lines::new(format, level, sink), Arc::new(NullLog));
        let target = metrics.target("openai");
        for threads in [1, 2] {
            let run = || {
                batches(
                    &target,
                    || {
                        observer.flush(LIMIT);
                    },
                    |record| observer.settle(&record, &target, false),
                )
            };
            let mut times: Vec<Duration> = std::thread::scope(|scope| {
                let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
                running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
            });
            show(&format!("{name}, {threads} threads"), &mut times);
        }
        println!("{:<36} {:>12}", "  lines dropped", metrics.log_dropped().get());
    }
    Ok(())
}

fn show(name: &str, times: &mut [Duration]) {
    times.sort();
    let per_call = |time: Duration| time.as_nanos() as usize / BATCH;
    println!("{name:<36} {:>12} {:>12}", per_call(times[0]), per_call(times[times.len() / 2]));
}

fn batches(target: &TargetHandles, before: impl Fn(), each: impl Fn(CallRecord)) -> Vec<Duration> {
    let batch = || {
        let records: Vec<_> = (0..BATCH).map(|_| record(target)).collect();
        before();
        let begun = Instant::now();
        records.into_iter().for_each(&each);
        begun.elapsed()
    };
    (0..BATCHES).map(|_| batch()).collect()
}

fn record(target: &TargetHandles) -> CallRecord {
    CallRecord {
        key: Some("ci".into()),
        provider: Some(target.provider().clone()),
        model: Some("gpt-5-mini".into()),
        served_model: Some("gpt-5-mini-2025-08-07".into()),
        status: 200,
        attempts: 1,
        first_byte: Some(Duration::from_millis(310)),
        total: Duration::from_millis(1520),
        input_tokens: Some(120),
        cached_input_tokens: Some(64),
        output_tokens: Some(40),
        cost: Some(NanoUsd(110_000)),
        finish: Some("stop".into()),
        ..CallRecord::new(Uuid::now_v7(), Timestamp::now(), "chat", "/v1/chat/completions")
    }
}
