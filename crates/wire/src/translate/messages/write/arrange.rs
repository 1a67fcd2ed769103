//! An assistant's message with its thoughts where they stood.
//!
//! The provider checks that its thoughts come back as they were and where they were. A client whose messages have
//! one text and a list of calls can only say how much of both came before a thought.

use super::turns::{Block, What};
use crate::translate::Dropped;
use crate::translate::canon::{Cache, Part, Place, Seal, Thought, Turn};

/// The blocks of a message, and whether all thoughts that the provider would know again found their places. Without
/// its seal a thought is none of the provider's.
pub(super) fn assistant<'a>(turn: &'a Turn<'a>, dropped: &mut Dropped) -> (Vec<Block<'a>>, bool) {
    let mut arranged = Arranged { turn, thoughts: Vec::new(), so_far: Place::default(), blocks: Vec::new() };
    for (index, part) in turn.parts.iter().enumerate().rev() {
        let Part::Thought(thought) = part else { continue };
        match (sealed(thought), thought.place) {
            (Some(what), Some(place)) => arranged.thoughts.push((index, place, what)),
            (None, _) if !thought.text.is_empty() => dropped.add("reasoning_content"),
            _ => {}
        }
    }
    for (index, part) in turn.parts.iter().enumerate() {
        arranged.part(index, part);
    }
    arranged.think();
    let whole = arranged.thoughts.is_empty();
    (arranged.blocks, whole)
}

/// A thought that its provider will know again. A seal may be on a text that is empty.
fn sealed<'a>(thought: &'a Thought<'a>) -> Option<What<'a>> {
    let seal = thought.seal.as_ref()?;
    let (Seal::Signature(text) | Seal::Encrypted(text)) = seal;
    (!text.is_empty()).then_some(What::Thought { text: &thought.text, seal })
}

struct Arranged<'a> {
    turn: &'a Turn<'a>,
    /// Those that have yet to find their places, the next one last.
    thoughts: Vec<(usize, Place, What<'a>)>,
    so_far: Place,
    blocks: Vec<Block<'a>>,
}

impl<'a> Arranged<'a> {
    fn part(&mut self, index: usize, part: &'a Part<'a>) {
        match part {
            Part::Thought(thought) if thought.place.is_some() => {}
            Part::Thought(thought) => {
                if let Some(what) = sealed(thought) {
                    self.add(index, what);
                }
            }
            Part::Text { text, cache } => self.text(index, text, *cache),
            Part::Refusal { text } if text.is_empty() => {}
            _ => {
                self.think();
                if matches!(part, Part::Call { .. }) {
                    self.so_far.calls += 1;
                }
                self.add(index, What::Part(part));
            }
        }
    }

    /// Adds the thoughts that stand here.
    fn think(&mut self) {
        while let Some((index, _, what)) = self.thoughts.pop_if(|(_, place, _)| *place == self.so_far) {
            self.add(index, what);
        }
    }

    fn text(&mut self, index: usize, text: &'a str, cache: Option<Cache>) {
        self.think();
        let mut rest = text;
        while let Some((_, place, _)) = self.thoughts.last() {
            let ahead = place.characters.checked_sub(self.so_far.characters);
            let Some(ahead) = ahead.filter(|_| place.calls == self.so_far.calls) else { break };
            let Some((cut, _)) = rest.char_indices().nth(ahead) else { break };
            let (before, after) = rest.split_at(cut);
            self.say(index, before, None);
            self.so_far.characters += ahead;
            rest = after;
            self.think();
        }
        // Most answers have no thoughts to place; their texts need not be counted.
        if !self.thoughts.is_empty() {
            self.so_far.characters += rest.chars().count();
        }
        self.say(index, rest, cache);
    }

    fn say(&mut self, index: usize, text: &'a str, cache: Option<Cache>) {
        if !text.is_empty() {
            self.add(index, What::Text { text, cache });
        }
    }

    fn add(&mut self, index: usize, what: What<'a>) {
        self.blocks.push(Block { at: self.turn.at, index, what });
    }
}
