//! What the official clients make of an unfolded answer, by their own rules of adding events up. Their rules are
//! simpler than ours, so this is no copy of what is tested: they know only the fields that the protocol names.

use serde_json::{Value, json};
use wire::dialect::{CHAT, MESSAGES, RESPONSES};

use super::events;

fn plain(name: &str) -> Value {
    let path = format!("{}/tests/plain/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn append(there: &mut Value, more: &Value) {
    *there = Value::String([there.as_str().unwrap_or_default(), more.as_str().unwrap()].concat());
}

/// Chat: text is added to text, a call is found by its index, and all else of a chunk replaces what was there.
fn chat(events: &[(String, Value)]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for (name, chunk) in events {
        assert_eq!(name, "");
        assert_eq!(chunk["object"], "chat.completion.chunk");
        for choice in chunk["choices"].as_array().unwrap() {
            let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
            if index == messages.len() {
                assert_eq!(choice["delta"]["role"], "assistant", "the first delta has the role");
                messages.push(json!({"content":null,"refusal":null,"tool_calls":[]}));
            }
            let message = &mut messages[index];
            assert!(message.get("finish_reason").is_none(), "a choice ends once");
            for key in ["content", "refusal"] {
                if choice["delta"][key].is_string() {
                    append(&mut message[key], &choice["delta"][key]);
                }
            }
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let calls = message["tool_calls"].as_array_mut().unwrap();
                assert_eq!(call["index"], calls.len(), "calls come in their order");
                calls.push(call.clone());
            }
            if choice["finish_reason"].is_string() {
                message["finish_reason"] = choice["finish_reason"].clone();
            }
        }
    }
    messages
}

#[test]
fn chat_clients_see_the_answer() {
    for name in ["chat", "chat_tools", "chat_usage", "rich_chat"] {
        let answer = plain(name);
        let choices = answer["choices"].as_array().unwrap();
        for (message, choice) in chat(&events(&CHAT, &answer, true)).iter().zip(choices) {
            let expected = &choice["message"];
            assert_eq!(message["content"], expected["content"], "{name}");
            assert_eq!(message["refusal"], *expected.get("refusal").unwrap_or(&Value::Null), "{name}");
            assert_eq!(message["finish_reason"], choice["finish_reason"], "{name}");
            let calls = expected["tool_calls"].as_array().into_iter().flatten();
            for (call, expected) in message["tool_calls"].as_array().unwrap().iter().zip(calls) {
                assert_eq!(call["function"], *expected.get("function").unwrap_or(&Value::Null), "{name}");
                assert_eq!(call["id"], expected["id"], "{name}");
            }
        }
    }
}

/// Messages: a block is pushed as it begins and grows by its deltas; input is parsed from all its pieces.
fn message(events: &[(String, Value)]) -> Value {
    let mut message = Value::Null;
    let mut input = String::new();
    for (name, event) in events {
        assert_eq!(&event["type"], name, "events without a name are skipped");
        let index = event["index"].as_u64().map_or(0, |index| usize::try_from(index).unwrap());
        match name.as_str() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                let blocks = message["content"].as_array_mut().unwrap();
                assert_eq!(blocks.len(), index, "one after the other");
                blocks.push(event["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                let (block, delta) = (&mut message["content"][index], &event["delta"]);
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut block["text"], &delta["text"]),
                    "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    "citations_delta" => {
                        block["citations"].as_array_mut().unwrap().push(delta["citation"].clone())
                    }
                    "input_json_delta" => {
                        input.push_str(delta["partial_json"].as_str().unwrap());
                        block["input"] = serde_json::from_str(&input).unwrap();
                    }
                    other => panic!("{other}"),
                }
            }
            "message_delta" => {
                for (key, value) in event["delta"].as_object().unwrap() {
                    message[key] = value.clone();
                }
                for (key, value) in event["usage"].as_object().unwrap() {
                    message["usage"][key] = value.clone();
                }
                if let Some(value) = event.get("context_management") {
                    message["context_management"] = value.clone();
                }
            }
            _ => {}
        }
    }
    assert_eq!(events.last().unwrap().0, "message_stop");
    message
}

#[test]
fn messages_clients_see_the_answer() {
    for name in ["messages", "rich_messages"] {
        let answer = plain(name);
        assert_eq!(message(&events(&MESSAGES, &answer, false)), answer, "{name}");
    }
}

/// Responses: items and parts are pushed as they are added, and grow by their deltas.
fn output(events: &[(String, Value)]) -> Value {
    let mut output = Value::Null;
    for (name, event) in events {
        let at = |key: &str| usize::try_from(event[key].as_u64().unwrap()).unwrap();
        let grow = |output: &mut Value, list: &str, index: &str, key: &str| {
            append(&mut output[at("output_index")][list][at(index)][key], &event["delta"]);
        };
        match name.strip_prefix("response.").unwrap() {
            "created" => output = event["response"]["output"].clone(),
            "output_item.added" => {
                assert_eq!(output.as_array().unwrap().len(), at("output_index"));
                output.as_array_mut().unwrap().push(event["item"].clone());
            }
            "content_part.added" => {
                output[at("output_index")]["content"].as_array_mut().unwrap().push(event["part"].clone());
            }
            "reasoning_summary_part.added" => {
                output[at("output_index")]["summary"].as_array_mut().unwrap().push(event["part"].clone());
            }
            "output_text.delta" => grow(&mut output, "content", "content_index", "text"),
            "reasoning_text.delta" => grow(&mut output, "content", "content_index", "text"),
            "refusal.delta" => grow(&mut output, "content", "content_index", "refusal"),
            "reasoning_summary_text.delta" => grow(&mut output, "summary", "summary_index", "text"),
            "function_call_arguments.delta" => {
                append(&mut output[at("output_index")]["arguments"], &event["delta"])
            }
            "custom_tool_call_input.delta" => {
                append(&mut output[at("output_index")]["input"], &event["delta"])
            }
            "output_text.annotation.added" => {
                let part = &mut output[at("output_index")]["content"][at("content_index")];
                part["annotations"].as_array_mut().unwrap().push(event["annotation"].clone());
            }
            "output_item.done" => {
                let mut grown = output[at("output_index")].clone();
                // What has no event of its own comes with the whole item.
                let logprobs = event["item"].pointer("/content/0/logprobs");
                if let (Some(empty), Some(whole)) = (grown.pointer_mut("/content/0/logprobs"), logprobs) {
                    *empty = whole.clone();
                }
                if let Some(status) = event["item"].get("status") {
                    grown["status"] = status.clone();
                }
                assert_eq!(grown, event["item"], "the pieces make the item");
                output[at("output_index")] = grown;
            }
            _ => {}
        }
    }
    output
}

#[test]
fn responses_clients_see_the_answer_before_the_last_event() {
    for name in ["responses", "rich_responses"] {
        let answer = plain(name);
        assert_eq!(output(&events(&RESPONSES, &answer, false)), answer["output"], "{name}");
    }
}
