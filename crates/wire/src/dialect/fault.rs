//! What the gate itself has to say when a call fails, in the shape that the client's SDK reads.

use serde::Serialize;

/// The shape of errors, which the protocols of one vendor share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{"error": {"message", "type", "param", "code"}}`
    OpenAi,
    /// `{"type": "error", "error": {"type", "message"}, "request_id"}`
    Anthropic,
}

/// A failure that the gate reports.
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    /// The HTTP status that goes with it; in a stream it only picks the type.
    pub status: u16,
    /// Our stable code.
    pub code: &'a str,
    /// What happened and what can be done.
    pub message: &'a str,
    /// The field of the request that is to blame.
    pub param: Option<&'a str>,
    /// The call's id.
    pub request_id: &'a str,
}

/// The code of a budget that is used up; both vendors have a type of their own for it.
const BUDGET: &str = "budget_exceeded";

impl Fault<'_> {
    /// OpenAI's name for this kind of error.
    pub(super) fn openai_type(&self) -> &'static str {
        match self.status {
            _ if self.code == BUDGET => "insufficient_quota",
            401 => "authentication_error",
            402 => "insufficient_quota",
            403 => "permission_error",
            404 => "not_found_error",
            408 | 504 => "timeout_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// Anthropic's name for this kind of error.
    pub(crate) fn anthropic_type(&self) -> &'static str {
        match self.status {
            _ if self.code == BUDGET => "billing_error",
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            408 | 504 => "timeout_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }

    /// Anthropic's code. Its SDKs know one: they send the whole conversation again where it can't be kept.
    fn anthropic_code(&self) -> &str {
        match self.param {
            Some("thread") => "thread_unsupported_request",
            _ => self.code,
        }
    }

    pub(super) fn openai(&self) -> OpenAi<'_> {
        OpenAi { message: self.message, kind: self.openai_type(), param: self.param, code: self.code }
    }
}

/// OpenAI's error object.
#[derive(Serialize)]
pub(super) struct OpenAi<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'a str,
}

#[derive(Serialize)]
struct OpenAiBody<'a> {
    error: OpenAi<'a>,
}

#[derive(Serialize)]
struct AnthropicBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: Anthropic<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
    details: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    error_code: &'a str,
}

/// The body of an error answer.
pub fn error_body(shape: Shape, fault: &Fault<'_>) -> Vec<u8> {
    match shape {
        Shape::OpenAi => json(&OpenAiBody { error: fault.openai() }),
        Shape::Anthropic => json(&AnthropicBody {
            kind: "error",
            error: Anthropic {
                kind: fault.anthropic_type(),
                message: fault.message,
                details: Details { error_code: fault.anthropic_code() },
            },
            request_id: fault.request_id,
        }),
    }
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Structs of strings and numbers always serialise; an empty body would still be a valid answer.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(status: u16, code: &str) -> Fault<'_> {
        Fault { status, code, message: "say \"it\"\nplainly", param: Some("model"), request_id: "r-1" }
    }

    #[test]
    fn openai_clients_find_message_type_param_and_code() {
        let body = error_body(Shape::OpenAi, &fault(400, "invalid_request"));
        let expected = r#"{"error":{"message":"say \"it\"\nplainly","type":"invalid_request_error","param":"model","code":"invalid_request"}}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn anthropic_clients_find_type_message_code_and_request_id() {
        let body = error_body(Shape::Anthropic, &fault(413, "request_too_large"));
        let expected = r#"{"type":"error","error":{"type":"request_too_large","message":"say \"it\"\nplainly","details":{"error_code":"request_too_large"}},"request_id":"r-1"}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn a_conversation_that_can_not_be_kept_is_told_by_the_code_that_anthropics_sdks_know() {
        let fault = Fault { param: Some("thread"), ..fault(400, "invalid_request") };
        let body = String::from_utf8(error_body(Shape::Anthropic, &fault)).unwrap();
        assert!(body.contains(r#""details":{"error_code":"thread_unsupported_request"}"#), "{body}");
        let body = String::from_utf8(error_body(Shape::OpenAi, &fault)).unwrap();
        assert!(body.contains(r#""code":"invalid_request""#), "{body}");
    }

    #[test]
    fn every_status_has_the_vendors_own_type() {
        let table = [
            (400, "x", "invalid_request_error", "invalid_request_error"),
            (401, "x", "authentication_error", "authentication_error"),
            (402, "budget_exceeded", "insufficient_quota", "billing_error"),
            (429, "budget_exceeded", "insufficient_quota", "billing_error"),
            (403, "x", "permission_error", "permission_error"),
            (404, "x", "not_found_error", "not_found_error"),
            (408, "x", "timeout_error", "timeout_error"),
            (413, "x", "invalid_request_error", "request_too_large"),
            (429, "x", "rate_limit_error", "rate_limit_error"),
            (500, "x", "server_error", "api_error"),
            (502, "x", "server_error", "api_error"),
            (503, "x", "server_error", "overloaded_error"),
            (504, "x", "timeout_error", "timeout_error"),
            (529, "x", "server_error", "overloaded_error"),
        ];
        for (status, code, openai, anthropic) in table {
            assert_eq!(fault(status, code).openai_type(), openai, "{status}");
            assert_eq!(fault(status, code).anthropic_type(), anthropic, "{status}");
        }
    }
}
