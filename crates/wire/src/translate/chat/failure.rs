//! Errors, as providers of this protocol tell them and as its clients read them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::plain_text;
use crate::dialect::complaint;
use crate::dialect::{Fault, Shape, error_body};
use crate::dialect::{Raw, part};
use crate::translate::canon::{Failure, Text};

/// So much is kept of an error that is no JSON, such as a proxy's page.
const LONGEST: usize = 500;

/// What an error says beside its sentence, on its top level or one below.
#[derive(Default, Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    error: Raw<'a>,
    #[serde(borrow)]
    code: Raw<'a>,
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    error_type: Raw<'a>,
    #[serde(borrow)]
    param: Raw<'a>,
}

impl<'a> Told<'a> {
    fn read(body: &'a [u8]) -> Told<'a> {
        let outer: Told<'a> = serde_json::from_slice(body).unwrap_or_default();
        part(outer.error).unwrap_or(outer)
    }

    /// The provider's word for what happened: its code, where that is a word, else its type.
    fn word(&self) -> Option<Text<'a>> {
        let words = [self.code, self.kind, self.error_type].into_iter().flatten();
        words.filter_map(plain_text).find(|word| !word.is_empty() && word != "error")
    }

    /// The status that some hosts write into the code.
    fn status(&self) -> Option<u16> {
        let digits = self.code?.get().trim_matches('"');
        digits.parse().ok().filter(|status| (400..600).contains(status))
    }
}

/// Reads an error that came with its own status.
pub(super) fn read(status: u16, body: &[u8]) -> Failure<'_> {
    let told = Told::read(body);
    Failure {
        status,
        code: told.word(),
        message: sentence(status, body).into(),
        param: told.param.and_then(plain_text),
    }
}

/// Reads an error that came where an answer should have been, and has no status of its own.
pub(super) fn read_late(body: &[u8]) -> Failure<'_> {
    let told = Told::read(body);
    let status = told.status().or_else(|| told.word().map(|word| status_of(&word))).unwrap_or(502);
    read(status, body)
}

/// The same of an error that stands somewhere in an answer, without the object around it.
pub(super) fn read_part(error: &RawValue) -> Failure<'static> {
    let body = format!(r#"{{"error":{}}}"#, error.get());
    let Failure { status, code, message, param } = read_late(body.as_bytes());
    let owned = |text: Text<'_>| Text::Owned(text.into_owned());
    Failure { status, code: code.map(owned), message: owned(message), param: param.map(owned) }
}

/// A failure that we find ourselves.
pub(super) fn found(message: &'static str) -> Failure<'static> {
    Failure { status: 502, code: None, message: message.into(), param: None }
}

fn sentence(status: u16, body: &[u8]) -> String {
    complaint(body).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body.trim_ascii());
        match &text[..text.floor_char_boundary(LONGEST)] {
            "" => format!("The provider answered with status {status} and no word of why."),
            text => text.to_owned(),
        }
    })
}

/// The status that an error of that name has, where it comes with one.
fn status_of(word: &str) -> u16 {
    match word {
        "rate_limit_exceeded" | "rate_limit_error" | "insufficient_quota" | "too_many_requests" => 429,
        "invalid_api_key" | "authentication_error" => 401,
        "permission_error" | "permission_denied" => 403,
        "model_not_found" | "not_found_error" => 404,
        "timeout" | "timeout_error" => 504,
        "server_is_overloaded" | "slow_down" | "overloaded" | "overloaded_error" | "service_unavailable" => {
            503
        }
        "server_error" | "internal_server_error" | "api_error" => 500,
        "context_length_exceeded" | "content_policy_violation" | "content_filter" => 400,
        _ if word.starts_with("invalid_") || word == "BadRequestError" => 400,
        _ => 502,
    }
}

/// Writes an error. Anthropic's status of overload is unknown to clients of this protocol.
pub(super) fn write(failure: &Failure<'_>, request_id: &str) -> (u16, Vec<u8>) {
    let status = match failure.status {
        529 => 503,
        status @ 400..600 => status,
        _ => 502,
    };
    let fault = Fault {
        status,
        code: failure.code.as_deref().unwrap_or("upstream_error"),
        message: &failure.message,
        param: failure.param.as_deref(),
        request_id,
    };
    (status, error_body(Shape::OpenAi, &fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_status_gets_the_one_it_should_have_had() {
        let table: [(&str, u16, Option<&str>); 9] = [
            (r#"{"error":{"message":"m","code":429}}"#, 429, None),
            (r#"{"error":{"message":"m","code":"503","type":"x"}}"#, 503, Some("503")),
            (r#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#, 429, Some("rate_limit_exceeded")),
            (r#"{"error":{"message":"m","type":"server_error","code":null}}"#, 500, Some("server_error")),
            (
                r#"{"error":{"message":"m","type":"invalid_request_error","code":""}}"#,
                400,
                Some("invalid_request_error"),
            ),
            (r#"{"error_type":"overloaded","error_message":"m"}"#, 503, Some("overloaded")),
            (
                r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
                400,
                Some("BadRequestError"),
            ),
            (r#"{"error":"m"}"#, 502, None),
            (r#"{"error":{"message":"m","code":-7}}"#, 502, None),
        ];
        for (body, status, code) in table {
            let failure = read_late(body.as_bytes());
            let read = (failure.status, failure.code.as_deref(), &*failure.message);
            assert_eq!(read, (status, code, "m"), "{body}");
        }
    }

    #[test]
    fn an_error_that_is_no_json_is_told_by_its_first_words() {
        assert_eq!(read(502, b" <html>gone</html>\n").message, "<html>gone</html>");
        assert_eq!(read(500, b"").message, "The provider answered with status 500 and no word of why.");
        assert!(read(500, "€".repeat(1000).as_bytes()).message.len() <= LONGEST);
        assert_eq!(read(500, b"\xff").message, "\u{fffd}");
    }

    #[test]
    fn an_overloaded_provider_is_told_as_unavailable() {
        let failure = Failure {
            status: 529,
            code: Some("overloaded_error".into()),
            message: "Over\"loaded".into(),
            param: None,
        };
        let (status, body) = write(&failure, "r");
        assert_eq!(status, 503);
        let expected = r#"{"error":{"message":"Over\"loaded","type":"server_error","param":null,"code":"overloaded_error"}}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        assert_eq!(write(&Failure { status: 200, ..failure }, "r").0, 502);
    }
}
