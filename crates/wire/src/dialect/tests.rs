//! The table of protocols, how each reads a whole answer, and what it says when a stream can't be finished.

use serde_json::{Value, json};

use super::*;
use crate::watch::Usage;

fn read(dialect: &dyn Dialect, body: &str) -> Watch {
    let mut watch = Watch::default();
    dialect.read_answer(body.as_bytes(), &mut watch);
    watch
}

fn fault() -> Fault<'static> {
    Fault {
        status: 504,
        code: "upstream_timeout",
        message: "no byte for 20 s",
        param: None,
        request_id: "r-9",
    }
}

/// The name and the data of an event of ours.
fn said(dialect: &dyn Dialect, watch: &Watch) -> (Option<String>, Value) {
    let bytes = dialect.error_event(&fault(), watch);
    assert!(bytes.ends_with(b"\n\n"));
    let event = Event::read(&bytes);
    let name = event.name().map(|name| String::from_utf8_lossy(name).into_owned());
    (name, serde_json::from_slice(event.data()).unwrap())
}

#[test]
fn every_protocol_is_in_the_table_and_found_by_name() {
    for dialect in DIALECTS {
        assert_eq!(by_name(dialect.name()).map(Dialect::name), Some(dialect.name()));
    }
    assert_eq!(by_name("opaque").map(|dialect| dialect.shape()), Some(Shape::OpenAi));
    assert!(by_name("").is_none());
    let generations = DIALECTS.iter().filter(|dialect| dialect.is_generation()).map(|dialect| dialect.name());
    assert_eq!(generations.collect::<Vec<_>>(), ["chat", "completions", "responses", "messages"]);
}

#[test]
fn no_client_sees_a_sign_of_life() {
    for dialect in DIALECTS {
        let event = Event::read(dialect.keep_alive());
        assert!(event.is_comment() || event.name() == Some(b"ping"), "{}", dialect.name());
        let mut watch = Watch::default();
        dialect.watch_event(&event, &mut watch);
        assert_eq!(watch, Watch::default(), "{}", dialect.name());
    }
}

#[test]
fn a_protocol_understands_its_own_error_event() {
    for dialect in DIALECTS.iter().filter(|dialect| dialect.is_generation()) {
        let mut watch = Watch::default();
        let bytes = dialect.error_event(&fault(), &watch);
        dialect.watch_event(&Event::read(&bytes), &mut watch);
        assert_eq!(watch.error.as_deref(), Some("no byte for 20 s"), "{}", dialect.name());
        assert!(watch.terminal && !watch.garbled);
    }
}

#[test]
fn chat_clients_get_an_error_object_without_a_name() {
    let error = json!({"error": {"message": "no byte for 20 s", "type": "timeout_error", "param": null, "code": "upstream_timeout"}});
    for dialect in [&CHAT as &dyn Dialect, &COMPLETIONS, &OPAQUE_OPENAI] {
        assert_eq!(said(dialect, &Watch::default()), (None, error.clone()));
    }
}

#[test]
fn messages_clients_get_a_named_error() {
    let (name, data) = said(&MESSAGES, &Watch::default());
    assert_eq!(name.as_deref(), Some("error"));
    assert_eq!((&data["type"], &data["error"]["type"]), (&json!("error"), &json!("timeout_error")));
    assert_eq!(data["request_id"], "r-9");
}

#[test]
fn responses_clients_get_a_failed_response_that_their_sdk_raises_for() {
    let watch = Watch {
        sequence: Some(41),
        id: Some("resp_7".into()),
        created: Some(17),
        model: Some("m".into()),
        ..Watch::default()
    };
    let (name, data) = said(&RESPONSES, &watch);
    assert_eq!(name.as_deref(), Some("response.failed"));
    assert_eq!((&data["type"], &data["sequence_number"]), (&json!("response.failed"), &json!(42)));
    let response = &data["response"];
    assert_eq!(
        (&response["id"], &response["model"], &response["status"]),
        (&json!("resp_7"), &json!("m"), &json!("failed"))
    );
    assert_eq!(response["error"], json!({"code": "upstream_timeout", "message": "no byte for 20 s"}));
    assert_eq!(data["error"]["message"], "no byte for 20 s", "the SDKs raise for an error on the top level");

    let (_, data) = said(&RESPONSES, &Watch::default());
    assert_eq!((&data["response"]["id"], &data["sequence_number"]), (&json!("resp_r-9"), &json!(0)));
}

#[test]
fn a_plain_chat_answer_tells_model_ending_and_usage() {
    let watch = read(
        &CHAT,
        r#"{"id":"c","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant",
        "content":"say \"error\": {}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4},
        "timings":{"prompt_n":9,"predicted_ms":1.5}}"#,
    );
    assert_eq!(watch.usage, Usage { input: 9, output: 4, ..Usage::default() });
    assert_eq!((watch.model.as_deref(), watch.finish.as_deref()), (Some("m-1"), Some("stop")));
    assert!(watch.has_usage && watch.error.is_none() && !watch.garbled);
}

#[test]
fn plain_answers_of_the_other_protocols_are_read_too() {
    let watch = read(
        &COMPLETIONS,
        r#"{"model":"d","choices":[{"text":"x","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    );
    assert_eq!((watch.finish.as_deref(), watch.usage.output), (Some("length"), 2));

    let watch = read(
        &EMBEDDINGS,
        r#"{"object":"list","data":[{"embedding":[0.1]}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}}"#,
    );
    assert_eq!((watch.model.as_deref(), watch.usage.input), (Some("e"), 8));

    let watch = read(
        &RESPONSES,
        r#"{"id":"resp_1","status":"incomplete","error":null,"incomplete_details":{"reason":"content_filter"},"model":"r","usage":{"input_tokens":3,"output_tokens":2}}"#,
    );
    assert_eq!((watch.finish.as_deref(), watch.usage.input, watch.error), (Some("content_filter"), 3, None));

    let watch = read(
        &MESSAGES,
        r#"{"type":"message","model":"c","stop_reason":"end_turn","usage":{"input_tokens":1,"cache_read_input_tokens":6,"output_tokens":5}}"#,
    );
    assert_eq!(
        (watch.finish.as_deref(), watch.usage.input, watch.usage.cached_input),
        (Some("end_turn"), 7, 6)
    );

    assert_eq!(read(&COUNT_TOKENS, r#"{"input_tokens":12}"#), Watch::default());
    assert_eq!(read(&MODELS, r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#), Watch::default());
}

#[test]
fn an_error_is_found_in_every_protocol_and_under_any_status() {
    for dialect in DIALECTS {
        for body in [
            r#"{"error":{"code":400,"message":"no such model","type":"invalid_request_error"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"no such model"},"request_id":"r"}"#,
            r#"{"detail":"no such model"}"#,
        ] {
            assert_eq!(
                read(*dialect, body).error.as_deref(),
                Some("no such model"),
                "{} {body}",
                dialect.name()
            );
        }
    }
    let failed = read(&RESPONSES, r#"{"status":"failed","error":{"code":"server_error","message":"lost"}}"#);
    assert_eq!((failed.error.as_deref(), failed.finish.as_deref()), (Some("lost"), Some("failed")));
}

#[test]
fn what_is_no_json_is_garbled_and_what_is_odd_is_not() {
    for dialect in DIALECTS.iter().filter(|dialect| dialect.is_generation()) {
        assert!(read(*dialect, "<html>bad gateway</html>").garbled, "{}", dialect.name());
        assert!(read(*dialect, r#"{"usage":{"prompt_tokens":1"#).garbled);
        for odd in [
            "",
            "\n",
            "{}",
            "[]",
            "null",
            r#"{"choices":7,"usage":"much","model":[],"status":3}"#,
            r#"{"model":"a","model":"b"}"#,
        ] {
            let watch = read(*dialect, odd);
            assert!(!watch.garbled && !watch.has_usage && watch.error.is_none(), "{} {odd}", dialect.name());
        }
    }
}
