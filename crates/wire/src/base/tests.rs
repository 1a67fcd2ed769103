use proptest::prelude::*;

use super::*;
use crate::provider::{KINDS, kind};

fn parse(text: &str, name: &str) -> Result<(BaseUrl, Option<String>), BadBase> {
    BaseUrl::parse(text, kind(name).unwrap())
}

/// The target of a chat or messages call, and whether there was a warning.
fn target(text: &str, name: &str) -> (String, bool) {
    let op = if name == "anthropic" { "/messages" } else { "/chat/completions" };
    let (base, warning) = parse(text, name).unwrap_or_else(|error| panic!("{text}: {error}"));
    (base.target(kind(name).unwrap(), op, None), warning.is_some())
}

#[test]
fn k084_bases_are_joined_with_care() {
    for (base, expected, warned) in [
        ("https://h/v1/", "/v1/chat/completions", false),
        ("https://h/v1", "/v1/chat/completions", false),
        ("https://h/v1//", "/v1/chat/completions", false),
        ("https://h", "/v1/chat/completions", false),
        ("https://h/", "/v1/chat/completions", false),
        (" HTTPS://H/v1 ", "/v1/chat/completions", false),
        ("https://h/v1/v1", "/v1/chat/completions", true),
        ("https://h/v1/v1/v1/", "/v1/chat/completions", true),
        ("https://h/v1//v1", "/v1/chat/completions", true),
        ("https://h//openai//v1/", "/openai/v1/chat/completions", true),
        ("https://h/v1/chat/completions", "/v1/chat/completions", true),
        ("https://h/v1/v1/chat/completions/", "/v1/chat/completions", true),
        ("https://h/chat/completions", "/v1/chat/completions", true),
        ("https://h/v1/messages", "/v1/chat/completions", true),
        ("https://h/v1/messages/count_tokens", "/v1/chat/completions", true),
        ("https://h/v1/responses", "/v1/chat/completions", true),
        ("https://h/v1/embeddings", "/v1/chat/completions", true),
        ("https://h/v1/completions", "/v1/chat/completions", true),
        ("https://h/v1/models", "/v1/chat/completions", true),
        ("https://h/openai/v1/models", "/openai/v1/chat/completions", true),
        ("https://h/hub/models", "/hub/models/chat/completions", false),
        ("https://h/openai/v1", "/openai/v1/chat/completions", false),
        ("https://h/v1beta/openai/", "/v1beta/openai/chat/completions", false),
        ("https://h/v1beta/openai/chat/completions", "/v1beta/openai/chat/completions", true),
        ("https://h/api/openai?api-version=2", "/api/openai/chat/completions?api-version=2", false),
        ("https://h/v1?", "/v1/chat/completions", false),
    ] {
        assert_eq!(target(base, "openai"), (expected.to_owned(), warned), "{base}");
    }
}

#[test]
fn k084_anthropic_is_reached_with_and_without_its_version() {
    for (base, expected, warned) in [
        ("https://api.anthropic.com", "/v1/messages", false),
        ("https://api.anthropic.com/v1/", "/v1/messages", false),
        ("https://api.anthropic.com/v1/v1", "/v1/messages", true),
        ("https://api.anthropic.com/v1/messages", "/v1/messages", true),
        ("https://api.deepseek.com/anthropic", "/anthropic/v1/messages", false),
        ("https://h/v1/account/anthropic?tenant=a", "/v1/account/anthropic/v1/messages?tenant=a", false),
    ] {
        assert_eq!(target(base, "anthropic"), (expected.to_owned(), warned), "{base}");
    }
}

#[test]
fn k084_one_join_serves_all_paths_and_merges_queries() {
    let openai = kind("openai").unwrap();
    let (base, _) = parse("https://h/api?api-version=2", "openai").unwrap();
    for (op, query, expected) in [
        ("/models", None, "/api/models?api-version=2"),
        ("/models", Some("limit=1"), "/api/models?api-version=2&limit=1"),
        ("/models", Some(""), "/api/models?api-version=2"),
        ("/files/a%20b", None, "/api/files/a%20b?api-version=2"),
        ("/", None, "/api/?api-version=2"),
    ] {
        assert_eq!(base.target(openai, op, query), expected);
    }
    let (base, _) = parse("https://h", "openai").unwrap();
    assert_eq!(base.target(openai, "/models", Some("limit=1&after=x")), "/v1/models?limit=1&after=x");
}

#[test]
fn k084_a_suspicious_base_says_how_it_was_understood() {
    let (_, warning) = parse("https://h/v1/chat/completions", "openai").unwrap();
    assert!(warning.unwrap().starts_with("the path `/v1/chat/completions` is taken as `/v1`"));
}

#[test]
fn native_paths_are_beside_the_version() {
    let llamacpp = kind("llamacpp").unwrap();
    let (base, _) = parse("http://127.0.0.1:8081", "llamacpp").unwrap();
    assert_eq!(base.target(llamacpp, "/completion", None), "/completion");
    assert_eq!(base.target(llamacpp, "/completions", None), "/v1/completions");
    assert_eq!(base.target(llamacpp, "/slots/0", Some("action=erase")), "/slots/0?action=erase");
    let (base, _) = parse("http://127.0.0.1:8081/small/v1", "llamacpp").unwrap();
    assert_eq!(base.target(llamacpp, "/completion", None), "/small/completion");
    let (base, _) = parse("http://localhost:11434/v1", "ollama").unwrap();
    assert_eq!(base.target(kind("ollama").unwrap(), "/api/chat", None), "/api/chat");
    assert_eq!(base.target(kind("openai").unwrap(), "/api/chat", None), "/v1/api/chat");
}

#[test]
fn k085_ipv6_has_brackets_where_a_port_could_follow() {
    let (base, _) = parse("http://[fd00::5]:8000/v1", "openai").unwrap();
    assert_eq!((base.host(), base.authority()), ("fd00::5", "[fd00::5]:8000"));
    assert_eq!(base.uri(), "http://[fd00::5]:8000");
    assert_eq!(base.to_string(), "http://[fd00::5]:8000/v1");
    let (base, _) = parse("https://[2001:db8::1]", "openai").unwrap();
    assert_eq!((base.host(), base.authority()), ("2001:db8::1", "[2001:db8::1]"));
    assert_eq!(base.uri().host(), Some("[2001:db8::1]"));
}

#[test]
fn the_host_header_has_only_a_port_that_is_needed() {
    for (text, authority, https) in [
        ("https://api.example.com:443/v1", "api.example.com", true),
        ("https://api.example.com:8443", "api.example.com:8443", true),
        ("http://localhost:80", "localhost", false),
        ("http://localhost:443", "localhost:443", false),
        ("https://bücher.example", "xn--bcher-kva.example", true),
    ] {
        let (base, _) = parse(text, "openai").unwrap();
        assert_eq!((base.authority(), base.https()), (authority, https), "{text}");
        assert_eq!(base.uri().authority().map(|part| part.as_str()), Some(authority));
    }
}

#[test]
fn plain_http_stays_in_networks_of_ones_own() {
    for host in [
        "127.0.0.1",
        "127.8.9.1",
        "[::1]",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "[fd00::5]",
        "[fc00::1]",
        "[fe80::1]",
        "[::ffff:10.0.0.1]",
        "localhost",
        "LocalHost.",
        "vllm",
        "gpu-1",
        "box.local",
        "a.internal",
        "x.localhost",
        "nas.lan",
        "llm.ai.svc",
        "llm.ai.svc.cluster.local",
        "a.test",
        "box.home.arpa",
    ] {
        let (base, _) =
            parse(&format!("http://{host}:8000/v1"), "openai").unwrap_or_else(|e| panic!("{host}: {e}"));
        assert!(base.is_local(), "{host}");
    }
    for host in [
        "api.example.com",
        "8.8.8.8",
        "172.32.0.1",
        "172.15.0.1",
        "192.169.0.1",
        "11.0.0.1",
        "100.64.0.1",
        "[2001:db8::1]",
        "[::ffff:8.8.8.8]",
        "notlocal.com",
        "localhost.example.com",
        "1234",
        "a.latest",
    ] {
        assert_eq!(parse(&format!("http://{host}/v1"), "openai").unwrap_err(), IN_THE_CLEAR, "{host}");
        let (base, _) = parse(&format!("https://{host}/v1"), "openai").unwrap();
        assert!(!base.is_local(), "{host}");
    }
}

#[test]
fn the_metadata_service_is_no_provider() {
    for host in ["169.254.169.254", "[::ffff:169.254.169.254]", "2852039166", "0xa9fea9fe"] {
        for scheme in ["http", "https"] {
            assert_eq!(parse(&format!("{scheme}://{host}/v1"), "openai").unwrap_err(), LINK_LOCAL, "{host}");
        }
    }
}

#[test]
fn what_is_no_base_is_refused_without_repeating_it() {
    for (text, expected) in [
        ("", NO_URL),
        ("::", NO_URL),
        ("s3cret.example/v1", NO_URL),
        ("https://", NO_URL),
        ("https://s3cret .example", NO_URL),
        ("https://s3cret.example/\nv1", NO_URL),
        ("https://h:99999/s3cret", NO_URL),
        ("localhost:8000/v1", NO_HTTP),
        ("ftp://s3cret/v1", NO_HTTP),
        ("file:///s3cret", NO_HTTP),
        ("unix:/run/s3cret.sock", NO_HTTP),
        ("https://user:s3cret@h/v1", USER_INFO),
        ("https://s3cret@h/v1", USER_INFO),
        ("https://:s3cret@h/v1", USER_INFO),
        ("https://h/v1#s3cret", FRAGMENT),
    ] {
        let error = parse(text, "openai").unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{text}");
    }
}

#[test]
fn a_secret_in_the_query_is_sent_and_not_shown() {
    let (base, _) = parse("https://h/v1?code=s3cret&v=2", "openai").unwrap();
    assert_eq!(base.target(kind("openai").unwrap(), "/models", None), "/v1/models?code=s3cret&v=2");
    assert_eq!(base.to_string(), "https://h/v1?code=***&v=***");
    assert_eq!(format!("{base:?}"), "BaseUrl(https://h/v1?code=***&v=***)");
}

fn address() -> impl Strategy<Value = String> {
    let word = "(https?|ftp|HTTP)://|v1|chat|completions|messages|models|localhost|\\[::1\\]|[a-z0-9.@:%?#&=\\\\ -]|\\PC";
    let pieces = prop::collection::vec(prop_oneof![Just("/".to_owned()), word], 0..12);
    prop_oneof![any::<String>(), pieces.prop_map(|pieces| pieces.concat())]
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof!["v1", "chat", "completions", "messages", "models", "[a-z]{1,4}", ""],
        0..6,
    )
    .prop_map(|segments| format!("/{}", segments.join("/")))
}

proptest! {
    #[test]
    fn nothing_panics(text in address(), op in any::<String>(), query in prop::option::of(any::<String>())) {
        for kind in KINDS {
            if let Ok((base, _)) = BaseUrl::parse(&text, kind) {
                base.target(kind, &op, query.as_deref());
                let _ = (base.uri(), base.to_string(), base.host(), base.authority());
            }
        }
    }

    #[test]
    fn what_is_shown_means_the_same(path in path()) {
        for kind in KINDS {
            let (base, _) = BaseUrl::parse(&format!("https://h{path}"), kind).unwrap();
            let (again, warning) = BaseUrl::parse(&base.to_string(), kind).unwrap();
            prop_assert_eq!(&base, &again);
            prop_assert_eq!(warning, None);
        }
    }

    #[test]
    fn targets_are_valid_and_bear_one_version(path in path()) {
        for kind in KINDS {
            let (base, _) = BaseUrl::parse(&format!("https://h{path}"), kind).unwrap();
            let target = base.target(kind, "/chat/completions", Some("a=1"));
            prop_assert!(PathAndQuery::try_from(target.as_str()).is_ok(), "{}", target);
            let doubled = target.ends_with("/v1/v1/chat/completions?a=1") || target.contains("//");
            prop_assert!(!doubled, "{}", target);
        }
    }
}
