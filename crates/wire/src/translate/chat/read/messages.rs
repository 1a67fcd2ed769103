//! The messages of a request.
//!
//! Each stays a turn of its own, in its order; what stands in front of all others and instructs the model is no turn
//! but the instructions.

use serde_json::value::RawValue;

use super::super::json::{entry, list, needed, text, within};
use super::parts::{self, cache_of, content};
use super::thoughts::{self, Thoughts};
use crate::fold::json::{Members, is_blank, is_null};
use crate::translate::canon::{Arguments, Conversation, Instruction, Json, Part, Role, Text, Turn};
use crate::translate::{Dropped, Unfit};

/// Reads all of them.
pub(super) fn read<'a>(
    raw: &'a RawValue,
    read: &mut Conversation<'a>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let messages = list(raw, "messages")?;
    read.turns.reserve(messages.len());
    for (at, raw) in messages.into_iter().enumerate() {
        message(at, raw, read, dropped).map_err(within(format_args!("messages[{at}]")))?;
    }
    Ok(())
}

fn message<'a>(
    at: usize,
    raw: &'a RawValue,
    read: &mut Conversation<'a>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let said = entry(raw)?;
    let (role, parts) = match &*text(needed(&said, "role")?, "role")? {
        "system" | "developer" => {
            let parts = spoken(&said, dropped)?;
            if read.turns.is_empty() {
                return instruct(parts, &mut read.instructions);
            }
            (Role::System, parts)
        }
        "user" => (Role::User, spoken(&said, dropped)?),
        "assistant" => (Role::Assistant, assistant(&said, dropped)?),
        "tool" => (Role::User, vec![result(&said, dropped)?]),
        "function" => {
            return Err(Unfit::new(
                "role",
                "Messages of the role 'function' are the older form of 'tool'. Use 'tools'.",
            ));
        }
        other => return Err(Unfit::new("role", format!("'{other}' is no role that is known."))),
    };
    read.turns.push(Turn { at, role, parts });
    Ok(())
}

/// The content of a message that has nothing else to it.
fn spoken<'a>(said: &Members<'a>, dropped: &mut Dropped) -> Result<Vec<Part<'a>>, Unfit> {
    let mut parts = content(needed(said, "content")?, dropped)?;
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "role" | "content" => {}
            // Some clients mark a message, and mean its end.
            "cache_control" => {
                let cache = cache_of(key, raw, "messages", dropped);
                if let (Some(cache), Some(last)) = (cache, parts.last_mut()) {
                    parts::mark(last, cache);
                }
            }
            _ => dropped.add(format!("messages.{key}")),
        }
    }
    Ok(parts)
}

fn instruct<'a>(parts: Vec<Part<'a>>, instructions: &mut Vec<Instruction<'a>>) -> Result<(), Unfit> {
    for (at, part) in parts.into_iter().enumerate() {
        let Part::Text { text, cache } = part else {
            return Err(Unfit::new(format!("content[{at}].type"), "Instructions are made of text only."));
        };
        instructions.push(Instruction { text, cache });
    }
    Ok(())
}

/// What the model has said, with its thoughts at their places.
fn assistant<'a>(said: &Members<'a>, dropped: &mut Dropped) -> Result<Vec<Part<'a>>, Unfit> {
    let (mut parts, mut calls, mut thoughts) = (Vec::new(), Vec::new(), Thoughts::default());
    let mut cache = None;
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "role" => {}
            // Clients that keep an answer without text write an empty one.
            "content" if is_blank(raw) => {}
            "content" => {
                // A refusal beside it comes after it, wherever its key stands.
                let said = content(raw, dropped)?;
                parts.splice(0..0, said);
            }
            "refusal" if is_blank(raw) => {}
            "refusal" => parts.push(Part::Refusal { text: text(raw, key)? }),
            "tool_calls" => calls = tool_calls(raw, dropped)?,
            "reasoning_details" => thoughts.read_details(raw, dropped)?,
            "reasoning_content" | "reasoning" => thoughts.read_text(key, raw, dropped),
            "audio" => {
                let told = "Spoken answers are known to their provider only. Send what was said as text.";
                return Err(Unfit::new("audio", told));
            }
            "function_call" => {
                let told = "'function_call' is the older form of 'tool_calls'. Use 'tool_calls'.";
                return Err(Unfit::new("function_call", told));
            }
            "cache_control" => cache = cache_of(key, raw, "messages", dropped),
            // What our answers bear beside what was said; sources of a search that are empty say nothing.
            "annotations" if is_blank(raw) => {}
            _ => dropped.add(format!("messages.{key}")),
        }
    }
    let mut parts = thoughts::place(parts, calls, thoughts.all());
    if let (Some(cache), Some(last)) = (cache, parts.last_mut()) {
        parts::mark(last, cache);
    }
    Ok(parts)
}

fn tool_calls<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Vec<Part<'a>>, Unfit> {
    let read = |(at, raw)| call(raw, dropped).map_err(within(format_args!("tool_calls[{at}]")));
    list(raw, "tool_calls")?.into_iter().enumerate().map(read).collect()
}

fn call<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    let said = entry(raw)?;
    let id = text(needed(&said, "id")?, "id")?;
    let kind = said.get("type").map_or(Ok(Text::Borrowed("function")), |raw| text(raw, "type"))?;
    let (field, what) = match &*kind {
        "function" => ("function", "arguments"),
        "custom" => ("custom", "input"),
        other => {
            return Err(Unfit::new("type", format!("A call of the type '{other}' can't be translated.")));
        }
    };
    for (key, _) in
        said.iter().filter(|(key, raw)| !["id", "type", "index", field].contains(key) && !is_null(raw))
    {
        dropped.add(format!("messages.tool_calls.{key}"));
    }
    let inner = entry(needed(&said, field)?).map_err(within(field))?;
    for (key, _) in inner.iter().filter(|(key, raw)| !["name", what].contains(key) && !is_null(raw)) {
        dropped.add(format!("messages.tool_calls.{field}.{key}"));
    }
    let name = text(needed(&inner, "name").map_err(within(field))?, "name").map_err(within(field))?;
    let given =
        inner.get(what).map_or(Ok(Text::Borrowed("")), |raw| text(raw, what)).map_err(within(field))?;
    let arguments = if field == "custom" { Arguments::Free(given) } else { arguments(given) };
    Ok(Part::Call { id, name, arguments, cache: None })
}

/// A call without arguments has an empty text, from some servers.
fn arguments(given: Text<'_>) -> Arguments<'_> {
    if given.trim_ascii().is_empty() {
        return Arguments::Json(Json("{}".into()));
    }
    match serde_json::from_str::<&RawValue>(&given) {
        Ok(_) => Arguments::Json(Json(given)),
        Err(_) => Arguments::Free(given),
    }
}

/// What a tool has given back.
fn result<'a>(said: &Members<'a>, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    let id = text(needed(said, "tool_call_id")?, "tool_call_id")?;
    let parts = said.get("content").map_or(Ok(Vec::new()), |raw| content(raw, dropped))?;
    let mut cache = None;
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "role" | "content" | "tool_call_id" => {}
            "cache_control" => cache = cache_of(key, raw, "messages", dropped),
            _ => dropped.add(format!("messages.{key}")),
        }
    }
    Ok(Part::Result { id, parts, is_error: false, cache })
}
