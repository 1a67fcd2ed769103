//! The body of a request on its way up, and whose turn it is while it goes.
//!
//! A body that is passed on as it arrives may take longer than a provider may take to answer, and may stop.
//! Both are the caller's doing: they must neither end as the provider's timeout nor be held against it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::Instant;
use wire::edit::Slices;

use super::exchange::Patience;
use crate::refusal::{Refusal, Wait};

/// Between two pieces of a body that the provider waits for.
const PAUSE: Duration = Duration::from_secs(30);

/// The body of a request on its way up.
pub enum Upload {
    /// The caller's bytes with the gate's edits spliced in; may be sent again if the provider has not seen it.
    Slices(Box<Slices>),
    /// Passed on as it arrives, up to a limit.
    Stream(Box<Passing>),
}

/// A body that passes.
pub struct Passing {
    body: Incoming,
    limit: usize,
    taken: usize,
    turn: Turn,
}

/// Whose move it is. Clones look at the same body.
#[derive(Clone, Default)]
pub(super) struct Turn(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waits_for_caller: bool,
    /// The last move, of either side.
    moved: Option<Instant>,
    failed: Option<UploadError>,
}

/// Why a body could not be passed up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UploadError {
    /// The caller's side broke.
    #[error("the request body broke off: {0}")]
    Caller(String),
    /// More than `max_body`.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
}

impl Upload {
    /// A request without a body.
    pub fn empty() -> Upload {
        Upload::Slices(Box::default())
    }

    /// A body that is passed on as it arrives.
    pub fn passing(body: Incoming, limit: usize) -> Upload {
        Upload::Stream(Box::new(Passing { body, limit, taken: 0, turn: Turn::default() }))
    }

    /// The same body once more, where it is still there.
    pub(super) fn copy(&self) -> Option<Upload> {
        match self {
            Upload::Slices(slices) => Some(Upload::Slices(slices.clone())),
            Upload::Stream(_) => None,
        }
    }

    pub(super) fn turn(&self) -> Option<Turn> {
        match self {
            Upload::Slices(_) => None,
            Upload::Stream(passing) => Some(passing.turn()),
        }
    }
}

impl Turn {
    /// Until when to wait for the head of an answer to a request that was sent at `sent`, as things stand.
    pub(super) fn due(&self, sent: Instant, patience: &Patience) -> Instant {
        let state = self.0.lock();
        let since = state.moved.map_or(sent, |moved| moved.max(sent));
        let wait = if state.waits_for_caller { PAUSE } else { patience.first_byte };
        (since + wait).min(patience.end())
    }

    /// What to say when that is over.
    pub(super) fn over(&self, sent: Instant, now: Instant, patience: &Patience) -> Refusal {
        let state = self.0.lock();
        if state.waits_for_caller && now < patience.end() {
            return Refusal::SlowBody;
        }
        let since = state.moved.map_or(sent, |moved| moved.max(sent));
        patience.over(Wait::FirstByte, now, now.duration_since(since))
    }

    /// What the caller did wrong, if that is why the exchange broke.
    pub(super) fn fault(&self) -> Option<Refusal> {
        Some(match self.0.lock().failed.clone()? {
            UploadError::TooLarge(limit) => Refusal::TooLarge { limit },
            broken @ UploadError::Caller(_) => {
                Refusal::Malformed { message: broken.to_string(), param: None }
            }
        })
    }
}

impl Passing {
    pub(super) fn turn(&self) -> Turn {
        self.turn.clone()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let mut state = self.turn.0.lock();
        let waited = std::mem::replace(&mut state.waits_for_caller, polled.is_pending());
        if polled.is_ready() || !waited {
            state.moved = Some(Instant::now());
        }
        let failed = match std::task::ready!(polled) {
            None => return Poll::Ready(None),
            Some(Err(broken)) => UploadError::Caller(broken.to_string()),
            Some(Ok(frame)) => {
                self.taken += frame.data_ref().map_or(0, Bytes::len);
                if self.taken <= self.limit {
                    return Poll::Ready(Some(Ok(frame)));
                }
                UploadError::TooLarge(self.limit)
            }
        };
        state.failed = Some(failed.clone());
        Poll::Ready(Some(Err(failed)))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        match self.get_mut() {
            Upload::Slices(slices) => Poll::Ready(slices.pop_front().map(|slice| Ok(Frame::data(slice)))),
            Upload::Stream(passing) => passing.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Upload::Slices(slices) => slices.is_empty(),
            Upload::Stream(passing) => passing.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Upload::Slices(slices) => SizeHint::with_exact(slices.len() as u64),
            Upload::Stream(passing) => passing.body.size_hint(),
        }
    }
}
