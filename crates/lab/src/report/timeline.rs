//! Each call as a line from when it should have been sent to when its caller knew how it ended.

use super::markup::{Element, element, text};
use super::outcome::{KINDS, Kind};
use super::plot::{Path, Plot, legend, line, mark, percent, sample, stretched};
use super::scale::{Scale, time};
use crate::document::{Call, Document, Figures, Target};

const LEAST_HEIGHT: f64 = 70.0;
const MOST_HEIGHT: f64 = 300.0;
/// Of one call, if there is room.
const ROW: f64 = 9.0;
/// More of one kind would be no shapes any more.
const MOST_MARKS: usize = 80;

pub(super) fn figure(document: &Document) -> Option<Element> {
    let panels: Vec<(&Target, u32, Vec<&Call>)> = document
        .targets
        .iter()
        .filter(|target| !target.timeline.is_empty())
        .map(|target| {
            let round = typical(target);
            (target, round, calls(target, round))
        })
        .collect();
    let ends = panels.iter().flat_map(|(_, _, calls)| calls.iter().map(|call| call.end_ms));
    let across = Scale::linear(ends.reduce(f64::max)?);
    let streams = document.targets.iter().any(|target| target.figures.first_byte_p50_ms.is_some());
    let words = "Each line is a call, from when it should have been sent to when its caller knew how it ended; the \
                 first calls are on top. All targets have the same clock.";
    let drawn = panels.iter().map(|(target, round, calls)| {
        let picture = panel(document, target, calls, across, streams);
        element("div").class("panel").add(heading(document, target, *round)).add(picture)
    });
    let figure = element("figure").add(text("h3", "The calls over time")).add(text("p", words));
    Some(figure.add(key(&panels, streams)).all(drawn))
}

fn heading(document: &Document, target: &Target, round: u32) -> Element {
    let mut notes = Vec::new();
    if document.rounds > 1 {
        notes.push(format!("round {} of {}", round + 1, document.rounds));
    }
    if target.timeline_every > 1 {
        notes.push(format!("one call in {} is drawn", target.timeline_every));
    }
    let notes = (!notes.is_empty()).then(|| text("small", format!(" {}", notes.join(", "))));
    text("h4", &target.name).add(notes)
}

/// The first round that ended as the target's figures say.
fn typical(target: &Target) -> u32 {
    let counts =
        |figures: &Figures| (figures.outcomes.clone(), figures.fates.clone(), figures.upstream_calls);
    let figures = counts(&target.figures);
    let round = target.per_round.iter().position(|round| counts(round) == figures).unwrap_or(0);
    u32::try_from(round).unwrap_or(0)
}

fn calls(target: &Target, round: u32) -> Vec<&Call> {
    let mut calls: Vec<&Call> = target.timeline.iter().filter(|call| call.round == round).collect();
    calls.sort_by(|a, b| a.intended_ms.total_cmp(&b.intended_ms).then(a.end_ms.total_cmp(&b.end_ms)));
    calls
}

fn key(panels: &[(&Target, u32, Vec<&Call>)], streams: bool) -> Element {
    let seen = |kind: Kind| {
        panels.iter().any(|(_, _, calls)| calls.iter().any(|call| Kind::of(&call.outcome) == kind))
    };
    let kinds = KINDS.into_iter().filter(|kind| seen(*kind)).map(|kind| {
        let stroke =
            line(("2", 7.0), ("18", 7.0)).class(format!("call {}", kind.class())).set("stroke-width", 4);
        let shape = kind.shape().map(|shape| {
            element("use").set("href", format!("#{shape}")).set("x", 19).set("y", 7).class(kind.class())
        });
        (sample(std::iter::once(stroke).chain(shape)), kind.words().to_owned())
    });
    let waiting = streams.then(|| {
        let stroke = line(("2", 7.0), ("22", 7.0)).class("call ok waiting").set("stroke-width", 4);
        (sample([stroke]), "pale: before its first content".to_owned())
    });
    legend(kinds.chain(waiting))
}

fn panel(document: &Document, target: &Target, calls: &[&Call], across: Scale, streams: bool) -> Element {
    let (row, stroke) = lanes(calls.len());
    let height = (calls.len() as f64 * row).max(LEAST_HEIGHT).round();
    let place = |number: usize| number as f64 * row + stroke / 2.0;
    let mut inside: Vec<Element> = events(document, across, height);
    let mut marks = Vec::new();
    for kind in KINDS {
        let (mut lines, mut waiting, mut ends) = (Path::default(), Path::default(), Vec::new());
        for (number, call) in calls.iter().enumerate().filter(|(_, call)| Kind::of(&call.outcome) == kind) {
            let [from, to] = [call.intended_ms, call.end_ms].map(|at| across.place(at));
            let first = call.first_byte_ms.filter(|_| streams).map_or(from, |at| across.place(at));
            waiting.go(from, place(number));
            waiting.across(first.min(to));
            lines.go(first.min(to), place(number));
            lines.across(to);
            ends.push((to, place(number)));
        }
        let waiting = waiting.drawn(format!("call waiting {}", kind.class())).filter(|_| streams);
        let drawn = waiting.into_iter().chain(lines.drawn(format!("call {}", kind.class())));
        inside.push(stretched(height, drawn.map(|path| path.set("stroke-width", stroke))));
        if let Some(shape) = kind.shape() {
            let every = ends.len().div_ceil(MOST_MARKS).max(1);
            let ends = ends.into_iter().step_by(every);
            marks.extend(ends.map(|(at, y)| mark(shape, at, y, kind.class())));
        }
    }
    inside.extend(marks);
    let about = format!("{}: the calls of one round as lines over time", target.name);
    let left = rows(calls.len(), target.timeline_every, row);
    let axis = "since the start of the round";
    Plot { across, height, about, axis, left }.draw(time, inside)
}

/// How far lines are from each other and how wide they are: whole pixels, while there are enough of them.
fn lanes(calls: usize) -> (f64, f64) {
    let row = (MOST_HEIGHT / calls.max(1) as f64).min(ROW);
    let row = if row >= 1.0 { row.floor() } else { row };
    (row, if row < 3.0 { row.max(1.0) } else { (row * 0.6).round() })
}

/// `call 1` on top, then round numbers.
fn rows(calls: usize, every: usize, row: f64) -> Vec<(f64, String)> {
    let all = (calls * every) as f64;
    let place = |call: f64| ((call - 1.0) / every as f64 + 0.5) * row;
    let ticks = Scale::Linear(all * 1.6).ticks().into_iter().skip(1).filter(|tick| *tick <= all);
    let round = ticks.filter(|tick| place(*tick) > 18.0).map(|tick| (place(tick), tick.to_string()));
    std::iter::once((place(1.0), "call 1".to_owned())).chain(round).collect()
}

fn events(document: &Document, across: Scale, height: f64) -> Vec<Element> {
    let shaded = document.events.iter().map(|event| {
        let from = across.place(event.from_ms);
        let to = event.to_ms.map_or(100.0, |to| across.place(to));
        let band = element("rect")
            .set("x", percent(from))
            .set("y", -16)
            .set("width", percent(to - from))
            .set("height", height + 16.0)
            .class("event");
        let middle = percent(f64::midpoint(from, to));
        let name = text("text", &event.name).set("x", middle).set("y", -4).class("event-name");
        [band, name]
    });
    shaded.flatten().collect()
}
