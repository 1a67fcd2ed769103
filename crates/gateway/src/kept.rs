//! Answers that are kept for callers who ask the same later.
//!
//! Only whole answers come in here ([`Rule`] says which), each with its own end of life on the gate's own clock; the
//! map beneath bounds their bytes and nothing else. One answer is one allocation: headers and body in a row, copied,
//! so that no buffer of a connection is held for its sake.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use http::{HeaderMap, HeaderName, header};
use quick_cache::Weighter;
use quick_cache::sync::{Cache as Map, DefaultLifecycle};
use smallvec::SmallVec;
use tokio::time::Instant;
use wire::dialect::{Dialect, may_keep};
use wire::fingerprint::Fingerprint;
use wire::fold::{fold, unfold};
use wire::relay::Watch;

use crate::config::{Cache as Settings, CacheWhen};
use crate::flight::{Ending, Flight, Head};
use crate::headers::unpack;
use crate::stage::up::is_hop_by_hop;

/// What an answer takes beside its bytes: its entry, its key, what the map needs for it.
const OVERHEAD: usize = 512;
/// What the map reckons an answer to be like, to size itself.
const TYPICAL: usize = 4096;

/// Which answers to a call are kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    ttl: Duration,
}

impl Rule {
    /// None where no answer to this call is.
    pub(crate) fn of(settings: &Settings, deterministic: bool) -> Option<Rule> {
        let keeps = match settings.when {
            CacheWhen::Always => true,
            CacheWhen::Deterministic => deterministic,
            CacheWhen::Never => false,
        };
        keeps.then_some(Rule { ttl: settings.ttl })
    }

    /// How long this answer is kept, if it is.
    pub(crate) fn keep<'a>(
        &self,
        dialect: &dyn Dialect,
        watch: &Watch,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Duration> {
        may_keep(dialect, watch, pieces).then_some(self.ttl)
    }
}

/// One answer.
pub(crate) struct Kept {
    dialect: &'static dyn Dialect,
    /// A stream of events; else a plain answer.
    streams: bool,
    tells_usage: bool,
    /// Headers, then the body.
    bytes: Bytes,
    body_at: usize,
    /// Where in the body events are that tell usage and nothing else.
    usage: SmallVec<[Range<u32>; 1]>,
    watch: Watch,
    since: Instant,
    ttl: Duration,
}

/// All of them.
pub(crate) struct Cache(
    Map<Fingerprint, Arc<Kept>, Weight, RandomState, DefaultLifecycle<Fingerprint, Arc<Kept>>>,
);

#[derive(Clone)]
struct Weight;

impl Weighter<Fingerprint, Arc<Kept>> for Weight {
    fn weight(&self, _: &Fingerprint, kept: &Arc<Kept>) -> u64 {
        (kept.bytes.len() + OVERHEAD) as u64
    }
}

/// A flight whose answer is to be kept.
pub(crate) struct Keeping<'a> {
    pub(crate) flight: &'a Flight,
    pub(crate) ending: &'a Ending,
}

impl Cache {
    pub(crate) fn new(max_bytes: usize) -> Cache {
        Cache(Map::with(
            max_bytes / TYPICAL,
            max_bytes as u64,
            Weight,
            RandomState::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// Keeps no more than that from now on.
    pub(crate) fn resize(&self, max_bytes: usize) {
        if self.0.capacity() != max_bytes as u64 {
            self.0.set_capacity(max_bytes as u64);
        }
    }

    /// The answer, if it is there and not too old.
    pub(crate) fn find(&self, key: &Fingerprint, max_age: Option<Duration>) -> Option<Arc<Kept>> {
        let kept = self.0.get(key)?;
        let age = kept.age();
        if age >= kept.ttl {
            self.0.remove(key);
            return None;
        }
        max_age.is_none_or(|most| age <= most).then_some(kept)
    }

    /// Keeps a flight's answer.
    pub(crate) fn keep(&self, key: Fingerprint, keeping: Keeping<'_>) {
        if let Some(kept) = keeping.kept() {
            self.0.insert(key, Arc::new(kept));
        }
    }

    /// Lets go of what is too old.
    pub(crate) fn sweep(&self) {
        // One look at the clock for all of them: there may be hundreds of thousands.
        let now = Instant::now();
        self.0.retain(|_, kept| now.saturating_duration_since(kept.since) < kept.ttl);
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

impl Keeping<'_> {
    fn kept(&self) -> Option<Kept> {
        let (flight, ending) = (self.flight, self.ending);
        let head = flight.tape.head()?;
        let Head { outcome: Ok(answer), .. } = &*head else { return None };
        let frames = flight.tape.frames()?;
        let size: usize = frames.iter().map(|piece| piece.bytes.len()).sum();
        let mut bytes = BytesMut::with_capacity(answer.packed.len() + size);
        bytes.extend_from_slice(&answer.packed);
        let body_at = bytes.len();
        let mut usage = SmallVec::new();
        for piece in &frames {
            let from = bytes.len() - body_at;
            bytes.extend_from_slice(&piece.bytes);
            if piece.usage_only {
                usage.push(from as u32..(bytes.len() - body_at) as u32);
            }
        }
        Some(Kept {
            dialect: flight.dialect,
            streams: answer.events,
            tells_usage: flight.form.tells_usage,
            bytes: bytes.freeze(),
            body_at,
            usage,
            watch: ending.watch.clone(),
            since: ending.at,
            ttl: ending.keep?,
        })
    }
}

impl Kept {
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long it will still be kept.
    pub(crate) fn left(&self) -> Duration {
        self.ttl.saturating_sub(self.age())
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        unpack(&self.bytes[..self.body_at], is_of_answer)
    }

    /// Whether it is kept in the form that a caller asks for.
    pub(crate) fn is_stream(&self) -> bool {
        self.streams
    }

    /// The body in the form that a caller asks for; none where it can't be brought into it.
    pub(crate) fn body(&self, streams: bool, usage: bool) -> Option<Bytes> {
        // A plain answer tells usage always.
        if !self.tells_usage && (usage || !streams) {
            return None;
        }
        let body = self.bytes.slice(self.body_at..);
        match (self.streams, streams) {
            (false, false) => Some(body),
            (true, true) if usage || self.usage.is_empty() => Some(body),
            (true, true) => {
                let mut rest = BytesMut::with_capacity(body.len());
                let mut from = 0;
                for cut in &self.usage {
                    rest.extend_from_slice(&body[from..cut.start as usize]);
                    from = cut.end as usize;
                }
                rest.extend_from_slice(&body[from..]);
                Some(rest.freeze())
            }
            (true, false) => fold(self.dialect, [&body]).map(Bytes::from),
            (false, true) => {
                let events = unfold(self.dialect, &body, usage)?;
                let mut all = BytesMut::with_capacity(events.iter().map(Bytes::len).sum());
                events.iter().for_each(|event| all.extend_from_slice(event));
                Some(all.freeze())
            }
        }
    }
}

/// Whether a header belongs to the answer and not to the one exchange that brought it.
fn is_of_answer(name: &HeaderName) -> bool {
    // What nearly every answer has, before names are compared.
    if *name == header::CONTENT_TYPE {
        return true;
    }
    let name = name.as_str();
    !is_hop_by_hop(name)
        && !matches!(
            name,
            "content-length"
                | "date"
                | "age"
                | "set-cookie"
                | "retry-after"
                | "server-timing"
                | "openai-processing-ms"
                | "alt-svc"
        )
        && !tells_limits(name)
}

/// Whether a provider's header says how much more it takes.
fn tells_limits(name: &str) -> bool {
    let rest = name.strip_prefix("x-").or_else(|| name.strip_prefix("anthropic-")).unwrap_or(name);
    rest.starts_with("rate") && (rest.starts_with("ratelimit") || rest.starts_with("rate-limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_exchange_are_not_the_answers() {
        for name in ["content-type", "openai-version", "x-request-id", "x-rate", "x-two"] {
            assert!(is_of_answer(&HeaderName::from_static(name)), "{name}");
        }
        for name in [
            "set-cookie",
            "date",
            "connection",
            "content-length",
            "retry-after",
            "openai-processing-ms",
            "x-ratelimit-remaining-requests",
            "anthropic-ratelimit-tokens-limit",
            "ratelimit-policy",
        ] {
            assert!(!is_of_answer(&HeaderName::from_static(name)), "{name}");
        }
    }
}
