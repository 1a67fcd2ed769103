//! Rules that Chat Completions and Responses share.

use serde_json::Value;

use super::super::caps;
use super::super::reply::{Checked, Refusal};
use super::common::{is_name, missing, number_within};

const MOST_NAME: usize = 64;

pub(super) fn tool_name(name: &Value, param: &str) -> Checked {
    match name.as_str() {
        Some(name) if is_name(name, MOST_NAME) => Ok(()),
        Some(name) => Err(Refusal::bad(format!(
            "Invalid '{param}': '{name}' does not match the pattern '^[a-zA-Z0-9_-]{{1,{MOST_NAME}}}$'."
        ))
        .param(param)
        .code("invalid_value")),
        None => Err(missing(param)),
    }
}

/// A list that is there has something in it.
pub(super) fn not_empty(list: &Value, param: &str) -> Checked {
    if list.as_array().is_none_or(|items| !items.is_empty()) {
        return Ok(());
    }
    Err(Refusal::bad(format!(
        "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    ))
    .param(param)
    .code("empty_array"))
}

pub(super) fn unknown(param: &str) -> Refusal {
    Refusal::bad(format!("Unknown parameter: '{param}'.")).param(param).code("unknown_parameter")
}

pub(super) fn invalid_value(value: &str, known: &[&str], param: &str) -> Refusal {
    let known: Vec<String> = known.iter().map(|known| format!("'{known}'")).collect();
    Refusal::bad(format!("Invalid value: '{value}'. Supported values are: {}.", known.join(", ")))
        .param(param)
        .code("invalid_value")
}

pub(super) fn invalid_type(param: &str, expected: &str, found: &Value) -> Refusal {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Refusal::bad(format!("Invalid type for '{param}': expected {expected}, but got {found} instead."))
        .param(param)
        .code("invalid_type")
}

pub(super) fn sampling_ranges(request: &Value) -> Checked {
    number_within(request, "temperature", 0.0, 2.0)?;
    number_within(request, "top_p", 0.0, 1.0)
}

/// Models that reason take no sampling, save for the default and at effort `none`.
pub(super) fn sampling_of_reasoning_models(request: &Value, effort: &Value, fields: &[&str]) -> Checked {
    if !reasons(request) || effort == "none" {
        return Ok(());
    }
    let set = fields.iter().find(|field| !is_default(field, &request[**field]));
    match set {
        None => Ok(()),
        Some(field) => Err(unsupported(field, "is not supported with this model")),
    }
}

fn is_default(field: &str, value: &Value) -> bool {
    let default = match field {
        "temperature" | "top_p" => 1.0,
        _ => 0.0,
    };
    value.is_null() || *value == false || value.as_f64() == Some(default)
}

pub(super) fn effort_of_model(request: &Value, effort: &Value, param: &str) -> Checked {
    let Some(asked) = effort.as_str() else { return Ok(()) };
    let model = request["model"].as_str().unwrap_or_default();
    match caps::openai(model) {
        Some(caps) if !caps.reasoning => Err(unsupported(param, "is not supported with this model")),
        Some(caps) if !caps.efforts.contains(&asked) => Err(Refusal::bad(format!(
            "Unsupported value: '{param}' does not support '{asked}' with this model. Supported values are: {}.",
            caps.efforts.join(", ")
        ))
        .param(param)
        .code("unsupported_value")),
        _ => Ok(()),
    }
}

pub(super) fn reasons(request: &Value) -> bool {
    let model = request["model"].as_str().unwrap_or_default();
    caps::openai(model).is_some_and(|caps| caps.reasoning)
}

pub(super) fn unsupported(param: &str, why: &str) -> Refusal {
    Refusal::bad(format!("Unsupported parameter: '{param}' {why}."))
        .param(param)
        .code("unsupported_parameter")
}
