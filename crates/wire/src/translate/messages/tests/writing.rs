//! Requests to the provider: everything but turns and thinking.

use serde_json::json;

use super::*;
use crate::translate::canon::*;

#[test]
fn members_stand_in_a_fixed_order_and_the_messages_last() {
    let said = said(json!({
        "messages": [user(json!([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]))],
        "stream": true, "service_tier": "auto", "stop_sequences": ["E"], "temperature": 0.70, "max_tokens": 9,
        "metadata": {"user_id": "u1"}, "cache_control": {"type": "ephemeral"}, "tools": [tool("f")],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "$defs": {}}}},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "system": "s",
    }));
    let expected = r#"{"model":"claude-sonnet-4-5","max_tokens":9,"system":[{"type":"text","text":"s"}],
        "tools":[{"name":"f","input_schema":{"type":"object"}}],
        "tool_choice":{"type":"auto","disable_parallel_tool_use":true},
        "output_config":{"format":{"type":"json_schema","schema":{"type":"object","$defs":{}}}},
        "temperature":0.7,"stop_sequences":["E"],"metadata":{"user_id":"u1"},"service_tier":"auto",
        "cache_control":{"type":"ephemeral"},"stream":true,
        "messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}"#;
    let expected = expected.replace("\n        ", "");
    let (body, dropped) = try_write(&said, OLD).unwrap();
    assert_eq!(body, expected);
    assert_eq!(dropped, [] as [&str; 0]);
}

#[test]
fn every_instruction_stays_a_block_with_its_own_mark() {
    let mark = json!({"type": "ephemeral"});
    let long = json!({"type": "ephemeral", "ttl": "1h"});
    let system = json!([
        {"type": "text", "text": "4k tokens", "cache_control": mark},
        {"type": "text", "text": "today is monday"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "x", "cache_control": long},
    ]);
    let (body, _) = write(&said(json!({"system": system})), NEW);
    assert_eq!(body["system"], json!([system[0], system[1], system[3]]));
}

#[test]
fn of_more_than_four_marks_the_last_ones_stay() {
    let mark = json!({"type": "ephemeral"});
    let block = |text: &str| json!({"type": "text", "text": text, "cache_control": mark});
    let marked = json!({"name": "f", "input_schema": {"type": "object"}, "cache_control": mark});
    let said = said(json!({
        "system": [block("a"), block("b")], "tools": [marked], "messages": [user(json!([block("c"), block("d"), block("e")]))],
    }));
    let (body, _) = write(&said, NEW);
    assert_eq!(body["tools"], json!([tool("f")]));
    assert_eq!(body["system"], json!([text("a"), block("b")]));
    assert_eq!(body["messages"][0]["content"], json!([block("c"), block("d"), block("e")]));
}

#[test]
fn a_request_without_limit_asks_for_what_the_model_can() {
    let limit = |change, model: &str| write(&said(change), model).0["max_tokens"].clone();
    assert_eq!(limit(json!({}), NEW), 32_000);
    assert_eq!(limit(json!({}), "claude-3-5-haiku"), 8_192);
    assert_eq!(limit(json!({"max_tokens": 0}), NEW), 0);
    assert_eq!(limit(json!({"max_tokens": 999_999}), NEW), 999_999, "that is for the provider to refuse");
}

#[test]
fn how_tokens_are_drawn_is_told_where_the_model_takes_it() {
    let table = [
        (OLD, json!({"temperature": 0}), json!({"temperature": 0}), vec![]),
        (OLD, json!({"temperature": 1.5}), json!({"temperature": 1}), vec!["temperature"]),
        (OLD, json!({"temperature": 0.5, "top_p": 0.9}), json!({"temperature": 0.5}), vec!["top_p"]),
        (OLD, json!({"temperature": 1, "top_p": 0.9}), json!({"top_p": 0.9}), vec![]),
        (OLD, json!({"temperature": 0.5, "top_p": 1}), json!({"temperature": 0.5}), vec![]),
        (OLD, json!({"top_k": 4, "top_p": 0}), json!({"top_p": 0, "top_k": 4}), vec![]),
        (NEW, json!({"temperature": 1, "top_p": 1.0}), json!({}), vec![]),
        (
            NEW,
            json!({"temperature": 0, "top_p": 0.5, "top_k": 4}),
            json!({}),
            vec!["temperature", "top_p", "top_k"],
        ),
        (
            OLD,
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "temperature": 0.5, "top_p": 0.5, "top_k": 1}),
            json!({}),
            vec!["temperature", "top_p", "top_k"],
        ),
        (
            OLD,
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_p": 0.97}),
            json!({"top_p": 0.97}),
            vec![],
        ),
        (
            "claude-opus-4-6",
            json!({"output_config": {"effort": "low"}, "temperature": 0.5}),
            json!({}),
            vec!["temperature"],
        ),
    ];
    for (model, asked, told, left_out) in table {
        let (body, dropped) = write(&said(asked.clone()), model);
        for name in ["temperature", "top_p", "top_k"] {
            assert_eq!(body[name], told[name], "{asked} {name}");
        }
        assert_eq!(dropped, left_out, "{asked}");
    }
    assert_eq!(blamed(&said(json!({"temperature": -1})), OLD), "temperature");
    assert_eq!(blamed(&said(json!({"top_p": 1.5})), OLD), "top_p");
}

#[test]
fn numbers_keep_their_digits() {
    let body = br#"{"temperature":0.10,"tools":[{"name":"f","input_schema":{"type":"object","maximum":1e400}}],
        "messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f",
        "input":{"z":7300000000000000123,"a":1.10}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}"#;
    let said = MESSAGES_TONGUE.read(body, &mut Dropped::default()).unwrap();
    let (written, _) = try_write(&said, OLD).unwrap();
    for text in
        [r#""temperature":0.10,"#, r#""maximum":1e400"#, r#""input":{"z":7300000000000000123,"a":1.10}"#]
    {
        assert!(written.contains(text), "{written}");
    }
}

#[test]
fn pictures_and_documents_go_up_where_the_provider_takes_them() {
    let base64 =
        |media_type: &'static str| Source::Base64 { media_type: media_type.into(), data: "AA==".into() };
    let image = |source, detail: Option<&'static str>| Part::Image {
        source,
        detail: detail.map(Text::from),
        cache: None,
    };
    let document =
        |source| Part::Document { source, name: Some("n".into()), context: Some("c".into()), cache: None };
    let one = |part: Part<'static>| {
        let mut said = said(json!({}));
        said.turns[0].parts.push(part);
        said
    };
    let table = [
        (
            image(base64("image/webp"), Some("auto")),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "AA=="}}),
        ),
        (
            image(Source::Url("https://a/b.png".into()), None),
            json!({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}),
        ),
        (
            document(base64("application/pdf")),
            json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}, "title": "n", "context": "c"}),
        ),
        (
            document(Source::Plain("x".into())),
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "n", "context": "c"}),
        ),
    ];
    for (part, block) in table {
        let (body, dropped) = write(&one(part), NEW);
        assert_eq!((&body["messages"][0]["content"][1], dropped.len()), (&block, 0));
    }
    assert_eq!(write(&one(image(base64("image/png"), Some("low"))), NEW).1, ["image_url.detail"]);
    let audio = Part::Audio { data: "AA==".into(), format: "wav".into() };
    let foreign = Part::Foreign { kind: "item_reference".into() };
    let table = [
        (image(base64("image/bmp"), None), ".image_url"),
        (image(Source::File("file-1".into()), None), ".image_url"),
        (document(base64("text/csv")), ".file"),
        (document(Source::File("file-1".into())), ".file"),
        (audio, ".input_audio"),
        (foreign, ""),
    ];
    for (part, field) in table {
        assert_eq!(blamed(&one(part), NEW), format!("messages[0].content[1]{field}"));
    }
}

#[test]
fn hints_that_the_provider_does_not_know_are_dropped_by_name() {
    let tier = |tier, model: &str| {
        let mut said = said(json!({}));
        said.tier = Some(tier);
        let (body, dropped) = write(&said, model);
        (body["service_tier"].clone(), body["speed"].clone(), dropped)
    };
    let none = Value::Null;
    assert_eq!(tier(Tier::Auto, NEW), (json!("auto"), none.clone(), vec![]));
    assert_eq!(tier(Tier::Standard, NEW), (json!("standard_only"), none.clone(), vec![]));
    assert_eq!(tier(Tier::Priority, NEW), (json!("auto"), none.clone(), vec![]));
    assert_eq!(tier(Tier::Flex, NEW), (none.clone(), none.clone(), vec!["service_tier".into()]));
    assert_eq!(tier(Tier::Fast, NEW), (none.clone(), json!("fast"), vec![]));
    assert_eq!(tier(Tier::Fast, OLD), (none.clone(), none, vec!["service_tier".into()]));

    let mut said = said(json!({"stop_sequences": ["\n\n", "END"]}));
    said.verbosity = Some("low".into());
    said.format = Some(Format::Object);
    let (body, dropped) = write(&said, NEW);
    assert_eq!(dropped, ["verbosity", "response_format", "stop"]);
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(body["system"].as_array().unwrap().len(), 1);
    assert_eq!(write(&super::said(json!({"stop_sequences": [" "]})), NEW).0.get("stop_sequences"), None);
}

#[test]
fn a_user_who_can_be_told_by_name_goes_up_as_a_digest() {
    let told = |user: &str| {
        write(&said(json!({"metadata": {"user_id": user}})), NEW).0["metadata"]["user_id"].clone()
    };
    assert_eq!(told("user-17"), "user-17");
    for personal in ["ada@example.org", "Ada Lovelace", &"x".repeat(300)] {
        let digest = told(personal);
        assert_eq!(digest, blake3::hash(personal.as_bytes()).to_hex().as_str());
    }
    assert_eq!(write(&said(json!({"metadata": {"user_id": ""}})), NEW).0.get("metadata"), None);
}
