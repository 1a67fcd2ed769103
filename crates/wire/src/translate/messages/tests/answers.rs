//! Whole answers and errors.

use serde_json::json;

use super::*;
use crate::translate::canon::*;
use crate::translate::{Names, Reply};
use crate::watch::Usage;

fn read(answer: &Value) -> Vec<Item<'static>> {
    let body: &'static [u8] = Box::leak(answer.to_string().into_bytes().into_boxed_slice());
    MESSAGES_TONGUE.read_answer(body).unwrap()
}

fn written(items: &[Item<'_>]) -> Value {
    let reply = Reply { created: 7, id: "msg_gate".into(), names: Names::default() };
    serde_json::from_slice(&MESSAGES_TONGUE.write_answer(items, &reply)).unwrap()
}

pub(super) fn stop(reason: Reason) -> Item<'static> {
    Item::Stop(Stop { reason, sequence: None, detail: None, raw: "".into() })
}

pub(super) fn delta(index: u32, text: &'static str) -> Item<'static> {
    Item::Delta { index, text: text.into() }
}

pub(super) fn open(index: u32, block: Block<'static>) -> Item<'static> {
    Item::Open { index, block }
}

pub(super) fn call_block(id: &'static str) -> Block<'static> {
    Block::Call { id: id.into(), name: "f".into(), free: false }
}

#[test]
fn a_whole_answer_is_read_piece_by_piece() {
    let items = read(&json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": null,
        "content": [
            {"type": "thinking", "thinking": "", "signature": "Sg=="},
            {"type": "redacted_thinking", "data": "E"},
            {"type": "text", "text": "hi", "citations": [{"x": 1}]},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 1, "output_tokens": 9},
    }));
    let expected = [
        Item::Start { id: "msg_1".into(), model: "m".into() },
        open(0, Block::Thought { encrypted: None }),
        Item::Seal { index: 0, signature: "Sg==".into() },
        Item::Close { index: 0 },
        open(1, Block::Thought { encrypted: Some("E".into()) }),
        Item::Close { index: 1 },
        open(2, Block::Text),
        delta(2, "hi"),
        Item::Close { index: 2 },
        Item::Lost { name: "citations".into() },
        Item::Lost { name: "server_tool_use".into() },
        open(4, call_block("t")),
        delta(4, r#"{"a":1}"#),
        Item::Close { index: 4 },
        Item::Stop(Stop { reason: Reason::Tools, sequence: None, detail: None, raw: "tool_use".into() }),
        Item::Usage(Usage { input: 6, cached_input: 2, cache_write: 1, output: 9, reasoning: 0 }),
        Item::End,
    ];
    assert_eq!(items, expected);
}

#[test]
fn every_reason_to_stop_is_known() {
    let table = [
        ("end_turn", Reason::Done),
        ("stop_sequence", Reason::Done),
        ("max_tokens", Reason::Length),
        ("model_context_window_exceeded", Reason::Length),
        ("tool_use", Reason::Tools),
        ("refusal", Reason::Filtered),
        ("pause_turn", Reason::Paused),
        ("brand_new", Reason::Other),
    ];
    for (raw, reason) in table {
        let items = read(&json!({"content": [], "stop_reason": raw, "stop_sequence": "E",
            "stop_details": {"type": "refusal", "explanation": "no"}}));
        let stop = Stop { reason, sequence: Some("E".into()), detail: Some("no".into()), raw: raw.into() };
        assert_eq!(items[1], Item::Stop(stop));
    }
}

#[test]
fn what_is_no_answer_is_none_and_an_error_is_one_under_any_status() {
    let torn = r#"{"content":[{"type":"text","text":"x"}],"stop_reason":null}"#;
    for body in ["", "x", "[]", "{}", r#"{"content":"x"}"#, "null", torn] {
        assert_eq!(MESSAGES_TONGUE.read_answer(body.as_bytes()), None, "{body}");
    }
    let items = read(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}));
    let failure =
        Failure { status: 529, code: Some("overloaded_error".into()), message: "busy".into(), param: None };
    assert_eq!(items, [Item::Failed(failure)]);
}

#[test]
fn an_answer_that_calls_a_tool_waits_for_its_result_whatever_its_provider_says() {
    let with = |reason: Reason, call: bool| {
        let mut items = vec![open(0, Block::Text), delta(0, "x")];
        if call {
            items.extend([open(1, call_block("t")), delta(1, "{}")]);
        }
        items.push(stop(reason));
        written(&items)["stop_reason"].as_str().unwrap().to_owned()
    };
    let table = [
        (Reason::Done, "end_turn", "tool_use"),
        (Reason::Tools, "end_turn", "tool_use"),
        (Reason::Other, "end_turn", "tool_use"),
        (Reason::Length, "max_tokens", "max_tokens"),
        (Reason::Filtered, "refusal", "refusal"),
        (Reason::Paused, "pause_turn", "pause_turn"),
    ];
    for (reason, plain, called) in table {
        assert_eq!((&*with(reason, false), &*with(reason, true)), (plain, called), "{reason:?}");
    }
}

#[test]
fn a_whole_answer_is_written_in_the_protocols_form() {
    let items = [
        Item::Start { id: "chatcmpl-1".into(), model: "m".into() },
        open(0, Block::Thought { encrypted: None }),
        delta(0, "hm"),
        open(1, Block::Text),
        open(2, Block::Text),
        delta(2, "a\"b"),
        open(3, call_block("t")),
        open(4, call_block("u")),
        delta(4, r#"{"z":7300000000000000123,"#),
        delta(3, ""),
        delta(4, r#""a":1.10}"#),
        stop(Reason::Done),
        Item::Usage(Usage { input: 10, cached_input: 4, cache_write: 1, output: 7, reasoning: 3 }),
        Item::End,
    ];
    let bytes = MESSAGES_TONGUE.write_answer(&items, &Reply::default());
    let expected = concat!(
        r#"{"id":"chatcmpl-1","type":"message","role":"assistant","model":"m","content":["#,
        r#"{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"a\"b"},"#,
        r#"{"type":"tool_use","id":"t","name":"f","input":{}},"#,
        r#"{"type":"tool_use","id":"u","name":"f","input":{"z":7300000000000000123,"a":1.10}}],"#,
        r#""stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"#,
        r#""cache_creation_input_tokens":1,"cache_read_input_tokens":4,"output_tokens":7,"#,
        r#""output_tokens_details":{"thinking_tokens":3}}}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    assert_eq!(written(&[])["id"], "msg_gate");
}

#[test]
fn torn_arguments_never_make_a_torn_answer() {
    let input = |arguments: &'static str, reason| {
        let items = [open(0, call_block("t")), delta(0, arguments), stop(reason)];
        let answer = written(&items);
        (answer["content"][0]["input"].clone(), answer["stop_reason"].as_str().unwrap().to_owned())
    };
    assert_eq!(input("{\"a\":", Reason::Length), (json!({}), "max_tokens".into()));
    assert_eq!(input("", Reason::Tools), (json!({}), "tool_use".into()));
    assert_eq!(input("{\"a\":", Reason::Tools).0, json!({"_raw": "{\"a\":"}));
    assert_eq!(input("[1]", Reason::Tools).0, json!({"_raw": "[1]"}));
}

#[test]
fn a_refusal_is_text_with_the_reason_that_it_gives() {
    let items = [open(0, Block::Refusal), delta(0, "I can't"), stop(Reason::Done)];
    let answer = written(&items);
    assert_eq!(answer["content"], json!([text("I can't")]));
    let details = json!({"type": "refusal", "category": null, "explanation": "I can't"});
    assert_eq!((&answer["stop_reason"], &answer["stop_details"]), (&json!("refusal"), &details));
}

#[test]
fn tools_are_called_by_the_names_that_the_client_knows() {
    let names = Names::fit(["a.b"].into_iter(), 64);
    let theirs = names.theirs("a.b").to_owned();
    let items = [open(0, Block::Call { id: "t".into(), name: theirs.into(), free: true }), delta(0, "x\n")];
    let reply = Reply { names, ..Reply::default() };
    let answer: Value = serde_json::from_slice(&MESSAGES_TONGUE.write_answer(&items, &reply)).unwrap();
    let expected = json!({"type": "tool_use", "id": "t", "name": "a.b", "input": {"input": "x\n"}});
    assert_eq!(answer["content"][0], expected);
}

#[test]
fn errors_are_read_in_every_shape_and_written_in_one() {
    let table = [
        (
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            Some("rate_limit_error"),
            "slow",
        ),
        (r#"{"error":"slow"}"#, None, "slow"),
        (r#"{"detail":"slow"}"#, None, "slow"),
        ("<html>\n", None, "<html>"),
        ("", None, ""),
    ];
    for (body, code, message) in table {
        let failure = MESSAGES_TONGUE.read_failure(429, body.as_bytes());
        let expected =
            Failure { status: 429, code: code.map(Text::from), message: message.into(), param: None };
        assert_eq!(failure, expected, "{body}");
    }
    let failure =
        Failure { status: 503, code: Some("slow_down".into()), message: "busy".into(), param: None };
    let (status, body) = MESSAGES_TONGUE.write_failure(&failure, "r-1");
    let expected = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy","details":{"error_code":"slow_down"}},"request_id":"r-1"}"#;
    assert_eq!((status, &*String::from_utf8(body).unwrap()), (503, expected));
}
