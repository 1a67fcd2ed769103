use super::*;
use crate::observe::record::{CallError, tests::sample};
use guard::window::Cause;

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

fn lane(provider: &str) -> ProviderGauges {
    ProviderGauges {
        provider: provider.into(),
        in_flight: 3,
        waiting: 7,
        permits: 64,
        window: 5,
        window_limits: None,
        queue_bytes: 8192,
        stands: true,
    }
}

#[test]
fn gauges_are_read_when_somebody_scrapes() {
    let metrics = Metrics::default();
    assert!(!page(&metrics).contains("sluicegate_in_flight{"));
    let levels = Levels { providers: vec![lane("openai")], gate: None, cache_bytes: 4096 };
    metrics.read_gauges_from(move || levels.clone());
    let page = page(&metrics);
    for (name, expected) in [
        ("in_flight", 3.0),
        ("waiting", 7.0),
        ("permits", 64.0),
        ("window_fill", 5.0),
        ("queue_bytes", 8192.0),
        ("queue_stands", 1.0),
    ] {
        let series = format!(r#"sluicegate_{name}{{provider="openai"}}"#);
        assert_eq!(value(&page, &series), Some(expected), "{page}");
    }
    assert_eq!(value(&page, "sluicegate_cache_bytes"), Some(4096.0), "{page}");
    assert!(!page.contains("sluicegate_gate"), "none is configured: {page}");
}

#[test]
fn a_gate_before_all_providers_has_gauges_of_its_own() {
    let metrics = Metrics::default();
    let gate = Some(GateGauges { in_flight: 40, waiting: 2 });
    metrics.read_gauges_from(move || Levels { gate, ..Levels::default() });
    let page = page(&metrics);
    assert_eq!(value(&page, "sluicegate_gate_in_flight"), Some(40.0), "{page}");
    assert_eq!(value(&page, "sluicegate_gate_waiting"), Some(2.0), "{page}");
}

#[test]
fn waves_and_waiting_in_the_window_are_counted_under_the_promised_names() {
    let metrics = Metrics::default();
    let target = metrics.target("openai");
    target.wave(32, Cause::Size);
    target.wave(3, Cause::Time);
    target.wave(3, Cause::Time);
    target.wave(1, Cause::Drain);
    target.window_waited(Duration::from_millis(20));
    let page = page(&metrics);
    for (cause, expected) in [("size", 1.0), ("time", 2.0), ("drain", 1.0)] {
        let series = format!(r#"sluicegate_waves_total{{provider="openai",cause="{cause}"}}"#);
        assert_eq!(value(&page, &series), Some(expected), "{page}");
    }
    assert_eq!(value(&page, "sluicegate_wave_size_count"), Some(4.0), "{page}");
    assert_eq!(value(&page, "sluicegate_wave_size_sum"), Some(39.0), "{page}");
    assert_eq!(value(&page, r#"sluicegate_wave_size_bucket{le="4.0"}"#), Some(3.0), "{page}");
    assert_eq!(value(&page, r#"sluicegate_window_seconds_bucket{le="0.025"}"#), Some(1.0), "{page}");
    assert_eq!(value(&page, r#"sluicegate_window_seconds_bucket{le="0.01"}"#), Some(0.0), "{page}");
}

#[test]
fn flights_without_a_permit_are_counted_by_a_few_reasons() {
    let metrics = Metrics::default();
    let target = metrics.target("openai");
    for reason in ["queue_full", "queue_timeout", "deadline", "shutdown"] {
        target.shed(reason);
        target.shed(reason);
    }
    (0..10_000).for_each(|n| target.shed(&format!("reason-{n}")));
    let page = page(&metrics);
    for reason in ["queue_full", "queue_timeout", "deadline", "shutdown"] {
        let series = format!(r#"sluicegate_shed_total{{provider="openai",reason="{reason}"}}"#);
        assert_eq!(value(&page, &series), Some(2.0), "{page}");
    }
    let other = r#"sluicegate_shed_total{provider="openai",reason="other"}"#;
    assert_eq!(value(&page, other), Some(10_000.0), "{page}");
    assert_eq!(page.lines().filter(|line| line.starts_with("sluicegate_shed_total{")).count(), 5, "{page}");
}

#[test]
fn a_provider_keeps_its_handles_over_a_reload() {
    let metrics = Metrics::default();
    assert!(Arc::ptr_eq(&metrics.target("openai"), &metrics.target("openai")));
}
