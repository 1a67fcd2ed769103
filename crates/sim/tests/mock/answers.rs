//! The same prompt gets the same words: plain, as a stream, and over and over.

use crate::support::{Answer, Client, chat, streamed, with};
use serde_json::{Value, json};
use sim::mock::{Mock, Options, Tuning};

/// The mock has to outlive its client.
async fn strict_mock() -> (Mock, Client) {
    let mock = Mock::in_memory(Options::strict());
    let client = Client::in_memory(&mock).await;
    (mock, client)
}

fn joined(answer: &Answer, pick: impl Fn(&Value) -> Option<String>) -> String {
    let payloads = answer.events().into_iter().filter(|event| event.data != "[DONE]");
    payloads.filter_map(|event| pick(&event.json())).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_mock_ends_its_connections() {
    let (mock, mut client) = strict_mock().await;
    drop(mock);
    assert!(client.send(crate::support::post("/v1/chat/completions", &chat("x"))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn chat_says_the_same_plain_and_as_a_stream() {
    let (_mock, mut client) = strict_mock().await;
    let plain = client.post("/v1/chat/completions", &chat("hello")).await;
    assert_eq!(plain.header("content-type"), "application/json");
    assert!(plain.header("x-request-id").starts_with("req_"));
    assert!(!plain.header("openai-processing-ms").is_empty());
    let again = client.post("/v1/chat/completions", &chat("hello")).await;
    assert_eq!(plain.body, again.body);
    assert_ne!(plain.header("x-request-id"), again.header("x-request-id"));
    let other = client.post("/v1/chat/completions", &chat("hello there")).await;
    assert_ne!(plain.json()["choices"], other.json()["choices"]);

    let stream = client.post("/v1/chat/completions", &streamed(chat("hello"))).await;
    let said = joined(&stream, |chunk| text(&chunk["choices"][0]["delta"]["content"]));
    assert_eq!(plain.json()["choices"][0]["message"]["content"], said);
}

#[tokio::test(start_paused = true)]
async fn a_chat_stream_comes_in_its_order() {
    let (_mock, mut client) = strict_mock().await;
    let mut request = streamed(chat("hello"));
    request["stream_options"] = json!({"include_usage": true});
    let events = client.post("/v1/chat/completions", &request).await.events();
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| event.json()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks.len(), 1 + 8 + 1 + 1);
    assert!(chunks[1..9].iter().all(|chunk| chunk["choices"][0]["delta"].get("role").is_none()));
    assert_eq!(chunks[9]["choices"][0]["finish_reason"], "stop");
    assert!(chunks[..10].iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
    assert_eq!(chunks[10]["choices"], json!([]));
    assert!(chunks[10]["usage"]["total_tokens"].as_u64() > Some(0));
    assert_eq!(events.last().unwrap().data, "[DONE]");
}

#[tokio::test(start_paused = true)]
async fn without_being_asked_a_chat_stream_tells_no_usage() {
    let (_mock, mut client) = strict_mock().await;
    let stream = client.post("/v1/chat/completions", &streamed(chat("hello"))).await;
    assert!(!String::from_utf8_lossy(&stream.body).contains("usage"));
}

#[tokio::test(start_paused = true)]
async fn several_choices_differ_and_each_is_whole_in_the_stream() {
    let (_mock, mut client) = strict_mock().await;
    let mut request = chat("hello");
    request["n"] = 3.into();
    let plain = client.post("/v1/chat/completions", &request).await.json();
    let stream = client.post("/v1/chat/completions", &streamed(request)).await;
    for choice in 0..3 {
        let said = joined(&stream, |chunk| {
            let choice_of = chunk["choices"].as_array()?.iter().find(|found| found["index"] == choice)?;
            text(&choice_of["delta"]["content"])
        });
        assert_eq!(plain["choices"][choice]["message"]["content"], said);
    }
    assert_ne!(plain["choices"][0]["message"], plain["choices"][1]["message"]);
}

#[tokio::test(start_paused = true)]
async fn chat_calls_tools_with_their_arguments_in_pieces() {
    let (_mock, mut client) = strict_mock().await;
    let mut request = chat("Please use two tools");
    let tool = |name| {
        json!({"type": "function", "function": {"name": name, "parameters":
            {"type": "object", "properties": {"city": {"type": "string"}}}}})
    };
    request["tools"] = json!([tool("weather"), tool("time")]);
    let plain = client.post("/v1/chat/completions", &request).await.json();
    let calls = plain["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(plain["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(calls.len(), 2);

    let stream = client.post("/v1/chat/completions", &streamed(request)).await;
    for (index, call) in calls.iter().enumerate() {
        let deltas: Vec<Value> = stream.events()[..]
            .iter()
            .filter(|event| event.data != "[DONE]")
            .map(|event| event.json()["choices"][0]["delta"]["tool_calls"][0].clone())
            .filter(|delta| delta["index"] == index)
            .collect();
        assert_eq!(deltas[0]["id"], call["id"]);
        assert!(deltas.len() > 2 && deltas[1..].iter().all(|delta| delta.get("id").is_none()));
        let arguments: String =
            deltas.iter().filter_map(|delta| text(&delta["function"]["arguments"])).collect();
        assert_eq!(call["function"]["arguments"], arguments);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_and_a_stop_sequence_end_the_answer() {
    let (_mock, mut client) = strict_mock().await;
    let mut request = chat("hello");
    request["max_completion_tokens"] = 3.into();
    let cut = client.post("/v1/chat/completions", &request).await.json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert!(cut["usage"]["completion_tokens"].as_u64() <= Some(3));

    let whole = client.post("/v1/chat/completions", &chat("hello")).await.json();
    let said = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let word = said.split(' ').nth(4).unwrap();
    let mut request = chat("hello");
    request["stop"] = json!([word]);
    let stopped = client.post("/v1/chat/completions", &request).await.json();
    let (before, _) = said.split_once(word).unwrap();
    assert_eq!(stopped["choices"][0]["message"]["content"], before);
}

#[tokio::test(start_paused = true)]
async fn a_schema_is_met_by_every_protocol() {
    let (_mock, mut client) = strict_mock().await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let check = |text: &Value| {
        let value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        assert!(value["n"].is_i64());
    };
    let mut request = chat("hello");
    request["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    check(&client.post("/v1/chat/completions", &request).await.json()["choices"][0]["message"]["content"]);

    let format = json!({"type": "json_schema", "name": "x", "schema": schema});
    let request = json!({"model": "gpt-4.1", "input": "hello", "text": {"format": format}});
    check(&client.post("/v1/responses", &request).await.json()["output"][0]["content"][0]["text"]);

    let mut request = message("hello");
    request["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    check(&client.post("/v1/messages", &request).await.json()["content"][0]["text"]);
}

#[tokio::test(start_paused = true)]
async fn responses_streams_every_event_in_order() {
    let (_mock, mut client) = strict_mock().await;
    let request = json!({"model": "gpt-4.1", "input": "hello"});
    let plain = client.post("/v1/responses", &request).await.json();
    let stream = client.post("/v1/responses", &streamed(request)).await;
    let events = stream.events();
    for (number, event) in events.iter().enumerate() {
        let payload = event.json();
        assert_eq!(payload["sequence_number"], number);
        assert_eq!(payload["type"], event.name.clone().unwrap());
    }
    let mut names: Vec<String> = events.iter().map(|event| event.name.clone().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| *name == "response.output_text.delta").count(), 8);
    names.dedup();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert_eq!(events.last().unwrap().json()["response"], plain);
    assert!(events[0].json()["response"]["usage"].is_null());
}

#[tokio::test(start_paused = true)]
async fn responses_streams_calls_and_reasoning() {
    let (_mock, mut client) = strict_mock().await;
    let tool =
        json!({"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}});
    let request = json!({
        "model": "gpt-5", "input": "use tool", "tools": [tool], "stream": true,
        "reasoning": {"effort": "low", "summary": "auto"},
    });
    let events = client.post("/v1/responses", &request).await.events();
    let mut names: Vec<String> = events.iter().map(|event| event.name.clone().unwrap()).collect();
    names.dedup();
    assert_eq!(
        names[2..],
        [
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_cut_by_its_limit_is_incomplete() {
    let (_mock, mut client) = strict_mock().await;
    let request = json!({"model": "gpt-4.1", "input": "hello", "max_output_tokens": 16, "stream": true});
    let events = client.post("/v1/responses", &request).await.events();
    let last = events.last().unwrap();
    assert_eq!(last.name.as_deref(), Some("response.incomplete"));
    assert_eq!(last.json()["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

fn message(prompt: &str) -> Value {
    json!({"model": "claude-haiku-4-5", "max_tokens": 500, "messages": [{"role": "user", "content": prompt}]})
}

#[tokio::test(start_paused = true)]
async fn a_messages_stream_comes_in_its_order_and_has_no_sentinel() {
    let (_mock, mut client) = strict_mock().await;
    let plain = client.post("/v1/messages", &message("hello")).await;
    assert!(plain.header("request-id").starts_with("req_"));
    let stream = client.post("/v1/messages", &streamed(message("hello"))).await;
    let events = stream.events();
    for event in &events {
        assert_eq!(event.json()["type"], event.name.clone().unwrap());
    }
    let mut names: Vec<String> = events.iter().map(|event| event.name.clone().unwrap()).collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let said = joined(&stream, |event| text(&event["delta"]["text"]));
    let plain = plain.json();
    assert_eq!(plain["content"][0]["text"], said);
    let told = &events[events.len() - 2].json()["usage"]["output_tokens"];
    assert_eq!(*told, plain["usage"]["output_tokens"]);
}

#[tokio::test(start_paused = true)]
async fn thoughts_are_signed_and_have_to_come_back_unaltered() {
    let (_mock, mut client) = strict_mock().await;
    let mut request = message("use tool");
    request["max_tokens"] = 2000.into();
    request["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    request["tools"] = json!([{"name": "f", "input_schema": {"type": "object", "properties": {}}}]);
    let answer = client.post("/v1/messages", &request).await.json();
    assert_eq!(answer["content"][0]["type"], "thinking");
    assert_eq!(answer["stop_reason"], "tool_use");

    let id = &answer["content"][1]["id"];
    let result =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]});
    let mut next = request.clone();
    next["messages"] =
        json!([request["messages"][0], {"role": "assistant", "content": answer["content"]}, result]);
    assert_eq!(client.post("/v1/messages", &next).await.status, 200);
    next["messages"][1]["content"][0]["thinking"] = "something else".into();
    let refused = client.post("/v1/messages", &next).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
}

#[tokio::test(start_paused = true)]
async fn thoughts_hold_only_behind_what_they_were_had_behind() {
    let (_mock, mut strict) = strict_mock().await;
    let mut turns = vec![json!({"role": "user", "content": "one"})];
    let ask = |turns: &[Value]| {
        let mut request = message("");
        request["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        request["max_tokens"] = 2000.into();
        request["messages"] = turns.into();
        request
    };
    for question in ["two", "three", "four"] {
        let answer = strict.post("/v1/messages", &ask(&turns)).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        turns.push(json!({"role": "assistant", "content": answer.json()["content"]}));
        turns.push(json!({"role": "user", "content": question}));
    }
    turns[2]["content"] = "something else".into();
    let refused = strict.post("/v1/messages", &ask(&turns)).await;
    assert_eq!(refused.status, 400);
    let complaint = refused.json()["error"]["message"].clone();
    assert!(
        complaint.as_str().unwrap().starts_with("messages.3.content.0: Invalid `signature`"),
        "{complaint}"
    );
    let lenient = with(Tuning::default());
    assert_eq!(Client::in_memory(&lenient).await.post("/v1/messages", &ask(&turns)).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn equal_beginnings_are_told_as_cached() {
    let (_mock, mut client) = strict_mock().await;
    let long = "word ".repeat(2000);
    let cached = |answer: &Answer| answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    let first = client.post("/v1/chat/completions", &chat(&format!("{long} one"))).await;
    let second = client.post("/v1/chat/completions", &chat(&format!("{long} two"))).await;
    assert_eq!(cached(&first), 0);
    assert_eq!(cached(&second), 2500 / 128 * 128);

    let mut request = message("one");
    let unmarked = client.post("/v1/messages", &message(&long)).await.json();
    assert_eq!(unmarked["usage"]["cache_creation_input_tokens"], 0);
    request["system"] = json!([{"type": "text", "text": long, "cache_control": {"type": "ephemeral"}}]);
    let written = client.post("/v1/messages", &request).await.json();
    request["messages"][0]["content"] = "two".into();
    let read = client.post("/v1/messages", &request).await.json();
    assert_eq!(written["usage"]["cache_creation_input_tokens"], 2500);
    assert_eq!(read["usage"]["cache_read_input_tokens"], 2500);
    assert_eq!(read["usage"]["cache_creation_input_tokens"], 0);
    assert!(read["usage"]["input_tokens"].as_u64() < Some(20));
}

#[tokio::test(start_paused = true)]
async fn llama_answers_in_its_own_form() {
    let (_mock, mut client) = strict_mock().await;
    let request = json!({"prompt": "hello", "n_predict": 6});
    let plain = client.post("/completion", &request).await.json();
    assert_eq!((plain["stop"].clone(), plain["stop_type"].clone()), (json!(true), json!("limit")));
    let stream = client.post("/completion", &streamed(request)).await;
    let said = joined(&stream, |event| text(&event["content"]));
    assert_eq!(plain["content"], said);
    assert_eq!(stream.events().last().unwrap().json()["stop"], true);
    let refused = client.post("/completion", &json!({})).await;
    assert_eq!(refused.json()["error"]["code"], 400);
}

#[tokio::test(start_paused = true)]
async fn legacy_completions_answer_every_prompt() {
    let (_mock, mut client) = strict_mock().await;
    let request = json!({"model": "m", "prompt": ["a", "b"], "n": 2, "echo": true, "max_tokens": 100});
    let plain = client.post("/v1/completions", &request).await.json();
    assert_eq!(plain["choices"].as_array().unwrap().len(), 4);
    assert!(plain["choices"][2]["text"].as_str().unwrap().starts_with('b'));
    let stream = client.post("/v1/completions", &streamed(request)).await;
    let said = joined(&stream, |chunk| {
        text(&chunk["choices"][0]["text"]).filter(|_| chunk["choices"][0]["index"] == 3)
    });
    assert_eq!(plain["choices"][3]["text"], said);
}

#[tokio::test(start_paused = true)]
async fn files_come_back_as_they_went() {
    let (_mock, mut client) = strict_mock().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(70_001).collect();
    let mut body = b"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n"
        .to_vec();
    body.extend_from_slice(&bytes);
    body.extend_from_slice(b"\r\n--B--\r\n");
    let mut upload = crate::support::request(http::Method::POST, "/v1/files", body);
    upload.headers_mut().insert("content-type", "multipart/form-data; boundary=B".parse().unwrap());
    let file = client.send(upload).await.unwrap().json();
    assert_eq!((file["bytes"].clone(), file["filename"].clone()), (json!(70_001), json!("a.bin")));
    let content = client.get(&format!("/v1/files/{}/content", file["id"].as_str().unwrap())).await;
    assert_eq!(content.body, bytes);
    assert_eq!(client.get("/v1/files/file-none/content").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn chunks_and_the_answer_can_be_set() {
    let mock = with(Tuning { chunks: 3, answer: Some("one two three four".into()), ..Tuning::default() });
    let mut client = Client::in_memory(&mock).await;
    let stream = client.post("/v1/chat/completions", &streamed(chat("x"))).await;
    let pieces: Vec<String> = stream
        .events()
        .iter()
        .filter(|event| event.data != "[DONE]")
        .filter_map(|event| text(&event.json()["choices"][0]["delta"]["content"]))
        .filter(|piece| !piece.is_empty())
        .collect();
    assert_eq!(pieces, ["one", " two", " three four"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_a_404_in_the_shape_of_the_provider() {
    let (_mock, mut client) = strict_mock().await;
    for path in ["/v1/moderations", "/v1/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"] {
        let answer = client.post(path, &json!({})).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
    let answer = client.post("/v1/messages/nothing", &json!({})).await;
    assert_eq!(answer.json()["error"]["type"], "not_found_error");
    assert_eq!(client.get("/v1/chat/completions").await.status, 405);
}

#[tokio::test(start_paused = true)]
async fn models_are_listed_in_the_shape_that_is_asked_for() {
    let (_mock, mut client) = strict_mock().await;
    assert_eq!(client.get("/v1/models").await.json()["object"], "list");
    assert_eq!(client.get("/v1/models/gpt-4.1").await.json()["id"], "gpt-4.1");
    assert_eq!(client.get("/v1/models/nobody").await.json()["error"]["code"], "model_not_found");
    let mut request = crate::support::request(http::Method::GET, "/v1/models", "");
    request.headers_mut().insert("anthropic-version", "2023-06-01".parse().unwrap());
    let list = client.send(request).await.unwrap().json();
    assert_eq!(list["has_more"], false);
    assert_eq!(list["first_id"], list["data"][0]["id"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_strict_refuse_what_the_provider_refuses() {
    let request = json!({"model": "claude-opus-4-7", "messages": []});
    let (_mock, mut client) = strict_mock().await;
    assert_eq!(client.post("/v1/messages", &request).await.status, 400);
    let lenient = with(Tuning::default());
    let mut client = Client::in_memory(&lenient).await;
    assert_eq!(client.post("/v1/messages", &request).await.status, 200);
    let broken = crate::support::request(http::Method::POST, "/v1/messages", "{");
    assert_eq!(client.send(broken).await.unwrap().status, 400);
}
