//! The report for people: targets side by side, then the verdict.

use crate::document::{Document, Figures, Target};

const MOST_WIDTH: usize = 34;

type Count = fn(&Figures) -> Option<u64>;
type Time = fn(&Figures) -> Option<f64>;

/// Rows that nobody has a value for are left out.
const COUNTS: [(&str, Count); 8] = [
    ("calls", |figures| Some(figures.calls)),
    ("calls at the provider", |figures| figures.upstream_calls),
    ("most of them at once", |figures| figures.most_in_flight),
    ("whole answers", |figures| Some(figures.ok)),
    ("refused", |figures| Some(figures.refused)),
    ("failed", |figures| Some(figures.failed)),
    ("input tokens", |figures| figures.input_tokens),
    ("of them in the provider's cache", |figures| figures.cached_input_tokens),
];

/// By the name of the figure, for its spread.
const TIMES: [(&str, &str, Time); 15] = [
    ("p50 ms", "p50_ms", |figures| figures.p50_ms),
    ("p95 ms", "p95_ms", |figures| figures.p95_ms),
    ("p99 ms", "p99_ms", |figures| figures.p99_ms),
    ("slowest ms", "max_ms", |figures| figures.max_ms),
    ("first content p50 ms", "first_byte_p50_ms", |figures| figures.first_byte_p50_ms),
    ("first content p95 ms", "first_byte_p95_ms", |figures| figures.first_byte_p95_ms),
    ("first content p99 ms", "first_byte_p99_ms", |figures| figures.first_byte_p99_ms),
    ("pieces late p50 ms", "chunk_late_p50_ms", |figures| figures.chunk_late_p50_ms),
    ("pieces late p99 ms", "chunk_late_p99_ms", |figures| figures.chunk_late_p99_ms),
    ("pieces under way p50 ms", "chunk_transit_p50_ms", |figures| figures.chunk_transit_p50_ms),
    ("pieces under way p99 ms", "chunk_transit_p99_ms", |figures| figures.chunk_transit_p99_ms),
    ("no answer, known at p50 ms", "not_ok_p50_ms", |figures| figures.not_ok_p50_ms),
    ("no answer, known at most ms", "not_ok_max_ms", |figures| figures.not_ok_max_ms),
    ("whole answers a second", "ok_per_second", |figures| figures.ok_per_second),
    ("processor µs a call", "cpu_us_per_call", |figures| figures.cpu_us_per_call),
];

pub fn render(document: &Document) -> String {
    let mut lines = vec![format!("{}: {}", document.scenario, document.title), String::new()];
    lines.extend(document.story.iter().map(|line| format!("  {line}")));
    lines.push(String::new());
    lines.extend(grid(&rows(document)));
    lines.push(String::new());
    if document.rounds > 1 {
        lines.push(format!(
            "  Medians of {} rounds, in brackets the smallest and the largest.",
            document.rounds
        ));
    }
    let parameters: Vec<String> =
        document.parameters.iter().map(|(name, value)| format!("{name} {}", bare(value))).collect();
    lines.push(format!("  {} (times in ms)", parameters.join(", ")));
    let versions: Vec<String> =
        document.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    lines.push(format!("  {}; {}", document.machine, versions.join(", ")));
    lines.push(String::new());
    let finding = |finding: &crate::document::Finding| format!("{}: {}.", finding.target, finding.text);
    match document.verdict.findings.is_empty() {
        true => lines.push(document.verdict.sentence.clone()),
        false => lines.extend(document.verdict.findings.iter().map(finding)),
    }
    lines.extend(document.verdict.caveats.iter().map(|caveat| format!("Note: {caveat}.")));
    lines.join("\n") + "\n"
}

fn bare(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn rows(document: &Document) -> Vec<Vec<String>> {
    let targets = &document.targets;
    let mut rows = vec![head(targets)];
    for (label, get) in COUNTS {
        let cell = |target: &Target| measured(target, get(&target.figures).map(|count| count.to_string()));
        push(&mut rows, label, targets, cell);
    }
    for fate in names(targets, |figures| figures.fates.keys()) {
        let cell = |target: &Target| measured(target, target.figures.fates.get(&fate).map(u64::to_string));
        push(&mut rows, &format!("fate: {fate}"), targets, cell);
    }
    for outcome in names(targets, |figures| figures.outcomes.keys()).into_iter().filter(|name| name != "ok") {
        let cell =
            |target: &Target| measured(target, target.figures.outcomes.get(&outcome).map(u64::to_string));
        push(&mut rows, &format!("ended: {outcome}"), targets, cell);
    }
    for (label, name, get) in TIMES {
        let cell = |target: &Target| {
            let spread = target.spread.get(name).filter(|_| document.rounds > 1);
            let time = get(&target.figures).map(|time| match spread {
                Some(spread) => format!("{} ({}–{})", short(time), short(spread.min), short(spread.max)),
                None => short(time),
            });
            measured(target, time)
        };
        push(&mut rows, label, targets, cell);
    }
    rows
}

fn head(targets: &[Target]) -> Vec<String> {
    std::iter::once(String::new()).chain(targets.iter().map(|target| target.name.clone())).collect()
}

fn names<'a, K: Iterator<Item = &'a String>>(
    targets: &'a [Target],
    keys: impl Fn(&'a Figures) -> K,
) -> Vec<String> {
    let mut names: Vec<String> = targets.iter().flat_map(|target| keys(&target.figures)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// A target that was not measured has no counts either, not zeros.
fn measured(target: &Target, cell: Option<String>) -> Option<String> {
    cell.filter(|_| target.cannot.is_none())
}

fn push(
    rows: &mut Vec<Vec<String>>,
    label: &str,
    targets: &[Target],
    cell: impl Fn(&Target) -> Option<String>,
) {
    let cells: Vec<Option<String>> = targets.iter().map(cell).collect();
    if cells.iter().any(Option::is_some) {
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "–".to_owned()));
        rows.push(std::iter::once(label.to_owned()).chain(cells).collect());
    }
}

/// Three digits that matter.
fn short(number: f64) -> String {
    match number {
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

fn grid(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let widest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        widest.min(MOST_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("  {}", cells.collect::<Vec<_>>().join("   ")).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Spread, Verdict};

    fn target(name: &str, calls: u64, p50: Option<f64>) -> Target {
        let figures = Figures { calls, ok: calls, p50_ms: p50, ..Figures::default() };
        let spread = [("p50_ms".to_owned(), Spread { min: 1.0, max: 200.0 })].into();
        Target { name: name.to_owned(), figures, spread, ..Target::default() }
    }

    #[test]
    fn targets_stand_side_by_side_and_what_is_missing_is_a_dash() {
        let mut window = target("gate, window on", 0, None);
        window.cannot = Some("not in this version".to_owned());
        let document = Document {
            rounds: 3,
            targets: vec![target("direct", 200, Some(12.345)), window],
            verdict: Verdict { sentence: "So it is.".to_owned(), ..Verdict::default() },
            ..Document::default()
        };
        let text = render(&document);
        let line = |start: &str| text.lines().find(|line| line.trim().starts_with(start)).unwrap().to_owned();
        assert!(line("calls").ends_with('–') && line("calls").contains("200"), "{text}");
        assert!(line("p50 ms").contains("12.3 (1.00–200)"), "{text}");
        assert!(!text.contains("input tokens"), "{text}");
        assert!(text.ends_with("So it is.\n"), "{text}");
    }
}
