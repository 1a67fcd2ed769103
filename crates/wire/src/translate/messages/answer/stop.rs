//! Why a model stopped.

use serde::Deserialize;

use super::super::json::{Raw, part, text};
use crate::translate::canon::{Reason, Stop};
use crate::translate::json::Object;

/// Where the protocol says it: in a message, or in the delta of one.
#[derive(Deserialize)]
pub(super) struct Stopped<'a> {
    #[serde(borrow)]
    stop_reason: Raw<'a>,
    #[serde(borrow)]
    stop_sequence: Raw<'a>,
    #[serde(borrow)]
    stop_details: Raw<'a>,
}

impl<'a> Stopped<'a> {
    /// None where it has not stopped.
    pub(super) fn read(&self) -> Option<Stop<'a>> {
        #[derive(Deserialize)]
        struct Details<'a> {
            #[serde(borrow)]
            explanation: Raw<'a>,
        }
        let raw = text(self.stop_reason).filter(|reason| !reason.is_empty())?;
        let reason = match &*raw {
            "end_turn" | "stop_sequence" => Reason::Done,
            "max_tokens" | "model_context_window_exceeded" => Reason::Length,
            "tool_use" => Reason::Tools,
            "refusal" => Reason::Filtered,
            "pause_turn" | "compaction" => Reason::Paused,
            _ => Reason::Other,
        };
        let detail = part::<Details<'a>>(self.stop_details).and_then(|details| text(details.explanation));
        Some(Stop { reason, sequence: text(self.stop_sequence), detail, raw })
    }
}

/// What is to be said of an answer's end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// It calls a tool.
    pub(super) called: bool,
    /// It says, in these words, that the model would not answer.
    pub(super) refusal: Option<String>,
}

impl Ending {
    fn word(&self, stop: &Stop<'_>) -> &'static str {
        match stop.reason {
            // A server may say that it is done and mean that it waits for results.
            Reason::Done | Reason::Tools | Reason::Other if self.called => "tool_use",
            Reason::Done | Reason::Other if self.refusal.is_some() => "refusal",
            Reason::Done if stop.sequence.is_some() => "stop_sequence",
            Reason::Done | Reason::Tools | Reason::Other => "end_turn",
            // Of the words that clients know, the one that says that the answer is not whole.
            Reason::Length | Reason::Malformed => "max_tokens",
            Reason::Filtered => "refusal",
            Reason::Paused => "pause_turn",
        }
    }

    /// Writes the members that say it. None where the model has not stopped.
    pub(super) fn write(&self, stop: Option<&Stop<'_>>, object: &mut Object<'_>) {
        let Some(stop) = stop else {
            object.json("stop_reason", "null");
            object.json("stop_sequence", "null");
            return;
        };
        let word = self.word(stop);
        object.text("stop_reason", word);
        match stop.sequence.as_deref().filter(|_| word == "stop_sequence") {
            Some(sequence) => object.text("stop_sequence", sequence),
            None => object.json("stop_sequence", "null"),
        }
        if word == "refusal" {
            let mut details = Object::typed(object.key("stop_details"), "refusal");
            details.json("category", "null");
            match stop.detail.as_deref().or(self.refusal.as_deref()) {
                Some(why) => details.text("explanation", why),
                None => details.json("explanation", "null"),
            }
            details.end();
        }
    }
}
