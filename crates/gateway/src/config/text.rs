//! TOML text to a layer, each node with its line and column.

use std::sync::Arc;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::layers::{Layer, Source, join};
use super::problem::{ConfigError, Problem};

/// More would be the echo of the first one.
const MOST_ERRORS: usize = 5;

/// Parses a whole file. `file` is the name that errors and `check` show.
pub(super) fn parse(text: &str, file: &str) -> Result<Layer, ConfigError> {
    let lines = Lines::new(text, file);
    let (table, errors) = DeTable::parse_recoverable(text);
    // The parser's own display quotes the line, which may hold a secret; its
    // bare message doesn't.
    let problems = errors.iter().take(MOST_ERRORS).map(|error| {
        let at = lines.source(error.span().map_or(0, |span| span.start));
        Problem::new(at, format!("not TOML: {}", error.message()))
    });
    ConfigError::check(problems.collect())?;
    let mut layer = Layer::default();
    layer.tree = convert_table(table.get_ref(), "", &lines, &mut layer);
    Ok(layer)
}

/// Parses one value, as a variable may hold it.
pub(super) fn parse_value(text: &str) -> Option<Value> {
    let value = DeValue::parse(text).ok()?;
    Some(convert(value.get_ref(), "", &Lines::new("", ""), &mut Layer::default()))
}

fn convert_table(table: &DeTable<'_>, path: &str, lines: &Lines, layer: &mut Layer) -> Map<String, Value> {
    let mut entries: Vec<_> = table.iter().collect();
    // The parser sorts by name; the file's order decides default providers.
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut map = Map::new();
    for (key, value) in entries {
        let here = join(path, key.get_ref());
        layer.sources.set(here.clone(), lines.source(key.span().start));
        map.insert(key.get_ref().to_string(), convert(value.get_ref(), &here, lines, layer));
    }
    map
}

fn convert(value: &DeValue<'_>, path: &str, lines: &Lines, layer: &mut Layer) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Value::Number(number.into()),
            Err(_) => Value::String(integer.as_str().to_owned()),
        },
        // TOML has infinities and JSON hasn't; as text no number takes them.
        DeValue::Float(float) => match float.as_str().parse::<f64>().ok().and_then(Number::from_f64) {
            Some(number) => Value::Number(number),
            None => Value::String(float.as_str().to_owned()),
        },
        DeValue::Array(items) => {
            let item = |(index, item): (usize, &Spanned<DeValue<'_>>)| {
                let here = join(path, &index.to_string());
                layer.sources.set(here.clone(), lines.source(item.span().start));
                convert(item.get_ref(), &here, lines, layer)
            };
            Value::Array(items.iter().enumerate().map(item).collect())
        }
        DeValue::Table(table) => Value::Object(convert_table(table, path, lines, layer)),
    }
}

/// Byte offsets to lines and columns, both from 1; a column is a character.
struct Lines<'a> {
    text: &'a str,
    file: Arc<str>,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, file: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, file: file.into(), starts: std::iter::once(0).chain(starts).collect() }
    }

    fn source(&self, offset: usize) -> Source {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        Source::File { file: Arc::clone(&self.file), line, column: before.chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(line: usize, column: usize) -> Source {
        Source::File { file: "f.toml".into(), line, column }
    }

    #[test]
    fn every_node_knows_its_place() {
        let text = "a = 1\n# é\n[t]\nb = \"x\"\n[[m]]\nn = [1, 2]\n";
        let layer = parse(text, "f.toml").unwrap();
        assert_eq!(Value::Object(layer.tree), json!({"a": 1, "t": {"b": "x"}, "m": [{"n": [1, 2]}]}));
        assert_eq!(layer.sources.of("a"), at(1, 1));
        assert_eq!(layer.sources.of("t"), at(3, 2));
        assert_eq!(layer.sources.of("t.b"), at(4, 1));
        assert_eq!(layer.sources.of("m.0.n"), at(6, 1));
        assert_eq!(layer.sources.of("m.0.n.1"), at(6, 9));
    }

    #[test]
    fn keys_keep_the_files_order() {
        let layer = parse("[p.zeta]\n[p.alpha]\n", "f.toml").unwrap();
        let names: Vec<_> = layer.tree["p"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["zeta", "alpha"]);
    }

    #[test]
    fn a_syntax_error_has_a_place_and_quotes_nothing() {
        for text in
            ["a = 1\nk = \"sk-sentinel\nb = 2\n", "\nk = sk-sentinel\n", "\n\"sk-sentinel", "k = 1\nk = 2"]
        {
            let error = parse(text, "f.toml").unwrap_err();
            let shown = error.to_string();
            assert!(shown.starts_with("f.toml:2:") || shown.starts_with("f.toml:1:"), "{shown}");
            assert!(!shown.contains("sentinel"), "{shown}");
        }
    }

    #[test]
    fn numbers_beyond_json_become_text() {
        let layer =
            parse("a = inf\nb = 99999999999999999999\nc = 0x10\nd = 1_000\ne = 1979-05-27\n", "f").unwrap();
        let expected =
            json!({"a": "inf", "b": "99999999999999999999", "c": 16, "d": 1000, "e": "1979-05-27"});
        assert_eq!(Value::Object(layer.tree), expected);
    }
}
