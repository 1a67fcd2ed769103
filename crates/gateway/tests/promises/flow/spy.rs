//! A provider that notes who came when, and does what the prompt says.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::world::{self, chunk, millis};

/// Words of a prompt count: `takes=MS` for how long the answer takes, `status=N`, `hang`, `cut`, `stall` (a stream
/// that stops in its middle).
pub(super) struct Spy {
    book: Arc<Book>,
    tasks: Mutex<JoinSet<()>>,
}

struct Book {
    takes: Duration,
    seen: Mutex<Vec<Seen>>,
    flying: AtomicUsize,
    most: AtomicUsize,
}

/// One request, whole.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    /// Of the first message; the path where there is none.
    pub(super) prompt: String,
    pub(super) model: String,
    pub(super) head: String,
}

impl Spy {
    pub(super) fn new(takes: Duration) -> Arc<Spy> {
        let book =
            Book { takes, seen: Mutex::default(), flying: AtomicUsize::new(0), most: AtomicUsize::new(0) };
        Arc::new(Spy { book: Arc::new(book), tasks: Mutex::default() })
    }

    /// All that have come, in order.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.book.seen.lock().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.book.seen.lock().len()
    }

    /// The prompts that have come, in order.
    pub(super) fn prompts(&self) -> Vec<String> {
        self.book.seen.lock().iter().map(|seen| seen.prompt.clone()).collect()
    }

    /// When those came that `of` is true for, counted from `start`.
    pub(super) fn times(&self, start: Instant, of: impl Fn(&Seen) -> bool) -> Vec<Duration> {
        self.book.seen.lock().iter().filter(|seen| of(seen)).map(|seen| seen.at - start).collect()
    }

    /// How many it answers now.
    pub(super) fn flying(&self) -> usize {
        self.book.flying.load(Ordering::Relaxed)
    }

    pub(super) fn most(&self) -> usize {
        self.book.most.load(Ordering::Relaxed)
    }
}

struct Flying<'a>(&'a AtomicUsize);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl world::Provider for Spy {
    fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let book = self.book.clone();
        self.tasks.lock().spawn(async move { book.attend(theirs).await });
        Ok(ours)
    }
}

impl Book {
    async fn attend(&self, mut io: DuplexStream) {
        while let Some(request) = world::read_request(&mut io).await {
            let end = memchr::memmem::find(&request, b"\r\n\r\n").unwrap();
            let head = String::from_utf8_lossy(&request[..end]).into_owned();
            let body: Value = serde_json::from_slice(&request[end + 4..]).unwrap_or_default();
            if !self.answer(&mut io, head, &body).await {
                return;
            }
        }
    }

    /// Whether the connection goes on.
    async fn answer(&self, io: &mut DuplexStream, head: String, body: &Value) -> bool {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let content = &body["messages"][0]["content"];
        let prompt = content.as_str().or(content[0]["text"].as_str()).unwrap_or(&path).to_owned();
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        let seen = Seen { at: Instant::now(), prompt: prompt.clone(), model, head };
        self.seen.lock().push(seen);
        let now = self.flying.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        let _flying = Flying(&self.flying);
        let says = |word: &str| prompt.split(' ').any(|said| said == word);
        let told = |name: &str| -> Option<u64> {
            prompt.split(' ').find_map(|said| said.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        if says("hang") {
            return stays(io, Duration::from_secs(1_000_000)).await;
        }
        if !stays(io, told("takes").map_or(self.takes, millis)).await || says("cut") {
            return false;
        }
        if let Some(status) = told("status") {
            return whole(io, status, r#"{"error":{"message":"as you said","type":"server_error"}}"#).await;
        }
        if body["stream"] == true {
            return stream(io, &prompt, says("stall")).await;
        }
        let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
        let answer = if path.starts_with("/v1/messages") {
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "stop_sequence": null, "content": [{"type": "text", "text": prompt}],
                "usage": {"input_tokens": 1, "output_tokens": 1}})
        } else {
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
                "choices": [{"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": prompt}}]})
        };
        whole(io, 200, &answer.to_string()).await
    }
}

/// Whether the other side is still there after this time.
async fn stays(io: &mut DuplexStream, time: Duration) -> bool {
    if time.is_zero() {
        return true;
    }
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        // Nothing is sent ahead on these connections: what can be read is a hang-up.
        _ = io.read_u8() => false,
    }
}

async fn whole(io: &mut DuplexStream, status: u64, body: &str) -> bool {
    let head = format!(
        "HTTP/1.1 {status} As-Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    io.write_all(format!("{head}{body}").as_bytes()).await.is_ok()
}

/// Five words, ten milliseconds apart.
async fn stream(io: &mut DuplexStream, prompt: &str, stalls: bool) -> bool {
    let head =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let mut going = io.write_all(&head).await.is_ok();
    for word in 0..5 {
        let delta = json!({"content": format!("{prompt}/{word} ")});
        let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        going = going && io.write_all(&chunk(format!("data: {event}\n\n").as_bytes())).await.is_ok();
        if stalls && word == 2 {
            return stays(io, Duration::from_secs(1_000_000)).await;
        }
        going = going && stays(io, millis(10)).await;
    }
    let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let end =
        [chunk(format!("data: {event}\n\ndata: [DONE]\n\n").as_bytes()), b"0\r\n\r\n".to_vec()].concat();
    going && io.write_all(&end).await.is_ok()
}
