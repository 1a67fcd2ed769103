//! What can be turned in an experiment. Each scenario has its defaults and names what it uses; to set anything else
//! is an error, since it would be without effect.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sim::mock::parse_duration;

use crate::scenario::Scenario;

/// As it was typed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Typed {
    /// Calls in a round
    #[arg(long, value_name = "N", value_parser = count)]
    pub calls: Option<usize>,
    /// Calls per second, sent on time whether or not others were answered
    #[arg(long, value_name = "N", value_parser = positive)]
    pub rate: Option<f64>,
    /// Time over which the calls are spread
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub within: Option<Duration>,
    /// Callers, each of whom sends when it has its answer
    #[arg(long, value_name = "N", value_parser = count)]
    pub concurrency: Option<usize>,
    /// Time that the provider takes for an answer, or for the first piece of a stream
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub latency: Option<Duration>,
    /// How long the provider is out of order
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub fault: Option<Duration>,
    /// The provider does not recover
    #[arg(long, num_args = 0, default_missing_value = "true", conflicts_with = "fault")]
    pub endless: Option<bool>,
    /// Calls that the provider takes at once; others get a 429
    #[arg(long, value_name = "N", value_parser = count)]
    pub capacity: Option<usize>,
    /// Calls that the gates let to the provider at once (their `--concurrency`)
    #[arg(long, value_name = "N", value_parser = count)]
    pub cap: Option<usize>,
    /// Ask for streams
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub stream: Option<bool>,
    /// Pieces of a stream
    #[arg(long, value_name = "N", value_parser = count)]
    pub chunks: Option<usize>,
    /// Time between two pieces
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub chunk_interval: Option<Duration>,
    /// Length of what the prompts have in common
    #[arg(long, value_name = "N", value_parser = count)]
    pub tokens: Option<usize>,
    /// Dollars that may be spent
    #[arg(long, value_name = "DOLLARS", value_parser = positive)]
    pub max_spend: Option<f64>,
    /// How long a caller is watched; longer than --latency
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub patience: Option<Duration>,
}

/// Those that are times: milliseconds in the report, written with a unit as flags.
pub(crate) const TIME_KNOBS: [&str; 5] = ["within", "latency", "fault", "chunk-interval", "patience"];

/// As it is used. What a scenario does not use has no meaning in it.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub calls: usize,
    pub rate: f64,
    pub within: Duration,
    pub concurrency: usize,
    pub latency: Duration,
    pub fault: Duration,
    pub endless: bool,
    pub capacity: usize,
    pub cap: usize,
    pub stream: bool,
    pub chunks: usize,
    pub chunk_interval: Duration,
    pub tokens: usize,
    pub max_spend: f64,
    pub patience: Duration,
}

impl Knobs {
    /// What most scenarios have in common.
    pub const USUAL: Knobs = Knobs {
        calls: 200,
        rate: 20.0,
        within: Duration::ZERO,
        concurrency: 16,
        latency: Duration::from_millis(100),
        fault: Duration::from_secs(4),
        endless: false,
        capacity: 32,
        cap: 64,
        stream: false,
        chunks: 40,
        chunk_interval: Duration::from_millis(50),
        tokens: 4_000,
        max_spend: 0.01,
        patience: Duration::from_secs(60),
    };

    /// What was typed, over the scenario's defaults.
    pub fn resolve(scenario: &Scenario, typed: &Typed) -> Result<Knobs, String> {
        let set = [
            ("calls", typed.calls.is_some()),
            ("rate", typed.rate.is_some()),
            ("within", typed.within.is_some()),
            ("concurrency", typed.concurrency.is_some()),
            ("latency", typed.latency.is_some()),
            ("fault", typed.fault.is_some()),
            ("endless", typed.endless.is_some()),
            ("capacity", typed.capacity.is_some()),
            ("cap", typed.cap.is_some()),
            ("stream", typed.stream.is_some()),
            ("chunks", typed.chunks.is_some()),
            ("chunk-interval", typed.chunk_interval.is_some()),
            ("tokens", typed.tokens.is_some()),
            ("max-spend", typed.max_spend.is_some()),
            ("patience", typed.patience.is_some()),
        ];
        if let Some((name, _)) = set.iter().find(|(name, set)| *set && !scenario.uses.contains(name)) {
            let uses: Vec<String> = scenario.uses.iter().map(|name| format!("--{name}")).collect();
            return Err(format!(
                "--{name} means nothing in `{}`, which has {}",
                scenario.name,
                uses.join(", ")
            ));
        }
        let default = scenario.defaults;
        let knobs = Knobs {
            calls: typed.calls.unwrap_or(default.calls),
            rate: typed.rate.unwrap_or(default.rate),
            within: typed.within.unwrap_or(default.within),
            concurrency: typed.concurrency.unwrap_or(default.concurrency),
            latency: typed.latency.unwrap_or(default.latency),
            fault: typed.fault.unwrap_or(default.fault),
            endless: typed.endless.unwrap_or(default.endless),
            capacity: typed.capacity.unwrap_or(default.capacity),
            stream: typed.stream.unwrap_or(default.stream),
            chunks: typed.chunks.unwrap_or(default.chunks),
            chunk_interval: typed.chunk_interval.unwrap_or(default.chunk_interval),
            tokens: typed.tokens.unwrap_or(default.tokens),
            cap: typed.cap.unwrap_or(default.cap),
            max_spend: typed.max_spend.unwrap_or(default.max_spend),
            patience: typed.patience.unwrap_or(default.patience),
        };
        // Nobody could be seen to get an answer.
        if scenario.uses.contains(&"latency") && knobs.patience <= knobs.latency {
            return Err(format!(
                "--patience {}s has to be longer than --latency {}s, or no caller is watched until an answer comes \
                 (a number without a unit is seconds)",
                knobs.patience.as_secs_f64(),
                knobs.latency.as_secs_f64()
            ));
        }
        Ok(knobs)
    }

    /// For the report: what the scenario uses, by the names of the flags; times in milliseconds.
    pub fn parameters(&self, scenario: &Scenario) -> BTreeMap<String, Value> {
        let all = [
            ("calls", json!(self.calls)),
            ("rate", json!(self.rate)),
            ("within", millis(self.within)),
            ("concurrency", json!(self.concurrency)),
            ("latency", millis(self.latency)),
            ("fault", millis(self.fault)),
            ("endless", json!(self.endless)),
            ("capacity", json!(self.capacity)),
            ("cap", json!(self.cap)),
            ("stream", json!(self.stream)),
            ("chunks", json!(self.chunks)),
            ("chunk-interval", millis(self.chunk_interval)),
            ("tokens", json!(self.tokens)),
            ("max-spend", json!(self.max_spend)),
            ("patience", millis(self.patience)),
        ];
        let used = all.into_iter().filter(|(name, _)| scenario.uses.contains(name));
        // What does not end has no length.
        let used = used.filter(|(name, _)| *name != "fault" || !self.endless);
        used.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn millis(time: Duration) -> Value {
    json!(time.as_secs_f64() * 1e3)
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("it has to be a number from 1 to 1000000".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (1e-6..=1e6).contains(&number) => Ok(number),
        _ => Err("it has to be a number above 0, up to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SCENARIOS, named};

    #[test]
    fn what_a_scenario_does_not_use_is_an_error() {
        let typed = Typed { capacity: Some(3), ..Typed::default() };
        let error = Knobs::resolve(named("crowd").unwrap(), &typed).unwrap_err();
        assert!(error.starts_with("--capacity means nothing in `crowd`, which has --calls"), "{error}");
        assert_eq!(Knobs::resolve(named("flood").unwrap(), &typed).unwrap().capacity, 3);
    }

    #[test]
    fn the_crowd_is_two_hundred_plain_calls() {
        let crowd = named("crowd").unwrap();
        let knobs = Knobs::resolve(crowd, &Typed::default()).unwrap();
        assert_eq!((knobs.calls, knobs.stream), (200, false));
        assert_eq!(knobs.parameters(crowd)["latency"], json!(1500.0));
    }

    #[test]
    fn every_name_that_a_scenario_uses_is_a_knob() {
        for scenario in &SCENARIOS {
            assert_eq!(
                scenario.defaults.parameters(scenario).len(),
                scenario.uses.len(),
                "{}",
                scenario.name
            );
        }
    }

    #[test]
    fn numbers_have_bounds() {
        for text in ["0", "-1", "many", "1000001", ""] {
            assert!(count(text).is_err(), "{text}");
            assert!(positive(text).is_err(), "{text}");
        }
        assert!(positive("NaN").is_err());
        assert_eq!(positive("0.5"), Ok(0.5));
    }
}
