use proptest::prelude::*;

use super::*;

/// Where a path leads, written as `dialect shape op to`.
fn found(method: Method, path: &str, anthropic: bool) -> String {
    match route(&method, path, anthropic) {
        Routed::Found(Route { dialect, op, to }) => {
            format!("{} {:?} {op} {}", dialect.name(), dialect.shape(), to.unwrap_or("-"))
        }
        Routed::Later => "later".to_owned(),
        Routed::Unknown => "unknown".to_owned(),
    }
}

#[test]
fn each_endpoint_has_its_protocol() {
    for (method, path, expected) in [
        (Method::POST, "/v1/chat/completions", "chat OpenAi /chat/completions -"),
        (Method::POST, "/v1/completions", "completions OpenAi /completions -"),
        (Method::POST, "/v1/embeddings", "embeddings OpenAi /embeddings -"),
        (Method::POST, "/v1/responses", "responses OpenAi /responses -"),
        (Method::POST, "/v1/messages", "messages Anthropic /messages -"),
        (Method::POST, "/v1/messages/count_tokens", "count_tokens Anthropic /messages/count_tokens -"),
        (Method::GET, "/v1/models", "models OpenAi /models -"),
        (Method::GET, "/v1/models/gpt-5", "models OpenAi /models/gpt-5 -"),
        (Method::GET, "/v1/models/org/name:7b", "models OpenAi /models/org/name:7b -"),
        (Method::GET, "/v1/models/a%20b%3Ac", "models OpenAi /models/a%20b%3Ac -"),
    ] {
        assert_eq!(found(method, path, false), expected, "{path}");
    }
    assert_eq!(found(Method::GET, "/v1/models", true), "models Anthropic /models -");
    assert_eq!(found(Method::POST, "/v1/chat/completions", true), "chat OpenAi /chat/completions -");
}

#[test]
fn all_else_below_the_version_is_opaque() {
    for (method, path, expected) in [
        (Method::GET, "/v1/chat/completions", "opaque OpenAi /chat/completions -"),
        (Method::GET, "/v1/chat/completions/id/messages", "opaque OpenAi /chat/completions/id/messages -"),
        (Method::POST, "/v1/responses/id/cancel", "opaque OpenAi /responses/id/cancel -"),
        (Method::DELETE, "/v1/models/ft:x", "opaque OpenAi /models/ft:x -"),
        (Method::HEAD, "/v1/models", "opaque OpenAi /models -"),
        (Method::POST, "/v1/models", "opaque OpenAi /models -"),
        (Method::GET, "/v1/modelsx", "opaque OpenAi /modelsx -"),
        (Method::POST, "/v1/messagesx", "opaque OpenAi /messagesx -"),
        (Method::GET, "/v1/messages", "opaque Anthropic /messages -"),
        (Method::POST, "/v1/messages/batches", "opaque Anthropic /messages/batches -"),
        (Method::POST, "/v1/audio/speech", "opaque OpenAi /audio/speech -"),
        (Method::GET, "/v1/realtime", "opaque OpenAi /realtime -"),
        (Method::GET, "/v1/files/", "opaque OpenAi /files/ -"),
        (Method::GET, "/v1/files/caf%C3%A9.txt", "opaque OpenAi /files/caf%C3%A9.txt -"),
        (Method::GET, "/v1/files/.hidden..", "opaque OpenAi /files/.hidden.. -"),
        (Method::GET, "/v1/", "opaque OpenAi / -"),
    ] {
        assert_eq!(found(method, path, false), expected, "{path}");
    }
    assert_eq!(found(Method::POST, "/v1/files", true), "opaque Anthropic /files -");
}

#[test]
fn a_path_can_name_its_provider() {
    for (method, path, expected) in [
        (Method::POST, "/to/local/v1/chat/completions", "chat OpenAi /chat/completions local"),
        (Method::POST, "/to/local/chat/completions", "chat OpenAi /chat/completions local"),
        (Method::POST, "/to/claude/v1/messages", "messages Anthropic /messages claude"),
        (Method::POST, "/to/claude/v1/messages/batches", "opaque Anthropic /messages/batches claude"),
        (Method::GET, "/to/local/v1/models", "models OpenAi /models local"),
        (Method::POST, "/to/local/completion", "opaque OpenAi /completion local"),
        (Method::POST, "/to/local/api/chat", "opaque OpenAi /api/chat local"),
        (Method::GET, "/to/local/v1x", "opaque OpenAi /v1x local"),
        (Method::GET, "/to/local/v1beta/models", "opaque OpenAi /v1beta/models local"),
        (Method::GET, "/to/local/v1", "opaque OpenAi / local"),
        (Method::GET, "/to/local/v1/", "opaque OpenAi / local"),
        (Method::GET, "/to/local/", "opaque OpenAi / local"),
        (Method::GET, "/to/local", "unknown"),
        (Method::GET, "/to/", "unknown"),
        (Method::GET, "/to//v1/models", "unknown"),
        (Method::GET, "/to", "unknown"),
        (Method::POST, "/to/local/v1/chat/completions/", "unknown"),
    ] {
        assert_eq!(found(method, path, false), expected, "{path}");
    }
}

#[test]
fn gemini_is_for_later() {
    for path in ["/v1beta/models", "/v1beta/models/gemini-3:generateContent", "/v1beta/models/a:countTokens"]
    {
        assert_eq!(found(Method::POST, path, false), "later", "{path}");
    }
    for path in ["/v1beta/openai/models", "/v1beta/modelsx", "/v1beta/models//a", "/v1beta"] {
        assert_eq!(found(Method::POST, path, false), "unknown", "{path}");
    }
}

#[test]
fn a_path_that_can_be_read_in_two_ways_is_nobodys() {
    for path in [
        "",
        "/",
        "//",
        "v1/models",
        "*",
        "/v1",
        "/v2/models",
        "/V1/models",
        "/healthz",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat//completions",
        "/v1/files//",
        "/v1/./models",
        "/v1/../models",
        "/v1/files/..",
        "/v1/files/.",
        "/v1/files/../",
        "/./v1/models",
        "/v1/chat%2fcompletions",
        "/v1/chat%2Fcompletions",
        "/v1/chat%5ccompletions",
        "/v1/chat\\completions",
        "/v1/%2e/models",
        "/v1/%2E%2e/models",
        "/v1/files/..%2f..",
        "/v1/ch%61t/completions",
        "/v1/count%5ftokens",
        "/v1/files/a%00",
        "/v1/files/a%0d%0ab",
        "/v1/files/a%7f",
        "/v1/files/a\u{0}",
        "/v1/files/a\nb",
        "/v1/files/a\u{7f}",
        "/v1/files/%",
        "/v1/files/%4",
        "/v1/files/%zz",
        "/v1/files/%+1",
        "/v1/files/a?b",
        "/v1/files/a#b",
        "/v1/chat/completions/",
        "/v1/messages/",
        "/v1/messages/count_tokens/",
        "/v1/models/",
        "/to/a/../v1/models",
        "/to/%2e%2e/v1/models",
        "/to/a%2fb/v1/models",
    ] {
        for method in [Method::POST, Method::GET] {
            assert_eq!(found(method, path, false), "unknown", "{path:?}");
        }
    }
}

/// Says by a list of what is bad, and not as the router does, whether a path can be read in two ways.
fn reads_in_one_way(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let bad = ["//", "%2f", "%5c", "%2e", "\\", "%0", "%1", "%7f", "%61", "%41"];
    path.starts_with('/')
        && !bad.iter().any(|part| lower.contains(part))
        && !path.split('/').any(|segment| segment == "." || segment == "..")
        && !path.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
}

fn path() -> impl Strategy<Value = String> {
    let pieces = [
        "/",
        "/",
        "v1",
        "to",
        "local",
        "chat",
        "completions",
        "messages",
        "models",
        "v1beta",
        ".",
        "..",
        "%2e",
        "%2F",
        "%5C",
        "%61",
        "%20",
        "%0a",
        "\\",
        "\u{0}",
        "é",
    ];
    let piece = prop_oneof![4 => prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), 1 => "\\PC"];
    let joined = prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    prop_oneof![any::<String>(), joined.clone(), joined.prop_map(|path| format!("/v1/{path}"))]
}

proptest! {
    #[test]
    fn whatever_is_found_reads_in_one_way(path in path(), post in any::<bool>(), anthropic in any::<bool>()) {
        let method = if post { Method::POST } else { Method::GET };
        if let Routed::Found(Route { op, to, .. }) = route(&method, &path, anthropic) {
            let id = path.strip_prefix("/v1/models/").filter(|_| !post);
            let plain = id.map_or_else(|| path.clone(), |id| format!("/v1/models/{}", plain_id(id)));
            prop_assert!(reads_in_one_way(&plain), "{path:?}");
            prop_assert!(op.starts_with('/') && (path.ends_with(op) || path.ends_with("/v1")), "{path:?} {op:?}");
            prop_assert!(to.is_none_or(|name| !name.is_empty() && !name.contains('/')), "{path:?} {to:?}");
        }
    }
}

#[test]
fn a_models_name_may_have_its_slash_encoded_and_nothing_else() {
    for (path, served) in [
        ("/v1/models/openai%2Fgpt-4o", true),
        ("/v1/models/a%2fb%2Fc", true),
        ("/v1/models/..%2fadmin", false),
        ("/v1/models/a%2f%2fb", false),
        ("/v1/models/a%2f%2e%2e%2fb", false),
        ("/v1/files/a%2fb", false),
    ] {
        let found = matches!(route(&Method::GET, path, false), Routed::Found(_));
        assert_eq!(found, served, "{path}");
        assert!(!matches!(route(&Method::POST, path, false), Routed::Found(_)), "{path}");
    }
    assert_eq!(plain_id("a%2fb%2Fc"), "a/b/c");
}
