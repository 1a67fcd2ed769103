//! Whatever a provider answers, its caller gets that answer or an error that says what is wrong with it, and
//! the next call is not harmed.

use std::io;
use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;

use crate::world::*;

const CHAT: &str = "/v1/chat/completions";

fn answers(steps: Vec<Do>) -> World {
    World::around("", Arc::new(Scripted::new(steps)))
}

fn ok() -> Vec<u8> {
    let body = "{\"n\":1}";
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_a_readable_error() {
    let large = format!("HTTP/1.1 200 OK\r\nx-large: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(100_000));
    let many: String = (0..500).map(|at| format!("x-{at}: v\r\n")).collect();
    let many = format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n");
    for (name, bytes) in [
        ("nothing", ""),
        ("no http", "hello\r\n\r\n"),
        (
            "a switch of protocols",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello",
        ),
        ("half a head", "HTTP/1.1 200 OK\r\ncontent-le"),
        ("two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 5\r\n\r\n{}"),
        ("no number", "HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n{}"),
        ("half a body", "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{}"),
        (
            "half a chunk",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{",
        ),
        ("a large head", &large),
        ("many headers", &many),
    ] {
        let world = answers(vec![Do::Write(bytes.as_bytes().to_vec()), Do::Close]);
        let reply = world.post(CHAT, chat("x")).await;
        assert_eq!((reply.status.as_u16(), reply.broken), (502, false), "{name}: {}", reply.text());
        assert_eq!(reply.header("x-sluicegate-error"), "upstream_error", "{name}");
        assert_eq!(reply.header("x-should-retry"), "true", "{name}");
        assert!(reply.json()["error"]["message"].is_string(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_odd_but_whole_passes() {
    for (name, bytes, status, body) in [
        ("no content", "HTTP/1.1 204 No Content\r\nx-a: b\r\n\r\n", 204, ""),
        ("not modified", "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n", 304, ""),
        ("an old version", "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{}", 200, "{}"),
        ("ended by closing", "HTTP/1.1 200 OK\r\n\r\ntext", 200, "text"),
        (
            "hints before it",
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            200,
            "{}",
        ),
        (
            "extensions and trailers",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n2;a=b\r\n{}\r\n0\r\nx-t: 1\r\n\r\n",
            200,
            "{}",
        ),
        ("an unknown status", "HTTP/1.1 799 Odd\r\ncontent-length: 2\r\n\r\n{}", 799, "{}"),
    ] {
        let world = answers(vec![Do::Write(bytes.as_bytes().to_vec()), Do::Close]);
        let reply = world.post(CHAT, chat("x")).await;
        assert_eq!((reply.status.as_u16(), reply.broken), (status, false), "{name}: {}", reply.text());
        assert_eq!(reply.text(), body, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_after_an_answer_are_nobodys() {
    let smuggled = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong".to_vec();
    let with_it = Do::Write([ok(), smuggled.clone()].concat());
    for steps in [vec![with_it], vec![Do::Write(ok()), Do::Pause(millis(50)), Do::Write(smuggled)]] {
        let world = answers(steps);
        for _ in 0..3 {
            assert_eq!(world.post(CHAT, chat("x")).await.text(), "{\"n\":1}");
            tokio::time::sleep(millis(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resting_connection_that_was_closed_costs_nothing() {
    for pause in [0, 50] {
        let provider = Arc::new(Scripted::new(vec![Do::Write(ok()), Do::Pause(millis(pause)), Do::Close]));
        let world = World::around("", provider.clone());
        for at in 1..=5 {
            let reply = world.post(CHAT, chat("x")).await;
            assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-attempts")), (200, "1"));
            assert_eq!(provider.received.lock().len(), at, "asked once");
            tokio::time::sleep(millis(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_not_waited_for_for_ever() {
    let mut steps = vec![Do::Write(b"HTTP/1.1 200 OK\r\n".to_vec())];
    for _ in 0..200 {
        steps.extend([Do::Write(b"x: y\r\n".to_vec()), Do::Pause(secs(1))]);
    }
    let reply = answers(steps).post(CHAT, chat("x")).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-reason")), (504, "first_byte"));
    assert_eq!(reply.took.as_secs(), 120);
}

/// A provider that reads no further than the head, answers and closes.
struct Hasty {
    connections: Mutex<JoinSet<()>>,
}

impl Provider for Hasty {
    fn connect(&self) -> io::Result<DuplexStream> {
        // Small enough that a body does not fit.
        let (ours, mut theirs) = tokio::io::duplex(4096);
        self.connections.lock().spawn(async move {
            let mut head = [0; 1024];
            let _size = theirs.read(&mut head).await;
            let answer = b"HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"error\":\"big\"}";
            let _sent = theirs.write_all(answer).await;
        });
        Ok(ours)
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_body_was_sent_is_the_answer() {
    let world = World::around("", Arc::new(Hasty { connections: Mutex::default() }));
    for path in [CHAT, "/v1/files"] {
        for _ in 0..2 {
            let reply = world.post(path, chat(&"word ".repeat(200_000))).await;
            assert_eq!(reply.status, 413, "{path}: {}", reply.text());
            assert_eq!(reply.text(), "{\"error\":\"big\"}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_name_without_end_is_not_echoed() {
    let world = answers(vec![Do::Write(ok())]);
    let body = format!("{{\"model\":\"gpt-{}\",\"messages\":[]}}", "x".repeat(50_000));
    let reply = world.post(CHAT, body).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-model")), (200, ""));
    let reply = world.post(CHAT, "{\"model\":\"gpt-\\r\\nx-injected: 1\",\"messages\":[]}").await;
    assert_eq!(reply.header("x-injected"), "");
    assert_eq!(reply.header("x-sluicegate-model"), "?");
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_body_is_an_answer() {
    let head = |status: &str, headers: &str| format!("HTTP/1.1 {status}\r\n{headers}\r\n").into_bytes();
    for (method, path, answer) in [
        (Method::DELETE, "/v1/files/x", head("204 No Content", "")),
        (Method::GET, "/v1/files/x", head("304 Not Modified", "etag: \"1\"\r\n")),
        (Method::HEAD, "/v1/files/x", head("200 OK", "content-length: 5\r\n")),
        (Method::HEAD, "/nowhere", Vec::new()),
        (Method::GET, "/v1/files/x", head("200 OK", "content-length: 0\r\n")),
        (Method::GET, "/v1/files/x", head("500 Internal Server Error", "content-length: 0\r\n")),
        (
            Method::GET,
            "/v1/files/x",
            [head("200 OK", "transfer-encoding: chunked\r\n"), b"0\r\n\r\n".to_vec()].concat(),
        ),
    ] {
        let name = format!("{method} {path}: {}", String::from_utf8_lossy(&answer));
        let world = answers(vec![Do::Write(answer)]);
        let reply = world.ask(request(method, path, "")).await;
        assert_eq!(reply.text(), "", "{name}");
        let record = world.records.last();
        assert_eq!(record.status, reply.status.as_u16(), "{name}");
        let code = record.error.as_ref().map(|error| error.code);
        assert_eq!(code, (path == "/nowhere").then_some("not_found"), "{name}");
    }
}
