use std::collections::hash_map::DefaultHasher;

use proptest::prelude::*;

use super::*;
use crate::provider::kind;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// What goes up to a provider of this kind, as `header: value`; empty where there is no credential.
fn sent(pairs: &[(&'static str, &str)], query: Option<&str>, name: &str) -> String {
    let mut headers = headers(pairs);
    let (client, _) = take_credentials(&mut headers, query);
    assert!(headers.is_empty(), "{headers:?}");
    let Some(client) = client else { return String::new() };
    let kind = kind(name).unwrap();
    kind.seal(&mut headers, &client.for_provider(kind));
    let lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    assert!(headers.values().all(HeaderValue::is_sensitive));
    lines.join("; ")
}

#[test]
fn every_form_reaches_every_kind() {
    for (header, query, to_openai, to_anthropic) in [
        (Some(("authorization", "Bearer k")), None, "authorization: Bearer k", "authorization: Bearer k"),
        (Some(("authorization", "bEARER  k")), None, "authorization: bEARER  k", "authorization: bEARER  k"),
        (Some(("x-api-key", "k")), None, "authorization: Bearer k", "x-api-key: k"),
        (Some(("api-key", "k")), None, "authorization: Bearer k", "x-api-key: k"),
        (Some(("x-goog-api-key", "k")), None, "authorization: Bearer k", "x-api-key: k"),
        (None, Some("key=k"), "authorization: Bearer k", "x-api-key: k"),
        (None, Some("a=1&key=a%2Fb%3D"), "authorization: Bearer a/b=", "x-api-key: a/b="),
        (
            Some(("authorization", "Basic dTpw")),
            None,
            "authorization: Basic dTpw",
            "authorization: Basic dTpw",
        ),
        (Some(("authorization", "BearerX k")), None, "authorization: BearerX k", "authorization: BearerX k"),
        (Some(("authorization", "Bearer")), None, "", ""),
        (Some(("authorization", "Bearer ")), None, "", ""),
        (Some(("x-api-key", "")), None, "", ""),
        (None, Some("key="), "", ""),
        (None, Some("key=%00"), "", ""),
        (None, None, "", ""),
    ] {
        let header: Vec<_> = header.into_iter().collect();
        assert_eq!(sent(&header, query, "openai"), to_openai, "{header:?} {query:?}");
        assert_eq!(sent(&header, query, "anthropic"), to_anthropic, "{header:?} {query:?}");
    }
}

#[test]
fn of_several_one_counts_and_none_stays() {
    let all = [
        ("x-api-key", "1"),
        ("authorization", "Bearer 2"),
        ("authorization", "Bearer 2b"),
        ("api-key", "3"),
        ("x-goog-api-key", "4"),
    ];
    for (from, expected) in
        [(0, "Bearer 1"), (1, "Bearer 2"), (3, "Bearer 3"), (4, "Bearer 4"), (5, "Bearer 5")]
    {
        let expected = format!("authorization: {expected}");
        assert_eq!(sent(&all[from..], Some("key=5&key=6"), "groq"), expected);
    }
    let empty = [("x-api-key", ""), ("authorization", "Bearer "), ("api-key", "3")];
    assert_eq!(sent(&empty, None, "groq"), "authorization: Bearer 3", "an empty one does not count");
}

#[test]
fn the_query_loses_its_key_and_nothing_else() {
    for (query, rest) in [
        (None, None),
        (Some("beta=true"), Some("beta=true")),
        (Some("key=k"), None),
        (Some("a=1&key=k&b=%20+"), Some("a=1&b=%20+")),
        (Some("key=k&&a"), Some("&a")),
        (Some("&a=1&key=k"), Some("&a=1")),
        (Some("%6Bey=k&a=1"), Some("a=1")),
        (Some("a=1&key"), Some("a=1")),
        (Some("keys=1&Key=2&my_key=3"), Some("keys=1&Key=2&my_key=3")),
        (Some(""), None),
    ] {
        assert_eq!(take_credentials(&mut HeaderMap::new(), query).1.as_deref(), rest, "{query:?}");
    }
}

#[test]
fn other_headers_stay() {
    let mut kept = headers(&[("anthropic-beta", "a"), ("anthropic-beta", "b"), ("x-api-key", "k")]);
    take_credentials(&mut kept, None);
    assert_eq!(kept, headers(&[("anthropic-beta", "a"), ("anthropic-beta", "b")]));
}

#[test]
fn a_configured_key_goes_where_its_provider_looks() {
    for (name, header, value) in [
        ("openai", "authorization", "Bearer s3cret"),
        ("gemini", "authorization", "Bearer s3cret"),
        ("anthropic", "x-api-key", "s3cret"),
    ] {
        let kind = kind(name).unwrap();
        let mut headers = HeaderMap::new();
        kind.seal(&mut headers, &Credential::key(kind, " s3cret\n").unwrap());
        assert_eq!(headers[header], value, "{name}");
        assert!(headers[header].is_sensitive() && headers.len() == 1, "{name}");
        assert!(!format!("{headers:?}").contains("s3cret"), "{name}");
    }
    for key in ["", "  ", "a\nb", "a\u{0}"] {
        assert!(Credential::key(kind("openai").unwrap(), key).is_none(), "{key:?}");
    }
}

#[test]
fn one_secret_is_one_caller_in_whatever_form() {
    let hash = |pairs: &[(&'static str, &str)], query| {
        let mut hasher = DefaultHasher::new();
        take_credentials(&mut headers(pairs), query).0.unwrap().hash(&mut hasher);
        hasher.finish()
    };
    let one = hash(&[("authorization", "Bearer k")], None);
    assert_eq!(one, hash(&[("authorization", "bearer  k")], None));
    assert_eq!(one, hash(&[("x-api-key", "k")], None));
    assert_eq!(one, hash(&[], Some("key=k")));
    assert_ne!(one, hash(&[("x-api-key", "other")], None));
    assert_ne!(one, hash(&[("authorization", "Basic k")], None));
}

const NAMES: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

fn brought() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let value = prop::collection::vec(any::<u8>(), 0..12);
    let bearer = value.clone().prop_map(|token| [b"Bearer ", token.as_slice()].concat());
    prop::collection::vec((prop::sample::select(NAMES.to_vec()), prop_oneof![value, bearer]), 0..6)
}

proptest! {
    #[test]
    fn nothing_panics_and_nothing_stays(pairs in brought(), query in prop::option::of("(key|%6bey|a)?[=&]?\\PC{0,8}")) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(name, value);
            }
        }
        let (client, rest) = take_credentials(&mut headers, query.as_deref());
        prop_assert!(headers.is_empty());
        let rest = rest.unwrap_or_default();
        prop_assert!(form_urlencoded::parse(rest.as_bytes()).all(|(name, _)| name != "key"), "{}", rest);
        for kind in crate::provider::KINDS {
            if let Some(client) = &client {
                kind.seal(&mut headers, &client.for_provider(kind));
            }
        }
    }

    #[test]
    fn no_secret_survives(secret in "[A-Za-z0-9_-]{8,40}", at in 0_usize..5, path in "[a-z]{1,5}") {
        let mut headers = headers(&[("user-agent", "test")]);
        let query = format!("a={path}&key={secret}&b=2");
        if let Some(name) = NAMES.get(at) {
            let value = if at == 0 { format!("Bearer {secret}") } else { secret.clone() };
            headers.append(*name, value.parse().unwrap());
            headers.append(*name, format!("{secret}2").parse().unwrap());
        }
        let (client, rest) = take_credentials(&mut headers, Some(&query));
        prop_assert!(client.is_some());
        let rest = rest.unwrap();
        prop_assert_eq!(&rest, &format!("a={path}&b=2"));
        prop_assert!(!rest.contains(&secret));
        let found = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).contains(&secret);
        prop_assert!(!headers.values().any(found));
    }
}
