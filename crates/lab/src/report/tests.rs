//! What holds for every page: it is well-formed, what users said stays text, and its numbers are the document's.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::document::{Bucket, Call, Event, Spread, Verdict};
use crate::scenario::SCENARIOS;

const EVIL: &str = "<script>\"evil\" & 'co'</script>";

fn call(number: u32, outcome: &str) -> Call {
    let intended_ms = f64::from(number) * 37.0;
    Call {
        round: number % 2,
        intended_ms,
        sent_ms: intended_ms + 1.0,
        first_byte_ms: Some(intended_ms + 113.0),
        end_ms: intended_ms + 113.0 + f64::from(number) * 211.0,
        outcome: outcome.to_owned(),
        fate: Some("hit".to_owned()),
        attempts: 1,
    }
}

fn target(name: &str, outcomes: &[&str]) -> Target {
    let mut figures = Figures {
        calls: outcomes.len() as u64,
        attempts: 7919,
        upstream_calls: Some(6421),
        ok: outcomes.iter().filter(|outcome| **outcome == "ok").count() as u64,
        p50_ms: Some(323.4),
        p95_ms: Some(877.3),
        p99_ms: Some(3301.7),
        first_byte_p50_ms: Some(83.21),
        first_byte_p99_ms: Some(97.34),
        chunk_late_p50_ms: Some(0.73),
        chunk_transit_p99_ms: Some(4.31),
        cpu_us_per_call: Some(61.7),
        input_tokens: Some(4133),
        cached_input_tokens: Some(2027),
        ok_per_second: Some(29.3),
        fates: [("hit".to_owned(), 17), (EVIL.to_owned(), 19)].into(),
        ..Figures::default()
    };
    for outcome in outcomes {
        *figures.outcomes.entry((*outcome).to_owned()).or_default() += 1;
    }
    Target {
        name: name.to_owned(),
        url: format!("http://127.0.0.1:4711/{name}"),
        spread: [("p50_ms".to_owned(), Spread { min: 311.0, max: 347.0 })].into(),
        per_round: vec![figures.clone()],
        figures,
        timeline: (0..).zip(outcomes).map(|(number, outcome)| call(number, outcome)).collect(),
        timeline_every: 1,
        histogram: vec![Bucket { from_ms: 0.0, to_ms: 1.0, count: 1 }],
        ..Target::default()
    }
}

fn document(scenario: &str) -> Document {
    let cannot = Target { name: "nobody".to_owned(), cannot: Some(EVIL.to_owned()), ..Target::default() };
    let finding = Finding { target: EVIL.to_owned(), text: "all 223 callers".to_owned() };
    Document {
        scenario: scenario.to_owned(),
        title: format!("Title {EVIL}"),
        story: vec![EVIL.to_owned()],
        parameters: [("latency".to_owned(), Value::from(1500.0)), (EVIL.to_owned(), EVIL.into())].into(),
        versions: [("client".to_owned(), EVIL.to_owned())].into(),
        started: "2026-11-30T18:16:21Z".to_owned(),
        took_ms: 8123.0,
        rounds: 2,
        targets: vec![
            target("direct", &["ok", "503", "ok", "cut", "waiting"]),
            target(EVIL, &["ok", "ok", "ok"]),
            target("failed", &["timeout"]),
            cannot,
        ],
        events: vec![Event { name: EVIL.to_owned(), from_ms: 20.0, to_ms: None }],
        verdict: Verdict { findings: vec![finding], caveats: vec![EVIL.to_owned()], ..Verdict::default() },
        ..Document::default()
    }
}

/// The texts of a page, each with the elements around it and their classes. Panics if it is not well-formed.
fn texts(page: &str) -> Vec<(String, String)> {
    let mut rest = page.strip_prefix("<!doctype html>\n").expect("a doctype");
    let (mut open, mut texts) = (Vec::<String>::new(), Vec::new());
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(!text.contains('>'), "{text}");
        let entities = ["&amp;", "&lt;", "&gt;", "&#34;"];
        assert_eq!(
            text.matches('&').count(),
            entities.map(|entity| text.matches(entity).count()).iter().sum::<usize>()
        );
        texts.push((open.join(" "), text.to_owned()));
        let (tag, tail) = tail.split_once('>').expect("a tag has an end");
        rest = tail;
        if let Some(name) = tag.strip_prefix('/') {
            let opened = open.pop().unwrap_or_default();
            assert_eq!(opened.split(' ').next(), Some(name));
            continue;
        }
        let parts: Vec<&str> = tag.split('"').collect();
        assert!(parts.len() % 2 == 1 && !tag.contains('<'), "{tag}");
        let mut names = BTreeSet::new();
        for name in parts[..parts.len() - 1].iter().step_by(2) {
            let name = name.rsplit(' ').next().and_then(|name| name.strip_suffix('=')).expect("name=");
            assert!(names.insert(name), "{name} twice in {tag}");
        }
        assert!(parts.iter().all(|part| !part.contains("NaN") && !part.contains("inf")), "{tag}");
        if !tag.ends_with('/') {
            open.push(tag.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    texts
}

#[test]
fn every_scenario_makes_a_well_formed_page_that_fetches_and_runs_nothing() {
    assert!(!STYLE.contains(['<', '>', '&']), "a style sheet is not escaped");
    for scenario in SCENARIOS {
        let document = Document {
            title: scenario.title.to_owned(),
            story: scenario.story.map(str::to_owned).to_vec(),
            ..document(scenario.name)
        };
        let page = html(&[document]);
        assert!(texts(&page).iter().any(|(_, text)| text.contains(scenario.title)), "{page}");
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
    }
}

#[test]
fn what_users_say_stays_text() {
    let page = html(&[document("crowd")]);
    let said = texts(&page).iter().filter(|(_, text)| text.contains("&lt;script&gt;")).count();
    assert!(said > 10, "{said}");
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn documents_without_figures_make_pages_too() {
    let cannot = Target { cannot: Some("no".to_owned()), ..Target::default() };
    let only = Document { targets: vec![cannot], ..Document::default() };
    let failed = Document { targets: vec![target("direct", &["connect"])], ..Document::default() };
    for documents in [vec![], vec![Document::default()], vec![only], vec![failed]] {
        texts(&html(&documents));
    }
}

#[test]
fn several_documents_are_sections_with_a_table_of_contents() {
    let page = html(&[document("crowd"), document("outage")]);
    texts(&page);
    assert!(
        page.find("calls at the provider") < page.find("<section"),
        "the figures come before the experiments"
    );
    for number in [1, 2] {
        assert!(page.contains(&format!("href=\"#experiment-{number}\"")));
        assert!(page.contains(&format!("<section id=\"experiment-{number}\"")));
    }
}

#[test]
fn the_contents_tell_errors_from_waiting_and_what_differs_between_two_of_a_kind() {
    let named = |name: &str, latency: f64| {
        let parameters = [("latency".to_owned(), latency.into()), ("calls".to_owned(), 5.into())].into();
        Document {
            parameters,
            targets: vec![target("direct", &["ok", "503", "cut", "waiting"])],
            ..document(name)
        }
    };
    let page = html(&[named("crowd", 100.0), named("crowd", 250.0), named("outage", 100.0)]);
    let nav = page.split_once("<nav").and_then(|(_, rest)| rest.split_once("</nav>")).unwrap().0;
    assert!(nav.contains(">errors</th>") && nav.contains(">still waiting</th>"), "{nav}");
    // Calls, whole answers, errors, still waiting.
    assert!(nav.contains("<td>4</td><td>1</td><td>2</td><td>1</td>"), "{nav}");
    assert!(nav.contains(">--latency 100ms<") && nav.contains(">--latency 250ms<"), "{nav}");
    assert_eq!(nav.matches("--").count(), 2, "an experiment that is alone needs no flags: {nav}");
}

#[test]
fn calls_without_a_whole_answer_are_counted_below_the_curve() {
    let page = html(&[document("outage")]);
    assert!(page.contains("direct: 3 of 5 calls failed, were refused or were still waiting"), "{page}");
    assert!(page.contains("failed: 1 of 1 calls"), "{page}");
}

#[test]
fn a_fate_has_its_colour_whatever_the_others_are() {
    let fates = |names: &[&str]| {
        let fates = names.iter().map(|name| ((*name).to_owned(), 3)).collect();
        let figures = Figures { calls: 9, fates, ..Figures::default() };
        html(&[Document { targets: vec![Target { figures, ..Target::default() }], ..Document::default() }])
    };
    for names in [&["miss"][..], &["hit", "joined", "miss"], &["a", "b", "bypass", "miss"]] {
        let page = fates(names);
        let (before, _) = page.split_once("miss (asked").unwrap();
        assert!(before.rsplit_once("<rect").unwrap().1.contains("fate-2"), "{names:?}");
    }
}

#[test]
fn the_verdict_comes_first_and_what_could_not_be_measured_is_said() {
    let page = html(&[document("crowd")]);
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words} is missing"));
    assert!(at("all 223 callers") < at("Command") && at("Command") < at("The figures"));
    at("nobody was not measured");
    at("round 1 of 2");
    at(">311–347<");
}

fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let number = |part: &&str| part.contains(|character: char| character.is_ascii_digit());
    let parts = text.split(|character: char| !character.is_ascii_digit() && character != '.');
    parts.map(|part| part.trim_matches('.')).filter(number)
}

/// As they are, and as the page writes them.
fn known(value: &Value, known: &mut BTreeSet<String>) {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            known.extend([number.to_string(), short(number)]);
            known.extend(
                [scale::digits(number), scale::time(number)]
                    .iter()
                    .flat_map(|text| numbers(text))
                    .map(str::to_owned),
            );
        }
        Value::String(text) => known.extend(numbers(text).map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| self::known(value, known)),
        Value::Object(fields) => {
            known.extend(fields.keys().flat_map(|name| numbers(name)).map(str::to_owned));
            fields.values().for_each(|value| self::known(value, known));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

#[test]
fn no_number_is_the_pages_own_but_those_of_its_axes() {
    let document = document("stream");
    // The number of a round is counted from one, curves end at 100 %, and 95 of 100 is what p95 means. Three calls are
    // without a whole answer, two of them with an error.
    let mut allowed = ["1", "95", "100", "3", "2"].map(str::to_owned).into();
    known(&serde_json::to_value(&document).unwrap(), &mut allowed);
    for (around, text) in texts(&html(&[document])) {
        if around.contains("style") || around.contains("class=\"tick") {
            continue;
        }
        for number in numbers(&text) {
            assert!(allowed.contains(number), "{number} in {text:?} within {around}");
        }
    }
}

#[test]
fn every_call_of_a_round_is_a_line_and_the_events_are_shaded() {
    let mut document = document("outage");
    document.events.push(Event { name: "calm".to_owned(), from_ms: 40.0, to_ms: Some(90.0) });
    document.targets.truncate(1);
    let page = html(&[document]);
    let lines = |kind: &str| {
        let mut paths = page.split("<path ").filter_map(|path| path.split('>').next());
        let path = paths.find(|path| path.contains(&format!("class=\"call {kind}\"")));
        path.map_or(0, |path| path.split('"').nth(1).unwrap_or_default().matches('M').count())
    };
    // Of five calls, one in two was in the first round: `ok`, `ok`, `waiting`.
    assert_eq!((lines("ok"), lines("refused"), lines("failed")), (2, 0, 1));
    assert_eq!(page.matches("class=\"event\"").count(), 2);
    assert!(page.contains(">calm</text>"));
    assert!(page.contains("href=\"#diamond\""), "a failure has its shape");
}
