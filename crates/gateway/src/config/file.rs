//! The configuration as it is typed: one struct per table.
//!
//! The doc comments are the reference: `sluicegate schema` and
//! `docs/configuration.md` are made from them. The defaults named here are for
//! readers; a test holds them equal to what `resolve` uses.
//! Everything is optional, so that a missing key is never a parse error; what
//! must be there is `resolve`'s to say, with a place.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::duration::Period;
use super::secret::SecretRef;
use super::size::Size;

/// Sluicegate's configuration. Every key and table may be left out.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Address of the data plane, which LLM clients call: an address with a
    /// port, either alone, of IPv4 or IPv6. A port alone is on loopback;
    /// `:8080` is on every address.
    #[schemars(extend("default" = "127.0.0.1:8080"))]
    pub listen: Option<String>,
    /// Address of the admin plane: health, metrics, status. Beyond loopback it
    /// needs `admin.token`.
    #[schemars(extend("default" = "127.0.0.1:9090"))]
    pub admin_listen: Option<String>,
    /// Directory of what has to outlive the process.
    #[schemars(extend("default" = "sluicegate-data"))]
    pub data_dir: Option<String>,
    /// How long running calls may take to finish after a stop signal.
    #[schemars(extend("default" = "30s"))]
    pub drain: Option<Period>,
    /// The longest request body that is taken; a longer one gets a 413.
    #[schemars(extend("default" = "64MiB"))]
    pub max_body: Option<Size>,
    /// Most calls in flight at once to each provider.
    #[schemars(extend("default" = 4096), range(min = 1, max = 1_000_000))]
    pub concurrency: Option<u32>,
    /// Ask OpenAI-shaped providers for the token usage of a stream also where
    /// the caller did not; the extra chunk is taken out again.
    #[schemars(extend("default" = true))]
    pub usage_on_streams: Option<bool>,
    /// Send a keep-alive on a stream that has been silent for this long.
    #[schemars(extend("default" = "15s"))]
    pub keep_alive: Option<Period>,
    /// How long a client may take to send the head of its request.
    #[schemars(extend("default" = "10s"))]
    pub header_timeout: Option<Period>,
    /// Names, besides loopback ones, by which an open gate may be called: what
    /// the `Host` header may say.
    #[schemars(extend("default" = []))]
    pub hosts: Option<Vec<String>>,
    /// Accept that whoever reaches `listen` calls providers with the
    /// configured keys. Without it, a gate without virtual keys binds
    /// loopback addresses only.
    #[schemars(extend("default" = false))]
    pub open: Option<bool>,
    /// The providers, by name. As soon as one is named here, by flag or by
    /// variable, only the named ones exist. With none named there are OpenAI
    /// and Anthropic at their public addresses and every built-in one whose
    /// key is in the environment.
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    /// Aliases: names that clients ask for, each standing for one provider's
    /// model.
    #[serde(default)]
    pub models: Vec<Alias>,
    /// Equal calls that come at the same time and share one call of the
    /// provider; `[providers.NAME.coalesce]` sets one provider's own.
    #[serde(default)]
    pub coalesce: Coalesce,
    /// Answers that are kept for equal calls to come;
    /// `[providers.NAME.cache]` sets one provider's own.
    #[serde(default)]
    pub cache: Cache,
    /// Deadlines of every provider; `[providers.NAME.timeouts]` sets one
    /// provider's own.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The queue in front of every provider; `[providers.NAME.queue]` sets one
    /// provider's own.
    #[serde(default)]
    pub queue: Queue,
    /// The admission window in front of every provider: calls wait for a
    /// moment and go on together; `[providers.NAME.window]` sets one
    /// provider's own.
    #[serde(default)]
    pub window: Window,
    /// The door of the whole process, before any provider's queue.
    #[serde(default)]
    pub gate: Gate,
    /// The log that the process writes to standard error.
    #[serde(default)]
    pub log: Log,
    /// Which web pages may call the data plane.
    #[serde(default)]
    pub cors: Cors,
    /// Who may use the admin plane.
    #[serde(default)]
    pub admin: Admin,
}

/// One provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Where it is: what its own SDK takes as its base URL (OpenAI's ends in
    /// `/v1`, Anthropic's does not). Default: the kind's public address.
    pub base_url: Option<String>,
    /// Which built-in kind of provider it is. Default: its name, where that is
    /// one.
    pub kind: Option<String>,
    /// Its key: `env:NAME` or `file:PATH` (or plain, with a warning). Default:
    /// the variable that the provider's own SDK reads. Without any key the
    /// caller's own credentials are forwarded.
    pub api_key: Option<SecretRef>,
    /// Most calls in flight at once. Default: the global `concurrency`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrency: Option<u32>,
    /// Takes the calls that name no provider, among the providers of its
    /// protocol. Default: the first one, by flag, variable and file.
    pub default: Option<bool>,
    /// HTTP version to speak to it: `1.1`, or `2` with as many connections as
    /// it needs.
    #[schemars(extend("default" = "1.1"))]
    pub http: Option<HttpVersion>,
    /// Equal calls of this provider at the same time, over the global table.
    #[serde(default)]
    pub coalesce: Coalesce,
    /// Answers of this provider that are kept, over the global table.
    #[serde(default)]
    pub cache: ProviderCache,
    /// Deadlines for this provider, over the global ones.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The queue in front of this provider, over the global one.
    #[serde(default)]
    pub queue: Queue,
    /// The admission window in front of this provider, over the global one.
    #[serde(default)]
    pub window: Window,
}

/// An alias.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// The name that clients ask for.
    pub name: Option<String>,
    /// What it stands for: one target.
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A provider's model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The name of a configured provider.
    pub provider: Option<String>,
    /// The model's name, as that provider knows it.
    pub model: Option<String>,
    /// Most calls of this model in flight at once, whatever name they ask for
    /// it by; the provider's own bound holds besides. Default: no bound of its
    /// own.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrency: Option<u32>,
}

/// Calls that share an answer while it comes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coalesce {
    /// Let equal calls at the same time share one call of the provider.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
    /// Let a call that its callers have all left go on to its end, where its
    /// answer can be kept; otherwise it is cancelled.
    #[schemars(extend("default" = false))]
    pub finish_abandoned: Option<bool>,
}

/// Kept answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Which answers are kept: `always` all that can be, `deterministic` only
    /// those to calls that ask for the same answer each time (temperature 0, a
    /// seed, embeddings), `never` none.
    #[schemars(extend("default" = "always"))]
    pub when: Option<CacheWhen>,
    /// How long an answer is kept.
    #[schemars(extend("default" = "300s"))]
    pub ttl: Option<Period>,
    /// Most memory that kept answers take, those of all providers together:
    /// from 1MiB to 1TiB.
    #[schemars(extend("default" = "256MiB"))]
    pub max_bytes: Option<Size>,
}

/// Kept answers of one provider. They share their room with all the others'.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderCache {
    /// Which answers are kept: `always`, `deterministic` or `never`.
    #[schemars(extend("default" = "always"))]
    pub when: Option<CacheWhen>,
    /// How long an answer is kept.
    #[schemars(extend("default" = "300s"))]
    pub ttl: Option<Period>,
}

/// Deadlines.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// For the connection to be made, TLS included.
    #[schemars(extend("default" = "5s"))]
    pub connect: Option<Period>,
    /// For the first byte of the answer: a duration, or `learned` from the
    /// provider's own times.
    #[schemars(extend("default" = "learned"))]
    pub first_byte: Option<Limit>,
    /// For the next byte of an answer that has begun: a duration, or
    /// `learned`.
    #[schemars(extend("default" = "learned"))]
    pub stall: Option<Limit>,
    /// For the whole call from its arrival, all waits included.
    #[schemars(extend("default" = "600s"))]
    pub total: Option<Period>,
}

/// A queue.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Most calls waiting; one more gets a 429 at once.
    #[schemars(extend("default" = 1024), range(max = 1_000_000))]
    pub max: Option<u32>,
    /// Most calls of one key waiting. Default: as many as `max`.
    #[schemars(extend("default" = 1024), range(max = 1_000_000))]
    pub per_key: Option<u32>,
    /// Most bytes of waiting requests, all together: a few long prompts fill a
    /// queue as well as many short ones.
    #[schemars(extend("default" = "256MiB"))]
    pub max_bytes: Option<Size>,
    /// Most calls of one key in flight at once; 0 for no bound of its own. Who
    /// has so many waits in the queue, and others go first.
    #[schemars(extend("default" = 0), range(max = 1_000_000))]
    pub parallel_per_key: Option<u32>,
    /// The longest wait; then a 429.
    #[schemars(extend("default" = "10s"))]
    pub timeout: Option<Period>,
}

/// An admission window. It opens with the first call that comes and flushes
/// when it is full or its time is over, whichever is first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Let calls wait in it.
    #[schemars(extend("default" = false))]
    pub enabled: Option<bool>,
    /// Calls with which it is full.
    #[schemars(extend("default" = 16), range(min = 1, max = 1_000_000))]
    pub max_size: Option<u32>,
    /// How long it is open at most: from 1ms to 60s.
    #[schemars(extend("default" = "20ms"))]
    pub max_wait: Option<Period>,
}

/// The door of the process.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Most calls past the door at once, those that ride along and those that
    /// are answered from the cache included; 0 for no bound.
    #[schemars(extend("default" = 0), range(max = 1_000_000))]
    pub max_in_flight: Option<u32>,
    /// Most calls waiting at the door besides; one more gets a 429 at once.
    #[schemars(extend("default" = 0), range(max = 1_000_000))]
    pub max_waiting: Option<u32>,
    /// The longest wait at the door; then a 429.
    #[schemars(extend("default" = "500ms"))]
    pub wait: Option<Period>,
    /// What `Retry-After` says to whom the door turns away: a duration, or
    /// `measured` from how fast calls leave.
    #[schemars(extend("default" = "measured"))]
    pub retry_after: Option<RetryAfter>,
}

/// The log.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// How much is logged: `error`, `warn`, `info`, `debug`, `trace` or `off`;
    /// after commas, other levels for parts of the program, such as
    /// `info,sluicegate::upstream=debug`.
    #[schemars(extend("default" = "info"))]
    pub level: Option<String>,
    /// Text for people, or one JSON object a line.
    #[schemars(extend("default" = "text"))]
    pub format: Option<LogFormat>,
}

/// Cross-origin access.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Origins of the web pages that may call the data plane, such as
    /// `https://app.example.com`.
    #[schemars(extend("default" = []))]
    pub origins: Option<Vec<String>>,
}

/// The admin plane.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The operator's token: `env:NAME` or `file:PATH`. Default: the variable
    /// `SLUICEGATE_ADMIN_TOKEN`, where it is set.
    pub token: Option<SecretRef>,
    /// The token of who may look and change nothing. Default: the variable
    /// `SLUICEGATE_VIEWER_TOKEN`, where it is set.
    pub viewer_token: Option<SecretRef>,
    /// Names, besides loopback ones, by which the admin plane may be called.
    #[schemars(extend("default" = []))]
    pub hosts: Option<Vec<String>>,
}

/// The version of HTTP to speak to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum HttpVersion {
    #[serde(rename = "1.1")]
    One,
    #[serde(rename = "2")]
    Two,
}

/// Which answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheWhen {
    Always,
    Deterministic,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// A deadline that may be left to learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Period")]
pub enum Limit {
    Learned,
    Fixed(Period),
}

/// When to come back: a period that may be left to measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Period")]
pub enum RetryAfter {
    Measured,
    Fixed(Period),
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        period_or("learned", deserializer).map(|period| period.map_or(Self::Learned, Self::Fixed))
    }
}

impl<'de> Deserialize<'de> for RetryAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        period_or("measured", deserializer).map(|period| period.map_or(Self::Measured, Self::Fixed))
    }
}

/// A period, or none where there is a word instead.
fn period_or<'de, D: Deserializer<'de>>(word: &str, deserializer: D) -> Result<Option<Period>, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) if text == word => Ok(None),
        other => Period::deserialize(other)
            .map(Some)
            .map_err(|error| de::Error::custom(format!("{error}, or \"{word}\""))),
    }
}

impl fmt::Display for HttpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "1.1",
            Self::Two => "2",
        })
    }
}

impl fmt::Display for CacheWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::Deterministic => "deterministic",
            Self::Never => "never",
        })
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}
