//! Responses: a plain answer into the events of a stream.
//!
//! Items and parts of kinds that are known come piece by piece, as clients expect them; any other is added and
//! done, whole both times. The last event holds the whole response as it was.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::super::event;
use super::super::json::{Members, Object, elements, is_text};
use super::ending;

/// The events of a stream that amounts to this response.
pub(crate) fn unfold(body: &[u8]) -> Option<Vec<Bytes>> {
    let whole: &RawValue = serde_json::from_slice(body).ok()?;
    let response = Members::of(whole)?;
    let ending = ending(&response)?;
    let output = elements(response.get("output")?)?;
    let mut stream = Stream { events: Vec::new() };
    for kind in ["response.created", "response.in_progress"] {
        let response = begun(&response);
        stream.push(kind, |event| event.json("response", response));
    }
    for (index, raw) in output.into_iter().enumerate() {
        let members = Members::of(raw)?;
        let id = members.any("id").filter(|id| is_text(id)).map_or("\"\"", RawValue::get);
        Item { stream: &mut stream, index, id, raw, members: &members }.write()?;
    }
    stream.push(ending, |event| event.raw("response", whole));
    Some(stream.events)
}

/// The response as it was when it began.
fn begun(response: &Members<'_>) -> Vec<u8> {
    let mut begun = Object::new();
    for (key, raw) in response.iter() {
        begun = match key {
            "status" => begun.text(key, "in_progress"),
            "output" => begun.json(key, "[]"),
            "output_text" => begun,
            "usage" | "incomplete_details" | "completed_at" => begun.json(key, "null"),
            _ => begun.raw(key, raw),
        };
    }
    begun.end()
}

/// A stream that is being written.
struct Stream {
    events: Vec<Bytes>,
}

impl Stream {
    fn push(&mut self, kind: &str, rest: impl FnOnce(Object) -> Object) {
        let begun = Object::new().text("type", kind).number("sequence_number", self.events.len());
        self.events.push(event(Some(kind), rest(begun).end()));
    }
}

/// One item of the output.
struct Item<'a> {
    stream: &'a mut Stream,
    index: usize,
    /// As it stands in the answer.
    id: &'a str,
    raw: &'a RawValue,
    members: &'a Members<'a>,
}

impl<'a> Item<'a> {
    fn write(&mut self) -> Option<()> {
        let kind = self.members.text("type")?;
        let grown: &[&str] = match kind.as_str() {
            "message" => &["content"],
            "reasoning" => &["summary", "content"],
            "function_call" => &["arguments"],
            "custom_tool_call" => &["input"],
            _ => &[],
        };
        let added = if grown.is_empty() { self.raw.get().into() } else { emptied(self.members, grown) };
        self.item("response.output_item.added", &added);
        for key in grown {
            let Some(value) = self.members.get(key) else { continue };
            match *key {
                "content" => self.parts(&CONTENT, value)?,
                "summary" => self.parts(&SUMMARY, value)?,
                "arguments" => self.call("response.function_call_arguments", "arguments", value)?,
                _ => self.call("response.custom_tool_call_input", "input", value)?,
            }
        }
        self.item("response.output_item.done", self.raw.get().as_bytes());
        Some(())
    }

    fn item(&mut self, kind: &str, item: &[u8]) {
        let index = self.index;
        self.stream.push(kind, |event| event.number("output_index", index).json("item", item));
    }

    /// An event about something inside the item.
    fn inside(&mut self, kind: &str, rest: impl FnOnce(Object) -> Object) {
        let (id, index) = (self.id, self.index);
        self.stream.push(kind, |event| rest(event.json("item_id", id).number("output_index", index)));
    }

    fn call(&mut self, kind: &str, key: &str, value: &RawValue) -> Option<()> {
        if !is_text(value) {
            return None;
        }
        let name = self.members.get("name").filter(|_| key == "arguments");
        self.inside(&format!("{kind}.delta"), |event| event.raw("delta", value));
        self.inside(&format!("{kind}.done"), |event| match name {
            Some(name) => event.raw(key, value).raw("name", name),
            None => event.raw(key, value),
        });
        Some(())
    }

    fn parts(&mut self, names: &Parts, parts: &RawValue) -> Option<()> {
        for (at, raw) in elements(parts)?.into_iter().enumerate() {
            let part = Members::of(raw)?;
            let (key, kind) = match part.text("type")?.as_str() {
                "output_text" => ("text", "response.output_text"),
                "refusal" => ("refusal", "response.refusal"),
                "reasoning_text" => ("text", "response.reasoning_text"),
                "summary_text" => ("text", "response.reasoning_summary_text"),
                _ => ("", ""),
            };
            let said = part.get(key).filter(|said| is_text(said));
            let added = match said {
                Some(_) => emptied(&part, &[key, "annotations", "logprobs"]),
                None => raw.get().into(),
            };
            self.inside(names.added, |event| event.number(names.index, at).json("part", added));
            if let Some(said) = said {
                self.text(kind, key, (names.index, at), said, &part)?;
            }
            self.inside(names.done, |event| event.number(names.index, at).raw("part", raw));
        }
        Some(())
    }

    fn text(
        &mut self,
        kind: &str,
        key: &str,
        at: (&str, usize),
        said: &RawValue,
        part: &Members<'_>,
    ) -> Option<()> {
        let logprobs = part.get("logprobs").map_or("[]", RawValue::get);
        let odds = |event: Object| match kind {
            "response.output_text" => event.json("logprobs", logprobs),
            _ => event,
        };
        self.inside(&format!("{kind}.delta"), |event| odds(event.number(at.0, at.1).raw("delta", said)));
        for (index, annotation) in
            part.get("annotations").map_or(Some(Vec::new()), elements)?.iter().enumerate()
        {
            self.inside("response.output_text.annotation.added", |event| {
                let event = event.number(at.0, at.1).number("annotation_index", index);
                event.raw("annotation", annotation)
            });
        }
        self.inside(&format!("{kind}.done"), |event| odds(event.number(at.0, at.1).raw(key, said)));
        Some(())
    }
}

/// What the events about parts are called: those of a content, and those of a summary.
struct Parts {
    added: &'static str,
    done: &'static str,
    index: &'static str,
}

static CONTENT: Parts = Parts {
    added: "response.content_part.added",
    done: "response.content_part.done",
    index: "content_index",
};
static SUMMARY: Parts = Parts {
    added: "response.reasoning_summary_part.added",
    done: "response.reasoning_summary_part.done",
    index: "summary_index",
};

/// Something as it was when it began: without what grows.
fn emptied(whole: &Members<'_>, grown: &[&str]) -> Vec<u8> {
    let mut begun = Object::new();
    for (key, raw) in whole.iter() {
        begun = match raw.get().as_bytes() {
            [b'"', ..] if grown.contains(&key) => begun.text(key, ""),
            [b'[', ..] if grown.contains(&key) => begun.json(key, "[]"),
            [b'"', ..] if key == "status" => begun.text(key, "in_progress"),
            _ => begun.raw(key, raw),
        };
    }
    begun.end()
}
