//! What holds for all requests and answers.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sse::Event;
use crate::translate::Reply;
use crate::translate::canon::*;
use crate::watch::Usage;

const MODELS: [&str; 5] = ["claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-5", "claude-opus-5-5", "m"];

/// Words that mean something to somebody, so that chance finds its way in.
const WORDS: [&str; 40] = [
    "type",
    "text",
    "role",
    "user",
    "assistant",
    "system",
    "content",
    "messages",
    "tool_use",
    "tool_result",
    "image",
    "source",
    "base64",
    "thinking",
    "signature",
    "input",
    "name",
    "id",
    "tools",
    "tool_choice",
    "auto",
    "model",
    "stop_reason",
    "usage",
    "delta",
    "index",
    "content_block",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_start",
    "message_delta",
    "message_stop",
    "error",
    "message",
    "text_delta",
    "input_json_delta",
    "partial_json",
    "cache_control",
    "é\n\"",
];

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(&WORDS[..]).prop_map(str::to_owned)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..3).prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = Text<'static>> {
    prop_oneof![Just(""), Just(" "), Just("a"), Just("é\u{1F600}\"\\\n"), Just("x y z")].prop_map(Text::from)
}

fn text_part() -> impl Strategy<Value = Part<'static>> {
    (any_text(), any::<bool>())
        .prop_map(|(text, marked)| Part::Text { text, cache: marked.then_some(Cache::Short) })
}

fn user_part() -> impl Strategy<Value = Part<'static>> {
    let image = Part::Image { source: Source::Url("https://a/b".into()), detail: None, cache: None };
    let document =
        Part::Document { source: Source::Plain("x".into()), name: None, context: None, cache: None };
    prop_oneof![4 => text_part(), 1 => Just(image), 1 => Just(document)]
}

fn turn(role: Role, parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn { at: 0, role, parts }
}

/// What happens between a question and the next one.
fn round() -> impl Strategy<Value = Vec<Turn<'static>>> {
    let system = || prop::option::of(any_text());
    let users = prop::collection::vec(prop::collection::vec(user_part(), 0..3), 0..3);
    let thoughts = prop::collection::vec((0_usize..4, 0_usize..3, any::<bool>()), 0..3);
    (system(), any_text(), thoughts, 0_usize..3, system(), users, system()).prop_map(
        |(before, said, thoughts, calls, between, users, after)| {
            let instruct = |text: Option<Text<'static>>| {
                text.map(|text| turn(Role::System, vec![Part::Text { text, cache: None }]))
            };
            let mut parts: Vec<Part<'static>> = thoughts
                .into_iter()
                .map(|(characters, calls, placed)| {
                    let place = placed.then_some(Place { characters, calls });
                    Part::Thought(Thought {
                        text: "t".into(),
                        seal: Some(Seal::Signature("S".into())),
                        place,
                    })
                })
                .collect();
            // An answer says something; else the turns around it would be one.
            parts.push(Part::Text { text: format!("say{said}").into(), cache: None });
            let mut results = Vec::new();
            for _ in 0..calls {
                let arguments = Arguments::Json(Json(r#"{"z":1.10}"#.into()));
                parts.push(Part::Call { id: "c".into(), name: "a.b".into(), arguments, cache: None });
                let parts = vec![Part::Text { text: said.clone(), cache: None }];
                results.push(turn(
                    Role::User,
                    vec![Part::Result { id: "c".into(), parts, is_error: false, cache: None }],
                ));
            }
            let mut turns = vec![turn(Role::Assistant, parts)];
            turns.extend(instruct(before));
            turns.extend(results);
            turns.extend(instruct(between));
            turns.extend(users.into_iter().map(|parts| turn(Role::User, parts)));
            turns.push(turn(Role::User, vec![Part::Text { text: "and?".into(), cache: None }]));
            turns.extend(instruct(after));
            turns
        },
    )
}

fn conversation(turns: Vec<Turn<'static>>) -> Conversation<'static> {
    let mut said = said(json!({"system": "s", "tools": [tool("a.b")], "stream": true}));
    said.turns.extend(turns);
    for (at, turn) in said.turns.iter_mut().enumerate() {
        turn.at = at;
    }
    said
}

fn any_item() -> impl Strategy<Value = Item<'static>> {
    let index = 0_u32..4;
    let piece = prop_oneof![Just(""), Just("{"), Just("}"), Just("{}"), Just("\"é\n"), Just("x")];
    let call = |free| Block::Call { id: "c\"".into(), name: "n".into(), free };
    let block = prop_oneof![
        Just(Block::Text),
        Just(Block::Thought { encrypted: None }),
        Just(Block::Thought { encrypted: Some("E".into()) }),
        Just(call(false)),
        Just(call(true)),
        Just(Block::Refusal),
    ];
    let reason = prop::sample::select(vec![
        Reason::Done,
        Reason::Length,
        Reason::Tools,
        Reason::Filtered,
        Reason::Paused,
        Reason::Malformed,
        Reason::Other,
    ]);
    prop_oneof![
        1 => Just(Item::Start { id: "i".into(), model: "m".into() }),
        6 => (index.clone(), block).prop_map(|(index, block)| Item::Open { index, block }),
        9 => (index.clone(), piece).prop_map(|(index, text)| Item::Delta { index, text: text.into() }),
        1 => index.clone().prop_map(|index| Item::Seal { index, signature: "S".into() }),
        4 => index.prop_map(|index| Item::Close { index }),
        1 => reason.prop_map(|reason| Item::Stop(Stop { reason, sequence: None, detail: None, raw: "r".into() })),
        1 => any::<u64>().prop_map(|input| Item::Usage(Usage { input, cached_input: 9, ..Usage::default() })),
        1 => Just(Item::Ping),
        1 => Just(Item::End),
    ]
}

/// That events are what the protocol allows: one beginning, one block at a time, nothing behind the end.
fn check_order(stream: &str) {
    let (mut begun, mut open, mut next, mut closing, mut over) = (false, None, 0, false, false);
    for raw in stream.split_inclusive("\n\n") {
        let event = Event::read(raw.as_bytes());
        let data: Value = serde_json::from_slice(event.data()).unwrap();
        assert_eq!(event.name(), data["type"].as_str().map(str::as_bytes));
        assert!(!over);
        let index = data["index"].as_u64();
        match data["type"].as_str().unwrap() {
            "message_start" => assert!(!std::mem::replace(&mut begun, true)),
            "content_block_start" => {
                assert!(begun && open.is_none() && index == Some(next) && !closing);
                open = index;
                next += 1;
            }
            "content_block_delta" => assert!(open.is_some() && open == index),
            "content_block_stop" => assert!(open.is_some() && open.take() == index),
            "message_delta" => assert!(begun && open.is_none() && !std::mem::replace(&mut closing, true)),
            "message_stop" => {
                assert!(closing);
                over = true;
            }
            "ping" => {}
            other => panic!("{other}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_request_is_read_or_refused_and_what_is_written_is_json(
        mut request in any_json(),
        messages in any_json(),
        model in prop::sample::select(&MODELS[..]),
    ) {
        if let Some(members) = request.as_object_mut() {
            members.insert("messages".into(), json!([user(json!("x")), user(messages)]));
        }
        let (said, _) = try_read(&request);
        if let Ok((body, _)) = said.and_then(|said| try_write(&said, model)) {
            prop_assert!(serde_json::from_str::<Value>(&body).is_ok(), "{}", body);
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..64), json in any_json(), name in word()) {
        let text = json.to_string();
        for body in [&bytes[..], text.as_bytes()] {
            let _ = MESSAGES_TONGUE.read(body, &mut Dropped::default());
            let _ = MESSAGES_TONGUE.read_failure(500, body);
            let mut reader = MESSAGES_TONGUE.reader();
            let event = [b"event: ", name.as_bytes(), b"\ndata: ", body, b"\n\n"].concat();
            for _ in 0..2 {
                reader.event(&Event::read(&event), &mut |_| {});
            }
            for item in MESSAGES_TONGUE.read_answer(body).into_iter().flatten() {
                prop_assert!(!matches!(item, Item::Ping));
            }
        }
    }

    #[test]
    fn a_longer_conversation_begins_as_the_shorter_one(
        rounds in prop::collection::vec(round(), 1..4),
        model in prop::sample::select(&MODELS[..]),
        effort in 0_usize..Effort::WORDS.len(),
    ) {
        let mut turns = Vec::new();
        let mut before: Option<String> = None;
        for round in rounds {
            // A thought that has lost its place takes those before it along; that is no longer conversation.
            let lost = round.iter().flat_map(|turn| &turn.parts).any(|part| {
                matches!(part, Part::Thought(Thought { place: Some(place), .. }) if place.characters + place.calls > 0)
            });
            turns.extend(round);
            // Which marks are too many depends on all of them.
            for part in turns.iter_mut().flat_map(|turn: &mut Turn<'_>| &mut turn.parts) {
                if let Part::Text { cache, .. } = part {
                    *cache = None;
                }
            }
            let mut said = conversation(turns.clone());
            // Older models are told to think where the history lets them.
            said.reasoning.effort = Some(Effort::WORDS[effort].0).filter(|_| model != MODELS[0]);
            let (body, _) = try_write(&said, model).unwrap();
            prop_assert_eq!(&body, &try_write(&said, model).unwrap().0);
            prop_assert!(serde_json::from_str::<Value>(&body).is_ok());
            if let Some(before) = before.filter(|_| !lost) {
                let kept = before.strip_suffix("]}").unwrap();
                prop_assert!(body.starts_with(kept), "{}\n{}", before, body);
            }
            before = Some(body);
        }
    }

    #[test]
    fn roles_take_turns_and_no_more_than_four_marks_are_left(
        round in round(),
        model in prop::sample::select(&MODELS[..]),
    ) {
        let (body, _) = write(&conversation(round), model);
        let messages = body["messages"].as_array().unwrap();
        prop_assert_eq!(&messages[0]["role"], "user");
        for pair in messages.windows(2) {
            prop_assert_ne!(&pair[0]["role"], &pair[1]["role"]);
            prop_assert!(pair[0]["role"] != "assistant" || pair[1]["role"] == "user");
            prop_assert!(pair[0]["role"] != "system" || pair[1]["role"] == "assistant");
        }
        prop_assert!(body.to_string().matches("cache_control").count() <= 4);
    }

    #[test]
    fn any_answer_is_written_as_the_protocol_allows(items in prop::collection::vec(any_item(), 0..24)) {
        let answer = MESSAGES_TONGUE.write_answer(&items, &Reply::default());
        prop_assert!(serde_json::from_slice::<Value>(&answer).is_ok());
        let mut writer = MESSAGES_TONGUE.writer(Reply::default());
        let mut written = Vec::new();
        for item in &items {
            writer.item(item, &mut written);
            if *item == Item::End {
                break;
            }
        }
        check_order(std::str::from_utf8(&written).unwrap());
    }
}
