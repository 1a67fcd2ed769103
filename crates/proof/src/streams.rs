//! Many streams open at once, each on a connection of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use memchr::memmem;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::load::{chat, connect, driving, send};
use crate::shapes::{Prompts, StreamShape};

/// Streams on their way; dropping it closes them all.
pub struct Streams {
    tasks: JoinSet<Result<()>>,
    count: usize,
    gauge: Arc<Gauge>,
    translated: bool,
}

#[derive(Default)]
struct Gauge {
    open: AtomicUsize,
    bytes: AtomicU64,
    events: AtomicU64,
}

impl Streams {
    /// Opens `count` streams, spread evenly over a time so that their chunks are spread too.
    pub fn start(addr: SocketAddr, count: usize, shape: StreamShape, over: Duration) -> Self {
        Self::open(addr, count, shape, over, false)
    }

    /// The same, for a gate that may be one that translates: events are counted, and of what length they are is its
    /// own affair.
    pub fn start_translated(addr: SocketAddr, count: usize, shape: StreamShape, over: Duration) -> Self {
        Self::open(addr, count, shape, over, true)
    }

    fn open(addr: SocketAddr, count: usize, shape: StreamShape, over: Duration, translated: bool) -> Self {
        let (gauge, prompts) = (Arc::<Gauge>::default(), Arc::new(Prompts::streaming()));
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        for index in 0..count {
            let due = start + over.mul_f64(index as f64 / count as f64);
            tasks.spawn(stream(addr, due, shape, prompts.clone(), gauge.clone(), translated));
        }
        Self { tasks, count, gauge, translated }
    }

    /// Waits until each stream has had its first bytes.
    pub async fn all_open(&mut self, limit: Duration) -> Result<()> {
        let opened = async {
            while self.gauge.open.load(Ordering::Relaxed) < self.count {
                tokio::select! {
                    Some(ended) = self.tasks.join_next() => {
                        ended??;
                        bail!("a stream ended before all were open");
                    }
                    () = sleep(Duration::from_millis(5)) => {}
                }
            }
            Ok(())
        };
        timeout(limit, opened).await.context("not all streams opened in time")?
    }

    /// Chunks received so far, on all streams.
    pub fn chunks(&self, shape: StreamShape) -> f64 {
        match self.translated {
            true => self.gauge.events.load(Ordering::Relaxed) as f64,
            false => self.gauge.bytes.load(Ordering::Relaxed) as f64 / shape.size as f64,
        }
    }

    /// Waits until each stream has ended as it should.
    pub async fn all_ended(mut self, limit: Duration) -> Result<()> {
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended??;
            }
            Ok(())
        };
        timeout(limit, ended).await.context("not all streams ended in time")?
    }
}

async fn stream(
    addr: SocketAddr,
    due: Instant,
    shape: StreamShape,
    prompts: Arc<Prompts>,
    gauge: Arc<Gauge>,
    translated: bool,
) -> Result<()> {
    sleep_until(due).await;
    let (mut sender, connection) = connect(addr).await?;
    let call = async {
        let mut body = send(&mut sender, chat(addr, prompts.next(), Some(shape))?).await?.into_body();
        let (mut received, mut ended) = (0, false);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let length = data.len() as u64;
            if received == 0 {
                gauge.open.fetch_add(1, Ordering::Relaxed);
            }
            received += length;
            gauge.bytes.fetch_add(length, Ordering::Relaxed);
            if translated {
                // Each event has one blank line, and none comes in two pieces.
                gauge.events.fetch_add(memmem::find_iter(&data, "\n\n").count() as u64, Ordering::Relaxed);
                ended = data.ends_with(b"data: [DONE]\n\n");
            }
        }
        ensure!(!translated || ended, "a translated stream without its end");
        ensure!(
            translated || received == shape.total(),
            "a stream of {received} bytes instead of {}",
            shape.total()
        );
        Ok(())
    };
    driving(connection, call).await
}
