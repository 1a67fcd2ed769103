//! What was measured, as rows: printed as a table for people or as JSON for machines.

use std::fmt::Write;

use lab::document::Machine;
use serde::{Deserialize, Serialize};

use crate::stats::Middle;

/// What is measured with `proof --null`.
pub const SECOND_RELAY: &str = "a second relay in the gate's place";

/// One figure beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub scenario: String,
    /// What was measured, with its unit.
    pub what: String,
    /// The same without a proxy, where that means something.
    pub direct: Option<f64>,
    pub relay: Option<f64>,
    pub gate: Option<f64>,
    pub claim: Option<Claim>,
    pub verdict: Verdict,
    /// What went wrong, or what a reader has to know.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// In which pass, so that a row can be told from one beside it that is of another.
    pub pass: Pass,
    /// What passes before this one gave for the same build, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Claim>,
}

/// When a row was measured, of what, and how well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// When the scenario began, RFC 3339.
    pub started: String,
    /// When the binary of the gate was made, RFC 3339: rows that differ in it are of different gates.
    pub built: String,
    /// How busy the machine was when the scenario began; nothing where the system does not say.
    pub load: Option<f64>,
    pub quick: bool,
}

/// What is judged: the middle of all rounds, their spread, and the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub of: Of,
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// Gate divided by relay.
    Ratio,
    /// Gate less relay.
    Difference,
    /// The gate's own figure.
    Gate,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    Pass,
    Fail,
    /// Reported, not judged.
    Info,
    /// Not measured.
    Error,
}

impl Row {
    /// A row of middles over rounds, nothing claimed.
    pub fn info(scenario: &str, what: impl Into<String>, relay: &[f64], gate: &[f64]) -> Self {
        let middle = |rounds: &[f64]| (!rounds.is_empty()).then(|| Middle::of(rounds.iter().copied()).median);
        Self {
            scenario: scenario.to_owned(),
            what: what.into(),
            direct: None,
            relay: middle(relay),
            gate: middle(gate),
            claim: None,
            verdict: Verdict::Info,
            note: String::new(),
            pass: Pass::default(),
            earlier: Vec::new(),
        }
    }

    pub fn error(scenario: &str, error: &anyhow::Error) -> Self {
        Self {
            verdict: Verdict::Error,
            note: format!("{error:#}"),
            ..Self::info(scenario, "not measured", &[], &[])
        }
    }

    /// A claim about pairs of rounds: each of the gate's with the relay's that ran beside it.
    pub fn claim(mut self, of: Of, relay: &[f64], gate: &[f64], limit: f64) -> Self {
        let middle = match of {
            Of::Gate => Middle::of(gate.iter().copied()),
            Of::Ratio => Middle::of(relay.iter().zip(gate).map(|(relay, gate)| gate / relay)),
            Of::Difference => Middle::of(relay.iter().zip(gate).map(|(relay, gate)| gate - relay)),
        };
        let Middle { median, low, high } = middle;
        self.claim = Some(Claim { of, median, low, high, limit });
        // Written so that a figure that is no number fails.
        self.verdict = if median <= limit { Verdict::Pass } else { Verdict::Fail };
        self
    }

    pub fn direct(mut self, rounds: &[f64]) -> Self {
        self.direct = Some(Middle::of(rounds.iter().copied()).median);
        self
    }

    pub fn note(mut self, note: String) -> Self {
        self.note = note;
        self
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub machine: Machine,
    /// What was measured: `sluicegate 0.1.0`, or a second relay in its place.
    pub gate: String,
    pub optimised: bool,
    pub rows: Vec<Row>,
}

impl Report {
    pub fn failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.verdict, Verdict::Fail | Verdict::Error))
    }

    /// The machine, what was measured, every row, and the notes. The load is each row's own.
    pub fn table(&self) -> String {
        let head =
            ["scenario", "what", "pass", "load", "direct", "relay", "gate", "judged", "spread", "limit", ""];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(cells));
        let Machine { cpu, cores, os, .. } = &self.machine;
        let build = if self.optimised { "optimised build" } else { "NOT optimised: no figure counts" };
        let mut text = format!("{cpu}, {cores} cores, {os}\n{}, {build}\n\n", self.gate);
        text.push_str(&align(&lines));
        for row in self.rows.iter().filter(|row| !row.note.is_empty()) {
            let _ = writeln!(text, "{} ({}): {}", row.scenario, row.what, row.note);
        }
        text
    }
}

impl Claim {
    /// The middle, as it is judged.
    pub fn judged(&self) -> String {
        match self.of {
            Of::Ratio => format!("× {}", short(self.median)),
            Of::Difference => format!("{:+.3}", self.median),
            Of::Gate => short(self.median),
        }
    }

    fn bound(&self) -> String {
        match self.of {
            Of::Ratio => format!("× {}", self.limit),
            Of::Difference => format!("+{}", self.limit),
            Of::Gate => self.limit.to_string(),
        }
    }
}

fn cells(row: &Row) -> [String; 11] {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".into(), short);
    let (judged, spread, limit) = row.claim.map_or_else(Default::default, |claim| {
        let spread = format!("{} to {}", short(claim.low), short(claim.high));
        (claim.judged(), spread, claim.bound())
    });
    let verdict = format!("{:?}", row.verdict).to_uppercase();
    let pass = if row.pass.quick { "quick" } else { "full" };
    let load = row.pass.load.map_or_else(|| "-".into(), |load| format!("{load:.1}"));
    let [direct, relay, gate] = [row.direct, row.relay, row.gate].map(figure);
    let (scenario, what) = (row.scenario.clone(), row.what.clone());
    [scenario, what, pass.into(), load, direct, relay, gate, judged, spread, limit, verdict]
}

/// Three or more digits that count, and no more.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Columns as wide as their widest cell; text to the left, figures to the right.
fn align<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let text_column = column < 3 || column == N - 1;
            let _ =
                if text_column { write!(row, "{cell:<width$}  ") } else { write!(row, "{cell:>width$}  ") };
        }
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(of: Of, relay: &[f64], gate: &[f64], limit: f64) -> Row {
        Row::info("cpu-small", "µs a call", relay, gate).claim(of, relay, gate, limit)
    }

    #[test]
    fn a_ratio_is_the_median_of_pairs_not_of_sums() {
        let claim = row(Of::Ratio, &[10.0, 20.0, 10.0], &[13.0, 24.0, 15.0], 1.4).claim.unwrap();
        assert_eq!((claim.median, claim.low, claim.high), (1.3, 1.2, 1.5));
    }

    #[test]
    fn the_limit_itself_passes_and_nothing_above_or_beside_it() {
        assert_eq!(row(Of::Difference, &[1.0], &[1.5], 0.5).verdict, Verdict::Pass);
        assert_eq!(row(Of::Difference, &[1.0], &[1.51], 0.5).verdict, Verdict::Fail);
        assert_eq!(row(Of::Gate, &[1.0], &[51.0], 50.0).verdict, Verdict::Fail);
        assert_eq!(row(Of::Ratio, &[0.0], &[0.0], 1.4).verdict, Verdict::Fail);
    }

    #[test]
    fn tables_align_and_carry_notes() {
        let rows = vec![
            row(Of::Ratio, &[10.0], &[13.0], 1.4),
            Row::error("start", &anyhow::anyhow!("it ended at once")),
        ];
        let machine = Machine { cpu: "a processor".into(), cores: 2, os: "an OS".into(), load: vec![0.5] };
        let report = Report { machine, gate: "sluicegate 1.2.3".into(), optimised: true, rows };
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[..2], ["a processor, 2 cores, an OS", "sluicegate 1.2.3, optimised build"]);
        let column =
            |line: &str, cell: &str| line.char_indices().position(|(at, _)| line[at..].starts_with(cell));
        assert_eq!(column(lines[3], "what"), column(lines[5], "not measured"));
        assert!(lines[4].ends_with("× 1.300  1.300 to 1.300  × 1.4  PASS"), "{}", lines[4]);
        assert_eq!(lines[6], "start (not measured): it ended at once");
        assert!(report.failed());
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([12345.6, 45.678, 1.2345, -0.0312].map(short), ["12346", "45.7", "1.234", "-0.031"]);
    }
}
