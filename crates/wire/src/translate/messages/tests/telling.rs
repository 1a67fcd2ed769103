//! Streams, as they are written.

use serde_json::json;

use super::answers::{call_block, delta, open, stop};
use super::*;
use crate::sse::Event;
use crate::translate::canon::*;
use crate::translate::{Names, Reply};
use crate::watch::Usage;

/// Writes a stream and gives the data of its events, of which each has its name.
fn told(items: &[Item<'_>]) -> Vec<Value> {
    told_with(items, Reply { id: "msg_gate".into(), ..Reply::default() })
}

fn told_with(items: &[Item<'_>], reply: Reply) -> Vec<Value> {
    let mut writer = MESSAGES_TONGUE.writer(reply);
    let mut written = Vec::new();
    items.iter().for_each(|item| writer.item(item, &mut written));
    let text = String::from_utf8(written).unwrap();
    let read = |raw: &str| {
        let event = Event::read(raw.as_bytes());
        let data: Value = serde_json::from_slice(event.data()).unwrap();
        assert_eq!(event.name(), data["type"].as_str().map(str::as_bytes));
        data
    };
    text.split_inclusive("\n\n").map(read).collect()
}

/// Events in short.
fn short(events: &[Value]) -> Vec<String> {
    let one = |event: &Value| match event["type"].as_str().unwrap() {
        "content_block_start" => {
            format!("{} {}", event["index"], event["content_block"]["type"].as_str().unwrap())
        }
        "content_block_delta" => {
            let text =
                ["text", "thinking", "partial_json", "signature"].map(|name| event["delta"][name].as_str());
            format!("{} + {}", event["index"], text.into_iter().flatten().next().unwrap())
        }
        "content_block_stop" => format!("{} .", event["index"]),
        "message_delta" => format!("= {}", event["delta"]["stop_reason"].as_str().unwrap()),
        other => other.to_owned(),
    };
    events.iter().map(one).collect()
}

fn first() -> Item<'static> {
    Item::Start { id: "".into(), model: "m".into() }
}

#[test]
fn a_stream_is_written_with_a_name_for_every_event() {
    let usage = Usage { input: 9, cached_input: 4, cache_write: 2, output: 5, reasoning: 1 };
    let told = told(&[
        first(),
        open(0, Block::Text),
        delta(0, "a\n"),
        Item::Close { index: 0 },
        Item::Ping,
        stop(Reason::Done),
        Item::Usage(usage),
        Item::End,
    ]);
    let counted = |fresh: u64, written: u64, read: u64, output: u64| {
        json!({"input_tokens": fresh,
        "cache_creation_input_tokens": written, "cache_read_input_tokens": read, "output_tokens": output})
    };
    let mut last = counted(3, 2, 4, 5);
    last["output_tokens_details"] = json!({"thinking_tokens": 1});
    let expected = [
        json!({"type": "message_start", "message": {"id": "msg_gate", "type": "message", "role": "assistant", "model": "m",
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": counted(0, 0, 0, 0)}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\n"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": last}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(told, expected);
}

#[test]
fn blocks_that_come_side_by_side_go_out_one_after_the_other() {
    let (a, b) = (call_block("a"), call_block("b"));
    let end = [stop(Reason::Tools), Item::Usage(Usage::default()), Item::End];
    let with = |items: &[Item<'static>]| {
        let told = told(&[&[first()], items, &end[..]].concat());
        short(&told[1..])
    };
    let last = ["= tool_use", "message_stop"];
    // The text is over once a call begins.
    let told = with(&[open(0, Block::Text), delta(0, "x"), open(1, a.clone()), delta(1, "{}")]);
    assert_eq!(told, [&["0 text", "0 + x", "0 .", "1 tool_use", "1 + {}", "1 ."][..], &last].concat());
    // The first call is whole when the second one begins: it goes out as it comes.
    let told =
        with(&[open(0, a.clone()), delta(0, "{}"), open(1, b.clone()), delta(1, "{\""), delta(1, "b\":1}")]);
    let expected = ["0 tool_use", "0 + {}", "0 .", "1 tool_use", "1 + {\"", "1 + b\":1}", "1 ."];
    assert_eq!(told, [&expected[..], &last].concat());
    // It is not: the second one waits.
    let told = with(&[
        open(0, a.clone()),
        open(1, b.clone()),
        delta(1, "{\""),
        delta(0, "{\"a\""),
        delta(1, "b\":1}"),
        delta(0, ":{}"),
        delta(0, "}"),
    ]);
    let expected =
        ["0 tool_use", "0 + {\"a\"", "0 + :{}", "0 + }", "0 .", "1 tool_use", "1 + {\"b\":1}", "1 ."];
    assert_eq!(told, [&expected[..], &last].concat());
    // It never is.
    let told =
        with(&[open(0, a.clone()), delta(0, "{\""), open(1, b), delta(1, "{}"), Item::Close { index: 1 }]);
    assert_eq!(told, [&["0 tool_use", "0 + {\"", "0 .", "1 tool_use", "1 + {}", "1 ."][..], &last].concat());
    // More text behind a call is another text.
    let told = with(&[open(0, Block::Text), delta(0, "x"), open(1, a), delta(1, "{}"), delta(0, "y")]);
    let expected = ["0 text", "0 + x", "0 .", "1 tool_use", "1 + {}", "1 .", "2 text", "2 + y", "2 ."];
    assert_eq!(told, [&expected[..], &last].concat());
}

#[test]
fn thoughts_have_a_place_for_their_seal_with_and_without_one() {
    let items = [
        first(),
        open(0, Block::Thought { encrypted: None }),
        delta(0, "hm"),
        open(1, Block::Thought { encrypted: None }),
        Item::Seal { index: 1, signature: "S".into() },
        open(2, Block::Thought { encrypted: Some("E".into()) }),
    ];
    let told = told(&items);
    assert_eq!(told[1]["content_block"], json!({"type": "thinking", "thinking": "", "signature": ""}));
    assert_eq!(
        short(&told[1..]),
        ["0 thinking", "0 + hm", "0 .", "1 thinking", "1 + S", "1 .", "2 redacted_thinking"]
    );
    assert_eq!(told[7]["content_block"]["data"], "E");
}

#[test]
fn the_stop_waits_for_what_was_counted() {
    let words = |items: &[Item<'static>]| short(&told(&[&[first()], items].concat())[1..]);
    let usage = Item::Usage(Usage { output: 3, ..Usage::default() });
    assert_eq!(words(&[stop(Reason::Done)]), [] as [&str; 0]);
    assert_eq!(words(&[stop(Reason::Done), usage.clone()]), ["= end_turn"]);
    assert_eq!(words(&[stop(Reason::Done), Item::End]), ["= end_turn", "message_stop"]);
    assert_eq!(words(&[usage.clone(), stop(Reason::Length), Item::End]), ["= max_tokens", "message_stop"]);
    assert_eq!(
        words(&[stop(Reason::Done), usage.clone(), usage.clone(), Item::End]),
        ["= end_turn", "message_stop"]
    );
    assert_eq!(words(&[usage, Item::End]), [] as [&str; 0], "nobody said that the model has stopped");
}

#[test]
fn a_truncated_call_is_not_said_to_be_one() {
    let items = |reason| [first(), open(0, call_block("t")), delta(0, "{\"a"), stop(reason), Item::End];
    let word = |reason| short(&told(&items(reason)))[4].clone();
    assert_eq!(
        [Reason::Length, Reason::Filtered, Reason::Done].map(word),
        ["= max_tokens", "= refusal", "= tool_use"]
    );
}

#[test]
fn a_refusal_is_told_as_text_and_as_the_reason() {
    let told = told(&[
        first(),
        open(0, Block::Refusal),
        delta(0, "I "),
        delta(0, "can't"),
        stop(Reason::Done),
        Item::End,
    ]);
    assert_eq!(short(&told[1..]), ["0 text", "0 + I ", "0 + can't", "0 .", "= refusal", "message_stop"]);
    assert_eq!(told[5]["delta"]["stop_details"]["explanation"], "I can't");
}

#[test]
fn a_failure_is_an_error_event_that_clients_know() {
    let failure = |status| Item::Failed(Failure { status, code: None, message: "gone".into(), param: None });
    for (status, kind) in
        [(502, "api_error"), (429, "rate_limit_error"), (529, "overloaded_error"), (504, "timeout_error")]
    {
        let told = told(&[first(), open(0, Block::Text), failure(status)]);
        assert_eq!(told[2], json!({"type": "error", "error": {"type": kind, "message": "gone"}}));
    }
}

#[test]
fn calls_have_the_names_that_the_client_knows() {
    let names = Names::fit(["a.b"].into_iter(), 64);
    let theirs = names.theirs("a.b").to_owned();
    let block = |free| Block::Call { id: "t".into(), name: theirs.clone().into(), free };
    let items = [
        first(),
        open(0, block(false)),
        open(1, block(true)),
        delta(0, "{}"),
        delta(1, "a\""),
        delta(1, "b"),
        stop(Reason::Tools),
    ];
    let told = told_with(&items, Reply { names: names.clone(), ..Reply::default() });
    assert_eq!(told[1]["content_block"], json!({"type": "tool_use", "id": "t", "name": "a.b", "input": {}}));
    assert_eq!(
        short(&told[1..]),
        ["0 tool_use", "0 + {}", "0 .", "1 tool_use", "1 + {\"input\":\"a\\\"b\"}", "1 ."]
    );
}
