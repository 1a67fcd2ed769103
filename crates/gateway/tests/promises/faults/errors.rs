//! Whose mistake it was, and what the caller is told of it.

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

fn refused(status: &str, headers: &str, said: &str) -> Scripted {
    plain(status, &format!("{JSON}{headers}"), said.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn k049_a_callers_mistake_is_never_booked_as_the_providers_trouble() {
    // What no provider could read is refused here, and the field is named.
    for (body, param) in [
        (r#"{"model":7,"messages":[]}"#, Some("model")),
        (r#"{"model":"gpt-x","stream":"yes","messages":[]}"#, Some("stream")),
        (r#"{"model":"gpt-x","messages":["#, None),
    ] {
        let told = told(CHAT, body, Scripted::new(vec![])).await;
        let json = told.reply.json();
        assert_eq!((told.reply.status.as_u16(), json["error"]["param"].as_str()), (400, param), "{body}");
        assert!(told.provider.received.lock().is_empty(), "{body}");
        assert_eq!((told.record.failed(), told.outcomes()), (false, vec![]), "{body}");
    }
    // What a provider can judge, it judges, once.
    let said = r#"{"error":{"message":"messages: too short","type":"invalid_request_error","param":"messages","code":null}}"#;
    for body in [
        r#"{"model":"gpt-x","messages":[]}"#,
        r#"{"model":"gpt-x","messages":[{"role":"tool","content":"x"}]}"#,
    ] {
        let told = told(CHAT, body, refused("400 Bad Request", "", said)).await;
        assert_eq!((told.reply.status.as_u16(), told.reply.text()), (400, said.to_owned()));
        assert_eq!(told.provider.received.lock().len(), 1);
        assert_eq!((told.record.failed(), told.outcomes()), (false, one("refused")));
    }
}

/// Where the gate writes the request, it finds such mistakes before the provider would; the field is named.
#[tokio::test(start_paused = true)]
async fn k049_a_mistake_that_is_found_in_translation_is_the_callers() {
    let user = json!({"role": "user", "content": "x"});
    let called = json!({"role": "assistant", "content": null, "tool_calls": [call("c1", "f", "{}")]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "42"});
    for (path, messages, field) in [
        (CHAT, json!([]), "messages"),
        (CHAT, json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
        (CHAT, json!([user, result]), "messages[1]"),
        (CHAT, json!([user, called, user]), "messages[1].tool_calls[0]"),
        (CHAT, json!([user, {"role": "usr", "content": "x"}]), "messages[1].role"),
        (CHAT, json!([{"role": "user"}]), "messages[0].content"),
        (CHAT, json!([{"role": "user", "content": 7}]), "messages[0].content"),
        (CHAT, json!([user, {"role": "user", "content": [{"text": "x"}]}]), "messages[1].content[0].type"),
        (CHAT, json!("x"), "messages"),
        (CHAT, Value::Null, "messages"),
        (MESSAGES, json!([{"role": "usr", "content": "x"}]), "messages[0].role"),
        (MESSAGES, json!([user, {"role": "assistant"}]), "messages[1].content"),
        (
            MESSAGES,
            json!([{"role": "user", "content": [{"type": "image"}]}]),
            "messages[0].content[0].source",
        ),
        (
            MESSAGES,
            json!([user, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": "x"}]}]),
            "messages[1].content[0].input",
        ),
        (MESSAGES, json!("x"), "messages"),
    ] {
        let told = cant_say(path, &across_with(path, json!({"messages": messages}))).await;
        assert!(told.contains(field), "{messages}: {told}");
    }
}

/// What the provider finds wrong, it is not to blame for either.
#[tokio::test(start_paused = true)]
async fn k049_a_mistake_that_the_provider_finds_is_the_callers() {
    for (path, body) in [
        (CHAT, json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})),
        (
            MESSAGES,
            json!({"error": {"message": "no", "type": "invalid_request_error", "param": "messages", "code": null}}),
        ),
    ] {
        for (status, kind) in [
            ("400 Bad Request", "invalid_request_error"),
            ("404 Not Found", "not_found_error"),
            ("413 Payload Too Large", "request_too_large"),
            ("422 Unprocessable", "invalid_request_error"),
        ] {
            for call in [across(path), streamed(across(path))] {
                let mut body = body.clone();
                body["error"]["type"] = kind.into();
                let told =
                    told_with(BOTH, path, call.to_string(), refused(status, "", &body.to_string())).await;
                assert_eq!(told.reply.status.as_str(), &status[..3]);
                assert!(told.reply.json()["error"]["message"].as_str().unwrap().contains("no"));
                assert_eq!(told.provider.received.lock().len(), 1);
                assert_eq!((told.record.failed(), told.outcomes()), (false, one("refused")), "{status}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k050_a_429_keeps_its_hints_under_their_own_names() {
    let said = r#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    let hints = [
        ("retry-after", "30"),
        ("retry-after-ms", "30000"),
        ("x-should-retry", "true"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-tokens", "1m30s"),
        ("anthropic-ratelimit-requests-remaining", "0"),
    ];
    let headers: String = hints.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    for (path, call) in [(CHAT, chat("x")), (CHAT, chat_stream("x")), (MESSAGES, message("x", true))] {
        let told = told(path, call, refused("429 Too Many Requests", &headers, said)).await;
        assert_eq!((told.reply.status.as_u16(), told.reply.text()), (429, said.to_owned()));
        for (name, value) in hints {
            assert_eq!(told.reply.header(name), value, "{name}");
            assert_eq!(told.reply.headers.get_all(name).iter().count(), 1, "{name}");
        }
        assert_eq!(told.reply.header("x-sluicegate-error"), "", "it is the provider's own");
        assert_eq!((told.record.failed(), told.outcomes()), (false, one("rate_limited")));
    }
}

/// Nothing is tried twice yet, so every call has one error, and it is the decisive one.
#[tokio::test(start_paused = true)]
async fn k051_every_call_is_told_its_own_providers_error() {
    let (world, mock) = World::before(mock_that("429 1x; 400"));
    for status in [429, 400] {
        assert_eq!(world.post(CHAT, chat("x")).await.status, status);
    }
    settled(&world).await;
    assert_eq!(mock.requests(10).len(), 2);
    assert_eq!(world.outcomes(), [("rate_limited".to_owned(), 1), ("refused".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn k052_a_prompt_that_is_too_long_stays_a_400() {
    let said = r#"{"error":{"message":"maximum context length is 8192 tokens, requested 9100","code":"context_length_exceeded"}}"#;
    for call in [chat("x"), chat_stream("x")] {
        let told = told(CHAT, call, refused("400 Bad Request", "", said)).await;
        assert_eq!(told.reply.status, 400);
        assert_eq!(told.reply.json()["error"]["code"], "context_length_exceeded");
        assert_eq!(told.provider.received.lock().len(), 1);
        assert_eq!((told.record.failed(), told.outcomes()), (false, one("refused")));
        let detail = told.record.error.unwrap().detail.unwrap();
        assert_eq!(&*detail, "maximum context length is 8192 tokens, requested 9100");
    }
}
