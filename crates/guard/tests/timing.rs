//! Learned deadlines against exact quantiles.

use std::time::Duration;

use guard::Timing;

const RATIO: f64 = 1.15;

/// `n` draws spread evenly over the distribution, in mixed order.
fn draws(n: usize, inverse: impl Fn(f64) -> f64) -> Vec<f64> {
    (1..=n).map(|i| inverse((i as f64 * 0.618_033_988_749_895).fract())).collect()
}

fn exact(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len()) - 1]
}

fn learn(timing: &Timing, samples: &[f64]) {
    samples.iter().for_each(|s| timing.record(Duration::from_secs_f64(*s)));
}

fn quantile(timing: &Timing, q: f64) -> f64 {
    timing.quantile(q).expect("enough samples").as_secs_f64()
}

type Shape = (&'static str, fn(f64) -> f64);

const SHAPES: [Shape; 5] = [
    ("uniform", |u| 0.1 + 3.0 * u),
    ("exponential", |u| 0.05 - 0.6 * (1.0 - u).ln()),
    ("heavy tail", |u| 0.3 / (1.0 - 0.999 * u).powf(0.7)),
    ("two modes", |u| if u < 0.9 { 0.4 + 0.1 * u } else { 20.0 + 60.0 * u }),
    ("constant", |_| 0.3),
];

#[test]
fn quantiles_are_exact_to_one_bucket_and_never_too_low() {
    for (name, inverse) in SHAPES {
        let samples = draws(1_999, inverse);
        let timing = Timing::new();
        learn(&timing, &samples);
        for q in [0.01, 0.5, 0.75, 0.95, 0.99, 0.999] {
            let (found, exact) = (quantile(&timing, q), exact(&samples, q));
            assert!(found >= exact * 0.999_999, "{name} p{q}: {found} for {exact}");
            assert!(found <= exact * RATIO * 1.000_001, "{name} p{q}: {found} for {exact}");
        }
    }
}

#[test]
fn fading_does_not_bend_the_quantiles() {
    for (name, inverse) in SHAPES {
        let timing = Timing::new();
        learn(&timing, &draws(50_000, inverse));
        for q in [0.5, 0.95, 0.99] {
            // Against the distribution itself, so one bucket more for the sample's own scatter.
            let (found, exact) = (quantile(&timing, q), inverse(q));
            assert!(
                found >= exact / RATIO && found <= exact * RATIO * RATIO,
                "{name} p{q}: {found}, {exact}"
            );
        }
    }
}

#[test]
fn a_provider_that_changes_is_learned_anew() {
    let timing = Timing::new();
    learn(&timing, &draws(20_000, |u| 10.0 + u));
    assert!(quantile(&timing, 0.5) >= 10.0);
    // Faster: the old tail weighs less than one sample in a hundred after eight halvings.
    learn(&timing, &draws(16_000, |u| 0.5 + 0.1 * u));
    assert!(quantile(&timing, 0.99) < 0.75);
    // Slower: the tail shows at once.
    learn(&timing, &draws(200, |_| 40.0));
    assert!(quantile(&timing, 0.99) >= 40.0);
}

#[test]
fn a_deadline_is_three_times_p99_within_its_bounds() {
    let (floor, unlearned) = (Duration::from_secs(10), Duration::from_secs(120));
    let after = |count, seconds| {
        let timing = Timing::new();
        learn(&timing, &vec![seconds; count]);
        timing.deadline(floor, unlearned).as_secs_f64()
    };
    assert_eq!(after(0, 1.0), 120.0);
    assert_eq!(after(49, 1.0), 120.0);
    assert_eq!(after(50, 1.0), 10.0);
    let learned = after(50, 20.0);
    assert!((60.0..60.0 * RATIO).contains(&learned), "{learned}");
    assert_eq!(after(50, 1_000.0), 600.0);
}

#[test]
fn any_duration_finds_a_bucket() {
    let timing = Timing::new();
    for _ in 0..20 {
        for took in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(20), Duration::MAX] {
            timing.record(took);
        }
    }
    assert_eq!(timing.quantile(0.5), Some(Duration::from_millis(20)));
    assert!(timing.quantile(1.0) > Some(Duration::from_secs(5_000)));
    assert_eq!(timing.quantile(f64::NAN), None);
}

#[test]
fn threads_lose_no_sample() {
    let timing = Timing::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let timing = &timing;
            // Half are fast and half slow; were either lost in a halving, the median would move.
            let took = Duration::from_millis(if thread % 2 == 0 { 100 } else { 1_000 });
            scope.spawn(move || (0..25_000).for_each(|_| timing.record(took)));
        }
    });
    assert!(timing.quantile(1.0) >= Some(Duration::from_secs(1)));
    assert!(timing.quantile(1.0) < Some(Duration::from_millis(1_150)));
}
