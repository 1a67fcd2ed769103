//! Answers that nobody else gets: those that are not whole, and those of calls that have effects or state.

use super::*;

/// Asks twice, one after the other, and then says how often the provider was asked and what the second one was told.
async fn twice(request: Request<Full<Bytes>>, tuning: Tuning) -> (u64, String, Reply) {
    let (world, mock) = World::before(Options { tuning, ..Options::default() });
    let first = world.ask(request.clone()).await;
    let second = world.ask(request).await;
    assert_eq!(first.status, 200, "{}", first.text());
    (mock.stats().arrived, second.header("x-sluicegate-cache").to_owned(), first)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_off_by_a_limit() {
    for kind in Kind::with_streams() {
        for stream in [false, true] {
            let limit = match kind.path {
                "/v1/responses" => "max_output_tokens",
                _ => "max_tokens",
            };
            // The least that the Responses API takes is sixteen.
            let limited = kind.with(json!({limit: 16, "stream": stream}));
            assert_eq!(twice(limited, mock().tuning).await.0, 2, "{}", kind.path);
            // The same but for the limit is kept.
            assert_eq!(
                twice(kind.with(json!({limit: 600, "stream": stream})), mock().tuning).await.0,
                1,
                "{}",
                kind.path
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_asks_for_effects() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let chat_tool = json!([{"type": "function", "function": {"name": "weather", "parameters": schema}}]);
    let user = json!([{"role": "user", "content": "use tool"}]);
    let calls = [
        (KINDS[0], json!({"messages": user, "tools": chat_tool})),
        (KINDS[1], json!({"messages": user, "tools": [{"name": "weather", "input_schema": schema}]})),
        (
            KINDS[2],
            json!({"input": "use tool", "tools": [{"type": "function", "name": "weather", "parameters": schema, "strict": true}]}),
        ),
    ];
    for (kind, fields) in calls {
        for stream in [false, true] {
            let mut fields = fields.clone();
            fields["stream"] = stream.into();
            let (arrived, fate, first) = twice(kind.with(fields.clone()), mock().tuning).await;
            assert!(first.text().contains("weather"), "{}", first.text());
            assert_eq!((arrived, &*fate), (2, "miss"), "{}, stream {stream}", kind.path);
            // At once, such a call is asked for once: nobody has acted on it yet.
            let (world, mock) = World::before(unhurried());
            let world = Arc::new(world);
            let replies = at_once(&world, vec![kind.with(fields.clone()), kind.with(fields)]).await;
            assert_one_paid(&replies, &mock);
            assert_all_equal(&replies);
        }
    }
}

/// Answers that the mock does not give.
#[tokio::test(start_paused = true)]
async fn a_refusal_a_filtered_one_and_one_that_says_nothing_of_its_end() {
    let plain = |message: Value, finish: Value| {
        json!({"id": "c", "object": "chat.completion", "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}]})
        .to_string()
    };
    let words = json!({"role": "assistant", "content": "yes"});
    for (body, kept) in [
        (plain(words.clone(), json!("stop")), true),
        (plain(words.clone(), json!("content_filter")), false),
        (plain(words.clone(), json!("length")), false),
        (plain(words.clone(), json!("tool_calls")), false),
        (plain(words.clone(), json!("something new")), false),
        (plain(words.clone(), Value::Null), false),
        (plain(json!({"role": "assistant", "content": null, "refusal": "I won't"}), json!("stop")), false),
        (
            plain(
                json!({"role": "assistant", "content": "a", "function_call": {"name": "f", "arguments": "{}"}}),
                json!("stop"),
            ),
            false,
        ),
        (json!({"error": {"message": "inside a 200"}}).to_string(), false),
        ("{\"choices\":".to_owned(), false),
    ] {
        let hand = Hand::new();
        let world = Arc::new(World::around("", hand.clone()));
        let first = call(&world, CHAT.plain());
        hand.asked().await.whole("200 OK", JSON, &body).await;
        assert_eq!(first.await.unwrap().text(), body);
        assert_eq!(world.gate.shared().kept_bytes > 0, kept, "{body}");
        let second = call(&world, CHAT.plain());
        if !kept {
            hand.asked().await.whole("200 OK", JSON, &body).await;
        }
        assert_eq!(fates(&[second.await.unwrap()]), [if kept { "hit" } else { "miss" }], "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_end_says_so_or_that_has_none() {
    for (end, kept) in [
        (vec![finish("stop"), DONE.to_owned()], true),
        (vec![finish("length"), DONE.to_owned()], false),
        (vec![finish("content_filter"), DONE.to_owned()], false),
        (vec![finish("tool_calls"), DONE.to_owned()], false),
        (vec!["data: {\"error\":{\"message\":\"no\"}}\n\n".to_owned(), DONE.to_owned()], false),
        (vec![finish("stop")[..30].to_owned()], false),
        (vec![], false),
    ] {
        let hand = Hand::new();
        let world = Arc::new(World::around("", hand.clone()));
        let client = world.client().await;
        let first = by_itself(read_what_comes(client));
        let mut asked = hand.asked().await;
        asked.open_stream().await;
        asked.event(&text("yes")).await;
        for event in &end {
            asked.event(event).await;
        }
        asked.end_stream().await;
        first.await.unwrap();
        assert_eq!(world.gate.shared().kept_bytes > 0, kept, "{end:?}");
        assert_idle(&world).await;
    }
}

/// Reads a stream, which may break.
async fn read_what_comes(mut client: Client) {
    if let Ok(answer) = client.try_send(CHAT.stream()).await {
        answer.whole().await;
    }
}

/// Calls that ask for state or effects at the provider, or for answers that are meant to differ.
#[tokio::test(start_paused = true)]
async fn calls_with_state_or_effects_fly_alone() {
    let cases = [
        (KINDS[0], json!({"store": true})),
        (KINDS[0], json!({"n": 2})),
        (KINDS[0], json!({"web_search_options": {}})),
        (KINDS[0], json!({"moderation": {}})),
        (KINDS[1], json!({"container": "c_1"})),
        (KINDS[1], json!({"mcp_servers": [{"type": "url", "url": "https://a.test", "name": "a"}]})),
        (KINDS[1], json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})),
        (KINDS[2], json!({"store": true})),
        (KINDS[2], json!({"store": null})),
        (KINDS[2], json!({"background": true})),
        (KINDS[2], json!({"previous_response_id": "resp_1"})),
        (KINDS[2], json!({"conversation": "conv_1"})),
        (KINDS[2], json!({"tools": [{"type": "web_search"}]})),
        (KINDS[3], json!({"n": 3})),
    ];
    for (kind, fields) in cases {
        // The mock checks nothing: whether the provider takes it is not the question here.
        let (world, mock) = World::before(Options {
            tuning: Tuning { latency: secs(1), ..Tuning::default() },
            ..Options::default()
        });
        let world = Arc::new(world);
        let replies = at_once(&world, vec![kind.with(fields.clone()), kind.with(fields.clone())]).await;
        assert_eq!(mock.stats().arrived, 2, "{} {fields}", kind.path);
        for record in world.records.all() {
            assert_eq!(record.fate.as_str(), "bypass", "{} {fields}", kind.path);
        }
        assert!(fates(&replies).iter().all(|fate| *fate == "bypass"), "{} {fields}", kind.path);
        assert_eq!(world.gate.shared().kept_bytes, 0);
    }
}

/// Whoever sends such a key counts effects, and tells a repetition from another call by it.
#[tokio::test(start_paused = true)]
async fn calls_that_name_their_effect_fly_alone() {
    for name in ["idempotency-key", "x-idempotency-key"] {
        let (world, mock) = World::before(unhurried());
        let world = Arc::new(world);
        let keyed = || head(CHAT.plain(), name, "one");
        assert_eq!(fates(&at_once(&world, vec![keyed(), keyed()]).await), ["bypass"; 2]);
        assert_eq!(mock.stats().arrived, 2);
        assert_eq!(mock.requests(1)[0].header(name), Some("one"), "it is for the provider");
    }
}

/// Everything that is no generation and no embedding passes as it is.
#[tokio::test(start_paused = true)]
async fn other_paths_share_nothing() {
    let (world, mock) = World::before(mock());
    for _ in 0..2 {
        let count = KINDS[1];
        let counted = Kind {
            path: "/v1/messages/count_tokens",
            body: || json!({"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "a"}]}),
            ..count
        };
        let mut request = counted.plain();
        request.headers_mut().insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        assert_eq!(fates(&[world.ask(request).await]), ["bypass"]);
    }
    assert_eq!(mock.stats().arrived, 2);
}
