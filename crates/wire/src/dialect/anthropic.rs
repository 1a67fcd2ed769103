//! Anthropic Messages.
//!
//! Events are told apart by name, so a text delta costs no look at its data but one at its ends. Servers that
//! leave names out are understood by the `type` inside; their events pass as they are, nameless.

use bytes::Bytes;
use serde::Deserialize;

use super::complaint::complaint;
use super::reading::{
    Key, Raw, State, could_be_object, could_be_torn_object, key, kind_of, part, text, whole,
};
use super::usage::anthropic as usage_of;
use super::{Dialect, Fault, Part, Shape, data_event, error_body};
use crate::fingerprint::{self, Rules};
use crate::fold::{Blocks, Fold, unfold_message};
use crate::sse::Event;
use crate::translate::{MESSAGES_TONGUE, Tongue};
use crate::watch::Watch;

/// `POST /v1/messages`
pub static MESSAGES: Messages = Messages;
/// `POST /v1/messages/count_tokens`
pub static COUNT_TOKENS: CountTokens = CountTokens;

/// The protocol of messages.
pub struct Messages;

impl Dialect for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn shape(&self) -> Shape {
        Shape::Anthropic
    }

    fn is_generation(&self) -> bool {
        true
    }

    fn rules(&self) -> Option<&'static Rules> {
        Some(&fingerprint::MESSAGES)
    }

    fn watch_event(&self, event: &Event<'_>, watch: &mut Watch) -> Part {
        watch_message(event, watch);
        Part::Answer
    }

    /// Only content grows that long.
    fn watch_ends(&self, head: &Event<'_>, tail: &[u8], watch: &mut Watch) {
        if !could_be_torn_object(head.data(), tail) {
            watch.garbled = true;
            return;
        }
        watch.content = true;
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        if body.trim_ascii().is_empty() {
            return;
        }
        if could_be_object(body.trim_ascii())
            && ERROR.state(body) == State::Missing
            && USAGE.state(body) == State::Set
        {
            return note_ends(body, body, watch);
        }
        if let Some(message) = whole::<Message<'_>>(body, watch) {
            message.note(watch);
        }
        if let Some(said) = complaint(body) {
            watch.set_error(&said);
        }
    }

    fn read_ends(&self, head: &[u8], tail: &[u8], watch: &mut Watch) {
        note_ends(head, tail, watch);
    }

    fn fold(&self) -> Option<Box<dyn Fold>> {
        Some(Box::new(Blocks::default()))
    }

    fn unfold(&self, body: &[u8], _usage: bool) -> Option<Vec<Bytes>> {
        unfold_message(body)
    }

    fn tongue(&self) -> Option<&'static dyn Tongue> {
        Some(&MESSAGES_TONGUE)
    }

    fn error_event(&self, fault: &Fault<'_>, _watch: &Watch) -> Bytes {
        data_event(Some("error"), &error_body(Shape::Anthropic, fault))
    }

    fn keep_alive(&self) -> &'static [u8] {
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
    }
}

static MODEL: Key = key!("\"model\"");
static STOP: Key = key!("\"stop_reason\"");
static USAGE: Key = key!("\"usage\"");
static ERROR: Key = key!("\"error\"");

/// Takes note of a plain answer from its first and its last bytes, or from all of them.
fn note_ends(head: &[u8], tail: &[u8], watch: &mut Watch) {
    if let Some(model) = MODEL.first_name(head) {
        watch.set_model(model);
    }
    if let Some(reason) = STOP.last_name(tail) {
        watch.set_finish(reason);
    }
    let usage = USAGE.last_object(tail).and_then(|usage| serde_json::from_slice(usage).ok());
    if let Some(usage) = usage_of(usage, watch.usage) {
        watch.book(usage);
    }
}

/// A message, whole or as a stream begins with it.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    model: Raw<'a>,
    #[serde(borrow)]
    stop_reason: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
}

impl Message<'_> {
    fn note(&self, watch: &mut Watch) {
        if let Some(model) = text(self.model) {
            watch.set_model(&model);
        }
        if let Some(reason) = text(self.stop_reason) {
            watch.set_finish(&reason);
        }
        if let Some(usage) = usage_of(self.usage, watch.usage) {
            watch.book(usage);
        }
    }
}

/// `message_start` or `message_delta`.
#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow)]
    message: Raw<'a>,
    #[serde(borrow)]
    delta: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
}

fn watch_message(event: &Event<'_>, watch: &mut Watch) {
    let data = event.data().trim_ascii();
    if !could_be_object(data) {
        // Some servers end every stream with the sentinel of another protocol; it ends nothing here.
        watch.garbled |= !matches!(data, b"" | b"[DONE]");
        return;
    }
    match &*kind_of(event, data, watch) {
        b"content_block_delta" | b"content_block_start" => watch.content = true,
        b"content_block_stop" | b"ping" => {}
        b"message_start" | b"message_delta" => note_turn(data, watch),
        b"message_stop" => watch.terminal = true,
        b"error" => {
            fail(watch, &complaint(data).unwrap_or_else(|| String::from_utf8_lossy(data).into_owned()))
        }
        _ => {
            if let Some(said) = complaint(data) {
                fail(watch, &said);
            }
        }
    }
}

fn note_turn(data: &[u8], watch: &mut Watch) {
    let Some(turn) = whole::<Turn<'_>>(data, watch) else { return };
    for part in [part::<Message<'_>>(turn.message), part(turn.delta)].into_iter().flatten() {
        part.note(watch);
    }
    if let Some(usage) = usage_of(turn.usage, watch.usage) {
        watch.book(usage);
    }
}

fn fail(watch: &mut Watch, said: &str) {
    watch.set_error(said);
    watch.terminal = true;
}

/// The protocol of counting; its count is an answer, not usage.
pub struct CountTokens;

impl Dialect for CountTokens {
    fn name(&self) -> &'static str {
        "count_tokens"
    }

    fn counts(&self) -> Option<&'static dyn Dialect> {
        Some(&MESSAGES)
    }

    fn shape(&self) -> Shape {
        Shape::Anthropic
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        if let Some(said) = complaint(body) {
            watch.set_error(&said);
        }
    }
}
