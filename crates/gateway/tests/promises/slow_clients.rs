//! A client may be slow, but not for ever: each wait for it has an end, and not before its time.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, timeout};

use crate::world::*;

const LINE: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";

fn asks(body: &str) -> Vec<u8> {
    format!("{LINE}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Reads one answer and leaves the connection open.
async fn answer(io: &mut DuplexStream) -> String {
    let mut answer = vec![0; 64 * 1024];
    let size = io.read(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer[..size]).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_rest_for_three_minutes_between_two_requests() {
    let (world, _mock) = World::before(mock());
    let mut io = world.raw();
    for _ in 0..2 {
        io.write_all(&asks(&chat("x"))).await.unwrap();
        assert!(answer(&mut io).await.starts_with("HTTP/1.1 200"));
        // It is open just before the end, and a request begins it anew.
        assert!(timeout(millis(179_500), io.read_u8()).await.is_err());
    }
    let start = Instant::now();
    assert_eq!(answer(&mut io).await, "", "nothing but the end");
    assert!(start.elapsed() <= millis(1000), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_may_pause_for_half_a_minute() {
    let chunked = format!("{LINE}Transfer-Encoding: chunked\r\n\r\n5\r\n{{").into_bytes();
    let sized = format!("{LINE}Content-Length: 100\r\n\r\n{{").into_bytes();
    for begin in [chunked, sized] {
        let (world, mock) = World::before(mock());
        let mut io = world.raw();
        io.write_all(&begin).await.unwrap();
        for _ in 0..3 {
            assert!(timeout(millis(29_500), io.read_u8()).await.is_err());
            io.write_all(b" ").await.unwrap();
        }
        let start = Instant::now();
        assert!(timeout(millis(29_500), io.read_u8()).await.is_err());
        assert!(answer(&mut io).await.starts_with("HTTP/1.1 408"));
        assert!(start.elapsed() <= millis(30_500), "{:?}", start.elapsed());
        assert_eq!(mock.requests(10).len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_is_dropped_after_half_a_minute_and_its_provider_freed() {
    let head = "content-type: text/event-stream\r\n";
    let event = format!("data: {{\"choices\":[],\"x\":\"{}\"}}\n\n", "x".repeat(16 * 1024));
    let provider = Arc::new(Scripted::chunked(head, &vec![event.as_bytes(); 1000]));
    let world = World::around("", provider.clone());
    let mut io = world.raw();
    io.write_all(&asks(&chat_stream("x"))).await.unwrap();
    // One that takes something now and then stays.
    for _ in 0..3 {
        tokio::time::sleep(millis(29_500)).await;
        assert_eq!(*provider.hang_ups.lock(), 0);
        io.read_exact(&mut vec![0; 512 * 1024]).await.unwrap();
    }
    tokio::time::sleep(millis(29_500)).await;
    assert_eq!((*provider.hang_ups.lock(), world.records.all().len()), (0, 0));
    tokio::time::sleep(millis(1000)).await;
    assert_eq!(*provider.hang_ups.lock(), 1);
    assert_eq!(world.records.last().error.expect("an error").code, "client_gone");
    assert_eq!(world.gate.life.calls(), 0);
}
