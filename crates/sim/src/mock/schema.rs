//! A value that fits a simple JSON Schema, the same each time for the same seed.
//!
//! Knows types, properties, items, enum, const, anyOf and oneOf (the first), allOf (all together), local
//! `$ref`, bounds on numbers and lengths, and the usual string formats. Patterns and conditions it does not.

use serde_json::{Map, Number, Value, json};

use super::answer::words;
use super::hash::draw;

/// A schema may refer to itself; below this depth only what is required is filled in.
const DEEP: usize = 8;
const DEEPEST: usize = 32;
/// However many items a schema asks for.
const MOST_ITEMS: u64 = 64;

pub(crate) fn fitting(schema: &Value, seed: u64) -> Value {
    Maker { root: schema, seed, drawn: 0 }.value(schema, 0)
}

struct Maker<'a> {
    root: &'a Value,
    seed: u64,
    drawn: u64,
}

impl Maker<'_> {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        draw(self.seed, self.drawn)
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > DEEPEST {
            return Value::Null;
        }
        if let Some(target) = schema["$ref"].as_str() {
            let pointer = target.trim_start_matches('#');
            let root = self.root;
            return root.pointer(pointer).map_or(Value::Null, |schema| self.value(schema, depth + 1));
        }
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        if let Some(options) = schema["enum"].as_array().filter(|options| !options.is_empty()) {
            let at = self.next() % options.len() as u64;
            return options[at as usize].clone();
        }
        for union in ["anyOf", "oneOf"] {
            if let Some(first) = schema[union].as_array().and_then(|options| options.first()) {
                return self.value(first, depth + 1);
            }
        }
        if let Some(all) = schema["allOf"].as_array() {
            return self.all(all, depth);
        }
        self.typed(schema, depth)
    }

    fn all(&mut self, schemas: &[Value], depth: usize) -> Value {
        let mut joined = Map::new();
        for schema in schemas {
            match self.value(schema, depth + 1) {
                Value::Object(fields) => joined.extend(fields),
                other => return other,
            }
        }
        Value::Object(joined)
    }

    fn typed(&mut self, schema: &Value, depth: usize) -> Value {
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.first().and_then(Value::as_str),
            kind => kind.as_str(),
        };
        match kind {
            Some("string") => Value::String(self.string(schema)),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(schema),
            Some("boolean") => Value::Bool(self.next().is_multiple_of(2)),
            Some("null") => Value::Null,
            Some("array") => self.array(schema, depth),
            Some("object") => self.object(schema, depth),
            _ if schema["properties"].is_object() => self.object(schema, depth),
            _ => json!({"answer": words(self.next(), 4)}),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut fields = Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if depth < DEEP || required.contains(&name.as_str()) {
                fields.insert(name.clone(), self.value(field, depth + 1));
            }
        }
        Value::Object(fields)
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"].as_u64().unwrap_or(MOST_ITEMS);
        let usual = if depth < DEEP { 2 } else { 0 };
        let count = usual.max(least).min(most).min(MOST_ITEMS);
        Value::Array((0..count).map(|_| self.value(&schema["items"], depth + 1)).collect())
    }

    fn string(&mut self, schema: &Value) -> String {
        let seed = self.next();
        let text = match schema["format"].as_str() {
            Some("date") => return "2026-11-30".into(),
            Some("time") => return "08:00:00Z".into(),
            Some("date-time") => return "2026-11-30T08:00:00Z".into(),
            Some("email") => return "ada@example.com".into(),
            Some("uri" | "url") => return "https://example.com/".into(),
            Some("uuid") => return format!("{:08x}-0000-4000-8000-{:012x}", seed as u32, seed >> 16),
            _ => words(seed, 3),
        };
        let least = schema["minLength"].as_u64().unwrap_or(0).min(10_000) as usize;
        let most = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize);
        let missing = least.saturating_sub(text.chars().count());
        text.chars().chain(std::iter::repeat_n('x', missing)).take(most).collect()
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let least = schema["minimum"].as_i64().or_else(|| Some(schema["exclusiveMinimum"].as_i64()? + 1));
        let most = schema["maximum"].as_i64().or_else(|| Some(schema["exclusiveMaximum"].as_i64()? - 1));
        let (low, high) = match (least, most) {
            (None, None) => (0, 99),
            (Some(low), None) => (low, low.saturating_add(99)),
            (None, Some(high)) => (high.saturating_sub(99), high),
            (Some(low), Some(high)) => (low, high.max(low)),
        };
        let span = high.abs_diff(low).saturating_add(1);
        let step = schema["multipleOf"].as_i64().filter(|step| *step > 1);
        let drawn = low.saturating_add_unsigned(self.next() % span);
        let fitted = step.map_or(drawn, |step| (drawn / step * step).max(low.div_euclid(step) * step));
        json!(if fitted < low { fitted.saturating_add(step.unwrap_or(1)) } else { fitted })
    }

    fn number(&mut self, schema: &Value) -> Value {
        let low = schema["minimum"].as_f64().or(schema["exclusiveMinimum"].as_f64());
        let high = schema["maximum"].as_f64().or(schema["exclusiveMaximum"].as_f64());
        let (low, high) = match (low, high) {
            (None, None) => (0.0, 100.0),
            (Some(low), None) => (low, low + 100.0),
            (None, Some(high)) => (high - 100.0, high),
            (Some(low), Some(high)) => (low, high),
        };
        // Never on the bounds, so that exclusive ones hold; sixteenths are exact in a float.
        let part = (self.next() % 15 + 1) as f64 / 16.0;
        Number::from_f64(low + (high - low) * part).map_or(Value::Null, Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_every_property_of_its_type() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "minLength": 80, "maxLength": 90},
            "kind": {"enum": ["a", "b"]},
            "age": {"type": "integer", "minimum": 18, "maximum": 20},
            "even": {"type": "integer", "minimum": 3, "multipleOf": 4},
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "when": {"type": "string", "format": "date"},
            "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 3},
            "nothing": {"type": ["null", "string"]},
        }, "$defs": {"item": {"type": "object", "properties": {"fixed": {"const": 7}}}}});
        for seed in 0..50 {
            let value = fitting(&schema, seed);
            assert!((80..=90).contains(&value["name"].as_str().unwrap().chars().count()));
            assert!(value["kind"] == "a" || value["kind"] == "b");
            assert!((18..=20).contains(&value["age"].as_i64().unwrap()));
            let even = value["even"].as_i64().unwrap();
            assert!(even >= 3 && even % 4 == 0, "{even}");
            let share = value["share"].as_f64().unwrap();
            assert!(share > 0.0 && share < 1.0);
            assert!(value["maybe"].is_boolean());
            assert_eq!(value["list"], json!([{"fixed": 7}, {"fixed": 7}, {"fixed": 7}]));
            assert_eq!(value, fitting(&schema, seed));
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "properties": {
            "next": {"$ref": "#"}, "more": {"type": "array", "items": {"$ref": "#"}, "minItems": 1000000},
        }});
        assert!(fitting(&json!({"$ref": "#"}), 1).is_null());
        assert!(fitting(&schema["properties"]["next"], 1).is_null());
    }

    #[test]
    fn odd_schemas_do_no_harm() {
        for schema in [json!(true), json!(null), json!({}), json!({"enum": []}), json!({"$ref": "#/nowhere"})]
        {
            fitting(&schema, 3);
        }
        let upside_down = json!({"type": "integer", "minimum": 5, "maximum": -5});
        assert_eq!(fitting(&upside_down, 3), 5);
        assert!(fitting(&json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}), 3).is_i64());
    }
}
