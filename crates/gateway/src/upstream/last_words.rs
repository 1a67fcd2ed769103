//! A connection whose other side has stopped reading, and may have said why.
//!
//! A provider that refuses a request by its head answers and closes while the body is still on its way. The
//! next write fails then, but the answer is there to be read: after such a failure writes are swallowed, and
//! what the other side has said (or its silence) decides how the exchange ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::Io;

/// A provider's connection that is read to its end whatever becomes of writing.
pub(super) struct LastWords {
    io: Io,
    deaf: bool,
}

impl LastWords {
    pub(super) fn new(io: Io) -> LastWords {
        LastWords { io, deaf: false }
    }

    /// Whether something that was written went nowhere.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Takes note of a failed write, and passes on all others.
    fn heard(&mut self, written: Poll<io::Result<usize>>, all: usize) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Err(failed)) if is_closed(&failed) => {
                self.deaf = true;
                Poll::Ready(Ok(all))
            }
            other => other,
        }
    }
}

fn is_closed(failed: &io::Error) -> bool {
    matches!(failed.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl AsyncRead for LastWords {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl AsyncWrite for LastWords {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.deaf {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut this.io).poll_write(cx, buf);
        this.heard(written, buf.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let all = || bufs.iter().map(|buf| buf.len()).sum();
        if this.deaf {
            return Poll::Ready(Ok(all()));
        }
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.heard(written, all())
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.deaf {
            return Poll::Ready(Ok(()));
        }
        match Pin::new(&mut this.io).poll_flush(cx) {
            Poll::Ready(Err(failed)) if is_closed(&failed) => {
                this.deaf = true;
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
