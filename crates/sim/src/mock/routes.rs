//! Which path does what. Only true paths: no doubled `/v1`, no trailing slash.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::options::Tuning;
use super::reply::{Dialect, Refusal, Reply};
use super::shared::Shared;
use super::{chat, completions, embeddings, files, llamacpp, messages, models, responses, speech};

/// A request that is to be answered.
pub(crate) struct Asked<'a> {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    pub(crate) tuning: &'a Tuning,
    pub(crate) shared: &'a Shared,
    pub(crate) dialect: Dialect,
}

impl Asked<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }
}

enum Handler {
    Plain(fn(&Asked<'_>) -> Result<Reply, Refusal>),
    /// For one thing, whose id stands where the path has `{id}`.
    One(fn(&Asked<'_>, &str) -> Result<Reply, Refusal>),
}

use Handler::{One, Plain};

const ROUTES: &[(Method, &str, Handler)] = &[
    (Method::POST, "/v1/chat/completions", Plain(chat::reply)),
    (Method::POST, "/v1/completions", Plain(completions::reply)),
    (Method::POST, "/v1/embeddings", Plain(embeddings::reply)),
    (Method::POST, "/v1/responses", Plain(responses::reply)),
    (Method::POST, "/v1/messages", Plain(messages::reply)),
    (Method::POST, "/v1/messages/count_tokens", Plain(messages::count_tokens)),
    (Method::POST, "/completion", Plain(llamacpp::reply)),
    (Method::POST, "/v1/audio/speech", Plain(speech::reply)),
    (Method::GET, "/v1/models", Plain(models::list)),
    (Method::GET, "/v1/models/{id}", One(models::one)),
    (Method::POST, "/v1/files", Plain(files::upload)),
    (Method::GET, "/v1/files/{id}/content", One(files::content)),
];

/// Whose shape the errors and headers of this request have.
pub(crate) fn dialect(head: &Parts) -> Dialect {
    match head.uri.path() {
        "/completion" => Dialect::LlamaCpp,
        path if path.starts_with("/v1/messages") => Dialect::Anthropic,
        _ if head.headers.contains_key("anthropic-version") => Dialect::Anthropic,
        _ => Dialect::OpenAi,
    }
}

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let (method, path) = (&asked.head.method, asked.head.uri.path());
    let mut other_method = false;
    for (wanted, pattern, handler) in ROUTES {
        let Some(id) = matched(pattern, path) else { continue };
        if wanted != method {
            other_method = true;
            continue;
        }
        return match handler {
            Plain(handler) => handler(asked),
            One(handler) => handler(asked, id),
        };
    }
    Err(match other_method {
        true => Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("Not allowed to {method} on {path}")),
        false => Refusal::not_found(format!("Unknown request URL: {method} {path}")).code("unknown_url"),
    })
}

/// The id in the path, or an empty one where the pattern has none; `None` if the path is another.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, after)) = pattern.split_once("{id}") else {
        return (pattern == path).then_some("");
    };
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    (!id.is_empty() && (after.is_empty() || !id.contains('/'))).then_some(id)
}

/// Any of the headers in which SDKs send a key will do.
pub(crate) fn check_key(headers: &HeaderMap, required: Option<&str>) -> Result<(), Refusal> {
    let Some(required) = required else { return Ok(()) };
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let named = ["x-api-key", "api-key"].iter().filter_map(|name| headers.get(*name));
    let sent: Vec<&[u8]> = bearer.into_iter().chain(named.map(|value| value.as_bytes())).collect();
    if sent.contains(&required.as_bytes()) {
        return Ok(());
    }
    let message =
        if sent.is_empty() { "You didn't provide an API key." } else { "Incorrect API key provided." };
    Err(Refusal::new(StatusCode::UNAUTHORIZED, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_true_paths_match() {
        assert_eq!(matched("/v1/files", "/v1/files"), Some(""));
        assert_eq!(matched("/v1/files/{id}/content", "/v1/files/f-1/content"), Some("f-1"));
        assert_eq!(matched("/v1/models/{id}", "/v1/models/org/model"), Some("org/model"));
        for path in ["/v1/v1/files", "/files", "/v1/files/", "/v1/files/a/b/content", "/v1/files//content"] {
            assert_eq!(matched("/v1/files", path), None);
            assert_eq!(matched("/v1/files/{id}/content", path), None, "{path}");
        }
    }

    #[test]
    fn a_key_is_found_in_every_header_that_sdks_use() {
        let with = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            check_key(&headers, Some("k"))
        };
        assert!(with("authorization", "Bearer k").is_ok());
        assert!(with("x-api-key", "k").is_ok());
        assert!(check_key(&HeaderMap::new(), None).is_ok());
        for refused in [with("authorization", "k"), with("x-api-key", "wrong"), with("cookie", "k")] {
            let refusal = refused.unwrap_err();
            assert_eq!(refusal.status, 401);
            assert!(!refusal.message.contains("wrong"));
        }
    }
}
