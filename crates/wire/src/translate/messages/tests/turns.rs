//! How turns become messages.

use serde_json::{Value, json};

use super::*;
use crate::translate::canon::*;

/// The messages that are written, each as its role and what its blocks are in short.
fn messages(said: &Conversation<'_>, model: &str) -> Vec<String> {
    let (body, _) = write(said, model);
    let short = |block: &Value| match block["type"].as_str().unwrap() {
        "text" => block["text"].as_str().unwrap().to_owned(),
        "tool_use" => format!("call {}", block["id"].as_str().unwrap()),
        "tool_result" => format!("result {}", block["tool_use_id"].as_str().unwrap()),
        "thinking" => format!("thought {}", block["signature"].as_str().unwrap()),
        other => other.to_owned(),
    };
    let message = |message: &Value| {
        let blocks: Vec<_> = message["content"].as_array().unwrap().iter().map(short).collect();
        format!("{}: {}", message["role"].as_str().unwrap(), blocks.join(", "))
    };
    body["messages"].as_array().unwrap().iter().map(message).collect()
}

fn history(messages: &[Value]) -> Conversation<'static> {
    said(json!({"messages": messages}))
}

#[test]
fn turns_of_one_role_are_one_and_results_come_first() {
    let said = history(&[
        user(json!("a")),
        user(json!("b")),
        assistant(json!([text("c"), call("1"), call("2")])),
        user(json!("d")),
        user(json!([result("2")])),
        user(json!([result("1"), text("e")])),
    ]);
    let expected = ["user: a, b", "assistant: c, call 1, call 2", "user: result 2, result 1, d, e"];
    assert_eq!(messages(&said, NEW), expected);
}

#[test]
fn white_space_of_the_model_stays_beside_a_real_text_only() {
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "S"});
    let (blank, real) = (text("\n\n"), text("a"));
    let table: [(&[&Value], &str); 3] = [
        (&[&thought, &blank, &call("1")], "thought S, call 1"),
        (&[&blank, &thought, &real, &call("1")], "\n\n, thought S, a, call 1"),
        (&[&blank, &call("1")], "call 1"),
    ];
    for (blocks, expected) in table {
        let said = history(&[user(json!("u")), assistant(json!(blocks)), user(json!([result("1")]))]);
        assert_eq!(messages(&said, NEW)[1], format!("assistant: {expected}"));
    }
}

#[test]
fn an_instruction_in_the_middle_stands_behind_the_users_turn() {
    let (u, a, s) = (user(json!("u")), assistant(json!("a")), system("s"));
    let table: [(&[&Value], &[&str]); 7] = [
        (&[&u, &s], &["user: u", "system: s"]),
        (&[&u, &s, &u], &["user: u, u", "system: s"]),
        (&[&u, &a, &s, &u], &["user: u", "assistant: a", "user: u", "system: s"]),
        (&[&s, &u, &s, &s, &u], &["user: u, u", "system: s, s, s"]),
        (&[&u, &s, &a, &u], &["user: u", "system: s", "assistant: a", "user: u"]),
        // There is no turn of the user behind which it could stand.
        (&[&u, &a, &s], &["user: u", "assistant: a", "user: <system>\ns\n</system>"]),
        (
            &[&u, &a, &s, &a, &u],
            &["user: u", "assistant: a", "user: <system>\ns\n</system>", "assistant: a", "user: u"],
        ),
    ];
    for (turns, expected) in table {
        let turns: Vec<Value> = turns.iter().map(|turn| (*turn).clone()).collect();
        assert_eq!(messages(&history(&turns), NEW), expected);
    }
    let turns = [u.clone(), assistant(json!([call("1")])), s, user(json!([result("1")]))];
    let expected = ["user: u", "assistant: call 1", "user: result 1", "system: s"];
    assert_eq!(messages(&history(&turns), NEW), expected);
    let expected = ["user: u", "assistant: call 1", "user: result 1, <system>\ns\n</system>"];
    assert_eq!(messages(&history(&turns), OLD), expected, "this model knows no such messages");
}

#[test]
fn the_user_begins_and_nobody_says_nothing() {
    let said = history(&[assistant(json!("hi")), user(json!("")), user(json!([text(" "), text("x")]))]);
    assert_eq!(messages(&said, NEW), ["user: .", "assistant: hi", "user: x"]);
    assert_eq!(blamed(&history(&[]), NEW), "messages");
    assert_eq!(blamed(&history(&[user(json!("\n"))]), NEW), "messages");
}

#[test]
fn a_last_message_of_the_assistant_is_for_models_that_go_on_from_it() {
    let said = history(&[user(json!("x")), assistant(json!("Sure,"))]);
    assert_eq!(messages(&said, OLD), ["user: x", "assistant: Sure,"]);
    assert_eq!(blamed(&said, NEW), "messages[1]");
    assert_eq!(blamed(&history(&[user(json!("x")), assistant(json!("Sure, "))]), OLD), "messages[1]");
}

#[test]
fn calls_and_results_belong_together() {
    let ask = user(json!("x"));
    let table: [(&[Value], &str); 4] = [
        (
            &[ask.clone(), assistant(json!([call("1"), call("2")])), user(json!([result("1")]))],
            "messages[1].tool_calls[1]",
        ),
        (&[ask.clone(), assistant(json!([call("1")]))], "messages[1].tool_calls[0]"),
        (&[ask.clone(), user(json!([result("1")]))], "messages[1].tool_call_id"),
        (
            &[ask, assistant(json!([call("1")])), user(json!([result("1"), result("1")]))],
            "messages[2].tool_call_id",
        ),
    ];
    for (turns, field) in table {
        assert_eq!(blamed(&history(turns), NEW), field);
    }
}

#[test]
fn ids_become_plain_and_unique_and_results_follow_them() {
    let round = |id: &str| [assistant(json!([call(id)])), user(json!([result(id)]))];
    let said =
        history(&[&[user(json!("x"))][..], &round("a.b"), &round("c"), &round("c"), &round("c")].concat());
    let written = messages(&said, NEW);
    let plain = written[1].strip_prefix("assistant: call ").unwrap();
    assert!(plain.starts_with("a_b_") && plain.len() < 20, "{plain}");
    assert_eq!(written[2], format!("user: result {plain}"));
    let ids: Vec<_> = written[3..].iter().map(|message| message.rsplit_once(' ').unwrap().1).collect();
    assert_eq!((ids[0], ids[1]), ("c", "c"));
    assert!(ids[2] == ids[3] && ids[4] == ids[5] && ids[2] != "c" && ids[4] != ids[2], "{ids:?}");
}

fn thought(seal: &'static str, place: Option<(usize, usize)>) -> Part<'static> {
    let place = place.map(|(characters, calls)| Place { characters, calls });
    Part::Thought(Thought { text: "t".into(), seal: Some(Seal::Signature(seal.into())), place })
}

fn answered(parts: Vec<Part<'static>>) -> Conversation<'static> {
    let mut said =
        history(&[user(json!("x")), assistant(json!("")), user(json!([result("1"), result("2")]))]);
    said.turns[1].parts = parts;
    said
}

fn call_part(id: &'static str) -> Part<'static> {
    let arguments = Arguments::Json(Json("{}".into()));
    Part::Call { id: id.into(), name: "f".into(), arguments, cache: None }
}

fn text_part(text: &'static str) -> Part<'static> {
    Part::Text { text: text.into(), cache: None }
}

#[test]
fn thoughts_stand_where_they_stood() {
    let mut parts = vec![
        thought("A", Some((0, 0))),
        thought("B", Some((2, 0))),
        thought("C", Some((4, 0))),
        thought("D", Some((4, 1))),
        text_part("äb"),
        text_part("cd"),
        call_part("1"),
        call_part("2"),
    ];
    let expected = "assistant: thought A, äb, thought B, cd, thought C, call 1, thought D, call 2";
    assert_eq!(messages(&answered(parts.clone()), NEW)[1], expected);
    parts.splice(4..6, [text_part("äbcd")]);
    assert_eq!(messages(&answered(parts), NEW)[1], expected);
    let nothing = Part::Refusal { text: "".into() };
    let in_order =
        vec![nothing, thought("A", None), text_part("x"), thought("B", None), call_part("1"), call_part("2")];
    assert_eq!(messages(&answered(in_order), NEW)[1], "assistant: thought A, x, thought B, call 1, call 2");
}

#[test]
fn a_thought_without_text_is_kept_and_one_without_seal_is_not() {
    let empty =
        Part::Thought(Thought { text: "".into(), seal: Some(Seal::Signature("S".into())), place: None });
    let encrypted =
        Part::Thought(Thought { text: "".into(), seal: Some(Seal::Encrypted("E".into())), place: None });
    let said = answered(vec![empty, encrypted, call_part("1"), call_part("2")]);
    assert_eq!(messages(&said, NEW)[1], "assistant: thought S, redacted_thinking, call 1, call 2");
    assert_eq!(write(&said, NEW).1, [] as [&str; 0]);
    for seal in [None, Some(Seal::Signature("".into()))] {
        let open = Part::Thought(Thought { text: "hm".into(), seal, place: None });
        let (body, dropped) = write(&answered(vec![open, call_part("1"), call_part("2")]), NEW);
        assert_eq!(body["messages"][1]["content"][0]["type"], "tool_use");
        assert_eq!(dropped, ["reasoning_content"]);
    }
}

#[test]
fn where_a_thought_is_lost_none_before_it_is_sent() {
    let mut said = history(&[
        user(json!("x")),
        assistant(json!("a")),
        user(json!("x")),
        assistant(json!("b")),
        user(json!("x")),
        assistant(json!("c")),
        user(json!("x")),
    ]);
    said.turns[1].parts.insert(0, thought("A", Some((0, 0))));
    // The client has cut its text.
    said.turns[3].parts.insert(0, thought("B", Some((9, 0))));
    said.turns[5].parts.insert(0, thought("C", Some((0, 0))));
    let written = messages(&said, NEW);
    assert_eq!(
        [&*written[1], &*written[3], &*written[5]],
        ["assistant: a", "assistant: b", "assistant: thought C, c"]
    );
    assert_eq!(write(&said, NEW).1, ["reasoning_content"]);
}
