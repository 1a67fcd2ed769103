//! Whatever a client or a provider sends, its translation is valid in the other protocol or is refused, is the same
//! each time, and does not depend on where a stream was cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use wire::dialect::{CHAT, Dialect, MESSAGES};
use wire::sse::{Ends, Event};
use wire::translate::{Crossing, Destination, Reply};

fuzz_target!(|input: &[u8]| {
    let Some((&cut, body)) = input.split_first() else { return };
    for (client, provider) in [(&CHAT as &dyn Dialect, &MESSAGES as &dyn Dialect), (&MESSAGES, &CHAT)] {
        let crossing = Crossing::between(client, provider).expect("both can be translated");
        request(&crossing, body);
        answer(&crossing, body);
        stream(&crossing, body, usize::from(cut));
    }
});

fn request(crossing: &Crossing, body: &[u8]) {
    for (model, hosts) in
        [("m", true), ("claude-opus-5-5", true), ("claude-sonnet-4-5", false), ("gpt-5", false), ("gpt-4.1", true)]
    {
        let to = Destination {
            model,
            ask_usage: true,
            default_limit: 32_000,
            old_limit: hosts,
            replays_thoughts: hosts,
        };
        match crossing.request(body, &to) {
            Ok(put) => {
                assert_json(&put.body);
                let again = crossing.request(body, &to).unwrap_or_else(|_| panic!("it could be said"));
                assert!(put.body == again.body, "it is said in another way the second time");
            }
            Err(unfit) => assert!(!unfit.message.is_empty()),
        }
    }
}

fn answer(crossing: &Crossing, body: &[u8]) {
    for status in [200, 429, 529] {
        if let Some(told) = crossing.answer(status, body, &reply(), "r") {
            assert_json(&told.body);
        }
    }
}

fn stream(crossing: &Crossing, body: &[u8], cut: usize) {
    let whole = told(crossing, [body, b""]);
    let (first, second) = body.split_at(cut.min(body.len()));
    assert!(whole == told(crossing, [first, second]), "cut at {cut} it says something else");
    let mut ends = Ends::default();
    let mut rest = &whole[..];
    while let Some(end) = ends.next(rest) {
        let event = Event::read(&rest[..end.length]);
        if event.data() != b"[DONE]" {
            assert_json(event.data());
        }
        rest = &rest[end.length..];
    }
    assert!(rest.is_empty(), "half an event");
}

fn told(crossing: &Crossing, pieces: [&[u8]; 2]) -> Vec<u8> {
    let mut stream = crossing.stream(reply());
    let mut all = Vec::new();
    for piece in pieces {
        stream.feed(piece, &mut all).expect("no event of this input is too long");
    }
    stream.finish(&mut all);
    all
}

fn reply() -> Reply {
    Reply { created: 1, id: "id".to_owned(), ..Reply::default() }
}

fn assert_json(bytes: &[u8]) {
    if let Err(bad) = serde_json::from_slice::<IgnoredAny>(bytes) {
        panic!("{bad}: {}", String::from_utf8_lossy(bytes));
    }
}
