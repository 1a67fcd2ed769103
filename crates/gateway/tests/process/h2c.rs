//! Clients that speak HTTP/2 by prior knowledge: one connection, many calls, the same promises.

use tokio::task::JoinSet;

use crate::child::{Gate, Mock};
use crate::client::{Client, chat, message};
use crate::until::{secs, until};

#[tokio::test]
async fn many_calls_on_one_connection() {
    let mock = Mock::start(&["--latency", "500ms"]).await;
    let gate = Gate::before(&mock, "").await;
    let mut client = Client::connect_h2(gate.at).await;
    let mut calls = JoinSet::new();
    for at in 0..40 {
        let prompt = format!("hello {at}");
        let request = if at % 2 == 0 { chat(&prompt, at % 4 == 0) } else { message(&prompt, at % 4 == 1) };
        let sent = client.try_send(request);
        calls.spawn(async move { sent.await.expect("an answer").whole().await });
    }
    for reply in calls.join_all().await {
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false));
        assert_eq!(reply.header("connection"), "");
    }
    assert_eq!(mock.stats().await["most_in_flight"], 40);
}

#[tokio::test]
async fn a_reset_stream_frees_its_call_and_no_other() {
    let mock = Mock::start(&["--latency", "3s"]).await;
    let gate = Gate::before(&mock, "").await;
    let mut client = Client::connect_h2(gate.at).await;
    let stays = client.try_send(chat("stays", false));
    let leaves = client.try_send(chat("leaves", true));
    mock.in_flight(2).await;
    drop(leaves);
    until("the call that left is freed", secs(2), async || {
        (mock.stats().await["hang_ups"]["count"] == 1).then_some(())
    })
    .await;
    assert_eq!(stays.await.expect("an answer").whole().await.status, 200);
}

#[tokio::test]
async fn a_drain_finishes_what_runs_and_refuses_what_comes() {
    let mock = Mock::start(&["--latency", "1.5s"]).await;
    let mut gate = Gate::before(&mock, "").await;
    let mut client = Client::connect_h2(gate.at).await;
    let running = [client.try_send(chat("a", false)), client.try_send(chat("b", true))];
    mock.in_flight(2).await;
    gate.process.signal("TERM");
    until("the gate drains", secs(5), async || (gate.admin("/readyz").await == 503).then_some(())).await;
    let late = client.send(chat("late", false)).await.whole().await;
    assert_eq!(late.status, 503);
    assert_eq!(late.header("x-sluicegate-error"), "shutting_down");
    for call in running {
        let reply = call.await.expect("an answer").whole().await;
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false));
    }
    assert_eq!(gate.process.exit(secs(5)).await, Some(0));
}

#[tokio::test]
async fn a_cut_drain_ends_streams_with_an_error_event() {
    let mock = Mock::start(&["--chunk-interval", "10s"]).await;
    let mut gate = Gate::before(&mock, "drain = \"200ms\"").await;
    let mut client = Client::connect_h2(gate.at).await;
    let answer = client.send(message("hello", true)).await;
    gate.process.signal("TERM");
    let reply = answer.whole().await;
    assert!(!reply.broken);
    assert!(reply.text().contains("event: error"), "{}", reply.text());
    assert_eq!(gate.process.exit(secs(5)).await, Some(1));
}
