//! A client over TCP, with HTTP/1.1 or HTTP/2 by prior knowledge.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::until::secs;

/// One connection.
pub(crate) struct Client {
    sender: Sender,
    /// The connection's own task; it ends, and the connection with it, when this is dropped.
    _connection: JoinSet<()>,
}

enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Client {
        let io = TokioIo::new(TcpStream::connect(to).await.expect("it listens"));
        let (sender, connection) = http1::handshake(io).await.expect("a handshake");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = connection.await;
        });
        Client { sender: Sender::H1(sender), _connection: tasks }
    }

    pub(crate) async fn connect_h2(to: SocketAddr) -> Client {
        let io = TokioIo::new(TcpStream::connect(to).await.expect("it listens"));
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), io).await.expect("a handshake by prior knowledge");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = connection.await;
        });
        Client { sender: Sender::H2(sender), _connection: tasks }
    }

    /// Sends a request and waits for the head of its answer. Dropping the future takes the request back.
    pub(crate) fn try_send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = hyper::Result<Answer>> + Send + use<> {
        let sent: futures_util::future::BoxFuture<'static, _> = match &mut self.sender {
            Sender::H1(sender) => Box::pin(sender.send_request(request)),
            Sender::H2(sender) => Box::pin(sender.send_request(request)),
        };
        async move {
            let (head, body) = sent.await?.into_parts();
            Ok(Answer { status: head.status, headers: head.headers, body })
        }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        timeout(secs(60), self.try_send(request)).await.expect("an answer in time").expect("an answer")
    }
}

/// An answer whose body has not been read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

impl Answer {
    /// The next piece of the body; `None` at its end, and when it breaks.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let frame = timeout(secs(60), self.body.frame()).await.expect("a piece in time")?;
        Some(frame.ok()?.into_data().unwrap_or_default())
    }

    pub(crate) async fn whole(self) -> Reply {
        let Answer { status, headers, body } = self;
        let body = timeout(secs(60), body.collect()).await.expect("an end in time");
        let broken = body.is_err();
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        Reply { status, headers, body, broken }
    }
}

/// An answer that is over.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The connection broke before the body's end; `body` is empty then.
    pub(crate) broken: bool,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|bad| panic!("{bad}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("printable"))
    }
}

/// One GET on a connection of its own.
pub(crate) async fn get(at: SocketAddr, path: &str) -> Reply {
    Client::connect(at).await.send(request(Method::GET, path, "")).await.whole().await
}

/// Sends bytes as they are and returns what comes back until the other side closes.
pub(crate) async fn raw(at: SocketAddr, bytes: &[u8]) -> String {
    let (mut read, mut write) = TcpStream::connect(at).await.expect("it listens").into_split();
    let mut answer = Vec::new();
    let exchange = async {
        // An answer may come before all is written, and the other side may close then.
        let (_written, _read) = tokio::join!(write.write_all(bytes), read.read_to_end(&mut answer));
    };
    timeout(secs(60), exchange).await.expect("the connection ends");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request as an SDK would send it.
pub(crate) fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://localhost:8080{path}").parse::<http::Uri>().expect("a target"))
        .header("host", "localhost:8080")
        .header("content-type", "application/json")
        .header("authorization", "Bearer caller-key")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(body.into()))
        .expect("a request")
}

/// A chat call.
pub(crate) fn chat(prompt: &str, stream: bool) -> Request<Full<Bytes>> {
    let body =
        json!({"model": "gpt-4o-mini", "stream": stream, "messages": [{"role": "user", "content": prompt}]});
    openai("/v1/chat/completions", &body)
}

/// A responses call.
pub(crate) fn response(prompt: &str, stream: bool) -> Request<Full<Bytes>> {
    openai("/v1/responses", &json!({"model": "gpt-4o-mini", "stream": stream, "input": prompt}))
}

/// A messages call.
pub(crate) fn message(prompt: &str, stream: bool) -> Request<Full<Bytes>> {
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 200, "stream": stream,
        "messages": [{"role": "user", "content": prompt}]
    });
    request(Method::POST, "/v1/messages", body.to_string())
}

fn openai(path: &str, body: &Value) -> Request<Full<Bytes>> {
    let mut request = request(Method::POST, path, body.to_string());
    request.headers_mut().remove("anthropic-version");
    request
}
