use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// The reference: does `serde_json`, skipping values, take the body?
fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

fn peek(body: impl AsRef<[u8]>) -> Peek {
    Peek::of(body.as_ref()).unwrap()
}

fn refusal(body: impl AsRef<[u8]>) -> Malformed {
    Peek::of(body.as_ref()).unwrap_err()
}

/// JSON of any kind, with every sort of string, at most six containers deep.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths: serde_json reads not every fraction back exactly as it wrote it.
        any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        any::<String>().prop_map(Value::from),
        "[ -~\\\\\"\n\t\u{1}é水🦀]{0,80}".prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{0,12}", any::<String>(), Just("model".into()), Just("include_usage".into())]
}

/// A member that is read, with a value of the right type or `null`.
fn read_field() -> impl Strategy<Value = (String, Value)> {
    let options = prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        any_json().prop_map(|other| json!({ "other": other })),
        any::<Option<bool>>().prop_map(|usage| json!({ "a": [1], "include_usage": usage })),
    ];
    prop_oneof![
        any::<Option<String>>().prop_map(|model| ("model".into(), model.into())),
        any::<Option<bool>>().prop_map(|stream| ("stream".into(), stream.into())),
        options.prop_map(|options| ("stream_options".into(), options)),
        ("max_(completion_|output_)?tokens", any::<Option<u64>>())
            .prop_map(|(name, limit)| (name, limit.into())),
    ]
}

/// A body: fields that are read among fields that are not, compact or spread out.
pub(crate) fn any_body() -> impl Strategy<Value = (Map<String, Value>, Vec<u8>)> {
    // The prefix keeps it from being one that is read.
    let other = ("x[a-z]{0,12}", any_json());
    let member = prop_oneof![other, read_field()];
    (prop::collection::vec(member, 0..8), any::<bool>()).prop_map(|(members, compact)| {
        let body: Map<String, Value> = members.into_iter().collect();
        let text = if compact { serde_json::to_vec(&body) } else { serde_json::to_vec_pretty(&body) };
        (body, text.unwrap())
    })
}

proptest! {
    #[test]
    fn reads_what_serde_json_reads((body, text) in any_body()) {
        let peek = peek(&text);
        let get = |name: &str| body.get(name).filter(|value| !value.is_null());

        prop_assert_eq!(peek.empty, body.is_empty());
        prop_assert_eq!(text[peek.object_start - 1], b'{');
        prop_assert_eq!(peek.model.as_ref().map(|model| &*model.value), get("model").and_then(Value::as_str));
        prop_assert_eq!(peek.stream.as_ref().map(|flag| flag.value), get("stream").and_then(Value::as_bool));
        let limits = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
        let limit = limits.into_iter().find_map(get).and_then(Value::as_u64);
        prop_assert_eq!(peek.output_limit.as_ref().map(|limit| limit.value), limit);

        let options = peek.stream_options.as_ref();
        prop_assert_eq!(options.is_some(), body.contains_key("stream_options"));
        let usage = body.get("stream_options").and_then(|options| options.get("include_usage"));
        let read = options.and_then(|options| options.include_usage.as_ref());
        prop_assert_eq!(read.map(|(_, value)| *value), usage.map(Value::as_bool));

        for (span, value) in [
            (peek.model.as_ref().map(|at| &at.span), get("model")),
            (peek.stream.as_ref().map(|at| &at.span), get("stream")),
            (options.map(|at| &at.span), body.get("stream_options")),
            (read.map(|(span, _)| span), usage),
        ] {
            let there = span.map(|span| serde_json::from_slice::<Value>(&text[span.clone()]).unwrap());
            prop_assert_eq!(there.as_ref(), value);
        }
    }

    #[test]
    fn every_json_value_passes_where_nobody_reads_it(value in any_json()) {
        let text = format!("{{ \"a\":{value} ,\"a\":{value:#}}}");
        prop_assert!(Peek::of(text.as_bytes()).is_ok(), "{}", text);
        let bare = value.to_string();
        match value {
            Value::Object(_) => {}
            _ => prop_assert_eq!(refusal(bare), Malformed::NotAnObject),
        }
    }

    /// Whatever happens to the bytes of a body, the verdict is `serde_json`'s,
    /// but for the rules on fields that are read.
    #[test]
    fn judges_damaged_bodies_as_serde_json_does(
        (_, mut text) in any_body(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..4),
    ) {
        for (place, damage) in damage {
            let place = place.index(text.len().max(1)).min(text.len());
            match damage {
                Damage::Insert(bytes) => drop(text.splice(place..place, bytes)),
                Damage::Remove => drop(text.splice(place..(place + 1).min(text.len()), [])),
                Damage::Replace(byte) => drop(text.splice(place..(place + 1).min(text.len()), [byte])),
            }
        }
        assert_same_verdict(&text)?;
    }

    #[test]
    fn judges_noise_as_serde_json_does(noise in r#"\{"a":[-+0-9.eE\[\]{}:,"\\ubfnrtaleus \n\t]{0,24}\}"#) {
        assert_same_verdict(noise.as_bytes())?;
    }

    /// The search in blocks and words finds a special byte at every place.
    #[test]
    fn finds_the_end_of_a_string_wherever_it_is(before in 0usize..100, after in 0usize..100, byte in any::<u8>()) {
        let mut text = b"{\"a\":\"".to_vec();
        text.extend(std::iter::repeat_n(b'x', before));
        text.push(byte);
        text.extend(std::iter::repeat_n(b'y', after));
        text.extend(b"\"}");
        assert_same_verdict(&text)?;
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Insert(Vec<u8>),
    Remove,
    Replace(u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let telling = prop::sample::select(&br#"{}[]",:\tfn-0.eu"#[..]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..4).prop_map(Damage::Insert),
        r#"\\u[dD][89c-fC-F][0-9a-f]{2}|\\[a-z]|[{}\[\]",:]"#
            .prop_map(|text| Damage::Insert(text.into_bytes())),
        Just(Damage::Remove),
        any::<u8>().prop_map(Damage::Replace),
        telling.prop_map(Damage::Replace),
    ]
}

fn assert_same_verdict(text: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(text);
    match Peek::of(text) {
        Ok(_) => prop_assert!(is_json(text), "let through {:?}", shown),
        Err(Malformed::Duplicate { .. } | Malformed::WrongType { .. }) => {}
        Err(Malformed::NotAnObject) => prop_assert!(!shown.trim_start().starts_with('{'), "{:?}", shown),
        Err(why) => prop_assert!(!is_json(text), "refused {:?}: {}", shown, why),
    }
    Ok(())
}

#[test]
fn every_truncation_is_refused() {
    let body = r#" {"model":"m\u00e9","stream":true,"n":-1.5e+3,"a":[1,{"b":null}],"stream_options":{"include_usage":false}}"#;
    peek(body);
    for end in 0..body.len() {
        refusal(&body[..end]);
    }
}

#[test]
fn nesting_is_bounded_at_128() {
    let nest = |open: &str, close: &str, levels: usize| {
        format!("{{\"a\":{}{}}}", open.repeat(levels), close.repeat(levels))
    };
    peek(nest("[", "]", 127));
    assert_eq!(refusal(nest("[", "]", 128)), Malformed::TooDeep);
    peek(nest("{\"a\":", "}", 126).replace(":}", ":1}"));
    assert_eq!(refusal(nest("{\"a\":", "}", 128).replace(":}", ":1}")), Malformed::TooDeep);

    let options =
        |levels| format!("{{\"stream_options\":{{\"a\":{}{}}}}}", "[".repeat(levels), "]".repeat(levels));
    peek(options(126));
    assert_eq!(refusal(options(127)), Malformed::TooDeep);
}

#[test]
fn a_bomb_of_brackets_needs_no_stack() {
    for bomb in ["[", "{\"a\":", "[{\"a\":"] {
        let body = format!("{{\"a\":{}", bomb.repeat(100_000));
        let small = std::thread::Builder::new().stack_size(64 * 1024);
        let verdict = small.spawn(move || refusal(body)).unwrap().join().unwrap();
        assert_eq!(verdict, Malformed::TooDeep);
    }
}

#[test]
fn only_the_top_level_counts() {
    let peek = peek(r#"{"a":{"model":1,"stream":"x"},"messages":[{"model":[],"model":2}]}"#);
    assert_eq!((peek.model, peek.stream), (None, None));
}

#[test]
fn keys_are_read_however_they_are_spelled() {
    let body = r#"{"mod\u0065l":"a","\u0073tream":true}"#;
    assert_eq!(peek(body).model, Some(Text { span: 14..17, value: "a".into() }));
    assert!(peek(body).streams());
    assert_eq!(refusal(r#"{"model":"a","mod\u0065l":"b"}"#).field(), Some("model"));
    assert_eq!(peek(r#"{"Model":"a","model ":"b","\ud800model":"c"}"#).model, None);
}

#[test]
fn fields_that_are_read_may_come_once() {
    for (body, field) in [
        (r#"{"model":"a","model":"a"}"#, "model"),
        (r#"{"model":null,"model":"a"}"#, "model"),
        (r#"{"stream":true,"a":1,"stream":true}"#, "stream"),
        (r#"{"stream_options":{},"stream_options":{}}"#, "stream_options"),
        (r#"{"max_tokens":1,"max_tokens":2}"#, "max_tokens"),
        (r#"{"stream_options":{"include_usage":null,"include_usage":true}}"#, "stream_options.include_usage"),
    ] {
        let refusal = refusal(body);
        assert!(matches!(refusal, Malformed::Duplicate { .. }), "{body}");
        assert_eq!(refusal.field(), Some(field));
    }
    peek(r#"{"temperature":1,"temperature":2,"stream_options":{"a":1,"a":2}}"#);
}

#[test]
fn wrong_types_are_refused_by_name() {
    for (body, field) in [
        (r#"{"model":1}"#, "model"),
        (r#"{"model":["a"]}"#, "model"),
        (r#"{"model":"\ud800"}"#, "model"),
        (r#"{"stream":"true"}"#, "stream"),
        (r#"{"stream":0}"#, "stream"),
        (r#"{"stream_options":true}"#, "stream_options"),
        (r#"{"stream_options":[]}"#, "stream_options"),
        (r#"{"stream_options":{"include_usage":1}}"#, "stream_options.include_usage"),
        (r#"{"max_completion_tokens":"5"}"#, "max_completion_tokens"),
        (r#"{"max_tokens":{}}"#, "max_tokens"),
        (r#"{"max_output_tokens":true}"#, "max_output_tokens"),
    ] {
        let refusal = refusal(body);
        assert!(matches!(refusal, Malformed::WrongType { .. }), "{body}: {refusal}");
        assert_eq!(refusal.field(), Some(field), "{body}");
    }
}

#[test]
fn the_newest_name_of_the_output_limit_wins() {
    let limit = |body: &str| peek(body).output_limit.map(|limit| (limit.value, body[limit.span].to_owned()));
    assert_eq!(limit(r#"{"max_tokens":7,"max_completion_tokens": 5 }"#), Some((5, "5".into())));
    assert_eq!(limit(r#"{"max_output_tokens":9,"max_tokens":7}"#), Some((7, "7".into())));
    assert_eq!(limit(r#"{"max_completion_tokens":null,"max_output_tokens":9}"#), Some((9, "9".into())));
    assert_eq!(limit(r#"{"max_tokens":-1}"#), Some((u64::MAX, "-1".into())));
    assert_eq!(limit(r#"{"max_tokens":1e3}"#), Some((1000, "1e3".into())));
    assert_eq!(limit(r#"{"max_tokens":99.9}"#), Some((99, "99.9".into())));
    assert_eq!(limit(r#"{"max_tokens":1e999}"#), Some((u64::MAX, "1e999".into())));
    assert_eq!(
        limit(r#"{"max_tokens":99999999999999999999}"#),
        Some((u64::MAX, "99999999999999999999".into()))
    );
}

#[test]
fn what_is_no_object_is_told_apart() {
    assert_eq!(refusal(""), Malformed::Empty);
    assert_eq!(refusal(" \r\n"), Malformed::Empty);
    for body in ["[]", "\"a\"", "1", "-1", "true", "null"] {
        assert_eq!(refusal(body), Malformed::NotAnObject);
    }
    assert_eq!(refusal("\u{feff}{}"), Malformed::Syntax { at: 0 });
    assert_eq!(refusal("{} x"), Malformed::Syntax { at: 3 });
    assert_eq!(refusal("{}{}"), Malformed::Syntax { at: 2 });
    assert_eq!(refusal("{\"a\":tru}"), Malformed::Syntax { at: 8 });
}

#[test]
fn strings_have_to_be_utf8_and_free_of_control_characters() {
    assert_eq!(refusal(b"{\"a\":\"abc\xff\"}"), Malformed::NotUtf8 { at: 9 });
    assert_eq!(refusal(b"{\"\xc3\":1}"), Malformed::NotUtf8 { at: 2 });
    assert_eq!(refusal(b"{\"model\":\"\xed\xa0\x80\"}"), Malformed::NotUtf8 { at: 10 });
    assert_eq!(refusal(b"{\"a\":\"x\ny\"}"), Malformed::Syntax { at: 7 });
    assert_eq!(refusal(b"{\"a\":\xc3\xa9}"), Malformed::Syntax { at: 5 });
    peek("{\"a\":\"é水🦀 \u{7f}\"}");
}

#[test]
fn a_refusal_says_what_to_do() {
    assert_eq!(
        refusal("{\"a\"").to_string(),
        "the body is not valid JSON: it goes wrong at byte 4; check it there, and that it was sent whole"
    );
    assert_eq!(
        refusal("{\"stream\":1}").to_string(),
        "the field stream has the wrong type; send true or false, or leave it out"
    );
    assert_eq!(refusal("[]").to_string().matches("{ and }").count(), 1);
}
