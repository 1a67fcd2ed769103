//! Streams in the caller's words: event by event, and never whole if the provider's was not.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use sim::mock::Tuning;
use tokio::time::Instant;

use super::*;

/// A whole stream, some of whose events have no counterpart.
const CLAUDE: &[u8] = br#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"f\u00fcr \"D\u00f6rte\"\n"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;

#[tokio::test(start_paused = true)]
async fn a_chat_client_streams_from_claude() {
    let (world, mock) = both(mock());
    let reply = world.post(CHAT, streamed(chat_to_claude("why?")).to_string()).await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").starts_with("text/event-stream"), "{:?}", reply.headers);
    let text = reply.text();
    let chunks = events(&text);
    assert_eq!(chunks[0]["object"], "chat.completion.chunk");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["content"].is_string()).count() > 2);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert_eq!(data(&text).last(), Some(&"[DONE]"));
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()), "it did not ask for usage");
    let received = sent(&mock);
    assert_eq!(received["stream"], true);

    // Plain, it is the same answer.
    let plain = world.post(CHAT, chat_to_claude("why?").to_string()).await;
    assert_eq!(plain.header("x-sluicegate-cache"), "hit");
    assert_eq!(plain.json()["choices"][0]["message"]["content"], chat_text(&text));
    let record = &world.records.all()[0];
    assert!(record.output_tokens.unwrap() > 0, "the gate counts what the caller did not ask for");
}

#[tokio::test(start_paused = true)]
async fn usage_comes_to_who_asks_for_it() {
    let (world, _mock) = both(mock());
    let mut call = streamed(chat_to_claude("why?"));
    call["stream_options"] = json!({"include_usage": true});
    let reply = world.post(CHAT, call.to_string()).await;
    let text = reply.text();
    let last = events(&text).pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["completion_tokens"].as_u64().unwrap() > 0, "{last}");
    assert_eq!(data(&text).last(), Some(&"[DONE]"));
}

#[tokio::test(start_paused = true)]
async fn a_messages_client_streams_from_gpt() {
    let (world, mock) = both(mock());
    let reply = world.post(MESSAGES, streamed(message_to_gpt("why?")).to_string()).await;
    assert_eq!(reply.status, 200);
    let text = reply.text();
    let events = events(&text);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(&kinds[..2], ["message_start", "content_block_start"]);
    assert_eq!(&kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, kinds, "every event is named");
    let last = &events[events.len() - 2];
    assert_eq!(last["delta"]["stop_reason"], "end_turn");
    assert!(last["usage"]["output_tokens"].as_u64().unwrap() > 0);
    assert!(last["usage"]["input_tokens"].as_u64().unwrap() > 0, "told once it is known: {last}");
    assert_eq!(sent(&mock)["stream_options"]["include_usage"], true);
    let plain = world.post(MESSAGES, message_to_gpt("why?").to_string()).await;
    assert_eq!(plain.json()["content"][0]["text"], message_text(&text));
}

#[tokio::test(start_paused = true)]
async fn each_event_goes_on_as_it_comes() {
    let tuning = Tuning { strict: true, chunks: 8, chunk_interval: secs(1), ..Tuning::default() };
    let (world, _mock) = both(Options { tuning, ..Options::default() });
    for (path, call) in
        [(CHAT, streamed(chat_to_claude("why?"))), (MESSAGES, streamed(message_to_gpt("why?")))]
    {
        let mut client = world.client().await;
        let mut answer = client.send(request(Method::POST, path, call.to_string())).await;
        let start = Instant::now();
        let mut seconds = BTreeSet::new();
        while let Some(piece) = answer.next().await {
            piece.unwrap();
            seconds.insert(start.elapsed().as_secs());
        }
        assert!(seconds.len() >= 7, "{path}: something came at {seconds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_does_not_look_whole() {
    for (path, call) in
        [(CHAT, streamed(chat_to_claude("why?"))), (MESSAGES, streamed(message_to_gpt("why?")))]
    {
        let (world, _mock) = both(mock_that("cut"));
        let reply = world.post(path, call.to_string()).await;
        let text = reply.text();
        assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{text}");
        let last = events(&text).pop().unwrap();
        assert!(!last["error"].is_null(), "{text}");
        let record = world.records.last();
        assert!(record.error.is_some());
        // Claude tells its input at once, GPT all at the end: what was not told is not taken for zero.
        assert_eq!(record.input_tokens.is_some(), path == CHAT, "{record:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_within_a_stream_is_told_in_the_callers_words() {
    let (world, _mock) = both(mock_that("error"));
    let text = world.post(CHAT, streamed(chat_to_claude("why?")).to_string()).await.text();
    assert!(!text.contains("[DONE]") && !text.contains("event: error"), "{text}");
    let last = events(&text).pop().unwrap();
    assert!(last["error"]["message"].is_string(), "{last}");

    let (world, _mock) = both(mock_that("error"));
    let text = world.post(MESSAGES, streamed(message_to_gpt("why?")).to_string()).await.text();
    assert!(text.contains("event: error\n") && !text.contains("message_stop"), "{text}");
    let last = events(&text).pop().unwrap();
    assert_eq!(last["type"], "error");
    assert!(last["error"]["message"].is_string(), "{last}");
}

#[tokio::test(start_paused = true)]
async fn garbage_is_a_failure() {
    for (path, call) in [(CHAT, chat_to_claude("why?")), (MESSAGES, message_to_gpt("why?"))] {
        let (world, _mock) = both(mock_that("garbage"));
        let reply = world.post(path, call.to_string()).await;
        assert_eq!(reply.status, 502, "{}", reply.text());
        let (world, _mock) = both(mock_that("garbage"));
        let text = world.post(path, streamed(call).to_string()).await.text();
        assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{text}");
        assert!(!events(&text).pop().unwrap()["error"].is_null(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_the_stream_is_cut_into_pieces_it_says_the_same() {
    let whole = CLAUDE;
    let mut seen = None;
    for cut in (1..whole.len()).step_by(7) {
        let provider =
            Scripted::chunked("content-type: text/event-stream\r\n", &[&whole[..cut], &whole[cut..]]);
        let world = World::around(BOTH, Arc::new(provider));
        let text = world.post(CHAT, streamed(chat_to_claude("why?")).to_string()).await.text();
        assert_eq!(chat_text(&text), "für \"Dörte\"\n", "cut at {cut}");
        let events = events(&text).into_iter().map(|mut event| {
            event["created"] = 0.into();
            event
        });
        let events: Vec<Value> = events.collect();
        assert_eq!(*seen.get_or_insert_with(|| events.clone()), events, "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_says_nothing_holds_nobody_up() {
    let interval = millis(10);
    for path in [CHAT, MESSAGES] {
        for size in [7, 50, 90] {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let mut steps = vec![Do::Write(head.into())];
            let pieces = CLAUDE.chunks(size);
            let takes = interval * pieces.len() as u32;
            steps.extend(pieces.flat_map(|piece| [Do::Pause(interval), Do::Write(chunk(piece))]));
            steps.push(Do::Write(b"0\r\n\r\n".to_vec()));
            let world = World::around(BOTH, Arc::new(Scripted::new(steps)));
            let mut call = streamed(chat_to_claude("why?"));
            call["max_tokens"] = 300.into();
            let start = tokio::time::Instant::now();
            let text = world.post(path, call.to_string()).await.text();
            assert!(text.contains("D\u{f6}rte") || text.contains("D\\u00f6rte"), "{text}");
            let took = start.elapsed();
            assert!(took < takes + millis(10), "{path} in pieces of {size}: {took:?} instead of {takes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_one_however_its_type_is_written() {
    let event = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{}}}\n\n";
    for head in [
        "content-type: Text/Event-Stream; charset=utf-8\r\n",
        "content-type: text/event-stream\r\ncontent-encoding: identity\r\n",
    ] {
        let world = World::around(BOTH, Arc::new(Scripted::chunked(head, &[event])));
        let reply = world.post(CHAT, streamed(chat_to_claude("why?")).to_string()).await;
        assert_eq!(reply.status, 200, "{head}: {}", reply.text());
        assert!(reply.text().contains("chat.completion.chunk"), "{head}: {}", reply.text());
    }
}

/// What is held until the client may be told has a bound.
#[tokio::test(start_paused = true)]
async fn a_call_without_end_does_not_fill_the_memory() {
    let call = |index: u32, arguments: &str| {
        let call = json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": arguments}});
        let chunk =
            json!({"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        format!("data: {chunk}\n\n").into_bytes()
    };
    let long = call(1, &"x".repeat(1 << 20));
    let pieces: Vec<Vec<u8>> = std::iter::once(call(0, "{")).chain(std::iter::repeat_n(long, 70)).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let world =
        World::around(BOTH, Arc::new(Scripted::chunked("content-type: text/event-stream\r\n", &pieces)));
    let text = world.post(MESSAGES, streamed(message_to_gpt("why?")).to_string()).await.text();
    assert!(text.ends_with("\n\n") && !text.contains("message_stop"), "{}", &text[text.len() - 200..]);
    assert!(world.records.last().error.is_some_and(|error| format!("{error:?}").contains("too long")));
}
