//! Whole answers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::failure;
use super::super::json::{Raw, is_empty, part, text};
use super::super::write::wrap;
use super::stop::{Ending, Stopped};
use super::{Content, write_input, write_usage};
use crate::dialect::anthropic_usage;
use crate::translate::Reply;
use crate::translate::canon::{Block, Item, Reason, Stop};
use crate::translate::json::{Object, try_list};
use crate::watch::Usage;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Raw<'a>,
    #[serde(borrow)]
    model: Raw<'a>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
    #[serde(borrow)]
    error: Raw<'a>,
}

/// Reads a whole answer.
pub(in super::super) fn read(body: &[u8]) -> Option<Vec<Item<'_>>> {
    let body = body.trim_ascii();
    let message: Message<'_> = serde_json::from_slice(body).ok().filter(|_| body.starts_with(b"{"))?;
    if message.error.is_some() {
        return Some(vec![Item::Failed(failure::late(body))]);
    }
    let blocks: Vec<&RawValue> = part(message.content)?;
    let mut items = Vec::with_capacity(3 * blocks.len() + 4);
    items.push(Item::Start {
        id: text(message.id).unwrap_or_default(),
        model: text(message.model).unwrap_or_default(),
    });
    for (index, raw) in (0..).zip(blocks) {
        let Some(content) = part::<Content<'_>>(Some(raw)) else { continue };
        block(index, &content, &mut items);
    }
    // Who does not say why the model stopped has not said all.
    items.push(Item::Stop(serde_json::from_slice::<Stopped<'_>>(body).ok()?.read()?));
    items.extend(anthropic_usage(message.usage, Usage::default()).map(Item::Usage));
    items.push(Item::End);
    Some(items)
}

fn block<'a>(index: u32, content: &Content<'a>, items: &mut Vec<Item<'a>>) {
    let block = match content.block() {
        Ok(block) => block,
        Err(name) => return items.push(Item::Lost { name }),
    };
    let said = match &block {
        Block::Call { .. } => content.input.map(|input| input.get().into()),
        _ => content.said(),
    };
    items.push(Item::Open { index, block });
    items.extend(said.map(|text| Item::Delta { index, text }));
    items.extend(content.sealed().map(|signature| Item::Seal { index, signature }));
    items.push(Item::Close { index });
    if content.citations.is_some_and(|raw| !is_empty(raw)) {
        items.push(Item::Lost { name: "citations".into() });
    }
}

/// A block that is put together.
struct Piece<'i> {
    index: u32,
    block: &'i Block<'i>,
    text: String,
    signature: &'i str,
}

/// Writes a whole answer.
pub(in super::super) fn write(items: &[Item<'_>], reply: &Reply) -> Vec<u8> {
    let (mut id, mut model) = ("", "");
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut usage = Usage::default();
    let mut stop: Option<&Stop<'_>> = None;
    for item in items {
        let piece =
            |pieces: &mut Vec<Piece<'_>>, index: u32| pieces.iter().rposition(|piece| piece.index == index);
        match item {
            Item::Start { id: theirs, model: name } => (id, model) = (theirs, name),
            Item::Open { index, block } => {
                pieces.push(Piece { index: *index, block, text: String::new(), signature: "" });
            }
            Item::Delta { index, text } => {
                if let Some(at) = piece(&mut pieces, *index) {
                    pieces[at].text.push_str(text);
                }
            }
            Item::Seal { index, signature } => {
                if let Some(at) = piece(&mut pieces, *index) {
                    pieces[at].signature = signature;
                }
            }
            Item::Stop(said) => stop = Some(said),
            Item::Usage(counted) => usage = *counted,
            _ => {}
        }
    }
    let refusals = pieces.iter().filter(|piece| matches!(piece.block, Block::Refusal));
    let ending = Ending {
        called: pieces.iter().any(|piece| matches!(piece.block, Block::Call { .. })),
        refusal: refusals.map(|piece| piece.text.clone()).reduce(|all, more| all + &more),
    };
    let cut = stop.is_some_and(|stop| stop.reason == Reason::Length);
    pieces.retain(|piece| !matches!(piece.block, Block::Text | Block::Refusal) || !piece.text.is_empty());

    let mut out = Vec::with_capacity(512);
    let mut message = Object::begin(&mut out);
    message.text("id", if id.is_empty() { &reply.id } else { id });
    message.text("type", "message");
    message.text("role", "assistant");
    message.text("model", model);
    let Ok(()) = try_list(message.key("content"), &pieces, |piece, out| {
        content(piece, reply, cut, out);
        Ok::<(), std::convert::Infallible>(())
    });
    ending.write(stop, &mut message);
    write_usage(&usage, message.key("usage"));
    message.end();
    out
}

fn content(piece: &Piece<'_>, reply: &Reply, cut: bool, out: &mut Vec<u8>) {
    let object = match piece.block {
        Block::Text | Block::Refusal => {
            let mut object = Object::typed(out, "text");
            object.text("text", &piece.text);
            object
        }
        Block::Thought { encrypted: Some(data) } => {
            let mut object = Object::typed(out, "redacted_thinking");
            object.text("data", data);
            object
        }
        // Clients want a signature to be there, also where there is none.
        Block::Thought { encrypted: None } => {
            let mut object = Object::typed(out, "thinking");
            object.text("thinking", &piece.text);
            object.text("signature", piece.signature);
            object
        }
        Block::Call { id, name, free } => {
            let mut object = Object::typed(out, "tool_use");
            object.text("id", id);
            object.text("name", reply.names.ours(name));
            match free {
                true => wrap(&piece.text, object.key("input")),
                false => write_input(&piece.text, cut, object.key("input")),
            }
            object
        }
    };
    object.end();
}
