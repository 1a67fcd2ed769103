//! The answer's head on its way down: the provider's headers, and what the gate adds to every answer.

use std::time::Duration;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use wire::dialect::Shape;

use crate::call::{Call, text_value};
use crate::gateway::Provider;
use crate::observe::Fate;

use super::up::{drop_named_by_connection, is_hop_by_hop, remove_where};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
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
    drop_named_by_connection(headers);
    remove_where(headers, |name| is_hop_by_hop(name) || *name == header::CONTENT_LENGTH);
    if let Some(id) = headers.remove(&REQUEST_ID) {
        headers.insert(UPSTREAM_REQUEST_ID, id);
    }
}

/// What every answer says, whoever made it.
pub(crate) fn sign(headers: &mut HeaderMap, call: &Call) {
    headers.insert(REQUEST_ID, call.request_id.clone());
    if matches!(call.shape, Shape::Anthropic) && !headers.contains_key(&ANTHROPIC_REQUEST_ID) {
        headers.insert(ANTHROPIC_REQUEST_ID, call.request_id.clone());
    }
}

/// What an answer that a provider gave says of its way.
pub(crate) fn describe(headers: &mut HeaderMap, call: &Call, provider: &Provider, queue: Duration) {
    let (cache, status) = match call.record.fate {
        Fate::Bypass => ("bypass", "sluicegate; fwd=bypass"),
        _ => ("miss", "sluicegate; fwd=miss"),
    };
    headers.insert(CACHE, HeaderValue::from_static(cache));
    headers.append(CACHE_STATUS, HeaderValue::from_static(status));
    headers.insert(PROVIDER, provider.name_value.clone());
    if let Some(model) = call.record.model.as_ref().filter(|model| model.len() <= LONGEST_MODEL) {
        headers.insert(MODEL, text_value(model));
    }
    headers.insert(ATTEMPTS, HeaderValue::from(call.record.attempts));
    headers.append(SERVER_TIMING, timing(call, queue));
}

/// What a refusal says of the way that the call had come.
pub(crate) fn describe_refused(headers: &mut HeaderMap, call: &Call) {
    if let Some(provider) = &call.record.provider {
        headers.insert(PROVIDER, text_value(provider));
        headers.insert(ATTEMPTS, HeaderValue::from(call.record.attempts));
    }
}

/// How long the gate itself, its queue and the provider took up to now.
fn timing(call: &Call, queue: Duration) -> HeaderValue {
    let age = call.age();
    let upstream =
        call.record.first_byte.map_or(Duration::ZERO, |first| first.saturating_sub(call.before_upstream));
    let gate = age.saturating_sub(queue).saturating_sub(upstream);
    let mut text = String::with_capacity(64);
    for (name, time) in [("gate;dur=", gate), (", queue;dur=", queue), (", upstream;dur=", upstream)] {
        text.push_str(name);
        push_millis(&mut text, time);
    }
    text_value(&text)
}

/// Milliseconds with three digits behind the point.
fn push_millis(text: &mut String, time: Duration) {
    let micros = time.as_micros() as u64;
    let mut digits = itoa::Buffer::new();
    text.push_str(digits.format(micros / 1000));
    text.push('.');
    // The leading one keeps the zeros of the fraction.
    text.push_str(&digits.format(1000 + micros % 1000)[1..]);
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
