//! Streams on their way through the relay: what goes out, when, and what was seen of them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod faults;
mod framing;
mod golden;
mod long;

use std::collections::VecDeque;

use bytes::Bytes;
use wire::dialect::Dialect;
use wire::relay::{Relay, Watch};

/// A stream that was relayed to its end.
struct Relayed {
    out: Vec<u8>,
    watch: Watch,
}

/// Relays the chunks, and checks after each of them that exactly the whole events so far have gone out.
fn relay<'a>(
    dialect: &'static dyn Dialect,
    strip: bool,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Relayed {
    let mut relay = Relay::new(dialect, strip);
    let (mut fed, mut gone) = (Vec::new(), Vec::new());
    let mut out = VecDeque::new();
    for chunk in chunks {
        fed.extend_from_slice(chunk);
        relay.feed(Bytes::copy_from_slice(chunk), &mut out);
        gone.extend(out.drain(..).flatten());
        let (events, _) = split(&fed);
        assert!(gone == kept(&events, strip), "{:?} went out after {:?}", show(&gone), show(&fed));
        assert!(relay.at_boundary(), "only whole events have gone out");
    }
    relay.finish(&mut out);
    gone.extend(out.drain(..).flatten());
    Relayed { out: gone, watch: relay.watch().clone() }
}

/// What is left of the events once the usage events are cut out.
fn kept(events: &[&[u8]], strip: bool) -> Vec<u8> {
    let usage_only = |event: &[u8]| String::from_utf8_lossy(event).contains(r#""choices":[],"usage":{"#);
    events.iter().filter(|event| !(strip && usage_only(event))).copied().flatten().copied().collect()
}

/// Splits line by line, as the standard tells it: the whole events, and what is left.
fn split(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut events, mut start, mut at) = (Vec::new(), 0, 0);
    while at < input.len() {
        let line = at;
        while at < input.len() && input[at] != b'\n' && input[at] != b'\r' {
            at += 1;
        }
        let blank = at == line;
        if at == input.len() {
            break;
        }
        at += if input[at..].starts_with(b"\r\n") { 2 } else { 1 };
        if blank {
            events.push(&input[start..at]);
            start = at;
        }
    }
    (events, &input[start..])
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
