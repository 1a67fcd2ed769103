//! The gate's books: of random calls, those that it says it passed on are those that the upstream had.
//!
//! What became of a call stands in four places: its answer's header, the gate's metrics, the gate's log, and
//! the upstream's list of the calls that reached it. Callers who leave see no header, so the log, which names
//! each call by the request id that the caller chose, speaks for theirs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Request;
use http::header::{CACHE_CONTROL, HeaderValue};
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::fate::{Fate, Fates, metric};
use crate::load::{Sender, arrived, chat, connect, driving, fetch, send};
use crate::process::{Process, Proxy, Speaks};
use crate::report::{Of, Row};
use crate::scenarios::Bench;
use crate::shapes::{DELAY_HEADER, Prompts, SERIAL_HEADER, SERIALS_PATH, StreamShape};

const CALLERS: usize = 64;
/// Prompts asked for at one time, and the calls after which the oldest makes place for a new one.
const PROMPTS: u64 = 6;
const CALLS_A_PROMPT: u64 = 24;
const LIMIT: Duration = Duration::from_secs(120);
/// How long the gate may take to notice that the last callers have left.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_LIMIT: Duration = Duration::from_secs(20);
const REQUEST_ID: &str = "x-request-id";

impl Bench {
    pub(crate) async fn fates(&self) -> Result<Vec<Row>> {
        if matches!(self.gate_kind, Proxy::Relay) {
            return Ok(vec![Row::info("fates", "a relay keeps no books", &[], &[])]);
        }
        let variables = [("SLUICEGATE_LOG__FORMAT", "json")];
        let gate = Process::proxy_with(&self.gate_kind, self.upstream.addr, Speaks::Chat, &variables).await?;
        let _of_others = fetch(self.upstream.addr, SERIALS_PATH).await?;
        let before = arrived(self.upstream.addr).await?;
        let told = timeout(LIMIT, random_calls(gate.addr, self.sizes.random_calls))
            .await
            .context("the calls did not end")??;
        let counted = quiet(&gate).await?;
        let upstream = arrived(self.upstream.addr).await? - before;
        let reached = fetch(self.upstream.addr, SERIALS_PATH).await?;
        let books = Books::read(told, &gate.log(), &reached)?;
        ensure!(
            books.calls.iter().map(|call| call.reached).sum::<u64>() == upstream,
            "the upstream lost count"
        );
        books.rows(&counted, upstream)
    }
}

/// A call by its number alone, so that every run makes the same ones, if not in the same order.
struct Plan {
    serial: usize,
    prompt: u64,
    shape: Option<StreamShape>,
    no_store: bool,
    delay: u64,
    /// The caller leaves so long after sending, unless it has its answer.
    leaves: Option<Duration>,
}

impl Plan {
    fn of(serial: usize) -> Self {
        let mut state = serial as u64;
        let mut below = |bound: u64| {
            // SplitMix64: consecutive numbers give independent choices.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % bound
        };
        let shape = StreamShape { chunks: 3, every: Duration::from_millis(2), size: 220 };
        Self {
            serial,
            prompt: serial as u64 / CALLS_A_PROMPT + below(PROMPTS),
            shape: (below(100) < 40).then_some(shape),
            no_store: below(100) < 8,
            delay: below(9),
            leaves: (below(100) < 15).then(|| Duration::from_micros(1_000 + below(11_000))),
        }
    }

    fn request(&self, addr: SocketAddr, first: u64) -> Result<Request<Full<Bytes>>> {
        let prompts = if self.shape.is_some() { Prompts::streaming() } else { Prompts::small() };
        let mut request = chat(addr, prompts.numbered(first + self.prompt), self.shape)?;
        let headers = request.headers_mut();
        headers.insert(REQUEST_ID, self.serial.into());
        headers.insert(SERIAL_HEADER, self.serial.into());
        headers.insert(DELAY_HEADER, self.delay.into());
        if self.no_store {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        Ok(request)
    }
}

/// What a caller knows of its call.
#[derive(Clone, Copy, Default)]
struct Told {
    /// By the answer's header, where the caller was still there to read it.
    fate: Option<Fate>,
    left: bool,
}

async fn random_calls(addr: SocketAddr, calls: usize) -> Result<Vec<Told>> {
    // As many numbers as there can be prompts.
    let first = Prompts::fresh(calls);
    let tickets = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(caller(addr, first, calls, tickets.clone()));
    }
    let mut all = vec![Told::default(); calls];
    while let Some(told) = callers.join_next().await {
        for (serial, told) in told?? {
            all[serial] = told;
        }
    }
    Ok(all)
}

async fn caller(
    addr: SocketAddr,
    first: u64,
    calls: usize,
    tickets: Arc<AtomicUsize>,
) -> Result<Vec<(usize, Told)>> {
    let mut all = Vec::new();
    loop {
        let (mut sender, connection) = connect(addr).await?;
        let until_left = async {
            loop {
                let serial = tickets.fetch_add(1, Ordering::Relaxed);
                if serial >= calls {
                    return Ok(false);
                }
                let plan = Plan::of(serial);
                let mut told = Told::default();
                let answered =
                    answer(&mut sender, plan.request(addr, first)?, plan.shape.is_some(), &mut told.fate);
                told.left = match plan.leaves {
                    Some(after) => match timeout(after, answered).await {
                        Ok(answered) => answered.map(|()| false),
                        Err(_) => Ok(true),
                    },
                    None => answered.await.map(|()| false),
                }
                .with_context(|| format!("call {serial}"))?;
                all.push((serial, told));
                if told.left {
                    return Ok(true);
                }
            }
        };
        // Who leaves closes the connection, as clients of HTTP/1.1 do.
        if !driving(connection, until_left).await? {
            return Ok(all);
        }
    }
}

/// Waits for a whole answer in the form asked for.
async fn answer(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
    streams: bool,
    fate: &mut Option<Fate>,
) -> Result<()> {
    let response = send(sender, request).await?;
    *fate = Some(Fate::of(response.headers()));
    let body = response.into_body().collect().await?.to_bytes();
    if streams {
        ensure!(body.ends_with(b"data: [DONE]\n\n"), "a stream that was cut");
    } else {
        let answer: serde_json::Value = serde_json::from_slice(&body).context("no plain answer")?;
        ensure!(answer["choices"][0]["finish_reason"] == "stop", "no whole answer: {answer}");
    }
    Ok(())
}

/// What the gate's metrics count when it has nothing left to do.
async fn quiet(gate: &Process) -> Result<Fates> {
    let start = Instant::now();
    let (mut last, mut since) = (Fates::default(), start);
    while start.elapsed() < QUIET_LIMIT {
        let page = gate.metrics().await?;
        let now = Fates::of_metrics(&page)?;
        let idle = metric(&page, "sluicegate_in_flight{provider=\"openai\"}")? == Some(0.0);
        if now != last || !idle {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > QUIET {
            let dropped = metric(&page, "sluicegate_log_dropped_total")?;
            ensure!(dropped == Some(0.0), "the log is not whole: lines dropped {dropped:?}");
            return Ok(now);
        }
        sleep(Duration::from_millis(100)).await;
    }
    bail!("the gate did not come to rest: {last}")
}

/// A line of the gate's log about a call.
#[derive(Deserialize)]
struct Line {
    request_id: String,
    fate: String,
}

struct Call {
    told: Told,
    /// What the gate's log says, if it names the call.
    logged: Option<Fate>,
    /// How often it reached the upstream.
    reached: u64,
}

impl Call {
    /// Its caller left before the gate could ask the upstream, or before the question got there.
    fn never_asked(&self) -> bool {
        self.told.fate.is_none()
            && self.told.left
            && self.reached == 0
            && self.logged.is_some_and(Fate::asks_upstream)
    }

    /// All that is known of it can be true at once.
    fn agrees(&self) -> bool {
        let header = self.told.fate.is_none() || self.told.fate == self.logged;
        // A caller may leave before the gate has read its call.
        let seen = self.logged.is_some() || self.told.left;
        let asked = u64::from(self.logged.is_some_and(Fate::asks_upstream));
        header && seen && (self.reached == asked || self.never_asked())
    }
}

struct Books {
    calls: Vec<Call>,
}

impl Books {
    fn read(told: Vec<Told>, log: &str, reached: &str) -> Result<Self> {
        let mut calls: Vec<Call> =
            told.into_iter().map(|told| Call { told, logged: None, reached: 0 }).collect();
        for serial in reached.lines() {
            calls.get_mut(serial.parse::<usize>()?).context("an unknown call upstream")?.reached += 1;
        }
        for line in log.lines().filter(|line| line.contains(r#""request_id":"#)) {
            let line: Line = serde_json::from_str(line).context("a line of the log")?;
            let call =
                calls.get_mut(line.request_id.parse::<usize>()?).context("an unknown call in the log")?;
            ensure!(call.logged.is_none(), "call {} stands in the log twice", line.request_id);
            call.logged = Some(Fate::named(&line.fate));
        }
        Ok(Self { calls })
    }

    fn count(&self, test: impl Fn(&Call) -> bool) -> u64 {
        self.calls.iter().filter(|call| test(call)).count() as u64
    }

    fn rows(&self, counted: &Fates, upstream: u64) -> Result<Vec<Row>> {
        let total = self.calls.len() as u64;
        let left = self.count(|call| call.told.left);
        for fate in [Fate::Miss, Fate::Joined, Fate::Hit, Fate::Bypass] {
            ensure!(counted[fate] * 50 >= total, "too few to say anything about {fate:?}: {counted}");
        }
        ensure!(left * 50 >= total, "too few left: {left} of {total}");
        let never_asked = self.count(Call::never_asked);
        let never_seen = self.count(|call| call.logged.is_none());
        // Books that no upstream call can contradict: were there many, a wrong fate could hide among them.
        let open = never_asked + never_seen;
        ensure!(open * 4 <= left, "of {left} who left, {open} had no effect: too many to judge the others");

        let mut logged = Fates::default();
        self.calls.iter().filter_map(|call| call.logged).for_each(|fate| logged.count(fate));
        let apart = (counted.upstream() - never_asked).abs_diff(upstream) as f64;
        let disagreeing = self.count(|call| !call.agrees());
        let off = Fate::ALL.into_iter().map(|fate| logged[fate].abs_diff(counted[fate])).sum::<u64>();
        let row =
            |what, figure: f64| Row::info("fates", what, &[], &[figure]).claim(Of::Gate, &[], &[figure], 0.0);
        let mut note = format!(
            "{counted}; {upstream} upstream; {left} left, {never_seen} of them unread, \
             {never_asked} before the upstream was asked"
        );
        if let Some(serial) = self.calls.iter().position(|call| !call.agrees()) {
            let call = &self.calls[serial];
            note += &format!(
                "; the first that disagrees, {serial}: header {:?}, left {}, log {:?}, upstream {}",
                call.told.fate, call.told.left, call.logged, call.reached
            );
        }
        Ok(vec![
            row("misses and bypasses − upstream calls", apart).note(note),
            row("calls whose books disagree", disagreeing as f64),
            row("metrics − log, all fates", off as f64),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(fate: Option<Fate>, left: bool, logged: Option<Fate>, reached: u64) -> Call {
        Call { told: Told { fate, left }, logged, reached }
    }

    #[test]
    fn calls_agree_only_where_all_books_do() {
        use Fate::{Bypass, Hit, Joined, Miss};
        for (fate, left, logged, reached) in [
            (Some(Miss), false, Some(Miss), 1),
            (Some(Joined), false, Some(Joined), 0),
            (Some(Bypass), true, Some(Bypass), 1),
            (None, true, Some(Miss), 1),
            (None, true, Some(Miss), 0),
            (None, true, Some(Joined), 0),
            (None, true, None, 0),
        ] {
            assert!(call(fate, left, logged, reached).agrees(), "{fate:?} {left} {logged:?} {reached}");
        }
        for (fate, left, logged, reached) in [
            (Some(Miss), false, Some(Miss), 0),
            (Some(Miss), false, Some(Miss), 2),
            (Some(Miss), true, Some(Miss), 0),
            (Some(Hit), false, Some(Miss), 1),
            (Some(Hit), false, Some(Hit), 1),
            (Some(Joined), false, None, 0),
            (None, true, Some(Joined), 1),
            (None, true, Some(Miss), 2),
            (None, true, None, 1),
        ] {
            assert!(!call(fate, left, logged, reached).agrees(), "{fate:?} {left} {logged:?} {reached}");
        }
    }

    #[test]
    fn books_are_read_by_call() {
        let log = concat!(
            "{\"message\":\"listening\"}\n",
            "{\"message\":\"call\",\"id\":\"x\",\"request_id\":\"1\",\"fate\":\"hit\"}\n",
            "{\"message\":\"call\",\"id\":\"y\",\"request_id\":\"0\",\"fate\":\"miss\"}\n",
        );
        let books = Books::read(vec![Told::default(); 2], log, "0\n").unwrap();
        assert_eq!(books.calls[0].logged, Some(Fate::Miss));
        assert_eq!((books.calls[0].reached, books.calls[1].reached), (1, 0));
        assert!(Books::read(vec![Told::default(); 1], log, "").is_err());
        assert!(Books::read(vec![Told::default(); 2], &log.repeat(2), "").is_err());
    }

    #[test]
    fn plans_are_the_same_each_time_and_of_all_kinds() {
        let plans: Vec<Plan> = (0..1_000).map(Plan::of).collect();
        assert_eq!(plans[7].delay, Plan::of(7).delay);
        let count = |test: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| test(plan)).count();
        assert!((300..500).contains(&count(&|plan| plan.shape.is_some())));
        assert!((40..120).contains(&count(&|plan| plan.no_store)));
        assert!((100..200).contains(&count(&|plan| plan.leaves.is_some())));
        assert!(plans.iter().all(|plan| plan.prompt < 1_000 / CALLS_A_PROMPT + PROMPTS + 1));
    }
}
