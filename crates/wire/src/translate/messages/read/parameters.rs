//! What stands beside the messages of a request.

use serde_json::value::RawValue;

use super::super::json::{At, boolean, json, list, object, string, whole};
use super::blocks::cache;
use crate::translate::canon::{Choice, Conversation, Effort, Format, Mode, Takes, Tool};
use crate::translate::{Dropped, Unfit};

pub(super) fn tools<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    dropped: &mut Dropped,
) -> Result<Vec<Tool<'a>>, Unfit> {
    let tools = list(raw, at)?;
    tools.into_iter().enumerate().map(|(n, raw)| tool(raw, &At::Element(at, n), dropped)).collect()
}

fn tool<'a>(raw: &'a RawValue, at: &At<'_>, dropped: &mut Dropped) -> Result<Tool<'a>, Unfit> {
    let mut tool =
        Tool { name: "".into(), description: None, takes: Takes::Schema(None), strict: None, cache: None };
    let mut kind = None;
    let mut others = Vec::new();
    for (name, raw) in object(raw, at)? {
        let at = At::Member(at, &name);
        match &*name {
            "type" => kind = Some(string(raw, &at)?),
            "name" => tool.name = string(raw, &at)?,
            "description" => tool.description = Some(string(raw, &at)?),
            "input_schema" => {
                object(raw, &at)?;
                tool.takes = Takes::Schema(Some(json(raw)));
            }
            "strict" => tool.strict = Some(boolean(raw, &at)?),
            "cache_control" => tool.cache = Some(cache(raw, &at)?),
            _ => others.push(format!("tools.{name}")),
        }
    }
    match kind {
        Some(kind) if kind != "custom" => tool.takes = Takes::Hosted { kind },
        _ => others.into_iter().for_each(|name| dropped.add(name)),
    }
    Ok(tool)
}

pub(super) fn choice<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    said: &mut Conversation<'a>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let (mut kind, mut tool) = (None, None);
    for (name, raw) in object(raw, at)? {
        let at = At::Member(at, &name);
        match &*name {
            "type" => kind = Some(string(raw, &at)?),
            "name" => tool = Some(string(raw, &at)?),
            // Both may call several tools unless told otherwise.
            "disable_parallel_tool_use" => said.parallel = boolean(raw, &at)?.then_some(false),
            _ => dropped.add(format!("tool_choice.{name}")),
        }
    }
    said.choice = Some(match (kind.as_deref(), tool) {
        (Some("auto"), _) => Choice::Auto,
        (Some("any"), _) => Choice::Any,
        (Some("none"), _) => Choice::None,
        (Some("tool"), Some(name)) => Choice::Named(name),
        (Some("tool"), None) => return Err(At::Member(at, "name").unfit("which tool is to be called?")),
        _ => return Err(At::Member(at, "type").unfit("the choices are auto, any, tool and none")),
    });
    Ok(())
}

pub(super) fn thinking(
    raw: &RawValue,
    at: &At<'_>,
    said: &mut Conversation<'_>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let (mut kind, mut budget) = (None, None);
    for (name, raw) in object(raw, at)? {
        let at = At::Member(at, &name);
        match &*name {
            "type" => kind = Some(string(raw, &at)?),
            "budget_tokens" => budget = Some(whole(raw, &at)?),
            "display" => match &*string(raw, &at)? {
                "summarized" => said.reasoning.shown = Some(true),
                "omitted" => said.reasoning.shown = Some(false),
                _ => dropped.add("thinking.display"),
            },
            _ => dropped.add(format!("thinking.{name}")),
        }
    }
    said.reasoning.mode = Some(match (kind.as_deref(), budget) {
        (Some("adaptive"), _) => Mode::Adaptive,
        (Some("disabled"), _) => Mode::Off,
        (Some("between_tools"), _) => Mode::BetweenTools,
        (Some("enabled"), Some(budget)) => Mode::Budget(budget),
        (Some("enabled"), None) => {
            return Err(At::Member(at, "budget_tokens").unfit("how many tokens of thinking?"));
        }
        _ => {
            let kinds = "the kinds are enabled, adaptive, disabled and between_tools";
            return Err(At::Member(at, "type").unfit(kinds));
        }
    });
    Ok(())
}

pub(super) fn output<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    said: &mut Conversation<'a>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    for (name, raw) in object(raw, at)? {
        let at = At::Member(at, &name);
        match &*name {
            "effort" => {
                let effort = Effort::of(&string(raw, &at)?);
                let known = || at.unfit("the efforts are low, medium, high, xhigh and max");
                said.reasoning.effort = Some(effort.ok_or_else(known)?);
            }
            "format" => said.format = Some(format(raw, &at, dropped)?),
            _ => dropped.add(format!("output_config.{name}")),
        }
    }
    Ok(())
}

/// The schema is not asked for strictly: other vendors refuse strict schemas that this one takes.
pub(super) fn format<'a>(raw: &'a RawValue, at: &At<'_>, dropped: &mut Dropped) -> Result<Format<'a>, Unfit> {
    let (mut kind, mut schema) = (None, None);
    for (name, raw) in object(raw, at)? {
        match &*name {
            "type" => kind = Some(string(raw, &At::Member(at, &name))?),
            "schema" => {
                object(raw, &At::Member(at, &name))?;
                schema = Some(json(raw));
            }
            _ => dropped.add(at.left_out(&name)),
        }
    }
    match (kind.as_deref(), schema) {
        (Some("json_schema"), Some(schema)) => {
            Ok(Format::Schema { name: None, description: None, schema, strict: None })
        }
        _ => Err(at.unfit("a format is a json_schema with its schema")),
    }
}

pub(super) fn metadata<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    said: &mut Conversation<'a>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    for (name, raw) in object(raw, at)? {
        match &*name {
            "user_id" => said.end_user = Some(string(raw, &At::Member(at, &name))?),
            _ => dropped.add(format!("metadata.{name}")),
        }
    }
    Ok(())
}
