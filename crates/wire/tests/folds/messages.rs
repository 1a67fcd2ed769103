//! Events of messages, and what they amount to.

use serde_json::{Value, json};
use wire::dialect::MESSAGES;

use super::{folded, folded_text, lines};

const START: &str = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1,"cache_creation":{"a":1}}}}"#;
const TEXT: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const TOOL: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7,"server_tool_use":{"n":0}}}"#;
const OVER: &str = r#"{"type":"message_stop"}"#;

fn delta(delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#)
}

/// The answer of one block that begins so and goes on with these deltas.
fn block(begun: &str, deltas: &[&str]) -> Vec<u8> {
    let deltas: Vec<_> = deltas.iter().map(|each| delta(each)).collect();
    let middle = deltas.iter().map(String::as_str);
    lines([START, begun].into_iter().chain(middle).chain([STOP, END, OVER]))
}

fn content(begun: &str, deltas: &[&str]) -> Option<Value> {
    folded(&MESSAGES, &block(begun, deltas)).map(|message| message["content"][0].clone())
}

fn said(events: &[&str]) -> Option<Value> {
    folded(&MESSAGES, &lines(events.iter().copied()))
}

#[test]
fn usage_is_cumulative_and_keeps_what_only_the_start_says() {
    let message = said(&[START, END, OVER]).unwrap();
    let usage =
        json!({"input_tokens":3,"output_tokens":7,"cache_creation":{"a":1},"server_tool_use":{"n":0}});
    assert_eq!(message["usage"], usage);
    assert_eq!(message["stop_reason"], "end_turn");
    assert_eq!(message["content"], json!([]));
}

#[test]
fn what_is_said_of_the_whole_message_goes_over_its_start() {
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"category":"c"},"container":{"id":"x"}},"context_management":{"applied_edits":[]},"usage":{"output_tokens":null}}"#;
    let message = said(&[START, end, OVER]).unwrap();
    assert_eq!(message["stop_details"], json!({"category":"c"}));
    assert_eq!(message["container"], json!({"id":"x"}));
    assert_eq!(message["context_management"], json!({"applied_edits":[]}));
    assert_eq!(message["usage"]["output_tokens"], 1, "null takes nothing away");
    assert_eq!(said(&[START, END, end, OVER]).unwrap()["stop_reason"], "refusal", "the last one counts");
}

#[test]
fn input_is_the_bytes_that_came() {
    let pieces = [
        r#"{"type":"input_json_delta","partial_json":""}"#,
        r#"{"type":"input_json_delta","partial_json":"{\"a\": 1.50, \"big\":18446744073709551617,\"t\":\"\\ud83e"}"#,
        r#"{"type":"input_json_delta","partial_json":"\\ude91 \ud83e"}"#,
        r#"{"type":"input_json_delta","partial_json":"\ude91\"}"}"#,
    ];
    let text = folded_text(&MESSAGES, &block(TOOL, &pieces));
    assert!(
        text.contains(r#""input":{"a": 1.50, "big":18446744073709551617,"t":"\ud83e\ude91 🪑"}"#),
        "{text}"
    );
}

#[test]
fn no_input_is_an_empty_one() {
    let empty = r#"{"type":"input_json_delta","partial_json":""}"#;
    let bare = r#"{"type":"content_block_start","index":0,"content_block":{"type":"mcp_tool_use"}}"#;
    for (begun, deltas) in [(TOOL, &[][..]), (TOOL, &[empty][..]), (bare, &[empty][..])] {
        assert_eq!(content(begun, deltas).unwrap()["input"], json!({}));
    }
}

#[test]
fn a_call_that_was_cut_short_has_no_plain_form() {
    for torn in ["{\\\"a\\\":", "{} {}", "oops"] {
        let piece = format!(r#"{{"type":"input_json_delta","partial_json":"{torn}"}}"#);
        assert_eq!(content(TOOL, &[&piece]), None, "{torn}");
    }
    let twice = TOOL.replace(r#""input":{}"#, r#""input":{"a":1}"#);
    assert!(content(&twice, &[]).is_some());
    assert_eq!(content(&twice, &[r#"{"type":"input_json_delta","partial_json":"{}"}"#]), None);
}

#[test]
fn citations_are_added_one_by_one() {
    let cite = |n: u8| format!(r#"{{"type":"citations_delta","citation":{{"n":{n}}}}}"#);
    let text = r#"{"type":"text_delta","text":"a"}"#;
    for begun in [TEXT, &TEXT.replace(r#""text":"""#, r#""text":"","citations":null"#)] {
        let block = content(begun, &[text, &cite(1), text, &cite(2)]);
        assert_eq!(block, Some(json!({"type":"text","text":"aa","citations":[{"n":1},{"n":2}]})));
    }
}

#[test]
fn deltas_that_are_not_known_or_do_not_fit_are_not_lost_in_silence() {
    for delta in [
        r#"{"type":"hologram_delta","depth":1}"#,
        r#"{"type":"text_delta","text":"a","more":1}"#,
        r#"{"type":"text_delta"}"#,
        r#"{"type":"text_delta","text":7}"#,
        r#"{"type":"thinking_delta","thinking":"a"}"#,
        r#"{"type":"input_json_delta","partial_json":"{}"}"#,
        r#"{"text":"a"}"#,
        r#""a""#,
    ] {
        assert_eq!(content(TEXT, &[delta]), None, "{delta}");
    }
    let thinking = TEXT.replace(r#""type":"text","text":"""#, r#""type":"thinking","thinking":"""#);
    let sign = r#"{"type":"signature_delta","signature":"Rm9v"}"#;
    assert_eq!(
        content(&thinking, &[sign]),
        Some(json!({"type":"thinking","thinking":"","signature":"Rm9v"}))
    );
    assert_eq!(content(&thinking, &[sign, sign]), None, "two signatures");
}

#[test]
fn blocks_of_kinds_that_are_not_known_come_whole() {
    let begun =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"hologram","depth":[1, 2]}}"#;
    assert_eq!(content(begun, &[]), Some(json!({"type":"hologram","depth":[1,2]})));
}

#[test]
fn events_out_of_order_amount_to_nothing() {
    let text = delta(r#"{"type":"text_delta","text":"a"}"#);
    let text = text.as_str();
    let other = TEXT.replace(r#""index":0"#, r#""index":1"#);
    let ping = r#"{"type":"ping"}"#;
    assert!(said(&[ping, START, TEXT, ping, text, STOP, END, OVER, ping, "[DONE]"]).is_some());
    for events in [
        &[TEXT, text, STOP, END, OVER][..],
        &[START, START, TEXT, text, STOP, END, OVER],
        &[START, text, STOP, END, OVER],
        &[START, &other, STOP, END, OVER],
        &[START, TEXT, TEXT, STOP, END, OVER],
        &[START, TEXT, text, END, OVER],
        &[START, TEXT, STOP, text, END, OVER],
        &[START, TEXT, STOP, STOP, END, OVER],
        &[START, TEXT, STOP, OVER],
        &[START, TEXT, STOP, END],
        &[START, END, TEXT, STOP, OVER],
        &[START, TEXT, STOP, END, OVER, END],
        &[START, TEXT, STOP, END, OVER, OVER],
        &[START, TEXT, STOP, END, OVER, r#"{"type":"error","error":{}}"#],
        &[START, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, END, OVER],
        &[START, r#"{"type":"next_year","x":1}"#, END, OVER],
        &[START, r#"{"x":1}"#, END, OVER],
        &[START, &END.replace(r#""end_turn""#, "null"), OVER],
    ] {
        assert_eq!(said(events), None, "{events:?}");
    }
    let named = format!("event: message_stop\ndata: {END}\n\n");
    assert_eq!(
        folded(&MESSAGES, &[&lines([START]), named.as_bytes(), &lines([OVER])].concat()),
        None,
        "two kinds"
    );
}

#[test]
fn an_answer_that_is_not_whole_is_no_stream() {
    let whole = json!({"type":"message","content":[],"stop_reason":"end_turn","usage":{}});
    assert!(wire::fold::unfold(&MESSAGES, whole.to_string().as_bytes(), true).is_some());
    for (key, value) in [
        ("stop_reason", Value::Null),
        ("content", json!("a")),
        ("content", json!(["a"])),
        ("content", json!([{"text":"a"}])),
        ("content", json!([{"type":"text","text":["a"]}])),
        ("usage", Value::Null),
        ("error", json!("a")),
    ] {
        let mut body = whole.clone();
        body[key] = value;
        assert_eq!(wire::fold::unfold(&MESSAGES, body.to_string().as_bytes(), true), None, "{body}");
    }
}
