//! Faults that users of other gateways have met, each as a test of its own; `table.md` says which test answers which.
//!
//! Where client and provider speak the same protocol, bytes pass as they are. What can still go wrong is what the gate
//! makes of them: what it books, whom it blames, what it gives back and when, what it adds at the end. Where they speak
//! different ones, it is what either understands; `tongues` has providers and strict clients for that.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod config_and_operations;
mod embeddings_and_models;
mod errors;
mod finish_and_structured;
mod headers_and_transport;
mod messages_and_params;
mod multimodal;
mod other_kinds;
mod rate_limits_and_admission;
mod reasoning;
mod sse_framing;
mod stream_lifecycle;
mod table;
mod tongues;
mod tool_texts;
mod tools;

use std::sync::Arc;

use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use sluicegate::observe::CallRecord;

use crate::world::*;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

/// A streamed chat call that asks for usage itself, so that nothing is cut out of its answer.
const CHAT_CALL: &str =
    r#"{"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
const MESSAGES_CALL: &str = r#"{"model":"claude-x","max_tokens":9,"stream":true,"messages":[]}"#;
const RESPONSES_CALL: &str = r#"{"model":"gpt-x","stream":true,"input":"hi"}"#;

const EVENTS: &str = "content-type: text/event-stream\r\n";
const ROLE: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const TEXT: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"yes\"}}]}\n\n";
const FINISH: &str =
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str =
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_7\",\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"yes\"}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// One call that is over, and everything that was seen of it.
struct Told {
    world: World,
    provider: Arc<Scripted>,
    reply: Reply,
    record: CallRecord,
}

/// Makes one call before a provider that does as it is told.
async fn told(path: &str, body: impl Into<bytes::Bytes>, provider: Scripted) -> Told {
    told_with("", path, body, provider).await
}

async fn told_with(settings: &str, path: &str, body: impl Into<bytes::Bytes>, provider: Scripted) -> Told {
    let provider = Arc::new(provider);
    let world = World::around(settings, provider.clone());
    let reply = world.ask(asked(path, body)).await;
    settled(&world).await;
    let record = world.records.last();
    Told { world, provider, reply, record }
}

/// A POST with what its protocol wants.
fn asked(path: &str, body: impl Into<bytes::Bytes>) -> Request<Full<bytes::Bytes>> {
    let mut request = request(Method::POST, path, body);
    if path.starts_with(MESSAGES) {
        request.headers_mut().insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    request
}

/// Waits until every call is booked, and sees that none is left over.
async fn settled(world: &World) {
    tokio::time::sleep(millis(1)).await;
    assert_eq!(world.gate.life.calls(), 0, "every call is settled");
    assert_eq!(gauge(world, "in_flight"), 0, "every permit is back");
    assert_eq!(gauge(world, "waiting"), 0, "nobody is left in a queue");
}

impl Told {
    fn outcomes(&self) -> Vec<(String, u64)> {
        self.world.outcomes()
    }

    fn error(&self) -> (&'static str, Option<&'static str>) {
        let error = self.record.error.as_ref().expect("an error is booked");
        (error.code, error.reason)
    }

    fn tokens(&self) -> (Option<u64>, Option<u64>) {
        (self.record.input_tokens, self.record.output_tokens)
    }
}

/// One attempt, and how it ended.
fn one(outcome: &str) -> Vec<(String, u64)> {
    vec![(outcome.to_owned(), 1)]
}

/// The provider gets the body as its client wrote it.
async fn passes(path: &str, body: &str) {
    let answer = body.replace("\"model\"", "\"served\"");
    let told = told(path, body.to_owned(), plain("200 OK", JSON, answer.as_bytes())).await;
    assert_eq!(parts(&told.provider.received.lock()[0]).1, body.as_bytes());
    assert_eq!(told.reply.text(), answer, "and the client what its provider wrote");
}

/// The tokens of one kind that the metrics have counted, whatever the model.
fn tokens_counted(world: &World, kind: &str) -> u64 {
    let kind = format!("kind=\"{kind}\"");
    sum(world, "sluicegate_tokens_total{", |line| line.contains(&kind))
}

/// A gauge, over all providers.
fn gauge(world: &World, name: &str) -> u64 {
    sum(world, &format!("sluicegate_{name}{{"), |_| true)
}

fn sum(world: &World, start: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let page = world.metrics.render().unwrap();
    let lines = page.lines().filter(|line| line.starts_with(start) && wanted(line));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// An answer in one piece.
fn plain(status: &str, headers: &str, body: &[u8]) -> Scripted {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    Scripted::new(vec![Do::Write([head.as_bytes(), body].concat())])
}

const JSON: &str = "content-type: application/json\r\n";

/// The head of a stream of events, to be followed by chunks.
fn stream_head() -> Do {
    Do::Write(format!("HTTP/1.1 200 OK\r\n{EVENTS}transfer-encoding: chunked\r\n\r\n").into_bytes())
}

fn event(text: &str) -> Do {
    Do::Write(chunk(text.as_bytes()))
}

fn stream_end() -> Do {
    Do::Write(b"0\r\n\r\n".to_vec())
}

/// A stream in two reads.
fn cut_at(stream: &[u8], cut: usize) -> Scripted {
    let pieces = [&stream[..cut], &stream[cut..]];
    let pieces: Vec<&[u8]> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
    Scripted::chunked(EVENTS, &pieces)
}

/// The head and the body of a request as a provider got it.
fn parts(request: &[u8]) -> (String, Vec<u8>) {
    let end = memchr::memmem::find(request, b"\r\n\r\n").expect("a head");
    (String::from_utf8_lossy(&request[..end + 2]).into_owned(), request[end + 4..].to_vec())
}
