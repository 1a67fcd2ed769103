//! HTTP/2 connections to one provider account: as many as needed, each with a bounded number of streams.
//!
//! A client library that puts every call on one connection makes the calls beyond the provider's stream limit
//! wait in silent waves. Here a call takes a place on a connection with room, or opens another one.
//!
//! How many calls a connection takes is known only when the provider's SETTINGS have come. Until then one call,
//! the scout, rides on it; the others wait for the news, and those for whom there is no room move on. What was
//! learned is the guess for the next connection. A provider whose SETTINGS are late gets a connection a call.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, SetOnce};
use tokio::time::{Instant, timeout};

use super::Upload;
use super::connect::Io;
use crate::tasks::Tasks;

/// Streams per connection: below the 100 that providers commonly allow.
const STREAMS: usize = 80;
/// No limit that a provider could state: its SETTINGS have not come.
const UNTOLD: usize = usize::MAX - 1;
/// SETTINGS follow the opening by one round trip, and opening took one or more.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long a limit is taken for the next connection's. Forgetting it costs a move, keeping a low one for ever
/// would cost a connection a call.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How long a connection may rest while calls ride on others.
const REST: Duration = Duration::from_secs(50);
/// A call that had to move so often takes a connection of its own.
const MOVES: usize = 3;

/// The HTTP/2 connections of one account.
#[derive(Default)]
pub struct H2Pool {
    lines: Mutex<Vec<Arc<Line>>>,
    guess: Mutex<Option<Guess>>,
}

/// How many calls the next connection will take.
struct Guess {
    streams: usize,
    /// The provider said so; else its SETTINGS are late.
    told: bool,
    at: Instant,
}

/// One connection, open or being opened.
struct Line {
    sender: OnceCell<http2::SendRequest<Upload>>,
    seats: Mutex<Seats>,
    /// What the provider allows.
    allowed: AtomicUsize,
    /// It refused a call when there was one more than this.
    refused_above: AtomicUsize,
    /// One call rides before the news.
    scouted: AtomicBool,
    /// The provider's SETTINGS have come, or the connection has ended.
    news: SetOnce<()>,
    dead: AtomicBool,
}

struct Seats {
    used: usize,
    since: Instant,
    /// For how long the news can be waited for.
    wait: Duration,
}

impl Line {
    fn new(now: Instant) -> Arc<Line> {
        Arc::new(Line {
            sender: OnceCell::new(),
            seats: Mutex::new(Seats { used: 1, since: now, wait: SHORTEST_WAIT }),
            allowed: AtomicUsize::new(UNTOLD),
            refused_above: AtomicUsize::new(usize::MAX),
            scouted: AtomicBool::new(false),
            news: SetOnce::new(),
            dead: AtomicBool::new(false),
        })
    }

    fn room(&self, guess: usize) -> usize {
        let refused = self.refused_above.load(Ordering::Relaxed);
        guess.min(self.allowed.load(Ordering::Relaxed)).min(refused)
    }

    fn seat(&self, guess: usize) -> bool {
        let mut seats = self.seats.lock();
        let free = seats.used < self.room(guess) && !self.is_dead();
        seats.used += usize::from(free);
        free
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    fn is_told(&self) -> bool {
        self.allowed.load(Ordering::Relaxed) != UNTOLD
    }

    /// Whether it may take calls, now or when others have left.
    fn is_worth_keeping(&self, now: Instant) -> bool {
        let seats = self.seats.lock();
        let open = self.sender.get().is_none_or(|sender| !sender.is_closed());
        !self.is_dead() && (seats.used > 0 || open && now.duration_since(seats.since) < REST)
    }

    fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
        let _told_before = self.news.set(());
    }
}

/// One stream's place on a connection; returned when dropped.
#[must_use = "the place is given back when dropped"]
pub struct H2Place {
    line: Arc<Line>,
    pool: Arc<H2Pool>,
}

/// A connection on which a call has its place.
pub(super) type Boarded = (H2Place, http2::SendRequest<Upload>);

impl H2Pool {
    /// Takes a place on an open connection that has room for one more call. With `apart`, on a new one. The
    /// caller bounds the time.
    pub(super) async fn board<E, O>(
        self: &Arc<Self>,
        mut apart: bool,
        tasks: &Tasks,
        open: impl Fn() -> O,
    ) -> Result<Boarded, E>
    where
        E: From<hyper::Error>,
        O: Future<Output = Result<Io, E>>,
    {
        let mut moves = 0;
        loop {
            let place = self.place(apart);
            let sender = place.sender(tasks, open()).await?;
            if place.is_sure().await {
                return Ok((place, sender));
            }
            moves += 1;
            apart = apart || moves >= MOVES;
        }
    }

    /// Takes a place, on a connection that may still have to be opened.
    fn place(self: &Arc<Self>, apart: bool) -> H2Place {
        let now = Instant::now();
        let guess = self.guess(now);
        let mut lines = self.lines.lock();
        lines.retain(|line| line.is_worth_keeping(now));
        let line = match lines.iter().find(|line| !apart && line.seat(guess)) {
            Some(line) => line.clone(),
            None => {
                let line = Line::new(now);
                lines.push(line.clone());
                line
            }
        };
        H2Place { line, pool: self.clone() }
    }

    /// How many calls a connection takes, as far as is known.
    fn guess(&self, now: Instant) -> usize {
        let guess = self.guess.lock();
        guess.as_ref().filter(|guess| guess.is_good(now)).map_or(STREAMS, |guess| guess.streams)
    }

    /// The provider takes no more than `streams` on one connection.
    fn learn(&self, streams: usize) {
        let now = Instant::now();
        let mut guess = self.guess.lock();
        let before = guess.as_ref().filter(|guess| guess.told && guess.is_good(now));
        let streams = before.map_or(STREAMS, |guess| guess.streams).min(streams).max(1);
        *guess = Some(Guess { streams, told: true, at: now });
    }

    /// The provider's SETTINGS did not come in time. Returns whether its limit is known from before.
    fn is_late(&self) -> bool {
        let now = Instant::now();
        let mut guess = self.guess.lock();
        match &*guess {
            Some(known) if known.is_good(now) => known.told,
            _ => {
                *guess = Some(Guess { streams: 1, told: false, at: now });
                false
            }
        }
    }

    /// How many connections are open or being opened.
    pub fn connections(&self) -> usize {
        self.lines.lock().len()
    }
}

impl Guess {
    fn is_good(&self, now: Instant) -> bool {
        now.duration_since(self.at) < REMEMBERED
    }
}

impl H2Place {
    /// The connection's sender, opened by the first who needs it; a failure is that call's own, and the next
    /// one tries again.
    async fn sender<E: From<hyper::Error>>(
        &self,
        tasks: &Tasks,
        open: impl Future<Output = Result<Io, E>>,
    ) -> Result<http2::SendRequest<Upload>, E> {
        let line = &self.line;
        let sender = line.sender.get_or_try_init(|| async {
            let begun = Instant::now();
            let io = TokioIo::new(open.await?);
            let steps = Steps { tasks: tasks.clone(), watch: Arc::default() };
            let watch = steps.watch.clone();
            let (sender, conn) = http2::Builder::new(steps)
                .timer(TokioTimer::new())
                .keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5))
                .initial_stream_window_size(256 * 1024)
                .initial_connection_window_size(4 * 1024 * 1024)
                .initial_max_send_streams(UNTOLD)
                .max_header_list_size(64 * 1024)
                .handshake(io)
                .await?;
            line.seats.lock().wait = (2 * begun.elapsed()).clamp(SHORTEST_WAIT, LONGEST_WAIT);
            tasks.spawn(drive(conn, watch, Arc::downgrade(line), Arc::downgrade(&self.pool)));
            Ok(sender)
        });
        sender.await.cloned()
    }

    /// Waits until it is known whether this call may ride here. If not, it has to look for another place.
    async fn is_sure(&self) -> bool {
        let line = &self.line;
        if !line.is_told() {
            if !line.scouted.swap(true, Ordering::Relaxed) {
                return true;
            }
            let wait = line.seats.lock().wait;
            if timeout(wait, line.news.wait()).await.is_err() && !self.pool.is_late() {
                return false;
            }
        }
        let guess = self.pool.guess(Instant::now());
        !line.is_dead() && line.seats.lock().used <= line.room(guess)
    }

    /// The provider refused this call unseen: with one fewer it might not have.
    pub(super) fn refused(&self) {
        let others = self.line.seats.lock().used - 1;
        self.line.refused_above.fetch_min(others, Ordering::Relaxed);
        if others > 0 {
            self.pool.learn(others);
        }
    }

    /// The connection takes no more calls.
    pub(super) fn closed(&self) {
        self.line.end();
    }
}

impl Drop for H2Place {
    fn drop(&mut self) {
        let empty = {
            let mut seats = self.line.seats.lock();
            seats.used -= 1;
            seats.since = Instant::now();
            seats.used == 0
        };
        // A connection that never came to be, is gone, or refuses even one call, leaves with its last caller.
        let gone =
            || self.line.sender.get().is_none_or(|sender| sender.is_closed()) || self.line.room(1) == 0;
        if empty && gone() {
            self.line.end();
            self.pool.lines.lock().retain(|line| !Arc::ptr_eq(line, &self.line));
        }
    }
}

type Connection = http2::Connection<TokioIo<Io>, Upload, Steps>;

/// Drives a connection to its end and tells its line what the provider allows. The line is not kept: when the
/// pool and the callers have let go of it, the connection ends.
async fn drive(mut conn: Connection, watch: Arc<AtomicWaker>, line: Weak<Line>, pool: Weak<H2Pool>) {
    let ended = poll_fn(|cx| {
        let line = line.upgrade();
        if line.as_ref().is_some_and(|line| !line.is_told()) {
            watch.register(cx.waker());
        }
        let ended = Pin::new(&mut conn).poll(cx);
        if let Some(line) = line {
            let allowed = conn.current_max_send_streams();
            if line.allowed.swap(allowed, Ordering::Relaxed) != allowed {
                if let Some(pool) = pool.upgrade() {
                    pool.learn(allowed);
                }
                let _told_before = line.news.set(());
            }
        }
        ended
    });
    if let Err(broken) = ended.await {
        tracing::debug!(error = %broken, "an HTTP/2 connection ended");
    }
    if let Some(line) = line.upgrade() {
        line.end();
    }
}

/// Runs the tasks of one connection. After each step of theirs who `watch`es is woken: the library does not
/// say when the provider's SETTINGS have come.
#[derive(Clone)]
struct Steps {
    tasks: Tasks,
    watch: Arc<AtomicWaker>,
}

impl<F> hyper::rt::Executor<F> for Steps
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let watch = self.watch.clone();
        self.tasks.spawn(async move {
            let mut task = pin!(task);
            poll_fn(|cx| {
                let polled = task.as_mut().poll(cx);
                watch.wake();
                polled
            })
            .await;
        });
    }
}
