//! The environment's layers: `SLUICEGATE_*`, and the variables of llm-batcher.
//!
//! A key's variable is its path in upper case with `__` between levels:
//! `timeouts.total` is `SLUICEGATE_TIMEOUTS__TOTAL`. A provider's name matches
//! whatever its case, with `_` for every other character.
//! Promise: an unknown `SLUICEGATE_` variable is a problem, never ignored, save
//! those that Kubernetes makes for a service of the gate's name.

use serde_json::Value;

use super::environment::Environment;
use super::later;
use super::layers::{Layer, Source};
use super::problem::Problem;
use super::suggest;
use super::text;

const PREFIX: &str = "SLUICEGATE_";

/// Secrets that are read by reference, and the file's own path: no key's.
pub(super) const CONFIG: &str = "SLUICEGATE_CONFIG";
pub(super) const ADMIN_TOKEN: &str = "SLUICEGATE_ADMIN_TOKEN";
pub(super) const VIEWER_TOKEN: &str = "SLUICEGATE_VIEWER_TOKEN";

/// The layer of the `SLUICEGATE_*` variables. `lower` is what the file and the
/// flags say: it has the names of providers and the references to variables.
pub(super) fn ours(
    env: &Environment,
    schema: &Value,
    lower: &[&Layer],
    problems: &mut Vec<Problem>,
) -> Layer {
    let mut referenced = vec![CONFIG.to_owned(), ADMIN_TOKEN.to_owned(), VIEWER_TOKEN.to_owned()];
    for layer in lower {
        references(&Value::Object(layer.tree.clone()), &mut referenced);
    }
    for (_, value) in env.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        referenced.extend(value.strip_prefix("env:").map(str::to_owned));
    }
    let mut layer = Layer::default();
    for (name, value) in env.iter() {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if referenced.iter().any(|known| known == name) || of_kubernetes(rest) {
            continue;
        }
        let source = Source::Variable(name.to_owned());
        match find(rest, schema, lower) {
            Found::Key(path, shape) => layer.put(&path, typed(value, &shape), &source),
            Found::Table => {
                let names = names(schema);
                let prefix = format!("{name}__");
                let example = names.iter().find(|n| n.starts_with(&prefix));
                let example = example.map(|n| format!(", such as {n}")).unwrap_or_default();
                problems.push(Problem::new(source, format!("this names a table: set its keys{example}")));
            }
            Found::Nothing => {
                let hint = suggest::hint(name, names(schema).iter().map(String::as_str));
                problems.push(Problem::new(source, format!("unknown variable{hint}")));
            }
        }
    }
    layer
}

enum Found {
    Key(Vec<String>, Value),
    Table,
    Nothing,
}

fn find(name: &str, schema: &Value, lower: &[&Layer]) -> Found {
    let mut node = schema;
    let mut path: Vec<String> = Vec::new();
    for segment in name.split("__") {
        let key = segment.to_lowercase();
        if let Some(inner) = node["properties"].get(&key) {
            path.push(key);
            node = inner;
            continue;
        }
        path.push(key);
        if later::refused(&path.join(".")).is_some() {
            return Found::Key(path, Value::Null);
        }
        let any = &node["additionalProperties"];
        if !any.is_object() || segment.is_empty() {
            return Found::Nothing;
        }
        node = any;
        let spelled = path.pop().map(|key| provider_name(&key, segment, lower));
        path.extend(spelled);
    }
    if node["type"] == "object" { Found::Table } else { Found::Key(path, node.clone()) }
}

/// The provider that a segment means: one that is named already, else itself.
fn provider_name(lowered: &str, segment: &str, lower: &[&Layer]) -> String {
    let upper = |name: &str| name.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let providers = lower.iter().filter_map(|layer| layer.tree.get("providers")?.as_object());
    let named = providers.flat_map(|table| table.keys()).find(|name| upper(name) == segment.to_uppercase());
    named.cloned().unwrap_or_else(|| lowered.to_owned())
}

/// A variable's text as the type that its key has, where it reads as one.
pub(super) fn typed(text: &str, shape: &Value) -> Value {
    let parsed = match shape["type"].as_str() {
        Some("integer") => text.trim().parse::<i64>().ok().map(Value::from),
        Some("boolean") => truth(text).map(Value::from),
        Some("array") if text.trim_start().starts_with('[') => text::parse_value(text),
        Some("array") => Some(text.split(',').map(|item| Value::from(item.trim())).collect()),
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::from(text))
}

fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Kubernetes describes every service to every pod by such variables; a service
/// named `sluicegate` is no mistake in the gate's configuration.
fn of_kubernetes(rest: &str) -> bool {
    let rest = rest.strip_prefix("SERVICE_").unwrap_or(rest);
    rest == "HOST" || rest == "PORT" || rest.starts_with("PORT_")
}

/// The names that `env:NAME` values refer to.
fn references(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => names.extend(text.strip_prefix("env:").map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        Value::Object(table) => table.values().for_each(|item| references(item, names)),
        _ => {}
    }
}

/// Every variable that sets a key, for suggestions.
fn names(schema: &Value) -> Vec<String> {
    fn walk(node: &Value, prefix: &str, names: &mut Vec<String>) {
        for (key, inner) in node["properties"].as_object().into_iter().flatten() {
            let name = format!("{prefix}{}", key.to_uppercase());
            match inner["type"] == "object" {
                true => walk(inner, &format!("{name}__"), names),
                false => names.push(name),
            }
        }
    }
    let mut all = Vec::new();
    walk(schema, PREFIX, &mut all);
    all
}

/// llm-batcher's variables: name, the key it sets, the unit to add.
const BATCH: [(&str, &str, &str); 4] = [
    ("BATCH_MAX_SIZE", "window.max_size", ""),
    ("BATCH_MAX_WAIT_MS", "window.max_wait", "ms"),
    ("BATCH_MAX_CONCURRENCY", "concurrency", ""),
    ("BATCH_TIMEOUT_S", "timeouts.total", "s"),
];
const GATE: [(&str, &str, &str); 4] = [
    ("MAX_INFLIGHT", "gate.max_in_flight", ""),
    ("MAX_QUEUE", "gate.max_waiting", ""),
    ("ACQUIRE_TIMEOUT_S", "gate.wait", "s"),
    ("RETRY_AFTER_S", "gate.retry_after", "s"),
];

/// What llm-batcher's variables come to.
#[derive(Default)]
pub(super) struct Batcher {
    pub said: Layer,
    /// Below all that anybody says.
    pub implied: Layer,
}

/// llm-batcher's variables between what ranks above them and the file, in that order. With the window off the other
/// `BATCH_*` do nothing, as they do there; who set them is told so.
pub(super) fn batcher(
    env: &Environment,
    others: &[&Layer; 2],
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<String>,
) -> Batcher {
    let mut batcher = Batcher::default();
    let Batcher { said, implied } = &mut batcher;
    let own = env.get("BATCH_ENABLED").and_then(|text| {
        if truth(text).is_none() {
            problems.push(Problem::new(
                Source::Batcher("BATCH_ENABLED"),
                "must be 1, true, yes, on, or 0, false, no, off",
            ));
        }
        truth(text)
    });
    if let Some(enabled) = own {
        said.put(&path("window.enabled"), enabled.into(), &Source::Batcher("BATCH_ENABLED"));
    }
    let [above, below] = others.map(window_enabled);
    let on = above.or(own).or(below).unwrap_or(false);
    for (name, key, unit) in BATCH {
        match env.get(name) {
            Some(text) if on => set(said, name, key, unit, text),
            Some(_) => warnings.push(format!("{name} does nothing: the window is off (BATCH_ENABLED)")),
            None => {}
        }
    }
    if on && own == Some(true) {
        let source = Source::Implied("BATCH_ENABLED");
        implied.put(&path("concurrency"), 8.into(), &source);
        implied.put(&path("timeouts.total"), "60s".into(), &source);
    }
    for (name, key, unit) in GATE {
        if let Some(text) = env.get(name) {
            set(said, name, key, unit, text);
        }
    }
    batcher
}

fn window_enabled(layer: &Layer) -> Option<bool> {
    layer.tree.get("window")?.get("enabled")?.as_bool()
}

fn set(layer: &mut Layer, name: &'static str, key: &str, unit: &str, text: &str) {
    let value = match text.trim().parse::<i64>() {
        Ok(number) if unit.is_empty() => Value::from(number),
        _ => Value::from(format!("{}{unit}", text.trim())),
    };
    layer.put(&path(key), value, &Source::Batcher(name));
}

fn path(dotted: &str) -> Vec<String> {
    dotted.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema;
    use super::*;

    fn read<const N: usize>(variables: [(&str, &str); N], file: &str) -> (Value, Vec<String>) {
        let file = text::parse(file, "f").unwrap();
        let mut problems = Vec::new();
        let layer = ours(&Environment::of(variables), schema::schema(), &[&file], &mut problems);
        (Value::Object(layer.tree), problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_path_in_upper_case_sets_its_key_with_its_type() {
        let variables = [
            ("SLUICEGATE_LISTEN", ":80"),
            ("SLUICEGATE_TIMEOUTS__TOTAL", "30s"),
            ("SLUICEGATE_PROVIDERS__OPENAI__CONCURRENCY", "8"),
            ("SLUICEGATE_OPEN", "yes"),
            ("SLUICEGATE_HOSTS", "a.example, b.example"),
            ("SLUICEGATE_CORS__ORIGINS", "[\"https://a.example\"]"),
            ("SLUICEGATE_DRAIN", ""),
        ];
        let (tree, problems) = read(variables, "");
        assert!(problems.is_empty(), "{problems:?}");
        let expected = json!({
            "cors": {"origins": ["https://a.example"]},
            "hosts": ["a.example", "b.example"],
            "listen": ":80",
            "open": true,
            "providers": {"openai": {"concurrency": 8}},
            "timeouts": {"total": "30s"},
        });
        assert_eq!(tree, expected);
    }

    #[test]
    fn a_provider_is_found_by_the_name_it_already_has() {
        let (tree, _) = read([("SLUICEGATE_PROVIDERS__MY_LLM__HTTP", "2")], "[providers.My-LLM]");
        assert_eq!(tree, json!({"providers": {"My-LLM": {"http": "2"}}}));
    }

    #[test]
    fn unknown_variables_are_named_with_the_nearest() {
        let (_, problems) = read([("SLUICEGATE_LISTN", "x")], "");
        assert_eq!(problems, ["SLUICEGATE_LISTN: unknown variable; did you mean `SLUICEGATE_LISTEN`?"]);
        let (_, problems) = read([("SLUICEGATE_TIMEOUTS__TOTL", "x")], "");
        assert!(problems[0].ends_with("did you mean `SLUICEGATE_TIMEOUTS__TOTAL`?"), "{problems:?}");
        let (_, problems) = read([("SLUICEGATE_TIMEOUTS", "5s")], "");
        assert!(problems[0].ends_with("such as SLUICEGATE_TIMEOUTS__CONNECT"), "{problems:?}");
        let deep = format!("SLUICEGATE_{}", "A__".repeat(20_000));
        let (_, problems) = read([(deep.as_str(), "x")], "");
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn secrets_and_kubernetes_are_not_mistakes() {
        let variables = [
            ("SLUICEGATE_ADMIN_TOKEN", "x"),
            ("SLUICEGATE_MY_KEY", "x"),
            ("SLUICEGATE_OTHER_KEY", "x"),
            ("SLUICEGATE_PROVIDERS__GROQ__API_KEY", "env:SLUICEGATE_OTHER_KEY"),
            ("SLUICEGATE_SERVICE_HOST", "10.0.0.1"),
            ("SLUICEGATE_SERVICE_PORT_HTTP", "8080"),
            ("SLUICEGATE_PORT", "tcp://10.0.0.1:8080"),
            ("SLUICEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ];
        let (_, problems) = read(variables, "[providers.openai]\napi_key = \"env:SLUICEGATE_MY_KEY\"");
        assert!(problems.is_empty(), "{problems:?}");
    }

    fn batch<const N: usize>(variables: [(&str, &str); N], file: &str) -> (Value, Vec<String>, Vec<String>) {
        let file = text::parse(file, "f").unwrap();
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        let env = Environment::of(variables);
        let batcher = batcher(&env, &[&Layer::default(), &file], &mut problems, &mut warnings);
        let mut layer = batcher.said;
        layer.merge(batcher.implied);
        (Value::Object(layer.tree), problems.iter().map(ToString::to_string).collect(), warnings)
    }

    #[test]
    fn with_the_window_off_batch_variables_do_nothing_and_say_so() {
        for off in ["0", "false", "no", "off"] {
            let file = "[window]\nenabled = true";
            let (tree, problems, warnings) =
                batch([("BATCH_ENABLED", off), ("BATCH_TIMEOUT_S", "9"), ("MAX_INFLIGHT", "7")], file);
            assert_eq!(tree, json!({"window": {"enabled": false}, "gate": {"max_in_flight": 7}}));
            assert!(problems.is_empty());
            assert_eq!(warnings, ["BATCH_TIMEOUT_S does nothing: the window is off (BATCH_ENABLED)"]);
        }
        let (tree, _, warnings) = batch([("BATCH_ENABLED", ""), ("BATCH_TIMEOUT_S", "9")], "");
        assert_eq!((tree, warnings.len()), (json!({}), 1));
    }

    #[test]
    fn with_the_window_on_they_set_their_keys() {
        let (tree, ..) = batch(
            [
                ("BATCH_ENABLED", "on"),
                ("BATCH_MAX_CONCURRENCY", "9"),
                ("BATCH_MAX_WAIT_MS", "20"),
                ("BATCH_TIMEOUT_S", "30"),
            ],
            "",
        );
        let expected = json!({
            "window": {"enabled": true, "max_wait": "20ms"},
            "concurrency": 9,
            "timeouts": {"total": "30s"},
        });
        assert_eq!(tree, expected);
        let (_, problems, _) = batch([("BATCH_ENABLED", "maybe")], "");
        assert_eq!(problems.len(), 1);
        // Switched on elsewhere, it is on for them too, without that tool's defaults.
        let (tree, _, warnings) = batch([("BATCH_MAX_SIZE", "4")], "[window]\nenabled = true");
        assert_eq!((tree, warnings.len()), (json!({"window": {"max_size": 4}}), 0));
    }

    #[test]
    fn with_nothing_else_said_the_window_brings_that_tools_bounds() {
        let (tree, ..) = batch([("BATCH_ENABLED", "yes")], "");
        let expected = json!({"window": {"enabled": true}, "concurrency": 8, "timeouts": {"total": "60s"}});
        assert_eq!(tree, expected);
    }
}
