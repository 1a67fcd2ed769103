//! The frame of a chart: axes, grid, and what is drawn inside.
//!
//! Across, places are per cent of the width, down they are pixels: a chart is as wide as its page and its letters keep
//! their size. Lines that need a path are in a box of [`ACROSS`] units that is stretched, with strokes that are not.

use super::markup::{Element, element, text};
use super::scale::Scale;

const ACROSS: f64 = 1000.0;

pub(super) struct Plot {
    pub(super) across: Scale,
    pub(super) height: f64,
    /// What the chart shows, for those who can't see it.
    pub(super) about: String,
    pub(super) axis: &'static str,
    /// Beside the left edge, from above: pixels and what is written there.
    pub(super) left: Vec<(f64, String)>,
}

impl Plot {
    pub(super) fn draw(self, label: fn(f64) -> String, inside: Vec<Element>) -> Element {
        let height = self.height;
        let ticks = self.across.ticks();
        let upright = ticks.iter().map(|tick| {
            let at = percent(self.across.place(*tick));
            line((&at, 0.0), (&at, height)).class("grid")
        });
        let level = self.left.iter().map(|(y, _)| line(("0%", *y), ("100%", *y)).class("grid"));
        let below = ticks.iter().enumerate().map(|(number, tick)| {
            let class = if number % 2 == 1 { "tick below odd" } else { "tick below" };
            label_at(&percent(self.across.place(*tick)), height + 17.0, label(*tick)).class(class)
        });
        let beside = self.left.iter().map(|(y, label)| label_at("-8", y + 4.0, label).class("tick beside"));
        let axis = label_at("100%", height + 34.0, self.axis).class("axis");
        let svg = element("svg")
            .set("role", "img")
            .set("aria-label", &self.about)
            .set("width", "100%")
            .set("height", height)
            .all(upright)
            .all(level)
            .all(inside)
            .add(line(("0%", height), ("100%", height)).class("base"))
            .all(below)
            .all(beside)
            .add(axis);
        element("div").class(if self.left.is_empty() { "plot flush" } else { "plot" }).add(svg)
    }
}

fn label_at(x: &str, y: f64, label: impl std::fmt::Display) -> Element {
    text("text", label).set("x", x).set("y", y)
}

pub(super) fn line(from: (&str, f64), to: (&str, f64)) -> Element {
    let (from, to) = ((from.0, pixels(from.1)), (to.0, pixels(to.1)));
    element("line").set("x1", from.0).set("y1", from.1).set("x2", to.0).set("y2", to.1)
}

pub(super) fn percent(place: f64) -> String {
    format!("{}%", (place * 100.0).round() / 100.0)
}

/// To a tenth.
fn pixels(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// A path for [`stretched`], as short as it can be told: a place is a thousandth of the width.
#[derive(Default)]
pub(super) struct Path {
    steps: String,
}

impl Path {
    fn step(&mut self, kind: char, place: f64, y: Option<f64>) {
        let x = (place * ACROSS / 100.0 * 10.0).round() / 10.0;
        self.steps += &match y {
            Some(y) => format!("{kind}{x} {}", pixels(y)),
            None => format!("{kind}{x}"),
        };
    }

    pub(super) fn go(&mut self, place: f64, y: f64) {
        self.step('M', place, Some(y));
    }

    pub(super) fn across(&mut self, place: f64) {
        self.step('H', place, None);
    }

    pub(super) fn down(&mut self, y: f64) {
        self.steps += &format!("V{}", pixels(y));
    }

    pub(super) fn drawn(self, class: impl std::fmt::Display) -> Option<Element> {
        (!self.steps.is_empty()).then(|| element("path").set("d", self.steps).class(class))
    }
}

pub(super) fn stretched(height: f64, paths: impl IntoIterator<Item = Element>) -> Element {
    element("svg")
        .set("viewBox", format!("0 0 {ACROSS} {height}"))
        .set("preserveAspectRatio", "none")
        .set("width", "100%")
        .set("height", height)
        .set("overflow", "visible")
        .all(paths)
}

/// One of the shapes that the page defines once.
pub(super) fn mark(shape: &str, place: f64, y: f64, class: impl std::fmt::Display) -> Element {
    element("use").set("href", format!("#{shape}")).set("x", percent(place)).set("y", pixels(y)).class(class)
}

/// A legend: a sample, and what it stands for.
pub(super) fn legend(entries: impl IntoIterator<Item = (Element, String)>) -> Element {
    let entry = |(sample, label)| element("li").add(sample).text(label);
    element("ul").class("legend").all(entries.into_iter().map(entry))
}

/// A small picture for a legend.
pub(super) fn sample(drawn: impl IntoIterator<Item = Element>) -> Element {
    element("svg").class("sample").set("width", 24).set("height", 14).set("aria-hidden", "true").all(drawn)
}
