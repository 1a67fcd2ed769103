//! Answers of providers.

use super::*;
use crate::sse::{Ends, Event};
use crate::watch::Usage;

/// What a stream says, cut into chunks at these places. Deltas of one block that follow each other are one.
fn hear_cut(stream: &[u8], cut: usize) -> Vec<Item<'static>> {
    let mut reader = CHAT_TONGUE.reader();
    let mut items = Vec::new();
    let (mut ends, mut held) = (Ends::default(), Vec::new());
    for chunk in [&stream[..cut], &stream[cut..]] {
        let mut rest = chunk;
        while let Some(end) = ends.next(rest) {
            held.extend_from_slice(&rest[..end.length]);
            rest = &rest[end.length..];
            reader.event(&Event::read(&held), &mut |item| items.push(own(item)));
            held.clear();
        }
        held.extend_from_slice(rest);
    }
    if !held.is_empty() {
        reader.event(&Event::read(&held), &mut |item| items.push(own(item)));
    }
    reader.end(&mut |item| items.push(own(item)));
    items
}

/// An item for longer than its event.
fn own(item: Item<'_>) -> Item<'static> {
    fn t(text: Text<'_>) -> Text<'static> {
        text.into_owned().into()
    }
    match item {
        Item::Start { id, model } => Item::Start { id: t(id), model: t(model) },
        Item::Open { index, block } => Item::Open {
            index,
            block: match block {
                Block::Text => Block::Text,
                Block::Thought { encrypted } => Block::Thought { encrypted: encrypted.map(t) },
                Block::Call { id, name, free } => Block::Call { id: t(id), name: t(name), free },
                Block::Refusal => Block::Refusal,
            },
        },
        Item::Delta { index, text } => Item::Delta { index, text: t(text) },
        Item::Seal { index, signature } => Item::Seal { index, signature: t(signature) },
        Item::Close { index } => Item::Close { index },
        Item::Stop(stop) => Item::Stop(Stop {
            reason: stop.reason,
            sequence: stop.sequence.map(t),
            detail: stop.detail.map(t),
            raw: t(stop.raw),
        }),
        Item::Usage(usage) => Item::Usage(usage),
        Item::Ping => Item::Ping,
        Item::Failed(failure) => Item::Failed(Failure {
            status: failure.status,
            code: failure.code.map(t),
            message: t(failure.message),
            param: failure.param.map(t),
        }),
        Item::End => Item::End,
        Item::Lost { name } => Item::Lost { name: t(name) },
    }
}

/// What these events say, whole.
fn hear(events: &[&str]) -> Vec<Item<'static>> {
    let stream: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    hear_cut(stream.as_bytes(), 0)
}

/// The same of deltas of the one choice, between a beginning and the last word.
fn deltas(deltas: &[&str], finish: &str) -> Vec<Item<'static>> {
    let chunk =
        |delta: &&str| format!(r#"{{"id":"r","model":"m","choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let mut events: Vec<String> = deltas.iter().map(chunk).collect();
    events.push(format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}"#));
    events.push("[DONE]".to_owned());
    hear(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn start() -> Item<'static> {
    Item::Start { id: "r".into(), model: "m".into() }
}

fn open(index: u32, block: Block<'static>) -> Item<'static> {
    Item::Open { index, block }
}

fn delta(index: u32, text: &'static str) -> Item<'static> {
    Item::Delta { index, text: text.into() }
}

fn close(index: u32) -> Item<'static> {
    Item::Close { index }
}

fn stop(reason: Reason, raw: &'static str) -> Item<'static> {
    Item::Stop(Stop { reason, sequence: None, detail: None, raw: raw.into() })
}

fn called(id: &'static str, name: &'static str) -> Block<'static> {
    Block::Call { id: id.into(), name: name.into(), free: false }
}

const THOUGHT: Block<'static> = Block::Thought { encrypted: None };

#[test]
fn blocks_are_found_in_deltas() {
    let items = deltas(
        &[
            r#"{"role":"assistant","content":"","refusal":null}"#,
            r#"{"reasoning_content":"hm"}"#,
            r#"{"reasoning":"!","content":""}"#,
            r#"{"content":"Let"}"#,
            r#"{"content":" me"}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}"#,
            r#"{"content":"and"}"#,
        ],
        "tool_calls",
    );
    let expected = [
        start(),
        open(0, THOUGHT),
        delta(0, "hm"),
        delta(0, "!"),
        close(0),
        open(1, Block::Text),
        delta(1, "Let"),
        delta(1, " me"),
        close(1),
        open(2, called("a", "f")),
        delta(2, "{\"a\":"),
        delta(2, "1}"),
        open(3, Block::Text),
        delta(3, "and"),
        close(2),
        close(3),
        stop(Reason::Tools, "tool_calls"),
        Item::End,
    ];
    assert_eq!(items, expected);
}

#[test]
fn thoughts_and_text_of_one_delta_come_in_that_order() {
    let items = deltas(&[r#"{"content":"x","reasoning":"t"}"#], "stop");
    assert_eq!(items[1..3], [open(0, THOUGHT), delta(0, "t")]);
    let items = deltas(
        &[
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"x"}]}"#,
        ],
        "stop",
    );
    let expected = [open(0, THOUGHT), delta(0, "t"), close(0), open(1, Block::Text), delta(1, "x"), close(1)];
    assert_eq!(items[1..7], expected);
}

#[test]
fn calls_are_told_apart_however_a_host_marks_them() {
    let two = |deltas: &[&str]| {
        let items = self::deltas(deltas, "tool_calls");
        let mut calls: Vec<(String, String, String)> = Vec::new();
        for item in items {
            match item {
                Item::Open { block: Block::Call { id, name, .. }, index } => {
                    assert_eq!(index as usize, calls.len());
                    calls.push((id.into_owned(), name.into_owned(), String::new()));
                }
                Item::Delta { index, text } => calls[index as usize].2.push_str(&text),
                _ => {}
            }
        }
        let calls: Vec<_> = calls.iter().map(|(id, name, given)| format!("{id} {name} {given}")).collect();
        calls.join(", ")
    };
    let table: [(&[&str], &str); 9] = [
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}},{"index":1,"id":"b","function":{"name":"g"}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\""}},{"index":0,"function":{"arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{"arguments":":1}"}}]}"#,
            ],
            r#"a f {}, b g {"b":1}"#,
        ),
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
            ],
            "a f {}, b g {}",
        ),
        (
            &[
                r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
            ],
            "a f {}, b g {}",
        ),
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
            ],
            "a f {}, b g {}",
        ),
        (
            &[
                r#"{"tool_calls":[{"function":{"name":"f","arguments":{"a":1.10}}},{"function":{"name":"g"}}]}"#,
            ],
            r#"call_r_0 f {"a":1.10}, call_r_1 g "#,
        ),
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#,
            ],
            "a f {}",
        ),
        // One index for all of them and no ids; and a host that repeats the name.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":1}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":2"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#,
            ],
            "call_r_0 f {\"a\":1}, call_r_1 f {\"a\":2}",
        ),
        (&[r#"{"tool_calls":[{"index":7,"id":"a","function":{"name":"f","arguments":null}}]}"#], "a f "),
        (
            &[r#"{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]}"#],
            "a f x",
        ),
    ];
    for (deltas, expected) in table {
        assert_eq!(two(deltas), expected, "{deltas:?}");
    }
}

#[test]
fn a_call_without_a_name_is_a_failure() {
    let items =
        deltas(&[r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}"#], "tool_calls");
    assert!(matches!(items.last(), Some(Item::Failed(Failure { status: 502, .. }))), "{items:?}");
}

#[test]
fn reasons_to_stop_are_read_and_kept() {
    let table = [
        ("stop", Reason::Done),
        ("length", Reason::Length),
        ("model_length", Reason::Length),
        ("tool_calls", Reason::Tools),
        ("function_call", Reason::Tools),
        ("content_filter", Reason::Filtered),
        ("abort", Reason::Other),
    ];
    for (word, reason) in table {
        let items = deltas(&[r#"{"content":"x"}"#], word);
        assert_eq!(items[3..], [close(0), stop(reason, word), Item::End], "{word}");
    }
}

#[test]
fn a_call_does_not_change_why_the_model_stopped() {
    let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\""}}]}"#;
    for (word, reason) in
        [("stop", Reason::Done), ("length", Reason::Length), ("content_filter", Reason::Filtered)]
    {
        assert_eq!(deltas(&[call], word)[4], stop(reason, word));
    }
}

#[test]
fn a_refusal_is_a_filtered_answer() {
    let items = deltas(&[r#"{"refusal":"I "}"#, r#"{"refusal":"can't"}"#], "stop");
    let refused =
        Stop { reason: Reason::Filtered, sequence: None, detail: Some("I can't".into()), raw: "stop".into() };
    let expected = [
        start(),
        open(0, Block::Refusal),
        delta(0, "I "),
        delta(0, "can't"),
        close(0),
        Item::Stop(refused.clone()),
        Item::End,
    ];
    assert_eq!(items, expected);
    let body = r#"{"id":"r","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I can't"},"finish_reason":"stop"}]}"#;
    let items = CHAT_TONGUE.read_answer(body.as_bytes()).unwrap();
    assert_eq!(items[4], Item::Stop(refused));
}

#[test]
fn usage_is_read_wherever_it_stands() {
    let expected = Usage { input: 12, cached_input: 4, cache_write: 2, output: 3, reasoning: 1 };
    let counts = r#"{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}"#;
    let first = r#"{"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"x"}}],"usage":null}"#;
    let last = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let alone = format!(r#"{{"choices":[],"usage":{counts}}}"#);
    let beside = last.replace(r#"]}"#, &format!(r#"],"usage":{counts}}}"#));
    let groq = last.replace(r#"]}"#, &format!(r#"],"x_groq":{{"usage":{counts}}}}}"#));
    for events in
        [vec![first, last, &alone, "[DONE]"], vec![first, &beside, "[DONE]"], vec![first, &groq, "[DONE]"]]
    {
        let items = hear(&events);
        assert_eq!(items[4..], [stop(Reason::Done, "stop"), Item::Usage(expected), Item::End], "{events:?}");
    }
}

#[test]
fn errors_in_an_answer_are_failures_with_a_status() {
    let first = r#"{"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"x"}}]}"#;
    let table = [
        (r#"{"error":{"message":"slow","code":429}}"#, 429, None),
        (r#"{"error":{"message":"slow","type":"server_error","code":"slow_down"}}"#, 503, Some("slow_down")),
        (r#"{"error":"slow"}"#, 502, None),
        (r#"{"error_type":"overloaded","error_message":"slow"}"#, 503, Some("overloaded")),
        (
            r#"{"id":"r","error":{"code":502,"message":"slow"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
            502,
            None,
        ),
        (r#"{"choices":[{"index":0,"error":{"message":"slow","code":503},"delta":{}}]}"#, 503, None),
    ];
    for (error, status, code) in table {
        for events in [&[error][..], &[first, error, first, "[DONE]"]] {
            let items = hear(events);
            let failure = Failure { status, code: code.map(Into::into), message: "slow".into(), param: None };
            let failed = items.iter().filter(|item| matches!(item, Item::Failed(_))).count();
            assert_eq!((items.last(), failed), (Some(&Item::Failed(failure)), 1), "{error}");
        }
        let whole = CHAT_TONGUE.read_answer(error.as_bytes()).unwrap();
        assert!(matches!(whole.last(), Some(Item::Failed(failure)) if failure.status == status), "{error}");
    }
}

#[test]
fn what_is_no_chunk_is_never_passed_over() {
    let first = r#"{"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"x"}}]}"#;
    let ended = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let table: [&[&str]; 10] = [
        &[first, "<html>"],
        &[first, r#"{"choices":[{"delta":{"content":"#],
        &[first, r#"{"choices":7}"#],
        &[first, r#"{"choices":[{"index":0,"delta":{"content":7}}]}"#],
        &[first, r#"{"choices":[{"index":-1,"delta":{"content":"x"}}]}"#],
        &[first, r#"{"choices":[{"index":99999999999,"delta":{"content":"x"}}]}"#],
        &[first, ended, first],
        &[
            first,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":-1,"function":{"name":"f"}}]}}]}"#,
        ],
        &[first, r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#],
        &["[DONE]"],
    ];
    for events in table {
        let items = hear(events);
        assert!(
            matches!(items.last(), Some(Item::Failed(Failure { status: 502, .. }))),
            "{events:?} {items:?}"
        );
    }
}

#[test]
fn other_choices_than_the_first_are_lost_by_name() {
    let items = hear(&[
        r#"{"id":"r","model":"m","choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"x"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"annotations":[{"url":"u"}]},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
    let expected = [
        Item::Lost { name: "choices".into() },
        start(),
        open(0, Block::Text),
        delta(0, "x"),
        Item::Lost { name: "annotations".into() },
        close(0),
        stop(Reason::Done, "stop"),
        Item::End,
    ];
    assert_eq!(items, expected);
}

#[test]
fn what_stands_beside_a_call_is_lost_by_name() {
    let called = r#"{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"T"}},"function":{"name":"f","arguments":"{}"}}"#;
    let items = deltas(&[&format!(r#"{{"tool_calls":[{called}]}}"#)], "stop");
    assert!(items.contains(&Item::Lost { name: "tool_calls.extra_content".into() }), "{items:?}");
}

#[test]
fn a_stream_ends_well_only_if_the_provider_ended_it() {
    let first = r#"{"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"x"}}]}"#;
    let ended = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    assert_eq!(hear(&[first, ended]).last(), Some(&Item::End));
    assert_eq!(hear(&[first, ended, ended, "[DONE]", first]).last(), Some(&Item::End));
    assert_eq!(hear(&[first]).last(), Some(&delta(0, "x")));
    assert_eq!(hear(&[first, "[DONE]"])[3..], [close(0), stop(Reason::Other, ""), Item::End]);
}

#[test]
fn streams_of_real_hosts_are_read() {
    let of = |stream: &[u8]| hear_cut(stream, 0);
    let said = |items: &[Item<'_>]| -> String {
        items
            .iter()
            .filter_map(|item| if let Item::Delta { text, .. } = item { Some(&**text) } else { None })
            .collect()
    };
    let azure = of(include_bytes!("../../../../tests/golden/chat_azure.sse"));
    assert_eq!(said(&azure), "yes");
    assert_eq!(azure[0], Item::Start { id: "chatcmpl-Qe41".into(), model: "gpt-5-mini-2026-04-02".into() });
    assert_eq!(azure.last(), Some(&Item::End));
    let router = of(include_bytes!("../../../../tests/golden/chat_openrouter.sse"));
    assert_eq!(said(&router), "Hmok");
    assert_eq!(router.last(), Some(&Item::End));
    let groq = of(include_bytes!("../../../../tests/golden/chat_groq.sse"));
    assert!(groq.iter().any(|item| matches!(item, Item::Usage(Usage { input: 12, output: 3, .. }))));
    for failed in [
        &include_bytes!("../../../../tests/golden/chat_error.sse")[..],
        include_bytes!("../../../../tests/golden/chat_error_flat.sse"),
        include_bytes!("../../../../tests/golden/chat_garbled.sse"),
    ] {
        assert!(matches!(of(failed).last(), Some(Item::Failed(_))));
    }
    let cut = of(include_bytes!("../../../../tests/golden/chat_cut.sse"));
    assert!(!cut.iter().any(|item| matches!(item, Item::End | Item::Stop(_))));
}

#[test]
fn a_stream_says_the_same_wherever_it_is_cut() {
    for stream in [
        &include_bytes!("../../../../tests/golden/chat_tools.sse")[..],
        include_bytes!("../../../../tests/golden/chat_crlf.sse"),
        include_bytes!("../../../../tests/golden/chat_cr.sse"),
        include_bytes!("../../../../tests/golden/chat_openrouter.sse"),
        include_bytes!("../../../../tests/golden/chat_multiline.sse"),
    ] {
        let whole = hear_cut(stream, 0);
        assert!(whole.len() > 4);
        for cut in 1..=stream.len() {
            assert_eq!(hear_cut(stream, cut), whole, "cut at {cut}");
        }
    }
}

#[test]
fn a_whole_answer_is_read_as_its_stream_would_be() {
    let body = r#"{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":
        {"role":"assistant","content":"x","reasoning_content":"t","refusal":null,"annotations":[],"tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{\"n\":1.10}"}},
        {"id":"a","type":"function","function":{"name":"g","arguments":""}}]},"logprobs":null,
        "finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12}}"#;
    let expected = [
        start(),
        open(0, THOUGHT),
        delta(0, "t"),
        close(0),
        open(1, Block::Text),
        delta(1, "x"),
        close(1),
        open(2, called("a", "f")),
        delta(2, "{\"n\":1.10}"),
        open(3, called("a", "g")),
        close(2),
        close(3),
        stop(Reason::Done, "stop"),
        Item::Usage(Usage { input: 8, output: 4, ..Usage::default() }),
        Item::End,
    ];
    assert_eq!(CHAT_TONGUE.read_answer(body.as_bytes()).unwrap(), expected);
    for nothing in
        ["", "{}", "[]", "null", r#"{"choices":[]}"#, r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, "<p>"]
    {
        assert_eq!(CHAT_TONGUE.read_answer(nothing.as_bytes()), None, "{nothing}");
    }
}
