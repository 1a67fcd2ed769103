//! Any answer survives being a stream, and any stream amounts to the same wherever it is cut.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use wire::dialect::{CHAT, COMPLETIONS, Dialect, MESSAGES, RESPONSES, by_name};
use wire::fold::{fold, unfold};

/// Any value, as a field that is not known may have.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            // Keys that mean something elsewhere mean nothing here.
            prop::collection::vec((any_key(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![Just("index".to_owned()), Just("type".to_owned()), Just("id".to_owned()), "[a-z\"\\\\é]{0,4}"]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "\\PC{0,12}",
        "[\\x00-\\x7f]{0,8}",
        Just("é🪑\u{2028}\n\r\"\\".to_owned())
    ]
}

fn optional<T: Into<Value>>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Value::Null)),
        2 => value.prop_map(|value| Some(value.into())),
    ]
}

/// Adds the members that are there, and some with names that nobody knows.
fn with(mut base: Value, members: Vec<(&str, Option<Value>)>, odd: Vec<(String, Value)>) -> Value {
    let object = base.as_object_mut().unwrap();
    object.extend(members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    object.extend(odd.into_iter().map(|(key, value)| (format!("x_{key}"), value)));
    base
}

fn odd() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::vec(("[a-z]{1,3}", any_value()), 0..3)
}

fn list(element: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(element, 0..4)
}

fn chat_choice() -> impl Strategy<Value = Value> {
    let call = (any_text(), any_text(), odd()).prop_map(|(arguments, name, odd)| {
        with(
            json!({"id":"call","type":"function","function":{"name":name,"arguments":arguments}}),
            vec![],
            odd,
        )
    });
    let message = (
        optional(any_text()),
        optional(any_text()),
        optional(list(call)),
        optional(list(any_value())),
        odd(),
    )
        .prop_map(|(content, refusal, calls, annotations, odd)| {
            let base = json!({"role":"assistant","content":content.unwrap_or_default()});
            with(base, vec![("refusal", refusal), ("tool_calls", calls), ("annotations", annotations)], odd)
        });
    let logprobs = list(any_value()).prop_map(|content| json!({"content":content,"refusal":null}));
    (message, optional(logprobs), odd()).prop_map(|(message, logprobs, odd)| {
        with(json!({"message":message,"finish_reason":"stop"}), vec![("logprobs", logprobs)], odd)
    })
}

fn completion_choice() -> impl Strategy<Value = Value> {
    (any_text(), optional(any_value()), odd()).prop_map(|(text, logprobs, odd)| {
        with(json!({"text":text,"finish_reason":"length"}), vec![("logprobs", logprobs)], odd)
    })
}

fn openai(object: &'static str, choice: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let usage = prop::collection::hash_map("[a-z_]{1,9}", any_value(), 1..4)
        .prop_map(|usage| Value::Object(usage.into_iter().collect()));
    let head = (optional(any_text()), optional(any::<u32>()), optional(any_text()));
    (prop::collection::vec(choice, 1..4), head, usage, odd()).prop_map(
        move |(choices, (id, created, model), usage, odd)| {
            let numbered = choices.into_iter().enumerate().map(|(at, choice)| {
                let mut choice = choice;
                choice["index"] = at.into();
                choice
            });
            let base = json!({"object":object,"choices":numbered.collect::<Vec<_>>(),"usage":usage});
            with(base, vec![("id", id), ("created", created), ("model", model)], odd)
        },
    )
}

fn message() -> impl Strategy<Value = Value> {
    let object = || {
        prop::collection::hash_map("[a-z]{1,4}", any_value(), 0..3)
            .prop_map(|it| Value::Object(it.into_iter().collect()))
    };
    let block = prop_oneof![
        (any_text(), optional(list(any_value().prop_filter("a citation", |value| !value.is_null()))))
            .prop_map(|(text, cited)| with(
                json!({"type":"text","text":text}),
                vec![("citations", cited)],
                vec![]
            )),
        (any_text(), any_text())
            .prop_map(|(said, sign)| json!({"type":"thinking","thinking":said,"signature":sign})),
        object().prop_map(|input| json!({"type":"tool_use","id":"t","name":"f","input":input})),
        any_value().prop_map(|value| json!({"type":"hologram","value":value,"text":"a","input":{"a":1}})),
    ];
    (list(block), optional(any_text()), optional(any_value()), object(), odd()).prop_map(
        |(content, sequence, container, usage, odd)| {
            let base = json!({"id":"m","type":"message","role":"assistant","content":content,
                "stop_reason":"end_turn","usage":usage});
            with(base, vec![("stop_sequence", sequence), ("container", container)], odd)
        },
    )
}

fn response() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        (any_text(), optional(list(any_value()))).prop_map(|(text, annotations)| {
            with(json!({"type":"output_text","text":text}), vec![("annotations", annotations)], vec![])
        }),
        any_value().prop_map(|value| json!({"type":"hologram","text":value})),
    ];
    let item = prop_oneof![
        list(part).prop_map(|content| json!({"id":"i","type":"message","content":content})),
        any_text().prop_map(|text| json!({"id":"i","type":"function_call","arguments":text})),
        any_value().prop_map(|value| json!({"type":"hologram","id":value})),
    ];
    (list(item), odd()).prop_map(|(output, odd)| {
        with(json!({"id":"r","object":"response","status":"completed","output":output}), vec![], odd)
    })
}

/// An answer, and the name of its protocol.
fn answer() -> impl Strategy<Value = (&'static str, Value)> {
    let of = |dialect: &dyn Dialect| {
        let name = dialect.name();
        move |answer| (name, answer)
    };
    prop_oneof![
        openai("chat.completion", chat_choice()).prop_map(of(&CHAT)),
        openai("text_completion", completion_choice()).prop_map(of(&COMPLETIONS)),
        message().prop_map(of(&MESSAGES)),
        response().prop_map(of(&RESPONSES)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_answer_survives_being_a_stream(
        (name, answer) in answer(),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
        pretty in any::<bool>(),
    ) {
        let dialect = by_name(name).unwrap();
        let body = if pretty { serde_json::to_vec_pretty(&answer) } else { serde_json::to_vec(&answer) }.unwrap();
        // As it reads, not as it was made: some numbers change when they are written.
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let stream = unfold(dialect, &body, true).unwrap().concat();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let frames = at.windows(2).map(|ends| &stream[ends[0]..ends[1]]);
        let back = fold(dialect, frames).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&back).unwrap(), answer.clone());
        prop_assert_eq!(fold(dialect, [&stream]), Some(back));

        let unasked = unfold(dialect, &body, false).unwrap().concat();
        let back: Value = serde_json::from_slice(&fold(dialect, [unasked]).unwrap()).unwrap();
        prop_assert_eq!(without_usage(back), without_usage(answer));
    }
}

fn without_usage(answer: Value) -> Map<String, Value> {
    let Value::Object(mut answer) = answer else { panic!("an object") };
    answer.remove("usage");
    answer
}
