//! Requests and tokens per minute: enforced, and told in the headers of the provider.
//!
//! Both are buckets that start full and refill evenly. Not here: how many calls are in flight (`stats`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::options::Tuning;
use super::reply::Dialect;

pub(crate) struct Limits {
    buckets: Mutex<Buckets>,
    began: Instant,
    began_wall: SystemTime,
}

#[derive(Clone, Copy, Default)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    per_minute: u64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// The bucket for a limit: the old one, or a full one if there was none of this size.
    fn sized(old: Option<Self>, per_minute: Option<u64>, now: Instant) -> Option<Self> {
        let per_minute = per_minute?;
        let mut bucket = old.filter(|old| old.per_minute == per_minute).unwrap_or(Self {
            per_minute,
            level: per_minute as f64,
            at: now,
        });
        let refill = now.duration_since(bucket.at).as_secs_f64() * bucket.per_second();
        bucket.level = (bucket.level + refill).min(per_minute as f64);
        bucket.at = now;
        Some(bucket)
    }

    fn per_second(&self) -> f64 {
        self.per_minute as f64 / 60.0
    }

    /// Time until `amount` is there; a minute where it never will be.
    fn wait_for(&self, amount: f64) -> Duration {
        let missing = amount - self.level;
        let seconds = (missing / self.per_second()).clamp(0.0, 60.0);
        if seconds.is_nan() { Duration::from_secs(60) } else { Duration::from_secs_f64(seconds) }
    }

    fn take(&mut self, amount: f64) -> Result<(), Duration> {
        if self.level + 1e-9 < amount {
            return Err(self.wait_for(amount));
        }
        self.level -= amount;
        Ok(())
    }

    fn remaining(&self) -> u64 {
        self.level as u64
    }

    fn reset_in(&self) -> Duration {
        self.wait_for(self.per_minute as f64)
    }
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self { buckets: Mutex::default(), began: Instant::now(), began_wall: SystemTime::now() }
    }

    pub(crate) fn reset(&self) {
        *self.buckets.lock() = Buckets::default();
    }

    /// Takes one request, or says how long to wait.
    pub(crate) fn take_request(&self, tuning: &Tuning) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock();
        buckets.requests = Bucket::sized(buckets.requests, tuning.rpm, Instant::now());
        buckets.requests.as_mut().map_or(Ok(()), |bucket| bucket.take(1.0))
    }

    /// Takes the tokens of one call, or says how long to wait.
    pub(crate) fn take_tokens(&self, tuning: &Tuning, tokens: u64) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock();
        buckets.tokens = Bucket::sized(buckets.tokens, tuning.tpm, Instant::now());
        buckets.tokens.as_mut().map_or(Ok(()), |bucket| bucket.take(tokens as f64))
    }

    /// What is left, for the limits that are set.
    pub(crate) fn tell(&self, tuning: &Tuning, dialect: Dialect, headers: &mut HeaderMap) {
        if tuning.rpm.is_none() && tuning.tpm.is_none() {
            return;
        }
        let now = Instant::now();
        let mut buckets = self.buckets.lock();
        buckets.requests = Bucket::sized(buckets.requests, tuning.rpm, now);
        buckets.tokens = Bucket::sized(buckets.tokens, tuning.tpm, now);
        let Buckets { requests, tokens } = *buckets;
        drop(buckets);
        match dialect {
            Dialect::OpenAi => {
                tell_openai("requests", requests, headers);
                tell_openai("tokens", tokens, headers);
            }
            Dialect::Anthropic => {
                let wall = self.began_wall + now.duration_since(self.began);
                tell_anthropic("requests", requests, wall, headers);
                // One limit for both ways, so all three rows say the same.
                for kind in ["tokens", "input-tokens", "output-tokens"] {
                    tell_anthropic(kind, tokens, wall, headers);
                }
            }
            Dialect::LlamaCpp => {}
        }
    }
}

fn put(headers: &mut HeaderMap, name: String, value: String) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        headers.insert(name, value);
    }
}

fn tell_openai(kind: &str, bucket: Option<Bucket>, headers: &mut HeaderMap) {
    let Some(bucket) = bucket else { return };
    put(headers, format!("x-ratelimit-limit-{kind}"), bucket.per_minute.to_string());
    put(headers, format!("x-ratelimit-remaining-{kind}"), bucket.remaining().to_string());
    put(headers, format!("x-ratelimit-reset-{kind}"), openai_duration(bucket.reset_in()));
}

fn tell_anthropic(kind: &str, bucket: Option<Bucket>, wall: SystemTime, headers: &mut HeaderMap) {
    let Some(bucket) = bucket else { return };
    put(headers, format!("anthropic-ratelimit-{kind}-limit"), bucket.per_minute.to_string());
    put(headers, format!("anthropic-ratelimit-{kind}-remaining"), bucket.remaining().to_string());
    put(headers, format!("anthropic-ratelimit-{kind}-reset"), rfc3339(wall + bucket.reset_in()));
}

/// `120ms`, `7.5s`, `1m0s`.
fn openai_duration(time: Duration) -> String {
    let millis = time.as_micros().div_ceil(1000) as u64;
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..60_000 => format!("{}s", millis as f64 / 1000.0),
        _ => format!("{}m{}s", millis / 60_000, (millis % 60_000) / 1000),
    }
}

/// `2026-11-30T08:00:00Z`, rounded up.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
    let (year, month, day) = civil_date(seconds / 86_400);
    let in_day = seconds % 86_400;
    let (hour, minute, second) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day since 1970. Counts from March, so that the leap day ends a year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_0000_03_01: u64 = 719_468;
    const DAYS_PER_400_YEARS: u64 = 146_097;
    let days = days + DAYS_FROM_0000_03_01;
    let (era, in_era) = (days / DAYS_PER_400_YEARS, days % DAYS_PER_400_YEARS);
    let year_in_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_in_era + year_in_era / 4 - year_in_era / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_in_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn tuning(rpm: u64, tpm: u64) -> Tuning {
        Tuning { rpm: Some(rpm), tpm: Some(tpm), ..Tuning::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_spent_bucket_says_how_long_to_wait_and_refills() {
        let (limits, tuning) = (Limits::new(), tuning(2, 1000));
        assert!(limits.take_request(&tuning).is_ok());
        assert!(limits.take_request(&tuning).is_ok());
        let wait = limits.take_request(&tuning).unwrap_err();
        assert_eq!(wait, Duration::from_secs(30));
        advance(wait).await;
        assert!(limits.take_request(&tuning).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_larger_than_the_bucket_never_fits() {
        let (limits, tuning) = (Limits::new(), tuning(2, 1000));
        assert_eq!(limits.take_tokens(&tuning, 1001), Err(Duration::from_millis(60)));
        advance(Duration::from_secs(600)).await;
        assert!(limits.take_tokens(&tuning, 1001).is_err());
        assert!(limits.take_tokens(&tuning, 1000).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_nothing_lets_nothing_through() {
        let limits = Limits::new();
        assert_eq!(limits.take_request(&tuning(0, 0)), Err(Duration::from_secs(60)));
    }

    #[tokio::test(start_paused = true)]
    async fn limits_are_told_in_each_providers_headers() {
        let (limits, tuning) = (Limits::new(), tuning(60, 6000));
        limits.take_request(&tuning).unwrap();
        limits.take_tokens(&tuning, 750).unwrap();
        let mut headers = HeaderMap::new();
        limits.tell(&tuning, Dialect::OpenAi, &mut headers);
        assert_eq!(headers["x-ratelimit-remaining-requests"], "59");
        assert_eq!(headers["x-ratelimit-reset-requests"], "1s");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "7.5s");
        limits.tell(&tuning, Dialect::Anthropic, &mut headers);
        assert_eq!(headers["anthropic-ratelimit-input-tokens-remaining"], "5250");
        assert!(headers["anthropic-ratelimit-tokens-reset"].to_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn times_are_written_as_the_providers_do() {
        for (millis, text) in [(0, "0ms"), (120, "120ms"), (1000, "1s"), (60_000, "1m0s"), (90_000, "1m30s")]
        {
            assert_eq!(openai_duration(Duration::from_millis(millis)), text);
        }
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_323_199, "2026-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
