//! What one call, or many equal ones, get from a provider: a flight, and the seats of those who wait for it.
//!
//! While a flight has one seat, that seat drives it: no task, no hop, and dropping the seat drops the call to the
//! provider. When a second one boards, the flight moves into a task of its own, so that nobody's pace or leaving is
//! anybody else's. The last seat to be given up ends it, wherever it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use futures_util::future::BoxFuture;
use guard::flight::{self, Aircraft, Boarded};
use guard::tape::{self, Next, Reader};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use wire::dialect::Dialect;
use wire::fingerprint::Fingerprint;
use wire::relay::Watch;

use crate::gateway::Gateway;
use crate::headers::{pack, unpack};
use crate::kept::{Keeping, Kept};
use crate::refusal::Refusal;

/// What a flight brings.
pub(crate) type Tape = tape::Tape<Arc<Head>, Piece, Arc<Ending>>;

/// All flights that can be boarded.
pub(crate) type Board = flight::Flights<Fingerprint, Flight, RandomState>;

/// The provider's side of a flight: flies, and writes what comes on its tape.
pub(crate) type Pump = BoxFuture<'static, ()>;

/// How the provider began to answer, or that it did not.
pub(crate) struct Head {
    /// Spent waiting for a permit.
    pub(crate) queue: Duration,
    /// How often the provider was asked.
    pub(crate) attempts: u16,
    pub(crate) outcome: Result<Answer, Refusal>,
}

/// The head of an answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// As the provider sent them, for the one who asks first.
    own: Mutex<Option<HeaderMap>>,
    /// The same, for everybody else, where others can come aboard.
    pub(crate) packed: Bytes,
    /// Of the body, if it is not there as it is.
    pub(crate) encoding: Option<String>,
    /// When the head was there.
    pub(crate) at: Instant,
    /// When the provider was asked.
    pub(crate) asked: Instant,
    /// A stream of events that can be read.
    pub(crate) events: bool,
    /// How long the body is, where that is known.
    pub(crate) length: Option<u64>,
}

impl Answer {
    /// With headers for everybody, or for one caller alone.
    pub(crate) fn new(
        status: StatusCode,
        headers: HeaderMap,
        shared: bool,
        times: (Instant, Instant),
    ) -> Answer {
        let (asked, at) = times;
        Answer {
            status,
            packed: if shared { pack(&headers) } else { Bytes::new() },
            encoding: encoding(&headers),
            own: Mutex::new(Some(headers)),
            at,
            asked,
            events: false,
            length: None,
        }
    }

    /// As a stream of events or not, with a body of that length.
    pub(crate) fn coming(self, events: bool, length: Option<u64>) -> Answer {
        Answer { events, length, ..self }
    }

    /// The provider's headers.
    pub(crate) fn headers(&self) -> HeaderMap {
        let own = self.own.lock().take();
        own.unwrap_or_else(|| unpack(&self.packed, |_| true))
    }
}

/// The encoding of an answer that is not there as it is.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = headers.get(header::CONTENT_ENCODING)?.to_str().ok()?.trim().to_ascii_lowercase();
    (encoding != "identity").then_some(encoding)
}

/// A piece of an answer's body.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// An event that tells usage and nothing else: only for who asked for it.
    pub(crate) usage_only: bool,
    /// Between this piece and the next one an event of ours can stand.
    pub(crate) boundary: bool,
}

/// How a flight ended.
pub(crate) struct Ending {
    /// What the answer said of itself.
    pub(crate) watch: Watch,
    /// Why it is not whole.
    pub(crate) failure: Option<Refusal>,
    pub(crate) at: Instant,
    /// How long the answer may be kept and given to others; none where it may not.
    pub(crate) keep: Option<Duration>,
}

/// In which form a flight brings its answer.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// The provider was asked for a stream.
    pub(crate) streams: bool,
    /// The answer tells its usage.
    pub(crate) tells_usage: bool,
    /// It does so because the gate asked for it, and not the caller who started the flight.
    pub(crate) strip_usage: bool,
}

/// A flight.
pub(crate) struct Flight {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) form: Form,
    pub(crate) tape: Arc<Tape>,
    /// While its only passenger drives it.
    pump: Mutex<Option<Pump>>,
    /// It is in a task of its own.
    free: Arc<AtomicBool>,
    /// The call goes on for the sake of the cache when nobody waits for it any more.
    finish_abandoned: bool,
    landed: AtomicBool,
}

impl Flight {
    pub(crate) fn new(
        dialect: &'static dyn Dialect,
        form: Form,
        tape: Arc<Tape>,
        pump: Pump,
        free: Arc<AtomicBool>,
        finish_abandoned: bool,
    ) -> Flight {
        let pump = Mutex::new(Some(pump));
        Flight { dialect, form, tape, pump, free, finish_abandoned, landed: AtomicBool::new(false) }
    }

    /// Whether a caller who wants a stream, and its usage, can still come aboard.
    pub(crate) fn fits(&self, streams: bool, usage: bool) -> bool {
        (self.form.streams || !streams)
            && (self.form.tells_usage || !usage)
            && self.tape.keeps()
            && self.tape.ending().is_none_or(|ending| {
                ending.failure.is_none() && ending.keep.is_some_and(|keep| ending.at.elapsed() < keep)
            })
    }
}

impl Aircraft for Flight {
    fn abandon(&self) {
        let pump = self.pump.lock().take();
        drop(pump);
        self.tape.abandon();
    }
}

/// A caller's place on a flight.
pub(crate) struct Seat {
    seat: flight::Seat<Fingerprint, Flight, RandomState>,
    reader: Reader,
    gate: Arc<Gateway>,
}

/// How a caller got its answer.
pub(crate) enum Aboard {
    /// On a flight of its own making.
    Led(Seat),
    /// On somebody else's.
    Joined(Seat),
    /// Not at all: there is an answer already.
    Kept(Arc<Kept>),
}

/// Boards a flight, or finds an answer that is kept, or starts a flight.
pub(crate) fn board(
    gate: &Arc<Gateway>,
    key: Fingerprint,
    fits: impl FnMut(&Flight) -> bool,
    kept: impl FnOnce() -> Option<Arc<Kept>>,
    start: impl FnOnce() -> Flight,
) -> Aboard {
    match gate.board.board(key, fits, kept, start) {
        Boarded::Led(seat) => Aboard::Led(Seat::take(gate, seat)),
        Boarded::Kept(kept) => Aboard::Kept(kept),
        Boarded::Joined(seat) => {
            let seat = Seat::take(gate, seat);
            seat.set_free();
            Aboard::Joined(seat)
        }
    }
}

impl Seat {
    /// The only seat there will ever be.
    pub(crate) fn alone(gate: &Arc<Gateway>, flight: Flight) -> Seat {
        Seat::take(gate, flight::Seat::alone(flight))
    }

    fn take(gate: &Arc<Gateway>, seat: flight::Seat<Fingerprint, Flight, RandomState>) -> Seat {
        let reader = seat.craft().tape.reader();
        Seat { seat, reader, gate: gate.clone() }
    }

    pub(crate) fn flight(&self) -> &Flight {
        self.seat.craft()
    }

    fn tape(&self) -> &Tape {
        &self.flight().tape
    }

    /// Moves the flight into a task of its own, where it is not in one.
    fn set_free(&self) {
        let flight = self.flight();
        let Some(pump) = flight.pump.lock().take() else { return };
        flight.free.store(true, Ordering::Release);
        let crew = flight.finish_abandoned.then(|| self.seat.another());
        let (tape, handle, gate) = (flight.tape.clone(), self.seat.handle(), self.gate.clone());
        self.gate.tasks.spawn(async move {
            let abandoned = std::future::poll_fn(|cx| tape.poll_abandoned(cx));
            tokio::select! {
                biased;
                () = pump => {}
                () = abandoned => return,
            }
            if let Some(handle) = handle {
                land(&gate, handle.craft(), handle.key(), || handle.close());
            }
            drop(crew);
        });
    }

    /// The head of the answer.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Arc<Head>> {
        if let Some(head) = self.tape().try_head(&self.reader) {
            return Poll::Ready(head);
        }
        self.drive(cx);
        self.tape().poll_head(&self.reader, cx)
    }

    /// The next piece of the body, or the ending.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next<Piece, Arc<Ending>>> {
        if let Some(next) = self.tape().try_next(&self.reader) {
            return Poll::Ready(next);
        }
        self.drive(cx);
        self.tape().poll_next(&self.reader, cx)
    }

    /// The ending, without the pieces before it.
    pub(crate) fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<Arc<Ending>> {
        if let Some(ending) = self.tape().ending() {
            return Poll::Ready(ending);
        }
        self.drive(cx);
        self.tape().poll_ending(&self.reader, cx)
    }

    /// What has come without waiting.
    pub(crate) fn try_next(&mut self) -> Option<Next<Piece, Arc<Ending>>> {
        self.tape().try_next(&self.reader)
    }

    fn drive(&self, cx: &mut Context<'_>) {
        let mut slot = self.flight().pump.lock();
        if let Some(pump) = &mut *slot
            && pump.as_mut().poll(cx).is_ready()
        {
            *slot = None;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let flight = self.flight();
        flight.tape.leave(&self.reader);
        if let Some(key) = self.seat.key() {
            land(&self.gate, flight, key, || self.seat.close());
            // Worth finishing: a crew takes it over.
            if flight.finish_abandoned && flight.tape.ending().is_none() {
                self.set_free();
            }
        }
    }
}

/// Keeps the answer of a flight that is over, where it may be kept, and then takes the flight off the board: whoever
/// comes in between finds one of the two.
fn land(gate: &Gateway, flight: &Flight, key: &Fingerprint, close: impl FnOnce()) {
    let Some(ending) = flight.tape.ending() else { return };
    if flight.landed.swap(true, Ordering::AcqRel) {
        return;
    }
    if ending.keep.is_some() {
        gate.kept.keep(*key, Keeping { flight, ending: &ending });
    }
    close();
}
