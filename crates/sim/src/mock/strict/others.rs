//! What the legacy Completions and Embeddings refuse.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::Check;
use super::common::{count_from, number_within, required, text_model};
use super::openai::sampling_ranges;

const COMPLETIONS: &[Check] =
    &[text_model, |request| required(request, "prompt"), completion_ranges, best_of];

const EMBEDDINGS: &[Check] =
    &[text_model, |request| required(request, "input"), input_is_not_empty, encoding, dimensions];

pub(in super::super) fn completions(request: &Value) -> Checked {
    super::all(COMPLETIONS, request)
}

pub(in super::super) fn embeddings(request: &Value) -> Checked {
    super::all(EMBEDDINGS, request)
}

fn completion_ranges(request: &Value) -> Checked {
    sampling_ranges(request)?;
    number_within(request, "n", 1.0, 128.0)?;
    count_from(request, "max_tokens", 0)
}

/// The best are chosen among all, so there are at least as many, and none can be sent before the last is done.
fn best_of(request: &Value) -> Checked {
    let Some(best_of) = request["best_of"].as_u64() else { return Ok(()) };
    let count = request["n"].as_u64().unwrap_or(1);
    if best_of < count {
        return Err(Refusal::bad("You requested that the server return more choices than it will generate.")
            .param("best_of"));
    }
    if best_of > 1 && request["stream"] == true {
        return Err(Refusal::bad("The 'best_of' parameter cannot be used with 'stream'.").param("best_of"));
    }
    Ok(())
}

fn input_is_not_empty(request: &Value) -> Checked {
    let is_empty = |input: &Value| match input {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(_) => false,
        _ => true,
    };
    let input = &request["input"];
    let any_is = is_empty(input) || input.as_array().is_some_and(|items| items.iter().any(is_empty));
    if any_is {
        return Err(
            Refusal::bad("'$.input' is invalid: it and its entries must not be empty.").param("input")
        );
    }
    if input.is_number() {
        return Err(Refusal::bad("'$.input' is invalid: expected a text or an array.").param("input"));
    }
    Ok(())
}

fn encoding(request: &Value) -> Checked {
    match request["encoding_format"].as_str() {
        None | Some("float" | "base64") => Ok(()),
        Some(other) => {
            let message = format!("Invalid value for 'encoding_format': '{other}'. Use 'float' or 'base64'.");
            Err(Refusal::bad(message).param("encoding_format"))
        }
    }
}

fn dimensions(request: &Value) -> Checked {
    let model = request["model"].as_str().unwrap_or_default();
    let most = if model.contains("3-small") { 1_536 } else { 3_072 };
    number_within(request, "dimensions", 1.0, f64::from(most))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn completions_need_a_prompt_and_enough_to_choose_from() {
        let with = |more: Value| {
            let mut request = json!({"model": "m", "prompt": "x"});
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            completions(&request)
        };
        assert!(with(json!({})).is_ok());
        assert!(with(json!({"n": 2, "best_of": 3})).is_ok());
        for bad in [
            json!({"prompt": null}),
            json!({"model": null}),
            json!({"n": 3, "best_of": 2}),
            json!({"best_of": 2, "stream": true}),
            json!({"temperature": 3}),
            json!({"max_tokens": -1}),
        ] {
            assert_eq!(with(bad.clone()).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn embeddings_need_input_that_is_not_empty() {
        let with = |more: Value| {
            let mut request = json!({"model": "text-embedding-3-small", "input": "x"});
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            embeddings(&request)
        };
        for good in [json!({}), json!({"input": [1, 2]}), json!({"input": [[1]]}), json!({"dimensions": 256})]
        {
            assert_eq!(with(good.clone()), Ok(()), "{good}");
        }
        for bad in [
            json!({"input": null}),
            json!({"input": ""}),
            json!({"input": []}),
            json!({"input": ["a", ""]}),
            json!({"input": 5}),
            json!({"encoding_format": "hex"}),
            json!({"dimensions": 5000}),
            json!({"dimensions": 0}),
        ] {
            assert_eq!(with(bad.clone()).unwrap_err().status, 400, "{bad}");
        }
    }
}
