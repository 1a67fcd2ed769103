//! Sizes as people write them: `64MiB`, `10GB`, or a bare number of bytes.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A number of bytes in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

pub(super) fn parse(text: &str) -> Result<usize, String> {
    let wrong =
        || format!("`{}` is no size: write `64MiB`, `10GB` or a number of bytes", text.escape_debug());
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(wrong()),
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        Err(_) => number.parse::<f64>().ok().map(|part| part * factor as f64).and_then(whole_bytes),
    };
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(wrong)
}

fn whole_bytes(bytes: f64) -> Option<u64> {
    // Beyond 2^53 a float no longer says which byte it means.
    (bytes.is_finite() && bytes.fract() == 0.0 && bytes < 9e15).then_some(bytes as u64)
}

pub(super) fn show(bytes: usize) -> String {
    let bytes = bytes as u64;
    match UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => "0B".to_owned(),
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"64MiB\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                parse(text).map(Size).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                self.visit_str(&bytes.to_string())
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                self.visit_str(&bytes.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "title": "size" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_sizes_in_many_ways() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("64 MiB", 64 << 20),
            ("10GB", 10_000_000_000),
            ("1.5KiB", 1536),
            ("12kb", 12_000),
            ("100B", 100),
            ("4096", 4096),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_how_to_write_one() {
        for text in ["", "big", "64Mib2", "-1", "1.5B", "64M", "99999999999TiB", "1e3"] {
            assert!(parse(text).unwrap_err().contains("is no size: write `64MiB`"), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn shown_sizes_read_back(bytes: u32) {
            proptest::prop_assert_eq!(parse(&show(bytes as usize)), Ok(bytes as usize));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
