//! Listening, and the one task that each connection has.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use guard::alarm::Alarm;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;
use wire::dialect::Shape;

use super::door::{Door, Watch};
use super::life::Step;
use super::reply::ReplyBody;
use crate::answer::after_panic;
use crate::gateway::Gateway;
use crate::pipeline;
use crate::stage::marks::Marks;
use crate::tasks::Tasks;
use crate::turn::Turns;

/// Connections that the kernel may hold while we are busy.
pub(crate) const BACKLOG: u32 = 4096;

/// Binds the data plane's address.
pub fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Serves one connection until it ends.
pub async fn attend<S>(gate: Arc<Gateway>, io: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let watch = Watch::new(gate.snapshot().config.header_timeout);
    let mut conn = Conn::Knocking(Some(Door::new(io, watch.clone())));
    let mut alarm = Alarm::new();
    let mut moves = gate.life.moves();
    let turns = Turns::default();
    let mut step = |cx: &mut Context<'_>| {
        // Woken by a step of the gate's life, among others: calls look at it when they are polled.
        if moves.poll_step(cx, &gate.life) == Some(Step::Closed) {
            conn.say_goodbye(&watch);
        }
        if conn.poll(cx, &gate, &watch).is_ready() {
            return Poll::Ready(());
        }
        alarm.set(watch.wakes_at());
        if alarm.poll_ring(cx).is_ready() {
            if watch.wakes_at() <= Instant::now() {
                watch.wakes(Instant::now());
            }
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    };
    poll_fn(|cx| turns.poll(cx, &mut step)).await;
}

type Io<S> = TokioIo<Door<S>>;

/// A connection, once its client has shown which protocol it speaks.
enum Conn<S> {
    Knocking(Option<Door<S>>),
    H1(Pin<Box<http1::Connection<Io<S>, Service>>>),
    H2(Pin<Box<http2::Connection<Io<S>, Service, Tasks>>>),
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Conn<S> {
    /// Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>, gate: &Arc<Gateway>, watch: &Arc<Watch>) -> Poll<()> {
        loop {
            match self {
                Conn::H1(conn) => return conn.as_mut().poll(cx).map(drop),
                Conn::H2(conn) => return conn.as_mut().poll(cx).map(drop),
                Conn::Knocking(door) => {
                    let Some(knocking) = door else { return Poll::Ready(()) };
                    let Some(speaks_h2) = std::task::ready!(knocking.poll_first(cx)) else {
                        return Poll::Ready(());
                    };
                    let Some(door) = door.take() else { return Poll::Ready(()) };
                    let service = Service { gate: gate.clone(), watch: watch.clone() };
                    *self = match speaks_h2 {
                        false => Conn::H1(Box::pin(h1().serve_connection(TokioIo::new(door), service))),
                        true => {
                            Conn::H2(Box::pin(h2(&gate.tasks).serve_connection(TokioIo::new(door), service)))
                        }
                    };
                    if speaks_h2 && gate.life.step() == Step::Closed {
                        self.say_goodbye(watch);
                    }
                }
            }
        }
    }

    /// Lets what runs come to its end and nothing new begin. Whoever has only just come in may still say what
    /// it wants, and gets an answer.
    fn say_goodbye(&mut self, watch: &Watch) {
        match self {
            Conn::Knocking(_) => watch.hurry(),
            Conn::H1(conn) => conn.as_mut().graceful_shutdown(),
            Conn::H2(conn) => conn.as_mut().graceful_shutdown(),
        }
    }
}

fn h1() -> http1::Builder {
    let mut server = http1::Builder::new();
    // The door bounds the head in time; the library's own timer would cost one re-arming per request. Answers
    // and events are small: one copy into one buffer is cheaper than a vectored write.
    server.header_read_timeout(None).writev(false);
    server
}

/// Calls at once on one HTTP/2 connection. Many clients send all that they have over one: what is beyond this
/// waits on their side, in steps as long as a call. The bound keeps what one connection may hold at all times,
/// in heads and in answers that its client does not take, to 64 MiB each, as much as one body may have; unread
/// bodies have the connection's window, 1 MiB, whatever the number of calls.
const H2_CALLS: u32 = 1024;
const H2_HEAD: u32 = 64 * 1024;
const H2_UNSENT: usize = 64 * 1024;
/// Calls that are taken back before anybody saw them, and those that break the protocol; a client with more of
/// them is making work for us, and its connection is closed. Neither grows with `H2_CALLS`: calls that are taken
/// back later are not counted here.
const H2_TAKEN_BACK: usize = 20;
const H2_BROKEN: usize = 1024;

fn h2(tasks: &Tasks) -> http2::Builder<Tasks> {
    let mut server = http2::Builder::new(tasks.clone());
    server
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_CALLS)
        .max_pending_accept_reset_streams(H2_TAKEN_BACK)
        .max_local_error_reset_streams(H2_BROKEN)
        .max_header_list_size(H2_HEAD)
        .max_send_buf_size(H2_UNSENT)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10));
    server
}

/// Hands the requests of one connection to the pipeline.
struct Service {
    gate: Arc<Gateway>,
    watch: Arc<Watch>,
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<ReplyBody>;
    type Error = std::convert::Infallible;
    type Future = Guarded;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (gate, watch) = (self.gate.clone(), self.watch.clone());
        let marks = Marks::of(request.headers());
        let shape = shape_of(&request, marks);
        let is_last = watch.is_last();
        Guarded { shape, is_last, serving: Box::pin(pipeline::serve(gate, watch, request, marks, shape)) }
    }
}

/// The error shape for a request that may get no further than its head.
fn shape_of(request: &Request<Incoming>, marks: Marks) -> Shape {
    let anthropic = marks.anthropic_version || request.uri().path().starts_with("/v1/messages");
    if anthropic { Shape::Anthropic } else { Shape::OpenAi }
}

/// A call whose panic, which would be a fault of ours, costs its caller a 500 and nobody else anything.
struct Guarded {
    shape: Shape,
    /// The connection ends after it, and its client is told so.
    is_last: bool,
    serving: BoxFuture<'static, Response<ReplyBody>>,
}

impl Future for Guarded {
    type Output = Result<Response<ReplyBody>, std::convert::Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.serving.as_mut().poll(cx)));
        // The call was settled while it unwound.
        let polled = polled.unwrap_or_else(|_panic| Poll::Ready(after_panic(self.shape)));
        polled.map(|mut response| {
            if self.is_last {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}
