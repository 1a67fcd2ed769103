//! Counts are exact, also of those who went away.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Client, chat, post, scripted, streamed, with};
use http_body_util::BodyExt;
use serde_json::json;
use sim::mock::{Mock, Options, Tuning};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::task::JoinSet;

const CHAT: &str = "/v1/chat/completions";

/// Lets every task run until all of them wait.
async fn ready_soon() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn all_calls_are_in_flight_together() {
    let mock = with(Tuning { latency: Duration::from_secs(1), ..Tuning::default() });
    let mut calls = JoinSet::new();
    for number in 0..50 {
        let mut client = Client::in_memory(&mock).await;
        calls.spawn(async move { client.post(CHAT, &chat(&format!("prompt {number}"))).await.status });
    }
    let began = tokio::time::Instant::now();
    assert!(calls.join_all().await.iter().all(|status| *status == 200));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    let stats = mock.stats();
    assert_eq!((stats.arrived, stats.most_in_flight, stats.in_flight), (50, 50, 0));
    assert_eq!(stats.by_path[CHAT].by_status["200"], 50);
    assert_eq!((stats.connections.opened, stats.connections.most_open), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn leaving_before_the_answer_is_a_hang_up() {
    let mock = with(Tuning { latency: Duration::from_secs(60), ..Tuning::default() });
    let mut client = Client::in_memory(&mock).await;
    let answer = tokio::time::timeout(Duration::from_secs(2), client.send(post(CHAT, &chat("x")))).await;
    assert!(answer.is_err());
    assert_eq!(mock.stats().in_flight, 1);
    drop(client);
    ready_soon().await;
    let stats = mock.stats();
    assert_eq!((stats.in_flight, stats.hang_ups.count, stats.by_status["left"]), (0, 1, 1));
    assert!((2.0..2.1).contains(&stats.hang_ups.times[0]), "{:?}", stats.hang_ups.times);
}

#[tokio::test(start_paused = true)]
async fn leaving_in_the_middle_of_a_stream_is_a_hang_up() {
    let mock = with(Tuning { chunk_interval: Duration::from_secs(1), ..Tuning::default() });
    let mut client = Client::in_memory(&mock).await;
    let mut body = client.open(post(CHAT, &streamed(chat("x")))).await.unwrap().into_body();
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    drop((body, client));
    ready_soon().await;
    let stats = mock.stats();
    assert_eq!((stats.in_flight, stats.hang_ups.count, stats.by_status["200"]), (0, 1, 1));
    assert_eq!(stats.connections.open, 0);
}

#[tokio::test(start_paused = true)]
async fn leaving_after_the_answer_is_none() {
    let mock = scripted("ok");
    let mut client = Client::in_memory(&mock).await;
    for request in [chat("x"), streamed(chat("x"))] {
        client.post(CHAT, &request).await;
    }
    drop(client);
    ready_soon().await;
    let stats = mock.stats();
    assert_eq!((stats.hang_ups.count, stats.connections.most_calls_on_one), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn control_paths_do_not_count() {
    let mock = scripted("ok");
    let mut control = Client::in_memory(&mock).await;
    let mut client = Client::in_memory(&mock).await;
    client.post(CHAT, &chat("x")).await;
    control.get("/__requests?last=1").await;
    let stats = control.get("/__stats").await.json();
    assert_eq!(stats["arrived"], 1);
    assert_eq!(stats["connections"]["opened"], 1);
    assert_eq!(stats["by_path"], json!({CHAT: {"arrived": 1, "by_status": {"200": 1}}}));
}

#[tokio::test]
async fn streams_over_a_socket_leave_nothing_behind() {
    let mock = Mock::start_local(Options::strict()).await.unwrap();
    let mut clients = JoinSet::new();
    for number in 0..20 {
        let addr = mock.addr();
        clients.spawn(async move {
            let mut client = Client::tcp(addr).await;
            let answer = client.post(CHAT, &streamed(chat(&number.to_string()))).await;
            assert_eq!(answer.events().last().unwrap().data, "[DONE]");
        });
    }
    clients.join_all().await;
    let stats = mock.stats();
    assert_eq!((stats.arrived, stats.in_flight, stats.hang_ups.count), (20, 0, 0));
    mock.shutdown().await;
}

/// Counts the writes of the mock.
struct Counting {
    io: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn every_event_is_a_write_of_its_own() {
    let mock = scripted("ok");
    let (near, far) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    mock.serve_stream(Counting { io: far, writes: writes.clone() });
    let mut client = Client::over(near).await;
    let events = client.post(CHAT, &streamed(chat("x"))).await.events().len();
    let written = writes.load(Ordering::Relaxed);
    assert!((events..=events + 2).contains(&written), "{written} writes for {events} events");
}
