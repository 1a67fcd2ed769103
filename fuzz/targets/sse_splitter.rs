//! However a stream is cut into chunks, its events end where a plain reading of
//! the standard ends them, the same bytes go out, and the same is seen in them.
//!
//! Input: one byte for the protocol and whether usage is cut out, three for the
//! lengths of the chunks, then the stream.

#![no_main]

use std::collections::VecDeque;

use bytes::Bytes;
use http::Method;
use libfuzzer_sys::fuzz_target;
use wire::dialect::{Dialect, Routed, route};
use wire::relay::{HOLD, Relay, Watch};
use wire::sse::Ends;

const PATHS: [&str; 5] =
    ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/other"];

/// Streams up to this length are cut in two at every place as well.
const SHORT: usize = 256;

fuzz_target!(|input: &[u8]| {
    let Some((&[kind, a, b, c], stream)) = input.split_first_chunk() else { return };
    if stream.len() > HOLD {
        return;
    }
    let (dialect, strip) = (dialect(kind), kind & 0x80 != 0);
    let stream = Bytes::copy_from_slice(stream);
    let whole = relay(dialect, strip, std::slice::from_ref(&stream));
    if !strip {
        assert_eq!(whole.0, stream);
    }
    let check = |chunks: &[Bytes]| {
        assert_eq!(ends(chunks), reference(&stream));
        assert_eq!(relay(dialect, strip, chunks), whole);
    };
    check(&chunks(&stream, [a, b, c]));
    if stream.len() <= SHORT {
        for at in 0..=stream.len() {
            check(&[stream.slice(..at), stream.slice(at..)]);
        }
    }
});

fn dialect(kind: u8) -> &'static dyn Dialect {
    let path = PATHS[usize::from(kind & 0x7f) % PATHS.len()];
    match route(&Method::POST, path, false) {
        Routed::Found(route) => route.dialect,
        _ => panic!("{path} is served"),
    }
}

/// Chunks of these lengths by turns, each at least one byte.
fn chunks(stream: &Bytes, lengths: [u8; 3]) -> Vec<Bytes> {
    let mut rest = stream.clone();
    let mut lengths = lengths.into_iter().cycle();
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(lengths.next().unwrap_or(1)).clamp(1, rest.len());
        chunks.push(rest.split_to(length));
    }
    chunks
}

fn relay(dialect: &'static dyn Dialect, strip: bool, chunks: &[Bytes]) -> (Vec<u8>, Watch) {
    let mut relay = Relay::new(dialect, strip);
    let mut out = VecDeque::new();
    for chunk in chunks {
        relay.feed(chunk.clone(), &mut out);
    }
    relay.finish(&mut out);
    (Vec::from(out).concat(), relay.watch().clone())
}

/// Where the splitter ends events. An LF that comes a chunk after its CR is
/// counted to the event that the CR ended.
fn ends(chunks: &[Bytes]) -> Vec<usize> {
    let mut finder = Ends::default();
    let mut found = Vec::new();
    let mut before = 0;
    for chunk in chunks {
        let mut at = usize::from(finder.completes_crlf(chunk));
        if let Some(last) = found.last_mut().filter(|last| **last == before) {
            *last += at;
        }
        while let Some(end) = finder.next(&chunk[at..]) {
            at += end.length;
            found.push(before + at);
        }
        before += chunk.len();
    }
    found
}

/// Where a plain reading of the standard ends them.
fn reference(stream: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut line, mut at) = (0, 0);
    while at < stream.len() {
        let end = match &stream[at..] {
            [b'\r', b'\n', ..] => at + 2,
            [b'\r' | b'\n', ..] => at + 1,
            _ => {
                at += 1;
                continue;
            }
        };
        if line == at {
            found.push(end);
        }
        (line, at) = (end, end);
    }
    found
}
