//! The blocks of an answer, found in deltas that do not say where one begins.
//!
//! Text, thought and refusal follow each other: each ends where another one begins, or a call. Calls stay open to the
//! end, because their pieces may come in any order.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::json::plain_text;
use super::chunk::{Call, Delta, Piece};
use crate::dialect::Raw;
use crate::fold::json::elements;
use crate::translate::canon::{Block, Item, Text};

/// What has been opened.
#[derive(Default)]
pub(super) struct Blocks {
    /// The next block's index.
    next: u32,
    prose: Option<(Prose, u32)>,
    calls: Vec<Known>,
    refusal: Option<String>,
    /// The answer's id, for calls that have none.
    answer: String,
}

/// What is no call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prose {
    Text,
    Thought,
    Refusal,
}

/// A call that has been opened, or waits for its name.
struct Known {
    /// By which its pieces are known.
    key: Option<u64>,
    id: String,
    index: Option<u32>,
    /// What came before the name.
    early: String,
    /// What it was given, where there is no id to tell it from another of its index.
    given: String,
}

impl Blocks {
    pub(super) fn name(&mut self, answer: &str) {
        self.answer = answer.to_owned();
    }

    /// Why the model would not answer, if it would not.
    pub(super) fn refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// Takes what a delta adds. None where it can't be understood. In a whole answer each call is one of its own.
    pub(super) fn add<'a>(
        &mut self,
        delta: &Delta<'a>,
        whole: bool,
        say: &mut dyn FnMut(Item<'a>),
    ) -> Option<()> {
        // Hosts that send both names say the same in both.
        let thought = delta.reasoning_content.or(delta.reasoning).and_then(plain_text);
        self.say(Prose::Thought, thought.unwrap_or_default(), say);
        match delta.content {
            Some(content) if content.get().starts_with('[') => self.pieces(content, say)?,
            content => self.say(Prose::Text, text_of(content)?, say),
        }
        let refusal = text_of(delta.refusal)?;
        if !refusal.is_empty() {
            self.refusal.get_or_insert_default().push_str(&refusal);
        }
        self.say(Prose::Refusal, refusal, say);
        for call in delta.tool_calls.iter().flatten() {
            self.call(call, whole, say)?;
        }
        Some(())
    }

    fn pieces<'a>(&mut self, content: &'a RawValue, say: &mut dyn FnMut(Item<'a>)) -> Option<()> {
        for raw in elements(content)? {
            let piece: Piece<'a> = serde_json::from_str(raw.get()).ok()?;
            let nested = piece.thinking.and_then(elements).unwrap_or_default();
            for raw in nested {
                let thought: Piece<'a> = serde_json::from_str(raw.get()).ok()?;
                self.say(Prose::Thought, text_of(thought.text)?, say);
            }
            self.say(Prose::Text, text_of(piece.text)?, say);
        }
        Some(())
    }

    fn say<'a>(&mut self, prose: Prose, text: Text<'a>, say: &mut dyn FnMut(Item<'a>)) {
        if text.is_empty() {
            return;
        }
        let index = match self.prose {
            Some((open, index)) if open == prose => index,
            _ => {
                let block = match prose {
                    Prose::Text => Block::Text,
                    Prose::Thought => Block::Thought { encrypted: None },
                    Prose::Refusal => Block::Refusal,
                };
                let index = self.open(block, say);
                self.prose = Some((prose, index));
                index
            }
        };
        say(Item::Delta { index, text });
    }

    fn open<'a>(&mut self, block: Block<'a>, say: &mut dyn FnMut(Item<'a>)) -> u32 {
        if let Some((_, index)) = self.prose.take() {
            say(Item::Close { index });
        }
        let index = self.next;
        self.next += 1;
        say(Item::Open { index, block });
        index
    }

    fn call<'a>(&mut self, call: &Call<'a>, whole: bool, say: &mut dyn FnMut(Item<'a>)) -> Option<()> {
        let id = text_of(call.id)?;
        let key = match call.index {
            Some(raw) => Some(raw.get().parse::<u64>().ok()?),
            None => None,
        };
        let called = call.custom.or(call.function);
        let name = text_of(called.and_then(|called| called.name))?;
        let given =
            called.and_then(|called| called.input.or(called.arguments)).map_or(Cow::default(), written);
        let begins = !(name.is_empty() || id.is_empty() && given.is_empty());
        let at = match self.find(key, &id, !name.is_empty(), begins) {
            Some(at) if !whole => at,
            _ => {
                self.calls.push(Known {
                    key,
                    id: id.clone().into_owned(),
                    index: None,
                    early: String::new(),
                    given: String::new(),
                });
                self.calls.len() - 1
            }
        };
        if self.calls[at].index.is_none() && !name.is_empty() {
            let free = call.custom.is_some();
            let index = self.open(Block::Call { id: self.id_of(at), name, free }, say);
            let known = &mut self.calls[at];
            known.index = Some(index);
            let early = std::mem::take(&mut known.early);
            if !early.is_empty() {
                say(Item::Delta { index, text: early.into() });
            }
        }
        if self.calls[at].id.is_empty() {
            self.calls[at].given.push_str(&given);
        }
        match self.calls[at].index {
            _ if given.is_empty() => {}
            Some(index) => say(Item::Delta { index, text: given }),
            None => self.calls[at].early.push_str(&given),
        }
        Some(())
    }

    /// The call that a delta goes on with. Some hosts give all calls one index, and only ids tell them apart; or only
    /// that a name and arguments come behind arguments that are whole.
    fn find(&self, key: Option<u64>, id: &str, named: bool, begins: bool) -> Option<usize> {
        let at = match key {
            Some(_) => self.calls.iter().rposition(|known| known.key == key),
            None if id.is_empty() && named => None,
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|known| known.id == id),
        }?;
        let known = &self.calls[at];
        let another = known.index.is_some()
            && begins
            && if id.is_empty() { is_whole(&known.given) } else { known.id != id };
        (!another).then_some(at)
    }

    fn id_of(&self, at: usize) -> Text<'static> {
        match &*self.calls[at].id {
            "" => format!("call_{}_{at}", self.answer).into(),
            id => id.to_owned().into(),
        }
    }

    /// Closes all that is open. False where a call never got its name.
    pub(super) fn close<'a>(&mut self, say: &mut dyn FnMut(Item<'a>)) -> bool {
        let named = self.calls.iter().all(|known| known.index.is_some());
        let prose = self.prose.take().map(|(_, index)| index);
        for index in self.calls.drain(..).filter_map(|known| known.index).chain(prose) {
            say(Item::Close { index });
        }
        named
    }
}

fn is_whole(given: &str) -> bool {
    given.trim_ascii_end().ends_with('}') && serde_json::from_str::<&RawValue>(given).is_ok()
}

/// A text, empty where none is there.
fn text_of(raw: Raw<'_>) -> Option<Text<'_>> {
    raw.map_or(Some(Text::default()), plain_text)
}

/// Arguments are a text that is JSON; some hosts write the JSON itself.
fn written(raw: &RawValue) -> Text<'_> {
    plain_text(raw).unwrap_or_else(|| raw.get().into())
}
