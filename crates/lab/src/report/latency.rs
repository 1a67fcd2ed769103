//! How long answers took: a curve for each target, and ranges of percentiles for streams.

use super::markup::{Element, element, text};
use super::plot::{Path, Plot, legend, line, mark, percent, sample, stretched};
use super::scale::{Scale, time};
use super::{Pick, measured, picked, short_time};
use crate::document::{Document, Target};

const HEIGHT: f64 = 240.0;
const QUANTILES: [(f64, &str, &str); 3] =
    [(0.5, "p50", "circle"), (0.95, "p95", "square"), (0.99, "p99", "triangle")];

/// For each target, which share of its whole answers was there after how long. Those without one are counted beside it.
pub(super) fn curves(document: &Document) -> Option<Element> {
    let took: Vec<(&str, &Target, Vec<f64>)> = measured(document)
        .map(|(style, target)| (style, target, took(target)))
        .filter(|(_, _, took)| !took.is_empty())
        .collect();
    if took.is_empty() {
        return None;
    }
    let missing =
        element("ul").class("missing").all(measured(document).filter_map(|(_, target)| missing(target)));
    let across = Scale::over(took.iter().flat_map(|(_, _, took)| took.iter().copied()));
    let level = |share: f64| HEIGHT * (1.0 - share);
    let lines = took.iter().filter_map(|(style, _, took)| curve(style, took, across));
    let marks = took.iter().flat_map(|(style, _, took)| {
        QUANTILES
            .map(|(quantile, _, shape)| mark(shape, across.place(at(took, quantile)), level(quantile), style))
    });
    let inside = std::iter::once(stretched(HEIGHT, lines)).chain(marks).collect();
    let left = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (level(share), format!("{} %", share * 100.0)));
    let about = "Share of the whole answers that were there over time, one curve for each target".to_owned();
    let axis = if matches!(across, Scale::Log(..)) { "time, logarithmic" } else { "time" };
    let plot = Plot { across, height: HEIGHT, about, axis, left: left.into() }.draw(time, inside);
    let words = "The share of the whole answers that were there after this time, counted from when their calls should \
                 have been sent. The further left the better. Curves and marks are of whole answers alone, those of \
                 all rounds together; the table has medians over the rounds, which may differ a little.";
    let targets = took.iter().map(|(style, target, _)| (stroke(style), target.name.clone()));
    let figure = element("figure").add(text("h3", "How long the answers took")).add(text("p", words));
    Some(figure.add(legend(targets.chain(shapes(3)))).add(plot).add(missing))
}

/// Of whole answers, ascending.
fn took(target: &Target) -> Vec<f64> {
    let whole = target.timeline.iter().filter(|call| call.outcome == "ok");
    let mut took: Vec<f64> = whole.map(|call| call.end_ms - call.intended_ms).collect();
    took.sort_by(f64::total_cmp);
    took
}

/// The least time within which such a share of the answers was there; `took` is not empty.
fn at(took: &[f64], quantile: f64) -> f64 {
    let number = (took.len() as f64 * quantile).ceil() as usize;
    took.get(number.max(1) - 1).copied().unwrap_or_default()
}

/// A target's calls that have no place on the curve, so that nobody takes the others for all.
fn missing(target: &Target) -> Option<Element> {
    let rounds = || target.per_round.iter();
    let others: u64 = rounds().map(|round| round.calls.saturating_sub(round.ok)).sum();
    let calls: u64 = rounds().map(|round| round.calls).sum();
    let words = format!(
        "{}: {others} of {calls} calls failed, were refused or were still waiting: not in this chart",
        target.name
    );
    (others > 0).then(|| text("li", words))
}

fn curve(style: &str, took: &[f64], across: Scale) -> Option<Element> {
    let share = |count: usize| HEIGHT * (1.0 - count as f64 / took.len() as f64);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_on_the_curve_of_whole_answers() {
        let took: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(QUANTILES.map(|(quantile, ..)| at(&took, quantile)), [50.0, 95.0, 99.0]);
        assert_eq!(QUANTILES.map(|(quantile, ..)| at(&[7.0], quantile)), [7.0; 3]);
    }
}
