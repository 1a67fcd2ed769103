//! Chat completions and legacy completions: chunks into the answer that they are pieces of.
//!
//! A field that is not known is kept: on the top level and in a choice its last state, in a delta all its pieces.
//! A tool call is one by its `index`, which the plain answer does not have.
//!
//! A stream is whole when every choice has said why it stopped and `[DONE]` or, from hosts that leave it out, the
//! usage has come after that.

mod unfold;

use serde_json::value::RawValue;

use super::json::{Members, Object, array, elements, is_blank, is_text, number, text};
use super::node::{Map, Node};
use super::{Fold, Said};

pub(crate) use unfold::unfold;

/// Which of the two protocols it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Chat,
    /// A choice has a `text` where chat's has a message.
    Completions,
}

impl Form {
    /// What the `object` of a plain answer says.
    fn answer(self) -> &'static str {
        match self {
            Form::Chat => "chat.completion",
            Form::Completions => "text_completion",
        }
    }

    /// What the `object` of a chunk says.
    fn chunk(self) -> &'static str {
        match self {
            Form::Chat => "chat.completion.chunk",
            Form::Completions => "text_completion",
        }
    }
}

/// Fields that are the same in every chunk, but for placeholders in chunks of a host's own.
const HEAD: [&str; 5] = ["id", "created", "model", "system_fingerprint", "service_tier"];

/// A stream of chunks.
pub(crate) struct Chunks {
    form: Form,
    rest: Map,
    usage: Option<Box<RawValue>>,
    choices: Vec<Choice>,
    /// The usage came after all choices had ended.
    counted: bool,
    done: bool,
}

impl Chunks {
    pub(crate) fn new(form: Form) -> Chunks {
        Chunks { form, rest: Map::default(), usage: None, choices: Vec::new(), counted: false, done: false }
    }

    /// Whether an event without choices is a chunk at all, rather than an error in a shape that nobody has seen.
    fn is_chunk(&self, said: &Members<'_>) -> bool {
        let named = said.text("object").is_some_and(|object| object == self.form.chunk());
        named || said.get("usage").is_some()
    }

    fn add_choices(&mut self, raw: &RawValue) -> Option<()> {
        let (form, choices) = (self.form, elements(raw)?);
        for said in &choices {
            let said = Members::of(said)?;
            let index = match said.get("index") {
                Some(index) => number(index)?,
                None if choices.len() == 1 => 0,
                None => return None,
            };
            self.choice(index)?.add(form, &said)?;
        }
        Some(())
    }

    /// The choice of that index. They may begin in any order, and one that is left out never ends. The bound is that
    /// of the API on `n`.
    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        if index >= 128 {
            return None;
        }
        if index >= self.choices.len() {
            self.choices.resize_with(index + 1, Choice::default);
        }
        self.choices.get_mut(index)
    }

    fn has_ended(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some())
    }
}

impl Fold for Chunks {
    fn event(&mut self, event: &Said<'_>) -> Option<()> {
        let said = &event.members;
        if self.done || event.name == Some(b"error") || said.get("error").is_some() {
            return None;
        }
        match said.get("choices") {
            Some(choices) => self.add_choices(choices)?,
            None if self.is_chunk(said) => {}
            None => return None,
        }
        for (key, raw) in said.iter() {
            match key {
                // Padding against who watches the wire; it is no part of the answer.
                "choices" | "object" | "obfuscation" => {}
                "usage" if is_blank(raw) => {}
                "usage" => self.usage = Some(raw.to_owned()),
                _ if HEAD.contains(&key) => first(&mut self.rest, key, raw),
                _ => self.rest.overlay(key, raw)?,
            }
        }
        let counts = said.get("usage").is_some() || has_usage(said.get("x_groq"));
        self.counted |= counts && self.has_ended();
        Some(())
    }

    fn done(&mut self) -> Option<()> {
        self.done = true;
        Some(())
    }

    fn finish(mut self: Box<Self>) -> Option<Vec<u8>> {
        if !self.has_ended() || !(self.done || self.counted) {
            return None;
        }
        let mut answer = Object::new();
        if let Some(id) = self.rest.remove("id") {
            answer = answer.node("id", &id);
        }
        answer = answer.text("object", self.form.answer());
        for key in ["created", "model"] {
            if let Some(node) = self.rest.remove(key) {
                answer = answer.node(key, &node);
            }
        }
        let written: Vec<_> = self
            .choices
            .into_iter()
            .enumerate()
            .map(|(at, it)| it.write(self.form, at))
            .collect::<Option<_>>()?;
        let mut choices = Vec::new();
        array(&mut choices, written, |choice, out| out.extend_from_slice(&choice));
        answer = answer.json("choices", choices);
        let groq = self.rest.get_mut("x_groq").and_then(Node::as_map).and_then(|groq| groq.remove("usage"));
        match (self.usage, groq) {
            (Some(usage), _) => answer = answer.raw("usage", &usage),
            (None, Some(usage)) => answer = answer.node("usage", &usage),
            (None, None) => {}
        }
        for (key, node) in self.rest.iter() {
            answer = answer.node(key, node);
        }
        Some(answer.end())
    }
}

/// Groq puts the usage of a stream there.
fn has_usage(groq: Option<&RawValue>) -> bool {
    groq.and_then(Members::of).is_some_and(|groq| groq.get("usage").is_some())
}

/// Keeps the first value that is more than a placeholder.
fn first(map: &mut Map, key: &str, raw: &RawValue) {
    let is_empty = |raw: &RawValue| is_blank(raw) || raw.get() == "0";
    match map.get_mut(key) {
        Some(Node::Whole(there)) if !is_empty(there) || is_empty(raw) => {}
        _ => map.set(key, Node::of(raw)),
    }
}

/// One choice of a stream.
#[derive(Default)]
struct Choice {
    /// The message, or the one member `text`.
    message: Map,
    logprobs: Option<Node>,
    finish: Option<Box<RawValue>>,
    rest: Map,
}

impl Choice {
    fn add(&mut self, form: Form, said: &Members<'_>) -> Option<()> {
        // Some hosts go on with empty deltas after the end; what says something then is out of order.
        let over = self.finish.is_some();
        for (key, raw) in said.iter() {
            match key {
                "index" => {}
                "delta" if form == Form::Chat => {
                    for (key, raw) in delta(raw)?.iter() {
                        self.say(over && key != "role", key, raw)?;
                    }
                }
                "text" if form == Form::Completions => self.say(over, key, raw)?,
                "logprobs" if over && !is_blank(raw) => return None,
                "logprobs" => match &mut self.logprobs {
                    Some(logprobs) => logprobs.grow(key, raw)?,
                    None => self.logprobs = Some(Node::of(raw)),
                },
                "finish_reason" => self.end(raw)?,
                // A failure, or an answer of another form.
                "error" | "message" | "delta" if !is_blank(raw) => return None,
                "message" | "delta" => {}
                _ => self.rest.overlay(key, raw)?,
            }
        }
        Some(())
    }

    fn say(&mut self, over: bool, key: &str, raw: &RawValue) -> Option<()> {
        if over && !is_blank(raw) {
            return None;
        }
        match self.message.get_mut(key) {
            Some(there) if is_blank(raw) && !there.is_null() => Some(()),
            // Parts of a content that come one by one would have been one part in the plain answer.
            Some(there) if key == "content" && !there.is_null() && !is_text(raw) => None,
            _ => self.message.grow(key, raw),
        }
    }

    fn end(&mut self, raw: &RawValue) -> Option<()> {
        if is_blank(raw) {
            return Some(());
        }
        let changed = self.finish.as_ref().is_some_and(|finish| finish.get() != raw.get());
        self.finish = Some(raw.to_owned());
        (!changed && text(raw).is_some_and(|reason| reason != "error")).then_some(())
    }

    fn text(&mut self) -> Option<Node> {
        self.message.remove("text").filter(|text| !text.is_null())
    }

    fn write(mut self, form: Form, index: usize) -> Option<Vec<u8>> {
        let mut choice = Object::new();
        choice = match form {
            Form::Chat => choice.number("index", index).json("message", message(self.message)?),
            Form::Completions => choice.node("text", &self.text()?).number("index", index),
        };
        if let Some(logprobs) = &self.logprobs {
            choice = choice.node("logprobs", logprobs);
        }
        choice = choice.raw("finish_reason", &self.finish?);
        for (key, node) in self.rest.iter() {
            choice = choice.node(key, node);
        }
        Some(choice.end())
    }
}

/// A delta; some hosts leave out an empty one.
fn delta(raw: &RawValue) -> Option<Members<'_>> {
    if is_blank(raw) { Members::read(b"{}") } else { Members::of(raw) }
}

/// The message that the deltas amount to.
fn message(mut said: Map) -> Option<Vec<u8>> {
    let mut message = Object::new();
    message = match said.remove("role") {
        Some(role) if !role.is_null() => message.node("role", &role),
        _ => message.text("role", "assistant"),
    };
    message = match said.remove("content") {
        Some(content) => message.node("content", &content),
        None => message.json("content", "null"),
    };
    if let Some(calls) = said.get_mut("tool_calls").filter(|calls| !calls.is_null()) {
        set_calls(calls.as_list()?)?;
    }
    for (key, node) in said.iter() {
        message = message.node(key, node);
    }
    Some(message.end())
}

/// Makes whole tool calls of the pieces: in their order, without the index that told them apart.
fn set_calls(calls: &mut Vec<Node>) -> Option<()> {
    let mut numbered = Vec::with_capacity(calls.len());
    for mut call in calls.drain(..) {
        let map = call.as_map()?;
        let index = match map.remove("index") {
            Some(Node::Whole(index)) => number(&index),
            _ => None,
        };
        // A piece of a call that nothing connects to its beginning.
        if !["id", "function", "custom"].iter().any(|key| map.get_mut(key).is_some_and(is_named)) {
            return None;
        }
        numbered.push((index, call));
    }
    if numbered.iter().all(|(index, _)| index.is_some()) {
        numbered.sort_by_key(|(index, _)| *index);
    }
    calls.extend(numbered.into_iter().map(|(_, call)| call));
    Some(())
}

/// Whether an id is there, or a function has a name.
fn is_named(node: &mut Node) -> bool {
    match node {
        Node::Whole(raw) if is_text(raw) => !is_blank(raw),
        _ => node.as_map().and_then(|map| map.get_mut("name")).is_some_and(|name| match name {
            Node::Whole(name) => !is_blank(name),
            _ => false,
        }),
    }
}
