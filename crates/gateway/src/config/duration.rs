//! Durations as people write them: `20ms`, `5s`, `1m30s`, `24h`, or a bare
//! number of seconds.
//!
//! Promise: what parses is at most [`LONGEST`], so that adding it to an instant
//! can't overflow, and [`show`] gives back text that parses to the same value.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// Ten years: longer than any process lives.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A duration in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{}` is no duration: write `20ms`, `5s`, `1m30s` or `24h`", text.escape_debug());
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<f64>() {
        return seconds_of(seconds).ok_or_else(wrong);
    }
    let mut total = Duration::ZERO;
    let mut rest = trimmed;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let part = number.parse::<f64>().ok().and_then(|n| seconds_of(n * *nanos as f64 / 1e9));
        total = total.checked_add(part.ok_or_else(wrong)?).ok_or_else(wrong)?;
        rest = tail.trim_start();
    }
    if trimmed.is_empty() || total > LONGEST { Err(wrong()) } else { Ok(total) }
}

fn seconds_of(seconds: f64) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (duration <= LONGEST).then_some(duration)
}

/// The shortest form in which one unit suffices, else seconds and below.
pub fn show(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    // Days read worse than hours where both are whole ("1d" against "24h").
    let whole =
        UNITS.iter().skip(1).find(|(_, unit)| nanos >= u128::from(*unit) && nanos % u128::from(*unit) == 0);
    match whole {
        Some((name, unit)) => format!("{}{name}", nanos / u128::from(*unit)),
        None => "0s".to_owned(),
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"5s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Period, E> {
                parse(text).map(Period).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Period, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Period, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Period, E> {
                self.visit_str(&seconds.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "title": "duration" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_durations_in_many_ways() {
        for (text, millis) in [
            ("20ms", 20),
            ("5s", 5_000),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("24h", 86_400_000),
            ("30d", 2_592_000_000),
            ("1.5s", 1_500),
            ("7", 7_000),
            ("0.25", 250),
            ("0", 0),
            (" 5s ", 5_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_how_to_write_one() {
        for text in
            ["", "fast", "5 parsecs", "5x", "-5s", "-1", "s", "1.2.3s", "NaN", "inf", "1e30", "99999d", "5s3"]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is no duration: write `20ms`"), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn shown_durations_read_back(nanos in 0..LONGEST.as_nanos() as u64 / 1_000_000) {
            let duration = Duration::from_millis(nanos);
            proptest::prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
