//! The body of an answer on its way down.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::flow::Flow;
use crate::call::Call;

/// What a client gets. The call is settled when its body is dropped, sent or not.
pub(crate) enum ReplyBody {
    /// Bytes that are there, and the call that they end.
    Whole { left: Option<Bytes>, call: Option<Box<Call>> },
    /// Bytes that are still coming.
    Flow(Box<Flow>),
}

impl ReplyBody {
    /// A body that is complete.
    pub(crate) fn whole(bytes: Bytes, call: Box<Call>) -> ReplyBody {
        ReplyBody::Whole { left: (!bytes.is_empty()).then_some(bytes), call: Some(call) }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    /// An error resets the connection, so that a cut body never looks whole.
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ReplyBody::Whole { left, call } => {
                let bytes = left.take();
                if let Some(call) = call {
                    call.delivered();
                }
                Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            ReplyBody::Flow(flow) => flow.poll(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole { left, .. } => left.is_none(),
            ReplyBody::Flow(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole { left, .. } => SizeHint::with_exact(left.as_ref().map_or(0, Bytes::len) as u64),
            ReplyBody::Flow(flow) => flow.length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
