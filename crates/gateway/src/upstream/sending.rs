//! A request over HTTP/1.1 on its way to the provider.
//!
//! What is left of it is here until it has been written: where a connection turns out to be dead before it took a byte,
//! the same request goes out on another one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request};
use http_body::Body;
use tokio::io::AsyncWrite;
use wire::edit::Slices;

use super::Upload;
use super::connect::Io;
use super::head::{self, Framing};
use super::upload::{Passing, Turn};

/// Pieces that are written at once.
const AT_ONCE: usize = 8;
/// A body up to this size is copied behind the head: less work than writing from several places.
const SMALL: usize = 2 * 1024;

/// What has not been written of a request.
pub(super) struct Sending {
    pub(super) method: Method,
    /// What goes next.
    ready: Box<Slices>,
    passing: Option<Passage>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No byte has been written.
    Whole,
    Goes,
    /// All has been written.
    Gone,
    /// The other side has stopped reading, and may have said why.
    Unheard,
}

/// A body that comes as it is passed on.
struct Passage {
    body: Box<Passing>,
    framing: Framing,
}

impl Sending {
    pub(super) fn new(mut request: Request<Upload>) -> Sending {
        let framing = framing(&request);
        let small = match request.body() {
            Upload::Slices(slices) if slices.len() <= SMALL => slices.len(),
            _ => 0,
        };
        let mut head = head::write(&request, framing, small);
        let method = std::mem::take(request.method_mut());
        let (mut ready, passing) = match (request.into_body(), framing) {
            (Upload::Slices(mut slices), _) if small > 0 => {
                slices.iter().for_each(|slice| head.extend_from_slice(slice));
                slices.advance(small);
                (slices, None)
            }
            (Upload::Slices(slices), _) => (slices, None),
            (Upload::Stream(body), Some(framing)) => (Box::default(), Some(Passage { body, framing })),
            (Upload::Stream(_), None) => (Box::default(), None),
        };
        ready.push_front(head.into());
        Sending { method, ready, passing, state: State::Whole }
    }

    /// Whose turn it is, where the body passes.
    pub(super) fn turn(&self) -> Option<Turn> {
        self.passing.as_ref().map(|passing| passing.body.turn())
    }

    /// Whether the provider can't have seen anything of it.
    pub(super) fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    /// Whether all of it has gone out.
    pub(super) fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    /// Writes as much as can be written now.
    pub(super) fn go(&mut self, io: &mut Io, cx: &mut Context<'_>) -> io::Result<()> {
        while matches!(self.state, State::Whole | State::Goes) {
            if self.ready.is_empty() && !self.fill(cx)? {
                break;
            }
            if self.ready.is_empty() {
                self.flush(io, cx)?;
                break;
            }
            if matches!(io, Io::Tls(_)) {
                // It takes in more than it writes, and may fail after a part of that has gone out.
                self.state = State::Goes;
            }
            match self.write(io, cx) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => {
                    self.ready.advance(written);
                    self.state = State::Goes;
                }
                // A provider that refuses a request by its head answers and closes while the body is on its way: the
                // answer is there to be read, and what it says (or its silence) decides.
                Poll::Ready(Err(failed)) if is_closed(&failed) && self.state == State::Goes => {
                    self.state = State::Unheard;
                }
                Poll::Ready(Err(failed)) => return Err(failed),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn write(&self, io: &mut Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut left = self.ready.iter();
        if let (Some(only), None) = (left.next(), left.next()) {
            return Pin::new(io).poll_write(cx, only);
        }
        let mut pieces = [IoSlice::new(&[]); AT_ONCE];
        let mut count = 0;
        for (place, piece) in pieces.iter_mut().zip(self.ready.iter()) {
            *place = IoSlice::new(piece);
            count += 1;
        }
        Pin::new(io).poll_write_vectored(cx, &pieces[..count])
    }

    /// Gets the next piece of a body that passes. False: it has not come yet.
    fn fill(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let Some(Passage { body, framing }) = &mut self.passing else { return Ok(true) };
        loop {
            let piece = match Pin::new(&mut **body).poll(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Some(Err(broken))) => return Err(io::Error::other(broken)),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) if !piece.is_empty() => piece,
                    _ => continue,
                },
                Poll::Ready(None) => {
                    match framing {
                        Framing::Length(left) if *left > 0 => {
                            return Err(io::Error::other("the request body is shorter than was said"));
                        }
                        Framing::Chunked => self.ready.push_front(Bytes::from_static(b"0\r\n\r\n")),
                        Framing::Length(_) | Framing::Rest => {}
                    }
                    self.passing = None;
                    return Ok(true);
                }
            };
            let size = piece.len();
            match framing {
                Framing::Length(left) => {
                    *left = left
                        .checked_sub(size as u64)
                        .ok_or_else(|| io::Error::other("the request body is longer than was said"))?;
                    self.ready.push_front(piece);
                }
                Framing::Chunked | Framing::Rest => {
                    self.ready.push_front(Bytes::from_static(b"\r\n"));
                    self.ready.push_front(piece);
                    self.ready.push_front(format!("{size:x}\r\n").into());
                }
            }
            return Ok(true);
        }
    }

    fn flush(&mut self, io: &mut Io, cx: &mut Context<'_>) -> io::Result<()> {
        match Pin::new(io).poll_flush(cx) {
            Poll::Ready(Ok(())) => self.state = State::Gone,
            Poll::Ready(Err(failed)) if is_closed(&failed) => self.state = State::Unheard,
            Poll::Ready(Err(failed)) => return Err(failed),
            Poll::Pending => {}
        }
        Ok(())
    }
}

/// Where the body of a request ends; none where there is none. Like most clients, GET and HEAD have a body only where
/// its length is known. Of the methods that come with one, an empty body is told too: there are servers that answer
/// 411 to a POST that says nothing of its length.
fn framing(request: &Request<Upload>) -> Option<Framing> {
    let body = request.body();
    if body.is_end_stream() {
        let has_one = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
        return has_one.then_some(Framing::Length(0));
    }
    match body.size_hint().exact() {
        Some(length) => Some(Framing::Length(length)),
        None if matches!(*request.method(), Method::GET | Method::HEAD) => None,
        None => Some(Framing::Chunked),
    }
}

fn is_closed(failed: &io::Error) -> bool {
    matches!(failed.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
