//! One client connection's bytes, watched.
//!
//! The door knows whether its client is between requests, in the middle of one, or being served; bounds the
//! first two in time without a timer per request; looks at raw heads (`head_scan`); and notices a client that
//! stops reading. The connection's task reads `Watch::due` after every poll and calls `Watch::expire`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::head_scan::{Faults, HeadScan};

/// A kept-alive connection may rest this long between two requests.
const REST: Duration = Duration::from_secs(180);
/// Between two pieces of a request's body.
const BODY_PAUSE: Duration = Duration::from_secs(30);
/// A client must take bytes at least this often.
const WRITE_STALL: Duration = Duration::from_secs(30);

/// Longer than any call lasts.
const SERVICE: Duration = Duration::from_secs(7 * 24 * 3600);

const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n\
x-sluicegate-error: request_timeout\r\nx-should-retry: true\r\ncontent-length: 107\r\n\r\n\
{\"error\":{\"message\":\"the request took too long to arrive\",\"type\":\"timeout_error\",\"code\":\"request_timeout\"}}";

const FRESH: u8 = 0;
const RESTING: u8 = 1;
const HEAD: u8 = 2;
const BODY: u8 = 3;
const SERVING: u8 = 4;

/// What the connection's task, its service and its door share.
#[derive(Debug)]
pub(crate) struct Watch {
    born: Instant,
    header_timeout: Duration,
    phase: AtomicU8,
    /// Milliseconds after `born`.
    since: AtomicU64,
    /// Milliseconds after `born` plus one; zero while the client takes what it is sent.
    write_waits: AtomicU64,
    faults: AtomicU8,
    /// Requests in service; more than one on HTTP/2 only.
    serving: AtomicUsize,
    expired: AtomicBool,
}

impl Watch {
    pub(crate) fn new(header_timeout: Duration) -> Arc<Watch> {
        Arc::new(Watch {
            born: Instant::now(),
            header_timeout,
            phase: AtomicU8::new(FRESH),
            since: AtomicU64::new(0),
            write_waits: AtomicU64::new(0),
            faults: AtomicU8::new(0),
            serving: AtomicUsize::new(0),
            expired: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    /// A request's head has arrived and is being served. Returns what is wrong with its framing.
    pub(crate) fn serve(&self) -> Option<&'static str> {
        self.serving.fetch_add(1, Ordering::Relaxed);
        self.phase.store(SERVING, Ordering::Relaxed);
        Faults::unpack(self.faults.swap(0, Ordering::Relaxed)).complaint()
    }

    /// The answer is out; the client may send its next request.
    pub(crate) fn rest(&self) {
        if self.serving.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.since.store(self.now(), Ordering::Relaxed);
            self.phase.store(RESTING, Ordering::Relaxed);
        }
    }

    /// The call waits for its request's body, until `body_is_here`.
    pub(crate) fn wait_for_body(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.phase.store(BODY, Ordering::Relaxed);
    }

    /// The body has come.
    pub(crate) fn body_is_here(&self) {
        self.phase.store(SERVING, Ordering::Relaxed);
    }

    /// When this connection must have moved on.
    pub(crate) fn due(&self) -> Instant {
        let at = |millis: u64, wait: Duration| self.born + Duration::from_millis(millis) + wait;
        let since = self.since.load(Ordering::Relaxed);
        let write_waits = self.write_waits.load(Ordering::Relaxed);
        if write_waits > 0 {
            return at(write_waits - 1, WRITE_STALL);
        }
        match self.phase.load(Ordering::Relaxed) {
            FRESH | HEAD => at(since, self.header_timeout),
            BODY => at(since, BODY_PAUSE),
            RESTING => at(since, REST),
            // The call has deadlines of its own.
            _ => at(since, SERVICE),
        }
    }

    /// Ends the connection at its next read or write.
    pub(crate) fn expire(&self) {
        self.expired.store(true, Ordering::Relaxed);
    }
}

/// A client's connection.
pub(crate) struct Door<S> {
    io: S,
    watch: Arc<Watch>,
    scan: HeadScan,
    /// The connection turned out to speak HTTP/2: no heads to look at.
    h2: bool,
    /// What was read to find that out, and has not been handed on.
    first: Vec<u8>,
}

/// How a client that speaks HTTP/2 begins; no request of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI ";

impl<S: AsyncRead + AsyncWrite + Unpin> Door<S> {
    pub(crate) fn new(io: S, watch: Arc<Watch>) -> Door<S> {
        Door { io, watch, scan: HeadScan::default(), h2: false, first: Vec::new() }
    }

    /// Reads as far as is needed to tell whether the client speaks HTTP/2; none where it left or was too slow.
    pub(crate) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Option<bool>> {
        loop {
            if self.watch.expired.load(Ordering::Relaxed) {
                return Poll::Ready(None);
            }
            let mut space = [0; 2048];
            let mut buf = ReadBuf::new(&mut space);
            let outcome = std::task::ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf));
            if outcome.is_err() || buf.filled().is_empty() {
                return Poll::Ready(None);
            }
            self.first.extend_from_slice(buf.filled());
            let begun = &self.first[..self.first.len().min(PREFACE.len())];
            if begun == PREFACE || !PREFACE.starts_with(begun) {
                self.h2 = begun == PREFACE;
                let first = std::mem::take(&mut self.first);
                self.note_read(&first);
                self.first = first;
                return Poll::Ready(Some(self.h2));
            }
        }
    }

    fn note_read(&mut self, bytes: &[u8]) {
        let phase = self.watch.phase.load(Ordering::Relaxed);
        if self.h2 || phase == SERVING {
            return;
        }
        if phase == BODY {
            return self.watch.since.store(self.watch.now(), Ordering::Relaxed);
        }
        if phase != HEAD {
            self.scan.reset();
            self.watch.since.store(self.watch.now(), Ordering::Relaxed);
            self.watch.phase.store(HEAD, Ordering::Relaxed);
        }
        if let Some(faults) = self.scan.feed(bytes) {
            self.watch.faults.store(faults.pack(), Ordering::Relaxed);
        }
    }

    fn note_write(&self, progress: bool) {
        if progress {
            if self.watch.write_waits.load(Ordering::Relaxed) > 0 {
                self.watch.write_waits.store(0, Ordering::Relaxed);
            }
        } else if self.watch.write_waits.load(Ordering::Relaxed) == 0 {
            self.watch.write_waits.store(self.watch.now() + 1, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Door<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.watch.expired.load(Ordering::Relaxed) {
            if matches!(this.watch.phase.load(Ordering::Relaxed), HEAD | BODY) && !this.h2 {
                // Best effort: a client that sends a request byte by byte may not read either.
                let _ = Pin::new(&mut this.io).poll_write(cx, TOO_SLOW);
            }
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if !this.first.is_empty() {
            let size = this.first.len().min(buf.remaining());
            buf.put_slice(&this.first[..size]);
            // What is left, if anything is, is little: the reader's room is larger than what was read.
            this.first = this.first.split_off(size);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let outcome = Pin::new(&mut this.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            this.note_read(&buf.filled()[before..]);
        }
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Door<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.watch.expired.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let outcome = Pin::new(&mut this.io).poll_write(cx, buf);
        this.note_write(outcome.is_ready());
        outcome
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.watch.expired.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let outcome = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.note_write(outcome.is_ready());
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
