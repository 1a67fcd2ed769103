//! One request over one connection, and its answer.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use guard::alarm::Alarm;
use guard::lanes::Permit;
use http::{Request, StatusCode, response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::Upload;
use super::connect::{Connect, Io};
use super::h2::{Boarded, H2Place, H2Pool};
use super::link::{Failed, Link};
use super::pool::Pool;
use super::sending::Sending;
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

/// Why a body broke off.
pub(crate) type Broken = Box<dyn Error + Send + Sync>;

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
    H1 { link: Option<Box<Link>>, pool: Arc<Pool> },
    H2 { incoming: Incoming, alarm: Alarm, _place: H2Place },
}

impl Route {
    /// Sends `request`, at `now`, and waits for the head of its answer.
    ///
    /// A resting connection that turns out to be closed before a byte was written is replaced once by a new
    /// one: the provider has seen nothing, so this is no attempt.
    pub async fn send(
        &self,
        request: Request<Upload>,
        permit: Permit,
        now: Instant,
        patience: &Patience,
    ) -> Result<Answer, Refusal> {
        match &self.h2 {
            Some(h2) => Box::pin(self.send_h2(h2, request, permit, patience)).await,
            None => self.send_h1(Sending::new(request), permit, now, patience).await,
        }
    }

    async fn send_h1(
        &self,
        mut sending: Sending,
        permit: Permit,
        mut sent: Instant,
        patience: &Patience,
    ) -> Result<Answer, Refusal> {
        let mut rested = self.pool.take(sent);
        loop {
            let mut link = match rested.take() {
                Some(link) => link,
                None => {
                    let link = Link::open(Box::pin(self.open(patience, false)).await?);
                    sent = Instant::now();
                    link
                }
            };
            match ask(&mut link, sending, sent, patience).await {
                Ok(head) => {
                    refuse_switch(&head)?;
                    let carrier = Carrier::H1 { link: Some(link), pool: self.pool.clone() };
                    let body = Source { carrier, permit: Some(permit) };
                    return Ok(Answer { head, body, at: Instant::now() });
                }
                Err(Unanswered::Unsent(unsent)) if link.reused => sending = *unsent,
                Err(Unanswered::Unsent(_)) => {
                    return Err(Refusal::Upstream { cause: "connection closed".into() });
                }
                Err(Unanswered::Broke(refusal)) => return Err(refusal),
            }
        }
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
                _ => return Err(broke_off(turn.as_ref(), &failed.into_error())),
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
        Opening(Refusal::Upstream { cause: chain(&broken) })
    }
}

enum Unanswered {
    /// No byte was written; here is the request.
    Unsent(Box<Sending>),
    Broke(Refusal),
}

/// Drives one HTTP/1.1 exchange to the head of its answer, in the caller's own task.
async fn ask(
    link: &mut Link,
    sending: Sending,
    sent: Instant,
    patience: &Patience,
) -> Result<response::Parts, Unanswered> {
    let turn = sending.turn();
    link.begin(sending);
    link.alarm.set(due(turn.as_ref(), sent, patience));
    let outcome = poll_fn(|cx| {
        if let Poll::Ready(outcome) = link.poll_head(cx) {
            return Poll::Ready(Some(outcome));
        }
        loop {
            ready!(link.alarm.poll_ring(cx));
            // While a body passes, the deadline moves with it.
            let due = due(turn.as_ref(), sent, patience);
            if due <= Instant::now() {
                return Poll::Ready(None);
            }
            link.alarm.set(due);
        }
    });
    match outcome.await {
        Some(Ok(head)) => Ok(head),
        Some(Err(Failed::Unsent(unsent))) => Err(Unanswered::Unsent(unsent)),
        Some(Err(Failed::Broke(broken))) => Err(Unanswered::Broke(broke_off(turn.as_ref(), &broken))),
        None => Err(Unanswered::Broke(over(turn.as_ref(), sent, patience))),
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
fn broke_off(turn: Option<&Turn>, broken: &(dyn Error + 'static)) -> Refusal {
    turn.and_then(Turn::fault).unwrap_or_else(|| Refusal::Upstream { cause: chain(broken) })
}

/// A provider may say that it goes on to another protocol only to who has asked for that.
fn refuse_switch(head: &response::Parts) -> Result<(), Refusal> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::Upstream { cause: "it switched protocols unasked (status 101)".to_owned() });
    }
    Ok(())
}

impl Source {
    /// The next bytes, in the pieces in which they came; `None` after a whole body.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let data = match &mut self.carrier {
            Carrier::H1 { link: Some(link), .. } => {
                ready!(link.poll_data(cx)).map(|data| data.map_err(Broken::from))
            }
            Carrier::H1 { link: None, .. } => None,
            Carrier::H2 { incoming, .. } => ready!(next_data(incoming, cx)),
        };
        match &data {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.release(),
            None => self.finish(),
        }
        Poll::Ready(data)
    }

    /// Whether nothing more will come.
    pub fn is_end(&self) -> bool {
        match &self.carrier {
            Carrier::H1 { link, .. } => link.as_ref().is_none_or(|link| link.is_end()),
            Carrier::H2 { incoming, .. } => incoming.is_end_stream(),
        }
    }

    /// How many bytes will come, where the provider said so.
    pub fn length(&self) -> Option<u64> {
        match &self.carrier {
            Carrier::H1 { link, .. } => link.as_ref().map_or(Some(0), |link| link.length()),
            Carrier::H2 { incoming, .. } => incoming.size_hint().exact(),
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
        self.alarm().map_or(Poll::Pending, |alarm| alarm.poll_ring(cx))
    }

    /// A body that was read to its end: the connection can carry the next call.
    pub fn finish(&mut self) {
        if let Carrier::H1 { link, pool } = &mut self.carrier
            && let Some(link) = link.take()
        {
            pool.put(link);
        }
        // After the connection: whoever gets the permit finds it in the pool.
        self.permit = None;
    }

    fn release(&mut self) {
        if let Carrier::H1 { link, .. } = &mut self.carrier {
            *link = None;
        }
        self.permit = None;
    }

    fn alarm(&mut self) -> Option<&mut Alarm> {
        match &mut self.carrier {
            Carrier::H1 { link, .. } => link.as_mut().map(|link| &mut link.alarm),
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
