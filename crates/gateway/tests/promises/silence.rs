//! A client of a silent stream gets a sign of life, and its error all the same.

use std::sync::Arc;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn before_the_first_byte() {
    let (world, _mock) = World::before(mock_after(secs(40)));
    for (path, body, sign) in [
        ("/v1/chat/completions", chat_stream("x"), ": keep-alive\n\n"),
        ("/v1/messages", message("x", true), "event: ping\ndata: {\"type\": \"ping\"}\n\n"),
    ] {
        let mut client = world.client().await;
        let mut asked = request(http::Method::POST, path, body);
        asked.headers_mut().insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
        let mut answer = client.send(asked).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.head_after, secs(15));
        assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
        assert_eq!(answer.next().await.unwrap().unwrap(), sign);
        assert_eq!(answer.next().await.unwrap().unwrap(), sign);
        let reply = answer.whole().await;
        assert!(reply.took >= secs(40) && reply.took < secs(41), "{:?}", reply.took);
        assert!(!reply.text().contains("usage\":{\"prompt_tokens"), "usage that nobody asked for is hidden");
        assert_eq!(world.records.last().status, 200);
        assert!(world.records.last().output_tokens.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_error_becomes_an_event() {
    let error = r#"{"error":{"message":"the model is asleep"}}"#;
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length";
    let steps =
        vec![Do::Pause(secs(20)), Do::Write(format!("{head}: {}\r\n\r\n{error}", error.len()).into_bytes())];
    let world = World::around("", Arc::new(Scripted::new(steps)));
    let reply = world.post("/v1/chat/completions", chat_stream("x")).await;
    assert_eq!(reply.status, 200);
    let text = reply.text();
    assert!(text.starts_with(": keep-alive\n\ndata: {\"error\""), "{text}");
    assert!(
        text.contains("503") && text.contains("the model is asleep") && !text.contains("[DONE]"),
        "{text}"
    );
    tokio::time::sleep(millis(1)).await;
    assert_eq!(world.outcomes(), [("failed".to_owned(), 1)], "it answered, and nothing was cut");
}

#[tokio::test(start_paused = true)]
async fn between_two_bytes_and_never_inside_an_event() {
    let whole = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let (first, second) = whole.split_at(20);
    let steps = vec![
        Do::Write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                .to_vec(),
        ),
        Do::Write(chunk(whole)),
        Do::Pause(secs(16)),
        Do::Write(chunk(first)),
        Do::Pause(secs(31)),
        Do::Write(chunk(second)),
        Do::Write(chunk(b"data: [DONE]\n\n")),
        Do::Write(b"0\r\n\r\n".to_vec()),
    ];
    let world = World::around("", Arc::new(Scripted::new(steps)));
    let reply = world.post("/v1/chat/completions", chat_stream("x")).await;
    let text = reply.text();
    let event = std::str::from_utf8(whole).unwrap();
    // The held part of an event is no reason to be silent: nothing of it has gone out.
    let signs = text.matches(": keep-alive\n\n").count();
    assert!(signs >= 2, "{text}");
    assert_eq!(text.replace(": keep-alive\n\n", ""), format!("{event}{event}data: [DONE]\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_plain_call_has_no_such_thing() {
    let (world, _mock) = World::before(mock_after(secs(40)));
    let reply = world.post("/v1/chat/completions", chat("x")).await;
    assert_eq!(reply.status, 200);
    assert!(reply.took >= secs(40));
}

/// What the operator chose is the pause between all signs, not only before the first one.
#[tokio::test(start_paused = true)]
async fn as_often_as_was_configured() {
    let (world, _mock) = World::with("keep_alive = \"25s\"\n", mock_after(secs(80)));
    let mut client = world.client().await;
    let asked = request(http::Method::POST, "/v1/chat/completions", chat_stream("x"));
    let mut answer = client.send(asked).await;
    assert_eq!(answer.head_after, secs(25));
    let start = tokio::time::Instant::now();
    for signs in 0..3 {
        assert_eq!(answer.next().await.unwrap().unwrap(), ": keep-alive\n\n");
        assert_eq!(start.elapsed().as_secs(), 25 * signs);
    }
}
