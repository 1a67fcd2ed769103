//! OpenAI Chat Completions.
//!
//! Beside what OpenAI has, messages of the assistant bear fields that clients who echo what they do not know bring
//! back: `reasoning_content`, the thoughts to be read, and `reasoning_details`, each of them with its seal and its
//! place. A client that sends an answer back as it came has its thoughts replayed as they were.

mod failure;
mod hear;
mod json;
mod read;
mod speak;
mod write;

use super::canon::{Conversation, Failure, Item};
use super::{Destination, Dropped, Names, Reader, Reply, Tongue, Unfit, Writer};

/// How Chat Completions is read and written.
pub(crate) static CHAT_TONGUE: Chat = Chat;

/// The protocol.
pub(crate) struct Chat;

impl Tongue for Chat {
    fn op(&self) -> &'static str {
        "/chat/completions"
    }

    fn headers(&self) -> &'static [&'static str] {
        &["openai-"]
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
        Box::new(hear::Chunks::default())
    }

    fn read_answer<'a>(&self, body: &'a [u8]) -> Option<Vec<Item<'a>>> {
        hear::answer(body)
    }

    fn read_failure<'a>(&self, status: u16, body: &'a [u8]) -> Failure<'a> {
        failure::read(status, body)
    }

    fn writer(&self, reply: Reply) -> Box<dyn Writer> {
        Box::new(speak::Chunks::new(reply))
    }

    fn write_answer(&self, items: &[Item<'_>], reply: &Reply) -> Vec<u8> {
        speak::answer(items, reply)
    }

    fn write_failure(&self, failure: &Failure<'_>, request_id: &str) -> (u16, Vec<u8>) {
        failure::write(failure, request_id)
    }
}

#[cfg(test)]
mod tests;
