//! The load client: one task per connection that polls both the connection and its calls, so that a
//! call costs the client no hop between tasks.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::fate::{Fate, Fates};
use crate::shapes::{
    CHAT_PATH, COUNT_PATH, DELAY_HEADER, Prompts, SENTENCE, STREAM_HEADER, StreamShape, answer,
};

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
    let mut calls = pin!(calls);
    tokio::select! {
        biased;
        done = &mut calls => return done,
        ended = connection => ended.context("the connection broke")?,
    }
    // Closed after an answer whose bytes are here; a call that needs more of it fails by itself.
    calls.await.context("the connection was closed under a call")
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

/// One call to the end of its answer. A translated one may be of another length, if it says the same.
async fn whole_call(sender: &mut Sender, request: Request<Full<Bytes>>, translated: bool) -> Result<Fate> {
    let response = send(sender, request).await?;
    let fate = Fate::of(response.headers());
    let mut body = response.into_body();
    let (mut length, mut whole) = (0, false);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        length += data.len();
        whole |= translated && memmem::find(&data, SENTENCE.as_bytes()).is_some();
    }
    let expected = answer().len();
    ensure!(whole || length == expected, "an answer of {length} bytes instead of {expected}");
    Ok(fate)
}

/// One call on a connection of its own.
pub async fn one_call(addr: SocketAddr, prompts: &Prompts) -> Result<Fate> {
    let (mut sender, connection) = connect(addr).await?;
    driving(connection, async { whole_call(&mut sender, chat(addr, prompts.next(), None)?, false).await })
        .await
}

/// How many chat calls have arrived at the upstream.
pub async fn arrived(upstream: SocketAddr) -> Result<u64> {
    Ok(fetch(upstream, COUNT_PATH).await?.parse()?)
}

/// The text at a path.
pub async fn fetch(addr: SocketAddr, path: &str) -> Result<String> {
    let (mut sender, connection) = connect(addr).await?;
    driving(connection, async {
        let mut request = Request::get(path).body(Full::default())?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(&addr.to_string())?);
        let body = send(&mut sender, request).await?.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(body.into())?)
    })
    .await
}

/// Which of these prompts a gate has an answer kept for, without asking anybody else for one.
pub async fn kept(addr: SocketAddr, bodies: impl Iterator<Item = Bytes>) -> Result<Vec<bool>> {
    let (mut sender, connection) = connect(addr).await?;
    driving(connection, async {
        let mut kept = Vec::new();
        for body in bodies {
            let mut request = chat(addr, body, None)?;
            request.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("only-if-cached"));
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let (status, fate) = (response.status(), Fate::of(response.headers()));
            let _ = response.into_body().collect().await?;
            kept.push(match (status, fate) {
                (StatusCode::OK, Fate::Hit) => true,
                (StatusCode::GATEWAY_TIMEOUT, _) => false,
                _ => bail!("{status} ({fate:?}) to a call that asks for a kept answer only"),
            });
        }
        Ok(kept)
    })
    .await
}

/// Which prompts the calls of a round have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    /// No two the same.
    Distinct,
    /// All the same, and of this round only.
    Same,
    /// The same on all connections at the same time: when all have their answers, all send the next.
    Waves,
}

/// One round of plain calls.
#[derive(Clone)]
pub struct Load {
    pub prompts: Arc<Prompts>,
    pub which: Which,
    pub connections: usize,
    pub calls: usize,
    /// Open loop: one call per interval, whether or not the last ones were answered. Without it each
    /// connection sends as soon as it has its answer.
    pub interval: Option<Duration>,
    /// How long the upstream waits before it answers.
    pub delay: Option<Duration>,
    /// The calls ask for no sharing and for no keeping.
    pub no_store: bool,
    /// A gate translates them.
    pub translated: bool,
}

pub struct Round {
    pub wall: Duration,
    pub took: Vec<Duration>,
    pub fates: Fates,
}

impl Load {
    pub async fn run(&self, addr: SocketAddr) -> Result<Round> {
        timeout(ROUND_LIMIT, self.unbounded(addr)).await.context("the round did not end")?
    }

    async fn unbounded(&self, addr: SocketAddr) -> Result<Round> {
        // A wave that some connections stay out of would wait for them.
        let whole = self.which != Which::Waves || self.calls.is_multiple_of(self.connections);
        ensure!(whole, "{} calls are no whole waves of {}", self.calls, self.connections);
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            // One by one: a burst can overflow a listener's backlog, and the kernel tries again after 1 s.
            connections.push(connect(addr).await?);
        }
        let start = Instant::now();
        let shared = Arc::new(Shared {
            start,
            tickets: AtomicUsize::new(0),
            // A wave and a round's only prompt have numbers that nobody had before.
            first: Prompts::fresh(self.calls),
            barrier: Barrier::new(self.connections),
        });
        let mut workers = JoinSet::new();
        for connection in connections {
            workers.spawn(worker(self.clone(), addr, connection, shared.clone()));
        }
        let (mut took, mut fates) = (Vec::with_capacity(self.calls), Fates::default());
        while let Some(worker) = workers.join_next().await {
            let (mut theirs, of_theirs) = worker??;
            took.append(&mut theirs);
            fates += of_theirs;
        }
        Ok(Round { wall: start.elapsed(), took, fates })
    }

    fn request(&self, addr: SocketAddr, number: u64) -> Result<Request<Full<Bytes>>> {
        let mut request = chat(addr, self.prompts.numbered(number), None)?;
        if let Some(delay) = self.delay {
            let millis = u64::try_from(delay.as_millis())?;
            request.headers_mut().insert(DELAY_HEADER, millis.into());
        }
        if self.no_store {
            request.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        Ok(request)
    }
}

/// What the workers of a round have in common.
struct Shared {
    start: Instant,
    tickets: AtomicUsize,
    first: u64,
    barrier: Barrier,
}

async fn worker(
    load: Load,
    addr: SocketAddr,
    (mut sender, connection): (Sender, Driver),
    shared: Arc<Shared>,
) -> Result<(Vec<Duration>, Fates)> {
    let calls = async move {
        let (mut took, mut fates) = (Vec::new(), Fates::default());
        loop {
            if load.which == Which::Waves {
                shared.barrier.wait().await;
            }
            let ticket = shared.tickets.fetch_add(1, Ordering::Relaxed);
            if ticket >= load.calls {
                return Ok((took, fates));
            }
            if let Some(interval) = load.interval {
                sleep_until(shared.start + interval * u32::try_from(ticket)?).await;
            }
            let number = match load.which {
                Which::Distinct => ticket,
                Which::Same => 0,
                // Whoever sends now has a ticket of the same wave: there is one for each connection.
                Which::Waves => ticket / load.connections,
            };
            let request = load.request(addr, shared.first + number as u64)?;
            let sent = Instant::now();
            let fate = whole_call(&mut sender, request, load.translated).await?;
            took.push(sent.elapsed());
            fates.count(fate);
        }
    };
    driving(connection, calls).await
}
