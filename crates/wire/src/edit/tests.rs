use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::peek::tests::any_body;

fn whole(mut slices: Slices) -> Vec<u8> {
    let len = slices.len();
    let mut whole = Vec::new();
    while let Some(slice) = slices.pop_front() {
        assert!(!slice.is_empty(), "an empty slice would end a body early");
        whole.extend_from_slice(&slice);
        assert_eq!(slices.len(), len - whole.len());
    }
    assert!(slices.is_empty());
    whole
}

/// What the edits that `ask` makes turn `body` into.
fn edited(body: &[u8], ask: impl FnOnce(&mut Edits, &Peek)) -> Vec<u8> {
    let mut edits = Edits::default();
    ask(&mut edits, &Peek::of(body).unwrap());
    whole(edits.apply(&Bytes::copy_from_slice(body)))
}

fn with_usage(body: &str) -> String {
    String::from_utf8(edited(body.as_bytes(), |edits, peek| assert!(edits.include_usage(peek)))).unwrap()
}

fn parsed(body: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn no_edit_gives_the_body_itself() {
    let body = Bytes::from_static(b"{\"model\":\"a\"}");
    let mut slices = Edits::default().apply(&body);
    let only = slices.pop_front().unwrap();
    assert_eq!((only.as_ptr(), only.len()), (body.as_ptr(), body.len()));
    assert!(slices.pop_front().is_none());
    assert!(Edits::default().is_empty());
    assert!(Edits::default().apply(&Bytes::new()).is_empty());
}

#[test]
fn splices_are_applied_in_order_of_place() {
    let mut edits = Edits::default();
    edits.replace(6..8, "GH");
    edits.insert(3, "-");
    edits.insert(3, "+");
    edits.replace(0..1, "");
    edits.replace(9..10, "jjj");
    assert_eq!(whole(edits.apply(&Bytes::from_static(b"abcdefghij"))), b"bc-+defGHijjj");
}

#[test]
fn kept_bytes_are_not_copied() {
    let body = Bytes::from_static(br#"{"a":1,"model":"x","b":2}"#);
    let peek = Peek::of(&body).unwrap();
    let mut edits = Edits::default();
    edits.model(&peek, "y");
    let mut slices = edits.apply(&body);
    assert_eq!(slices.pop_front().unwrap().as_ptr(), body.as_ptr());
    assert_eq!(slices.pop_front().unwrap(), "\"y\"");
    assert_eq!(slices.pop_front().unwrap().as_ptr(), body[18..].as_ptr());
}

#[test]
fn a_model_is_replaced_or_put_in() {
    let named =
        |body: &str| String::from_utf8(edited(body.as_bytes(), |e, peek| e.model(peek, "n\"é\n"))).unwrap();
    assert_eq!(named(r#"{ "model" : "x" , "a":1}"#), r#"{ "model" : "n\"é\n" , "a":1}"#);
    assert_eq!(named(r#"{"a":1,"mod\u0065l":null}"#), r#"{"a":1,"mod\u0065l":"n\"é\n"}"#);
    assert_eq!(named(r#" { "a":1}"#), r#" {"model":"n\"é\n", "a":1}"#);
    assert_eq!(named("{ }"), r#"{"model":"n\"é\n" }"#);
}

#[test]
fn usage_is_asked_for_in_every_case() {
    for (body, expected) in [
        ("{}", r#"{"stream_options":{"include_usage":true}}"#),
        (r#"{"a":1}"#, r#"{"stream_options":{"include_usage":true},"a":1}"#),
        (r#"{"stream_options": null}"#, r#"{"stream_options": {"include_usage":true}}"#),
        (r#"{"stream_options":{ }}"#, r#"{"stream_options":{"include_usage":true }}"#),
        (r#"{"stream_options":{"b":[]}}"#, r#"{"stream_options":{"include_usage":true,"b":[]}}"#),
        (r#"{"stream_options":{"include_usage":null}}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (
            r#"{"stream_options":{"b":1,"include_usage":false}}"#,
            r#"{"stream_options":{"b":1,"include_usage":true}}"#,
        ),
    ] {
        assert_eq!(with_usage(body), expected);
    }
}

#[test]
fn usage_that_is_asked_for_needs_no_edit() {
    let peek = Peek::of(br#"{"stream_options":{"include_usage":true}}"#).unwrap();
    let mut edits = Edits::default();
    assert!(!edits.include_usage(&peek));
    assert!(edits.is_empty());
}

#[test]
fn members_put_into_an_empty_object_are_parted_by_a_comma() {
    for body in ["{}", "{ \n}"] {
        let both = edited(body.as_bytes(), |edits, peek| {
            edits.model(peek, "m");
            edits.include_usage(peek);
        });
        let expected = json!({ "model": "m", "stream_options": { "include_usage": true } });
        assert_eq!(Value::from(parsed(&both)), expected);
    }
}

proptest! {
    /// Both edits, in either order, on any body: the new values are read back,
    /// nothing else changed, and what is left out of the splices is the body.
    #[test]
    fn edits_change_what_they_say_and_nothing_else(
        (mut expected, text) in any_body(),
        name in any::<String>(),
        usage_first in any::<bool>(),
    ) {
        let body = Bytes::from(text);
        let peek = Peek::of(&body).unwrap();
        let mut edits = Edits::default();
        if usage_first {
            edits.include_usage(&peek);
            edits.model(&peek, &name);
        } else {
            edits.model(&peek, &name);
            edits.include_usage(&peek);
        }
        let new = whole(edits.apply(&body));

        let again = Peek::of(&new).unwrap();
        prop_assert_eq!(&*again.model.as_ref().unwrap().value, name.as_str());
        prop_assert!(!Edits::default().include_usage(&again), "asked for already");

        expected.insert("model".into(), name.into());
        let options = expected.entry("stream_options").or_insert(Value::Null);
        if options.is_null() {
            *options = json!({});
        }
        options["include_usage"] = true.into();
        prop_assert_eq!(parsed(&new), expected);

        assert_untouched(&body, &new, &edits)?;
    }
}

/// Takes the splices out of the new body, puts the old bytes back, and compares.
fn assert_untouched(body: &[u8], new: &[u8], edits: &Edits) -> Result<(), TestCaseError> {
    let mut restored = Vec::new();
    let (mut old, mut at) = (0, 0);
    for (range, bytes) in &edits.0 {
        let kept = range.start - old;
        restored.extend_from_slice(&new[at..at + kept]);
        restored.extend_from_slice(&body[range.clone()]);
        at += kept + bytes.len();
        old = range.end;
    }
    restored.extend_from_slice(&new[at..]);
    prop_assert_eq!(restored, body);
    Ok(())
}

#[test]
fn a_body_is_taken_from_the_front_in_steps_of_any_size() {
    let body = Bytes::from_static(b"abcdef");
    let mut edits = Edits::default();
    edits.replace(2..4, "xyz");
    let all = b"head: abxyzef";
    for step in 1..=all.len() {
        let mut slices = edits.apply(&body);
        slices.push_front(Bytes::from_static(b"head: "));
        let mut taken = Vec::new();
        while !slices.is_empty() {
            let left: Vec<u8> = slices.iter().flatten().copied().collect();
            assert_eq!(left.len(), slices.len());
            let step = step.min(left.len());
            taken.extend_from_slice(&left[..step]);
            slices.advance(step);
        }
        assert_eq!(taken, all, "by {step}");
    }
}

#[test]
#[should_panic(expected = "that many bytes")]
fn no_more_is_taken_than_is_there() {
    Edits::default().apply(&Bytes::from_static(b"ab")).advance(3);
}
