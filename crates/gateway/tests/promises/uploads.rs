//! Bodies that pass as they arrive: a slow caller is no slow provider, and a bad one is told so.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::world::*;

const SETTINGS: &str = "max_body = \"64KiB\"\n[timeouts]\nfirst_byte = \"5s\"\n";
const HEAD: &str = "POST /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";

/// Takes what comes and answers when the head says that it is all here.
fn provider() -> Arc<Scripted> {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec();
    Arc::new(Scripted::new(vec![Do::Write(answer)]))
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_longer_than_a_provider_may_is_not_cut() {
    let provider = provider();
    let world = World::around(SETTINGS, provider.clone());
    let mut io = world.raw();
    io.write_all(format!("{HEAD}content-length: 30\r\n\r\n").as_bytes()).await.unwrap();
    for _ in 0..30 {
        tokio::time::sleep(secs(4)).await;
        io.write_all(b"a").await.unwrap();
    }
    let mut answer = String::new();
    timeout(secs(10), io.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(provider.received.lock()[0].ends_with(&[b'a'; 30]));
}

#[tokio::test(start_paused = true)]
async fn one_that_stops_is_the_callers_fault() {
    let provider = provider();
    let world = World::around(SETTINGS, provider.clone());
    let start = Instant::now();
    let answer = world.exchange(format!("{HEAD}content-length: 30\r\n\r\nabc").as_bytes(), secs(100)).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(provider.received.lock().len(), 0, "no whole request arrived");
    assert_eq!(world.records.last().error.expect("an error").code, "request_timeout");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_silent_after_it_is_given_up() {
    let world = World::around(SETTINGS, Arc::new(Scripted::new(vec![Do::Hang])));
    let start = Instant::now();
    let answer = world.exchange(format!("{HEAD}content-length: 3\r\n\r\nabc").as_bytes(), secs(100)).await;
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("upstream_timeout"), "{answer}");
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn one_that_grows_too_large_or_breaks_off_is_refused_as_such() {
    let piece = String::from_utf8(chunk(&[b'a'; 1024])).unwrap();
    let large = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", piece.repeat(70));
    let broken = format!("{HEAD}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n");
    for (name, bytes, status) in [("too large", large, 413), ("no chunk", broken, 400)] {
        let world = World::around(SETTINGS, Arc::new(Scripted::new(vec![Do::Hang])));
        let answer = world.exchange(bytes.as_bytes(), secs(100)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_held_back_is_not_asked_for_in_vain() {
    let world = World::around(SETTINGS, provider());
    let start = Instant::now();
    for (target, length, status) in [
        ("/v1/chat/completions", 70_000, 413),
        ("/v1/files", 70_000, 413),
        ("/to/nobody/files", 10, 404),
        ("/nowhere", 10, 404),
    ] {
        let bytes = format!(
            "POST {target} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        );
        let answer = world.exchange(bytes.as_bytes(), secs(1)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{target}: {answer}");
    }
    let wanted = format!("{HEAD}expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc");
    let answer = world.exchange(wanted.as_bytes(), secs(1)).await;
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), "{answer}");
    assert!(start.elapsed() < secs(5), "{:?}", start.elapsed());
}
