//! A stream, written.
//!
//! Every event has its name: clients skip those that have none. Blocks come one after the other. Why the model
//! stopped is said together with what was counted, so it waits for that; a stream whose provider did not say that the
//! model has stopped ends with nothing, and does not look whole.

use super::super::failure;
use super::super::write::wrap;
use super::stop::Ending;
use super::waiting::{Line, Step};
use super::write_usage;
use crate::translate::canon::{Block, Item, Stop};
use crate::translate::json::Object;
use crate::translate::{Names, Reply, Writer};
use crate::watch::Usage;

/// Writes one stream.
pub(in super::super) struct Teller {
    reply: Reply,
    begun: bool,
    line: Line,
    /// How many blocks have begun.
    blocks: u64,
    usage: Usage,
    ending: Ending,
    /// What was said of the end, until it goes out.
    stop: Option<Stop<'static>>,
    stopped: bool,
}

impl Teller {
    pub(in super::super) fn new(reply: Reply) -> Teller {
        Teller {
            reply,
            begun: false,
            line: Line::default(),
            blocks: 0,
            usage: Usage::default(),
            ending: Ending::default(),
            stop: None,
            stopped: false,
        }
    }

    fn begin(&mut self, id: &str, model: &str, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        event(out, "message_start", |event| {
            let mut message = Object::begin(event.key("message"));
            message.text("id", if id.is_empty() { &self.reply.id } else { id });
            message.text("type", "message");
            message.text("role", "assistant");
            message.text("model", model);
            message.json("content", "[]");
            Ending::default().write(None, &mut message);
            write_usage(&self.usage, message.key("usage"));
            message.end();
        });
    }

    fn say_stop(&mut self, out: &mut Vec<u8>) {
        let Some(stop) = self.stop.take() else { return };
        self.stopped = true;
        event(out, "message_delta", |event| {
            let mut delta = Object::begin(event.key("delta"));
            self.ending.write(Some(&stop), &mut delta);
            delta.end();
            write_usage(&self.usage, event.key("usage"));
        });
    }
}

impl Writer for Teller {
    fn item(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        if let Item::Open { .. } | Item::Delta { .. } | Item::Stop(_) = item {
            self.begin("", "", out);
        }
        let Teller { reply, line, blocks, .. } = self;
        let mut write = |step: Step<'_>| step_event(step, blocks, &reply.names, out);
        match item {
            // Nothing is said of an answer behind its end.
            Item::Open { .. } | Item::Delta { .. } | Item::Seal { .. } | Item::Close { .. }
                if self.stopped || self.stop.is_some() => {}
            Item::Start { id, model } => self.begin(id, model, out),
            Item::Open { index, block } => {
                match block {
                    Block::Call { .. } => self.ending.called = true,
                    Block::Refusal => _ = self.ending.refusal.get_or_insert_default(),
                    _ => {}
                }
                line.open(*index, block, &mut write);
            }
            Item::Delta { index, text } => {
                if line.is_refusal(*index) {
                    self.ending.refusal.get_or_insert_default().push_str(text);
                }
                line.add(*index, text, &mut write);
            }
            Item::Seal { index, signature } => line.seal(*index, signature, &mut write),
            Item::Close { index } => line.close(*index, &mut write),
            Item::Stop(stop) if !self.stopped => {
                line.flush(&mut write);
                self.stop = Some(owned(stop));
            }
            Item::Usage(usage) => {
                self.usage = *usage;
                self.say_stop(out);
            }
            Item::End => {
                self.say_stop(out);
                if self.stopped {
                    event(out, "message_stop", |_| {});
                }
            }
            Item::Failed(failure) => event(out, "error", |event| failure::write_late(failure, event)),
            Item::Ping => event(out, "ping", |_| {}),
            Item::Stop(_) | Item::Lost { .. } => {}
        }
    }
}

fn owned(stop: &Stop<'_>) -> Stop<'static> {
    let own = |text: &Option<_>| text.as_deref().map(|text: &str| text.to_owned().into());
    Stop {
        reason: stop.reason,
        sequence: own(&stop.sequence),
        detail: own(&stop.detail),
        raw: stop.raw.to_string().into(),
    }
}

/// Writes an event.
fn event(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Object<'_>)) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let mut object = Object::typed(out, name);
    write(&mut object);
    object.end();
    out.extend_from_slice(b"\n\n");
}

fn step_event(step: Step<'_>, blocks: &mut u64, names: &Names, out: &mut Vec<u8>) {
    let at = blocks.saturating_sub(1);
    match step {
        Step::Begin(block) => {
            event(out, "content_block_start", |event| {
                event.number("index", *blocks);
                begin(block, names, event.key("content_block"));
            });
            *blocks += 1;
        }
        Step::Add(block, text) => event(out, "content_block_delta", |event| {
            event.number("index", at);
            let (kind, member) = match block {
                Block::Text | Block::Refusal => ("text_delta", "text"),
                Block::Thought { .. } => ("thinking_delta", "thinking"),
                Block::Call { .. } => ("input_json_delta", "partial_json"),
            };
            let mut delta = Object::typed(event.key("delta"), kind);
            match block {
                Block::Call { free: true, .. } => {
                    let mut wrapped = Vec::new();
                    wrap(text, &mut wrapped);
                    delta.text(member, &String::from_utf8_lossy(&wrapped));
                }
                _ => delta.text(member, text),
            }
            delta.end();
        }),
        Step::Seal(signature) => event(out, "content_block_delta", |event| {
            event.number("index", at);
            let mut delta = Object::typed(event.key("delta"), "signature_delta");
            delta.text("signature", signature);
            delta.end();
        }),
        Step::End => event(out, "content_block_stop", |event| event.number("index", at)),
    }
}

fn begin(block: &Block<'_>, names: &Names, out: &mut Vec<u8>) {
    let object = match block {
        Block::Text | Block::Refusal => {
            let mut object = Object::typed(out, "text");
            object.text("text", "");
            object
        }
        Block::Thought { encrypted: Some(data) } => {
            let mut object = Object::typed(out, "redacted_thinking");
            object.text("data", data);
            object
        }
        // Clients want a signature to be there, also where none follows.
        Block::Thought { encrypted: None } => {
            let mut object = Object::typed(out, "thinking");
            object.text("thinking", "");
            object.text("signature", "");
            object
        }
        Block::Call { id, name, .. } => {
            let mut object = Object::typed(out, "tool_use");
            object.text("id", id);
            object.text("name", names.ours(name));
            object.json("input", "{}");
            object
        }
    };
    object.end();
}
