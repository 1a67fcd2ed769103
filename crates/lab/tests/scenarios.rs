//! Every scenario over real sockets in a size that ends at once: the mock is called directly, and once more as if it
//! were a proxy. What the real gate does in them is seen by the tests of the binary.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use http::{HeaderName, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use indicatif::ProgressBar;
use lab::client::sdk::Sdk;
use lab::document::{Document, Target};
use lab::experiment::{self, Settings};
use lab::knobs::{Knobs, Typed};
use lab::scenario::named;
use sim::mock::{Mock, Options};
use tokio::task::JoinSet;

const MS: Duration = Duration::from_millis(1);

fn typed(calls: usize) -> Typed {
    Typed { calls: Some(calls), latency: Some(MS * 20), ..Typed::default() }
}

fn settings(scenario: &str, mock: SocketAddr, typed: &Typed) -> Settings {
    let scenario = named(scenario).unwrap();
    let url = |text: &str| text.parse().unwrap();
    Settings {
        scenario,
        knobs: Knobs::resolve(scenario, typed).unwrap(),
        rounds: 2,
        seed: 1,
        sdk: Sdk::named("openai-python").unwrap(),
        model: "gpt-5-mini".to_owned(),
        fate_header: HeaderName::from_static("x-request-id"),
        direct: Some(url(&format!("http://{mock}/v1"))),
        latency_typed: false,
        mock: SocketAddr::from(([127, 0, 0, 1], 0)),
        targets: vec![
            ("twin".to_owned(), url(&format!("http://{mock}/v1"))),
            ("nobody".to_owned(), url("http://127.0.0.1:9/v1")),
        ],
        gate: false,
        key: None,
    }
}

async fn bench(scenario: &str, typed: &Typed) -> Document {
    let mock = Mock::start_local(Options::strict()).await.unwrap();
    let settings = settings(scenario, mock.addr(), typed);
    let document = experiment::run(&settings, Path::new("/nowhere"), &ProgressBar::hidden()).await.unwrap();
    assert_eq!(document.targets[0].name, "direct");
    assert_eq!((document.scenario.as_str(), document.rounds), (scenario, 2));
    for target in &document.targets[..2] {
        let figures = &target.figures;
        assert_eq!(figures.calls, typed.calls.unwrap() as u64, "{}", target.name);
        assert_eq!(figures.ok + figures.refused + figures.failed, figures.calls, "{}", target.name);
        assert_eq!(figures.upstream_calls, Some(figures.attempts), "{}", target.name);
        assert_eq!(target.timeline.len() as u64, 2 * figures.calls, "{}", target.name);
        assert_eq!(target.per_round.len(), 2, "{}", target.name);
    }
    let nobody = &document.targets[2];
    assert!(nobody.cannot.as_ref().unwrap().contains("answered no call"), "{nobody:?}");
    assert!(nobody.per_round.is_empty() && nobody.timeline.is_empty(), "{nobody:?}");
    assert!(document.verdict.sentence.contains("twin: "), "{}", document.verdict.sentence);
    assert!(document.verdict.sentence.contains("nobody: was not measured"), "{}", document.verdict.sentence);
    document
}

fn all_ok(target: &Target) {
    assert_eq!(target.figures.ok, target.figures.calls, "{:?}", target.figures.outcomes);
    assert!(target.figures.p50_ms.unwrap() >= 20.0, "{:?}", target.figures);
    assert!(target.figures.p50_ms <= target.figures.max_ms);
    assert_eq!(target.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), 2 * target.figures.calls);
}

#[tokio::test]
async fn calls_that_come_at_once() {
    for scenario in ["crowd", "distinct", "wave", "budget"] {
        let document = bench(scenario, &typed(4)).await;
        all_ok(&document.targets[0]);
        all_ok(&document.targets[1]);
        // The wave takes longer to arrive than an answer does.
        let least = if scenario == "wave" { 2 } else { 4 };
        assert!(document.targets[1].figures.most_in_flight >= Some(least), "{scenario}");
    }
}

#[tokio::test]
async fn callers_that_wait_for_their_answers() {
    let typed = Typed { concurrency: Some(2), ..typed(6) };
    let document = bench("overhead", &typed).await;
    all_ok(&document.targets[1]);
    assert_eq!(document.targets[1].figures.most_in_flight, Some(2));
    // A process that is not the laboratory's own keeps its time for itself.
    assert_eq!(document.targets[1].figures.cpu_us_per_call, None);
}

#[tokio::test]
async fn streams_tell_of_their_first_content_and_of_what_was_late() {
    let typed = Typed { within: Some(MS * 10), chunks: Some(3), chunk_interval: Some(MS * 5), ..typed(3) };
    let document = bench("stream", &typed).await;
    let figures = &document.targets[1].figures;
    assert_eq!(figures.ok, 3, "{:?}", figures.outcomes);
    assert!(figures.first_byte_p50_ms.unwrap() >= 20.0);
    assert!(figures.chunk_late_p99_ms.is_some());
    assert!(figures.chunk_transit_p99_ms.unwrap() < figures.max_ms.unwrap());
    let call = &document.targets[1].timeline[0];
    assert!(call.intended_ms <= call.sent_ms && call.sent_ms < call.first_byte_ms.unwrap());
    assert!(call.first_byte_ms.unwrap() < call.end_ms);
}

#[tokio::test]
async fn an_outage_is_marked_and_retried() {
    let typed = Typed { rate: Some(50.0), fault: Some(MS * 300), ..typed(20) };
    let document = bench("outage", &typed).await;
    let (event, figures) = (&document.events[0], &document.targets[1].figures);
    assert_eq!((event.name.as_str(), event.from_ms, event.to_ms), ("outage", 100.0, Some(400.0)));
    assert_eq!(figures.ok, 20, "{:?}", figures.outcomes);
    assert!(figures.attempts > 20, "nobody met the outage");
    // Whoever met it waited for the SDK's own time.
    assert!(figures.max_ms.unwrap() > 375.0);
}

#[tokio::test]
async fn a_hang_without_an_end_is_watched_for_as_long_as_was_said() {
    let typed = Typed { rate: Some(20.0), endless: Some(true), patience: Some(MS * 300), ..typed(12) };
    let document = bench("hang", &typed).await;
    assert_eq!(document.events[0].to_ms, None);
    let figures = &document.targets[1].figures;
    assert_eq!(figures.outcomes.get("waiting"), Some(&figures.failed));
    assert!(figures.failed > 0 && figures.ok > 0, "{:?}", figures.outcomes);
    assert!(document.verdict.sentence.contains("still waiting"), "{}", document.verdict.sentence);
}

#[tokio::test]
async fn a_hang_that_ends_is_answered_by_the_retries() {
    let typed = Typed { rate: Some(100.0), fault: Some(MS * 50), ..typed(12) };
    let document = bench("hang", &typed).await;
    assert_eq!(document.targets[1].figures.ok, 12, "{:?}", document.targets[1].figures.outcomes);
}

#[tokio::test]
async fn a_flood_meets_the_capacity() {
    let typed = Typed { rate: Some(400.0), capacity: Some(1), ..typed(12) };
    let document = bench("flood", &typed).await;
    let figures = &document.targets[1].figures;
    assert_eq!(figures.most_in_flight, Some(1));
    assert!(figures.attempts > 12, "nobody was refused");
    assert!(figures.ok_per_second.unwrap() > 0.0);
}

#[tokio::test]
async fn a_common_beginning_is_read_from_the_providers_cache() {
    let typed = Typed { rate: Some(20.0), tokens: Some(1_500), ..typed(3) };
    let document = bench("prefix", &typed).await;
    let figures = &document.targets[1].figures;
    let share = figures.cached_input_tokens.unwrap() as f64 / figures.input_tokens.unwrap() as f64;
    assert!((0.5..0.67).contains(&share), "two of three calls find the beginning, not {share}");
}

#[tokio::test]
async fn the_mock_is_left_as_it_was_found() {
    let mock = Mock::start_local(Options::strict()).await.unwrap();
    mock.set_script("ok 3x; 418".parse().unwrap());
    let settings = settings("distinct", mock.addr(), &typed(2));
    experiment::run(&settings, Path::new("/nowhere"), &ProgressBar::hidden()).await.unwrap();
    let script = format!("http://{}/__script", mock.addr()).parse().unwrap();
    let http = lab::web::client().unwrap();
    let (_, body) = lab::web::fetch(&http, http::Method::GET, &script, String::new()).await.unwrap();
    assert_eq!(body, r#"{"script":"ok 3x; 418"}"#);
    assert_eq!(mock.tuning().latency, Duration::ZERO);
}

#[tokio::test]
async fn the_report_has_the_names_that_scripts_rely_on() {
    let document = serde_json::to_value(bench("crowd", &typed(2)).await).unwrap();
    for name in
        ["scenario", "story", "parameters", "machine", "versions", "rounds", "targets", "events", "verdict"]
    {
        assert!(!document[name].is_null(), "{name}");
    }
    for name in [
        "name",
        "url",
        "calls",
        "upstream_calls",
        "ok",
        "refused",
        "failed",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
    ] {
        assert!(!document["targets"][0][name].is_null(), "{name}");
    }
    assert!(document["targets"][0]["spread"]["p50_ms"]["min"].is_number());
    assert!(document["verdict"]["sentence"].is_string());
    let fates = document["targets"][1]["fates"].as_object().unwrap();
    assert_eq!(fates.len(), 2, "the header that was named is what is counted");
    let own = document["targets"][0]["fates"].as_object().unwrap();
    assert!(own.is_empty(), "it is named for targets alone: {own:?}");
    let told: Vec<_> = document["parameters"]["target"].as_array().unwrap().iter().collect();
    assert!(told[1] == "nobody=http://127.0.0.1:9/v1" && told.len() == 2, "{told:?}");
    assert_eq!(document["parameters"]["fate-header"], "x-request-id");
    assert_eq!(
        document,
        serde_json::to_value(serde_json::from_value::<Document>(document.clone()).unwrap()).unwrap()
    );
}

#[tokio::test]
async fn a_target_that_answers_no_call_is_told_with_its_words_and_a_hint() {
    for (script, parts) in [
        ("401", ["401 Unauthorized: ", "put it into OPENAI_API_KEY"]),
        ("404", ["404 Not Found: ", "`/v1` and all"]),
        ("400", ["400 Bad Request: ", "`gpt-5-mini`? --model"]),
    ] {
        let [mock, bad] = [Mock::start_local(Options::strict()), Mock::start_local(Options::strict())];
        let (mock, bad) = (mock.await.unwrap(), bad.await.unwrap());
        bad.set_script(script.parse().unwrap());
        let mut settings = settings("crowd", mock.addr(), &typed(1));
        settings.targets =
            [("bad", format!("http://{}/v1", bad.addr())), ("dark", "http://nowhere.invalid/v1".into())]
                .map(|(name, url)| (name.to_owned(), url.parse().unwrap()))
                .into();
        let document =
            experiment::run(&settings, Path::new("/nowhere"), &ProgressBar::hidden()).await.unwrap();
        let why = document.targets[1].cannot.clone().unwrap();
        assert!(why.contains(&format!("http://{}/v1/chat/completions: ", bad.addr())), "{why}");
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        assert!(document.targets[2].cannot.as_ref().unwrap().ends_with("unknown host"), "{document:?}");
    }
}

#[tokio::test]
async fn an_experiment_that_is_ended_leaves_the_mock_as_it_was_found() {
    let mock = Mock::start_local(Options::strict()).await.unwrap();
    mock.set_script("ok 3x; 418".parse().unwrap());
    let typed = Typed { endless: Some(true), ..typed(12) };
    let settings = settings("hang", mock.addr(), &typed);
    // It is told to end when a call hangs at the provider, which is in the middle of a round.
    let script = format!("http://{}/__script", mock.addr()).parse().unwrap();
    let http = lab::web::client().unwrap();
    let script = async || lab::web::fetch(&http, http::Method::GET, &script, String::new()).await.unwrap().1;
    let told = async {
        while !String::from_utf8_lossy(&script().await).contains("hang") {
            tokio::task::yield_now().await;
        }
        anyhow::anyhow!("enough")
    };
    let ended = experiment::run_until(&settings, Path::new("/nowhere"), &ProgressBar::hidden(), told).await;
    assert_eq!(ended.err().unwrap().to_string(), "enough");
    assert_eq!(script().await, r#"{"script":"ok 3x; 418"}"#);
    assert_eq!(mock.tuning().latency, Duration::ZERO);
}

#[tokio::test]
async fn what_cannot_be_told_to_fail_is_not_asked_to() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let foreign = listener.local_addr().unwrap();
    let serve = async {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(async |_| {
                let answer = Response::builder().status(404).body(String::new()).unwrap();
                Ok::<_, Infallible>(answer)
            });
            connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    };
    let run = async |settings: Settings| {
        let failed = experiment::run(&settings, Path::new("/nowhere"), &ProgressBar::hidden()).await;
        failed.err().unwrap().to_string()
    };
    let checks = async {
        let outage = run(settings("outage", foreign, &typed(2))).await;
        assert!(outage.contains("no `sluicegate mock`"), "{outage}");
        let latency = run(Settings { latency_typed: true, ..settings("crowd", foreign, &typed(2)) }).await;
        assert!(latency.contains("--latency"), "{latency}");
        let crowd = run(settings("crowd", foreign, &typed(2))).await;
        assert!(crowd.contains("answers no call (404)"), "{crowd}");
    };
    tokio::select! { () = checks => {}, () = serve => {} }
}
