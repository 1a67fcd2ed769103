//! Many callers within a moment: equal ones, different ones, and streams.

use std::time::Duration;

use serde_json::json;

use super::say::{answered, at_once, beside, how_others_ended, judge, nearly_all, upstream};
use super::{Rig, Scenario, Setup, different, equal, time};
use crate::document::{Document, Target, Verdict};
use crate::knobs::Knobs;
use crate::load::Pace;
use crate::record::Interest;

/// Answers that are this much slower than the provider stand on the second step of a staircase.
const STEP: f64 = 1.9;

pub(super) const CROWD: Scenario = Scenario {
    name: "crowd",
    title: "A crowd with one question",
    story: [
        "Many callers ask the same thing at the same moment, as when a cache has just lost a popular entry.",
        "How many calls does the provider get, and does anybody wait longer for it?",
    ],
    uses: &["calls", "latency", "stream", "patience"],
    defaults: Knobs { latency: Duration::from_millis(1500), ..Knobs::USUAL },
    steered: false,
    rig: slow,
    prompts: equal,
    pace: |knobs| Pace::at_once(knobs.calls),
    verdict: crowd,
};

pub(super) const DISTINCT: Scenario = Scenario {
    name: "distinct",
    title: "Different questions at once",
    story: [
        "Callers with different questions come at the same moment; the provider takes all of them at once.",
        "A proxy that lets through a few at a time makes a staircase: the last wait for all the others.",
    ],
    uses: &["calls", "latency", "stream", "patience"],
    defaults: Knobs { calls: 20, latency: Duration::from_millis(1500), ..Knobs::USUAL },
    steered: false,
    rig: slow,
    prompts: different,
    pace: |knobs| Pace::at_once(knobs.calls),
    verdict: distinct,
};

pub(super) const WAVE: Scenario = Scenario {
    name: "wave",
    title: "A wave of different questions",
    story: [
        "Different calls arrive within a few milliseconds, at gates with a cap, once without and once with a window.",
        "A cap turns the spike into a flow; a window lets calls go in groups. What reaches the provider, and what does it cost?",
    ],
    uses: &["calls", "within", "latency", "cap", "stream", "patience"],
    defaults: Knobs {
        within: Duration::from_millis(50),
        latency: Duration::from_millis(500),
        ..Knobs::USUAL
    },
    steered: false,
    rig: |knobs| {
        let cap = knobs.cap.to_string();
        let arguments = ["--concurrency", &cap];
        let window = Setup::gate("gate, window on", &arguments, &[("SLUICEGATE_WINDOW__ENABLED", "true")]);
        let slow = slow(knobs);
        Rig {
            interest: Interest { flow: true, ..slow.interest },
            setups: vec![Setup::gate("gate", &arguments, &[]), window],
            ..slow
        }
    },
    prompts: different,
    pace: |knobs| Pace::within(knobs.calls, knobs.within),
    verdict: wave,
};

pub(super) const STREAM: Scenario = Scenario {
    name: "stream",
    title: "Many streams at once",
    story: [
        "Callers read streams whose pieces the provider sends by the clock, all open at the same time.",
        "When does the first piece come, and how long is each of them under way?",
    ],
    uses: &["calls", "within", "latency", "chunks", "chunk-interval", "patience"],
    defaults: Knobs {
        calls: 500,
        within: Duration::from_secs(1),
        latency: Duration::from_millis(200),
        stream: true,
        ..Knobs::USUAL
    },
    steered: true,
    rig: |knobs| Rig {
        limits: json!({
            "first_byte": time(knobs.latency),
            "chunks": knobs.chunks,
            "chunk_interval": time(knobs.chunk_interval),
            "stamps": true,
        }),
        interest: Interest {
            chunk_interval: Some(knobs.chunk_interval),
            first_byte: true,
            ..Interest::default()
        },
        ..Rig::default()
    },
    prompts: different,
    pace: |knobs| Pace::within(knobs.calls, knobs.within),
    verdict: stream,
};

/// The provider takes its time and all that comes.
fn slow(knobs: &Knobs) -> Rig {
    Rig {
        limits: json!({"latency": time(knobs.latency)}),
        interest: Interest { first_byte: knobs.stream, ..Interest::default() },
        ..Rig::default()
    }
}

fn crowd(document: &Document) -> Verdict {
    judge(document, |direct, target| {
        format!(
            "{}, {}, and the slowest whole answer took {}",
            answered(target),
            upstream(target, direct),
            beside(target.figures.max_ms, direct.figures.max_ms),
        )
    })
}

fn distinct(document: &Document) -> Verdict {
    judge(document, |direct, target| {
        // The few that came through stand on no staircase, whatever the others would have stood on.
        for (whose, calls) in [("", target), ("direct: ", direct)] {
            if !nearly_all(calls) {
                let (said, others) = (answered(calls), how_others_ended(calls));
                return format!("{whose}{said} ({others}), so a staircase can't be told");
            }
        }
        let slowest = beside(target.figures.max_ms, direct.figures.max_ms);
        let steps = match (target.figures.max_ms, direct.figures.max_ms) {
            (Some(slowest), Some(direct)) => slowest / direct.max(f64::MIN_POSITIVE),
            _ => return format!("{}, without their times", answered(target)),
        };
        if steps < STEP {
            return format!("{}, without a staircase: the slowest took {slowest}", answered(target));
        }
        let width = (target.figures.calls as f64 / steps.round()).ceil();
        format!(
            "{}, on a staircase: the slowest took {slowest}, as if about {width} went at a time",
            answered(target)
        )
    })
}

fn wave(document: &Document) -> Verdict {
    judge(document, |direct, target| {
        let more = |ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => format!("{:+.1} ms", ours - theirs),
            _ => "nothing to compare".to_owned(),
        };
        format!(
            "{}{}{}; against direct calls the median is {} and the 99th percentile {}",
            answered(target),
            at_once(target, direct),
            groups(target, direct),
            more(target.figures.p50_ms, direct.figures.p50_ms),
            more(target.figures.p99_ms, direct.figures.p99_ms),
        )
    })
}

/// `, in 13 groups of up to 16 (direct 1 of up to 200)`, where the provider counts them.
fn groups(target: &Target, direct: &Target) -> String {
    let of = |target: &Target| Some((target.figures.groups?, target.figures.largest_group?));
    match (of(target), of(direct)) {
        (Some((ours, largest)), Some((theirs, most))) => {
            format!(", in {ours} groups of up to {largest} (direct {theirs} of up to {most})")
        }
        _ => String::new(),
    }
}

fn stream(document: &Document) -> Verdict {
    let open = |target: &Target| {
        target.figures.most_in_flight.map_or(String::new(), |most| format!(" ({most} open at once)"))
    };
    judge(document, |direct, target| {
        let (ours, theirs) = (&target.figures, &direct.figures);
        let pieces = match (ours.chunk_transit_p99_ms, theirs.chunk_transit_p99_ms) {
            (Some(_), Some(_)) => format!(
                "99 of 100 pieces were under way for at most {}",
                beside(ours.chunk_transit_p99_ms, theirs.chunk_transit_p99_ms)
            ),
            _ => format!(
                "99 of 100 pieces were at most {} behind the provider's pace",
                beside(ours.chunk_late_p99_ms, theirs.chunk_late_p99_ms)
            ),
        };
        format!(
            "{}{}; the first piece came after {} at the median and {} at the 99th percentile, and {pieces}",
            answered(target),
            open(target),
            beside(ours.first_byte_p50_ms, theirs.first_byte_p50_ms),
            beside(ours.first_byte_p99_ms, theirs.first_byte_p99_ms),
        )
    })
}
