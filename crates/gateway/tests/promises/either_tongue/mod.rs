//! Either tongue: a client of one protocol reaches the models of a provider that speaks the other.
//!
//! The provider is as strict as the real ones, so that what it takes is what they would take.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod errors;
mod requests;
mod sharing;
mod streams;

use std::sync::Arc;

use serde_json::{Value, json};
use sim::mock::{Mock, Options};

use crate::world::*;

/// Both vendors, each with a key that the gate has.
pub(crate) const BOTH: &str = r#"
[providers.openai]
base_url = "http://127.0.0.1:1/v1"
api_key = "sk-openai"
[providers.anthropic]
base_url = "http://127.0.0.1:2"
api_key = "sk-anthropic"
"#;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

pub(crate) fn both(mock: Options) -> (World, Arc<Mock>) {
    World::with(BOTH, mock)
}

/// A chat call for a Claude model.
pub(crate) fn chat_to_claude(prompt: &str) -> Value {
    json!({"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": prompt}]})
}

/// A messages call for a GPT model.
pub(crate) fn message_to_gpt(prompt: &str) -> Value {
    json!({"model": "gpt-4.1", "max_tokens": 300, "messages": [{"role": "user", "content": prompt}]})
}

/// The call with `stream` set.
pub(crate) fn streamed(mut call: Value) -> Value {
    call["stream"] = true.into();
    call
}

/// The data of a stream's events, in order.
pub(crate) fn data(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

/// Those of them that are JSON.
pub(crate) fn events(text: &str) -> Vec<Value> {
    data(text)
        .into_iter()
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The text of a chat stream.
fn chat_text(text: &str) -> String {
    events(text)
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect()
}

/// The text of a messages stream.
fn message_text(text: &str) -> String {
    events(text).iter().filter_map(|event| event["delta"]["text"].as_str().map(str::to_owned)).collect()
}

/// The body that the provider got last.
fn sent(mock: &Mock) -> Value {
    serde_json::from_slice(&mock.requests(1)[0].body).unwrap()
}
