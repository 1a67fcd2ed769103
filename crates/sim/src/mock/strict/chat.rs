//! What Chat Completions refuses.

use serde_json::Value;

use super::super::caps::{self, ChatTools};
use super::super::reply::{Checked, Refusal};
use super::Check;
use super::chat_parts as parts;
use super::chat_words as words;
use super::common::{count_from, items, missing, number_within, repeated, text_model};
use super::openai::{
    effort_of_model, invalid_value, not_empty, reasons, sampling_of_reasoning_models, sampling_ranges,
    tool_name, unsupported,
};

pub(super) const CHECKS: &[Check] = &[
    text_model,
    words::fields,
    some_messages,
    known_roles,
    contents,
    parts::parts,
    parts::calls,
    tool_calls_are_answered,
    words::tools,
    tools_are_named,
    words::choice,
    settings_of_tools_need_some,
    choice_names_a_tool,
    ranges,
    one_limit,
    no_old_limit_on_reasoning_models,
    sampling,
    effort,
    tools_on_this_endpoint,
    words::format,
    json_schema_is_named,
    words::metadata,
    words::tier,
];

const ROLES: [&str; 6] = ["developer", "system", "user", "assistant", "tool", "function"];
const SAMPLING: [&str; 7] = [
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
    "logit_bias",
];

fn some_messages(request: &Value) -> Checked {
    match &request["messages"] {
        Value::Array(_) => not_empty(&request["messages"], "messages"),
        _ => Err(missing("messages")),
    }
}

fn known_roles(request: &Value) -> Checked {
    for (at, message) in items(&request["messages"]).enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if !ROLES.contains(&role) {
            let param = format!("messages[{at}].role");
            return Err(invalid_value(role, &ROLES, &param));
        }
    }
    Ok(())
}

/// Only an assistant that calls a tool or refuses may say nothing.
fn contents(request: &Value) -> Checked {
    for (at, message) in items(&request["messages"]).enumerate() {
        let says_otherwise = message["role"] == "assistant"
            && ["tool_calls", "function_call", "refusal", "audio"]
                .iter()
                .any(|field| !message[*field].is_null());
        let fine = match &message["content"] {
            Value::String(_) => true,
            Value::Array(parts) => !parts.is_empty(),
            Value::Null => says_otherwise,
            _ => false,
        };
        if !fine {
            let param = format!("messages[{at}].content");
            let message = format!("Invalid value for '{param}': expected a string or an array of parts.");
            return Err(Refusal::bad(message).param(param).code("invalid_type"));
        }
    }
    Ok(())
}

/// Every call is answered by tool messages right behind it, and every tool message answers one.
fn tool_calls_are_answered(request: &Value) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in items(&request["messages"]).enumerate() {
        let param = || format!("messages[{at}].role");
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let known = open.iter().position(|call| *call == id).ok_or_else(|| {
                Refusal::bad(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message \
                     with 'tool_calls'.",
                )
                .param(param())
            })?;
            open.remove(known);
            continue;
        }
        unanswered(&open).map_err(|refusal| refusal.param(param()))?;
        open = items(&message["tool_calls"]).filter_map(|call| call["id"].as_str()).collect();
        if let Some(id) = repeated(open.iter().copied()) {
            return Err(Refusal::bad(format!(
                "Duplicate value for 'tool_call_id' of '{id}' in message[{at}]."
            )));
        }
    }
    unanswered(&open)
}

fn unanswered(open: &[&str]) -> Checked {
    if open.is_empty() {
        return Ok(());
    }
    Err(Refusal::bad(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    )))
}

fn tools_are_named(request: &Value) -> Checked {
    for (at, tool) in items(&request["tools"]).enumerate() {
        let kind = if tool["type"] == "custom" { "custom" } else { "function" };
        tool_name(&tool[kind]["name"], &format!("tools[{at}].{kind}.name"))?;
    }
    Ok(())
}

fn settings_of_tools_need_some(request: &Value) -> Checked {
    let choice = &request["tool_choice"];
    let settings = [
        ("tool_choice", !choice.is_null() && choice != "none"),
        ("parallel_tool_calls", !request["parallel_tool_calls"].is_null()),
    ];
    let has_tools = items(&request["tools"]).next().is_some();
    match settings.iter().find(|(_, is_set)| *is_set && !has_tools) {
        None => Ok(()),
        Some((name, _)) => Err(Refusal::bad(format!(
            "Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
        ))
        .param(*name)),
    }
}

fn choice_names_a_tool(request: &Value) -> Checked {
    let named = request["tool_choice"]["function"]["name"].as_str();
    let exists = |name: &str| items(&request["tools"]).any(|tool| tool["function"]["name"] == name);
    match named.filter(|name| !exists(name)) {
        None => Ok(()),
        Some(name) => Err(Refusal::bad(format!("Tool choice '{name}' not found in 'tools' parameter."))
            .param("tool_choice")),
    }
}

fn ranges(request: &Value) -> Checked {
    sampling_ranges(request)?;
    number_within(request, "presence_penalty", -2.0, 2.0)?;
    number_within(request, "frequency_penalty", -2.0, 2.0)?;
    number_within(request, "n", 1.0, 128.0)?;
    number_within(request, "top_logprobs", 0.0, 20.0)?;
    count_from(request, "max_tokens", 1)?;
    count_from(request, "max_completion_tokens", 1)?;
    if !request["top_logprobs"].is_null() && request["logprobs"] != true {
        return Err(Refusal::bad("'top_logprobs' needs 'logprobs' to be true.").param("top_logprobs"));
    }
    if request["stop"].as_array().is_some_and(|stops| stops.len() > 4) {
        return Err(Refusal::bad("Invalid 'stop': at most 4 sequences.")
            .param("stop")
            .code("array_above_max_length"));
    }
    if !request["stream_options"].is_null() && request["stream"] != true {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(Refusal::bad(message).param("stream_options"));
    }
    Ok(())
}

fn one_limit(request: &Value) -> Checked {
    if request["max_tokens"].is_null() || request["max_completion_tokens"].is_null() {
        return Ok(());
    }
    Err(Refusal::bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
        .code("invalid_parameter_combination"))
}

fn no_old_limit_on_reasoning_models(request: &Value) -> Checked {
    if request["max_tokens"].is_null() || !reasons(request) {
        return Ok(());
    }
    Err(unsupported("max_tokens", "is not supported with this model. Use 'max_completion_tokens' instead"))
}

fn sampling(request: &Value) -> Checked {
    sampling_of_reasoning_models(request, &request["reasoning_effort"], &SAMPLING)
}

fn effort(request: &Value) -> Checked {
    effort_of_model(request, &request["reasoning_effort"], "reasoning_effort")
}

fn tools_on_this_endpoint(request: &Value) -> Checked {
    let has_functions = items(&request["tools"]).any(|tool| tool["type"] == "function");
    let model = request["model"].as_str().unwrap_or_default();
    let (true, Some(caps)) = (has_functions, caps::openai(model)) else { return Ok(()) };
    let effort = request["reasoning_effort"].as_str();
    let taken = match caps.chat_tools {
        ChatTools::Always => true,
        ChatTools::UnlessReasoning => effort.is_none_or(|effort| effort == "none"),
        ChatTools::EffortNone => effort == Some("none"),
        ChatTools::Never => false,
    };
    if taken {
        return Ok(());
    }
    Err(Refusal::bad(format!(
        "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. Please use \
         /v1/responses instead."
    ))
    .param("reasoning_effort"))
}

fn json_schema_is_named(request: &Value) -> Checked {
    let format = &request["response_format"];
    if format["type"] != "json_schema" {
        return Ok(());
    }
    tool_name(&format["json_schema"]["name"], "response_format.json_schema.name")
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A request that is fine, with some fields changed.
    fn with(change: Value) -> Value {
        let mut request = json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": "hello"}]});
        for (name, value) in change.as_object().unwrap() {
            request[name] = value.clone();
        }
        request
    }

    fn check(request: &Value) -> Checked {
        super::super::chat(request)
    }

    pub(in super::super) fn accepts(change: Value) {
        let request = with(change);
        assert_eq!(check(&request), Ok(()), "{request}");
    }

    pub(in super::super) fn refuses(change: Value, complaint: &str) {
        let request = with(change);
        let refusal = check(&request).expect_err(&request.to_string());
        assert_eq!(refusal.status, 400);
        assert!(refusal.message.contains(complaint), "{}", refusal.message);
    }

    pub(in super::super) fn function(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
    }

    fn calls(ids: &[&str]) -> Value {
        let calls: Vec<Value> = ids
            .iter()
            .map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}))
            .collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    }

    pub(in super::super) fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "done"})
    }

    #[test]
    fn a_plain_request_passes_with_fields_nobody_knows() {
        accepts(json!({"brand_new_field": {"a": 1}}));
    }

    #[test]
    fn model_and_messages_are_needed() {
        refuses(json!({"model": null}), "model");
        refuses(json!({"messages": null}), "'messages'");
        refuses(json!({"messages": []}), "empty array");
    }

    #[test]
    fn roles_are_known_ones() {
        refuses(json!({"messages": [{"role": "robot", "content": "x"}]}), "'robot'");
        accepts(json!({"messages": [{"role": "developer", "content": "x"}]}));
    }

    #[test]
    fn contents_are_text_or_parts() {
        refuses(json!({"messages": [{"role": "user"}]}), "content");
        refuses(json!({"messages": [{"role": "user", "content": []}]}), "content");
        refuses(json!({"messages": [{"role": "assistant", "content": null}]}), "content");
        accepts(json!({"messages": [{"role": "assistant", "refusal": "no"}]}));
    }

    #[test]
    fn tool_messages_answer_the_calls_before_them() {
        accepts(json!({"messages": [calls(&["a", "b"]), result("b"), result("a")]}));
        refuses(json!({"messages": [result("a")]}), "preceding message");
        refuses(json!({"messages": [calls(&["a"]), result("a"), result("a")]}), "preceding message");
        refuses(json!({"messages": [calls(&["a", "b"]), result("a")]}), "did not have response messages: b");
        let user = json!({"role": "user", "content": "x"});
        refuses(json!({"messages": [calls(&["a"]), user, result("a")]}), "did not have response");
        refuses(json!({"messages": [calls(&["a", "a"]), result("a")]}), "Duplicate");
    }

    #[test]
    fn tool_names_are_short_and_plain() {
        accepts(json!({"tools": [function("get_it")]}));
        refuses(json!({"tools": [function("get it")]}), "pattern");
        refuses(json!({"tools": [function(&"a".repeat(65))]}), "pattern");
        refuses(json!({"tools": [{"type": "function", "function": {}}]}), "name");
    }

    #[test]
    fn a_choice_needs_its_tool() {
        let choice = json!({"type": "function", "function": {"name": "b"}});
        refuses(json!({"tool_choice": "required"}), "only allowed when");
        refuses(json!({"parallel_tool_calls": false}), "'parallel_tool_calls' is only allowed when");
        accepts(json!({"tools": [function("b")], "parallel_tool_calls": false}));
        refuses(json!({"tools": [function("a")], "tool_choice": choice}), "not found");
        accepts(json!({"tool_choice": "none"}));
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        refuses(json!({"temperature": 2.5}), "temperature");
        refuses(json!({"n": 129}), "'n'");
        refuses(json!({"n": 0}), "'n'");
        refuses(json!({"max_tokens": 0}), "max_tokens");
        refuses(json!({"stop": ["a", "b", "c", "d", "e"]}), "stop");
        refuses(json!({"top_logprobs": 2}), "logprobs");
        refuses(json!({"stream_options": {"include_usage": true}}), "stream");
        refuses(json!({"max_tokens": 5, "max_completion_tokens": 5}), "at the same time");
    }

    #[test]
    fn reasoning_models_have_their_own_rules() {
        refuses(json!({"model": "gpt-5-mini", "max_tokens": 5}), "max_completion_tokens");
        refuses(json!({"model": "gpt-5-mini", "temperature": 0.5}), "temperature");
        refuses(json!({"model": "gpt-5-mini", "logprobs": true}), "logprobs");
        accepts(json!({"model": "gpt-5-mini", "temperature": 1, "max_completion_tokens": 5}));
        accepts(json!({"model": "gpt-5.1", "temperature": 0.5, "reasoning_effort": "none"}));
        refuses(json!({"model": "gpt-5", "reasoning_effort": "none"}), "does not support 'none'");
        refuses(json!({"model": "gpt-4.1", "reasoning_effort": "low"}), "not supported");
    }

    #[test]
    fn newer_models_take_tools_elsewhere() {
        let ask = |model: &str, effort: Value| json!({"model": model, "reasoning_effort": effort, "tools": [function("f")]});
        accepts(ask("gpt-5.4", json!(null)));
        refuses(ask("gpt-5.4", json!("low")), "/v1/responses");
        refuses(ask("gpt-5.6", json!(null)), "/v1/responses");
        accepts(ask("gpt-5.6", json!("none")));
        refuses(ask("gpt-6-astra", json!(null)), "/v1/responses");
        accepts(ask("some-model", json!("low")));
    }

    #[test]
    fn a_schema_has_a_name() {
        refuses(json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}), "name");
        accepts(
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}}),
        );
    }
}
