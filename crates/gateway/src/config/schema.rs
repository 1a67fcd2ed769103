//! The JSON Schema of the configuration file, made from the doc comments and
//! types in `file`. It is what `sluicegate schema` prints, and what the loader
//! checks keys, types and ranges against: one list of definitions.

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::Value;

use super::file::File;

/// The schema as a value.
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.transforms.push(Box::new(NoNull));
            settings.transforms.push(Box::new(Unwrapped));
        });
        let mut schema = settings.into_generator().into_root_schema_for::<File>();
        schema.insert("title".to_owned(), "sluicegate.toml".into());
        schema.to_value()
    });
    &SCHEMA
}

/// The schema as text: what `sluicegate schema` prints.
pub fn render() -> String {
    // The alternate form of a `Value` is indented JSON, and it can't fail.
    format!("{:#}\n", schema())
}

/// Takes `null` out: an optional key is left out, since TOML has no null.
#[derive(Clone)]
struct NoNull;

impl Transform for NoNull {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
            choices.retain(|choice| choice["type"] != "null");
            if let [Value::Object(only)] = choices.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                for (key, value) in only {
                    if schema.get(&key).is_none() {
                        schema.insert(key, value);
                    }
                }
            }
        }
        transform_subschemas(self, schema);
    }
}

/// Joins the lines of a wrapped doc comment.
#[derive(Clone)]
struct Unwrapped;

impl Transform for Unwrapped {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        transform_subschemas(self, schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_described() {
        fn walk(node: &Value, path: &str) {
            for (key, inner) in node["properties"].as_object().into_iter().flatten() {
                let here = format!("{path}.{key}");
                let text = inner["description"].as_str().unwrap_or_default();
                assert!(text.ends_with('.') && !text.contains('\n'), "{here}: {text:?}");
                walk(inner, &here);
            }
            for inner in ["items", "additionalProperties"] {
                if node[inner].is_object() {
                    walk(&node[inner], &format!("{path}.*"));
                }
            }
        }
        walk(schema(), "");
    }

    #[test]
    fn no_null_is_left() {
        assert!(!render().contains("null"), "{}", render());
    }
}
