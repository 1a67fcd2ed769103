//! The form of the answer's text.

use serde_json::Value;

use crate::translate::canon::Format;
use crate::translate::json::Object;

/// What the provider has no strict form of.
const LOOSE: [&str; 8] =
    ["allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "dependentSchemas"];

/// Writes it. Where nobody said whether a schema is to be kept to, it is wherever the provider can do so: it refuses
/// to be strict about schemas that leave anything open, which others take.
pub(super) fn write(body: &mut Object<'_>, wanted: &Format<'_>) {
    let mut format = body.object("response_format");
    match wanted {
        Format::Object => format.text("type", "json_object"),
        Format::Schema { name, description, schema, strict } => {
            format.text("type", "json_schema");
            let mut form = format.object("json_schema");
            form.text("name", name.as_deref().unwrap_or("output"));
            form.maybe("description", description.as_deref());
            form.json("schema", &schema.0);
            form.flag("strict", strict.unwrap_or_else(|| can_be_strict(&schema.0)));
            form.end();
        }
    }
    format.end();
}

fn can_be_strict(schema: &str) -> bool {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    schema["type"] == "object" && schema.get("anyOf").is_none() && is_closed(&schema)
}

/// Whether every object in a schema names all that is in it and nothing else may be.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Array(several) => several.iter().all(is_closed),
        Value::Object(members) => {
            let is_object = members.contains_key("properties") || schema["type"] == "object";
            let closed = !is_object || (schema["additionalProperties"] == false && needs_all(schema));
            closed && !LOOSE.iter().any(|word| members.contains_key(*word)) && members.values().all(is_closed)
        }
        _ => true,
    }
}

fn needs_all(object: &Value) -> bool {
    let needed = object["required"].as_array().map_or(&[][..], Vec::as_slice);
    let mut properties =
        object["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    properties.all(|name| needed.iter().any(|needed| needed == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_schema_that_leaves_nothing_open_is_asked_for_strictly() {
        let table = [
            (r#"{"type":"object","properties":{},"additionalProperties":false}"#, true),
            (
                r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/P"}},"required":["p"],"additionalProperties":false,
                "$defs":{"P":{"type":"object","properties":{"n":{"type":"string"}},"required":["n"],"additionalProperties":false}}}"##,
                true,
            ),
            (r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#, false),
            (r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#, false),
            (
                r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}"#,
                false,
            ),
            (r#"{"type":"array"}"#, false),
            (r#"{"type":"object","additionalProperties":false,"allOf":[]}"#, false),
            ("7", false),
        ];
        for (schema, strict) in table {
            assert_eq!(can_be_strict(schema), strict, "{schema}");
        }
    }
}
