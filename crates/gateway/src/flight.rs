//! What one call, or many equal ones, get from a provider: a flight, and the seats of those who wait for it.
//!
//! While a flight has one seat, that seat drives it: no task, no hop, and dropping the seat drops the call to the
//! provider. When a second one boards, the flight moves into a task of its own, so that nobody's pace or leaving is
//! anybody else's. The last seat to be given up ends it, wherever it runs.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use futures_util::future::BoxFuture;
use guard::flight::{self, Aircraft, Boarded};
use guard::tape::{self, Next, Reader};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;
use wire::dialect::Dialect;
use wire::fingerprint::Fingerprint;
use wire::relay::Watch;

use crate::gateway::Gateway;
use crate::headers::{pack, unpack};
use crate::kept::Keeping;
use crate::net::life::Step;
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

/// What a flight and its passengers know of each other.
#[derive(Default)]
pub(crate) struct Progress {
    /// The call that began the flight.
    pub(crate) call: Uuid,
    /// How often the provider was asked until now.
    pub(crate) attempts: AtomicU16,
    /// When it was first asked.
    pub(crate) asked: OnceLock<Instant>,
    /// The flight is in a task of its own. Until then, whoever drives it asks for one piece after the other.
    pub(crate) free: AtomicBool,
    /// Whoever began the flight has left without the tokens that it will have cost: the next one counts them.
    pub(crate) unpaid: AtomicBool,
}

/// A flight.
pub(crate) struct Flight {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) form: Form,
    pub(crate) tape: Arc<Tape>,
    pub(crate) progress: Arc<Progress>,
    /// While its only passenger drives it.
    pump: Mutex<Option<Pump>>,
    /// The call goes on for the sake of the cache when nobody waits for it any more.
    finish_abandoned: bool,
    /// Its answer is kept, where it may be. Locked while that is done: nobody gives up the last seat meanwhile.
    landed: Mutex<bool>,
}

impl Flight {
    pub(crate) fn new(
        dialect: &'static dyn Dialect,
        form: Form,
        tape: Arc<Tape>,
        progress: Arc<Progress>,
        pump: Pump,
        finish_abandoned: bool,
    ) -> Flight {
        let pump = Mutex::new(Some(pump));
        Flight { dialect, form, tape, progress, pump, finish_abandoned, landed: Mutex::new(false) }
    }

    pub(crate) fn attempts(&self) -> u16 {
        self.progress.attempts.load(Ordering::Relaxed)
    }

    /// Whether a caller who wants a stream, and its usage, and an answer no older than that, can still come aboard.
    pub(crate) fn fits(&self, streams: bool, usage: bool, max_age: Option<Duration>) -> bool {
        (self.form.streams || !streams)
            && (self.form.tells_usage || !usage)
            && self.tape.keeps()
            && self.tape.ending().is_none_or(|ending| {
                let age = ending.at.elapsed();
                ending.failure.is_none()
                    && ending.keep.is_some_and(|keep| age < keep)
                    && max_age.is_none_or(|most| age <= most)
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
pub(crate) enum Aboard<N> {
    /// On a flight of its own making.
    Led(Seat),
    /// On somebody else's.
    Joined(Seat),
    /// Not at all: there is something better.
    Not(N),
}

/// Boards a flight, or finds something `instead`, or starts a flight.
pub(crate) fn board<N>(
    gate: &Arc<Gateway>,
    key: Fingerprint,
    mut fits: impl FnMut(&Flight) -> bool,
    instead: impl FnOnce() -> Option<N>,
    start: impl FnOnce() -> Flight,
) -> Aboard<N> {
    // A reader is taken while the flight is looked at: later its beginning may be gone.
    let reader = Cell::new(None);
    let take = |flight: &Flight| {
        let taken = flight.tape.reader();
        let has_it = taken.is_some();
        reader.set(taken);
        has_it
    };
    let led = || {
        let flight = start();
        take(&flight);
        flight
    };
    let boarded = gate.board.board(key, |flight| fits(flight) && take(flight), instead, led);
    let sit = |seat| Seat { seat, reader: reader.take().expect("taken aboard"), gate: gate.clone() };
    match boarded {
        Boarded::Led(seat) => Aboard::Led(sit(seat)),
        Boarded::Kept(instead) => Aboard::Not(instead),
        Boarded::Joined(seat) => {
            let seat = sit(seat);
            seat.set_free();
            Aboard::Joined(seat)
        }
    }
}

impl Seat {
    /// The only seat there will ever be.
    pub(crate) fn alone(gate: &Arc<Gateway>, flight: Flight) -> Seat {
        let reader = flight.tape.reader().expect("nothing has come yet");
        Seat { seat: flight::Seat::alone(flight), reader, gate: gate.clone() }
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
        flight.progress.free.store(true, Ordering::Release);
        let mut crew = flight.finish_abandoned.then(|| self.seat.another());
        let (tape, handle, gate) = (flight.tape.clone(), self.seat.handle(), self.gate.clone());
        self.gate.tasks.spawn(async move {
            let mut pump = pump;
            let over = std::future::poll_fn(|cx| {
                // Once the gate is cut, whoever is aboard leaves with an error of its own.
                if gate.life.step() >= Step::Cut {
                    crew = None;
                } else if pump.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                // What can't be kept is not worth finishing for nobody.
                crew.take_if(|_| !tape.keeps());
                tape.poll_abandoned(cx).map(|()| false)
            });
            if !over.await {
                return;
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

    /// The ending; none for who was cast off. The pieces before it stay on the tape as long as that keeps them. Once
    /// it does not, they are `taken` from there: they would hold everybody up.
    pub(crate) fn poll_ending(
        &mut self,
        cx: &mut Context<'_>,
        taken: &mut Vec<Bytes>,
    ) -> Poll<Option<Arc<Ending>>> {
        if let Some(ending) = self.tape().ending() {
            return Poll::Ready(Some(ending));
        }
        self.drive(cx);
        let tape = self.tape();
        if let Poll::Ready(ending) = tape.poll_ending(&self.reader, cx) {
            return Poll::Ready(Some(ending));
        }
        // Looked at after the waker was left, so that no piece comes unseen in between.
        while !tape.keeps() {
            match ready!(tape.poll_next(&self.reader, cx)) {
                Next::Frame(piece) => taken.push(piece.bytes),
                Next::End(ending) => return Poll::Ready(Some(ending)),
                Next::CastOff => return Poll::Ready(None),
            }
        }
        Poll::Pending
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
            if flight.finish_abandoned && flight.tape.keeps() && flight.tape.ending().is_none() {
                self.set_free();
            }
        }
    }
}

/// Keeps the answer of a flight that is over, where it may be kept, and then takes the flight off the board: whoever
/// comes in between finds one of the two.
fn land(gate: &Gateway, flight: &Flight, key: &Fingerprint, close: impl FnOnce()) {
    let Some(ending) = flight.tape.ending() else { return };
    let mut landed = flight.landed.lock();
    if std::mem::replace(&mut *landed, true) {
        return;
    }
    if ending.keep.is_some() {
        gate.kept.keep(*key, Keeping { flight, ending: &ending });
    }
    close();
}
