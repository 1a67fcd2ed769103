//! A small pair of documents, and the page of this repository.

use lab::document::{Figures, Target};

use super::*;
use crate::report::{Of, Pass};

fn row(scenario: &str, gate: f64, quick: bool) -> Row {
    let pass = Pass { built: "then".into(), quick, ..Pass::default() };
    Row { pass, ..Row::info(scenario, "ms", &[1.0], &[gate]).claim(Of::Gate, &[1.0], &[gate], 2.0) }
}

fn report(rows: Vec<Row>) -> Report {
    let machine = Machine { cpu: "a processor".into(), ..Machine::default() };
    Report { machine, gate: "sluicegate 1.2.3".into(), optimised: true, rows }
}

fn experiment(scenario: &str) -> Document {
    let figures = Figures { calls: 211, ok: 209, failed: 2, p50_ms: Some(37.4), ..Figures::default() };
    let timeline = vec![lab::document::Call::default()];
    Document {
        format: FORMAT,
        scenario: scenario.to_owned(),
        rounds: 3,
        versions: [("build".to_owned(), "release".to_owned())].into(),
        targets: vec![Target { name: "direct".to_owned(), figures, timeline, ..Target::default() }],
        ..Document::default()
    }
}

fn medians(report: &Report) -> Vec<(&str, f64)> {
    report.rows.iter().map(|row| (row.scenario.as_str(), row.claim.unwrap().median)).collect()
}

#[test]
fn the_page_of_this_repository_is_what_its_template_and_its_measurements_give() {
    let docs = Docs(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"));
    let page = std::fs::read_to_string(docs.page()).unwrap();
    assert!(
        page == docs.render().unwrap(),
        "docs/benchmarks.md has to be written anew: make benchmarks-page"
    );
}

#[test]
fn a_scenario_that_is_measured_again_takes_the_place_of_its_older_figure() {
    let old = report(vec![row("cpu-small", 1.5, false), row("start", 1.0, false)]);
    let new = report(vec![row("start", 1.25, false), row("cpu-hit", 3.0, false)]);
    let (merged, said) = merge(old, new).unwrap();
    assert_eq!(medians(&merged), [("cpu-small", 1.5), ("cpu-hit", 3.0), ("start", 1.25)]);
    assert_eq!(merged.rows[2].earlier[0].median, 1.0);
    assert!(said.is_empty(), "{said:?}");
    assert_eq!(moves(&merged.rows), "- `start`, ms: 1.000\n");
}

#[test]
fn figures_of_another_build_are_not_shown_as_earlier_ones() {
    let mut old = report(vec![row("start", 1.0, false)]);
    old.rows[0].pass.built = "before".into();
    let (merged, _) = merge(old, report(vec![row("start", 1.25, false)])).unwrap();
    assert!(merged.rows[0].earlier.is_empty());
}

#[test]
fn quick_passes_and_failed_ones_leave_full_ones_alone() {
    let old = || report(vec![row("start", 1.5, false)]);
    let (merged, said) = merge(old(), report(vec![row("start", 1.0, true)])).unwrap();
    assert_eq!((medians(&merged)[0].1, said.len()), (1.5, 1));
    let failed = report(vec![Row::error("start", &anyhow::anyhow!("it ended at once"))]);
    let (merged, said) = merge(old(), failed).unwrap();
    assert_eq!(medians(&merged)[0].1, 1.5);
    assert!(said[0].contains("it ended at once"), "{said:?}");
}

#[test]
fn what_is_no_measurement_of_the_gate_here_is_refused() {
    let refused = |new: Report| merge(report(Vec::new()), new).unwrap_err().to_string();
    assert!(refused(Report { optimised: false, ..report(Vec::new()) }).contains("not optimised"));
    assert!(refused(Report { gate: SECOND_RELAY.into(), ..report(Vec::new()) }).contains("second relay"));
    assert!(
        refused(Report { machine: Machine::default(), ..report(Vec::new()) }).contains("another machine")
    );
}

#[test]
fn documents_are_kept_without_their_calls_and_rendered_from_there() {
    let directory = tempfile::tempdir().unwrap();
    let docs = Docs(directory.path().join("docs"));
    std::fs::create_dir_all(docs.0.join("benchmarks")).unwrap();
    std::fs::write(docs.template(), "Words.\n{{proof}}\n{{experiment crowd}}\n{{targets crowd}}\nEnd.\n")
        .unwrap();
    let file = |name: &str| directory.path().join(name);
    write(&file("crowd.json"), &experiment("crowd")).unwrap();
    write(&file("today.json"), &report(vec![row("start", 1.5, false)])).unwrap();
    for name in ["crowd.json", "today.json"] {
        assert!(docs.keep(&file(name)).unwrap().is_empty());
    }
    assert!(docs.measurements().unwrap().experiments["crowd"].targets[0].timeline.is_empty());
    let page = docs.render().unwrap();
    assert!(page.starts_with("Words.\n```text\na processor") && page.ends_with("\nEnd.\n"), "{page}");
    assert!(page.contains("| p50 ms | 37.4 |"), "{page}");
    assert!(page.contains("| `crowd` | direct | 211 | – | 209 | 2 | 37 | – | – |"), "{page}");

    let mut debug = experiment("crowd");
    debug.versions.insert("build".to_owned(), "debug".to_owned());
    write(&file("crowd.json"), &debug).unwrap();
    assert!(docs.keep(&file("crowd.json")).unwrap_err().to_string().contains("debug build"));
    assert!(docs.keep(&file("nothing.json")).is_err());
}

#[test]
fn a_template_and_its_measurements_belong_together() {
    let crowd = || ("crowd".to_owned(), Box::new(experiment("crowd")));
    let all = Measurements { proof: None, experiments: [crowd()].into() };
    let error = |template: &str| render(template, &all).unwrap_err().to_string();
    assert!(error("{{experiment hang}}").contains("no measurement hang.json"));
    assert!(error("{{proof}}").contains("no proof.json"));
    assert!(error("{{picture crowd}}").contains("no table is called"));
    assert!(error("So {{proof}}").contains("whole line"));
    assert!(error("Nothing.").contains("no table shows crowd"));
}
