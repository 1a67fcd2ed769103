//! What has been told of an answer: its open blocks, and what comes before a thought.

use crate::translate::canon::{Block, Reason, Stop};

/// What was told so far.
#[derive(Default)]
pub(super) struct Told {
    open: Vec<(u32, Kind)>,
    /// Characters of text.
    characters: usize,
    /// Calls; they are numbered by themselves, whatever stands between them.
    pub(super) calls: usize,
    thoughts: usize,
    refused: bool,
}

enum Kind {
    Text,
    Refusal,
    Call { number: usize, free: bool, empty: bool },
    Thought(Thought),
}

/// Where more of a block goes.
pub(super) enum Open {
    Text,
    Refusal,
    Thought,
    Call { number: usize, free: bool },
}

/// A block that is whole and has more to say.
pub(super) enum Closed {
    Call { number: usize, free: bool, empty: bool },
    Thought(Thought),
}

/// A thought with what is needed to put it back in its place.
#[derive(Default)]
pub(super) struct Thought {
    pub(super) number: usize,
    pub(super) text: String,
    pub(super) signature: String,
    pub(super) encrypted: Option<String>,
    pub(super) text_before: usize,
    pub(super) calls_before: usize,
}

impl Thought {
    /// Whether its provider will know it again. The text tells nothing: it may well be empty.
    pub(super) fn is_sealed(&self) -> bool {
        !self.signature.is_empty() || self.encrypted.is_some()
    }
}

impl Told {
    pub(super) fn open(&mut self, index: u32, block: &Block<'_>) {
        let kind = match block {
            Block::Text => Kind::Text,
            Block::Refusal => Kind::Refusal,
            Block::Call { free, .. } => {
                self.calls += 1;
                Kind::Call { number: self.calls - 1, free: *free, empty: true }
            }
            Block::Thought { encrypted } => {
                self.thoughts += 1;
                Kind::Thought(Thought {
                    number: self.thoughts - 1,
                    encrypted: encrypted.as_deref().map(str::to_owned),
                    text_before: self.characters,
                    calls_before: self.calls,
                    ..Thought::default()
                })
            }
        };
        self.open.push((index, kind));
    }

    /// Takes more of a block. None where no such block is open.
    pub(super) fn more(&mut self, index: u32, text: &str) -> Option<Open> {
        let kind = self.open.iter_mut().find(|(open, _)| *open == index).map(|(_, kind)| kind)?;
        Some(match kind {
            Kind::Text => {
                self.characters += text.chars().count();
                Open::Text
            }
            Kind::Refusal => {
                self.refused = true;
                Open::Refusal
            }
            Kind::Call { number, free, empty } => {
                *empty = false;
                Open::Call { number: *number, free: *free }
            }
            Kind::Thought(thought) => {
                thought.text.push_str(text);
                Open::Thought
            }
        })
    }

    pub(super) fn seal(&mut self, index: u32, signature: &str) {
        let kind = self.open.iter_mut().find(|(open, _)| *open == index).map(|(_, kind)| kind);
        if let Some(Kind::Thought(thought)) = kind {
            thought.signature.push_str(signature);
        }
    }

    pub(super) fn close(&mut self, index: u32) -> Option<Closed> {
        let at = self.open.iter().position(|(open, _)| *open == index)?;
        match self.open.swap_remove(at).1 {
            Kind::Call { number, free, empty } => Some(Closed::Call { number, free, empty }),
            Kind::Thought(thought) => Some(Closed::Thought(thought)),
            Kind::Text | Kind::Refusal => None,
        }
    }

    /// Why the model would not answer, where that has not been told.
    pub(super) fn explanation<'a>(&self, stop: &'a Stop<'_>) -> Option<&'a str> {
        let why = stop.detail.as_deref().filter(|why| !why.is_empty());
        why.filter(|_| stop.reason == Reason::Filtered && !self.refused)
    }

    /// The protocol's word. An answer with calls that had come to its end waits for them; one that was cut short or
    /// filtered does not, for its last call may be half of one.
    pub(super) fn finish(&self, reason: Reason) -> &'static str {
        match reason {
            Reason::Tools => "tool_calls",
            Reason::Done if self.calls > 0 => "tool_calls",
            Reason::Length => "length",
            Reason::Filtered => "content_filter",
            Reason::Done | Reason::Paused | Reason::Malformed | Reason::Other => "stop",
        }
    }
}
