//! Responses: the last event of a stream holds the plain answer, byte for byte.
//!
//! What came before it is looked at only for whether the stream was whole: its numbers ascend, nothing failed, and
//! the answer holds every item that was called done.

mod unfold;

use serde_json::value::RawValue;

use super::json::{Members, elements, number};
use super::{Fold, Said};

pub(crate) use unfold::unfold;

/// A stream of events, of which the last state of the response is kept.
#[derive(Default)]
pub(crate) struct LastState {
    sequence: Option<usize>,
    /// Items that were finished on the way.
    items: usize,
    response: Option<Box<RawValue>>,
}

impl Fold for LastState {
    fn event(&mut self, event: &Said<'_>) -> Option<()> {
        let said = &event.members;
        let kind = event.kind()?;
        if self.response.is_some() || said.get("error").is_some() || !kind.starts_with("response.") {
            // A sign of life of servers that speak two protocols.
            return (kind == "ping" || kind == "keepalive").then_some(());
        }
        self.count(said)?;
        match kind.as_str() {
            "response.failed" => return None,
            "response.output_item.done" => self.items += 1,
            "response.completed" | "response.incomplete" => {
                let response = said.get("response")?;
                let whole = is_whole(&Members::of(response)?, self.items);
                self.response = Some(response.to_owned());
                return whole.then_some(());
            }
            _ => {}
        }
        Some(())
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        Some(self.response?.get().as_bytes().to_vec())
    }
}

impl LastState {
    fn count(&mut self, said: &Members<'_>) -> Option<()> {
        let Some(sequence) = said.get("sequence_number") else { return Some(()) };
        let sequence = number(sequence)?;
        let ascends = self.sequence.is_none_or(|last| last < sequence);
        self.sequence = Some(sequence);
        ascends.then_some(())
    }
}

/// Whether a response is the whole answer. Some servers leave its output out of a stream's last event, since all
/// of it has been sent.
fn is_whole(response: &Members<'_>, items: usize) -> bool {
    let output = response.get("output").and_then(elements);
    output.is_some_and(|output| output.len() >= items) && ending(response).is_some()
}

/// The name of the last event of a response that ended well or early.
fn ending(response: &Members<'_>) -> Option<&'static str> {
    if response.get("error").is_some() {
        return None;
    }
    match response.text("status")?.as_str() {
        "completed" => Some("response.completed"),
        "incomplete" => Some("response.incomplete"),
        _ => None,
    }
}
