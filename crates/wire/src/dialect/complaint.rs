//! The provider's own error message, in whatever shape it comes.
//!
//! Errors come as objects, as bare strings, flat or nested, and under several names. What a caller and a log need
//! is the provider's sentence, never a sentence of ours about the shape it had.

use serde::Deserialize;

use super::reading::{Raw, part, text};

/// Every place where an error message has been seen.
#[derive(Deserialize)]
struct Complaint<'a> {
    #[serde(borrow)]
    error: Raw<'a>,
    #[serde(borrow)]
    error_type: Raw<'a>,
    #[serde(borrow)]
    error_message: Raw<'a>,
    #[serde(borrow)]
    message: Raw<'a>,
    #[serde(borrow)]
    code: Raw<'a>,
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    object: Raw<'a>,
    #[serde(borrow)]
    detail: Raw<'a>,
}

/// The message of a JSON object that looks like an error.
pub(crate) fn complaint(object: &[u8]) -> Option<String> {
    let told: Complaint<'_> = serde_json::from_slice(object).ok()?;
    let flat = || {
        let error = [told.kind, told.object].into_iter().any(|kind| text(kind).as_deref() == Some("error"));
        text(told.message).filter(|_| error || told.code.is_some())
    };
    reason(told.error)
        .or_else(|| text(told.error_message))
        .or_else(|| text(told.error_type))
        .or_else(flat)
        .or_else(|| reason(told.detail))
}

/// What the value of an `error` field says: a sentence, an object with a message, or anything else as it stands.
pub(super) fn reason(error: Raw<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        message: Raw<'a>,
    }
    let raw = error?.get();
    match raw.as_bytes() {
        [b'"', ..] => text(error),
        b"{}" | b"[]" => None,
        [b'{', ..] => Some(
            part::<Object<'_>>(error)
                .and_then(|object| text(object.message))
                .unwrap_or_else(|| raw.to_owned()),
        ),
        [b'[', ..] => Some(raw.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_providers_sentence_is_found_in_every_known_shape() {
        for shape in [
            r#"{"error":{"message":"too long","type":"invalid_request_error","code":400}}"#,
            r#"{"error":"too long"}"#,
            r#"{"error_type":"validation_error","error_message":"too long"}"#,
            r#"{"message":"too long","code":"context"}"#,
            r#"{"object":"error","message":"too long","type":"BadRequestError"}"#,
            r#"{"type":"error","message":"too long","sequence_number":3}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}"#,
            r#"{"detail":"too long"}"#,
        ] {
            assert_eq!(complaint(shape.as_bytes()).as_deref(), Some("too long"), "{shape}");
        }
    }

    #[test]
    fn an_error_without_a_sentence_is_told_as_it_stands() {
        assert_eq!(complaint(br#"{"error":{"code":7}}"#).as_deref(), Some(r#"{"code":7}"#));
        assert_eq!(complaint(br#"{"detail":[{"loc":1}]}"#).as_deref(), Some(r#"[{"loc":1}]"#));
    }

    #[test]
    fn healthy_objects_are_no_errors() {
        for healthy in [
            r#"{"error":null,"id":"r"}"#,
            r#"{"error":false}"#,
            r#"{"error":{}}"#,
            r#"{"message":{"role":"assistant"},"code":1}"#,
            r#"{"message":"hello"}"#,
            r#"{"type":"ping"}"#,
            "[]",
            "",
        ] {
            assert_eq!(complaint(healthy.as_bytes()), None, "{healthy}");
        }
    }
}
