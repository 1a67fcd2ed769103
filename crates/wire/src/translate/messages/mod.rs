//! Anthropic Messages, read into the canonical form and written from it.
//!
//! What is sent is meant for version 2023-06-01 of the API: the newer one takes no `temperature` at all, also of
//! models that know what to do with it.

mod answer;
mod failure;
mod json;
mod read;
mod write;

use super::canon::{Conversation, Failure, Item};
use super::{Destination, Dropped, Names, Reader, Reply, Tongue, Unfit, Writer};

/// The protocol of messages.
pub(crate) static MESSAGES_TONGUE: Messages = Messages;

/// The protocol of messages, as it is translated.
pub(crate) struct Messages;

impl Tongue for Messages {
    fn op(&self) -> &'static str {
        "/messages"
    }

    fn headers(&self) -> &'static [&'static str] {
        &["anthropic-"]
    }

    fn read<'a>(&self, body: &'a [u8], dropped: &mut Dropped) -> Result<Conversation<'a>, Unfit> {
        read::read(body, dropped)
    }

    fn write(
        &self,
        said: &Conversation<'_>,
        to: &Destination<'_>,
        dropped: &mut Dropped,
    ) -> Result<(Vec<u8>, Names), Unfit> {
        write::write(said, to, dropped)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(answer::Events::default())
    }

    fn read_answer<'a>(&self, body: &'a [u8]) -> Option<Vec<Item<'a>>> {
        answer::read(body)
    }

    fn read_failure<'a>(&self, status: u16, body: &'a [u8]) -> Failure<'a> {
        failure::read(status, body)
    }

    fn writer(&self, reply: Reply) -> Box<dyn Writer> {
        Box::new(answer::Teller::new(reply))
    }

    fn write_answer(&self, items: &[Item<'_>], reply: &Reply) -> Vec<u8> {
        answer::write(items, reply)
    }

    fn write_failure(&self, failure: &Failure<'_>, request_id: &str) -> (u16, Vec<u8>) {
        failure::write(failure, request_id)
    }
}

#[cfg(test)]
mod tests;
