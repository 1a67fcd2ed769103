//! Answers, read and written, whole and as streams.

mod events;
mod plain;
mod stop;
mod teller;
mod waiting;

pub(super) use self::events::Events;
pub(super) use self::plain::{read, write};
pub(super) use self::teller::Teller;

use serde::Deserialize;

use super::json::{Raw, is_object, text};
use crate::translate::canon::{Block, Text};
use crate::translate::json::Object;
use crate::watch::Usage;

/// All members that any block of an answer has which is read.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    text: Raw<'a>,
    #[serde(borrow)]
    citations: Raw<'a>,
    #[serde(borrow)]
    thinking: Raw<'a>,
    #[serde(borrow)]
    signature: Raw<'a>,
    #[serde(borrow)]
    data: Raw<'a>,
    #[serde(borrow)]
    id: Raw<'a>,
    #[serde(borrow)]
    name: Raw<'a>,
    #[serde(borrow)]
    input: Raw<'a>,
}

impl<'a> Content<'a> {
    /// What it is; else its name.
    fn block(&self) -> Result<Block<'a>, Text<'a>> {
        let kind = text(self.kind).unwrap_or_else(|| "block".into());
        match &*kind {
            "text" => Ok(Block::Text),
            "thinking" => Ok(Block::Thought { encrypted: None }),
            "redacted_thinking" => {
                Ok(Block::Thought { encrypted: Some(text(self.data).unwrap_or_default()) })
            }
            "tool_use" => Ok(Block::Call {
                id: text(self.id).unwrap_or_default(),
                name: text(self.name).unwrap_or_default(),
                free: false,
            }),
            _ => Err(kind),
        }
    }

    /// What of its text is there.
    fn said(&self) -> Option<Text<'a>> {
        text(self.text).or_else(|| text(self.thinking)).filter(|text| !text.is_empty())
    }

    fn sealed(&self) -> Option<Text<'a>> {
        text(self.signature).filter(|signature| !signature.is_empty())
    }
}

/// Writes what was counted. What the cache served or took is no part of the input here.
fn write_usage(usage: &Usage, out: &mut Vec<u8>) {
    let mut object = Object::begin(out);
    let fresh = usage.input.saturating_sub(usage.cached_input).saturating_sub(usage.cache_write);
    object.number("input_tokens", fresh);
    object.number("cache_creation_input_tokens", usage.cache_write);
    object.number("cache_read_input_tokens", usage.cached_input);
    object.number("output_tokens", usage.output);
    if usage.reasoning > 0 {
        let mut details = Object::begin(object.key("output_tokens_details"));
        details.number("thinking_tokens", usage.reasoning);
        details.end();
    }
    object.end();
}

/// Writes the object that stands in an answer for a call's input. One that was cut short has none that can be told
/// from another; junk is kept under a name of its own, for the client to see.
fn write_input(arguments: &str, cut: bool, out: &mut Vec<u8>) {
    if is_object(arguments) {
        out.extend_from_slice(arguments.trim().as_bytes());
    } else if cut || arguments.trim().is_empty() {
        out.extend_from_slice(b"{}");
    } else {
        let mut object = Object::begin(out);
        object.text("_raw", arguments);
        object.end();
    }
}
