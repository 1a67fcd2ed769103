//! What a provider has sent goes on at once, however it was cut and whatever of it is for the client.
//!
//! Only real sockets show it: a pipe in memory wakes its reader more often than the kernel does.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::child::{Gate, Mock, config};
use crate::client::{chat, message};
use crate::until::secs;

/// A provider that writes the same bytes after each request, all at once, and closes.
async fn provider(answer: Vec<u8>) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("an address");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 16 * 1024];
            let _read = stream.read(&mut request).await;
            let _written = stream.write_all(&answer).await;
        }
    });
    (at, tasks)
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(size) {
        answer.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        answer.extend_from_slice(piece);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    answer
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A chat stream of one event with so much text.
fn chat_stream(text: usize) -> Vec<u8> {
    let text = "x".repeat(text);
    format!(
        "data: {{\"id\":\"1\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n\
         data: {{\"id\":\"1\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    )
    .into_bytes()
}

/// A messages stream with so many pings in it.
fn message_stream(pings: usize) -> Vec<u8> {
    let event = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
    let start = r#"{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#;
    let pings = event("ping", r#"{"type":"ping"}"#).repeat(pings);
    let all = event("message_start", start) + &pings + &event("message_delta", stop);
    (all + &event("message_stop", r#"{"type":"message_stop"}"#)).into_bytes()
}

#[tokio::test]
async fn all_that_has_come_is_handed_on() {
    for (what, answer, to_claude) in [
        ("an event in small chunks", chunked(&chat_stream(60_000), 4096), false),
        ("an event in large chunks", chunked(&chat_stream(1_000_000), 32 * 1024), false),
        ("an event with a length", with_length(&chat_stream(60_000)), false),
        ("a long event with a length", with_length(&chat_stream(1_000_000)), false),
        ("events that say nothing", chunked(&message_stream(5_000), 4096), true),
        ("events that say nothing, with a length", with_length(&message_stream(5_000)), true),
    ] {
        let (at, _tasks) = provider(answer).await;
        let gate = Gate::with(&config("", at), &[]).await;
        let mut call = chat("hello", true);
        if to_claude {
            let body = r#"{"model":"claude-x","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
            *call.body_mut() = http_body_util::Full::new(body.into());
        }
        let mut client = gate.client().await;
        let whole = timeout(secs(5), async { client.send(call).await.whole().await });
        let reply = whole.await.unwrap_or_else(|_| panic!("{what}: it stands still"));
        assert!(reply.text().ends_with("data: [DONE]\n\n"), "{what}");
    }
}

#[tokio::test]
async fn over_http2_too() {
    let long = "x".repeat(50_000);
    let mock = Mock::start(&["--chunks", "1", "--answer", &long]).await;
    let both = config("", mock.at).replace("[providers.openai]\n", "[providers.openai]\nhttp = \"2\"\n");
    let gate =
        Gate::with(&both.replace("[providers.anthropic]\n", "[providers.anthropic]\nhttp = \"2\"\n"), &[])
            .await;
    let mut to_claude = chat("hello", true);
    let body =
        r#"{"model":"claude-sonnet-4-5","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    *to_claude.body_mut() = http_body_util::Full::new(body.into());
    for (call, end) in [
        (chat("hello", true), "data: [DONE]\n\n"),
        (message("hello", true), "data: {\"type\":\"message_stop\"}\n\n"),
        (to_claude, "data: [DONE]\n\n"),
    ] {
        let mut client = gate.client().await;
        let whole = timeout(secs(5), async { client.send(call).await.whole().await });
        let reply = whole.await.expect("it stands still");
        assert!(reply.text().ends_with(end), "{end}");
    }
}
