//! What several tables need.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::reply::{Checked, Refusal};

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A field that has to be there.
pub(super) fn required(request: &Value, name: &str) -> Checked {
    if request[name].is_null() {
        return Err(missing(name));
    }
    Ok(())
}

pub(super) fn missing(param: &str) -> Refusal {
    Refusal::bad(format!("Missing required parameter: '{param}'."))
        .param(param)
        .code("missing_required_parameter")
}

pub(super) fn text_model(request: &Value) -> Checked {
    match request["model"].as_str() {
        Some(model) if !model.is_empty() => Ok(()),
        _ => Err(Refusal::bad("you must provide a model parameter").param("model")),
    }
}

/// A number between two bounds, where it is given at all.
pub(super) fn number_within(request: &Value, name: &str, low: f64, high: f64) -> Checked {
    let value = &request[name];
    match value.as_f64() {
        _ if value.is_null() => Ok(()),
        Some(number) if (low..=high).contains(&number) => Ok(()),
        _ => Err(Refusal::bad(format!("Invalid '{name}': expected a number from {low} to {high}."))
            .param(name)
            .code("invalid_value")),
    }
}

/// A whole number of at least `low`, where it is given at all.
pub(super) fn count_from(request: &Value, name: &str, low: u64) -> Checked {
    let value = &request[name];
    match value.as_u64() {
        _ if value.is_null() => Ok(()),
        Some(number) if number >= low => Ok(()),
        _ => Err(Refusal::bad(format!("Invalid '{name}': expected a whole number of at least {low}."))
            .param(name)
            .code("integer_below_min_value")),
    }
}

/// Letters, digits, `_` and `-`, and not too many.
pub(super) fn is_name(name: &str, most: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=most).contains(&name.len()) && name.bytes().all(allowed)
}

/// The first of these names that an object has a field of, be it null.
pub(super) fn first_of<'a>(object: &Value, names: &[&'a str]) -> Option<&'a str> {
    names.iter().find(|name| object.get(**name).is_some()).copied()
}

/// Of at least one byte.
pub(super) fn is_base64(data: &str) -> bool {
    STANDARD.decode(data).is_ok_and(|bytes| !bytes.is_empty())
}

pub(super) fn is_address(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// The first of these names that comes twice.
pub(super) fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        assert!(is_name("get_weather-2", 64));
        for bad in ["", "a b", "a.b", "é", &"a".repeat(65)] {
            assert!(!is_name(bad, 64), "{bad}");
        }
        assert_eq!(repeated(["a", "b", "a"].into_iter()), Some("a"));
        assert_eq!(repeated(["a", "b"].into_iter()), None);
    }

    #[test]
    fn a_field_is_there_even_as_null() {
        assert_eq!(first_of(&json!({"b": null}), &["a", "b"]), Some("b"));
        assert_eq!(first_of(&json!({"b": 1}), &["a"]), None);
        assert_eq!(first_of(&json!("a"), &["a"]), None);
    }

    #[test]
    fn numbers_are_checked_where_given() {
        assert!(number_within(&json!({}), "t", 0.0, 2.0).is_ok());
        assert!(number_within(&json!({"t": 2}), "t", 0.0, 2.0).is_ok());
        assert!(number_within(&json!({"t": 2.1}), "t", 0.0, 2.0).is_err());
        assert!(number_within(&json!({"t": "1"}), "t", 0.0, 2.0).is_err());
        assert!(count_from(&json!({"n": 0}), "n", 1).is_err());
        assert!(count_from(&json!({"n": -1}), "n", 0).is_err());
    }
}
