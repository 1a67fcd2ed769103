//! The script: what goes wrong, and for how long.
//!
//! ```text
//! SCRIPT = PHASE { ";" PHASE }
//! PHASE  = MODE [ "(" OPTION { "," OPTION } ")" ] [ LENGTH ]
//! LENGTH = DURATION | CALLS "x"
//! MODE   = "ok" | STATUS | "hang" | "hang!" | "stall" | "reset" | "cut" | "error" | "garbage" | "slow"
//! OPTION = "retry-after=" SECONDS        (on a status)
//!        | DURATION                      (on slow: how long an answer takes)
//! ```
//! Phases follow each other and the last one stays, so every other one needs a length.
//! Only the grammar lives here; `play` walks through the phases.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::duration::{parse_duration, show_duration};

/// What happens to a call that arrives during a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers.
    Ok,
    /// Below 300 an answer with this status, else an error of this status in the provider's shape.
    Status { code: u16, retry_after: Option<u64> },
    /// No answer; connections are dropped when the phase ends, or (`forever`) never.
    Hang { forever: bool },
    /// Half of an answer, then silence until the phase ends.
    Stall,
    /// The connection is reset before any answer.
    Reset,
    /// Half of an answer, then the connection breaks.
    Cut,
    /// Half of a stream, then the provider's error event; status 500 for a plain answer.
    Error,
    /// Status 200 with a body that is not what it says it is.
    Garbage,
    /// Every time is ten times as long, or an answer takes the time given.
    Slow { answer_after: Option<Duration> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Time(Duration),
    Calls(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    pub mode: Mode,
    /// `None` only on the last phase.
    pub length: Option<Length>,
}

/// At least one phase; parsed with [`str::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    phases: Vec<Phase>,
}

impl Script {
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// One mode for as long as the script is in force.
    pub fn always(mode: Mode) -> Self {
        Self { phases: vec![Phase { mode, length: None }] }
    }
}

impl Default for Script {
    fn default() -> Self {
        Self::always(Mode::Ok)
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(';').map(str::trim).filter(|part| !part.is_empty()).collect();
        let phases = parts.iter().map(|part| part.parse()).collect::<Result<Vec<Phase>, _>>()?;
        let Some((_, all_but_last)) = phases.split_last() else {
            return Err("a script needs at least one phase, such as `ok`".into());
        };
        match all_but_last.iter().position(|phase| phase.length.is_none()) {
            Some(at) => Err(format!(
                "`{}` has no length, so what follows it would never come: write `{} 15s` or `{} 3x`",
                parts[at], parts[at], parts[at]
            )),
            None => Ok(Self { phases }),
        }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name_end = text.find(|c: char| c == '(' || c.is_whitespace()).unwrap_or(text.len());
        let (name, rest) = text.split_at(name_end);
        let (options, length) = split_options(rest.trim_start()).ok_or(format!("`{text}` lacks a `)`"))?;
        let mut mode = mode_named(name)?;
        for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            mode = with_option(mode, option)?;
        }
        let length = (!length.is_empty()).then(|| parse_length(length)).transpose()?;
        Ok(Self { mode, length })
    }
}

/// `(a,b) 5s` → (`a,b`, `5s`).
fn split_options(rest: &str) -> Option<(&str, &str)> {
    match rest.strip_prefix('(') {
        None => Some(("", rest.trim())),
        Some(rest) => rest.split_once(')').map(|(options, length)| (options, length.trim())),
    }
}

fn mode_named(name: &str) -> Result<Mode, String> {
    Ok(match name {
        "ok" => Mode::Ok,
        "hang" => Mode::Hang { forever: false },
        "hang!" => Mode::Hang { forever: true },
        "stall" => Mode::Stall,
        "reset" => Mode::Reset,
        "cut" => Mode::Cut,
        "error" => Mode::Error,
        "garbage" => Mode::Garbage,
        "slow" => Mode::Slow { answer_after: None },
        _ => match name.parse() {
            Ok(code @ 200..=599) => Mode::Status { code, retry_after: None },
            _ => {
                return Err(format!(
                    "unknown mode `{name}`: use ok, a status from 200 to 599, hang, hang!, stall, reset, \
                     cut, error, garbage or slow"
                ));
            }
        },
    })
}

fn with_option(mode: Mode, option: &str) -> Result<Mode, String> {
    match (mode, option.split_once('=')) {
        (Mode::Status { code, .. }, Some(("retry-after", seconds))) => {
            let seconds = seconds.parse().map_err(|_| format!("`{option}` needs whole seconds"))?;
            Ok(Mode::Status { code, retry_after: Some(seconds) })
        }
        (Mode::Slow { .. }, None) => Ok(Mode::Slow { answer_after: Some(parse_duration(option)?) }),
        _ => Err(format!("`{option}` fits no such mode: there are `503(retry-after=2)` and `slow(5s)`")),
    }
}

fn parse_length(text: &str) -> Result<Length, String> {
    match text.strip_suffix('x') {
        None => parse_duration(text).map(Length::Time),
        Some(calls) => match calls.trim().parse() {
            Ok(calls) if calls > 0 => Ok(Length::Calls(calls)),
            _ => Err(format!("`{text}` is no number of calls: write 3x")),
        },
    }
}

impl fmt::Display for Script {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, phase) in self.phases.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(out, "{separator}{phase}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Mode::Ok => out.write_str("ok")?,
            Mode::Status { code, retry_after: None } => write!(out, "{code}")?,
            Mode::Status { code, retry_after: Some(seconds) } => {
                write!(out, "{code}(retry-after={seconds})")?;
            }
            Mode::Hang { forever } => out.write_str(if forever { "hang!" } else { "hang" })?,
            Mode::Stall => out.write_str("stall")?,
            Mode::Reset => out.write_str("reset")?,
            Mode::Cut => out.write_str("cut")?,
            Mode::Error => out.write_str("error")?,
            Mode::Garbage => out.write_str("garbage")?,
            Mode::Slow { answer_after: None } => out.write_str("slow")?,
            Mode::Slow { answer_after: Some(time) } => write!(out, "slow({})", show_duration(time))?,
        }
        match self.length {
            None => Ok(()),
            Some(Length::Time(time)) => write!(out, " {}", show_duration(time)),
            Some(Length::Calls(calls)) => write!(out, " {calls}x"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_phases_by_time_and_by_calls() {
        let script: Script = "ok 15s; 503 3x; hang!".parse().unwrap();
        assert_eq!(
            script.phases(),
            [
                Phase { mode: Mode::Ok, length: Some(Length::Time(Duration::from_secs(15))) },
                Phase { mode: Mode::Status { code: 503, retry_after: None }, length: Some(Length::Calls(3)) },
                Phase { mode: Mode::Hang { forever: true }, length: None },
            ]
        );
    }

    #[test]
    fn shows_what_it_reads() {
        for text in [
            "ok",
            "429(retry-after=2) 10s; ok",
            "slow(250ms) 5x; slow 1s; stall 2s; hang 1s; hang! 1x; reset 1x; cut 1x; error 1x; garbage",
        ] {
            assert_eq!(text.parse::<Script>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn spaces_and_a_trailing_semicolon_do_not_matter() {
        let tidy: Script = "503(retry-after=2) 10s; ok".parse().unwrap();
        assert_eq!(" 503 ( retry-after=2 )10s ;ok; ".parse::<Script>().unwrap(), tidy);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, complaint) in [
            ("", "at least one phase"),
            ("ok; 503", "has no length"),
            ("sulk 5s", "unknown mode `sulk`"),
            ("99", "unknown mode `99`"),
            ("503(retry-after=soon)", "whole seconds"),
            ("ok(5s)", "fits no such mode"),
            ("503(retry-after=2 5s", "lacks a `)`"),
            ("ok 0x; ok", "no number of calls"),
            ("ok 5parsecs", "unknown unit"),
        ] {
            let error = text.parse::<Script>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
