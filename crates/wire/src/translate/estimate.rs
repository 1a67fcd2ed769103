//! How many tokens a request has, where nobody can be asked who knows.
//!
//! Rather too many than too few: whoever counts wants to know whether a prompt fits. English text has four to five
//! bytes a token with today's tokenizers, code and other languages fewer; three are reckoned with here. Nothing here
//! was measured against a provider's own count.

use super::canon::{Arguments, Conversation, Part, Source, Takes};

/// Bytes of text in a token.
const BYTES: usize = 3;
/// What stands around a message.
const MESSAGE: usize = 4;
/// What stands around a tool.
const TOOL: usize = 16;
/// A picture of the usual size.
const IMAGE: usize = 1_500;
/// A page of a document, and how many bytes of base64 are one.
const PAGE: usize = 2_500;
const PAGE_BYTES: usize = 64 << 10;
/// Bytes of base64 in a token of sound.
const SOUND: usize = 1_024;

/// The tokens of a request's input, about.
pub(super) fn input_tokens(said: &Conversation<'_>) -> u64 {
    let instructions: usize = said.instructions.iter().map(|one| MESSAGE + text(&one.text)).sum();
    let turns: usize = said.turns.iter().map(|turn| MESSAGE + parts(&turn.parts)).sum();
    let tools = said.tools.iter().map(|tool| {
        let takes = match &tool.takes {
            Takes::Schema(Some(schema)) => text(&schema.0),
            _ => 0,
        };
        TOOL + text(&tool.name) + tool.description.as_deref().map_or(0, text) + takes
    });
    (instructions + turns + tools.sum::<usize>()) as u64
}

fn text(text: &str) -> usize {
    text.len().div_ceil(BYTES)
}

fn parts(parts: &[Part<'_>]) -> usize {
    parts.iter().map(part).sum()
}

fn part(part: &Part<'_>) -> usize {
    match part {
        Part::Text { text: said, .. } | Part::Refusal { text: said } => text(said),
        Part::Thought(thought) => text(&thought.text),
        Part::Image { .. } => IMAGE,
        Part::Document { source, context, .. } => document(source) + context.as_deref().map_or(0, text),
        Part::Audio { data, .. } => data.len().div_ceil(SOUND),
        Part::Call { name, arguments, .. } => {
            let arguments = match arguments {
                Arguments::Json(json) => &json.0,
                Arguments::Free(free) => free,
            };
            MESSAGE + text(name) + text(arguments)
        }
        Part::Result { parts: inside, .. } => MESSAGE + parts(inside),
        Part::Foreign { .. } => 0,
    }
}

fn document(source: &Source<'_>) -> usize {
    match source {
        Source::Base64 { data, .. } => PAGE * data.len().div_ceil(PAGE_BYTES),
        Source::Plain(plain) => text(plain),
        Source::Url(_) | Source::File(_) => PAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::canon::{Instruction, Json, Role, Tool, Turn};

    fn said(parts: Vec<Part<'static>>) -> Conversation<'static> {
        Conversation { turns: vec![Turn { at: 0, role: Role::User, parts }], ..Conversation::default() }
    }

    fn words(words: &'static str) -> Part<'static> {
        Part::Text { text: words.into(), cache: None }
    }

    #[test]
    fn all_that_goes_up_counts() {
        let bare = input_tokens(&said(vec![words("hi")]));
        let mut more = said(vec![words("hi")]);
        more.instructions.push(Instruction { text: "x".repeat(3_000).into(), cache: None });
        assert!(input_tokens(&more) >= bare + 1_000);
        more.tools.push(Tool {
            name: "f".into(),
            description: Some("y".repeat(300).into()),
            takes: Takes::Schema(Some(Json("{\"type\":\"object\"}".into()))),
            strict: None,
            cache: None,
        });
        assert!(input_tokens(&more) >= bare + 1_100);
        let source = || Source::Base64 { media_type: "image/png".into(), data: "A".repeat(90_000).into() };
        let image = said(vec![Part::Image { source: source(), detail: None, cache: None }]);
        assert!((1_000..3_000).contains(&input_tokens(&image)), "not by the bytes of its base64");
        let result = said(vec![Part::Result {
            id: "1".into(),
            parts: image.turns[0].parts.clone(),
            is_error: false,
            cache: None,
        }]);
        assert!(input_tokens(&result) > 1_500);
    }
}
