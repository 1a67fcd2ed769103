//! `POST /v1/embeddings`: unit vectors that follow from the input, as floats or as base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::hash::{Hash, draw_fraction};
use super::prefix_cache::tokens_of;
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;
use super::strict;

/// Bounds the work of one request; no model has more.
const MOST_DIMENSIONS: u64 = 8_192;
const MOST_INPUTS: usize = 2_048;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if asked.tuning.strict {
        strict::embeddings(&request)?;
    }
    let model = request["model"].as_str().unwrap_or("mock");
    let size = request["dimensions"].as_u64().unwrap_or(usual_dimensions(model)).clamp(1, MOST_DIMENSIONS);
    let as_base64 = request["encoding_format"] == "base64";
    let inputs = inputs(&request["input"]);
    if inputs.len() > MOST_INPUTS {
        return Err(Refusal::bad(format!("'input' has more than {MOST_INPUTS} entries.")).param("input"));
    }
    let mut rows = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.iter().enumerate() {
        let vector = vector(seed(model, input), size as usize);
        rows.push(Row { object: "embedding", index, embedding: written(&vector, as_base64) });
    }
    let tokens: u64 = inputs.iter().map(|input| tokens(input)).sum();
    let answer = Answer {
        object: "list",
        data: rows,
        model,
        usage: json!({"prompt_tokens": tokens, "total_tokens": tokens}),
    };
    Ok(Reply::json(&answer, tokens))
}

#[derive(serde::Serialize)]
struct Answer<'a> {
    object: &'static str,
    data: Vec<Row>,
    model: &'a str,
    usage: Value,
}

#[derive(serde::Serialize)]
struct Row {
    object: &'static str,
    index: usize,
    embedding: Box<RawValue>,
}

fn usual_dimensions(model: &str) -> u64 {
    if model.contains("3-large") { 3_072 } else { 1_536 }
}

/// A text, a list of texts, a list of tokens, or a list of such lists.
fn inputs(input: &Value) -> Vec<&Value> {
    match input {
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_number) => vec![input],
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    }
}

fn seed(model: &str, input: &Value) -> u64 {
    let hash = Hash::new(4).text(model);
    match input {
        Value::String(text) => hash.text(text).finish(),
        other => hash.text(&other.to_string()).finish(),
    }
}

fn tokens(input: &Value) -> u64 {
    match input {
        Value::String(text) => tokens_of(text.len() as u64).max(1),
        Value::Array(tokens) => tokens.len() as u64,
        _ => 1,
    }
}

fn vector(seed: u64, size: usize) -> Vec<f32> {
    let raw: Vec<f64> = (0..size).map(|at| draw_fraction(seed, at as u64) * 2.0 - 1.0).collect();
    let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    raw.iter().map(|x| (x / length) as f32).collect()
}

/// Base64 is of little-endian floats of 32 bits.
fn written(vector: &[f32], as_base64: bool) -> Box<RawValue> {
    let written = if as_base64 {
        let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
        to_raw_value(&STANDARD.encode(bytes))
    } else {
        to_raw_value(vector)
    };
    // Finite floats and plain text always serialise.
    written.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_unit_length_and_follow_from_the_input() {
        let one = vector(seed("m", &json!("a")), 256);
        let length: f32 = one.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-4);
        assert_eq!(one, vector(seed("m", &json!("a")), 256));
        assert_ne!(one, vector(seed("m", &json!("b")), 256));
        assert_ne!(one, vector(seed("n", &json!("a")), 256));
    }

    #[test]
    fn base64_and_floats_are_the_same_numbers() {
        let vector = vector(1, 3);
        let floats: Vec<f32> = serde_json::from_str(written(&vector, false).get()).unwrap();
        let text: String = serde_json::from_str(written(&vector, true).get()).unwrap();
        let bytes = STANDARD.decode(text).unwrap();
        let decoded: Vec<f32> = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!((&floats, &decoded), (&vector, &vector));
    }

    #[test]
    fn inputs_come_in_four_shapes() {
        for (input, count) in [
            (json!("a"), 1),
            (json!(["a", "b"]), 2),
            (json!([1, 2, 3]), 1),
            (json!([[1, 2], [3]]), 2),
            (json!([]), 0),
        ] {
            assert_eq!(inputs(&input).len(), count, "{input}");
        }
        assert_eq!(tokens(&json!([1, 2, 3])), 3);
    }
}
