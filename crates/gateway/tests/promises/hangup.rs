//! A client that leaves frees its provider call at once, wherever it was.

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
        assert_eq!(record.status, 499);
        assert_eq!(record.error.unwrap().code, "client_gone");
    }
    assert_eq!(world.gate.life.calls(), 0);
}
