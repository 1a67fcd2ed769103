//! What Messages refuses because it is OpenAI's word for something: fields, tags and values that a
//! translation has to leave behind. What neither of them knows passes.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::common::{first_of, items};
use super::messages::Asked;

/// Of Chat Completions, then of Responses.
const FIELDS: &[&str] = &[
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "modalities",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "stop",
    "store",
    "stream_options",
    "top_logprobs",
    "user",
    "verbosity",
    "web_search_options",
    "background",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "previous_response_id",
    "reasoning",
    "text",
    "truncation",
];
const OF_MESSAGES: &[&str] = &[
    "annotations",
    "audio",
    "function_call",
    "name",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "tool_call_id",
    "tool_calls",
];
const OF_TOOLS: &[&str] = &["custom", "format", "function", "parameters"];
const OF_CHOICES: &[&str] = &["allowed_tools", "custom", "function", "mode", "tools"];
const OF_FORMATS: &[&str] = &["description", "json_schema", "name", "strict"];
const TIERS: &[&str] = &["default", "fast", "flex", "priority", "scale"];
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

pub(super) fn fields(asked: &Asked<'_>) -> Checked {
    without(asked.request, FIELDS, "")
}

/// None of these names, not even with null.
pub(super) fn without(object: &Value, names: &[&str], place: &str) -> Checked {
    match first_of(object, names) {
        None => Ok(()),
        Some(name) => Err(extra(&format!("{place}{name}"))),
    }
}

fn extra(place: &str) -> Refusal {
    Refusal::bad(format!("{place}: Extra inputs are not permitted"))
}

pub(super) fn fields_of_messages(asked: &Asked<'_>) -> Checked {
    for (at, message) in items(&asked.request["messages"]).enumerate() {
        without(message, OF_MESSAGES, &format!("messages.{at}."))?;
    }
    Ok(())
}

pub(super) fn tools(asked: &Asked<'_>) -> Checked {
    for (at, tool) in items(&asked.request["tools"]).enumerate() {
        if tool["type"] == "function" {
            return Err(Refusal::bad(format!(
                "tools.{at}: Input tag 'function' found using 'type' does not match any of the expected tags"
            )));
        }
        without(tool, OF_TOOLS, &format!("tools.{at}.custom."))?;
    }
    Ok(())
}

pub(super) fn choice(asked: &Asked<'_>) -> Checked {
    let choice = &asked.request["tool_choice"];
    let kind = choice["type"].as_str().unwrap_or_default();
    without(choice, OF_CHOICES, &format!("tool_choice.{kind}."))?;
    let parallel = &choice["disable_parallel_tool_use"];
    if kind == "none" {
        without(choice, &["disable_parallel_tool_use"], "tool_choice.none.")?;
    }
    if !parallel.is_null() && !parallel.is_boolean() {
        return Err(Refusal::bad(format!(
            "tool_choice.{kind}.disable_parallel_tool_use: Input should be a valid boolean"
        )));
    }
    Ok(())
}

pub(super) fn output(asked: &Asked<'_>) -> Checked {
    let config = &asked.request["output_config"];
    effort(asked, &config["effort"])?;
    let format = &config["format"];
    if format.is_null() {
        return Ok(());
    }
    if format["type"] != "json_schema" {
        return Err(Refusal::bad("output_config.format.type: Input should be 'json_schema'"));
    }
    if !format["schema"].is_object() {
        return Err(Refusal::bad("output_config.format.schema: Input should be an object"));
    }
    without(format, OF_FORMATS, "output_config.format.")
}

fn effort(asked: &Asked<'_>, effort: &Value) -> Checked {
    let Some(effort) = effort.as_str() else {
        return match effort {
            Value::Null => Ok(()),
            _ => Err(Refusal::bad("output_config.effort: Input should be a valid string")),
        };
    };
    if !EFFORTS.contains(&effort) {
        return Err(Refusal::bad(format!(
            "output_config.effort: Input should be one of {}",
            EFFORTS.join(", ")
        )));
    }
    match asked.caps {
        Some(caps) if caps.efforts.is_empty() => {
            Err(Refusal::bad("This model does not support the effort parameter."))
        }
        Some(caps) if !caps.efforts.contains(&effort) => Err(Refusal::bad(format!(
            "output_config.effort: '{effort}' is not supported by this model. Supported: {}",
            caps.efforts.join(", ")
        ))),
        _ => Ok(()),
    }
}

pub(super) fn metadata(asked: &Asked<'_>) -> Checked {
    let metadata = &asked.request["metadata"];
    let Some(fields) = metadata.as_object() else {
        return match metadata {
            Value::Null => Ok(()),
            _ => Err(Refusal::bad("metadata: Input should be an object")),
        };
    };
    if let Some(name) = fields.keys().find(|name| *name != "user_id") {
        return Err(extra(&format!("metadata.{name}")));
    }
    match &metadata["user_id"] {
        Value::Null | Value::String(_) => Ok(()),
        _ => Err(Refusal::bad("metadata.user_id: Input should be a valid string")),
    }
}

pub(super) fn tier(asked: &Asked<'_>) -> Checked {
    match asked.request["service_tier"].as_str().filter(|tier| TIERS.contains(tier)) {
        None => Ok(()),
        Some(_) => Err(Refusal::bad("service_tier: Input should be 'auto' or 'standard_only'")),
    }
}

pub(super) fn stops(asked: &Asked<'_>) -> Checked {
    let stops = &asked.request["stop_sequences"];
    if !stops.is_null() && !stops.is_array() {
        return Err(Refusal::bad("stop_sequences: Input should be a valid list"));
    }
    for (at, stop) in items(stops).enumerate() {
        match stop.as_str() {
            None => {
                return Err(Refusal::bad(format!("stop_sequences.{at}: Input should be a valid string")));
            }
            Some(stop) if stop.trim().is_empty() => {
                return Err(Refusal::bad("stop_sequences: each stop sequence must contain non-whitespace"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::messages::tests::{accepts, refuses};
    use super::*;

    #[test]
    fn fields_of_openai_are_extra_even_as_null() {
        for field in FIELDS {
            refuses(json!({*field: null}), &format!("{field}: Extra inputs are not permitted"));
        }
        refuses(json!({"n": 1}), "n: Extra inputs");
    }

    #[test]
    fn so_are_they_in_messages() {
        for field in OF_MESSAGES {
            let message = json!({"role": "user", "content": "x", *field: null});
            refuses(json!({"messages": [message]}), &format!("messages.0.{field}: Extra inputs"));
        }
        accepts(json!({"messages": [{"role": "user", "content": "x", "brand_new_field": 1}]}));
    }

    #[test]
    fn tools_are_not_nested() {
        let schema = json!({"type": "object"});
        let nested = json!({"type": "function", "function": {"name": "a", "parameters": schema}});
        refuses(json!({"tools": [nested]}), "Input tag 'function'");
        for field in OF_TOOLS {
            let tool = json!({"name": "a", "input_schema": schema, *field: {}});
            refuses(json!({"tools": [tool]}), &format!("tools.0.custom.{field}: Extra inputs"));
        }
        accepts(json!({"tools": [{"name": "a", "input_schema": schema, "strict": true}]}));
    }

    #[test]
    fn choices_have_no_words_of_openai() {
        let with = |choice: Value| json!({"tools": [{"name": "a", "input_schema": {"type": "object"}}], "tool_choice": choice});
        for field in OF_CHOICES {
            refuses(with(json!({"type": "auto", *field: {}})), &format!("tool_choice.auto.{field}: Extra"));
        }
        accepts(with(json!({"type": "any", "disable_parallel_tool_use": true})));
        refuses(with(json!({"type": "none", "disable_parallel_tool_use": true})), "tool_choice.none");
        refuses(with(json!({"type": "auto", "disable_parallel_tool_use": "yes"})), "boolean");
    }

    #[test]
    fn a_format_is_a_schema_without_a_name() {
        let with = |format: Value| json!({"output_config": {"format": format}});
        accepts(with(json!({"type": "json_schema", "schema": {"type": "object"}})));
        refuses(with(json!({"type": "json_object"})), "json_schema");
        refuses(with(json!({"type": "json_schema", "json_schema": {"schema": {}}})), "schema: Input");
        for field in OF_FORMATS {
            let format = json!({"type": "json_schema", "schema": {}, *field: "x"});
            refuses(with(format), &format!("output_config.format.{field}: Extra"));
        }
    }

    #[test]
    fn an_effort_is_one_of_the_models() {
        let with = |model: &str, effort: &str| json!({"model": model, "output_config": {"effort": effort}});
        accepts(with("m", "xhigh"));
        refuses(with("m", "minimal"), "should be one of");
        refuses(with("m", "none"), "should be one of");
        refuses(with("claude-sonnet-4-5", "low"), "does not support the effort");
        accepts(with("claude-opus-4-6", "max"));
        refuses(with("claude-opus-4-6", "xhigh"), "'xhigh'");
        accepts(with("claude-opus-5-5", "xhigh"));
    }

    #[test]
    fn metadata_is_a_user_and_nothing_else() {
        accepts(json!({"metadata": {"user_id": "u"}}));
        refuses(json!({"metadata": {"user_id": "u", "team": "a"}}), "metadata.team: Extra");
        refuses(json!({"metadata": {"user_id": 5}}), "valid string");
        refuses(json!({"metadata": "u"}), "object");
    }

    #[test]
    fn tiers_are_its_own() {
        accepts(json!({"service_tier": "standard_only"}));
        for tier in TIERS {
            refuses(json!({"service_tier": tier}), "service_tier");
        }
    }

    #[test]
    fn stops_are_a_list_of_texts_that_say_something() {
        accepts(json!({"stop_sequences": ["\n\nEND"]}));
        refuses(json!({"stop_sequences": "END"}), "valid list");
        refuses(json!({"stop_sequences": ["END", " \n"]}), "non-whitespace");
        refuses(json!({"stop_sequences": [1]}), "stop_sequences.0");
    }
}
