//! Chat completions and legacy completions: a plain answer into the chunks of a stream.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::super::event;
use super::super::json::{Members, Object, array, elements, is_blank, is_text, number, text};
use super::{Form, HEAD};

/// The chunks of a stream that amounts to this answer.
pub(crate) fn unfold(form: Form, body: &[u8], usage: bool) -> Option<Vec<Bytes>> {
    let answer = Members::read(body)?;
    if answer.get("error").is_some() {
        return None;
    }
    let choices = elements(answer.get("choices")?)?;
    let mut stream = Chunks { form, answer: &answer, usage, events: Vec::new() };
    for (at, choice) in choices.iter().enumerate() {
        let choice = Choice::of(Members::of(choice)?, at)?;
        match form {
            Form::Chat => stream.chat(&choice)?,
            Form::Completions => stream.completion(&choice)?,
        }
    }
    if stream.events.is_empty() {
        return None;
    }
    if usage && let Some(usage) = answer.get("usage") {
        stream.push(stream.head().json("choices", "[]").raw("usage", usage));
    }
    stream.events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    Some(stream.events)
}

/// A choice of a whole answer.
struct Choice<'a> {
    members: Members<'a>,
    index: usize,
    finish: &'a RawValue,
}

impl<'a> Choice<'a> {
    fn of(members: Members<'a>, at: usize) -> Option<Choice<'a>> {
        let index = members.get("index").map_or(Some(at), number)?;
        let finish = members.get("finish_reason")?;
        let good = text(finish).is_some_and(|reason| !reason.is_empty() && reason != "error");
        (good && members.get("error").is_none()).then_some(Choice { members, index, finish })
    }

    /// How a chunk of this choice begins.
    fn begin(&self, logprobs: bool, form: Form, said: impl AsRef<[u8]>) -> Object {
        let chunk = match form {
            Form::Chat => Object::new().number("index", self.index).json("delta", said),
            Form::Completions => Object::new().json("text", said).number("index", self.index),
        };
        match self.members.any("logprobs") {
            Some(there) if logprobs => chunk.raw("logprobs", there),
            Some(_) => chunk.json("logprobs", "null"),
            None => chunk,
        }
    }

    fn chunk(&self, logprobs: bool, form: Form, said: impl AsRef<[u8]>) -> Vec<u8> {
        self.begin(logprobs, form, said).json("finish_reason", "null").end()
    }

    /// The last chunk, with all that is not known.
    fn last(&self, logprobs: bool, form: Form, said: &str) -> Vec<u8> {
        let mut chunk = self.begin(logprobs, form, said).raw("finish_reason", self.finish);
        for (key, raw) in self.members.iter() {
            if !matches!(key, "index" | "message" | "text" | "logprobs" | "finish_reason") {
                chunk = chunk.raw(key, raw);
            }
        }
        chunk.end()
    }
}

/// A stream that is being written.
struct Chunks<'a> {
    form: Form,
    answer: &'a Members<'a>,
    usage: bool,
    events: Vec<Bytes>,
}

impl Chunks<'_> {
    /// How every chunk begins. The first one has the fields that are not known as well.
    fn head(&self) -> Object {
        let mut chunk = Object::new();
        if let Some(id) = self.answer.any("id") {
            chunk = chunk.raw("id", id);
        }
        chunk = chunk.text("object", self.form.chunk());
        for (key, raw) in self.answer.iter() {
            let every = HEAD.contains(&key);
            let first = self.events.is_empty() && !matches!(key, "object" | "choices" | "usage");
            if key != "id" && (every || first) {
                chunk = chunk.raw(key, raw);
            }
        }
        chunk
    }

    fn push(&mut self, chunk: Object) {
        self.events.push(event(None, chunk.end()));
    }

    fn choice(&mut self, choice: &[u8]) {
        let mut chunk = self.head().json("choices", [b"[", choice, b"]"].concat());
        if self.usage {
            chunk = chunk.json("usage", "null");
        }
        self.push(chunk);
    }

    fn completion(&mut self, choice: &Choice<'_>) -> Option<()> {
        let said = choice.members.get("text").filter(|text| is_text(text))?;
        self.choice(&choice.chunk(true, self.form, said.get()));
        self.choice(&choice.last(false, self.form, "\"\""));
        Some(())
    }

    /// Role, what is not known (reasoning above all, which clients show before the text), text, refusal,
    /// annotations, calls.
    fn chat(&mut self, choice: &Choice<'_>) -> Option<()> {
        let message = Members::of(choice.members.get("message")?)?;
        let content = message.get("content");
        let spoken = content.filter(|content| !is_blank(content));
        self.delta(choice, false, &opening(&message));
        for (key, raw) in message.iter() {
            let later = ["role", "content", "refusal", "annotations", "function_call", "tool_calls"];
            if !is_blank(raw) && !later.contains(&key) {
                self.delta(choice, false, &Object::new().raw(key, raw).end());
            }
        }
        if let Some(content) = spoken {
            self.delta(choice, true, &Object::new().raw("content", content).end());
        }
        for key in ["refusal", "annotations", "function_call"] {
            if let Some(raw) = message.get(key).filter(|raw| !is_blank(raw)) {
                self.delta(choice, false, &Object::new().raw(key, raw).end());
            }
        }
        if let Some(calls) = message.get("tool_calls") {
            for (at, call) in elements(calls)?.into_iter().enumerate() {
                self.delta(choice, false, &tool_call(at, &Members::of(call)?));
            }
        }
        self.choice(&choice.last(spoken.is_none(), self.form, "{}"));
        Some(())
    }

    fn delta(&mut self, choice: &Choice<'_>, logprobs: bool, delta: &[u8]) {
        self.choice(&choice.chunk(logprobs, self.form, delta));
    }
}

/// The first delta: the role, and all fields that have nothing to say. A text that follows begins as an empty one.
fn opening(message: &Members<'_>) -> Vec<u8> {
    let mut delta = match message.get("role") {
        Some(role) => Object::new().raw("role", role),
        None => Object::new().text("role", "assistant"),
    };
    for (key, raw) in message.iter() {
        if key == "content" && is_text(raw) {
            delta = delta.text("content", "");
        } else if key != "role" && is_blank(raw) {
            delta = delta.raw(key, raw);
        }
    }
    delta.end()
}

/// A delta with one whole call.
fn tool_call(at: usize, call: &Members<'_>) -> Vec<u8> {
    let mut whole = Object::new().number("index", at);
    for (key, raw) in call.iter() {
        if key != "index" {
            whole = whole.raw(key, raw);
        }
    }
    let mut calls = Vec::new();
    array(&mut calls, [whole.end()], |call, out| out.extend_from_slice(&call));
    Object::new().json("tool_calls", calls).end()
}
