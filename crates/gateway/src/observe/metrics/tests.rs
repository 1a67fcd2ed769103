use super::*;
use crate::observe::record::{CallError, tests::sample};

fn page(metrics: &Metrics) -> String {
    metrics.render().unwrap()
}

fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn a_call_is_counted_under_the_promised_names() {
    let metrics = Metrics::default();
    let target = metrics.target("openai");
    target.attempt(Outcome::Ok);
    metrics.count(&sample(), &target);
    metrics.count(&sample(), &target);
    let page = page(&metrics);
    let labels = r#"{protocol="chat",provider="openai",model="gpt-5-mini",fate="miss",status="200"}"#;
    assert_eq!(value(&page, &format!("sluicegate_calls_total{labels}")), Some(2.0), "{page}");
    let attempts = r#"sluicegate_upstream_attempts_total{provider="openai",outcome="ok"}"#;
    assert_eq!(value(&page, attempts), Some(1.0), "{page}");
    let tokens = r#"sluicegate_tokens_total{provider="openai",model="gpt-5-mini",kind="input"}"#;
    assert_eq!(value(&page, tokens), Some(240.0), "{page}");
    for histogram in ["first_byte", "call", "queue"] {
        assert_eq!(value(&page, &format!("sluicegate_{histogram}_seconds_count")), Some(2.0), "{page}");
    }
    assert_eq!(value(&page, "sluicegate_log_dropped_total"), Some(0.0), "{page}");
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn buckets_reach_past_the_longest_timeout() {
    let metrics = Metrics::default();
    let slow = CallRecord { total: std::time::Duration::from_secs(700), ..sample() };
    metrics.count(&slow, &metrics.target("openai"));
    let page = page(&metrics);
    assert_eq!(value(&page, r#"sluicegate_call_seconds_bucket{le="600.0"}"#), Some(0.0), "{page}");
    assert_eq!(value(&page, r#"sluicegate_call_seconds_bucket{le="900.0"}"#), Some(1.0), "{page}");
}

#[test]
fn a_refusal_is_counted_by_its_code_and_makes_no_model_label() {
    let metrics = Metrics::default();
    let error = CallError::new("overloaded").reason("queue_full");
    let record = CallRecord { fate: Fate::Refused, status: 429, error: Some(error), ..sample() };
    metrics.count(&record, &metrics.target("openai"));
    metrics.count(&CallRecord { attempts: 0, ..record }, metrics.untargeted());
    let page = page(&metrics);
    let refusals = r#"sluicegate_refusals_total{code="overloaded",reason="queue_full"}"#;
    assert_eq!(value(&page, refusals), Some(2.0), "{page}");
    let labels = r#"{protocol="chat",provider="openai",model="other",fate="refused",status="429"}"#;
    assert_eq!(value(&page, &format!("sluicegate_calls_total{labels}")), Some(1.0), "{page}");
    let labels = r#"{protocol="chat",provider="",model="",fate="refused",status="429"}"#;
    assert_eq!(value(&page, &format!("sluicegate_calls_total{labels}")), Some(1.0), "{page}");
    assert!(!page.contains("gpt-5-mini"), "{page}");
    assert_eq!(value(&page, "sluicegate_call_seconds_count"), Some(0.0), "{page}");
}

#[test]
fn invented_models_do_not_make_endless_series() {
    let metrics = Metrics::default();
    let target = metrics.target("local");
    for n in 0..10_000 {
        // This provider answers to every name.
        metrics.count(&CallRecord { model: Some(format!("model-{n}").into()), ..sample() }, &target);
        // This name it does not know.
        let unknown = CallRecord { model: Some(format!("no-{n}").into()), status: 404, ..sample() };
        metrics.count(&unknown, &target);
    }
    let page = page(&metrics);
    let series = page.lines().filter(|line| line.starts_with("sluicegate_calls_total")).count();
    assert_eq!(series, MODELS_MAX + 2, "200 models, and the others' two statuses");
    let other = |status: u16| {
        let labels =
            format!(r#"protocol="chat",provider="local",model="other",fate="miss",status="{status}""#);
        value(&page, &format!("sluicegate_calls_total{{{labels}}}"))
    };
    assert_eq!(other(200), Some(9_800.0));
    assert_eq!(other(404), Some(10_000.0));
}

#[test]
fn many_threads_neither_lose_a_call_nor_break_the_bound() {
    let metrics = Metrics::default();
    let target = metrics.target("local");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..500 {
                    metrics
                        .count(&CallRecord { model: Some(format!("model-{n}").into()), ..sample() }, &target);
                }
            });
        }
    });
    let page = page(&metrics);
    let counts: Vec<f64> = page
        .lines()
        .filter(|line| line.starts_with("sluicegate_calls_total"))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<f64>(), 2_000.0);
    assert_eq!(counts.len(), MODELS_MAX + 1);
}

#[test]
fn names_that_are_no_models_names_are_other() {
    let metrics = Metrics::default();
    let target = metrics.target("local");
    for name in ["", "a b", "a\nb", "a\"b", "naïve", &"x".repeat(129)] {
        metrics.count(&CallRecord { model: Some(name.into()), ..sample() }, &target);
    }
    let page = page(&metrics);
    let labels = r#"{protocol="chat",provider="local",model="other",fate="miss",status="200"}"#;
    assert_eq!(value(&page, &format!("sluicegate_calls_total{labels}")), Some(6.0), "{page}");
}

#[test]
fn statuses_that_are_unusual_share_the_label_of_their_class() {
    let labels: std::collections::BTreeSet<_> = (0..=u16::MAX).map(labels::status).collect();
    assert!(labels.len() < 40, "{labels:?}");
    assert_eq!(labels::status(418), "4xx");
    assert_eq!(labels::status(529), "529");
}

#[test]
fn gauges_are_read_when_somebody_scrapes() {
    let metrics = Metrics::default();
    assert!(!page(&metrics).contains("sluicegate_in_flight{"));
    let row = ProviderGauges { provider: "openai".into(), in_flight: 3, waiting: 7, permits: 64 };
    metrics.read_gauges_from(move || Levels { providers: vec![row.clone()], cache_bytes: 4096 });
    let page = page(&metrics);
    assert_eq!(value(&page, r#"sluicegate_in_flight{provider="openai"}"#), Some(3.0), "{page}");
    assert_eq!(value(&page, r#"sluicegate_waiting{provider="openai"}"#), Some(7.0), "{page}");
    assert_eq!(value(&page, r#"sluicegate_permits{provider="openai"}"#), Some(64.0), "{page}");
    assert_eq!(value(&page, "sluicegate_cache_bytes"), Some(4096.0), "{page}");
}

#[test]
fn a_provider_keeps_its_handles_over_a_reload() {
    let metrics = Metrics::default();
    assert!(Arc::ptr_eq(&metrics.target("openai"), &metrics.target("openai")));
}
