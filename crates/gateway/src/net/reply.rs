//! The body of an answer on its way down.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::flow::Flow;
use crate::call::Call;
use crate::flight::Seat;

/// What a client gets. The call is settled when its body is dropped, sent or not.
pub(crate) enum ReplyBody {
    /// Bytes that are there, the call that they end, and its seat on the flight that brought them: given up when
    /// the answer has gone out.
    Whole { left: Option<Bytes>, call: Option<Box<Call>>, _seat: Option<Seat> },
    /// Bytes that are still coming.
    Flow(Box<Flow>),
}

impl ReplyBody {
    /// A body that is complete.
    pub(crate) fn whole(bytes: Bytes, mut call: Box<Call>, seat: Option<Seat>) -> ReplyBody {
        // Nobody asks for the pieces of a body that is empty.
        if bytes.is_empty() || call.head_only() {
            call.delivered();
        }
        ReplyBody::Whole { left: (!bytes.is_empty()).then_some(bytes), call: Some(call), _seat: seat }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    /// An error resets the connection, so that a cut body never looks whole.
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ReplyBody::Whole { left, call, .. } => {
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
