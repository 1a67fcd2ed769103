//! What comes in by mistake or by malice costs a bounded amount of memory, and nobody else anything.

use std::time::Instant;

use bytes::Bytes;
use http::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::child::{Gate, Mock};
use crate::client::{chat, raw, request};
use crate::until::{millis, secs, until};

const MIB: u64 = 1 << 20;

/// Sends a call many times over eight connections; each must be answered with `status`.
async fn many(gate: &Gate, times: usize, body: &Bytes, status: u16) {
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let (mut client, body) = (gate.client().await, body.clone());
        workers.spawn(async move {
            for _ in (worker..times).step_by(8) {
                let call = request(Method::POST, "/v1/chat/completions", body.clone());
                assert_eq!(client.send(call).await.whole().await.status, status);
            }
        });
    }
    workers.join_all().await;
}

fn prompt_of(bytes: usize) -> Bytes {
    let prompt = "word ".repeat(bytes / 5);
    serde_json::json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": prompt}]})
        .to_string()
        .into()
}

#[tokio::test]
async fn one_byte_too_many_is_refused_and_its_sender_can_read_it() {
    let mock = Mock::start(&[]).await;
    let gate = Gate::before(&mock, "").await;
    let length = 64 * MIB as usize + 1;
    for path in ["/v1/chat/completions", "/v1/files", "/to/openai/files"] {
        let mut bytes = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        )
        .into_bytes();
        bytes.resize(bytes.len() + length, b' ');
        let answer = raw(gate.at, &bytes).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
        assert!(answer.contains("request_too_large") && answer.ends_with('}'), "{path}: {answer}");
    }
    assert_eq!(mock.stats().await["arrived"], 0);
}

#[tokio::test]
async fn a_refused_upload_can_be_sent_to_its_end_by_who_reads_only_then() {
    let mock = Mock::start(&[]).await;
    let keyless = format!(
        "[providers.openai]\nbase_url = \"http://{}/v1\"\n[providers.groq]\nbase_url = \"https://127.0.0.1:1\"\n",
        mock.at
    );
    let gate = Gate::with(&keyless, &[]).await;
    let body = vec![b' '; 30 * MIB as usize];
    for (path, status) in [("/nowhere", 404), ("/to/nobody/files", 404), ("/to/groq/files", 401)] {
        let mut stream = TcpStream::connect(gate.at).await.expect("a connection");
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&body).await.unwrap_or_else(|broken| panic!("{path}: {broken}"));
        let mut answer = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer).await.expect("an answer");
        assert_eq!(answer, *format!("HTTP/1.1 {status}").as_bytes(), "{path}");
    }
}

#[tokio::test]
async fn slow_senders_do_no_harm_and_are_sent_away() {
    let mock = Mock::start(&[]).await;
    let gate = Gate::before(&mock, "header_timeout = \"3s\"").await;
    let mut slow = JoinSet::new();
    for _ in 0..1000 {
        let mut stream = TcpStream::connect(gate.at).await.expect("a connection");
        stream
            .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            .await
            .expect("sent");
        slow.spawn(async move {
            let mut answer = String::new();
            let _reset = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await;
            answer
        });
    }
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(gate.client().await.send(chat("hello", false)).await.status, 200);
    }
    assert!(start.elapsed() < secs(2), "{:?}", start.elapsed());
    let answers = tokio::time::timeout(secs(20), slow.join_all()).await.expect("all are sent away");
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 408")));
}

#[tokio::test]
async fn memory_is_given_back_after_large_bodies() {
    let mock = Mock::start(&[]).await;
    let gate = Gate::before(&mock, "").await;
    let body = prompt_of(1 << 20);
    many(&gate, 60, &body, 200).await;
    let before = gate.process.resident();
    many(&gate, 300, &body, 200).await;
    settles_below(&gate, before + 24 * MIB).await;
}

#[tokio::test]
async fn memory_does_not_grow_with_failures() {
    let mock = Mock::start(&["--script", "503"]).await;
    let gate = Gate::before(&mock, "").await;
    let body = prompt_of(100_000);
    many(&gate, 500, &body, 503).await;
    let before = gate.process.resident();
    many(&gate, 2000, &body, 503).await;
    settles_below(&gate, before + 12 * MIB).await;
}

/// Freed memory goes back to the system with a delay.
async fn settles_below(gate: &Gate, bound: u64) {
    let what = format!("at most {} MiB resident", bound / MIB);
    until(&what, secs(10), async || (gate.process.resident() <= bound).then_some(())).await;
}

#[tokio::test]
async fn without_files_for_connections_it_waits_and_says_so_once_a_second() {
    let mock = Mock::start(&[]).await;
    let gate = Gate::before(&mock, "").await;
    let mut known = gate.client().await;
    assert_eq!(known.send(chat("hello", false)).await.whole().await.status, 200);
    let open = std::fs::read_dir(format!("/proc/{}/fd", gate.process.pid())).expect("Linux").count() as u64;
    let most = (open + 5, open + 5);
    let pid = i32::try_from(gate.process.pid()).expect("a process");
    rlimit::prlimit(pid, rlimit::Resource::NOFILE, Some(most), None).expect("our own child");
    let busy = gate.process.processor_time();
    let start = Instant::now();
    let mut crowd = Vec::new();
    for _ in 0..20 {
        crowd.push(TcpStream::connect(gate.at).await.expect("the system takes it"));
    }
    gate.process.says("connections can't be accepted").await;
    until("three seconds", secs(4), async || (start.elapsed() > secs(3)).then_some(())).await;
    let said = gate.process.log().matches("connections can't be accepted").count();
    assert!((2..=4).contains(&said), "{said} times:\n{}", gate.process.log());
    let busy = gate.process.processor_time() - busy;
    assert!(busy < millis(500), "busy for {busy:?} of three seconds");
    // Who is in is served, and who waits is let in as soon as there is room.
    assert_eq!(known.send(chat("hello", false)).await.whole().await.status, 200);
    drop(crowd);
    assert_eq!(gate.client().await.send(chat("hello", false)).await.whole().await.status, 200);
}
