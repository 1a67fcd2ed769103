//! The last requests as they were received, for tests that compare bytes.
//!
//! Bounded in number and in bytes; the oldest go first. Header names are as hyper hands them on: in lower
//! case, in the order of their first appearance.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri, Version};
use parking_lot::Mutex;
use serde::Serialize;

pub(crate) const MOST_REQUESTS: usize = 1_000;
const MOST_BYTES: usize = 16 << 20;
/// What a request costs besides its body.
const OVERHEAD: usize = 1 << 10;

/// A request as it came.
#[derive(Clone, Debug, Serialize)]
pub struct Received {
    pub method: String,
    /// With its query.
    pub path: String,
    pub version: String,
    pub headers: Vec<(String, String)>,
    #[serde(rename = "body_base64", serialize_with = "as_base64")]
    pub body: Bytes,
}

impl Received {
    pub(crate) fn new(
        method: &Method,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Self {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        Self {
            method: method.to_string(),
            path: uri.path_and_query().map_or_else(String::new, ToString::to_string),
            version: format!("{version:?}"),
            headers,
            // A copy: hyper's own buffer may be far larger than the body that lies in it.
            body: Bytes::copy_from_slice(body),
        }
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn weight(&self) -> usize {
        OVERHEAD + self.body.len()
    }
}

fn as_base64<S: serde::Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(body))
}

#[derive(Default)]
pub(crate) struct Recorder {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    requests: VecDeque<Received>,
    bytes: usize,
}

impl Recorder {
    /// A request too large to be kept leaves no trace here, and drives out no other.
    pub(crate) fn add(&self, received: Received) {
        if received.weight() > MOST_BYTES {
            return;
        }
        let mut kept = self.kept.lock();
        kept.bytes += received.weight();
        kept.requests.push_back(received);
        while kept.requests.len() > MOST_REQUESTS || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.requests.pop_front() else { break };
            kept.bytes -= oldest.weight();
        }
    }

    /// The last `count`, oldest first.
    pub(crate) fn last(&self, count: usize) -> Vec<Received> {
        let kept = self.kept.lock();
        let skipped = kept.requests.len().saturating_sub(count);
        kept.requests.iter().skip(skipped).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        *self.kept.lock() = Kept::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(body: &[u8]) -> Received {
        let mut headers = HeaderMap::new();
        headers.insert("b", "1".parse().unwrap());
        headers.insert("a", "2".parse().unwrap());
        let uri = Uri::from_static("/v1/x?y=z");
        Received::new(&Method::POST, &uri, Version::HTTP_11, &headers, &Bytes::copy_from_slice(body))
    }

    #[test]
    fn keeps_bytes_and_header_order() {
        let recorder = Recorder::default();
        recorder.add(received(b"\xff\0"));
        let last = recorder.last(5).pop().unwrap();
        assert_eq!((last.path.as_str(), &last.body[..]), ("/v1/x?y=z", &b"\xff\0"[..]));
        assert_eq!(last.headers, [("b".into(), "1".into()), ("a".into(), "2".into())]);
        assert_eq!(serde_json::to_value(&last).unwrap()["body_base64"], "/wA=");
    }

    #[test]
    fn is_bounded_in_number_and_in_bytes() {
        let recorder = Recorder::default();
        for _ in 0..MOST_REQUESTS + 5 {
            recorder.add(received(b"x"));
        }
        assert_eq!(recorder.last(usize::MAX).len(), MOST_REQUESTS);
        recorder.add(received(&vec![0; MOST_BYTES - 2 * OVERHEAD]));
        assert_eq!(recorder.last(usize::MAX).len(), 1);
        recorder.add(received(&vec![0; MOST_BYTES]));
        assert_eq!(recorder.last(usize::MAX).len(), 1);
    }
}
