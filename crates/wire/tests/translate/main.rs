//! Requests and answers on their way between protocols, whole conversations of them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod case;
mod cuts;
mod golden;
mod history;
mod same;
mod talk;

use bytes::Bytes;
use serde_json::value::RawValue;
use wire::dialect::{CHAT, Dialect, MESSAGES};
use wire::relay::{Out, Relay};
use wire::translate::{Crossing, Reply};

/// Who asks whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A client of Chat Completions, a provider of Messages.
    ChatAsksMessages,
    /// A client of Messages, a provider of Chat Completions.
    MessagesAsksChat,
}

impl Way {
    const BOTH: [Way; 2] = [Way::ChatAsksMessages, Way::MessagesAsksChat];

    fn client(self) -> &'static dyn Dialect {
        match self {
            Way::ChatAsksMessages => &CHAT,
            Way::MessagesAsksChat => &MESSAGES,
        }
    }

    fn provider(self) -> &'static dyn Dialect {
        match self {
            Way::ChatAsksMessages => &MESSAGES,
            Way::MessagesAsksChat => &CHAT,
        }
    }

    fn crossing(self) -> Crossing {
        Crossing::between(self.client(), self.provider()).unwrap()
    }
}

/// What came out of a stream, with the events of usage that only some clients get, and without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    with_usage: Vec<u8>,
    without: Vec<u8>,
}

impl Out for Told {
    fn answer(&mut self, bytes: Bytes) {
        self.with_usage.extend_from_slice(&bytes);
        self.without.extend_from_slice(&bytes);
    }

    fn usage(&mut self, bytes: Bytes) {
        self.with_usage.extend_from_slice(&bytes);
    }
}

/// A stream that came in these pieces, in the client's words and relayed as the gate does.
fn told<'a>(way: Way, reply: &Reply, pieces: impl IntoIterator<Item = &'a [u8]>) -> Told {
    let mut stream = way.crossing().stream(reply.clone());
    let mut relay = Relay::new(way.client(), true);
    let mut told = Told::default();
    for piece in pieces {
        let mut said = Vec::new();
        stream.feed(piece, &mut said).unwrap();
        relay.feed(said.into(), &mut told);
    }
    let mut said = Vec::new();
    stream.finish(&mut said);
    relay.feed(said.into(), &mut told);
    relay.finish(&mut told);
    told
}

/// What an answer needs beside what the provider says.
fn reply() -> Reply {
    Reply { created: 1_790_000_000, id: "gate-1".into(), ..Reply::default() }
}

/// JSON without the white space between its tokens. Whatever stands in strings, and every number, stays as it is.
fn tight(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for letter in json.chars() {
        if quoted || !letter.is_ascii_whitespace() {
            out.push(letter);
        }
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    out
}

/// Members that belong to a tool or to whoever made the schema: they stay byte for byte as they came.
const VERBATIM: [&str; 4] = ["input", "input_schema", "parameters", "schema"];

/// JSON in a form of which there is one only: members sorted, but for those that have to stay as they are.
fn canonical(json: &str) -> String {
    let raw: &RawValue = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    canonical_value(raw)
}

fn canonical_value(raw: &RawValue) -> String {
    if let Some(members) = members(raw) {
        let mut members: Vec<String> = members
            .into_iter()
            .map(|(key, value)| match VERBATIM.contains(&&*key) {
                true => format!("{}:{}", serde_json::to_string(&key).unwrap(), value.get()),
                false => format!("{}:{}", serde_json::to_string(&key).unwrap(), canonical_value(value)),
            })
            .collect();
        members.sort();
        return format!("{{{}}}", members.join(","));
    }
    if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        return format!("[{}]", elements.into_iter().map(canonical_value).collect::<Vec<_>>().join(","));
    }
    match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => serde_json::to_string(&text).unwrap(),
        Err(_) => raw.get().to_owned(),
    }
}

/// The members of an object, in their order. It must not have one twice.
fn members(raw: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    if !raw.get().starts_with('{') {
        return None;
    }
    let in_order: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).unwrap();
    let mut values: std::collections::HashMap<String, &RawValue> = serde_json::from_str(raw.get()).unwrap();
    Some(in_order.into_iter().map(|(key, _)| (key.clone(), values.remove(&key).unwrap())).collect())
}
