//! A provider that answers by the head alone and closes: its answer, not the failed write, is what counts.

use std::net::SocketAddr;

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::child::{Gate, config};
use crate::client::request;

const ANSWER: &[u8] = b"HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\n\
    content-length: 15\r\n\r\n{\"error\":\"big\"}";

/// Closes on bytes that it has not read, which makes the kernel send a reset.
async fn hasty() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("an address");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let _size = stream.read(&mut head).await;
            let _sent = stream.write_all(ANSWER).await;
        }
    });
    (at, tasks)
}

#[tokio::test]
async fn the_answer_is_told_though_the_connection_was_reset() {
    let (at, _tasks) = hasty().await;
    let gate = Gate::with(&config("", at), &[]).await;
    let prompt = "word ".repeat(1_600_000);
    let body = serde_json::json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": prompt}]});
    for path in ["/v1/chat/completions", "/to/openai/files"] {
        for _ in 0..5 {
            let call = request(Method::POST, path, body.to_string());
            let reply = gate.client().await.send(call).await.whole().await;
            assert_eq!((reply.status.as_u16(), &*reply.text()), (413, "{\"error\":\"big\"}"), "{path}");
        }
    }
}
