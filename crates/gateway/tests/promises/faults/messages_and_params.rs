//! What a request says beside its tools: marks, numbers, hints, and fields that only one protocol has.

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

const SHORT: &str = r#"{"type":"ephemeral"}"#;
const LONG: &str = r#"{"type":"ephemeral","ttl":"1h"}"#;

fn mark(mark: &str) -> Value {
    serde_json::from_str(mark).unwrap()
}

#[tokio::test(start_paused = true)]
async fn k025_marks_stay_on_the_parts_they_are_on() {
    let long = "x".repeat(16_000);
    let system = json!([
        {"type": "text", "text": long, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "today is monday"},
    ]);
    for role in ["system", "developer"] {
        let messages = json!([{"role": role, "content": system}, {"role": "user", "content": "x"}]);
        let put = puts(CHAT, &across_with(CHAT, json!({"messages": messages}))).await;
        assert_eq!(put.body["system"], system, "the same blocks in the same order");
        assert_eq!(put.text().matches("cache_control").count(), 1);
        assert_eq!(put.dropped(), [""; 0]);
    }
}

/// Wherever a client puts a mark, it is on the block that came of that part.
#[tokio::test(start_paused = true)]
async fn k025_marks_are_kept_wherever_they_stand() {
    let picture = json!({"type": "image_url", "image_url": {"url": "https://img.example/a.png"}});
    let text = json!({"type": "text", "text": "a"});
    let with = |part: &Value| {
        let mut part = part.clone();
        part["cache_control"] = mark(SHORT);
        part
    };
    let answered = |result: Value, said: Value| {
        json!([
            {"role": "user", "content": "x"},
            said,
            result,
            {"role": "user", "content": "y"},
        ])
    };
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": [text]});
    let said = json!({"role": "assistant", "content": [text], "tool_calls": [call("c1", "f", "{}")]});
    let marked_text =
        json!({"role": "assistant", "content": [with(&text)], "tool_calls": [call("c1", "f", "{}")]});
    for (members, at) in [
        (json!({"messages": [{"role": "user", "content": [with(&text), picture]}]}), "/messages/0/content/0"),
        (
            json!({"messages": [{"role": "user", "content": [text, with(&picture), text]}]}),
            "/messages/0/content/1",
        ),
        (json!({"messages": [with(&json!({"role": "user", "content": "x"}))]}), "/messages/0/content/0"),
        (json!({"messages": answered(with(&result), said.clone())}), "/messages/2/content/0"),
        (json!({"messages": answered(result.clone(), marked_text)}), "/messages/1/content/0"),
        (json!({"messages": answered(result, with(&said))}), "/messages/1/content/1"),
        (json!({"tools": [tool(CHAT, "f"), with(&tool(CHAT, "g"))]}), "/tools/1"),
    ] {
        let put = puts(CHAT, &across_with(CHAT, members)).await;
        let block = put.body.pointer(at).unwrap_or_else(|| panic!("{at} in {}", put.body));
        assert_eq!(block["cache_control"], mark(SHORT), "{at}: {}", put.body);
        assert_eq!(put.text().matches("cache_control").count(), 1, "{}", put.body);
    }
}

/// The provider takes four marks: of more, the last ones stay, which cover the most.
#[tokio::test(start_paused = true)]
async fn k025_more_marks_than_are_taken_are_no_reason_to_fail() {
    let parts: Value = (0..6)
        .map(|n| json!({"type": "text", "text": n.to_string(), "cache_control": {"type": "ephemeral"}}))
        .collect();
    let put = puts(CHAT, &across_with(CHAT, json!({"messages": [{"role": "user", "content": parts}]}))).await;
    let blocks = put.body["messages"][0]["content"].as_array().unwrap();
    let marked: Vec<bool> = blocks.iter().map(|block| block.get("cache_control").is_some()).collect();
    assert_eq!(marked, [false, false, true, true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn k025_where_marks_mean_nothing_that_is_told() {
    let system = json!([{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]);
    let put = puts(MESSAGES, &across_with(MESSAGES, json!({"system": system}))).await;
    assert_eq!(put.dropped(), ["cache_control"]);
    assert!(!put.text().contains("cache_control"));
}

#[tokio::test(start_paused = true)]
async fn k026_a_long_cache_lifetime_passes() {
    passes(MESSAGES, r#"{"model":"claude-x","max_tokens":1,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[]}"#).await;
}

#[tokio::test(start_paused = true)]
async fn k026_a_long_cache_lifetime_stays_long_in_the_other_protocol() {
    let with = |key: &str, mark: Value| {
        let mut part = json!({"type": "text", "text": "x"});
        part[key] = mark;
        across_with(CHAT, json!({"messages": [{"role": "user", "content": [part]}]}))
    };
    for (key, said, taken) in [
        ("cache_control", LONG, Some(LONG)),
        ("cache_control", SHORT, Some(SHORT)),
        ("cache_control", r#"{"type":"ephemeral","ttl":"5m"}"#, Some(SHORT)),
        // Half an hour is not to become five minutes.
        ("prompt_cache_breakpoint", r#"{"mode":"explicit","ttl":"30m"}"#, Some(LONG)),
        // One that nobody knows is told, not shortened.
        ("cache_control", r#"{"type":"ephemeral","ttl":"2d"}"#, None),
    ] {
        let put = puts(CHAT, &with(key, mark(said))).await;
        let got = put.body["messages"][0]["content"][0].get("cache_control").cloned();
        assert_eq!(got, taken.map(mark), "{said}");
        assert_eq!(put.dropped().is_empty(), taken.is_some(), "{said}: {:?}", put.dropped());
    }
}

#[tokio::test(start_paused = true)]
async fn k027_zero_null_and_nothing_stay_three_things() {
    for field in [r#""max_tokens":0,"#, r#""temperature":0,"#, r#""top_p":0,"#, r#""max_tokens":null,"#, ""] {
        passes(CHAT, &format!(r#"{{"model":"gpt-x",{field}"messages":[]}}"#)).await;
    }
}

/// What the provider gets, whatever it thinks of it.
async fn gets(path: &str, call: &str) -> Value {
    let told = told_with(BOTH, path, call.to_owned(), super::plain("418 Teapot", JSON, b"{}")).await;
    let received = told.provider.received.lock();
    assert_eq!(received.len(), 1, "{call}: {}", told.reply.text());
    serde_json::from_slice(&parts(&received[0]).1).unwrap()
}

#[tokio::test(start_paused = true)]
async fn k027_zero_null_and_nothing_stay_three_things_in_the_other_protocol() {
    // Members of the client's request and the member that comes of them; null and nothing are the same.
    let one = Some(json!(1));
    let zero = Some(json!(0));
    for (path, field, theirs, of_one) in [
        (CHAT, "max_tokens", "max_tokens", &one),
        (CHAT, "max_completion_tokens", "max_tokens", &one),
        // One is what is usual, and is not said beside what else may be.
        (CHAT, "temperature", "temperature", &one),
        (CHAT, "top_p", "top_p", &one),
        (CHAT, "top_k", "top_k", &one),
        (MESSAGES, "max_tokens", "max_completion_tokens", &one),
        (MESSAGES, "temperature", "temperature", &one),
        (MESSAGES, "top_p", "top_p", &one),
    ] {
        let mut bare = across(path);
        bare.as_object_mut().unwrap().remove(field);
        let call = |value: &str| bare.to_string().replacen('{', &format!("{{\"{field}\":{value},"), 1);
        let nothing = gets(path, &bare.to_string()).await;
        assert_eq!(gets(path, &call("null")).await, nothing, "{path} {field}");
        assert_ne!(nothing.get(theirs), zero.as_ref(), "{path} {field}: no zero of ours");
        assert_eq!(gets(path, &call("0")).await.get(theirs), zero.as_ref(), "{path} {field}");
        assert_eq!(gets(path, &call("1")).await.get(theirs), of_one.as_ref(), "{path} {field}");
    }
    // What is no number at all is the caller's mistake.
    for (path, field) in
        [(CHAT, "max_tokens"), (CHAT, "temperature"), (MESSAGES, "max_tokens"), (MESSAGES, "top_p")]
    {
        for value in [json!("0"), json!(true), json!([])] {
            let told = cant_say(path, &across_with(path, json!({field: value}))).await;
            assert!(told.contains(field), "{told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k028_fields_that_nobody_knows_pass_at_every_depth() {
    passes(CHAT, r#"{"model":"gpt-x","messages":[{"role":"user","content":"x","x_inner":{"a":[1.0]}}],"reasoning_effort":"high","service_tier":"flex","reasoning":{"mode":"pro"},"x_vendor":{"a":1}}"#).await;
}

/// What came of a member: the provider got something else, or its name was told, or the request was refused for it.
async fn is_not_lost(path: &str, name: &str, without: &Value, with: &Value) {
    let (world, mock) = both(mock());
    let reply = world.post(path, with.to_string()).await;
    if reply.status == 400 {
        let told = reply.json()["error"].clone();
        assert!(told.to_string().contains(name), "{name}: {told}");
        assert_eq!(mock.stats().arrived, 0, "{name}");
        return;
    }
    assert_eq!(reply.status, 200, "{name}: {}", reply.text());
    if reply.header("x-sluicegate-dropped").split(", ").any(|dropped| dropped.contains(name)) {
        return;
    }
    let body = mock.requests(1)[0].body.to_vec();
    assert_ne!(body, puts(path, without).await.raw, "{path}: {name} is lost in silence");
}

#[tokio::test(start_paused = true)]
async fn k028_every_field_is_mapped_or_named_or_refused() {
    for (path, fields) in [
        (
            CHAT,
            json!({
                "audio": {"voice": "alloy", "format": "mp3"}, "frequency_penalty": 0.5, "function_call": "auto",
                "functions": [{"name": "f"}], "logit_bias": {"5": 1}, "logprobs": true,
                "max_completion_tokens": 77, "max_tokens": 77, "metadata": {"a": "b"}, "modalities": ["text", "audio"],
                "n": 2, "prediction": {"type": "content", "content": "x"}, "presence_penalty": 0.5,
                "prompt_cache_key": "k", "prompt_cache_retention": "24h", "reasoning": {"mode": "pro"},
                "reasoning_effort": "high", "response_format": {"type": "json_object"}, "safety_identifier": "u",
                "seed": 7, "service_tier": "flex", "stop": ["x"], "store": true, "temperature": 0.5, "top_k": 3,
                "top_logprobs": 5, "top_p": 0.5, "user": "u", "verbosity": "low", "web_search_options": {},
                "x_vendor": {"a": 1}, "tools": [tool(CHAT, "f")],
            }),
        ),
        (
            MESSAGES,
            json!({
                "cache_control": {"type": "ephemeral"}, "container": "c", "context_management": {"edits": []},
                "inference_geo": "eu", "mcp_servers": [{"type": "url", "url": "https://m.example", "name": "m"}],
                "metadata": {"user_id": "u"}, "output_config": {"effort": "high"}, "service_tier": "standard_only",
                "stop_sequences": ["x"], "system": "be brief", "temperature": 0.5, "thinking": {"type": "enabled", "budget_tokens": 2000},
                "tools": [tool(MESSAGES, "f")], "top_k": 3, "top_p": 0.5, "x_vendor": {"a": 1},
            }),
        ),
    ] {
        for (name, value) in fields.as_object().unwrap() {
            is_not_lost(path, name, &across(path), &across_with(path, json!({name: value}))).await;
        }
    }
}

/// A request with everything in it that other things can stand in.
fn with_everything(path: &str) -> Value {
    let mut whole = match path {
        CHAT => json!({
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
                {"role": "user", "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image_url", "image_url": {"url": "https://img.example/a.png"}},
                ]},
                {"role": "assistant", "content": "so", "tool_calls": [call("c1", "f", "{}")]},
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
            ],
            "response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": {"type": "object", "additionalProperties": false}}},
        }),
        _ => json!({
            "system": [{"type": "text", "text": "be brief"}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image", "source": {"type": "url", "url": "https://img.example/a.png"}},
                    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "so"}, tool_use("c1", "f", &json!({}))]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "r"}]}]},
            ],
            "metadata": {"user_id": "u"},
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": false}}},
        }),
    };
    whole["tools"] = json!([tool(path, "f")]);
    whole["tool_choice"] = match path {
        CHAT => "auto".into(),
        _ => json!({"type": "auto"}),
    };
    across_with(path, whole)
}

/// The places of all objects in which fields of the protocol stand. In a schema and in what a tool is called with,
/// everything is the caller's own.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(at.to_owned());
            for (key, value) in members {
                if !["schema", "parameters", "input_schema", "input"].contains(&key.as_str()) {
                    objects(value, &format!("{at}/{key}"), found);
                }
            }
        }
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                objects(value, &format!("{at}/{n}"), found);
            }
        }
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn k028_what_nobody_knows_is_named_at_every_depth() {
    for path in [CHAT, MESSAGES] {
        let whole = with_everything(path);
        let mut places = Vec::new();
        objects(&whole, "", &mut places);
        assert!(places.len() > 12, "{places:?}");
        let mut lost = Vec::new();
        for place in &places {
            let mut call = whole.clone();
            call.pointer_mut(place).unwrap()["x_inner"] = json!({"a": 1});
            let put = puts(path, &call).await;
            assert!(!put.text().contains("x_inner"), "{place}: the provider does not know it either");
            if !put.dropped().iter().any(|name| name.ends_with("x_inner")) {
                lost.push(place.clone());
            }
        }
        assert_eq!(lost, [""; 0], "{path}: lost in silence");
    }
}

/// And only what was asked for: what every client sends is no loss.
#[tokio::test(start_paused = true)]
async fn k028_an_ordinary_call_loses_nothing() {
    for path in [CHAT, MESSAGES] {
        for (header, named) in [
            ("x-stainless-lang", false),
            ("anthropic-beta", path == MESSAGES),
            ("openai-organization", path == CHAT),
        ] {
            let (world, _mock) = both(mock());
            let mut request = asked(path, with_everything(path).to_string());
            request.headers_mut().insert(header, HeaderValue::from_static("x"));
            let reply = world.ask(request).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert_eq!(reply.header("x-sluicegate-dropped"), if named { header } else { "" }, "{path}");
        }
    }
}

/// Both providers, OpenAI-shaped hosts beside them, and a Claude of every sort.
#[tokio::test(start_paused = true)]
async fn k029_every_provider_is_told_the_effort_in_its_own_words() {
    let settings = format!(
        "{BOTH}[providers.groq]\nbase_url = \"http://127.0.0.1:3/openai/v1\"\napi_key = \"k\"\n[providers.local]\nkind = \"vllm\"\nbase_url = \"http://127.0.0.1:4/v1\"\n"
    );
    let adaptive = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}});
    let shown = json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}});
    let budget = json!({"thinking": {"type": "enabled", "budget_tokens": 16_384}});
    let effort = json!({"reasoning_effort": "high"});
    let chat = json!({"reasoning_effort": "high"});
    let messages = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}});
    let by_budget = json!({"thinking": {"type": "enabled", "budget_tokens": 20_000}, "max_tokens": 30_000});
    for (path, said, model, told, dropped) in [
        (CHAT, &chat, "claude-opus-4-6", &adaptive, false),
        (CHAT, &chat, "claude-opus-4-7", &shown, false),
        (CHAT, &chat, "claude-opus-5-5", &shown, false),
        (CHAT, &chat, "claude-sonnet-4-5", &budget, false),
        (CHAT, &chat, "claude-3-5-haiku", &json!({}), true),
        (MESSAGES, &messages, "gpt-5", &effort, false),
        (MESSAGES, &by_budget, "gpt-5", &effort, false),
        (MESSAGES, &messages, "gpt-6-luna", &effort, false),
        (MESSAGES, &messages, "gpt-4.1", &json!({}), true),
        (MESSAGES, &messages, "groq/gpt-oss-120b", &effort, false),
        // A host that speaks Messages itself gets them as they are.
        (MESSAGES, &messages, "local/some-model", &messages, false),
        (CHAT, &chat, "local/some-model", &chat, false),
    ] {
        let mut call = across_with(path, said.clone());
        call["model"] = model.into();
        let provider = Arc::new(super::plain("418 Teapot", JSON, b"{}"));
        let world = World::around(&settings, provider.clone());
        let reply = world.ask(asked(path, call.to_string())).await;
        let body: Value = serde_json::from_slice(&parts(&provider.received.lock()[0]).1).unwrap();
        for field in ["reasoning_effort", "thinking", "output_config", "reasoning"] {
            assert_eq!(body.get(field), told.get(field), "{model}: {field} in {body}");
        }
        let named = reply.header("x-sluicegate-dropped");
        assert_eq!(named.contains("effort"), dropped, "{model}: {named}");
    }
}

#[tokio::test(start_paused = true)]
async fn k030_logprobs_pass_both_ways() {
    passes(CHAT, r#"{"model":"gpt-x","logprobs":true,"top_logprobs":5,"messages":[]}"#).await;
    let with = TEXT.replace("}]}", ",\"logprobs\":{\"content\":[{\"token\":\"yes\",\"logprob\":-0.10}]}}]}");
    let stream = [ROLE, &with, FINISH, DONE].concat();
    let told = told(CHAT, CHAT_CALL, Scripted::chunked(EVENTS, &[stream.as_bytes()])).await;
    assert_eq!(told.reply.text(), stream);
}

#[tokio::test(start_paused = true)]
async fn k030_logprobs_that_can_not_be_had_are_refused() {
    for (fields, param) in [
        (json!({"logprobs": true}), "logprobs"),
        (json!({"logprobs": true, "top_logprobs": 5}), "logprobs"),
        (json!({"top_logprobs": 5}), "top_logprobs"),
    ] {
        let told = cant_say(CHAT, &across_with(CHAT, fields)).await;
        assert!(told.contains(param), "{told}");
    }
    for fields in [
        json!({"logprobs": false}),
        json!({"logprobs": null, "top_logprobs": null}),
        json!({"top_logprobs": 0}),
    ] {
        let put = puts(CHAT, &across_with(CHAT, fields)).await;
        assert_eq!(put.dropped(), [""; 0], "who wants none misses none");
    }
}

#[tokio::test(start_paused = true)]
async fn k031_more_choices_than_one_are_refused() {
    for n in [json!(3), json!(0), json!(-1), json!("1"), json!(1.5)] {
        let told = cant_say(CHAT, &across_with(CHAT, json!({"n": n}))).await;
        assert!(told.starts_with("n:"), "{told}");
    }
    for n in [json!(1), Value::Null] {
        let choice = hears(
            CHAT,
            &across_with(CHAT, json!({"n": n})),
            &claude(&json!([{"type": "text", "text": "yes"}]), "end_turn"),
        )
        .await;
        assert_eq!(choice["message"]["content"], "yes");
    }
}

#[tokio::test(start_paused = true)]
async fn k031_choices_that_nobody_asked_for_are_not_joined_to_the_first() {
    let choice = |index: Value, text: &str| json!({"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let chunk = |index: Value, delta: Value, finish: Option<&str>| {
        format!(
            "data: {}\n\n",
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]})
        )
    };
    let whole = json!({"id": "c", "model": "m", "choices": [choice(json!(1), "no"), choice(json!(0), "yes"), choice(json!(2), "no")]});
    let reply = told_with(
        BOTH,
        MESSAGES,
        across(MESSAGES).to_string(),
        super::plain("200 OK", JSON, whole.to_string().as_bytes()),
    )
    .await
    .reply;
    assert_eq!(reply.json()["content"], json!([{"type": "text", "text": "yes"}]));
    assert!(reply.headers.get_all("x-sluicegate-dropped").iter().any(|lost| lost == "choices"));
    let stream = [
        chunk(json!(1), json!({"role": "assistant", "content": "no"}), None),
        chunk(json!(0), json!({"role": "assistant", "content": "y"}), None),
        chunk(json!(1), json!({}), Some("stop")),
        chunk(json!(0), json!({"content": "es"}), None),
        chunk(json!(0), json!({}), Some("stop")),
        DONE.to_owned(),
    ];
    let told = streams(MESSAGES, &across(MESSAGES), &stream.concat()).await;
    assert_eq!(put_message_together(&told.reply.text())["content"], json!([{"type": "text", "text": "yes"}]));

    for index in [json!(-1), json!(4_294_967_296_u64), json!("0"), json!(0.5)] {
        let whole = json!({"id": "c", "model": "m", "choices": [choice(index.clone(), "yes")]});
        let told = told_with(
            BOTH,
            MESSAGES,
            across(MESSAGES).to_string(),
            super::plain("200 OK", JSON, whole.to_string().as_bytes()),
        )
        .await;
        assert_eq!(told.reply.status, 502, "{index}: {}", told.reply.text());
        let stream = [
            chunk(index.clone(), json!({"content": "yes"}), None),
            chunk(index.clone(), json!({}), Some("stop")),
            DONE.to_owned(),
        ];
        let told = streams(MESSAGES, &across(MESSAGES), &stream.concat()).await;
        let text = told.reply.text();
        assert!(text.contains("event: error\n") && !text.contains("message_stop"), "{index}: {text}");
        assert!(told.record.failed(), "{index}");
    }
}
