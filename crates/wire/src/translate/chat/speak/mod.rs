//! Answers in this protocol's words: chunks of a stream, and whole ones.

mod told;
mod whole;

use super::failure;
use crate::translate::canon::{Block, Failure, Item, Reason, Stop};
use crate::translate::json::{Object, put_number, put_text};
use crate::translate::{Reply, Writer};
use crate::watch::Usage;

use self::told::{Thought, Told};
pub(super) use whole::answer;

/// A stream on its way out.
///
/// It ends well only where the provider said why the model stopped and that this was all. The reason waits for that:
/// to many clients it is the last word already.
pub(super) struct Chunks {
    reply: Reply,
    /// What every chunk begins with, up to its choices.
    head: Vec<u8>,
    told: Told,
    usage: Option<Usage>,
    /// The protocol's word for why the model stopped.
    finish: Option<&'static str>,
    /// It failed or ended: nothing comes after.
    over: bool,
}

impl Chunks {
    pub(super) fn new(reply: Reply) -> Chunks {
        Chunks { reply, head: Vec::new(), told: Told::default(), usage: None, finish: None, over: false }
    }

    fn start(&mut self, id: &str, model: &str) {
        self.head.extend_from_slice(b"data: ");
        put_head(&mut self.head, "chat.completion.chunk", id, model, &self.reply);
    }

    /// Writes a chunk with this delta.
    fn delta(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
        self.chunk(out, write, None);
    }

    fn chunk(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>), finish: Option<&str>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(br#","choices":[{"index":0,"delta":"#);
        let mut delta = Object::begin(out);
        write(&mut delta);
        delta.end();
        out.extend_from_slice(br#","finish_reason":"#);
        match finish {
            Some(word) => put_text(out, word),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b"}]}\n\n");
    }

    fn open(&mut self, index: u32, block: &Block<'_>, out: &mut Vec<u8>) {
        self.told.open(index, block);
        if let Block::Call { id, name, free } = block {
            let (number, name) = (self.told.calls - 1, self.reply.names.ours(name));
            self.delta(out, |delta| {
                put_call(delta, |call| {
                    call.number("index", number as u64);
                    put_called(call, id, name, "", *free);
                });
            });
        }
    }

    fn more(&mut self, index: u32, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let Some(open) = self.told.more(index, text) else { return };
        match open {
            told::Open::Text => self.delta(out, |delta| delta.text("content", text)),
            told::Open::Refusal => self.delta(out, |delta| delta.text("refusal", text)),
            told::Open::Thought => self.delta(out, |delta| delta.text("reasoning_content", text)),
            told::Open::Call { number, free } => self.arguments(number, free, text, out),
        }
    }

    fn arguments(&self, number: usize, free: bool, text: &str, out: &mut Vec<u8>) {
        self.delta(out, |delta| {
            put_call(delta, |call| {
                call.number("index", number as u64);
                let mut called = call.object(if free { "custom" } else { "function" });
                called.text(if free { "input" } else { "arguments" }, text);
                called.end();
            });
        });
    }

    fn close(&mut self, index: u32, out: &mut Vec<u8>) {
        match self.told.close(index) {
            // A client parses the arguments, and an empty text is no JSON.
            Some(told::Closed::Call { number, free: false, empty: true }) => {
                self.arguments(number, false, "{}", out)
            }
            Some(told::Closed::Thought(thought)) if thought.is_sealed() => self.delta(out, |delta| {
                let list = delta.key("reasoning_details");
                list.push(b'[');
                thought.put(list);
                list.push(b']');
            }),
            _ => {}
        }
    }

    fn stop(&mut self, stop: &Stop<'_>, out: &mut Vec<u8>) {
        if stop.reason == Reason::Malformed {
            return self.fail(&failure::found(MALFORMED), out);
        }
        if let Some(why) = self.told.explanation(stop) {
            self.delta(out, |delta| delta.text("refusal", why));
        }
        self.finish = Some(self.told.finish(stop.reason));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.finish.is_none() {
            return self.fail(&failure::found(UNEXPLAINED), out);
        }
        self.chunk(out, |_| {}, self.finish);
        if let Some(usage) = self.usage {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(br#","choices":[],"usage":"#);
            put_usage(out, usage);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        self.over = true;
    }

    fn fail(&mut self, failure: &Failure<'_>, out: &mut Vec<u8>) {
        let (_, body) = failure::write(failure, "");
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&body);
        out.extend_from_slice(b"\n\n");
        self.over = true;
    }
}

const MALFORMED: &str = "The model wrote something that its provider could not make an answer of.";
const UNEXPLAINED: &str = "The provider ended its answer without saying why.";

impl Writer for Chunks {
    fn item(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        match item {
            Item::Start { id, model } => {
                if self.head.is_empty() {
                    self.start(id, model);
                    self.delta(out, |delta| {
                        delta.text("role", "assistant");
                        delta.text("content", "");
                    });
                }
            }
            Item::Failed(failure) => self.fail(failure, out),
            Item::End => self.end(out),
            Item::Usage(usage) => self.usage = Some(*usage),
            Item::Ping | Item::Lost { .. } => {}
            // Nothing of an answer can come before its start.
            _ if self.head.is_empty() || self.finish.is_some() => {}
            Item::Open { index, block } => self.open(*index, block, out),
            Item::Delta { index, text } => self.more(*index, text, out),
            Item::Seal { index, signature } => self.told.seal(*index, signature),
            Item::Close { index } => self.close(*index, out),
            Item::Stop(stop) => self.stop(stop, out),
        }
    }
}

/// The members that say which answer this is; the object stays open.
fn put_head(out: &mut Vec<u8>, kind: &str, id: &str, model: &str, reply: &Reply) {
    let mut head = Object::begin(out);
    head.text("id", if id.is_empty() { &reply.id } else { id });
    head.text("object", kind);
    head.number("created", reply.created);
    head.text("model", model);
}

/// A list of one call.
fn put_call(delta: &mut Object<'_>, write: impl FnOnce(&mut Object<'_>)) {
    let list = delta.key("tool_calls");
    list.push(b'[');
    let mut call = Object::begin(list);
    write(&mut call);
    call.end();
    list.push(b']');
}

/// What a call says when it is first heard of.
fn put_called(call: &mut Object<'_>, id: &str, name: &str, given: &str, free: bool) {
    let kind = if free { "custom" } else { "function" };
    call.text("id", id);
    call.text("type", kind);
    let mut called = call.object(kind);
    called.text("name", name);
    called.text(if free { "input" } else { "arguments" }, given);
    called.end();
}

fn put_usage(out: &mut Vec<u8>, usage: Usage) {
    let mut counts = Object::begin(out);
    counts.number("prompt_tokens", usage.input);
    counts.number("completion_tokens", usage.output);
    counts.number("total_tokens", usage.input.saturating_add(usage.output));
    let mut details = counts.object("prompt_tokens_details");
    details.number("cached_tokens", usage.cached_input);
    details.number("cache_write_tokens", usage.cache_write);
    details.end();
    let mut details = counts.object("completion_tokens_details");
    put_number(details.key("reasoning_tokens"), usage.reasoning);
    details.end();
    counts.end();
}

impl Thought {
    /// Writes its entry in the list of thoughts.
    fn put(&self, out: &mut Vec<u8>) {
        let mut entry = Object::begin(out);
        match &self.encrypted {
            Some(data) => {
                entry.text("type", "reasoning.encrypted");
                entry.text("data", data);
            }
            None => {
                entry.text("type", "reasoning.text");
                entry.text("text", &self.text);
                entry.text("signature", &self.signature);
            }
        }
        entry.number("index", self.number as u64);
        entry.number("text_before", self.text_before as u64);
        entry.number("calls_before", self.calls_before as u64);
        entry.end();
    }
}
