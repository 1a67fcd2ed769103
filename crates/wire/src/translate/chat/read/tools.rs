//! The tools of a request, and which of them may or must be called.

use serde_json::value::RawValue;

use super::super::json::{as_it_is, entry, flag, list, needed, object, plain_text, text, within};
use super::parts::cache_of;
use crate::fold::json::{Members, is_null};
use crate::translate::canon::{Cache, Choice, Takes, Text, Tool};
use crate::translate::{Dropped, Unfit};

/// Reads the tools.
pub(super) fn tools<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Vec<Tool<'a>>, Unfit> {
    let read = |(at, raw)| tool(raw, dropped).map_err(within(format_args!("tools[{at}]")));
    list(raw, "tools")?.into_iter().enumerate().map(read).collect()
}

fn tool<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Tool<'a>, Unfit> {
    let said = entry(raw)?;
    let kind = text(needed(&said, "type")?, "type")?;
    let mut tool = match &*kind {
        "function" => function(needed(&said, "function")?, dropped).map_err(within("function"))?,
        "custom" => custom(needed(&said, "custom")?, dropped).map_err(within("custom"))?,
        // What else it says is the provider's own; it is refused whole by whoever can't say it.
        _ => {
            let takes = Takes::Hosted { kind: kind.clone() };
            return Ok(Tool { name: kind, description: None, takes, strict: None, cache: None });
        }
    };
    for (key, raw) in said.iter().filter(|(key, raw)| *key != "type" && *key != kind && !is_null(raw)) {
        match key {
            "cache_control" => tool.cache = cache_of(key, raw, "tools", dropped).or(tool.cache),
            _ => dropped.add(format!("tools.{key}")),
        }
    }
    Ok(tool)
}

fn function<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Tool<'a>, Unfit> {
    let said = entry(raw)?;
    let (mut parameters, mut strict) = (None, None);
    let named = named(&said, dropped, |key, raw| {
        match key {
            "parameters" => {
                object(raw, key)?;
                parameters = Some(as_it_is(raw));
            }
            "strict" => strict = Some(flag(raw, key)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Tool { takes: Takes::Schema(parameters), strict, ..named })
}

fn custom<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Tool<'a>, Unfit> {
    let said = entry(raw)?;
    let mut grammar = false;
    let named = named(&said, dropped, |key, raw| {
        if key == "format" {
            let said = object(raw, key)?;
            grammar =
                said.get("type").map_or(Ok(false), |raw| text(raw, "type").map(|kind| kind != "text"))?;
        }
        Ok(key == "format")
    })?;
    Ok(Tool { takes: Takes::Text { grammar }, ..named })
}

/// What both kinds of tools have, and what `other` knows of the rest.
fn named<'a>(
    said: &Members<'a>,
    dropped: &mut Dropped,
    mut other: impl FnMut(&str, &'a RawValue) -> Result<bool, Unfit>,
) -> Result<Tool<'a>, Unfit> {
    let name = text(needed(said, "name")?, "name")?;
    let (mut description, mut cache): (_, Option<Cache>) = (None, None);
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "name" => {}
            "description" => description = Some(text(raw, key)?),
            "cache_control" => cache = cache_of(key, raw, "tools", dropped),
            _ if other(key, raw)? => {}
            _ => dropped.add(format!("tools.{key}")),
        }
    }
    Ok(Tool { name, description, takes: Takes::Schema(None), strict: None, cache })
}

/// Reads which tools are to be called: a word, or an object that names some.
pub(super) fn choice(raw: &RawValue) -> Result<Choice<'_>, Unfit> {
    if let Some(word) = plain_text(raw) {
        return word_choice(&word);
    }
    let said = object(raw, "tool_choice")?;
    chosen(&said).map_err(within("tool_choice"))
}

fn word_choice(word: &str) -> Result<Choice<'static>, Unfit> {
    match word {
        "auto" => Ok(Choice::Auto),
        "none" => Ok(Choice::None),
        "required" | "any" => Ok(Choice::Any),
        _ => Err(Unfit::new("tool_choice", "'tool_choice' is 'none', 'auto', 'required' or an object.")),
    }
}

fn chosen<'a>(said: &Members<'a>) -> Result<Choice<'a>, Unfit> {
    match &*text(needed(said, "type")?, "type")? {
        "allowed_tools" => {
            let inner = needed(said, "allowed_tools").and_then(|raw| object(raw, "allowed_tools"))?;
            allowed(&inner).map_err(within("allowed_tools"))
        }
        "function" | "custom" => name_in(said).map(Choice::Named),
        other => Err(Unfit::new("type", format!("A choice of the type '{other}' can't be translated."))),
    }
}

fn allowed<'a>(said: &Members<'a>) -> Result<Choice<'a>, Unfit> {
    let must = match said.text("mode").as_deref() {
        Some("required") => true,
        Some("auto") => false,
        _ => return Err(Unfit::new("mode", "'mode' must be 'auto' or 'required'.")),
    };
    let read =
        |(at, raw)| entry(raw).and_then(|tool| name_in(&tool)).map_err(within(format_args!("tools[{at}]")));
    let names = list(needed(said, "tools")?, "tools")?.into_iter().enumerate().map(read);
    Ok(Choice::Among { names: names.collect::<Result<_, _>>()?, must })
}

/// The name in `{"type": "function", "function": {"name"}}`.
fn name_in<'a>(said: &Members<'a>) -> Result<Text<'a>, Unfit> {
    let kind = text(needed(said, "type")?, "type")?;
    let inner = needed(said, &kind).and_then(|raw| object(raw, &kind))?;
    needed(&inner, "name").and_then(|raw| text(raw, "name")).map_err(within(&kind))
}
