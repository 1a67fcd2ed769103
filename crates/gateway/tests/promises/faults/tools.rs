//! Calls of tools: how they are numbered and told apart, and what a client says of which may be called.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn k016_calls_are_numbered_by_themselves_whatever_stands_between() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "Sg=="});
    let (a, b) = (tool_use("toolu_a", "lookup", &json!({"q": 1})), tool_use("toolu_b", "lookup", &json!({})));
    let hosted = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    for blocks in [
        json!([text("Let me look"), a, b]),
        json!([thought, text("Let me look"), a, text("and again"), b]),
        json!([a, hosted, b]),
        json!([a, b]),
    ] {
        let choice = hears(CHAT, &across(CHAT), &claude(&blocks, "tool_use")).await;
        let calls = json!([call("toolu_a", "lookup", "{\"q\":1}"), call("toolu_b", "lookup", "{}")]);
        assert_eq!(choice["message"]["tool_calls"], calls, "{blocks}");
        assert_eq!(choice["finish_reason"], "tool_calls");
    }
}

#[tokio::test(start_paused = true)]
async fn k016_blocks_are_numbered_with_the_calls_among_them() {
    let calls = json!([call("c1", "lookup", "{\"q\":1}"), call("c2", "lookup", "{}")]);
    for (message, before) in [
        (json!({"content": null, "tool_calls": calls}), 0),
        (json!({"content": "Let me look", "tool_calls": calls}), 1),
        (json!({"reasoning_content": "hm", "content": "Let me look", "tool_calls": calls}), 2),
    ] {
        let answer = hears(MESSAGES, &across(MESSAGES), &gpt(&message, "tool_calls")).await;
        let blocks = answer["content"].as_array().unwrap();
        let uses = [tool_use("c1", "lookup", &json!({"q": 1})), tool_use("c2", "lookup", &json!({}))];
        assert_eq!((blocks.len(), &blocks[before..]), (before + 2, &uses[..]), "{message}");
        assert_eq!(answer["stop_reason"], "tool_use");
    }
}

/// Pieces of several calls in turns: their numbers say which is meant, whatever the order.
#[tokio::test(start_paused = true)]
async fn k016_pieces_that_come_in_turns_find_their_calls() {
    let piece = |index: u32, given: &str| {
        delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": given}}]}), None)
    };
    let begin = |index: u32, id: &str| {
        let mut begun = call(id, "lookup", "");
        begun["index"] = index.into();
        delta(&json!({"tool_calls": [begun]}), None)
    };
    let stream = [
        delta(&json!({"role": "assistant", "content": "Let me look"}), None),
        begin(0, "c1"),
        begin(1, "c2"),
        piece(1, "{\"q\":"),
        piece(0, "{\"q\":"),
        piece(1, "2}"),
        piece(0, "1}"),
        delta(&json!({}), Some("tool_calls")),
        DONE.to_owned(),
    ];
    let told = streams(MESSAGES, &across(MESSAGES), &stream.concat()).await;
    let answer = put_message_together(&told.reply.text());
    let uses = [1, 2].map(|n| tool_use(&format!("c{n}"), "lookup", &json!({"q": n})));
    assert_eq!(answer["content"].as_array().unwrap()[1..], uses);
}

/// What comes back of calls is taken by a provider that checks it, turn after turn, whole or streamed.
#[tokio::test(start_paused = true)]
async fn k016_an_agent_goes_on_before_a_strict_provider() {
    for path in [CHAT, MESSAGES] {
        for stream in [false, true] {
            let (world, mock) = both(mock());
            let mut call =
                across_with(path, json!({"tools": [tool(path, "f"), tool(path, "g")], "stream": stream}));
            call["messages"] = json!([{"role": "user", "content": "please use two tools"}]);
            for turn in 0..4 {
                let reply = world.post(path, call.to_string()).await;
                assert_eq!(reply.status, 200, "turn {turn}: {}", reply.text());
                let messages = call["messages"].as_array_mut().unwrap();
                let calls = match (path, stream) {
                    (CHAT, true) => answer_chat(messages, put_chat_together(&reply.text())),
                    (CHAT, false) => answer_chat(messages, reply.json()["choices"][0].take()),
                    (_, true) => answer_message(messages, &put_message_together(&reply.text())),
                    (_, false) => answer_message(messages, &reply.json()),
                };
                // Twos and ones, so that numbers begin anew.
                assert_eq!(calls, if turn == 0 { 2 } else { 1 }, "turn {turn}: {}", reply.text());
            }
            assert_eq!(mock.stats().arrived, 4);
        }
    }
}

/// Takes an answer into the history and gives every call its result. Returns how many there were.
fn answer_chat(messages: &mut Vec<Value>, mut choice: Value) -> usize {
    let said = choice["message"].take();
    let calls = said["tool_calls"].as_array().unwrap().clone();
    messages.push(said);
    messages.extend(
        calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "42"})),
    );
    messages.push(json!({"role": "user", "content": "now use tool"}));
    calls.len()
}

fn answer_message(messages: &mut Vec<Value>, answer: &Value) -> usize {
    let blocks = answer["content"].as_array().unwrap();
    messages.push(json!({"role": "assistant", "content": blocks}));
    let calls: Vec<_> = blocks.iter().filter(|block| block["type"] == "tool_use").collect();
    let result = |call: &&Value| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "42"});
    let mut content: Vec<Value> = calls.iter().map(result).collect();
    content.push(json!({"type": "text", "text": "now use tool"}));
    messages.push(json!({"role": "user", "content": content}));
    calls.len()
}

/// What a client says of the choice, and what the provider of the other protocol gets of it.
async fn choice(path: &str, said: Value) -> (Value, Value) {
    let mut members = json!({"tools": [tool(path, "f"), tool(path, "g")]});
    members.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    let mut body = puts(path, &across_with(path, members)).await.body;
    assert_eq!(body["tools"].as_array().unwrap().len(), 2, "the tools are told in any case");
    (body["tool_choice"].take(), body["parallel_tool_calls"].take())
}

#[tokio::test(start_paused = true)]
async fn k017_every_choice_has_its_word_in_the_other_protocol() {
    let named = json!({"type": "function", "function": {"name": "f"}});
    for (messages, chat) in [
        (json!({"type": "auto"}), json!("auto")),
        (json!({"type": "none"}), json!("none")),
        (json!({"type": "any"}), json!("required")),
        (json!({"type": "tool", "name": "f"}), named),
    ] {
        let got = choice(MESSAGES, json!({"tool_choice": messages})).await;
        assert_eq!(got, (chat.clone(), Value::Null), "{messages}");
        let got = choice(CHAT, json!({"tool_choice": chat})).await;
        assert_eq!(got, (messages.clone(), Value::Null), "{chat}");

        // One call at a time, or as many as the model likes. Where nothing is called, there is nothing to say.
        let calls = messages["type"] != "none";
        for one_at_a_time in [true, false] {
            let mut theirs = messages.clone();
            theirs["disable_parallel_tool_use"] = one_at_a_time.into();
            if !calls {
                theirs = messages.clone();
            }
            let (choice_got, parallel) = choice(MESSAGES, json!({"tool_choice": theirs})).await;
            assert_eq!(choice_got, chat, "{theirs}");
            let expected = if one_at_a_time && calls { json!(false) } else { Value::Null };
            assert_eq!(parallel, expected, "{theirs}");
            let said = json!({"tool_choice": chat, "parallel_tool_calls": !one_at_a_time});
            let (got, _) = choice(CHAT, said).await;
            let mut expected = messages.clone();
            if one_at_a_time && calls {
                expected["disable_parallel_tool_use"] = true.into();
            }
            assert_eq!(got, expected, "{chat}");
        }
    }
    let (alone, _) = choice(CHAT, json!({"parallel_tool_calls": false})).await;
    assert_eq!(alone, json!({"type": "auto", "disable_parallel_tool_use": true}), "without a choice, too");
}

#[tokio::test(start_paused = true)]
async fn k017_who_wants_no_tool_gets_no_call() {
    for (path, none) in [(CHAT, json!("none")), (MESSAGES, json!({"type": "none"}))] {
        let mut call = across_with(path, json!({"tools": [tool(path, "f")], "tool_choice": none}));
        call["messages"][0]["content"] = "use tool".into();
        let (world, _mock) = both(mock());
        let text = world.post(path, call.to_string()).await.text();
        assert!(
            text.contains("stop_reason\":\"end_turn") || text.contains("finish_reason\":\"stop"),
            "{text}"
        );
        call.as_object_mut().unwrap().remove("tool_choice");
        let text = world.post(path, call.to_string()).await.text();
        assert!(
            text.contains("\"tool_use\"") || text.contains("\"tool_calls\""),
            "else it is called: {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn k018_a_choice_has_the_form_of_its_protocol_and_no_other() {
    for (messages, form) in [
        (json!({"type": "auto"}), "a word"),
        (json!({"type": "any"}), "a word"),
        (json!({"type": "none"}), "a word"),
        (json!({"type": "tool", "name": "f"}), "an object"),
    ] {
        let (got, _) = choice(MESSAGES, json!({"tool_choice": messages})).await;
        assert_eq!(if got.is_string() { "a word" } else { "an object" }, form, "{got}");
    }
    for chat in ["auto", "required", "none"] {
        let (got, _) = choice(CHAT, json!({"tool_choice": chat})).await;
        assert_eq!(got.as_object().map(|object| object.len()), Some(1), "{got}");
    }
    // Some of the tools only: the protocol that has no such choice is told of no others.
    let some = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}});
    let said = json!({"tools": [tool(CHAT, "f"), tool(CHAT, "g")], "tool_choice": some});
    let put = puts(CHAT, &across_with(CHAT, said)).await;
    assert_eq!((&put.body["tools"][0]["name"], &put.body["tools"][1]), (&json!("g"), &Value::Null));
    assert_eq!(put.body["tool_choice"], json!({"type": "any"}));
}

/// A choice where there is nothing to choose is no reason for the provider to refuse the call, unless it can't be met.
#[tokio::test(start_paused = true)]
async fn k018_a_choice_without_tools_is_left_out_or_refused_here() {
    for (path, idle, forced) in [
        (CHAT, json!(["auto", "none"]), json!(["required"])),
        (
            MESSAGES,
            json!([{"type": "auto"}, {"type": "none"}]),
            json!([{"type": "any"}, {"type": "tool", "name": "f"}]),
        ),
    ] {
        for choice in idle.as_array().unwrap() {
            let put = puts(path, &across_with(path, json!({"tool_choice": choice}))).await;
            assert_eq!(put.body.get("tool_choice"), None, "{choice}");
        }
        for choice in forced.as_array().unwrap() {
            let told = cant_say(path, &across_with(path, json!({"tool_choice": choice}))).await;
            assert!(told.contains("tool"), "{told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k019_an_end_is_called_a_tool_call_only_if_it_is_one() {
    let blocks = json!([tool_use("t1", "write", &json!({"a": 1}))]);
    for (stop, finish) in [
        ("tool_use", "tool_calls"),
        ("end_turn", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "stop"),
        ("something_new", "stop"),
    ] {
        let choice = hears(CHAT, &across(CHAT), &claude(&blocks, stop)).await;
        assert_eq!(choice["finish_reason"], finish, "{stop}");
    }
    let message = json!({"content": null, "tool_calls": [call("t1", "write", "{\"a\":1}")]});
    for (finish, stop) in [
        ("tool_calls", "tool_use"),
        ("stop", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("something_new", "tool_use"),
    ] {
        let answer = hears(MESSAGES, &across(MESSAGES), &gpt(&message, finish)).await;
        assert_eq!(answer["stop_reason"], stop, "{finish}");
    }
}

#[tokio::test(start_paused = true)]
async fn k019_half_a_call_is_no_whole_one() {
    // Cut within its arguments: the client hears that, and no invented end of them.
    let start = claude(&json!([]), "max_tokens").stream;
    let (start, end) = start.split_at(start.find("event: message_delta").unwrap());
    let half = [
        start,
        &named(
            &json!({"type": "content_block_start", "index": 0, "content_block": tool_use("t1", "write", &json!({}))}),
        ),
        &named(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"path\": \"a"}}),
        ),
        &named(&json!({"type": "content_block_stop", "index": 0})),
        end,
    ];
    let told = streams(CHAT, &across(CHAT), &half.concat()).await;
    let choice = put_chat_together(&told.reply.text());
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"path\": \"a");

    let message = json!({"content": null, "tool_calls": [call("t1", "write", "{\"path\": \"a")]});
    let reply = told_with(
        BOTH,
        MESSAGES,
        across(MESSAGES).to_string(),
        super::plain("200 OK", JSON, gpt(&message, "length").plain.as_bytes()),
    )
    .await
    .reply
    .json();
    assert_eq!(reply["stop_reason"], "max_tokens");
    assert_eq!(reply["content"][0]["input"], json!({}), "an object in any case");
}

/// Servers that give all calls of an answer one number, or none.
#[tokio::test(start_paused = true)]
async fn k020_parallel_calls_with_one_number_are_as_many_calls() {
    let cities = ["Rome", "Oslo", "Lima"];
    let chunk = |index: Option<u32>, id: Option<String>, city: &str| {
        let mut called = json!({"type": "function", "function": {"name": "weather", "arguments": format!("{{\"city\":\"{city}\"}}")}});
        if let Some(index) = index {
            called["index"] = index.into();
        }
        if let Some(id) = id {
            called["id"] = id.into();
        }
        delta(&json!({"tool_calls": [called]}), None)
    };
    type Numbers = fn(usize) -> (Option<u32>, Option<String>);
    let servers: [Numbers; 5] = [
        |n| (Some(0), Some(format!("c{n}"))),
        |n| (None, Some(format!("c{n}"))),
        |_| (Some(0), Some(String::new())),
        |_| (Some(0), None),
        |_| (None, None),
    ];
    for (server, numbers) in servers.into_iter().enumerate() {
        let mut stream = delta(&json!({"role": "assistant", "content": ""}), None);
        for (n, city) in cities.iter().enumerate() {
            let (index, id) = numbers(n);
            stream += &chunk(index, id, city);
        }
        stream += &delta(&json!({}), Some("stop"));
        let told = streams(MESSAGES, &across(MESSAGES), &(stream + DONE)).await;
        let answer = put_message_together(&told.reply.text());
        let calls = answer["content"].as_array().unwrap();
        let inputs: Vec<_> = calls.iter().map(|call| call["input"].clone()).collect();
        assert_eq!(inputs, cities.map(|city| json!({"city": city})), "server {server}: {answer}");
        let ids: BTreeSet<_> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 3, "server {server}: {ids:?}");
        assert_eq!(answer["stop_reason"], "tool_use");
    }
}

#[tokio::test(start_paused = true)]
async fn k021_old_calls_without_a_list_of_tools_are_taken() {
    let put = puts(CHAT, &with_history(CHAT, "lookup", "{}")).await;
    assert_eq!(put.body["tools"][0]["name"], "lookup", "the provider has to have heard of it");
    assert_eq!(put.body["tool_choice"], json!({"type": "none"}), "and is not to call it");
    for choice in ["none", "auto"] {
        let mut call = with_history(CHAT, "lookup", "{}");
        call["tool_choice"] = choice.into();
        let put = puts(CHAT, &call).await;
        assert_eq!(put.body["tool_choice"], json!({"type": "none"}), "{choice}");
    }
    let put = puts(MESSAGES, &with_history(MESSAGES, "lookup", "{}")).await;
    assert_eq!((put.body.get("tools"), put.body.get("tool_choice")), (None, None), "this one does not ask");

    // Where other tools are there, none is invented beside them.
    for path in [CHAT, MESSAGES] {
        let mut call = with_history(path, "lookup", "{}");
        call["tools"] = json!([tool(path, "other")]);
        assert_eq!(puts(path, &call).await.body["tools"].as_array().unwrap().len(), 1, "{path}");
    }
}
