//! Errors.

use std::borrow::Cow;

use serde::Deserialize;

use super::json::{Raw, part, text};
use crate::dialect::{Fault, Shape, complaint, error_body};
use crate::translate::canon::{Failure, Text};
use crate::translate::json::Object;

/// Anthropic's types of errors, with the status of each.
const TYPES: [(&str, u16); 11] = [
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("conflict_error", 409),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// How much of an error that has no known shape is told.
const LONGEST: usize = 2048;

/// The code of an error whose provider gave it none.
const NAMELESS: &str = "upstream_error";

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    error: Raw<'a>,
}

#[derive(Deserialize)]
struct Error<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    message: Raw<'a>,
}

/// Reads an error, of whatever shape it is.
pub(super) fn read(status: u16, body: &[u8]) -> Failure<'_> {
    let (code, message) = told(body);
    Failure { status, code, message, param: None }
}

/// The error of a stream, or of an answer whose status was good: its type says what the status would have been.
pub(super) fn late(body: &[u8]) -> Failure<'_> {
    let (code, message) = told(body);
    let known = TYPES.iter().find(|(kind, _)| code.as_deref() == Some(kind));
    Failure { status: known.map_or(500, |(_, status)| *status), code, message, param: None }
}

fn told(body: &[u8]) -> (Option<Text<'_>>, Text<'_>) {
    let whole = serde_json::from_slice::<Body<'_>>(body).ok();
    let error = whole.and_then(|whole| part::<Error<'_>>(whole.error));
    let code = error.as_ref().and_then(|error| text(error.kind)).filter(|kind| !kind.is_empty());
    let sentence = error.and_then(|error| text(error.message)).filter(|message| !message.is_empty());
    let message = sentence.or_else(|| complaint(body).map(Cow::Owned)).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body.trim_ascii());
        Cow::Owned(text[..text.floor_char_boundary(LONGEST)].to_owned())
    });
    (code, message)
}

fn fault<'a>(failure: &'a Failure<'_>, request_id: &'a str) -> Fault<'a> {
    Fault {
        status: failure.status,
        code: failure.code.as_deref().unwrap_or(NAMELESS),
        message: &failure.message,
        param: failure.param.as_deref(),
        request_id,
    }
}

/// The status and body of an error. The status stays: of an overload, clients know 503 and 529.
pub(super) fn write(failure: &Failure<'_>, request_id: &str) -> (u16, Vec<u8>) {
    (failure.status, error_body(Shape::Anthropic, &fault(failure, request_id)))
}

/// Writes what an error event says of the error.
pub(super) fn write_late(failure: &Failure<'_>, event: &mut Object<'_>) {
    let mut error = Object::typed(event.key("error"), fault(failure, "").anthropic_type());
    error.text("message", &failure.message);
    error.end();
}
