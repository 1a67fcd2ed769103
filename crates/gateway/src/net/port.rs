//! Accepting connections, and no longer doing so.
//!
//! Whoever the system has let in gets an answer, to the very end: what waits in the listener's backlog when it
//! is closed would be reset by the system without a byte. So at the end the system lets nobody in any more, who
//! is in is accepted, and only then the listener goes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::listen::{BACKLOG, attend};
use crate::gateway::Gateway;

/// After an error that will be there again at once.
const PAUSE: Duration = Duration::from_millis(20);
/// For connections that are half open when the port closes. What waits on their other side waits that long.
const HANDSHAKE: Duration = Duration::from_millis(50);

/// The data plane's open port.
pub(crate) struct Port {
    closing: CancellationToken,
    closed: CancellationToken,
}

impl Port {
    /// Accepts what comes to `listener`, until it is closed.
    pub(crate) fn open(gate: &Arc<Gateway>, listener: TcpListener) -> Port {
        let port = Port { closing: CancellationToken::new(), closed: CancellationToken::new() };
        let (closing, closed) = (port.closing.clone(), port.closed.clone().drop_guard());
        let accepting = gate.clone();
        gate.tasks.spawn(async move {
            accept(&accepting, listener, &closing).await;
            drop(closed);
        });
        port
    }

    /// Lets nobody in any more. Whoever was let in has its task when this returns.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.closed.cancelled().await;
    }
}

async fn accept(gate: &Arc<Gateway>, listener: TcpListener, closing: &CancellationToken) {
    let mut complaints = Complaints::default();
    let mut take = async || loop {
        match listener.accept().await {
            Ok((stream, _)) => welcome(gate, stream),
            Err(failed) if is_its_own(&failed) => {}
            // Out of files or memory: look again in a moment.
            Err(failed) => {
                complaints.add(&failed);
                sleep(PAUSE).await;
            }
        }
    };
    let _closing = closing.run_until_cancelled(take()).await;
    turn_away(&listener);
    let _over = timeout(HANDSHAKE, take()).await;
    // The runtime may not have heard of the last ones yet: the system is asked.
    let Ok(listener) = listener.into_std() else { return };
    for _ in 0..2 * BACKLOG {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_ok()
                    && let Ok(stream) = TcpStream::from_std(stream)
                {
                    welcome(gate, stream);
                }
            }
            Err(failed) if is_its_own(&failed) => {}
            Err(_nobody) => return,
        }
    }
}

fn welcome(gate: &Arc<Gateway>, stream: TcpStream) {
    let _best_effort = stream.set_nodelay(true);
    gate.tasks.spawn(attend(gate.clone(), stream));
}

/// The connection was gone before it was accepted; the next one may be fine.
fn is_its_own(failed: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(failed.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Has the system ignore requests for new connections, while those that are half open come to their end: a
/// filter that drops segments with SYN and without ACK. Their senders ask again after a second, when the
/// listener has gone, and are refused. Where there is no such filter, the last microseconds are lost.
fn turn_away(listener: &TcpListener) {
    #[cfg(target_os = "linux")]
    {
        use socket2::SockFilter;
        let filter = [
            // The byte of the TCP header with the flags.
            SockFilter::new(0x30, 0, 0, 13),
            // Of them SYN and ACK.
            SockFilter::new(0x54, 0, 0, 0x12),
            // If it is SYN alone: nothing of it is kept; else: all of it.
            SockFilter::new(0x15, 0, 1, 0x02),
            SockFilter::new(0x06, 0, 0, 0),
            SockFilter::new(0x06, 0, 0, u32::MAX),
        ];
        let _best_effort = socket2::SockRef::from(listener).attach_filter(&filter);
    }
    #[cfg(not(target_os = "linux"))]
    let _nothing_to_do = listener;
}

/// Says that connections can't be accepted, at most once a second.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    fn add(&mut self, failed: &io::Error) {
        if let Some(times) = self.due() {
            tracing::warn!(error = %failed, times, "connections can't be accepted");
        }
    }

    /// How often it has happened since the last time it was said, if it may be said now.
    fn due(&mut self) -> Option<u64> {
        self.unsaid += 1;
        if self.last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_happens_all_the_time_is_said_once_a_second() {
        let mut complaints = Complaints::default();
        let mut said = Vec::new();
        for _ in 0..126 {
            said.extend(complaints.due());
            tokio::time::advance(PAUSE).await;
        }
        assert_eq!(said, [1, 50, 50]);
    }
}
