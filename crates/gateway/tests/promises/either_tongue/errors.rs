//! A provider's own errors, in the shape that the caller reads and with the status that they mean.

use std::sync::Arc;

use super::*;

/// What a provider that answers so brings to a caller of the other protocol.
async fn told(path: &str, call: &Value, status: &str, head: &str, body: &str) -> Reply {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{head}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let provider = Scripted::new(vec![Do::Write(answer.into_bytes())]);
    World::around(BOTH, Arc::new(provider)).post(path, call.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn claude_errors_reach_openai_clients() {
    let call = chat_to_claude("why?");
    for (status, kind, gets, theirs) in [
        ("400 Bad Request", "invalid_request_error", 400, "invalid_request_error"),
        ("404 Not Found", "not_found_error", 404, "not_found_error"),
        ("429 Too Many Requests", "rate_limit_error", 429, "rate_limit_error"),
        ("500 Internal Server Error", "api_error", 500, "server_error"),
        ("529 Overloaded", "overloaded_error", 503, "server_error"),
    ] {
        let body =
            json!({"type": "error", "error": {"type": kind, "message": "so it is"}, "request_id": "req_1"});
        let head = "retry-after: 7\r\nrequest-id: req_1\r\n";
        let reply = told(CHAT, &call, status, head, &body.to_string()).await;
        assert_eq!(reply.status, gets, "{status}");
        let error = &reply.json()["error"];
        assert_eq!(error["message"], "so it is", "{status}");
        assert_eq!(error["type"], theirs, "{status}");
        assert_eq!(error["code"], kind, "{status}");
        assert_eq!(reply.header("retry-after"), "7");
        assert_eq!(reply.header("x-sluicegate-error"), "", "it is the provider's own");
    }
}

#[tokio::test(start_paused = true)]
async fn gpt_errors_reach_anthropic_clients() {
    let call = message_to_gpt("why?");
    for (status, code, kind) in [
        ("400 Bad Request", "context_length_exceeded", "invalid_request_error"),
        ("404 Not Found", "model_not_found", "not_found_error"),
        ("429 Too Many Requests", "rate_limit_exceeded", "rate_limit_error"),
        ("503 Service Unavailable", "slow_down", "overloaded_error"),
    ] {
        let body = json!({"error": {"message": "so it is", "type": "whatever", "param": null, "code": code}});
        let reply = told(MESSAGES, &call, status, "retry-after: 7\r\n", &body.to_string()).await;
        assert_eq!(reply.status.as_str(), &status[..3]);
        let answer = reply.json();
        assert_eq!(answer["type"], "error");
        assert_eq!(answer["error"]["type"], kind, "{status}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("so it is"));
        assert_eq!(reply.header("retry-after"), "7");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_in_no_shape_at_all_is_still_readable() {
    for (path, call) in [(CHAT, chat_to_claude("why?")), (MESSAGES, message_to_gpt("why?"))] {
        for body in ["<html><h1>Bad gateway</h1></html>", "", "{\"detail\":\"no\"}", "null"] {
            let reply = told(path, &call, "502 Bad Gateway", "", body).await;
            assert_eq!(reply.status, 502, "{body}");
            assert!(reply.json()["error"]["message"].is_string(), "{body}: {}", reply.text());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_of_the_gate_is_not_the_callers() {
    let body = json!({"type": "error", "error": {"type": "authentication_error", "message": "bad key"}});
    let reply = told(CHAT, &chat_to_claude("why?"), "401 Unauthorized", "", &body.to_string()).await;
    assert_eq!(reply.status, 502);
    assert_eq!(reply.header("x-sluicegate-error"), "upstream_credentials");
}

#[tokio::test(start_paused = true)]
async fn an_error_inside_a_200_gets_its_real_status() {
    let body = json!({"error": {"message": "overloaded", "type": "server_error", "code": 503}});
    let reply = told(MESSAGES, &message_to_gpt("why?"), "200 OK", "", &body.to_string()).await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(reply.json()["type"], "error");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_quotes_the_gates_key_gets_it_into_no_answer_and_no_log() {
    let body =
        json!({"type": "error", "error": {"type": "permission_error", "message": "bad key sk-anthropic"}});
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let world = World::around(BOTH, Arc::new(Scripted::new(vec![Do::Write(answer.into_bytes())])));
    let reply = world.post(CHAT, chat_to_claude("why?").to_string()).await;
    assert_eq!(reply.status, 403);
    assert_eq!(reply.json()["error"]["message"], "bad key ***");
    // In its own protocol the answer is the provider's, byte for byte; the log is ours.
    let call = json!({"model": "claude-x", "max_tokens": 9, "messages": []});
    world.post(MESSAGES, call.to_string()).await;
    let log = world.log();
    assert!(log.contains("bad key ***") && !log.contains("sk-anthropic"), "{log}");
}
