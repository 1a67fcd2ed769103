//! A body is let through exactly if it is a JSON object, and splicing changes
//! nothing but what it says.

#![no_main]

use std::ops::Range;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use wire::edit::Edits;
use wire::peek::{Malformed, Peek};

const NAME: &str = "a \"name\" \\ é\n";

fuzz_target!(|body: &[u8]| {
    let json = is_json(body);
    match Peek::of(body) {
        Ok(peek) => {
            assert!(json, "let through what is no JSON");
            name_a_model(body, &peek);
            ask_for_usage(body, &peek);
        }
        Err(Malformed::Empty | Malformed::Syntax { .. } | Malformed::NotUtf8 { .. }) => {
            assert!(!json, "refused JSON")
        }
        // Rules of the gate's own, on what may well be JSON.
        Err(why) => assert!(!why.to_string().is_empty()),
    }
});

fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

fn name_a_model(body: &[u8], peek: &Peek) {
    let mut edits = Edits::default();
    edits.model(peek, NAME);
    let new = apply(&edits, body);
    if let Some(model) = &peek.model {
        assert_kept(body, &new, &model.span);
    }
    let again = Peek::of(&new).expect("an edited body is a body");
    assert_eq!(again.model.expect("it was put in").value.as_ref(), NAME);
    assert_differs_by(body, &new, |body| body["model"] = NAME.into());
}

fn ask_for_usage(body: &[u8], peek: &Peek) {
    let mut edits = Edits::default();
    let changed = edits.include_usage(peek);
    assert_eq!(changed, !edits.is_empty());
    let new = apply(&edits, body);
    let options = peek.stream_options.as_ref();
    let whole = options.map_or(peek.object_start..peek.object_start, |options| options.span.clone());
    assert_kept(body, &new, &whole);
    let again = Peek::of(&new).expect("an edited body is a body");
    assert!(!Edits::default().include_usage(&again), "it was asked for");
    assert_differs_by(body, &new, |body| {
        if body["stream_options"].is_null() {
            body["stream_options"] = json!({});
        }
        body["stream_options"]["include_usage"] = true.into();
    });
}

fn apply(edits: &Edits, body: &[u8]) -> Vec<u8> {
    let mut slices = edits.apply(&Bytes::copy_from_slice(body));
    let mut whole = Vec::with_capacity(slices.len());
    while let Some(slice) = slices.pop_front() {
        whole.extend_from_slice(&slice);
    }
    whole
}

/// All before and after the place of the edit is there as it was.
fn assert_kept(body: &[u8], new: &[u8], place: &Range<usize>) {
    assert!(new.starts_with(&body[..place.start]));
    assert!(new.ends_with(&body[place.end..]));
}

/// The new body says what the old one said, save for the change. Numbers beyond
/// every float and lone surrogates are JSON that `serde_json` cannot hold.
fn assert_differs_by(body: &[u8], new: &[u8], change: impl FnOnce(&mut Value)) {
    let Ok(mut expected) = serde_json::from_slice::<Value>(body) else { return };
    change(&mut expected);
    let new: Value = serde_json::from_slice(new).expect("an edited body is JSON");
    assert_eq!(new, expected);
}
