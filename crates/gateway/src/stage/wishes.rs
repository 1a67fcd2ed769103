//! What a caller asks of the gate itself, in headers that the provider never sees (or need not).

use std::time::Duration;

use guard::lanes::Priority;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::config::duration;
use crate::refusal::Refusal;

const TIMEOUT: HeaderName = HeaderName::from_static("x-sluicegate-timeout");
const PRIORITY: HeaderName = HeaderName::from_static("x-sluicegate-priority");
const TAGS: HeaderName = HeaderName::from_static("x-sluicegate-tags");
const SDK_TIMEOUT: HeaderName = HeaderName::from_static("x-stainless-timeout");
const SDK_READ_TIMEOUT: HeaderName = HeaderName::from_static("x-stainless-read-timeout");
/// Most tags that are kept of a call.
const MOST_TAGS: usize = 16;

/// A caller's own label for a call: key and value.
type Tag = (Box<str>, Box<str>);

/// The asks of one call.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wishes {
    /// For the whole call.
    pub(crate) timeout: Option<Duration>,
    /// For the first byte, or for the whole of a plain answer.
    pub(crate) sdk_timeout: Option<Duration>,
    /// For the first byte and between bytes.
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) priority: Option<Priority>,
    pub(crate) tags: Vec<Tag>,
    pub(crate) cache: CacheWish,
}

/// What `Cache-Control` asks for, as far as it can change what the gate does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheWish {
    /// Neither join, nor read, nor write.
    pub(crate) no_store: bool,
    /// A kept answer or none.
    pub(crate) only_if_cached: bool,
    /// From the provider: no kept answer, no running flight.
    pub(crate) anew: bool,
    /// No kept answer that is older.
    pub(crate) max_age: Option<Duration>,
}

impl Wishes {
    /// Reads the asks of a request's head. One that can't be understood is an error: a deadline that was
    /// misspelt must not be no deadline.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Wishes, Refusal> {
        let mut wishes = Wishes::default();
        for (name, value) in headers {
            // All names that count are extension headers, but for the one.
            if !name.as_str().starts_with("x-s") && name != header::CACHE_CONTROL {
                continue;
            }
            match name {
                name if name == TIMEOUT => wishes.timeout = Some(own_duration(value)?),
                name if name == PRIORITY => wishes.priority = Some(priority(value)?),
                name if name == TAGS => wishes.tags = tags(value)?,
                name if name == SDK_TIMEOUT => wishes.sdk_timeout = sdk_seconds(value),
                name if name == SDK_READ_TIMEOUT => wishes.read_timeout = sdk_seconds(value),
                name if name == header::CACHE_CONTROL => wishes.cache.read(value),
                _ => {}
            }
        }
        Ok(wishes)
    }
}

impl CacheWish {
    fn read(&mut self, value: &HeaderValue) {
        let Ok(text) = value.to_str() else { return };
        for directive in text.split(',').map(str::trim) {
            self.no_store |= directive.eq_ignore_ascii_case("no-store");
            self.only_if_cached |= directive.eq_ignore_ascii_case("only-if-cached");
            self.anew |= directive.eq_ignore_ascii_case("no-cache");
            if let Some((name, seconds)) = directive.split_once('=')
                && name.trim_end().eq_ignore_ascii_case("max-age")
                && let Ok(seconds) = seconds.trim().trim_matches('"').parse()
            {
                self.anew |= seconds == 0;
                let age = Duration::from_secs(seconds);
                self.max_age = Some(self.max_age.map_or(age, |known| known.min(age)));
            }
        }
    }
}

fn own_duration(value: &HeaderValue) -> Result<Duration, Refusal> {
    value
        .to_str()
        .ok()
        .and_then(|text| duration::parse(text).ok())
        .filter(|wait| !wait.is_zero())
        .ok_or_else(|| bad(&TIMEOUT, "takes a duration above zero, such as 20s or 500ms"))
}

fn priority(value: &HeaderValue) -> Result<Priority, Refusal> {
    match value.as_bytes().to_ascii_lowercase().as_slice() {
        b"high" => Ok(Priority::High),
        b"normal" => Ok(Priority::Normal),
        b"low" => Ok(Priority::Low),
        _ => Err(bad(&PRIORITY, "takes high, normal or low")),
    }
}

fn tags(value: &HeaderValue) -> Result<Vec<Tag>, Refusal> {
    let text = value.to_str().map_err(|_| bad(&TAGS, "takes printable characters"))?;
    let pairs: Option<Vec<_>> = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').map(|(key, value)| (key.trim().into(), value.trim().into())))
        .collect();
    match pairs {
        Some(pairs) if pairs.len() <= MOST_TAGS => Ok(pairs),
        _ => Err(bad(&TAGS, "takes at most 16 pairs: k=v, k=v")),
    }
}

/// The SDKs' own headers carry seconds; what they say otherwise is theirs alone and means nothing here.
fn sdk_seconds(value: &HeaderValue) -> Option<Duration> {
    let seconds: f64 = value.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn bad(name: &HeaderName, takes: &str) -> Refusal {
    Refusal::Malformed { message: format!("the header {name} {takes}"), param: Some(name.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(pairs: &[(&'static str, &str)]) -> Result<Wishes, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        Wishes::of(&headers)
    }

    #[test]
    fn every_ask_is_read() {
        let wishes = wishes(&[
            ("x-sluicegate-timeout", "1500ms"),
            ("x-sluicegate-priority", "High"),
            ("x-sluicegate-tags", "team=a, run = 7"),
            ("x-stainless-timeout", "20"),
            ("x-stainless-read-timeout", "2.5"),
            ("cache-control", "No-Store, only-if-cached, max-age=60"),
        ])
        .unwrap();
        assert_eq!(wishes.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(wishes.priority, Some(Priority::High));
        assert_eq!(wishes.tags, [("team".into(), "a".into()), ("run".into(), "7".into())]);
        assert_eq!(wishes.sdk_timeout, Some(Duration::from_secs(20)));
        assert_eq!(wishes.read_timeout, Some(Duration::from_millis(2500)));
        assert!(wishes.cache.no_store && wishes.cache.only_if_cached && !wishes.cache.anew);
        assert_eq!(wishes.cache.max_age, Some(Duration::from_secs(60)));
    }

    #[test]
    fn an_answer_from_the_provider_is_asked_for_in_two_ways() {
        for value in ["no-cache", "max-age=0", "max-age=60, No-Cache", "max-age = \"0\""] {
            assert!(wishes(&[("cache-control", value)]).unwrap().cache.anew, "{value}");
        }
        for value in ["max-age=1", "max-age=soon", "max-stale=0"] {
            assert!(!wishes(&[("cache-control", value)]).unwrap().cache.anew, "{value}");
        }
    }

    #[test]
    fn a_misspelt_ask_is_refused_and_named() {
        for (name, value) in [
            ("x-sluicegate-timeout", "soon"),
            ("x-sluicegate-timeout", "0s"),
            ("x-sluicegate-priority", "urgent"),
            ("x-sluicegate-tags", "a"),
        ] {
            match wishes(&[(name, value)]) {
                Err(Refusal::Malformed { param, .. }) => assert_eq!(param.as_deref(), Some(name)),
                other => panic!("{name}: {value} gave {other:?}"),
            }
        }
        // The SDKs' headers are not ours to judge.
        assert_eq!(wishes(&[("x-stainless-timeout", "NOT_GIVEN")]).unwrap(), Wishes::default());
    }
}
