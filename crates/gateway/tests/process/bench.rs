//! `sluicegate bench`: the experiments by the real binary, which starts the mock, the gate and the relay from itself.
//! In sizes that end at once: what is tested is that each says what it saw, not how fast this machine is.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::child::{Mock, Running};
use crate::client;
use crate::until::{secs, until};

fn bench(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .arg("bench")
        .args(arguments.split_whitespace())
        .env_clear()
        .output()
        .expect("the binary runs")
}

fn report(arguments: &str) -> Value {
    let output = bench(&format!("{arguments} --json"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(told, "", "nothing but a terminal sees progress");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn target<'a>(report: &'a Value, name: &str) -> &'a Value {
    let targets = report["targets"].as_array().expect("a list");
    targets.iter().find(|target| target["name"] == name).unwrap_or_else(|| panic!("no {name} in {targets:?}"))
}

fn sentence(report: &Value) -> &str {
    report["verdict"]["sentence"].as_str().expect("a text")
}

#[test]
fn a_crowd_is_one_call_at_the_provider() {
    for form in ["", "--stream", "--sdk anthropic-node"] {
        let report = report(&format!("crowd --calls 30 --latency 300ms --rounds 1 {form}"));
        let (direct, gate) = (target(&report, "direct"), target(&report, "gate"));
        assert_eq!((&direct["upstream_calls"], &direct["ok"]), (&30.into(), &30.into()), "{report}");
        assert_eq!((&gate["upstream_calls"], &gate["ok"]), (&1.into(), &30.into()), "{report}");
        assert_eq!(gate["fates"]["joined"], 29, "{report}");
        assert!(sentence(&report).contains("the provider got 1 call (direct 30)"), "{report}");
    }
}

#[test]
fn different_calls_make_no_staircase() {
    let report = report("distinct --calls 12 --latency 1s --rounds 1");
    assert_eq!(target(&report, "gate")["most_in_flight"], 12, "{report}");
    assert!(sentence(&report).contains("without a staircase"), "{report}");
}

#[test]
fn what_this_version_cannot_do_is_said_and_not_measured() {
    let report = report("budget --calls 5 --rounds 1");
    let gate = target(&report, "gate, --max-spend 0.01");
    let cannot = gate["cannot"].as_str();
    assert!(cannot.is_some_and(|cannot| cannot.contains("[budget] is not in this version yet")), "{gate}");
    assert_eq!(gate["per_round"], Value::Array(Vec::new()));
    assert!(sentence(&report).contains("gate, --max-spend 0.01: was not measured"), "{report}");
    assert_eq!(target(&report, "direct")["ok"], 5, "{report}");
}

#[test]
fn a_wave_passes_a_gate_with_and_without_a_window() {
    let report = report("wave --calls 5 --latency 20ms --cap 2 --rounds 1");
    for name in ["direct", "gate", "gate, window on"] {
        assert_eq!(target(&report, name)["ok"], 5, "{report}");
    }
    for name in ["gate", "gate, window on"] {
        let gate = target(&report, name);
        assert!(gate["most_in_flight"].as_u64() <= Some(2), "{report}");
        assert!(gate["groups"].is_number() && gate["connections"].is_number(), "{report}");
    }
    // The window is open for 20 ms, and the first of the calls waits for all of that.
    let slowest = |name| target(&report, name)["max_ms"].as_f64().unwrap();
    assert!(slowest("gate, window on") >= 40.0, "{report}");
}

#[test]
fn processor_time_is_told_of_gate_and_relay() {
    let report = report("overhead --calls 300 --concurrency 4 --rounds 1");
    for name in ["relay", "gate"] {
        let spent = target(&report, name)["cpu_us_per_call"].as_f64();
        assert!(spent.is_some_and(|micros| micros > 1.0), "{report}");
    }
    assert!(sentence(&report).contains("times the relay's"), "{report}");
}

#[test]
fn a_cap_of_ones_own_keeps_a_flood_from_the_provider() {
    let report = report("flood --calls 24 --rate 200 --latency 20ms --capacity 2 --rounds 1");
    let capped = target(&report, "gate, --concurrency 2");
    assert_eq!((&capped["upstream_calls"], &capped["ok"]), (&24.into(), &24.into()), "{report}");
    assert!(target(&report, "direct")["upstream_calls"].as_u64() > Some(24), "{report}");
}

#[test]
fn streams_are_timed_piece_by_piece() {
    let report =
        report("stream --calls 5 --within 20ms --latency 50ms --chunks 3 --chunk-interval 10ms --rounds 1");
    let gate = target(&report, "gate");
    assert!(gate["chunk_transit_p99_ms"].is_number() && gate["first_byte_p50_ms"].is_number(), "{report}");
}

#[test]
fn people_get_a_table() {
    let output = bench("prefix --calls 3 --rate 20 --tokens 1500 --rounds 1");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in ["prefix: ", "direct", "p99 ms", "of them in the provider's cache", "gate: all 3 callers"] {
        assert!(table.contains(line), "no {line:?} in\n{table}");
    }
}

#[test]
fn a_report_is_a_page_with_its_numbers_beside_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (page, numbers) = (directory.path().join("out.html"), directory.path().join("out.json"));
    let asked =
        "crowd --calls 7 --latency 100ms --rounds 1 --target nobody=http://127.0.0.1:9/v1 --json --report";
    let output = bench(&format!("{asked} {}", page.display()));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    for path in [&page, &numbers] {
        assert!(told.contains(&path.display().to_string()), "{told}");
    }
    assert_eq!(fs::read(&numbers).expect("the document"), output.stdout);
    let page = fs::read_to_string(&page).expect("the page");
    assert!(page.contains("all 7 callers got a whole answer"), "{page}");
    assert!(page.contains("nobody was not measured"), "{page}");
    assert!(page.contains("--target nobody=http://127.0.0.1:9/v1"), "the command has the places");
    assert!(told.contains("127.0.0.1:9/v1/chat/completions: connection refused"), "{told}");
    assert!(!page.contains("<script") && !page.contains("src="), "{page}");
}

#[test]
fn where_no_target_answers_the_experiment_has_failed() {
    let output = bench(
        "crowd --calls 2 --latency 10ms --rounds 1 --no-gate --target a=http://127.0.0.1:9/v1 --target \
         b=http://nowhere.invalid/v1",
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("a: it answered no call") && told.contains("b: it answered no call"), "{told}");
    assert!(told.contains("connection refused") && told.contains("no target answered"), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("direct"), "what was measured is shown");
}

#[test]
fn bad_arguments_are_refused_before_anything_is_started() {
    for (arguments, code, why) in [
        ("", 2, "SCENARIO"),
        ("croud", 2, "crowd"),
        ("", 2, "A crowd with one question"),
        ("crowd --target there", 2, "NAME=URL"),
        ("crowd --target foo=bar", 2, "`bar`: no URL"),
        ("crowd --latency 5s --patience 5s", 1, "--patience"),
        ("crowd --capacity 3", 1, "--capacity means nothing in `crowd`"),
        ("crowd --direct http://127.0.0.1:9/v1", 1, "nobody answers at http://127.0.0.1:9/v1"),
    ] {
        let output = bench(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {told}");
        assert!(told.contains(why) && output.stdout.is_empty(), "{arguments}: {told}");
    }
}

#[tokio::test]
async fn whoever_ends_it_ends_what_it_started() {
    for (signal, word) in endings() {
        let (mut bench, directories) = hanging(&[]);
        let children = started(&bench, 2).await;
        bench.signal(signal);
        // Its last words are read by a thread of the test's, which may be behind.
        let last = format!("sluicegate bench: {word}");
        bench.says(&last).await;
        assert_eq!(bench.exit(secs(10)).await, Some(1));
        assert_eq!(bench.log(), last);
        for child in children {
            assert!(!runs(child), "{child} is still there");
        }
        assert_eq!(left_in(&directories), 0, "after SIG{signal}");
    }
}

#[tokio::test]
async fn what_it_started_does_not_outlive_it_when_it_is_killed() {
    let (bench, directories) = hanging(&[]);
    let children = started(&bench, 2).await;
    bench.signal("KILL");
    let over = async || (!children.iter().any(|child| runs(*child))).then_some(());
    until("mock and gate end", secs(20), over).await;
    assert_eq!(left_in(&directories), 0);
}

#[tokio::test]
async fn a_mock_that_was_there_is_left_as_it_was_found_by_every_signal() {
    let mock = Mock::start(&["--script", "ok 3x; 418", "--latency", "7ms"]).await;
    let state = async || {
        let [script, limits] = ["/__script", "/__limits"].map(|path| client::get(mock.at, path));
        (script.await.json(), limits.await.json())
    };
    let before = state().await;
    for (signal, _) in endings() {
        let direct = format!("http://{}/v1", mock.at);
        let (mut bench, _directories) = hanging(&["--direct", &direct]);
        let steered = async || state().await.0.to_string().contains("hang").then_some(());
        until("the mock hangs", secs(20), steered).await;
        bench.signal(signal);
        assert_eq!(bench.exit(secs(10)).await, Some(1));
        assert_eq!(state().await, before, "after SIG{signal}");
    }
}

/// The signals that end it, and what it says then. Where the tests run under `nohup`, so does it, and stays.
fn endings() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [("TERM", "terminated"), ("HUP", "hung up"), ("INT", "interrupted")];
    let ignored = lab::procfs::ignores_hangup();
    all.into_iter().filter(move |(signal, _)| *signal != "HUP" || !ignored)
}

/// An experiment that has no end, with a place for its directories.
fn hanging(arguments: &[&str]) -> (Running, tempfile::TempDir) {
    let directories = tempfile::tempdir().expect("a directory");
    let place = directories.path().to_str().expect("a name").to_owned();
    let all = [&["bench", "hang", "--endless", "--patience", "1h"], arguments].concat();
    (Running::start(&all, &[("TMPDIR", &place)], &[]), directories)
}

async fn started(bench: &Running, number: usize) -> Vec<u32> {
    let all = async || Some(children(bench.pid())).filter(|children| children.len() == number);
    let all = until("mock and gate run", secs(20), all).await;
    // A process that was made is a copy of its parent until it runs its own program.
    let own =
        async || all.iter().all(|child| names(*child).is_some_and(|name| name != "bench")).then_some(());
    until("they run their programs", secs(20), own).await;
    all
}

/// The command that a process runs.
fn names(process: u32) -> Option<String> {
    let words = fs::read_to_string(format!("/proc/{process}/cmdline")).ok()?;
    words.split('\0').nth(1).map(str::to_owned)
}

/// One that has ended but whose parent has not asked for it yet is no longer running.
fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn left_in(directory: &tempfile::TempDir) -> usize {
    fs::read_dir(directory.path()).expect("a directory").count()
}

/// The processes that this one has started.
fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).expect("Linux");
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: String = tasks.flatten().map(of_task).collect();
    all.split_whitespace().map(|child| child.parse().expect("a number")).collect()
}
