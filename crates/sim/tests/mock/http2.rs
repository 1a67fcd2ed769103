//! HTTP/2 with prior knowledge on the same port.

use std::time::Duration;

use crate::support::{Client, chat, post, scripted, streamed};
use sim::mock::{Mock, Options, Tuning};
use tokio::net::TcpStream;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn both_versions_are_served_on_one_port() {
    let mock = Mock::start_local(Options::strict()).await.unwrap();
    let mut one = Client::tcp(mock.addr()).await;
    let mut two = Client::http2(TcpStream::connect(mock.addr()).await.unwrap()).await;
    for request in [chat("x"), streamed(chat("x"))] {
        assert_eq!(one.post(CHAT, &request).await.body, two.post(CHAT, &request).await.body);
    }
    assert_eq!(mock.requests(1)[0].version, "HTTP/2.0");
    mock.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_streams_than_allowed_run_on_one_connection() {
    let tuning = Tuning { latency: Duration::from_secs(1), ..Tuning::default() };
    let mock = Mock::in_memory(Options { tuning, h2_max_streams: 3, ..Options::default() });
    let mut client = Client::http2(mock.connect()).await;
    // The first call waits for the settings, which tell how many streams there may be.
    client.post(CHAT, &chat("first")).await;
    let began = tokio::time::Instant::now();
    let mut calls = Vec::new();
    for number in 0..7 {
        calls.push(client.start(post(CHAT, &chat(&number.to_string()))));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().status(), 200);
    }
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    let stats = mock.stats();
    assert_eq!((stats.most_in_flight, stats.connections.most_open), (3, 1));
    assert_eq!(stats.connections.most_calls_on_one, 8);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_given_up_frees_its_call_and_leaves_the_others() {
    let tuning = Tuning { latency: Duration::from_secs(10), ..Tuning::default() };
    let mock = Mock::in_memory(Options { tuning, ..Options::default() });
    let mut client = Client::http2(mock.connect()).await;
    let kept = client.start(post(CHAT, &chat("kept")));
    let given_up = client.start(post(CHAT, &chat("given up")));
    assert!(tokio::time::timeout(Duration::from_secs(1), given_up).await.is_err());
    tokio::time::sleep(Duration::from_millis(1)).await;
    let stats = mock.stats();
    assert_eq!((stats.in_flight, stats.hang_ups.count), (1, 1));
    assert_eq!(kept.await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_hang_drops_the_whole_connection() {
    let mock = scripted("hang 5s; ok");
    let mut client = Client::http2(mock.connect()).await;
    let began = tokio::time::Instant::now();
    assert!(client.send(post(CHAT, &chat("x"))).await.is_err());
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(mock.stats().connections.open, 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_mock_ends_what_hangs() {
    let mock = scripted("hang!");
    let mut client = Client::http2(mock.connect()).await;
    let call = client.start(post(CHAT, &chat("x")));
    assert!(tokio::time::timeout(Duration::from_secs(5), call).await.is_err());
    let again = client.start(post(CHAT, &chat("x")));
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::time::timeout(Duration::from_secs(1), mock.shutdown()).await.expect("all tasks ended");
    assert!(again.await.is_err());
}
