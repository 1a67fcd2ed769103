//! One client connection's bytes, watched.
//!
//! The door knows whether its client is between requests, in the middle of one, or being served; bounds the
//! first two in time without a timer per request; looks at raw heads (`head_scan`); and notices a client that
//! stops reading. The connection's task reads `Watch::due` after every poll and calls `Watch::expire`.
//!
//! On HTTP/1.1 the library never sees a byte beyond the request that is being served: what a client sends ahead
//! waits here, and is looked at from its beginning once its turn has come. So every head is judged by the same
//! rules and has the same deadline, wherever in the stream it begins.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::head_scan::{Complaint, Requests};

/// A kept-alive connection may rest this long between two requests.
const REST: Duration = Duration::from_secs(180);
/// Between two pieces of a request's body.
const BODY_PAUSE: Duration = Duration::from_secs(30);
/// A client must take bytes at least this often.
const WRITE_STALL: Duration = Duration::from_secs(30);

/// Bytes of later requests that wait here. A client that sends more of them is not read on until its turn comes,
/// and its hang-up is noticed only then.
const MOST_AHEAD: usize = 64 * 1024;

/// From a connection's beginning, when the gate closes: who asks at once is still answered.
const LAST_WORD: Duration = Duration::from_millis(500);

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
    /// The gate is closing.
    hurried: AtomicBool,
    phase: AtomicU8,
    /// Milliseconds after `born`.
    since: AtomicU64,
    /// Milliseconds after `born` plus one; zero while the client takes what it is sent.
    write_waits: AtomicU64,
    /// The number of the complaint about the latest head.
    complaint: AtomicU8,
    /// Requests in service; more than one on HTTP/2 only.
    serving: AtomicUsize,
    expired: AtomicBool,
    /// When the call wants to be polled again: milliseconds after `born`, zero where it does not.
    call_waits: AtomicU64,
    /// Woken when the answer is out, if the door waits for that.
    next: AtomicWaker,
}

impl Watch {
    pub(crate) fn new(header_timeout: Duration) -> Arc<Watch> {
        Arc::new(Watch {
            born: Instant::now(),
            header_timeout,
            hurried: AtomicBool::new(false),
            phase: AtomicU8::new(FRESH),
            since: AtomicU64::new(0),
            write_waits: AtomicU64::new(0),
            complaint: AtomicU8::new(0),
            serving: AtomicUsize::new(0),
            expired: AtomicBool::new(false),
            call_waits: AtomicU64::new(0),
            next: AtomicWaker::new(),
        })
    }

    fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> u64 {
        now.duration_since(self.born).as_millis() as u64
    }

    /// A request's head has arrived and is being served. Returns what is wrong with its framing.
    pub(crate) fn serve(&self) -> Option<&'static str> {
        self.serving.fetch_add(1, Ordering::Relaxed);
        self.phase.store(SERVING, Ordering::Relaxed);
        Complaint::of_code(self.complaint.load(Ordering::Relaxed)).map(Complaint::message)
    }

    /// The connection takes no request after this one: where it ends, nobody knows.
    pub(crate) fn is_last(&self) -> bool {
        self.complaint.load(Ordering::Relaxed) != 0
    }

    /// The answer is out; the client may send its next request.
    pub(crate) fn rest(&self, now: Instant) {
        if self.serving.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.since.store(self.at(now), Ordering::Relaxed);
            self.phase.store(RESTING, Ordering::Relaxed);
            self.call_waits.store(0, Ordering::Relaxed);
            self.next.wake();
        }
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
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
            FRESH if self.hurried.load(Ordering::Relaxed) => at(since, self.header_timeout.min(LAST_WORD)),
            FRESH | HEAD => at(since, self.header_timeout),
            BODY => at(since, BODY_PAUSE),
            RESTING => at(since, REST),
            // The call has deadlines of its own.
            _ => at(since, SERVICE),
        }
    }

    /// The call in service is to be polled again at `due`, if it was not before; one call at a time. Costs a
    /// store, where a timer of the call's own would cost an allocation.
    pub(crate) fn poll_call_at(&self, due: Instant) {
        self.call_waits.store(self.millis(due), Ordering::Relaxed);
    }

    /// Whether that was said and is still to come.
    pub(crate) fn polls_call_at(&self, due: Instant) -> bool {
        self.call_waits.load(Ordering::Relaxed) == self.millis(due)
    }

    /// Rounded up: polled too early, the call would only ask again.
    fn millis(&self, due: Instant) -> u64 {
        due.duration_since(self.born).as_nanos().div_ceil(1_000_000).max(1) as u64
    }

    /// When the connection has to be looked at again.
    pub(crate) fn wakes_at(&self) -> Instant {
        match self.call_waits.load(Ordering::Relaxed) {
            0 => self.due(),
            millis => self.due().min(self.born + Duration::from_millis(millis)),
        }
    }

    /// That instant has come: the connection is polled now, and a call that goes on waiting says so anew.
    pub(crate) fn wakes(&self, now: Instant) {
        self.call_waits.store(0, Ordering::Relaxed);
        if self.due() <= now {
            self.expire();
        }
    }

    /// The gate closes: a client that has not begun to ask must do so soon.
    pub(crate) fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// Ends the connection at its next read or write.
    fn expire(&self) {
        self.expired.store(true, Ordering::Relaxed);
    }

    /// Whether the client was too slow, and its connection ends.
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }
}

/// A client's connection.
pub(crate) struct Door<S> {
    io: S,
    watch: Arc<Watch>,
    requests: Requests,
    /// The connection turned out to speak HTTP/2: no heads to look at.
    h2: bool,
    /// What was read and not handed on: at first to find that out, later because its turn has not come.
    ahead: BytesMut,
}

/// How a client that speaks HTTP/2 begins; no request of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI ";

impl<S: AsyncRead + AsyncWrite + Unpin> Door<S> {
    pub(crate) fn new(io: S, watch: Arc<Watch>) -> Door<S> {
        Door { io, watch, requests: Requests::default(), h2: false, ahead: BytesMut::new() }
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
            self.ahead.extend_from_slice(buf.filled());
            let begun = &self.ahead[..self.ahead.len().min(PREFACE.len())];
            if begun == PREFACE || !PREFACE.starts_with(begun) {
                self.h2 = begun == PREFACE;
                return Poll::Ready(Some(self.h2));
            }
        }
    }

    /// Hands on what was read ahead, as far as it may be. Returns whether there was anything.
    fn take_ahead(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let most = self.ahead.len().min(buf.remaining());
        let size = if self.h2 { most } else { claim(&mut self.requests, &self.watch, &self.ahead[..most]) };
        buf.put_slice(&self.ahead[..size]);
        self.ahead.advance(size);
        if self.ahead.is_empty() {
            // A connection at rest keeps no room for it.
            self.ahead = BytesMut::new();
        }
        size > 0
    }

    /// Reads what belongs to the request that is being served, and keeps what comes after it.
    fn poll_request(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.requests.is_broken() {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            let refused = self.requests.complaint().is_some();
            if refused && self.watch.phase() == RESTING {
                return Poll::Ready(Ok(()));
            }
            let waits = refused || !self.ahead.is_empty();
            if waits {
                self.watch.next.register(cx.waker());
            }
            if self.ahead.len() >= MOST_AHEAD {
                return Poll::Pending;
            }
            let before = buf.filled().len();
            std::task::ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
            let came = &buf.filled()[before..];
            if came.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let size = if waits { 0 } else { claim(&mut self.requests, &self.watch, came) };
            if size == came.len() {
                return Poll::Ready(Ok(()));
            }
            if self.requests.complaint().is_none() {
                self.ahead.extend_from_slice(&came[size..]);
            }
            buf.set_filled(before + size);
            if size > 0 {
                return Poll::Ready(Ok(()));
            }
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
            let stalled = this.watch.write_waits.load(Ordering::Relaxed) > 0;
            if matches!(this.watch.phase(), HEAD | BODY) && !this.h2 && !stalled {
                // Best effort: a client that sends a request byte by byte may not read either.
                let _ = Pin::new(&mut this.io).poll_write(cx, TOO_SLOW);
            }
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if !this.ahead.is_empty() && this.take_ahead(buf) {
            return Poll::Ready(Ok(()));
        }
        if this.h2 { Pin::new(&mut this.io).poll_read(cx, buf) } else { this.poll_request(cx, buf) }
    }
}

/// How many of the next bytes belong to the request whose turn it is; notes what they tell.
fn claim(requests: &mut Requests, watch: &Watch, bytes: &[u8]) -> usize {
    let phase = watch.phase();
    if requests.is_whole() && phase == RESTING {
        requests.next();
    }
    let before_body = requests.in_head();
    let size = requests.feed(bytes);
    match phase {
        FRESH | RESTING if before_body && requests.has_begun() => {
            watch.since.store(watch.now(), Ordering::Relaxed);
            watch.phase.store(HEAD, Ordering::Relaxed);
        }
        BODY => watch.since.store(watch.now(), Ordering::Relaxed),
        _ => {}
    }
    if let Some(complaint) = requests.complaint() {
        watch.complaint.store(complaint.code(), Ordering::Relaxed);
    }
    size
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
