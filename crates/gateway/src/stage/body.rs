//! Taking in a request's body, up to a limit.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::refusal::Refusal;

/// Between two pieces of a body.
const PAUSE: Duration = Duration::from_secs(30);
/// For taking in a body that nobody wants, so that its sender gets to read why.
const DISCARD: Duration = Duration::from_secs(5);

/// The whole body, without a copy where it came in one piece.
pub(crate) async fn whole(mut body: Incoming, limit: usize, end: Instant) -> Result<Bytes, Refusal> {
    let too_large = Refusal::TooLarge { limit };
    if body.size_hint().lower() > limit as u64 {
        Box::pin(discard(body, limit)).await;
        return Err(too_large);
    }
    let Some(first) = next(&mut body, end).await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        Box::pin(discard(body, limit)).await;
        return Err(too_large);
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(limit).min(limit);
    let mut all = BytesMut::with_capacity(first.len() + expected);
    all.extend_from_slice(&first);
    while let Some(piece) = next(&mut body, end).await? {
        if all.len() + piece.len() > limit {
            Box::pin(discard(body, limit)).await;
            return Err(too_large);
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

async fn next(body: &mut Incoming, end: Instant) -> Result<Option<Bytes>, Refusal> {
    let due = end.min(Instant::now() + PAUSE);
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
    match timeout_at(due, frame).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(broken))) => {
            Err(Refusal::Malformed { message: format!("the request body broke off: {broken}"), param: None })
        }
        Err(_) => Err(Refusal::SlowBody),
    }
}

/// Takes in and forgets what a refused caller is still sending: closing the connection on unread bytes would
/// reset it, and the caller would never see the refusal. Bounded in bytes and time.
pub(crate) async fn discard(mut body: Incoming, limit: usize) {
    let end = Instant::now() + DISCARD;
    let mut left = limit.saturating_mul(2);
    while let Ok(Some(piece)) = next(&mut body, end).await {
        match left.checked_sub(piece.len()) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
