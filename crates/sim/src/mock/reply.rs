//! What an endpoint gives back: an answer, or a refusal in the shape of the provider it plays.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::events::Pieces;

pub(crate) const JSON: &str = "application/json";
pub(crate) const SSE: &str = "text/event-stream; charset=utf-8";

/// Whose errors and headers a path speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    LlamaCpp,
}

/// An answer with status 200.
pub(crate) struct Reply {
    pub(crate) content_type: &'static str,
    pub(crate) pieces: Pieces,
    pub(crate) streams: bool,
    /// Counted against the tokens per minute.
    pub(crate) tokens: u64,
}

impl Reply {
    pub(crate) fn json(value: &impl Serialize, tokens: u64) -> Self {
        // Values have text keys and go to memory, so this cannot fail.
        let bytes = serde_json::to_vec(value).unwrap_or_default();
        Self { content_type: JSON, pieces: Pieces::whole(bytes.into()), streams: false, tokens }
    }

    pub(crate) fn binary(content_type: &'static str, bytes: Bytes) -> Self {
        Self { content_type, pieces: Pieces::whole(bytes), streams: false, tokens: 0 }
    }

    pub(crate) fn events(pieces: Pieces, tokens: u64) -> Self {
        Self { content_type: SSE, pieces, streams: true, tokens }
    }
}

/// An answer that is an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// OpenAI's `param`.
    pub(crate) param: Option<String>,
    /// OpenAI's `code`; a usual one for the status where none is set.
    pub(crate) code: Option<&'static str>,
    pub(crate) retry_after: Option<std::time::Duration>,
}

pub(crate) type Checked = Result<(), Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// 400.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn body(&self, dialect: Dialect, request_id: &str) -> Bytes {
        let status = self.status.as_u16();
        let body = match dialect {
            Dialect::OpenAi => json!({"error": {
                "message": self.message,
                "type": openai_type(status),
                "param": self.param,
                "code": self.code.or_else(|| openai_code(status)),
            }}),
            Dialect::Anthropic => json!({
                "type": "error",
                "error": {"type": anthropic_type(status), "message": self.message},
                "request_id": request_id,
            }),
            Dialect::LlamaCpp => json!({"error": {
                "code": status,
                "message": self.message,
                "type": llamacpp_type(status),
            }}),
        };
        body.to_string().into()
    }

    /// The error as an event in a stream that has begun.
    pub(crate) fn event(&self, dialect: Dialect, path: &str, request_id: &str) -> Bytes {
        let body = self.body(dialect, request_id);
        let (name, data) = match dialect {
            Dialect::Anthropic => ("event: error\n", body),
            // Responses has a flat one.
            Dialect::OpenAi if path == "/v1/responses" => {
                let code = openai_code(self.status.as_u16());
                let flat = json!({"type": "error", "code": code, "message": self.message, "param": null});
                ("event: error\n", flat.to_string().into())
            }
            Dialect::OpenAi | Dialect::LlamaCpp => ("", body),
        };
        [name.as_bytes(), b"data: ", &data, b"\n\n"].concat().into()
    }

    /// Both spellings that OpenAI's SDKs read; Anthropic sends the first alone.
    pub(crate) fn retry_headers(&self, dialect: Dialect) -> Vec<(HeaderName, HeaderValue)> {
        let Some(wait) = self.retry_after else { return Vec::new() };
        let seconds = wait.as_millis().div_ceil(1000) as u64;
        let mut headers = vec![(http::header::RETRY_AFTER, HeaderValue::from(seconds))];
        if dialect == Dialect::OpenAi {
            let millis = wait.as_millis() as u64;
            headers.push((HeaderName::from_static("retry-after-ms"), HeaderValue::from(millis)));
        }
        headers
    }
}

fn openai_type(status: u16) -> &'static str {
    match status {
        401 | 403 => "authentication_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

fn openai_code(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        503 => "server_is_overloaded",
        500.. => "server_error",
        _ => return None,
    })
}

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn llamacpp_type(status: u16) -> &'static str {
    match status {
        401 | 403 => "authentication_error",
        404 => "not_found_error",
        503 => "unavailable_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// The error of a scripted status.
pub(crate) fn scripted(status: StatusCode, retry_after: Option<u64>) -> Refusal {
    let reason = status.canonical_reason().unwrap_or("Overloaded");
    let mut refusal = Refusal::new(status, format!("{reason}: the script says {}", status.as_u16()));
    refusal.retry_after = retry_after.map(std::time::Duration::from_secs);
    refusal
}

/// A JSON object, or the refusal that the provider would send.
pub(crate) fn parse_object(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(Refusal::bad("The body of your request must be a JSON object.")),
        Err(error) => {
            Err(Refusal::bad(format!("The body of your request could not be parsed as JSON: {error}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(dialect: Dialect, status: u16) -> Value {
        let refusal = scripted(StatusCode::from_u16(status).unwrap(), None);
        serde_json::from_slice(&refusal.body(dialect, "req_1")).unwrap()
    }

    #[test]
    fn errors_have_the_shape_of_their_provider() {
        let openai = body(Dialect::OpenAi, 429);
        assert_eq!(openai["error"]["code"], "rate_limit_exceeded");
        assert_eq!(openai["error"]["param"], Value::Null);
        let anthropic = body(Dialect::Anthropic, 529);
        assert_eq!(anthropic["type"], "error");
        assert_eq!(anthropic["error"]["type"], "overloaded_error");
        assert_eq!(anthropic["request_id"], "req_1");
        assert_eq!(body(Dialect::LlamaCpp, 503)["error"]["code"], 503);
    }

    #[test]
    fn a_retry_hint_is_told_in_the_headers_of_the_provider() {
        let mut refusal = Refusal::bad("no");
        assert!(refusal.retry_headers(Dialect::OpenAi).is_empty());
        refusal.retry_after = Some(std::time::Duration::from_millis(1500));
        let headers = refusal.retry_headers(Dialect::OpenAi);
        assert_eq!((headers[0].1.as_bytes(), headers[1].1.as_bytes()), (&b"2"[..], &b"1500"[..]));
        assert_eq!(refusal.retry_headers(Dialect::Anthropic).len(), 1);
    }

    #[test]
    fn only_objects_are_requests() {
        for bad in [&b"{"[..], b"[]", b"\xff", b"", "[".repeat(100_000).as_bytes()] {
            assert_eq!(parse_object(bad).unwrap_err().status, 400);
        }
    }
}
