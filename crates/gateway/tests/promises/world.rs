//! A small world: the gate, a provider and clients, all in memory and on a clock that the test holds.
//!
//! Nothing here waits for real time: with the clock paused, a minute passes as soon as nobody has anything to do.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sim::mock::{Mock, Options, Script, Tuning};
use sluicegate::config::{self, Config};
use sluicegate::gateway::Gateway;
use sluicegate::net::listen;
use sluicegate::observe::{CallLog, CallRecord, Format, Lines, Metrics, Observer, Sink};
use sluicegate::upstream::connect::{Connect, Io};
use sluicegate::world;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use wire::base::BaseUrl;

/// A provider: something that can be connected to.
pub(crate) trait Provider: Send + Sync + 'static {
    fn connect(&self) -> io::Result<DuplexStream>;
}

/// Several providers, each at an address of its own.
pub(crate) trait Providers: Send + Sync + 'static {
    fn connect(&self, to: &str) -> io::Result<DuplexStream>;
}

/// One that is reached at any address.
struct Anywhere(Arc<dyn Provider>);

impl Providers for Anywhere {
    fn connect(&self, _: &str) -> io::Result<DuplexStream> {
        self.0.connect()
    }
}

impl Provider for Mock {
    fn connect(&self) -> io::Result<DuplexStream> {
        Ok(Mock::connect(self))
    }
}

/// A provider that takes a whole request and then writes what it was told, piece by piece.
pub(crate) struct Scripted {
    steps: Vec<Do>,
    /// Every request as it came, head and body.
    pub(crate) received: Arc<Mutex<Vec<Vec<u8>>>>,
    /// How many connections were closed by the other side before the script was over.
    pub(crate) hang_ups: Arc<Mutex<usize>>,
    tasks: Mutex<JoinSet<()>>,
}

/// What a `Scripted` provider does next.
#[derive(Clone)]
pub(crate) enum Do {
    Write(Vec<u8>),
    Pause(Duration),
    /// Ends the connection.
    Close,
    /// Never ends, never writes.
    Hang,
}

impl Scripted {
    pub(crate) fn new(steps: Vec<Do>) -> Scripted {
        Scripted { steps, received: Arc::default(), hang_ups: Arc::default(), tasks: Mutex::default() }
    }

    /// A complete HTTP/1.1 answer in chunked coding, each piece a chunk and a write of its own.
    pub(crate) fn chunked(head: &str, pieces: &[&[u8]]) -> Scripted {
        let mut steps = vec![Do::Write(
            format!("HTTP/1.1 200 OK\r\n{head}transfer-encoding: chunked\r\n\r\n").into_bytes(),
        )];
        steps.extend(pieces.iter().map(|piece| Do::Write(chunk(piece))));
        steps.push(Do::Write(b"0\r\n\r\n".to_vec()));
        Scripted::new(steps)
    }
}

/// One chunk of chunked coding.
pub(crate) fn chunk(piece: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(piece);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

impl Provider for Scripted {
    fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let (steps, received, hang_ups) = (self.steps.clone(), self.received.clone(), self.hang_ups.clone());
        self.tasks.lock().spawn(async move {
            while let Some(request) = read_request(&mut theirs).await {
                received.lock().push(request);
                for step in &steps {
                    let going_on = match step {
                        Do::Write(bytes) => theirs.write_all(bytes).await.is_ok(),
                        Do::Pause(time) => tokio::select! {
                            () = tokio::time::sleep(*time) => true,
                            left = gone(&mut theirs) => !left,
                        },
                        Do::Close => return,
                        Do::Hang => !gone(&mut theirs).await,
                    };
                    if !going_on {
                        *hang_ups.lock() += 1;
                        return;
                    }
                    // Let the other side see each write by itself.
                    tokio::task::yield_now().await;
                }
            }
        });
        Ok(ours)
    }
}

/// Waits until the other side has closed.
async fn gone(io: &mut DuplexStream) -> bool {
    io.read_u8().await.is_err()
}

pub(crate) async fn read_request(io: &mut DuplexStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let mut piece = vec![0; 16 * 1024];
        let size = io.read(&mut piece).await.ok().filter(|size| *size > 0)?;
        request.extend_from_slice(&piece[..size]);
        if let Some(end) = memchr::memmem::find(&request, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if request.len() >= end + 4 + length.unwrap_or(0) {
                return Some(request);
            }
        }
    }
}

/// The way to the providers.
struct Net {
    providers: Arc<dyn Providers>,
    dialled: Arc<Mutex<Vec<String>>>,
}

impl Connect for Net {
    fn connect<'a>(&'a self, to: &'a BaseUrl, _: bool) -> BoxFuture<'a, io::Result<Io>> {
        self.dialled.lock().push(to.authority().to_owned());
        Box::pin(async { Ok(Io::Other(Box::new(self.providers.connect(to.authority())?))) })
    }
}

/// The records of all settled calls.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Mutex<Vec<CallRecord>>>);

impl CallLog for Records {
    fn append(&self, record: &CallRecord) {
        self.0.lock().push(record.clone());
    }
}

impl Records {
    pub(crate) fn all(&self) -> Vec<CallRecord> {
        self.0.lock().clone()
    }

    pub(crate) fn last(&self) -> CallRecord {
        self.0.lock().last().expect("a call was settled").clone()
    }
}

/// What a gate is built of, before it stands.
pub(crate) struct Plan {
    file: String,
    providers: Arc<dyn Providers>,
}

/// A mock that takes no time and is as strict as the real providers.
pub(crate) fn mock() -> Options {
    Options { tuning: Tuning { strict: true, ..Tuning::default() }, ..Options::default() }
}

/// A mock whose answers take `latency`.
pub(crate) fn mock_after(latency: Duration) -> Options {
    Options { tuning: Tuning { strict: true, latency, ..Tuning::default() }, ..Options::default() }
}

/// A mock that follows `script`.
pub(crate) fn mock_that(script: &str) -> Options {
    let script: Script = script.parse().expect("a script");
    Options { script, ..mock() }
}

/// The running gate and everything around it.
pub(crate) struct World {
    pub(crate) gate: Arc<Gateway>,
    pub(crate) records: Records,
    pub(crate) metrics: Arc<Metrics>,
    /// The authority of every connection that the gate opened.
    pub(crate) dialled: Arc<Mutex<Vec<String>>>,
    lines: Lines,
    page: Page,
}

/// What the log was written to.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) const PROVIDERS: &str = r#"
[providers.openai]
base_url = "http://127.0.0.1:1/v1"
[providers.anthropic]
base_url = "http://127.0.0.1:2"
"#;

/// For tests that send equal calls and look at what the provider gets of each.
pub(crate) const UNSHARED: &str = "[coalesce]\nenabled = false\n[cache]\nwhen = \"never\"\n";

impl World {
    /// A gate with the default configuration before `mock`.
    pub(crate) fn before(mock: Options) -> (World, Arc<Mock>) {
        let mock = Arc::new(Mock::in_memory(mock));
        (World::around("", mock.clone()), mock)
    }

    /// The same with top-level settings, such as `keep_alive = "1s"`.
    pub(crate) fn with(settings: &str, mock: Options) -> (World, Arc<Mock>) {
        let mock = Arc::new(Mock::in_memory(mock));
        (World::around(settings, mock.clone()), mock)
    }

    /// A gate before any provider.
    pub(crate) fn around(settings: &str, provider: Arc<dyn Provider>) -> World {
        World::among(settings, Arc::new(Anywhere(provider)))
    }

    /// A gate before several providers.
    pub(crate) fn among(settings: &str, providers: Arc<dyn Providers>) -> World {
        Plan { file: settings.to_owned(), providers }.start()
    }

    /// Opens a client connection to the gate.
    pub(crate) async fn client(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        self.gate.tasks.spawn(listen::attend(self.gate.clone(), theirs));
        let (sender, connection) = http1::handshake(TokioIo::new(ours)).await.expect("a handshake");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = connection.await;
        });
        Client { sender, tasks }
    }

    /// A bare connection to the gate.
    pub(crate) fn raw(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        self.gate.tasks.spawn(listen::attend(self.gate.clone(), theirs));
        ours
    }

    /// One POST on a connection of its own.
    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> Reply {
        self.client().await.send(request(Method::POST, path, body)).await.whole().await
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request: Request<Full<Bytes>>) -> Reply {
        self.client().await.send(request).await.whole().await
    }

    /// How the attempts at the providers ended: outcome and number.
    pub(crate) fn outcomes(&self) -> Vec<(String, u64)> {
        let page = self.metrics.render().expect("text");
        let attempts = page.lines().filter(|line| line.starts_with("sluicegate_upstream_attempts_total{"));
        let mut outcomes: Vec<_> = attempts
            .map(|line| {
                let (labels, count) = line.rsplit_once(' ').expect("a value");
                let outcome = labels.split("outcome=\"").nth(1).and_then(|label| label.split('"').next());
                (outcome.expect("an outcome").to_owned(), count.parse().expect("a count"))
            })
            .collect();
        outcomes.sort();
        outcomes
    }

    /// The log up to now, as an operator reads it.
    pub(crate) fn log(&self) -> String {
        assert!(self.lines.flush(secs(10)), "the log is written");
        String::from_utf8_lossy(&self.page.0.lock()).into_owned()
    }

    /// Sends bytes as they are and returns all that comes back until the gate closes or `patience` is over.
    pub(crate) async fn exchange(&self, bytes: &[u8], patience: Duration) -> String {
        let mut io = self.raw();
        io.write_all(bytes).await.expect("the gate takes bytes");
        let mut answer = Vec::new();
        let _open_still = tokio::time::timeout(patience, io.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Plan {
    fn start(self) -> World {
        let text =
            if self.file.contains("[providers.") { self.file } else { format!("{}\n{PROVIDERS}", self.file) };
        let config: Config = config::parse_text(&text).expect("the test's configuration");
        let metrics = Arc::new(Metrics::default());
        let page = Page::default();
        let sink = Sink::start(page.clone(), metrics.log_dropped()).expect("a thread");
        let records = Records::default();
        let lines = Lines::new(Format::Text, LevelFilter::INFO, sink);
        let observer = Arc::new(Observer::new(metrics.clone(), lines.clone(), Arc::new(records.clone())));
        let dialled = Arc::default();
        let net = Net { providers: self.providers, dialled: Arc::clone(&dialled) };
        let outside = world::World { connector: Arc::new(net), ..world::World::real() };
        World {
            gate: Gateway::new(Arc::new(config), outside, observer),
            records,
            metrics,
            dialled,
            lines,
            page,
        }
    }
}

/// The status of each answer in what came over a connection.
pub(crate) fn statuses(came: &str) -> Vec<&str> {
    came.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

/// A client's connection.
pub(crate) struct Client {
    sender: http1::SendRequest<Full<Bytes>>,
    tasks: JoinSet<()>,
}

impl Client {
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let start = Instant::now();
        let response = self.sender.send_request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        Answer { status: head.status, headers: head.headers, body, start, head_after: start.elapsed() }
    }

    /// Sends, and fails as the connection does.
    pub(crate) async fn try_send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        let start = Instant::now();
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body, start, head_after: start.elapsed() })
    }

    /// Hangs up.
    pub(crate) async fn leave(mut self) {
        self.tasks.shutdown().await;
    }
}

/// An answer whose body has not been read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: hyper::body::Incoming,
    start: Instant,
    pub(crate) head_after: Duration,
}

impl Answer {
    /// The next piece of the body.
    pub(crate) async fn next(&mut self) -> Option<hyper::Result<Bytes>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_) => continue,
                },
                Err(broken) => return Some(Err(broken)),
            }
        }
    }

    pub(crate) async fn whole(mut self) -> Reply {
        let mut body = Vec::new();
        let mut broken = false;
        while let Some(piece) = self.next().await {
            match piece {
                Ok(piece) => body.extend_from_slice(&piece),
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        Reply { status: self.status, headers: self.headers, body, broken, took: self.start.elapsed() }
    }
}

/// An answer that is over.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The connection was reset before the body's end.
    pub(crate) broken: bool,
    pub(crate) took: Duration,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|bad| panic!("{bad}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("printable"))
    }
}

/// A request as an SDK would send it.
pub(crate) fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080")
        .header("content-type", "application/json")
        .header("authorization", "Bearer caller-key")
        .body(Full::new(body.into()))
        .expect("a request")
}

/// A chat call with this prompt.
pub(crate) fn chat(prompt: &str) -> String {
    serde_json::json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": prompt}]}).to_string()
}

/// The same, streamed.
pub(crate) fn chat_stream(prompt: &str) -> String {
    serde_json::json!({"model": "gpt-4o-mini", "stream": true, "messages": [{"role": "user", "content": prompt}]})
        .to_string()
}

/// A messages call with this prompt.
pub(crate) fn message(prompt: &str, stream: bool) -> String {
    serde_json::json!({
        "model": "claude-sonnet-4-5", "max_tokens": 100, "stream": stream,
        "messages": [{"role": "user", "content": prompt}]
    })
    .to_string()
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
