//! An answer that is passed on while it comes.
//!
//! A stream of events is relayed in whole events; between two of them, and only there, the gate may say
//! something of its own: a sign of life when the provider is silent, or the error that ends a stream which
//! broke. Any other body is passed in the pieces in which it comes, and one that breaks resets the connection.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::{Instant, Sleep};
use wire::dialect::{Dialect, Fault};
use wire::relay::{LongBody, Relay};

use crate::attempt::{Flight, Flown, Landed, Trial, is_events};
use crate::call::Call;
use crate::gateway::Model;
use crate::net::life::Step;
use crate::refusal::{Refusal, Wait};
use crate::upstream::exchange::{Patience, Source};

/// Between two signs of life, where nothing else was said.
const SIGN: Duration = Duration::from_secs(15);

/// The body of an answer that is not here yet.
pub(crate) struct Flow {
    call: Box<Call>,
    source: From,
    /// For a stream of events.
    relay: Option<Relay>,
    /// For a plain answer that is too long to be held.
    ends: Option<LongBody>,
    dialect: &'static dyn Dialect,
    out: VecDeque<Bytes>,
    patience: Patience,
    /// After how much silence the client gets a sign of life; none for what is no stream of events.
    keep_alive: Option<Duration>,
    model: Arc<Model>,
    length: Option<u64>,
    /// Once the provider has answered.
    trial: Option<Trial>,
    last_in: Instant,
    last_out: Instant,
    longest_silence: Duration,
}

enum From {
    /// The client has its head, the provider has not answered.
    Waiting(Flight, Pin<Box<Sleep>>),
    Coming(Box<Source>),
    Over,
}

/// What a flow is made of.
pub(crate) struct Parts {
    pub(crate) call: Box<Call>,
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) relay: Option<Relay>,
    pub(crate) patience: Patience,
    /// For a stream of events.
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) model: Arc<Model>,
}

impl Flow {
    /// An answer whose head has come. `pieces` go out first.
    pub(crate) fn coming(parts: Parts, pieces: VecDeque<Bytes>, rest: Source, trial: Trial) -> Box<Flow> {
        let length =
            rest.length().map(|left| left + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        let mut flow = Flow::new(parts, From::Coming(Box::new(rest)));
        flow.trial = Some(trial);
        if flow.relay.is_none() {
            flow.length = length;
        }
        for piece in pieces {
            flow.take(piece);
        }
        flow
    }

    /// A stream whose provider is still silent when the client needs a sign of life.
    pub(crate) fn waiting(parts: Parts, flight: Flight) -> Box<Flow> {
        let tick = Box::pin(tokio::time::sleep(parts.keep_alive.unwrap_or(SIGN)));
        let mut flow = Flow::new(parts, From::Waiting(flight, tick));
        flow.live_sign(Instant::now());
        flow
    }

    fn new(parts: Parts, source: From) -> Box<Flow> {
        let Parts { call, dialect, relay, patience, keep_alive, model } = parts;
        let now = Instant::now();
        Box::new(Flow {
            call,
            source,
            keep_alive,
            relay,
            ends: None,
            dialect,
            out: VecDeque::new(),
            patience,
            model,
            length: None,
            trial: None,
            last_in: now,
            last_out: now,
            longest_silence: Duration::ZERO,
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
            if self.is_cut(cx) {
                if let Some(reset) = self.fail(Refusal::Cut) {
                    return Poll::Ready(Some(Err(reset)));
                }
                continue;
            }
            let step = match &mut self.source {
                From::Over => return Poll::Ready(None),
                From::Waiting(..) => self.poll_flight(cx),
                From::Coming(_) => self.poll_source(cx),
            };
            match step {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(refusal)) => {
                    if let Some(reset) = self.fail(refusal) {
                        return Poll::Ready(Some(Err(reset)));
                    }
                }
            }
        }
    }

    fn is_cut(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(moves) = &mut self.call.moves {
            moves.poll_step(cx, &self.call.gate.life);
        }
        self.call.gate.life.step() >= Step::Cut && !matches!(self.source, From::Over)
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let From::Coming(source) = &mut self.source else { return Poll::Ready(Ok(())) };
        match source.poll_chunk(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                let now = Instant::now();
                self.longest_silence = self.longest_silence.max(now.duration_since(self.last_in));
                self.last_in = now;
                self.last_out = now;
                // A body of known length ends with its last piece: nobody asks for another one.
                let whole = source.is_end();
                if whole {
                    source.finish(cx);
                }
                self.take(piece);
                Poll::Ready(if whole { self.end() } else { Ok(()) })
            }
            Poll::Ready(Some(Err(broken))) => {
                let cause = crate::upstream::exchange::chain(&broken);
                Poll::Ready(Err(Refusal::Upstream { cause }))
            }
            Poll::Ready(None) => Poll::Ready(self.end()),
            Poll::Pending => self.poll_silence(cx),
        }
    }

    /// Nothing came: is it time for a sign of life, or is the patience over?
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let From::Coming(source) = &mut self.source else { return Poll::Ready(Ok(())) };
        let over = (self.last_in + self.patience.stall).min(self.patience.end());
        let sign = self.keep_alive.map(|after| self.last_out + after);
        source.set_alarm(sign.map_or(over, |sign| sign.min(over)));
        std::task::ready!(source.poll_alarm(cx));
        let now = Instant::now();
        if now >= over {
            return Poll::Ready(Err(self.patience.over(Wait::Stall, now, now.duration_since(self.last_in))));
        }
        self.live_sign(now);
        Poll::Ready(Ok(()))
    }

    fn live_sign(&mut self, now: Instant) {
        self.last_out = now;
        if self.relay.as_ref().is_some_and(Relay::at_boundary) {
            self.out.push_back(Bytes::from_static(self.dialect.keep_alive()));
        }
    }

    fn poll_flight(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        let From::Waiting(flight, tick) = &mut self.source else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(flown) = flight.as_mut().poll(cx) {
            return Poll::Ready(self.landed(flown));
        }
        std::task::ready!(tick.as_mut().poll(cx));
        let now = Instant::now();
        if let Some(after) = self.keep_alive {
            tick.as_mut().reset(now + after);
        }
        self.live_sign(now);
        Poll::Ready(Ok(()))
    }

    /// The provider has answered after all. Its status can't be told any more; an error becomes an event.
    fn landed(&mut self, flown: Flown) -> Result<(), Refusal> {
        self.call.record.queue = flown.queue;
        self.call.record.attempts = flown.attempts;
        let Landed { head, at, pieces, rest, mut trial, .. } = flown.outcome?;
        self.call.record.first_byte = Some(at.duration_since(self.call.arrived));
        self.last_in = at;
        if head.status.is_success() && is_events(&head.headers) {
            self.trial = Some(trial);
            self.source = rest.map_or(From::Over, |rest| From::Coming(Box::new(rest)));
            pieces.into_iter().for_each(|piece| self.take(piece));
            return if matches!(self.source, From::Over) { self.end() } else { Ok(()) };
        }
        let body: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let mut watch = wire::relay::Watch::default();
        self.dialect.read_answer(&body, &mut watch);
        // The verdict on the attempt is the answer's, not that of the stream which ends with it.
        trial.answered(head.status, true);
        let said = watch.error.as_deref().unwrap_or("no reason given").to_owned();
        Err(Refusal::Upstream { cause: format!("it answered {} ({said})", head.status.as_u16()) })
    }

    fn take(&mut self, piece: Bytes) {
        match &mut self.relay {
            Some(relay) => relay.feed(piece, &mut self.out),
            None => {
                if self.dialect.reads_body() {
                    match &mut self.ends {
                        Some(ends) => ends.add(&piece),
                        None => self.ends = Some(LongBody::new(&piece)),
                    }
                }
                self.out.push_back(piece);
            }
        }
    }

    /// The body came to a clean end. A stream of events must also have said that it is over.
    fn end(&mut self) -> Result<(), Refusal> {
        self.source = From::Over;
        self.model.stall.record(self.longest_silence);
        let status = StatusCode::from_u16(self.call.record.status).unwrap_or_default();
        let Some(relay) = &mut self.relay else {
            if let Some(ends) = &self.ends {
                self.call.learned(&ends.read(self.dialect));
            }
            self.judge(|trial| trial.answered(status, false));
            self.call.delivered();
            return Ok(());
        };
        relay.finish(&mut self.out);
        let watch = relay.watch();
        self.call.learned(watch);
        if watch.usage.reasoning > 0 {
            self.model.note_reasoning();
        }
        if watch.terminal || !self.dialect.is_generation() {
            let failed = watch.error.is_some() || watch.garbled;
            self.judge(|trial| trial.answered(status, failed));
            self.call.delivered();
            return Ok(());
        }
        Err(Refusal::Upstream { cause: "it ended the stream before the answer was complete".to_owned() })
    }

    fn judge(&mut self, with: impl FnOnce(&mut Trial)) {
        if let Some(trial) = &mut self.trial {
            with(trial);
        }
    }

    /// Ends the answer with an error: as an event where one can stand, else by resetting the connection.
    fn fail(&mut self, refusal: Refusal) -> Option<io::Error> {
        self.source = From::Over;
        if let Some(relay) = &self.relay {
            self.call.learned(relay.watch());
        }
        self.judge(|trial| trial.failed(&refusal, true));
        self.call.failed_with(&refusal);
        self.call.delivered();
        match &self.relay {
            Some(relay) if relay.at_boundary() => {
                let id = self.call.request_id().to_owned();
                let event =
                    refusal.as_fault(&id, |fault: &Fault<'_>| self.dialect.error_event(fault, relay.watch()));
                self.out.push_back(event);
                None
            }
            _ => Some(io::Error::other(refusal.message())),
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // A client that left in the middle: what was seen until then is booked.
        if !matches!(self.source, From::Over)
            && let Some(relay) = &self.relay
        {
            self.call.learned(relay.watch());
        }
    }
}
