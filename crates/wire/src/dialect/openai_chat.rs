//! OpenAI Chat Completions, and the chunks that it shares with legacy completions.
//!
//! Most chunks of a stream carry a few characters of text and nothing that we need. They are recognised by keys
//! that are missing or `null` and never parsed; the first ones, the last ones and odd ones are.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use super::complaint::complaint;
use super::reading::{
    Key, Raw, State, could_be_object, could_be_torn_object, elements, is_object, key, part, text, whole,
};
use super::usage::{openai as usage_of, openai_counts};
use super::{Dialect, Part, Shape};
use crate::edit::Edits;
use crate::fingerprint::{self, Rules};
use crate::fold::{Chunks, Fold, Form, unfold_chunks};
use crate::peek::Peek;
use crate::sse::Event;
use crate::translate::{CHAT_TONGUE, Tongue};
use crate::watch::Watch;

/// `POST /v1/chat/completions`
pub static CHAT: Chat = Chat;

/// The protocol of chat completions.
pub struct Chat;

impl Dialect for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn shape(&self) -> Shape {
        Shape::OpenAi
    }

    fn is_generation(&self) -> bool {
        true
    }

    fn rules(&self) -> Option<&'static Rules> {
        Some(&fingerprint::CHAT)
    }

    fn leaves_usage(&self) -> bool {
        true
    }

    fn ask_usage(&self, request: &Peek, edits: &mut Edits) -> bool {
        edits.include_usage(request)
    }

    fn watch_event(&self, event: &Event<'_>, watch: &mut Watch) -> Part {
        watch_chunk(event, watch)
    }

    fn watch_ends(&self, head: &Event<'_>, tail: &[u8], watch: &mut Watch) {
        watch_ends(head, tail, watch);
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        read_answer(body, watch);
    }

    fn read_ends(&self, head: &[u8], tail: &[u8], watch: &mut Watch) {
        note_ends(head, tail, watch);
    }

    fn fold(&self) -> Option<Box<dyn Fold>> {
        Some(Box::new(Chunks::new(Form::Chat)))
    }

    fn unfold(&self, body: &[u8], usage: bool) -> Option<Vec<Bytes>> {
        unfold_chunks(Form::Chat, body, usage)
    }

    fn tongue(&self) -> Option<&'static dyn Tongue> {
        Some(&CHAT_TONGUE)
    }
}

static CHOICES: Key = key!("\"choices\"");
static FINISH: Key = key!("\"finish_reason\"");
static USAGE: Key = key!("\"usage\"");
static ERROR: Key = key!("\"error\"");
static MODEL: Key = key!("\"model\"");
static DATA: Key = key!("\"data\"");

/// A chunk of a stream, or a whole answer.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    model: Raw<'a>,
    #[serde(borrow)]
    choices: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
    #[serde(borrow)]
    x_groq: Raw<'a>,
    #[serde(borrow)]
    error: Raw<'a>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Raw<'a>,
    #[serde(borrow)]
    delta: Raw<'a>,
    #[serde(borrow)]
    text: Raw<'a>,
}

#[derive(Deserialize)]
struct Groq<'a> {
    #[serde(borrow)]
    usage: Raw<'a>,
}

/// Takes note of one chunk of a stream.
pub(super) fn watch_chunk(event: &Event<'_>, watch: &mut Watch) -> Part {
    let data = event.data().trim_ascii();
    if !could_be_object(data) {
        match data {
            b"" => {}
            b"[DONE]" => watch.terminal = true,
            _ => watch.garbled = true,
        }
        return Part::Answer;
    }
    if is_plain(data, watch) {
        return Part::Answer;
    }
    let Some(chunk) = whole::<Chunk<'_>>(data, watch) else { return Part::Answer };
    if let Some(said) = chunk.complaint(event.name(), data) {
        watch.set_error(&said);
        watch.terminal = true;
        return Part::Answer;
    }
    watch.terminal |= chunk.note(watch);
    if is_object(chunk.usage) && elements(chunk.choices) == Some(0) { Part::UsageOnly } else { Part::Answer }
}

/// Whether a chunk holds nothing that is needed any more: more text of a model that is known, and that is all.
///
/// Nearly every chunk has a `finish_reason`, `null` until the last; so whatever has none and no choices either is
/// something else, perhaps an error in a shape that nobody has seen.
fn is_plain(data: &[u8], watch: &Watch) -> bool {
    watch.content
        && watch.model.is_some()
        && match FINISH.state(data) {
            State::Set => false,
            State::Null => true,
            State::Missing => CHOICES.state(data) == State::Set,
        }
        && USAGE.state(data) != State::Set
        && ERROR.state(data) != State::Set
}

impl Chunk<'_> {
    /// The error in it, if it is one.
    fn complaint(&self, event: Option<&[u8]>, data: &[u8]) -> Option<String> {
        if self.choices.is_some() && self.error.is_none() {
            return None;
        }
        let named = || (event == Some(b"error")).then(|| String::from_utf8_lossy(data).into_owned());
        complaint(data).or_else(named)
    }

    /// Takes note of what it says; true where it says why the model stopped.
    fn note(&self, watch: &mut Watch) -> bool {
        if watch.model.is_none()
            && let Some(model) = text(self.model)
        {
            watch.set_model(&model);
        }
        let groq = || part::<Groq<'_>>(self.x_groq).and_then(|groq| usage_of(groq.usage));
        if let Some(usage) = usage_of(self.usage).or_else(groq) {
            watch.book(usage);
        }
        let mut finished = false;
        for choice in part::<Vec<Choice<'_>>>(self.choices).unwrap_or_default() {
            watch.content = watch.content || choice.has_content();
            if let Some(finish) = text(choice.finish_reason) {
                watch.set_finish(&finish);
                finished = true;
            }
        }
        finished
    }
}

impl Choice<'_> {
    /// Whether the model said something: any part of the delta but its role, known to us or not.
    fn has_content(&self) -> bool {
        let delta: BTreeMap<String, Raw<'_>> = part(self.delta).unwrap_or_default();
        let says = |raw: Raw<'_>| raw.is_some_and(|raw| !matches!(raw.get(), "\"\"" | "[]" | "{}"));
        says(self.text) || delta.into_iter().any(|(key, value)| key != "role" && says(value))
    }
}

/// Takes note of a chunk that is too long to be kept.
pub(super) fn watch_ends(head: &Event<'_>, tail: &[u8], watch: &mut Watch) {
    if !could_be_torn_object(head.data(), tail) {
        watch.garbled = true;
        return;
    }
    watch.content = true;
    if let Some(model) = text(MODEL.first(head.data())) {
        watch.set_model(&model);
    }
    if let Some(finish) = text(FINISH.last(tail)) {
        watch.set_finish(&finish);
        watch.terminal = true;
    }
    if let Some(usage) = usage_of(USAGE.last(tail)) {
        watch.book(usage);
    }
}

/// Takes note of a whole answer of any protocol of OpenAI's that calls its parts like this one.
pub(super) fn read_answer(body: &[u8], watch: &mut Watch) {
    if body.trim_ascii().is_empty() {
        return;
    }
    if is_usual(body) {
        return note_ends(body, body, watch);
    }
    let Some(answer) = whole::<Chunk<'_>>(body, watch) else { return };
    if let Some(said) = answer.complaint(None, body) {
        watch.set_error(&said);
    }
    answer.note(watch);
}

/// Whether a whole answer has the form that nearly all have: an object with choices or data, and no error. Such a
/// one is searched for the few keys that are needed; parsing all that the model said would cost ten times that.
fn is_usual(body: &[u8]) -> bool {
    could_be_object(body.trim_ascii())
        && ERROR.state(body) != State::Set
        && (CHOICES.state(body) == State::Set || DATA.state(body) == State::Set)
}

/// Takes note of an answer from its first and its last bytes: the model stands at the one end, usage at the other.
pub(super) fn note_ends(head: &[u8], tail: &[u8], watch: &mut Watch) {
    if let Some(model) = MODEL.first_name(head).or_else(|| MODEL.last_name(tail)) {
        watch.set_model(model);
    }
    if let Some(finish) = FINISH.last_name(tail) {
        watch.set_finish(finish);
        watch.content = true;
    }
    if let Some(usage) = USAGE.last_object(tail).and_then(openai_counts) {
        watch.book(usage);
    }
}
