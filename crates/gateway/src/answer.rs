//! What a caller gets: a provider's answer, whole or as it comes, or one of the gate's own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, response};
use wire::dialect::{Dialect, Shape};
use wire::relay::Relay;
use wire::relay::Watch;

use crate::attempt::{Flight, Flown, Landed, is_events};
use crate::call::Call;
use crate::gateway::{Model, Provider};
use crate::net::flow::{self, Flow};
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
    /// The gate asked for usage that the caller did not ask for.
    pub(crate) strip_usage: bool,
    pub(crate) accepts: Option<HeaderValue>,
    /// Only the head was asked for: its length is that of a body that does not come.
    pub(crate) head_only: bool,
    /// After how long a stream's client needs a sign of life; none where no stream was asked for.
    pub(crate) keep_alive: Option<Duration>,
}

/// Hands a flight's answer to the client.
pub(crate) fn deliver(mut call: Box<Call>, flown: Flown, aloft: Box<Aloft>) -> Response<ReplyBody> {
    call.record.queue = flown.queue;
    call.record.attempts = flown.attempts;
    let mut landed = match flown.outcome {
        Ok(landed) => landed,
        Err(refusal) => return refuse(call, &refusal),
    };
    let encoding = encoding(&landed.head.headers);
    let packed = encoding.is_some();
    if let Some(encoding) = encoding.filter(|encoding| !is_readable(encoding, aloft.accepts.as_ref())) {
        let refusal = Refusal::Encoding { encoding };
        landed.trial.failed(&refusal, true);
        return refuse(call, &refusal);
    }
    call.record.first_byte = Some(landed.at.duration_since(call.arrived));
    call.before_upstream = landed.asked.duration_since(call.arrived);
    call.record.status = landed.head.status.as_u16();
    let Landed { head, pieces, rest, mut trial, .. } = landed;
    let response::Parts { status, mut headers, .. } = head;
    let events = is_events(&headers);
    let length = aloft.head_only.then(|| headers.get(header::CONTENT_LENGTH).cloned()).flatten();
    down::strip(&mut headers);
    down::describe(&mut headers, &call, &aloft.provider, &aloft.model, flown.queue);
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length);
    }
    match rest {
        Some(rest) => {
            let relay = events.then(|| Relay::new(aloft.dialect, aloft.strip_usage));
            respond(status, headers, call, |call| {
                ReplyBody::Flow(Flow::coming(aloft.parts(call, relay), pieces, rest, trial))
            })
        }
        None => {
            let bytes = joined(pieces);
            if !packed && (aloft.dialect.reads_body() || !status.is_success()) {
                let mut watch = Watch::default();
                aloft.dialect.read_answer(&bytes, &mut watch);
                call.learned(&watch);
            }
            trial.answered(status, call.record.error.is_some());
            respond(status, headers, call, |call| ReplyBody::whole(bytes, call))
        }
    }
}

/// Begins a stream for a client that has waited long enough without a sign of life.
pub(crate) fn open_silent(mut call: Box<Call>, flight: Flight, aloft: Box<Aloft>) -> Response<ReplyBody> {
    call.record.status = 200;
    call.record.attempts = 1;
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    down::describe(&mut headers, &call, &aloft.provider, &aloft.model, Duration::ZERO);
    let relay = Relay::new(aloft.dialect, aloft.strip_usage);
    respond(StatusCode::OK, headers, call, |call| {
        ReplyBody::Flow(Flow::waiting(aloft.parts(call, Some(relay)), flight))
    })
}

impl Aloft {
    fn parts(self, call: Box<Call>, relay: Option<Relay>) -> flow::Parts {
        flow::Parts {
            call,
            dialect: self.dialect,
            keep_alive: self.keep_alive.filter(|_| relay.is_some()),
            relay,
            patience: self.patience,
            model: self.model,
        }
    }
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
    respond(status, headers, call, |call| ReplyBody::whole(bytes, call))
}

/// Turns a call away, in the shape that its client reads.
pub(crate) fn refuse(mut call: Box<Call>, refusal: &Refusal) -> Response<ReplyBody> {
    call.refused(refusal);
    let (status, mut headers, body) = refusal.render(call.shape, call.request_id());
    down::describe_refused(&mut headers, &call);
    if matches!(refusal, Refusal::Draining | Refusal::Cut | Refusal::SlowBody) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    respond(status, headers, call, |call| ReplyBody::whole(body, call))
}

/// What a caller gets for a fault of ours. Its call has been settled.
pub(crate) fn after_panic(shape: Shape) -> Response<ReplyBody> {
    let (status, headers, body) = Refusal::Internal.render(shape, "");
    let mut response = Response::new(ReplyBody::Whole { left: Some(body), call: None });
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

/// A body in one piece, copied only if it came in several.
fn joined(mut pieces: VecDeque<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop_front().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}

/// The encoding of an answer that is not there as it is.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = headers.get(header::CONTENT_ENCODING)?.to_str().ok()?.trim().to_ascii_lowercase();
    (encoding != "identity").then_some(encoding)
}

/// Whether a caller said that it reads this encoding.
fn is_readable(encoding: &str, accepts: Option<&HeaderValue>) -> bool {
    let accepted = accepts.and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|item| {
        let name = item.split(';').next().unwrap_or_default().trim();
        (name.eq_ignore_ascii_case(encoding) || name == "*") && !item.replace(' ', "").ends_with(";q=0")
    })
}
