//! The calls beside generation: embeddings and counting.

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

const COUNT: &str = "/v1/messages/count_tokens?beta=true";
const COUNT_CALL: &str = r#"{"model":"claude-x","system":"be brief","tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"hi"}]}"#;

/// The gate promises bytes, so an answer in another form than the caller asked for stays the provider's: it is not
/// encoded again, its length is right, and its usage is booked.
#[tokio::test(start_paused = true)]
async fn k046_embeddings_pass_in_the_form_that_the_provider_chose() {
    let call = r#"{"model":"text-embedding-x","input":"a","encoding_format":"base64"}"#;
    for embedding in ["[0.10, -2e-3]", "\"zczMPQ==\""] {
        let answer = format!(
            r#"{{"object":"list","data":[{{"index":0,"embedding":{embedding}}}],"model":"e","usage":{{"prompt_tokens":5,"total_tokens":5}}}}"#
        );
        let told = told("/v1/embeddings", call, plain("200 OK", JSON, answer.as_bytes())).await;
        assert_eq!(told.reply.text(), answer);
        assert_eq!(parts(&told.provider.received.lock()[0]).1, call.as_bytes());
        assert_eq!((told.record.input_tokens, told.outcomes()), (Some(5), one("ok")));
    }
}

#[tokio::test(start_paused = true)]
async fn k047_counting_is_the_providers_and_costs_nothing() {
    let told = told(COUNT, COUNT_CALL, plain("200 OK", JSON, br#"{"input_tokens":412}"#)).await;
    assert_eq!((told.reply.status.as_u16(), told.reply.text()), (200, r#"{"input_tokens":412}"#.to_owned()));
    let (head, body) = parts(&told.provider.received.lock()[0]);
    assert!(head.starts_with("POST /v1/messages/count_tokens?beta=true HTTP/1.1\r\n"), "{head}");
    assert_eq!(body, COUNT_CALL.as_bytes());
    assert_eq!(told.tokens(), (None, None), "a count is an answer, not tokens that were used");
    assert_eq!((told.record.protocol, told.outcomes()), ("count_tokens", one("ok")));
}

/// Where nobody can be asked, all that the model will read counts, and rather too much than too little.
#[tokio::test(start_paused = true)]
async fn k047_an_estimate_counts_all_that_there_is_and_not_too_little() {
    let (world, mock) = both(mock());
    let long = "All of this is read by the model. ".repeat(300);
    let count = async |members: Value| {
        let mut call = across_with(MESSAGES, members);
        call.as_object_mut().unwrap().remove("max_tokens");
        let reply = world.post(COUNT, call.to_string()).await;
        assert_eq!((reply.status.as_u16(), mock.stats().arrived), (200, 0), "{}", reply.text());
        reply.json()["input_tokens"].as_u64().unwrap()
    };
    let bare = count(json!({})).await;
    let user = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "description": long}}});
    let result = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [tool_use("c1", "f", &json!({}))]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": long}]},
    ]);
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    // English text has four to five bytes a token.
    let least = long.len() as u64 / 5;
    for (what, members, least) in [
        ("system", json!({"system": long}), least),
        ("system in blocks", json!({"system": [{"type": "text", "text": long}]}), least),
        ("messages", user(json!(long)), least),
        (
            "a tool's description",
            json!({"tools": [{"name": "f", "description": long, "input_schema": {}}]}),
            least,
        ),
        ("a tool's schema", json!({"tools": [{"name": "f", "input_schema": schema}]}), least),
        ("a result", json!({"messages": result}), least),
        (
            "a call",
            json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [tool_use("c1", "f", &json!({"a": long}))]}]}),
            least,
        ),
        ("a picture", user(json!([picture])), 500),
        ("two pictures", user(json!([picture, picture])), 1000),
        (
            "a document",
            user(
                json!([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}]),
            ),
            1000,
        ),
        (
            "a document in plain text",
            user(
                json!([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": long}}]),
            ),
            least,
        ),
    ] {
        let counted = count(members).await;
        assert!(counted >= bare.min(4) + least, "{what}: {counted}");
        assert!(counted < 4 * least + 2000, "{what}: {counted} is far too many");
    }
}

#[tokio::test(start_paused = true)]
async fn k048_a_bad_key_and_a_misspelt_model_are_told_as_they_are() {
    for (status, kind) in [("401 Unauthorized", "authentication_error"), ("404 Not Found", "not_found_error")]
    {
        let said = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"no"}}}}"#);
        let told = told(COUNT, COUNT_CALL, plain(status, JSON, said.as_bytes())).await;
        assert_eq!(told.reply.status.as_str(), &status[..3]);
        assert_eq!(told.reply.text(), said, "no estimate in its place");
        assert_eq!(told.reply.header("x-sluicegate-error"), "");
        assert_eq!((told.record.failed(), told.outcomes()), (false, one("refused")));
    }
}

#[tokio::test(start_paused = true)]
async fn k048_a_bad_key_of_the_gates_own_is_not_the_callers() {
    let settings = "[providers.anthropic]\nbase_url = \"http://127.0.0.1:2\"\napi_key = \"gate-key\"\n";
    let said =
        br#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key gate-key"}}"#;
    let told = told_with(settings, COUNT, COUNT_CALL, plain("401 Unauthorized", JSON, said)).await;
    assert_eq!(told.reply.status, 502);
    assert_eq!(told.reply.header("x-sluicegate-error"), "upstream_credentials");
    assert_eq!(told.reply.json()["type"], "error");
    assert!(!told.reply.text().contains("gate-key") && !told.world.log().contains("gate-key"));
    // What is not about the key passes as ever.
    let missing = told_with(settings, COUNT, COUNT_CALL, plain("404 Not Found", JSON, b"{}")).await;
    assert_eq!((missing.reply.status.as_u16(), missing.reply.text()), (404, "{}".to_owned()));
}
