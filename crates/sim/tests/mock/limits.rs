//! Limits are enforced, told in the provider's headers, and can be changed while the mock runs.

use std::time::Duration;

use crate::support::{Client, chat, post, with};
use serde_json::{Value, json};
use sim::mock::{Mock, Options, Tuning};
use tokio::task::JoinSet;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test(start_paused = true)]
async fn calls_above_the_limit_are_refused_and_never_in_flight() {
    let tuning = Tuning { max_in_flight: Some(4), latency: Duration::from_secs(1), ..Tuning::default() };
    let mock = with(tuning);
    let mut calls = JoinSet::new();
    for number in 0..10 {
        let mut client = Client::in_memory(&mock).await;
        calls.spawn(async move { client.post(CHAT, &chat(&number.to_string())).await });
    }
    let answers = calls.join_all().await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!(refused.len(), 6);
    for answer in refused {
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    }
    let stats = mock.stats();
    assert_eq!((stats.arrived, stats.most_in_flight), (10, 4));
}

#[tokio::test(start_paused = true)]
async fn requests_per_minute_are_told_to_openai_clients() {
    let mock = with(Tuning { rpm: Some(2), ..Tuning::default() });
    let mut client = Client::in_memory(&mock).await;
    let first = client.post(CHAT, &chat("x")).await;
    assert_eq!(first.header("x-ratelimit-limit-requests"), "2");
    assert_eq!(first.header("x-ratelimit-remaining-requests"), "1");
    assert_eq!(first.header("x-ratelimit-reset-requests"), "30s");
    client.post(CHAT, &chat("x")).await;
    let refused = client.post(CHAT, &chat("x")).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "30"));
    assert_eq!(refused.header("retry-after-ms"), "30000");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn tokens_per_minute_are_told_to_anthropic_clients() {
    let mock = with(Tuning { tpm: Some(100), ..Tuning::default() });
    let mut client = Client::in_memory(&mock).await;
    let request = json!({"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]});
    let first = client.post("/v1/messages", &request).await;
    let used =
        |usage: &Value| usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    let left = 100 - used(&first.json()["usage"]);
    assert_eq!(first.header("anthropic-ratelimit-tokens-remaining"), left.to_string());
    assert!(first.header("anthropic-ratelimit-tokens-reset").ends_with('Z'));
    let refused = client.post("/v1/messages", &request).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
    assert_ne!(refused.header("retry-after"), "");
    assert_eq!(refused.header("anthropic-ratelimit-tokens-remaining"), left.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_key_can_be_required() {
    let tuning = Tuning { require_key: Some("right".into()), ..Tuning::default() };
    let mock = with(tuning);
    let mut client = Client::in_memory(&mock).await;
    assert_eq!(client.post(CHAT, &chat("x")).await.json()["error"]["code"], "invalid_api_key");
    let refused = client.post("/v1/messages", &chat("x")).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["error"]["type"].clone()),
        (401, json!("authentication_error"))
    );
    let mut request = post(CHAT, &chat("x"));
    request.headers_mut().insert("authorization", "Bearer right".parse().unwrap());
    assert_eq!(client.send(request).await.unwrap().status, 200);
    let limits = client.get("/__limits").await;
    assert!(!String::from_utf8_lossy(&limits.body).contains("right"), "the key is not told");
}

#[tokio::test(start_paused = true)]
async fn everything_can_be_steered_over_http() {
    let mock = Mock::in_memory(Options::default());
    let mut client = Client::in_memory(&mock).await;
    let mut control = Client::in_memory(&mock).await;
    let steer = |path: &str, body: &str| crate::support::request(http::Method::POST, path, body.to_owned());

    let changed = control.send(steer("/__limits", r#"{"latency": "3s", "rpm": 1}"#)).await.unwrap();
    assert_eq!((changed.json()["latency"].clone(), changed.json()["rpm"].clone()), (json!("3s"), json!(1)));
    let began = tokio::time::Instant::now();
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 200);
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 429);
    control.send(steer("/__limits", r#"{"rpm": null}"#)).await.unwrap();
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 200);

    let script = control.send(steer("/__script", "503 1x; ok")).await.unwrap();
    assert_eq!(script.json()["script"], "503 1x; ok");
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 503);
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 200);
    assert_eq!(control.send(steer("/__script", "sulk")).await.unwrap().status, 400);

    control.send(steer("/__reset", "")).await.unwrap();
    assert_eq!(mock.stats().arrived, 0);
    assert_eq!(client.post(CHAT, &chat("x")).await.status, 503, "the script begins again");
    assert_eq!(control.get("/__nothing").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn requests_are_kept_byte_for_byte() {
    let mock = Mock::in_memory(Options::default());
    let mut client = Client::in_memory(&mock).await;
    let body = b"{ \"model\" : \"m\",\n \"odd\": 1e400, \"\xff\": 1 }";
    let mut request = crate::support::request(http::Method::POST, "/v1/chat/completions?a=b", &body[..]);
    request.headers_mut().insert("x-second", "2".parse().unwrap());
    request.headers_mut().insert("x-first", "1".parse().unwrap());
    client.send(request).await.unwrap();
    let kept = mock.requests(1).pop().unwrap();
    assert_eq!(&kept.body[..], body);
    assert_eq!((kept.path.as_str(), kept.header("X-First")), ("/v1/chat/completions?a=b", Some("1")));
    let told = client.get("/__requests?last=1").await.json();
    let names: Vec<&str> = told["requests"][0]["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| pair[0].as_str().unwrap())
        .collect();
    let place = |name: &str| names.iter().position(|known| *known == name).unwrap();
    assert!(place("x-second") < place("x-first"));
}
