//! `docs/benchmarks.md`: a template, and the measurements that are kept beside it as JSON documents.
//!
//! Invariant: a table on the page says what a kept document says and nothing else, so that nobody can mend a figure by
//! hand. A template that asks for what is not there, and a document that no table shows, are errors.
//!
//! Of an experiment of the laboratory the calls themselves are not kept: they are many, and its figures, of all rounds
//! and of each, stand beside them in the document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use lab::document::{Document, FORMAT, Machine};
use lab::table;
use serde::Serialize;
use serde_json::Value;

use crate::report::{Report, Row, SECOND_RELAY, Verdict};
use crate::scenarios::SCENARIOS;

/// The name under which the rows of all passes of `proof` are kept.
const PROOF: &str = "proof";
/// Passes before the one in the table, of the same build, whose figures are kept with it.
const EARLIER: usize = 4;

/// Where things lie below the directory of the documentation.
pub struct Docs(pub PathBuf);

impl Docs {
    pub fn page(&self) -> PathBuf {
        self.0.join("benchmarks.md")
    }

    pub fn template(&self) -> PathBuf {
        self.0.join("benchmarks/page.in.md")
    }

    fn kept(&self, name: &str) -> PathBuf {
        self.0.join("benchmarks").join(name).with_extension("json")
    }

    /// The page as it has to be.
    pub fn render(&self) -> Result<String> {
        let path = self.template();
        let template =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        render(&template, &self.measurements()?)
    }

    fn measurements(&self) -> Result<Measurements> {
        let mut all = Measurements::default();
        let directory = self.0.join("benchmarks");
        for entry in directory.read_dir().with_context(|| format!("cannot read {}", directory.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                match Measured::read(&path)? {
                    Measured::Proof(report) => all.proof = Some(report),
                    Measured::Experiment(document) => {
                        all.experiments.insert(name(&path)?, document);
                    }
                }
            }
        }
        Ok(all)
    }

    /// Takes a measurement in: an experiment under the name of its file, a pass of `proof` row by row. What a reader
    /// should know of what was not taken is returned.
    pub fn keep(&self, file: &Path) -> Result<Vec<String>> {
        match Measured::read(file)? {
            Measured::Experiment(mut document) => {
                ensure!(
                    document.versions.get("build").is_some_and(|build| build == "release"),
                    "{} is of a debug build",
                    file.display()
                );
                for target in &mut document.targets {
                    target.timeline.clear();
                }
                write(&self.kept(&name(file)?), &document)?;
                Ok(Vec::new())
            }
            Measured::Proof(new) => {
                let path = self.kept(PROOF);
                let old = match path.exists() {
                    true => Some(Measured::read(&path)?),
                    false => None,
                };
                let (merged, said) = match old {
                    Some(Measured::Proof(old)) => merge(*old, *new)?,
                    Some(Measured::Experiment(_)) => bail!("{} is no pass of proof", path.display()),
                    None => merge(Report { rows: Vec::new(), ..(*new).clone() }, *new)?,
                };
                write(&path, &merged)?;
                Ok(said)
            }
        }
    }
}

/// The name of a file without its extension.
fn name(path: &Path) -> Result<String> {
    let stem = path.file_stem().with_context(|| format!("{} has no name", path.display()))?;
    Ok(stem.to_string_lossy().into_owned())
}

fn write(path: &Path, document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// What the two commands that measure print with `--json`.
enum Measured {
    Proof(Box<Report>),
    Experiment(Box<Document>),
}

impl Measured {
    fn read(path: &Path) -> Result<Measured> {
        let what = || format!("{} is no measurement", path.display());
        let value: Value =
            serde_json::from_slice(&std::fs::read(path).with_context(what)?).with_context(what)?;
        if value.get("rows").is_some() {
            return Ok(Measured::Proof(serde_json::from_value(value).with_context(what)?));
        }
        let document: Box<Document> = serde_json::from_value(value).with_context(what)?;
        ensure!(document.format == FORMAT, "{}: it has the format {}", what(), document.format);
        Ok(Measured::Experiment(document))
    }
}

/// The newest measurement of each scenario; a quick one only where there is no full one.
fn merge(old: Report, new: Report) -> Result<(Report, Vec<String>)> {
    ensure!(new.optimised, "the pass is of a build that is not optimised");
    ensure!(new.gate != SECOND_RELAY, "the pass is of a second relay, not of the gate");
    let same = |a: &Machine, b: &Machine| (&a.cpu, a.cores, &a.os) == (&b.cpu, b.cores, &b.os);
    ensure!(
        same(&old.machine, &new.machine),
        "the pass is of another machine than the rows that are kept: remove {PROOF}.json to begin anew"
    );
    let mut said = Vec::new();
    let mut rows = old.rows;
    let mut measured: Vec<&str> = new.rows.iter().map(|row| row.scenario.as_str()).collect();
    measured.dedup();
    for scenario in measured {
        let of = |row: &&Row| row.scenario == scenario;
        let mut fresh: Vec<Row> = new.rows.iter().filter(of).cloned().collect();
        let before: Vec<Row> = rows.iter().filter(of).cloned().collect();
        if let Some(failed) = fresh.iter().find(|row| row.verdict == Verdict::Error) {
            said.push(format!("{scenario} is not taken: {}", failed.note));
        } else if fresh.iter().any(|row| row.pass.quick) && before.iter().any(|row| !row.pass.quick) {
            said.push(format!("{scenario} is not taken: the pass is a quick one, and there is a full one"));
        } else {
            fresh.iter_mut().for_each(|row| row.earlier = earlier(&before, row));
            rows.retain(|row| row.scenario != scenario);
            rows.extend(fresh);
        }
    }
    // Of equals, those of one scenario, the order is kept.
    rows.sort_by_key(|row| place(&row.scenario));
    let Report { machine, gate, optimised, .. } = new;
    Ok((Report { machine, gate, optimised, rows }, said))
}

/// What is comparable with `row`, oldest first.
fn earlier(before: &[Row], row: &Row) -> Vec<crate::report::Claim> {
    let comparable = |old: &&Row| {
        old.what == row.what && old.pass.built == row.pass.built && old.pass.quick == row.pass.quick
    };
    let Some(old) = before.iter().find(comparable) else { return Vec::new() };
    let all: Vec<_> = old.earlier.iter().copied().chain(old.claim).collect();
    all[all.len().saturating_sub(EARLIER)..].to_vec()
}

/// In the order in which they are measured; the two that are measured as `memory` have names of their own.
fn place(scenario: &str) -> usize {
    let measured_as = if scenario.starts_with("idle-") { "memory" } else { scenario };
    SCENARIOS.iter().position(|name| *name == measured_as).unwrap_or(SCENARIOS.len())
}

#[derive(Default)]
struct Measurements {
    proof: Option<Box<Report>>,
    experiments: BTreeMap<String, Box<Document>>,
}

/// The scenarios of the flow, or all others.
fn part(proof: &Report, flow: bool) -> Report {
    let rows = proof.rows.iter().filter(|row| row.scenario.starts_with("flow-") == flow);
    Report { rows: rows.cloned().collect(), ..proof.clone() }
}

/// A line `{{proof}}`, `{{flow}}`, `{{earlier passes}}`, `{{experiment NAME}}` or `{{targets NAME…}}` gives way to its table.
fn render(template: &str, all: &Measurements) -> Result<String> {
    let mut page = String::new();
    let mut shown = BTreeSet::new();
    for line in template.lines() {
        let Some(wish) = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) else {
            ensure!(!line.contains("{{"), "a wish for a table has to be the whole line: {line}");
            page.push_str(line);
            page.push('\n');
            continue;
        };
        let words: Vec<&str> = wish.split_whitespace().collect();
        let (kind, names) = words.split_first().context("a wish for nothing")?;
        let mut documents = Vec::new();
        for name in names.iter().filter(|_| *kind != "earlier") {
            let document = all.experiments.get(*name);
            let document = document.with_context(|| format!("there is no measurement {name}.json"))?;
            documents.push((*name, document.as_ref()));
            shown.insert(*name);
        }
        match (*kind, documents.as_slice()) {
            ("proof", []) => {
                let proof = all.proof.as_ref().context("there is no proof.json")?;
                shown.insert(PROOF);
                write!(page, "```text\n{}```\n", part(proof, false).table())?;
            }
            ("flow", []) => {
                let proof = all.proof.as_ref().context("there is no proof.json")?;
                write!(page, "```text\n{}```\n", part(proof, true).table())?;
            }
            ("earlier", []) => page.push_str(&moves(all.proof.as_ref().map_or(&[], |proof| &proof.rows))),
            ("experiment", [(_, document)]) => page.push_str(&table::markdown(document)),
            ("targets", [_, ..]) => page.push_str(&targets(&documents)),
            _ => bail!("no table is called {wish}"),
        }
    }
    let kept = all.experiments.keys().map(String::as_str).chain(all.proof.as_ref().map(|_| PROOF));
    let hidden: Vec<&str> = kept.filter(|name| !shown.contains(name)).collect();
    ensure!(hidden.is_empty(), "no table shows {}", hidden.join(", "));
    Ok(page)
}

/// A line for each figure that was measured more than once.
fn moves(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| !row.earlier.is_empty()) {
        let figures: Vec<String> = row.earlier.iter().map(crate::report::Claim::judged).collect();
        // Writing to a string can't fail.
        let _ = writeln!(text, "- `{}`, {}: {}", row.scenario, row.what, figures.join(", "));
    }
    match text.is_empty() {
        true => "There are none.\n".to_owned(),
        false => text,
    }
}

/// A line for each target of each experiment, by the name under which it is kept, with what can be compared everywhere.
fn targets(documents: &[(&str, &Document)]) -> String {
    let time = |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{time:.0}"));
    let mut text = "| experiment | target | calls | at the provider | whole answers | errors | p50 ms | p99 ms | slowest ms |\n\
                    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (name, document) in documents {
        for target in &document.targets {
            let figures = &target.figures;
            if let Some(why) = &target.cannot {
                let _ = writeln!(text, "| `{name}` | {} | not measured: {why} | | | | | | |", target.name);
                continue;
            }
            let _ = writeln!(
                text,
                "| `{name}` | {} | {} | {} | {} | {} | {} | {} | {} |",
                target.name,
                figures.calls,
                figures.upstream_calls.map_or("–".to_owned(), |calls| calls.to_string()),
                figures.ok,
                figures.refused + figures.failed,
                time(figures.p50_ms),
                time(figures.p99_ms),
                time(figures.max_ms),
            );
        }
    }
    text.push_str("\nTimes are of whole answers, medians of the rounds.\n\n");
    for (_, document) in documents {
        let _ = writeln!(text, "- {}", table::conditions(document));
    }
    text
}

#[cfg(test)]
mod tests;
