//! Whose answers are whose, and what makes two calls equal.

use super::*;

/// Asks for the first, then for each of the others, and says which of these were hits.
async fn hits(world: &World, requests: Vec<Request<Full<Bytes>>>) -> Vec<bool> {
    let mut hits = Vec::new();
    for request in requests {
        let reply = world.ask(request).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        hits.push(reply.header("x-sluicegate-cache") == "hit");
    }
    hits
}

/// The same both ways: one after the other from what is kept, and at once on one flight.
async fn shares(settings: &str, one: Request<Full<Bytes>>, other: Request<Full<Bytes>>) -> bool {
    let (world, mock) = World::with(
        settings,
        Options { tuning: Tuning { latency: secs(1), ..Tuning::default() }, ..Options::default() },
    );
    let world = Arc::new(world);
    let replies = at_once(&world, vec![one.clone(), other.clone()]).await;
    for reply in &replies {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    let joined = match fates(&replies)[..] {
        ["miss", "joined"] => true,
        ["miss", "miss"] => false,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(mock.stats().arrived, if joined { 1 } else { 2 });
    let (world, _mock) = World::with(settings, Options { tuning: Tuning::default(), ..Options::default() });
    assert_eq!(hits(&world, vec![one, other]).await[1], joined, "flights and kept answers agree");
    joined
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_key_is_a_scope_of_its_own() {
    for kind in KINDS {
        let with = |name: &str, key: &str| {
            let mut request = kind.plain();
            request.headers_mut().remove("authorization");
            head(request, name, key)
        };
        let mine = || with("authorization", "Bearer mine");
        assert!(shares("", mine(), mine()).await);
        assert!(!shares("", mine(), with("authorization", "Bearer yours")).await, "{}", kind.path);
        assert!(!shares("", mine(), with("authorization", "Bearer min")).await);
        if kind.path == "/v1/messages" {
            assert!(!shares("", with("x-api-key", "mine"), with("x-api-key", "yours")).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn behind_the_gates_own_key_all_are_one() {
    let settings = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"gates-own\"\n";
    let with = |key: &str| head(CHAT.plain(), "authorization", &format!("Bearer {key}"));
    assert!(shares(settings, with("mine"), with("yours")).await);
    let mut without = CHAT.plain();
    without.headers_mut().remove("authorization");
    assert!(shares(settings, with("mine"), without).await);
}

const TWO: &str = r#"
[providers.one]
kind = "openai"
base_url = "http://127.0.0.1:1/v1"
[providers.two]
kind = "openai"
base_url = "http://127.0.0.1:1/v1"
[[models]]
name = "alias"
targets = [{ provider = "one", model = "a" }]
"#;

#[tokio::test(start_paused = true)]
async fn two_providers_never_share_and_names_of_one_model_do() {
    let asked = |model: &str| CHAT.with(json!({"model": model}));
    // The same model by the same name at two providers, even at one address.
    assert!(!shares(TWO, asked("one/a"), asked("two/a")).await);
    assert!(!shares(TWO, asked("one/a"), asked("one/b")).await);
    assert!(shares(TWO, asked("one/a"), asked("one/a")).await);
    assert!(shares(TWO, asked("one/a"), asked("alias")).await);
    let to = |provider: &str| {
        let mut request = asked("a");
        *request.uri_mut() = format!("/to/{provider}/v1/chat/completions").parse().unwrap();
        request
    };
    assert!(!shares(TWO, to("one"), to("two")).await);
    assert!(shares(TWO, to("one"), asked("one/a")).await);
}

#[tokio::test(start_paused = true)]
async fn headers_that_choose_what_an_api_does() {
    for (kind, name, one, other, alike) in [
        (KINDS[1], "anthropic-version", "2023-06-01", "2023-01-01", false),
        (KINDS[1], "anthropic-beta", "a,b", "a", false),
        (KINDS[1], "anthropic-beta", "a,b", "b, a", true),
        (KINDS[0], "openai-organization", "org-1", "org-2", false),
        (KINDS[0], "openai-project", "p1", "p2", false),
        (KINDS[2], "openai-beta", "responses=v1", "responses=v2", false),
        (KINDS[0], "user-agent", "one", "another", true),
    ] {
        let with = |value: &str| head(kind.plain(), name, value);
        assert_eq!(shares("", with(one), with(other)).await, alike, "{name}: {one} and {other}");
        assert_eq!(
            shares("", with(one), kind.plain()).await,
            name == "user-agent" || kind.plain().headers() == with(one).headers(),
            "{name}"
        );
    }
    let mut query = CHAT.plain();
    *query.uri_mut() = "/v1/chat/completions?api-version=2".parse().unwrap();
    assert!(!shares("", CHAT.plain(), query).await);
}

/// Transport, billing and names of people: the answer is the same.
#[tokio::test(start_paused = true)]
async fn each_field_that_changes_no_answer_shares() {
    for kind in KINDS {
        for fields in [
            json!({"metadata": {"run": "7"}}),
            json!({"user": "somebody"}),
            json!({"safety_identifier": "x"}),
            json!({"prompt_cache_key": "k"}),
            json!({"prompt_cache_retention": "24h"}),
            json!({"prompt_cache_options": {"mode": "explicit"}}),
            json!({"cache_control": {"type": "ephemeral"}}),
            json!({"diagnostics": {}}),
            json!({"stream": false}),
        ] {
            assert!(shares("", kind.plain(), kind.with(fields.clone())).await, "{} {fields}", kind.path);
        }
        if kind.streams {
            let streams = kind.stream();
            let more = kind.with(json!({"stream": true, "stream_options": {"include_obfuscation": false}}));
            assert!(shares("", streams, more).await, "{}", kind.path);
        }
    }
}

/// Whatever else is said counts, known or not.
#[tokio::test(start_paused = true)]
async fn each_other_field_alone_counts() {
    let cases = [
        json!({"temperature": 0.5}),
        json!({"top_p": 0.5}),
        json!({"seed": 4}),
        json!({"stop": ["x"]}),
        json!({"max_tokens": 400}),
        json!({"max_completion_tokens": 400}),
        json!({"presence_penalty": 0.5}),
        json!({"frequency_penalty": 0.5}),
        json!({"logit_bias": {"1": 5}}),
        json!({"logprobs": true}),
        json!({"response_format": {"type": "json_object"}}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
        json!({"tool_choice": "none"}),
        json!({"parallel_tool_calls": false}),
        json!({"reasoning_effort": "high"}),
        json!({"verbosity": "low"}),
        json!({"service_tier": "flex"}),
        json!({"modalities": ["text"]}),
        json!({"top_k": 4}),
        json!({"model": "gpt-4o"}),
        json!({"messages": [{"role": "user", "content": "why ?"}]}),
        json!({"messages": [{"role": "user", "content": "why?", "name": "me"}]}),
        json!({"messages": [{"role": "system", "content": "why?"}]}),
        json!({"invented_yesterday": 1}),
    ];
    for fields in &cases {
        assert!(!shares("", CHAT.plain(), CHAT.with(fields.clone())).await, "{fields}");
    }
    // And each of them has an answer of its own: none is another's.
    let (world, mock) = World::before(Options { tuning: Tuning::default(), ..Options::default() });
    for round in [false, true] {
        let hits = hits(&world, cases.iter().map(|fields| CHAT.with(fields.clone())).collect()).await;
        assert!(hits.iter().all(|hit| *hit == round), "{hits:?}");
    }
    assert_eq!(mock.stats().arrived, cases.len() as u64);
    for (kind, fields) in [
        (KINDS[1], json!({"max_tokens": 501})),
        (KINDS[1], json!({"system": "be brief"})),
        (KINDS[1], json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})),
        (KINDS[1], json!({"stop_sequences": ["x"]})),
        (KINDS[1], json!({"inference_geo": "us"})),
        (KINDS[1], json!({"speed": "fast"})),
        (KINDS[2], json!({"instructions": "answer in French"})),
        (KINDS[2], json!({"text": {"verbosity": "low"}})),
        (KINDS[2], json!({"reasoning": {"effort": "low"}})),
        (KINDS[2], json!({"include": ["reasoning.encrypted_content"]})),
        (KINDS[3], json!({"suffix": "x"})),
        (KINDS[3], json!({"echo": true})),
        (KINDS[4], json!({"dimensions": 256})),
        (KINDS[4], json!({"encoding_format": "base64"})),
    ] {
        assert!(!shares("", kind.plain(), kind.with(fields.clone())).await, "{} {fields}", kind.path);
    }
}

/// However it is spelled, what says the same is asked for once.
#[tokio::test(start_paused = true)]
async fn spelling_does_not_count() {
    let spelled = [
        r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"caf\u00e9"}],"temperature":1}"#,
        r#"{ "temperature": 1.0, "messages": [ {"content": "café", "role": "user"} ], "model": "gpt-4o-mini" }"#,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"caf\\u00E9\"}],\n\t\"model\":\"gpt-4o-mini\",\"temperature\":1}",
    ];
    let (world, mock) = World::before(mock());
    let requests = spelled.iter().map(|body| request(Method::POST, CHAT.path, *body)).collect();
    assert_eq!(hits(&world, requests).await, [false, true, true]);
    assert_eq!(mock.stats().arrived, 1);
}
