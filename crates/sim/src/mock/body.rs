//! Sends the pieces of an answer, each at its time and in a write of its own.
//!
//! Invariant: the call is in flight until its last piece is handed over, or this body is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use super::events::Pieces;
use super::hash::draw_fraction;
use super::options::Jitter;
use super::play::Drawn;
use super::stats::Call;

/// How an answer ends.
pub(crate) enum Ending {
    Whole,
    /// The connection breaks.
    Cut,
    /// Silence until the phase is over, then the connection breaks.
    Stall(Drawn),
}

/// A wait that nobody sees the end of.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// When the pieces are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) first: Duration,
    pub(crate) interval: Duration,
    pub(crate) jitter: Jitter,
    pub(crate) seed: u64,
}

impl Pace {
    pub(crate) const AT_ONCE: Self =
        Self { first: Duration::ZERO, interval: Duration::ZERO, jitter: Jitter::None, seed: 0 };

    pub(crate) fn jittered(&self, time: Duration, at: u64) -> Duration {
        if time.is_zero() {
            return time;
        }
        // A clock cannot be set any time ahead.
        self.jitter.apply(time, draw_fraction(self.seed, at)).min(LONGEST)
    }
}

/// The connection broke off because the script said so.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("broken off by the script")
    }
}

impl std::error::Error for Broken {}

pub(crate) struct MockBody {
    pieces: Pieces,
    next: usize,
    sent: usize,
    paced: u64,
    pace: Pace,
    step: Step,
    sleep: Option<Pin<Box<Sleep>>>,
    ending: Ending,
    silence: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    call: Option<Call>,
    /// Each event tells when it was sent.
    stamps: bool,
}

/// Where it is between two pieces.
#[derive(Clone, Copy)]
enum Step {
    Sent,
    Sleeping,
    Due,
}

impl MockBody {
    pub(crate) fn new(pieces: Pieces, pace: Pace, ending: Ending, call: Option<Call>) -> Self {
        let mut body = Self {
            pieces,
            next: 0,
            sent: 0,
            paced: 0,
            pace,
            step: Step::Sent,
            sleep: None,
            ending,
            silence: None,
            call,
            stamps: false,
        };
        body.finish_if_all_is_sent();
        body
    }

    pub(crate) fn stamped(self, stamps: bool) -> Self {
        Self { stamps, ..self }
    }

    /// A plain body that belongs to no call.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new(Pieces::whole(bytes.into()), Pace::AT_ONCE, Ending::Whole, None)
    }

    fn all_sent(&self) -> bool {
        self.next == self.pieces.marks.len()
    }

    fn finish_if_all_is_sent(&mut self) {
        if self.all_sent() && matches!(self.ending, Ending::Whole) {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(call) = self.call.take() {
            call.finish();
        }
    }

    /// The wait before the next piece, which the first and the paced ones have.
    fn pause(&mut self) -> Duration {
        let paced = self.pieces.marks.get(self.next).is_some_and(|mark| mark.paced);
        self.paced += u64::from(paced);
        match (self.next, self.paced) {
            (0, _) => self.pace.first,
            (_, chunk) if paced && chunk > 1 => self.pace.jittered(self.pace.interval, chunk),
            _ => Duration::ZERO,
        }
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Step::Sent = self.step {
            let pause = self.pause();
            if !pause.is_zero() {
                let due = Instant::now() + pause;
                self.sleep.get_or_insert_with(|| Box::pin(sleep(pause))).as_mut().reset(due);
                self.step = Step::Sleeping;
            } else {
                self.step = Step::Due;
                if self.next > 0 {
                    // Makes the server write out what it has, so that every event is a write of its own.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
        if let (Step::Sleeping, Some(sleep)) = (self.step, &mut self.sleep) {
            ready!(sleep.as_mut().poll(cx));
            self.step = Step::Due;
        }
        Poll::Ready(())
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &self.ending {
            Ending::Whole => return Poll::Ready(None),
            Ending::Cut => {}
            Ending::Stall(phase) => {
                let phase = phase.clone();
                let silence = self.silence.get_or_insert_with(|| Box::pin(phase.ended()));
                ready!(silence.as_mut().poll(cx));
            }
        }
        self.finish();
        Poll::Ready(Some(Err(Broken)))
    }
}

impl http_body::Body for MockBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.all_sent() && matches!(self.ending, Ending::Whole) {
            return Poll::Ready(None);
        }
        ready!(self.poll_due(cx));
        let Some(mark) = self.pieces.marks.get(self.next).copied() else {
            return self.poll_end(cx);
        };
        let piece = self.pieces.bytes.slice(self.sent..mark.end);
        self.sent = mark.end;
        self.next += 1;
        self.step = Step::Sent;
        self.finish_if_all_is_sent();
        let piece = if self.stamps { stamp(&piece, SystemTime::now()) } else { piece };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.all_sent() && matches!(self.ending, Ending::Whole)
    }

    fn size_hint(&self) -> SizeHint {
        match (self.pieces.marks.len(), &self.ending) {
            (0 | 1, Ending::Whole) => SizeHint::with_exact((self.pieces.bytes.len() - self.sent) as u64),
            _ => SizeHint::default(),
        }
    }
}

/// The event with the time as the first field of its data, if that is an object. On the clock of the machine, which
/// whoever reads the stream has too.
fn stamp(event: &Bytes, now: SystemTime) -> Bytes {
    const DATA: &[u8] = b"data: {";
    let Some(at) = event.windows(DATA.len()).position(|window| window == DATA) else { return event.clone() };
    let micros = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
    let (before, after) = event.split_at(at + DATA.len());
    let comma = if after.starts_with(b"}") { "" } else { "," };
    [before, format!("\"mock_sent_us\":{micros}{comma}").as_bytes(), after].concat().into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::super::events::EventWriter;
    use super::super::stats::Counters;
    use super::*;

    #[test]
    fn an_event_is_stamped_in_its_data() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_micros(7);
        let stamped = |event: &'static str| stamp(&Bytes::from_static(event.as_bytes()), now);
        assert_eq!(
            stamped("event: a\ndata: {\"b\":1}\n\n"),
            "event: a\ndata: {\"mock_sent_us\":7,\"b\":1}\n\n"
        );
        assert_eq!(stamped("data: {}\n\n"), "data: {\"mock_sent_us\":7}\n\n");
        assert_eq!(stamped("data: [DONE]\n\n"), "data: [DONE]\n\n");
    }

    fn three() -> Pieces {
        let mut writer = EventWriter::default();
        for _ in 0..3 {
            writer.raw(b"x", true);
        }
        writer.finish()
    }

    fn pace(first: u64, interval: u64) -> Pace {
        Pace { first: Duration::from_secs(first), interval: Duration::from_secs(interval), ..Pace::AT_ONCE }
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_come_at_their_times() {
        let began = Instant::now();
        let mut body = MockBody::new(three(), pace(5, 2), Ending::Whole, None);
        let mut times = Vec::new();
        while let Some(Ok(_)) = body.frame().await {
            times.push(began.elapsed().as_secs());
        }
        assert_eq!(times, [5, 7, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_call_is_over_with_the_last_piece() {
        let counters = Counters::new();
        let call = counters.arrive("/", None);
        let mut body = MockBody::new(three(), Pace::AT_ONCE, Ending::Whole, Some(call));
        for left in [1, 1, 0] {
            body.frame().await.unwrap().unwrap();
            assert_eq!(counters.snapshot().in_flight, left);
        }
        drop(body);
        assert_eq!(counters.snapshot().hang_ups.count, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_it_early_is_a_hang_up() {
        let counters = Counters::new();
        let call = counters.arrive("/", None);
        let mut body = MockBody::new(three(), Pace::AT_ONCE, Ending::Whole, Some(call));
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert_eq!(counters.snapshot().hang_ups.count, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_is_an_error_and_no_hang_up() {
        let counters = Counters::new();
        let call = counters.arrive("/", None);
        let body = MockBody::new(three().first_half(), Pace::AT_ONCE, Ending::Cut, Some(call));
        assert!(body.collect().await.is_err());
        assert_eq!(counters.snapshot().hang_ups.count, 0);
    }
}
