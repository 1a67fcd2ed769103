//! The calls beside generation: embeddings and counting.

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
