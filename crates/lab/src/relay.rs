//! The bare relay, the yardstick of what a gate costs: a hyper server, a hyper client, a last-in-first-out pool of
//! connections, and every body passed on frame by frame.
//!
//! It is written as well as we know how, because a clumsy yardstick would flatter the gate: no task
//! per call, no copy of a body, the same allocator as the gate. What it lacks is what a gate is for:
//! it logs nothing, counts nothing, has no deadline and reads no body. A failed exchange closes the
//! caller's connection.
#![expect(clippy::disallowed_methods, reason = "one task per connection, and nothing waits for its end")]

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Relays whatever comes on `listen`, for ever. Says where that is.
pub async fn run(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("relay on http://{}", listener.local_addr()?);
    let pool = Arc::new(Pool::new(upstream)?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pool = pool.clone();
        let service = service_fn(move |request| forward(pool.clone(), request));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

async fn forward(pool: Arc<Pool>, mut request: Request<Incoming>) -> Result<Response<Relayed>> {
    strip(request.headers_mut());
    request.headers_mut().insert(header::HOST, pool.host.clone());
    let mut sender = pool.take().await?;
    let mut response = sender.send_request(request).await?;
    strip(response.headers_mut());
    Ok(response.map(|body| Relayed { body, lease: Some((sender, pool)) }))
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

type Sender = SendRequest<Incoming>;

/// Idle upstream connections, the warmest on top.
struct Pool {
    upstream: SocketAddr,
    host: HeaderValue,
    idle: Mutex<Vec<Sender>>,
}

impl Pool {
    fn new(upstream: SocketAddr) -> Result<Self> {
        let host = HeaderValue::from_str(&upstream.to_string())?;
        Ok(Self { upstream, host, idle: Mutex::default() })
    }

    async fn take(&self) -> Result<Sender> {
        while let Some(mut sender) = self.pop() {
            // Its last answer is over, so this waits at most for its task to notice.
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let stream = TcpStream::connect(self.upstream).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn pop(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, sender: Sender) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    }
}

/// An answer on its way down. The connection goes back to the pool with its last frame; dropped
/// before that, the connection is closed, so that the upstream sees a caller leave.
struct Relayed {
    body: Incoming,
    lease: Option<(Sender, Arc<Pool>)>,
}

impl Relayed {
    fn release(&mut self) {
        if let Some((sender, pool)) = self.lease.take() {
            pool.put(sender);
        }
    }
}

impl Body for Relayed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.release();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Relayed {
    // hyper does not poll a body of known length past its last byte.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.release();
        }
    }
}
