//! Values from several sources, laid over one another.
//!
//! A layer is a tree of values and, beside it, where each node of the tree came
//! from, by dotted path. Layers merge from the highest down: what is already
//! there wins, so the order of keys is flags, environment, file, which is also
//! the order that decides a default provider. A list is one value: it is
//! replaced, never joined.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    /// A default that another setting brings with it.
    Implied(&'static str),
    File {
        file: Arc<str>,
        line: usize,
        column: usize,
    },
    /// A variable that llm-batcher reads too.
    Batcher(&'static str),
    Variable(String),
    Flag(&'static str),
}

impl Source {
    /// The higher one wins.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default | Self::Implied(_) => 0,
            Self::File { .. } => 1,
            Self::Batcher(_) => 2,
            Self::Variable(_) => 3,
            Self::Flag(_) => 4,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Implied(name) => write!(f, "default with {name}"),
            Self::File { file, line, .. } => write!(f, "{file}:{line}"),
            Self::Batcher(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Where every value came from, by dotted path.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Source>);

impl Sources {
    pub(super) fn set(&mut self, path: impl Into<String>, source: Source) {
        self.0.insert(path.into(), source);
    }

    pub(super) fn of(&self, path: &str) -> Source {
        self.0.get(path).cloned().unwrap_or(Source::Default)
    }

    /// The source of the innermost node on this path that has one.
    pub(super) fn nearest(&self, path: &str) -> Source {
        let mut path = path;
        loop {
            if let Some(source) = self.0.get(path) {
                return source.clone();
            }
            match path.rsplit_once('.') {
                Some((parent, _)) => path = parent,
                None => return Source::Default,
            }
        }
    }

    fn copy_below(&mut self, other: &Self, path: &str) {
        let inner = format!("{path}.");
        let here = other.0.get_key_value(path).into_iter();
        let below = other.0.range(inner.clone()..).take_while(|(key, _)| key.starts_with(&inner));
        self.0.extend(here.chain(below).map(|(key, source)| (key.clone(), source.clone())));
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub tree: Map<String, Value>,
    pub sources: Sources,
}

impl Layer {
    /// Sets one value, with the tables around it, where nothing is set yet.
    pub(super) fn put(&mut self, path: &[String], value: Value, source: &Source) {
        let mut single = Self::default();
        let mut node = value;
        for depth in (1..=path.len()).rev() {
            single.sources.set(path[..depth].join("."), source.clone());
            node = Value::Object(Map::from_iter([(path[depth - 1].clone(), node)]));
        }
        if let Value::Object(tree) = node {
            single.tree = tree;
            self.merge(single);
        }
    }

    /// Fills in what this layer leaves open.
    pub(super) fn merge(&mut self, below: Self) {
        fill(&mut self.tree, below.tree, "", &mut self.sources, &below.sources);
    }

    /// Takes one node out; false where there is none.
    pub(super) fn remove(&mut self, path: &str) -> bool {
        let (tables, key) = match path.rsplit_once('.') {
            Some((tables, key)) => (tables.split('.').collect(), key),
            None => (Vec::new(), path),
        };
        let mut table = &mut self.tree;
        for name in tables {
            match table.get_mut(name) {
                Some(Value::Object(inner)) => table = inner,
                _ => return false,
            }
        }
        table.shift_remove(key).is_some()
    }
}

fn fill(
    into: &mut Map<String, Value>,
    below: Map<String, Value>,
    path: &str,
    sources: &mut Sources,
    below_sources: &Sources,
) {
    for (key, value) in below {
        let here = join(path, &key);
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(below)) => {
                fill(into, below, &here, sources, below_sources);
            }
            (Some(_), _) => {}
            (None, value) => {
                sources.copy_below(below_sources, &here);
                into.insert(key, value);
            }
        }
    }
}

/// The path of a key in the table at `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(path: &str, value: Value, source: Source) -> Layer {
        let mut layer = Layer::default();
        layer.put(&path.split('.').map(str::to_owned).collect::<Vec<_>>(), value, &source);
        layer
    }

    #[test]
    fn the_higher_layer_wins_and_the_lower_fills_in() {
        let mut top = layer("timeouts.total", json!("1s"), Source::Flag("--x"));
        top.merge(layer("timeouts.total", json!("2s"), Source::Batcher("B")));
        top.merge(layer("timeouts.connect", json!("3s"), Source::Batcher("B")));
        assert_eq!(Value::Object(top.tree), json!({"timeouts": {"total": "1s", "connect": "3s"}}));
        assert_eq!(top.sources.of("timeouts.total"), Source::Flag("--x"));
        assert_eq!(top.sources.of("timeouts.connect"), Source::Batcher("B"));
        assert_eq!(top.sources.of("timeouts.stall"), Source::Default);
        assert_eq!(top.sources.nearest("timeouts.stall"), Source::Flag("--x"));
    }

    #[test]
    fn lists_are_replaced_with_their_sources() {
        let mut top = layer("hosts", json!(["a"]), Source::Flag("--x"));
        let mut low = layer("hosts", json!(["b", "c"]), Source::Batcher("B"));
        low.sources.set("hosts.1", Source::Batcher("B"));
        top.merge(low);
        assert_eq!(top.tree["hosts"], json!(["a"]));
        assert_eq!(top.sources.of("hosts.1"), Source::Default);
    }
}
