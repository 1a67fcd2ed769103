//! Calls of tools that take free text, at a provider whose tools take objects only.
//!
//! Such a tool goes up as one that takes an object with the text in it. Here its calls become what the client knows.
//! The text comes whole, once the call is: an object that is torn says nothing for sure.

use std::borrow::Cow;

use serde::Deserialize;

use super::Names;
use super::canon::{Block, Item, Text};

/// Unwraps the calls of one stream.
pub(super) struct Unwrap {
    names: Names,
    /// Calls that are not closed yet, with what came of them.
    open: Vec<(u32, String)>,
}

impl Unwrap {
    pub(super) fn new(names: &Names) -> Unwrap {
        Unwrap { names: names.clone(), open: Vec::new() }
    }

    /// Takes an item and says what it is to the client.
    pub(super) fn item(&mut self, mut item: Item<'_>, say: &mut dyn FnMut(&Item<'_>)) {
        match &mut item {
            Item::Open { index, block: Block::Call { name, free, .. } } if self.names.is_wrapped(name) => {
                *free = true;
                self.open.push((*index, String::new()));
            }
            Item::Delta { index, text } => {
                if let Some((_, held)) = self.open.iter_mut().find(|(open, _)| open == index) {
                    held.push_str(text);
                    return;
                }
            }
            Item::Close { index } => {
                if let Some(at) = self.open.iter().position(|(open, _)| open == index) {
                    release(self.open.remove(at), say);
                }
            }
            Item::Stop(_) => self.open.drain(..).for_each(|call| release(call, say)),
            _ => {}
        }
        say(&item);
    }
}

fn release((index, held): (u32, String), say: &mut dyn FnMut(&Item<'_>)) {
    if !held.is_empty() {
        say(&Item::Delta { index, text: text(&held) });
    }
}

/// The text in an object; what is no such object is the text itself.
fn text(held: &str) -> Text<'_> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        input: Text<'a>,
    }
    serde_json::from_str::<Wrapped<'_>>(held).map_or(Cow::Borrowed(held), |wrapped| wrapped.input)
}

/// The same for a whole answer, whose calls come in one piece.
pub(super) fn unwrapped<'a>(mut items: Vec<Item<'a>>, names: &Names) -> Vec<Item<'a>> {
    let mut calls = Vec::new();
    for item in &mut items {
        match item {
            Item::Open { index, block: Block::Call { name, free, .. } } if names.is_wrapped(name) => {
                *free = true;
                calls.push(*index);
            }
            Item::Delta { index, text: held } if calls.contains(index) => {
                *held = Cow::Owned(text(held).into_owned());
            }
            _ => {}
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &'static str, free: bool) -> Item<'static> {
        Item::Open { index: 0, block: Block::Call { id: "c".into(), name: name.into(), free } }
    }

    #[test]
    fn a_call_of_a_tool_that_takes_text_brings_the_text() {
        let mut names = Names::fit(["apply.patch", "f"].into_iter(), 64);
        names.wrap("apply.patch");
        let theirs = names.theirs("apply.patch").to_owned();
        let table = [(r#"{"input":"a\n\"b\""}"#, "a\n\"b\""), (r#"{"inp"#, r#"{"inp"#)];
        for (json, text) in table {
            for cut in 1..json.len() {
                let mut unwrap = Unwrap::new(&names);
                let mut said = Vec::new();
                let open = Block::Call { id: "c".into(), name: theirs.as_str().into(), free: false };
                let pieces =
                    [&json[..cut], &json[cut..]].map(|text| Item::Delta { index: 0, text: text.into() });
                let items = [Item::Open { index: 0, block: open }].into_iter().chain(pieces);
                for item in items.chain([Item::Close { index: 0 }]) {
                    unwrap.item(item, &mut |item| said.push(format!("{item:?}")));
                }
                assert_eq!(said.len(), 3);
                assert!(said[0].contains("free: true"));
                assert_eq!(said[1], format!("{:?}", Item::Delta { index: 0, text: text.into() }));
            }
        }
    }

    #[test]
    fn other_calls_are_left_alone() {
        let mut names = Names::fit(["p"].into_iter(), 64);
        names.wrap("p");
        let items = vec![call("f", false), Item::Delta { index: 0, text: r#"{"input":"x"}"#.into() }];
        assert_eq!(unwrapped(items.clone(), &names), items);
        let wrapped = vec![call("p", false), items[1].clone()];
        let expected = vec![call("p", true), Item::Delta { index: 0, text: "x".into() }];
        assert_eq!(unwrapped(wrapped, &names), expected);
    }
}
