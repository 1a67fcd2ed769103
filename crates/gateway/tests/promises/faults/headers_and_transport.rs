//! What belongs to one connection stays on it, addresses are joined with care, and aborted calls give all back.

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::*;

/// A compressed body; that it is none is nobody's business between the two ends.
const PACKED: &[u8] = &[0x1f; 61];

const PACKED_HEAD: &str = "content-type: application/json\r\ncontent-encoding: gzip\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n";

async fn accepting(encodings: Option<&'static str>, call: String, provider: Scripted) -> Told {
    let provider = Arc::new(provider);
    let world = World::around("", provider.clone());
    let mut asked = asked(CHAT, call);
    if let Some(encodings) = encodings {
        asked.headers_mut().insert("accept-encoding", HeaderValue::from_static(encodings));
    }
    let reply = world.ask(asked).await;
    settled(&world).await;
    let record = world.records.last();
    Told { world, provider, reply, record }
}

#[tokio::test(start_paused = true)]
async fn k083_a_packed_answer_passes_with_its_true_length_to_who_can_unpack_it() {
    let chunked = |status: &str| {
        let head = format!("HTTP/1.1 {status}\r\n{PACKED_HEAD}transfer-encoding: chunked\r\n\r\n");
        Scripted::new(vec![Do::Write(head.into_bytes()), Do::Write(chunk(PACKED)), stream_end()])
    };
    for (status, outcome) in [("400 Bad Request", "refused"), ("200 OK", "ok")] {
        for provider in [plain(status, PACKED_HEAD, PACKED), chunked(status)] {
            let told = accepting(Some("br, gzip;q=0.5"), chat("x"), provider).await;
            assert_eq!(told.reply.status.as_str(), &status[..3]);
            assert_eq!(told.reply.body, PACKED);
            assert_eq!(told.reply.header("content-length"), "61");
            assert_eq!(told.reply.header("content-encoding"), "gzip");
            for name in ["connection", "keep-alive", "x-hop", "transfer-encoding"] {
                assert_eq!(told.reply.header(name), "", "{name}");
            }
            assert_eq!(told.record.error, None, "what can't be read is not garbage");
            assert_eq!(told.outcomes(), one(outcome));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k083_a_packed_answer_never_reaches_who_can_not_unpack_it() {
    for encodings in [None, Some("identity"), Some("br"), Some("gzip;q=0, *;q=0")] {
        let told = accepting(encodings, chat("x"), plain("400 Bad Request", PACKED_HEAD, PACKED)).await;
        assert_eq!(told.reply.status, 502, "{encodings:?}");
        assert_eq!(told.reply.header("x-sluicegate-error"), "upstream_error");
        assert_eq!(told.reply.header("x-sluicegate-reason"), "content_encoding");
        assert_eq!(told.reply.header("content-encoding"), "");
        assert_eq!(told.reply.header("content-length"), told.reply.body.len().to_string());
        assert_eq!(told.reply.json()["error"]["code"], "upstream_error");
        assert_eq!(
            told.outcomes(),
            one("refused"),
            "{encodings:?}: the provider's verdict, whatever its form"
        );
    }
    // A client that has its head already can't be told of an encoding any more.
    let head = EVENTS.to_owned() + "content-encoding: gzip\r\n";
    let head = format!("HTTP/1.1 200 OK\r\n{head}transfer-encoding: chunked\r\n\r\n");
    let steps =
        vec![Do::Pause(secs(16)), Do::Write(head.into_bytes()), Do::Write(chunk(PACKED)), stream_end()];
    let told = accepting(Some("gzip"), chat_stream("x"), Scripted::new(steps)).await;
    assert!(memchr::memmem::find(&told.reply.body, PACKED).is_none());
    assert!(told.reply.text().starts_with(": keep-alive\n\ndata: {\"error\""), "{}", told.reply.text());
    assert_eq!(told.reply.header("content-encoding"), "");
}

#[tokio::test(start_paused = true)]
async fn k083_a_plain_answers_length_is_that_of_its_bytes() {
    let body = br#"{"id":"x"}"#;
    let head = format!("HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n");
    let pieces = [&body[..4], &body[4..]].map(|piece| Do::Write(chunk(piece)));
    let steps = [vec![Do::Write(head.into_bytes())], pieces.to_vec(), vec![stream_end()]].concat();
    let told = told(CHAT, chat("x"), Scripted::new(steps)).await;
    assert_eq!(told.reply.body, body);
    assert_eq!(told.reply.header("content-length"), body.len().to_string());
    assert_eq!((told.reply.header("transfer-encoding"), told.reply.header("trailer")), ("", ""));
}

#[tokio::test(start_paused = true)]
async fn k083_a_requests_framing_is_made_anew() {
    let call = chat_stream("x");
    let answer = [ROLE, FINISH, DONE].concat();
    let provider = Arc::new(Scripted::chunked(EVENTS, &[answer.as_bytes()]));
    let world = World::around("", provider.clone());
    let mut bytes = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer k\r\ntransfer-encoding: chunked\r\n\
         connection: close, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nte: trailers\r\n\
         proxy-connection: keep-alive\r\naccept-encoding: gzip\r\n\r\n"
    )
    .into_bytes();
    for piece in call.as_bytes().chunks(7) {
        bytes.extend_from_slice(&chunk(piece));
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    let answer = world.exchange(&bytes, secs(5)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    settled(&world).await;
    let (head, body) = parts(&provider.received.lock()[0]);
    assert_ne!(body.len(), call.len(), "the gate has asked for usage");
    let lengths: Vec<&str> = head.lines().filter(|line| line.starts_with("content-length:")).collect();
    assert_eq!(lengths, [format!("content-length: {}", body.len())]);
    for name in ["transfer-encoding", "connection", "x-hop", "keep-alive", "te", "proxy-connection"] {
        assert!(!head.contains(&format!("\r\n{name}:")), "{name}: {head}");
    }
    assert!(head.contains("\r\naccept-encoding: identity\r\n"), "{head}");
}

/// A gate before one provider at `base`, and what that provider is asked for.
async fn reached(kind: &str, base: &str, path: &str) -> (Vec<String>, String) {
    let settings = format!("[providers.{kind}]\nbase_url = \"{base}\"\n");
    let provider = Arc::new(plain("200 OK", JSON, b"{}"));
    let world = World::around(&settings, provider.clone());
    let asked = match path.ends_with("/models") {
        true => request(Method::GET, path, ""),
        false => asked(path, "{}"),
    };
    let reply = world.ask(asked).await;
    assert_eq!(reply.status, 200, "{base} {path}: {}", reply.text());
    let (head, _) = parts(&provider.received.lock()[0]);
    (sluicegate::config::parse_text(&settings).unwrap().warnings, head)
}

#[tokio::test(start_paused = true)]
async fn k084_every_way_to_write_a_base_reaches_the_right_path() {
    for (kind, base, path, target, warned) in [
        ("openai", "https://h/v1/", CHAT, "/v1/chat/completions", false),
        ("openai", "https://h/v1", CHAT, "/v1/chat/completions", false),
        ("openai", "https://h", CHAT, "/v1/chat/completions", false),
        ("openai", "https://h/v1/v1", CHAT, "/v1/chat/completions", true),
        ("openai", "https://h/v1/chat/completions", CHAT, "/v1/chat/completions", true),
        (
            "openai",
            "https://h/api/openai?api-version=2",
            CHAT,
            "/api/openai/chat/completions?api-version=2",
            false,
        ),
        ("openai", "https://h/v1/", "/v1/models", "/v1/models", false),
        ("openai", "https://h", "/v1/models", "/v1/models", false),
        ("openai", "https://h/v1/chat/completions", "/v1/models", "/v1/models", true),
        (
            "openai",
            "https://h/api/openai?api-version=2",
            "/v1/models",
            "/api/openai/models?api-version=2",
            false,
        ),
        (
            "openai",
            "https://h/api?api-version=2",
            "/v1/responses?a=b",
            "/api/responses?api-version=2&a=b",
            false,
        ),
        ("openai", "https://h/v1/", "/v1/audio/speech", "/v1/audio/speech", false),
        ("anthropic", "https://h", MESSAGES, "/v1/messages", false),
        ("anthropic", "https://h/v1/", MESSAGES, "/v1/messages", false),
        ("anthropic", "https://h/v1/messages", MESSAGES, "/v1/messages", true),
    ] {
        let (warnings, head) = reached(kind, base, path).await;
        let line = head.lines().next().unwrap();
        assert_eq!(line.split(' ').nth(1), Some(target), "{base} {path}");
        assert!(head.contains("\r\nhost: h\r\n"), "{head}");
        let said = warnings.iter().any(|warning| warning.contains("base_url") || warning.contains("path"));
        assert_eq!(said, warned, "{base}: {warnings:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn k085_an_ipv6_provider_is_named_with_brackets() {
    for (base, host) in [
        ("http://[fd00::5]:8000/v1", "[fd00::5]:8000"),
        ("http://[::1]/v1", "[::1]"),
        ("https://[2001:db8::1]:443/v1", "[2001:db8::1]"),
    ] {
        let (_, head) = reached("openai", base, CHAT).await;
        assert!(head.contains(&format!("\r\nhost: {host}\r\n")), "{base}: {head}");
        assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{base}: {head}");
    }
}

#[test]
fn k085_every_usual_way_to_write_an_ipv6_address_is_listened_on() {
    for (text, address) in
        [("::", "[::]:8080"), ("[::]:8080", "[::]:8080"), ("::1", "[::1]:8080"), ("[::1]:9", "[::1]:9")]
    {
        let config = sluicegate::config::parse_text(&format!("listen = \"{text}\"\nopen = true\n")).unwrap();
        assert_eq!(config.listen, address.parse().unwrap(), "{text}");
    }
}

/// Real sockets: whether the wildcard takes IPv4 too is the system's choice, and the gate leaves it at that.
#[tokio::test]
async fn k085_the_wildcard_is_dual_stack_where_the_system_allows_it() {
    let any = "[::]:0".parse().unwrap();
    let Ok(usual) = std::net::TcpListener::bind::<std::net::SocketAddr>(any) else { return };
    let by_ipv4 = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let ours = sluicegate::net::listen::bind(any).unwrap();
    assert_eq!(by_ipv4(ours.local_addr().unwrap().port()), by_ipv4(usual.local_addr().unwrap().port()));
    assert!(std::net::TcpStream::connect(("::1", ours.local_addr().unwrap().port())).is_ok());
}

#[tokio::test(start_paused = true)]
async fn k086_aborted_calls_leave_nothing_checked_out() {
    for http in ["1.1", "2"] {
        let file = format!(
            "concurrency = 4\n[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\nhttp = \"{http}\"\n"
        );
        let (world, mock) = World::with(&file, mock_after(secs(30)));
        let mut clients = Vec::new();
        for number in 0..10 {
            let body = chat_stream(&number.to_string());
            let mut io = world.raw();
            let head = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer k\r\n");
            let bytes = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            io.write_all(bytes.as_bytes()).await.unwrap();
            clients.push(io);
        }
        tokio::time::sleep(secs(1)).await;
        assert_eq!((gauge(&world, "in_flight"), gauge(&world, "waiting")), (4, 6));
        drop(clients);
        tokio::time::sleep(millis(100)).await;
        settled(&world).await;
        assert_eq!(mock.stats().in_flight, 0);
        let gone = world.records.all();
        assert_eq!(gone.len(), 10);
        assert!(gone.iter().all(|record| record.error.as_ref().unwrap().code == "client_gone"));

        let world = Arc::new(world);
        let mut calls = JoinSet::new();
        for number in 0..4 {
            let world = world.clone();
            calls.spawn(async move { world.post(CHAT, chat(&number.to_string())).await });
        }
        for reply in calls.join_all().await {
            assert_eq!(reply.status, 200, "HTTP/{http}: {}", reply.text());
            assert!(reply.took < secs(31), "HTTP/{http}: all four at once, {:?}", reply.took);
        }
        settled(&world).await;
    }
}
