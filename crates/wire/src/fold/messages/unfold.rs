//! Messages: a plain answer into the events of a stream.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::super::event;
use super::super::json::{Members, Object, elements, is_blank, is_text, quoted};

/// What a stream says in `message_delta`, once it is known, and leaves open in `message_start`.
const LATE: [&str; 4] = ["stop_reason", "stop_sequence", "stop_details", "container"];

/// The events of a stream that amounts to this message. The usage belongs to every stream of this protocol.
pub(crate) fn unfold(body: &[u8]) -> Option<Vec<Bytes>> {
    let message = Members::read(body)?;
    let content = elements(message.get("content")?)?;
    let usage = message.get("usage")?;
    if message.get("error").is_some() || message.get("stop_reason").is_none() {
        return None;
    }
    let mut events = vec![start(&message)];
    for (index, block) in content.iter().enumerate() {
        Block { index, members: Members::of(block)? }.write(&mut events)?;
    }
    let mut late = Object::new();
    for (key, raw) in message.iter().filter(|(key, _)| LATE.contains(key)) {
        late = late.raw(key, raw);
    }
    let mut delta = typed("message_delta").json("delta", late.end()).raw("usage", usage);
    if let Some(raw) = message.any("context_management") {
        delta = delta.raw("context_management", raw);
    }
    events.push(named("message_delta", delta));
    events.push(named("message_stop", typed("message_stop")));
    Some(events)
}

fn start(message: &Members<'_>) -> Bytes {
    let mut begun = Object::new();
    for (key, raw) in message.iter() {
        begun = match key {
            "content" => begun.json(key, "[]"),
            "context_management" => begun.json(key, "null"),
            _ if LATE.contains(&key) => begun.json(key, "null"),
            _ => begun.raw(key, raw),
        };
    }
    named("message_start", typed("message_start").json("message", begun.end()))
}

/// One block of a whole message.
struct Block<'a> {
    index: usize,
    members: Members<'a>,
}

impl Block<'_> {
    /// A block of a kind that is not known comes whole at its start.
    fn write(&self, events: &mut Vec<Bytes>) -> Option<()> {
        let kind = self.members.text("type")?;
        let grown: &[&str] = match kind.as_str() {
            "text" => &["text", "citations"],
            "thinking" => &["thinking", "signature"],
            kind if kind.ends_with("tool_use") => &["input"],
            _ => &[],
        };
        let mut begun = Object::new();
        for (key, raw) in self.members.iter() {
            begun = match empty(raw).filter(|_| grown.contains(&key)) {
                Some(empty) => begun.json(key, empty),
                None => begun.raw(key, raw),
            };
        }
        events.push(self.named("content_block_start", "content_block", begun.end()));
        for key in grown {
            if let Some(raw) = self.members.get(key).filter(|raw| !is_blank(raw) && empty(raw).is_some()) {
                self.add(key, raw, events)?;
            }
        }
        events.push(named("content_block_stop", typed("content_block_stop").number("index", self.index)));
        Some(())
    }

    fn add(&self, key: &str, raw: &RawValue, events: &mut Vec<Bytes>) -> Option<()> {
        let mut delta = |kind, field, value: &str| {
            let delta = typed(kind).json(field, value).end();
            events.push(self.named("content_block_delta", "delta", delta));
        };
        match key {
            "input" => delta("input_json_delta", "partial_json", &quoted(raw.get())),
            "citations" => {
                for citation in elements(raw)? {
                    delta("citations_delta", "citation", citation.get());
                }
            }
            "text" if is_text(raw) => delta("text_delta", "text", raw.get()),
            "thinking" if is_text(raw) => delta("thinking_delta", "thinking", raw.get()),
            "signature" if is_text(raw) => delta("signature_delta", "signature", raw.get()),
            _ => return None,
        }
        Some(())
    }

    fn named(&self, name: &str, key: &str, value: Vec<u8>) -> Bytes {
        named(name, typed(name).number("index", self.index).json(key, value))
    }
}

/// As what a value begins that grows.
fn empty(raw: &RawValue) -> Option<&'static str> {
    match raw.get().as_bytes() {
        [b'"', ..] => Some("\"\""),
        [b'[', ..] => Some("[]"),
        [b'{', ..] => Some("{}"),
        _ => None,
    }
}

fn typed(kind: &str) -> Object {
    Object::new().text("type", kind)
}

fn named(name: &str, data: Object) -> Bytes {
    event(Some(name), data.end())
}
