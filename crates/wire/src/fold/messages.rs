//! Messages: events into the message that they build, block by block.
//!
//! Usage is cumulative: what `message_delta` says of it goes over what `message_start` said, and the rest of the
//! first stays. What a tool was called with is the bytes that came, once they are JSON; a call that was cut short
//! is none, and no plain answer could hold it.
//!
//! Not here: kinds of deltas that are not known. One of them makes the stream one without a plain form, because
//! where it belongs in a block is anyone's guess.

mod unfold;

use serde_json::value::RawValue;

use super::json::{Members, Object, is_blank, number};
use super::node::{Map, Node};
use super::{Fold, Said};

pub(crate) use unfold::unfold;

/// A stream of blocks.
#[derive(Default)]
pub(crate) struct Blocks {
    /// The message as it began, with what was said of all of it since.
    message: Option<Map>,
    blocks: Vec<Block>,
    /// A `message_delta` has come; no block may follow.
    closing: bool,
    stopped: bool,
}

impl Fold for Blocks {
    fn event(&mut self, event: &Said<'_>) -> Option<()> {
        let said = &event.members;
        match event.kind()?.as_str() {
            "ping" => Some(()),
            _ if self.stopped => None,
            "message_start" => self.start(said),
            "content_block_start" => self.open(said),
            "content_block_delta" => self.block(said)?.add(said),
            "content_block_stop" => self.block(said)?.close(),
            "message_delta" => self.say(said),
            "message_stop" => self.stop(),
            _ => None,
        }
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        let mut message = self.message.filter(|_| self.stopped)?;
        let content = self.blocks.into_iter().map(|block| Node::Map(block.members)).collect();
        message.set("content", Node::List(content));
        let mut answer = Object::new();
        for (key, node) in message.iter() {
            answer = answer.node(key, node);
        }
        Some(answer.end())
    }
}

impl Blocks {
    fn start(&mut self, said: &Members<'_>) -> Option<()> {
        only(said, &["type", "message"])?;
        let message = Members::of(said.get("message")?)?;
        let begun = message.get("content").is_some_and(|content| !is_blank(content));
        if begun || self.message.is_some() {
            return None;
        }
        self.message = Some(Map::of(&message));
        Some(())
    }

    /// Blocks come one after the other, numbered from 0 on; a plain answer has no other numbers for them than their
    /// places.
    fn open(&mut self, said: &Members<'_>) -> Option<()> {
        only(said, &["type", "index", "content_block"])?;
        let next = number(said.get("index")?)? == self.blocks.len();
        if !next || self.message.is_none() || self.closing || self.is_open() {
            return None;
        }
        self.blocks.push(Block::of(&Members::of(said.get("content_block")?)?)?);
        Some(())
    }

    fn is_open(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.open)
    }

    fn block(&mut self, said: &Members<'_>) -> Option<&mut Block> {
        let block = self.blocks.get_mut(number(said.get("index")?)?)?;
        block.open.then_some(block)
    }

    fn say(&mut self, said: &Members<'_>) -> Option<()> {
        if self.is_open() {
            return None;
        }
        let message = self.message.as_mut()?;
        self.closing = true;
        for (key, raw) in said.iter() {
            match key {
                "type" => {}
                "delta" => {
                    for (key, raw) in Members::of(raw)?.iter() {
                        message.overlay(key, raw)?;
                    }
                }
                // What an answer says of its content, no delta can.
                "content" => return None,
                _ => message.overlay(key, raw)?,
            }
        }
        Some(())
    }

    fn stop(&mut self) -> Option<()> {
        self.stopped = self.closing;
        let reason = self.message.as_mut()?.get_mut("stop_reason")?;
        (self.stopped && !reason.is_null()).then_some(())
    }
}

/// One block that is being built.
struct Block {
    kind: String,
    members: Map,
    /// The JSON of `input`, in pieces of a string.
    input: Option<Node>,
    open: bool,
}

impl Block {
    fn of(said: &Members<'_>) -> Option<Block> {
        Some(Block { kind: said.text("type")?, members: Map::of(said), input: None, open: true })
    }

    fn add(&mut self, said: &Members<'_>) -> Option<()> {
        only(said, &["type", "index", "delta"])?;
        let delta = Members::of(said.get("delta")?)?;
        let kind = delta.text("type")?;
        let (block, field) = match kind.as_str() {
            "text_delta" => ("text", "text"),
            "thinking_delta" => ("thinking", "thinking"),
            "signature_delta" => ("thinking", "signature"),
            "citations_delta" => ("text", "citation"),
            "input_json_delta" => ("tool_use", "partial_json"),
            _ => return None,
        };
        // Tools that the provider runs itself are called in blocks of kinds that end so, too.
        let fits = self.kind == block || (block == "tool_use" && self.kind.ends_with("_tool_use"));
        only(&delta, &["type", field])?;
        let more = delta.get(field).filter(|_| fits)?;
        match field {
            "citation" => self.cite(more),
            "signature" => self.sign(more),
            "partial_json" => self.input.get_or_insert_with(|| Node::Text(String::new())).grow(field, more),
            _ => self.members.grow(field, more),
        }
    }

    fn cite(&mut self, citation: &RawValue) -> Option<()> {
        match self.members.get_mut("citations") {
            Some(citations) if !citations.is_null() => citations.as_list()?.push(Node::of(citation)),
            _ => self.members.set("citations", Node::List(vec![Node::of(citation)])),
        }
        Some(())
    }

    /// A signature comes whole. The official clients would keep the last of two, others would join them.
    fn sign(&mut self, signature: &RawValue) -> Option<()> {
        match self.members.get_mut("signature") {
            Some(Node::Whole(there)) if !is_blank(there) => None,
            _ => {
                self.members.set("signature", Node::of(signature));
                Some(())
            }
        }
    }

    fn close(&mut self) -> Option<()> {
        self.open = false;
        let Some(pieces) = self.input.take() else { return Some(()) };
        let mut json = Vec::new();
        pieces.write(&mut json);
        let json: String = serde_json::from_slice(&json).ok()?;
        let there = self.members.get_mut("input");
        if json.is_empty() {
            if there.is_none() {
                self.members.set("input", Node::Map(Map::default()));
            }
            return Some(());
        }
        // An input that was there from the start and then came once more is one of two, and nobody says which.
        if there.is_some_and(|there| !matches!(there, Node::Whole(raw) if is_blank(raw))) {
            return None;
        }
        self.members.set("input", Node::Whole(RawValue::from_string(json).ok()?));
        Some(())
    }
}

/// That an event says these things and no other, which would be lost.
fn only(said: &Members<'_>, keys: &[&str]) -> Option<()> {
    said.iter().all(|(key, raw)| keys.contains(&key) || is_blank(raw)).then_some(())
}
