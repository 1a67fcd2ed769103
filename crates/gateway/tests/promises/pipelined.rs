//! Requests that follow each other on one connection are each judged as if it were the only one.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::world::*;

const LINE: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";

fn good() -> Vec<u8> {
    sized(&chat("x"))
}

fn sized(body: &str) -> Vec<u8> {
    format!("{LINE}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A chunked request whose body holds what looks like another request's head, with an extension and a trailer.
fn chunked() -> Vec<u8> {
    let mut bytes = format!("{LINE}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    let body = chat("x\r\n\r\nPOST / HTTP/1.1\r\n\r\n0\r\n\r\n");
    let (first, second) = body.split_at(body.len() / 2);
    bytes.extend_from_slice(&chunk(first.as_bytes()));
    bytes.extend_from_slice(format!("{:X};a=b\r\n{second}\r\n0\r\nA: b\r\n\r\n", second.len()).as_bytes());
    bytes
}

/// One whose body passes as it arrives.
fn upload() -> Vec<u8> {
    let part = |name: &str, text: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a\"\r\n\r\n{text}\r\n")
    };
    let body = format!("{}{}--b--\r\n", part("purpose", "batch"), part("file", "GET / HTTP/1.1\r\n\r\n"));
    let head =
        "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

const FIT: usize = 6;

/// Requests of every kind, the first `FIT` of which are fit to be served.
fn kinds() -> Vec<Vec<u8>> {
    let body = chat("x");
    let length = body.len();
    let with = |head: &str| format!("{LINE}{head}\r\n{body}").into_bytes();
    vec![
        good(),
        chunked(),
        upload(),
        b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        [b"\r\n".to_vec(), good()].concat(),
        with(&format!("Content-Length: {length}\r\nX-Long: {}\r\n", "x".repeat(5000))),
        with(&format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n")),
        with(&format!("Content-Length: {length}\r\nContent-Length: {length}\r\n")),
        with(&format!("Content-Length: {length}\nX: y\r\n")),
        with("Transfer-Encoding: gzip, chunked\r\n"),
        format!("{LINE}Transfer-Encoding: chunked\r\n\r\nnone\r\n").into_bytes(),
        b"GET /v1/models HTTP/1.1\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
    ]
}

/// Writes `pieces` with a pause before each, and returns all that comes back.
async fn exchange(world: &World, pieces: &[(u64, &[u8])]) -> String {
    let (mut read, mut write) = tokio::io::split(world.raw());
    let sending = async {
        for (pause, piece) in pieces {
            tokio::time::sleep(millis(*pause)).await;
            if write.write_all(piece).await.is_err() {
                break;
            }
        }
    };
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(secs(9), read.read_to_end(&mut answer));
    let (_sent, _open_still) = tokio::join!(sending, reading);
    String::from_utf8(answer).expect("text")
}

/// What each kind is told on a connection of its own.
async fn alone(world: &World, kinds: &[Vec<u8>]) -> Vec<String> {
    let mut verdicts = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let answer = exchange(world, &[(0, kind)]).await;
        let verdict = statuses(&answer);
        assert_eq!(verdict.len(), 1, "{answer}");
        assert_eq!(verdict[0] == "400", at >= FIT, "{answer}");
        verdicts.push(verdict[0].to_owned());
    }
    verdicts
}

#[test]
fn verdicts_are_those_of_one_request_a_connection_however_the_bytes_come() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().expect("a runtime");
    let (kinds, (world, mock)) =
        (kinds(), runtime.block_on(async { World::with(UNSHARED, mock_after(millis(20))) }));
    let alone = runtime.block_on(alone(&world, &kinds));
    let some = (
        prop::collection::vec(prop_oneof![4 => 0..FIT, 1 => FIT..kinds.len()], 1..7),
        prop::collection::vec((prop_oneof![0..3u64, 0..40u64], prop_oneof![1..20usize, 1..6000usize]), 1..30),
    );
    proptest!(ProptestConfig::with_cases(200), |((chosen, cuts) in some)| {
        let bytes: Vec<u8> = chosen.iter().flat_map(|kind| kinds[*kind].clone()).collect();
        let mut pieces = Vec::new();
        let mut rest = bytes.as_slice();
        for (pause, size) in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            // Enough of them: what is left comes in one.
            let last = pieces.len() > 200;
            pieces.push((*pause, if last { rest } else { piece }));
            rest = after;
            if last || rest.is_empty() {
                break;
            }
        }
        mock.reset();
        let answer = runtime.block_on(exchange(&world, &pieces));
        let mut expected: Vec<&str> = chosen.iter().map(|kind| &*alone[*kind]).collect();
        // Where a refused request ends, nobody knows: nothing after it is served.
        if let Some(bad) = chosen.iter().position(|kind| *kind >= FIT) {
            expected.truncate(bad + 1);
        }
        let served = expected.iter().filter(|status| **status == "200").count();
        prop_assert_eq!(statuses(&answer), expected, "{}", answer);
        prop_assert_eq!(mock.requests(100).len(), served);
    });
}

#[tokio::test(start_paused = true)]
async fn a_head_that_stops_behind_a_request_has_the_deadline_of_any_other() {
    for partial in ["P", "POST /v1/chat/completions HTTP/1.1\r\nHost: loc"] {
        for while_served in [false, true] {
            let (world, _mock) = World::before(mock_after(secs(5)));
            let start = Instant::now();
            let (mut io, mut bytes) = (world.raw(), good());
            if while_served {
                io.write_all(&bytes).await.unwrap();
                tokio::time::sleep(secs(1)).await;
                bytes.clear();
            }
            bytes.extend_from_slice(partial.as_bytes());
            io.write_all(&bytes).await.unwrap();
            let mut answer = String::new();
            io.read_to_string(&mut answer).await.unwrap();
            assert_eq!(statuses(&answer), ["200", "408"], "{answer}");
            // The provider's time, then the head's.
            assert_eq!(start.elapsed().as_secs(), 15);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_line_behind_a_request_is_no_head() {
    let (world, _mock) = World::before(mock());
    let mut io = world.raw();
    io.write_all(&[good(), b"\r\n".to_vec()].concat()).await.unwrap();
    tokio::time::sleep(secs(60)).await;
    io.write_all(&good()).await.unwrap();
    let mut answer = String::new();
    io.read_to_string(&mut answer).await.unwrap();
    assert_eq!(statuses(&answer), ["200", "200"], "{answer}");
}

#[tokio::test(start_paused = true)]
async fn who_has_sent_ahead_and_leaves_is_missed_at_once() {
    for ahead in [good(), good()[..30].to_vec(), b"GET /v1/models HTTP/1.1\r\n\r\n".to_vec()] {
        let (world, mock) = World::before(mock_that("hang!"));
        let mut io = world.raw();
        io.write_all(&good()).await.unwrap();
        tokio::time::sleep(secs(1)).await;
        io.write_all(&ahead).await.unwrap();
        tokio::time::sleep(secs(1)).await;
        assert_eq!(mock.stats().in_flight, 1);
        drop(io);
        tokio::time::sleep(millis(100)).await;
        assert_eq!(mock.stats().in_flight, 0);
        assert_eq!(mock.requests(100).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_is_kept_waits_with_its_sender() {
    let (world, mock) = World::before(mock_after(secs(1)));
    let prompts: Vec<String> = ('a'..='h').map(|letter| letter.to_string().repeat(300_000)).collect();
    let bytes: Vec<u8> = prompts.iter().flat_map(|prompt| sized(&chat(prompt))).collect();
    let answer = exchange(&world, &[(0, &bytes)]).await;
    assert_eq!(statuses(&answer), ["200"; 8]);
    let reached = mock.requests(100);
    assert_eq!(reached.len(), 8);
    for prompt in prompts {
        assert!(reached.iter().any(|request| request.body == chat(&prompt).as_bytes()));
    }
}
