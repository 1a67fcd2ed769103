//! What a caller gets: a provider's answer, whole or as it comes, or one of the gate's own.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use guard::tape::Next;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio::time::Instant;
use wire::dialect::{Dialect, Shape};
use wire::fold::fold;

use crate::call::Call;
use crate::flight::{Answer, Ending, Head, Seat};
use crate::gateway::{Model, Provider};
use crate::kept::Kept;
use crate::net::flow::Flow;
use crate::net::reply::ReplyBody;
use crate::observe::Fate;
use crate::refusal::Refusal;
use crate::stage::{admit, down};
use crate::upstream::exchange::Patience;

/// What is known of a call once it has a flight.
pub(crate) struct Aloft {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) provider: Arc<Provider>,
    pub(crate) model: Arc<Model>,
    pub(crate) patience: Patience,
    /// The caller's own patience is watched where it waits, because its flight may be others' too.
    pub(crate) watches_patience: bool,
    /// The caller asked for a stream.
    pub(crate) streams: bool,
    /// The stream tells usage that the caller did not ask for.
    pub(crate) strip_usage: bool,
    pub(crate) accepts: Option<HeaderValue>,
    /// Only the head was asked for: its length is that of a body that does not come.
    pub(crate) head_only: bool,
    /// After how long a stream's client needs a sign of life; none where no stream was asked for.
    pub(crate) keep_alive: Option<Duration>,
}

impl Aloft {
    /// Until when the caller waits, where that is for this call to watch: for the head of an answer, or for what
    /// comes after `since`.
    pub(crate) fn due(&self, for_head: bool, since: Instant) -> Option<Instant> {
        let Patience { first_byte, stall, callers_first_byte, callers_stall, .. } = self.patience;
        let wait = if for_head { (first_byte, callers_first_byte) } else { (stall, callers_stall) };
        let end = self.patience.end();
        self.watches_patience.then(|| if wait.1 { end.min(since + wait.0) } else { end })
    }
}

/// Hands a flight's answer to the client.
pub(crate) fn deliver(
    mut call: Box<Call>,
    head: &Head,
    mut seat: Seat,
    aloft: Box<Aloft>,
) -> Response<ReplyBody> {
    call.flown(head);
    let answer = match &head.outcome {
        Ok(answer) => answer,
        Err(refusal) => return refuse(call, refusal),
    };
    if let Some(refusal) = unreadable(answer, &aloft) {
        return refuse(call, &refusal);
    }
    call.first_byte(answer.at);
    call.before_upstream = answer.asked.saturating_duration_since(call.arrived);
    call.record.status = answer.status.as_u16();
    let ending = seat.flight().tape.ending();
    let mut headers = headers_of(answer, &call);
    let length = aloft.head_only.then(|| headers.get(header::CONTENT_LENGTH).cloned()).flatten();
    down::strip(&mut headers);
    let stored = ending.as_ref().is_some_and(|ending| ending.keep.is_some());
    down::describe(&mut headers, &call, &aloft.provider, &aloft.model, stored);
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length);
    }
    match ending {
        Some(ending) if !answer.events && ending.failure.is_none() => {
            let bytes = whole(&mut seat);
            call.learned(&ending.watch);
            respond(answer.status, headers, call, |call| ReplyBody::whole(bytes, call, Some(seat)))
        }
        _ => respond(answer.status, headers, call, |call| {
            ReplyBody::Flow(Flow::coming(call, seat, aloft, answer.events, answer.length))
        }),
    }
}

/// Hands a stream that is over to a client who asked for a plain answer.
pub(crate) fn deliver_folded(
    mut call: Box<Call>,
    head: &Head,
    ending: &Arc<Ending>,
    mut seat: Seat,
    aloft: &Aloft,
    taken: Vec<Bytes>,
) -> Response<ReplyBody> {
    call.flown(head);
    call.learned(&ending.watch);
    let answer = match (&head.outcome, &ending.failure) {
        (Ok(answer), None) => answer,
        (Err(refusal), _) | (_, Some(refusal)) => return refuse(call, refusal),
    };
    call.first_byte(answer.at);
    call.before_upstream = answer.asked.saturating_duration_since(call.arrived);
    let Some(body) = fold(aloft.dialect, taken.into_iter().chain(std::iter::once(whole(&mut seat)))) else {
        let said = ending.watch.error.as_deref().unwrap_or("its stream can't be made into a plain answer");
        return refuse(call, &Refusal::Upstream { cause: said.to_owned() });
    };
    call.record.status = answer.status.as_u16();
    let mut headers = headers_of(answer, &call);
    down::strip(&mut headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    down::describe(&mut headers, &call, &aloft.provider, &aloft.model, ending.keep.is_some());
    respond(answer.status, headers, call, |call| ReplyBody::whole(body.into(), call, Some(seat)))
}

/// Begins a stream for a client that has waited long enough without a sign of life.
pub(crate) fn open_silent(mut call: Box<Call>, seat: Seat, aloft: Box<Aloft>) -> Response<ReplyBody> {
    call.record.status = 200;
    call.record.attempts = seat.flight().attempts();
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    down::describe(&mut headers, &call, &aloft.provider, &aloft.model, false);
    respond(StatusCode::OK, headers, call, |call| ReplyBody::Flow(Flow::waiting(call, seat, aloft)))
}

/// Answers with what is kept.
pub(crate) fn replay(mut call: Box<Call>, kept: &Kept, body: Bytes, aloft: &Aloft) -> Response<ReplyBody> {
    call.record.fate = Fate::Hit;
    call.record.status = 200;
    call.learned(kept.watch());
    call.first_byte(Instant::now());
    call.before_upstream = call.age();
    let mut headers = kept.headers();
    down::strip(&mut headers);
    if kept.is_stream() != aloft.streams {
        let form = if aloft.streams { EVENTS } else { HeaderValue::from_static("application/json") };
        headers.insert(header::CONTENT_TYPE, form);
    }
    down::describe_kept(&mut headers, &call, &aloft.provider, &aloft.model, kept);
    respond(StatusCode::OK, headers, call, |call| ReplyBody::whole(body, call, None))
}

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// What of an answer's head is for this caller.
fn headers_of(answer: &Answer, call: &Call) -> HeaderMap {
    let mut headers = answer.headers();
    if call.record.fate == Fate::Joined {
        headers.remove(header::SET_COOKIE);
    }
    headers
}

/// All that has come, in one piece; copied only where it came in several.
fn whole(seat: &mut Seat) -> Bytes {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(Next::Frame(piece)) = seat.try_next() {
        if first.is_empty() {
            first = piece.bytes;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece.bytes);
    }
    if all.is_empty() { first } else { all.freeze() }
}

/// Why this caller can't read an answer.
fn unreadable(answer: &Answer, aloft: &Aloft) -> Option<Refusal> {
    let encoding = answer.encoding.as_deref()?;
    let readable = is_readable(encoding, aloft.accepts.as_ref());
    (!readable).then(|| Refusal::Encoding { encoding: encoding.to_owned() })
}

/// An answer that the gate makes by itself.
pub(crate) fn local(
    mut call: Box<Call>,
    status: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response<ReplyBody> {
    call.record.status = status.as_u16();
    call.record.fate = Fate::Bypass;
    respond(status, headers, call, |call| ReplyBody::whole(bytes, call, None))
}

/// Turns a call away, in the shape that its client reads.
pub(crate) fn refuse(mut call: Box<Call>, refusal: &Refusal) -> Response<ReplyBody> {
    if *refusal == Refusal::Gone {
        // Nobody turned it away, and nobody reads this; the call says so of itself when it is dropped.
        drop(call);
        return Response::new(ReplyBody::Whole { left: None, call: None, _seat: None });
    }
    call.refused(refusal);
    let id = call.request_id();
    let (status, mut headers, body) = refusal.render(call.shape, id.to_str().unwrap_or_default());
    down::describe_refused(&mut headers, &call);
    if matches!(refusal, Refusal::Draining | Refusal::Cut | Refusal::SlowBody) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    respond(status, headers, call, |call| ReplyBody::whole(body, call, None))
}

/// What a caller gets for a fault of ours. Its call has been settled.
pub(crate) fn after_panic(shape: Shape) -> Response<ReplyBody> {
    let (status, headers, body) = Refusal::Internal.render(shape, "");
    let mut response = Response::new(ReplyBody::Whole { left: Some(body), call: None, _seat: None });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The headers of a JSON answer of ours.
pub(crate) fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// Signs the headers and hands the call over to its body.
fn respond(
    status: StatusCode,
    mut headers: HeaderMap,
    call: Box<Call>,
    body: impl FnOnce(Box<Call>) -> ReplyBody,
) -> Response<ReplyBody> {
    down::sign(&mut headers, &call);
    if let Some(origin) = &call.cors {
        admit::allow(origin, &mut headers);
    }
    let mut response = Response::new(body(call));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Whether a caller said that it reads this encoding.
fn is_readable(encoding: &str, accepts: Option<&HeaderValue>) -> bool {
    let accepted = accepts.and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|item| {
        let name = item.split(';').next().unwrap_or_default().trim();
        (name.eq_ignore_ascii_case(encoding) || name == "*") && !item.replace(' ', "").ends_with(";q=0")
    })
}
