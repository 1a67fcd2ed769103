//! Events of responses, and what they amount to.

use serde_json::{Value, json};
use wire::dialect::RESPONSES;

use super::{events, folded, folded_text, lines};

fn last(kind: &str, sequence: u32, response: &str) -> String {
    format!(r#"{{"type":"response.{kind}","sequence_number":{sequence},"response":{response}}}"#)
}

fn said(events: &[&str]) -> Option<Value> {
    folded(&RESPONSES, &lines(events.iter().copied()))
}

const WHOLE: &str = r#"{"id":"r", "status":"completed","output":[{"n":1.50,"n2":1e400}],"error":null}"#;
const DELTA: &str = r#"{"type":"response.output_text.delta","sequence_number":4,"delta":"a"}"#;
const ITEM: &str = r#"{"type":"response.output_item.done","sequence_number":5,"item":{}}"#;

#[test]
fn the_answer_is_the_bytes_of_the_last_response() {
    let end = last("completed", 7, WHOLE);
    assert_eq!(folded_text(&RESPONSES, &lines([DELTA, ITEM, &end, "[DONE]"])), WHOLE);
    assert_eq!(folded_text(&RESPONSES, &lines([&*end.replace("\"sequence_number\":7,", "")])), WHOLE);
}

#[test]
fn a_stream_that_is_not_whole_amounts_to_nothing() {
    let end = last("completed", 7, WHOLE);
    for events in [
        &[DELTA, ITEM][..],
        &[DELTA, &last("failed", 7, WHOLE)],
        &[DELTA, &last("completed", 4, WHOLE)],
        &[ITEM, DELTA, &end],
        &[&end, &end],
        &[&end, ITEM],
        &[DELTA, r#"{"type":"error","message":"no"}"#, &end],
        &[DELTA, r#"{"error":{"message":"no"}}"#, &end],
        &[DELTA, r#"{"type":"response.x","error":{"message":"no"}}"#, &end],
        &[DELTA, r#"{"type":"response.x","sequence_number":"5"}"#, &end],
        &[DELTA, &last("completed", 7, "{}")],
        &[DELTA, &last("completed", 7, "null")],
        &[DELTA, &last("completed", 7, r#"{"status":"completed"}"#)],
        &[DELTA, &last("completed", 7, r#"{"status":"failed","output":[]}"#)],
        &[DELTA, &last("completed", 7, r#"{"status":"completed","output":[],"error":{"code":"x"}}"#)],
    ] {
        assert_eq!(said(events), None, "{events:?}");
    }
}

#[test]
fn an_answer_without_the_items_that_were_done_is_not_the_whole_one() {
    let bare = last("completed", 7, r#"{"status":"completed","output":[]}"#);
    assert!(said(&[DELTA, &bare]).is_some());
    assert_eq!(said(&[DELTA, ITEM, &bare]), None);
}

#[test]
fn items_come_in_the_protocols_order_and_the_numbers_ascend() {
    let path = format!("{}/tests/plain/rich_responses.json", env!("CARGO_MANIFEST_DIR"));
    let answer: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = events(&RESPONSES, &answer, false);
    for (at, (name, event)) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
        assert_eq!(&event["type"], name);
    }
    let names: Vec<_> = events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap()).collect();
    let expected = "created in_progress \
        output_item.added \
        reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done \
        reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done \
        content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done \
        output_item.added \
        content_part.added output_text.delta output_text.annotation.added output_text.done content_part.done \
        content_part.added refusal.delta refusal.done content_part.done \
        content_part.added content_part.done output_item.done \
        output_item.added function_call_arguments.delta function_call_arguments.done output_item.done \
        output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done \
        output_item.added output_item.done \
        output_item.added function_call_arguments.delta function_call_arguments.done output_item.done \
        completed";
    assert_eq!(names, expected.split_ascii_whitespace().collect::<Vec<_>>());
    assert_eq!(events[0].1["response"]["status"], "in_progress");
    assert_eq!(events[0].1["response"]["output"], json!([]));
    assert_eq!(events[0].1["response"]["usage"], Value::Null);
    assert_eq!(events.last().unwrap().1["response"], answer);
}

#[test]
fn an_answer_that_ended_early_ends_its_stream_so() {
    let early = json!({"status":"incomplete","output":[]});
    assert_eq!(events(&RESPONSES, &early, false).last().unwrap().0, "response.incomplete");
    for body in [
        json!({"status":"failed","output":[]}),
        json!({"status":"in_progress","output":[]}),
        json!({"output":[]}),
        json!({"status":"completed"}),
        json!({"status":"completed","output":["a"]}),
        json!({"status":"completed","output":[{"type":"message","content":"a"}]}),
        json!({"status":"completed","output":[],"error":"a"}),
    ] {
        assert_eq!(wire::fold::unfold(&RESPONSES, body.to_string().as_bytes(), true), None, "{body}");
    }
}
