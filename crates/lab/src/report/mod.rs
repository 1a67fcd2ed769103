//! The report as a page: one file that fetches nothing and runs no script, made from documents alone.
//!
//! Every number on it is one of the document's, or a count or a place that follows from its calls.

mod bars;
mod latency;
mod markup;
mod outcome;
mod plot;
mod scale;
mod timeline;

use crate::document::{Document, Figures, Finding, Target};
use crate::table::{A_SECOND, OF_WHAT, Row, command, flag, rows, short};
use markup::{Element, element, text};

const STYLE: &str = include_str!("style.css");
/// Classes of targets: the first target, the gate, and the others, who share what is left.
const STYLES: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];

/// A section for each document, with a table of contents if there are several.
pub fn html(documents: &[Document]) -> String {
    let title = match documents {
        [document] => format!("{}: {}", document.scenario, document.title),
        _ => format!("Sluicegate bench: {} experiments", documents.len()),
    };
    let head = element("head")
        .add(element("meta").set("charset", "utf-8"))
        .add(element("meta").set("name", "viewport").set("content", "width=device-width, initial-scale=1"))
        .add(text("title", &title))
        .add(text("style", STYLE));
    let several = documents.len() > 1;
    let sections = documents.iter().enumerate().map(|(number, document)| section(number, document, several));
    let body = element("body")
        .add(shapes())
        .add(themes())
        .add(several.then(|| text("h1", &title)))
        .add(several.then(|| contents(documents)))
        .all(sections);
    let page = element("html").set("lang", "en").add(head).add(body);
    format!("<!doctype html>\n{page}\n")
}

/// What there is, and what can be compared in all of it.
fn contents(documents: &[Document]) -> Element {
    let head = element("tr").all(COLUMNS.map(|name| text("th", name).set("scope", "col")));
    let rows = documents
        .iter()
        .enumerate()
        .flat_map(|(number, document)| glance(number, document, &differing(documents, document)));
    let table = element("table").add(element("thead").add(head)).add(element("tbody").all(rows));
    let words = "direct is the provider itself, with no proxy before it. Errors are those that callers knew of, with a \
                 status or without one; still waiting had nothing when the laboratory stopped to look. Times are of \
                 whole answers alone, from when a call should have been sent; half of them took no longer than the p50.";
    element("nav").class("contents").add(element("div").class("wide").add(table)).add(text("p", words))
}

const COLUMNS: [&str; 8] = [
    "sent to",
    "calls",
    "whole answers",
    "errors",
    "still waiting",
    "calls at the provider",
    "p50",
    "slowest",
];

/// What tells this experiment from the others of its scenario: the parameters that not all of them have alike.
fn differing(documents: &[Document], document: &Document) -> Vec<String> {
    let others = || documents.iter().filter(|other| other.scenario == document.scenario);
    let differs =
        |name: &str| others().any(|other| other.parameters.get(name) != document.parameters.get(name));
    document.parameters.keys().filter(|name| differs(name)).filter_map(|name| flag(document, name)).collect()
}

/// The name of an experiment, and a line for each target.
fn glance(number: usize, document: &Document, differing: &[String]) -> Vec<Element> {
    let link = text("a", format!("{}: {}", document.scenario, document.title));
    let link = link.set("href", format!("#{}", anchor(number)));
    let with = (!differing.is_empty()).then(|| {
        let flags = differing.iter().flat_map(|flag| [text("span", " "), text("span", flag).class("flag")]);
        element("small").class("differing").all(flags)
    });
    let name = element("th").set("scope", "rowgroup").set("colspan", COLUMNS.len()).add(link).add(with);
    let line = |target: &Target| {
        let figures = &target.figures;
        let row = element("tr").add(text("th", &target.name).set("scope", "row"));
        if target.cannot.is_some() {
            return row.add(text("td", "not measured").set("colspan", COLUMNS.len() - 1).class("absent"));
        }
        let time = |time: Option<f64>| time.map_or("–".to_owned(), scale::time);
        let counted = figures.upstream_calls.map_or("–".to_owned(), |calls| calls.to_string());
        let waiting = figures.outcomes.get("waiting").copied().unwrap_or(0);
        let errors = figures.calls.saturating_sub(figures.ok + waiting);
        let counts = [figures.calls, figures.ok, errors, waiting].map(|count| count.to_string());
        let counts = counts.into_iter().chain([counted]);
        row.all(counts.chain([time(figures.p50_ms), time(figures.max_ms)]).map(|cell| text("td", cell)))
    };
    std::iter::once(element("tr").class("named").add(name)).chain(document.targets.iter().map(line)).collect()
}

fn anchor(number: usize) -> String {
    format!("experiment-{}", number + 1)
}

fn section(number: usize, document: &Document, several: bool) -> Element {
    let heading =
        text(if several { "h2" } else { "h1" }, format!("{}: {}", document.scenario, document.title));
    let story = element("div").class("story").all(document.story.iter().map(|line| text("p", line)));
    let counts = element("div").class("side").all(bars::amounts(document)).all(bars::shares(document));
    element("section")
        .set("id", anchor(number))
        .add(heading)
        .add(story)
        .add(verdict(document))
        .add(caveats(document))
        .add(facts(document))
        .add(element("div").class("top").add(figures(document)).add(counts))
        .add(timeline::figure(document))
        .add(latency::curves(document))
        .add(element("div").class("pair").all(latency::streams(document)))
}

fn verdict(document: &Document) -> Element {
    let verdict = &document.verdict;
    let finding = |finding: &Finding| {
        element("p").add(text("b", format!("{}: ", finding.target))).text(format!("{}.", finding.text))
    };
    let said = element("div").class("verdict");
    match verdict.findings.is_empty() {
        true => said.add(text("p", &verdict.sentence)),
        false => said.all(verdict.findings.iter().map(finding)),
    }
}

fn caveats(document: &Document) -> Option<Element> {
    let caveats = &document.verdict.caveats;
    let list = element("ul").class("caveats");
    (!caveats.is_empty())
        .then(|| list.all(caveats.iter().map(|caveat| text("li", format!("Note: {caveat}.")))))
}

/// With what, where and when.
fn facts(document: &Document) -> Element {
    let listed = |pairs: Vec<String>| pairs.join(", ");
    let versions = document.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let targets = document.targets.iter().map(place);
    let rounds =
        format!("{}, after one to warm up that does not count; the targets took turns", document.rounds);
    let facts = [
        ("Sent to", targets.collect::<Vec<_>>().join("; ")),
        ("Rounds", rounds),
        ("Machine", document.machine.to_string()),
        ("Versions", listed(versions.collect())),
        ("Started", format!("{}, took {}", to_the_second(&document.started), scale::time(document.took_ms))),
    ];
    // A flag and its value stay on one line.
    let command = command(document);
    let (name, flags) = command.split_once(" --").unwrap_or((&command, ""));
    let flags = flags.split(" --").filter(|flag| !flag.is_empty());
    let flags = flags.flat_map(|flag| [text("span", " "), text("span", format!("--{flag}")).class("flag")]);
    element("dl")
        .class("facts")
        .add(text("dt", "Command"))
        .add(element("dd").add(text("code", name).all(flags)))
        .all(facts.into_iter().flat_map(|(name, value)| [text("dt", name), text("dd", value)]))
}

/// A target, who that is, and where.
fn place(target: &Target) -> String {
    let who = match target.name.as_str() {
        "direct" => " (the provider itself, with no proxy before it)",
        "gate" => " (Sluicegate before that provider)",
        "relay" => " (a bare relay, which does nothing but pass calls on)",
        _ => "",
    };
    format!("{}{who} {}", target.name, target.url)
}

fn to_the_second(time: &str) -> String {
    let cut: Option<jiff::Timestamp> = time.parse().ok();
    cut.map_or_else(|| time.to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn figures(document: &Document) -> Element {
    let named = |target: &Target| text("th", &target.name).set("scope", "col");
    let head = element("tr").add(element("td")).all(document.targets.iter().map(named));
    let line = |row: Row| {
        let cells = row.cells.into_iter().map(|cell| match cell {
            None => text("td", "–"),
            Some(cell) => {
                let spread = cell.spread.map(|(min, max)| text("small", format!("{min}–{max}")));
                text("td", cell.value).add(spread)
            }
        });
        element("tr").add(text("th", row.label).set("scope", "row")).all(cells)
    };
    let body = element("tbody").all(rows(document).into_iter().map(line));
    let table = element("table").add(element("thead").add(head)).add(body);
    let words = match document.rounds {
        0 | 1 => format!("Counts and times of one round. {OF_WHAT}"),
        rounds => format!(
            "Times are medians of {rounds} rounds, counts those of the middle one; small: the smallest and the largest \
             of the rounds. {OF_WHAT}"
        ),
    };
    let throughput = document.targets.iter().any(|target| target.figures.ok_per_second.is_some());
    let words = if throughput { format!("{words} {A_SECOND}") } else { words };
    element("figure")
        .class("figures")
        .add(text("h3", "The figures"))
        .add(text("p", words))
        .add(element("div").class("wide").add(table))
        .all(document.targets.iter().filter_map(cannot))
}

fn cannot(target: &Target) -> Option<Element> {
    let why = target.cannot.as_ref()?;
    let words = element("p").class("cannot");
    Some(words.add(text("b", format!("{} was not measured: ", target.name))).text(format!("{why}.")))
}

/// The targets that were measured, each with its class: the same in every chart, and the gate's in every section.
fn measured(document: &Document) -> impl Iterator<Item = (&'static str, &Target)> {
    let mut others = STYLES[2..].iter().copied().cycle();
    let styled = document.targets.iter().enumerate().map(move |(number, target)| {
        let style = match target.name.as_str() {
            _ if number == 0 => Some(STYLES[0]),
            "gate" => Some(STYLES[1]),
            _ => others.next(),
        };
        (style.unwrap_or_default(), target)
    });
    styled.filter(|(_, target)| target.cannot.is_none())
}

/// Some of a target's figures, each with its name or its shape.
type Pick = fn(&Figures) -> Vec<(&'static str, Option<f64>)>;

/// A target's class, the target, and those of the figures that it has.
type Picked<'a> = (&'static str, &'a Target, Vec<(&'static str, f64)>);

/// Of every target that was measured and has any.
fn picked(document: &Document, pick: Pick) -> Vec<Picked<'_>> {
    let picked = measured(document).map(|(style, target)| {
        let figures = pick(&target.figures).into_iter();
        (style, target, figures.filter_map(|(name, figure)| Some((name, figure?))).collect::<Vec<_>>())
    });
    picked.filter(|(_, _, figures)| !figures.is_empty()).collect()
}

/// As precise as in the table.
fn short_time(ms: f64) -> String {
    format!("{} ms", short(ms))
}

/// A choice without a script: the style sheet asks which is checked. `data-theme` on the root decides as well.
fn themes() -> Element {
    let theme = |name: &str| {
        let input = element("input").set("type", "radio").set("name", "theme").set("id", name);
        let input = if name == "auto" { input.set("checked", "checked") } else { input };
        element("label").add(input).text(format!(" {name}"))
    };
    element("div").class("themes").all(["auto", "light", "dark"].map(theme))
}

/// What charts refer to: shapes around a place, and patterns.
fn shapes() -> Element {
    let shape = |id: &str, path: &str, class: &str| {
        element("symbol")
            .set("id", id)
            .set("overflow", "visible")
            .add(element("path").set("d", path).class(class))
    };
    let pattern = |id: &str, over: Element| {
        let ground = element("rect").set("width", 8).set("height", 8).class(id);
        let pattern = element("pattern").set("id", id).set("width", 8).set("height", 8);
        pattern.set("patternUnits", "userSpaceOnUse").add(ground).add(over)
    };
    let stripes = element("path").set("d", "M-2 2L2 -2M-2 10L10 -2M6 10L10 6").class("over");
    let dot = element("circle").set("cx", 4).set("cy", 4).set("r", 1.8).class("spot");
    let all = element("defs")
        .add(shape("cross", "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5", "shape-line"))
        .add(shape("diamond", "M0 -5L5 0L0 5L-5 0Z", "shape"))
        .add(shape("circle", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", "shape"))
        .add(shape("square", "M-5 -5H5V5H-5Z", "shape"))
        .add(shape("triangle", "M0 -6L6 5H-6Z", "shape"))
        .add(pattern("stripes", stripes))
        .add(pattern("dots", dot));
    element("svg").class("defined").set("width", 0).set("height", 0).set("aria-hidden", "true").add(all)
}

#[cfg(test)]
mod tests;
