//! What the mock can be told at start. What can be changed while it runs is [`Tuning`]; the rest stays.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::{parse_duration, show_duration};
use super::script::Script;

/// The command line of the mock, and the argument of [`super::Mock::start`].
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9001")]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub tuning: Tuning,

    /// Phases such as "ok 15s; 503 60s; ok", or "503(retry-after=2) 3x; ok" for three calls
    #[arg(long, value_name = "PHASES", default_value_t)]
    pub script: Script,

    /// Paths that the script is for, by prefix; every path if none is given
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub script_paths: Vec<String>,

    /// Seed of the jitter
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Streams that one HTTP/2 connection may have open at once
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub h2_max_streams: u32,
}

/// Times and limits; every one can be changed while the mock runs.
#[derive(Clone, Debug, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tuning {
    /// Time before an answer, or before a stream's head
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    #[serde(with = "as_text")]
    pub latency: Duration,

    /// Time from a stream's head, then sent at once, to its first event [default: --latency, head and all]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    #[serde(with = "as_optional_text")]
    pub first_byte: Option<Duration>,

    /// Content deltas in a stream
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_chunks)]
    pub chunks: usize,

    /// Time between two content deltas
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    #[serde(with = "as_text")]
    pub chunk_interval: Duration,

    /// Say in each event of a stream when it was sent: `mock_sent_us`, microseconds since 1970
    #[arg(long)]
    pub stamps: bool,

    /// Spread of every time: a fraction of it (0.2) or a time (20ms), either way
    #[arg(long, value_name = "FRACTION|TIME", default_value_t)]
    pub jitter: Jitter,

    /// Calls at once above which it answers 429
    #[arg(long, value_name = "N")]
    pub max_in_flight: Option<u64>,

    /// Requests per minute above which it answers 429
    #[arg(long, value_name = "N")]
    pub rpm: Option<u64>,

    /// Tokens per minute above which it answers 429
    #[arg(long, value_name = "N")]
    pub tpm: Option<u64>,

    /// Refuse what the real provider refuses
    #[arg(long)]
    pub strict: bool,

    /// Say this, instead of words that follow from the prompt
    #[arg(long, value_name = "TEXT")]
    pub answer: Option<String>,

    /// Refuse callers without this key
    #[arg(long, value_name = "KEY")]
    #[serde(skip_serializing)]
    pub require_key: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9001)),
            tuning: Tuning::default(),
            script: Script::default(),
            script_paths: Vec::new(),
            seed: 0,
            h2_max_streams: 100,
        }
    }
}

impl Options {
    /// The defaults, refusing what the real provider refuses.
    pub fn strict() -> Self {
        Self { tuning: Tuning { strict: true, ..Tuning::default() }, ..Self::default() }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            first_byte: None,
            chunks: 8,
            chunk_interval: Duration::ZERO,
            stamps: false,
            jitter: Jitter::None,
            max_in_flight: None,
            rpm: None,
            tpm: None,
            strict: false,
            answer: None,
            require_key: None,
        }
    }
}

/// Bounds what one stream can hold in memory.
pub(crate) const MOST_CHUNKS: usize = 100_000;

fn parse_chunks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(chunks @ 1..=MOST_CHUNKS) => Ok(chunks),
        _ => Err(format!("a stream has from 1 to {MOST_CHUNKS} chunks")),
    }
}

/// How far a time may be from what was asked, either way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    #[default]
    None,
    Fraction(f64),
    Spread(Duration),
}

impl Jitter {
    /// `time`, moved by up to this jitter; `at` in 0..1 says where in the span.
    pub(crate) fn apply(self, time: Duration, at: f64) -> Duration {
        let way = at * 2.0 - 1.0;
        match self {
            Self::None => time,
            Self::Fraction(fraction) => {
                // Options made in code may be anything; what is no time leaves it as it was.
                let seconds = time.as_secs_f64() * (1.0 + fraction * way).max(0.0);
                Duration::try_from_secs_f64(seconds).unwrap_or(time)
            }
            Self::Spread(spread) if way < 0.0 => time.saturating_sub(spread.mul_f64(-way)),
            Self::Spread(spread) => time.saturating_add(spread.mul_f64(way)),
        }
    }
}

impl FromStr for Jitter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(0.0) => Ok(Self::None),
            Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(Self::Fraction(fraction)),
            Ok(_) => Err(format!("`{text}` is no fraction from 0 to 1; for a time write {text}s")),
            Err(_) => parse_duration(text).map(Self::Spread),
        }
    }
}

impl std::fmt::Display for Jitter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => out.write_str("0"),
            Self::Fraction(fraction) => write!(out, "{fraction}"),
            Self::Spread(time) => out.write_str(&show_duration(*time)),
        }
    }
}

impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Scalar::deserialize(deserializer)?.text().parse().map_err(serde::de::Error::custom)
    }
}

/// A number or a text, so that `5` and `"5s"` both do.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(f64),
    Text(String),
}

impl Scalar {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

mod as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&show_duration(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse_duration(&Scalar::deserialize(deserializer)?.text()).map_err(serde::de::Error::custom)
    }
}

mod as_optional_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(show_duration).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<Scalar>::deserialize(deserializer)?
            .map(|scalar| parse_duration(&scalar.text()))
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn flags_and_code_have_the_same_defaults() {
        let parsed = Command::parse_from(["mock"]).options;
        let default = Options::default();
        assert_eq!(parsed.tuning, default.tuning);
        assert_eq!((parsed.listen, parsed.script), (default.listen, default.script));
        assert_eq!((parsed.seed, parsed.h2_max_streams), (default.seed, default.h2_max_streams));
    }

    #[test]
    fn jitter_is_a_fraction_or_a_time() {
        assert_eq!("0.2".parse(), Ok(Jitter::Fraction(0.2)));
        assert_eq!("20ms".parse(), Ok(Jitter::Spread(Duration::from_millis(20))));
        assert!("2".parse::<Jitter>().is_err());
        let second = Duration::from_secs(1);
        assert_eq!(Jitter::Fraction(0.5).apply(second, 0.0), Duration::from_millis(500));
        assert_eq!(Jitter::Spread(second * 3).apply(second, 0.0), Duration::ZERO);
        assert_eq!(Jitter::Spread(second).apply(second, 1.0), second * 2);
        assert_eq!(Jitter::Fraction(5.0).apply(second, 0.0), Duration::ZERO);
        assert_eq!(Jitter::Fraction(f64::INFINITY).apply(second, 1.0), second);
    }

    #[test]
    fn limits_read_back_as_they_were_written() {
        let tuning = Tuning {
            latency: Duration::from_millis(1500),
            first_byte: Some(Duration::from_secs(2)),
            jitter: Jitter::Fraction(0.25),
            rpm: Some(60),
            ..Tuning::default()
        };
        let text = serde_json::to_string(&tuning).unwrap();
        assert_eq!(serde_json::from_str::<Tuning>(&text).unwrap(), tuning);
        assert!(serde_json::from_str::<Tuning>(r#"{"latencies":"1s"}"#).is_err());
    }
}
