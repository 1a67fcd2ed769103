//! Connections: HTTP/1.1 and HTTP/2 with prior knowledge, over TCP or anything else that reads and writes.
//!
//! Invariant: every task is in the handle's set and ends with its token. One task per connection, and one
//! per open stream on HTTP/2.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::call;
use super::shared::Shared;
use super::stats;

/// A client that hangs up resets its stream; thousands may do so at once and mean no attack.
const MOST_RESETS: usize = 8_192;
/// Between two tries after the system refused a connection, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The set that all tasks of one mock are in.
#[derive(Clone)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    end: CancellationToken,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self { tracker: TaskTracker::new(), end: CancellationToken::new() }
    }

    pub(crate) fn spawn(&self, task: impl Future + Send + 'static) {
        let end = self.end.clone();
        self.tracker.spawn(async move {
            end.run_until_cancelled(task).await;
        });
    }

    pub(crate) fn cancel(&self) {
        self.end.cancel();
    }

    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl<F: Future + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

/// What a call can do to the connection that it came on.
pub(crate) struct Line {
    pub(crate) count: stats::Connection,
    end: CancellationToken,
    reset: Arc<AtomicBool>,
}

impl Line {
    /// Ends the connection and all that is on it.
    pub(crate) fn drop_now(&self) {
        self.end.cancel();
    }

    /// The same, with a reset where the transport has such a thing.
    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
        self.drop_now();
    }
}

pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: Tasks) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small events would wait for acknowledgements; failing to say so only costs time.
                let _ = stream.set_nodelay(true);
                let reset = Arc::new(AtomicBool::new(false));
                let io = Resettable { stream, reset: reset.clone() };
                tasks.spawn(serve(io, reset, shared.clone(), tasks.clone()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

pub(crate) async fn serve<T>(io: T, reset: Arc<AtomicBool>, shared: Arc<Shared>, tasks: Tasks)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let end = CancellationToken::new();
    let line = Arc::new(Line { count: shared.counters.connect(), end: end.clone(), reset });
    let most_streams = shared.h2_max_streams;
    let service = service_fn(move |request| call::answer(shared.clone(), line.clone(), request));
    let mut builder = auto::Builder::new(tasks);
    // An idle client is left alone: a mock should not be the one that closes.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(most_streams)
        .max_pending_accept_reset_streams(MOST_RESETS)
        .max_local_error_reset_streams(MOST_RESETS);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    // An error is the client's doing or the script's, and both are counted where they happen.
    let _ = end.run_until_cancelled(connection).await;
}

/// A TCP stream that can end with a reset.
struct Resettable {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            // Fails only on a socket that is gone, which is what was wanted.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
