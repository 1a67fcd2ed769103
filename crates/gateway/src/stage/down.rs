//! The answer's head on its way down: the provider's headers, and what the gate adds to every answer.

use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use wire::dialect::Shape;

use crate::call::{Call, REQUEST_ID, text_value};
use crate::gateway::{Model, Provider};
use crate::kept::Kept;
use crate::observe::Fate;

use super::up::{is_hop_by_hop, remove_where};

const UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-upstream-request-id");
const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const CACHE: HeaderName = HeaderName::from_static("x-sluicegate-cache");
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const PROVIDER: HeaderName = HeaderName::from_static("x-sluicegate-provider");
const MODEL: HeaderName = HeaderName::from_static("x-sluicegate-model");
/// A longer name is not told: clients bound an answer's head, and the provider's own error is what counts.
const LONGEST_MODEL: usize = 256;
const ATTEMPTS: HeaderName = HeaderName::from_static("x-sluicegate-attempts");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Makes a provider's headers those of our answer.
pub(crate) fn strip(headers: &mut HeaderMap) {
    // Once for all that the gate adds: the map would otherwise grow, and be hashed anew, on the way.
    headers.reserve(8);
    let mut has_id = false;
    remove_where(headers, |name| {
        has_id |= *name == REQUEST_ID;
        is_hop_by_hop(name.as_str()) || *name == header::CONTENT_LENGTH
    });
    if has_id && let Some(id) = headers.remove(&REQUEST_ID) {
        headers.insert(UPSTREAM_REQUEST_ID, id);
    }
}

/// What every answer says, whoever made it.
pub(crate) fn sign(headers: &mut HeaderMap, call: &Call) {
    headers.insert(REQUEST_ID, call.request_id());
    if matches!(call.shape, Shape::Anthropic) && !headers.contains_key(&ANTHROPIC_REQUEST_ID) {
        headers.insert(ANTHROPIC_REQUEST_ID, call.request_id());
    }
}

/// What an answer that a provider gave says of its way.
pub(crate) fn describe(
    headers: &mut HeaderMap,
    call: &Call,
    provider: &Provider,
    model: &Model,
    stored: bool,
) {
    let status = match call.record.fate {
        Fate::Bypass => "sluicegate; fwd=bypass",
        Fate::Joined => "sluicegate; fwd=miss; collapsed",
        _ if stored && call.asks_anew => "sluicegate; fwd=request; stored",
        _ if stored => "sluicegate; fwd=miss; stored",
        _ if call.asks_anew => "sluicegate; fwd=request",
        _ => "sluicegate; fwd=miss",
    };
    tell(headers, call, provider, model, HeaderValue::from_static(status));
}

/// What an answer that was kept says of itself.
pub(crate) fn describe_kept(
    headers: &mut HeaderMap,
    call: &Call,
    provider: &Provider,
    model: &Model,
    kept: &Kept,
) {
    headers.insert(header::AGE, HeaderValue::from(kept.age().as_secs()));
    let status = format!("sluicegate; hit; ttl={}", kept.left().as_secs());
    tell(headers, call, provider, model, text_value(&status));
}

fn tell(headers: &mut HeaderMap, call: &Call, provider: &Provider, model: &Model, status: HeaderValue) {
    headers.insert(CACHE, HeaderValue::from_static(call.record.fate.as_str()));
    headers.append(CACHE_STATUS, status);
    headers.insert(PROVIDER, provider.name_value.clone());
    if let Some(name) = call.record.model.as_ref().filter(|name| name.len() <= LONGEST_MODEL) {
        let known = Arc::ptr_eq(name, &model.name);
        headers.insert(MODEL, if known { model.value.clone() } else { text_value(name) });
    }
    headers.insert(ATTEMPTS, attempts(call.record.attempts));
    headers.append(SERVER_TIMING, timing(call, call.record.queue));
}

/// What a refusal says of the way that the call had come.
pub(crate) fn describe_refused(headers: &mut HeaderMap, call: &Call) {
    if let Some(provider) = &call.record.provider {
        headers.insert(PROVIDER, text_value(provider));
        headers.insert(ATTEMPTS, attempts(call.record.attempts));
    }
}

fn attempts(count: u16) -> HeaderValue {
    match count {
        0 => HeaderValue::from_static("0"),
        1 => HeaderValue::from_static("1"),
        more => more.into(),
    }
}

/// How long the gate itself, its queue and the provider took up to now.
fn timing(call: &Call, queue: Duration) -> HeaderValue {
    let age = call.age();
    let upstream =
        call.record.first_byte.map_or(Duration::ZERO, |first| first.saturating_sub(call.before_upstream));
    let gate = age.saturating_sub(queue).saturating_sub(upstream);
    let mut text = Text { bytes: [0; 128], len: 0 };
    for (name, time) in [("gate;dur=", gate), (", queue;dur=", queue), (", upstream;dur=", upstream)] {
        text.push(name.as_bytes());
        text.push_millis(time);
    }
    HeaderValue::from_bytes(&text.bytes[..text.len]).unwrap_or_else(|_| HeaderValue::from_static("?"))
}

/// A short text, put together without an allocation; what has no room is left out.
struct Text {
    bytes: [u8; 128],
    len: usize,
}

impl Text {
    fn push(&mut self, more: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + more.len()) {
            room.copy_from_slice(more);
            self.len += more.len();
        }
    }

    /// Milliseconds with three digits behind the point.
    fn push_millis(&mut self, time: Duration) {
        let mut digits = itoa::Buffer::new();
        let millis = time.as_secs() * 1000 + u64::from(time.subsec_millis());
        self.push(digits.format(millis).as_bytes());
        self.push(b".");
        // The leading one keeps the zeros of the fraction.
        self.push(&digits.format(1000 + time.subsec_micros() % 1000).as_bytes()[1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_stays_and_the_providers_id_is_renamed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-length", "61"),
            ("transfer-encoding", "chunked"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("x-request-id", "req_1"),
            ("retry-after", "30"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-should-retry", "true"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        assert!(!headers.contains_key("x-request-id"));
        assert_eq!(headers["x-upstream-request-id"], "req_1");
        assert_eq!(headers["retry-after"], "30");
        assert_eq!(headers["x-should-retry"], "true");
        assert_eq!(headers.len(), 4);
    }
}
