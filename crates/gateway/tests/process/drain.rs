//! A stop signal under load: nobody is left without an answer, and the process ends in bounded time.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::child::{Gate, Mock};
use crate::client::{Answer, Client, Reply, chat, message, request, response};
use crate::until::{secs, until};

/// Starts calls, each on a connection of its own, and waits until the provider has all of them.
async fn load(gate: &Gate, mock: &Mock, plain: usize, streams: usize) -> JoinSet<(bool, Reply)> {
    let mut calls = JoinSet::new();
    for at in 0..plain + streams {
        let mut client = gate.client().await;
        let stream = at >= plain;
        let prompt = format!("call {at}");
        let request = match at % 3 {
            0 => chat(&prompt, stream),
            1 => message(&prompt, stream),
            _ => response(&prompt, stream),
        };
        calls.spawn(async move { (stream, client.send(request).await.whole().await) });
    }
    mock.in_flight((plain + streams) as u64).await;
    calls
}

async fn draining(gate: &Gate) {
    until("the gate drains", secs(5), async || (gate.admin("/readyz").await == 503).then_some(())).await;
}

fn assert_turned_away(answer: &Answer) {
    assert_eq!(answer.status, 503);
    assert_eq!(answer.headers["x-sluicegate-error"], "shutting_down");
    assert_eq!(answer.headers["x-should-retry"], "true");
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.headers["connection"], "close");
}

/// The last event of a whole stream, in each protocol.
fn is_whole_stream(text: &str) -> bool {
    ["data: [DONE]", "event: message_stop", "event: response.completed"].iter().any(|end| text.contains(end))
}

#[tokio::test]
async fn a_drain_under_load_leaves_nobody_without_an_answer() {
    let mock = Mock::start(&["--latency", "1.5s", "--chunks", "4", "--chunk-interval", "500ms"]).await;
    let mut gate = Gate::before(&mock, "").await;
    let mut kept_alive = gate.client().await;
    let nowhere = kept_alive.send(request(http::Method::GET, "/nowhere", "")).await.whole().await;
    assert_eq!(nowhere.status, 404);

    let calls = load(&gate, &mock, 30, 30).await;
    let start = Instant::now();
    gate.process.signal("TERM");
    draining(&gate).await;
    assert_eq!(gate.admin("/healthz").await, 200);
    assert_turned_away(&kept_alive.send(chat("late", false)).await);
    assert_turned_away(&gate.client().await.send(chat("later", true)).await);

    for (stream, reply) in calls.join_all().await {
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false));
        assert!(!stream || is_whole_stream(&reply.text()), "{}", reply.text());
    }
    assert_eq!(gate.process.exit(secs(5)).await, Some(0));
    // The streams' own three seconds, and little more.
    assert!(start.elapsed() < secs(8), "{:?}", start.elapsed());
    assert_eq!(mock.stats().await["by_status"]["200"], 60);
}

#[tokio::test]
async fn a_cut_drain_ends_with_errors_that_their_callers_can_read() {
    let mock = Mock::start(&["--latency", "60s", "--first-byte", "10ms", "--chunk-interval", "10s"]).await;
    let mut gate = Gate::before(&mock, "drain = \"1s\"").await;
    let calls = load(&gate, &mock, 15, 15).await;
    let start = Instant::now();
    gate.process.signal("INT");
    let replies = calls.join_all().await;
    assert!(start.elapsed() >= secs(1), "cut after {:?}", start.elapsed());
    for (stream, reply) in replies {
        assert!(!reply.broken);
        let text = reply.text();
        if stream && reply.status == 200 {
            assert!(text.contains("shutting_down") || text.contains("shut down"), "{text}");
            assert!(text.contains("error") && !is_whole_stream(&text), "{text}");
        } else {
            assert_eq!(reply.status, 503, "{text}");
            assert_eq!(reply.header("x-sluicegate-reason"), "shutdown");
            assert_eq!(reply.header("x-should-retry"), "true");
        }
    }
    assert_eq!(gate.process.exit(secs(5)).await, Some(1));
    assert!(start.elapsed() < secs(6), "{:?}", start.elapsed());
    mock.in_flight(0).await;
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let mock = Mock::start(&["--script", "hang!"]).await;
    let mut gate = Gate::before(&mock, "").await;
    let calls = load(&gate, &mock, 3, 3).await;
    gate.process.signal("TERM");
    draining(&gate).await;
    let start = Instant::now();
    gate.process.signal("TERM");
    assert_eq!(gate.process.exit(secs(5)).await, Some(1));
    assert!(start.elapsed() < secs(4), "{:?}", start.elapsed());
    for (_, reply) in calls.join_all().await {
        assert_eq!(reply.status, 503);
        assert_eq!(reply.header("x-sluicegate-error"), "shutting_down");
    }
}

#[tokio::test]
async fn a_gate_without_calls_ends_at_once_however_many_connections_rest() {
    let mock = Mock::start(&[]).await;
    let mut gate = Gate::before(&mock, "").await;
    let mut resting: Vec<Client> = Vec::new();
    for _ in 0..20 {
        let mut client = gate.client().await;
        assert_eq!(client.send(chat("hello", false)).await.whole().await.status, 200);
        resting.push(client);
    }
    let start = Instant::now();
    gate.process.signal("TERM");
    assert_eq!(gate.process.exit(secs(5)).await, Some(0));
    assert!(start.elapsed() < secs(2), "{:?}", start.elapsed());
}

/// Opens a connection and sends one request.
async fn come(at: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(at).await?;
    // Whoever is turned away here has no answer to show below.
    let request = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let _sent = stream.write_all(request).await;
    Ok(stream)
}

/// Reads a whole answer to its end. Returns its status.
async fn told(mut stream: TcpStream) -> u16 {
    let mut answer = Vec::new();
    let read = timeout(secs(20), stream.read_to_end(&mut answer)).await.expect("the connection ends");
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{read:?}: {answer:?}"));
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    assert_eq!(length, Some(&*body.len().to_string()), "{answer}");
    head["HTTP/1.1 ".len()..][..3].parse().expect("a status")
}

#[tokio::test]
async fn whoever_is_let_in_is_answered_until_the_port_is_closed() {
    let mock = Mock::start(&["--latency", "300ms"]).await;
    let mut gate = Gate::before(&mock, "").await;
    let calls = load(&gate, &mock, 1, 0).await;
    let mut comers = JoinSet::new();
    for _ in 0..16 {
        let at = gate.at;
        comers.spawn(async move {
            let mut statuses = Vec::new();
            while let Ok(stream) = come(at).await {
                statuses.push(told(stream).await);
            }
            statuses
        });
    }
    gate.process.signal("TERM");
    assert!(calls.join_all().await.iter().all(|(_, reply)| reply.status == 200));
    let statuses = comers.join_all().await.concat();
    assert!(statuses.iter().all(|status| [404, 503].contains(status)), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 503).count() > 16, "{}", statuses.len());
    assert_eq!(gate.process.exit(secs(5)).await, Some(0));
}

#[tokio::test]
async fn whoever_waits_to_be_let_in_when_the_port_closes_is_answered() {
    let mock = Mock::start(&[]).await;
    for _ in 0..3 {
        let mut gate = Gate::before(&mock, "").await;
        // While the process stands still, the system lets clients in and the signal waits.
        gate.process.signal("STOP");
        let mut waiting = Vec::new();
        for _ in 0..800 {
            waiting.push(come(gate.at).await.expect("the system lets it in"));
        }
        gate.process.signal("TERM");
        gate.process.signal("CONT");
        for stream in waiting {
            assert!([404, 503].contains(&told(stream).await));
        }
        assert_eq!(gate.process.exit(secs(5)).await, Some(0));
    }
}
