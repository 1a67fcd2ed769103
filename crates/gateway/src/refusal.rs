//! What the gate itself says when it does not pass a call on, and the only table that maps it to HTTP.
//!
//! A refusal knows whose side failed, so that a caller's mistake is never booked as a provider's trouble.
//! The provider's own errors are not refusals: they pass as they came. One that stands in for what the gate would
//! have made of several answers comes this way too, and passes all the same.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use wire::dialect::{Fault, Shape, error_body};

pub(crate) const X_ERROR: HeaderName = HeaderName::from_static("x-sluicegate-error");
pub(crate) const X_REASON: HeaderName = HeaderName::from_static("x-sluicegate-reason");
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Which of the waits of a call ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// TCP and TLS.
    Connect,
    /// From the request to the first byte of the answer.
    FirstByte,
    /// Between two bytes of the answer.
    Stall,
}

impl Wait {
    fn name(self) -> &'static str {
        match self {
            Wait::Connect => "connection",
            Wait::FirstByte => "first byte",
            Wait::Stall => "next byte",
        }
    }
}

/// Where there are too many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// At the door of the whole process.
    Gate,
    /// In the queue of one provider.
    Provider,
}

/// Why the gate turned a call away or had to end it. Cheap to clone: one refusal may reach many callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request can't be understood; `param` names the field, where one is to blame.
    Malformed { message: String, param: Option<String> },
    /// The provider that the model leads to speaks another protocol.
    NotSpoken { protocol: &'static str, provider: String },
    /// The provider speaks another protocol, in which this can't be said.
    Untranslatable { field: String, message: String, code: Option<&'static str> },
    /// There is no credential for this provider: neither the gate has one nor the caller, whose own counts only where
    /// it was meant for this vendor.
    NoCredentials { provider: String, translated: bool },
    /// A web page, or a name that this gate does not answer to, called an open gate.
    Foreign { what: &'static str, value: String },
    /// No configured provider takes this protocol.
    ModelUnknown { protocol: &'static str },
    /// No such path.
    PathUnknown,
    /// The path names a provider that there is none of.
    ProviderUnknown { name: String },
    /// A path that a later version serves.
    NotBuilt,
    /// `only-if-cached`, and nothing is kept.
    NotCached,
    /// WebSocket or another upgrade.
    Upgrade,
    /// The body is larger than `max_body` (bytes).
    TooLarge { limit: usize },
    /// The caller stopped sending in the middle of its request.
    SlowBody,
    /// The caller left in the middle of its request.
    Gone,
    /// There is no room to wait in, or so many wait that waiting would be in vain.
    QueueFull { crowd: Crowd, retry_after: Duration },
    /// Waited for as long as the queue allows.
    QueueTimeout { crowd: Crowd, waited: Duration, retry_after: Duration },
    /// The gate is going down.
    Draining,
    /// The gate went down before the call was over.
    Cut,
    /// The provider was silent for longer than we wait.
    UpstreamTimeout { wait: Wait, after: Duration },
    /// The caller's own deadline, or the total one, is over.
    Deadline { after: Duration },
    /// The provider can't be reached, or broke off before there was an answer.
    Upstream { cause: String },
    /// The provider did not take the gate's own key.
    UpstreamCredentials { provider: String },
    /// The provider's answer is encoded in a way that the caller can't read.
    Encoding { encoding: String },
    /// This process, or the machine, has no connection left to open.
    Exhausted { cause: String },
    /// A provider's own error, where the gate has asked several.
    Said(Box<Said>),
    /// A fault of ours.
    Internal,
}

/// An error as a provider gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who said it.
    pub provider: String,
    /// With which status.
    pub status: StatusCode,
    /// What the caller gets of its headers.
    pub headers: HeaderMap,
    /// Its words; none where the caller could not read them.
    pub body: Option<Bytes>,
}

impl Said {
    /// The same for a caller that does not speak this provider's language.
    pub(crate) fn retold(mut self: Box<Said>) -> Box<Said> {
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = None;
        self
    }
}

/// Whose side failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The caller asked for something that can't be.
    Client,
    /// The gate could not, or would not, now.
    Gate,
    /// The provider.
    Upstream,
}

/// One row of the table: what the world sees of a refusal.
pub struct Row {
    /// HTTP status, for a call that has not begun to answer.
    pub status: StatusCode,
    /// The stable code.
    pub code: &'static str,
    /// The finer reason, where there is one.
    pub reason: Option<&'static str>,
    /// What `x-should-retry` tells the SDK.
    pub retry: bool,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<u64>,
    /// Whose side failed.
    pub side: Side,
}

impl Refusal {
    /// For who held the others up for too long.
    pub(crate) fn read_too_slowly() -> Refusal {
        Refusal::Upstream { cause: "the answer was read too slowly".to_owned() }
    }

    /// For a call that goes to another vendor than the caller's own.
    pub(crate) fn of_a_translated_call(self) -> Refusal {
        match self {
            Refusal::NoCredentials { provider, .. } => Refusal::NoCredentials { provider, translated: true },
            other => other,
        }
    }

    /// The only table from refusals to HTTP.
    pub fn row(&self) -> Row {
        use Refusal::*;
        use Side::{Client, Gate, Upstream as Provider};
        let row =
            |status, code, side| Row { status, code, reason: None, retry: false, retry_after: None, side };
        let why = |row: Row, reason| Row { reason: Some(reason), ..row };
        let again = |row: Row| Row { retry: true, ..row };
        let after = |row: Row, wait: &Duration| Row { retry_after: Some(seconds(*wait)), ..row };
        match self {
            Malformed { .. } => row(StatusCode::BAD_REQUEST, "invalid_request", Client),
            NotSpoken { .. } => {
                why(row(StatusCode::BAD_REQUEST, "invalid_request", Client), "protocol_not_spoken")
            }
            Untranslatable { .. } => {
                why(row(StatusCode::BAD_REQUEST, "invalid_request", Client), "not_translatable")
            }
            NoCredentials { .. } => row(StatusCode::UNAUTHORIZED, "no_credentials", Client),
            Foreign { .. } => row(StatusCode::FORBIDDEN, "origin_not_allowed", Client),
            ModelUnknown { .. } => row(StatusCode::NOT_FOUND, "model_not_found", Client),
            PathUnknown => row(StatusCode::NOT_FOUND, "not_found", Client),
            ProviderUnknown { .. } => {
                why(row(StatusCode::NOT_FOUND, "not_found", Client), "provider_unknown")
            }
            NotBuilt => row(StatusCode::NOT_IMPLEMENTED, "not_built_yet", Gate),
            NotCached => row(StatusCode::GATEWAY_TIMEOUT, "not_cached", Client),
            Upgrade => row(StatusCode::NOT_IMPLEMENTED, "upgrade_not_supported", Client),
            TooLarge { .. } => row(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", Client),
            SlowBody => again(row(StatusCode::REQUEST_TIMEOUT, "request_timeout", Client)),
            Gone => row(StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST), "client_gone", Client),
            QueueFull { retry_after, .. } => after(
                again(why(row(StatusCode::TOO_MANY_REQUESTS, "overloaded", Gate), "queue_full")),
                retry_after,
            ),
            QueueTimeout { retry_after, .. } => after(
                again(why(row(StatusCode::TOO_MANY_REQUESTS, "overloaded", Gate), "queue_timeout")),
                retry_after,
            ),
            Draining => after(
                again(why(row(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", Gate), "shutdown")),
                &Duration::from_secs(1),
            ),
            Cut => after(
                again(why(row(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", Gate), "shutdown")),
                &Duration::from_secs(1),
            ),
            Exhausted { .. } => after(
                again(why(row(StatusCode::SERVICE_UNAVAILABLE, "overloaded", Gate), "out_of_connections")),
                &Duration::from_secs(1),
            ),
            Said(said) if said.status.is_client_error() => row(said.status, "provider_error", Client),
            Said(said) => row(said.status, "provider_error", Provider),
            UpstreamTimeout { wait, .. } => why(
                row(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", Provider),
                match wait {
                    Wait::Connect => "connect",
                    Wait::FirstByte => "first_byte",
                    Wait::Stall => "stall",
                },
            ),
            Deadline { .. } => why(row(StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", Client), "deadline"),
            Upstream { .. } => again(row(StatusCode::BAD_GATEWAY, "upstream_error", Provider)),
            UpstreamCredentials { .. } => row(StatusCode::BAD_GATEWAY, "upstream_credentials", Provider),
            Encoding { .. } => {
                why(row(StatusCode::BAD_GATEWAY, "upstream_error", Provider), "content_encoding")
            }
            Internal => again(row(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", Gate)),
        }
    }

    /// What to tell the caller, and what it can do about it.
    pub fn message(&self) -> String {
        use Refusal::*;
        match self {
            Malformed { message, .. } => message.clone(),
            NotSpoken { protocol, provider } => format!(
                "the provider '{provider}' does not speak the {protocol} protocol, and this version does not \
                 translate it; ask for a model of a provider that does"
            ),
            Untranslatable { field, message, .. } if message.contains(field.as_str()) => message.clone(),
            Untranslatable { field, message, .. } => format!("{field}: {message}"),
            NoCredentials { provider, translated: true } => format!(
                "the gate has no key for the provider '{provider}' ([providers.{provider}] api_key, or the provider's own \
                 environment variable), and a caller's key is not shown to another vendor than its own"
            ),
            NoCredentials { provider, translated: false } => format!(
                "no credentials for the provider '{provider}': send its API key, or give the gate one \
                 ([providers.{provider}] api_key, or the provider's own environment variable)"
            ),
            Foreign { what, value } => format!(
                "the gate does not answer to the {what} '{value}'; its operator can add it to {}",
                if *what == "Origin" { "cors.origins" } else { "hosts" }
            ),
            ModelUnknown { protocol } => {
                format!("no configured provider takes the {protocol} protocol; add one to the configuration")
            }
            PathUnknown => {
                "no such path; the gate serves /v1/… and /to/PROVIDER/… (is /v1 missing from the base URL?)"
                    .to_owned()
            }
            ProviderUnknown { name } => format!("no provider is named '{name}' in the gate's configuration"),
            NotBuilt => "this path is not served by this version yet".to_owned(),
            NotCached => "only-if-cached was asked for and no kept answer fits".to_owned(),
            Upgrade => "connection upgrades (WebSocket) are not supported yet".to_owned(),
            TooLarge { limit } => {
                format!("the request body is larger than {limit} bytes; raise max_body or send less")
            }
            SlowBody => "the request body stopped arriving; send it again".to_owned(),
            Gone => "the caller left in the middle of its request".to_owned(),
            QueueFull { crowd: Crowd::Gate, .. } => {
                "the gate has as many calls as it may take (gate.max_in_flight); try again later".to_owned()
            }
            QueueFull { crowd: Crowd::Provider, .. } => {
                "too many calls are waiting for this provider; try again later".to_owned()
            }
            QueueTimeout { crowd, waited, .. } => format!(
                "the call waited {} ms for its turn at {}; try again later",
                waited.as_millis(),
                match crowd {
                    Crowd::Gate => "the gate",
                    Crowd::Provider => "this provider",
                }
            ),
            Draining => "the gate is shutting down; send the call again".to_owned(),
            Cut => "the gate shut down before the answer was complete; send the call again".to_owned(),
            UpstreamTimeout { wait, after } => format!(
                "the provider was silent for {:.1} s while the gate waited for the {}",
                after.as_secs_f64(),
                wait.name()
            ),
            Deadline { after } => {
                format!("the deadline of the call was over after {:.1} s", after.as_secs_f64())
            }
            Upstream { cause } => format!("the provider failed: {cause}"),
            UpstreamCredentials { provider } => format!(
                "the provider '{provider}' refused the key that the gate is configured with; its operator must replace it"
            ),
            Encoding { encoding } => format!(
                "the provider answered with content-encoding '{encoding}', which the caller does not accept"
            ),
            Exhausted { cause } => {
                format!("the gate can't open another connection ({cause}); try again later")
            }
            Said(said) => {
                format!("the provider '{}' answered {}", said.provider, said.status)
            }
            Internal => "the gate failed; the call may be sent again".to_owned(),
        }
    }

    /// The code in the body; elsewhere it is that of the row.
    fn code(&self) -> &'static str {
        match self {
            Refusal::Untranslatable { code: Some(code), .. } => code,
            _ => self.row().code,
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Refusal::Malformed { param, .. } => param.as_deref(),
            Refusal::Untranslatable { field, .. } => Some(field),
            _ => None,
        }
    }

    /// Hands the refusal to `render` in the form that the protocol modules take.
    pub fn as_fault<T>(&self, request_id: &str, render: impl FnOnce(&Fault<'_>) -> T) -> T {
        let row = self.row();
        let message = self.message();
        render(&Fault {
            status: row.status.as_u16(),
            code: self.code(),
            message: &message,
            param: self.param(),
            request_id,
        })
    }

    /// Status, headers and body for a caller that expects `shape`.
    pub fn render(&self, shape: Shape, request_id: &str) -> (StatusCode, HeaderMap, Bytes) {
        let row = self.row();
        let ours = || Bytes::from(self.as_fault(request_id, |fault| error_body(shape, fault)));
        if let Refusal::Said(said) = self {
            return (said.status, said.headers.clone(), said.body.clone().unwrap_or_else(ours));
        }
        let body = ours();
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_ERROR, HeaderValue::from_static(row.code));
        if let Some(reason) = row.reason {
            headers.insert(X_REASON, HeaderValue::from_static(reason));
        }
        headers.insert(X_SHOULD_RETRY, HeaderValue::from_static(if row.retry { "true" } else { "false" }));
        if let Some(wait) = row.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        (row.status, headers, body)
    }
}

/// Whole seconds, rounded up, in the range that every SDK obeys.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).clamp(1, 60)
}

impl From<wire::translate::Unfit> for Refusal {
    fn from(unfit: wire::translate::Unfit) -> Refusal {
        Refusal::Untranslatable { field: unfit.field, message: unfit.message, code: unfit.code }
    }
}

impl From<wire::peek::Malformed> for Refusal {
    fn from(bad: wire::peek::Malformed) -> Refusal {
        Refusal::Malformed { message: bad.to_string(), param: bad.field().map(str::to_owned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_in_whole_seconds_that_sdks_obey() {
        assert_eq!(seconds(Duration::ZERO), 1);
        assert_eq!(seconds(Duration::from_millis(1001)), 2);
        assert_eq!(seconds(Duration::from_secs(900)), 60);
    }

    #[test]
    fn a_refusal_is_rendered_in_the_shape_that_asked() {
        let full = Refusal::QueueFull { crowd: Crowd::Provider, retry_after: Duration::from_secs(3) };
        let (status, headers, body) = full.render(Shape::OpenAi, "r1");
        assert_eq!(status, 429);
        assert_eq!(headers["x-sluicegate-error"], "overloaded");
        assert_eq!(headers["x-sluicegate-reason"], "queue_full");
        assert_eq!(headers["x-should-retry"], "true");
        assert_eq!(headers["retry-after"], "3");
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["error"]["code"], "overloaded");

        let (_, _, body) = full.render(Shape::Anthropic, "r1");
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["type"], "error");
        assert_eq!(json["request_id"], "r1");
    }
}
