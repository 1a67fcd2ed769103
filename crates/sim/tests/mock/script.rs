//! The script's modes, as a client sees them.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::support::{Client, chat, post, scripted, streamed, with};
use http_body_util::BodyExt;
use sim::mock::{Mock, Options, Script, Tuning};
use tokio::time::{Instant, timeout};

const CHAT: &str = "/v1/chat/completions";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn phases_follow_each_other_in_time() {
    let mock = scripted("ok 15s; 503 60s; ok");
    let mut client = Client::in_memory(&mock).await;
    for (status, wait) in [(200, 15), (503, 60), (200, 3600), (200, 0)] {
        assert_eq!(client.post(CHAT, &chat("x")).await.status, status);
        tokio::time::advance(secs(wait)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_come_in_the_shape_of_the_provider_with_their_hint() {
    let mock = scripted("429(retry-after=2) 2x; 529 1x; 201");
    let mut client = Client::in_memory(&mock).await;
    let openai = client.post(CHAT, &chat("x")).await;
    assert_eq!((openai.status.as_u16(), openai.header("retry-after")), (429, "2"));
    assert_eq!(openai.json()["error"]["code"], "rate_limit_exceeded");
    let anthropic = client.post("/v1/messages", &chat("x")).await;
    assert_eq!(anthropic.json()["error"]["type"], "rate_limit_error");
    let overloaded = client.post("/v1/messages", &chat("x")).await;
    assert_eq!(overloaded.json()["error"]["type"], "overloaded_error");
    assert_eq!(overloaded.header("retry-after"), "");
    let created = client.post(CHAT, &chat("x")).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["object"], "chat.completion");
}

#[tokio::test(start_paused = true)]
async fn a_script_can_be_for_some_paths_only() {
    let options = Options {
        script: "503".parse().unwrap(),
        script_paths: vec!["/v1/chat".into(), "/v1/emb".into()],
        ..Options::default()
    };
    let mock = Mock::in_memory(options);
    let mut client = Client::in_memory(&mock).await;
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 503);
    assert_eq!(client.post("/v1/messages", &chat("x")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_hang_drops_its_connections_when_the_phase_ends() {
    let mock = scripted("hang 20s; ok");
    let mut client = Client::in_memory(&mock).await;
    let began = Instant::now();
    assert!(client.send(post(CHAT, &chat("x"))).await.is_err());
    assert_eq!(began.elapsed(), secs(20));
    let stats = mock.stats();
    assert_eq!((stats.by_status["hang"], stats.hang_ups.count, stats.in_flight), (1, 0, 0));
    let mut client = Client::in_memory(&mock).await;
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_when_another_script_begins() {
    let mock = scripted("hang");
    let mut client = Client::in_memory(&mock).await;
    let call = client.send(post(CHAT, &chat("x")));
    let steer = async {
        tokio::time::sleep(secs(5)).await;
        mock.set_script(Script::default());
    };
    let (answer, ()) = tokio::join!(call, steer);
    assert!(answer.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hang_for_good_outlives_its_phase() {
    let mock = scripted("hang! 1s; ok");
    let mut client = Client::in_memory(&mock).await;
    let answer = timeout(secs(3600), client.send(post(CHAT, &chat("x")))).await;
    assert!(answer.is_err(), "it still hangs");
    drop(client);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(mock.stats().hang_ups.count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stall_sends_half_and_then_nothing_until_the_phase_ends() {
    let mock = scripted("stall 30s; ok");
    let mut client = Client::in_memory(&mock).await;
    let began = Instant::now();
    let response = client.open(post(CHAT, &streamed(chat("x")))).await.unwrap();
    let mut body = response.into_body();
    let mut events = 0;
    while let Some(Ok(frame)) = body.frame().await {
        assert!(frame.into_data().unwrap().ends_with(b"\n\n"));
        assert_eq!(began.elapsed(), Duration::ZERO);
        events += 1;
    }
    assert_eq!((events, began.elapsed()), (6, secs(30)));
}

#[tokio::test(start_paused = true)]
async fn a_cut_breaks_in_the_middle() {
    let mock = scripted("cut");
    for request in [chat("x"), streamed(chat("x"))] {
        let mut client = Client::in_memory(&mock).await;
        let response = client.open(post(CHAT, &request)).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        let mut received = Vec::new();
        let broken = loop {
            match body.frame().await {
                Some(Ok(frame)) => received.extend_from_slice(&frame.into_data().unwrap()),
                Some(Err(_)) => break true,
                None => break false,
            }
        };
        assert!(broken && !received.is_empty());
        assert!(!received.ends_with(b"[DONE]\n\n") && !received.ends_with(b"}"));
    }
    assert_eq!(mock.stats().hang_ups.count, 0);
    assert_eq!(mock.stats().by_status["200"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_error_comes_in_the_middle_of_a_stream_or_as_a_status() {
    let mock = scripted("error");
    let mut client = Client::in_memory(&mock).await;
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 500);
    let request =
        serde_json::json!({"model": "m", "input": "x", "messages": [{"role": "user", "content": "x"}]});
    for (path, name) in [(CHAT, None), ("/v1/messages", Some("error")), ("/v1/responses", Some("error"))] {
        let answer = client.post(path, &streamed(request.clone())).await;
        assert_eq!(answer.status, 200);
        let events = answer.events();
        assert!(events.len() > 3);
        let last = events.last().unwrap();
        assert_eq!(last.name.as_deref(), name);
        let payload = last.json();
        assert!(payload["error"]["message"].is_string() || payload["message"].is_string(), "{payload}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_time_is_too_long_for_the_clock() {
    let tuning =
        Tuning { latency: Duration::MAX, first_byte: Some(Duration::MAX), chunks: 0, ..Tuning::default() };
    let mock = Mock::in_memory(Options { tuning, script: "slow".parse().unwrap(), ..Options::default() });
    let mut client = Client::in_memory(&mock).await;
    assert!(timeout(secs(3600), client.send(post(CHAT, &chat("x")))).await.is_err());
    let mut client = Client::in_memory(&mock).await;
    assert!(timeout(secs(3600), client.send(post(CHAT, &streamed(chat("x"))))).await.is_err());
    assert_eq!(mock.tuning().chunks, 1);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_whole_but_makes_no_sense() {
    let mock = scripted("garbage");
    let mut client = Client::in_memory(&mock).await;
    let plain = client.post(CHAT, &chat("x")).await;
    assert_eq!(plain.header("content-length"), plain.body.len().to_string());
    assert!(serde_json::from_slice::<serde_json::Value>(&plain.body).is_err());
    let stream = client.post(CHAT, &streamed(chat("x"))).await;
    let broken = |data: &str| data != "[DONE]" && serde_json::from_str::<serde_json::Value>(data).is_err();
    assert_eq!(stream.events().iter().filter(|event| broken(&event.data)).count(), 1);
    assert_eq!(stream.events().last().unwrap().data, "[DONE]");
}

#[tokio::test(start_paused = true)]
async fn slow_takes_ten_times_as_long_or_what_was_said() {
    for (script, latency, expected) in
        [("slow", secs(2), secs(20)), ("slow", Duration::ZERO, secs(1)), ("slow(5s)", secs(2), secs(5))]
    {
        let tuning = Tuning { latency, ..Tuning::default() };
        let mock = Mock::in_memory(Options { script: script.parse().unwrap(), tuning, ..Options::default() });
        let mut client = Client::in_memory(&mock).await;
        let began = Instant::now();
        client.post(CHAT, &chat("x")).await;
        assert_eq!(began.elapsed(), expected, "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn times_are_kept_to_the_tick() {
    let mock = with(Tuning {
        latency: secs(9),
        first_byte: Some(secs(2)),
        chunk_interval: secs(1),
        chunks: 4,
        ..Tuning::default()
    });
    let mut client = Client::in_memory(&mock).await;
    let began = Instant::now();
    client.post(CHAT, &chat("x")).await;
    assert_eq!(began.elapsed(), secs(9));

    let began = Instant::now();
    let response = client.open(post(CHAT, &streamed(chat("x")))).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "the head comes at once");
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(began.elapsed(), secs(2));
    body.collect().await.unwrap();
    assert_eq!(began.elapsed(), secs(2 + 3));
}

#[tokio::test(start_paused = true)]
async fn jitter_moves_times_and_a_seed_repeats_them() {
    let times = async |seed| {
        let tuning = Tuning { latency: secs(10), jitter: "0.5".parse().unwrap(), ..Tuning::default() };
        let mock = Mock::in_memory(Options { tuning, seed, ..Options::default() });
        let mut client = Client::in_memory(&mock).await;
        let mut times = Vec::new();
        for _ in 0..5 {
            let began = Instant::now();
            client.post(CHAT, &chat("x")).await;
            times.push(began.elapsed());
        }
        times
    };
    let first = times(1).await;
    assert_eq!(first, times(1).await);
    assert_ne!(first, times(2).await);
    assert!(first.iter().all(|time| (secs(5)..=secs(15)).contains(time)));
}

#[tokio::test]
async fn a_reset_is_a_reset_on_a_socket() {
    let mock =
        Mock::start_local(Options { script: "reset".parse().unwrap(), ..Options::default() }).await.unwrap();
    let mut client = Client::tcp(mock.addr()).await;
    let error = client.send(post(CHAT, &chat("x"))).await.err().expect("no answer");
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::ConnectionReset), "{error:?}");
    assert_eq!(mock.stats().by_status["reset"], 1);
    mock.shutdown().await;
}
