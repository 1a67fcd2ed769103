//! The parts of a chunk that are read. A whole answer has a `message` where a chunk has a `delta`.

use serde::Deserialize;

use crate::dialect::Raw;
use crate::fold::json::is_blank;

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) model: Raw<'a>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Raw<'a>,
    #[serde(borrow)]
    pub(super) x_groq: Raw<'a>,
    #[serde(borrow)]
    pub(super) error: Raw<'a>,
}

/// Groq puts the usage of a stream there.
#[derive(Deserialize)]
pub(super) struct Groq<'a> {
    #[serde(borrow)]
    pub(super) usage: Raw<'a>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) index: Raw<'a>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Raw<'a>,
    #[serde(borrow)]
    pub(super) error: Raw<'a>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Raw<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Raw<'a>,
    #[serde(borrow)]
    pub(super) refusal: Raw<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Raw<'a>,
    #[serde(borrow)]
    pub(super) annotations: Raw<'a>,
    #[serde(borrow)]
    pub(super) audio: Raw<'a>,
}

impl Delta<'_> {
    /// Whether it goes on with the answer.
    pub(super) fn says_something(&self) -> bool {
        let texts = [self.content, self.reasoning_content, self.reasoning, self.refusal];
        texts.into_iter().flatten().any(|raw| !is_blank(raw))
            || self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
    }
}

#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub(super) index: Raw<'a>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) function: Option<Called<'a>>,
    #[serde(borrow)]
    pub(super) custom: Option<Called<'a>>,
    #[serde(borrow)]
    pub(super) extra_content: Raw<'a>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Called<'a> {
    #[serde(borrow)]
    pub(super) name: Raw<'a>,
    #[serde(borrow)]
    pub(super) arguments: Raw<'a>,
    #[serde(borrow)]
    pub(super) input: Raw<'a>,
}

/// A piece of a content that is a list, as Mistral's is.
#[derive(Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(borrow)]
    pub(super) text: Raw<'a>,
    #[serde(borrow)]
    pub(super) thinking: Raw<'a>,
}
