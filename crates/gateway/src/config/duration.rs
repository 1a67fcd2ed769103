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

const NANOS_A_SECOND: u64 = 1_000_000_000;

const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", NANOS_A_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A duration in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

pub fn parse(text: &str) -> Result<Duration, String> {
    units(text.trim()).filter(|duration| *duration <= LONGEST).ok_or_else(|| {
        format!("`{}` is no duration: write `20ms`, `5s`, `1m30s` or `24h`", text.escape_debug())
    })
}

fn units(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    if let Some(nanos) = times(text, NANOS_A_SECOND) {
        return Some(nanos);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len()));
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(times(number, *nanos)?)?;
        rest = tail.trim_start();
    }
    Some(total)
}

/// A decimal number of units, exactly: floats would make 0.526 s a nanosecond
/// too long.
fn times(number: &str, unit: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str| !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()? * u128::from(unit);
    let part = fraction.parse::<u128>().ok()? * u128::from(unit) / 10u128.pow(fraction.len() as u32);
    u64::try_from(whole + part).ok().map(Duration::from_nanos)
}

/// The shortest form in which one unit suffices, else seconds and below.
pub fn show(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    // Days read worse than hours where both are whole ("1d" against "24h").
    let whole = UNITS
        .iter()
        .skip(1)
        .find(|(_, unit)| nanos >= u128::from(*unit) && nanos.is_multiple_of(u128::from(*unit)));
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
        for text in [
            "",
            "fast",
            "5 parsecs",
            "5x",
            "-5s",
            "-1",
            "s",
            "1.2.3s",
            "NaN",
            "inf",
            "1e30",
            "99999d",
            "5s3",
            ".5s",
            "5.s",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is no duration: write `20ms`"), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn shown_durations_read_back(millis in 0..LONGEST.as_millis() as u64) {
            let duration = Duration::from_millis(millis);
            proptest::prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
