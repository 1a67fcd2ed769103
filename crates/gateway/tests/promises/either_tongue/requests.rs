//! What the provider gets, and what the caller gets of a plain answer.

use http::{HeaderValue, Method};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_openai_client_reaches_claude() {
    let (world, mock) = both(mock());
    let reply = world.post(CHAT, chat_to_claude("why?").to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("x-sluicegate-provider"), "anthropic");
    assert_eq!(reply.header("x-sluicegate-model"), "claude-sonnet-4-5");
    assert_eq!(reply.header("x-sluicegate-dropped"), "");

    let received = &mock.requests(1)[0];
    assert_eq!(received.path, MESSAGES);
    assert_eq!(received.header("x-api-key"), Some("sk-anthropic"));
    assert_eq!(received.header("authorization"), None, "the caller's key is another vendor's");
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));

    let record = world.records.last();
    assert_eq!(record.protocol, "chat");
    assert_eq!(record.finish.as_deref(), Some("stop"));
    assert_eq!(record.input_tokens, answer["usage"]["prompt_tokens"].as_u64());
    assert_eq!(record.output_tokens, answer["usage"]["completion_tokens"].as_u64());
}

#[tokio::test(start_paused = true)]
async fn an_anthropic_client_reaches_gpt() {
    let (world, mock) = both(mock());
    let mut request = request(Method::POST, "/v1/messages?beta=true", message_to_gpt("why?").to_string());
    for (name, value) in [
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "new-thing-2026-01-01"),
        ("x-stainless-lang", "python"),
    ] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let reply = world.ask(request).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["type"], "message");
    assert_eq!(answer["role"], "assistant");
    assert_eq!(answer["stop_reason"], "end_turn");
    assert!(!answer["content"][0]["text"].as_str().unwrap().is_empty());
    assert!(answer["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(reply.header("x-sluicegate-dropped"), "anthropic-beta");

    let received = &mock.requests(1)[0];
    assert_eq!(received.path, CHAT);
    assert_eq!(received.header("authorization"), Some("Bearer sk-openai"));
    assert_eq!(received.header("x-api-key"), None);
    assert_eq!(received.header("anthropic-version"), None);
    assert_eq!(received.header("anthropic-beta"), None);
    assert_eq!(received.header("x-stainless-lang"), None, "it was meant for the vendor of the SDK");
    assert_eq!(world.records.last().protocol, "messages");
}

#[tokio::test(start_paused = true)]
async fn aliases_and_prefixes_lead_to_the_other_protocol_too() {
    let settings = format!(
        "{BOTH}[[models]]\nname = \"smart\"\ntargets = [{{ provider = \"anthropic\", model = \"claude-sonnet-4-5\" }}]\n"
    );
    let (world, mock) = World::with(&settings, mock());
    for name in ["smart", "anthropic/claude-sonnet-4-5"] {
        let mut call = chat_to_claude("why?");
        call["model"] = name.into();
        let reply = world.post(CHAT, call.to_string()).await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
        let received = sent(&mock);
        assert_eq!(received["model"], "claude-sonnet-4-5", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_with_one_provider_takes_both_protocols() {
    let (world, mock) =
        World::with("[providers.anthropic]\nbase_url = \"http://127.0.0.1:2\"\napi_key = \"k\"\n", mock());
    // No name leads anywhere: the only provider takes it, and its own error would pass.
    let mut call = chat_to_claude("why?");
    call["model"] = "some-model".into();
    let reply = world.post(CHAT, call.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(mock.requests(1)[0].path, MESSAGES);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_said_is_a_400_that_names_the_field() {
    let (world, mock) = both(mock());
    let mut call = chat_to_claude("why?");
    call["n"] = 3.into();
    let reply = world.post(CHAT, call.to_string()).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["param"], "n", "{}", reply.text());
    assert_eq!(reply.json()["error"]["code"], "invalid_request");
    assert!(!reply.text().contains(".;"), "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-error"), "invalid_request");
    assert_eq!(reply.header("x-sluicegate-reason"), "not_translatable");
    assert_eq!(reply.header("x-should-retry"), "false");

    let mut call = message_to_gpt("why?");
    call["mcp_servers"] = json!([{"type": "url", "url": "https://mcp.example", "name": "m"}]);
    let reply = world.post(MESSAGES, call.to_string()).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["type"], "error");
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("mcp_servers"), "{}", reply.text());

    assert_eq!(mock.stats().arrived, 0, "the provider was not asked");
    let record = world.records.last();
    assert_eq!((record.status, record.attempts), (400, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_is_left_out_is_named() {
    let (world, _mock) = both(mock());
    let mut call = chat_to_claude("why?");
    call["seed"] = 7.into();
    call["brand_new_field"] = json!({"a": 1});
    for fate in ["miss", "hit"] {
        let reply = world.post(CHAT, call.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("x-sluicegate-cache"), fate);
        let dropped = reply.header("x-sluicegate-dropped");
        let names: Vec<&str> = dropped.split(", ").collect();
        assert!(names.contains(&"seed") && names.contains(&"brand_new_field"), "{fate}: {dropped}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_needs_a_key_of_its_own_for_another_vendor() {
    let settings = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n[providers.anthropic]\nbase_url = \"https://api.anthropic.test\"\n";
    let (world, mock) = World::with(settings, mock());
    let reply = world.post(CHAT, chat_to_claude("why?").to_string()).await;
    assert_eq!(reply.status, 401, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-error"), "no_credentials");
    assert_eq!(mock.stats().arrived, 0);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_names_a_provider_is_not_translated() {
    let (world, mock) = both(mock());
    let reply = world.post("/to/anthropic/v1/chat/completions", chat_to_claude("why?").to_string()).await;
    assert_eq!(mock.requests(1)[0].path, CHAT, "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn responses_are_not_translated_yet() {
    let (world, mock) = both(mock());
    let call = json!({"model": "claude-sonnet-4-5", "input": "why?"});
    let reply = world.post("/v1/responses", call.to_string()).await;
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-reason"), "protocol_not_spoken");
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("does not translate"));
    assert_eq!(mock.stats().arrived, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_history_goes_up_as_the_short_one_did_and_then_on() {
    let (world, mock) = both(mock());
    let mut call = chat_to_claude("one");
    call["messages"] =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]);
    let mut before: Option<Vec<u8>> = None;
    for turn in 0..4 {
        let reply = world.post(CHAT, call.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let body = mock.requests(1)[0].body.to_vec();
        if let Some(before) = before {
            let open = before.len() - before.iter().rev().take_while(|byte| b"]}".contains(byte)).count();
            assert_eq!(&body[..open], &before[..open], "turn {turn}");
        }
        before = Some(body);
        let said = reply.json()["choices"][0]["message"].clone();
        let messages = call["messages"].as_array_mut().unwrap();
        messages.push(said);
        messages.push(json!({"role": "user", "content": format!("and {turn}?")}));
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_estimated_where_the_provider_does_not_count() {
    let (world, mock) = both(mock());
    let mut call = message_to_gpt("why?");
    call["system"] = "x".repeat(9_000).into();
    call.as_object_mut().unwrap().remove("max_tokens");
    let reply = world.post("/v1/messages/count_tokens", call.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.json()["input_tokens"].as_u64().unwrap() > 2_000, "{}", reply.text());
    assert_eq!(mock.stats().arrived, 0, "there is nothing that could be asked");
    call["model"] = "claude-sonnet-4-5".into();
    let mut request = request(Method::POST, "/v1/messages/count_tokens", call.to_string());
    request.headers_mut().insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    assert_eq!(world.ask(request).await.status, 200);
    assert_eq!(mock.stats().arrived, 1, "who can count is asked");
}

#[tokio::test(start_paused = true)]
async fn conversations_that_a_vendor_keeps_are_refused_so_that_its_sdk_goes_on_without() {
    let (world, mock) = both(mock());
    let mut call = message_to_gpt("why?");
    call["thread"] = json!({"type": "create"});
    let reply = world.post(MESSAGES, call.to_string()).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["details"]["error_code"], "thread_unsupported_request");
    assert_eq!(reply.header("x-sluicegate-error"), "invalid_request");
    let mut call = chat_to_claude("and then?");
    call["previous_response_id"] = "resp_1".into();
    let reply = world.post(CHAT, call.to_string()).await;
    assert_eq!(reply.json()["error"]["param"], "previous_response_id");
    assert_eq!(mock.stats().arrived, 0);
}
