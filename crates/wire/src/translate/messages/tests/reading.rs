//! Requests of clients.

use serde_json::{Value, json};

use super::*;
use crate::translate::canon::*;

fn parts(content: Value) -> Vec<Part<'static>> {
    said(json!({"messages": [user(content)]})).turns.remove(0).parts
}

fn plain(text: &'static str) -> Part<'static> {
    Part::Text { text: text.into(), cache: None }
}

#[test]
fn a_whole_request_is_read() {
    let said = said(json!({
        "model": "m", "max_tokens": 5, "stream": true, "stop_sequences": ["END"], "top_k": 3,
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true,
            "cache_control": {"type": "ephemeral", "ttl": "1h"}}, {"type": "web_search_20260209", "name": "web_search"}],
        "service_tier": "standard_only", "metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"},
        "output_config": {"effort": "xhigh", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    }));
    assert_eq!((&*said.model, said.stream, said.limit.map(|l| l.tokens)), ("m", true, Some(5)));
    assert_eq!(said.stop, ["END"]);
    assert_eq!(said.sampling.top_k, Some(Json("3".into())));
    let caches: Vec<_> = said.instructions.iter().map(|text| (&*text.text, text.cache)).collect();
    assert_eq!(caches, [("a", Some(Cache::Short)), ("b", None)]);
    assert_eq!(said.tools[0].takes, Takes::Schema(Some(Json(r#"{"type":"object"}"#.into()))));
    assert_eq!((said.tools[0].strict, said.tools[0].cache), (Some(true), Some(Cache::Long)));
    assert_eq!(said.tools[1].takes, Takes::Hosted { kind: "web_search_20260209".into() });
    assert_eq!((said.tier, said.cache), (Some(Tier::Standard), Some(Cache::Short)));
    assert_eq!((said.end_user.as_deref(), said.reasoning.effort), (Some("u"), Some(Effort::Xhigh)));
    let Some(Format::Schema { schema, strict: None, .. }) = said.format else { panic!() };
    assert_eq!(schema.0, r#"{"type":"object"}"#);
}

#[test]
fn zero_is_a_number_and_null_is_nothing() {
    let zero = said(json!({"max_tokens": 0, "temperature": 0, "top_p": 0.0}));
    assert_eq!(zero.limit, Some(Limit { tokens: 0, field: "max_tokens" }));
    assert_eq!(zero.sampling.temperature, Some(Json("0".into())));
    assert_eq!(zero.sampling.top_p, Some(Json("0.0".into())));
    let null = said(json!({"max_tokens": null, "temperature": null, "stream": null, "x_vendor": null}));
    assert_eq!((null.limit, null.sampling), (None, Sampling::default()));
}

#[test]
fn every_block_has_its_part() {
    let base64 = json!({"type": "base64", "media_type": "image/png", "data": "iVBO"});
    let source = Source::Base64 { media_type: "image/png".into(), data: "iVBO".into() };
    let document = |source, name: Option<&'static str>| Part::Document {
        source,
        name: name.map(Text::from),
        context: None,
        cache: None,
    };
    let thought = |text: &'static str, seal| Part::Thought(Thought { text: text.into(), seal, place: None });
    let table = [
        (text("x"), plain("x")),
        (
            json!({"type": "image", "source": base64, "cache_control": {"type": "ephemeral", "ttl": "5m"}}),
            Part::Image { source, detail: None, cache: Some(Cache::Short) },
        ),
        (
            json!({"type": "image", "source": {"type": "url", "url": "https://a/b"}}),
            Part::Image { source: Source::Url("https://a/b".into()), detail: None, cache: None },
        ),
        (
            json!({"type": "document", "source": {"type": "file", "file_id": "f1"}, "title": "t"}),
            document(Source::File("f1".into()), Some("t")),
        ),
        (
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}),
            document(Source::Plain("x".into()), None),
        ),
        (
            json!({"type": "document", "source": {"type": "content", "content": [text("a"), text("b")]}}),
            document(Source::Plain("a\nb".into()), None),
        ),
        (
            json!({"type": "search_result", "source": "https://a", "title": "t", "content": [text("x"), text("y")]}),
            plain("t\nhttps://a\nx\ny"),
        ),
        (
            json!({"type": "thinking", "thinking": "", "signature": "Sg=="}),
            thought("", Some(Seal::Signature("Sg==".into()))),
        ),
        (json!({"type": "thinking", "thinking": "a", "signature": ""}), thought("a", None)),
        (json!({"type": "redacted_thinking", "data": "E"}), thought("", Some(Seal::Encrypted("E".into())))),
        (
            json!({"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": [text("x")]}),
            Part::Result { id: "t".into(), parts: vec![plain("x")], is_error: true, cache: None },
        ),
        (
            json!({"type": "tool_result", "tool_use_id": "t"}),
            Part::Result { id: "t".into(), parts: vec![], is_error: false, cache: None },
        ),
        (json!({"type": "server_tool_use", "id": "s"}), Part::Foreign { kind: "server_tool_use".into() }),
        (
            json!({"type": "container_upload", "file_id": "f"}),
            Part::Foreign { kind: "container_upload".into() },
        ),
    ];
    for (block, part) in table {
        assert_eq!(parts(json!([block])), [part], "{block}");
    }
    assert_eq!(parts(json!("x")), [plain("x")]);
}

#[test]
fn a_call_keeps_every_digit_of_what_it_was_called_with() {
    let body = br#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"id":7300000000000000123,"rate":1.10}}]}]}"#;
    let said = MESSAGES_TONGUE.read(body, &mut Dropped::default()).unwrap();
    let input = r#"{"id":7300000000000000123,"rate":1.10}"#;
    let Part::Call { arguments, .. } = &said.turns[0].parts[0] else { panic!() };
    assert_eq!(*arguments, Arguments::Json(Json(input.into())));
}

#[test]
fn a_choice_of_tools_is_read_with_whether_they_may_come_together() {
    let table = [
        (json!({"type": "auto"}), Choice::Auto, None),
        (json!({"type": "any", "disable_parallel_tool_use": true}), Choice::Any, Some(false)),
        (json!({"type": "none"}), Choice::None, None),
        (json!({"type": "tool", "name": "f"}), Choice::Named("f".into()), None),
    ];
    for (choice, read, parallel) in table {
        let said = said(json!({"tool_choice": choice}));
        assert_eq!((said.choice, said.parallel), (Some(read), parallel), "{choice}");
    }
}

#[test]
fn every_kind_of_thinking_is_read() {
    let table = [
        (json!({"type": "adaptive", "display": "summarized"}), Mode::Adaptive, Some(true)),
        (
            json!({"type": "enabled", "budget_tokens": 2000, "display": "omitted"}),
            Mode::Budget(2000),
            Some(false),
        ),
        (json!({"type": "disabled"}), Mode::Off, None),
        (json!({"type": "between_tools"}), Mode::BetweenTools, None),
    ];
    for (thinking, mode, shown) in table {
        let said = said(json!({"thinking": thinking}));
        assert_eq!((said.reasoning.mode, said.reasoning.shown), (Some(mode), shown), "{thinking}");
    }
    let older = json!({"type": "json_schema", "schema": {"type": "object"}});
    assert!(said(json!({"output_format": older})).format.is_some());
    assert_eq!(said(json!({"speed": "fast", "service_tier": "auto"})).tier, Some(Tier::Fast));
}

#[test]
fn what_nobody_reads_is_dropped_by_its_name() {
    let table = [
        (json!({"x_vendor": {"a": 1}}), "x_vendor"),
        (json!({"context_management": {"edits": []}}), "context_management"),
        (json!({"inference_geo": "us"}), "inference_geo"),
        (json!({"output_config": {"task_budget": {"total": 1}}}), "output_config.task_budget"),
        (json!({"thinking": {"type": "adaptive", "block_binding": {}}}), "thinking.block_binding"),
        (json!({"tools": [{"name": "f", "input_schema": {}, "defer_loading": true}]}), "tools.defer_loading"),
        (json!({"metadata": {"team": "x"}}), "metadata.team"),
        (json!({"service_tier": "later"}), "service_tier"),
        (json!({"messages": [user(json!([{"type": "text", "text": "x", "citations": [{}]}]))]}), "citations"),
        (json!({"system": [{"type": "text", "text": "x", "odd": 1}]}), "system.odd"),
        (json!({"messages": [{"role": "user", "content": "x", "odd": 1}]}), "messages.odd"),
        (
            json!({"messages": [user(json!([{"type": "text", "text": "x", "odd": 1}]))]}),
            "messages.content.odd",
        ),
        (
            json!({"messages": [user(json!([{"type": "image", "source": {"type": "url", "url": "u", "odd": 1}}]))]}),
            "messages.content.source.odd",
        ),
        (
            json!({"output_config": {"format": {"type": "json_schema", "schema": {}, "odd": 1}}}),
            "output_config.format.odd",
        ),
    ];
    for (mut request, name) in table {
        request["mcp_servers"] = json!([]);
        let (said, dropped) = try_read(&request);
        assert!(said.is_ok(), "{request}");
        assert_eq!(dropped, [name], "{request}");
    }
}

#[test]
fn what_is_of_the_wrong_type_is_named() {
    let table = [
        (json!({"mcp_servers": [{"url": "u"}]}), "mcp_servers"),
        (json!({"thread": {"type": "create"}}), "thread"),
        (json!({"max_tokens": "5"}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stream": 1}), "stream"),
        (json!({"model": 4}), "model"),
        (json!({"system": 4}), "system"),
        (json!({"messages": {}}), "messages"),
        (json!({"messages": ["x"]}), "messages[0]"),
        (json!({"messages": [["user", "x"]]}), "messages[0]"),
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (json!({"messages": [user(json!([{"text": "x"}]))]}), "messages[0].content[0].type"),
        (json!({"messages": [user(json!([{"type": "text"}]))]}), "messages[0].content[0].text"),
        (json!({"messages": [user(json!([{"type": "image"}]))]}), "messages[0].content[0].source"),
        (
            json!({"messages": [assistant(json!([{"type": "tool_use", "id": "a", "name": "f", "input": "x"}]))]}),
            "messages[0].content[0].input",
        ),
        (json!({"tools": [{"name": "f", "input_schema": []}]}), "tools[0].input_schema"),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"tool_choice": {"type": "required"}}), "tool_choice.type"),
        (json!({"tool_choice": {"type": "tool"}}), "tool_choice.name"),
        (json!({"thinking": {"type": "enabled"}}), "thinking.budget_tokens"),
        (json!({"thinking": {"type": "deep"}}), "thinking.type"),
        (json!({"output_config": {"effort": "huge"}}), "output_config.effort"),
        (json!({"stop_sequences": [1]}), "stop_sequences[0]"),
        (json!([]), "body"),
    ];
    for (request, field) in table {
        assert_eq!(try_read(&request).0.unwrap_err().field, field, "{request}");
    }
    let document = json!({"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}});
    let unfit = try_read(&json!({"messages": [user(json!([document]))]})).0.unwrap_err();
    assert_eq!(unfit.field, "messages[0].content[0].source.content");
}

#[test]
fn results_in_results_are_not_followed_down() {
    let depth = 100_000;
    let mut body = r#"{"messages":[{"role":"user","content":"#.to_owned();
    body += &r#"[{"type":"tool_result","tool_use_id":"t","content":"#.repeat(depth);
    body += "\"x\"";
    body += &"}]".repeat(depth);
    body += "}]}";
    let said = MESSAGES_TONGUE.read(body.as_bytes(), &mut Dropped::default()).unwrap();
    let Part::Result { parts, .. } = &said.turns[0].parts[0] else { panic!() };
    assert_eq!(parts[..], [Part::Foreign { kind: "tool_result".into() }]);
}

#[test]
fn what_the_vendor_keeps_is_not_forgotten_in_silence() {
    for (field, value) in [
        ("thread", json!({"type": "continue", "previous_message_id": "m"})),
        ("container", json!("c")),
        ("mcp_servers", json!([{"type": "url"}])),
    ] {
        let (said, _) = try_read(&json!({field: value}));
        assert_eq!(said.unwrap_err().field, field);
        assert!(try_read(&json!({field: null})).0.is_ok(), "{field}");
    }
    let (said, _) = try_read(&json!({"thread": {"type": "create"}}));
    assert_eq!(said.unwrap_err().code, Some("thread_unsupported_request"), "the SDK goes on without");
}
