//! Callers, open loop or closed. A call's time runs from when it should have been sent, so that a generator or a target
//! that comes late does not make the figures better.
//!
//! A thread of its own watches the clock of an open loop, since the runtime's timers are of a millisecond. Whoever is
//! free then makes the call, on a connection that it has open; where nobody is, the call is late and its time says so.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use memchr::memmem;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::book::{HANG_HEADER, MARK_HEADER, STATUS_HEADER, wall_micros};
use crate::load::{Driver, Sender, chat, connect};
use crate::shapes::{DELAY_HEADER, Prompts, StreamShape, marked_answer};

/// Nobody waits longer for an answer; whoever does has none.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a caller asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// The provider takes so many milliseconds.
    pub delay: u64,
    pub shape: Option<StreamShape>,
    /// Whose call it is.
    pub key: Option<&'static str>,
    /// The provider fails with this.
    pub status: Option<u16>,
    /// The provider never answers.
    pub hangs: bool,
    /// The caller leaves so long after sending, unless it has its answer.
    pub leaves: Option<Duration>,
    /// The number of the prompt, where it is not one of its own: equal calls.
    pub prompt: Option<u64>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// A 200 with the whole answer, and the right one.
    Whole,
    /// Another status, with an error in JSON that says something.
    Refused { status: u16, retry_after: Option<u64>, provider: bool },
    /// A stream that its sender ended with an error event.
    Told,
    /// A 200 or an error that is not what it should be.
    Wrong(String),
    /// The connection broke after the call was sent, without a whole answer.
    Wordless(String),
    /// Nobody took the connection: the call was never sent.
    Unsent,
    /// The caller left.
    Left,
}

#[derive(Clone, Debug)]
pub struct Seen {
    /// Of the ask in the plan.
    pub number: usize,
    pub mark: u64,
    /// When it should have been sent.
    pub due: Instant,
    /// How much later it was, by the generator's fault or because no caller was free.
    pub late: Duration,
    /// On the clock of the whole machine, in microseconds since 1970.
    pub sent: u64,
    pub end: Instant,
    pub ending: Ending,
}

impl Seen {
    /// From when it should have been sent.
    pub fn took(&self) -> Duration {
        self.end.duration_since(self.due)
    }

    pub fn ms(&self) -> f64 {
        self.took().as_secs_f64() * 1e3
    }

    pub fn is_whole(&self) -> bool {
        self.ending == Ending::Whole
    }
}

/// When calls are made.
#[derive(Clone, Debug)]
pub enum Pace {
    /// Each at its time after the start.
    Open(Vec<Duration>),
    /// Each caller when it has its answer, until so long after the start.
    Closed(Duration),
}

impl Pace {
    pub fn rate(per_second: f64, lasting: Duration) -> Self {
        let calls = (per_second * lasting.as_secs_f64()) as usize;
        Self::Open((0..calls).map(|call| Duration::from_secs_f64(call as f64 / per_second)).collect())
    }

    pub fn within(calls: usize, time: Duration) -> Self {
        Self::Open((0..calls).map(|call| time.mul_f64(call as f64 / calls as f64)).collect())
    }
}

pub struct Plan {
    pub pace: Pace,
    pub callers: usize,
    pub ask: Box<dyn Fn(usize) -> Ask + Send + Sync>,
    /// The first marks of so many calls at most are this run's own.
    pub most: usize,
}

pub struct Run {
    pub start: Instant,
    pub calls: Vec<Seen>,
}

impl Plan {
    pub fn new(pace: Pace, callers: usize, ask: impl Fn(usize) -> Ask + Send + Sync + 'static) -> Self {
        let most = if let Pace::Open(times) = &pace { times.len() } else { 1_000_000 };
        Self { pace, callers, ask: Box::new(ask), most }
    }

    /// At most so many calls.
    pub fn most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    pub async fn run(self, addr: SocketAddr) -> Result<Run> {
        self.start(addr).await?.finish().await
    }

    /// Opens all connections, one by one, and begins.
    pub async fn start(self, addr: SocketAddr) -> Result<Running> {
        let mut lines = Vec::with_capacity(self.callers);
        for _ in 0..self.callers {
            lines.push(Line::open(addr).await.context("cannot connect")?);
        }
        let start = Instant::now() + Duration::from_millis(20);
        let shared = Arc::new(Shared {
            start,
            first: Prompts::fresh(self.most),
            most: self.most,
            plan: self,
            next: AtomicUsize::new(0),
            due: Semaphore::new(0),
            stop: AtomicBool::new(false),
            prompts: [Prompts::small(), Prompts::streaming()],
        });
        let mut callers = JoinSet::new();
        if matches!(shared.plan.pace, Pace::Open(_)) {
            let shared = shared.clone();
            callers.spawn_blocking(move || {
                shared.watch_the_clock();
                Vec::new()
            });
        }
        for line in lines {
            callers.spawn(caller(addr, Some(line), shared.clone()));
        }
        Ok(Running { shared, callers })
    }
}

/// Calls on their way. Dropping it ends them.
pub struct Running {
    shared: Arc<Shared>,
    callers: JoinSet<Vec<Seen>>,
}

impl Running {
    pub fn start(&self) -> Instant {
        self.shared.start
    }

    /// No call is begun any more.
    pub fn stop(&self) {
        self.shared.stop();
    }

    pub async fn finish(mut self) -> Result<Run> {
        let mut calls = Vec::new();
        while let Some(theirs) = self.callers.join_next().await {
            calls.append(&mut theirs?);
        }
        calls.sort_by_key(|seen| seen.number);
        Ok(Run { start: self.shared.start, calls })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

struct Shared {
    start: Instant,
    first: u64,
    most: usize,
    plan: Plan,
    next: AtomicUsize,
    /// A permit for each call of an open loop that is due.
    due: Semaphore,
    stop: AtomicBool,
    /// Plain ones, and those that ask for a stream.
    prompts: [Prompts; 2],
}

impl Shared {
    #[expect(clippy::disallowed_methods, reason = "a thread of its own, that nothing else waits for")]
    fn watch_the_clock(&self) {
        let Pace::Open(times) = &self.plan.pace else { return };
        for time in times {
            let left = (self.start + *time).saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::sleep(left);
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.due.add_permits(1);
        }
        // Whoever waits for a turn learns that there is none.
        self.due.add_permits(self.plan.callers);
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.due.add_permits(self.plan.callers);
    }

    /// The next call, and when it is due.
    async fn turn(&self) -> Option<(usize, Instant)> {
        let due = match &self.plan.pace {
            Pace::Open(_) => {
                self.due.acquire().await.ok()?.forget();
                None
            }
            Pace::Closed(lasting) => {
                // The first ones all begin at the start.
                tokio::time::sleep_until(self.start).await;
                let now = Instant::now();
                if now > self.start + *lasting {
                    return None;
                }
                Some(now)
            }
        };
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.most {
            return None;
        }
        match (&self.plan.pace, due) {
            (Pace::Open(times), _) => Some((number, self.start + *times.get(number)?)),
            (_, Some(due)) => Some((number, due)),
            _ => None,
        }
    }

    fn request(&self, addr: SocketAddr, ask: &Ask, mark: u64) -> Result<Request<Full<Bytes>>> {
        let prompts = &self.prompts[usize::from(ask.shape.is_some())];
        let mut request = chat(addr, prompts.numbered(ask.prompt.unwrap_or(mark)), ask.shape)?;
        let headers = request.headers_mut();
        headers.insert(HeaderName::from_static(MARK_HEADER), mark.into());
        headers.insert(HeaderName::from_static(DELAY_HEADER), ask.delay.into());
        if let Some(key) = ask.key {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {key}"))?);
        }
        if let Some(status) = ask.status {
            headers.insert(HeaderName::from_static(STATUS_HEADER), status.into());
        }
        if ask.hangs {
            headers.insert(HeaderName::from_static(HANG_HEADER), HeaderValue::from_static("1"));
        }
        Ok(request)
    }
}

/// A connection, driven by whoever uses it.
struct Line {
    sender: Sender,
    driver: Pin<Box<Driver>>,
}

impl Line {
    async fn open(addr: SocketAddr) -> Result<Self> {
        let (sender, driver) = connect(addr).await?;
        Ok(Self { sender, driver: Box::pin(driver) })
    }
}

async fn caller(addr: SocketAddr, mut line: Option<Line>, shared: Arc<Shared>) -> Vec<Seen> {
    let mut all = Vec::new();
    loop {
        let turn = match &mut line {
            None => shared.turn().await,
            Some(open) => tokio::select! {
                turn = shared.turn() => turn,
                // Closed while nothing was under way, as a server may: the next call opens another.
                _ = open.driver.as_mut() => {
                    line = None;
                    continue;
                }
            },
        };
        let Some((number, due)) = turn else { return all };
        let ask = (shared.plan.ask)(number);
        let mark = shared.first + number as u64;
        let (late, sent) = (Instant::now().saturating_duration_since(due), wall_micros());
        let patience = ask.leaves.unwrap_or(PATIENCE);
        let called = timeout(patience, call(addr, &mut line, &shared, &ask, mark)).await;
        let ending = called.unwrap_or_else(|_left| {
            line = None;
            if ask.leaves.is_some() { Ending::Left } else { Ending::Wordless("no answer in time".into()) }
        });
        let refused = ending == Ending::Unsent;
        all.push(Seen { number, mark, due, late, sent, end: Instant::now(), ending });
        if refused {
            // Whoever is gone stays gone; not a loop of attempts.
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// On the open connection, or a new one where there is none or it was closed before the call was sent.
async fn call(addr: SocketAddr, line: &mut Option<Line>, shared: &Shared, ask: &Ask, mark: u64) -> Ending {
    for _ in 0..3 {
        let mut open = match line.take() {
            Some(open) => open,
            None => match Line::open(addr).await {
                Ok(open) => open,
                Err(_) => return Ending::Unsent,
            },
        };
        let request = match shared.request(addr, ask, mark) {
            Ok(request) => request,
            Err(error) => return Ending::Wrong(format!("{error:#}")),
        };
        let Line { sender, driver } = &mut open;
        let (ended, answered) = {
            let mut exchange = pin!(exchange(sender, request, ask, mark));
            tokio::select! {
                biased;
                answered = &mut exchange => (false, answered),
                // Closed after an answer whose bytes are here; a call that needs more of it fails by itself.
                _ = driver.as_mut() => (true, exchange.await),
            }
        };
        match answered {
            Answered::NotSent => {}
            Answered::Ended(ending) => {
                let usable = !matches!(ending, Ending::Wordless(_) | Ending::Wrong(_));
                if usable && !ended && !open.sender.is_closed() {
                    *line = Some(open);
                }
                return ending;
            }
        }
    }
    Ending::Unsent
}

enum Answered {
    /// The connection was closed before the call was on it.
    NotSent,
    Ended(Ending),
}

async fn exchange(sender: &mut Sender, request: Request<Full<Bytes>>, ask: &Ask, mark: u64) -> Answered {
    if sender.ready().await.is_err() {
        return Answered::NotSent;
    }
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) if error.is_canceled() => return Answered::NotSent,
        Err(error) => return Answered::Ended(Ending::Wordless(format!("{error:?}"))),
    };
    let (head, body) = response.into_parts();
    Answered::Ended(match body.collect().await {
        Ok(body) if head.status == StatusCode::OK => whole(&body.to_bytes(), ask, mark),
        Ok(body) => error(head.status, &head.headers, &body.to_bytes()),
        Err(error) => Ending::Wordless(format!("in the answer: {error:?}")),
    })
}

fn whole(body: &[u8], ask: &Ask, mark: u64) -> Ending {
    if ask.shape.is_some() {
        return if memmem::find(body, b"\"error\"").is_some() {
            Ending::Told
        } else if body.ends_with(b"data: [DONE]\n\n") {
            Ending::Whole
        } else {
            Ending::Wordless("a stream without its end".into())
        };
    }
    // Equal calls get one call's answer, whose number may be another's, and which may have been a stream.
    let right = match ask.prompt {
        Some(_) => serde_json::from_slice::<Value>(body)
            .is_ok_and(|answer| answer["choices"][0]["finish_reason"] == "stop"),
        None => body == marked_answer(mark).as_bytes(),
    };
    if right {
        Ending::Whole
    } else {
        Ending::Wrong(String::from_utf8_lossy(&body[..body.len().min(120)]).into())
    }
}

fn error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Ending {
    let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
    if said["error"]["message"].as_str().is_none_or(str::is_empty) {
        return Ending::Wrong(format!("{status} without an error to read"));
    }
    let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let provider = !headers.contains_key("x-sluicegate-error");
    Ending::Refused { status: status.as_u16(), retry_after, provider }
}

/// Calls that ended with `ending` in none of the ways that `is_fine` takes, and the first of them.
pub fn count_others(calls: &[Seen], is_fine: impl Fn(&Seen) -> bool) -> (usize, String) {
    let mut others = calls.iter().filter(|seen| !is_fine(seen)).peekable();
    let first = others.peek().map(|seen| format!("{:?} at call {}", seen.ending, seen.number));
    (others.count(), first.unwrap_or_default())
}

/// Enough of a sample to speak of it.
pub fn enough(calls: &[Seen], least: usize, what: &str) -> Result<()> {
    ensure!(calls.len() >= least, "only {} calls {what}, of at least {least}", calls.len());
    Ok(())
}
