//! A spike becomes a flow: the window, the queue, the door.
//!
//! What the provider saw is the truth: a test that says "never sent" has asked the provider, not the gate.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod door;
mod drain;
mod leaks;
mod queue;
mod spy;
mod window;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate::config;
use tokio::task::{JoinHandle, JoinSet};

use self::spy::Spy;
use crate::world::*;

const CHAT: &str = "/v1/chat/completions";

/// The gate with these settings before a provider that takes so long.
fn before(settings: &str, takes: Duration) -> (Arc<World>, Arc<Spy>) {
    let spy = Spy::new(takes);
    (Arc::new(World::around(settings, spy.clone())), spy)
}

/// A plain chat call.
fn ask(prompt: &str) -> Request<Full<Bytes>> {
    request(Method::POST, CHAT, chat(prompt))
}

/// A chat call for a stream.
fn ask_stream(prompt: &str) -> Request<Full<Bytes>> {
    request(Method::POST, CHAT, chat_stream(prompt))
}

/// A messages call.
fn ask_claude(prompt: &str) -> Request<Full<Bytes>> {
    with(request(Method::POST, "/v1/messages", message(prompt, false)), "anthropic-version", "2023-06-01")
}

/// The same with one header more, or instead.
fn with(mut request: Request<Full<Bytes>>, name: &'static str, value: &str) -> Request<Full<Bytes>> {
    request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    request
}

/// The same from another caller.
fn by(key: &str, request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    with(request, "authorization", &format!("Bearer {key}"))
}

/// Something that a client does, and that its test can end.
#[expect(clippy::disallowed_methods, reason = "clients are no tasks of the gate's")]
fn by_itself<T: Send + 'static>(client: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(client)
}

/// Starts one call on a connection of its own; aborting it hangs up.
fn start(world: &Arc<World>, request: Request<Full<Bytes>>) -> JoinHandle<Reply> {
    let world = world.clone();
    by_itself(async move { world.ask(request).await })
}

/// Starts one call, and lets it go as far as it can in no time.
async fn started(world: &Arc<World>, request: Request<Full<Bytes>>) -> JoinHandle<Reply> {
    let call = start(world, request);
    turns().await;
    call
}

/// All of these answers, in order.
async fn all(calls: impl IntoIterator<Item = JoinHandle<Reply>>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for call in calls {
        replies.push(call.await.unwrap());
    }
    replies
}

/// Lets everybody who has something to do do it. No time passes.
async fn turns() {
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
}

async fn pause(time: u64) {
    tokio::time::sleep(millis(time)).await;
}

/// Goes on under other settings.
fn reload(world: &World, settings: &str) {
    let config = config::parse_text(&format!("{settings}\n{PROVIDERS}")).expect("settings");
    world.gate.adopt(Arc::new(config));
}

/// The sum of all series whose line begins so.
fn metric(world: &World, start: &str) -> u64 {
    let page = world.metrics.render().unwrap();
    let lines = page.lines().filter(|line| line.starts_with(start));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// How many calls are at a provider, in a queue and in a window.
fn levels(world: &World) -> (u64, u64, u64) {
    let level = |name: &str| metric(world, &format!("sluicegate_{name}{{"));
    (level("in_flight"), level("waiting"), level("window_fill"))
}

/// How many calls are past the door of the process, and at it.
fn at_door(world: &World) -> (u64, u64) {
    (metric(world, "sluicegate_gate_in_flight "), metric(world, "sluicegate_gate_waiting "))
}

/// Nobody is left, and nothing is held.
async fn assert_idle(world: &World) {
    pause(1).await;
    turns().await;
    assert_eq!(world.gate.life.calls(), 0, "every call is settled");
    assert_eq!(levels(world), (0, 0, 0), "in flight, waiting, in the window");
    assert_eq!(at_door(world), (0, 0), "past the door, at the door");
    let shared = world.gate.shared();
    assert_eq!((shared.flights, shared.tape_bytes), (0, 0), "flights and their bytes");
}

/// As soon as it could be, but for what the clock can't tell apart.
#[track_caller]
fn assert_took(reply: &Reply, least: Duration) {
    assert!(
        reply.took >= least && reply.took <= least + millis(2),
        "{:?} instead of {least:?}: {}",
        reply.took,
        reply.text()
    );
}

/// Turned away for being too many, with all that a client needs to know.
#[track_caller]
fn assert_overloaded(reply: &Reply, reason: &str) {
    assert_eq!(reply.status, 429, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-error"), "overloaded");
    assert_eq!(reply.header("x-sluicegate-reason"), reason);
    assert_eq!(reply.header("x-should-retry"), "true");
    let after: u64 = reply.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&after), "{after}");
}

#[track_caller]
fn assert_deadline(reply: &Reply) {
    assert_eq!(reply.status, 504, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-error"), "deadline_exceeded");
    assert_eq!(reply.header("x-sluicegate-reason"), "deadline");
    assert_eq!(reply.header("x-should-retry"), "false");
    assert_eq!(reply.header("retry-after"), "");
}

#[track_caller]
fn assert_shutdown(reply: &Reply) {
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-error"), "shutting_down");
    assert_eq!(reply.header("x-sluicegate-reason"), "shutdown");
    assert!(reply.json()["error"]["message"].is_string());
}

/// What a plain chat answer says: the prompt that it was given for.
fn said(reply: &Reply) -> String {
    reply.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// One HTTP/2 connection to the gate.
struct H2 {
    sender: http2::SendRequest<Full<Bytes>>,
    _tasks: JoinSet<()>,
}

impl H2 {
    async fn to(world: &World) -> H2 {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(world.raw())).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = connection.await;
        });
        H2 { sender, _tasks: tasks }
    }

    /// Starts one call; aborting it takes it back.
    fn start(&self, mut request: Request<Full<Bytes>>) -> JoinHandle<Reply> {
        let path = request.uri().path().to_owned();
        *request.uri_mut() = format!("http://localhost:8080{path}").parse().unwrap();
        let mut sender = self.sender.clone();
        by_itself(async move {
            let start = tokio::time::Instant::now();
            sender.ready().await.unwrap();
            let (head, body) = sender.send_request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap().to_bytes().to_vec();
            Reply { status: head.status, headers: head.headers, body, broken: false, took: start.elapsed() }
        })
    }
}
