//! What Chat Completions refuses because it is Anthropic's word for something: fields, tags and values that a
//! translation has to leave behind. What neither of them knows passes.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::common::{first_of, items, missing};
use super::openai::{invalid_type, invalid_value, not_empty, unknown};

const FIELDS: &[&str] = &[
    "anthropic_beta",
    "anthropic_version",
    "billing_policy",
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "fallbacks",
    "inference_geo",
    "max_tokens_to_sample",
    "mcp_servers",
    "output_config",
    "output_format",
    "speed",
    "stop_sequences",
    "system",
    "thinking",
    "top_k",
];
const OF_TOOLS: &[&str] = &["allowed_callers", "defer_loading", "eager_input_streaming", "input_schema"];
const TOOLS: &[&str] = &["function", "custom"];
const CHOICES: &[&str] = &["none", "auto", "required"];
const CHOICE_TYPES: &[&str] = &["allowed_tools", "function", "custom"];
const FORMATS: &[&str] = &["text", "json_object", "json_schema"];
const MOST_METADATA: usize = 16;
const LONGEST_METADATA: usize = 512;

/// Not even with null.
pub(super) fn fields(request: &Value) -> Checked {
    match first_of(request, FIELDS) {
        None => Ok(()),
        Some(name) => Err(Refusal::bad(format!("Unrecognized request argument supplied: {name}"))),
    }
}

fn without(object: &Value, names: &[&str], param: &str) -> Checked {
    match first_of(object, names) {
        None => Ok(()),
        Some(name) => Err(unknown(&format!("{param}.{name}"))),
    }
}

pub(super) fn tools(request: &Value) -> Checked {
    not_empty(&request["tools"], "tools")?;
    for (at, tool) in items(&request["tools"]).enumerate() {
        let param = format!("tools[{at}]");
        without(tool, OF_TOOLS, &param)?;
        one_of(&tool["type"], TOOLS, &format!("{param}.type"))?;
        let (function, param) = (&tool["function"], format!("{param}.function"));
        without(function, OF_TOOLS, &param)?;
        if !function["parameters"].is_null() && !function["parameters"].is_object() {
            return Err(invalid_type(&format!("{param}.parameters"), "an object", &function["parameters"]));
        }
    }
    Ok(())
}

/// A value that is there, and one of these.
pub(super) fn one_of(value: &Value, known: &[&str], param: &str) -> Checked {
    match value.as_str() {
        Some(value) if known.contains(&value) => Ok(()),
        Some(value) => Err(invalid_value(value, known, param)),
        None if value.is_null() => Err(missing(param)),
        None => Err(invalid_type(param, "a string", value)),
    }
}

pub(super) fn choice(request: &Value) -> Checked {
    let choice = &request["tool_choice"];
    match choice {
        Value::Null => Ok(()),
        Value::String(_) => one_of(choice, CHOICES, "tool_choice"),
        _ => {
            one_of(&choice["type"], CHOICE_TYPES, "tool_choice.type")?;
            without(choice, &["disable_parallel_tool_use", "name"], "tool_choice")
        }
    }
}

pub(super) fn format(request: &Value) -> Checked {
    let format = &request["response_format"];
    if format.is_null() {
        return Ok(());
    }
    one_of(&format["type"], FORMATS, "response_format.type")?;
    without(format, &["schema"], "response_format")?;
    let schema = &format["json_schema"]["schema"];
    match schema {
        Value::Null | Value::Object(_) => Ok(()),
        _ => Err(invalid_type("response_format.json_schema.schema", "an object", schema)),
    }
}

pub(super) fn metadata(request: &Value) -> Checked {
    let metadata = &request["metadata"];
    let Some(fields) = metadata.as_object() else {
        return match metadata {
            Value::Null => Ok(()),
            _ => Err(invalid_type("metadata", "an object", metadata)),
        };
    };
    if fields.len() > MOST_METADATA {
        return Err(Refusal::bad(format!("Invalid 'metadata': at most {MOST_METADATA} properties."))
            .param("metadata")
            .code("object_above_max_properties"));
    }
    for (name, value) in fields {
        let param = format!("metadata.{name}");
        match value.as_str() {
            None => return Err(invalid_type(&param, "a string", value)),
            Some(text) if text.chars().count() > LONGEST_METADATA => {
                let message =
                    format!("Invalid '{param}': string too long, of at most {LONGEST_METADATA} characters.");
                return Err(Refusal::bad(message).param(param).code("string_above_max_length"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

pub(super) fn tier(request: &Value) -> Checked {
    const KNOWN: &[&str] = &["auto", "default", "flex", "scale", "priority", "fast"];
    match request["service_tier"].as_str() {
        Some("standard_only") => Err(invalid_value("standard_only", KNOWN, "service_tier")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::chat::tests::{accepts, function, refuses};
    use super::*;

    #[test]
    fn fields_of_anthropic_are_unrecognized_even_as_null() {
        for field in FIELDS {
            let complaint = format!("Unrecognized request argument supplied: {field}");
            refuses(json!({*field: null}), &complaint);
        }
    }

    #[test]
    fn tools_are_nested() {
        refuses(json!({"tools": []}), "Invalid 'tools': empty array");
        let schema = json!({"type": "object"});
        refuses(json!({"tools": [{"name": "f", "input_schema": schema}]}), "'tools[0].input_schema'");
        refuses(json!({"tools": [{"name": "f"}]}), "'tools[0].type'");
        refuses(json!({"tools": [{"type": "web_search_20260209", "name": "web_search"}]}), "Invalid value");
        let inner = json!({"type": "function", "function": {"name": "f", "input_schema": schema}});
        refuses(json!({"tools": [inner]}), "'tools[0].function.input_schema'");
        let text = json!({"type": "function", "function": {"name": "f", "parameters": "{}"}});
        refuses(json!({"tools": [text]}), "expected an object");
        accepts(json!({"tools": [{"type": "custom", "custom": {"name": "f"}}]}));
    }

    #[test]
    fn a_choice_is_a_word_or_names_a_kind() {
        let with = |choice: Value| json!({"tools": [function("f")], "tool_choice": choice});
        for word in CHOICES {
            accepts(with(json!(word)));
        }
        refuses(with(json!("any")), "'any'");
        for kind in ["any", "auto", "none", "tool"] {
            refuses(with(json!({"type": kind})), &format!("Invalid value: '{kind}'"));
        }
        let choice = json!({"type": "function", "function": {"name": "f"}});
        accepts(with(choice.clone()));
        let mut more = choice;
        more["disable_parallel_tool_use"] = true.into();
        refuses(with(more), "tool_choice.disable_parallel_tool_use");
        refuses(with(json!({"type": "function", "name": "f"})), "tool_choice.name");
    }

    #[test]
    fn a_format_has_its_schema_inside() {
        let with = |format: Value| json!({"response_format": format});
        for kind in ["text", "json_object"] {
            accepts(with(json!({"type": kind})));
        }
        refuses(with(json!({"type": "json_schema", "schema": {}})), "'response_format.schema'");
        refuses(with(json!({"type": "json"})), "Invalid value: 'json'");
        let schema = json!({"name": "a", "schema": "{}"});
        refuses(with(json!({"type": "json_schema", "json_schema": schema})), "expected an object");
    }

    #[test]
    fn metadata_is_texts() {
        accepts(json!({"metadata": {"user_id": "u", "team": "a"}}));
        refuses(json!({"metadata": {"n": 5}}), "'metadata.n': expected a string");
        refuses(json!({"metadata": {"n": "a".repeat(513)}}), "too long");
        refuses(json!({"metadata": "u"}), "expected an object");
        let many: serde_json::Map<_, _> = (0..17).map(|at| (at.to_string(), json!("x"))).collect();
        refuses(json!({"metadata": many}), "at most 16");
    }

    #[test]
    fn tiers_are_its_own() {
        accepts(json!({"service_tier": "flex"}));
        refuses(json!({"service_tier": "standard_only"}), "'standard_only'");
    }
}
