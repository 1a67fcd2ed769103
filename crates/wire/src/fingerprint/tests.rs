mod reference;
mod table;

use proptest::prelude::*;

use self::reference::{Dice, Json, canonical, parse};
use super::*;
use crate::dialect::{CHAT, COMPLETIONS, DIALECTS, Dialect, EMBEDDINGS, MESSAGES, RESPONSES};
use crate::peek::{Malformed, Peek, tests::any_body};

/// Reads a body in a room that was used before.
fn read(dialect: &dyn Dialect, body: impl AsRef<[u8]>) -> Result<Sharing, Malformed> {
    let rules = dialect.rules().unwrap();
    let mut room = Scratch::default();
    Peek::shared(br#"{"z":"\/","a":[1.0,{"b":1,"a":2}]}"#, rules, &mut room).unwrap();
    Peek::shared(body.as_ref(), rules, &mut room).map(|(_, sharing)| sharing)
}

fn sharing(dialect: &dyn Dialect, body: impl AsRef<[u8]>) -> Sharing {
    read(dialect, body).unwrap()
}

/// What a body that has to be shared means.
#[track_caller]
fn meaning(dialect: &dyn Dialect, body: &str) -> Meaning {
    match sharing(dialect, body) {
        Sharing::Allowed(meaning) => meaning,
        Sharing::Never(why) => panic!("{body} is never shared: {why}"),
    }
}

fn text() -> impl Strategy<Value = Vec<u16>> {
    prop_oneof![
        prop::sample::select(&["content", "cache_control", "input", "a", "*", "", "é/\"\\\n\u{1}🦀"][..])
            .prop_map(|name| name.encode_utf16().collect()),
        prop::collection::vec(prop_oneof![0u16..0x80, 0xd7f0u16..0xe010, any::<u16>()], 0..6),
    ]
}

fn any_tree() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        prop::sample::select(&["null", "true", "false"][..]).prop_map(Json::Word),
        "-?(0|[1-9][0-9]{0,2})(\\.[0-9]{1,2})?([eE][-+]?[0-9])?".prop_map(Json::Number),
        text().prop_map(Json::String),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec((text(), inner), 0..5).prop_map(Json::Object),
        ]
    })
}

/// A body with much of what the rules speak of, and nothing that the peek refuses.
fn any_request() -> impl Strategy<Value = Json> {
    let known = [
        "messages",
        "system",
        "input",
        "metadata",
        "user",
        "cache_control",
        "temperature",
        "x",
        "x",
        "diagnostics",
    ];
    let member = (prop::sample::select(known.to_vec()), any_tree());
    prop::collection::vec(member, 0..6).prop_map(|members| {
        Json::Object(members.into_iter().map(|(key, value)| (key.encode_utf16().collect(), value)).collect())
    })
}

proptest! {
    #[test]
    fn equal_meaning_has_an_equal_key(body in any_request(), seed: u64) {
        let mut dice = Dice(seed);
        let (one, other) = (dice.spell(&body), dice.spell(&body));
        for dialect in [&CHAT as &dyn Dialect, &MESSAGES, &COMPLETIONS] {
            prop_assert_eq!(sharing(dialect, &one), sharing(dialect, &other), "{} {}", one, other);
        }
    }

    #[test]
    fn keys_are_equal_if_and_only_if_the_reference_is(body in any_request(), seed: u64) {
        let mut dice = Dice(seed);
        let mut changed = body.clone();
        dice.change(&mut changed);
        // The body itself stays an object.
        prop_assume!(matches!(changed, Json::Object(_)));
        let (one, other) = (dice.spell(&body), dice.spell(&changed));
        prop_assume!(Peek::of(other.as_bytes()).is_ok());
        for dialect in [&CHAT as &dyn Dialect, &MESSAGES, &EMBEDDINGS] {
            let (Sharing::Allowed(one_is), Sharing::Allowed(other_is)) =
                (sharing(dialect, &one), sharing(dialect, &other))
            else {
                continue;
            };
            let reference = |text: &str| canonical(&parse(text.as_bytes()), dialect.name());
            prop_assert_eq!(
                one_is.digest == other_is.digest,
                reference(&one) == reference(&other),
                "{} {}", one, other
            );
        }
    }

    #[test]
    fn bytes_are_refused_as_the_peek_refuses_them(
        (_, mut body) in any_body(),
        place: prop::sample::Index,
        noise in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let place = place.index(body.len());
        body.splice(place..(place + noise.len()).min(body.len()), noise);
        for dialect in [&CHAT as &dyn Dialect, &RESPONSES] {
            prop_assert_eq!(read(dialect, &body).err(), Peek::of(&body).err());
        }
    }

    #[test]
    fn noise_never_panics(noise in r#"\{"[ab\\ud8e0/]{0,6}":[-+0-9.eE\[\]{}:,"\\ubfnrtaleus \n\t]{0,24}\}"#) {
        prop_assert_eq!(read(&MESSAGES, &noise).err(), Peek::of(noise.as_bytes()).err());
    }
}

#[test]
fn numbers_are_one_if_they_only_differ_in_zeros_after_the_point() {
    let of = |number: &str| meaning(&CHAT, &format!("{{\"x\":[{number}]}}"));
    assert_eq!(of("1"), of("1.0"));
    assert_eq!(of("-0"), of("-0.00"));
    let different = [
        "1",
        "1e0",
        "1E0",
        "1.0e0",
        "10",
        "1.5",
        "1.50",
        "0",
        "-0",
        "0.1",
        "9007199254740993",
        "9007199254740992",
        "\"1\"",
        "1,0",
        "true",
    ];
    for (at, one) in different.iter().enumerate() {
        for other in &different[at + 1..] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }
}

#[test]
fn strings_are_one_however_they_are_spelled() {
    let of = |text: &str| meaning(&CHAT, &format!("{{\"x\":\"{text}\"}}"));
    for (one, other) in [
        ("a", "\\u0061"),
        ("/", "\\/"),
        ("\\n", "\\u000A"),
        ("\\\"", "\\u0022"),
        ("\\\\", "\\u005c"),
        ("\\u001F", "\\u001f"),
        ("🦀", "\\ud83e\\udd80"),
        ("\u{10000}", "\\ud800\\udc00"),
        ("\u{10ffff}", "\\udbff\\udfff"),
        ("\u{7f}", "\\u007f"),
        ("\\uD800", "\\ud800"),
    ] {
        assert_eq!(of(one), of(other), "{one} {other}");
    }
    let different = [
        "",
        "n",
        "\\n",
        "\\\\n",
        "\\\\u0061",
        "a",
        "\\ud800",
        "\\udc00",
        "\\\\ud800",
        "\\udc00\\ud800",
        "�",
        "\\u0000",
    ];
    for (at, one) in different.iter().enumerate() {
        for other in &different[at + 1..] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }
}

#[test]
fn of_two_equal_keys_the_order_counts() {
    let twice = meaning(&CHAT, r#"{"x":1,"a":0,"x":2}"#);
    assert_eq!(twice, meaning(&CHAT, r#"{"a":0,"x":1,"\u0078":2}"#));
    assert_ne!(twice, meaning(&CHAT, r#"{"x":2,"a":0,"x":1}"#));
    assert_ne!(twice, meaning(&CHAT, r#"{"x":2,"a":0}"#));
}

#[test]
fn deep_and_wide_bodies_are_no_burden() {
    let deep =
        format!("{{\"b\":{}{},\"a\":1}}", "{\"b\":0,\"a\":".repeat(126), "1".to_owned() + &"}".repeat(126));
    meaning(&CHAT, &deep);
    let wide = format!("{{\"x\":[{}{{}}]}}", "{\"b\":0,\"a\":1},".repeat(super::form::PIECES / 3));
    assert_eq!(sharing(&CHAT, &wide), Sharing::Never("the body's size"));
}

#[test]
fn what_generates_or_embeds_is_shared_and_nothing_else() {
    let names = ["chat", "completions", "embeddings", "responses", "messages"];
    for dialect in DIALECTS {
        assert_eq!(dialect.rules().is_some(), names.contains(&dialect.name()), "{}", dialect.name());
    }
}

fn parts<'a>(headers: &'a HeaderMap) -> Parts<'a> {
    Parts { dialect: "chat", crossing: None, model: "m", account: b"a", scope: b"s", headers, query: None }
}

#[test]
fn every_part_counts_and_none_poses_as_another() {
    let none = HeaderMap::new();
    let body = meaning(&CHAT, "{}");
    let plain = parts(&none);
    let mut all = vec![
        Fingerprint::of(&plain, &body),
        Fingerprint::of(&plain, &meaning(&CHAT, r#"{"x":1}"#)),
        Fingerprint::of(&Parts { dialect: "completions", ..plain }, &body),
        Fingerprint::of(&Parts { crossing: Some(["/messages", "1"]), ..plain }, &body),
        Fingerprint::of(&Parts { crossing: Some(["/messages", "2"]), ..plain }, &body),
        Fingerprint::of(&Parts { model: "n", ..plain }, &body),
        Fingerprint::of(&Parts { model: "ma", account: b"", ..plain }, &body),
        Fingerprint::of(&Parts { account: b"as", scope: b"", ..plain }, &body),
        Fingerprint::of(&Parts { scope: b"t", ..plain }, &body),
        Fingerprint::of(&Parts { query: Some(""), ..plain }, &body),
        Fingerprint::of(&Parts { query: Some("api-version=1"), ..plain }, &body),
    ];
    for name in
        ["anthropic-version", "anthropic-beta", "openai-organization", "openai-project", "openai-beta"]
    {
        for value in ["1", "2"] {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
            all.push(Fingerprint::of(&parts(&headers), &body));
        }
    }
    let different: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn features_are_a_set_and_other_headers_do_not_count() {
    let of = |lines: &[&str]| {
        let mut headers = HeaderMap::new();
        headers.insert("user-agent", lines.concat().parse().unwrap());
        for line in lines {
            headers.append("anthropic-beta", line.parse().unwrap());
        }
        Fingerprint::of(&parts(&headers), &meaning(&CHAT, "{}"))
    };
    assert_eq!(of(&["a,b"]), of(&["b", " a ,, a"]));
    assert_eq!(of(&[]), of(&[""]));
    assert_ne!(of(&["a,b"]), of(&["a"]));
    assert_ne!(of(&["a,b"]), of(&["ab"]));
}
