//! The configuration as an operator meets it: what is typed, and what comes of it.

mod errors;
mod precedence;
mod providers;
mod robust;
mod secrets;

use std::path::Path;

use super::{Config, Environment, Flags, Provenance, check, layered};

/// What this file, these variables and these flags come to.
fn resolve<const N: usize>(
    file: &str,
    variables: [(&str, &str); N],
    flags: &Flags,
) -> Result<(Config, Provenance), String> {
    let env = Environment::of(variables);
    layered(file, Path::new("sluicegate.toml"), flags, &env).map_err(|error| error.to_string())
}

fn config(file: &str) -> Config {
    resolve(file, [], &Flags::default()).unwrap().0
}

fn error(file: &str) -> String {
    resolve(file, [], &Flags::default()).unwrap_err()
}

/// The lines of `check` that set this key.
fn shown(loaded: &(Config, Provenance), key: &str) -> Vec<String> {
    let text = check::effective(&loaded.0, &loaded.1);
    let lines = text.lines().filter(|line| line.split(" = ").next() == Some(key));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
