//! Holds `table.md`, which says what answers each of the known faults, to what is really there.

use std::sync::LazyLock;

const TABLE: &str = include_str!("table.md");
const README: &str = include_str!("../../../../../README.md");

/// How many faults are known.
const FAULTS: u16 = 93;

/// The kinds whose capability is built.
const BUILT: [&str; 12] = [
    "sse-framing",
    "stream-lifecycle",
    "tools",
    "messages-and-params",
    "multimodal",
    "reasoning",
    "finish-and-structured",
    "embeddings-and-models",
    "errors",
    "headers-and-transport",
    "config-and-operations",
    "cache-and-coalescing",
];

/// Capabilities that a fault may wait for, and what the README calls each among what is not built yet.
const LATER: [(&str, &str); 6] = [
    ("other protocols", "translation of Responses, Gemini and Bedrock"),
    ("retries", "retries"),
    ("breakers", "breakers"),
    ("budgets", "budgets"),
    ("keys", "keys"),
    ("call log", "the call log"),
];

/// One row of the table.
struct Case {
    number: u16,
    kind: &'static str,
    title: &'static str,
    tests: Vec<&'static str>,
    not_yet: Option<&'static str>,
    not_applicable: Option<&'static str>,
}

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| TABLE.lines().filter(|line| line.starts_with("| K-")).map(Case::read).collect());

impl Case {
    fn read(row: &'static str) -> Case {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [number, kind, title, answer] = cells[..] else { panic!("four cells: {row}") };
        let mut case = Case {
            number: number.strip_prefix("K-").and_then(|digits| digits.parse().ok()).expect(row),
            kind,
            title,
            tests: Vec::new(),
            not_yet: None,
            not_applicable: None,
        };
        for part in answer.split("; ") {
            if let Some(capability) = part.strip_prefix("not yet: ") {
                case.not_yet = Some(capability);
            } else if let Some(reason) = part.strip_prefix("not applicable: ") {
                case.not_applicable = Some(reason);
            } else {
                let name = |name: &'static str| name.strip_prefix('`')?.strip_suffix('`');
                case.tests = part.split(", ").map(|quoted| name(quoted).expect(row)).collect();
            }
        }
        case
    }
}

/// The files in which the named tests stand.
const SOURCES: &[(&str, &str)] = &[
    ("sse_framing", include_str!("sse_framing.rs")),
    ("stream_lifecycle", include_str!("stream_lifecycle.rs")),
    ("tools", include_str!("tools.rs")),
    ("tool_texts", include_str!("tool_texts.rs")),
    ("messages_and_params", include_str!("messages_and_params.rs")),
    ("multimodal", include_str!("multimodal.rs")),
    ("reasoning", include_str!("reasoning.rs")),
    ("finish_and_structured", include_str!("finish_and_structured.rs")),
    ("embeddings_and_models", include_str!("embeddings_and_models.rs")),
    ("errors", include_str!("errors.rs")),
    ("headers_and_transport", include_str!("headers_and_transport.rs")),
    ("config_and_operations", include_str!("config_and_operations.rs")),
    ("other_kinds", include_str!("other_kinds.rs")),
    ("rate_limits_and_admission", include_str!("rate_limits_and_admission.rs")),
    ("bad_input", include_str!("../bad_input.rs")),
    ("deadlines", include_str!("../deadlines.rs")),
    ("hangup", include_str!("../hangup.rs")),
    ("passthrough", include_str!("../passthrough.rs")),
    ("paid_once_churn", include_str!("../paid_once/churn.rs")),
    ("paid_once_failures", include_str!("../paid_once/failures.rs")),
    ("paid_once_first_leaves", include_str!("../paid_once/first_leaves.rs")),
    ("paid_once_keeping", include_str!("../paid_once/keeping.rs")),
    ("paid_once_known", include_str!("../paid_once/known.rs")),
    ("paid_once_never", include_str!("../paid_once/never.rs")),
    ("paid_once_patience", include_str!("../paid_once/patience.rs")),
    ("paid_once_scopes", include_str!("../paid_once/scopes.rs")),
    ("process_bounds", include_str!("../../process/bounds.rs")),
    ("process_drain", include_str!("../../process/drain.rs")),
    ("process_hangup", include_str!("../../process/hangup.rs")),
    ("wire_base", include_str!("../../../../wire/src/base/tests.rs")),
    ("wire_streams", include_str!("../../../../wire/tests/streams/faults.rs")),
    ("wire_usage", include_str!("../../../../wire/src/dialect/usage.rs")),
];

/// The names of the tests in a source: functions that one of the attributes above them makes a test.
fn tests_in(source: &str) -> Vec<&str> {
    let mut tests = Vec::new();
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        let name = line
            .strip_prefix("async fn ")
            .or(line.strip_prefix("fn "))
            .and_then(|rest| rest.split('(').next());
        match name {
            Some(name) if marked => tests.push(name),
            _ if line.starts_with("#[test]") || line.starts_with("#[tokio::test") => {
                marked = true;
                continue;
            }
            _ if line.starts_with("#[") || line.starts_with("//") => continue,
            _ => {}
        }
        marked = false;
    }
    tests
}

/// The number of the fault that a test is named after.
fn number_in(test: &str) -> Option<u16> {
    test.strip_prefix('k')?.split_once('_')?.0.parse().ok()
}

#[test]
fn every_fault_is_there_once_in_order_with_an_answer() {
    let numbers: Vec<u16> = CASES.iter().map(|case| case.number).collect();
    assert_eq!(numbers, (1..=FAULTS).collect::<Vec<_>>());
    for case in CASES.iter() {
        let answered = !case.tests.is_empty() || case.not_yet.is_some();
        assert!(answered != case.not_applicable.is_some(), "K-{:03} has one answer", case.number);
        assert!(!case.title.is_empty() && !case.kind.is_empty(), "K-{:03}", case.number);
    }
}

#[test]
fn every_named_test_exists() {
    for Case { number, tests, .. } in CASES.iter() {
        for name in tests {
            let (file, test) = name.split_once("::").expect(name);
            let source = SOURCES.iter().find(|(known, _)| *known == file);
            let (_, source) = source.unwrap_or_else(|| panic!("K-{number:03}: no source {file}"));
            assert!(tests_in(source).contains(&test), "K-{number:03}: no test {name}");
        }
    }
}

#[test]
fn every_test_of_a_fault_is_named_under_its_number() {
    let mut found = 0;
    for (file, source) in SOURCES {
        for test in tests_in(source) {
            let Some(number) = number_in(test) else { continue };
            let case = CASES.iter().find(|case| case.number == number).expect(test);
            assert!(case.tests.contains(&&*format!("{file}::{test}")), "{file}::{test}");
            found += 1;
        }
    }
    assert!(found > 50, "{found}: the sources are read");
}

#[test]
fn what_is_waited_for_is_not_built() {
    let not_yet = README.lines().find(|line| line.starts_with("| not yet |")).expect("the README says so");
    for Case { number, not_yet: capability, .. } in CASES.iter() {
        let Some(capability) = capability else { continue };
        let (_, promised) = LATER.iter().find(|(name, _)| name == capability).expect(capability);
        assert!(not_yet.contains(promised), "K-{number:03} waits for {capability}");
    }
}

/// In the kinds whose capability is built, only a log that is kept is something without any test.
#[test]
fn every_kind_that_is_built_is_tested() {
    for kind in BUILT {
        assert!(CASES.iter().any(|case| case.kind == kind), "{kind}");
    }
    let untested = CASES.iter().filter(|case| BUILT.contains(&case.kind) && case.tests.is_empty());
    assert_eq!(untested.map(|case| case.number).collect::<Vec<_>>(), [88]);
}
