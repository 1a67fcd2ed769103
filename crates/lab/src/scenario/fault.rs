//! A provider in trouble: it fails, it says nothing, it is asked for more than it can do.

use std::time::Duration;

use serde_json::json;

use super::say::{answered, at_once, beside, judge, ms, upstream};
use super::{Rig, Scenario, Setup, different, millis, time};
use crate::document::{Document, Event, Target, Verdict};
use crate::knobs::Knobs;
use crate::load::Pace;
use crate::record::Interest;

/// All is well for at most so long before something goes wrong.
const BEFORE: Duration = Duration::from_secs(2);

fn before(knobs: &Knobs) -> Duration {
    BEFORE.min(Duration::from_secs_f64(knobs.calls as f64 / knobs.rate / 4.0))
}

pub(super) const OUTAGE: Scenario = Scenario {
    name: "outage",
    title: "The provider is out",
    story: [
        "Calls come at a steady rate; for some seconds the provider answers each of them with a 503 at once.",
        "How many callers get an answer in the end, how long do the others hope, and what hits the provider meanwhile?",
    ],
    uses: &["calls", "rate", "latency", "fault", "stream", "patience"],
    defaults: Knobs::USUAL,
    steered: true,
    rig: |knobs| Rig {
        script: format!("ok {}; 503 {}; ok", time(before(knobs)), time(knobs.fault)),
        events: vec![event("outage", before(knobs), Some(knobs.fault))],
        ..well(knobs)
    },
    prompts: different,
    pace: |knobs| Pace::rate(knobs.calls, knobs.rate),
    verdict: trouble,
};

pub(super) const HANG: Scenario = Scenario {
    name: "hang",
    title: "The provider says nothing",
    story: [
        "Calls come at a steady rate; then the provider takes them and does not answer, for some seconds or for ever.",
        "An SDK waits ten minutes for such a call. Who ends that wait, when, and what does the caller get?",
    ],
    uses: &["calls", "rate", "latency", "fault", "endless", "stream", "patience"],
    defaults: Knobs { calls: 160, patience: Duration::from_secs(15), ..Knobs::USUAL },
    steered: true,
    rig: |knobs| match knobs.endless {
        true => Rig {
            script: format!("ok {}; hang!", time(before(knobs))),
            events: vec![event("hang", before(knobs), None)],
            ..well(knobs)
        },
        false => Rig {
            script: format!("ok {}; hang {}; ok", time(before(knobs)), time(knobs.fault)),
            events: vec![event("hang", before(knobs), Some(knobs.fault))],
            ..well(knobs)
        },
    },
    prompts: different,
    pace: |knobs| Pace::rate(knobs.calls, knobs.rate),
    verdict: trouble,
};

pub(super) const FLOOD: Scenario = Scenario {
    name: "flood",
    title: "More than the provider can do",
    story: [
        "Calls come at a rate that the provider can't keep up with; it answers 429 to those above its capacity.",
        "How many callers get an answer, and after how long? The rate does not give way when answers are late.",
    ],
    uses: &["calls", "rate", "latency", "capacity", "stream", "patience"],
    defaults: Knobs { calls: 1_600, rate: 320.0, latency: Duration::from_millis(200), ..Knobs::USUAL },
    steered: true,
    rig: |knobs| {
        let capacity = knobs.capacity.to_string();
        let arguments = ["--concurrency", &capacity];
        let name = format!("gate, --concurrency {capacity}");
        let capped = Setup::gate(&name, &arguments, &[]);
        // No more wait than are answered in twice the provider's time.
        let wait = format!("{}ms", (knobs.latency * 2).as_millis().max(1));
        let queue = [("SLUICEGATE_QUEUE__MAX", capacity.as_str()), ("SLUICEGATE_QUEUE__TIMEOUT", &wait)];
        let short = Setup::gate(&format!("{name}, short queue"), &arguments, &queue);
        Rig {
            limits: json!({"latency": time(knobs.latency), "max_in_flight": knobs.capacity}),
            interest: Interest {
                first_byte: knobs.stream,
                throughput: true,
                flow: true,
                ..Interest::default()
            },
            setups: vec![Setup::gate("gate", &[], &[]), capped, short],
            ..Rig::default()
        }
    },
    prompts: different,
    pace: |knobs| Pace::rate(knobs.calls, knobs.rate),
    verdict: flood,
};

fn well(knobs: &Knobs) -> Rig {
    Rig {
        limits: json!({"latency": time(knobs.latency)}),
        interest: Interest { first_byte: knobs.stream, ..Interest::default() },
        ..Rig::default()
    }
}

fn event(name: &str, begins: Duration, lasts: Option<Duration>) -> Event {
    Event { name: name.to_owned(), from_ms: millis(begins), to_ms: lasts.map(|lasts| millis(begins + lasts)) }
}

/// Those without an answer, and when they knew: `and 54 an error, at the median after 1.32 s`.
fn without(target: &Target) -> String {
    let figures = &target.figures;
    let waiting = figures.outcomes.get("waiting").copied().unwrap_or(0);
    let known = figures.calls - figures.ok - waiting;
    let after = ms(figures.not_ok_p50_ms);
    match (known, waiting) {
        (0, 0) => String::new(),
        (known, 0) => format!(" and {known} an error, at the median after {after}"),
        (0, waiting) => format!(" and {waiting} were still waiting when the laboratory stopped to look"),
        (known, waiting) => format!(
            ", {known} an error, at the median after {after}, and {waiting} were still waiting when the laboratory \
             stopped to look"
        ),
    }
}

fn trouble(document: &Document) -> Verdict {
    judge(document, |direct, target| {
        format!(
            "{}{} (direct: {}{}); {}, and the slowest whole answer took {}",
            answered(target),
            without(target),
            direct.figures.ok,
            without(direct),
            upstream(target, direct),
            beside(target.figures.max_ms, direct.figures.max_ms),
        )
    })
}

fn flood(document: &Document) -> Verdict {
    let per_second = |target: &Target| target.figures.ok_per_second.unwrap_or(0.0);
    judge(document, |direct, target| {
        format!(
            "{} (direct {}){}, {:.0} whole answers a second of the round (direct {:.0}), half of the whole answers within {} and 99 of 100 of them within {}; {}{}",
            answered(target),
            direct.figures.ok,
            without(target),
            per_second(target),
            per_second(direct),
            beside(target.figures.p50_ms, direct.figures.p50_ms),
            beside(target.figures.p99_ms, direct.figures.p99_ms),
            upstream(target, direct),
            at_once(target, direct),
        )
    })
}
