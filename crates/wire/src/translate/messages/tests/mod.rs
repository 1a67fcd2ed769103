//! What is read and written, as tables of small cases, and what holds for all.

mod always;
mod answers;
mod reading;
mod streams;
mod telling;
mod thinking;
mod tools;
mod turns;
mod writing;

use serde_json::{Value, json};

use super::MESSAGES_TONGUE;
use crate::translate::canon::Conversation;
use crate::translate::{Destination, Dropped, Tongue, Unfit};

const OLD: &str = "claude-sonnet-4-5";
const NEW: &str = "claude-opus-5-5";

fn to(model: &str) -> Destination<'_> {
    Destination { model, ask_usage: false, default_limit: 32_000, old_limit: false, replays_thoughts: false }
}

fn names(dropped: &Dropped) -> Vec<String> {
    dropped.names().map(str::to_owned).collect()
}

/// Reads a request; tests are short, so its text may stay.
fn try_read(request: &Value) -> (Result<Conversation<'static>, Unfit>, Vec<String>) {
    let body: &'static [u8] = Box::leak(request.to_string().into_bytes().into_boxed_slice());
    let mut dropped = Dropped::default();
    let said = MESSAGES_TONGUE.read(body, &mut dropped);
    (said, names(&dropped))
}

/// A conversation that begins with a greeting, with some members changed.
fn said(change: Value) -> Conversation<'static> {
    let mut request = json!({"messages": [{"role": "user", "content": "hello"}]});
    for (name, value) in change.as_object().unwrap() {
        request[name] = value.clone();
    }
    try_read(&request).0.unwrap()
}

fn try_write(said: &Conversation<'_>, model: &str) -> Result<(String, Vec<String>), Unfit> {
    let mut dropped = Dropped::default();
    let (body, _) = MESSAGES_TONGUE.write(said, &to(model), &mut dropped)?;
    Ok((String::from_utf8(body).unwrap(), names(&dropped)))
}

fn write(said: &Conversation<'_>, model: &str) -> (Value, Vec<String>) {
    let (body, dropped) = try_write(said, model).unwrap();
    (serde_json::from_str(&body).unwrap(), dropped)
}

/// The field that is to blame, and that something is said of it.
fn blamed(said: &Conversation<'_>, model: &str) -> String {
    let unfit = try_write(said, model).unwrap_err();
    assert!(!unfit.message.is_empty());
    unfit.field
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn system(content: &str) -> Value {
    json!({"role": "system", "content": content})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(name: &str) -> Value {
    json!({"name": name, "input_schema": {"type": "object"}})
}
