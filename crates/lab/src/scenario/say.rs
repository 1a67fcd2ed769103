//! How figures are put into words, the same way in all verdicts.

use crate::document::{Document, Finding, Target, Verdict};

/// A finding for every target beside the direct one; the sentence has them all.
pub(super) fn judge(document: &Document, find: impl Fn(&Target, &Target) -> String) -> Verdict {
    let Some((direct, others)) = document.targets.split_first() else { return Verdict::default() };
    let finding = |target: &Target| {
        let text = match &target.cannot {
            Some(why) => format!("was not measured: {why}"),
            None => find(direct, target),
        };
        Finding { target: target.name.clone(), text }
    };
    let findings: Vec<Finding> = others.iter().map(finding).collect();
    let said: Vec<String> = match findings.is_empty() {
        true => vec![format!("direct: {}", alone(direct))],
        false => findings.iter().map(|finding| format!("{}: {}", finding.target, finding.text)).collect(),
    };
    Verdict { sentence: format!("{}.", said.join("; ")), findings, caveats: caveats(document) }
}

/// With nothing to compare it with.
fn alone(direct: &Target) -> String {
    let figures = &direct.figures;
    format!("{}, the slowest whole answer took {}", answered(direct), ms(figures.max_ms))
}

/// `all 200 callers got a whole answer`, or how many.
pub(super) fn answered(target: &Target) -> String {
    let figures = &target.figures;
    if figures.ok == figures.calls {
        format!("all {} callers got a whole answer", figures.calls)
    } else {
        format!("{} of {} callers got a whole answer", figures.ok, figures.calls)
    }
}

/// So many are missing at most where something is said of all: one in twenty.
pub(super) fn nearly_all(target: &Target) -> bool {
    let figures = &target.figures;
    figures.ok > 0 && figures.ok * 20 >= figures.calls * 19
}

/// How the others ended: `12 with 429, 3 with connect`.
pub(super) fn how_others_ended(target: &Target) -> String {
    let others = target.figures.outcomes.iter().filter(|(name, count)| *name != "ok" && **count > 0);
    let said: Vec<String> = others.map(|(name, count)| format!("{count} with `{name}`")).collect();
    match said.is_empty() {
        true => format!("{} did not", target.figures.calls - target.figures.ok),
        false => format!("the others ended {}", said.join(", ")),
    }
}

/// `the provider got 1 call (direct 200)`, where it counts.
pub(super) fn upstream(target: &Target, direct: &Target) -> String {
    match (target.figures.upstream_calls, direct.figures.upstream_calls) {
        (Some(1), Some(theirs)) => format!("the provider got 1 call (direct {theirs})"),
        (Some(ours), Some(theirs)) => format!("the provider got {ours} calls (direct {theirs})"),
        _ => "what the provider got is not counted".to_owned(),
    }
}

/// `, at most 64 at the provider at once over 64 connections (direct 200 over 200)`, where it counts.
pub(super) fn at_once(target: &Target, direct: &Target) -> String {
    let of = |target: &Target| Some((target.figures.most_in_flight?, target.figures.connections?));
    match (of(target), of(direct)) {
        (Some((ours, through)), Some((theirs, over))) => format!(
            ", at most {ours} at the provider at once over {through} connections (direct {theirs} over {over})"
        ),
        _ => String::new(),
    }
}

pub(super) fn ms(time: Option<f64>) -> String {
    match time {
        None => "no time at all, as there was none".to_owned(),
        Some(time) if time >= 1000.0 => format!("{:.2} s", time / 1e3),
        Some(time) if time >= 10.0 => format!("{time:.0} ms"),
        Some(time) => format!("{time:.2} ms"),
    }
}

/// `time` beside the direct one: `1.61 s (direct 1.58 s)`.
pub(super) fn beside(time: Option<f64>, direct: Option<f64>) -> String {
    match direct {
        Some(_) => format!("{} (direct {})", ms(time), ms(direct)),
        None => ms(time),
    }
}

/// What every reader should keep in mind.
fn caveats(document: &Document) -> Vec<String> {
    let mut caveats = Vec::new();
    if document.versions.get("build").is_some_and(|build| build == "debug") {
        caveats.push("this is a debug build: no time counts".to_owned());
    }
    if let Some(load) = document.machine.load.first()
        && *load > document.machine.cores as f64
    {
        caveats.push(format!(
            "the machine was busy with other things (load {load:.1} on {} cores): times are upper bounds",
            document.machine.cores
        ));
    }
    for target in &document.targets {
        if target.figures.ok > 0 && target.figures.upstream_calls == Some(0) {
            caveats.push(format!(
                "no call of {} reached the provider that is counted: it asks another",
                target.name
            ));
        }
    }
    if document
        .targets
        .iter()
        .any(|target| target.figures.upstream_calls.is_none() && target.cannot.is_none())
    {
        caveats.push("the provider is not the laboratory's own: what reached it is not counted".to_owned());
    }
    caveats
}
