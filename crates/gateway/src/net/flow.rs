//! An answer that is passed on while it comes.
//!
//! A stream of events comes off its flight in whole events; between two of them, and only there, the gate may say
//! something of its own: a sign of life when the provider is silent, or the error that ends a stream which broke.
//! Any other body is passed in the pieces in which it comes, and one that breaks resets the connection.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use guard::tape::Next;
use tokio::time::Instant;
use wire::dialect::Fault;
use wire::relay::Watch;

use crate::answer::Aloft;
use crate::call::Call;
use crate::flight::{Ending, Head, Piece, Seat};
use crate::refusal::Refusal;

/// The body of an answer that is not here yet.
pub(crate) struct Flow {
    call: Box<Call>,
    /// None once all is said.
    seat: Option<Seat>,
    aloft: Box<Aloft>,
    /// The client has its head, the provider has not answered.
    waits: bool,
    /// The client gets a stream of events.
    events: bool,
    /// An event of ours may stand here.
    boundary: bool,
    over: bool,
    out: VecDeque<Bytes>,
    length: Option<u64>,
    sent: u64,
    last_in: Instant,
    last_out: Instant,
    /// Once it is known.
    ending: Option<Arc<Ending>>,
}

impl Flow {
    /// An answer whose head has come.
    pub(crate) fn coming(
        call: Box<Call>,
        seat: Seat,
        aloft: Box<Aloft>,
        events: bool,
        length: Option<u64>,
    ) -> Box<Flow> {
        let length = length.filter(|_| !events);
        let mut flow = Flow::new(call, seat, aloft);
        (flow.events, flow.length, flow.waits) = (events, length, false);
        flow
    }

    /// A stream whose provider is still silent when the client needs a sign of life.
    pub(crate) fn waiting(call: Box<Call>, seat: Seat, aloft: Box<Aloft>) -> Box<Flow> {
        let mut flow = Flow::new(call, seat, aloft);
        flow.live_sign(Instant::now());
        flow
    }

    fn new(call: Box<Call>, seat: Seat, aloft: Box<Aloft>) -> Box<Flow> {
        let now = Instant::now();
        Box::new(Flow {
            call,
            seat: Some(seat),
            aloft,
            waits: true,
            events: true,
            boundary: true,
            over: false,
            out: VecDeque::new(),
            length: None,
            sent: 0,
            last_in: now,
            last_out: now,
            ending: None,
        })
    }

    /// Bytes to come, where that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next piece for the client.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(piece) = self.out.pop_front() {
                return Poll::Ready(Some(Ok(piece)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            let step = if self.call.is_cut(cx) {
                Err(Refusal::Cut)
            } else {
                match self.advance(cx) {
                    Poll::Ready(step) => step,
                    Poll::Pending => ready!(self.poll_silence(cx)),
                }
            };
            if let Err(refusal) = step
                && let Some(reset) = self.fail(&refusal)
            {
                return Poll::Ready(Some(Err(reset)));
            }
        }
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let Some(seat) = &mut self.seat else { return Poll::Ready(Ok(())) };
        if self.waits {
            let head = ready!(seat.poll_head(cx));
            return Poll::Ready(self.landed(&head));
        }
        Poll::Ready(match ready!(seat.poll_next(cx)) {
            Next::Frame(piece) => {
                self.take(piece);
                self.look_for_end()
            }
            Next::End(ending) => self.end(ending),
            Next::CastOff => Err(Refusal::read_too_slowly()),
        })
    }

    /// A body of known length ends with its last piece: nobody asks for another one.
    fn look_for_end(&mut self) -> Result<(), Refusal> {
        if self.length.is_none_or(|length| self.sent < length) {
            return Ok(());
        }
        self.call.delivered();
        match self.seat.as_mut().and_then(Seat::try_next) {
            Some(Next::End(ending)) => self.end(ending),
            _ => Ok(()),
        }
    }

    fn take(&mut self, piece: Piece) {
        let now = Instant::now();
        self.last_in = now;
        self.boundary = piece.boundary;
        if piece.usage_only && self.aloft.strip_usage {
            return;
        }
        self.last_out = now;
        self.sent += piece.bytes.len() as u64;
        self.out.push_back(piece.bytes);
    }

    /// Nothing came: is it time for a sign of life, or is the caller's patience over?
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let since = if self.waits { self.call.arrived } else { self.last_in };
        let over = self.aloft.due(self.waits, since);
        let sign = self.aloft.keep_alive.filter(|_| self.events).map(|after| self.last_out + after);
        let Some(due) = [over, sign].into_iter().flatten().min() else { return Poll::Pending };
        ready!(self.call.poll_due(cx, due));
        let now = Instant::now();
        if over.is_some_and(|over| now >= over) {
            return Poll::Ready(Err(Refusal::Deadline { after: now.duration_since(self.call.arrived) }));
        }
        self.live_sign(now);
        Poll::Ready(Ok(()))
    }

    fn live_sign(&mut self, now: Instant) {
        self.last_out = now;
        if self.boundary {
            self.out.push_back(Bytes::from_static(self.aloft.dialect.keep_alive()));
        }
    }

    /// The provider has answered after all. Its status can't be told any more; an error becomes an event.
    fn landed(&mut self, head: &Head) -> Result<(), Refusal> {
        self.waits = false;
        self.call.flown(head);
        let answer = head.outcome.as_ref().map_err(Refusal::clone)?;
        self.call.first_byte(answer.at);
        self.last_in = Instant::now();
        // This caller has a head already; nothing else needs what the map holds.
        drop(answer.headers());
        if answer.status.is_success() && answer.events {
            return Ok(());
        }
        let mut body = Vec::new();
        while let Some(Next::Frame(piece)) = self.seat.as_mut().and_then(Seat::try_next) {
            body.extend_from_slice(&piece.bytes);
        }
        let mut watch = Watch::default();
        self.aloft.dialect.read_answer(&body, &mut watch);
        let said = watch.error.as_deref().unwrap_or("no reason given").to_owned();
        Err(Refusal::Upstream { cause: format!("it answered {} ({said})", answer.status.as_u16()) })
    }

    /// The flight is over, well or not.
    fn end(&mut self, ending: Arc<Ending>) -> Result<(), Refusal> {
        self.call.learned(&ending.watch);
        let failure = ending.failure.clone();
        self.ending = Some(ending);
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.over = true;
        self.call.delivered();
        Ok(())
    }

    /// Ends the answer with an error: as an event where one can stand, else by resetting the connection.
    fn fail(&mut self, refusal: &Refusal) -> Option<io::Error> {
        self.over = true;
        self.leave();
        self.call.failed_with(refusal);
        self.call.delivered();
        if !self.events || !self.boundary {
            return Some(io::Error::other(refusal.message()));
        }
        let id = self.call.request_id();
        let event =
            refusal.as_fault(id.to_str().unwrap_or_default(), |fault: &Fault<'_>| match &self.ending {
                Some(ending) => self.aloft.dialect.error_event(fault, &ending.watch),
                None => self.aloft.dialect.error_event(fault, &Watch::default()),
            });
        self.out.push_back(event);
        None
    }

    /// Gives up the seat. What the answer had said of itself when its last caller left is booked.
    fn leave(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let tape = seat.flight().tape.clone();
        drop(seat);
        if let Some(ending) = tape.ending() {
            self.call.learned(&ending.watch);
            self.ending = Some(ending);
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if !self.over {
            self.leave();
        }
    }
}
