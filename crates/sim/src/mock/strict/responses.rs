//! What Responses refuses.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::super::signature::Signature;
use super::Check;
use super::common::{count_from, items, repeated, required, text_model};
use super::openai::{
    effort_of_model, invalid_value, sampling_of_reasoning_models, sampling_ranges, tool_name, unsupported,
};

pub(super) const CHECKS: &[Check] = &[
    text_model,
    |request| required(request, "input"),
    input_is_not_empty,
    known_roles,
    one_past,
    calls_are_answered,
    outputs_have_their_call,
    reasoning_is_unaltered,
    tools_are_named,
    fields_of_chat,
    sampling_ranges,
    sampling,
    effort,
    |request| count_from(request, "max_output_tokens", 16),
    format_is_named,
];

const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];
const CALLS: [(&str, &str); 2] =
    [("function_call", "function_call_output"), ("custom_tool_call", "custom_tool_call_output")];

fn input_is_not_empty(request: &Value) -> Checked {
    let fine = match &request["input"] {
        Value::String(_) => true,
        Value::Array(items) => !items.is_empty() || !request["previous_response_id"].is_null(),
        _ => false,
    };
    if fine {
        return Ok(());
    }
    Err(Refusal::bad("Invalid 'input': expected a string or an array of items that is not empty.")
        .param("input"))
}

fn known_roles(request: &Value) -> Checked {
    for (at, item) in items(&request["input"]).enumerate() {
        let is_message = item["type"].as_str().is_none_or(|kind| kind == "message");
        let role = item["role"].as_str().unwrap_or_default();
        if is_message && !ROLES.contains(&role) {
            return Err(invalid_value(role, &ROLES, &format!("input[{at}].role")));
        }
    }
    Ok(())
}

fn one_past(request: &Value) -> Checked {
    if request["previous_response_id"].is_null() || request["conversation"].is_null() {
        return Ok(());
    }
    Err(Refusal::bad("Mutually exclusive parameters: 'previous_response_id' and 'conversation'.")
        .code("mutually_exclusive_parameters"))
}

fn call_ids<'a>(request: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let items = items(&request["input"]).filter(move |item| item["type"] == kind);
    items.filter_map(|item| item["call_id"].as_str())
}

fn calls_are_answered(request: &Value) -> Checked {
    for (call, output) in CALLS {
        if let Some(id) = repeated(call_ids(request, call)) {
            return Err(Refusal::bad(format!("Duplicate call_id '{id}' in 'input'.")).param("input"));
        }
        let open =
            call_ids(request, call).find(|id| !call_ids(request, output).any(|answered| answered == *id));
        if let Some(id) = open {
            return Err(Refusal::bad(format!("No tool output found for function call {id}.")).param("input"));
        }
    }
    Ok(())
}

/// Unless the call lies in a past that only the provider knows.
fn outputs_have_their_call(request: &Value) -> Checked {
    if !request["previous_response_id"].is_null() || !request["conversation"].is_null() {
        return Ok(());
    }
    for (call, output) in CALLS {
        let orphan = call_ids(request, output).find(|id| !call_ids(request, call).any(|known| known == *id));
        if let Some(id) = orphan {
            let message = format!("No tool call found for function call output with call_id {id}.");
            return Err(Refusal::bad(message).param("input"));
        }
    }
    Ok(())
}

fn reasoning_is_unaltered(request: &Value) -> Checked {
    for (at, item) in items(&request["input"]).enumerate() {
        let content = item["encrypted_content"].as_str().filter(|_| item["type"] == "reasoning");
        if content.is_some_and(|content| Signature::read(content).is_none_or(|read| !read.is_of(""))) {
            return Err(Refusal::bad("The encrypted content could not be verified.")
                .param(format!("input[{at}].encrypted_content"))
                .code("invalid_encrypted_content"));
        }
    }
    Ok(())
}

fn tools_are_named(request: &Value) -> Checked {
    for (at, tool) in items(&request["tools"]).enumerate() {
        if tool["type"] == "function" || tool["type"] == "custom" {
            tool_name(&tool["name"], &format!("tools[{at}].name"))?;
        }
    }
    Ok(())
}

/// Chat Completions has these; here they are errors.
fn fields_of_chat(request: &Value) -> Checked {
    const FIELDS: [&str; 10] = [
        "n",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "response_format",
    ];
    match FIELDS.iter().find(|field| !request[**field].is_null()) {
        None => Ok(()),
        Some(field) => Err(unsupported(field, "is not supported by the Responses API")),
    }
}

fn sampling(request: &Value) -> Checked {
    let fields = ["temperature", "top_p", "top_logprobs"];
    sampling_of_reasoning_models(request, &request["reasoning"]["effort"], &fields)
}

fn effort(request: &Value) -> Checked {
    effort_of_model(request, &request["reasoning"]["effort"], "reasoning.effort")
}

fn format_is_named(request: &Value) -> Checked {
    let format = &request["text"]["format"];
    if format["type"] != "json_schema" {
        return Ok(());
    }
    tool_name(&format["name"], "text.format.name")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::signature::Place;
    use super::*;

    fn check(change: Value) -> Checked {
        let mut request = json!({"model": "gpt-4.1", "input": "hello"});
        for (name, value) in change.as_object().unwrap() {
            request[name] = value.clone();
        }
        super::super::responses(&request)
    }

    fn refuses(change: Value, complaint: &str) {
        let refusal = check(change.clone()).expect_err(&change.to_string());
        assert!(refusal.message.contains(complaint), "{}", refusal.message);
    }

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
    }

    fn output(id: &str) -> Value {
        json!({"type": "function_call_output", "call_id": id, "output": "done"})
    }

    #[test]
    fn a_plain_request_passes_with_fields_nobody_knows() {
        assert_eq!(check(json!({"brand_new_field": 1})), Ok(()));
        assert_eq!(check(json!({"input": [{"role": "user", "content": "x"}]})), Ok(()));
    }

    #[test]
    fn model_and_input_are_needed() {
        refuses(json!({"model": null}), "model");
        refuses(json!({"input": null}), "'input'");
        refuses(json!({"input": []}), "not empty");
        refuses(json!({"input": 5}), "'input'");
    }

    #[test]
    fn roles_are_known_ones() {
        refuses(json!({"input": [{"role": "tool", "content": "x"}]}), "'tool'");
    }

    #[test]
    fn there_is_one_past() {
        refuses(json!({"previous_response_id": "resp_1", "conversation": "conv_1"}), "exclusive");
    }

    #[test]
    fn calls_and_outputs_belong_together() {
        assert_eq!(check(json!({"input": [call("a"), output("a")]})), Ok(()));
        refuses(json!({"input": [call("a")]}), "No tool output found");
        refuses(json!({"input": [output("a")]}), "No tool call found");
        refuses(json!({"input": [call("a"), call("a"), output("a")]}), "Duplicate");
        assert_eq!(check(json!({"input": [output("a")], "previous_response_id": "resp_1"})), Ok(()));
    }

    #[test]
    fn reasoning_comes_back_as_it_was() {
        let with = |content: &str| {
            let item = json!({"type": "reasoning", "summary": [], "encrypted_content": content});
            json!({"input": [item, {"role": "user", "content": "x"}]})
        };
        assert_eq!(check(with(&Signature::new("thought", false, Place::default()).write())), Ok(()));
        refuses(with("bm90IG91cnM="), "could not be verified");
    }

    #[test]
    fn tools_and_formats_are_named() {
        refuses(json!({"tools": [{"type": "function", "name": "a b"}]}), "pattern");
        assert_eq!(check(json!({"tools": [{"type": "web_search"}]})), Ok(()));
        refuses(json!({"text": {"format": {"type": "json_schema", "schema": {}}}}), "text.format.name");
    }

    #[test]
    fn fields_of_chat_are_refused() {
        for field in ["n", "stop", "seed", "max_tokens", "messages"] {
            refuses(json!({field: 1}), field);
        }
    }

    #[test]
    fn sampling_effort_and_limit_follow_the_model() {
        refuses(json!({"model": "gpt-5", "temperature": 0.2}), "temperature");
        refuses(json!({"temperature": 7}), "temperature");
        refuses(json!({"model": "gpt-5", "reasoning": {"effort": "max"}}), "does not support 'max'");
        refuses(json!({"max_output_tokens": 5}), "max_output_tokens");
    }
}
