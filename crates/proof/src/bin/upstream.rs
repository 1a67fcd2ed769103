//! `upstream LISTEN`: a provider that costs next to nothing. It answers each call of either protocol at once with one
//! fixed answer, or with the stream that the call's `x-proof-stream` header describes, and counts them. The
//! header `x-proof-delay` makes it wait first; `x-proof-serial` is remembered until somebody asks. It keeps a
//! [book](proof::flow::book) of what is in flight, and fails or hangs for calls that say so.
#![expect(clippy::disallowed_methods, reason = "one task per connection, and nothing waits for its end")]

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use proof::flow::book::{
    Book, FLOW_PATH, FLOW_RESET_PATH, Guest, HANG_HEADER, MARK_HEADER, STATUS_HEADER, Seat,
};
use proof::shapes::{
    CHAT_PATH, COUNT_PATH, DELAY_HEADER, MESSAGES_PATH, SERIAL_HEADER, SERIALS_PATH, STREAM_HEADER,
    StreamShape, answer, marked_answer, message,
};
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static ARRIVED: AtomicU64 = AtomicU64::new(0);

static BOOK: Book = Book::new();

/// Serials of calls that have arrived, one a line.
static SERIALS: Mutex<String> = Mutex::new(String::new());

#[tokio::main]
async fn main() -> Result<()> {
    let listen: SocketAddr = std::env::args().nth(1).context("usage: upstream LISTEN")?.parse()?;
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = hyper::server::conn::http1::Builder::new();
        let guest = Arc::<Guest>::default();
        let service = service_fn(move |request| respond(request, guest.clone()));
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

/// A call is in flight from here until the last of its answer was handed over, or its client has left.
async fn respond(request: Request<Incoming>, guest: Arc<Guest>) -> Result<Response<Seated>> {
    let path = request.uri().path();
    let seat = (path == CHAT_PATH || path == MESSAGES_PATH).then(|| {
        let mark = request.headers().get(MARK_HEADER).and_then(|mark| mark.to_str().ok()?.parse().ok());
        BOOK.arrive(&guest, mark)
    });
    Ok(answered(request).await?.map(|reply| Seated { reply, _seat: seat }))
}

async fn answered(request: Request<Incoming>) -> Result<Response<Reply>> {
    match request.uri().path() {
        FLOW_PATH => return Ok(told(serde_json::to_string(&BOOK.counts())?)),
        FLOW_RESET_PATH => return Ok(told(serde_json::to_string(&BOOK.reset())?)),
        COUNT_PATH => return Ok(told(ARRIVED.load(Ordering::Relaxed).to_string())),
        SERIALS_PATH => return Ok(told(std::mem::take(&mut *serials()))),
        _ => {}
    }
    ARRIVED.fetch_add(1, Ordering::Relaxed);
    let header = |name| request.headers().get(name).map(HeaderValue::to_str).transpose();
    if let Some(serial) = header(SERIAL_HEADER)? {
        let mut serials = serials();
        serials.push_str(serial);
        serials.push('\n');
    }
    let delay = header(DELAY_HEADER)?.map(str::parse).transpose()?.map(Duration::from_millis);
    let shape = request.headers().get(STREAM_HEADER).cloned();
    let messages = request.uri().path() == MESSAGES_PATH;
    let status = header(STATUS_HEADER)?.map(str::parse::<u16>).transpose()?;
    let mark = header(MARK_HEADER)?.map(str::parse::<u64>).transpose()?;
    if header(HANG_HEADER)?.is_some() {
        drain(request.into_body()).await?;
        return std::future::pending().await;
    }
    if let Some(status) = status {
        drain(request.into_body()).await?;
        let error =
            r#"{"error":{"message":"As was asked for.","type":"server_error","param":null,"code":null}}"#;
        let mut response = reply("application/json", Reply::Whole(Some(error.into())));
        *response.status_mut() = status.try_into()?;
        return Ok(response);
    }
    let Some(shape) = shape else {
        drain(request.into_body()).await?;
        wait(delay).await;
        if let Some(mark) = mark {
            return Ok(reply("application/json", Reply::Whole(Some(marked_answer(mark).into()))));
        }
        return Ok(reply(
            "application/json",
            Reply::Whole(Some(if messages { message() } else { answer() })),
        ));
    };
    let shape = StreamShape::parse(shape.to_str()?)?;
    let body = request.into_body().collect().await?.to_bytes();
    let with_usage = body.windows(b"include_usage".len()).any(|window| window == b"include_usage");
    wait(delay).await;
    let ticker = if messages {
        Ticker::new(
            shape,
            Some(StreamShape::message_start()),
            shape.message_chunk(),
            StreamShape::message_closing(),
        )
    } else {
        Ticker::new(shape, None, shape.chunk(), StreamShape::closing(with_usage))
    };
    Ok(reply("text/event-stream", Reply::Stream(Box::pin(ticker))))
}

fn told(text: String) -> Response<Reply> {
    Response::new(Reply::Whole(Some(text.into())))
}

fn serials() -> std::sync::MutexGuard<'static, String> {
    SERIALS.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn wait(delay: Option<Duration>) {
    if let Some(delay) = delay {
        sleep(delay).await;
    }
}

async fn drain(mut body: Incoming) -> Result<()> {
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}

fn reply(content_type: &'static str, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert("x-request-id", HeaderValue::from_static("req_proof"));
    response
}

/// An answer that counts as in flight for as long as it is here.
struct Seated {
    reply: Reply,
    _seat: Option<Seat>,
}

impl Body for Seated {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.get_mut().reply).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.reply.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.reply.size_hint()
    }
}

enum Reply {
    Whole(Option<Bytes>),
    Stream(Pin<Box<Ticker>>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = match self.get_mut() {
            Self::Whole(body) => body.take(),
            Self::Stream(ticker) => ready!(ticker.poll_next(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Chunks by the clock: each is due a fixed time after the one before was, however late that one went.
struct Ticker {
    shape: StreamShape,
    opening: Option<Bytes>,
    chunk: Bytes,
    sent: u32,
    closing: Option<Bytes>,
    due: Pin<Box<Sleep>>,
}

impl Ticker {
    fn new(shape: StreamShape, opening: Option<Bytes>, chunk: Bytes, closing: Bytes) -> Self {
        Self { shape, opening, chunk, sent: 0, closing: Some(closing), due: Box::pin(sleep(Duration::ZERO)) }
    }

    fn poll_next(&mut self, cx: &mut Context) -> Poll<Option<Bytes>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(opening));
        }
        if self.sent == self.shape.chunks {
            return Poll::Ready(self.closing.take());
        }
        ready!(self.due.as_mut().poll(cx));
        let next = self.due.deadline() + self.shape.every;
        self.due.as_mut().reset(next);
        self.sent += 1;
        Poll::Ready(Some(self.chunk.clone()))
    }
}
