//! One HTTP/2 connection is enough for all that a client has to ask, and no lever for one that means harm.

use http::Method;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn five_hundred_different_calls_over_one_connection_do_not_wait_for_each_other() {
    let (world, mock) = World::before(mock_after(secs(2)));
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(world.raw())).await.expect("a handshake");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ended = connection.await;
    });
    // The first answer brings the gate's settings: until then a client is careful.
    let mut ask = |at: u32| {
        let body = if at.is_multiple_of(2) { chat(&format!("{at}")) } else { chat_stream(&format!("{at}")) };
        let mut asked = request(Method::POST, "/v1/chat/completions", body);
        *asked.uri_mut() = "http://localhost:8080/v1/chat/completions".parse().expect("a target");
        sender.send_request(asked)
    };
    assert_eq!(ask(500).await.expect("an answer").status(), 200);
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for at in 0..500 {
        let answer = ask(at);
        calls.spawn(async move { answer.await.expect("an answer").status() });
    }
    assert!(calls.join_all().await.iter().all(|status| *status == 200));
    assert!(start.elapsed() < millis(2100), "{:?}", start.elapsed());
    assert_eq!(mock.stats().most_in_flight, 500);
}

/// A frame with this type, flags and stream.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_taken_back_as_fast_as_they_are_made_end_the_connection() {
    let (world, mock) = World::before(mock_after(secs(2)));
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, b""));
    for stream in (1..4000).step_by(2) {
        // GET http://localhost/v1/models, complete; then the reset.
        let head = b"\x82\x86\x44\x0a/v1/models\x41\x09localhost";
        bytes.extend(frame(1, 0x5, stream, head));
        bytes.extend(frame(3, 0, stream, &8u32.to_be_bytes()));
    }
    let mut io = world.raw();
    io.write_all(&bytes).await.expect("taken");
    let mut came = Vec::new();
    let end = tokio::time::timeout(secs(1), io.read_to_end(&mut came)).await;
    assert!(end.is_ok(), "the connection is over");
    // GOAWAY, with ENHANCE_YOUR_CALM.
    assert!(came.windows(4).any(|code| code == 11u32.to_be_bytes()), "{came:?}");
    assert!(mock.requests(4000).len() < 100, "{}", mock.requests(4000).len());
    assert_eq!(mock.stats().in_flight, 0);
}
