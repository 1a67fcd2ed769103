//! Taking in a request's body, up to a limit.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::net::door::Watch;
use crate::refusal::Refusal;

/// Between two pieces of a body.
const PAUSE: Duration = Duration::from_secs(30);
/// For taking in a body that nobody wants, so that its sender gets to read why.
const DISCARD: Duration = Duration::from_secs(5);

/// The whole body, without a copy where it came in one piece. On HTTP/1.1, where a connection has one request at
/// a time, its `door` bounds the pauses; on HTTP/2 each piece has a timer.
pub(crate) async fn whole(mut body: Incoming, limit: usize, door: Option<&Watch>) -> Result<Bytes, Refusal> {
    let Some(door) = door else { return Box::pin(collect(&mut body, limit, None)).await };
    door.wait_for_body();
    let whole = collect(&mut body, limit, Some(door)).await;
    door.body_is_here();
    // The door broke it off, and has told the client so.
    if whole.is_err() && door.is_expired() { Err(Refusal::SlowBody) } else { whole }
}

async fn collect(body: &mut Incoming, limit: usize, door: Option<&Watch>) -> Result<Bytes, Refusal> {
    let Some(first) = piece(body, door).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() && first.len() <= limit {
        return Ok(first);
    }
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(limit).min(limit);
    let mut all = BytesMut::with_capacity(first.len() + expected);
    all.extend_from_slice(&first);
    while all.len() <= limit {
        match piece(body, door).await? {
            Some(piece) => all.extend_from_slice(&piece),
            None => return Ok(all.freeze()),
        }
    }
    Box::pin(discard(body, limit)).await;
    Err(Refusal::TooLarge { limit })
}

async fn piece(body: &mut Incoming, door: Option<&Watch>) -> Result<Option<Bytes>, Refusal> {
    match door {
        Some(_) => next(body).await,
        None => timeout(PAUSE, next(body)).await.unwrap_or(Err(Refusal::SlowBody)),
    }
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        // The connection ended, or the client took the call back: nobody is left to tell.
        Some(Err(broken)) if is_of_connection(&broken) => Err(Refusal::Gone),
        Some(Err(broken)) => {
            Err(Refusal::Malformed { message: format!("the request body broke off: {broken}"), param: None })
        }
    }
}

fn is_of_connection(broken: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(broken);
    while let Some(next) = cause {
        if let Some(io) = next.downcast_ref::<std::io::Error>() {
            return !matches!(io.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput);
        }
        cause = next.source();
    }
    broken.is_incomplete_message() || broken.is_canceled() || broken.is_closed()
}

/// Takes in and forgets what a refused caller is still sending: closing the connection on unread bytes would
/// reset it, and the caller would never see the refusal. Bounded in bytes and time.
pub(crate) async fn discard(body: &mut Incoming, limit: usize) {
    let mut left = limit.saturating_mul(2);
    let all = async {
        while let Ok(Some(piece)) = next(body).await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _given_up = timeout(DISCARD, all).await;
}
