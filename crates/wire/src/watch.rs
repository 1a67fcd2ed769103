//! What an answer says of itself: its usage, its model, how it ended.

use std::borrow::Cow;
use std::sync::Arc;

/// Tokens, in one form for all protocols.
///
/// Protocols disagree on what "input" includes; here it is all of it, cached and written tokens too, and
/// `output` is all that was generated, reasoning included. The other three are shares of these two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens.
    pub input: u64,
    /// Those of `input` that the provider read from its prompt cache.
    pub cached_input: u64,
    /// Those of `input` that the provider wrote to its prompt cache.
    pub cache_write: u64,
    /// All output tokens.
    pub output: u64,
    /// Those of `output` that were reasoning.
    pub reasoning: u64,
}

/// What was seen of an answer, streamed or plain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// Meaningful where `has_usage` says so.
    pub usage: Usage,
    /// The provider reported usage.
    pub has_usage: bool,
    /// Why the model stopped, in the protocol's own word.
    pub finish: Option<Cow<'static, str>>,
    /// The model that the provider says it served.
    pub model: Option<Arc<str>>,
    /// The provider's own error message, at most 2 KiB.
    pub error: Option<Box<str>>,
    /// Something was neither JSON nor a sentinel of the protocol.
    pub garbled: bool,
    /// The stream has said that it is over, well or not.
    pub terminal: bool,
    /// The stream has brought something that the model generated.
    pub content: bool,
    /// Responses: the last `sequence_number`.
    pub sequence: Option<u64>,
    /// Responses: the id of the answer.
    pub id: Option<Box<str>>,
    /// Responses: when the answer was begun, in seconds since 1970.
    pub created: Option<u64>,
}

/// How answers end, nearly all of them: words that need not be copied.
const ENDS: [&str; 7] = ["stop", "end_turn", "completed", "length", "max_tokens", "tool_calls", "tool_use"];

/// Longest name of a model or a reason that is kept.
const NAME: usize = 256;
/// Longest error message that is kept.
const MESSAGE: usize = 2048;

impl Watch {
    pub(crate) fn book(&mut self, usage: Usage) {
        self.usage = usage;
        self.has_usage = true;
    }

    pub(crate) fn set_finish(&mut self, finish: &str) {
        let known = ENDS.iter().find(|known| **known == finish);
        self.finish =
            Some(known.map_or_else(|| clip(finish, NAME).to_owned().into(), |known| (*known).into()));
    }

    /// The first event that names a model is believed; providers send empty names before it.
    pub(crate) fn set_model(&mut self, model: &str) {
        if self.model.is_none() && !model.is_empty() {
            self.model = Some(clip(model, NAME).into());
        }
    }

    pub(crate) fn set_id(&mut self, id: &str) {
        if self.id.is_none() {
            self.id = Some(clip(id, NAME).into());
        }
    }

    /// The first error is the cause; what follows it is noise.
    pub(crate) fn set_error(&mut self, message: &str) {
        if self.error.is_none() {
            self.error = Some(clip(message, MESSAGE).into());
        }
    }
}

/// The longest prefix of at most `limit` bytes that ends between two characters.
fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut watch = Watch::default();
        watch.set_error(&"€".repeat(1000));
        let kept = watch.error.unwrap();
        assert_eq!(kept.len(), 2046);
        assert!(kept.chars().all(|char| char == '€'));
    }

    #[test]
    fn the_first_error_and_the_first_real_model_stay() {
        let mut watch = Watch::default();
        watch.set_model("");
        watch.set_model("m-1");
        watch.set_model("m-2");
        watch.set_error("cause");
        watch.set_error("echo");
        assert_eq!(watch.model.as_deref(), Some("m-1"));
        assert_eq!(watch.error.as_deref(), Some("cause"));
    }
}
