//! Whole conversations and the plain answers that they amount to, each written by hand; and back again.

use serde_json::Value;
use wire::dialect::{CHAT, COMPLETIONS, Dialect, MESSAGES, RESPONSES};
use wire::fold::{fold, unfold};

use super::folded;

const CHATS: [&str; 10] = [
    "chat",
    "chat_azure",
    "chat_cr",
    "chat_crlf",
    "chat_groq",
    "chat_multiline",
    "chat_openrouter",
    "chat_tools",
    "chat_unterminated",
    "chat_usage",
];

fn whole() -> impl Iterator<Item = (&'static str, &'static dyn Dialect)> {
    let of = |names: &'static [&str], dialect: &'static dyn Dialect| {
        names.iter().map(move |name| (*name, dialect))
    };
    of(&CHATS, &CHAT)
        .chain(of(&["completions"], &COMPLETIONS))
        .chain(of(&["messages", "messages_nameless", "messages_sentinel"], &MESSAGES))
        .chain(of(&["responses", "responses_incomplete", "responses_split_data"], &RESPONSES))
}

fn broken() -> [(&'static str, &'static dyn Dialect); 8] {
    [
        ("chat_cut", &CHAT),
        ("chat_error", &CHAT),
        ("chat_error_flat", &CHAT),
        ("chat_garbled", &CHAT),
        ("messages_error", &MESSAGES),
        ("messages_foreign_error", &MESSAGES),
        ("responses_error", &RESPONSES),
        ("responses_failed", &RESPONSES),
    ]
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn plain(name: &str) -> Value {
    serde_json::from_slice(&read(&format!("plain/{name}.json"))).unwrap()
}

#[test]
fn every_stream_amounts_to_its_plain_answer_wherever_it_is_cut() {
    for (name, dialect) in whole() {
        let stream = read(&format!("golden/{name}.sse"));
        let answer = fold(dialect, [&stream]).unwrap_or_else(|| panic!("{name} is whole"));
        assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap(), plain(name), "{name}");
        for cut in (0..=stream.len()).step_by(5) {
            let frames = [&stream[..cut], &stream[cut..]];
            assert_eq!(fold(dialect, frames).as_deref(), Some(&*answer), "{name} cut at {cut}");
        }
        assert_eq!(fold(dialect, stream.chunks(1)), Some(answer), "{name} byte by byte");
    }
}

#[test]
fn a_stream_that_goes_wrong_amounts_to_nothing() {
    for (name, dialect) in broken() {
        let stream = read(&format!("golden/{name}.sse"));
        assert_eq!(folded(dialect, &stream), None, "{name}");
    }
}

#[test]
fn every_recorded_stream_is_tried() {
    let files = std::fs::read_dir(format!("{}/tests/golden", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let streams =
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "sse"));
    assert_eq!(streams.count(), whole().count() + broken().len());
}

#[test]
fn every_plain_answer_survives_being_a_stream() {
    let more = [("rich_chat", &CHAT as &dyn Dialect), ("rich_completions", &COMPLETIONS)];
    let more = more
        .into_iter()
        .chain([("rich_messages", &MESSAGES as &dyn Dialect), ("rich_responses", &RESPONSES)]);
    for (name, dialect) in whole().chain(more) {
        let body = read(&format!("plain/{name}.json"));
        let stream = unfold(dialect, &body, true).unwrap_or_else(|| panic!("{name} has a stream"));
        assert_eq!(folded(dialect, &stream.concat()), Some(plain(name)), "{name}");
        // As written for people to read: over many lines.
        let body = serde_json::to_vec_pretty(&plain(name)).unwrap();
        let stream = unfold(dialect, &body, true).unwrap();
        assert_eq!(folded(dialect, &stream.concat()), Some(plain(name)), "{name} over many lines");
        assert!(
            stream.iter().all(|event| event.iter().filter(|byte| **byte == b'\n').count() <= 3),
            "{name}"
        );
    }
}
