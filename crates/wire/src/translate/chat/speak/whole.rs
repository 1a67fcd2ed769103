//! A whole answer.

use super::super::failure;
use super::told::{Closed, Open, Thought, Told};
use super::{MALFORMED, UNEXPLAINED, put_called, put_head, put_usage};
use crate::translate::Reply;
use crate::translate::canon::{Block, Item, Reason, Stop};
use crate::translate::json::{Object, put_list};
use crate::watch::Usage;

/// Everything that is in an answer.
#[derive(Default)]
struct Whole<'a> {
    id: &'a str,
    model: &'a str,
    told: Told,
    content: Option<String>,
    refusal: Option<String>,
    reasoning: String,
    thoughts: Vec<Thought>,
    calls: Vec<Call<'a>>,
    stop: Option<&'a Stop<'a>>,
    usage: Option<Usage>,
}

struct Call<'a> {
    id: &'a str,
    name: &'a str,
    given: String,
    free: bool,
}

/// Writes a whole answer. What is no answer is an error, in whose shape every client of this protocol knows it.
pub(in super::super) fn answer(items: &[Item<'_>], reply: &Reply) -> Vec<u8> {
    let mut whole = Whole::default();
    for item in items {
        if let Item::Failed(failure) = item {
            return failure::write(failure, "").1;
        }
        whole.add(item, reply);
    }
    match whole.stop {
        None => failure::write(&failure::found(UNEXPLAINED), "").1,
        Some(stop) if stop.reason == Reason::Malformed => failure::write(&failure::found(MALFORMED), "").1,
        Some(stop) => whole.write(stop, reply),
    }
}

impl<'a> Whole<'a> {
    fn add(&mut self, item: &'a Item<'a>, reply: &'a Reply) {
        match item {
            Item::Start { id, model } => (self.id, self.model) = (id, model),
            Item::Open { index, block } => {
                self.told.open(*index, block);
                if let Block::Call { id, name, free } = block {
                    let name = reply.names.ours(name);
                    self.calls.push(Call { id, name, given: String::new(), free: *free });
                }
            }
            Item::Delta { index, text } => match self.told.more(*index, text) {
                Some(Open::Text) => self.content.get_or_insert_default().push_str(text),
                Some(Open::Refusal) => self.refusal.get_or_insert_default().push_str(text),
                Some(Open::Thought) => self.reasoning.push_str(text),
                Some(Open::Call { number, .. }) => self.calls[number].given.push_str(text),
                None => {}
            },
            Item::Seal { index, signature } => self.told.seal(*index, signature),
            Item::Close { index } => {
                if let Some(Closed::Thought(thought)) = self.told.close(*index) {
                    self.thoughts.extend(Some(thought).filter(Thought::is_sealed));
                }
            }
            Item::Stop(stop) => self.stop = Some(stop),
            Item::Usage(usage) => self.usage = Some(*usage),
            Item::Ping | Item::Failed(_) | Item::End | Item::Lost { .. } => {}
        }
    }

    fn write(&self, stop: &Stop<'_>, reply: &Reply) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 + self.content.as_ref().map_or(0, String::len));
        put_head(&mut out, "chat.completion", self.id, self.model, reply);
        out.extend_from_slice(br#","choices":[{"index":0,"message":"#);
        self.message(&mut out, stop);
        out.extend_from_slice(br#","logprobs":null,"finish_reason":""#);
        out.extend_from_slice(self.told.finish(stop.reason).as_bytes());
        out.extend_from_slice(br#""}]"#);
        if let Some(usage) = self.usage {
            out.extend_from_slice(br#","usage":"#);
            put_usage(&mut out, usage);
        }
        out.push(b'}');
        out
    }

    fn message(&self, out: &mut Vec<u8>, stop: &Stop<'_>) {
        let mut message = Object::begin(out);
        message.text("role", "assistant");
        // An answer of nothing is an empty text; one of calls or a refusal has none.
        let refusal = self.refusal.as_deref().or_else(|| self.told.explanation(stop));
        let bare = if self.calls.is_empty() && refusal.is_none() { Some("") } else { None };
        match self.content.as_deref().or(bare) {
            Some(content) => message.text("content", content),
            None => message.json("content", "null"),
        }
        match refusal {
            Some(refusal) => message.text("refusal", refusal),
            None => message.json("refusal", "null"),
        }
        if !self.reasoning.is_empty() {
            message.text("reasoning_content", &self.reasoning);
        }
        if !self.thoughts.is_empty() {
            put_list(message.key("reasoning_details"), &self.thoughts, |thought, out| thought.put(out));
        }
        if !self.calls.is_empty() {
            put_list(message.key("tool_calls"), &self.calls, |call, out| call.put(out));
        }
        message.end();
    }
}

impl Call<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        // A client parses the arguments, and an empty text is no JSON.
        let given = if self.given.is_empty() && !self.free { "{}" } else { &self.given };
        let mut call = Object::begin(out);
        put_called(&mut call, self.id, self.name, given, self.free);
        call.end();
    }
}
