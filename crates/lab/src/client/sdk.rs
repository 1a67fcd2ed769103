//! What the official SDKs do when a call fails: a row of data for each, and one decision for all.
//!
//! The rows were read from the sources of the versions that they name, and `tests/sdk` holds them against those. The
//! decision is pure: what came back, how often it has been tried, the time of day and a random number go in, a wait
//! comes out.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, StatusCode};

/// A client that is imitated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sdk {
    pub name: &'static str,
    pub version: &'static str,
    pub protocol: Protocol,
    /// Retries after the first attempt.
    pub retries: u32,
    pub reads: Reads,
    pub hints: Hints,
    pub patience: Duration,
    /// What the patience is for.
    pub timeout: Timeout,
    /// The headers that tell the timeout in seconds.
    pub tells: &'static [(&'static str, Told)],
    /// A plain answer that breaks after its head is tried again.
    pub retries_broken_body: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    OpenAi,
    Anthropic,
}

/// How a wait is read that an answer asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reads {
    /// A header is a number as a whole, or none.
    Python,
    /// A number at its beginning counts; zero milliseconds are no word at all where there are seconds too.
    Node,
}

/// Which waits that an answer asks for are obeyed. All others fall back to the SDK's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hints {
    /// Any up to this; whatever else stands there, nonsense too, means at once.
    OrAtOnce(Duration),
    /// Positive ones up to this.
    UpTo(Duration),
    /// Positive ones; a longer one counts as this.
    AtMost(Duration),
    /// Positive ones up to this; a longer one ends the call.
    OrGiveUp(Duration),
}

/// When a header has the timeout's seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    Always,
    /// If it is the SDK's own and no stream is asked for; else the name of a value in the SDK's code.
    IfOwnAndWhole,
}

/// What the timeout bounds. All connect within [`CONNECT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timeout {
    /// The head, and each wait for more bytes.
    EachWait,
    /// The head alone.
    Head,
}

const PATIENCE: Duration = Duration::from_secs(600);
pub const CONNECT: Duration = Duration::from_secs(5);

const FIRST_WAIT: f64 = 0.5;
const LONGEST_WAIT: f64 = 8.0;
/// Of one timer in Node.
const LONGEST_TIMER: Duration = Duration::from_millis((1 << 31) - 1);

/// The first is what is used if nothing else is asked for.
pub const SDKS: [Sdk; 6] = [
    Sdk {
        name: "openai-python",
        version: "3.57.0",
        protocol: Protocol::OpenAi,
        retries: 2,
        reads: Reads::Python,
        hints: Hints::OrGiveUp(Duration::from_secs(120)),
        patience: PATIENCE,
        timeout: Timeout::EachWait,
        tells: &[("x-stainless-read-timeout", Told::Always)],
        retries_broken_body: true,
    },
    Sdk {
        name: "openai-node",
        version: "6.49.0",
        protocol: Protocol::OpenAi,
        retries: 2,
        reads: Reads::Node,
        hints: Hints::OrAtOnce(LONGEST_TIMER),
        patience: PATIENCE,
        timeout: Timeout::Head,
        tells: &[],
        retries_broken_body: false,
    },
    Sdk {
        name: "anthropic-python",
        version: "2.14.0",
        protocol: Protocol::Anthropic,
        retries: 2,
        reads: Reads::Python,
        hints: Hints::AtMost(Duration::from_secs(4_294_967)),
        patience: PATIENCE,
        timeout: Timeout::EachWait,
        tells: &[("x-stainless-read-timeout", Told::Always), ("x-stainless-timeout", Told::IfOwnAndWhole)],
        retries_broken_body: true,
    },
    Sdk {
        name: "anthropic-node",
        version: "1.14.0",
        protocol: Protocol::Anthropic,
        retries: 2,
        reads: Reads::Node,
        hints: Hints::UpTo(LONGEST_TIMER),
        patience: PATIENCE,
        timeout: Timeout::Head,
        tells: &[("x-stainless-timeout", Told::Always)],
        retries_broken_body: false,
    },
    Sdk {
        name: "openai-python-1",
        version: "1",
        protocol: Protocol::OpenAi,
        retries: 2,
        reads: Reads::Python,
        hints: Hints::UpTo(Duration::from_secs(60)),
        patience: PATIENCE,
        timeout: Timeout::EachWait,
        tells: &[("x-stainless-read-timeout", Told::Always)],
        retries_broken_body: true,
    },
    // A program with an HTTP library and no second try.
    Sdk {
        name: "none",
        version: "-",
        protocol: Protocol::OpenAi,
        retries: 0,
        reads: Reads::Python,
        hints: Hints::OrAtOnce(LONGEST_TIMER),
        patience: PATIENCE,
        timeout: Timeout::EachWait,
        tells: &[("x-stainless-read-timeout", Told::Always)],
        retries_broken_body: false,
    },
];

/// What an attempt came to.
#[derive(Clone, Copy, Debug)]
pub enum Came<'a> {
    /// An answer with an error status.
    Error(StatusCode, &'a HeaderMap),
    /// No head: no connection, a connection that broke, or the timeout.
    Nothing,
    /// A good head of a plain answer, and then not the rest.
    Part,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    Retry(Duration),
    /// The caller gets what came.
    Done,
}

impl Sdk {
    pub fn named(name: &str) -> Option<&'static Sdk> {
        SDKS.iter().find(|sdk| sdk.name == name)
    }

    /// The headers that tell the timeout.
    pub fn timeout_headers(&self, stream: bool) -> impl Iterator<Item = (&'static str, HeaderValue)> {
        let is_told = !stream && self.patience == PATIENCE;
        let seconds = HeaderValue::from(self.patience.as_secs());
        self.tells.iter().map(move |(name, told)| match told {
            Told::IfOwnAndWhole if !is_told => (*name, HeaderValue::from_static("NOT_GIVEN")),
            _ => (*name, seconds.clone()),
        })
    }

    /// What follows on an attempt before which `retried` retries were made. `random` is in 0..1.
    pub fn next(&self, came: Came, retried: u32, now: SystemTime, random: f64) -> Next {
        if retried >= self.retries {
            return Next::Done;
        }
        let hint = match came {
            Came::Nothing => None,
            Came::Part if self.retries_broken_body => None,
            Came::Part => return Next::Done,
            Came::Error(status, headers) => {
                let hint = self.hint(headers, now);
                if self.gives_up(hint) || !again(status, headers) {
                    return Next::Done;
                }
                hint.and_then(|seconds| self.obeyed(seconds))
            }
        };
        let seconds = hint.unwrap_or_else(|| backoff(retried, random)).max(0.0);
        Next::Retry(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// The seconds that an answer asks to wait; not a number where an SDK's own arithmetic comes to that.
    fn hint(&self, headers: &HeaderMap, now: SystemTime) -> Option<f64> {
        let text = |name: &str| headers.get(name)?.to_str().ok().filter(|text| !text.is_empty());
        let (millis, seconds) = (text("retry-after-ms"), text("retry-after"));
        let read = |text: Option<&str>| self.reads.number(text?.trim());
        let millis = read(millis).map(|millis| millis / 1000.0);
        let is_void = self.reads == Reads::Node && millis == Some(0.0) && seconds.is_some();
        millis.filter(|_| !is_void).or_else(|| read(seconds)).or_else(|| {
            match httpdate::parse_http_date(seconds?) {
                Ok(date) => Some(since(date, now)),
                Err(_) => (self.reads == Reads::Node).then_some(f64::NAN),
            }
        })
    }

    fn gives_up(&self, hint: Option<f64>) -> bool {
        match (self.hints, hint) {
            (Hints::OrGiveUp(most), Some(seconds)) => seconds.is_finite() && seconds > most.as_secs_f64(),
            _ => false,
        }
    }

    fn obeyed(&self, seconds: f64) -> Option<f64> {
        let fits = |most: Duration| 0.0 < seconds && seconds <= most.as_secs_f64();
        match self.hints {
            Hints::OrAtOnce(most) => Some(if fits(most) { seconds } else { 0.0 }),
            Hints::UpTo(most) | Hints::OrGiveUp(most) => fits(most).then_some(seconds),
            Hints::AtMost(most) => (seconds > 0.0).then(|| seconds.min(most.as_secs_f64())),
        }
    }
}

impl Reads {
    fn number(self, text: &str) -> Option<f64> {
        match self {
            // What overflows is long, and not the infinity that is written out.
            Reads::Python => match text.parse::<f64>().ok()? {
                f64::INFINITY if text.contains(|c: char| c.is_ascii_digit()) => Some(f64::MAX),
                number => Some(number),
            },
            Reads::Node => {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
                // Rust's `inf` and `nan` are no numbers there.
                digits.strip_prefix('.').unwrap_or(digits).chars().next().filter(char::is_ascii_digit)?;
                (1..=text.len()).rev().find_map(|end| text.get(..end)?.parse().ok())
            }
        }
    }
}

/// Seconds from `now` to `date`, negative if it is past.
fn since(date: SystemTime, now: SystemTime) -> f64 {
    match date.duration_since(now) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(past) => -past.duration().as_secs_f64(),
    }
}

/// Whether to try again at all: the answer's own word, else by its status.
fn again(status: StatusCode, headers: &HeaderMap) -> bool {
    match headers.get("x-should-retry").map(|value| value.as_bytes()) {
        Some(b"true") => true,
        Some(b"false") => false,
        _ => matches!(status.as_u16(), 408 | 409 | 429 | 500..),
    }
}

/// Half a second, doubled with each retry, up to eight; less up to a quarter.
fn backoff(retried: u32, random: f64) -> f64 {
    let doubled = FIRST_WAIT * 2f64.powi(retried.min(1000).cast_signed());
    doubled.min(LONGEST_WAIT) * (1.0 - 0.25 * random)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 6 November 1994, 08:49:07, half a minute before the date in the tests.
    const NOW: u64 = 784_111_747;
    const SOON: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const PAST: &str = "Sun, 06 Nov 1994 08:48:37 GMT";

    /// `Some(seconds)` is a retry. `random` is 0.
    fn next(sdk: &str, status: u16, headers: &[(&'static str, &str)], retried: u32) -> Option<f64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let came = Came::Error(StatusCode::from_u16(status).unwrap(), &map);
        match Sdk::named(sdk).unwrap().next(came, retried, now, 0.0) {
            Next::Retry(wait) => Some(wait.as_secs_f64()),
            Next::Done => None,
        }
    }

    #[test]
    fn statuses_that_are_tried_again() {
        for sdk in ["openai-python", "openai-node", "anthropic-python", "anthropic-node"] {
            for status in [408, 409, 429, 500, 502, 503, 504, 529, 599] {
                assert_eq!(next(sdk, status, &[], 0), Some(0.5), "{sdk} {status}");
            }
            for status in [400, 401, 403, 404, 413, 422, 499] {
                assert_eq!(next(sdk, status, &[], 0), None, "{sdk} {status}");
            }
        }
        assert_eq!(next("none", 503, &[], 0), None);
    }

    #[test]
    fn the_answers_own_word_goes_before_its_status() {
        assert_eq!(next("openai-python", 503, &[("x-should-retry", "false")], 0), None);
        assert_eq!(next("openai-node", 400, &[("x-should-retry", "true")], 0), Some(0.5));
        assert_eq!(next("openai-node", 400, &[("x-should-retry", "maybe")], 0), None);
        assert_eq!(next("openai-node", 400, &[("x-should-retry", "true")], 2), None);
    }

    #[test]
    fn waits_double_up_to_eight_seconds_and_shrink_by_a_quarter_at_most() {
        assert_eq!(next("openai-python", 500, &[], 1), Some(1.0));
        assert_eq!(next("openai-python", 500, &[], 2), None);
        assert_eq!([0, 1, 2, 3, 4, 5, 5000].map(|n| backoff(n, 0.0)), [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]);
        assert_eq!(backoff(0, 1.0), 0.375);
    }

    #[test]
    fn hints_by_sdk() {
        type Row<'a> = (&'a [(&'static str, &'a str)], [Option<f64>; 5]);
        let table: [Row; 19] = [
            // openai-python, openai-node, anthropic-python, anthropic-node, openai-python-1
            (&[("retry-after", "3")], [Some(3.0); 5]),
            (&[("retry-after", "1.5")], [Some(1.5); 5]),
            (&[("retry-after-ms", "250"), ("retry-after", "3")], [Some(0.25); 5]),
            (&[("retry-after-ms", "soon"), ("retry-after", "3")], [Some(3.0); 5]),
            (&[("retry-after", SOON)], [Some(30.0); 5]),
            (&[("retry-after", "60")], [Some(60.0); 5]),
            (&[("retry-after", "61")], [Some(61.0), Some(61.0), Some(61.0), Some(61.0), Some(0.5)]),
            (&[("retry-after", "121")], [None, Some(121.0), Some(121.0), Some(121.0), Some(0.5)]),
            (&[("retry-after", "0")], [Some(0.5), Some(0.0), Some(0.5), Some(0.5), Some(0.5)]),
            (&[("retry-after", PAST)], [Some(0.5), Some(0.0), Some(0.5), Some(0.5), Some(0.5)]),
            (&[("retry-after", "-3")], [Some(0.5), Some(0.0), Some(0.5), Some(0.5), Some(0.5)]),
            (&[("retry-after", "later")], [Some(0.5), Some(0.0), Some(0.5), Some(0.5), Some(0.5)]),
            (&[("retry-after", "")], [Some(0.5); 5]),
            (&[("retry-after", "3s")], [Some(0.5), Some(3.0), Some(0.5), Some(3.0), Some(0.5)]),
            (&[("retry-after", "inf")], [Some(0.5), Some(0.0), Some(4_294_967.0), Some(0.5), Some(0.5)]),
            (&[("retry-after", "1e999")], [None, Some(0.0), Some(4_294_967.0), Some(0.5), Some(0.5)]),
            (&[("retry-after", "5000000")], [None, Some(0.0), Some(4_294_967.0), Some(0.5), Some(0.5)]),
            (
                &[("retry-after-ms", "0"), ("retry-after", "3")],
                [Some(0.5), Some(3.0), Some(0.5), Some(3.0), Some(0.5)],
            ),
            (&[("retry-after-ms", "0")], [Some(0.5), Some(0.0), Some(0.5), Some(0.5), Some(0.5)]),
        ];
        for (headers, expected) in table {
            let sdks =
                ["openai-python", "openai-node", "anthropic-python", "anthropic-node", "openai-python-1"];
            assert_eq!(sdks.map(|sdk| next(sdk, 429, headers, 0)), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_hint_that_is_too_long_ends_even_what_should_be_retried() {
        let headers = [("retry-after", "300"), ("x-should-retry", "true")];
        assert_eq!(next("openai-python", 503, &headers, 0), None);
        assert_eq!(next("openai-python-1", 503, &headers, 0), Some(0.5));
    }

    #[test]
    fn what_is_told_of_the_timeout() {
        let told = |sdk: &str, stream| -> Vec<(&str, String)> {
            let headers = Sdk::named(sdk).unwrap().timeout_headers(stream);
            headers.map(|(name, value)| (name, value.to_str().unwrap().to_owned())).collect()
        };
        let seconds = |name| (name, "600".to_owned());
        assert_eq!(told("openai-python", true), [seconds("x-stainless-read-timeout")]);
        assert_eq!(told("openai-node", false), []);
        assert_eq!(told("anthropic-node", true), [seconds("x-stainless-timeout")]);
        let read = seconds("x-stainless-read-timeout");
        assert_eq!(told("anthropic-python", false), [read.clone(), seconds("x-stainless-timeout")]);
        let not_given = ("x-stainless-timeout", "NOT_GIVEN".to_owned());
        assert_eq!(told("anthropic-python", true), [read, not_given]);
    }

    #[test]
    fn a_connection_that_fails_is_tried_again_and_a_broken_answer_by_some() {
        let next = |sdk: &str, came| Sdk::named(sdk).unwrap().next(came, 0, SystemTime::now(), 0.0);
        let wait = Next::Retry(Duration::from_millis(500));
        assert_eq!(next("openai-node", Came::Nothing), wait);
        assert_eq!(next("openai-node", Came::Part), Next::Done);
        assert_eq!(next("openai-python", Came::Part), wait);
        assert_eq!(next("none", Came::Nothing), Next::Done);
    }
}
