//! What models thought, and gets back to them as it was.

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

fn thought(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn hidden(data: &str) -> Value {
    json!({"type": "redacted_thinking", "data": data})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A client of Chat Completions hears Claude say this, and sends it back with what its tools gave: what Claude gets.
async fn comes_back(blocks: &Value) -> Value {
    let called = blocks.as_array().unwrap().iter().any(|block| block["type"] == "tool_use");
    let says = claude(blocks, if called { "tool_use" } else { "end_turn" });
    let message = hears(CHAT, &across(CHAT), &says).await["message"].take();
    let results = message["tool_calls"].as_array().into_iter().flatten();
    let results = results.map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "42"}));
    let mut messages = vec![json!({"role": "user", "content": "why?"}), message.clone()];
    messages.extend(results);
    messages.push(json!({"role": "user", "content": "go on"}));
    let call = across_with(CHAT, json!({"messages": messages, "tools": [tool(CHAT, "ls")]}));
    let told = told_with(BOTH, CHAT, call.to_string(), super::plain("418 Teapot", JSON, b"{}")).await;
    let mut body: Value = serde_json::from_slice(&parts(&told.provider.received.lock()[0]).1).unwrap();
    body["messages"][1]["content"].take()
}

#[tokio::test(start_paused = true)]
async fn k035_a_signed_thought_without_text_is_kept() {
    let call = tool_use("t1", "ls", &json!({}));
    for blocks in [
        json!([thought("", "Sg=="), call]),
        json!([thought("", "Sg=="), text("x"), call]),
        json!([thought("", "Sg=="), text("x")]),
        json!([text("x"), thought("", "Sg=="), call]),
    ] {
        let message = hears(CHAT, &across(CHAT), &claude(&blocks, "tool_use")).await["message"].take();
        let details = message["reasoning_details"].as_array().unwrap();
        assert_eq!(
            (details.len(), &details[0]["signature"], &details[0]["text"]),
            (1, &json!("Sg=="), &json!(""))
        );
        assert_eq!(message.get("reasoning_content"), None, "there is nothing to read");
        assert_eq!(comes_back(&blocks).await, blocks);
    }
}

/// A signature may come in one piece with the block, before its text, or in several.
#[tokio::test(start_paused = true)]
async fn k035_a_signature_is_kept_however_it_comes() {
    let begin =
        |block: Value| named(&json!({"type": "content_block_start", "index": 0, "content_block": block}));
    let seal = |piece: &str| {
        named(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": piece}}),
        )
    };
    let think = named(
        &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
    );
    let whole = claude(&json!([]), "end_turn").stream;
    let (start, end) = whole.split_at(whole.find("event: message_delta").unwrap());
    let stop = named(&json!({"type": "content_block_stop", "index": 0}));
    for (block, expected) in [
        (begin(thought("", "Sg==")), ""),
        (begin(json!({"type": "thinking", "thinking": ""})) + &seal("Sg=="), ""),
        (begin(thought("", "")) + &seal("Sg") + &seal("=="), ""),
        (begin(thought("", "")) + &think + &seal("Sg=="), "hm"),
        (begin(thought("hm", "Sg==")), "hm"),
    ] {
        let told = streams(CHAT, &across(CHAT), &[start, &block, &stop, end].concat()).await;
        let message = put_chat_together(&told.reply.text())["message"].take();
        let detail = &message["reasoning_details"][0];
        assert_eq!((&detail["signature"], &detail["text"]), (&json!("Sg=="), &json!(expected)), "{block}");
    }
}

#[tokio::test(start_paused = true)]
async fn k036_several_thoughts_stay_several() {
    let blocks = json!([thought("a", "A"), text("x"), thought("b", "B"), tool_use("t1", "ls", &json!({}))]);
    let message = hears(CHAT, &across(CHAT), &claude(&blocks, "tool_use")).await["message"].take();
    assert_eq!(message["reasoning_content"], "ab", "to be read");
    let details = message["reasoning_details"].as_array().unwrap();
    let signed: Vec<_> = details.iter().map(|detail| (&detail["text"], &detail["signature"])).collect();
    assert_eq!(signed, [(&json!("a"), &json!("A")), (&json!("b"), &json!("B"))], "to be sent back");
    assert_eq!(comes_back(&blocks).await, blocks);
}

/// Every message of up to four blocks that can be told apart once its texts are one text and its calls one list: it
/// comes back as it was. One that ends with thoughts comes back without these: Claude refuses it so.
#[tokio::test(start_paused = true)]
async fn k036_every_message_comes_back_as_it_was() {
    let mut messages: Vec<Vec<&str>> = vec![vec![]];
    let mut checked = 0;
    for _ in 0..4 {
        messages = messages
            .iter()
            .flat_map(|before| {
                ["thinking", "hidden", "text", "call"].map(|kind| [before.clone(), vec![kind]].concat())
            })
            .filter(|kinds| {
                let (last, before) = kinds.split_last().unwrap();
                *last != "text" || (!before.contains(&"call") && before.last() != Some(&"text"))
            })
            .collect();
        for kinds in &messages {
            let block = |(n, kind): (usize, &&str)| match *kind {
                "thinking" => thought(&"ü".repeat(n % 3), &format!("S{n}")),
                "hidden" => hidden(&format!("D{n}")),
                "text" => text(&format!("für {n}.")),
                _ => tool_use(&format!("t{n}"), "ls", &json!({"n": n})),
            };
            let blocks: Value = kinds.iter().enumerate().map(block).collect();
            let thinks = |kind: &&&str| matches!(**kind, "thinking" | "hidden");
            let kept = kinds.len() - kinds.iter().rev().take_while(thinks).count();
            if kept > 0 {
                assert_eq!(comes_back(&blocks).await, json!(blocks.as_array().unwrap()[..kept]));
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
}

/// A provider that checks its signatures, and what stood before them, goes on from what comes back.
#[tokio::test(start_paused = true)]
async fn k036_an_agent_goes_on_before_a_strict_provider() {
    for (model, effort) in
        [("claude-sonnet-4-5", Some("low")), ("claude-opus-4-6", Some("high")), ("claude-opus-5-5", None)]
    {
        for stream in [false, true] {
            let (world, mock) = both(mock());
            let mut messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "please use two tools"}]);
            for turn in 0..3 {
                let mut call = json!({"model": model, "messages": messages, "tools": [tool(CHAT, "ls"), tool(CHAT, "cat")], "stream": stream});
                if let Some(effort) = effort {
                    call["reasoning_effort"] = effort.into();
                }
                let reply = world.post(CHAT, call.to_string()).await;
                assert_eq!(reply.status, 200, "{model}, turn {turn}: {}", reply.text());
                assert!(!reply.header("x-sluicegate-dropped").contains("reasoning"), "{:?}", reply.headers);
                let message = match stream {
                    true => put_chat_together(&reply.text())["message"].take(),
                    false => reply.json()["choices"][0]["message"].take(),
                };
                assert!(message["reasoning_details"].is_array(), "{model}, turn {turn}: {message}");
                let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                let list = messages.as_array_mut().unwrap();
                list.push(message);
                list.extend(
                    calls
                        .iter()
                        .map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "42"})),
                );
                list.push(json!({"role": "user", "content": "use tool"}));
            }
            assert!(mock.requests(3).iter().all(|request| request.path == MESSAGES));
            let last = String::from_utf8(mock.requests(1)[0].body.to_vec()).unwrap();
            assert!(last.matches("\"signature\"").count() >= 2, "{last}");
        }
    }
}

/// What such a provider would refuse goes without its thoughts, and with a word of it: a client that altered them, or
/// kept only their text.
#[tokio::test(start_paused = true)]
async fn k036_thoughts_that_lost_their_seal_stay_behind() {
    for said in [
        json!({"reasoning_content": "hm"}),
        json!({"reasoning": "hm"}),
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
        json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}),
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": ""}]}),
    ] {
        let mut message = json!({"role": "assistant", "content": "so"});
        message.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        let messages = json!([{"role": "user", "content": "x"}, message, {"role": "user", "content": "y"}]);
        let put = puts(CHAT, &across_with(CHAT, json!({"messages": messages}))).await;
        assert_eq!(put.body["messages"][1]["content"], json!([text("so")]), "{said}");
        assert_eq!(put.dropped(), ["reasoning_content"], "{said}");
    }
}

/// The other way round, thoughts are one text: to be read, and sent back to who wants them so.
#[tokio::test(start_paused = true)]
async fn k036_thoughts_in_plain_text_are_blocks_to_a_client_of_messages() {
    let settings = "[providers.deepseek]\nbase_url = \"http://127.0.0.1:1\"\napi_key = \"k\"\n";
    let says = gpt(
        &json!({"reasoning_content": "hm", "content": "so", "tool_calls": [call("c1", "ls", "{}")]}),
        "tool_calls",
    );
    let answer = hears(MESSAGES, &across(MESSAGES), &says).await;
    assert_eq!(answer["content"], json!([thought("hm", ""), text("so"), tool_use("c1", "ls", &json!({}))]));
    let messages = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
    ]);
    let call = across_with(MESSAGES, json!({"messages": messages, "model": "deepseek-reasoner"}));
    let told = told_with(settings, MESSAGES, call.to_string(), super::plain("418 Teapot", JSON, b"{}")).await;
    let body: Value = serde_json::from_slice(&parts(&told.provider.received.lock()[0]).1).unwrap();
    assert_eq!(body["messages"][1]["reasoning_content"], "hm");
    // Who does not want them is spared them, and the client is told.
    let put = puts(MESSAGES, &across_with(MESSAGES, json!({"messages": messages}))).await;
    assert_eq!(
        (put.body["messages"][1].get("reasoning_content"), put.dropped()),
        (None, vec!["messages.thinking"])
    );
}

/// Gemini's door for Chat Completions has the signature of a call beside it: it passes both ways.
#[tokio::test(start_paused = true)]
async fn k037_a_signature_beside_a_call_passes_both_ways() {
    let extra = r#""extra_content":{"google":{"thought_signature":"T1+/="}}"#;
    passes(CHAT, &format!(r#"{{"model":"gpt-x","messages":[{{"role":"assistant","tool_calls":[{{"id":"c","type":"function",{extra},"function":{{"name":"ls","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"x"}}]}}"#)).await;
    let called = format!(
        "data: {{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"type\":\"function\",{extra},\"function\":{{\"name\":\"ls\",\"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
    );
    let stream = [ROLE, &called, FINISH, DONE].concat();
    let told = told(CHAT, CHAT_CALL, Scripted::chunked(EVENTS, &[stream.as_bytes()])).await;
    assert_eq!(told.reply.text(), stream);
}

/// To a client of Messages it can't be told; that is said, and so it is the other way round.
#[tokio::test(start_paused = true)]
async fn k037_a_signature_that_has_no_place_is_named() {
    let mut called = call("c1", "ls", "{}");
    called["extra_content"] = json!({"google": {"thought_signature": "T1"}});
    let says = gpt(&json!({"content": null, "tool_calls": [called]}), "tool_calls");
    let told = told_with(
        BOTH,
        MESSAGES,
        across(MESSAGES).to_string(),
        super::plain("200 OK", JSON, says.plain.as_bytes()),
    )
    .await;
    let lost: Vec<_> = told.reply.headers.get_all("x-sluicegate-dropped").iter().collect();
    assert!(lost.iter().any(|lost| *lost == "tool_calls.extra_content"), "{lost:?}");

    let messages = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": null, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]);
    let put =
        puts(CHAT, &across_with(CHAT, json!({"messages": messages, "tools": [tool(CHAT, "ls")]}))).await;
    assert_eq!(put.dropped(), ["messages.tool_calls.extra_content"]);
}
