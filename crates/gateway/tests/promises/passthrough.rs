//! Same protocol in and out: bytes, headers and statuses pass both ways, but for the edits that are promised.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderValue, Method};
use tokio::io::DuplexStream;

use crate::world::*;

const EVENTS: &str = "content-type: text/event-stream\r\n";

/// What a provider sent, per protocol: path, request, stream.
fn transcripts() -> Vec<(&'static str, String, Vec<u8>)> {
    let chat = "data: {\"id\":\"c1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"new_field\":{\"a\":1.10}}\n\n\
        : a comment\n\n\
        data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\u{e9} \u{1f980} \\u00fc\"}}]}\n\n\
        data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n\
        data: [DONE]\n\n";
    let messages = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m-2\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"na\u{ef}ve\"}}\n\n\
        event: brand_new_event\ndata: {\"type\":\"brand_new_event\",\"x\":1}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let responses = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r1\",\"model\":\"m-3\"}}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\ndata: \"sequence_number\":1,\"delta\":\"ok\"}\n\n\
        event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":2,\"total_tokens\":5}}}\n\n";
    let crlf = chat.replace('\n', "\r\n");
    let options = r#","stream_options":{"include_usage":true}"#;
    let chat_body = format!(r#"{{"model":"gpt-x","stream":true{options},"unknown":[1.0,2e5]}}"#);
    let message_body =
        r#"{"model":"claude-x","max_tokens":5,"stream":true,"messages":[],"unknown":{"a":null}}"#;
    let response_body = r#"{"model":"gpt-x","stream":true,"input":"hi"}"#;
    vec![
        ("/v1/chat/completions", chat_body.clone(), chat.as_bytes().to_vec()),
        ("/v1/chat/completions", chat_body, crlf.into_bytes()),
        ("/v1/messages", message_body.to_owned(), messages.as_bytes().to_vec()),
        ("/v1/responses", response_body.to_owned(), responses.as_bytes().to_vec()),
    ]
}

fn body_of(request: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(request, b"\r\n\r\n").expect("a head");
    &request[end + 4..]
}

/// Counts its connections.
struct Counted {
    provider: Scripted,
    opened: AtomicUsize,
}

impl Counted {
    fn new(steps: Vec<Do>) -> Arc<Counted> {
        Arc::new(Counted { provider: Scripted::new(steps), opened: AtomicUsize::new(0) })
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Provider for Counted {
    fn connect(&self) -> io::Result<DuplexStream> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.provider.connect()
    }
}

/// Three different calls, one after the other, get this stream whole.
async fn three_get(provider: &Arc<Counted>, stream: &[u8], what: &str) {
    let world = World::around("", provider.clone());
    let (path, body, _) = &transcripts()[0];
    for model in ["gpt-1", "gpt-2", "gpt-3"] {
        let reply = world.post(path, body.replace("gpt-x", model)).await;
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false), "{what}");
        assert!(reply.body == stream, "{what}: {}", reply.text());
    }
}

#[tokio::test(start_paused = true)]
async fn streams_follow_each_other_on_one_connection_wherever_an_answer_is_cut() {
    let (_, _, stream) = transcripts().remove(0);
    let (one, two) = stream.split_at(stream.len() / 2);
    let head = format!("HTTP/1.1 200 OK\r\n{EVENTS}transfer-encoding: chunked\r\n\r\n");
    let answer = [head.as_bytes(), &chunk(one), &chunk(two), b"0\r\nx-sum: 1\r\n\r\n"].concat();
    for cut in 1..=answer.len() {
        let writes = [&answer[..cut], &answer[cut..]].into_iter().filter(|bytes| !bytes.is_empty());
        let provider = Counted::new(writes.map(|bytes| Do::Write(bytes.to_vec())).collect());
        three_get(&provider, &stream, &format!("cut at {cut}")).await;
        assert_eq!(provider.opened(), 1, "cut at {cut}");
    }
}

/// However a provider frames its stream, and whoever reads that: it comes whole, and no call gets another one's bytes.
#[tokio::test(start_paused = true)]
async fn a_stream_in_another_framing_comes_whole_too() {
    let (_, _, stream) = transcripts().remove(0);
    let chunked = [chunk(&stream), b"0\r\n\r\n".to_vec()].concat();
    let head = format!("HTTP/1.1 200 OK\r\n{EVENTS}transfer-encoding: chunked\r\n\r\n");
    let length = format!("HTTP/1.1 200 OK\r\n{EVENTS}content-length: {}\r\n\r\n", stream.len());
    let hinted = format!("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n{head}");
    let closing = head.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    let until_end = format!("HTTP/1.1 200 OK\r\n{EVENTS}\r\n");
    let behind = [&chunked[..], b"HTTP/1.1 200 OK\r\n"].concat();
    for (what, head, body, opened) in [
        ("by length", length, &stream, 1),
        ("after a hint", hinted, &chunked, 1),
        ("in bare lines", head.replace("\r\n", "\n"), &chunked, 1),
        ("with a last word", closing, &chunked, 3),
        ("with something behind it", head, &behind, 3),
    ] {
        let provider = Counted::new(vec![Do::Write([head.as_bytes(), body].concat())]);
        three_get(&provider, &stream, what).await;
        assert_eq!(provider.opened(), opened, "{what}");
    }
    let provider = Counted::new(vec![Do::Write([until_end.as_bytes(), &stream].concat()), Do::Close]);
    three_get(&provider, &stream, "to the connection's end").await;
    assert_eq!(provider.opened(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_equal_to_direct_at_every_cut() {
    for (path, body, stream) in transcripts() {
        for cut in 0..=stream.len() {
            let pieces: Vec<&[u8]> =
                [&stream[..cut], &stream[cut..]].into_iter().filter(|piece| !piece.is_empty()).collect();
            let provider = Arc::new(Scripted::chunked(EVENTS, &pieces));
            let world = World::around("", provider.clone());
            let reply = world.post(path, body.clone()).await;
            assert_eq!(reply.status, 200);
            assert!(!reply.broken);
            assert_eq!(reply.body, stream, "{path} cut at {cut}");
            assert_eq!(body_of(&provider.received.lock()[0]), body.as_bytes());
            let record = world.records.last();
            assert_eq!(
                (record.input_tokens, record.output_tokens),
                (Some(3), Some(2)),
                "{path} cut at {cut}"
            );
            assert_eq!(record.error, None, "{path} cut at {cut}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_asked_for_and_hidden_from_who_did_not_ask() {
    let stream = transcripts().remove(0).2;
    let shown = String::from_utf8(stream.clone()).unwrap();
    let start = shown.find("data: {\"id\":\"c1\",\"choices\":[],\"usage\"").unwrap();
    let end = start + shown[start..].find("\n\n").unwrap() + 2;
    let hidden = format!("{}{}", &shown[..start], &shown[end..]);
    let cases = [
        (
            r#"{"model":"gpt-x","stream":true}"#,
            r#"{"stream_options":{"include_usage":true},"model":"gpt-x","stream":true}"#,
        ),
        (
            r#"{"stream_options":{"include_usage":false},"stream":true}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true}"#,
        ),
    ];
    for (asked, sent) in cases {
        for cut in 1..stream.len() {
            let provider = Arc::new(Scripted::chunked(EVENTS, &[&stream[..cut], &stream[cut..]]));
            let world = World::around("", provider.clone());
            let reply = world.post("/v1/chat/completions", asked).await;
            assert_eq!(reply.text(), hidden, "cut at {cut}");
            let received = provider.received.lock()[0].clone();
            let received: serde_json::Value = serde_json::from_slice(body_of(&received)).unwrap();
            assert_eq!(received, serde_json::from_str::<serde_json::Value>(sent).unwrap());
            assert_eq!(world.records.last().output_tokens, Some(2));
        }
    }
    // An operator can leave the requests alone.
    let provider = Arc::new(Scripted::chunked(EVENTS, &[&stream]));
    let world = World::around("usage_on_streams = false\n", provider.clone());
    let reply = world.post("/v1/chat/completions", cases[0].0).await;
    assert_eq!(reply.body, stream);
    assert_eq!(body_of(&provider.received.lock()[0]), cases[0].0.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_plain_answer_keeps_bytes_status_and_headers() {
    let body = r#"{ "id":"x", "usage":{"prompt_tokens":7,"completion_tokens":9}, "n": 7300000000000000123, "f":1.10 }"#;
    for status in
        ["200 OK", "400 Bad Request", "418 I'm a teapot", "429 Too Many Requests", "503 Service Unavailable"]
    {
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-ratelimit-remaining-requests: 0\r\n\
             retry-after: 30\r\nretry-after-ms: 30000\r\nx-should-retry: true\r\nx-vendor-new: kept\r\n\
             x-request-id: req_7\r\nkeep-alive: timeout=5\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let provider = Arc::new(Scripted::new(vec![Do::Write(answer.into_bytes())]));
        let world = World::around("", provider.clone());
        let sent = r#"{"model":"gpt-x" , "x":[1.0, 2E5],"messages":[]}"#;
        let mut asked = request(Method::POST, "/v1/chat/completions?beta=1", sent);
        asked.headers_mut().insert("openai-organization", HeaderValue::from_static("org-1"));
        asked.headers_mut().insert("x-sluicegate-tags", HeaderValue::from_static("a=b"));
        let reply = world.ask(asked).await;
        assert_eq!(reply.status.as_u16().to_string(), status[..3]);
        assert_eq!(reply.text(), body);
        for (name, value) in [
            ("retry-after", "30"),
            ("retry-after-ms", "30000"),
            ("x-should-retry", "true"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-vendor-new", "kept"),
            ("x-upstream-request-id", "req_7"),
            ("x-sluicegate-cache", "miss"),
            ("x-sluicegate-provider", "openai"),
            ("x-sluicegate-model", "gpt-x"),
            ("x-sluicegate-attempts", "1"),
            ("keep-alive", ""),
        ] {
            assert_eq!(reply.header(name), value, "{name}");
        }
        assert_ne!(reply.header("x-request-id"), "req_7");
        let received = String::from_utf8(provider.received.lock()[0].clone()).unwrap();
        assert!(received.starts_with("POST /v1/chat/completions?beta=1 HTTP/1.1\r\n"), "{received}");
        assert!(received.ends_with(&format!("\r\n\r\n{sent}")), "{received}");
        assert!(received.contains("openai-organization: org-1\r\n"));
        assert!(received.contains("authorization: Bearer caller-key\r\n"));
        assert!(received.contains("accept-encoding: identity\r\n"));
        assert!(!received.contains("x-sluicegate"), "{received}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_alias_changes_the_models_name_and_nothing_else() {
    let settings = format!(
        "{PROVIDERS}\n[[models]]\nname = \"fast\"\ntargets = [{{ provider = \"openai\", model = \"gpt-5-\\\"mini\" }}]\n"
    );
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    for (asked, sent) in [
        (r#"{"a":1, "model" : "fast","z":[]}"#, r#"{"a":1, "model" : "gpt-5-\"mini","z":[]}"#),
        (r#"{"model":"openai/o9"}"#, r#"{"model":"o9"}"#),
        (r#"{"model":"somebody/else"}"#, r#"{"model":"somebody/else"}"#),
    ] {
        let provider = Arc::new(Scripted::new(vec![Do::Write(answer.as_bytes().to_vec())]));
        let world = World::around(&settings, provider.clone());
        assert_eq!(world.post("/v1/chat/completions", asked).await.status, 200);
        assert_eq!(std::str::from_utf8(body_of(&provider.received.lock()[0])).unwrap(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn an_opaque_body_passes_as_it_is_both_ways() {
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: {}\r\n\r\n", binary.len())
            .into_bytes();
    answer.extend_from_slice(&binary);
    let provider = Arc::new(Scripted::new(vec![Do::Write(answer)]));
    let world = World::around("", provider.clone());
    let mut asked = request(Method::POST, "/v1/audio/speech", binary.clone());
    asked.headers_mut().insert("content-type", HeaderValue::from_static("multipart/form-data; boundary=x"));
    let reply = world.ask(asked).await;
    assert_eq!(reply.body, binary);
    assert_eq!(reply.header("content-type"), "audio/mpeg");
    assert_eq!(reply.header("content-length"), "100000");
    assert_eq!(reply.header("x-sluicegate-cache"), "bypass");
    assert_eq!(body_of(&provider.received.lock()[0]), binary);
    tokio::time::sleep(millis(1)).await;
    assert_eq!(world.records.last().error, None);
    assert_eq!(world.outcomes(), [("ok".to_owned(), 1)]);
    // A whole answer frees its connection for the next call.
    world.ask(request(Method::POST, "/v1/audio/speech", "{}")).await;
    assert_eq!(world.dialled.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_never_looks_whole() {
    // A stream of events ends with an error event of its protocol, and no end marker.
    for (path, body, stream) in transcripts() {
        let first =
            memchr::memmem::find(&stream, b"}\n\n").or(memchr::memmem::find(&stream, b"}\r\n\r\n")).unwrap();
        let first = if stream[first + 1] == b'\r' { first + 5 } else { first + 3 };
        let steps = vec![
            Do::Write(format!("HTTP/1.1 200 OK\r\n{EVENTS}transfer-encoding: chunked\r\n\r\n").into_bytes()),
            Do::Write(chunk(&stream[..first])),
            Do::Close,
        ];
        let world = World::around("", Arc::new(Scripted::new(steps)));
        let reply = world.post(path, body).await;
        assert!(!reply.broken);
        let text = reply.text();
        assert!(text.as_bytes().starts_with(&stream[..first]), "{text}");
        let tail = &text[first..];
        assert!(
            tail.contains("error") && !tail.contains("[DONE]") && !tail.contains("message_stop"),
            "{tail}"
        );
        if path == "/v1/messages" {
            assert!(tail.starts_with("event: error\ndata: {\"type\":\"error\""), "{tail}");
        }
        assert_eq!(world.records.last().error.unwrap().code, "upstream_error");
    }
    // A clean end in the middle of an answer is a cut too.
    let provider = Scripted::chunked(
        EVENTS,
        &[b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"],
    );
    let reply = World::around("", Arc::new(provider)).post("/v1/chat/completions", chat_stream("x")).await;
    assert!(reply.text().contains("\"error\""), "{}", reply.text());
    // Half an event can't be followed by one of ours: the connection is reset.
    let steps = vec![
        Do::Write(b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 100\r\n\r\nhalf".to_vec()),
        Do::Close,
    ];
    assert!(World::around("", Arc::new(Scripted::new(steps))).post("/v1/audio/speech", "{}").await.broken);
    // A plain answer is held until it is whole: a cut has a status.
    let steps = vec![
        Do::Write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"a\":"
                .to_vec(),
        ),
        Do::Close,
    ];
    let reply =
        World::around("", Arc::new(Scripted::new(steps))).post("/v1/chat/completions", chat("x")).await;
    assert_eq!(reply.status, 502);
    assert_eq!(reply.header("x-sluicegate-error"), "upstream_error");
}

#[tokio::test(start_paused = true)]
async fn a_long_plain_answer_is_passed_as_it_comes_and_counted_all_the_same() {
    let numbers = "0.125,".repeat(200_000);
    for (path, asked, body) in [
        (
            "/v1/embeddings",
            r#"{"model":"text-embedding-x","input":"a"}"#,
            format!(
                r#"{{"object":"list","model":"e-1","data":[{{"embedding":[{numbers}1]}}],"usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#
            ),
        ),
        (
            "/v1/messages",
            r#"{"model":"claude-x","max_tokens":1,"messages":[]}"#,
            format!(
                r#"{{"type":"message","model":"e-1","content":[{{"type":"text","text":"{numbers}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":7,"output_tokens":9}}}}"#
            ),
        ),
    ] {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut steps = vec![Do::Write(head.as_bytes().to_vec())];
        steps.extend(body.as_bytes().chunks(100_000).map(|piece| Do::Write(chunk(piece))));
        steps.push(Do::Write(b"0\r\n\r\n".to_vec()));
        let world = World::around("", Arc::new(Scripted::new(steps)));
        let reply = world.post(path, asked).await;
        assert!(reply.body == body.as_bytes(), "{path}: {} bytes", reply.body.len());
        let record = world.records.last();
        assert_eq!(record.input_tokens, Some(7), "{path}");
        assert_eq!(record.served_model.as_deref(), Some("e-1"), "{path}");
        assert_eq!(record.error, None, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_keeps_the_length_of_the_body_that_does_not_come() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 12345\r\n\r\n";
    let world = World::around("", Arc::new(Scripted::new(vec![Do::Write(answer.as_bytes().to_vec())])));
    let reply = world.ask(request(Method::HEAD, "/v1/files/f/content", "")).await;
    assert_eq!((reply.status.as_u16(), reply.header("content-length")), (200, "12345"));
    assert!(reply.body.is_empty() && !reply.broken);
}
