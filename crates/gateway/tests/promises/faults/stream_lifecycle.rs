//! Streams that break, and clients that leave them.

use serde_json::json;
use tokio::task::JoinSet;

use super::tongues::*;
use super::*;

/// The data of the last event, if it is JSON.
fn last_event(text: &str) -> serde_json::Value {
    let data = text.trim_end().rsplit("data: ").next().unwrap_or_default();
    serde_json::from_str(data).unwrap_or_else(|bad| panic!("{bad}: {text}"))
}

#[tokio::test(start_paused = true)]
async fn k010_a_broken_stream_ends_with_an_error_that_its_client_can_parse() {
    for (path, call, begun) in [
        (MESSAGES, MESSAGES_CALL, START),
        (CHAT, CHAT_CALL, ROLE),
        (
            RESPONSES,
            RESPONSES_CALL,
            "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r1\"}}\n\n",
        ),
    ] {
        let told = told(path, call, Scripted::new(vec![stream_head(), event(begun), Do::Close])).await;
        assert_eq!((told.reply.status.as_u16(), told.reply.broken), (200, false));
        let text = told.reply.text();
        let end = text.strip_prefix(begun).unwrap();
        let error = last_event(end);
        match path {
            MESSAGES => {
                assert!(end.starts_with("event: error\ndata: {\"type\":\"error\""), "{end}");
                assert_eq!(error["error"]["type"], "api_error");
                assert!(error["error"]["message"].is_string());
                assert_eq!(error["request_id"], told.reply.header("x-request-id"));
            }
            CHAT => {
                assert!(end.starts_with("data: {\"error\":{\"message\":\""), "{end}");
                assert_eq!(error["error"]["code"], "upstream_error");
            }
            _ => {
                assert!(end.starts_with("event: "), "{end}");
                assert_eq!(error["sequence_number"], 1, "{end}");
            }
        }
        assert_eq!(end.matches("\n\n").count(), 1, "one event and nothing behind it: {end}");
        assert_eq!((told.error(), told.outcomes()), (("upstream_error", None), one("cut")));
    }
}

#[tokio::test(start_paused = true)]
async fn k011_a_frame_that_looks_like_an_error_is_booked_with_the_providers_words() {
    let frame =
        "data: {\"error_type\":\"validation_error\",\"error_message\":\"prompt too long: 9100 of 8192\"}\n\n";
    let stream = [ROLE, frame].concat();
    let told = told(CHAT, CHAT_CALL, Scripted::chunked(EVENTS, &[ROLE.as_bytes(), frame.as_bytes()])).await;
    assert_eq!(told.reply.text(), stream, "the provider has said it; the gate has nothing to add");
    assert_eq!(told.error(), ("provider_error", None));
    assert_eq!(told.record.error.as_ref().unwrap().detail.as_deref(), Some("prompt too long: 9100 of 8192"));
    assert!(told.record.failed());
    assert_eq!(told.outcomes(), one("failed"));
}

/// The streams of both providers, each up to some event.
fn begun() -> Vec<(&'static str, String)> {
    let mut begun = Vec::new();
    let text = "it is so";
    for (path, last, says) in [
        // Without its last event, an answer of Claude's is not whole.
        (
            CHAT,
            1,
            claude(
                &json!([{"type": "text", "text": text}, tool_use("t1", "f", &json!({"a": text}))]),
                "tool_use",
            ),
        ),
        // GPT's is, once it has said why it stopped: usage and the last word follow, and some hosts leave both out.
        (
            MESSAGES,
            3,
            gpt(&json!({"content": text, "tool_calls": [call("t1", "f", "{\"a\":1}")]}), "tool_calls"),
        ),
    ] {
        let events: Vec<&str> = says.stream.split_inclusive("\n\n").collect();
        begun.extend((1..=events.len() - last).map(|end| (path, events[..end].concat())));
    }
    begun
}

/// Whatever was said before it, the last event is an error that the client's SDK raises, and nothing is behind it.
fn ends_in_an_error(path: &str, text: &str) -> serde_json::Value {
    let (before, last) = text.trim_end().rsplit_once("\n\n").unwrap_or(("", text));
    let error = last_event(last);
    match path {
        CHAT => assert!(last.starts_with("data: {\"error\":{") && !text.contains("[DONE]"), "{text}"),
        _ => {
            assert!(last.starts_with("event: error\ndata: {\"type\":\"error\""), "{text}");
            assert!(!text.contains("message_stop"), "{text}");
        }
    }
    assert!(!before.contains("\"error\":"), "one error: {text}");
    assert!(error["error"]["message"].is_string() && error["error"]["type"].is_string(), "{text}");
    error
}

#[tokio::test(start_paused = true)]
async fn k010_a_translated_stream_that_breaks_ends_in_an_error_of_its_clients_protocol() {
    for (path, begun) in begun() {
        for broken in [Do::Close, Do::Write(b"0\r\n\r\n".to_vec())] {
            let script = Scripted::new(vec![stream_head(), event(&begun), broken]);
            let told = told_with(BOTH, path, streamed(across(path)).to_string(), script).await;
            assert_eq!((told.reply.status.as_u16(), told.reply.broken), (200, false));
            ends_in_an_error(path, &told.reply.text());
            assert!(told.record.failed());
            assert_eq!((told.error(), told.outcomes()), (("upstream_error", None), one("cut")), "{begun}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k011_a_frame_that_looks_like_an_error_tells_the_providers_reason_in_the_other_protocol() {
    let reason = "prompt too long: 9100 of 8192";
    for (path, begun) in begun() {
        for frame in [
            format!("data: {{\"error_type\":\"validation_error\",\"error_message\":\"{reason}\"}}\n\n"),
            format!("data: {{\"error\":{{\"message\":\"{reason}\",\"type\":\"server_error\"}}}}\n\n"),
            format!("data: {{\"error\":\"{reason}\"}}\n\n"),
            format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"{reason}\"}}}}\n\n"
            ),
        ] {
            let told = streams(path, &across(path), &(begun.clone() + &frame)).await;
            let error = ends_in_an_error(path, &told.reply.text());
            assert_eq!(error["error"]["message"], reason, "{frame}");
            assert_eq!(told.record.error.as_ref().unwrap().detail.as_deref(), Some(reason), "{frame}");
            assert_eq!((told.error().0, told.outcomes()), ("provider_error", one("failed")), "{frame}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k012_a_client_that_leaves_a_stream_ends_it_at_the_provider() {
    let mut steps = vec![stream_head(), event(START)];
    for _ in 0..59 {
        steps.extend([Do::Pause(millis(200)), event(DELTA)]);
    }
    let provider = Arc::new(Scripted::new(steps));
    let world = World::around("", provider.clone());
    let mut client = world.client().await;
    let mut answer = client.send(asked(MESSAGES, MESSAGES_CALL)).await;
    for _ in 0..5 {
        answer.next().await.unwrap().unwrap();
    }
    assert_eq!(*provider.hang_ups.lock(), 0);
    client.leave().await;
    tokio::time::sleep(millis(99)).await;
    assert_eq!(*provider.hang_ups.lock(), 1, "within 100 ms");
    settled(&world).await;
    let record = world.records.last();
    assert_eq!((record.status, record.error.unwrap().code), (200, "client_gone"));
    assert_eq!((record.input_tokens, record.output_tokens), (Some(11), Some(1)), "what was seen is booked");
    assert_eq!(world.outcomes(), one("abandoned"), "no evidence against the provider");
}

#[tokio::test(start_paused = true)]
async fn k013_a_client_that_leaves_before_the_first_token_is_noticed() {
    for early_head in [true, false] {
        let mut steps = vec![Do::Pause(secs(30)), event(START)];
        steps.insert(usize::from(!early_head), stream_head());
        let provider = Arc::new(Scripted::new(steps));
        let world = World::around("", provider.clone());
        let mut client = world.client().await;
        let waiting = async {
            let mut answer = client.send(asked(MESSAGES, MESSAGES_CALL)).await;
            answer.next().await
        };
        assert!(tokio::time::timeout(secs(2), waiting).await.is_err());
        client.leave().await;
        tokio::time::sleep(millis(99)).await;
        assert_eq!(*provider.hang_ups.lock(), 1, "head at once: {early_head}");
        settled(&world).await;
        assert_eq!(world.records.last().error.unwrap().code, "client_gone");
        assert_eq!(world.outcomes(), one("abandoned"));
    }
}

#[tokio::test(start_paused = true)]
async fn k013_a_client_that_leaves_the_queue_never_reaches_the_provider() {
    let (world, mock) = World::with("concurrency = 1\n", mock_after(secs(10)));
    let world = Arc::new(world);
    let mut first = JoinSet::new();
    let there = world.clone();
    first.spawn(async move { there.post(CHAT, chat("first")).await });
    tokio::time::sleep(millis(10)).await;
    let mut client = world.client().await;
    let sent = client.try_send(asked(CHAT, chat_stream("second")));
    assert!(tokio::time::timeout(secs(2), sent).await.is_err());
    assert_eq!(gauge(&world, "waiting"), 1);
    client.leave().await;
    tokio::time::sleep(millis(99)).await;
    assert_eq!(gauge(&world, "waiting"), 0);
    assert_eq!(first.join_all().await[0].status, 200);
    settled(&world).await;
    assert_eq!(mock.requests(10).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k014_a_stream_that_failed_is_not_billed() {
    let silent = Scripted::new(vec![stream_head(), Do::Hang]);
    let words = "word ".repeat(400);
    let frame = format!("data: {{\"error\":{{\"message\":\"{words}\",\"type\":\"server_error\"}}}}\n\n");
    let failing = Scripted::chunked(EVENTS, &[frame.as_bytes()]);
    for (provider, error, outcome) in [
        (silent, ("upstream_timeout", Some("stall")), "timeout"),
        (failing, ("provider_error", None), "failed"),
    ] {
        let told = told(CHAT, chat_stream("x"), provider).await;
        assert_eq!(told.tokens(), (None, None), "{error:?}");
        assert_eq!((told.record.estimated, told.record.cost), (false, None), "{error:?}");
        for kind in ["input", "output"] {
            assert_eq!(tokens_counted(&told.world, kind), 0, "{error:?}");
        }
        assert_eq!((told.error(), told.outcomes()), (error, one(outcome)));
    }
}

#[tokio::test(start_paused = true)]
async fn k015_all_events_of_one_packet_arrive_in_order() {
    let stream = [ROLE, TEXT, FINISH, USAGE, DONE].concat();
    let mut packet = format!("HTTP/1.1 200 OK\r\n{EVENTS}transfer-encoding: chunked\r\n\r\n").into_bytes();
    packet.extend_from_slice(&chunk(stream.as_bytes()));
    packet.extend_from_slice(b"0\r\n\r\n");
    // At once, and to a client that has already been given a sign of life.
    for silence in [0, 16] {
        let told =
            told(CHAT, CHAT_CALL, Scripted::new(vec![Do::Pause(secs(silence)), Do::Write(packet.clone())]))
                .await;
        assert_eq!(told.reply.text().replace(": keep-alive\n\n", ""), stream);
        assert_eq!(told.record.finish.as_deref(), Some("stop"));
        assert_eq!((told.tokens(), told.outcomes()), ((Some(4), Some(2)), one("ok")));
    }
}

/// The same where the stream is translated on its way.
#[tokio::test(start_paused = true)]
async fn k012_a_client_that_leaves_a_translated_stream_ends_it_at_the_provider() {
    for (path, begun) in begun() {
        let provider = Arc::new(Scripted::new(vec![stream_head(), event(&begun), Do::Hang]));
        let world = World::around(BOTH, provider.clone());
        let mut client = world.client().await;
        let mut answer = client.send(asked(path, streamed(across(path)).to_string())).await;
        // As soon as anything was said.
        answer.next().await.unwrap().unwrap();
        client.leave().await;
        tokio::time::sleep(millis(99)).await;
        assert_eq!(*provider.hang_ups.lock(), 1, "{begun}");
        settled(&world).await;
        assert_eq!(world.records.last().error.unwrap().code, "client_gone");
        assert_eq!(world.outcomes(), one("abandoned"));
    }
}

#[tokio::test(start_paused = true)]
async fn k013_a_client_that_leaves_before_the_first_token_of_a_translated_answer_is_noticed() {
    for path in [CHAT, MESSAGES] {
        for steps in [vec![Do::Hang], vec![stream_head(), Do::Hang]] {
            let provider = Arc::new(Scripted::new(steps));
            let world = World::around(BOTH, provider.clone());
            let mut client = world.client().await;
            let waiting = async {
                let mut answer = client.send(asked(path, streamed(across(path)).to_string())).await;
                answer.next().await
            };
            assert!(tokio::time::timeout(secs(2), waiting).await.is_err());
            client.leave().await;
            tokio::time::sleep(millis(99)).await;
            assert_eq!(*provider.hang_ups.lock(), 1, "{path}");
            settled(&world).await;
            assert_eq!(world.outcomes(), one("abandoned"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k014_a_translated_stream_that_failed_is_not_billed() {
    let words = "word ".repeat(400);
    for path in [CHAT, MESSAGES] {
        let frame = format!("data: {{\"error\":{{\"message\":\"{words}\",\"type\":\"server_error\"}}}}\n\n");
        for provider in [
            Scripted::new(vec![stream_head(), Do::Hang]),
            Scripted::chunked(EVENTS, &[frame.as_bytes()]),
            plain("200 OK", EVENTS, b""),
        ] {
            let told = told_with(BOTH, path, streamed(across(path)).to_string(), provider).await;
            ends_in_an_error(path, &told.reply.text());
            assert_eq!((told.tokens(), told.record.cost), ((None, None), None), "{path}");
            for kind in ["input", "output"] {
                assert_eq!(tokens_counted(&told.world, kind), 0, "{path}");
            }
            assert!(told.record.failed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k015_all_events_of_one_packet_arrive_translated_in_order() {
    let text = "it is so";
    for (path, says) in [
        (CHAT, claude(&json!([{"type": "text", "text": text}]), "end_turn")),
        (MESSAGES, gpt(&json!({"content": text}), "stop")),
    ] {
        let mut packet =
            format!("HTTP/1.1 200 OK\r\n{EVENTS}transfer-encoding: chunked\r\n\r\n").into_bytes();
        packet.extend_from_slice(&chunk(says.stream.as_bytes()));
        packet.extend_from_slice(b"0\r\n\r\n");
        for silence in [0, 16] {
            let script = Scripted::new(vec![Do::Pause(secs(silence)), Do::Write(packet.clone())]);
            let told = told_with(BOTH, path, streamed(across(path)).to_string(), script).await;
            let reply = told.reply.text().replace(": keep-alive\n\n", "");
            let reply = reply.replace("event: ping\ndata: {\"type\": \"ping\"}\n\n", "");
            let answer = match path {
                CHAT => put_chat_together(&reply)["message"]["content"].take(),
                _ => put_message_together(&reply)["content"][0]["text"].take(),
            };
            assert_eq!(answer, text);
            assert_eq!((told.tokens(), told.outcomes()), ((Some(11), Some(5)), one("ok")));
        }
    }
}
