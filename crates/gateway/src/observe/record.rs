//! What is kept of a call once it is over: one record, whatever became of it.
//!
//! The record is the only account of a call. The log line, the metrics, the event bus and every call log are
//! views of it, and none of them asks the call itself. It holds no body and no credential.
//! Values from outside (names, tags, errors) are cut when they are written, so a record is never larger than
//! a few KiB, whatever a caller or a provider sent.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use uuid::Uuid;

use super::stamp::Stamp;

/// Longest name (key, model, route, …) that is written, in bytes.
pub const NAME_MAX: usize = 256;
/// Longest error text that is written, in bytes.
pub const ERROR_MAX: usize = 2048;
/// Most tags that are written.
const TAGS_MAX: usize = 16;

/// One call. Serialises to the names that scripts rely on; what is absent is `null`.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Ours, a UUIDv7.
    pub id: Uuid,
    /// The caller's own id; written as `id` where it brought none.
    pub request_id: Option<Arc<str>>,
    /// When the call arrived.
    pub time: Timestamp,
    /// The virtual key's name.
    pub key: Option<Arc<str>>,
    /// The key's team.
    pub team: Option<Arc<str>>,
    /// What the caller wanted kept.
    pub tags: Vec<(Box<str>, Box<str>)>,
    /// The protocol that the caller spoke, from the gate's fixed set.
    pub protocol: &'static str,
    /// The canonical path that was asked for.
    pub route: Cow<'static, str>,
    /// The provider that the call went to, or would have gone to.
    pub provider: Option<Arc<str>>,
    /// The model that was asked of the provider.
    pub model: Option<Arc<str>>,
    /// The model that the answer names.
    pub served_model: Option<Arc<str>>,
    /// How the answer came about.
    pub fate: Fate,
    /// The status that the caller got; 499 where it hung up before there was one.
    pub status: u16,
    /// What went wrong, also behind a 200.
    pub error: Option<CallError>,
    /// How often a provider was asked.
    pub attempts: u16,
    /// Spent waiting for a permit.
    pub queue: Duration,
    /// From arrival to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// From arrival to the end.
    pub total: Duration,
    /// All input tokens, cached ones included.
    pub input_tokens: Option<u64>,
    /// Input tokens that the provider had in its prompt cache.
    pub cached_input_tokens: Option<u64>,
    /// Input tokens that the provider wrote to its prompt cache.
    pub cache_write_tokens: Option<u64>,
    /// All output tokens, reasoning included.
    pub output_tokens: Option<u64>,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Whether the tokens are the gate's estimate, not the provider's count.
    pub estimated: bool,
    /// What the call cost.
    pub cost: Option<NanoUsd>,
    /// What it would have cost without the gate.
    pub saved: Option<NanoUsd>,
    /// Why the model stopped, in the provider's words.
    pub finish: Option<Cow<'static, str>>,
    /// The tokens are this call's to count although it rode on another one's flight: whoever began that has left
    /// without them. Not written.
    pub pays: bool,
}

impl CallRecord {
    /// A record of a call about which nothing but its arrival is known yet.
    pub fn new(
        id: Uuid,
        time: Timestamp,
        protocol: &'static str,
        route: impl Into<Cow<'static, str>>,
    ) -> Self {
        CallRecord {
            id,
            request_id: None,
            time,
            key: None,
            team: None,
            tags: Vec::new(),
            protocol,
            route: route.into(),
            provider: None,
            model: None,
            served_model: None,
            fate: Fate::Miss,
            status: 0,
            error: None,
            attempts: 0,
            queue: Duration::ZERO,
            first_byte: None,
            total: Duration::ZERO,
            input_tokens: None,
            cached_input_tokens: None,
            cache_write_tokens: None,
            output_tokens: None,
            reasoning_tokens: None,
            estimated: false,
            cost: None,
            saved: None,
            finish: None,
            pays: false,
        }
    }

    /// Whether the gate or the provider failed the caller: a status from 500 up, or an error behind an
    /// answer that had begun well.
    pub fn failed(&self) -> bool {
        self.status >= 500 || (self.status < 400 && self.error.is_some())
    }
}

/// How a call came by its answer: what `x-sluicegate-cache` says, or `refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Asked of a provider.
    Miss,
    /// Rode on another call's flight.
    Joined,
    /// Answered from the cache.
    Hit,
    /// Answered from the cache of a similar question.
    Semantic,
    /// Asked of a provider; neither cache nor flights were in question.
    Bypass,
    /// Turned away by the gate itself.
    Refused,
}

impl Fate {
    /// Its name on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Miss => "miss",
            Fate::Joined => "joined",
            Fate::Hit => "hit",
            Fate::Semantic => "semantic",
            Fate::Bypass => "bypass",
            Fate::Refused => "refused",
        }
    }
}

/// What went wrong with a call. Written `code`, `code/reason` or `code/reason: detail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The stable code, from the gate's fixed set.
    pub code: &'static str,
    /// The finer reason, from the gate's fixed set.
    pub reason: Option<&'static str>,
    /// Free text, perhaps the provider's. Never a body, never a credential.
    pub detail: Option<Box<str>>,
}

impl CallError {
    /// An error that its code says all about.
    pub fn new(code: &'static str) -> Self {
        CallError { code, reason: None, detail: None }
    }

    /// Adds the finer reason.
    #[must_use]
    pub fn reason(self, reason: &'static str) -> Self {
        CallError { reason: Some(reason), ..self }
    }

    /// Adds text, cut to what will be written of it.
    #[must_use]
    pub fn detail(self, detail: &str) -> Self {
        CallError { detail: Some(clip(detail, ERROR_MAX).into()), ..self }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.code)?;
        if let Some(reason) = self.reason {
            write!(out, "/{reason}")?;
        }
        match &self.detail {
            Some(detail) => write!(out, ": {}", clip(detail, ERROR_MAX)),
            None => Ok(()),
        }
    }
}

/// Money in billionths of a dollar. Serialises as dollars, a decimal number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NanoUsd(pub i64);

impl Serialize for NanoUsd {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        // Nearest double: exact to the nano-dollar up to nine million dollars.
        out.serialize_f64(self.0 as f64 / 1e9)
    }
}

impl Serialize for CallRecord {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut id = Uuid::encode_buffer();
        let id: &str = self.id.hyphenated().encode_lower(&mut id);
        let mut row = out.serialize_struct("CallRecord", 27)?;
        row.serialize_field("id", id)?;
        row.serialize_field("request_id", self.request_id.as_deref().map_or(id, name))?;
        row.serialize_field("time", Stamp::new(self.time).as_str())?;
        row.serialize_field("key", &self.key.as_deref().map(name))?;
        row.serialize_field("team", &self.team.as_deref().map(name))?;
        row.serialize_field("tags", &(!self.tags.is_empty()).then_some(Tags(&self.tags)))?;
        row.serialize_field("protocol", self.protocol)?;
        row.serialize_field("route", name(&self.route))?;
        row.serialize_field("provider", &self.provider.as_deref().map(name))?;
        row.serialize_field("model", &self.model.as_deref().map(name))?;
        row.serialize_field("served_model", &self.served_model.as_deref().map(name))?;
        row.serialize_field("fate", self.fate.as_str())?;
        row.serialize_field("status", &self.status)?;
        row.serialize_field("error", &self.error.as_ref().map(Text))?;
        row.serialize_field("attempts", &self.attempts)?;
        row.serialize_field("queue_ms", &millis(self.queue))?;
        row.serialize_field("first_byte_ms", &self.first_byte.map(millis))?;
        row.serialize_field("total_ms", &millis(self.total))?;
        row.serialize_field("input_tokens", &self.input_tokens)?;
        row.serialize_field("cached_input_tokens", &self.cached_input_tokens)?;
        row.serialize_field("cache_write_tokens", &self.cache_write_tokens)?;
        row.serialize_field("output_tokens", &self.output_tokens)?;
        row.serialize_field("reasoning_tokens", &self.reasoning_tokens)?;
        row.serialize_field("estimated", &self.estimated)?;
        row.serialize_field("cost_usd", &self.cost)?;
        row.serialize_field("saved_usd", &self.saved)?;
        row.serialize_field("finish", &self.finish.as_deref().map(name))?;
        row.end()
    }
}

/// The longest start of `text` that fits in `max` bytes and ends between two characters.
pub(crate) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// A name from outside, as far as it is written.
pub(crate) fn name(text: &str) -> &str {
    clip(text, NAME_MAX)
}

/// Milliseconds with microseconds behind the point.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

struct Text<'a>(&'a CallError);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self.0)
    }
}

struct Tags<'a>(&'a [(Box<str>, Box<str>)]);

impl Serialize for Tags<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let tags = &self.0[..self.0.len().min(TAGS_MAX)];
        let mut map = out.serialize_map(Some(tags.len()))?;
        for (key, value) in tags {
            map.serialize_entry(name(key), name(value))?;
        }
        map.end()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A call as most calls are.
    pub(crate) fn sample() -> CallRecord {
        let id = Uuid::from_u128(0x0198_7654_3210_7abc_8def_0123_4567_89ab);
        let time = Timestamp::from_millisecond(1_760_000_584_123).unwrap();
        CallRecord {
            key: Some("ci".into()),
            provider: Some("openai".into()),
            model: Some("gpt-5-mini".into()),
            status: 200,
            attempts: 1,
            first_byte: Some(Duration::from_micros(310_250)),
            total: Duration::from_millis(1520),
            input_tokens: Some(120),
            output_tokens: Some(40),
            cost: Some(NanoUsd(110_000)),
            ..CallRecord::new(id, time, "chat", "/v1/chat/completions")
        }
    }

    #[test]
    fn a_record_has_exactly_the_promised_names_in_order() {
        let row = serde_json::to_value(sample()).unwrap();
        let names: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        let promised = "id request_id time key team tags protocol route provider model served_model fate status \
                        error attempts queue_ms first_byte_ms total_ms input_tokens cached_input_tokens \
                        cache_write_tokens output_tokens reasoning_tokens estimated cost_usd saved_usd finish";
        assert_eq!(names, promised.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn values_are_numbers_and_absence_is_null() {
        let row = serde_json::to_value(sample()).unwrap();
        assert_eq!(row["request_id"], row["id"]);
        assert_eq!(row["time"], "2025-10-09T09:03:04.123Z");
        assert_eq!(row["cost_usd"], 0.00011);
        assert_eq!(row["first_byte_ms"], 310.25);
        assert_eq!(row["status"], 200);
        for absent in ["team", "tags", "error", "served_model", "saved_usd", "finish", "reasoning_tokens"] {
            assert!(row[absent].is_null(), "{absent} is {}", row[absent]);
        }
    }

    #[test]
    fn what_comes_from_outside_is_cut() {
        let huge = "é".repeat(1 << 20);
        let record = CallRecord {
            model: Some(huge.as_str().into()),
            tags: (0..100).map(|n| (n.to_string().into(), huge.as_str().into())).collect(),
            error: Some(CallError::new("upstream_error").reason("reset").detail(&huge)),
            finish: Some(huge.clone().into()),
            ..sample()
        };
        let row = serde_json::to_string(&record).unwrap();
        assert!(row.len() < 16 * 1024, "{} bytes", row.len());
        let error = serde_json::to_value(&record).unwrap()["error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("upstream_error/reset: ééé"));
    }

    #[test]
    fn a_failure_is_the_gates_or_the_providers_never_the_callers() {
        let with = |status, error: Option<&'static str>| CallRecord {
            status,
            error: error.map(CallError::new),
            ..sample()
        };
        assert!(!with(200, None).failed());
        assert!(!with(404, Some("not_found")).failed());
        assert!(!with(499, Some("client_gone")).failed());
        assert!(with(504, Some("upstream_timeout")).failed());
        assert!(with(200, Some("upstream_error")).failed(), "a stream that was cut");
    }
}
