//! Times what the gate does to every call, one operation at a time, and prints
//! nanoseconds: `cargo run --release -p sluicegate-wire --example hot_path`.
//!
//! Each figure is the best of many short rounds, because a shared machine only
//! ever adds to a time. It tells where the time goes; it is no promise.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::dialect::{CHAT, Dialect};
use wire::edit::Edits;
use wire::fingerprint::{Fingerprint, Parts, Scratch, Sharing};
use wire::peek::Peek;

const ROUNDS: u32 = 300;
const ROUND: Duration = Duration::from_millis(1);

fn main() {
    let rules = CHAT.rules().expect("chat is shared");
    let mut room = Scratch::default();
    for (name, body) in [
        ("small, one line", chat(1, 1, "Name a river in France.")),
        ("small, one long line", chat(1, 290, "Name a river in France. ")),
        ("small, six turns", chat(6, 1, "Name a river in France.")),
        ("74 KB, plain text", chat(1, 74_000, "the quick brown fox jumps over the lazy dog ")),
        ("74 KB, 60 turns of code", chat(60, 74_000, "    if x > 0 {\n        println!(\"{x}\");\n    }\n")),
        ("74 KB, Chinese", chat(10, 74_000, "天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。")),
    ] {
        let peek = Peek::of(&body).expect("a chat body");
        report(&format!("peek, {name}"), body.len(), || Peek::of(black_box(&body)));
        report(&format!("key, {name}"), body.len(), || Peek::shared(black_box(&body), rules, &mut room));
        report(&format!("edit, {name}"), body.len(), || {
            let mut edits = Edits::default();
            edits.model(black_box(&peek), "gpt-5-mini");
            edits.include_usage(&peek);
            edits.apply(&body)
        });
    }
    fingerprint();
}

/// What a key costs after the body was read.
fn fingerprint() {
    let rules = CHAT.rules().expect("chat is shared");
    let body = chat(1, 1, "Name a river in France.");
    let (_, sharing) = Peek::shared(&body, rules, &mut Scratch::default()).expect("a chat body");
    let Sharing::Allowed(meaning) = sharing else { unreachable!("a plain call is shared") };
    let mut headers = http::HeaderMap::new();
    headers.insert("openai-organization", http::HeaderValue::from_static("org-1"));
    let parts = Parts {
        dialect: CHAT.name(),
        crossing: None,
        model: "gpt-5",
        account: b"openai/1",
        scope: b"team/1",
        headers: &headers,
        query: None,
    };
    report("fingerprint", 0, || Fingerprint::of(black_box(&parts), &meaning));
}

/// A chat body of about `size` bytes in `turns` messages that repeat `text`.
fn chat(turns: usize, size: usize, text: &str) -> Bytes {
    let content = text.repeat(size.div_ceil(turns * text.len()));
    let message = serde_json::json!({ "role": "user", "content": content });
    let body = serde_json::json!({
        "model": "gpt-5",
        "messages": vec![message; turns],
        "temperature": 0.2,
        "max_tokens": 512,
        "stream": true,
    });
    body.to_string().into()
}

fn report<T>(what: &str, bytes: usize, mut run: impl FnMut() -> T) {
    let best = (0..ROUNDS).map(|_| time(&mut run)).min().unwrap_or_default();
    println!("{what:<32} {bytes:>7} bytes {:>9} ns", best.as_nanos());
}

/// The mean time of one run over a round.
fn time<T>(run: &mut impl FnMut() -> T) -> Duration {
    let started = Instant::now();
    let mut runs = 0;
    while started.elapsed() < ROUND {
        for _ in 0..8 {
            black_box(run());
        }
        runs += 8;
    }
    started.elapsed() / runs
}
