//! The process's surroundings as the loader sees them: variables and files.
//!
//! A value, so that tests (and the fuzzer, which gets no files at all) bring
//! their own. Promise: an empty variable counts as unset, and no file makes the
//! loader read more than `MOST` bytes. Its debug print shows names only.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// No configuration or secret is longer; a device file has no end at all.
const MOST: u64 = 1024 * 1024;

#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    files: bool,
}

impl Environment {
    /// What this process was started with.
    pub fn of_process() -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect();
        Self { variables, files: true }
    }

    /// These variables and no files.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { variables, files: false }
    }

    /// These variables and the machine's files.
    pub fn with_files<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self { files: true, ..Self::of(variables) }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All that are set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(_, v)| !v.is_empty())
    }

    pub fn read(&self, path: &Path) -> io::Result<String> {
        if !self.files {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no files are read here"));
        }
        let mut text = String::new();
        File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MOST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 1 MiB"));
        }
        Ok(text)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
