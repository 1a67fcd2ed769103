//! The report for people: targets side by side, then the verdict. The report as a page shows the same rows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document::{Document, Figures, Target};
use crate::knobs::TIME_KNOBS;

const MOST_WIDTH: usize = 34;

pub(crate) const OF_WHAT: &str =
    "Percentiles and slowest are of whole answers alone: 95 of 100 of those took no longer than the p95.";
pub(crate) const A_SECOND: &str =
    "Whole answers a second are those of a round by its length, from its first call to its last end.";

type Count = fn(&Figures) -> Option<u64>;
type Time = fn(&Figures) -> Option<f64>;

/// Label, name of the figure, figure. Rows that nobody has a value for are left out.
const COUNTS: [(&str, &str, Count); 11] = [
    ("calls", "calls", |figures| Some(figures.calls)),
    ("calls at the provider", "upstream_calls", |figures| figures.upstream_calls),
    ("most of them at once", "most_in_flight", |figures| figures.most_in_flight),
    ("connections to the provider", "connections", |figures| figures.connections),
    ("groups of calls at the provider", "groups", |figures| figures.groups),
    ("calls in the largest of them", "largest_group", |figures| figures.largest_group),
    ("whole answers", "ok", |figures| Some(figures.ok)),
    ("refused", "refused", |figures| Some(figures.refused)),
    ("failed", "failed", |figures| Some(figures.failed)),
    ("input tokens", "input_tokens", |figures| figures.input_tokens),
    ("of them in the provider's cache", "cached_input_tokens", |figures| figures.cached_input_tokens),
];

const TIMES: [(&str, &str, Time); 15] = [
    ("p50 ms", "p50_ms", |figures| figures.p50_ms),
    ("p95 ms", "p95_ms", |figures| figures.p95_ms),
    ("p99 ms", "p99_ms", |figures| figures.p99_ms),
    ("slowest ms", "max_ms", |figures| figures.max_ms),
    ("first content p50 ms", "first_byte_p50_ms", |figures| figures.first_byte_p50_ms),
    ("first content p95 ms", "first_byte_p95_ms", |figures| figures.first_byte_p95_ms),
    ("first content p99 ms", "first_byte_p99_ms", |figures| figures.first_byte_p99_ms),
    ("pieces behind the pace p50 ms", "chunk_late_p50_ms", |figures| figures.chunk_late_p50_ms),
    ("pieces behind the pace p99 ms", "chunk_late_p99_ms", |figures| figures.chunk_late_p99_ms),
    ("pieces under way p50 ms", "chunk_transit_p50_ms", |figures| figures.chunk_transit_p50_ms),
    ("pieces under way p99 ms", "chunk_transit_p99_ms", |figures| figures.chunk_transit_p99_ms),
    ("error known after p50 ms", "not_ok_p50_ms", |figures| figures.not_ok_p50_ms),
    ("error known after, slowest ms", "not_ok_max_ms", |figures| figures.not_ok_max_ms),
    ("whole answers a second", "ok_per_second", |figures| figures.ok_per_second),
    ("processor µs a call", "cpu_us_per_call", |figures| figures.cpu_us_per_call),
];

/// One figure of all targets, in their order; `None` where a target has none.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) cells: Vec<Option<Cell>>,
}

pub(crate) struct Cell {
    pub(crate) value: String,
    /// The smallest and the largest over the rounds.
    pub(crate) spread: Option<(String, String)>,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spread = self.spread.as_ref().map(|(min, max)| format!(" ({min}–{max})"));
        write!(out, "{}{}", self.value, spread.unwrap_or_default())
    }
}

pub fn render(document: &Document) -> String {
    let mut lines = vec![format!("{}: {}", document.scenario, document.title), String::new()];
    lines.extend(document.story.iter().map(|line| format!("  {line}")));
    lines.push(String::new());
    lines.extend(grid(&text(document)));
    lines.push(String::new());
    if document.rounds > 1 {
        lines.push(format!(
            "  Medians of {} rounds, in brackets the smallest and the largest.",
            document.rounds
        ));
    }
    lines.push(format!("  {}", OF_WHAT));
    if document.targets.iter().any(|target| target.figures.ok_per_second.is_some()) {
        lines.push(format!("  {}", A_SECOND));
    }
    lines.push(format!("  {}", command(document)));
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

/// The same figures for a page of documentation, with what they were measured with below them.
pub fn markdown(document: &Document) -> String {
    let rows = text(document);
    let line = |cells: &[String]| format!("| {} |", cells.join(" | ")).replace("|  |", "| |");
    let columns = rows.first().map_or(0, Vec::len);
    let rule: Vec<String> =
        (0..columns).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()).collect();
    let mut lines: Vec<String> = rows.iter().map(|row| line(row)).collect();
    lines.insert(1.min(lines.len()), line(&rule));
    lines.push(format!("\n{}\n\n{}", document.verdict.sentence, conditions(document)));
    if document.rounds > 1 {
        lines.push("Times are medians of the rounds, in brackets the smallest and the largest.".to_owned());
    }
    lines.join("\n") + "\n"
}

/// With what, on what and when, and what a reader has to keep in mind.
pub fn conditions(document: &Document) -> String {
    let build = document.versions.get("build").map_or("unknown", String::as_str);
    let day = document.started.split('T').next().unwrap_or_default();
    let notes = document.verdict.caveats.iter().map(|caveat| format!(" Note: {caveat}."));
    format!(
        "`{}`: {}, {build} build, {day}.{}",
        command(document),
        document.machine,
        notes.collect::<String>()
    )
}

/// What would measure the same once more, as a shell takes it.
pub(crate) fn command(document: &Document) -> String {
    let mut words = format!("sluicegate bench {}", document.scenario);
    for flag in document.parameters.keys().filter_map(|name| flag(document, name)) {
        words += &format!(" {flag}");
    }
    words
}

/// A parameter as it is typed; nothing of a switch that is off.
pub(crate) fn flag(document: &Document, name: &str) -> Option<String> {
    let one = |value: &Value| format!("--{name} {}", quoted(&bare(value)));
    Some(match document.parameters.get(name)? {
        Value::Bool(false) => return None,
        Value::Bool(true) => format!("--{name}"),
        Value::Array(all) => all.iter().map(one).collect::<Vec<_>>().join(" "),
        value if TIME_KNOBS.contains(&name) => format!("--{name} {}ms", bare(value)),
        value => one(value),
    })
}

/// One word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

pub(crate) fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // `1500`, not `1500.0`.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        value => value.to_string(),
    }
}

fn text(document: &Document) -> Vec<Vec<String>> {
    let names = document.targets.iter().map(|target| target.name.clone());
    let head = std::iter::once(String::new()).chain(names).collect();
    let line = |row: Row| {
        let cells = row.cells.iter().map(|cell| cell.as_ref().map_or("–".to_owned(), Cell::to_string));
        std::iter::once(row.label.clone()).chain(cells).collect()
    };
    std::iter::once(head).chain(rows(document).into_iter().map(line)).collect()
}

pub(crate) fn rows(document: &Document) -> Vec<Row> {
    let targets = &document.targets;
    let spread =
        |target: &Target, name: &str| target.spread.get(name).copied().filter(|_| document.rounds > 1);
    let mut rows = Vec::new();
    for (label, name, get) in COUNTS {
        let cell = |target: &Target| {
            let spread = spread(target, name).filter(|spread| spread.min < spread.max);
            let spread = spread.map(|spread| (spread.min.to_string(), spread.max.to_string()));
            Some(Cell { value: get(&target.figures)?.to_string(), spread })
        };
        push(&mut rows, label, targets, cell);
    }
    for fate in names(targets, |figures| figures.fates.keys()) {
        push(&mut rows, &format!("fate: {fate}"), targets, |target| of(&target.figures.fates, &fate));
    }
    for outcome in names(targets, |figures| figures.outcomes.keys()).into_iter().filter(|name| name != "ok") {
        push(&mut rows, &format!("ended: {outcome}"), targets, |target| {
            of(&target.figures.outcomes, &outcome)
        });
    }
    for (label, name, get) in TIMES {
        let cell = |target: &Target| {
            if name.starts_with("not_ok_")
                && let Some(patience) = still_waiting(document, target, get(&target.figures))
            {
                return Some(Cell { value: format!("> {} (still waiting)", short(patience)), spread: None });
            }
            let spread = spread(target, name).map(|spread| (short(spread.min), short(spread.max)));
            Some(Cell { value: short(get(&target.figures)?), spread })
        };
        push(&mut rows, label, targets, cell);
    }
    rows
}

/// How long the laboratory looked, where it did not see the end that `known` would be of: nobody knew within that time.
/// Earlier documents have the time of looking itself as a figure there.
fn still_waiting(document: &Document, target: &Target, known: Option<f64>) -> Option<f64> {
    let patience = document.parameters.get("patience")?.as_f64()?;
    let waiting = target.figures.outcomes.get("waiting").is_some_and(|waiting| *waiting > 0);
    (waiting && known.is_none_or(|known| known >= patience)).then_some(patience)
}

fn of(counts: &BTreeMap<String, u64>, name: &str) -> Option<Cell> {
    Some(Cell { value: counts.get(name)?.to_string(), spread: None })
}

pub(crate) fn names<'a, K: Iterator<Item = &'a String>>(
    targets: &'a [Target],
    keys: impl Fn(&'a Figures) -> K,
) -> Vec<String> {
    let mut names: Vec<String> = targets.iter().flat_map(|target| keys(&target.figures)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// A target that was not measured has no counts either, not zeros.
fn push(rows: &mut Vec<Row>, label: &str, targets: &[Target], cell: impl Fn(&Target) -> Option<Cell>) {
    let measured = |target: &Target| cell(target).filter(|_| target.cannot.is_none());
    let cells: Vec<Option<Cell>> = targets.iter().map(measured).collect();
    if cells.iter().any(Option::is_some) {
        rows.push(Row { label: label.to_owned(), cells });
    }
}

/// Three digits that matter.
pub fn short(number: f64) -> String {
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
    use serde_json::json;

    use super::*;
    use crate::document::{Spread, Verdict};

    #[test]
    fn the_command_names_the_places_and_a_shell_can_take_it() {
        let parameters = [
            ("model", json!("gpt-5-mini")),
            ("no-gate", json!(true)),
            ("mock", json!("127.0.0.1:9001")),
            ("target", json!(["LiteLLM 1.108.7=http://127.0.0.1:4010/v1", "it's=http://b/v1?a=b&c=d"])),
        ];
        let document = Document {
            scenario: "crowd".to_owned(),
            parameters: parameters.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Document::default()
        };
        assert_eq!(
            command(&document),
            r"sluicegate bench crowd --mock 127.0.0.1:9001 --model gpt-5-mini --no-gate \
              --target 'LiteLLM 1.108.7=http://127.0.0.1:4010/v1' --target 'it'\''s=http://b/v1?a=b&c=d'"
                .replace("\\\n              ", "")
        );
    }

    #[test]
    fn patience_that_ran_out_is_no_time_after_which_anybody_knew() {
        let waiting = |known| Target {
            figures: Figures {
                not_ok_p50_ms: known,
                outcomes: [("waiting".to_owned(), 120)].into(),
                ..Figures::default()
            },
            ..Target::default()
        };
        let document = |known| Document {
            parameters: [("patience".to_owned(), json!(15_000.0))].into(),
            targets: vec![waiting(known)],
            rounds: 1,
            ..Document::default()
        };
        let median = |known| {
            let text = render(&document(known));
            let line = text.lines().find_map(|line| line.trim().strip_prefix("error known after p50 ms"));
            line.unwrap_or_else(|| panic!("{text}")).trim().to_owned()
        };
        // As documents have it, and as they had it.
        for known in [None, Some(15_007.7)] {
            assert_eq!(median(known), "> 15000 (still waiting)");
        }
        assert_eq!(median(Some(20.0)), "20.0");
    }

    fn target(name: &str, calls: u64, p50: Option<f64>) -> Target {
        let figures = Figures { calls, ok: calls, p50_ms: p50, ..Figures::default() };
        let spread = [("p50_ms".to_owned(), Spread { min: 1.0, max: 200.0 })].into();
        Target { name: name.to_owned(), figures, spread, ..Target::default() }
    }

    #[test]
    fn targets_stand_side_by_side_and_what_is_missing_is_a_dash() {
        let mut window = target("gate, window on", 0, None);
        window.cannot = Some("not in this version".to_owned());
        let parameters = [
            ("calls", 7.into()),
            ("endless", true.into()),
            ("patience", 1500.0.into()),
            ("stream", false.into()),
        ];
        let document = Document {
            scenario: "hang".to_owned(),
            parameters: parameters.map(|(name, value)| (name.to_owned(), value)).into(),
            rounds: 3,
            targets: vec![target("direct", 200, Some(12.345)), window],
            verdict: Verdict { sentence: "So it is.".to_owned(), ..Verdict::default() },
            ..Document::default()
        };
        let text = render(&document);
        assert!(text.contains("  sluicegate bench hang --calls 7 --endless --patience 1500ms\n"), "{text}");
        let line = |start: &str| text.lines().find(|line| line.trim().starts_with(start)).unwrap().to_owned();
        assert!(line("calls").ends_with('–') && line("calls").contains("200"), "{text}");
        assert!(line("p50 ms").contains("12.3 (1.00–200)"), "{text}");
        assert!(!text.contains("input tokens"), "{text}");
        assert!(text.ends_with("So it is.\n"), "{text}");

        let page = markdown(&document);
        assert!(
            page.starts_with("| | direct | gate, window on |\n| --- | ---: | ---: |\n| calls | 200 | – |"),
            "{page}"
        );
        assert!(page.contains("\nSo it is.\n\n`sluicegate bench hang --calls 7"), "{page}");
    }
}
