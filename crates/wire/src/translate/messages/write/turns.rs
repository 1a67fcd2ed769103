//! The turns of a conversation as this protocol wants them: user and assistant by turns, the user first.
//!
//! Promise: what is made of some turns does not depend on those that come after the next answer, so a longer
//! conversation begins as the shorter one did.

use super::arrange;
use crate::translate::canon::{Cache, Conversation, Part, Role, Seal, Turn};
use crate::translate::claude_caps::Claude;
use crate::translate::{Dropped, Unfit};

/// What is said in place of a user who has not spoken before the assistant did; a history can't begin otherwise.
const NOBODY: &str = ".";

/// One message.
pub(super) struct Message<'a> {
    pub(super) role: Role,
    pub(super) blocks: Vec<Block<'a>>,
}

/// One block of a message.
pub(super) struct Block<'a> {
    /// The client's message.
    pub(super) at: usize,
    /// Its place among the parts of that message.
    pub(super) index: usize,
    pub(super) what: What<'a>,
}

/// What a block is.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    /// Something that is neither text nor thought.
    Part(&'a Part<'a>),
    /// A thought that its provider will know again.
    Thought { text: &'a str, seal: &'a Seal<'a> },
    /// Text.
    Text { text: &'a str, cache: Option<Cache> },
    /// An instruction that stands among what the user says, because the model knows no other place for it.
    Instruction { text: &'a str, cache: Option<Cache> },
}

impl What<'_> {
    pub(super) fn is_thought(&self) -> bool {
        matches!(self, What::Thought { .. })
    }

    fn text(&self) -> Option<&str> {
        match self {
            What::Text { text, .. } => Some(text),
            What::Part(Part::Refusal { text }) => Some(text),
            _ => None,
        }
    }

    fn is_text(&self) -> bool {
        self.text().is_some()
    }

    /// Whether it is a text in which there is something.
    fn says_something(&self) -> bool {
        self.text().is_some_and(|text| !text.trim().is_empty())
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self, What::Part(Part::Result { .. }))
    }
}

/// All messages.
pub(super) fn turns<'a>(
    said: &'a Conversation<'a>,
    model: &Claude,
    dropped: &mut Dropped,
) -> Result<Vec<Message<'a>>, Unfit> {
    let mut messages = Messages { done: Vec::new(), waiting: Vec::new(), thoughts_from: 0 };
    for (turn, next) in said.turns.iter().zip(speakers(&said.turns)) {
        match turn.role {
            Role::System => messages.instruct(turn, next, model.mid_system)?,
            Role::User => {
                messages.add(Role::User, user(turn));
                if next != Some(Role::User) {
                    messages.settle();
                }
            }
            Role::Assistant => messages.answer(turn, dropped),
        }
    }
    messages.finish(dropped)
}

/// Who speaks next after each turn, instructions aside.
fn speakers(turns: &[Turn<'_>]) -> impl Iterator<Item = Option<Role>> {
    let mut next = None;
    let mut speakers = Vec::with_capacity(turns.len());
    for turn in turns.iter().rev() {
        speakers.push(next);
        if turn.role != Role::System {
            next = Some(turn.role);
        }
    }
    speakers.into_iter().rev()
}

fn user<'a>(turn: &'a Turn<'a>) -> Vec<Block<'a>> {
    let blocks = turn.parts.iter().enumerate().filter_map(|(index, part)| {
        let what = match part {
            // The provider refuses texts in which there is nothing.
            Part::Text { text, .. } if text.trim().is_empty() => return None,
            Part::Text { text, cache } => What::Text { text, cache: *cache },
            Part::Thought(_) => return None,
            other => What::Part(other),
        };
        Some(Block { at: turn.at, index, what })
    });
    blocks.collect()
}

struct Messages<'a> {
    done: Vec<Message<'a>>,
    /// Instructions that stand behind the user's turn that is being read.
    waiting: Vec<Block<'a>>,
    /// Before this message, no thoughts can be given back.
    thoughts_from: usize,
}

impl<'a> Messages<'a> {
    /// Messages of one role in a row are one.
    fn add(&mut self, role: Role, blocks: Vec<Block<'a>>) {
        if blocks.is_empty() {
            return;
        }
        if self.done.is_empty() && role == Role::Assistant {
            let what = What::Text { text: NOBODY, cache: None };
            self.done.push(Message { role: Role::User, blocks: vec![Block { at: 0, index: 0, what }] });
        }
        match self.done.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            _ => self.done.push(Message { role, blocks }),
        }
    }

    /// An instruction may stand only behind what the user said, and not before more of that.
    fn instruct(&mut self, turn: &'a Turn<'a>, next: Option<Role>, mid_system: bool) -> Result<(), Unfit> {
        let mut blocks = user(turn);
        if let Some(block) = blocks.iter().find(|block| !matches!(block.what, What::Text { .. })) {
            let field = format!("messages[{}].content[{}]", block.at, block.index);
            return Err(Unfit::new(field, "instructions are text"));
        }
        let behind_user = self.done.last().is_some_and(|last| last.role != Role::Assistant);
        if mid_system && next == Some(Role::User) {
            self.waiting.append(&mut blocks);
        } else if mid_system && behind_user {
            self.add(Role::System, blocks);
        } else {
            self.say(blocks);
        }
        Ok(())
    }

    /// Lets the user say what was an instruction.
    fn say(&mut self, mut blocks: Vec<Block<'a>>) {
        for block in &mut blocks {
            if let What::Text { text, cache } = block.what {
                block.what = What::Instruction { text, cache };
            }
        }
        self.add(Role::User, blocks);
    }

    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        // A user who said nothing leaves no turn to stand behind.
        match self.done.last() {
            Some(last) if last.role != Role::Assistant => self.add(Role::System, waiting),
            _ => self.say(waiting),
        }
    }

    fn answer(&mut self, turn: &'a Turn<'a>, dropped: &mut Dropped) {
        let (mut blocks, whole) = arrange::assistant(turn, dropped);
        // Models write white space between a thought and a call. The provider takes it only beside a real text.
        if !blocks.iter().any(|block| block.what.says_something()) {
            blocks.retain(|block| !block.what.is_text());
        }
        self.add(Role::Assistant, blocks);
        if !whole {
            self.thoughts_from = self.done.len();
        }
    }

    fn finish(mut self, dropped: &mut Dropped) -> Result<Vec<Message<'a>>, Unfit> {
        // Of all thoughts, those at the beginning may be missing, but none in the middle.
        for message in self.done.iter_mut().take(self.thoughts_from) {
            let before = message.blocks.len();
            message.blocks.retain(|block| !block.what.is_thought());
            if message.blocks.len() < before {
                dropped.add("reasoning_content");
            }
        }
        self.done.retain(|message| !message.blocks.is_empty());
        for message in self.done.iter_mut().filter(|message| message.role == Role::User) {
            message.blocks.sort_by_key(|block| !block.what.is_result());
        }
        match self.done.is_empty() {
            true => Err(Unfit::new("messages", "there has to be a message of the user that says something")),
            false => Ok(self.done),
        }
    }
}
