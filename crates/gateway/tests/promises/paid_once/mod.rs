//! Paid once: equal calls share one call to the provider, and a whole answer serves those who ask later.
//!
//! Whatever the mock counts is the truth: a test that says "one call" has asked the provider, not the gate.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bounds;
mod churn;
mod failures;
mod fates;
mod first_leaves;
mod hand;
mod keeping;
mod known;
mod last_leaves;
mod late;
mod never;
mod one_call;
mod patience;
mod scopes;
mod wishes;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use sim::mock::{Mock, Options, Tuning};
use sluicegate::gateway::Shared;
use tokio::task::{JoinHandle, JoinSet};

use self::hand::*;
use crate::world::*;

/// One protocol, and a call in it that may be shared.
#[derive(Clone, Copy)]
struct Kind {
    path: &'static str,
    /// Without `stream`.
    body: fn() -> Value,
    streams: bool,
}

const KINDS: [Kind; 5] = [
    Kind {
        path: "/v1/chat/completions",
        body: || json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "why?"}]}),
        streams: true,
    },
    Kind {
        path: "/v1/messages",
        body: || json!({"model": "claude-sonnet-4-5", "max_tokens": 500, "messages": [{"role": "user", "content": "why?"}]}),
        streams: true,
    },
    Kind {
        path: "/v1/responses",
        body: || json!({"model": "gpt-4o-mini", "store": false, "input": "why?"}),
        streams: true,
    },
    Kind {
        path: "/v1/completions",
        body: || json!({"model": "gpt-3.5-turbo-instruct", "max_tokens": 500, "prompt": "why?"}),
        streams: true,
    },
    Kind {
        path: "/v1/embeddings",
        body: || json!({"model": "text-embedding-3-small", "input": "why?"}),
        streams: false,
    },
];

/// The protocol that most tests speak.
const CHAT: Kind = KINDS[0];

impl Kind {
    /// Those that have streams.
    fn with_streams() -> impl Iterator<Item = Kind> {
        KINDS.into_iter().filter(|kind| kind.streams)
    }

    fn plain(self) -> Request<Full<Bytes>> {
        self.with(json!({}))
    }

    fn stream(self) -> Request<Full<Bytes>> {
        self.with(json!({"stream": true}))
    }

    fn stream_with_usage(self) -> Request<Full<Bytes>> {
        self.with(json!({"stream": true, "stream_options": {"include_usage": true}}))
    }

    /// With these fields more, or instead.
    fn with(self, fields: Value) -> Request<Full<Bytes>> {
        let mut body = (self.body)();
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let mut request = request(Method::POST, self.path, body.to_string());
        if self.path == "/v1/messages" {
            request.headers_mut().insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        request
    }
}

/// The same request with one header more, or instead.
fn head(mut request: Request<Full<Bytes>>, name: &str, value: &str) -> Request<Full<Bytes>> {
    let name = HeaderName::try_from(name).unwrap();
    request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    request
}

fn cache_control(request: Request<Full<Bytes>>, value: &str) -> Request<Full<Bytes>> {
    head(request, "cache-control", value)
}

/// A mock whose head takes a second, and whose chunks come every tenth of one.
fn unhurried() -> Options {
    let tuning = Tuning { latency: secs(1), chunk_interval: millis(100), ..mock().tuning };
    Options { tuning, ..Options::default() }
}

/// All of these at once, each on a connection of its own; the answers in the order of the requests.
async fn at_once(world: &Arc<World>, requests: Vec<Request<Full<Bytes>>>) -> Vec<Reply> {
    let calls: Vec<JoinHandle<Reply>> = requests.into_iter().map(|request| call(world, request)).collect();
    let mut replies = Vec::new();
    for call in calls {
        replies.push(call.await.unwrap());
    }
    replies
}

/// Starts one call.
fn call(world: &Arc<World>, request: Request<Full<Bytes>>) -> JoinHandle<Reply> {
    let world = world.clone();
    by_itself(async move { world.ask(request).await })
}

/// Something that a client does, and that its test can end.
#[expect(clippy::disallowed_methods, reason = "clients are no tasks of the gate's")]
fn by_itself<T: Send + 'static>(client: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(client)
}

/// Starts one call, and waits until it has a flight or an answer.
async fn boarded(world: &Arc<World>, request: Request<Full<Bytes>>) -> JoinHandle<Reply> {
    let before = world.gate.life.calls();
    let call = call(world, request);
    until(|| world.gate.life.calls() > before).await;
    turns().await;
    call
}

/// Lets everybody who has something to do do it. No time passes.
async fn turns() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Waits for something that happens by itself, on the paused clock: a millisecond is there only where nobody has
/// anything to do.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..600_000 {
        if is_so() {
            return;
        }
        tokio::task::yield_now().await;
        if is_so() {
            return;
        }
        tokio::time::sleep(millis(1)).await;
    }
    panic!("it never came to be");
}

/// What the gate told of its answers.
fn fates(replies: &[Reply]) -> Vec<&str> {
    replies.iter().map(|reply| reply.header("x-sluicegate-cache")).collect()
}

fn count(replies: &[Reply], fate: &str) -> usize {
    fates(replies).iter().filter(|told| **told == fate).count()
}

/// Every caller but one rode on that one's call.
fn assert_one_paid(replies: &[Reply], mock: &Mock) {
    assert_eq!(mock.stats().arrived, 1);
    assert_eq!((count(replies, "miss"), count(replies, "joined")), (1, replies.len() - 1));
}

/// Whole, and the same bytes for everybody.
fn assert_all_equal(replies: &[Reply]) {
    for reply in replies {
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false), "{}", reply.text());
        assert_eq!(reply.text(), replies[0].text());
    }
    assert!(!replies[0].body.is_empty());
}

/// Nobody is left, and nothing is held but what is kept.
async fn assert_idle(world: &World) {
    until(|| world.gate.life.calls() == 0).await;
    until(|| world.gate.shared().flights == 0).await;
    let Shared { flights, tape_bytes, .. } = world.gate.shared();
    assert_eq!((flights, tape_bytes), (0, 0));
}

/// What the provider itself answers to this, without any gate before it.
async fn from_provider(request: Request<Full<Bytes>>) -> Reply {
    // A gate that shares nothing and asks for nothing passes the provider's bytes on.
    let (world, _mock) = World::with(NOTHING_SHARED, mock());
    let reply = world.ask(cache_control(request, "no-store")).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("x-sluicegate-cache")),
        (200, "bypass"),
        "{}",
        reply.text()
    );
    reply
}

const NOTHING_SHARED: &str =
    "usage_on_streams = false\n[coalesce]\nenabled = false\n[cache]\nwhen = \"never\"\n";

/// The text that an answer of any protocol and form says.
fn said(reply: &Reply) -> String {
    if !reply.header("content-type").starts_with("text/event-stream") {
        return texts(&reply.json());
    }
    let text = reply.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    events.filter_map(|data| serde_json::from_str::<Value>(data).ok()).map(|event| delta(&event)).collect()
}

fn texts(answer: &Value) -> String {
    let places =
        ["/choices/0/message/content", "/content/0/text", "/output/0/content/0/text", "/choices/0/text"];
    places.iter().find_map(|at| answer.pointer(at)?.as_str()).unwrap_or_default().to_owned()
}

fn delta(event: &Value) -> String {
    if event["type"] == "response.output_text.delta" {
        return event["delta"].as_str().unwrap().to_owned();
    }
    let places = ["/choices/0/delta/content", "/delta/text", "/choices/0/text"];
    places.iter().find_map(|at| event.pointer(at)?.as_str()).unwrap_or_default().to_owned()
}

/// A plain answer without the empty list that a provider adds to its plain answers alone: no stream says it.
fn meaning(reply: &Reply) -> Value {
    let mut answer = reply.json();
    if let Some(message) = answer.pointer_mut("/choices/0/message").and_then(Value::as_object_mut)
        && message.get("annotations") == Some(&json!([]))
    {
        message.remove("annotations");
    }
    answer
}

/// Whether a stream tells its usage in an event of its own.
fn tells_usage(reply: &Reply) -> bool {
    reply.text().contains("\"choices\":[],\"usage\":{")
}
