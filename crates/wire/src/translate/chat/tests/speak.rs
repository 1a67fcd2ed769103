//! Answers to clients.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::dialect::CHAT;
use crate::relay::{Out, Relay};
use crate::translate::Reply;
use crate::watch::Usage;

/// Everything, for who asked for usage; each event by itself.
#[derive(Default)]
struct All(Vec<(Bytes, bool)>);

impl Out for All {
    fn answer(&mut self, bytes: Bytes) {
        self.0.push((bytes, false));
    }

    fn usage(&mut self, bytes: Bytes) {
        self.0.push((bytes, true));
    }
}

/// Writes a stream, as it is relayed to who may not have asked for usage.
fn relay(items: &[Item<'_>], reply: Reply, out: &mut impl Out) {
    let mut writer = CHAT_TONGUE.writer(reply);
    let mut relay = Relay::new(&CHAT, true);
    for item in items {
        let mut written = Vec::new();
        writer.item(item, &mut written);
        relay.feed(written.into(), out);
    }
}

fn events(items: &[Item<'_>], reply: Reply) -> Vec<(String, bool)> {
    let mut out = All::default();
    relay(items, reply, &mut out);
    let mut events = Vec::new();
    for (bytes, usage) in out.0 {
        let text = std::str::from_utf8(&bytes).unwrap().strip_suffix("\n\n").unwrap().to_owned();
        events.extend(
            text.split("\n\n").map(|event| (event.strip_prefix("data: ").unwrap().to_owned(), usage)),
        );
    }
    events
}

/// The chunks of a stream, without the last word.
pub(super) fn stream(items: &[Item<'_>], reply: Reply) -> Vec<Value> {
    let data = events(items, reply).into_iter().filter(|(data, _)| data != "[DONE]");
    data.map(|(data, _)| serde_json::from_str(&data).unwrap()).collect()
}

/// The deltas of a stream after its first.
fn deltas(items: &[Item<'_>]) -> Vec<Value> {
    let chunks = stream(items, Reply::default());
    chunks.iter().skip(1).map(|chunk| chunk["choices"][0]["delta"].clone()).collect()
}

fn start() -> Item<'static> {
    Item::Start { id: "msg_1".into(), model: "claude".into() }
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

fn called(id: &'static str, name: &'static str) -> Block<'static> {
    Block::Call { id: id.into(), name: name.into(), free: false }
}

fn stop(reason: Reason) -> Item<'static> {
    Item::Stop(Stop { reason, sequence: None, detail: None, raw: "raw".into() })
}

const USAGE: Usage = Usage { input: 60, cached_input: 30, cache_write: 20, output: 45, reasoning: 9 };

fn answer() -> Vec<Item<'static>> {
    vec![
        start(),
        Item::Usage(Usage { input: 60, ..Usage::default() }),
        open(0, Block::Text),
        Item::Ping,
        delta(0, "Let \"me\"\n"),
        close(0),
        open(1, called("toolu_a", "lookup")),
        delta(1, "{\"a\":"),
        delta(1, "1}"),
        close(1),
        open(2, called("toolu_b", "lookup")),
        close(2),
        stop(Reason::Tools),
        Item::Usage(USAGE),
        Item::End,
    ]
}

#[test]
fn a_stream_is_written_chunk_by_chunk() {
    let reply = Reply { created: 7, ..Reply::default() };
    let chunk = |delta: &str, finish: &str| {
        format!(
            r#"{{"id":"msg_1","object":"chat.completion.chunk","created":7,"model":"claude","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
        )
    };
    let usage = r#"{"id":"msg_1","object":"chat.completion.chunk","created":7,"model":"claude","choices":[],"usage":{"prompt_tokens":60,"completion_tokens":45,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20},"completion_tokens_details":{"reasoning_tokens":9}}}"#;
    let expected = [
        (chunk(r#"{"role":"assistant","content":""}"#, "null"), false),
        (chunk(r#"{"content":"Let \"me\"\n"}"#, "null"), false),
        (
            chunk(
                r#"{"tool_calls":[{"index":0,"id":"toolu_a","type":"function","function":{"name":"lookup","arguments":""}}]}"#,
                "null",
            ),
            false,
        ),
        (chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}"#, "null"), false),
        (chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}"#, "null"), false),
        (
            chunk(
                r#"{"tool_calls":[{"index":1,"id":"toolu_b","type":"function","function":{"name":"lookup","arguments":""}}]}"#,
                "null",
            ),
            false,
        ),
        (chunk(r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#, "null"), false),
        (chunk("{}", r#""tool_calls""#), false),
        (usage.to_owned(), true),
        ("[DONE]".to_owned(), false),
    ];
    assert_eq!(events(&answer(), reply), expected);
}

#[test]
fn usage_goes_only_to_who_asked_for_it() {
    let mut out: VecDeque<Bytes> = VecDeque::new();
    relay(&answer(), Reply::default(), &mut out);
    let told: Vec<u8> = out.into_iter().flatten().collect();
    let told = String::from_utf8(told).unwrap();
    assert!(!told.contains("usage") && told.ends_with("\n\ndata: [DONE]\n\n"), "{told}");
}

#[test]
fn a_whole_answer_is_written() {
    let told: Value = serde_json::from_slice(
        &CHAT_TONGUE.write_answer(&answer(), &Reply { created: 7, ..Reply::default() }),
    )
    .unwrap();
    let call = |id: &str, given: &str| json!({"id": id, "type": "function", "function": {"name": "lookup", "arguments": given}});
    let expected = json!({
        "id": "msg_1", "object": "chat.completion", "created": 7, "model": "claude",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Let \"me\"\n", "refusal": null,
            "tool_calls": [call("toolu_a", "{\"a\":1}"), call("toolu_b", "{}")]},
            "logprobs": null, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 45, "total_tokens": 105,
            "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 9}},
    });
    assert_eq!(told, expected);
}

#[test]
fn a_whole_answer_of_calls_alone_has_no_content_and_one_of_nothing_an_empty_one() {
    let content = |items: &[Item<'_>]| {
        let told: Value =
            serde_json::from_slice(&CHAT_TONGUE.write_answer(items, &Reply::default())).unwrap();
        told["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(content(&[start(), open(0, called("c", "f")), close(0), stop(Reason::Tools)]), Value::Null);
    assert_eq!(content(&[start(), stop(Reason::Done)]), "");
}

#[test]
fn the_clients_own_names_come_back() {
    let names = Names::fit(["files/read"].into_iter(), 64);
    let theirs = names.theirs("files/read").to_owned();
    let block = Block::Call { id: "c".into(), name: theirs.into(), free: false };
    let items = [start(), Item::Open { index: 0, block }, close(0), stop(Reason::Tools), Item::End];
    let reply = Reply { names, ..Reply::default() };
    let chunks = stream(&items, reply.clone());
    assert_eq!(chunks[1]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"], "files/read");
    let told: Value = serde_json::from_slice(&CHAT_TONGUE.write_answer(&items, &reply)).unwrap();
    assert_eq!(told["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "files/read");
}

#[test]
fn a_call_of_a_tool_that_takes_a_text_is_one() {
    let block = Block::Call { id: "c".into(), name: "g".into(), free: true };
    let items =
        [start(), Item::Open { index: 0, block }, delta(0, "x"), close(0), stop(Reason::Tools), Item::End];
    let expected = [
        json!({"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "g", "input": ""}}]}),
        json!({"tool_calls": [{"index": 0, "custom": {"input": "x"}}]}),
        json!({}),
    ];
    assert_eq!(deltas(&items), expected);
}

#[test]
fn thoughts_are_told_and_sealed_one_by_one() {
    let thought = Block::Thought { encrypted: None };
    let seal = |index, signature: &'static str| Item::Seal { index, signature: signature.into() };
    let items = [
        start(),
        open(0, thought.clone()),
        delta(0, "a"),
        seal(0, "S"),
        seal(0, "A"),
        close(0),
        open(1, Block::Text),
        delta(1, "żx"),
        close(1),
        open(2, thought.clone()),
        seal(2, "SB"),
        close(2),
        open(3, called("c", "f")),
        delta(3, "{}"),
        close(3),
        open(4, Block::Thought { encrypted: Some("RQ==".into()) }),
        close(4),
        open(5, thought),
        delta(5, "no seal"),
        close(5),
        stop(Reason::Tools),
        Item::End,
    ];
    let told = |text: &str, signature: &str, index: u32, characters: u32, calls: u32| {
        json!({"reasoning_details": [{"type": "reasoning.text", "text": text, "signature": signature, "index": index,
            "text_before": characters, "calls_before": calls}]})
    };
    let deltas = deltas(&items);
    assert_eq!(
        deltas[..4],
        [
            json!({"reasoning_content": "a"}),
            told("a", "SA", 0, 0, 0),
            json!({"content": "żx"}),
            told("", "SB", 1, 2, 0),
        ]
    );
    let encrypted = json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "RQ==", "index": 2,
        "text_before": 2, "calls_before": 1}]});
    assert_eq!(deltas[6..], [encrypted, json!({"reasoning_content": "no seal"}), json!({})]);
    let whole: Value = serde_json::from_slice(&CHAT_TONGUE.write_answer(&items, &Reply::default())).unwrap();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "ano seal");
    assert_eq!(message["reasoning_details"].as_array().unwrap().len(), 3);
    assert_eq!(message["reasoning_details"][1], told("", "SB", 1, 2, 0)["reasoning_details"][0]);
}

#[test]
fn the_reason_to_stop_is_never_made_better_than_it_is() {
    let table = [
        (Reason::Done, "stop", "tool_calls"),
        (Reason::Tools, "tool_calls", "tool_calls"),
        (Reason::Length, "length", "length"),
        (Reason::Filtered, "content_filter", "content_filter"),
        (Reason::Paused, "stop", "stop"),
        (Reason::Other, "stop", "stop"),
    ];
    for (reason, bare, with_call) in table {
        for (call, expected) in [(false, bare), (true, with_call)] {
            let mut items = vec![start()];
            if call {
                items.extend([open(0, called("c", "f")), delta(0, "{\"a"), close(0)]);
            }
            items.extend([stop(reason), Item::End]);
            let chunks = stream(&items, Reply::default());
            assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], expected, "{reason:?}");
            let whole: Value =
                serde_json::from_slice(&CHAT_TONGUE.write_answer(&items, &Reply::default())).unwrap();
            assert_eq!(whole["choices"][0]["finish_reason"], expected, "{reason:?}");
        }
    }
}

#[test]
fn a_refusal_says_why_once() {
    let refused = |detail: Option<&'static str>| {
        let (reason, detail) = (Reason::Filtered, detail.map(Into::into));
        Item::Stop(Stop { reason, sequence: None, detail, raw: "refusal".into() })
    };
    let explained = [start(), refused(Some("unsafe")), Item::End];
    assert_eq!(deltas(&explained), [json!({"refusal": "unsafe"}), json!({})]);
    let told = [start(), open(0, Block::Refusal), delta(0, "no"), close(0), refused(Some("no")), Item::End];
    assert_eq!(deltas(&told), [json!({"refusal": "no"}), json!({})]);
    for (items, why) in [(&explained[..], "unsafe"), (&told, "no")] {
        let whole: Value =
            serde_json::from_slice(&CHAT_TONGUE.write_answer(items, &Reply::default())).unwrap();
        let choice = &whole["choices"][0];
        assert_eq!(choice["message"]["refusal"], why);
        assert_eq!(choice["message"]["content"], Value::Null);
        assert_eq!(choice["finish_reason"], "content_filter");
    }
}

#[test]
fn only_a_stream_that_ended_well_gets_the_last_word() {
    let failure = Failure {
        status: 529,
        code: Some("overloaded_error".into()),
        message: "Overloaded".into(),
        param: None,
    };
    let body =
        r#"{"error":{"message":"Overloaded","type":"server_error","param":null,"code":"overloaded_error"}}"#;
    let text = || [start(), open(0, Block::Text), delta(0, "x")];
    let failed = |last: &[Item<'static>]| {
        let mut items = text().to_vec();
        items.extend_from_slice(last);
        events(&items, Reply::default()).split_off(2)
    };
    assert_eq!(failed(&[Item::Failed(failure.clone()), Item::End]), [(body.to_owned(), false)]);
    assert_eq!(failed(&[]), []);
    for last in [&[Item::End, Item::End][..], &[stop(Reason::Malformed), Item::End]] {
        let events = failed(last);
        assert_eq!(events.len(), 1);
        assert!(events[0].0.starts_with(r#"{"error":{"#), "{events:?}");
        let mut items = text().to_vec();
        items.extend_from_slice(last);
        let whole = CHAT_TONGUE.write_answer(&items, &Reply::default());
        assert!(whole.starts_with(br#"{"error":{"#));
    }
    assert_eq!(events(&[Item::Failed(failure)], Reply::default()), [(body.to_owned(), false)]);
}

#[test]
fn the_reason_to_stop_waits_for_the_end() {
    let mut items = answer();
    assert_eq!(items.pop(), Some(Item::End), "it ends well");
    let finishes = |items: &[Item<'_>]| {
        let chunks = stream(items, Reply::default());
        chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"].is_string()).count()
    };
    assert_eq!(finishes(&items), 0, "the provider has not said that this was all");
    items.push(Item::End);
    assert_eq!(finishes(&items), 1);
}

#[test]
fn an_answer_without_an_id_gets_the_one_it_was_given() {
    let items = [Item::Start { id: "".into(), model: "m".into() }, stop(Reason::Done), Item::End];
    let reply = Reply { id: "chatcmpl-1".into(), ..Reply::default() };
    assert!(stream(&items, reply.clone()).iter().all(|chunk| chunk["id"] == "chatcmpl-1"));
    let whole: Value = serde_json::from_slice(&CHAT_TONGUE.write_answer(&items, &reply)).unwrap();
    assert_eq!(whole["id"], "chatcmpl-1");
}
