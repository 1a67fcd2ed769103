//! A provider's connection that stops after the head of a stream of events.
//!
//! The HTTP library reads the head, as it reads every other. What comes after it is kept back until it is decided
//! who reads the body: the library, or [`Bare`](super::bare::Bare), which needs nothing of what the library keeps
//! for a connection. Where the two could disagree about where the body begins, nothing is kept back: the head must
//! be the first that comes after the whole request has gone out, it must come in one piece, and its lines must all
//! end in the usual way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::last_words::LastWords;

/// All is passed on.
const PASSES: u8 = 0;
/// A request will be written.
const ASKS: u8 = 1;
/// Something of it has not gone out.
const SENDS: u8 = 2;
/// What is read next is the answer's head.
const ASKED: u8 = 3;
/// The library has the head, and nothing more.
const HOLDS: u8 = 4;

/// How far a connection's reader has come: for the one who uses the connection, since the reader itself is within
/// the library. Both are in one task.
#[derive(Clone, Default)]
pub(super) struct Brink(Arc<AtomicU8>);

impl Brink {
    /// A request whose body is here goes out next.
    pub(super) fn watch(&self) {
        self.0.store(ASKS, Relaxed);
    }

    /// Whether the library has got an answer's head and nothing of its body.
    pub(super) fn holds(&self) -> bool {
        self.at() == HOLDS
    }

    /// The library reads on. It has to be polled for that.
    pub(super) fn release(&self) {
        self.0.store(PASSES, Relaxed);
    }

    fn at(&self) -> u8 {
        self.0.load(Relaxed)
    }

    fn moves(&self, from: u8, to: u8) {
        if self.at() == from {
            self.0.store(to, Relaxed);
        }
    }
}

/// The connection.
pub(super) struct HeadFirst {
    io: LastWords,
    brink: Brink,
    /// What was kept back.
    rest: Vec<u8>,
}

impl HeadFirst {
    pub(super) fn new(io: LastWords, brink: Brink) -> HeadFirst {
        HeadFirst { io, brink, rest: Vec::new() }
    }

    /// The connection, and what came after the head.
    pub(super) fn into_parts(self) -> (LastWords, Vec<u8>) {
        (self.io, self.rest)
    }

    fn wrote(&self) {
        if self.brink.at() == ASKED {
            self.brink.0.store(SENDS, Relaxed);
        }
        self.brink.moves(ASKS, SENDS);
    }
}

/// Where the head of a stream of events ends, if that is what this begins with.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b"HTTP/1.1 200 ") {
        return None;
    }
    let (mut at, mut events) = (0, false);
    loop {
        let line = &bytes[at..at + memchr(b'\n', &bytes[at..])?];
        at += line.len() + 1;
        match line.strip_suffix(b"\r")? {
            [] => return events.then_some(at),
            line => events |= tells_events(line),
        }
    }
}

fn tells_events(line: &[u8]) -> bool {
    const NAME: &[u8] = b"content-type:";
    line.split_at_checked(NAME.len()).is_some_and(|(name, value)| {
        name.eq_ignore_ascii_case(NAME) && value.trim_ascii_start().starts_with(b"text/event-stream")
    })
}

impl AsyncRead for HeadFirst {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let at = this.brink.at();
        if at == HOLDS {
            // Nobody is to be woken: who gets the head decides before anything is polled again.
            return Poll::Pending;
        }
        if !this.rest.is_empty() {
            let size = this.rest.len().min(buf.remaining());
            buf.put_slice(&this.rest[..size]);
            this.rest.drain(..size);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        if at != PASSES {
            this.brink.release();
            let came = &buf.filled()[before..];
            if at == ASKED
                && !this.io.is_deaf()
                && let Some(end) = end_of_head(came)
            {
                this.rest = came[end..].to_vec();
                buf.set_filled(before + end);
                this.brink.0.store(HOLDS, Relaxed);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HeadFirst {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.wrote();
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wrote();
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// The library flushes only what it has written as a whole.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.io).poll_flush(cx))?;
        this.brink.moves(SENDS, ASKED);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_head_of_a_stream_of_events_is_cut_off() {
        let head =
            "HTTP/1.1 200 OK\r\nx: 1\r\nContent-Type:  text/event-stream; charset=utf-8\r\ny: 2\r\n\r\n";
        assert_eq!(end_of_head(head.as_bytes()), Some(head.len()));
        assert_eq!(end_of_head(format!("{head}5\r\n\r\n\r\n").as_bytes()), Some(head.len()));
        for cut in 0..head.len() {
            assert_eq!(end_of_head(&head.as_bytes()[..cut]), None);
        }
        for other in [
            head.replace("200", "500"),
            head.replace("1.1", "1.0"),
            head.replace("event-stream", "plain"),
            head.replace("Content-Type", "Content-Kind"),
            head.replace("x: 1\r\n", "x: 1\n"),
            head.replace("x: 1\r\n", "\r\n"),
            format!("\r\n{head}"),
        ] {
            assert_eq!(end_of_head(other.as_bytes()), None, "{other}");
        }
    }
}
