//! A client of the mock, over a socket or in memory, that sees exactly what came.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::Value;
use sim::mock::{Mock, Options, Tuning};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// One connection; dropping it is hanging up.
pub(crate) struct Client {
    sender: Sender,
    /// Drives the connection for as long as the client is there.
    _tasks: JoinSet<()>,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let text = std::str::from_utf8(&self.body).unwrap();
        assert!(text.ends_with("\n\n"), "the last event is whole");
        text.trim_end().split("\n\n").map(Event::parse).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

impl Event {
    fn parse(text: &str) -> Self {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        Self { name: field("event: "), data: field("data: ").unwrap() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Client {
    pub(crate) async fn tcp(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.unwrap()).await
    }

    pub(crate) async fn in_memory(mock: &Mock) -> Self {
        Self::over(mock.connect()).await
    }

    pub(crate) async fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ = connection.await;
        });
        Self { sender: Sender::One(sender), _tasks: tasks }
    }

    pub(crate) async fn http2(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(io))
            .await
            .unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ = connection.await;
        });
        Self { sender: Sender::Two(sender), _tasks: tasks }
    }

    pub(crate) async fn open(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    /// Sends over HTTP/2 without waiting for the answer.
    pub(crate) fn start(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = hyper::Result<http::Response<Incoming>>> + use<> {
        match &mut self.sender {
            Sender::Two(sender) => sender.send_request(request),
            Sender::One(_) => panic!("HTTP/1.1 has one call at a time"),
        }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        let (head, body) = self.open(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send(post(path, body)).await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(request(Method::GET, path, "")).await.unwrap()
    }
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(format!("http://mock{path}")).header("host", "mock");
    request.body(Full::new(body.into())).unwrap()
}

/// With the headers that a client of the path's provider sends.
pub(crate) fn post(path: &str, body: &Value) -> Request<Full<Bytes>> {
    let mut request = request(Method::POST, path, body.to_string());
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    if path.starts_with("/v1/messages") {
        request.headers_mut().insert("anthropic-version", "2023-06-01".parse().unwrap());
    }
    request
}

pub(crate) fn chat(prompt: &str) -> Value {
    serde_json::json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": prompt}]})
}

pub(crate) fn streamed(mut request: Value) -> Value {
    request["stream"] = true.into();
    request
}

pub(crate) fn with(tuning: Tuning) -> Mock {
    Mock::in_memory(Options { tuning, ..Options::default() })
}

pub(crate) fn scripted(script: &str) -> Mock {
    Mock::in_memory(Options { script: script.parse().unwrap(), ..Options::default() })
}
