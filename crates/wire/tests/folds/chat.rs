//! Chunks of chat and completions, and what they amount to.

use serde_json::{Value, json};
use wire::dialect::{CHAT, COMPLETIONS, Dialect};

use super::{events, folded, folded_text, lines};

/// A stream of one choice with these deltas, to its end.
fn stream(deltas: &[&str]) -> Vec<u8> {
    let chunk = |rest: String| {
        format!(r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,{rest}}}]}}"#)
    };
    let mut data: Vec<_> = deltas.iter().map(|delta| chunk(format!(r#""delta":{delta}"#))).collect();
    data.push(chunk(r#""delta":{},"finish_reason":"stop""#.into()));
    data.push("[DONE]".into());
    lines(data.iter().map(String::as_str))
}

/// The message that these deltas amount to.
fn message(deltas: &[&str]) -> Option<Value> {
    folded(&CHAT, &stream(deltas)).map(|answer| answer["choices"][0]["message"].clone())
}

fn said(dialect: &dyn Dialect, data: &[&str]) -> Option<Value> {
    folded(dialect, &lines(data.iter().copied()))
}

#[test]
fn a_message_that_says_nothing_has_a_role_and_no_content() {
    assert_eq!(message(&[]), Some(json!({"role":"assistant","content":null})));
    assert_eq!(message(&[r#"{"role":"assistant","content":null}"#]), message(&[]));
    assert_eq!(message(&["null"]), message(&[]));
    let empty = message(&[r#"{"content":null}"#, r#"{"content":""}"#, r#"{"content":null}"#]);
    assert_eq!(empty, Some(json!({"role":"assistant","content":""})));
}

#[test]
fn a_character_may_be_cut_in_two_escapes() {
    let halves =
        message(&[r#"{"content":"a\ud83e"}"#, r#"{"content":"\ude91 é"}"#, r#"{"content":"\u00fc"}"#]);
    assert_eq!(halves.unwrap()["content"], "a🪑 éü");
}

#[test]
fn fields_that_are_not_known_are_kept_by_their_kind() {
    let message = message(&[
        r#"{"reasoning_content":"let ","n":1,"flag":false,"seen":["a"],"deep":{"a":{"b":"x"},"c":1},"late":null}"#,
        r#"{"reasoning_content":"me","n":2,"flag":true,"seen":["b",{"c":1}],"deep":{"a":{"b":"y"}},"late":"r"}"#,
    ]);
    let kept = json!({"role":"assistant","content":null,"reasoning_content":"let me","n":2,"flag":true,
        "seen":["a","b",{"c":1}],"deep":{"a":{"b":"xy"},"c":1},"late":"r"});
    assert_eq!(message, Some(kept));
}

#[test]
fn pieces_that_do_not_fit_are_not_joined() {
    for (first, then) in [
        (r#"{"x":"a"}"#, r#"{"x":["a"]}"#),
        (r#"{"x":1}"#, r#"{"x":"1"}"#),
        (r#"{"x":{}}"#, r#"{"x":[1]}"#),
        (r#"{"content":[{"type":"text","text":"a"}]}"#, r#"{"content":[{"type":"text","text":"b"}]}"#),
        (r#"{"role":"assistant"}"#, r#"{"role":"user"}"#),
        (r#"{"tool_calls":{}}"#, r#"{"tool_calls":[]}"#),
    ] {
        assert_eq!(message(&[first, then]), None, "{first} {then}");
    }
    assert_eq!(message(&[r#"{"content":"a","content":"b"}"#]), None, "a key twice");
}

#[test]
fn numbers_keep_their_text() {
    let delta = r#"{"x":[1.50,18446744073709551617,1e400,-0.0]}"#;
    let text = folded_text(&CHAT, &stream(&[delta, r#"{"x":[2.0]}"#]));
    assert!(text.contains(r#""x":[1.50,18446744073709551617,1e400,-0.0,2.0]"#), "{text}");
}

#[test]
fn tool_calls_are_joined_by_their_index_and_stand_in_its_order() {
    let call = |index: usize, rest: &str| format!(r#"{{"tool_calls":[{{"index":{index},{rest}}}]}}"#);
    let deltas = [
        call(1, r#""id":"b","type":"function","function":{"name":"g","arguments":""}"#),
        call(0, r#""id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}"#),
        call(1, r#""id":"b","type":"function","function":{"name":"","arguments":"{}"}"#),
        call(0, r#""id":null,"function":{"arguments":":1}"},"extra_content":{"s":"S"}"#),
    ];
    let message = message(&deltas.each_ref().map(String::as_str)).unwrap();
    let calls = json!([
        {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"},"extra_content":{"s":"S"}},
        {"id":"b","type":"function","function":{"name":"g","arguments":"{}"}},
    ]);
    assert_eq!(message["tool_calls"], calls);
}

#[test]
fn calls_that_share_an_index_are_told_apart_by_their_ids() {
    let call = |id: &str| {
        format!(
            r#"{{"tool_calls":[{{"index":0,"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
        )
    };
    let message = message(&[&call("a"), &call("b")]).unwrap();
    let calls = json!([{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{}"}}]);
    assert_eq!(message["tool_calls"], calls);
}

#[test]
fn a_piece_of_a_call_that_belongs_nowhere_is_not_a_call() {
    let whole = r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
    let piece = r#"{"tool_calls":[{"function":{"arguments":"{}"}}]}"#;
    assert!(message(&[whole]).is_some());
    assert_eq!(message(&[whole, piece]), None);
    assert_eq!(message(&[r#"{"tool_calls":["f"]}"#]), None);
}

#[test]
fn a_stream_without_a_last_word_is_whole_once_it_is_counted() {
    let text = r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"n":1}}"#;
    let stop =
        r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"object":"chat.completion.chunk","choices":[],"usage":{"n":2}}"#;
    let groq = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"n":3}}}"#;
    assert_eq!(said(&CHAT, &[text, stop, usage]).unwrap()["usage"], json!({"n":2}));
    assert_eq!(said(&CHAT, &[text, usage, stop]), None, "cut before the last word, for all that is known");
    assert_eq!(said(&CHAT, &[text, stop]), None);
    assert_eq!(
        said(&CHAT, &[r#"{"choices":[{"delta":{"content":"a"}}]}"#, groq]).unwrap()["usage"],
        json!({"n":3})
    );
    assert_eq!(said(&CHAT, &[text, usage, "[DONE]"]), None, "nothing says why it stopped");
}

#[test]
fn every_choice_must_come_to_its_end() {
    let choice = |index: usize, rest: &str| format!(r#"{{"choices":[{{"index":{index},{rest}}}]}}"#);
    let (a, b) = (choice(0, r#""delta":{"content":"a"}"#), choice(1, r#""delta":{"content":"b"}"#));
    let (a_ends, b_ends) = (choice(0, r#""finish_reason":"stop""#), choice(1, r#""finish_reason":"length""#));
    let answer = said(&CHAT, &[&b, &a, &b_ends, &a_ends, "[DONE]"]).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "a");
    assert_eq!(answer["choices"][1]["finish_reason"], "length");
    assert_eq!(said(&CHAT, &[&b, &a, &a_ends, "[DONE]"]), None);
    assert_eq!(said(&CHAT, &[&b, &b_ends, "[DONE]"]), None, "the first choice is missing");
    assert_eq!(said(&CHAT, &[&choice(100_000, r#""finish_reason":"stop""#), "[DONE]"]), None);
}

#[test]
fn what_follows_the_end_of_a_choice_is_empty_or_out_of_order() {
    let stop = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let empty = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":{"n":1}}"#;
    let text = r#"{"choices":[{"index":0,"delta":{"content":"b"}}]}"#;
    let other = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
    let answer = said(&CHAT, &[stop, stop.replace("\"a\"", "\"\"").as_str(), empty, "[DONE]"]).unwrap();
    assert_eq!(answer["choices"][0]["message"], json!({"role":"assistant","content":"a"}));
    for late in [text, other] {
        assert_eq!(said(&CHAT, &[stop, late, "[DONE]"]), None, "{late}");
    }
    assert_eq!(said(&CHAT, &[stop, "[DONE]", empty]), None, "nothing follows the last word");
}

#[test]
fn failures_in_any_shape_amount_to_nothing() {
    let stop = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    for failure in [
        r#"{"error":"gone"}"#,
        r#"{"choices":[],"error":{"code":502}}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"error":{"code":502}}]}"#,
        r#"{"object":"error","message":"no"}"#,
        r#"{"status":"lost"}"#,
        r#"{"choices":7}"#,
        r#"[]"#,
        "oops",
    ] {
        assert_eq!(said(&CHAT, &[failure, stop, "[DONE]"]), None, "{failure}");
        assert_eq!(said(&CHAT, &[stop, failure, "[DONE]"]), None, "{failure}");
    }
    let named = b"event: error\ndata: {\"choices\":[]}\n\n";
    assert_eq!(folded(&CHAT, &[&lines([stop, "[DONE]"]), &named[..]].concat()), None);
}

#[test]
fn padding_is_no_part_of_the_answer_and_later_states_replace_earlier_ones() {
    let chunk = r#"{"choices":[{"index":0,"delta":{},"f":{"a":1},"t":[1]}],"obfuscation":"xyz","citations":["a"],"m":{"in":1}}"#;
    let last = r#"{"choices":[{"index":0,"finish_reason":"stop","f":{"b":2},"t":[2]}],"citations":["a","b"],"m":{"out":2}}"#;
    let answer = said(&CHAT, &[chunk, last, "[DONE]"]).unwrap();
    assert_eq!(answer.get("obfuscation"), None);
    assert_eq!(answer["citations"], json!(["a", "b"]));
    assert_eq!(answer["m"], json!({"in":1,"out":2}));
    assert_eq!(answer["choices"][0]["f"], json!({"a":1,"b":2}));
}

#[test]
fn completions_are_joined_by_their_text() {
    let stream = [
        r#"{"object":"text_completion","choices":[{"text":"a","index":0,"logprobs":{"tokens":["a"],"text_offset":[0]}}]}"#,
        r#"{"object":"text_completion","choices":[{"text":"b","index":0,"logprobs":{"tokens":["b"],"text_offset":[1]},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    let choice = json!({"text":"ab","index":0,"logprobs":{"tokens":["a","b"],"text_offset":[0,1]},"finish_reason":"stop"});
    assert_eq!(said(&COMPLETIONS, &stream).unwrap()["choices"], json!([choice]));
    assert_eq!(said(&COMPLETIONS, &[r#"{"choices":[{"index":0,"finish_reason":"stop"}]}"#, "[DONE]"]), None);
}

#[test]
fn usage_is_shown_only_to_who_asked() {
    let answer = json!({"id":"c","object":"chat.completion","choices":[
        {"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"n":1}});
    let asked = events(&CHAT, &answer, true);
    let (last, others) = asked.split_last().unwrap();
    assert_eq!(last.1["choices"], json!([]));
    assert_eq!(last.1["usage"], json!({"n":1}));
    assert!(others.iter().all(|(_, chunk)| chunk.get("usage") == Some(&Value::Null)));
    let unasked = events(&CHAT, &answer, false);
    assert!(unasked.iter().all(|(_, chunk)| chunk.get("usage").is_none()));
    assert_eq!(unasked.len(), others.len());
}

#[test]
fn a_stream_begins_with_the_role_and_shows_reasoning_before_the_text() {
    let answer = json!({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[
        {"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[{"id":"t"}]},
         "finish_reason":"tool_calls"}]});
    let deltas: Vec<_> = events(&CHAT, &answer, false)
        .into_iter()
        .map(|(_, chunk)| chunk["choices"][0]["delta"].clone())
        .collect();
    let expected = [
        json!({"role":"assistant","content":""}),
        json!({"reasoning_content":"r"}),
        json!({"content":"a"}),
        json!({"tool_calls":[{"index":0,"id":"t"}]}),
        json!({}),
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn an_answer_that_is_not_whole_is_no_stream() {
    let choice = |choice: &str| format!(r#"{{"id":"c","choices":[{choice}]}}"#);
    for body in [
        choice(r#"{"index":0,"message":{"content":"a"}}"#),
        choice(r#"{"index":0,"message":{"content":"a"},"finish_reason":null}"#),
        choice(r#"{"index":0,"message":{"content":"a"},"finish_reason":"error"}"#),
        choice(r#"{"index":0,"finish_reason":"stop"}"#),
        choice(r#"{"index":0,"message":{"tool_calls":["a"]},"finish_reason":"stop"}"#),
        choice(""),
        choice("7"),
    ] {
        assert_eq!(wire::fold::unfold(&CHAT, body.as_bytes(), false), None, "{body}");
    }
}
