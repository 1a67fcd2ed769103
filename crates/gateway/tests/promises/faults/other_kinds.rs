//! Cases of kinds that are for later capabilities, as far as passing on answers them already.

use std::io;

use tokio::io::DuplexStream;

use super::*;

#[tokio::test(start_paused = true)]
async fn k053_a_refusal_is_asked_for_once() {
    for status in [400, 401, 403, 404, 422] {
        let (world, mock) = World::before(mock_that(&status.to_string()));
        assert_eq!(world.post(CHAT, chat("x")).await.status, status);
        assert_eq!(mock.requests(10).len(), 1, "{status}");
        assert_eq!(world.outcomes(), one("refused"));
    }
}

#[tokio::test(start_paused = true)]
async fn k058_no_limit_on_a_wait_cuts_a_stream_that_goes_on() {
    let mut steps = vec![stream_head(), event(ROLE)];
    for _ in 0..20 {
        steps.extend([Do::Pause(millis(500)), event(TEXT)]);
    }
    steps.extend([event(FINISH), event(DONE), stream_end()]);
    let settings = "[timeouts]\nfirst_byte = \"2s\"\nstall = \"2s\"\n";
    let world = World::around(settings, Arc::new(Scripted::new(steps)));
    let mut asked = asked(CHAT, CHAT_CALL);
    asked.headers_mut().insert("x-stainless-timeout", HeaderValue::from_static("2"));
    let reply = world.ask(asked).await;
    assert_eq!(reply.text(), [ROLE, &TEXT.repeat(20), FINISH, DONE].concat());
    assert_eq!(reply.took, secs(10));
}

#[tokio::test(start_paused = true)]
async fn k073_permits_return_after_timeouts_and_after_refusals() {
    let settings = "concurrency = 10\n[timeouts]\nfirst_byte = \"1s\"\n";
    let (world, mock) = World::with(settings, mock_that("hang!"));
    let world = Arc::new(world);
    for (script, status) in [("hang!", 504), ("400", 400), ("reset", 502), ("ok", 200)] {
        mock.set_script(script.parse().unwrap());
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..10 {
            let world = world.clone();
            calls.spawn(async move { world.post(CHAT, chat(&number.to_string())).await });
        }
        for reply in calls.join_all().await {
            assert_eq!(reply.status, status, "{script}: {}", reply.text());
        }
        settled(&world).await;
    }
}

/// Nobody is there.
struct Nowhere;

impl Provider for Nowhere {
    fn connect(&self) -> io::Result<DuplexStream> {
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"))
    }
}

#[tokio::test(start_paused = true)]
async fn k079_a_key_in_an_address_is_in_no_answer_log_or_record() {
    let missing: Arc<dyn Provider> = Arc::new(plain("404 Not Found", JSON, br#"{"error":{"message":"no"}}"#));
    let silent: Arc<dyn Provider> = Arc::new(Scripted::new(vec![Do::Hang]));
    for (provider, status) in [(missing, 404), (Arc::new(Nowhere) as _, 502), (silent, 504)] {
        let world = World::around("", provider);
        let mut asked = asked(&format!("{CHAT}?key=SECRET1&beta=1"), chat("x"));
        asked.headers_mut().remove("authorization");
        let reply = world.ask(asked).await;
        assert_eq!(reply.status, status);
        settled(&world).await;
        let record = serde_json::to_string(&world.records.last()).unwrap();
        let headers = format!("{:?}", reply.headers);
        for sink in [reply.text(), headers, world.log(), record, world.metrics.render().unwrap()] {
            assert!(!sink.contains("SECRET1"), "{sink}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k079_a_key_in_an_address_goes_up_as_a_header() {
    let call = format!("{CHAT}?key=SECRET1&beta=1");
    let told = told_without_key(&call).await;
    let (head, _) = parts(&told.received.lock()[0]);
    assert!(head.starts_with("POST /v1/chat/completions?beta=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: Bearer SECRET1\r\n"), "{head}");
}

async fn told_without_key(path: &str) -> Arc<Scripted> {
    let provider = Arc::new(plain("200 OK", JSON, b"{}"));
    let world = World::around("", provider.clone());
    let mut asked = asked(path, chat("x"));
    asked.headers_mut().remove("authorization");
    assert_eq!(world.ask(asked).await.status, 200);
    provider
}

#[tokio::test(start_paused = true)]
async fn k080_a_caller_does_not_choose_where_the_gates_key_goes() {
    let settings = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"gate-key\"\n";
    let call = r#"{"model":"gpt-x","api_base":"http://attacker.example/v1","base_url":"http://169.254.169.254/","messages":[]}"#;
    let provider = Arc::new(plain("200 OK", JSON, b"{}"));
    let world = World::around(settings, provider.clone());
    let mut asked = asked(CHAT, call);
    for name in ["x-api-base", "x-base-url", "x-forwarded-host", "openai-base-url"] {
        asked.headers_mut().insert(name, HeaderValue::from_static("attacker.example"));
    }
    assert_eq!(world.ask(asked).await.status, 200);
    assert_eq!(*world.dialled.lock(), ["127.0.0.1:1"], "the configured address and no other");
    let (head, _) = parts(&provider.received.lock()[0]);
    assert!(head.contains("\r\nhost: 127.0.0.1:1\r\n"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn k091_a_response_without_its_last_event_is_told_and_booked_as_failed() {
    let begun = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r1\",\"model\":\"m\"}}\n\n\
        event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"ok\"}\n\n";
    let told = told(RESPONSES, RESPONSES_CALL, Scripted::chunked(EVENTS, &[begun.as_bytes()])).await;
    assert_eq!((told.reply.status.as_u16(), told.reply.broken), (200, false));
    let text = told.reply.text();
    let end = text.strip_prefix(begun).unwrap();
    let data = end.strip_prefix("event: response.failed\ndata: ").unwrap_or_else(|| panic!("{end}"));
    let failed: serde_json::Value = serde_json::from_str(data.trim_end()).unwrap();
    assert_eq!((&failed["sequence_number"], &failed["response"]["id"]), (&2.into(), &"r1".into()));
    assert_eq!(failed["response"]["status"], "failed");
    assert!(told.record.failed());
    assert_eq!((told.error(), told.outcomes()), (("upstream_error", None), one("cut")));
}
