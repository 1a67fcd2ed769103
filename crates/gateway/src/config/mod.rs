//! Configuration: what the operator typed to what the gate uses, in one go.
//!
//! `flags`, `variables` and `text` each make a layer; `layers` lays them over
//! one another; `validate` holds the result against the schema of `file`;
//! `resolve` and `providers` turn it into a [`Config`].
//!
//! Promise: what can't be used is refused with its place and the nearest right
//! spelling, all faults at once; nothing is accepted and ignored; no secret is
//! in an error, a warning or a debug print.
//! Invariant: past [`load`] nobody reads the environment or parses a setting.

mod address;
pub mod check;
pub mod duration;
pub mod environment;
pub mod file;
mod flags;
mod later;
mod layers;
mod names;
mod problem;
mod providers;
pub mod reload;
mod resolve;
mod resolved;
pub mod schema;
mod secret;
mod size;
mod suggest;
mod text;
mod validate;
mod variables;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use environment::Environment;
pub use file::{CacheWhen, HttpVersion, LogFormat};
pub use flags::Flags;
pub use layers::Source;
pub use problem::{ConfigError, Problem};
pub use resolved::{
    Admin, Alias, Cache, Coalesce, Config, Gate, Limit, Log, ProviderConfig, Queue, Timeouts, Window,
};
pub use secret::Secret;

use layers::{Layer, Sources};
use resolve::Resolver;

/// The file that is taken where none is named.
const USUAL_FILE: &str = "sluicegate.toml";

/// Where the values of a [`Config`] came from.
#[derive(Clone, Debug)]
pub struct Provenance {
    sources: Sources,
    /// The configuration file, whether or not it is there.
    pub file: PathBuf,
    /// Files that secrets were read from.
    pub secret_files: Vec<PathBuf>,
}

impl Provenance {
    /// The source of the value at a dotted path.
    pub fn of(&self, path: &str) -> Source {
        self.sources.of(path)
    }
}

/// Reads and resolves everything: flags over environment over file over default.
pub fn load(flags: &Flags, env: &Environment) -> Result<(Config, Provenance), ConfigError> {
    let path = file_path(flags, env);
    let named = flags.config.is_some() || env.get(variables::CONFIG).is_some();
    let text = match env.read(&path) {
        Ok(text) => text,
        Err(error) if !named && error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            let message = format!("can't read the configuration file {}: {error}", path.display());
            return Err(Problem::new(Source::Default, message).into());
        }
    };
    layered(&text, &path, flags, env)
}

/// The configuration that a file of this text makes by itself: no flags, no
/// variables, no other files.
pub fn parse_text(text: &str) -> Result<Config, ConfigError> {
    let env = Environment::of([]);
    layered(text, Path::new(USUAL_FILE), &Flags::default(), &env).map(|(config, _)| config)
}

fn file_path(flags: &Flags, env: &Environment) -> PathBuf {
    let named = flags.config.clone().or_else(|| env.get(variables::CONFIG).map(PathBuf::from));
    named.unwrap_or_else(|| PathBuf::from(USUAL_FILE))
}

fn layered(
    text: &str,
    path: &Path,
    flags: &Flags,
    env: &Environment,
) -> Result<(Config, Provenance), ConfigError> {
    let schema = schema::schema();
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let file = text::parse(text, &path.display().to_string())?;
    let mut layer = flags.layer(schema, &mut problems);
    let variables = variables::ours(env, schema, &[&layer, &file], &mut problems);
    layer.merge(variables);
    let batcher = variables::batcher(env, &[&layer, &file], &mut problems, &mut warnings);
    layer.merge(batcher.said);
    layer.merge(file);
    layer.merge(batcher.implied);
    problems.extend(validate::validate(&mut layer, schema));

    let order = provider_names(&layer);
    let typed = typed(&mut layer, &mut problems);
    let mut resolver = Resolver { env, sources: layer.sources, problems, warnings, files: Vec::new() };
    let config = resolver.config(&typed, &order);
    ConfigError::check(resolver.problems)?;
    let provenance =
        Provenance { sources: resolver.sources, file: path.to_owned(), secret_files: resolver.files };
    Ok((config, provenance))
}

fn provider_names(layer: &Layer) -> Vec<String> {
    let table = layer.tree.get("providers").and_then(|providers| providers.as_object());
    table.into_iter().flat_map(|table| table.keys().cloned()).collect()
}

/// The tree as its type. Serde stops at the first value that it can't take, so
/// that one is reported and taken out, and the rest tried again.
fn typed(layer: &mut Layer, problems: &mut Vec<Problem>) -> file::File {
    while !layer.tree.is_empty() {
        let value = serde_json::Value::Object(layer.tree.clone());
        let error = match serde_path_to_error::deserialize::<_, file::File>(value) {
            Ok(file) => return file,
            Err(error) => error,
        };
        let path = keyed_path(error.path());
        problems.push(Problem::new(layer.sources.nearest(&path), format!("`{path}`: {}", error.inner())));
        if !layer.remove(&path) {
            layer.tree.clear();
        }
    }
    file::File::default()
}

/// The path down to its first list: a list is taken out whole, lest the indices
/// of what stays no longer be those in the file.
fn keyed_path(path: &serde_path_to_error::Path) -> String {
    let keys = path.iter().map_while(|segment| match segment {
        serde_path_to_error::Segment::Map { key } => Some(key.as_str()),
        _ => None,
    });
    keys.collect::<Vec<_>>().join(".")
}
