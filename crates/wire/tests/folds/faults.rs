//! Streams that broke on their way: nothing panics, and nothing half passes for whole.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use wire::dialect::{CHAT, COMPLETIONS, DIALECTS, Dialect, MESSAGES, RESPONSES};
use wire::fold::{fold, unfold};

use super::lines;

const RICH: [(&str, &dyn Dialect); 4] = [
    ("rich_chat", &CHAT),
    ("rich_completions", &COMPLETIONS),
    ("rich_messages", &MESSAGES),
    ("rich_responses", &RESPONSES),
];

fn stream(name: &str, dialect: &dyn Dialect) -> Vec<Vec<u8>> {
    let path = format!("{}/tests/plain/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let events = unfold(dialect, &std::fs::read(path).unwrap(), true).unwrap();
    events.into_iter().map(|event| event.to_vec()).collect()
}

/// Whether an event is one of those that only add to something: one less of them leaves no trace.
fn only_adds(event: &[u8]) -> bool {
    let text = std::str::from_utf8(event).unwrap();
    text.contains(".delta\"") || text.contains("_delta\"") || text.contains(".added\"")
}

#[test]
fn a_part_of_a_stream_amounts_to_nothing_or_to_all_of_it() {
    for (name, dialect) in RICH {
        let events = stream(name, dialect);
        let ends = events.iter().scan(0, |end, event| {
            *end += event.len();
            Some(*end)
        });
        let stream = events.concat();
        let near: Vec<usize> = ends.flat_map(|end| end - 4..(end + 3).min(stream.len())).collect();
        let whole = fold(dialect, [&stream]).unwrap();
        for end in (0..stream.len()).step_by(41).chain(near) {
            if let Some(part) = fold(dialect, [&stream[..end]]) {
                assert_eq!(part, whole, "{name} up to {end}");
                let last = stream[..end].trim_ascii_end().ends_with(b"}") || stream[end..].len() < 16;
                assert!(last, "{name} up to {end}: only the last word may be missing");
            }
        }
    }
}

#[test]
fn events_that_are_lost_doubled_or_swapped_are_missed() {
    for (name, dialect) in [RICH[2], RICH[3]] {
        let events = stream(name, dialect);
        for at in 0..events.len() {
            let ordered = dialect.name() == "messages" && !(only_adds(&events[at]));
            let mut lost = events.clone();
            lost.remove(at);
            let amounts = fold(dialect, &lost);
            assert!(!ordered || amounts.is_none(), "{name} without {at}");
            if !(dialect.name() == "messages" && only_adds(&events[at])) {
                let mut doubled = events.clone();
                doubled.insert(at, events[at].clone());
                assert_eq!(fold(dialect, &doubled), None, "{name} with {at} twice");
            }
            let swaps = at > 0
                && !(dialect.name() == "messages" && only_adds(&events[at]) && only_adds(&events[at - 1]));
            if swaps {
                let mut swapped = events.clone();
                swapped.swap(at - 1, at);
                assert_eq!(fold(dialect, &swapped), None, "{name} with {at} before its time");
            }
        }
    }
}

#[test]
fn deep_and_wide_values_cost_neither_the_stack_nor_the_day() {
    let begun = Instant::now();
    let deep = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"x":{}1{}}}}}]}}"#,
        r#"{"a":"#.repeat(20_000),
        "}".repeat(20_000)
    );
    let nested = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"x":{}{}}}}}]}}"#,
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    for value in [&deep, &nested] {
        fold(&CHAT, [lines([&**value, value, value])]);
    }
    assert_eq!(fold(&CHAT, [lines([&*deep, &deep])]), None);
    let wide: Vec<_> = (0..100_000).map(|n| format!("\"k{n}\":1")).collect();
    let wide = format!(r#"{{"choices":[{{"index":0,"delta":{{{}}}}}]}}"#, wide.join(","));
    assert_eq!(fold(&CHAT, [lines([&*wide])]), None);
    let many: Vec<_> =
        (0..20_000).map(|n| format!(r#"{{"choices":[{{"index":0,"delta":{{"k{n}":1}}}}]}}"#)).collect();
    assert_eq!(fold(&CHAT, [lines(many.iter().map(String::as_str))]), None);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Something to do to a stream.
#[derive(Clone, Debug)]
enum Fault {
    Drop(Index),
    Double(Index),
    Swap(Index, Index),
    Byte(Index, Index, u8),
    Cut(Index, Index),
    Paste(Index, &'static str),
}

fn fault() -> impl Strategy<Value = Fault> {
    let paste = prop::sample::select(
        &[
            "data: [DONE]\n\n",
            "data: {\"error\":{\"message\":\"no\"}}\n\n",
            "event: error\ndata: {\"type\":\"error\"}\n\n",
            "data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
            "data: {}\n\n",
            "data: 7\n\n",
            ": comment\n\n",
            "\r\n",
        ][..],
    );
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Fault::Drop),
        at().prop_map(Fault::Double),
        (at(), at()).prop_map(|(one, other)| Fault::Swap(one, other)),
        (at(), at(), any::<u8>()).prop_map(|(event, byte, to)| Fault::Byte(event, byte, to)),
        (at(), at()).prop_map(|(event, length)| Fault::Cut(event, length)),
        (at(), paste).prop_map(|(event, text)| Fault::Paste(event, text)),
    ]
}

fn break_it(events: &mut Vec<Vec<u8>>, fault: Fault) {
    let count = events.len();
    if count == 0 {
        return;
    }
    match fault {
        Fault::Drop(at) => drop(events.remove(at.index(count))),
        Fault::Double(at) => events.insert(at.index(count), events[at.index(count)].clone()),
        Fault::Swap(one, other) => events.swap(one.index(count), other.index(count)),
        Fault::Byte(at, byte, to) => {
            let event = &mut events[at.index(count)];
            let byte = byte.index(event.len().max(1));
            event.get_mut(byte).into_iter().for_each(|byte| *byte = to);
        }
        Fault::Cut(at, length) => {
            let event = &mut events[at.index(count)];
            event.truncate(length.index(event.len().max(1)));
        }
        Fault::Paste(at, text) => events.insert(at.index(count), text.as_bytes().to_vec()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_broken_stream_amounts_to_json_or_to_nothing(
        which in 0..RICH.len(),
        faults in prop::collection::vec(fault(), 1..4),
        size in 1..200_usize,
    ) {
        let (name, dialect) = RICH[which];
        let mut events = stream(name, dialect);
        faults.into_iter().for_each(|fault| break_it(&mut events, fault));
        let stream = events.concat();
        let amounts = fold(dialect, [&stream]);
        if let Some(body) = &amounts {
            prop_assert!(serde_json::from_slice::<Value>(body).unwrap().is_object());
        }
        prop_assert_eq!(fold(dialect, stream.chunks(size)), amounts, "cut otherwise");
    }

    #[test]
    fn no_bytes_at_all_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for &dialect in DIALECTS {
            fold(dialect, bytes.chunks(7));
            unfold(dialect, &bytes, true);
        }
    }

    #[test]
    fn a_broken_answer_makes_no_panic(which in 0..RICH.len(), at in any::<Index>(), to in any::<u8>()) {
        let (name, dialect) = RICH[which];
        let path = format!("{}/tests/plain/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let mut body = std::fs::read(path).unwrap();
        let at = at.index(body.len());
        body[at] = to;
        if let Some(events) = unfold(dialect, &body, true) {
            fold(dialect, events);
        }
    }
}
