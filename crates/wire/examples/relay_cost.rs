//! What it costs to relay one chunk of a stream, in nanoseconds. Run it with `--release`.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use wire::dialect::{CHAT, Dialect, MESSAGES, OPAQUE_OPENAI, RESPONSES};
use wire::relay::Relay;

const ROUNDS: usize = 2_000;
/// The best of many short tries is one that nothing disturbed.
const TRIES: usize = 500;

fn main() {
    let chat = "data: {\"id\":\"chatcmpl-Qe41\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"gpt-5-mini\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" willow\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"x7Qa\"}\n\n";
    let short = "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" willow\"},\"finish_reason\":null}]}\n\n";
    let messages = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" willow\"}}\n\n";
    let responses = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":41,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" willow\",\"logprobs\":[]}\n\n";
    let nameless = messages.split_once('\n').map_or("", |(_, data)| data);
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}\n\n";

    nothing(chat);
    one("chat, one event", &CHAT, true, "", chat);
    one("chat, one short event", &CHAT, true, "", short);
    one("chat, eight events in one chunk", &CHAT, true, "", &chat.repeat(8));
    one("chat, half events", &CHAT, true, "", &format!("{}{}", &chat[100..], &chat[..100]));
    one("messages", &MESSAGES, false, "", messages);
    one("messages without names", &MESSAGES, false, "", nameless);
    one("responses", &RESPONSES, false, created, responses);
    one("opaque", &OPAQUE_OPENAI, false, "", chat);
}

/// What the measurement itself costs: a chunk that is handed on by reference.
fn nothing(chunk: &str) {
    let chunk = Bytes::from(chunk.to_owned());
    let mut out = VecDeque::with_capacity(16);
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            out.push_back(black_box(chunk.clone()));
            out.clear();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    println!("{:34} {:4} bytes  {best:7.1} ns", "the measurement itself", chunk.len());
}

fn one(what: &str, dialect: &'static dyn Dialect, strip: bool, first: &str, chunk: &str) {
    let chunk = Bytes::from(chunk.to_owned());
    let mut best = f64::INFINITY;
    let mut out = VecDeque::with_capacity(16);
    for _ in 0..TRIES {
        let mut relay = Relay::new(dialect, strip);
        relay.feed(Bytes::from(first.to_owned()), &mut out);
        let start = Instant::now();
        for _ in 0..ROUNDS {
            relay.feed(black_box(chunk.clone()), &mut out);
            out.clear();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
        black_box(relay.watch());
    }
    println!("{what:34} {:4} bytes  {best:7.1} ns", chunk.len());
}
