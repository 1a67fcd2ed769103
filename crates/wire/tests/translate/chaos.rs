//! Whatever comes in, nothing panics, and what goes out is what its protocol allows.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use wire::sse::Event;
use wire::translate::{Destination, Names, Reply, estimate};

use super::case::{Case, all};
use super::{Told, Way, reply, told};

/// What is done to a request or an answer that was right.
#[derive(Clone, Debug)]
enum Harm {
    /// Another value stands there.
    Other(Value),
    /// It is gone.
    Gone,
    /// It is there twice, if it stands in a list.
    Twice,
    /// What stands elsewhere stands here.
    Moved(Index),
}

fn harm() -> impl Strategy<Value = (Index, Harm)> {
    let other = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            prop_oneof![Just(0), Just(-1), any::<i64>()].prop_map(Value::from),
            Just(json!(1.5e300)),
            Just(json!(u64::MAX)),
            select(
                &[
                    "",
                    " ",
                    "\u{0}é🙂\"\\",
                    "{\"a\":",
                    "{}",
                    "auto",
                    "text",
                    "tool_use",
                    "tool_result",
                    "error"
                ][..]
            )
            .prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
            Just(json!([[], {}, "x", null])),
            Just(json!({"type": "text", "text": "x"})),
            Just(json!({"error": {"message": 7}})),
        ];
    let harm = prop_oneof![
        4 => other.prop_map(Harm::Other),
        2 => Just(Harm::Gone),
        2 => Just(Harm::Twice),
        2 => any::<Index>().prop_map(Harm::Moved),
    ];
    (any::<Index>(), harm)
}

/// The paths of all that stands in a value.
fn paths(value: &Value, path: &str, all: &mut Vec<String>) {
    let mut inside = |key: &str, value: &Value| {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        all.push(path.clone());
        paths(value, &path, all);
    };
    match value {
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(n, value)| inside(&n.to_string(), value))
        }
        Value::Object(members) => members.iter().for_each(|(key, value)| inside(key, value)),
        _ => {}
    }
}

fn harmed(value: &mut Value, harms: &[(Index, Harm)]) {
    for (at, harm) in harms {
        let mut all = Vec::new();
        paths(value, "", &mut all);
        if all.is_empty() {
            return;
        }
        let path = at.get(&all);
        let (parent, key) = path.rsplit_once('/').unwrap();
        let moved = match harm {
            Harm::Moved(from) => value.pointer(from.get::<String>(&all)).cloned(),
            _ => None,
        };
        let here = value.pointer(path).cloned().unwrap_or_default();
        match (harm, value.pointer_mut(parent).unwrap()) {
            (Harm::Gone, Value::Object(members)) => {
                _ = members.remove(&key.replace("~1", "/").replace("~0", "~"))
            }
            (Harm::Gone, Value::Array(elements)) => _ = elements.remove(key.parse().unwrap()),
            (Harm::Twice, Value::Array(elements)) => elements.push(here),
            (Harm::Other(other), _) => *value.pointer_mut(path).unwrap() = other.clone(),
            _ => {
                if let Some(moved) = moved {
                    *value.pointer_mut(path).unwrap() = moved;
                }
            }
        }
    }
}

/// All cases that are like this, read once.
fn cases(alike: impl Fn(&&Case) -> bool) -> Vec<&'static Case> {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(all);
    CASES.iter().filter(alike).collect()
}

fn harms() -> impl Strategy<Value = Vec<(Index, Harm)>> {
    prop::collection::vec(harm(), 1..4)
}

/// Models that differ in what they take.
const MODELS: [&str; 7] =
    ["claude-sonnet-4-5", "claude-opus-5-5", "claude-3-haiku", "gpt-4.1", "gpt-5.1", "gpt-6-astra", "m"];

/// Sends it on if it can be; then it is valid. The names of its tools come back.
fn check_request(case: &Case, asked: &[u8], model: &str) -> Names {
    let to = Destination {
        model,
        default_limit: 32_000,
        replays_thoughts: true,
        ask_usage: true,
        old_limit: false,
    };
    let _ = estimate(case.way.client(), asked);
    match case.way.crossing().request(asked, &to) {
        Ok(put) => {
            let sent: Value = serde_json::from_slice(&put.body).unwrap();
            assert_eq!(sent["model"], model);
            assert!(sent["messages"].is_array());
            put.names
        }
        Err(unfit) => {
            assert!(!unfit.message.is_empty());
            Names::default()
        }
    }
}

fn check_answer(case: &Case, status: u16, answer: &[u8], reply: &Reply) {
    let Some(told) = case.way.crossing().answer(status, answer, reply, "req-1") else { return };
    let body: Value = serde_json::from_slice(&told.body).unwrap();
    assert!((200..600).contains(&told.status), "{}", told.status);
    assert!(status == 200 || told.status >= 400, "{status} became {}", told.status);
    assert_eq!(told.status >= 400, body["error"]["message"].is_string(), "{}: {body}", told.status);
}

/// That every event is one of the client's protocol, and the last word comes last.
fn check_stream(way: Way, stream: &[u8]) {
    let (mut over, mut open, mut next) = (false, None, 0);
    for raw in std::str::from_utf8(stream).unwrap().split_inclusive("\n\n") {
        let event = Event::read(raw.as_bytes());
        assert!(!over && raw.ends_with("\n\n"), "{raw}");
        if event.data() == b"[DONE]" {
            assert_eq!(way, Way::ChatAsksMessages);
            over = true;
            continue;
        }
        let data: Value = serde_json::from_slice(event.data()).unwrap();
        if way == Way::ChatAsksMessages {
            over = data.get("error").is_some();
            assert!(over || data["choices"].is_array(), "{data}");
            continue;
        }
        assert_eq!(event.name(), data["type"].as_str().map(str::as_bytes));
        let index = data["index"].as_u64();
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(open.is_none() && index == Some(next));
                (open, next) = (index, next + 1);
            }
            "content_block_delta" => assert!(open.is_some() && open == index),
            "content_block_stop" => assert!(open.is_some() && open.take() == index),
            "message_delta" => assert!(open.is_none()),
            "message_stop" | "error" => over = true,
            _ => {}
        }
    }
}

/// The events of a stream, some of which are harmed, gone, there twice, or in another order.
fn harmed_stream(stream: &str, harms: &[(Index, Vec<(Index, Harm)>)]) -> Vec<u8> {
    let mut events: Vec<String> = stream.split_inclusive("\n\n").map(str::to_owned).collect();
    for (at, inside) in harms {
        if events.is_empty() {
            break;
        }
        let at = at.index(events.len());
        match (&inside[0], events[at].split_once("data: ")) {
            ((_, Harm::Gone), _) => _ = events.remove(at),
            ((_, Harm::Twice), _) => events.insert(at, events[at].clone()),
            ((to, Harm::Moved(_)), _) => {
                let event = events.remove(at);
                events.insert(to.index(events.len() + 1), event);
            }
            (_, Some((name, data))) => {
                let Ok(mut data) = serde_json::from_str(data) else { continue };
                harmed(&mut data, inside);
                events[at] = format!("{name}data: {data}\n\n");
            }
            _ => {}
        }
    }
    events.concat().into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn requests(at in any::<Index>(), harms in harms(), model in select(&MODELS[..])) {
        let cases = cases(|_| true);
        let case = at.get(&cases);
        let mut asked: Value = serde_json::from_str(&case.asked).unwrap();
        harmed(&mut asked, &harms);
        check_request(case, asked.to_string().as_bytes(), model);
    }

    #[test]
    fn whole_answers(at in any::<Index>(), harms in harms(), status in select(&[200, 200, 200, 400, 429, 529, 599][..])) {
        let cases = cases(|case| !case.has_events());
        let case = at.get(&cases);
        let mut answer: Value = serde_json::from_str(&case.answered).unwrap();
        harmed(&mut answer, &harms);
        let reply = Reply { names: case.put().names, ..reply() };
        check_answer(case, status, answer.to_string().as_bytes(), &reply);
    }

    #[test]
    fn streams(
        at in any::<Index>(),
        harms in prop::collection::vec((any::<Index>(), harms()), 1..4),
        cut in any::<Index>(),
    ) {
        let cases = cases(|case| case.has_events());
        let case = at.get(&cases);
        let stream = harmed_stream(&case.answered, &harms);
        let reply = Reply { names: case.put().names, ..reply() };
        let whole = told(case.way, &reply, [&stream[..]]);
        let (before, after) = stream.split_at(cut.index(stream.len() + 1));
        prop_assert_eq!(&told(case.way, &reply, [before, after]), &whole, "cut at {}", before.len());
        let Told { with_usage, without } = whole;
        check_stream(case.way, &with_usage);
        check_stream(case.way, &without);
    }

    #[test]
    fn any_bytes(
        at in any::<Index>(),
        changed in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        end in any::<Index>(),
    ) {
        let cases = cases(|_| true);
        let case = at.get(&cases);
        let harm = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in &changed {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes.truncate(end.index(2 * bytes.len()));
            bytes
        };
        check_request(case, &harm(&case.asked), "m");
        check_answer(case, 200, &harm(&case.answered), &reply());
        check_answer(case, 500, &harm(&case.answered), &reply());
        check_stream(case.way, &told(case.way, &reply(), [&harm(&case.answered)[..]]).with_usage);
    }
}
