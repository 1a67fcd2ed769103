//! Field by field: what is left out, what counts, what is never shared.

use super::*;

/// A body that is shared, with members put in front.
fn with(dialect: &dyn Dialect, members: &str) -> String {
    let rest = match dialect.name() {
        "chat" | "messages" => r#""messages":[{"role":"user","content":"hi"}]"#,
        "responses" => r#""input":"hi","store":false"#,
        "embeddings" => r#""input":["hi"]"#,
        _ => r#""prompt":"hi""#,
    };
    format!("{{{members}{rest}}}")
}

fn shared() -> impl Iterator<Item = &'static dyn Dialect> {
    DIALECTS.iter().copied().filter(|dialect| dialect.rules().is_some())
}

#[test]
fn what_is_left_out_alone_changed_shares() {
    for member in [
        r#""model":"a","#,
        r#""model":null,"#,
        r#""mod\u0065l":"a","#,
        r#""stream":true,"#,
        r#""stream_options":{"include_usage":true,"include_obfuscation":false},"#,
        r#""metadata":{"user_id":"u","deep":[{"a":[1 , 2]},{ }]},"#,
        r#""user":"u","#,
        r#""safety_identifier":"u","#,
        r#""prompt_cache_key":"k","#,
        r#""prompt_cache_options":{"ttl":"30m"},"#,
        r#""prompt_cache_retention":"24h","#,
        r#""diagnostics":{"previous_message_id":"m"},"#,
        r#""cache_control":{"type":"ephemeral"},"#,
    ] {
        for dialect in shared() {
            let body = with(dialect, member);
            assert_eq!(meaning(dialect, &body), meaning(dialect, &with(dialect, "")), "{body}");
        }
    }
}

#[test]
fn every_other_field_counts() {
    let fields = [
        "max_tokens\":16",
        "max_tokens\":4000",
        "temperature\":1",
        "temperature\":0.5",
        "temperature\":null",
        "top_p\":0.9",
        "top_k\":5",
        "seed\":1",
        "seed\":2",
        "stop\":\"a\"",
        "stop\":[\"a\"]",
        "stop_sequences\":[\"a\"]",
        "n\":1",
        "tool_choice\":\"none\"",
        "tool_choice\":\"auto\"",
        "response_format\":{\"type\":\"json_object\"}",
        "logit_bias\":{\"1\":1}",
        "presence_penalty\":1",
        "frequency_penalty\":1",
        "reasoning_effort\":\"low\"",
        "reasoning\":{\"effort\":\"low\"}",
        "thinking\":{\"type\":\"enabled\",\"budget_tokens\":9}",
        "service_tier\":\"flex\"",
        "speed\":\"fast\"",
        "inference_geo\":\"us\"",
        "instructions\":\"answer in French\"",
        "instructions\":\"answer in Danish\"",
        "text\":{\"format\":{}}",
        "truncation\":\"auto\"",
        "dimensions\":3",
        "encoding_format\":\"base64\"",
        "prediction\":{\"content\":\"a\"}",
        "modalities\":[\"text\",\"audio\"]",
        "verbosity\":\"low\"",
        "parallel_tool_calls\":false",
        "logprobs\":true",
        "echo\":true",
        "suffix\":\"a\"",
        "x\":1",
        "x\":null",
        "system\":\"a\"",
        "functions\":[]",
        "tools\":[]",
        "x\":{\"model\":1}",
        "x\":{\"cache_control\":1}",
    ];
    for dialect in shared() {
        let mut digests = vec![(String::new(), meaning(dialect, &with(dialect, "")).digest)];
        for field in fields {
            let body = with(dialect, &format!("\"{field},"));
            digests.push((body.clone(), meaning(dialect, &body).digest));
        }
        for (at, (one, digest)) in digests.iter().enumerate() {
            for (other, its) in &digests[at + 1..] {
                assert_ne!(digest, its, "{one} {other}");
            }
        }
    }
}

#[test]
fn tools_and_turns_count() {
    let of = |body: &str| meaning(&CHAT, body);
    let tool = |name: &str| {
        of(&format!(
            r#"{{"tools":[{{"type":"function","function":{{"name":"{name}","parameters":{{}}}}}}]}}"#
        ))
    };
    assert_ne!(tool("a"), tool("b"));
    assert_ne!(of(r#"{"messages":[1,2]}"#), of(r#"{"messages":[2,1]}"#));
    assert_ne!(of(r#"{"messages":[[1],2]}"#), of(r#"{"messages":[[1,2]]}"#));
}

#[test]
fn advice_on_caching_is_left_out_where_it_is_advice_only() {
    let same = |dialect: &dyn Dialect, place: &str| {
        let [with, without, alone] =
            [r#""a":1,"cache_control":{"type":"ephemeral"}"#, r#""a":1"#, r#""a":2"#]
                .map(|members| meaning(dialect, &place.replace('$', members)));
        assert_ne!(with, alone, "{place}");
        with == without
    };
    for place in [
        "{$}",
        r#"{"tools":[{"type":"custom","name":"b"},{"type":"custom",$}]}"#,
        r#"{"messages":[{$}]}"#,
        r#"{"messages":[{"content":[{"type":"text",$}]}]}"#,
        r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"text",$}]}]}]}"#,
    ] {
        assert!(same(&MESSAGES, place) && same(&CHAT, place), "{place}");
    }
    assert!(same(&MESSAGES, r#"{"system":[{"type":"text",$}]}"#));
    for place in [
        r#"{"x":{$}}"#,
        r#"{"x":[{$}]}"#,
        r#"{"messages":{$}}"#,
        r#"{"messages":[[{$}]]}"#,
        r#"{"tools":[{"type":"custom","input_schema":{"properties":{$}}}]}"#,
        r#"{"messages":[{"content":[{"type":"tool_use","input":{$}}]}]}"#,
        r#"{"messages":[{"content":[{"type":"tool_use","input":{"content":[{$}]}}]}]}"#,
        r#"{"messages":[{"content":{$}}]}"#,
        r#"{"messages":[{"content":[{"content":{$}}]}]}"#,
        r#"{"messages":[{"content":[{"content":[{"content":[{$}]}]}]}]}"#,
        r#"{"messages":[{"content":[{"source":{"content":[{$}]}}]}]}"#,
        r#"{"messages":[{"tool_calls":[{"function":{$}}]}]}"#,
    ] {
        assert!(!same(&MESSAGES, place) && !same(&CHAT, place), "{place}");
    }
    for place in [r#"{"system":[{$}]}"#, r#"{"input":[{$}]}"#] {
        assert!(!same(&CHAT, place), "{place}");
    }
}

#[test]
fn state_and_effects_are_never_shared() {
    for field in [
        "background\":true",
        "background\":1",
        "deferred\":true",
        "previous_response_id\":\"A\"",
        "conversation\":\"c\"",
        "conversation\":{\"id\":\"c\"}",
        "thread\":\"t\"",
        "threads\":[]",
        "container\":\"c\"",
        "session_id\":\"s\"",
        "mcp_servers\":[]",
        "web_search_options\":{}",
        "web_s\\u0065arch_options\":{}",
        "grounding\":{}",
        "moderation\":{}",
        "file_id\":\"f\"",
        "store\":true",
        "store\":\"false\"",
        "plugins\":[]",
        "search_parameters\":{}",
        "enable_search\":true",
    ] {
        for dialect in shared() {
            let body = with(dialect, &format!("\"{field},"));
            assert!(matches!(sharing(dialect, &body), Sharing::Never(_)), "{body}");
            let name = field.split('"').next().unwrap_or_default();
            meaning(dialect, &with(dialect, &format!("\"{name}\":null,")));
        }
    }
    for field in [
        "n\":2",
        "n\":\"1\"",
        "n\":1.5",
        "max_tokens\":0",
        "max_completion_tokens\":0.0",
        "max_output_tokens\":0",
    ] {
        for dialect in shared().filter(|dialect| dialect.name() != "embeddings") {
            let body = with(dialect, &format!("\"{field},"));
            assert_eq!(sharing(dialect, &body), Sharing::Never(field.split('"').next().unwrap_or_default()));
        }
    }
}

#[test]
fn a_response_is_shared_only_if_it_is_not_stored() {
    meaning(&RESPONSES, r#"{"input":"hi","store":false}"#);
    for body in [
        r#"{"input":"hi"}"#,
        r#"{"input":"hi","store":null}"#,
        r#"{"input":"hi","store":true}"#,
        r#"{"input":"hi","store":false,"store":true}"#,
        r#"{"input":"hi","store":true,"store":false}"#,
        r#"{"input":"hi","x":{"store":false}}"#,
    ] {
        assert_eq!(sharing(&RESPONSES, body), Sharing::Never("store"), "{body}");
    }
    assert!(matches!(
        sharing(&RESPONSES, r#"{"store":false,"prompt":{"id":"p"}}"#),
        Sharing::Never("prompt")
    ));
}

#[test]
fn only_tools_that_the_client_runs_are_shared() {
    let tools =
        |dialect: &dyn Dialect, tools: &str| sharing(dialect, with(dialect, &format!("\"tools\":{tools},")));
    let (shared, never) = (|it| matches!(it, Sharing::Allowed(_)), Sharing::Never("tools"));
    for dialect in [&CHAT as &dyn Dialect, &RESPONSES] {
        for fine in [
            r#"[{"type":"function"}]"#,
            r#"[{"name":"a","type":"custom"},{"type":"function"}]"#,
            "[]",
            "null",
        ] {
            assert!(shared(tools(dialect, fine)), "{fine}");
        }
        for server in [
            r#"[{"type":"function"},{"type":"web_search"}]"#,
            r#"[{"type":"mcp"}]"#,
            r#"[{"type":"function","type":"mcp"}]"#,
            r#"[{"google_search":{}}]"#,
            r#"[{"type":null}]"#,
            r#"["web_search"]"#,
            r#"{"type":"function"}"#,
            "true",
        ] {
            assert_eq!(tools(dialect, server), never, "{server}");
        }
    }
    for fine in [r#"[{"name":"a"}]"#, r#"[{"type":"custom"}]"#, r#"[{"type":null}]"#] {
        assert!(shared(tools(&MESSAGES, fine)), "{fine}");
    }
    for server in [
        r#"[{"name":"a"},{"type":"web_search_20250305"}]"#,
        r#"[{"type":"bash_20250124"}]"#,
        r#"[{"type":1}]"#,
    ] {
        assert_eq!(tools(&MESSAGES, server), never, "{server}");
    }
}

#[test]
fn files_that_the_provider_keeps_are_never_shared() {
    for (dialect, body) in [
        (&CHAT as &dyn Dialect, r#"{"messages":[{"content":[{"type":"file","file":{"file_id":"f"}}]}]}"#),
        (&CHAT, r#"{"messages":[{"role":"assistant","audio":{"id":"a"}}]}"#),
        (
            &RESPONSES,
            r#"{"store":false,"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}"#,
        ),
        (
            &RESPONSES,
            r#"{"store":false,"input":[{"type":"function_call_output","output":[{"f\u0069le_id":"f"}]}]}"#,
        ),
        (&MESSAGES, r#"{"messages":[{"content":[{"source":{"type":"file","file_id":"f"}}]}]}"#),
        (&MESSAGES, r#"{"messages":[{"content":[{"source":{"type":"f\u0069le"}}]}]}"#),
        (
            &MESSAGES,
            r#"{"messages":[{"content":[{"content":[{"type":"container_upload","file_id":"f"}]}]}]}"#,
        ),
    ] {
        assert!(matches!(sharing(dialect, body), Sharing::Never("file_id" | "audio")), "{body}");
    }
    for (dialect, body) in [
        (&CHAT as &dyn Dialect, r#"{"messages":[{"content":[{"type":"file","file":{"file_data":"f"}}]}]}"#),
        (
            &CHAT,
            r#"{"tools":[{"type":"function","function":{"parameters":{"properties":{"file_id":{"type":"string"}}}}}]}"#,
        ),
        (&MESSAGES, r#"{"messages":[{"content":[{"source":{"type":"base64","data":"f"}}]}]}"#),
        (
            &RESPONSES,
            r#"{"store":false,"input":[{"role":"user","content":"hi"},{"type":"reasoning","id":"r"}]}"#,
        ),
    ] {
        meaning(dialect, body);
    }
    for kept in [r#"{"id":"m"}"#, r#"{"type":null,"id":"m"}"#, r#"{"type":"item_reference","id":"m"}"#] {
        let body = format!("{{\"store\":false,\"input\":[{kept}]}}");
        assert_eq!(sharing(&RESPONSES, &body), Sharing::Never("item_reference"), "{body}");
    }
}

#[test]
fn only_who_asks_for_no_chance_is_deterministic() {
    let of = |dialect: &dyn Dialect, members: &str| meaning(dialect, &with(dialect, members)).deterministic;
    for dialect in shared().filter(|dialect| dialect.name() != "embeddings") {
        for yes in
            ["temperature\":0", "temperature\":0.0", "temperature\":0e0", "temperature\":-0", "seed\":7"]
        {
            assert!(of(dialect, &format!("\"{yes},")), "{yes}");
        }
        for no in [
            "x\":1",
            "temperature\":null",
            "temperature\":1e-9",
            "temperature\":\"0\"",
            "seed\":null",
            "temperature\":0,\"temperature\":1",
            "temperature\":1,\"temperature\":0",
            "seed\":1,\"seed\":null",
            "x\":{\"temperature\":0}",
        ] {
            assert!(!of(dialect, &format!("\"{no},")), "{no}");
        }
    }
    assert!(of(&EMBEDDINGS, ""));
}
