//! Counts as bars: what was asked of the provider, and what became of the calls.

use std::collections::BTreeMap;

use super::markup::{Element, element, text};
use super::outcome::{KINDS, Kind};
use super::plot::{Plot, legend, percent, sample};
use super::scale::{Scale, digits};
use super::{Pick, measured, picked};
use crate::document::{Document, Figures};
use crate::table::names;

const BAR: f64 = 14.0;
const GAP: f64 = 4.0;
/// Above the bars of a target, for its name.
const NAME: f64 = 24.0;

/// Title, what it is, the axis, and the bars of each target. First what only some experiments are about.
const AMOUNTS: [(&str, &str, &str, Pick); 4] = [
    ("Processor time", "Of the target's process, for one call.", "µs", |figures| {
        vec![("", figures.cpu_us_per_call)]
    }),
    ("Tokens of the prompts", "As the provider told them.", "tokens", |figures| {
        vec![
            ("all", figures.input_tokens.map(|tokens| tokens as f64)),
            ("in the provider's cache", figures.cached_input_tokens.map(|tokens| tokens as f64)),
        ]
    }),
    (
        "What reached the provider",
        "Calls that callers made, and requests that the provider counted.",
        "requests",
        |figures| {
            let sent = (figures.attempts != figures.calls).then_some(figures.attempts as f64);
            match figures.upstream_calls {
                None => Vec::new(),
                Some(reached) => vec![
                    ("calls", Some(figures.calls as f64)),
                    ("sent, retries included", sent),
                    ("reached the provider", Some(reached as f64)),
                ],
            }
        },
    ),
    ("Whole answers a second", "Of a round, from its first call to its last end.", "a second", |figures| {
        vec![("", figures.ok_per_second)]
    }),
];

pub(super) fn amounts(document: &Document) -> Vec<Element> {
    AMOUNTS
        .iter()
        .filter_map(|(title, words, axis, bars)| amount(document, title, words, axis, *bars))
        .collect()
}

fn amount(document: &Document, title: &str, words: &str, axis: &'static str, bars: Pick) -> Option<Element> {
    let rows = picked(document, bars);
    let most = rows.iter().flat_map(|(_, _, bars)| bars.iter().map(|(_, value)| *value)).reduce(f64::max)?;
    let across = Scale::linear(most);
    let (mut inside, mut y) = (Vec::new(), 0.0);
    for (style, target, bars) in &rows {
        inside.push(text("text", &target.name).set("x", 4).set("y", y + NAME - 7.0).class("name"));
        y += NAME;
        for (at, (name, value)) in bars.iter().enumerate() {
            let last = at + 1 == bars.len();
            let class = if last { format!("bar {style}") } else { "bar hollow".to_owned() };
            inside.push(bar(across.place(*value), y, &class));
            let said = format!("{} {name}", digits(*value));
            let end = percent(across.place(*value));
            // A long bar has its words inside, for want of room beside it.
            let inner = across.place(*value) > 50.0;
            let label = text("text", said.trim()).set("x", end).set("y", y + BAR - 3.0);
            inside.push(match (inner, last) {
                (true, true) => label.set("dx", -6).class("inner full"),
                (true, false) => label.set("dx", -6).class("inner"),
                (false, _) => label.set("dx", 6),
            });
            y += BAR + GAP;
        }
    }
    let about = format!("{title}: bars for each target");
    let plot = Plot { across, height: y + GAP, about, axis, left: Vec::new() };
    let figure = element("figure").add(text("h3", title)).add(text("p", words));
    Some(figure.add(plot.draw(digits, inside)))
}

fn bar(width: f64, y: f64, class: &str) -> Element {
    element("rect").set("y", y).set("width", percent(width)).set("height", BAR).class(class)
}

/// What became of the calls, by their outcomes and by what the target says that it did.
pub(super) fn shares(document: &Document) -> Vec<Element> {
    let outcomes = {
        let mut all = names(&document.targets, |figures| figures.outcomes.keys());
        all.sort_by_key(|name| KINDS.iter().position(|kind| *kind == Kind::of(name)));
        let class = |_, name: &str| Kind::of(name).class().to_owned();
        let words = "A whole answer is ok; a number is the status of an error.";
        stacks(document, ("How the calls ended", words), &all, |figures| &figures.outcomes, class)
    };
    let fates = {
        let all = names(&document.targets, |figures| figures.fates.keys());
        let class = |number, name: &str| format!("fate-{}", colour(number, name));
        let words = "By its own word, in a header of its answers.";
        stacks(document, ("What the proxy did with the calls", words), &all, |figures| &figures.fates, class)
    };
    outcomes.into_iter().chain(fates).collect()
}

/// Of a fate: what a gate calls by the same name has the same colour on every page.
fn colour(number: usize, name: &str) -> usize {
    match name {
        "joined" => 0,
        "miss" => 2,
        "hit" => 3,
        "bypass" => 5,
        _ => [1, 4][number % 2],
    }
}

fn stacks(
    document: &Document,
    (title, about): (&str, &str),
    names: &[String],
    counts: fn(&Figures) -> &BTreeMap<String, u64>,
    class: impl Fn(usize, &str) -> String,
) -> Option<Element> {
    let rows: Vec<Element> = measured(document)
        .filter(|(_, target)| !counts(&target.figures).is_empty())
        .map(|(_, target)| {
            let all = target.figures.calls.max(counts(&target.figures).values().sum()).max(1) as f64;
            let (mut parts, mut words, mut from) = (Vec::new(), Vec::new(), 0.0);
            for (number, name) in names.iter().enumerate() {
                let Some(count) = counts(&target.figures).get(name).filter(|count| **count > 0) else {
                    continue;
                };
                let class = class(number, name);
                let width = 100.0 * *count as f64 / all;
                parts.push(bar(width, 0.0, &format!("part {class}")).set("x", percent(from)));
                let square = element("rect").set("x", 4).set("width", 16).set("height", 14);
                words.push((
                    sample([square.class(format!("part {class}"))]),
                    format!("{}: {count}", explained(name)),
                ));
                from += width;
            }
            let stack = element("svg").class("stack").set("width", "100%").set("height", BAR);
            let label = format!("{title}, {}", target.name);
            let stack = stack.set("role", "img").set("aria-label", label).all(parts);
            element("div").add(text("h4", &target.name)).add(stack).add(legend(words))
        })
        .collect();
    (!rows.is_empty()).then(|| element("figure").add(text("h3", title)).add(text("p", about)).all(rows))
}

/// What a gate calls the fates of calls, in words; other names stay as they are.
fn explained(name: &str) -> String {
    let words = match name {
        "miss" => "asked the provider",
        "joined" => "shared a call that was on its way",
        "hit" => "had an answer that was kept",
        "bypass" => "asked the provider, not to be shared",
        "waiting" => "still without an answer when the watching ended",
        "cut" => "a stream without its end",
        _ => return name.to_owned(),
    };
    format!("{name} ({words})")
}
