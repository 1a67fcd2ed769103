//! Secrets: held so that no log line, error or debug print can show them.
//!
//! Promise: a [`Secret`] prints as `***` whatever the formatter, is wiped from
//! memory when dropped, and gives its text only to a caller that says
//! [`Secret::expose`]. What a reference (`env:NAME`, `file:PATH`) points to is
//! read once, when the configuration is loaded.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, de};

use super::environment::Environment;
use super::layers::Source;

/// A credential. It can be shown to a provider, never to a person.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text itself, for the one place that sends or compares it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A secret as it was typed: a reference, or the text itself.
#[derive(Clone, Debug)]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
    Plain(Secret),
}

impl SecretRef {
    fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(PathBuf::from(path))
        } else {
            Self::Plain(Secret::new(text))
        }
    }

    /// Reads what the reference points to. The error names the reference only.
    pub fn read(&self, env: &Environment) -> Result<Secret, String> {
        match self {
            Self::Env(name) => match env.get(name) {
                Some(text) => usable(text, &format!("the variable {name}")),
                None => Err(format!("the variable {name} is not set")),
            },
            Self::File(path) => {
                let text = env.read(path).map_err(|e| format!("can't read {}: {e}", path.display()))?;
                usable(text.trim_end_matches(['\r', '\n']), &path.display().to_string())
            }
            Self::Plain(secret) => usable(secret.expose(), "this secret"),
        }
    }

    /// Where the secret is from, for people: never a character of it.
    pub fn origin(&self, typed_at: &Source) -> String {
        match self {
            Self::Env(name) => name.clone(),
            Self::File(path) => path.display().to_string(),
            Self::Plain(_) => typed_at.to_string(),
        }
    }

    /// The file it is read from, which a reload has to look at too.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }
}

/// A header can carry neither control characters nor, safely, anything beyond
/// ASCII; found out here, it is an error with a place instead of a failed call.
fn usable(text: &str, what: &str) -> Result<Secret, String> {
    if text.is_empty() {
        return Err(format!("{what} is empty"));
    }
    if !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err(format!("{what} holds characters that no HTTP header can carry"));
    }
    Ok(Secret::new(text))
}

impl<'de> Deserialize<'de> for SecretRef {
    /// Never through serde's own type errors: they quote the value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self::parse(&text)),
            _ => Err(de::Error::custom("a secret is text: \"env:NAME\" or \"file:PATH\"")),
        }
    }
}

impl JsonSchema for SecretRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": "secret" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_formatter_shows_a_secret() {
        let secret = Secret::new("sk-sentinel");
        let held = SecretRef::parse("sk-sentinel");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(format!("{held:?}"), "Plain(***)");
    }

    #[test]
    fn a_wrong_type_is_refused_without_quoting_it() {
        let error = serde_json::from_str::<SecretRef>("8812345").unwrap_err().to_string();
        assert!(error.starts_with("a secret is text"), "{error}");
        assert!(!error.contains("8812345"));
    }

    #[test]
    fn references_are_read_and_their_faults_named() {
        let env = Environment::of([("KEY", "k-1"), ("BAD", "a\nb")]);
        let read = |text: &str| SecretRef::parse(text).read(&env).map(|s| s.expose().to_owned());
        assert_eq!(read("env:KEY").unwrap(), "k-1");
        assert_eq!(read("plain").unwrap(), "plain");
        assert_eq!(read("env:NONE").unwrap_err(), "the variable NONE is not set");
        assert!(read("env:BAD").unwrap_err().contains("HTTP header"));
        assert!(read("").unwrap_err().contains("empty"));
        assert!(read("file:/nowhere/key").unwrap_err().starts_with("can't read /nowhere/key"));
    }

    #[test]
    fn a_files_trailing_newline_is_not_part_of_the_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "k-2\r\n").unwrap();
        let env = Environment::with_files([]);
        let secret = SecretRef::File(path).read(&env).unwrap();
        assert_eq!(secret.expose(), "k-2");
    }
}
