//! Why an answer ended, and the form that it was to have.

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

/// One that leaves nothing open, with a definition that it refers to.
const STRICT: &str = r##"{"type":"object","additionalProperties":false,"required":["p"],"properties":{"p":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"string"}}}}}"##;
/// One that says more than is strictly kept to.
const OPEN: &str = r#"{"type":"object","properties":{"z":{"type":"number","minimum":1.10},"a":{"type":"string","pattern":"^x"}}}"#;

/// A call as text, with this member in front.
fn with(path: &str, member: &str) -> String {
    across(path).to_string().replacen('{', &format!("{{{member},"), 1)
}

/// What the strict provider gets of it.
async fn sent(path: &str, call: String) -> (Value, String) {
    let (world, mock) = both(mock());
    let reply = world.post(path, call).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let raw = String::from_utf8(mock.requests(1)[0].body.to_vec()).unwrap();
    (serde_json::from_str(&raw).unwrap(), raw)
}

#[tokio::test(start_paused = true)]
async fn k044_a_schema_goes_where_the_provider_looks_for_it_as_it_is_written() {
    for schema in [STRICT, OPEN] {
        for strict in ["", r#","strict":true"#, r#","strict":false"#] {
            let format = format!(
                r#""response_format":{{"type":"json_schema","json_schema":{{"name":"o"{strict},"schema":{schema}}}}}"#
            );
            let (body, raw) = sent(CHAT, with(CHAT, &format)).await;
            assert_eq!(body["output_config"]["format"]["type"], "json_schema");
            assert!(
                raw.contains(&format!(r#""format":{{"type":"json_schema","schema":{schema}}}"#)),
                "{raw}"
            );
            assert_eq!(body.get("response_format"), None);
        }
        let format = format!(r#""output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}"#);
        let (body, raw) = sent(MESSAGES, with(MESSAGES, &format)).await;
        assert_eq!(body["response_format"]["type"], "json_schema");
        assert!(raw.contains(&format!(r#""schema":{schema}"#)), "{raw}");
        // Strictly, where this provider can be strict; else it would refuse what the client's own takes.
        assert_eq!(body["response_format"]["json_schema"]["strict"], schema == STRICT, "{raw}");
        assert!(body["response_format"]["json_schema"]["name"].is_string(), "it has to have a name: {raw}");
    }
}

#[tokio::test(start_paused = true)]
async fn k044_any_object_is_asked_for_in_words_where_there_is_no_other_way() {
    let put = puts(CHAT, &across_with(CHAT, json!({"response_format": {"type": "json_object"}}))).await;
    assert!(put.body["system"][0]["text"].as_str().unwrap().contains("JSON object"), "{}", put.body);
    assert_eq!(put.dropped(), ["response_format"], "it is a wish now");
    let put = puts(CHAT, &across_with(CHAT, json!({"response_format": {"type": "text"}}))).await;
    assert_eq!((put.body.get("system"), put.dropped()), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn k044_a_schema_that_the_provider_refuses_is_a_400() {
    let said = "output_config.format.schema: 'minimum' is not supported";
    for (path, body) in [
        (CHAT, json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}})),
        (
            MESSAGES,
            json!({"error": {"type": "invalid_request_error", "message": said, "param": "response_format", "code": null}}),
        ),
    ] {
        for call in [across(path), streamed(across(path))] {
            let told = told_with(
                BOTH,
                path,
                call.to_string(),
                super::plain("400 Bad Request", JSON, body.to_string().as_bytes()),
            )
            .await;
            assert_eq!(told.reply.status, 400);
            assert!(told.reply.json()["error"]["message"].as_str().unwrap().contains(said));
            assert_eq!((told.record.failed(), told.outcomes()), (false, one("refused")));
        }
    }
}

/// The text of the form that was asked for comes through untouched.
#[tokio::test(start_paused = true)]
async fn k044_the_answer_is_the_json_that_was_written() {
    for written in
        [r#"{"p":{"n":"a\"b"}}"#, "{\n  \"p\": 1.10,\n  \"q\": 7300000000000000123\n}", "```json\n{}\n```"]
    {
        let says = claude(&json!([{"type": "text", "text": written}]), "end_turn");
        assert_eq!(hears(CHAT, &across(CHAT), &says).await["message"]["content"], written);
        let says = gpt(&json!({"content": written}), "stop");
        assert_eq!(hears(MESSAGES, &across(MESSAGES), &says).await["content"][0]["text"], written);
    }
}

#[tokio::test(start_paused = true)]
async fn k045_calls_are_waited_for_whatever_the_provider_calls_its_end() {
    let forced = json!({"tools": [tool(MESSAGES, "f")], "tool_choice": {"type": "tool", "name": "f"}});
    let calls = json!([call("t1", "f", "{\"a\":1}")]);
    for message in [
        json!({"content": null, "tool_calls": calls}),
        json!({"content": "Let me look", "tool_calls": calls}),
        json!({"content": null, "tool_calls": [calls[0], call("t2", "f", "{}")]}),
    ] {
        for finish in ["stop", "tool_calls", "function_call", "eos", "end_turn", "something_new"] {
            let says = gpt(&message, finish);
            let answer = hears(MESSAGES, &across_with(MESSAGES, forced.clone()), &says).await;
            assert_eq!(answer["stop_reason"], "tool_use", "{finish}: {answer}");
        }
    }
    // Without a call, nothing is waited for.
    for (finish, stop) in [
        ("stop", "end_turn"),
        ("tool_calls", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
    ] {
        let answer = hears(MESSAGES, &across(MESSAGES), &gpt(&json!({"content": "yes"}), finish)).await;
        assert_eq!(answer["stop_reason"], stop, "{finish}");
    }
}

#[tokio::test(start_paused = true)]
async fn k045_an_end_without_a_reason_is_one_all_the_same() {
    let calls = json!([call("t1", "f", "{\"a\":1}")]);
    for (message, stop) in
        [(json!({"content": null, "tool_calls": calls}), "tool_use"), (json!({"content": "yes"}), "end_turn")]
    {
        // Null in either form; the sentinel of the stream says that all was said.
        let says = gpt(&message, "stop");
        let null = |text: String| text.replace(r#""finish_reason":"stop""#, r#""finish_reason":null"#);
        let says = Says { plain: null(says.plain), stream: null(says.stream) };
        assert_eq!(hears(MESSAGES, &across(MESSAGES), &says).await["stop_reason"], stop);
    }
}

/// Same protocol in and out: the provider's own word.
#[tokio::test(start_paused = true)]
async fn k045_the_providers_own_word_stays_in_its_own_protocol() {
    let says = gpt(&json!({"content": null, "tool_calls": [call("t1", "f", "{\"a\":1}")]}), "stop");
    let plain = told(CHAT, chat("x"), super::plain("200 OK", JSON, says.plain.as_bytes())).await;
    assert_eq!(plain.reply.text(), says.plain);
    let stream = told(CHAT, CHAT_CALL, Scripted::chunked(EVENTS, &[says.stream.as_bytes()])).await;
    assert_eq!(stream.reply.text(), says.stream);
    let says = claude(&json!([tool_use("t1", "f", &json!({"a": 1}))]), "end_turn");
    let plain =
        told(MESSAGES, message("x", false), super::plain("200 OK", JSON, says.plain.as_bytes())).await;
    assert_eq!(plain.reply.text(), says.plain);
}
