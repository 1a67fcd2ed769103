//! The provider's side of a flight: what comes is looked at once and written on the flight's tape, for everybody
//! aboard.
//!
//! A stream of events is written in whole events. Whatever becomes of the pump (an end, an error, a panic, being
//! dropped), its tape gets an ending.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use smallvec::SmallVec;
use tokio::time::{Instant, timeout};
use wire::dialect::Dialect;
use wire::relay::{LongBody, Out, Relay, Watch};
use wire::translate::Stream as Crossed;

use crate::attempt::{Flown, Landed, Plan, Trial, fly, is_events, is_packed};
use crate::flight::{Answer, Ending, Head, Piece, Progress, Pump, Tape};
use crate::gateway::{Model, Provider};
use crate::kept::Rule;
use crate::refusal::{Refusal, Wait};
use crate::upstream::exchange::{Patience, Source, chain};

/// How long a reader may hold the others up, once read frames are not kept any more.
const STUCK: Duration = Duration::from_secs(30);
/// A tape's segments: the first one, and the largest. Small, because most flights have one reader and few frames.
const SEGMENT: usize = 1 << 10;
const LARGEST_SEGMENT: usize = 16 << 10;
/// What a piece takes beside its bytes.
const PIECE: usize = 64;

/// What the pump knows of the call beside the plan of its flight.
pub(crate) struct Manner {
    pub(crate) dialect: &'static dyn Dialect,
    /// The gate asked for usage that the caller did not ask for.
    pub(crate) marks_usage: bool,
    /// Others can come aboard.
    pub(crate) shared: bool,

    /// Under which conditions the answer is kept.
    pub(crate) keep: Option<Rule>,
}

/// Flies, and writes what comes on `tape`.
pub(crate) fn pump(plan: Plan, manner: Manner, tape: Arc<Tape>) -> Pump {
    let (model, progress, patience) = (plan.model.clone(), plan.progress.clone(), plan.patience);
    let provider = plan.provider.clone();
    // What the way to the answer needs is gone once the answer comes: a stream is open for much longer.
    let flight = Box::pin(fly(plan));
    let job = Job {
        unfinished: Unfinished(tape.clone()),
        writer: Writer {
            tape,
            shared: manner.shared,
            segment: BytesMut::new(),
            size: SEGMENT,
            last: None,
            // The head comes first.
            pushed: true,
        },
        model,
        provider,
        progress,
        patience,
        manner,
    };
    Box::pin(job.run(flight))
}

struct Job {
    unfinished: Unfinished,
    writer: Writer,
    model: Arc<Model>,
    provider: Arc<Provider>,
    progress: Arc<Progress>,
    patience: Patience,
    manner: Manner,
}

/// Sees to it that a tape has an ending.
struct Unfinished(Arc<Tape>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0.ending().is_none() {
            fail(&self.0, Flown { queue: Duration::ZERO, attempts: 0, outcome: Err(Refusal::Internal) });
        }
    }
}

fn fail(tape: &Tape, flown: Flown) {
    let Err(refusal) = flown.outcome else { return };
    tape.put_head(Arc::new(Head {
        queue: flown.queue,
        attempts: flown.attempts,
        outcome: Err(refusal.clone()),
    }));
    finish(tape, Watch::default(), Some(refusal), None);
}

fn finish(tape: &Tape, watch: Watch, failure: Option<Refusal>, keep: Option<Duration>) {
    tape.finish(Arc::new(Ending { watch, failure, at: Instant::now(), keep }));
}

impl Job {
    async fn run(mut self, flight: impl Future<Output = Flown> + Unpin) {
        let flown = flight.await;
        // The rest of an answer is looked after in a box of its own, and all else is gone by then.
        let Some(mut stream) = self.begin(flown) else { return };
        let failure = self.stream(&mut stream).await;
        self.end(&mut stream, failure);
    }

    /// Tells the head of an answer, and all of one that is whole. Returns one that is not.
    fn begin(&mut self, flown: Flown) -> Option<Box<Stream>> {
        let Flown { queue, attempts, outcome } = flown;
        let landed = match outcome {
            Ok(landed) => landed,
            refused => {
                fail(&self.unfinished.0, Flown { queue, attempts, outcome: refused });
                return None;
            }
        };
        let Landed { mut head, at, asked, mut pieces, rest, mut trial, back } = landed;
        let events = rest.is_some() && is_events(&head.headers);
        let packed = is_packed(&head.headers);
        if let Some(back) = &back {
            back.head(&mut head);
            if rest.is_none() {
                let whole = joined(std::mem::take(&mut pieces));
                match back.answer(&mut head, &whole) {
                    Ok(body) => pieces.push(body),
                    Err(refusal) => {
                        trial.failed(&refusal, true);
                        fail(&self.unfinished.0, Flown { queue, attempts, outcome: Err(refusal) });
                        return None;
                    }
                }
            }
        }
        let come: usize = pieces.iter().map(Bytes::len).sum();
        let length = match &rest {
            Some(_) if back.is_some() => None,
            None => Some(come as u64),
            Some(rest) => rest.length().map(|left| left + come as u64),
        };
        let status = head.status;
        let answer = Answer::new(status, head.headers, self.manner.shared, (asked, at));
        let answer = answer.coming(events, length);
        self.writer.tape.put_head(Arc::new(Head { queue, attempts, outcome: Ok(answer) }));
        let Some(rest) = rest else {
            let bytes = joined(pieces);
            let mut watch = Watch::default();
            if !packed && (self.manner.dialect.reads_body() || !status.is_success()) {
                self.manner.dialect.read_answer(&bytes, &mut watch);
            }
            trial.answered(status, watch.error.is_some());
            let keep = self.keep(status, packed, &watch, std::iter::once(&bytes[..]));
            self.writer.whole(bytes);
            finish(&self.unfinished.0, self.discreet(watch), None, keep);
            return None;
        };
        let body = match events {
            true => Body::Events {
                relay: Box::new(Relay::new(self.manner.dialect, self.manner.marks_usage)),
                crossing: back.map(|back| Box::new(back.stream())),
            },
            false => Body::Bytes { ends: None, reads: self.manner.dialect.reads_body() && !packed },
        };
        let mut stream = Box::new(Stream {
            tape: self.writer.tape.clone(),
            status,
            packed,
            body,
            trial,
            rest,
            last_in: at,
            longest_silence: Duration::ZERO,
        });
        for piece in pieces {
            // The first pieces of a stream are shorter than any bound.
            let _taken = stream.body.take(piece, &mut self.writer);
        }
        Some(stream)
    }

    /// Puts what comes on the tape, to the end. Says why that is not the answer's.
    async fn stream(&mut self, stream: &mut Stream) -> Option<Refusal> {
        loop {
            // Only behind something to read: who is driven and finds nothing would wait for ever.
            if self.writer.pushed && !self.progress.free.load(Ordering::Acquire) {
                self.writer.pushed = false;
                pause().await;
            }
            self.room().await;
            let piece = poll_fn(|cx| {
                if let Poll::Ready(next) = stream.rest.poll_chunk(cx) {
                    let whole = next.is_some() && stream.rest.is_end();
                    if whole {
                        // A body of known length ends with its last piece: nobody asks for another one.
                        stream.rest.finish();
                    }
                    return Poll::Ready(Ok((next, whole)));
                }
                stream.rest.set_alarm((stream.last_in + self.patience.stall).min(self.patience.end()));
                ready!(stream.rest.poll_alarm(cx));
                let now = Instant::now();
                Poll::Ready(Err(self.patience.over(Wait::Stall, now, now.duration_since(stream.last_in))))
            });
            match piece.await {
                Ok((Some(Ok(piece)), whole)) => {
                    let now = Instant::now();
                    stream.longest_silence = stream.longest_silence.max(now.duration_since(stream.last_in));
                    stream.last_in = now;
                    if let Err(refusal) = stream.body.take(piece, &mut self.writer) {
                        return Some(refusal);
                    }
                    if whole {
                        return None;
                    }
                }
                Ok((Some(Err(broken)), _)) => return Some(Refusal::Upstream { cause: chain(&*broken) }),
                Ok((None, _)) => return None,
                Err(refusal) => return Some(refusal),
            }
        }
    }

    /// Where the slowest reader paces the flight: waits for it, but not for ever.
    async fn room(&self) {
        let tape = &self.writer.tape;
        while timeout_if_pending(tape).await {
            // Where nobody is further, nobody is held up; the connections of those who read bound how long they may
            // take nothing. As soon as one of them goes on, the others have as long again.
            tape.cast_off();
        }
    }

    fn end(&mut self, stream: &mut Stream, failure: Option<Refusal>) {
        let tape = self.unfinished.0.clone();
        if failure.is_none() {
            self.model.stall.record(stream.longest_silence);
        }
        let (watch, failure) = match &mut stream.body {
            Body::Bytes { ends, .. } => {
                let watch = ends.as_ref().map_or_else(Watch::default, |ends| ends.read(self.manner.dialect));
                (watch, failure)
            }
            Body::Events { relay, crossing } => {
                let failure = failure.or_else(|| {
                    if let Some(crossing) = &mut *crossing {
                        let mut said = Vec::new();
                        crossing.finish(&mut said);
                        relay.feed(said.into(), &mut self.writer);
                        self.writer.mark(relay.at_boundary());
                    }
                    relay.finish(&mut self.writer);
                    self.writer.mark(relay.at_boundary());
                    let watch = relay.watch();
                    if watch.has_usage && watch.usage.reasoning > 0 {
                        self.model.note_reasoning();
                    }
                    let over = watch.terminal || !self.manner.dialect.is_generation();
                    let torn = "it ended the stream before the answer was complete";
                    (!over).then(|| Refusal::Upstream { cause: torn.to_owned() })
                });
                (watched(relay, crossing.as_deref()), failure)
            }
        };
        match &failure {
            None => stream.trial.answered(stream.status, watch.error.is_some() || watch.garbled),
            Some(refusal) => stream.trial.failed(refusal, true),
        }
        let keep = match (&failure, tape.frames()) {
            (None, Some(frames)) => {
                let frames = frames.iter().map(|piece| &piece.bytes[..]);
                self.keep(stream.status, stream.packed, &watch, frames)
            }
            _ => None,
        };
        finish(&tape, self.discreet(watch), failure, keep);
    }

    /// A provider that quotes the gate's own key does not get it into a log.
    fn discreet(&self, mut watch: Watch) -> Watch {
        let hidden = |said: &str| self.provider.credential.as_ref()?.hidden_in(said);
        if let Some(hidden) = watch.error.as_deref().and_then(hidden) {
            watch.error = Some(hidden.into());
        }
        watch
    }

    fn keep<'a>(
        &self,
        status: StatusCode,
        packed: bool,
        watch: &Watch,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Duration> {
        let rule = self.manner.keep.as_ref().filter(|_| status == StatusCode::OK && !packed)?;
        rule.keep(self.manner.dialect, watch, frames)
    }
}

/// Pending once, with nobody to wake: whoever drives the flight polls it again when it wants more.
async fn pause() {
    let mut paused = false;
    poll_fn(|_| match std::mem::replace(&mut paused, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Whether the writer has waited for long.
async fn timeout_if_pending(tape: &Tape) -> bool {
    let ready = poll_fn(|cx| Poll::Ready(tape.poll_room(cx).is_ready())).await;
    !ready && Box::pin(timeout(STUCK, poll_fn(|cx| tape.poll_room(cx)))).await.is_err()
}

/// An answer that comes in pieces.
struct Stream {
    tape: Arc<Tape>,
    status: StatusCode,
    packed: bool,
    body: Body,
    trial: Trial,
    rest: Source,
    last_in: Instant,
    longest_silence: Duration,
}

/// Nobody waits any more: what the answer has said of itself until now is told all the same.
impl Drop for Stream {
    fn drop(&mut self) {
        if self.tape.ending().is_none() {
            let watch = match &self.body {
                Body::Events { relay, crossing } => watched(relay, crossing.as_deref()),
                Body::Bytes { .. } => Watch::default(),
            };
            finish(&self.tape, watch, Some(Refusal::Internal), None);
        }
    }
}

enum Body {
    Events {
        relay: Box<Relay>,
        /// The provider's stream is translated before it is looked at.
        crossing: Option<Box<Crossed>>,
    },
    /// A plain answer that is too long to be held, or something opaque.
    Bytes { ends: Option<LongBody>, reads: bool },
}

/// What a stream has said of itself. A translated one may have told its client less than the provider has counted.
fn watched(relay: &Relay, crossing: Option<&Crossed>) -> Watch {
    let mut watch = relay.watch().clone();
    if let Some(crossing) = crossing {
        watch.has_usage = crossing.usage().is_some();
        watch.usage = crossing.usage().unwrap_or_default();
    }
    watch
}

impl Body {
    fn take(&mut self, piece: Bytes, writer: &mut Writer) -> Result<(), Refusal> {
        match self {
            Body::Events { relay, crossing: None } => {
                relay.feed(piece, writer);
                writer.mark(relay.at_boundary());
            }
            Body::Events { relay, crossing: Some(crossing) } => {
                let mut said = Vec::new();
                let fits = crossing.feed(&piece, &mut said);
                relay.feed(said.into(), writer);
                writer.mark(relay.at_boundary());
                fits.map_err(|long| Refusal::Upstream { cause: long.to_string() })?;
            }
            Body::Bytes { ends, reads } => {
                if *reads {
                    match ends {
                        Some(ends) => ends.add(&piece),
                        None => *ends = Some(LongBody::new(&piece)),
                    }
                }
                writer.put(piece, false);
                writer.mark(false);
            }
        }
        Ok(())
    }
}

/// Puts pieces on the tape. Where they may stay there for long they are copied together first: each would keep the
/// whole buffer that it was read into.
struct Writer {
    tape: Arc<Tape>,
    shared: bool,
    segment: BytesMut,
    size: usize,
    /// The piece that was put last, and its weight.
    last: Option<(Piece, usize)>,
    /// There is something on the tape since the pump has paused.
    pushed: bool,
}

impl Writer {
    /// The one piece of an answer that is over.
    fn whole(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let weight = bytes.len() + PIECE;
            self.tape.push(Piece { bytes, usage_only: false, boundary: false }, weight);
        }
    }

    fn put(&mut self, bytes: Bytes, usage_only: bool) {
        let weight = bytes.len();
        let (bytes, weight) = if self.shared { self.copy(&bytes) } else { (bytes, weight) };
        // More comes, so that the one before it ended where an event ends.
        self.mark(true);
        self.last = Some((Piece { bytes, usage_only, boundary: true }, weight + PIECE));
    }

    fn copy(&mut self, bytes: &[u8]) -> (Bytes, usize) {
        let mut weight = 0;
        if self.segment.capacity() < bytes.len() {
            let size = self.size.max(bytes.len());
            self.segment = BytesMut::with_capacity(size);
            self.size = (self.size * 2).min(LARGEST_SEGMENT);
            weight = size;
        }
        self.segment.extend_from_slice(bytes);
        (self.segment.split().freeze(), weight)
    }

    /// Says whether an event of ours may follow what was put last: only then it goes on the tape.
    fn mark(&mut self, boundary: bool) {
        if let Some((piece, weight)) = self.last.take() {
            self.tape.push(Piece { boundary, ..piece }, weight);
            self.pushed = true;
        }
    }
}

impl Out for Writer {
    fn answer(&mut self, bytes: Bytes) {
        self.put(bytes, false);
    }

    fn usage(&mut self, bytes: Bytes) {
        self.put(bytes, true);
    }
}

/// A body in one piece, copied only if it came in several.
fn joined(mut pieces: SmallVec<[Bytes; 1]>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}
