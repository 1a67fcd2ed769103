//! What the real providers refuse with a 400, as tables of small checks. The first that complains wins.
//!
//! Fields that nobody knows are never refused, though a provider might: whoever is tested with this mock has
//! to pass them on, and a test has to see that they arrive. Those that the other protocol has are: where one is
//! translated into the other, they must not leak.

mod chat;
mod chat_parts;
mod chat_words;
mod claude_blocks;
mod claude_history;
mod claude_thoughts;
mod claude_words;
mod common;
mod messages;
mod openai;
mod others;
mod responses;

use serde_json::Value;

use super::reply::Checked;

pub(super) use others::{completions, embeddings};

/// A check of a request of OpenAI's.
type Check = fn(&Value) -> Checked;

fn all(checks: &[Check], request: &Value) -> Checked {
    checks.iter().try_for_each(|check| check(request))
}

pub(super) fn chat(request: &Value) -> Checked {
    all(chat::CHECKS, request)
}

pub(super) fn responses(request: &Value) -> Checked {
    all(responses::CHECKS, request)
}

/// What the headers of Anthropic's say.
#[derive(Clone, Copy, Default)]
pub(super) struct Headers<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) beta: Option<&'a str>,
}

pub(super) fn messages(request: &Value, headers: Headers<'_>) -> Checked {
    messages::all(request, headers, true)
}

/// The same, but nothing is generated, so `max_tokens` is not needed.
pub(super) fn count_tokens(request: &Value, headers: Headers<'_>) -> Checked {
    messages::all(request, headers, false)
}
