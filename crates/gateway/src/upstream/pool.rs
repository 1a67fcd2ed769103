//! HTTP/1.1 connections to one provider account, last in first out.
//!
//! A connection at rest is polled by nobody; whether the provider has closed it meanwhile is seen when it is
//! taken. There is no bound of its own: the account's lane caps how many are in use, and what rests too long
//! is dropped by `sweep`.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use guard::alarm::Alarm;
use http::response;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Upload;
use super::bare::Bare;
use super::connect::Io;
use super::head_first::{Brink, HeadFirst};
use super::last_words::LastWords;
use crate::turn::Turns;

/// How long a connection may rest; below what providers commonly allow, so that they seldom close first.
const REST: Duration = Duration::from_secs(50);

/// A connection that has rested for less than this is taken as open.
const FRESH: Duration = Duration::from_millis(20);

/// One HTTP/1.1 connection and the timer of the call that uses it.
pub struct Link {
    pub(super) sender: http1::SendRequest<Upload>,
    pub(super) line: Line,
    pub(super) turns: Turns,
    /// Whether nothing of an answer but its head has been read.
    pub(super) brink: Brink,
    /// Rings at the nearest deadline of the call in progress.
    pub alarm: Alarm,
    /// Has carried a call before: if it dies before a byte of the next one was written, that says nothing
    /// about the provider.
    pub(super) reused: bool,
    rests_since: Instant,
}

/// The connection itself, which moves only while it is driven.
pub(super) struct Line {
    conn: http1::Connection<TokioIo<HeadFirst>, Upload>,
    closed: bool,
}

impl Line {
    /// Drives the connection as far as it goes. Returns whether it is still open.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        self.closed = self.closed || Pin::new(&mut self.conn).poll(cx).is_ready();
        !self.closed
    }
}

impl Link {
    /// Takes over a fresh connection.
    pub async fn open(io: Io) -> hyper::Result<Box<Link>> {
        Link::over(LastWords::new(io), Alarm::new()).await
    }

    async fn over(io: LastWords, alarm: Alarm) -> hyper::Result<Box<Link>> {
        let brink = Brink::default();
        let (sender, conn) = http1::Builder::new()
            .max_header_size(64 * 1024)
            .handshake(TokioIo::new(HeadFirst::new(io, brink.clone())))
            .await?;
        Ok(Box::new(Link {
            sender,
            line: Line { conn, closed: false },
            turns: Turns::default(),
            brink,
            alarm,
            reused: false,
            rests_since: Instant::now(),
        }))
    }

    /// Takes the connection out of the library, which has read this head and nothing more.
    pub(super) fn bare(self, head: &response::Parts) -> Bare {
        let Link { line, alarm, .. } = self;
        let (io, first) = line.conn.into_parts().io.into_inner().into_parts();
        Bare::new(io, alarm, head, first)
    }

    fn is_fit(&mut self) -> bool {
        self.line.drive(&mut Context::from_waker(Waker::noop())) && self.sender.is_ready()
    }
}

/// The resting connections of one account.
#[derive(Default)]
pub struct Pool {
    #[expect(clippy::vec_box, reason = "a connection is moved from call to call by its pointer")]
    resting: Mutex<Vec<Box<Link>>>,
}

impl Pool {
    /// The connection that was used last, if there is one. One that has rested for a while is looked at first;
    /// of any other its next exchange will tell whether the provider has closed it.
    pub fn take(&self, now: Instant) -> Option<Box<Link>> {
        loop {
            let mut link = self.resting.lock().pop()?;
            if now.duration_since(link.rests_since) < FRESH || link.is_fit() {
                link.reused = true;
                return Some(link);
            }
        }
    }

    /// Gives a connection back after a whole answer; one that can't take another call is closed.
    pub fn put(&self, mut link: Box<Link>, cx: &mut Context<'_>) {
        if link.line.drive(cx) && link.sender.is_ready() {
            link.rests_since = Instant::now();
            self.resting.lock().push(link);
        }
    }

    /// Gives back a connection after a stream that was read without the library.
    pub(super) fn put_bare(&self, bare: Bare, cx: &mut Context<'_>) {
        // Taking it over waits for nothing.
        if bare.is_reusable()
            && let Some(Ok(link)) = Link::over(bare.io, bare.alarm).now_or_never()
        {
            self.put(link, cx);
        }
    }

    /// Closes what has rested for too long.
    pub fn sweep(&self, now: Instant) {
        let stale: Vec<Box<Link>> = {
            let mut resting = self.resting.lock();
            // The longest rest lies at the bottom.
            let keep = resting.partition_point(|link| now.duration_since(link.rests_since) > REST);
            resting.drain(..keep).collect()
        };
        drop(stale);
    }

    /// How many rest.
    pub fn resting(&self) -> usize {
        self.resting.lock().len()
    }
}
