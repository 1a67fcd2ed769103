//! What a protocol has to know to be translated: how it is read into the canonical form, and how that is written in
//! its words.

use std::borrow::Cow;

use super::canon::{Conversation, Failure, Item};
use super::names::Names;
use crate::sse::Event;

/// Why a request can't be said in another protocol: a 400 for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// The field, in the client's words: `messages[2].content[0].input_audio`.
    pub field: String,
    /// What can't be said, and what would help.
    pub message: String,
    /// The client's own vendor's code for it, where its SDK goes on without the field when it sees that.
    pub code: Option<&'static str>,
}

impl Unfit {
    /// Of this field, for this reason.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Unfit {
        Unfit { field: field.into(), message: message.into(), code: None }
    }

    /// The same with a code that the client's SDK knows.
    pub fn code(self, code: &'static str) -> Unfit {
        Unfit { code: Some(code), ..self }
    }
}

/// How many names of hints are kept. They go into a header, and who sends more has sent nonsense.
const MOST_DROPPED: usize = 64;

/// Harmless hints that a translation leaves out, by their names in the client's words; each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped(Vec<Cow<'static, str>>);

impl Dropped {
    /// Leaves this one out. Beyond a number that nobody reads, they are not named.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>) {
        let name = name.into();
        if self.0.len() < MOST_DROPPED && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// All of them, in the order in which they were found.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }
}

/// Where a translated request goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Destination<'a> {
    /// The model, by the provider's name for it.
    pub model: &'a str,
    /// Its streams tell their usage only if asked by `stream_options.include_usage`.
    pub ask_usage: bool,
    /// Tokens of output to ask for where the client set no limit and the protocol wants one; a model that can't
    /// write so many is asked for what it can.
    pub default_limit: u64,
    /// It knows the limit by its older name `max_tokens` only.
    pub old_limit: bool,
    /// It wants its thoughts back, without a seal, beside what it said.
    pub replays_thoughts: bool,
}

/// What the client's form of an answer depends on, beside the answer.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// When the answer was begun, in seconds since 1970, for protocols that say so.
    pub created: u64,
    /// An id for an answer whose provider gave it none.
    pub id: String,
    /// The tools that were sent under other names than the client's.
    pub names: Names,
}

/// One protocol, as far as it can be translated.
///
/// A writer is deterministic, and a longer history begins with the bytes of the shorter one: providers check their
/// own thoughts against what went before, and find cached prompts by it. So the messages stand last in a body, and
/// nothing before them depends on how many there are.
pub trait Tongue: Send + Sync + 'static {
    /// The path below `/v1` to which its requests go.
    fn op(&self) -> &'static str;

    /// How headers begin that mean something in this protocol alone.
    fn headers(&self) -> &'static [&'static str];

    /// Reads a request. Fields that nobody knows, and hints that have no place in the canonical form, are dropped by
    /// name; what would change the answer and has no place is [`Unfit`].
    fn read<'a>(&self, body: &'a [u8], dropped: &mut Dropped) -> Result<Conversation<'a>, Unfit>;

    /// Writes a request, and which tools have other names in it.
    fn write(
        &self,
        said: &Conversation<'_>,
        to: &Destination<'_>,
        dropped: &mut Dropped,
    ) -> Result<(Vec<u8>, Names), Unfit>;

    /// Reads a stream.
    fn reader(&self) -> Box<dyn Reader>;

    /// Reads a whole answer of status 200. None where it is none.
    fn read_answer<'a>(&self, body: &'a [u8]) -> Option<Vec<Item<'a>>>;

    /// Reads an error, of whatever shape it is.
    fn read_failure<'a>(&self, status: u16, body: &'a [u8]) -> Failure<'a>;

    /// Writes a stream.
    fn writer(&self, reply: Reply) -> Box<dyn Writer>;

    /// Writes a whole answer.
    fn write_answer(&self, items: &[Item<'_>], reply: &Reply) -> Vec<u8>;

    /// The status and body of an error.
    fn write_failure(&self, failure: &Failure<'_>, request_id: &str) -> (u16, Vec<u8>);
}

/// Reads the events of one stream.
pub trait Reader: Send {
    /// What an event says. An event that is not of this protocol says nothing; one that is no JSON is a failure.
    fn event(&mut self, event: &Event<'_>, say: &mut dyn FnMut(Item<'_>));

    /// The stream has ended, well or not: what is still to be said.
    fn end(&mut self, say: &mut dyn FnMut(Item<'_>));
}

/// Writes the events of one stream.
pub trait Writer: Send {
    /// Writes what an item amounts to, if anything, in whole events. Usage that the protocol tells only to who asks
    /// for it is written always, as an event of its own.
    fn item(&mut self, item: &Item<'_>, out: &mut Vec<u8>);
}
