//! One connection over HTTP/1.1, and the exchange that it is used for.
//!
//! It is moved by the call that uses it and by nobody else, and it holds no buffer while it waits: a request is
//! written from where it lies, and what is read lies on the stack until it is known how long it is. So an open stream,
//! which may be silent for long, costs its socket and little more.
//!
//! Not here: deadlines, whose alarm is only kept here, and what to do when an exchange breaks.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use guard::alarm::Alarm;
use http::{Method, response};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::connect::Io;
use super::head::{Coming, Framing, Head, Unreadable};
use super::sending::Sending;
use crate::net::chunk_scan::{Chunks, Ended};

/// What is read at once, and the longest piece that is put together: as much as is held of an unfinished event.
const READ: usize = 16 * 1024;
const MOST: usize = wire::relay::HOLD;
/// Of chunk sizes, extensions and trailers without a byte of the body in between.
const MOST_CODING: usize = 16 * 1024;

/// One connection and the timer of the call that uses it.
pub(super) struct Link {
    io: Io,
    /// Rings at the nearest deadline of the call in progress.
    pub(super) alarm: Alarm,
    /// Has carried a call before: if it dies before a byte of the next one was written, that says nothing about the
    /// provider.
    pub(super) reused: bool,
    pub(super) rests_since: Instant,
    /// The request, until all of it has gone out.
    sending: Option<Sending>,
    method: Method,
    coming: Coming,
    body: Body,
    /// What has been read of the body and not been decoded.
    ahead: Bytes,
    /// It can carry another call after this one.
    stays: bool,
}

/// The body that comes.
#[derive(Clone, Copy)]
enum Body {
    /// So many bytes are missing.
    Length(u64),
    /// And bytes of the coding since the last one of the body.
    Chunked(Chunks, usize),
    Rest,
    /// All has come.
    Whole,
    /// What came is no chunked coding.
    Garbled,
}

/// Why an exchange got no answer.
pub(super) enum Failed {
    /// No byte was written; here is the request.
    Unsent(Box<Sending>),
    Broke(io::Error),
}

impl Link {
    /// Takes over a fresh connection.
    pub(super) fn open(io: Io) -> Box<Link> {
        Box::new(Link {
            io,
            alarm: Alarm::new(),
            reused: false,
            rests_since: Instant::now(),
            sending: None,
            method: Method::GET,
            coming: Coming::default(),
            body: Body::Whole,
            ahead: Bytes::new(),
            stays: true,
        })
    }

    /// Whether it can carry another call.
    pub(super) fn is_reusable(&self) -> bool {
        self.stays && self.is_end() && self.sending.is_none() && self.ahead.is_empty()
    }

    /// Whether the provider has left it open, and has said nothing that nobody asked for.
    pub(super) fn is_fit(&mut self) -> bool {
        self.is_quiet(&mut Context::from_waker(Waker::noop()))
    }

    fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        // A fresh one may hold what belongs to its handshake.
        if self.reused && !self.io.is_silent() {
            return false;
        }
        let mut byte = [MaybeUninit::uninit()];
        Pin::new(&mut self.io).poll_read(cx, &mut ReadBuf::uninit(&mut byte)).is_pending()
    }

    /// Begins an exchange. The connection must be at rest.
    pub(super) fn begin(&mut self, sending: Sending) {
        self.method = sending.method.clone();
        self.sending = Some(sending);
        self.stays = false;
    }

    /// Drives an exchange to the head of its answer.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<response::Parts, Failed>> {
        // What comes before a byte has gone out is an end, or no answer to this request.
        if self.sending.as_ref().is_some_and(Sending::is_whole) && !self.is_quiet(cx) {
            return Poll::Ready(Err(self.failed(closed())));
        }
        let head = ready!(self.drive(cx));
        Poll::Ready(head.map_err(|broken| self.failed(broken)))
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<response::Parts>> {
        self.send(cx)?;
        loop {
            let mut space = [MaybeUninit::uninit(); READ];
            let mut buf = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Err(if self.coming.is_empty() { closed() } else { cut() }));
            }
            let head = self.coming.take(buf.filled(), &self.method).map_err(unreadable)?;
            if let Some((head, ahead)) = head {
                return Poll::Ready(Ok(self.answered(head, ahead)));
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(sending) = &mut self.sending {
            sending.go(&mut self.io, cx)?;
            if sending.is_gone() {
                self.sending = None;
            }
        }
        Ok(())
    }

    fn failed(&mut self, broken: io::Error) -> Failed {
        match self.sending.take_if(|sending| sending.is_whole()) {
            Some(unsent) => Failed::Unsent(Box::new(unsent)),
            None => Failed::Broke(broken),
        }
    }

    fn answered(&mut self, head: Head, ahead: Bytes) -> response::Parts {
        self.body = match head.framing {
            Framing::Length(0) => Body::Whole,
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::Chunked(Chunks::default(), 0),
            Framing::Rest => Body::Rest,
        };
        self.ahead = ahead;
        self.stays = head.stays;
        head.parts
    }

    /// Whether nothing more will come.
    pub(super) fn is_end(&self) -> bool {
        matches!(self.body, Body::Whole)
    }

    /// How many bytes will come, where the provider said so.
    pub(super) fn length(&self) -> Option<u64> {
        match self.body {
            Body::Whole => Some(0),
            Body::Length(missing) => Some(missing),
            Body::Chunked(..) | Body::Rest | Body::Garbled => None,
        }
    }

    /// The next bytes of the body; none after a whole one. A chunk that is there makes one piece: where it ends an
    /// event ends, as a rule, and something of ours can stand.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        // An answer may begin before the request has gone out.
        self.send(cx)?;
        let mut data = BytesMut::new();
        if !self.ahead.is_empty() {
            if let Some(piece) = self.take_ahead() {
                return Poll::Ready(Some(Ok(piece)));
            }
            let ahead = std::mem::take(&mut self.ahead);
            self.add(&ahead, &mut data);
        }
        let mut more = data.is_empty();
        while more && let Some(room) = self.room() {
            let mut space = [MaybeUninit::uninit(); READ];
            let mut buf = ReadBuf::uninit(&mut space[..room]);
            let read = Pin::new(&mut self.io).poll_read(cx, &mut buf);
            match read {
                // What has come goes out first; the end is found again.
                Poll::Pending | Poll::Ready(Err(_)) if !data.is_empty() => break,
                read => ready!(read)?,
            }
            let came = buf.filled();
            if came.is_empty() && data.is_empty() {
                if !matches!(self.body, Body::Rest) {
                    return Poll::Ready(Some(Err(cut())));
                }
                self.body = Body::Whole;
                break;
            }
            self.add(came, &mut data);
            let is_cut = came.len() == room && self.is_within();
            more = data.is_empty() || (is_cut && data.len() < MOST);
        }
        Poll::Ready(match self.body {
            _ if !data.is_empty() => Some(Ok(data.freeze())),
            Body::Garbled => Some(Err(garbled())),
            _ => None,
        })
    }

    /// What came together with the head, where it is the body as it is.
    fn take_ahead(&mut self) -> Option<Bytes> {
        match &mut self.body {
            Body::Length(missing) => {
                let size = usize::try_from(*missing).unwrap_or(usize::MAX).min(self.ahead.len());
                *missing -= size as u64;
                let whole = *missing == 0;
                // What nobody asked for is not the beginning of the next answer: it stays, and with it the connection
                // is of no more use.
                let piece = self.ahead.split_to(size);
                if whole {
                    self.body = Body::Whole;
                }
                Some(piece)
            }
            Body::Rest => Some(std::mem::take(&mut self.ahead)),
            Body::Chunked(..) | Body::Whole | Body::Garbled => None,
        }
    }

    /// How much to read at once; none where nothing more is to come.
    fn room(&self) -> Option<usize> {
        match &self.body {
            Body::Length(missing) => Some(usize::try_from(*missing).unwrap_or(READ).min(READ)),
            Body::Chunked(chunks, _) => Some(chunks.missing().map_or(READ, |missing| missing.min(READ))),
            Body::Rest => Some(READ),
            Body::Whole | Body::Garbled => None,
        }
    }

    /// Whether what was read ends in the middle of something.
    fn is_within(&self) -> bool {
        match &self.body {
            Body::Chunked(chunks, _) => chunks.missing().is_some(),
            Body::Length(_) | Body::Rest => true,
            Body::Whole | Body::Garbled => false,
        }
    }

    /// Adds what of these bytes is the body's.
    fn add(&mut self, bytes: &[u8], data: &mut BytesMut) {
        match &mut self.body {
            Body::Rest => data.extend_from_slice(bytes),
            Body::Length(missing) => {
                data.extend_from_slice(bytes);
                // No more is read than is missing.
                *missing -= bytes.len() as u64;
                if *missing == 0 {
                    self.body = Body::Whole;
                }
            }
            Body::Chunked(chunks, coding) => {
                let before = data.len();
                data.reserve(bytes.len());
                let (taken, ended) = chunks.decode(bytes, |run| data.extend_from_slice(run));
                *coding = if data.len() == before { *coding + taken } else { 0 };
                let too_much = *coding > MOST_CODING;
                // What nobody asked for is not the beginning of the next answer.
                self.stays &= taken == bytes.len();
                match ended {
                    Some(Ended::Whole) => self.body = Body::Whole,
                    Some(Ended::Broken) => self.body = Body::Garbled,
                    None if too_much => self.body = Body::Garbled,
                    None => {}
                }
            }
            Body::Whole | Body::Garbled => self.stays = false,
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed before its answer")
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed before the answer was complete")
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid chunked coding")
}

fn unreadable(head: Unreadable) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, head)
}

#[cfg(test)]
mod tests;
