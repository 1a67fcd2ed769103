//! Going down: running calls finish, new ones are told, and what is left at the end gets an error it can read.

use std::sync::Arc;

use sluicegate::net::life::Step;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn running_calls_finish_and_new_ones_are_refused() {
    let (world, _mock) = World::before(mock_after(secs(5)));
    let world = Arc::new(world);
    let mut calls = tokio::task::JoinSet::new();
    for body in [chat("a"), chat_stream("b")] {
        let world = world.clone();
        calls.spawn(async move { world.post("/v1/chat/completions", body).await });
    }
    tokio::time::sleep(secs(1)).await;
    world.gate.life.advance(Step::Draining);
    let reply = world.post("/v1/messages", message("x", false)).await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("x-sluicegate-error"), "shutting_down");
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(reply.header("connection"), "close");
    assert_eq!(reply.json()["type"], "error");
    world.gate.life.empty().await;
    for reply in calls.join_all().await {
        assert_eq!(reply.status, 200);
        assert!(!reply.broken);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_gets_a_readable_end() {
    let steps = vec![
        Do::Write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                .to_vec(),
        ),
        Do::Write(chunk(b"data: {\"choices\":[]}\n\n")),
        Do::Hang,
    ];
    let provider = Arc::new(Scripted::new(steps));
    let world = Arc::new(World::around("", provider.clone()));
    let mut running = tokio::task::JoinSet::new();
    let calls = world.clone();
    running.spawn(async move { calls.post("/v1/chat/completions", chat_stream("x")).await });
    let (hanging, _mock) = World::before(mock_that("hang!"));
    let hanging = Arc::new(hanging);
    let mut waiting = tokio::task::JoinSet::new();
    let calls = hanging.clone();
    waiting.spawn(async move { calls.post("/v1/chat/completions", chat("x")).await });
    tokio::time::sleep(secs(1)).await;
    for world in [&world, &hanging] {
        world.gate.life.advance(Step::Draining);
        world.gate.life.advance(Step::Cut);
        world.gate.life.empty().await;
    }
    let stream = running.join_all().await.remove(0);
    assert!(!stream.broken);
    assert!(
        stream.text().contains("shutting_down") && !stream.text().contains("[DONE]"),
        "{}",
        stream.text()
    );
    let plain = waiting.join_all().await.remove(0);
    assert_eq!(plain.status, 503);
    assert_eq!(plain.header("x-sluicegate-reason"), "shutdown");
    assert_eq!(*provider.hang_ups.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_has_only_just_come_in_when_the_gate_closes_is_answered() {
    let (world, _mock) = World::before(mock());
    let mut spare = world.raw();
    tokio::time::sleep(secs(2)).await;
    let (mut quick, mut silent) = (world.raw(), world.raw());
    world.gate.life.advance(Step::Draining);
    tokio::time::sleep(millis(1)).await;
    let start = Instant::now();
    world.gate.life.advance(Step::Closed);
    let mut came = String::new();
    spare.read_to_string(&mut came).await.unwrap();
    assert!(start.elapsed() < millis(5), "one that has been silent for long is not waited for");
    tokio::time::sleep(millis(300)).await;
    quick.write_all(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    quick.read_to_string(&mut came).await.unwrap();
    assert!(came.starts_with("HTTP/1.1 503") && came.contains("shutting_down"), "{came}");
    assert!(start.elapsed() < millis(310));
    came.clear();
    silent.read_to_string(&mut came).await.unwrap();
    assert_eq!(came, "");
    assert!(start.elapsed() < millis(510));
}
