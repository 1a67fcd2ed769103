//! Thoughts that a client brings back, put where they stood.
//!
//! A provider checks its own thoughts by their text, their order and what stands before them. A message of this
//! protocol has one text and one list of calls; so each thought says how much of either came before it.

use std::ops::Range;

use serde_json::value::RawValue;

use super::super::json::{count, entry, list, plain_text, text, within};
use crate::fold::json::{Members, is_blank};
use crate::translate::canon::{Cache, Part, Place, Seal, Text, Thought};
use crate::translate::{Dropped, Unfit};

/// The thoughts of one message.
#[derive(Default)]
pub(super) struct Thoughts<'a> {
    details: Vec<Thought<'a>>,
    text: Option<Text<'a>>,
}

impl<'a> Thoughts<'a> {
    /// The list that has all of them.
    pub(super) fn read_details(&mut self, raw: &'a RawValue, dropped: &mut Dropped) -> Result<(), Unfit> {
        for (at, raw) in list(raw, "reasoning_details")?.into_iter().enumerate() {
            match detail(raw).map_err(within(format_args!("reasoning_details[{at}]")))? {
                Some(thought) => self.details.push(thought),
                None => dropped.add("messages.reasoning_details"),
            }
        }
        Ok(())
    }

    /// Their bare text, of which there are two names.
    pub(super) fn read_text(&mut self, key: &str, raw: &'a RawValue, dropped: &mut Dropped) {
        match plain_text(raw) {
            Some(said) if !said.is_empty() => self.text = self.text.take().or(Some(said)),
            None if !is_blank(raw) => dropped.add(format!("messages.{key}")),
            _ => {}
        }
    }

    /// All of them. The bare text says nothing that the list does not.
    pub(super) fn all(self) -> Vec<Thought<'a>> {
        match self.text {
            Some(text) if self.details.is_empty() => vec![Thought { text, seal: None, place: None }],
            _ => self.details,
        }
    }
}

/// One entry of the list. None where it is of a kind that nobody knows.
fn detail<'a>(raw: &'a RawValue) -> Result<Option<Thought<'a>>, Unfit> {
    let said = entry(raw)?;
    let string = |key: &str| -> Result<Option<Text<'a>>, Unfit> {
        said.get(key).map(|raw| text(raw, key)).transpose()
    };
    let place =
        Some(Place { characters: before(&said, "text_before")?, calls: before(&said, "calls_before")? });
    Ok(match string("type")?.as_deref() {
        Some("reasoning.text") => {
            let seal = string("signature")?.filter(|signature| !signature.is_empty()).map(Seal::Signature);
            Some(Thought { text: string("text")?.unwrap_or_default(), seal, place })
        }
        Some("reasoning.summary") => {
            Some(Thought { text: string("summary")?.unwrap_or_default(), seal: None, place })
        }
        Some("reasoning.encrypted") => string("data")?.map(|data| Thought {
            text: Text::default(),
            seal: Some(Seal::Encrypted(data)),
            place,
        }),
        _ => None,
    })
}

fn before(said: &Members<'_>, key: &str) -> Result<usize, Unfit> {
    let told = said.get(key).map_or(Ok(0), |raw| count(raw, key))?;
    Ok(usize::try_from(told).unwrap_or(usize::MAX))
}

/// Puts thoughts among what was said and the calls. Where their places can't be right, they come first, in their
/// order: there a model thinks as a rule.
pub(super) fn place<'a>(
    said: Vec<Part<'a>>,
    calls: Vec<Part<'a>>,
    mut thoughts: Vec<Thought<'a>>,
) -> Vec<Part<'a>> {
    if !fit(&said, &calls, &thoughts) {
        thoughts.iter_mut().for_each(|thought| thought.place = None);
    }
    let mut placed = Vec::with_capacity(said.len() + calls.len() + 2 * thoughts.len());
    let (mut said, mut calls) = (Texts { rest: said.into_iter(), cut: None, passed: 0 }, calls.into_iter());
    let mut called = 0;
    for thought in thoughts {
        let Place { characters, calls: before } = thought.place.unwrap_or_default();
        said.up_to(characters, &mut placed);
        placed.extend(calls.by_ref().take(before.saturating_sub(called)));
        called = called.max(before);
        placed.push(Part::Thought(thought));
    }
    placed.extend(said.cut.map(Cut::rest));
    placed.extend(said.rest);
    placed.extend(calls);
    placed
}

/// Whether the places never go back and never go beyond what is there.
fn fit(said: &[Part<'_>], calls: &[Part<'_>], thoughts: &[Thought<'_>]) -> bool {
    let places = || thoughts.iter().filter_map(|thought| thought.place);
    if places().all(|place| place == Place::default()) {
        return true;
    }
    let characters: usize = said.iter().map(length).sum();
    places().is_sorted_by(|a, b| a.characters <= b.characters && a.calls <= b.calls)
        && places().all(|place| place.characters <= characters && place.calls <= calls.len())
}

fn length(part: &Part<'_>) -> usize {
    match part {
        Part::Text { text, .. } => text.chars().count(),
        _ => 0,
    }
}

/// The parts of a content, taken by characters.
struct Texts<'a> {
    rest: std::vec::IntoIter<Part<'a>>,
    /// A text of which the beginning is taken.
    cut: Option<Cut<'a>>,
    passed: usize,
}

/// A text from some byte on. It is not moved up each time that a piece is taken.
struct Cut<'a> {
    text: Text<'a>,
    from: usize,
    cache: Option<Cache>,
}

impl<'a> Texts<'a> {
    /// Takes all up to this character.
    fn up_to(&mut self, characters: usize, placed: &mut Vec<Part<'a>>) {
        while self.passed < characters {
            let mut cut = match self.cut.take() {
                Some(cut) => cut,
                None => match self.rest.next() {
                    Some(Part::Text { text, cache }) => Cut { text, from: 0, cache },
                    Some(part) => {
                        placed.push(part);
                        continue;
                    }
                    None => return,
                },
            };
            let wanted = characters - self.passed;
            match cut.text[cut.from..].char_indices().nth(wanted) {
                Some((length, _)) => {
                    self.passed = characters;
                    let text = piece(&cut.text, cut.from..cut.from + length);
                    placed.push(Part::Text { text, cache: None });
                    cut.from += length;
                    self.cut = Some(cut);
                }
                None => {
                    self.passed += cut.text[cut.from..].chars().count();
                    placed.push(cut.rest());
                }
            }
        }
    }
}

impl<'a> Cut<'a> {
    fn rest(self) -> Part<'a> {
        let text = if self.from == 0 { self.text } else { piece(&self.text, self.from..self.text.len()) };
        Part::Text { text, cache: self.cache }
    }
}

fn piece<'a>(text: &Text<'a>, range: Range<usize>) -> Text<'a> {
    match text {
        Text::Borrowed(text) => Text::Borrowed(&text[range]),
        Text::Owned(text) => Text::Owned(text[range].to_owned()),
    }
}
