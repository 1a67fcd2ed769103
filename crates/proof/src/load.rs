//! The load client: one task per connection that polls both the connection and its calls, so that a
//! call costs the client no hop between tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::shapes::{CHAT_PATH, COUNT_PATH, Prompts, STREAM_HEADER, StreamShape, answer};

/// No round of a healthy target comes near this.
const ROUND_LIMIT: Duration = Duration::from_secs(120);

pub type Sender = SendRequest<Full<Bytes>>;
pub type Driver = Connection<TokioIo<TcpStream>, Full<Bytes>>;

pub async fn connect(addr: SocketAddr) -> Result<(Sender, Driver)> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(handshake(TokioIo::new(stream)).await?)
}

/// Does `calls` while driving the connection that they use, both in the caller's task.
pub async fn driving<T>(connection: Driver, calls: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        done = calls => done,
        ended = connection => match ended {
            Ok(()) => bail!("the connection was closed under a call"),
            Err(error) => Err(error).context("the connection broke"),
        },
    }
}

/// A chat call with the few headers that every client sends.
pub fn chat(addr: SocketAddr, body: Bytes, shape: Option<StreamShape>) -> Result<Request<Full<Bytes>>> {
    let mut request = Request::post(CHAT_PATH).body(Full::new(body))?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(&addr.to_string())?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("proof"));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sk-proof"));
    if let Some(shape) = shape {
        headers.insert(STREAM_HEADER, HeaderValue::from_str(&shape.header())?);
    }
    Ok(request)
}

/// Sends and waits for the head; anything but a 200 is an error that quotes the answer.
pub async fn send(sender: &mut Sender, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    if status == 200 {
        return Ok(response);
    }
    let body = response.into_body().collect().await?.to_bytes();
    let start = &body[..body.len().min(300)];
    bail!("{status}: {}", String::from_utf8_lossy(start))
}

async fn whole_call(sender: &mut Sender, request: Request<Full<Bytes>>) -> Result<()> {
    let mut body = send(sender, request).await?.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame?.data_ref().map_or(0, Bytes::len);
    }
    let expected = answer().len();
    ensure!(length == expected, "an answer of {length} bytes instead of {expected}");
    Ok(())
}

/// One call on a connection of its own.
pub async fn one_call(addr: SocketAddr, prompts: &Prompts) -> Result<()> {
    let (mut sender, connection) = connect(addr).await?;
    driving(connection, async { whole_call(&mut sender, chat(addr, prompts.next(), None)?).await }).await
}

/// How many chat calls have arrived at the upstream.
pub async fn arrived(upstream: SocketAddr) -> Result<u64> {
    let (mut sender, connection) = connect(upstream).await?;
    driving(connection, async {
        let mut request = Request::get(COUNT_PATH).body(Full::default())?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(&upstream.to_string())?);
        let body = send(&mut sender, request).await?.into_body().collect().await?.to_bytes();
        Ok(std::str::from_utf8(&body)?.parse()?)
    })
    .await
}

/// One round of plain calls.
#[derive(Clone)]
pub struct Load {
    pub prompts: Arc<Prompts>,
    pub connections: usize,
    pub calls: usize,
    /// Open loop: one call per interval, whether or not the last ones were answered. Without it each
    /// connection sends as soon as it has its answer.
    pub interval: Option<Duration>,
}

pub struct Round {
    pub wall: Duration,
    pub took: Vec<Duration>,
}

impl Load {
    pub async fn run(&self, addr: SocketAddr) -> Result<Round> {
        timeout(ROUND_LIMIT, self.unbounded(addr)).await.context("the round did not end")?
    }

    async fn unbounded(&self, addr: SocketAddr) -> Result<Round> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            // One by one: a burst can overflow a listener's backlog, and the kernel tries again after 1 s.
            connections.push(connect(addr).await?);
        }
        let start = Instant::now();
        let tickets = Arc::new(AtomicUsize::new(0));
        let mut workers = JoinSet::new();
        for connection in connections {
            workers.spawn(worker(self.clone(), addr, connection, start, tickets.clone()));
        }
        let mut took = Vec::with_capacity(self.calls);
        while let Some(worker) = workers.join_next().await {
            took.append(&mut worker??);
        }
        Ok(Round { wall: start.elapsed(), took })
    }
}

async fn worker(
    load: Load,
    addr: SocketAddr,
    (mut sender, connection): (Sender, Driver),
    start: Instant,
    tickets: Arc<AtomicUsize>,
) -> Result<Vec<Duration>> {
    let calls = async move {
        let mut took = Vec::new();
        loop {
            let ticket = tickets.fetch_add(1, Ordering::Relaxed);
            if ticket >= load.calls {
                return Ok(took);
            }
            if let Some(interval) = load.interval {
                sleep_until(start + interval * u32::try_from(ticket)?).await;
            }
            let request = chat(addr, load.prompts.next(), None)?;
            let sent = Instant::now();
            whole_call(&mut sender, request).await?;
            took.push(sent.elapsed());
        }
    };
    driving(connection, calls).await
}
