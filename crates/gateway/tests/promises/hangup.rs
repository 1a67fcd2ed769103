//! A client that leaves frees its provider call at once, wherever it was.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn before_the_first_byte() {
    let (world, mock) = World::before(mock_after(secs(30)));
    for stream in [false, true] {
        let body = if stream { chat_stream("hello") } else { chat("hello") };
        let mut client = world.client().await;
        let sent = client.try_send(request(http::Method::POST, "/v1/chat/completions", body));
        assert!(tokio::time::timeout(secs(2), sent).await.is_err());
        client.leave().await;
        tokio::time::sleep(millis(100)).await;
        assert_eq!(mock.stats().in_flight, 0, "stream: {stream}");
    }
    assert_eq!(world.records.all().len(), 2);
    for record in world.records.all() {
        assert_eq!((record.status, record.attempts), (499, 1));
        assert_eq!(record.error.unwrap().code, "client_gone");
    }
    assert_eq!(world.gate.life.calls(), 0);
}

/// What the log says of a call is what its client saw, or that nobody was left to see anything.
#[tokio::test(start_paused = true)]
async fn in_the_middle_of_its_own_request() {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    let (world, mock) = World::before(mock());
    let mut io = world.raw();
    io.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(secs(1)).await;
    drop(io);
    tokio::time::sleep(millis(100)).await;
    let record = world.records.last();
    assert_eq!((record.status, record.error.unwrap().code), (499, "client_gone"));

    let mut io = world.raw();
    io.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    io.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let record = world.records.last();
    assert_eq!((record.status, record.error.unwrap().code), (408, "request_timeout"));
    assert_eq!((world.records.all().len(), mock.requests(9).len()), (2, 0));
}
