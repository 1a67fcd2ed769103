//! Durations as people write them: `20ms`, `1.5s`, `2m`, `24h`; a bare number is seconds.

use std::time::Duration;

/// A year: anything longer is a typing error, and sums of such times cannot overflow a clock.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "" | "s" => 1.0,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("unknown unit `{unit}` in `{text}`: use us, ms, s, m, h or d")),
    };
    let number: f64 =
        number.trim().parse().map_err(|_| format!("`{text}` is not a duration such as 20ms or 5s"))?;
    let seconds = number * seconds_per_unit;
    if !(0.0..=LONGEST).contains(&seconds) {
        return Err(format!("`{text}` is not between nothing and a year"));
    }
    // Rounded to microseconds, so that 0.1 s is not 100 000 000.000 000 01 ns.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// The shortest of the spellings that [`parse_duration`] reads back as the same time.
pub(crate) fn show_duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        m if m % 1_000_000 == 0 => format!("{}s", m / 1_000_000),
        m if m % 1_000 == 0 => format!("{}ms", m / 1_000),
        m => format!("{m}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit_and_bare_seconds() {
        for (text, millis) in
            [("20ms", 20), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("3", 3000), (" 0 ", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "fast", "5 weeks", "-1s", "inf", "NaN", "9999999h", "1e400"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shows_what_it_reads() {
        for text in ["0s", "20ms", "1500ms", "7us", "90s"] {
            let time = parse_duration(text).unwrap();
            assert_eq!(show_duration(time), text);
        }
    }
}
