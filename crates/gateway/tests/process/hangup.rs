//! A client that hangs up frees its provider call, wherever the call was.

use std::time::{Duration, Instant};

use crate::child::{Gate, Mock};
use crate::client::{chat, message};
use crate::until::{millis, secs, until};

/// Until the provider has noticed that a call was given up.
async fn freed(mock: &Mock) -> Duration {
    let start = Instant::now();
    until("the provider call is freed", secs(5), async || {
        (mock.stats().await["in_flight"] == 0).then_some(())
    })
    .await;
    start.elapsed()
}

/// All within the promised time; one may fall into a pause of the machine.
fn assert_prompt(mut times: Vec<Duration>) {
    times.sort_unstable();
    let last_but_one = times[times.len() - 2];
    assert!(last_but_one < millis(100), "{times:?}");
}

#[tokio::test]
async fn before_the_answer_begins() {
    let mock = Mock::start(&["--latency", "60s"]).await;
    let gate = Gate::before(&mock, "").await;
    let mut times = Vec::new();
    for at in 0..20 {
        let mut client = gate.client().await;
        let request = if at % 2 == 0 { chat("hello", at % 4 == 0) } else { message("hello", at % 4 == 1) };
        let sent = client.try_send(request);
        mock.in_flight(1).await;
        drop((sent, client));
        times.push(freed(&mock).await);
    }
    assert_prompt(times);
    let stats = mock.stats().await;
    assert_eq!(stats["by_status"]["left"], 20);
    assert_eq!(stats["hang_ups"]["times"].as_array().map(Vec::len), Some(20));
    assert_eq!(stats["connections"]["open"], 0, "an abandoned connection carries no other call");
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let mock = Mock::start(&["--chunks", "1000", "--chunk-interval", "50ms"]).await;
    let gate = Gate::before(&mock, "").await;
    let mut times = Vec::new();
    for at in 0..20 {
        let mut client = gate.client().await;
        let request = if at % 2 == 0 { chat("hello", true) } else { message("hello", true) };
        let mut answer = client.send(request).await;
        for _piece in 0..=at % 3 {
            assert!(answer.next().await.is_some());
        }
        drop((answer, client));
        times.push(freed(&mock).await);
    }
    assert_prompt(times);
    assert_eq!(mock.stats().await["hang_ups"]["count"], 20);
}

#[tokio::test]
async fn in_the_queue() {
    let mock = Mock::start(&["--latency", "60s"]).await;
    let gate = Gate::before(&mock, "concurrency = 1").await;
    let mut first = gate.client().await;
    let holds = first.try_send(chat("first", false));
    mock.in_flight(1).await;
    let mut second = gate.client().await;
    let waits = second.try_send(chat("second", false));
    let waiting = async |calls: &str| {
        let metrics = crate::client::get(gate.admin, "/metrics").await.text();
        let line = format!("sluicegate_waiting{{provider=\"openai\"}} {calls}");
        metrics.lines().any(|found| found == line).then_some(())
    };
    until("a call waits", secs(5), async || waiting("1").await).await;
    drop((waits, second));
    until("no call waits", secs(5), async || waiting("0").await).await;
    drop((holds, first));
    mock.in_flight(0).await;
    assert_eq!(mock.stats().await["arrived"], 1, "the one that left the queue was never sent");
}
