//! What calls cost: dollars, processor time, and tokens that the provider had in its cache.

use std::time::Duration;

use serde_json::json;

use super::say::{answered, beside, judge, upstream};
use super::{Rig, Scenario, Setup, different, time};
use crate::document::{Document, Target, Verdict};
use crate::knobs::Knobs;
use crate::load::Pace;
use crate::record::Interest;

pub(super) const BUDGET: Scenario = Scenario {
    name: "budget",
    title: "A budget, and many callers at once",
    story: [
        "Many callers come at the same moment, and what all of them cost is more than may be spent.",
        "A limit that is looked at before a call and booked after it lets all of them through.",
    ],
    uses: &["calls", "latency", "max-spend", "patience"],
    defaults: Knobs { calls: 100, ..Knobs::USUAL },
    steered: false,
    rig: |knobs| {
        let dollars = knobs.max_spend.to_string();
        let capped = Setup::gate(&format!("gate, --max-spend {dollars}"), &["--max-spend", &dollars], &[]);
        Rig { limits: json!({"latency": time(knobs.latency)}), setups: vec![capped], ..Rig::default() }
    },
    prompts: different,
    pace: |knobs| Pace::at_once(knobs.calls),
    verdict: budget,
};

pub(super) const OVERHEAD: Scenario = Scenario {
    name: "overhead",
    title: "What a proxy takes for itself",
    story: [
        "A few callers send one small call after the other to a provider that answers at once.",
        "How much processor time does a call take, beside a bare relay that does nothing but pass it on?",
    ],
    uses: &["calls", "concurrency", "latency", "stream", "patience"],
    defaults: Knobs { calls: 2_000, latency: Duration::ZERO, ..Knobs::USUAL },
    steered: false,
    rig: |knobs| Rig {
        limits: json!({"latency": time(knobs.latency)}),
        interest: Interest { first_byte: knobs.stream, throughput: true, cpu: true, ..Interest::default() },
        setups: vec![Setup::Relay, Setup::gate("gate", &[], &[])],
        ..Rig::default()
    },
    prompts: different,
    pace: |knobs| Pace::Closed(knobs.concurrency),
    verdict: overhead,
};

pub(super) const PREFIX: Scenario = Scenario {
    name: "prefix",
    title: "A long beginning in common",
    story: [
        "Calls share a long beginning, as all turns of an agent do; the provider charges less for what it has read before.",
        "Does the beginning reach the provider unchanged, so that its cache serves as if the calls were direct?",
    ],
    uses: &["calls", "rate", "latency", "tokens", "stream", "patience"],
    defaults: Knobs { calls: 50, ..Knobs::USUAL },
    steered: false,
    rig: |knobs| Rig {
        limits: json!({"latency": time(knobs.latency)}),
        interest: Interest { first_byte: knobs.stream, tokens: true, ..Interest::default() },
        ..Rig::default()
    },
    prompts: |knobs, fresh| (0..knobs.calls).map(|number| fresh.long(knobs.tokens, number)).collect(),
    pace: |knobs| Pace::rate(knobs.calls, knobs.rate),
    verdict: prefix,
};

fn budget(document: &Document) -> Verdict {
    judge(document, |direct, target| {
        format!(
            "{} and {} were refused (direct {}); {}",
            answered(target),
            target.figures.refused,
            direct.figures.refused,
            upstream(target, direct),
        )
    })
}

fn overhead(document: &Document) -> Verdict {
    let relay = document.targets.iter().find(|target| target.name == "relay");
    let relay = relay.and_then(|relay| relay.figures.cpu_us_per_call);
    let mut verdict = judge(document, |direct, target| {
        let cpu = match (target.figures.cpu_us_per_call, relay) {
            (Some(cpu), Some(relay)) if target.name != "relay" && relay > 0.0 => {
                format!("{cpu:.0} µs of processor time a call, {:.2} times the relay's", cpu / relay)
            }
            (Some(cpu), _) => format!("{cpu:.0} µs of processor time a call"),
            (None, _) => "its processor time can't be read by the laboratory".to_owned(),
        };
        let slowdown = beside(target.figures.p50_ms, direct.figures.p50_ms);
        format!("{cpu}; {}, at the median after {slowdown}", answered(target))
    });
    verdict.caveats.push(
        "mock and callers share the machine, and a short run warms little up: docs/benchmarks.md has the figures that \
         make a claim"
            .to_owned(),
    );
    verdict
}

fn prefix(document: &Document) -> Verdict {
    let share = |target: &Target| match (target.figures.cached_input_tokens, target.figures.input_tokens) {
        (Some(cached), Some(all)) if all > 0 => Some(100.0 * cached as f64 / all as f64),
        _ => None,
    };
    judge(document, |direct, target| match (share(target), share(direct)) {
        (Some(ours), Some(theirs)) => format!(
            "{}; the provider had {ours:.1}% of the input tokens in its cache (direct {theirs:.1}%)",
            answered(target)
        ),
        _ => format!("{}; its answers do not tell how many tokens were read", answered(target)),
    })
}
