//! What the gate tells about its calls: a log line, metrics, live events and the call log, all from one record.
//!
//! Invariant: a call is settled once, through [`Observer::settle`], and every view is fed there; nothing else
//! counts or logs a call. Settling never waits: each sink takes what it can at once, and counts what it can't.

pub mod events;
pub mod line;
pub mod log;
pub mod metrics;
pub mod record;
mod sampling;
pub mod sink;
mod stamp;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use events::{Bus, Event, Heard, Listener, Told};
pub use line::{Format, Lines};
pub use log::Levels;
pub use metrics::{
    GateGauges, Levels as GaugeLevels, Metrics, Outcome, ProviderGauges, TargetHandles, WindowLimits,
};
pub use record::{CallError, CallRecord, Fate, NanoUsd};
pub use sink::Sink;

/// Keeps records. Called on the call's own path: must not block.
pub trait CallLog: Send + Sync {
    /// Takes a record of a call that is over.
    fn append(&self, record: &CallRecord);
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullLog;

impl CallLog for NullLog {
    fn append(&self, _: &CallRecord) {}
}

/// Keeps records in several places.
#[derive(Clone, Default)]
pub struct FanOut(pub Vec<Arc<dyn CallLog>>);

impl CallLog for FanOut {
    fn append(&self, record: &CallRecord) {
        for log in &self.0 {
            log.append(record);
        }
    }
}

/// Everything that wants to know of a call.
pub struct Observer {
    metrics: Arc<Metrics>,
    lines: Lines,
    bus: Bus,
    log: Arc<dyn CallLog>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Observer").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Observer {
    /// An observer that feeds these, and a bus of its own.
    pub fn new(metrics: Arc<Metrics>, lines: Lines, log: Arc<dyn CallLog>) -> Self {
        Observer { metrics, lines, bus: Bus::default(), log }
    }

    /// Books a call that is over, under the provider that it went to, or [`Metrics::untargeted`]. Once per
    /// call. `watched` is what [`Bus::admits`] said when it arrived.
    pub fn settle(&self, record: &CallRecord, target: &TargetHandles, watched: bool) {
        self.metrics.count(record, target);
        self.lines.write(record);
        self.log.append(record);
        if watched {
            // Kept for those who listen, and there are mostly none.
            self.bus.publish(|| Event::Settled(Arc::new(record.clone())));
        }
    }

    /// The metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The live events.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Waits until the log lines are written, `limit` at most; says whether they are. Blocks its thread.
    pub fn flush(&self, limit: Duration) -> bool {
        self.lines.flush(limit)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use prometheus_client::metrics::counter::Counter;
    use tracing::level_filters::LevelFilter;

    use super::*;
    use record::tests::sample;
    use sink::tests::Page;

    #[derive(Default)]
    struct Kept(Mutex<Vec<CallRecord>>);

    impl CallLog for Kept {
        fn append(&self, record: &CallRecord) {
            self.0.lock().push(record.clone());
        }
    }

    #[tokio::test]
    async fn a_settled_call_is_told_everywhere_once() {
        let page = Page::default();
        let lines = Lines::new(
            Format::Text,
            LevelFilter::INFO,
            Sink::start(page.clone(), Counter::default()).unwrap(),
        );
        let kept = [Arc::new(Kept::default()), Arc::new(Kept::default())];
        let log = FanOut(vec![kept[0].clone(), kept[1].clone(), Arc::new(NullLog)]);
        let observer = Observer::new(Arc::default(), lines, Arc::new(log));
        let mut listener = observer.bus().listen();

        observer.settle(&sample(), &observer.metrics().target("openai"), true);

        assert!(observer.flush(Duration::from_secs(10)));
        assert_eq!(page.text().lines().count(), 1);
        assert!(kept.iter().all(|log| log.0.lock().len() == 1));
        let Some(Heard::Told(Told { event: Event::Settled(told), .. })) = listener.next().await else {
            panic!("not told")
        };
        assert_eq!(told.id, sample().id);
        let metrics = observer.metrics().render().unwrap();
        assert!(metrics.contains("sluicegate_call_seconds_count 1\n"), "{metrics}");
    }
}
