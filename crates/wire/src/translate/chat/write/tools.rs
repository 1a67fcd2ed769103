//! What the model may call.

use super::Way;
use crate::translate::Unfit;
use crate::translate::canon::{Choice, Conversation, Takes, Text, Tool};
use crate::translate::json::{Object, put_list};

/// What a function takes whose schema was left out.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;

/// The names of tools that take a free text.
pub(super) fn free<'a>(said: &'a Conversation<'_>) -> Vec<&'a str> {
    let free = said.tools.iter().filter(|tool| matches!(tool.takes, Takes::Text { .. }));
    free.map(|tool| &*tool.name).collect()
}

/// Writes the tools, and which of them are to be called.
pub(super) fn write(body: &mut Object<'_>, said: &Conversation<'_>, way: &Way<'_>) -> Result<(), Unfit> {
    if said.tools.is_empty() {
        // The provider refuses a choice where there is nothing to choose.
        return match said.choice {
            Some(Choice::Any | Choice::Named(_) | Choice::Among { must: true, .. }) => {
                Err(Unfit::new("tool_choice", "A tool can't be called where no tools are given."))
            }
            _ => Ok(()),
        };
    }
    if let Some(at) = said.tools.iter().position(|tool| !can_go(tool)) {
        let name = &said.tools[at].name;
        let told = format!(
            "The tool '{name}' is run by its provider, or has a grammar; another provider has none such."
        );
        return Err(Unfit::new(format!("tools[{at}]"), told));
    }
    put_list(body.key("tools"), &said.tools, |tool, out| put(Object::begin(out), tool, way));
    if let Some(choice) = &said.choice {
        put_choice(body, choice, way);
    }
    if said.parallel == Some(false) {
        body.flag("parallel_tool_calls", false);
    }
    Ok(())
}

fn can_go(tool: &Tool<'_>) -> bool {
    matches!(tool.takes, Takes::Schema(_) | Takes::Text { grammar: false })
}

fn put(mut object: Object<'_>, tool: &Tool<'_>, way: &Way<'_>) {
    let kind = kind(&tool.name, way);
    object.text("type", kind);
    let mut inner = object.object(kind);
    inner.text("name", way.names.theirs(&tool.name));
    inner.maybe("description", tool.description.as_deref());
    if let Takes::Schema(schema) = &tool.takes {
        inner.json("parameters", schema.as_ref().map_or(NOTHING, |schema| &schema.0));
        if let Some(strict) = tool.strict {
            inner.flag("strict", strict);
        }
    }
    inner.end();
    object.end();
}

fn put_choice(body: &mut Object<'_>, choice: &Choice<'_>, way: &Way<'_>) {
    match choice {
        Choice::Auto => body.text("tool_choice", "auto"),
        Choice::None => body.text("tool_choice", "none"),
        Choice::Any => body.text("tool_choice", "required"),
        Choice::Named(name) => put_name(body.object("tool_choice"), name, way),
        Choice::Among { names, must } => {
            let mut object = body.object("tool_choice");
            object.text("type", "allowed_tools");
            let mut allowed = object.object("allowed_tools");
            allowed.text("mode", if *must { "required" } else { "auto" });
            put_list(allowed.key("tools"), names, |name: &Text<'_>, out| {
                put_name(Object::begin(out), name, way)
            });
            allowed.end();
            object.end();
        }
    }
}

fn put_name(mut object: Object<'_>, name: &str, way: &Way<'_>) {
    let kind = kind(name, way);
    object.text("type", kind);
    let mut inner = object.object(kind);
    inner.text("name", way.names.theirs(name));
    inner.end();
    object.end();
}

/// The protocol's word for what a tool of that name is.
pub(super) fn kind(name: &str, way: &Way<'_>) -> &'static str {
    if way.free.contains(&name) { "custom" } else { "function" }
}
