//! How long answers took: a curve for each target, and ranges of percentiles for streams.

use super::markup::{Element, element, text};
use super::plot::{Path, Plot, legend, line, mark, percent, sample, stretched};
use super::scale::{Scale, time};
use super::{Pick, measured, picked, short_time};
use crate::document::{Document, Figures, Target};

const HEIGHT: f64 = 240.0;
const QUANTILES: [(f64, &str, &str); 3] =
    [(0.5, "p50", "circle"), (0.95, "p95", "square"), (0.99, "p99", "triangle")];

/// For each target, which share of its calls had a whole answer after how long.
pub(super) fn curves(document: &Document) -> Option<Element> {
    let took: Vec<(&str, &Target, Vec<f64>)> = measured(document)
        .map(|(style, target)| (style, target, took(target)))
        .filter(|(_, _, took)| !took.is_empty())
        .collect();
    if took.is_empty() {
        return None;
    }
    let across = Scale::over(took.iter().flat_map(|(_, _, took)| took.iter().copied()));
    let level = |share: f64| HEIGHT * (1.0 - share);
    let lines = took.iter().filter_map(|(style, target, took)| curve(style, target, took, across));
    let marks = took.iter().flat_map(|(style, target, _)| {
        let share = target.figures.ok as f64 / target.figures.calls.max(1) as f64;
        percentiles(&target.figures)
            .into_iter()
            .map(move |(quantile, shape, at)| mark(shape, across.place(at), level(quantile * share), style))
    });
    let inside = std::iter::once(stretched(HEIGHT, lines)).chain(marks).collect();
    let left = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (level(share), format!("{} %", share * 100.0)));
    let about = "Share of the calls with a whole answer over time, one curve for each target".to_owned();
    let axis = if matches!(across, Scale::Log(..)) { "time, logarithmic" } else { "time" };
    let plot = Plot { across, height: HEIGHT, about, axis, left: left.into() }.draw(time, inside);
    let words = "The share of all calls that had their whole answer after this time, counted from when they should \
                 have been sent. The further left the better; a curve that ends below 100 % means that the others \
                 got none. The curves have the calls of all rounds; the marks are the percentiles of the table, so they may \
                 lie beside them.";
    let targets = took.iter().map(|(style, target, _)| (stroke(style), target.name.clone()));
    let figure = element("figure").add(text("h3", "How long the answers took")).add(text("p", words));
    Some(figure.add(legend(targets.chain(shapes(3)))).add(plot))
}

/// Of whole answers, ascending.
fn took(target: &Target) -> Vec<f64> {
    let whole = target.timeline.iter().filter(|call| call.outcome == "ok");
    let mut took: Vec<f64> = whole.map(|call| call.end_ms - call.intended_ms).collect();
    took.sort_by(f64::total_cmp);
    took
}

fn curve(style: &str, target: &Target, took: &[f64], across: Scale) -> Option<Element> {
    let share = |count: usize| HEIGHT * (1.0 - count as f64 / target.timeline.len() as f64);
    let mut path = Path::default();
    path.go(0.0, HEIGHT);
    let mut drawn = 0.0;
    for (count, ms) in took.iter().enumerate() {
        let at = across.place(*ms);
        // What is nearer to its neighbour than a line is wide needs no step of its own.
        if at - drawn > 0.1 {
            path.down(share(count));
            path.across(at);
            drawn = at;
        }
    }
    path.down(share(took.len()));
    path.across(100.0);
    path.drawn(format!("curve {style}"))
}

fn percentiles(figures: &Figures) -> Vec<(f64, &'static str, f64)> {
    let at = [figures.p50_ms, figures.p95_ms, figures.p99_ms];
    QUANTILES.iter().zip(at).filter_map(|((quantile, _, shape), at)| Some((*quantile, *shape, at?))).collect()
}

fn stroke(style: &str) -> Element {
    sample([line(("0", 7.0), ("24", 7.0)).class(format!("curve {style}"))])
}

fn shapes(count: usize) -> impl Iterator<Item = (Element, String)> {
    let shapes = if count == 2 { vec![QUANTILES[0], QUANTILES[2]] } else { QUANTILES.to_vec() };
    shapes.into_iter().map(|(_, name, shape)| {
        let shape = element("use").set("href", format!("#{shape}")).set("x", 12).set("y", 7).class("plain");
        (sample([shape]), name.to_owned())
    })
}

/// Title, what it is, and the marks.
const STREAMS: [(&str, &str, Pick); 3] = [
    ("The first content", "From when a stream should have been asked for to its first content.", |figures| {
        vec![
            ("circle", figures.first_byte_p50_ms),
            ("square", figures.first_byte_p95_ms),
            ("triangle", figures.first_byte_p99_ms),
        ]
    }),
    ("Pieces under way", "From when the provider sent a piece to when its caller had it.", |figures| {
        vec![("circle", figures.chunk_transit_p50_ms), ("triangle", figures.chunk_transit_p99_ms)]
    }),
    (
        "Pieces behind the pace",
        "How much later than its pace asks a piece came, the provider's own delays included.",
        |figures| vec![("circle", figures.chunk_late_p50_ms), ("triangle", figures.chunk_late_p99_ms)],
    ),
];

pub(super) fn streams(document: &Document) -> Vec<Element> {
    STREAMS.iter().filter_map(|(title, words, range)| ranges(document, title, words, *range)).collect()
}

const ROW: f64 = 44.0;

fn ranges(document: &Document, title: &str, words: &str, range: Pick) -> Option<Element> {
    let rows = picked(document, range);
    let most = rows.iter().flat_map(|(_, _, marks)| marks.iter().map(|(_, at)| *at)).reduce(f64::max)?;
    let across = Scale::linear(most);
    let inside = rows.iter().enumerate().flat_map(|(row, (style, target, marks))| {
        let y = ROW * row as f64 + 30.0;
        let ends =
            [marks.first(), marks.last()].map(|end| percent(across.place(end.map_or(0.0, |(_, at)| *at))));
        let said = marks.iter().map(|(_, at)| short_time(*at)).collect::<Vec<_>>().join(" / ");
        let name =
            text("text", format!("{}: {said}", target.name)).set("x", 4).set("y", y - 12.0).class("name");
        let between = line((&ends[0], y), (&ends[1], y)).class(format!("curve {style}"));
        let marks =
            marks.iter().map(|(shape, at)| mark(shape, across.place(*at), y, style)).collect::<Vec<_>>();
        [name, between].into_iter().chain(marks)
    });
    let inside: Vec<Element> = inside.collect();
    let height = ROW * rows.len() as f64;
    let about = format!("{title}: percentiles of each target");
    let plot = Plot { across, height, about, axis: "time", left: Vec::new() }.draw(time, inside);
    let marks = rows.iter().map(|(_, _, marks)| marks.len()).max().unwrap_or(0);
    let figure = element("figure").add(text("h3", title)).add(text("p", words));
    Some(figure.add(legend(shapes(marks))).add(plot))
}
