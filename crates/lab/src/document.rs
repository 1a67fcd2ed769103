//! What an experiment found, as one JSON document. Names are stable: scripts and pages rely on them.
//!
//! Times are milliseconds. What was not measured, or could not be, is `null` or left out, never zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raised when a name changes its meaning or goes away.
pub const FORMAT: u32 = 1;

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub format: u32,
    /// The name of the scenario, as on the command line.
    pub scenario: String,
    /// What it is about, in a few words.
    pub title: String,
    /// What happens in it and what to look at, two lines.
    pub story: Vec<String>,
    /// What it was run with, by the names of the flags without their dashes. Only those that mattered; a flag that was
    /// given several times has a list.
    pub parameters: BTreeMap<String, Value>,
    pub machine: Machine,
    /// `sluicegate`, `build` (`release` or `debug`), `client` (the SDK that is imitated, with its version).
    pub versions: BTreeMap<String, String>,
    /// When it began, RFC 3339.
    pub started: String,
    pub took_ms: f64,
    /// How often each target was measured, after a round that was discarded.
    pub rounds: u32,
    /// In the order in which they were measured; the first is `direct`.
    pub targets: Vec<Target>,
    /// What the provider did, on the clock of a round; the same in every round and for every target.
    pub events: Vec<Event>,
    pub verdict: Verdict,
}

/// What a reader needs to know to compare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub os: String,
    /// Load averages over 1, 5 and 15 minutes when it began; empty where the system does not say.
    pub load: Vec<f64>,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}, {} cores, {}", self.cpu, self.cores, self.os)?;
        self.load.first().map_or(Ok(()), |load| write!(out, ", load {load:.2} at start"))
    }
}

/// One place that the calls were sent to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `direct`, `gate`, or what `--target` said. A scenario that compares settings adds them: `gate, window on`.
    pub name: String,
    pub url: String,
    /// Why it could not be measured, or what it lacks. The figures are then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot: Option<String>,
    /// Of one round: counts are those of the middle round (by failures, then refusals, then p95), all else is the
    /// median over the rounds.
    #[serde(flatten)]
    pub figures: Figures,
    /// The smallest and the largest of each number over the rounds, by the figure's name.
    pub spread: BTreeMap<String, Spread>,
    /// Each round's figures.
    pub per_round: Vec<Figures>,
    /// The calls of all rounds in the order of their intended starts: every `timeline_every`th of them.
    pub timeline: Vec<Call>,
    pub timeline_every: usize,
    /// How long whole answers took, all rounds together: buckets that are not empty, ascending.
    pub histogram: Vec<Bucket>,
}

/// What one round came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// `ok + refused + failed`.
    pub calls: u64,
    /// How many the provider counted, retries of the clients and of the target included. `null` where the provider is
    /// not the laboratory's own.
    pub upstream_calls: Option<u64>,
    /// Got a whole answer.
    pub ok: u64,
    /// Got an error status in the end, after the client's own retries.
    pub refused: u64,
    /// Got neither: no connection, a broken or cut answer, an error inside a stream, or nothing while the laboratory
    /// waited.
    pub failed: u64,
    /// Requests that the clients sent, their retries included.
    pub attempts: u64,
    /// Whole answers, from the intended start of the call to its end. `null` if there were none.
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// The others, from the intended start to when the caller knew: without those who were still `waiting`. (In
    /// documents before December 2026 those count with the time that the laboratory looked.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ok_p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ok_max_ms: Option<f64>,
    /// Streams: from the intended start to the first content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_p95_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_p99_ms: Option<f64>,
    /// Streams: how much later than the provider's pace each piece came, counted from the stream's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_late_p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_late_p99_ms: Option<f64>,
    /// Streams: how long each piece was under way, where the provider says when it sent it and the target lets that
    /// through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_transit_p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_transit_p99_ms: Option<f64>,
    /// Processor time that the target's process took for one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_call: Option<f64>,
    /// Whole answers per second of the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok_per_second: Option<f64>,
    /// Tokens of the prompts, as the provider told them, and how many of those it had in its own cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// From the first intended start to the last end.
    pub wall_ms: f64,
    /// The most calls that the provider had at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_in_flight: Option<u64>,
    /// Connections to the provider that carried a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Groups in which calls came to the provider, less than 2 ms between two of the same, and the most in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_group: Option<u64>,
    /// Calls by their outcome (see [`Call::outcome`]).
    pub outcomes: BTreeMap<String, u64>,
    /// Answers by what the fate header said; empty where no answer had one.
    pub fates: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub min: f64,
    pub max: f64,
}

/// One call. Times are from the start of its round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// From 0.
    pub round: u32,
    /// When it should have been sent. Latencies count from here, so that a client that comes late hides nothing.
    pub intended_ms: f64,
    /// When its first attempt was.
    pub sent_ms: f64,
    /// The first byte of an answer's body, of a stream the first content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<f64>,
    pub end_ms: f64,
    /// `ok`; a status such as `503`; `connect`, `broken` (the connection, or an answer that is no answer), `cut` (a
    /// stream without its end), `error` (an error event in a stream), `timeout` (the SDK's), `waiting` (still when the
    /// laboratory stopped to look).
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fate: Option<String>,
    pub attempts: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub from_ms: f64,
    pub to_ms: f64,
    pub count: u64,
}

/// Something that the provider did for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `outage`, `hang`, ...
    pub name: String,
    pub from_ms: f64,
    /// `null`: to the end of the round.
    pub to_ms: Option<f64>,
}

/// What the figures say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The whole of it in one sentence.
    pub sentence: String,
    /// What was found of each target beside `direct`.
    pub findings: Vec<Finding>,
    /// What a reader should keep in mind: what was not measured, or not well.
    pub caveats: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub target: String,
    pub text: String,
}
