//! Streams folded into plain answers, and plain answers unfolded into streams.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod chat;
mod clients;
mod faults;
mod golden;
mod messages;
mod responses;
mod round;

use serde_json::Value;
use wire::dialect::{DIALECTS, Dialect};
use wire::fold::{fold, unfold};

/// What a stream amounts to, given at once.
fn folded(dialect: &dyn Dialect, stream: &[u8]) -> Option<Value> {
    fold(dialect, [stream]).map(|body| serde_json::from_slice(&body).unwrap())
}

/// The text of what a stream amounts to.
fn folded_text(dialect: &dyn Dialect, stream: &[u8]) -> String {
    String::from_utf8(fold(dialect, [stream]).unwrap()).unwrap()
}

/// The data of the events of an unfolded answer, and their names.
fn events(dialect: &dyn Dialect, answer: &Value, usage: bool) -> Vec<(String, Value)> {
    let events = unfold(dialect, answer.to_string().as_bytes(), usage).unwrap();
    events.iter().filter_map(|event| parsed(std::str::from_utf8(event).unwrap())).collect()
}

fn parsed(event: &str) -> Option<(String, Value)> {
    let event = event.strip_suffix("\n\n").unwrap();
    let (name, data) = match event.strip_prefix("event: ") {
        Some(named) => named.split_once('\n').unwrap(),
        None => ("", event),
    };
    let data = data.strip_prefix("data: ").unwrap();
    assert!(!data.contains(['\n', '\r']), "one line of data");
    (data != "[DONE]").then(|| (name.to_owned(), serde_json::from_str(data).unwrap()))
}

/// Events of one data line each, in the form of the protocols that don't name them.
fn lines<'a>(data: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    data.into_iter().map(|data| format!("data: {data}\n\n")).collect::<String>().into_bytes()
}

#[test]
fn what_is_never_a_stream_has_no_other_form() {
    for &dialect in DIALECTS.iter().filter(|dialect| !dialect.is_generation()) {
        assert_eq!(fold(dialect, [b"data: {}\n\n"]), None, "{}", dialect.name());
        assert_eq!(unfold(dialect, br#"{"data":[]}"#, true), None, "{}", dialect.name());
    }
}

#[test]
fn nothing_amounts_to_nothing() {
    for &dialect in DIALECTS {
        for stream in ["", "\n\n", ": ping\n\n", "data: [DONE]\n\n", "event: ping\n\n"] {
            assert_eq!(folded(dialect, stream.as_bytes()), None, "{}: {stream:?}", dialect.name());
        }
        for body in ["", "null", "[]", "{}", "oops", r#"{"error":{"message":"no"}}"#] {
            assert_eq!(unfold(dialect, body.as_bytes(), true), None, "{}: {body}", dialect.name());
        }
    }
}
