//! HTTP/2 connections to one provider account: as many as needed, each with a bounded number of streams.
//!
//! A client library that puts every call on one connection makes the calls beyond the provider's stream limit
//! wait in silent waves. Here a call takes a place on a connection with room, or opens another one.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::Upload;
use super::connect::Io;
use crate::tasks::Tasks;

/// Streams per connection: below the 100 that providers commonly allow.
const STREAMS: usize = 80;

/// The HTTP/2 connections of one account.
#[derive(Default)]
pub struct H2Pool {
    lines: Mutex<Vec<Arc<Line>>>,
}

/// One connection, open or being opened.
struct Line {
    sender: OnceCell<http2::SendRequest<Upload>>,
    used: Mutex<usize>,
    /// Streams that fit: the provider may allow fewer than we would open.
    room: AtomicUsize,
    dead: AtomicBool,
}

impl Line {
    fn seat(&self) -> bool {
        let mut used = self.used.lock();
        let free = *used < self.room.load(Ordering::Relaxed) && !self.dead.load(Ordering::Relaxed);
        *used += usize::from(free);
        free
    }
}

/// One stream's place on a connection; returned when dropped.
#[must_use = "the place is given back when dropped"]
pub struct H2Place {
    line: Arc<Line>,
    pool: Arc<H2Pool>,
}

impl H2Pool {
    /// Takes a place, on a connection that may still have to be opened.
    pub fn place(self: &Arc<Self>) -> H2Place {
        let mut lines = self.lines.lock();
        lines.retain(|line| {
            !line.dead.load(Ordering::Relaxed)
                && line.sender.get().is_none_or(|sender| !sender.is_closed() || *line.used.lock() > 0)
        });
        let line = match lines.iter().find(|line| line.seat()) {
            Some(line) => line.clone(),
            None => {
                let line = Arc::new(Line {
                    sender: OnceCell::new(),
                    used: Mutex::new(1),
                    room: AtomicUsize::new(STREAMS),
                    dead: AtomicBool::new(false),
                });
                lines.push(line.clone());
                line
            }
        };
        H2Place { line, pool: self.clone() }
    }

    /// How many connections are open or being opened.
    pub fn connections(&self) -> usize {
        self.lines.lock().len()
    }
}

impl H2Place {
    /// The connection's sender, opened by the first who needs it; a failure is that call's own, and the next
    /// one tries again.
    pub async fn sender<E: From<hyper::Error>>(
        &self,
        tasks: &Tasks,
        open: impl Future<Output = Result<Io, E>>,
    ) -> Result<http2::SendRequest<Upload>, E> {
        let sender = self.line.sender.get_or_try_init(|| async {
            let io = TokioIo::new(open.await?);
            let (sender, mut conn) = http2::Builder::new(tasks.clone())
                .timer(TokioTimer::new())
                .keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5))
                .initial_stream_window_size(256 * 1024)
                .initial_connection_window_size(4 * 1024 * 1024)
                .max_header_list_size(64 * 1024)
                .handshake(io)
                .await?;
            let line = self.line.clone();
            tasks.spawn(async move {
                let ended = poll_fn(|cx| {
                    let ended = Pin::new(&mut conn).poll(cx);
                    line.room.store(STREAMS.min(conn.current_max_send_streams()), Ordering::Relaxed);
                    ended
                });
                if let Err(broken) = ended.await {
                    tracing::debug!(error = %broken, "an HTTP/2 connection ended");
                }
                line.dead.store(true, Ordering::Relaxed);
            });
            Ok(sender)
        });
        sender.await.cloned()
    }
}

impl Drop for H2Place {
    fn drop(&mut self) {
        let empty = {
            let mut used = self.line.used.lock();
            *used -= 1;
            *used == 0
        };
        // A connection that never came to be, or is gone, leaves with its last caller.
        if empty && self.line.sender.get().is_none_or(|sender| sender.is_closed()) {
            self.line.dead.store(true, Ordering::Relaxed);
            self.pool.lines.lock().retain(|line| !Arc::ptr_eq(line, &self.line));
        }
    }
}
