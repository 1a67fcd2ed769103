//! Pictures and documents: what becomes of them, and who fetches them.

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

/// The smallest thing that is a picture, as far as anybody looks.
const PNG: &str = "iVBORw0KGgo=";

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A picture or a document with these bytes, as Chat Completions writes it.
fn part(media_type: &str, data: &str) -> Value {
    let url = format!("data:{media_type};base64,{data}");
    match media_type {
        "application/pdf" => json!({"type": "file", "file": {"filename": "a.pdf", "file_data": url}}),
        _ => json!({"type": "image_url", "image_url": {"url": url}}),
    }
}

/// The same, as Messages writes it.
fn block(media_type: &str, data: &str) -> Value {
    let source = json!({"type": "base64", "media_type": media_type, "data": data});
    match media_type {
        "application/pdf" => json!({"type": "document", "source": source, "title": "a.pdf"}),
        _ => json!({"type": "image", "source": source}),
    }
}

/// A conversation in which tools were called and gave these contents back.
fn given_back(path: &str, contents: &[Value]) -> Value {
    let ids = || (1..).map(|n| format!("c{n}"));
    let calls = ids().take(contents.len());
    let results = ids().zip(contents);
    let messages: Vec<Value> = match path {
        CHAT => {
            let said = json!({"role": "assistant", "content": null, "tool_calls": calls.map(|id| call(&id, "f", "{}")).collect::<Value>()});
            let results =
                results.map(|(id, content)| json!({"role": "tool", "tool_call_id": id, "content": content}));
            [json!({"role": "user", "content": "why?"}), said].into_iter().chain(results).collect()
        }
        _ => {
            let said = json!({"role": "assistant", "content": calls.map(|id| tool_use(&id, "f", &json!({}))).collect::<Value>()});
            let results = results
                .map(|(id, content)| json!({"type": "tool_result", "tool_use_id": id, "content": content}));
            let user = json!({"role": "user", "content": results.collect::<Value>()});
            vec![json!({"role": "user", "content": "why?"}), said, user]
        }
    };
    across_with(path, json!({"messages": messages, "tools": [tool(path, "f")]}))
}

#[tokio::test(start_paused = true)]
async fn k032_a_picture_in_a_result_stays_in_it() {
    for (content, blocks) in [
        (json!([text("page"), part("image/png", PNG)]), json!([text("page"), block("image/png", PNG)])),
        (
            json!([part("image/webp", "UklGRg=="), text("page")]),
            json!([block("image/webp", "UklGRg=="), text("page")]),
        ),
        (json!([part("image/png", PNG)]), json!([block("image/png", PNG)])),
        (
            json!([text("page"), part("application/pdf", "JVBERi0=")]),
            json!([text("page"), block("application/pdf", "JVBERi0=")]),
        ),
        (
            json!([text("page"), {"type": "image_url", "image_url": {"url": "https://img.example/a.png"}}]),
            json!([text("page"), {"type": "image", "source": {"type": "url", "url": "https://img.example/a.png"}}]),
        ),
        (json!("page"), json!([text("page")])),
    ] {
        let put = puts(CHAT, &given_back(CHAT, &[content.clone(), json!("42")])).await;
        let results = &put.body["messages"][2]["content"];
        assert_eq!(results[0]["content"], blocks, "{content}");
        assert_eq!((&results[0]["tool_use_id"], &results[1]["tool_use_id"]), (&json!("c1"), &json!("c2")));
        assert_eq!(put.dropped(), [""; 0]);
    }
}

/// The other way round, results are text: the pictures follow in the user's next message, behind all results.
#[tokio::test(start_paused = true)]
async fn k032_a_picture_in_a_result_is_not_lost_where_results_are_text() {
    for (content, texts, attached) in [
        (json!([text("page"), block("image/png", PNG)]), "page", Some(part("image/png", PNG))),
        (
            json!([text("page"), block("application/pdf", "JVBERi0=")]),
            "page",
            Some(part("application/pdf", "JVBERi0=")),
        ),
        (
            json!([block("image/png", PNG)]),
            "The result is in the next message of the user.",
            Some(part("image/png", PNG)),
        ),
        (json!([text("page")]), "page", None),
        (json!("page"), "page", None),
    ] {
        let put = puts(MESSAGES, &given_back(MESSAGES, &[content.clone(), json!("42")])).await;
        let messages = put.body["messages"].as_array().unwrap();
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        let expected = ["user", "assistant", "tool", "tool", "user"];
        assert_eq!(roles, expected[..if attached.is_some() { 5 } else { 4 }], "{content}");
        assert_eq!((&messages[2]["content"], &messages[3]["content"]), (&json!(texts), &json!("42")));
        if let Some(attached) = attached {
            let told = messages[4]["content"].as_array().unwrap();
            assert!(told[0]["text"].as_str().unwrap().contains("c1"), "whose it is: {told:?}");
            assert_eq!(told[1..], [attached]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k032_what_can_not_be_shown_is_refused_by_its_field() {
    for (path, content, field) in [
        (CHAT, json!([part("image/tiff", "SUkqAA==")]), "messages[2].content[0]"),
        (
            CHAT,
            json!([text("x"), {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]),
            "messages[2].content[1]",
        ),
        (CHAT, json!([{"type": "file", "file": {"file_id": "file-1"}}]), "messages[2].content[0]"),
        (CHAT, json!([{"type": "hologram", "hologram": {}}]), "messages[2].content[0]"),
        (
            MESSAGES,
            json!([{"type": "image", "source": {"type": "file", "file_id": "file_1"}}]),
            "messages[2].content[0]",
        ),
        (MESSAGES, json!([{"type": "hologram"}]), "messages[2].content[0]"),
    ] {
        let told = cant_say(path, &given_back(path, &[content])).await;
        assert!(told.contains(field), "{told}");
    }
}

/// All texts that a model would read as such.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if ["text", "content"].contains(&key.as_str()) => {
                        found.push(text.clone())
                    }
                    value => texts(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn k033_a_screenshot_never_becomes_text() {
    let large = "iVBORw0K".repeat(50_000);
    let said = |path: &str, what: Value| {
        across_with(path, json!({"messages": [{"role": "user", "content": [text("see"), what]}]}))
    };
    for (path, call) in [
        (CHAT, given_back(CHAT, &[json!([text("shot"), part("image/png", &large)])])),
        (CHAT, said(CHAT, part("image/png", &large))),
        (CHAT, said(CHAT, part("application/pdf", &large))),
        (MESSAGES, given_back(MESSAGES, &[json!([text("shot"), block("image/png", &large)])])),
        (MESSAGES, said(MESSAGES, block("image/png", &large))),
        (MESSAGES, said(MESSAGES, block("application/pdf", &large))),
    ] {
        let put = puts(path, &call).await;
        assert_eq!(put.text().matches(&large).count(), 1, "its bytes are there, once");
        let mut read = Vec::new();
        texts(&put.body, &mut read);
        assert!(read.iter().all(|text| text.len() < 200), "and nobody reads them");
    }
}

/// Nor is it counted as such by who estimates.
#[tokio::test(start_paused = true)]
async fn k033_a_screenshot_is_not_counted_as_text() {
    let (world, mock) = both(mock());
    let count = async |data: &str| {
        let mut call = given_back(MESSAGES, &[json!([block("image/png", data)])]);
        call.as_object_mut().unwrap().remove("max_tokens");
        let reply = world.post("/v1/messages/count_tokens", call.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["input_tokens"].as_u64().unwrap()
    };
    let (small, large) = (count(PNG).await, count(&"iVBORw0K".repeat(250_000)).await);
    assert!(large < 10_000 && small > 100, "{small} {large}");
    assert_eq!(mock.stats().arrived, 0);
}

/// Both providers fetch pictures themselves; the gate never does, wherever they are.
#[tokio::test(start_paused = true)]
async fn k034_an_address_goes_to_the_provider_and_is_fetched_by_nobody_here() {
    for url in [
        "https://img.example/a.png",
        "http://169.254.169.254/latest/x.png",
        "http://127.0.0.1:1/x.png",
        "http://[::1]/x.png",
    ] {
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        let source = json!({"type": "image", "source": {"type": "url", "url": url}});
        for (path, theirs, said) in [(CHAT, &source, &image), (MESSAGES, &image, &source)] {
            let calls = [
                across_with(path, json!({"messages": [{"role": "user", "content": [text("see"), said]}]})),
                given_back(path, &[json!([said])]),
            ];
            for call in calls {
                let (world, mock) = both(mock());
                let reply = world.post(path, call.to_string()).await;
                assert_eq!(reply.status, 200, "{url}: {}", reply.text());
                assert_eq!(world.dialled.lock().len(), 1, "{url}: the provider and nobody else");
                let body: Value = serde_json::from_slice(&mock.requests(1)[0].body).unwrap();
                assert!(body.to_string().contains(&theirs.to_string()), "{url}: {body}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k034_what_is_no_address_of_the_web_is_refused() {
    for url in [
        "file:///etc/passwd",
        "ftp://img.example/a.png",
        "gopher://x/",
        "//img.example/a.png",
        "a.png",
        "",
        "data:image/png,raw",
        "data:;base64,AAAA",
    ] {
        let call = across_with(
            CHAT,
            json!({"messages": [{"role": "user", "content": [text("see"), {"type": "image_url", "image_url": {"url": url}}]}]}),
        );
        let told = cant_say(CHAT, &call).await;
        assert!(told.starts_with("messages[0].content[1].image_url"), "{url}: {told}");
    }
    // A document at an address is nothing that Chat Completions has.
    let document = json!({"type": "document", "source": {"type": "url", "url": "https://doc.example/a.pdf"}});
    let told = cant_say(
        MESSAGES,
        &across_with(MESSAGES, json!({"messages": [{"role": "user", "content": [document]}]})),
    )
    .await;
    assert!(told.contains("messages[0].content[0]"), "{told}");
}
