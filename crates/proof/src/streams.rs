//! Many streams open at once, each on a connection of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::load::{chat, connect, driving, send};
use crate::shapes::{Prompts, StreamShape};

/// Streams on their way; dropping it closes them all.
pub struct Streams {
    tasks: JoinSet<Result<()>>,
    count: usize,
    gauge: Arc<Gauge>,
}

#[derive(Default)]
struct Gauge {
    open: AtomicUsize,
    bytes: AtomicU64,
}

impl Streams {
    /// Opens `count` streams, spread evenly over a time so that their chunks are spread too.
    pub fn start(addr: SocketAddr, count: usize, shape: StreamShape, over: Duration) -> Self {
        let (gauge, prompts) = (Arc::<Gauge>::default(), Arc::new(Prompts::streaming()));
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        for index in 0..count {
            let due = start + over.mul_f64(index as f64 / count as f64);
            tasks.spawn(stream(addr, due, shape, prompts.clone(), gauge.clone()));
        }
        Self { tasks, count, gauge }
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

    /// Bytes received so far, on all streams.
    pub fn bytes(&self) -> u64 {
        self.gauge.bytes.load(Ordering::Relaxed)
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
) -> Result<()> {
    sleep_until(due).await;
    let (mut sender, connection) = connect(addr).await?;
    let call = async {
        let mut body = send(&mut sender, chat(addr, prompts.next(), Some(shape))?).await?.into_body();
        let mut received = 0;
        while let Some(frame) = body.frame().await {
            let length = frame?.data_ref().map_or(0, Bytes::len) as u64;
            if received == 0 {
                gauge.open.fetch_add(1, Ordering::Relaxed);
            }
            received += length;
            gauge.bytes.fetch_add(length, Ordering::Relaxed);
        }
        ensure!(received == shape.total(), "a stream of {received} bytes instead of {}", shape.total());
        Ok(())
    };
    driving(connection, call).await
}
