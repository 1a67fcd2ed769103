//! What holds for every input.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::sse::Event;
use crate::translate::Reply;

/// JSON made of the words that the protocol has, so that most of it is nearly right.
fn value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("text"),
        Just("image_url"),
        Just("file"),
        Just("input_audio"),
        Just("function"),
        Just("custom"),
        Just("assistant"),
        Just("user"),
        Just("system"),
        Just("tool"),
        Just("reasoning.text"),
        Just("auto"),
        Just("data:image/png;base64,QQ=="),
        Just("{\"a\":1}"),
        Just("stop"),
        Just("a\u{0}\"\\🦀"),
        Just(""),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0_i64), Just(1), Just(-1), Just(3), any::<i64>()].prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let key = proptest::sample::select(vec![
            "role",
            "content",
            "type",
            "text",
            "image_url",
            "url",
            "file",
            "file_data",
            "tool_calls",
            "id",
            "function",
            "name",
            "arguments",
            "custom",
            "input",
            "reasoning_details",
            "signature",
            "text_before",
            "calls_before",
            "reasoning_content",
            "refusal",
            "cache_control",
            "tool_call_id",
            "index",
            "delta",
            "message",
            "finish_reason",
            "error",
            "code",
            "usage",
            "choices",
            "messages",
            "tools",
            "tool_choice",
            "x\"y",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|members| members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// Parts of a user or of the model.
fn part(role: Role) -> BoxedStrategy<Part<'static>> {
    let said = || "[a-zż\"\\\\\u{1}🦀]{0,6}".prop_map(Text::from);
    let text = said().prop_map(|text| Part::Text { text, cache: None });
    match role {
        Role::User => prop_oneof![
            text,
            said().prop_map(|url| Part::Image { source: Source::Url(url), detail: None, cache: None }),
            (said(), prop::collection::vec(said(), 0..3), any::<bool>()).prop_map(|(id, texts, is_error)| {
                let parts = texts.into_iter().map(|text| Part::Text { text, cache: None }).collect();
                Part::Result { id, parts, is_error, cache: None }
            }),
        ]
        .boxed(),
        Role::Assistant => prop_oneof![
            text,
            (said(), said(), said()).prop_map(|(id, name, given)| Part::Call {
                id,
                name,
                arguments: Arguments::Json(Json(serde_json::to_string(&given).unwrap().into())),
                cache: None,
            }),
            (said(), said()).prop_map(|(text, signature)| {
                Part::Thought(Thought { text, seal: Some(Seal::Signature(signature)), place: None })
            }),
        ]
        .boxed(),
        Role::System => text.boxed(),
    }
}

fn turns() -> impl Strategy<Value = Vec<Turn<'static>>> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System)];
    let turn = role.prop_flat_map(|role| {
        prop::collection::vec(part(role), 0..5).prop_map(move |parts| Turn { at: 0, role, parts })
    });
    prop::collection::vec(turn, 0..8)
}

fn items() -> impl Strategy<Value = Vec<Item<'static>>> {
    let said = || "[a-z\"\\\\\n\u{1}🦀]{0,5}".prop_map(Text::from);
    let block = prop_oneof![
        Just(Block::Text),
        Just(Block::Refusal),
        prop::option::of(said()).prop_map(|encrypted| Block::Thought { encrypted }),
        (said(), said(), any::<bool>()).prop_map(|(id, name, free)| Block::Call { id, name, free }),
    ];
    let reason =
        prop_oneof![Just(Reason::Done), Just(Reason::Filtered), Just(Reason::Malformed), Just(Reason::Tools)];
    let item = prop_oneof![
        1 => (said(), said()).prop_map(|(id, model)| Item::Start { id, model }),
        6 => (0..4_u32, block).prop_map(|(index, block)| Item::Open { index, block }),
        8 => (0..4_u32, said()).prop_map(|(index, text)| Item::Delta { index, text }),
        3 => (0..4_u32, said()).prop_map(|(index, signature)| Item::Seal { index, signature }),
        4 => (0..4_u32).prop_map(|index| Item::Close { index }),
        1 => Just(Item::Ping),
        1 => Just(Item::End),
        2 => (reason, prop::option::of(said()))
            .prop_map(|(reason, detail)| Item::Stop(Stop { reason, sequence: None, detail, raw: "r".into() })),
    ];
    prop::collection::vec(item, 0..24).prop_map(|mut items| {
        items.insert(0, Item::Start { id: "i".into(), model: "m".into() });
        items
    })
}

fn write(turns: Vec<Turn<'static>>) -> Vec<u8> {
    let said = Conversation { turns, ..Conversation::default() };
    let to = Destination { model: "m", replays_thoughts: true, ..Destination::default() };
    CHAT_TONGUE.write(&said, &to, &mut Dropped::default()).unwrap().0
}

proptest! {
    #[test]
    fn no_request_makes_the_reader_panic(message in value(), fields in value(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut dropped = Dropped::default();
        let mut body = json!({"model": "m", "messages": [message, {"role": "user", "content": [fields]}]});
        let body = match fields {
            Value::Object(fields) => {
                body.as_object_mut().unwrap().extend(fields);
                body
            }
            _ => body,
        };
        let _ = CHAT_TONGUE.read(body.to_string().as_bytes(), &mut dropped);
        let _ = CHAT_TONGUE.read(&bytes, &mut dropped);
        let message = json!({"role": "assistant", "content": message.get("content"), "reasoning_details": [message]});
        let body = json!({"messages": [message]}).to_string();
        let _ = CHAT_TONGUE.read(body.as_bytes(), &mut dropped);
    }

    #[test]
    fn what_was_read_and_can_be_written_is_valid(message in value(), fields in value()) {
        let body = json!({"model": "m", "tools": [fields], "messages": [message, {"role": "user", "content": "x"}]}).to_string();
        let mut dropped = Dropped::default();
        if let Ok(read) = CHAT_TONGUE.read(body.as_bytes(), &mut dropped) {
            let to = Destination { model: "gpt-5", ..Destination::default() };
            if let Ok((body, _)) = CHAT_TONGUE.write(&read, &to, &mut dropped) {
                prop_assert!(serde_json::from_slice::<Value>(&body).is_ok(), "{}", String::from_utf8_lossy(&body));
            }
        }
    }

    #[test]
    fn no_answer_makes_the_reader_panic(delta in value(), chunk in value(), whole in value()) {
        let wrapped = json!({"id": "r", "choices": [{"index": 0, "delta": delta, "message": whole}]});
        let mut reader = CHAT_TONGUE.reader();
        let (mut opened, mut over) = (Vec::new(), 0);
        for chunk in [&wrapped, &chunk, &wrapped] {
            let event = format!("data: {chunk}\n\n");
            reader.event(&Event::read(event.as_bytes()), &mut |item| match item {
                Item::Open { index, .. } => opened.push(index),
                Item::Failed(_) | Item::End => over += 1,
                _ => {}
            });
        }
        reader.end(&mut |item| over += usize::from(item == Item::End));
        prop_assert!(over <= 1 && opened.is_sorted());
        let _ = CHAT_TONGUE.read_answer(chunk.to_string().as_bytes());
        let _ = CHAT_TONGUE.read_answer(wrapped.to_string().as_bytes());
        let _ = CHAT_TONGUE.read_failure(500, chunk.to_string().as_bytes());
    }

    #[test]
    fn a_longer_history_begins_with_the_bytes_of_the_shorter_one(turns in turns(), cut in 0..8_usize) {
        // A history is asked about when the user is done; then the model goes on with it.
        prop_assume!(turns.get(cut).is_none_or(|next| next.role != Role::User));
        let shorter = write(turns[..cut.min(turns.len())].to_vec());
        let longer = write(turns.clone());
        prop_assert!(longer.starts_with(&shorter[..shorter.len() - 2]));
        prop_assert!(serde_json::from_slice::<Value>(&longer).is_ok());
        prop_assert_eq!(write(turns), longer);
    }

    #[test]
    fn every_answer_that_is_written_is_valid(items in items()) {
        let whole = CHAT_TONGUE.write_answer(&items, &Reply::default());
        prop_assert!(serde_json::from_slice::<Value>(&whole).is_ok(), "{}", String::from_utf8_lossy(&whole));
        let mut writer = CHAT_TONGUE.writer(Reply::default());
        let mut written = Vec::new();
        items.iter().for_each(|item| writer.item(item, &mut written));
        let told = String::from_utf8(written).unwrap();
        for event in told.split_terminator("\n\n") {
            let data = event.strip_prefix("data: ").unwrap();
            prop_assert!(data == "[DONE]" || serde_json::from_str::<Value>(data).is_ok(), "{data}");
        }
        prop_assert!(told.matches("data: [DONE]").count() <= 1);
    }
}
