//! A whole answer and the stream of the same answer say the same to the client.

use proptest::prelude::*;
use serde_json::Value;
use wire::fold::{fold, unfold};
use wire::translate::{Names, Reply};

use super::case::{Case, all};
use super::history::{choice, heard, message};
use super::talk::answer;
use super::{Told, Way, reply, told};

/// Streams that have no whole form: the arguments of a call are cut, and no object can be made of them, or they are no
/// text in the first place, or come twice.
const TORN: [&str; 4] = [
    "chat_asks_messages/length.stream.case",
    "chat_asks_messages/tools-early.stream.case",
    "messages_asks_chat/length.plain.case",
    "messages_asks_chat/tools-odd.stream.case",
];

/// An event that nobody knows. What it does to an answer is not known either, so a stream with it has no whole form.
const UNKNOWN: &str = "event: content_block_hint\n";

/// Reads an answer, less what the two forms may say differently: members that say that something is not there. A
/// stream begins before it is known whether there will be any text.
fn said(answer: &[u8]) -> Value {
    fn prune(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|key, member| !(member.is_null() || key == "content" && member == ""));
                members.values_mut().for_each(prune);
            }
            Value::Array(elements) => elements.iter_mut().for_each(prune),
            _ => {}
        }
    }
    let mut answer = serde_json::from_slice(answer).unwrap();
    prune(&mut answer);
    gather(&mut answer);
    answer
}

/// Puts together what is alike in the content of a message: a whole answer of Chat Completions has one text and one
/// thought, and does not tell in which order they came.
fn gather(message: &mut Value) {
    let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) else { return };
    let mut gathered: Vec<Value> = Vec::new();
    for block in blocks.drain(..) {
        let alike =
            gathered.iter_mut().find(|other| other["type"] == block["type"] && block["type"] != "tool_use");
        match alike {
            Some(first) => {
                let member = first["type"].as_str().unwrap().to_owned();
                let more = block[&member].as_str().unwrap();
                first[&member] = format!("{}{more}", first[&member].as_str().unwrap()).into();
            }
            None => gathered.push(block),
        }
    }
    *blocks = gathered;
}

/// What the client hears of a whole answer of the provider, and what it makes of the stream of it.
fn both(case: &Case, plain: &[u8], stream: &[u8]) -> (Value, Value) {
    let reply = Reply { names: case.put().names, ..reply() };
    let whole = case.way.crossing().answer(200, plain, &reply, "req-1").unwrap();
    let Told { with_usage, .. } = told(case.way, &reply, [stream]);
    let folded = fold(case.way.client(), [&with_usage]);
    let folded = folded.unwrap_or_else(|| panic!("{}: no answer: {}", case.name, with_usage.escape_ascii()));
    (said(&whole.body), said(&folded))
}

#[test]
fn a_stream_and_its_whole_answer_are_told_alike() {
    for case in all().iter().filter(|case| case.has_events() && case.kind != "error") {
        let known = case.answered.split_inclusive("\n\n").filter(|event| !event.starts_with(UNKNOWN));
        let plain = fold(case.way.provider(), known);
        assert_eq!(plain.is_none(), TORN.contains(&&*case.name), "{}", case.name);
        let Some(plain) = plain else { continue };
        let (whole, folded) = both(case, &plain, case.answered.as_bytes());
        assert_eq!(whole, folded, "{}", case.name);
    }
}

#[test]
fn a_whole_answer_and_its_stream_are_told_alike() {
    let whole = |case: &&Case| !case.streamed && case.kind != "error" && !TORN.contains(&&*case.name);
    for case in all().iter().filter(whole) {
        let plain = case.answered.trim_ascii().as_bytes();
        let stream = unfold(case.way.provider(), plain, true).unwrap_or_else(|| panic!("{}", case.name));
        let (whole, folded) = both(case, plain, &stream.concat());
        assert_eq!(whole, folded, "{}", case.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn any_answer_is_told_alike_in_both_forms(answer in answer()) {
        let provided = [message(1, &answer, &Names::default()), choice(1, &answer, &Names::default())];
        for (way, provided) in Way::BOTH.into_iter().zip(provided) {
            let [whole, streamed] = [false, true].map(|streamed| heard(way, &provided, Names::default(), streamed));
            prop_assert_eq!(said(whole.as_bytes()), said(streamed.as_bytes()));
        }
    }
}
