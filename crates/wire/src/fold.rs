//! Folds a stream into the plain answer that the same provider would have given, and unfolds a plain answer into
//! a stream. Both stay within one protocol; a shared flight and a cached answer serve either form so.
//!
//! Promises: what is folded is all that the stream said, or nothing is given at all. A stream that is not whole,
//! that ends badly, or that says something in a way that is not known here has no plain form, because a made-up
//! answer is worse than none. Texts, numbers and values that nobody adds to keep the bytes that they came with.
//! What is folded does not depend on where the bytes were cut.
//!
//! Invariant: `fold(unfold(answer))` means what the answer meant, less the usage where it was not asked for.
//!
//! Not here: translation between protocols, and bounds on size: whoever holds the frames bounds them. A text that
//! is unfolded comes in one piece; no pace of generation is played.

mod chat;
pub(crate) mod json;
mod messages;
mod node;
mod responses;

use bytes::Bytes;

pub(crate) use chat::{Chunks, Form, unfold as unfold_chunks};
pub(crate) use messages::{Blocks, unfold as unfold_message};
pub(crate) use responses::{LastState, unfold as unfold_response};

use self::json::Members;
use crate::dialect::Dialect;
use crate::sse::{Ends, Event};

/// The body of the plain answer that a whole stream amounts to, from its bytes in order, cut anywhere. None where
/// the protocol has no streams, and where the stream is not whole or not understood.
pub fn fold(dialect: &dyn Dialect, frames: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Option<Vec<u8>> {
    let mut fold = dialect.fold()?;
    let mut ends = Ends::default();
    let mut held = Vec::new();
    for frame in frames {
        let mut rest = frame.as_ref();
        while let Some(end) = ends.next(rest) {
            let (piece, more) = rest.split_at(end.length);
            rest = more;
            if held.is_empty() {
                take(&mut *fold, piece)?;
            } else {
                held.extend_from_slice(piece);
                take(&mut *fold, &held)?;
                held.clear();
            }
        }
        held.extend_from_slice(rest);
    }
    // The last event often lacks its blank line. One that was torn is no JSON any more.
    take(&mut *fold, &held)?;
    fold.finish()
}

/// The events of a stream that amounts to this plain answer, one by one. `usage` says whether the caller asked
/// for the usage, in protocols that leave it to the caller. None where the protocol has no streams, and where the
/// body is not a whole answer.
pub fn unfold(dialect: &dyn Dialect, body: &[u8], usage: bool) -> Option<Vec<Bytes>> {
    dialect.unfold(body, usage)
}

/// A stream of one protocol on its way to a plain answer. None from any method: it has no plain form, and the rest
/// of the stream is of no use.
pub trait Fold {
    /// Takes an event that is a JSON object.
    fn event(&mut self, event: &Said<'_>) -> Option<()>;

    /// Takes `[DONE]`, which some servers send in protocols that don't have it.
    fn done(&mut self) -> Option<()> {
        Some(())
    }

    /// The plain answer, now that the stream is over.
    fn finish(self: Box<Self>) -> Option<Vec<u8>>;
}

/// What an event says.
pub struct Said<'a> {
    name: Option<&'a [u8]>,
    members: Members<'a>,
}

impl Said<'_> {
    /// What kind of event it is, in protocols that say so by name, by `type` or by both. None where it does not
    /// say, or says two things.
    fn kind(&self) -> Option<String> {
        let kind = self.members.text("type");
        let name = self.name.map(|name| std::str::from_utf8(name).map(str::to_owned)).transpose().ok()?;
        match (kind, name) {
            (Some(kind), Some(name)) => (kind == name).then_some(kind),
            (kind, name) => kind.or(name),
        }
    }
}

fn take(fold: &mut dyn Fold, raw: &[u8]) -> Option<()> {
    let event = Event::read(raw);
    match event.data().trim_ascii() {
        b"" => Some(()),
        b"[DONE]" => fold.done(),
        data => fold.event(&Said { name: event.name(), members: Members::read(data)? }),
    }
}

/// An event of one data line. Line ends stand only between the tokens of JSON, so a space does as well.
fn event(name: Option<&str>, mut data: Vec<u8>) -> Bytes {
    for byte in &mut data {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    crate::dialect::data_event(name, &data)
}
