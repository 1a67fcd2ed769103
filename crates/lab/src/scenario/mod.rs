//! The scenarios: a row each, with what happens, what can be turned, how the provider behaves, and what the figures
//! say. A verdict is computed from the document alone.

mod burst;
mod cost;
mod fault;
mod say;

use serde_json::{Value, json};

use crate::document::{Document, Event, Verdict};
use crate::knobs::Knobs;
use crate::load::Pace;
use crate::record::Interest;

/// An experiment.
pub struct Scenario {
    pub name: &'static str,
    pub title: &'static str,
    pub story: [&'static str; 2],
    /// The knobs that mean something in it.
    pub uses: &'static [&'static str],
    pub defaults: Knobs,
    /// It needs a provider that can be told how to behave.
    pub steered: bool,
    pub rig: fn(&Knobs) -> Rig,
    pub prompts: fn(&Knobs, &Fresh) -> Vec<String>,
    pub pace: fn(&Knobs) -> Pace,
    pub verdict: fn(&Document) -> Verdict,
}

pub const SCENARIOS: [Scenario; 10] = [
    burst::CROWD,
    burst::DISTINCT,
    burst::WAVE,
    fault::OUTAGE,
    fault::HANG,
    fault::FLOOD,
    burst::STREAM,
    cost::BUDGET,
    cost::OVERHEAD,
    cost::PREFIX,
];

pub fn named(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// How the provider behaves, and what is put before it.
pub struct Rig {
    /// The mock's limits.
    pub limits: Value,
    pub script: String,
    pub events: Vec<Event>,
    pub setups: Vec<Setup>,
    pub interest: Interest,
}

impl Default for Rig {
    fn default() -> Rig {
        Rig {
            limits: json!({}),
            script: "ok".to_owned(),
            events: Vec::new(),
            setups: vec![Setup::gate("gate", &[], &[])],
            interest: Interest::default(),
        }
    }
}

/// What the laboratory starts itself, besides the provider.
pub enum Setup {
    Relay,
    Gate { name: String, arguments: Vec<String>, environment: Vec<(String, String)> },
}

impl Setup {
    fn gate(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Setup {
        Setup::Gate {
            name: name.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: environment
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }
}

/// Prompts that nobody has sent before.
pub struct Fresh {
    tag: String,
}

impl Fresh {
    /// `tag` is of one round of one target of one run.
    pub fn new(tag: String) -> Fresh {
        Fresh { tag }
    }

    pub fn same(&self) -> String {
        format!("[{}] Tell me about sluices.", self.tag)
    }

    pub fn number(&self, number: usize) -> String {
        format!("[{}] Tell me about the number {number}.", self.tag)
    }

    /// About `tokens` that are the same for all numbers, and then a question of its own.
    pub fn long(&self, tokens: usize, number: usize) -> String {
        const SENTENCE: &str = "A sluice lets through what the canal below can take. ";
        let prefix = SENTENCE.repeat((tokens * 4).div_ceil(SENTENCE.len()));
        format!("[{}] {prefix}\n\nWhat does that mean for the number {number}?", self.tag)
    }
}

fn equal(knobs: &Knobs, fresh: &Fresh) -> Vec<String> {
    vec![fresh.same(); knobs.calls]
}

fn different(knobs: &Knobs, fresh: &Fresh) -> Vec<String> {
    (0..knobs.calls).map(|number| fresh.number(number)).collect()
}

/// A time as the mock reads it.
fn time(time: std::time::Duration) -> String {
    format!("{}us", time.as_micros())
}

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
