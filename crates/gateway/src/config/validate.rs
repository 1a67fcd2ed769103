//! A tree of values held against the schema: unknown keys, settings of later
//! versions, wrong types, values out of range.
//!
//! Promise: what is wrong is reported with its place and taken out of the tree,
//! so that the rest can still be checked in the same go. Messages quote no
//! text that could be a misplaced secret.
//! Not here: what a text means (durations, addresses, names), which `resolve`
//! and the types of `file` know.

use serde_json::{Map, Value};

use super::later;
use super::layers::{Layer, Sources, join};
use super::problem::Problem;
use super::suggest;

/// Checks the whole layer and prunes what is wrong with it.
pub(super) fn validate(layer: &mut Layer, schema: &Value) -> Vec<Problem> {
    let mut check = Check { sources: &layer.sources, problems: Vec::new() };
    check.table(&mut layer.tree, schema, "");
    check.problems
}

struct Check<'a> {
    sources: &'a Sources,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn fault(&mut self, path: &str, message: String) {
        self.problems.push(Problem::new(self.sources.nearest(path), message));
    }

    fn table(&mut self, table: &mut Map<String, Value>, schema: &Value, path: &str) {
        table.retain(|key, value| self.entry(key, value, schema, path));
    }

    /// Whether this entry of the table at `path` may stay.
    fn entry(&mut self, key: &str, value: &mut Value, schema: &Value, path: &str) -> bool {
        let here = join(path, key);
        if self.later(&here) {
            return false;
        }
        let known = schema["properties"].get(key);
        let any = schema.get("additionalProperties").filter(|any| any.is_object());
        match known.or(any) {
            Some(inner) => self.value(value, inner, &here),
            None => {
                let keys = schema["properties"].as_object().into_iter().flatten();
                let mut names: Vec<&str> = keys.map(|(name, _)| name.as_str()).collect();
                names.extend(later::names_in(path));
                let hint = suggest::hint(key, names);
                self.fault(&here, format!("unknown key `{}`{hint}", here.escape_debug()));
                false
            }
        }
    }

    fn later(&mut self, path: &str) -> bool {
        let Some(name) = later::refused(path) else { return false };
        self.fault(path, format!("{name} is not in this version yet"));
        true
    }

    /// Whether this value may stay where its key is.
    fn value(&mut self, value: &mut Value, schema: &Value, path: &str) -> bool {
        if let Some(choices) = schema["enum"].as_array() {
            return self.choice(value, choices, path);
        }
        if !fits(value, &schema["type"]) {
            // `concurrency = { min = 4 }`: the keys say more than the type does.
            let later = value.as_object().is_some_and(|table| {
                table
                    .keys()
                    .any(|key| later::refused(&join(path, key)).is_some() && self.later(&join(path, key)))
            });
            if !later {
                self.fault(path, format!("`{path}` must be {}, not {}", wanted(schema), given(value)));
            }
            return false;
        }
        match value {
            Value::Object(table) => self.table(table, schema, path),
            Value::Array(items) => {
                let right = |(index, item): (usize, &mut Value)| {
                    let here = join(path, &index.to_string());
                    !self.later(&here) && self.value(item, &schema["items"], &here)
                };
                // What follows goes too: the indices of what stays are those in the file.
                let kept = items.iter_mut().enumerate().map(right).take_while(|right| *right).count();
                items.truncate(kept);
            }
            Value::Number(number) => return self.range(number.as_f64(), schema, path),
            _ => {}
        }
        true
    }

    fn range(&mut self, number: Option<f64>, schema: &Value, path: &str) -> bool {
        let Some(number) = number else { return true };
        let bound = |name: &str| schema[name].as_f64();
        let fault = match (bound("minimum"), bound("maximum")) {
            (Some(least), _) if number < least => format!("`{path}` must be at least {least}"),
            (_, Some(most)) if number > most => format!("`{path}` must be at most {most}"),
            _ => return true,
        };
        self.fault(path, fault);
        false
    }

    fn choice(&mut self, value: &mut Value, choices: &[Value], path: &str) -> bool {
        // A version looks like a number, so it may be written as one.
        if let Value::Number(number) = value {
            *value = Value::String(number.to_string());
        }
        if choices.contains(value) {
            return true;
        }
        let names: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
        let hint = value.as_str().map(|text| suggest::hint(text, names.iter().copied())).unwrap_or_default();
        let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        self.fault(path, format!("`{path}` must be {list}{hint}"));
        false
    }
}

fn fits(value: &Value, types: &Value) -> bool {
    let fits_one = |name: &Value| match name.as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    match types {
        Value::Array(types) => types.iter().any(fits_one),
        one => fits_one(one),
    }
}

fn wanted(schema: &Value) -> &str {
    match (schema["title"].as_str(), schema["type"].as_str()) {
        (Some("duration"), _) => "a duration such as \"5s\"",
        (Some("duration or learned"), _) => "a duration such as \"5s\", or \"learned\"",
        (Some("size"), _) => "a size such as \"64MiB\"",
        (Some("secret"), _) => "a secret: \"env:NAME\" or \"file:PATH\"",
        (_, Some("integer")) => "a whole number",
        (_, Some("boolean")) => "true or false",
        (_, Some("array")) => "a list",
        (_, Some("object")) => "a table",
        _ => "text in quotes",
    }
}

fn given(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{schema, text};
    use super::*;

    /// The problems of a text and what is left of it.
    fn check(text: &str) -> (Vec<String>, Value) {
        let mut layer = text::parse(text, "f").unwrap();
        let problems = validate(&mut layer, schema::schema());
        (problems.iter().map(ToString::to_string).collect(), Value::Object(layer.tree))
    }

    fn fault(text: &str) -> String {
        let (problems, _) = check(text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn unknown_keys_are_named_at_every_depth() {
        assert_eq!(fault("\nlistn = \"x\""), "f:2:1: unknown key `listn`; did you mean `listen`?");
        assert_eq!(
            fault("[timeouts]\ntotl = 1"),
            "f:2:1: unknown key `timeouts.totl`; did you mean `total`?"
        );
        assert_eq!(
            fault("[providers.x]\n  api-key = \"k\""),
            "f:2:3: unknown key `providers.x.api-key`; did you mean `api_key`?"
        );
        assert_eq!(
            fault("[providers.x.queue]\nmaxx = 1"),
            "f:2:1: unknown key `providers.x.queue.maxx`; did you mean `max`?"
        );
        assert_eq!(
            fault("[[models]]\ntargets = [\n  { modle = 1 },\n]"),
            "f:3:5: unknown key `models.0.targets.0.modle`; did you mean `model`?"
        );
        assert_eq!(fault("[cach]"), "f:1:2: unknown key `cach`; did you mean `cache`?");
        assert_eq!(fault("[hegde]"), "f:1:2: unknown key `hegde`; did you mean `hedge`?");
        assert_eq!(fault("[zebra]"), "f:1:2: unknown key `zebra`");
    }

    #[test]
    fn settings_of_later_versions_are_refused_with_their_place() {
        assert_eq!(
            fault("\n[budget]\nmax_spend = 1\nunpriced = 2"),
            "f:2:2: [budget] is not in this version yet"
        );
        assert_eq!(fault("[log]\ncapture = \"off\""), "f:2:1: `log.capture` is not in this version yet");
        assert_eq!(
            fault("concurrency = { min = 4, max = 9 }"),
            "f:1:17: `concurrency.min` is not in this version yet"
        );
        assert_eq!(
            fault("[[models]]\ntargets = [{ model = \"a\" }, { model = \"b\" }]"),
            "f:2:29: `models.0.targets.1` is not in this version yet"
        );
    }

    #[test]
    fn types_and_ranges_are_checked_without_quoting_the_value() {
        assert_eq!(fault("concurrency = \"many\""), "f:1:1: `concurrency` must be a whole number, not text");
        assert_eq!(fault("concurrency = 0"), "f:1:1: `concurrency` must be at least 1");
        assert_eq!(fault("[queue]\nmax = 2000000"), "f:2:1: `queue.max` must be at most 1000000");
        assert_eq!(fault("listen = 80"), "f:1:1: `listen` must be text in quotes, not a number");
        assert_eq!(
            fault("drain = true"),
            "f:1:1: `drain` must be a duration such as \"5s\", not true or false"
        );
        assert_eq!(fault("providers = [1]"), "f:1:1: `providers` must be a table, not a list");
        assert_eq!(
            fault("[providers]\nopenai = \"sk-x\""),
            "f:2:1: `providers.openai` must be a table, not text"
        );
        assert_eq!(fault("hosts = [1]"), "f:1:10: `hosts.0` must be text in quotes, not a number");
        assert_eq!(fault("open = \"yes\""), "f:1:1: `open` must be true or false, not text");
        assert_eq!(
            fault("[log]\nformat = \"jsn\""),
            "f:2:1: `log.format` must be `text` or `json`; did you mean `json`?"
        );
        assert_eq!(
            fault("[cache]\nwhen = \"determinstic\""),
            "f:2:1: `cache.when` must be `always` or `deterministic` or `never`; did you mean `deterministic`?"
        );
        assert_eq!(
            fault("[cache]\nwhen = false"),
            "f:2:1: `cache.when` must be `always` or `deterministic` or `never`"
        );
        assert_eq!(fault("coalesce = false"), "f:1:1: `coalesce` must be a table, not true or false");
    }

    #[test]
    fn a_version_may_be_written_as_a_number() {
        let (problems, tree) = check("[providers.a]\nhttp = 2\n[providers.b]\nhttp = 1.1");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(tree["providers"]["a"]["http"], "2");
        assert_eq!(tree["providers"]["b"]["http"], "1.1");
    }

    #[test]
    fn what_is_right_stays_and_all_that_is_wrong_is_reported() {
        let (problems, tree) =
            check("listen = \"x\"\nlistn = 1\nconcurrency = 0\n[budget]\n[queue]\nmax = 3");
        assert_eq!(problems.len(), 3);
        assert_eq!(tree, serde_json::json!({"listen": "x", "queue": {"max": 3}}));
    }
}
