//! Verdicts say what the figures say, whichever way they went.

use crate::document::{Document, Figures, Machine, Target};

use super::*;

fn target(name: &str, figures: Figures) -> Target {
    Target { name: name.to_owned(), figures, ..Target::default() }
}

/// All whole, in this time.
fn whole(calls: u64, upstream: u64, ms: f64) -> Figures {
    Figures {
        calls,
        ok: calls,
        upstream_calls: Some(upstream),
        p50_ms: Some(ms),
        p99_ms: Some(ms),
        max_ms: Some(ms),
        ..Figures::default()
    }
}

fn sentence(scenario: &str, targets: Vec<Target>) -> String {
    let document = Document { targets, ..Document::default() };
    (named(scenario).unwrap().verdict)(&document).sentence
}

#[test]
fn a_crowd_that_is_one_call_and_one_that_is_not() {
    let direct = || target("direct", whole(200, 200, 1510.0));
    let one = sentence("crowd", vec![direct(), target("gate", whole(200, 1, 1520.0))]);
    assert_eq!(
        one,
        "gate: all 200 callers got a whole answer, the provider got 1 call (direct 200), and the slowest whole \
         answer took 1.52 s (direct 1.51 s)."
    );
    let half = Figures { ok: 150, refused: 50, ..whole(200, 260, 9000.0) };
    let other = sentence("crowd", vec![direct(), target("other", half)]);
    assert!(
        other.starts_with("other: 150 of 200 callers got a whole answer, the provider got 260 calls"),
        "{other}"
    );
}

#[test]
fn a_staircase_is_told_by_its_steps() {
    let direct = || target("direct", whole(20, 20, 1500.0));
    let level = sentence("distinct", vec![direct(), target("gate", whole(20, 20, 1600.0))]);
    assert!(level.contains("without a staircase: the slowest took 1.60 s (direct 1.50 s)"), "{level}");
    let stairs = sentence("distinct", vec![direct(), target("other", whole(20, 20, 7500.0))]);
    assert!(stairs.contains("on a staircase"), "{stairs}");
    assert!(stairs.contains("as if about 4 went at a time"), "{stairs}");
    let nothing = Figures { max_ms: None, ok: 0, failed: 20, ..whole(20, 0, 1.0) };
    let none = sentence("distinct", vec![direct(), target("other", nothing)]);
    assert!(none.contains("0 of 20 callers"), "{none}");
    assert!(none.contains("can't be told"), "{none}");
}

#[test]
fn no_staircase_is_told_of_the_few_that_came_through() {
    let outcomes = |ok, broken| [("ok", ok), ("broken", broken)].map(|(n, c)| (n.to_owned(), c)).into();
    let few = Figures { ok: 30, failed: 970, outcomes: outcomes(30, 970), ..whole(1000, 1000, 1600.0) };
    let direct = || target("direct", whole(1000, 1000, 1500.0));
    let said = sentence("distinct", vec![direct(), target("other", few.clone())]);
    assert_eq!(
        said,
        "other: 30 of 1000 callers got a whole answer (the others ended 970 with `broken`), so a staircase can't be \
         told."
    );
    let said = sentence("distinct", vec![target("direct", few), target("gate", whole(1000, 1000, 1600.0))]);
    assert!(said.contains("gate: direct: 30 of 1000") && !said.contains("without a staircase"), "{said}");
    let most = Figures { ok: 990, failed: 10, outcomes: outcomes(990, 10), ..whole(1000, 1000, 1600.0) };
    let said = sentence("distinct", vec![direct(), target("other", most)]);
    assert!(said.contains("990 of 1000 callers") && said.contains("without a staircase"), "{said}");
}

#[test]
fn those_without_an_answer_are_told_apart_from_those_who_still_wait() {
    let outcomes =
        [("ok", 40), ("waiting", 100), ("504", 20)].map(|(name, count)| (name.to_owned(), count)).into();
    let figures = Figures {
        ok: 40,
        failed: 100,
        refused: 20,
        not_ok_p50_ms: Some(10_000.0),
        outcomes,
        ..whole(160, 160, 105.0)
    };
    let said = sentence("hang", vec![target("direct", whole(160, 160, 105.0)), target("gate", figures)]);
    assert!(
        said.contains(
            "40 of 160 callers got a whole answer, 20 an error, at the median after 10.00 s, and 100 were still \
             waiting when the laboratory stopped to look (direct: 160);"
        ),
        "{said}"
    );
}

#[test]
fn what_was_not_measured_is_named_and_what_stands_alone_too() {
    let mut window = target("gate, window on", Figures::default());
    window.cannot = Some("not in this version".to_owned());
    let said = sentence("wave", vec![target("direct", whole(5, 5, 20.0)), window]);
    assert_eq!(said, "gate, window on: was not measured: not in this version.");
    let alone = sentence("crowd", vec![target("direct", whole(5, 5, 20.0))]);
    assert_eq!(alone, "direct: all 5 callers got a whole answer, the slowest whole answer took 20 ms.");
}

#[test]
fn a_wave_tells_what_reached_the_provider_where_that_is_counted() {
    let flow = |most, groups, largest, figures| Figures {
        most_in_flight: Some(most),
        connections: Some(most),
        groups: Some(groups),
        largest_group: Some(largest),
        ..figures
    };
    let direct = || target("direct", flow(200, 1, 200, whole(200, 200, 52.0)));
    let gate = target("gate, window on", flow(64, 13, 16, whole(200, 200, 180.0)));
    let said = sentence("wave", vec![direct(), gate]);
    assert_eq!(
        said,
        "gate, window on: all 200 callers got a whole answer, at most 64 at the provider at once over 64 connections \
         (direct 200 over 200), in 13 groups of up to 16 (direct 1 of up to 200); against direct calls the median is \
         +128.0 ms and the 99th percentile +128.0 ms."
    );
    // A provider that is not the laboratory's own says nothing of this.
    let foreign = || whole(200, 200, 52.0);
    let said = sentence("wave", vec![target("direct", foreign()), target("other", foreign())]);
    assert!(said.starts_with("other: all 200 callers got a whole answer; against direct calls"), "{said}");
}

#[test]
fn a_flood_tells_when_those_without_an_answer_knew() {
    let figures = Figures {
        ok: 900,
        refused: 700,
        not_ok_p50_ms: Some(3.0),
        most_in_flight: Some(32),
        connections: Some(32),
        ..whole(1600, 900, 420.0)
    };
    let direct =
        Figures { ok: 1500, most_in_flight: Some(32), connections: Some(300), ..whole(1600, 2600, 900.0) };
    let said = sentence("flood", vec![target("direct", direct), target("gate", figures)]);
    for part in
        ["and 700 an error, at the median after 3.00 ms", "at most 32 at the provider at once over 32"]
    {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn processor_time_stands_beside_the_relays_and_cache_beside_the_direct_ones() {
    let cpu = |micros| Figures { cpu_us_per_call: Some(micros), ..whole(10, 10, 1.0) };
    let said = sentence(
        "overhead",
        vec![target("direct", whole(10, 10, 1.0)), target("relay", cpu(40.0)), target("gate", cpu(60.0))],
    );
    assert!(said.contains("gate: 60 µs of processor time a call, 1.50 times the relay's"), "{said}");
    let read = |cached| Figures {
        input_tokens: Some(1000),
        cached_input_tokens: Some(cached),
        ..whole(10, 10, 1.0)
    };
    let said = sentence("prefix", vec![target("direct", read(900)), target("other", read(0))]);
    assert!(said.contains("0.0% of the input tokens in its cache (direct 90.0%)"), "{said}");
}

#[test]
fn caveats_come_from_the_document() {
    let mut asks_another = target("other", whole(5, 0, 20.0));
    asks_another.url = "http://elsewhere/v1".to_owned();
    let foreign = Figures { upstream_calls: None, ..whole(5, 5, 20.0) };
    let document = Document {
        machine: Machine { cores: 2, load: vec![3.5], ..Machine::default() },
        versions: [("build".to_owned(), "debug".to_owned())].into(),
        targets: vec![target("direct", foreign), asks_another],
        ..Document::default()
    };
    let caveats = (named("crowd").unwrap().verdict)(&document).caveats.join("\n");
    for part in ["debug build", "load 3.5 on 2 cores", "no call of other reached", "not the laboratory's own"]
    {
        assert!(caveats.contains(part), "no {part:?} in {caveats}");
    }
}

#[test]
fn every_scenario_tells_its_story_and_has_a_name_of_its_own() {
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        assert!(scenario.story.iter().all(|line| line.len() > 40), "{}", scenario.name);
        assert!(SCENARIOS[..at].iter().all(|other| other.name != scenario.name));
        assert!(scenario.uses.contains(&"calls") && scenario.uses.contains(&"patience"), "{}", scenario.name);
    }
}
