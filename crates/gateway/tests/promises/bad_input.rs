//! Whatever comes in, the answer has the right status, nothing panics and nothing reaches a provider.

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn bodies_that_are_no_request() {
    let (world, mock) = World::before(mock());
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{{\"model\":\"gpt-x\",\"messages\":{deep}}}");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", b"".to_vec()),
        ("truncated", b"{\"model\":\"gpt-x\",\"messages\":[".to_vec()),
        ("no object", b"[1,2]".to_vec()),
        ("trailing", b"{\"model\":\"gpt-x\"} x".to_vec()),
        ("deep", deep.into_bytes()),
        ("not utf-8", b"{\"model\":\"gpt-\xff\"}".to_vec()),
        ("twice", b"{\"model\":\"gpt-x\",\"model\":\"gpt-y\"}".to_vec()),
        ("twice, escaped", b"{\"model\":\"gpt-x\",\"mod\\u0065l\":\"gpt-y\"}".to_vec()),
        ("wrong model", b"{\"model\":7}".to_vec()),
        ("wrong stream", b"{\"model\":\"gpt-x\",\"stream\":\"yes\"}".to_vec()),
        ("wrong limit", b"{\"model\":\"gpt-x\",\"max_tokens\":\"many\"}".to_vec()),
    ];
    for (name, body) in cases {
        for path in ["/v1/chat/completions", "/v1/messages"] {
            let reply = world.post(path, body.clone()).await;
            assert_eq!(reply.status, 400, "{name}: {}", reply.text());
            assert_eq!(reply.header("x-sluicegate-error"), "invalid_request", "{name}");
        }
    }
    assert_eq!(mock.requests(100).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_model_is_the_providers_to_judge() {
    let (world, _mock) = World::before(mock());
    let reply =
        world.post("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}").await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.header("x-sluicegate-error"), "");
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_refused_and_its_sender_reads_why() {
    let (world, mock) = World::with("max_body = \"64KiB\"\n", mock());
    for path in ["/v1/chat/completions", "/v1/files"] {
        let reply = world.post(path, vec![b' '; 64 * 1024 + 1]).await;
        assert_eq!(reply.status, 413, "{path}");
        assert_eq!(reply.header("x-sluicegate-error"), "request_too_large");
    }
    // Without a length it is noticed on the way.
    let mut bytes =
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for _ in 0..70 {
        bytes.extend_from_slice(&chunk(&[b' '; 1024]));
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    let answer = world.exchange(&bytes, secs(1)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(mock.requests(100).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn heads_that_can_be_read_in_two_ways() {
    let (world, mock) = World::with(UNSHARED, mock());
    let body = chat("x");
    let length = body.len();
    let line = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";
    for head in [
        format!("{line}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        format!("{line}Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("{line}Content-Length: {length}\r\nContent-Length: {length}\r\n"),
        format!("{line}Content-Length: {length}\r\nContent-Length: 3\r\n"),
        format!("{line}Content-Length: +{length}\r\n"),
        format!("{line}Content-Length: {length}, {length}\r\n"),
        format!("{line}Transfer-Encoding: gzip\r\n"),
        format!("{line}Transfer-Encoding: chunked, identity\r\n"),
        format!("{line}Transfer-Encoding: gzip, chunked\r\n"),
        format!("{line}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        format!("{line}Content-Length: {length}\nX: y\r\n"),
        format!("{line} Content-Length: {length}\r\n"),
        format!("{line}Content-Length : {length}\r\n"),
        format!("{line}X: a\0b\r\n"),
        format!("{line}X: {}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n", "x".repeat(70_000)),
        format!("{line}Content-Length: {length}\r\nHost: localhost\r\n"),
        format!("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {length}\r\n"),
        format!("POST http://localhost/v1/chat/completions HTTP/1.1\r\nContent-Length: {length}\r\n"),
    ] {
        let bad = format!("{head}\r\n{body}");
        let good = format!("{line}Content-Length: {length}\r\n\r\n{body}");
        let answer = world.exchange(bad.as_bytes(), secs(20)).await;
        assert_eq!(statuses(&answer), ["400"], "{head:?}: {answer}");
        let answer = world.exchange(format!("{good}{bad}{good}").as_bytes(), secs(20)).await;
        assert_eq!(statuses(&answer), ["200", "400"], "behind another one, {head:?}: {answer}");
    }
    let reached = mock.requests(100);
    assert!(reached.iter().all(|request| request.body.len() == length), "{reached:?}");
    assert_eq!(reached.len(), 18, "only the good ones");
    // One of another version may do without the host.
    let answer = world
        .exchange(
            format!("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")
                .as_bytes(),
            secs(20),
        )
        .await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn slow_heads_and_bodies_are_not_waited_for_for_ever() {
    let (world, _mock) = World::before(mock());
    let start = tokio::time::Instant::now();
    let answer = world.exchange(b"POST /v1/chat/completions HTTP/1.1\r\nHost: loc", secs(100)).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length: usize =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    assert_eq!(body.len(), length);
    assert!(start.elapsed() <= secs(11), "{:?}", start.elapsed());
    // Where nothing came, the connection just ends.
    assert_eq!(world.exchange(b"", secs(100)).await, "");
    let start = tokio::time::Instant::now();
    let answer = world
        .exchange(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\ncontent-length: 100\r\n\r\n{",
            secs(100),
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(start.elapsed() <= secs(101));
}

#[tokio::test(start_paused = true)]
async fn ways_around_the_path() {
    let (world, mock) = World::before(mock());
    for target in [
        "//v1/chat/completions",
        "/v1/../v1/chat/completions",
        "/v1/./chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1\\chat\\completions",
        "/to//v1/chat/completions",
        "/to/openai",
        "*",
    ] {
        let bytes = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
        );
        let answer = world.exchange(bytes.as_bytes(), secs(20)).await;
        let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(["404", "400"].contains(&status.as_str()), "{target}: {answer}");
    }
    // In absolute form the name in the target counts as well.
    let bytes = b"GET http://evil.test/v1/models HTTP/1.1\r\nHost: localhost\r\nconnection: close\r\n\r\n";
    assert!(world.exchange(bytes, secs(20)).await.starts_with("HTTP/1.1 403"));
    assert_eq!(mock.requests(100).len(), 0);
}
