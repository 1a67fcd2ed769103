//! Streams, as they are read and where they are cut.

use serde_json::json;

use super::answers::{call_block, delta, open};
use super::*;
use crate::dialect::MESSAGES;
use crate::sse::Event;
use crate::translate::canon::*;
use crate::translate::{Crossing, Reply};
use crate::watch::Usage;

fn events(data: &[Value]) -> String {
    data.iter().map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())).collect()
}

fn read(stream: &str) -> Vec<String> {
    let mut reader = MESSAGES_TONGUE.reader();
    let mut items = Vec::new();
    for raw in stream.split_inclusive("\n\n") {
        reader.event(&Event::read(raw.as_bytes()), &mut |item| items.push(format!("{item:?}")));
    }
    reader.end(&mut |item| items.push(format!("{item:?}")));
    items
}

fn shown(items: &[Item<'_>]) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 11, "cache_read_input_tokens": 4, "output_tokens": 1}}})
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn add(index: u64, kind: &str, member: &str, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, member: text}})
}

fn close(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn finish(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// A stream with all that can be in one.
fn rich() -> Vec<Value> {
    let mut events = vec![
        begin(),
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        add(0, "thinking_delta", "thinking", "hmé"),
        add(0, "signature_delta", "signature", "Sg=="),
        close(0),
        start(1, json!({"type": "redacted_thinking", "data": "E"})),
        close(1),
        start(2, json!({"type": "text", "text": ""})),
        add(2, "text_delta", "text", "Let me \"look\"\n"),
        close(2),
        start(3, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        add(3, "input_json_delta", "partial_json", "{}"),
        close(3),
        start(4, json!({"type": "tool_use", "id": "toolu_a", "name": "f", "input": {}})),
        add(4, "input_json_delta", "partial_json", ""),
        add(4, "input_json_delta", "partial_json", "{\"a\":"),
        add(4, "input_json_delta", "partial_json", "1}"),
        close(4),
        start(5, json!({"type": "tool_use", "id": "toolu_b", "name": "f", "input": {"b": 2}})),
        close(5),
    ];
    events.extend(finish("tool_use"));
    events
}

fn rich_items() -> Vec<Item<'static>> {
    let usage = Usage { input: 15, cached_input: 4, output: 1, ..Usage::default() };
    vec![
        Item::Start { id: "msg_1".into(), model: "m".into() },
        Item::Usage(usage),
        Item::Ping,
        open(0, Block::Thought { encrypted: None }),
        delta(0, "hmé"),
        Item::Seal { index: 0, signature: "Sg==".into() },
        Item::Close { index: 0 },
        open(1, Block::Thought { encrypted: Some("E".into()) }),
        Item::Close { index: 1 },
        open(2, Block::Text),
        delta(2, "Let me \"look\"\n"),
        Item::Close { index: 2 },
        Item::Lost { name: "server_tool_use".into() },
        open(3, call_block("toolu_a")),
        delta(3, "{\"a\":"),
        delta(3, "1}"),
        Item::Close { index: 3 },
        open(4, call_block("toolu_b")),
        delta(4, "{\"b\":2}"),
        Item::Close { index: 4 },
        Item::Stop(Stop { reason: Reason::Tools, sequence: None, detail: None, raw: "tool_use".into() }),
        Item::Usage(Usage { output: 9, ..usage }),
        Item::End,
    ]
}

#[test]
fn a_stream_is_read_piece_by_piece() {
    assert_eq!(read(&events(&rich())), shown(&rich_items()));
}

#[test]
fn a_stream_without_names_or_with_a_foreign_sentinel_says_the_same() {
    let stream = events(&rich());
    let nameless: String = rich().iter().map(|data| format!("data: {data}\n\n")).collect();
    assert_eq!(read(&nameless), read(&stream));
    assert_eq!(read(&(stream.clone() + "data: [DONE]\n\n: bye\n\n")), read(&stream));
}

#[test]
fn an_answer_begins_once() {
    let mut twice = rich();
    twice.insert(1, begin());
    assert_eq!(read(&events(&twice)), read(&events(&rich())));
}

#[test]
fn an_error_in_a_stream_has_the_status_that_it_should_have_had() {
    let table = [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("invalid_request_error", 400),
        ("api_error", 500),
        ("brand_new", 500),
    ];
    for (kind, status) in table {
        let failure = Failure { status, code: Some(kind.into()), message: "m".into(), param: None };
        let error = json!({"type": "error", "error": {"type": kind, "message": "m"}});
        assert_eq!(read(&events(std::slice::from_ref(&error))), shown(&[Item::Failed(failure.clone())]));
        let untyped = format!("data: {}\n\n", json!({"error": error["error"]}));
        assert_eq!(read(&untyped), shown(&[Item::Failed(failure)]));
    }
}

#[test]
fn what_is_no_json_is_a_failure_and_what_is_unknown_is_nothing() {
    for garbage in ["data: <html>\n\n", "event: content_block_delta\ndata: {\"type\":\n\n"] {
        let items = read(garbage);
        assert!(items.len() == 1 && items[0].starts_with("Failed"), "{items:?}");
    }
    for odd in [
        "data: []\n\n",
        "data: 7\n\n",
        "data: {\"type\":\"brand_new\"}\n\n",
        ": x\n\n",
        "event: x\n\n",
        "data: {\"type\":4}\n\n",
    ] {
        assert_eq!(read(odd), [] as [&str; 0], "{odd}");
    }
}

#[test]
fn a_stream_that_breaks_off_does_not_end() {
    let whole = rich();
    for length in 0..whole.len() - 1 {
        let items = read(&events(&whole[..length]));
        assert!(!items.iter().any(|item| item == "End"), "{length}");
        let written = crossed(&[events(&whole[..length]).as_bytes()]);
        assert!(!written.contains("message_stop"), "{length}");
    }
}

fn crossed(chunks: &[&[u8]]) -> String {
    let crossing = Crossing::between(&MESSAGES, &MESSAGES).unwrap();
    let mut stream = crossing.stream(Reply::default());
    let mut out = Vec::new();
    for chunk in chunks {
        stream.feed(chunk, &mut out).unwrap();
    }
    stream.finish(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn where_a_stream_was_cut_changes_nothing() {
    let stream = events(&rich()).replace("\n\ndata", "\r\n\r\ndata");
    let whole = crossed(&[stream.as_bytes()]);
    assert!(whole.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    for at in 0..stream.len() {
        let (before, after) = stream.as_bytes().split_at(at);
        assert_eq!(crossed(&[before, after]), whole, "{at}");
    }
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(crossed(&bytes), whole);
}

#[test]
fn what_is_written_reads_the_same_again() {
    let once = crossed(&[events(&rich()).as_bytes()]);
    let kept: Vec<_> = shown(&rich_items()).into_iter().filter(|item| !item.starts_with("Lost")).collect();
    let mut usage = 0;
    let same = |item: &String| {
        usage += usize::from(item.starts_with("Usage"));
        !item.starts_with("Usage")
    };
    let without_usage: Vec<_> = kept.into_iter().filter(same).collect();
    let again: Vec<_> = read(&once).into_iter().filter(|item| !item.starts_with("Usage")).collect();
    assert_eq!(again, without_usage);
}

#[test]
fn text_that_can_not_be_read_is_a_failure_and_not_left_out() {
    for text in [r#""a\ud83d""#, "5", "{}"] {
        let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        let delta = format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}}}}}"#
        );
        let items = read(&format!("data: {start}\n\ndata: {delta}\n\n"));
        assert!(items.last().is_some_and(|item| item.contains("Failed")), "{text}: {items:?}");
    }
}
