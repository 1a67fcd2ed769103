//! From what was seen of calls to figures: percentiles from histograms, each call counted from when it should have
//! been sent.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

use crate::client::{Outcome, Seen};
use crate::document::{Bucket, Call, Figures, Spread};
use crate::load::Round;

/// Calls kept for the timeline of a target, all rounds together.
const MOST_CALLS: usize = 5_000;
/// Longer times are counted as this long.
const LONGEST_US: u64 = 3_600_000_000;
/// Buckets of the histogram in the report: the first ends at a tenth of a millisecond, each next is a quarter larger.
const FIRST_BUCKET_US: u64 = 100;
const BUCKET_GROWTH: f64 = 1.25;

/// Times, to three digits.
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        // Three digits are within what the library takes, as is this bound.
        Times(Histogram::new_with_max(LONGEST_US, 3).unwrap_or_else(|_| unreachable!("constants")))
    }
}

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.saturating_record(time.as_micros().min(LONGEST_US.into()) as u64);
    }

    /// In milliseconds; nothing of nothing.
    pub fn at(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile).min(self.0.max()) as f64 / 1e3)
    }

    fn buckets(&self) -> Vec<Bucket> {
        let mut from_ms = 0.0;
        let mut buckets = Vec::new();
        for step in self.0.iter_log(FIRST_BUCKET_US, BUCKET_GROWTH) {
            let to_ms = step.value_iterated_to() as f64 / 1e3;
            let count = step.count_since_last_iteration();
            if count > 0 {
                buckets.push(Bucket { from_ms, to_ms, count });
            }
            from_ms = to_ms;
        }
        buckets
    }
}

/// What is asked of a round besides the usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interest {
    /// Streams: the provider's pace.
    pub chunk_interval: Option<Duration>,
    /// Streams: the first content.
    pub first_byte: bool,
    /// Tokens of the prompts.
    pub tokens: bool,
    /// Whole answers per second.
    pub throughput: bool,
    /// Processor time of the target's process.
    pub cpu: bool,
    /// How calls come to the provider: over how many connections, and in which groups.
    pub flow: bool,
}

/// Everything that is kept of one target.
#[derive(Default)]
pub struct Recorder {
    interest: Interest,
    rounds: Vec<Figures>,
    calls: Vec<Call>,
    took: Times,
}

/// What a target came to, ready for the document.
pub struct Summary {
    pub figures: Figures,
    pub spread: BTreeMap<String, Spread>,
    pub per_round: Vec<Figures>,
    pub timeline: Vec<Call>,
    pub timeline_every: usize,
    pub histogram: Vec<Bucket>,
}

impl Recorder {
    pub fn new(interest: Interest) -> Recorder {
        Recorder { interest, ..Recorder::default() }
    }

    /// Takes a round in. What others counted (the provider, the system) is added by the caller.
    pub fn add(&mut self, round: &Round, counted: impl FnOnce(&mut Figures)) {
        let number = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        let mut figures = self.figures(round);
        counted(&mut figures);
        self.rounds.push(figures);
        for (intended, seen) in &round.calls {
            self.calls.push(line(number, round, *intended, seen));
            if seen.outcome == Outcome::Ok {
                self.took.add(took(round, *intended, seen));
            }
        }
    }

    fn figures(&self, round: &Round) -> Figures {
        let mut figures = Figures { calls: round.calls.len() as u64, ..Figures::default() };
        let [mut ok, mut others, mut first, mut late, mut transit] =
            std::array::from_fn(|_| Times::default());
        let mut wall = Duration::ZERO;
        let mut tokens = crate::client::answer::Read::default();
        for (intended, seen) in &round.calls {
            let took = took(round, *intended, seen);
            wall = wall.max(*intended + took);
            figures.attempts += u64::from(seen.attempts);
            *figures.outcomes.entry(seen.outcome.to_string()).or_default() += 1;
            if let Some(fate) = &seen.fate {
                *figures.fates.entry(fate.clone()).or_default() += 1;
            }
            match seen.outcome {
                Outcome::Ok => {
                    figures.ok += 1;
                    ok.add(took);
                }
                outcome => {
                    let refused = matches!(outcome, Outcome::Status(_));
                    *(if refused { &mut figures.refused } else { &mut figures.failed }) += 1;
                    // When one who still waits would know, nobody knows.
                    if outcome != Outcome::Waiting {
                        others.add(took);
                    }
                }
            }
            if let Some(at) = seen.first.filter(|_| self.interest.first_byte) {
                first.add(at.saturating_duration_since(round.start + *intended));
            }
            if let Some(interval) = self.interest.chunk_interval {
                lateness(seen, interval).for_each(|time| late.add(time));
                seen.transits.iter().for_each(|time| transit.add(*time));
            }
            let read = seen.read.unwrap_or_default();
            tokens.input += read.input;
            tokens.cached += read.cached;
        }
        figures.wall_ms = millis(wall);
        (figures.p50_ms, figures.p95_ms) = (ok.at(0.5), ok.at(0.95));
        (figures.p99_ms, figures.max_ms) = (ok.at(0.99), ok.at(1.0));
        (figures.not_ok_p50_ms, figures.not_ok_max_ms) = (others.at(0.5), others.at(1.0));
        (figures.first_byte_p50_ms, figures.first_byte_p95_ms) = (first.at(0.5), first.at(0.95));
        figures.first_byte_p99_ms = first.at(0.99);
        (figures.chunk_late_p50_ms, figures.chunk_late_p99_ms) = (late.at(0.5), late.at(0.99));
        (figures.chunk_transit_p50_ms, figures.chunk_transit_p99_ms) = (transit.at(0.5), transit.at(0.99));
        if self.interest.tokens {
            (figures.input_tokens, figures.cached_input_tokens) = (Some(tokens.input), Some(tokens.cached));
        }
        if self.interest.throughput && !wall.is_zero() {
            figures.ok_per_second = Some(figures.ok as f64 / wall.as_secs_f64());
        }
        figures
    }

    pub fn finish(self) -> Summary {
        let every = self.calls.len().div_ceil(MOST_CALLS).max(1);
        Summary {
            figures: middle(&self.rounds),
            spread: spread(&self.rounds),
            per_round: self.rounds,
            timeline: self.calls.into_iter().step_by(every).collect(),
            timeline_every: every,
            histogram: self.took.buckets(),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// From the intended start to the end.
fn took(round: &Round, intended: Duration, seen: &Seen) -> Duration {
    seen.end.unwrap_or(round.start).saturating_duration_since(round.start + intended)
}

fn line(number: u32, round: &Round, intended: Duration, seen: &Seen) -> Call {
    let since = |at| millis(tokio::time::Instant::saturating_duration_since(&at, round.start));
    Call {
        round: number,
        intended_ms: millis(intended),
        sent_ms: seen.sent.map_or(millis(intended), since),
        first_byte_ms: seen.first.map(since),
        end_ms: seen.end.map_or(millis(intended), since),
        outcome: seen.outcome.to_string(),
        fate: seen.fate.clone(),
        attempts: seen.attempts,
    }
}

/// How much later than the provider's pace each piece came, counted from the stream's first. A first piece that was
/// late itself makes the others look early; that is no merit, and counts as on time.
fn lateness(seen: &Seen, interval: Duration) -> impl Iterator<Item = Duration> {
    let first = seen.pieces.first().copied();
    seen.pieces.iter().enumerate().skip(1).filter_map(move |(number, at)| {
        let due = first? + interval * u32::try_from(number).ok()?;
        Some(at.saturating_duration_since(due))
    })
}

/// Counts of the middle round, so that they add up; times are medians, each by itself.
fn middle(rounds: &[Figures]) -> Figures {
    let mut order: Vec<&Figures> = rounds.iter().collect();
    order.sort_by(|a, b| {
        let p95 = |figures: &Figures| figures.p95_ms.unwrap_or(f64::INFINITY);
        (a.failed, a.refused).cmp(&(b.failed, b.refused)).then(p95(a).total_cmp(&p95(b)))
    });
    let Some(middle) = order.get(order.len() / 2) else { return Figures::default() };
    let mut fields = fields(middle);
    for (name, value) in &mut fields {
        if is_measured(name)
            && let Some(median) = median(numbers(rounds, name))
        {
            *value = median.into();
        }
    }
    serde_json::from_value(Value::Object(fields)).unwrap_or_else(|_| (*middle).clone())
}

fn spread(rounds: &[Figures]) -> BTreeMap<String, Spread> {
    let names: Vec<String> =
        rounds.iter().flat_map(|figures| fields(figures).into_iter().map(|(name, _)| name)).collect();
    let of = |name: String| {
        let numbers = numbers(rounds, &name);
        let min = numbers.iter().copied().reduce(f64::min)?;
        let max = numbers.iter().copied().reduce(f64::max)?;
        Some((name, Spread { min, max }))
    };
    names.into_iter().filter_map(of).collect()
}

/// What is measured by a clock, and not counted.
fn is_measured(name: &str) -> bool {
    name.ends_with("_ms") || name.ends_with("_per_second") || name.ends_with("_per_call")
}

fn fields(figures: &Figures) -> Map<String, Value> {
    match serde_json::to_value(figures) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn numbers(rounds: &[Figures], name: &str) -> Vec<f64> {
    rounds.iter().filter_map(|figures| fields(figures).get(name)?.as_f64()).collect()
}

/// Of an even number, the mean of the two in the middle.
pub fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        len if len % 2 == 1 => Some(numbers[half]),
        _ => Some(f64::midpoint(numbers[half - 1], numbers[half])),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Calls that should have started every 10 ms; each is sent after `late` and lasts `took` from then.
    fn round(calls: &[(u32, u32, Outcome)]) -> Round {
        let start = Instant::now();
        let seen = |(number, (late, took, outcome)): (usize, &(u32, u32, Outcome))| {
            let intended = MS * 10 * u32::try_from(number).unwrap();
            let sent = start + intended + MS * *late;
            let seen = Seen {
                outcome: *outcome,
                attempts: 1,
                sent: Some(sent),
                end: Some(sent + MS * *took),
                ..Seen::default()
            };
            (intended, seen)
        };
        Round { start, calls: calls.iter().enumerate().map(seen).collect() }
    }

    fn about(value: Option<f64>, expected: f64) {
        let value = value.unwrap();
        assert!((value - expected).abs() <= expected * 0.002, "{value} is not {expected}");
    }

    #[test]
    fn a_client_that_comes_late_hides_nothing() {
        let mut recorder = Recorder::new(Interest::default());
        recorder.add(&round(&[(0, 20, Outcome::Ok), (500, 20, Outcome::Ok)]), |_| {});
        about(recorder.finish().figures.max_ms, 520.0);
    }

    #[test]
    fn percentiles_are_of_whole_answers_and_counts_add_up() {
        let mut recorder = Recorder::new(Interest::default());
        let calls = [
            (0, 10, Outcome::Ok),
            (0, 1, Outcome::Status(503)),
            (0, 900, Outcome::Cut),
            (0, 30, Outcome::Ok),
        ];
        recorder.add(&round(&calls), |figures| figures.upstream_calls = Some(4));
        let summary = recorder.finish();
        let figures = &summary.figures;
        assert_eq!((figures.calls, figures.ok, figures.refused, figures.failed), (4, 2, 1, 1));
        assert_eq!(figures.upstream_calls, Some(4));
        assert_eq!(figures.outcomes, [("503", 1), ("cut", 1), ("ok", 2)].map(|(n, c)| (n.into(), c)).into());
        about(figures.p50_ms, 10.0);
        about(figures.max_ms, 30.0);
        about(figures.not_ok_max_ms, 900.0);
        assert_eq!(summary.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), 2);
        assert_eq!(summary.timeline.len(), 4);
        assert!((summary.timeline[3].end_ms - 60.0).abs() < 0.01);
    }

    #[test]
    fn nothing_whole_has_no_percentiles() {
        let mut recorder = Recorder::new(Interest::default());
        recorder.add(&round(&[(0, 5, Outcome::Waiting)]), |_| {});
        let figures = recorder.finish().figures;
        assert_eq!((figures.p50_ms, figures.max_ms, figures.failed), (None, None, 1));
    }

    #[test]
    fn who_still_waits_has_not_known_after_the_laboratorys_patience() {
        let mut recorder = Recorder::new(Interest::default());
        let calls = [(0, 900, Outcome::Waiting), (0, 20, Outcome::Status(504)), (0, 900, Outcome::Waiting)];
        recorder.add(&round(&calls), |_| {});
        let summary = recorder.finish();
        about(summary.figures.not_ok_p50_ms, 20.0);
        about(summary.figures.not_ok_max_ms, 20.0);
        let mut recorder = Recorder::new(Interest::default());
        recorder.add(&round(&calls[..1]), |_| {});
        assert_eq!(recorder.finish().figures.not_ok_p50_ms, None);
    }

    #[test]
    fn rounds_make_a_median_and_a_spread() {
        let mut recorder = Recorder::new(Interest::default());
        for took in [30, 10, 20] {
            recorder
                .add(&round(&[(0, took, Outcome::Ok)]), |figures| figures.upstream_calls = Some(took.into()));
        }
        let summary = recorder.finish();
        about(summary.figures.p50_ms, 20.0);
        assert_eq!(summary.figures.upstream_calls, Some(20));
        let spread = summary.spread["p50_ms"];
        about(Some(spread.min), 10.0);
        about(Some(spread.max), 30.0);
        assert_eq!(summary.per_round.len(), 3);
        assert_eq!(median(vec![1.0, 4.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_long_timeline_is_thinned() {
        let mut recorder = Recorder::new(Interest::default());
        recorder.add(&round(&vec![(0, 1, Outcome::Ok); 12_000]), |_| {});
        let summary = recorder.finish();
        assert_eq!((summary.timeline_every, summary.timeline.len()), (3, 4_000));
        assert!((summary.timeline[1].intended_ms - 30.0).abs() < 0.01);
    }

    #[test]
    fn pieces_are_late_against_the_pace_of_their_stream() {
        let start = Instant::now();
        let pieces = [0, 50, 130, 145].map(|at| start + MS * at).to_vec();
        let seen = Seen { pieces, ..Seen::default() };
        let late: Vec<_> = lateness(&seen, MS * 50).collect();
        assert_eq!(late, [Duration::ZERO, MS * 30, Duration::ZERO]);
    }
}
