//! A stream of events that is read without the HTTP library.
//!
//! An open stream may be silent for long, and there may be thousands of them. What the library keeps for a
//! connection (two buffers, a queue of 32 requests) is 14 KiB of memory that a stream has no use for once its head
//! has come. So the connection is taken out of the library then, and its body, which is in chunked coding, is decoded
//! here: it holds nothing between two pieces. After a whole body the connection goes back into the library.
//!
//! Not here: other framings. A body of known length, one that ends with its connection, and every head are the
//! library's.

use std::error::Error;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use guard::alarm::Alarm;
use http::{HeaderMap, Version, header, response};
use tokio::io::{AsyncRead, ReadBuf};

use super::last_words::LastWords;
use crate::net::chunk_scan::{Chunks, Ended};

/// What is read at once, and the longest piece that is put together: as much as is held of an unfinished event.
const READ: usize = 16 * 1024;
const MOST: usize = wire::relay::HOLD;
/// Of chunk sizes, extensions and trailers without a byte of the body in between: as much as the library takes.
const MOST_CODING: usize = 16 * 1024;

/// Why a body broke off.
pub(crate) type Broken = Box<dyn Error + Send + Sync>;

/// One connection, in the middle of a stream.
pub(super) struct Bare {
    pub(super) io: LastWords,
    /// Rings at the nearest deadline of the call.
    pub(super) alarm: Alarm,
    chunks: Chunks,
    /// What came together with the head.
    first: Vec<u8>,
    /// Bytes since the last one of the body.
    coding: usize,
    state: State,
    /// It can carry another call after this one.
    reusable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Comes,
    /// All has come.
    Whole,
    /// What came is no chunked coding.
    Garbled,
}

/// Whether the body that follows this head can be read here.
pub(super) fn can_read(head: &response::Parts) -> bool {
    head.version == Version::HTTP_11
        && !head.headers.contains_key(header::CONTENT_LENGTH)
        && is_only(&head.headers, &header::TRANSFER_ENCODING, b"chunked")
}

fn is_only(headers: &HeaderMap, name: &header::HeaderName, value: &[u8]) -> bool {
    let mut all = headers.get_all(name).iter();
    all.next().is_some_and(|first| first.as_bytes().eq_ignore_ascii_case(value)) && all.next().is_none()
}

impl Bare {
    /// Reads on after this head; `first` has come together with it.
    pub(super) fn new(io: LastWords, alarm: Alarm, head: &response::Parts, first: Vec<u8>) -> Bare {
        let stays = !head.headers.contains_key(header::CONNECTION)
            || is_only(&head.headers, &header::CONNECTION, b"keep-alive");
        Bare { io, alarm, chunks: Chunks::default(), first, coding: 0, state: State::Comes, reusable: stays }
    }

    /// Whether nothing more will come.
    pub(super) fn is_end(&self) -> bool {
        self.state == State::Whole
    }

    /// Whether the connection can carry another call.
    pub(super) fn is_reusable(&self) -> bool {
        self.is_end() && self.reusable
    }

    /// The next bytes of the body; none after a whole one. A chunk that is there makes one piece: where it ends an
    /// event ends, as a rule, and something of ours can stand.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let mut data = BytesMut::new();
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.decode(&first, &mut data);
        }
        let mut more = data.is_empty();
        while more && self.state == State::Comes {
            // On the stack, so that a stream that waits holds no buffer.
            let mut space = [MaybeUninit::uninit(); READ];
            let room = self.chunks.missing().map_or(READ, |missing| missing.min(READ));
            let mut buf = ReadBuf::uninit(&mut space[..room]);
            let read = Pin::new(&mut self.io).poll_read(cx, &mut buf);
            match read {
                // What has come goes out first; the end is found again.
                Poll::Pending | Poll::Ready(Err(_)) if !data.is_empty() => break,
                read => ready!(read)?,
            }
            let came = buf.filled();
            if came.is_empty() && data.is_empty() {
                return Poll::Ready(Some(Err(cut().into())));
            }
            self.decode(came, &mut data);
            let is_cut = came.len() == room && self.chunks.missing().is_some();
            more = data.is_empty() || (is_cut && data.len() < MOST);
        }
        Poll::Ready(match self.state {
            _ if !data.is_empty() => Some(Ok(data.freeze())),
            State::Garbled => Some(Err(garbled().into())),
            _ => None,
        })
    }

    /// Adds what of these bytes is the body's.
    fn decode(&mut self, bytes: &[u8], data: &mut BytesMut) {
        let before = data.len();
        data.reserve(bytes.len());
        let (taken, ended) = self.chunks.decode(bytes, |run| data.extend_from_slice(run));
        self.coding = if data.len() == before { self.coding + taken } else { 0 };
        // What nobody asked for is not the beginning of the next answer.
        self.reusable &= taken == bytes.len();
        self.state = match ended {
            Some(Ended::Whole) => State::Whole,
            None if self.coding <= MOST_CODING => State::Comes,
            _ => State::Garbled,
        };
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "end of file before message length reached")
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid chunked coding")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;

    use crate::upstream::connect::Io;

    const HEAD: &str = "text/event-stream";

    fn head(headers: &[(&'static str, &'static str)]) -> response::Parts {
        let mut response = http::Response::builder().header(header::CONTENT_TYPE, HEAD);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    /// Reads a body that is written in pieces of that size after `first`. Says whether it broke off.
    async fn read(bytes: &[u8], first: usize, size: usize) -> (Vec<u8>, bool, Bare) {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let head = head(&[("transfer-encoding", "chunked")]);
        let (first, rest) = bytes.split_at(first.min(bytes.len()));
        let io = LastWords::new(Io::Other(Box::new(near)));
        let mut bare = Bare::new(io, Alarm::new(), &head, first.to_vec());
        let rest = rest.to_vec();
        let writing = async move {
            for piece in rest.chunks(size) {
                far.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let reading = async {
            let mut all = Vec::new();
            loop {
                match poll_fn(|cx| bare.poll_data(cx)).await {
                    Some(Ok(data)) => all.extend_from_slice(&data),
                    Some(Err(_)) => return (all, true),
                    None => return (all, false),
                }
            }
        };
        let ((all, broke), ()) = tokio::join!(reading, writing);
        (all, broke, bare)
    }

    #[tokio::test]
    async fn a_body_comes_whole_however_it_is_cut() {
        let body = b"7\r\ndata: a\r\n2;x=y\r\n\n\n\r\n0\r\nt: u\r\n\r\n";
        for first in 0..=body.len() {
            for size in [1, 3, body.len()] {
                let (all, broke, bare) = read(body, first, size).await;
                assert_eq!((&all[..], broke), (&b"data: a\n\n"[..], false), "{first} and {size}");
                assert!(bare.is_reusable());
            }
        }
    }

    #[tokio::test]
    async fn what_is_cut_or_garbled_gives_what_came_and_then_an_error() {
        let body = b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
        for short in 0..body.len() {
            let (all, broke, bare) = read(&body[..short], 0, 64).await;
            assert!(broke && b"abcdef".starts_with(&all[..]) && !bare.is_reusable(), "{short}");
        }
        let (all, broke, _) = read(b"3\r\nabc\r\nx", 0, 64).await;
        assert_eq!((&all[..], broke), (&b"abc"[..], true));
    }

    #[tokio::test]
    async fn coding_without_end_is_not_read_for_ever() {
        let (all, broke, _) = read(&[&b"0\r\n"[..], &b"t: u\r\n".repeat(4000)].concat(), 0, 1000).await;
        assert!(all.is_empty() && broke);
    }

    #[tokio::test]
    async fn a_connection_with_something_behind_the_body_carries_no_other_call() {
        let (all, broke, bare) = read(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", 0, 64).await;
        assert_eq!((&all[..], broke, bare.is_reusable()), (&b"a"[..], false, false));
    }

    #[test]
    fn only_the_plainest_framing_is_read_here() {
        assert!(can_read(&head(&[("transfer-encoding", "Chunked")])));
        assert!(!can_read(&head(&[])));
        assert!(!can_read(&head(&[("transfer-encoding", "gzip, chunked")])));
        assert!(!can_read(&head(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")])));
        assert!(!can_read(&head(&[("transfer-encoding", "chunked"), ("content-length", "3")])));
    }
}
