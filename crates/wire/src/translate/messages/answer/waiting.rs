//! Blocks of an answer, which come side by side and go out one after the other.
//!
//! The first one that is open goes out as it comes. Another one waits until the first is closed, or until it can have
//! no more to say: a text when something else begins, a call when its arguments are a whole object.

use super::super::json::is_object;
use crate::translate::canon::Block;

/// What is to be written of a block.
pub(super) enum Step<'s> {
    Begin(&'s Block<'s>),
    Add(&'s Block<'s>, &'s str),
    Seal(&'s str),
    End,
}

struct Waiting {
    index: u32,
    block: Block<'static>,
    /// What has come of it. Once it goes out, that of calls alone is kept.
    text: String,
    signature: String,
    closed: bool,
}

/// The blocks of one stream.
#[derive(Default)]
pub(super) struct Line {
    /// The one that goes out, then those that wait.
    blocks: Vec<Waiting>,
    /// The first one has begun.
    live: bool,
    /// Texts and thoughts that were ended before they were closed.
    ended: Vec<(u32, Block<'static>)>,
}

impl Line {
    /// Whether what comes of this block says why the model would not answer.
    pub(super) fn is_refusal(&self, index: u32) -> bool {
        let mut open = self.blocks.iter().map(|block| (block.index, &block.block));
        let mut ended = self.ended.iter().map(|(index, block)| (*index, block));
        let refuses = |(at, block): (u32, &Block<'_>)| at == index && matches!(block, Block::Refusal);
        open.any(refuses) || ended.any(refuses)
    }

    pub(super) fn open(&mut self, index: u32, block: &Block<'_>, write: &mut dyn FnMut(Step<'_>)) {
        let block = owned(block);
        self.blocks.push(Waiting {
            index,
            block,
            text: String::new(),
            signature: String::new(),
            closed: false,
        });
        self.advance(write);
    }

    pub(super) fn add(&mut self, index: u32, text: &str, write: &mut dyn FnMut(Step<'_>)) {
        if text.is_empty() {
            return;
        }
        let Some(at) = self.blocks.iter().position(|block| block.index == index) else {
            // More of a text behind which something else has begun is another text.
            if let Some((_, block)) = self.ended.iter().find(|(ended, _)| *ended == index) {
                let block = block.clone();
                self.open(index, &block, write);
                self.add(index, text, write);
            }
            return;
        };
        let block = &mut self.blocks[at];
        let goes = self.live && at == 0 && !is_free(&block.block);
        if goes {
            write(Step::Add(&block.block, text));
        }
        if !goes || matches!(block.block, Block::Call { .. }) {
            block.text.push_str(text);
        }
        if at == 0 && self.blocks.len() > 1 {
            self.advance(write);
        }
    }

    pub(super) fn seal(&mut self, index: u32, signature: &str, write: &mut dyn FnMut(Step<'_>)) {
        let Some(at) = self.blocks.iter().position(|block| block.index == index) else { return };
        match at == 0 && self.live {
            true => write(Step::Seal(signature)),
            false => self.blocks[at].signature = signature.to_owned(),
        }
    }

    pub(super) fn close(&mut self, index: u32, write: &mut dyn FnMut(Step<'_>)) {
        if let Some(block) = self.blocks.iter_mut().find(|block| block.index == index) {
            block.closed = true;
            self.advance(write);
        }
    }

    /// Nothing more comes.
    pub(super) fn flush(&mut self, write: &mut dyn FnMut(Step<'_>)) {
        for block in &mut self.blocks {
            block.closed = true;
        }
        self.advance(write);
    }

    fn advance(&mut self, write: &mut dyn FnMut(Step<'_>)) {
        while let Some(first) = self.blocks.first() {
            if !std::mem::replace(&mut self.live, true) {
                begin(first, write);
            }
            let others = self.blocks.len() > 1;
            let ends = first.closed || (others && may_end(first));
            if !ends {
                return;
            }
            let first = self.blocks.remove(0);
            if is_free(&first.block) && !first.text.is_empty() {
                write(Step::Add(&first.block, &first.text));
            }
            write(Step::End);
            self.live = false;
            if !first.closed && !matches!(first.block, Block::Call { .. }) {
                self.ended.push((first.index, first.block));
            }
        }
    }
}

fn begin(first: &Waiting, write: &mut dyn FnMut(Step<'_>)) {
    write(Step::Begin(&first.block));
    // A free text has to be whole before it can be put into an object.
    if !first.text.is_empty() && !is_free(&first.block) {
        write(Step::Add(&first.block, &first.text));
    }
    if !first.signature.is_empty() {
        write(Step::Seal(&first.signature));
    }
}

/// Whether there is nothing that a block could still say.
fn may_end(block: &Waiting) -> bool {
    match block.block {
        Block::Call { free, .. } => !free && block.text.trim_end().ends_with('}') && is_object(&block.text),
        _ => true,
    }
}

fn is_free(block: &Block<'_>) -> bool {
    matches!(block, Block::Call { free: true, .. })
}

fn owned(block: &Block<'_>) -> Block<'static> {
    match block {
        Block::Text => Block::Text,
        Block::Refusal => Block::Refusal,
        Block::Thought { encrypted } => {
            Block::Thought { encrypted: encrypted.as_ref().map(|data| data.to_string().into()) }
        }
        Block::Call { id, name, free } => {
            Block::Call { id: id.to_string().into(), name: name.to_string().into(), free: *free }
        }
    }
}
