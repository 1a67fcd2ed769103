//! What is wrong with a configuration, and where.
//!
//! Promise: an error says its place (file, line and column, or the flag or
//! variable) and what to write instead, and never quotes a secret.

use std::fmt;

use super::layers::Source;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub source: Source,
    pub message: String,
}

impl Problem {
    pub fn new(source: Source, message: impl Into<String>) -> Self {
        Self { source, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Default => f.write_str(&self.message),
            Source::File { file, line, column } => write!(f, "{file}:{line}:{column}: {}", self.message),
            Source::Flag(name) => write!(f, "{name}: {}", self.message),
            Source::Variable(name) => write!(f, "{name}: {}", self.message),
            Source::Implied(name) | Source::Batcher(name) => write!(f, "{name}: {}", self.message),
        }
    }
}

/// All that was found wrong in one go, in the file's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// The problems as an error, where there are any.
    pub fn check(mut problems: Vec<Problem>) -> Result<(), Self> {
        problems.sort_by_key(|problem| match problem.source {
            Source::File { line, column, .. } => (line, column),
            _ => (0, 0),
        });
        problems.dedup();
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
