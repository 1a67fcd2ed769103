//! What the model may call, and whether it must.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::super::json::{Members, part, text};
use super::marks::{Marks, Section};
use crate::translate::canon::{Choice, Conversation, Part, Takes, Tool};
use crate::translate::claude_caps::Claude;
use crate::translate::json::{Object, try_list};
use crate::translate::{Names, Unfit};

/// The longest name of a tool.
const LONGEST: usize = 128;

/// The tools of a request.
pub(super) enum Offer<'a> {
    /// Those that the client offers, with their places in its list.
    Tools(Vec<(usize, &'a Tool<'a>)>),
    /// None, but some have been called before: the provider takes no calls of tools that it has never heard of.
    Remembered(Vec<&'a str>),
}

/// The names of all tools, called and to be called.
pub(super) fn names(said: &Conversation<'_>) -> Names {
    let tools = said.tools.iter().map(|tool| &*tool.name);
    let mut names = Names::fit(tools.chain(called(said)), LONGEST);
    for tool in said.tools.iter().filter(|tool| matches!(tool.takes, Takes::Text { .. })) {
        names.wrap(&tool.name);
    }
    names
}

fn called<'a>(said: &'a Conversation<'a>) -> impl Iterator<Item = &'a str> {
    said.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Call { name, .. } => Some(&**name),
        _ => None,
    })
}

impl<'a> Offer<'a> {
    pub(super) fn of(said: &'a Conversation<'a>) -> Result<Offer<'a>, Unfit> {
        let listed: Option<HashSet<&str>> = match &said.choice {
            Some(Choice::Among { names, .. }) => Some(names.iter().map(|name| &**name).collect()),
            _ => None,
        };
        let mut seen = HashSet::new();
        let mut tools = Vec::with_capacity(said.tools.len());
        for (at, tool) in said.tools.iter().enumerate() {
            if listed.as_ref().is_some_and(|listed| !listed.contains(&*tool.name)) {
                continue;
            }
            if !seen.insert(&*tool.name) {
                return Err(Unfit::new(format!("tools[{at}]"), "there is another tool of this name"));
            }
            tools.push((at, tool));
        }
        if !tools.is_empty() {
            return Ok(Offer::Tools(tools));
        }
        Ok(Offer::Remembered(called(said).filter(|name| seen.insert(name)).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Offer::Remembered(names) if names.is_empty())
    }

    pub(super) fn write(&self, names: &Names, marks: &mut Marks, out: &mut Vec<u8>) -> Result<(), Unfit> {
        match self {
            Offer::Tools(tools) => {
                try_list(out, tools, |(at, tool), out| write(*at, tool, names, marks, out))
            }
            Offer::Remembered(before) => try_list(out, before, |name, out| {
                let mut object = Object::begin(out);
                object.text("name", names.theirs(name));
                object.json("input_schema", NOTHING);
                object.end();
                Ok(())
            }),
        }
    }
}

/// The schema of a tool that takes nothing.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;

/// The schema of a tool that takes a text.
const TEXT: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

fn write(
    at: usize,
    tool: &Tool<'_>,
    names: &Names,
    marks: &mut Marks,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let mut object = Object::begin(out);
    object.text("name", names.theirs(&tool.name));
    if let Some(description) = &tool.description {
        object.text("description", description);
    }
    match &tool.takes {
        Takes::Schema(None) => object.json("input_schema", NOTHING),
        Takes::Schema(Some(schema)) => {
            let out = object.key("input_schema");
            let field =
                || Unfit::new(format!("tools[{at}].function.parameters"), "what a tool takes is an object");
            schema_of_object(&schema.0, out).ok_or_else(field)?;
        }
        Takes::Text { grammar: false } => object.json("input_schema", TEXT),
        Takes::Text { grammar: true } => {
            let field = format!("tools[{at}].custom.format");
            return Err(Unfit::new(field, "this model can't be held to a grammar; describe it instead"));
        }
        Takes::Hosted { kind } => {
            let message = format!("{kind} is run by the provider that offers it, and this is another one");
            return Err(Unfit::new(format!("tools[{at}]"), message));
        }
    }
    if let Some(strict) = tool.strict {
        object.json("strict", if strict { "true" } else { "false" });
    }
    marks.put(Section::Tools, tool.cache, &mut object);
    object.end();
    Ok(())
}

/// Writes a schema as it is, with the type that the provider wants to be said.
fn schema_of_object(schema: &str, out: &mut Vec<u8>) -> Option<()> {
    let raw: &RawValue = serde_json::from_str(schema).ok()?;
    let Members(members) = part(Some(raw))?;
    match members.iter().find(|(name, _)| name == "type") {
        Some((_, kind)) => {
            text(Some(kind)).filter(|kind| kind == "object")?;
            out.extend_from_slice(raw.get().as_bytes());
        }
        None if members.is_empty() => out.extend_from_slice(NOTHING.as_bytes()),
        None => {
            out.extend_from_slice(br#"{"type":"object","#);
            let from = raw.get().find('{')? + 1;
            out.extend_from_slice(&raw.get().as_bytes()[from..]);
        }
    }
    Some(())
}

/// Writes the choice, if anything is to be said of it. Nobody can be made to call while thinking by a budget.
pub(super) fn choice(
    said: &Conversation<'_>,
    offer: &Offer<'_>,
    names: &Names,
    model: &Claude,
    by_budget: bool,
    body: &mut Object<'_>,
) -> Result<(), Unfit> {
    let unfit = |message: &str| Unfit::new("tool_choice", message);
    let one_at_a_time = said.parallel == Some(false);
    let (kind, tool) = match &said.choice {
        None if one_at_a_time => ("auto", None),
        None => ("", None),
        Some(Choice::Auto | Choice::Among { must: false, .. }) => ("auto", None),
        Some(Choice::None) => ("none", None),
        Some(Choice::Any | Choice::Among { must: true, .. }) => ("any", None),
        Some(Choice::Named(name)) => ("tool", Some(name)),
    };
    let Offer::Tools(tools) = offer else {
        if matches!(kind, "any" | "tool") || matches!(said.choice, Some(Choice::Among { .. })) {
            return Err(unfit("there is no such tool in `tools`"));
        }
        if !offer.is_empty() {
            Object::typed(body.key("tool_choice"), "none").end();
        }
        return Ok(());
    };
    if tool.is_some_and(|name| tools.iter().all(|(_, tool)| tool.name != *name)) {
        return Err(unfit("there is no such tool in `tools`"));
    }
    if matches!(kind, "any" | "tool") && !model.forced_tools {
        return Err(unfit("this model can't be made to call a tool; ask for it in the prompt, with auto"));
    }
    if matches!(kind, "any" | "tool") && by_budget {
        return Err(unfit(
            "this model can't be made to call a tool while it thinks; leave out reasoning_effort",
        ));
    }
    if kind.is_empty() {
        return Ok(());
    }
    let mut choice = Object::typed(body.key("tool_choice"), kind);
    if let Some(name) = tool {
        choice.text("name", names.theirs(name));
    }
    if one_at_a_time && kind != "none" {
        choice.json("disable_parallel_tool_use", "true");
    }
    choice.end();
    Ok(())
}
