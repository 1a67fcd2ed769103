//! Both tongues: what a provider of either says, and what a client of either makes of what reaches it.
//!
//! The providers send the same answer whole and as a stream. The clients put streams together as the SDKs do, and are
//! strict: nothing may come twice, out of order, or behind the end.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::*;
pub(super) use crate::either_tongue::{BOTH, both, chat_to_claude, data, events, message_to_gpt, streamed};

/// An answer in both its forms.
pub(super) struct Says {
    pub(super) plain: String,
    pub(super) stream: String,
}

/// Claude answers with these blocks.
pub(super) fn claude(blocks: &Value, stop: &str) -> Says {
    let usage = json!({"input_tokens": 11, "output_tokens": 5});
    let message = |content: &Value, stop: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage})
    };
    let mut stream = named(&json!({"type": "message_start", "message": message(&json!([]), Value::Null)}));
    for (index, block) in blocks.as_array().unwrap().iter().enumerate() {
        let (begun, deltas) = in_pieces(block);
        stream += &named(&json!({"type": "content_block_start", "index": index, "content_block": begun}));
        for delta in deltas {
            stream += &named(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        stream += &named(&json!({"type": "content_block_stop", "index": index}));
    }
    stream += &named(
        &json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 5}}),
    );
    stream += &named(&json!({"type": "message_stop"}));
    Says { plain: message(blocks, stop.into()).to_string(), stream }
}

/// An event of Claude's.
pub(super) fn named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// A block as a stream begins it, and the deltas that follow.
fn in_pieces(block: &Value) -> (Value, Vec<Value>) {
    let mut begun = block.clone();
    let mut deltas = Vec::new();
    match block["type"].as_str().unwrap() {
        "text" => {
            begun["text"] = "".into();
            deltas.extend(halves(&block["text"]).map(|half| json!({"type": "text_delta", "text": half})));
        }
        "thinking" => {
            begun["thinking"] = "".into();
            begun["signature"] = "".into();
            deltas.extend(
                halves(&block["thinking"]).map(|half| json!({"type": "thinking_delta", "thinking": half})),
            );
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        "tool_use" => {
            begun["input"] = json!({});
            let input = Value::from(block["input"].to_string());
            deltas
                .extend(halves(&input).map(|half| json!({"type": "input_json_delta", "partial_json": half})));
        }
        _ => {}
    }
    (begun, deltas)
}

/// A text in two pieces, as far as there is any.
fn halves(text: &Value) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.as_str().unwrap().chars().collect();
    let (first, second) = letters.split_at(letters.len() / 2);
    [first, second].map(|half| half.iter().collect::<String>()).into_iter().filter(|half| !half.is_empty())
}

/// GPT answers with this message.
pub(super) fn gpt(message: &Value, finish: &str) -> Says {
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16});
    let mut whole = message.clone();
    whole["role"] = "assistant".into();
    let plain = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4.1",
        "choices": [{"index": 0, "message": whole, "finish_reason": finish}], "usage": usage});
    let mut stream = delta(&json!({"role": "assistant", "content": ""}), None);
    for key in ["reasoning_content", "content", "refusal"] {
        if message[key].is_string() {
            stream.extend(halves(&message[key]).map(|half| delta(&json!({key: half}), None)));
        }
    }
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let mut begun = call.clone();
        begun["index"] = index.into();
        begun["function"]["arguments"] = "".into();
        stream += &delta(&json!({"tool_calls": [begun]}), None);
        for half in halves(&call["function"]["arguments"]) {
            let more = json!({"index": index, "function": {"arguments": half}});
            stream += &delta(&json!({"tool_calls": [more]}), None);
        }
    }
    stream += &delta(&json!({}), Some(finish));
    stream += &format!("data: {}\n\n", json!({"id": "chatcmpl-1", "choices": [], "usage": usage}));
    Says { plain: plain.to_string(), stream: stream + DONE }
}

/// A chunk of GPT's.
pub(super) fn delta(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
        "model": "gpt-4.1", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// A call of a function, as Chat Completions writes it.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// A call of a tool, as Messages writes it.
pub(super) fn tool_use(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// A tool that takes nothing, as either protocol writes it.
pub(super) fn tool(path: &str, name: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    match path {
        CHAT => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        _ => json!({"name": name, "input_schema": schema}),
    }
}

/// A call that reaches the provider of the other protocol.
pub(super) fn across(path: &str) -> Value {
    if path == CHAT { chat_to_claude("why?") } else { message_to_gpt("why?") }
}

/// The same with these members.
pub(super) fn across_with(path: &str, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("an object: {members}") };
    let mut call = across(path);
    call.as_object_mut().unwrap().extend(members);
    call
}

/// A conversation in which a tool was called, as a client of this protocol keeps it.
pub(super) fn with_history(path: &str, name: &str, arguments: &str) -> Value {
    let messages = match path {
        CHAT => json!([
            {"role": "user", "content": "why?"},
            {"role": "assistant", "content": null, "tool_calls": [call("c1", name, arguments)]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "user", "content": "sum up"},
        ]),
        _ => json!([
            {"role": "user", "content": "why?"},
            {"role": "assistant", "content": [tool_use("c1", name, &serde_json::from_str(arguments).unwrap())]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "42"},
                {"type": "text", "text": "sum up"},
            ]},
        ]),
    };
    across_with(path, json!({"messages": messages}))
}

/// Makes a call whose provider answers so, whole and as a stream. The client hears the same of either.
pub(super) async fn hears(path: &str, call: &Value, says: &Says) -> Value {
    let plain = told_with(BOTH, path, call.to_string(), super::plain("200 OK", JSON, says.plain.as_bytes()));
    let plain = plain.await;
    assert_eq!(plain.reply.status, 200, "{}", plain.reply.text());
    let stream = streams(path, call, &says.stream).await;
    assert_eq!(stream.outcomes(), one("ok"), "{}", stream.reply.text());
    let (whole, put_together) = match path {
        CHAT => (bare(&plain.reply.json()["choices"][0]), put_chat_together(&stream.reply.text())),
        _ => (of_message(&plain.reply.json()), put_message_together(&stream.reply.text())),
    };
    assert_eq!(whole, put_together, "plain and streamed");
    whole
}

/// Makes the call streamed, before a provider that sends this.
pub(super) async fn streams(path: &str, call: &Value, stream: &str) -> Told {
    let provider = Scripted::chunked(EVENTS, &[stream.as_bytes()]);
    let told = told_with(BOTH, path, streamed(call.clone()).to_string(), provider).await;
    assert_eq!((told.reply.status.as_u16(), told.reply.broken), (200, false), "{}", told.reply.text());
    told
}

/// What counts of a choice: members that say nothing are left out.
fn bare(choice: &Value) -> Value {
    let said = choice["message"].as_object().unwrap();
    let said: Map<_, _> = said
        .iter()
        .filter(|(_, value)| !value.is_null() && **value != "")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    json!({"message": said, "finish_reason": choice["finish_reason"]})
}

fn of_message(message: &Value) -> Value {
    assert_eq!((&message["type"], &message["role"]), (&"message".into(), &"assistant".into()), "{message}");
    json!({"content": message["content"], "stop_reason": message["stop_reason"]})
}

/// A client of Chat Completions reads a stream to its end.
pub(super) fn put_chat_together(text: &str) -> Value {
    assert!(!text.contains("event:"), "events have no names: {text}");
    let (mut texts, mut calls, mut thoughts) = (BTreeMap::<&str, String>::new(), Vec::new(), Vec::new());
    let mut finish = Value::Null;
    for (at, chunk) in events(text).iter().enumerate() {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        let [choice] = &chunk["choices"].as_array().unwrap()[..] else { panic!("one choice: {chunk}") };
        assert_eq!((&choice["index"], &finish), (&0.into(), &Value::Null), "{text}");
        let delta = choice["delta"].as_object().unwrap();
        assert_eq!(delta.contains_key("role"), at == 0, "the role is told first, and once: {text}");
        for (key, value) in delta {
            match key.as_str() {
                "role" => assert_eq!(value, "assistant"),
                "tool_calls" => value.as_array().unwrap().iter().for_each(|call| add_call(&mut calls, call)),
                "reasoning_details" => thoughts.extend(value.as_array().unwrap().iter().cloned()),
                "content" => texts.entry("content").or_default().push_str(value.as_str().unwrap()),
                "refusal" => texts.entry("refusal").or_default().push_str(value.as_str().unwrap()),
                "reasoning_content" => {
                    texts.entry("reasoning_content").or_default().push_str(value.as_str().unwrap());
                }
                other => panic!("{other}: {chunk}"),
            }
        }
        finish = choice["finish_reason"].clone();
    }
    assert!(finish.is_string(), "{text}");
    assert_eq!(data(text).iter().filter(|data| **data == "[DONE]").count(), 1, "{text}");
    assert!(text.ends_with(DONE), "{text}");
    let mut message = json!({"role": "assistant"});
    for (key, text) in texts {
        message[key] = text.into();
    }
    for (key, list) in [("tool_calls", calls), ("reasoning_details", thoughts)] {
        if !list.is_empty() {
            message[key] = list.into();
        }
    }
    bare(&json!({"message": message, "finish_reason": finish}))
}

/// Calls are numbered from 0; what a call is, its first delta says and no other.
fn add_call(calls: &mut Vec<Value>, delta: &Value) {
    let at = usize::try_from(delta["index"].as_u64().expect("an index")).unwrap();
    let kind = if delta.get("custom").is_some() { "custom" } else { "function" };
    let is_first = at == calls.len();
    for said in [delta.get("id"), delta.get("type"), delta[kind].get("name")] {
        assert_eq!(said.is_some(), is_first, "call {at}: {delta}");
    }
    if is_first {
        let mut call = delta.clone();
        call.as_object_mut().unwrap().remove("index");
        return calls.push(call);
    }
    let given = if kind == "custom" { "input" } else { "arguments" };
    let so_far = calls[at][kind][given].as_str().unwrap().to_owned();
    calls[at][kind][given] = (so_far + delta[kind][given].as_str().unwrap()).into();
}

/// A client of Messages reads a stream to its end.
pub(super) fn put_message_together(text: &str) -> Value {
    assert!(!text.contains("[DONE]"), "{text}");
    let said = events(text);
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, said.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>());
    let [start, middle @ .., end, stop] = &said[..] else { panic!("{text}") };
    assert_eq!(
        (&start["type"], &end["type"], &stop["type"]),
        (&"message_start".into(), &"message_delta".into(), &"message_stop".into()),
        "{text}"
    );
    assert_eq!(start["message"]["content"], json!([]));
    let (mut content, mut open, mut input) = (Vec::<Value>::new(), false, String::new());
    for event in middle.iter().filter(|event| event["type"] != "ping") {
        let last = content.len().wrapping_sub(usize::from(open));
        assert_eq!(event["index"], last, "one block after the other: {text}");
        match event["type"].as_str().unwrap() {
            "content_block_start" if !open => {
                content.push(event["content_block"].clone());
                (open, input) = (true, String::new());
            }
            "content_block_delta" if open => add_delta(&mut content[last], &event["delta"], &mut input),
            "content_block_stop" if open => {
                open = false;
                if content[last]["type"] == "tool_use" && !input.is_empty() {
                    content[last]["input"] = serde_json::from_str(&input).unwrap();
                }
            }
            _ => panic!("{event} in {text}"),
        }
    }
    assert!(!open, "{text}");
    json!({"content": content, "stop_reason": end["delta"]["stop_reason"]})
}

fn add_delta(block: &mut Value, delta: &Value, input: &mut String) {
    let (kind, member) = match delta["type"].as_str().unwrap() {
        "text_delta" => ("text", "text"),
        "thinking_delta" => ("thinking", "thinking"),
        "signature_delta" => ("thinking", "signature"),
        "input_json_delta" => {
            assert_eq!(block["type"], "tool_use");
            return input.push_str(delta["partial_json"].as_str().unwrap());
        }
        other => panic!("{other}"),
    };
    assert_eq!(block["type"], kind);
    let so_far = block[member].as_str().unwrap().to_owned();
    block[member] = (so_far + delta[member].as_str().unwrap()).into();
}

/// What reached a strict provider of the other protocol, and what its client got.
pub(super) struct Put {
    pub(super) raw: Vec<u8>,
    pub(super) body: Value,
    pub(super) reply: Reply,
}

impl Put {
    /// The names of what was left out.
    pub(super) fn dropped(&self) -> Vec<&str> {
        self.reply.header("x-sluicegate-dropped").split(", ").filter(|name| !name.is_empty()).collect()
    }

    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.raw.clone()).unwrap()
    }
}

/// Makes a call that the provider takes.
pub(super) async fn puts(path: &str, call: &Value) -> Put {
    let (world, mock) = both(mock());
    let reply = world.post(path, call.to_string()).await;
    assert_eq!(reply.status, 200, "{call}: {}", reply.text());
    assert_eq!(mock.stats().arrived, 1);
    let raw = mock.requests(1)[0].body.to_vec();
    Put { body: serde_json::from_slice(&raw).unwrap(), raw, reply }
}

/// Makes a call that can't be said to the provider. Returns the sentence, with the field at fault.
pub(super) async fn cant_say(path: &str, call: &Value) -> String {
    let (world, mock) = both(mock());
    let mut told = Value::Null;
    for call in [streamed(call.clone()), call.clone()] {
        let reply = world.post(path, call.to_string()).await;
        assert_eq!(reply.status, 400, "{call}: {}", reply.text());
        assert_eq!(reply.header("x-sluicegate-error"), "invalid_request", "{call}");
        assert_eq!(reply.header("x-should-retry"), "false");
        assert!(!world.records.last().failed());
        told = reply.json()["error"].clone();
    }
    assert_eq!((mock.stats().arrived, world.outcomes()), (0, vec![]), "the provider has no part in it");
    format!("{}: {}", told["param"].as_str().unwrap_or_default(), told["message"].as_str().unwrap())
}
