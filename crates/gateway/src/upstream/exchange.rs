//! One request over one connection, and its answer.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use guard::alarm::Alarm;
use guard::lanes::Permit;
use http::{Request, Response, StatusCode, response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::Upload;
use super::bare::{self, Bare, Broken};
use super::connect::{Connect, Io};
use super::h2::{Boarded, H2Place, H2Pool};
use super::pool::{Link, Pool};
use super::upload::Turn;
use crate::refusal::{Refusal, Wait};
use crate::tasks::Tasks;
use wire::base::BaseUrl;

/// How often a call that the provider has not seen is sent again over HTTP/2.
const REDONE: usize = 4;

/// No file, no memory for a socket, no local port.
const LACKS: [i32; 5] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL];

/// Where a provider account is reached, and how.
pub struct Route {
    /// The provider's address.
    pub base: BaseUrl,
    /// Resting HTTP/1.1 connections.
    pub pool: Arc<Pool>,
    /// HTTP/2 connections, where the operator chose that protocol.
    pub h2: Option<Arc<H2Pool>>,
    /// How connections are opened.
    pub connector: Arc<dyn Connect>,
    /// Where an HTTP/2 connection's own task runs.
    pub tasks: Tasks,
}

/// How long one call may wait, and for what. All instants count from the arrival of the call.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// When the call arrived.
    pub arrived: Instant,
    /// For everything, all waits included.
    pub total: Duration,
    /// For a connection.
    pub connect: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two bytes.
    pub stall: Duration,
    /// The caller asked for a `first_byte` that is shorter than ours: its expiry is no evidence against the
    /// provider.
    pub callers_first_byte: bool,
    /// Likewise for `stall`.
    pub callers_stall: bool,
}

impl Patience {
    /// When the whole call must be over.
    pub fn end(&self) -> Instant {
        self.arrived + self.total
    }

    /// What to say when nothing came by `now`.
    pub fn over(&self, wait: Wait, now: Instant, waited: Duration) -> Refusal {
        let callers = match wait {
            Wait::Connect => false,
            Wait::FirstByte => self.callers_first_byte,
            Wait::Stall => self.callers_stall,
        };
        if callers || now >= self.end() {
            Refusal::Deadline { after: now.duration_since(self.arrived) }
        } else {
            Refusal::UpstreamTimeout { wait, after: waited }
        }
    }
}

/// An answer whose head has come and whose body may still be on its way.
pub struct Answer {
    /// Status and headers as the provider sent them.
    pub head: response::Parts,
    /// The rest.
    pub body: Source,
    /// When the head was there.
    pub at: Instant,
}

/// The rest of an answer. Dropping it before the end closes the connection, or resets the stream: that is how
/// a provider learns that nobody listens any more.
pub struct Source {
    carrier: Carrier,
    /// Held until the last byte, so that the cap counts what the provider feels.
    permit: Option<Permit>,
}

enum Carrier {
    H1 {
        incoming: Incoming,
        link: Option<Box<Link>>,
        pool: Arc<Pool>,
    },
    /// A stream of events over HTTP/1.1.
    Bare {
        bare: Option<Box<Bare>>,
        pool: Arc<Pool>,
    },
    H2 {
        incoming: Incoming,
        alarm: Alarm,
        _place: H2Place,
    },
}

impl Route {
    /// Sends `request`, at `now`, and waits for the head of its answer; `streams` says that it asks for a stream.
    ///
    /// A resting connection that turns out to be closed before a byte was written is replaced once by a new
    /// one: the provider has seen nothing, so this is no attempt.
    pub async fn send(
        &self,
        request: Request<Upload>,
        streams: bool,
        permit: Permit,
        now: Instant,
        patience: &Patience,
    ) -> Result<Answer, Refusal> {
        match &self.h2 {
            Some(h2) => Box::pin(self.send_h2(h2, request, permit, patience)).await,
            None => self.send_h1(request, streams, permit, now, patience).await,
        }
    }

    async fn send_h1(
        &self,
        mut request: Request<Upload>,
        streams: bool,
        permit: Permit,
        mut sent: Instant,
        patience: &Patience,
    ) -> Result<Answer, Refusal> {
        let mut rested = self.pool.take(sent);
        loop {
            let mut link = match rested.take() {
                Some(link) => link,
                None => {
                    let open = async { Link::open(self.open(patience, false).await?).await.map_err(broke) };
                    let link = Box::pin(open).await?;
                    sent = Instant::now();
                    link
                }
            };
            match ask(&mut link, request, streams, sent, patience).await {
                Ok(response) => {
                    refuse_switch(&response)?;
                    let (head, incoming) = response.into_parts();
                    let body = Source { carrier: self.carrier(&head, incoming, link), permit: Some(permit) };
                    return Ok(Answer { head, body, at: Instant::now() });
                }
                Err(Failed::Unsent(unsent)) if link.reused => request = *unsent,
                Err(Failed::Unsent(_)) => {
                    return Err(Refusal::Upstream { cause: "connection closed".into() });
                }
                Err(Failed::Broke(refusal)) => return Err(refusal),
            }
        }
    }

    /// Decides who reads the body that follows this head.
    fn carrier(&self, head: &response::Parts, incoming: Incoming, link: Box<Link>) -> Carrier {
        let pool = self.pool.clone();
        if link.brink.holds() && bare::can_read(head) && !incoming.is_end_stream() {
            return Carrier::Bare { bare: Some(Box::new(link.bare(head))), pool };
        }
        link.brink.release();
        Carrier::H1 { incoming, link: Some(link), pool }
    }

    /// A call that the provider has not seen, since it refused the stream or closed the connection, goes to
    /// another connection, and that is no attempt either.
    async fn send_h2(
        &self,
        pool: &Arc<H2Pool>,
        mut request: Request<Upload>,
        permit: Permit,
        patience: &Patience,
    ) -> Result<Answer, Refusal> {
        let mut redone = 0;
        loop {
            let (place, mut sender) = self.board(pool, redone > 1, patience).await?;
            let sent = Instant::now();
            let turn = request.body().turn();
            let copy = copy(&request);
            let mut answer = pin!(sender.try_send_request(request));
            let outcome = loop {
                let due = due(turn.as_ref(), sent, patience);
                match timeout_at(due, &mut answer).await {
                    // While a body passes, the deadline moves with it.
                    Err(_) if due < self::due(turn.as_ref(), sent, patience) => {}
                    outcome => break outcome,
                }
            };
            let mut failed = match outcome {
                Ok(Ok(response)) => {
                    let (head, incoming) = response.into_parts();
                    let carrier = Carrier::H2 { incoming, alarm: Alarm::new(), _place: place };
                    return Ok(Answer {
                        head,
                        body: Source { carrier, permit: Some(permit) },
                        at: Instant::now(),
                    });
                }
                Ok(Err(failed)) => failed,
                Err(_) => return Err(over(turn.as_ref(), sent, patience)),
            };
            let unsent = failed.take_message();
            let unseen = match &unsent {
                Some(_) => Some(Unseen::Closed),
                None => Unseen::of(failed.error(), copy.as_ref()),
            };
            match unseen {
                Some(Unseen::Refused) => place.refused(),
                Some(Unseen::Closed) => place.closed(),
                None => {}
            }
            request = match unsent.or(copy) {
                Some(again) if unseen.is_some() && redone < REDONE => again,
                _ => return Err(broke_off(turn.as_ref(), failed.into_error())),
            };
            redone += 1;
        }
    }

    /// Finds a place on an HTTP/2 connection, within the time that a connection may take.
    async fn board(&self, pool: &Arc<H2Pool>, apart: bool, patience: &Patience) -> Result<Boarded, Refusal> {
        let start = Instant::now();
        let due = (start + patience.connect).min(patience.end());
        let open = || async { self.open(patience, true).await.map_err(Opening) };
        match timeout_at(due, pool.board(apart, &self.tasks, open)).await {
            Ok(boarded) => boarded.map_err(|failed| failed.0),
            Err(_) => {
                let now = Instant::now();
                Err(patience.over(Wait::Connect, now, now.duration_since(start)))
            }
        }
    }

    async fn open(&self, patience: &Patience, h2: bool) -> Result<Io, Refusal> {
        let start = Instant::now();
        let due = (start + patience.connect).min(patience.end());
        match timeout_at(due, self.connector.connect(&self.base, h2)).await {
            Ok(Ok(io)) => Ok(io),
            Ok(Err(failed)) => Err(match lack(&failed) {
                Some(lack) => Refusal::Exhausted { cause: lack.to_string() },
                None => Refusal::Upstream {
                    cause: format!("{} can't be reached: {}", self.base.authority(), chain(&failed)),
                },
            }),
            Err(_) => {
                let now = Instant::now();
                Err(patience.over(Wait::Connect, now, now.duration_since(start)))
            }
        }
    }
}

/// A call that is to be sent again, where its body is still there.
fn copy(request: &Request<Upload>) -> Option<Request<Upload>> {
    let mut copy = Request::new(request.body().copy()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// Why the provider has not seen a call that was sent over HTTP/2.
#[derive(Clone, Copy)]
enum Unseen {
    /// The stream was refused before processing.
    Refused,
    /// The connection took no more streams.
    Closed,
}

impl Unseen {
    fn of(broken: &hyper::Error, copy: Option<&Request<Upload>>) -> Option<Unseen> {
        // The library let go of a call that waited for its stream, before any of its body was sent.
        if broken.is_user() {
            return copy.filter(|copy| !copy.body().is_end_stream()).map(|_| Unseen::Closed);
        }
        let cause = Error::source(broken)?.downcast_ref::<h2::Error>()?;
        if !cause.is_remote() {
            None
        } else if cause.is_go_away() {
            // Streams up to the one that GOAWAY names end in other ways.
            Some(Unseen::Closed)
        } else {
            (cause.reason() == Some(h2::Reason::REFUSED_STREAM)).then_some(Unseen::Refused)
        }
    }
}

/// Carries a refusal through an opening that may also fail in hyper.
struct Opening(Refusal);

impl From<hyper::Error> for Opening {
    fn from(broken: hyper::Error) -> Opening {
        Opening(broke(broken))
    }
}

enum Failed {
    /// No byte was written; here is the request.
    Unsent(Box<Request<Upload>>),
    Broke(Refusal),
}

/// Drives one HTTP/1.1 exchange to the head of its answer, in the caller's own task.
async fn ask(
    link: &mut Link,
    request: Request<Upload>,
    streams: bool,
    sent: Instant,
    patience: &Patience,
) -> Result<Response<Incoming>, Failed> {
    let turn = request.body().turn();
    let Link { sender, line, turns, brink, alarm, .. } = link;
    // A body that passes may still be on its way when the answer begins.
    if streams && turn.is_none() {
        brink.watch();
    }
    alarm.set(due(turn.as_ref(), sent, patience));
    let mut answer = pin!(sender.try_send_request(request));
    let mut step = |cx: &mut Context<'_>| {
        // The connection first: on the way out it takes the request, on the way back it brings the head.
        let open = line.drive(cx);
        if let Poll::Ready(outcome) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        debug_assert!(open, "a connection that ends answers the request it holds");
        loop {
            ready!(alarm.poll_ring(cx));
            // While a body passes, the deadline moves with it.
            let due = due(turn.as_ref(), sent, patience);
            if due <= Instant::now() {
                return Poll::Ready(None);
            }
            alarm.set(due);
        }
    };
    let outcome = poll_fn(|cx| turns.poll(cx, &mut step)).await;
    match outcome {
        Some(Ok(response)) => Ok(response),
        Some(Err(mut failed)) => Err(match failed.take_message() {
            Some(unsent) => Failed::Unsent(Box::new(unsent)),
            None => Failed::Broke(broke_off(turn.as_ref(), failed.into_error())),
        }),
        None => Err(Failed::Broke(over(turn.as_ref(), sent, patience))),
    }
}

/// Until when to wait for the head of an answer.
fn due(turn: Option<&Turn>, sent: Instant, patience: &Patience) -> Instant {
    match turn {
        None => (sent + patience.first_byte).min(patience.end()),
        Some(turn) => turn.due(sent, patience),
    }
}

/// What to say when that is over.
fn over(turn: Option<&Turn>, sent: Instant, patience: &Patience) -> Refusal {
    let now = Instant::now();
    match turn {
        None => patience.over(Wait::FirstByte, now, now.duration_since(sent)),
        Some(turn) => turn.over(sent, now, patience),
    }
}

/// Why an exchange broke: the provider's connection, unless it was the caller's body.
fn broke_off(turn: Option<&Turn>, broken: hyper::Error) -> Refusal {
    turn.and_then(Turn::fault).unwrap_or_else(|| broke(broken))
}

/// A provider may say that it goes on to another protocol only to who has asked for that.
fn refuse_switch(response: &Response<Incoming>) -> Result<(), Refusal> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::Upstream { cause: "it switched protocols unasked (status 101)".to_owned() });
    }
    Ok(())
}

impl Source {
    /// The next bytes, in the pieces in which they came; `None` after a whole body.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let polled = match &mut self.carrier {
            Carrier::H1 { incoming, link: Some(link), .. } => {
                let Link { line, turns, .. } = &mut **link;
                turns.poll(cx, |cx| match next_data(incoming, cx) {
                    Poll::Pending => {
                        line.drive(cx);
                        next_data(incoming, cx)
                    }
                    ready => ready,
                })
            }
            Carrier::Bare { bare: Some(bare), .. } => bare.poll_data(cx),
            Carrier::Bare { bare: None, .. } => Poll::Ready(None),
            Carrier::H1 { incoming, .. } | Carrier::H2 { incoming, .. } => next_data(incoming, cx),
        };
        let data = ready!(polled);
        match &data {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.release(),
            None => self.finish(cx),
        }
        Poll::Ready(data)
    }

    /// Whether nothing more will come.
    pub fn is_end(&self) -> bool {
        match &self.carrier {
            Carrier::H1 { incoming, .. } | Carrier::H2 { incoming, .. } => incoming.is_end_stream(),
            Carrier::Bare { bare, .. } => bare.as_ref().is_none_or(|bare| bare.is_end()),
        }
    }

    /// How many bytes will come, where the provider said so.
    pub fn length(&self) -> Option<u64> {
        match &self.carrier {
            Carrier::H1 { incoming, .. } | Carrier::H2 { incoming, .. } => incoming.size_hint().exact(),
            Carrier::Bare { .. } => None,
        }
    }

    /// Sets when `poll_alarm` rings.
    pub fn set_alarm(&mut self, at: Instant) {
        if let Some(alarm) = self.alarm() {
            alarm.set(at);
        }
    }

    /// Ready when the set instant has passed.
    pub fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.carrier {
            Carrier::H1 { link, .. } => link.as_mut().map_or(Poll::Pending, |link| {
                let Link { turns, alarm, .. } = &mut **link;
                turns.poll(cx, |cx| alarm.poll_ring(cx))
            }),
            Carrier::Bare { bare, .. } => {
                bare.as_mut().map_or(Poll::Pending, |bare| bare.alarm.poll_ring(cx))
            }
            Carrier::H2 { alarm, .. } => alarm.poll_ring(cx),
        }
    }

    /// A body that was read to its end: the connection can carry the next call.
    pub fn finish(&mut self, cx: &mut Context<'_>) {
        match &mut self.carrier {
            Carrier::H1 { link, pool, .. } => {
                if let Some(link) = link.take() {
                    pool.put(link, cx);
                }
            }
            Carrier::Bare { bare, pool } => {
                if let Some(bare) = bare.take() {
                    pool.put_bare(*bare, cx);
                }
            }
            Carrier::H2 { .. } => {}
        }
        // After the connection: whoever gets the permit finds it in the pool.
        self.permit = None;
    }

    fn release(&mut self) {
        match &mut self.carrier {
            Carrier::H1 { link, .. } => *link = None,
            Carrier::Bare { bare, .. } => *bare = None,
            Carrier::H2 { .. } => {}
        }
        self.permit = None;
    }

    fn alarm(&mut self) -> Option<&mut Alarm> {
        match &mut self.carrier {
            Carrier::H1 { link, .. } => link.as_mut().map(|link| &mut link.alarm),
            Carrier::Bare { bare, .. } => bare.as_mut().map(|bare| &mut bare.alarm),
            Carrier::H2 { alarm, .. } => Some(alarm),
        }
    }
}

/// The next bytes of a body. Empty pieces say nothing, and none of the protocols uses trailers.
fn next_data(incoming: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
    loop {
        match ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                _ => {}
            },
            Some(Err(broken)) => return Poll::Ready(Some(Err(broken.into()))),
            None => return Poll::Ready(None),
        }
    }
}

/// What this machine lacked, if that is why there is no connection: the provider has no part in it.
fn lack(failed: &io::Error) -> Option<&io::Error> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(failed);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            if io.raw_os_error().is_some_and(|code| LACKS.contains(&code)) {
                return Some(io);
            }
            // `source` would leave out the error that this one is made of.
            cause = io.get_ref().map(|inner| inner as &(dyn Error + 'static));
        } else {
            cause = error.source();
        }
    }
    None
}

fn broke(broken: hyper::Error) -> Refusal {
    Refusal::Upstream { cause: chain(&broken) }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    text
}
