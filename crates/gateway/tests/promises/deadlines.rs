//! All waiting ends, and its end says which wait it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderValue, Method};

use crate::world::*;

async fn asks(world: &World, header: Option<(&'static str, &'static str)>, stream: bool) -> Reply {
    // No two are equal, so that each goes to the provider.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let prompt = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
    let body = if stream { chat_stream(&prompt) } else { chat(&prompt) };
    let mut asked = request(Method::POST, "/v1/chat/completions", body);
    if let Some((name, value)) = header {
        asked.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    world.ask(asked).await
}

#[tokio::test(start_paused = true)]
async fn a_hanging_provider_costs_the_learned_deadline() {
    let (world, mock) = World::before(mock_that("hang!"));
    let reply = asks(&world, None, false).await;
    assert_eq!(reply.status, 504);
    assert_eq!(reply.header("x-sluicegate-error"), "upstream_timeout");
    assert_eq!(reply.header("x-sluicegate-reason"), "first_byte");
    assert_eq!(reply.header("x-should-retry"), "false");
    assert_eq!(reply.took, secs(120));
    tokio::time::sleep(millis(100)).await;
    assert_eq!(mock.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_known_to_be_fast_is_given_up_sooner() {
    let (world, mock) = World::before(mock_after(millis(300)));
    for _ in 0..60 {
        assert_eq!(asks(&world, None, false).await.status, 200);
    }
    mock.set_script("hang!".parse().unwrap());
    assert_eq!(asks(&world, None, false).await.took, secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_one_holds() {
    let settings = "[timeouts]\nfirst_byte = \"2s\"\nstall = \"3s\"\ntotal = \"20s\"\n";
    let (world, mock) = World::with(settings, mock_that("hang!"));
    assert_eq!(asks(&world, None, true).await.took, secs(2));
    // Between bytes.
    mock.set_script("ok".parse().unwrap());
    let steps = vec![
        Do::Write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                .to_vec(),
        ),
        Do::Write(chunk(b"data: {\"choices\":[]}\n\n")),
        Do::Hang,
    ];
    let provider = Arc::new(Scripted::new(steps));
    let world = World::around(settings, provider.clone());
    let reply = asks(&world, None, true).await;
    assert_eq!(reply.took, secs(3));
    assert!(reply.text().contains("upstream_timeout"), "{}", reply.text());
    tokio::time::sleep(millis(100)).await;
    assert_eq!(*provider.hang_ups.lock(), 1);
    assert_eq!(world.records.last().error.unwrap().reason, Some("stall"));
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_deadline_is_its_own() {
    let (world, _mock) = World::before(mock_that("hang!"));
    for (header, stream, took) in [
        (("x-sluicegate-timeout", "1500ms"), false, millis(1500)),
        (("x-sluicegate-timeout", "2s"), true, secs(2)),
        (("x-stainless-timeout", "3"), false, secs(3)),
        (("x-stainless-read-timeout", "4.5"), true, millis(4500)),
    ] {
        let reply = asks(&world, Some(header), stream).await;
        assert_eq!(reply.status, 504, "{header:?}");
        assert_eq!(reply.header("x-sluicegate-error"), "deadline_exceeded", "{header:?}");
        assert_eq!(reply.header("x-should-retry"), "false");
        assert_eq!(reply.took, took, "{header:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_total_ends_a_stream_that_never_does() {
    let mut steps = vec![Do::Write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )];
    for _ in 0..1000 {
        steps.push(Do::Write(chunk(b"data: {\"choices\":[]}\n\n")));
        steps.push(Do::Pause(secs(1)));
    }
    let world = World::around("", Arc::new(Scripted::new(steps)));
    let reply = asks(&world, None, true).await;
    assert_eq!(reply.took, secs(600));
    assert!(reply.text().ends_with("\n\n") && reply.text().contains("deadline_exceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_queue_has_an_end_too() {
    let settings = "concurrency = 1\n[queue]\nmax = 1\ntimeout = \"5s\"\n";
    let (world, mock) = World::with(settings, mock_after(secs(60)));
    let world = Arc::new(world);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..3 {
        let world = world.clone();
        calls.spawn(async move {
            tokio::time::sleep(millis(number)).await;
            (number, world.post("/v1/chat/completions", chat(&number.to_string())).await)
        });
    }
    let mut replies = calls.join_all().await;
    replies.sort_by_key(|(number, _)| *number);
    assert_eq!(replies[0].1.status, 200);
    for (number, reason, took) in [(1, "queue_timeout", secs(5)), (2, "queue_full", secs(0))] {
        let reply = &replies[number].1;
        assert_eq!(reply.status, 429);
        assert_eq!(reply.header("x-sluicegate-error"), "overloaded");
        assert_eq!(reply.header("x-sluicegate-reason"), reason);
        assert_eq!(reply.header("x-should-retry"), "true");
        assert!(reply.header("retry-after").parse::<u64>().unwrap() >= 1);
        assert!(reply.took >= took && reply.took < took + millis(10), "{:?}", reply.took);
    }
    assert_eq!(mock.stats().most_in_flight, 1);
}
