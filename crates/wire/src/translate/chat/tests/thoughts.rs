//! Thoughts, on their way out and back.

use super::*;
use crate::translate::Reply;

fn detail(text: &str, signature: &str, text_before: usize, calls_before: usize) -> String {
    format!(
        r#"{{"type":"reasoning.text","text":"{text}","signature":"{signature}","text_before":{text_before},"calls_before":{calls_before}}}"#
    )
}

fn thought<'a>(text: &'a str, signature: &'a str, place: Option<(usize, usize)>) -> Part<'a> {
    let seal = Some(Seal::Signature(signature.into())).filter(|_| !signature.is_empty());
    let place = place.map(|(characters, calls)| Place { characters, calls });
    Part::Thought(Thought { text: text.into(), seal, place })
}

const CALLS: &str = r#"[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}},
    {"id":"t2","type":"function","function":{"name":"f","arguments":"{}"}}]"#;

fn placed<'a>(content: &str, details: &[String]) -> Conversation<'a> {
    let details = details.join(",");
    let body = of(&format!(
        r#"{{"role":"assistant","content":{content},"reasoning_content":"all","reasoning_details":[{details}],"tool_calls":{CALLS}}}"#
    ));
    read(Box::leak(body.into_boxed_str())).0
}

#[test]
fn thoughts_go_back_to_where_they_stood() {
    let details = [detail("a", "A", 0, 0), detail("b", "B", 1, 0), detail("c", "C", 1, 1)];
    let expected = [
        thought("a", "A", Some((0, 0))),
        text("x"),
        thought("b", "B", Some((1, 0))),
        call("t1", "{}"),
        thought("c", "C", Some((1, 1))),
        call("t2", "{}"),
    ];
    assert_eq!(placed(r#""x""#, &details).turns[0].parts, expected);
}

#[test]
fn a_text_is_cut_by_characters_and_keeps_its_mark() {
    let content = r#"[{"type":"text","text":"żółw"},
        {"type":"text","text":"🦀ab","cache_control":{"type":"ephemeral"}}]"#;
    let details = [detail("a", "A", 2, 0), detail("b", "B", 5, 0), detail("c", "C", 7, 2)];
    let expected = [
        text("żó"),
        thought("a", "A", Some((2, 0))),
        text("łw"),
        text("🦀"),
        thought("b", "B", Some((5, 0))),
        marked("ab", Cache::Short),
        call("t1", "{}"),
        call("t2", "{}"),
        thought("c", "C", Some((7, 2))),
    ];
    assert_eq!(placed(content, &details).turns[0].parts, expected);
}

#[test]
fn a_text_that_was_escaped_is_cut_as_well() {
    let details = [detail("a", "A", 1, 0), detail("b", "B", 3, 0), detail("c", "C", 5, 0)];
    let expected = [
        text("\n"),
        thought("a", "A", Some((1, 0))),
        text("ż\""),
        thought("b", "B", Some((3, 0))),
        text("xy"),
        thought("c", "C", Some((5, 0))),
        call("t1", "{}"),
        call("t2", "{}"),
    ];
    assert_eq!(placed(r#""\nż\"xy""#, &details).turns[0].parts, expected);
}

#[test]
fn thoughts_whose_places_can_not_be_come_first() {
    let odd = [
        [detail("a", "A", 0, 0), detail("b", "B", 2, 0)],
        [detail("a", "A", 0, 3), detail("b", "B", 1, 3)],
        [detail("a", "A", 1, 1), detail("b", "B", 1, 0)],
        [detail("a", "A", 0, 0), detail("b", "B", usize::MAX, usize::MAX)],
    ];
    for details in odd {
        let expected =
            [thought("a", "A", None), thought("b", "B", None), text("x"), call("t1", "{}"), call("t2", "{}")];
        assert_eq!(placed(r#""x""#, &details).turns[0].parts, expected, "{details:?}");
    }
}

#[test]
fn a_sealed_thought_without_text_is_kept_and_so_is_an_encrypted_one() {
    let details = [
        detail("", "Sg==", 0, 0),
        r#"{"type":"reasoning.encrypted","data":"RQ==","index":1}"#.to_owned(),
        r#"{"type":"reasoning.summary","summary":"s"}"#.to_owned(),
    ];
    let encrypted = Thought {
        text: "".into(),
        seal: Some(Seal::Encrypted("RQ==".into())),
        place: Some(Place::default()),
    };
    let expected = [
        thought("", "Sg==", Some((0, 0))),
        Part::Thought(encrypted),
        thought("s", "", Some((0, 0))),
        call("t1", "{}"),
        call("t2", "{}"),
    ];
    assert_eq!(placed("null", &details).turns[0].parts, expected);
}

#[test]
fn bare_thoughts_have_no_seal_and_count_only_where_there_is_no_list() {
    for message in [
        r#"{"role":"assistant","reasoning_content":"t","content":"x"}"#,
        r#"{"role":"assistant","content":"x","reasoning":"t","reasoning_details":[]}"#,
    ] {
        assert_eq!(read(&of(message)).0.turns[0].parts, [thought("t", "", None), text("x")], "{message}");
    }
    let body =
        of(r#"{"role":"assistant","content":"x","reasoning":{"a":1},"reasoning_details":[{"type":"odd"}]}"#);
    let (read, dropped) = read(&body);
    assert_eq!(read.turns[0].parts, [text("x")]);
    assert_eq!(dropped, ["messages.reasoning", "messages.reasoning_details"]);
    let body = of(r#"{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":7}]}"#);
    assert_eq!(refused(&body), "messages[0].reasoning_details[0].text");
}

/// An answer with thoughts between text and calls, as Anthropic's are.
fn answer() -> Vec<Item<'static>> {
    let thinks = |index, text: &'static str, signature: &'static str| {
        let mut items = vec![Item::Open { index, block: Block::Thought { encrypted: None } }];
        items.extend(text.split_inclusive(' ').map(|text| Item::Delta { index, text: text.into() }));
        items.extend([Item::Seal { index, signature: signature.into() }, Item::Close { index }]);
        items
    };
    let calls = |index, id: &'static str| {
        let block = Block::Call { id: id.into(), name: "f".into(), free: false };
        [Item::Open { index, block }, Item::Delta { index, text: "{}".into() }, Item::Close { index }]
    };
    let mut items = vec![Item::Start { id: "msg_1".into(), model: "m".into() }];
    items.extend(thinks(0, "a \"quoted\"", "A"));
    items.extend([
        Item::Open { index: 1, block: Block::Text },
        Item::Delta { index: 1, text: "żó".into() },
        Item::Delta { index: 1, text: "łw".into() },
        Item::Close { index: 1 },
    ]);
    items.extend(thinks(2, "", "B"));
    items.extend(calls(3, "t1"));
    items.extend([
        Item::Open { index: 4, block: Block::Thought { encrypted: Some("RQ==".into()) } },
        Item::Close { index: 4 },
    ]);
    items.extend(calls(5, "t2"));
    items.push(Item::Stop(Stop {
        reason: Reason::Tools,
        sequence: None,
        detail: None,
        raw: "tool_use".into(),
    }));
    items.push(Item::End);
    items
}

fn expected<'a>() -> Vec<Part<'a>> {
    let encrypted = Thought {
        text: "".into(),
        seal: Some(Seal::Encrypted("RQ==".into())),
        place: Some(Place { characters: 4, calls: 1 }),
    };
    vec![
        thought("a \"quoted\"", "A", Some((0, 0))),
        text("żółw"),
        thought("", "B", Some((4, 0))),
        call("t1", "{}"),
        Part::Thought(encrypted),
        call("t2", "{}"),
    ]
}

#[test]
fn a_whole_answer_that_is_sent_back_is_what_it_was() {
    let body = CHAT_TONGUE.write_answer(&answer(), &Reply::default());
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let message = told["choices"][0]["message"].to_string();
    let (read, dropped) = (of(&message), vec![""; 0]);
    let (read, seen) = super::read(&read);
    assert_eq!(read.turns[0].parts, expected());
    assert_eq!(seen, dropped);
}

#[test]
fn a_streamed_answer_that_is_sent_back_is_what_it_was() {
    let chunks = speak::stream(&answer(), Reply::default());
    let mut message = serde_json::json!({"role": "assistant", "content": "", "tool_calls": []});
    let mut details = Vec::new();
    for delta in chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta")) {
        if let Some(text) = delta["content"].as_str() {
            message["content"] = format!("{}{text}", message["content"].as_str().unwrap()).into();
        }
        details.extend(delta["reasoning_details"].as_array().into_iter().flatten().cloned());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let calls = message["tool_calls"].as_array_mut().unwrap();
            match call["id"].as_str() {
                Some(_) => calls.push(call.clone()),
                None => {
                    let given = &mut calls[call["index"].as_u64().unwrap() as usize]["function"]["arguments"];
                    *given = format!(
                        "{}{}",
                        given.as_str().unwrap(),
                        call["function"]["arguments"].as_str().unwrap()
                    )
                    .into();
                }
            }
        }
    }
    assert_eq!(details.iter().map(|entry| entry["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    message["reasoning_details"] = details.into();
    assert_eq!(super::read(&of(&message.to_string())).0.turns[0].parts, expected());
}
