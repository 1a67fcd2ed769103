//! Faults of caches and of shared calls that users of other gateways have met; `faults/table.md` says which test
//! answers which.

use super::*;

/// Asks for both, one after the other; says whether the second was a hit.
async fn second_hits(settings: &str, one: Request<Full<Bytes>>, other: Request<Full<Bytes>>) -> bool {
    let (world, mock) = World::with(settings, Options::default());
    let replies = [world.ask(one).await, world.ask(other).await];
    for reply in &replies {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    let hit = replies[1].header("x-sluicegate-cache") == "hit";
    assert_eq!(mock.stats().arrived, if hit { 1 } else { 2 });
    hit
}

/// The tokens of this kind that were counted.
fn counted(world: &World, kind: &str) -> u64 {
    let page = world.metrics.render().unwrap();
    let kind = format!("kind=\"{kind}\"");
    let lines =
        page.lines().filter(|line| line.starts_with("sluicegate_tokens_total{") && line.contains(&kind));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[tokio::test(start_paused = true)]
async fn k042_an_answer_that_many_get_is_paid_once() {
    let (world, mock) = World::before(unhurried());
    let world = Arc::new(world);
    let replies = at_once(&world, vec![CHAT.plain(), CHAT.plain(), CHAT.plain()]).await;
    let hit = world.ask(CHAT.plain()).await;
    assert_eq!((fates(&replies), fates(&[hit])), (vec!["miss", "joined", "joined"], vec!["hit"]));
    let usage = &replies[0].json()["usage"];
    assert!(usage["completion_tokens"].as_u64().unwrap() > 0);
    assert_eq!(counted(&world, "input"), usage["prompt_tokens"].as_u64().unwrap());
    assert_eq!(counted(&world, "output"), usage["completion_tokens"].as_u64().unwrap());
    assert_eq!(mock.stats().arrived, 1);
}

#[tokio::test(start_paused = true)]
async fn k043_the_providers_cache_is_told_apart_from_the_gates() {
    let hand = Hand::new();
    let world = Arc::new(World::around("[cache]\nwhen = \"never\"\n", hand.clone()));
    let asked = call(&world, KINDS[1].plain());
    let body = json!({"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "yes"}],
        "usage": {"input_tokens": 900, "cache_read_input_tokens": 38000, "output_tokens": 60}});
    hand.asked().await.whole("200 OK", JSON, &body.to_string()).await;
    assert_eq!(fates(&[asked.await.unwrap()]), ["miss"]);
    let record = world.records.last();
    assert_eq!(
        (record.fate.as_str(), record.cached_input_tokens, record.input_tokens),
        ("miss", Some(38000), Some(38900))
    );
}

#[tokio::test(start_paused = true)]
async fn k065_whatever_changes_the_answer_is_in_the_key() {
    let limits = [json!({"max_tokens": 16}), json!({"max_tokens": 4000})];
    assert!(!second_hits("", CHAT.with(limits[0].clone()), CHAT.with(limits[1].clone())).await);
    for fields in [
        json!({"temperature": 0.3}),
        json!({"top_p": 0.3}),
        json!({"seed": 1}),
        json!({"stop": "a"}),
        json!({"n": 2}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
        json!({"tool_choice": "none"}),
        json!({"tool_choice": "auto"}),
        json!({"response_format": {"type": "json_object"}}),
        json!({"logit_bias": {"5": 1}}),
        json!({"presence_penalty": 1}),
        json!({"reasoning_effort": "low"}),
        json!({"service_tier": "flex"}),
        json!({"top_k": 1}),
        json!({"x": 1}),
    ] {
        assert!(!second_hits("", CHAT.plain(), CHAT.with(fields.clone())).await, "{fields}");
    }
    assert!(second_hits("", CHAT.plain(), CHAT.with(json!({"user": "u", "metadata": {"a": "b"}}))).await);
}

#[tokio::test(start_paused = true)]
async fn k066_each_protocol_has_its_own_fields_in_the_key() {
    let with = |fields: Value| KINDS[2].with(fields);
    assert!(
        second_hits(
            "",
            with(json!({"instructions": "answer in French"})),
            with(json!({"instructions": "answer in French"}))
        )
        .await
    );
    assert!(
        !second_hits(
            "",
            with(json!({"instructions": "answer in French"})),
            with(json!({"instructions": "answer in Danish"}))
        )
        .await
    );
    // What the provider keeps by itself may have changed since.
    for fields in [json!({"previous_response_id": "A"}), json!({"conversation": "A"}), json!({"store": true})]
    {
        assert!(!second_hits("", with(fields.clone()), with(fields.clone())).await, "{fields}");
    }
    // The same body means something else on another path.
    let body =
        json!({"model": "m", "prompt": "a", "messages": [{"role": "user", "content": "a"}]}).to_string();
    let on = |path: &str| request(Method::POST, path, body.clone());
    assert!(!second_hits("", on("/v1/chat/completions"), on("/v1/completions")).await);
}

#[tokio::test(start_paused = true)]
async fn k067_no_temperature_is_not_zero() {
    let settings = "[cache]\nwhen = \"deterministic\"\n";
    assert!(!second_hits(settings, CHAT.plain(), CHAT.plain()).await);
    assert!(
        !second_hits(
            settings,
            CHAT.with(json!({"temperature": null})),
            CHAT.with(json!({"temperature": null}))
        )
        .await
    );
    for zero in [json!(0), json!(0.0)] {
        let request = || CHAT.with(json!({"temperature": zero.clone()}));
        assert!(second_hits(settings, request(), request()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn k068_who_leaves_blocks_nobody() {
    for stream in [false, true] {
        let request = || cache_control(if stream { CHAT.stream() } else { CHAT.plain() }, "max-age=0");
        let plain = || if stream { CHAT.stream() } else { CHAT.plain() };
        let (world, mock) = World::with("[cache]\nwhen = \"never\"\n", unhurried());
        let world = Arc::new(world);
        let leader = boarded(&world, plain()).await;
        let waiter = boarded(&world, plain()).await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
        assert_eq!(leader.await.unwrap().status, 200);
        assert_idle(&world).await;
        // The key is free: for who asks the same, and for who asks anew.
        let replies = [world.ask(plain()).await, world.ask(request()).await];
        assert_eq!(fates(&replies), ["miss", "miss"]);
        assert_eq!(mock.stats().arrived, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn k069_a_failure_is_shared_once_and_never_kept() {
    let scripts = ["500", "429", "cut"];
    for (mode, stream) in scripts.iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let options = Options { script: format!("{mode} 1x; ok").parse().unwrap(), ..unhurried() };
        let (world, mock) = World::before(options);
        let world = Arc::new(world);
        let request = || if stream { CHAT.stream() } else { CHAT.plain() };
        let replies = at_once(&world, (0..100).map(|_| request()).collect()).await;
        assert_eq!(mock.stats().arrived, 1, "{mode}: they do not all ask for themselves");
        for reply in &replies {
            let failed = !reply.status.is_success() || reply.broken || reply.text().contains("\"error\"");
            assert!(failed, "{mode}: {}", reply.text());
        }
        let next = world.ask(request()).await;
        assert_eq!((next.status.as_u16(), next.header("x-sluicegate-cache")), (200, "miss"), "{mode}");
        assert_eq!(said(&next), said(&from_provider(CHAT.plain()).await));
    }
}

/// A plain caller on a streaming flight never gets less than was streamed: where the last event leaves something out,
/// it gets an error, and nobody gets it later.
#[tokio::test(start_paused = true)]
async fn k093_a_response_that_leaves_out_what_was_streamed_is_no_plain_answer() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let stream = call(&world, KINDS[2].stream());
    let mut asked = hand.asked().await;
    let plain = boarded(&world, KINDS[2].plain()).await;
    asked.open_stream().await;
    let thought = json!({"id": "rs_1", "type": "reasoning", "summary": []});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "all of it", "annotations": []}]});
    let response = |status: &str, output: Value| json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output, "error": null});
    let events = [
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": thought}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": thought}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message}),
        json!({"type": "response.completed", "response": response("completed", json!([thought]))}),
    ];
    for (number, mut event) in events.into_iter().enumerate() {
        event["sequence_number"] = number.into();
        let name = event["type"].as_str().unwrap().to_owned();
        asked.event(&format!("event: {name}\ndata: {event}\n\n")).await;
    }
    asked.end_stream().await;
    // A connection that stays open would be used again.
    drop(asked);
    assert!(stream.await.unwrap().text().contains("all of it"));
    let plain = plain.await.unwrap();
    assert_eq!((plain.status.as_u16(), plain.header("x-sluicegate-error")), (502, "upstream_error"));
    // As a stream it is whole, and is kept as one; a plain caller asks for its own.
    let again = call(&world, KINDS[2].plain());
    let whole = response("completed", json!([thought, message])).to_string();
    hand.asked().await.whole("200 OK", JSON, &whole).await;
    assert_eq!(again.await.unwrap().text(), whole);
}
