//! A provider that the test plays by hand: it sees each request, and says when what is answered.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::*;
use crate::world::{self, Provider};

pub(super) struct Hand {
    arrived: mpsc::Sender<Asked>,
    arrivals: Mutex<mpsc::Receiver<Asked>>,
    tasks: parking_lot::Mutex<JoinSet<()>>,
    count: Arc<std::sync::atomic::AtomicUsize>,
}

/// One request that the provider has taken in whole.
pub(super) struct Asked {
    io: DuplexStream,
}

impl Hand {
    pub(super) fn new() -> Arc<Hand> {
        let (arrived, arrivals) = mpsc::channel(1024);
        Arc::new(Hand {
            arrived,
            arrivals: Mutex::new(arrivals),
            tasks: parking_lot::Mutex::default(),
            count: Arc::default(),
        })
    }

    /// The next request.
    pub(super) async fn asked(&self) -> Asked {
        self.arrivals.lock().await.recv().await.unwrap()
    }

    /// How many have come.
    pub(super) fn count(&self) -> usize {
        self.count.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Provider for Hand {
    fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let (arrived, count) = (self.arrived.clone(), self.count.clone());
        self.tasks.lock().spawn(async move {
            if world::read_request(&mut theirs).await.is_some() {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let _over = arrived.send(Asked { io: theirs }).await;
            }
        });
        Ok(ours)
    }
}

impl Asked {
    /// Begins to answer with a stream of events.
    pub(super) async fn open_stream(&mut self) {
        self.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
    }

    pub(super) async fn event(&mut self, event: &str) {
        self.write(&chunk(event.as_bytes())).await;
    }

    pub(super) async fn end_stream(&mut self) {
        self.write(b"0\r\n\r\n").await;
    }

    /// Answers in one piece.
    pub(super) async fn whole(&mut self, status: &str, headers: &str, body: &str) {
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
        self.write(format!("{head}{body}").as_bytes()).await;
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    /// Whether the bytes are taken, or the gate has hung up.
    pub(super) async fn offer(&mut self, bytes: &[u8]) -> bool {
        self.io.write_all(bytes).await.is_ok()
    }

    /// Waits until the gate hangs up; says how long that took.
    pub(super) async fn gone(&mut self) -> std::time::Duration {
        let since = Instant::now();
        assert!(self.io.read_u8().await.is_err(), "nothing but a hang-up is expected");
        since.elapsed()
    }
}

/// A chunk of a chat stream.
pub(super) fn text(text: &str) -> String {
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

/// Its end.
pub(super) fn finish(reason: &str) -> String {
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    format!("data: {chunk}\n\n")
}

/// The event that tells usage, where it was asked for.
pub(super) const USAGE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}}\n\n";
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// A plain chat answer.
pub(super) fn answer(text: &str) -> String {
    json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
    .to_string()
}

pub(super) const JSON: &str = "content-type: application/json\r\n";
