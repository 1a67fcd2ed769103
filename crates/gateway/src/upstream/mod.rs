//! The provider's side: connections, and one exchange over one of them.
//!
//! A connection is owned by the call that uses it and is polled by that call alone: no task stands between
//! them, and dropping the call closes the connection, which is what cancels the provider's work.

pub mod connect;
pub mod exchange;
pub mod h2;
pub mod pool;
pub mod resolve;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use wire::edit::Slices;

/// The body of a request on its way up.
pub enum Upload {
    /// The caller's bytes with the gate's edits spliced in; may be sent again if none was written.
    Slices(Slices),
    /// Passed on as it arrives, up to a limit.
    Stream {
        /// The caller's body.
        body: Incoming,
        /// Bytes that may still come.
        left: u64,
    },
}

impl Upload {
    /// A request without a body.
    pub fn empty() -> Upload {
        Upload::Slices(Slices::default())
    }
}

/// Why a body could not be passed up.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The caller's side broke.
    #[error("the caller's body broke off: {0}")]
    Caller(#[from] hyper::Error),
    /// More than `max_body`.
    #[error("the body is larger than allowed")]
    TooLarge,
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
            Upload::Stream { body, left } => match std::task::ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let size = frame.data_ref().map_or(0, |data| data.len() as u64);
                    match left.checked_sub(size) {
                        Some(rest) => {
                            *left = rest;
                            Poll::Ready(Some(Ok(frame)))
                        }
                        None => Poll::Ready(Some(Err(UploadError::TooLarge))),
                    }
                }
                Some(Err(broken)) => Poll::Ready(Some(Err(broken.into()))),
                None => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Upload::Slices(slices) => slices.is_empty(),
            Upload::Stream { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Upload::Slices(slices) => SizeHint::with_exact(slices.len() as u64),
            Upload::Stream { body, .. } => body.size_hint(),
        }
    }
}
