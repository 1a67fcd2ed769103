//! A new configuration is taken over while calls run, or not at all.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::child::{Gate, Mock, config};
use crate::client::chat;
use crate::until::{secs, until};

const TAKEN: &str = "the configuration was reloaded";
const KEPT: &str = "the running configuration stays";

fn write(gate: &Gate, config: &str) {
    fs::write(gate.process.file("sluicegate.toml"), config).expect("the gate's own directory");
}

/// How many of twelve calls at once are in flight together.
async fn most_in_flight(gate: &Gate, mock: &Mock) -> u64 {
    mock.steer("/__reset", "").await;
    let mut calls = JoinSet::new();
    // No two are equal, in no rush either.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..12 {
        let mut client = gate.client().await;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        calls.spawn(async move { client.send(chat(&format!("call {number}"), false)).await.whole().await });
    }
    for reply in calls.join_all().await {
        assert_eq!(reply.status, 200);
    }
    mock.stats().await["most_in_flight"].as_u64().expect("a number")
}

#[tokio::test]
async fn on_sighup_the_cap_changes_and_calls_in_flight_go_on() {
    let mock = Mock::start(&["--latency", "200ms", "--chunks", "20", "--chunk-interval", "200ms"]).await;
    let gate = Gate::before(&mock, "concurrency = 3").await;
    assert_eq!(most_in_flight(&gate, &mock).await, 3);

    let mut streaming = gate.client().await;
    let mut stream = streaming.send(chat("a long one", true)).await;
    assert!(stream.next().await.is_some());
    write(&gate, &config("concurrency = 7", mock.at));
    gate.process.signal("HUP");
    gate.process.says(TAKEN).await;
    let reply = stream.whole().await;
    assert!(!reply.broken && reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
    assert_eq!(most_in_flight(&gate, &mock).await, 7);
}

#[tokio::test]
async fn a_changed_file_is_taken_without_a_signal() {
    let mock = Mock::start(&["--latency", "200ms"]).await;
    let gate = Gate::before(&mock, "concurrency = 2").await;
    write(&gate, &config("concurrency = 5", mock.at));
    gate.process.says(TAKEN).await;
    assert_eq!(most_in_flight(&gate, &mock).await, 5);
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_the_log_says_why() {
    let mock = Mock::start(&["--latency", "200ms"]).await;
    let gate = Gate::before(&mock, "concurrency = 2").await;
    write(&gate, &config("concurency = 9", mock.at));
    gate.process.signal("HUP");
    let line = gate.process.says(KEPT).await;
    for part in ["sluicegate.toml:1", "concurency", "`concurrency`"] {
        assert!(gate.process.log().contains(part), "{part} is not in {line}");
    }
    assert_eq!(most_in_flight(&gate, &mock).await, 2);
    // Mended, it is taken.
    write(&gate, &config("concurrency = 4", mock.at));
    gate.process.signal("HUP");
    gate.process.says(TAKEN).await;
    assert_eq!(most_in_flight(&gate, &mock).await, 4);
}

#[tokio::test]
async fn what_needs_a_restart_is_refused_as_a_whole() {
    let mock = Mock::start(&["--latency", "200ms"]).await;
    let gate = Gate::before(&mock, "concurrency = 2").await;
    write(&gate, &config("concurrency = 9\ndata_dir = \"elsewhere\"", mock.at));
    gate.process.signal("HUP");
    let line = gate.process.says(KEPT).await;
    assert!(line.contains("`data_dir`") && line.contains("restart"), "{line}");
    assert_eq!(most_in_flight(&gate, &mock).await, 2);
}

#[tokio::test]
async fn a_changed_listen_is_refused_and_the_old_address_serves() {
    let mock = Mock::start(&[]).await;
    // The address stands in the file here: a flag would win over it.
    let text =
        |listen: &str| config(&format!("listen = \"{listen}\"\nadmin_listen = \"127.0.0.1:0\""), mock.at);
    let gate = Gate::by_file(&text("127.0.0.1:0")).await;
    write(&gate, &text("127.0.0.1:1"));
    gate.process.signal("HUP");
    let line = gate.process.says(KEPT).await;
    assert!(line.contains("`listen`") && line.contains("restart"), "{line}");
    assert_eq!(gate.client().await.send(chat("hello", false)).await.status, 200);
}

#[tokio::test]
async fn a_provider_that_moves_gets_the_next_call_and_finishes_the_last() {
    let (old, new) = (Mock::start(&["--latency", "1s"]).await, Mock::start(&[]).await);
    let gate = Gate::before(&old, "").await;
    let mut client = gate.client().await;
    let running = client.try_send(chat("before", false));
    old.in_flight(1).await;
    write(&gate, &config("", new.at));
    gate.process.signal("HUP");
    gate.process.says(TAKEN).await;
    assert_eq!(gate.client().await.send(chat("after", false)).await.status, 200);
    assert_eq!(new.stats().await["arrived"], 1);
    assert_eq!(running.await.expect("an answer").whole().await.status, 200);
    let all = async || (old.stats().await["in_flight"] == 0).then_some(());
    until("the old provider is left alone", secs(5), all).await;
    assert_eq!(old.stats().await["arrived"], 1);
}
