//! What a caller asks of the provider: its bytes, and where in them the few fields are that the gate acts on.

use bytes::Bytes;
use http::header;
use http_body::Body;
use hyper::body::Incoming;
use wire::dialect::Dialect;
use wire::edit::Edits;
use wire::fingerprint::Sharing;
use wire::peek::Peek;

use super::body;
use super::marks::Marks;
use super::share;
use crate::gateway::Provider;
use crate::net::door::Watch;
use crate::pipeline::Entered;
use crate::refusal::Refusal;
use crate::upstream::Upload;

/// A body that was read and peeked at, or one that streams through unread.
pub(crate) enum Ask {
    Json { body: Bytes, peek: Box<Peek>, sharing: Option<Sharing> },
    Opaque { body: Option<Incoming>, limit: usize },
}

impl Ask {
    /// Takes in a request's body as its protocol needs it.
    pub(crate) async fn take(
        call: &Entered,
        marks: Marks,
        mut body: Incoming,
        door: Option<&Watch>,
    ) -> Result<Ask, Refusal> {
        let Entered { snapshot, head, dialect, wishes, .. } = call;
        let limit = snapshot.config.max_body;
        if body.size_hint().lower() > limit as u64 {
            if !marks.held_back {
                Box::pin(body::discard(&mut body, limit)).await;
            }
            return Err(Refusal::TooLarge { limit });
        }
        if !dialect.reads_body() {
            let body = (!body.is_end_stream()).then_some(body);
            return Ok(Ask::Opaque { body, limit });
        }
        let body = body::whole(body, limit, door).await?;
        if marks.content_encoding
            && let Some(encoding) = head.headers.get(header::CONTENT_ENCODING)
            && encoding != "identity"
        {
            let message = "an encoded request body is not supported; send it as it is".to_owned();
            return Err(Refusal::Malformed { message, param: Some("content-encoding".to_owned()) });
        }
        let (peek, sharing) = share::peek(snapshot, *dialect, &wishes.cache, &body)?;
        Ok(Ask::Json { body, peek: Box::new(peek), sharing })
    }

    /// The model that it names.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Ask::Json { peek, .. } => peek.model.as_ref().map(|model| &*model.value),
            Ask::Opaque { .. } => None,
        }
    }

    /// What waits in memory with the request; a body that streams through waits at its sender.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Ask::Json { body, .. } => body.len() as u64,
            Ask::Opaque { .. } => 0,
        }
    }

    /// Whether it asks for a stream.
    pub(crate) fn streams(&self) -> bool {
        matches!(self, Ask::Json { peek, .. } if peek.streams())
    }

    /// Whether it may share an answer, as far as its body tells.
    pub(crate) fn sharing(&self) -> Option<Sharing> {
        match self {
            Ask::Json { sharing, .. } => *sharing,
            Ask::Opaque { .. } => None,
        }
    }

    /// Whether it asks for the usage on its stream, where protocols leave that to the caller.
    pub(crate) fn asks_usage(&self) -> bool {
        matches!(self, Ask::Json { peek, .. } if peek.asks_usage())
    }

    /// Takes in what is still coming of a refused request, so that its sender gets to read why.
    pub(crate) async fn leave(self) {
        if let Ask::Opaque { body: Some(mut body), limit } = self {
            body::discard(&mut body, limit).await;
        }
    }

    /// The bytes as they came, to be translated. What is left is an empty request.
    pub(crate) fn take_body(&mut self) -> Bytes {
        match std::mem::replace(self, Ask::Opaque { body: None, limit: 0 }) {
            Ask::Json { body, .. } => body,
            Ask::Opaque { .. } => Bytes::new(),
        }
    }

    /// The bytes that go up, and whether the usage that comes down must be taken out again. What is left is an
    /// empty request.
    pub(crate) fn edit(
        &mut self,
        dialect: &'static dyn Dialect,
        provider: &Provider,
        model: Option<&str>,
        usage_on_streams: bool,
    ) -> (Upload, bool) {
        match std::mem::replace(self, Ask::Opaque { body: None, limit: 0 }) {
            Ask::Opaque { body: None, .. } => (Upload::empty(), false),
            Ask::Opaque { body: Some(body), limit } => (Upload::passing(body, limit), false),
            Ask::Json { body, peek, .. } => {
                let mut edits = Edits::default();
                if let Some(model) = model {
                    edits.model(&peek, model);
                }
                let strip = usage_on_streams
                    && provider.config.kind.ask_usage
                    && peek.streams()
                    && dialect.ask_usage(&peek, &mut edits);
                (Upload::Slices(Box::new(edits.apply(&body))), strip)
            }
        }
    }
}
