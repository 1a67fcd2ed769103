//! Reads the few fields of a request body that the gate acts on, and where they
//! stand, in one pass and without building a tree.
//!
//! [`Peek::of`] validates the whole body: what it lets through is one JSON
//! object in UTF-8, nested no deeper than 128. Every span it gives lies inside
//! that body, on character boundaries, so it can be cut out and replaced
//! ([`crate::edit`]).
//!
//! Only top-level fields count. One that is read here may be there once and has
//! to be of the right type, because providers disagree on which of two they
//! take; `null` is the same as absent. All other fields may be anything, twice
//! too. Not here: what the fields mean, and which of them a dialect needs.

use std::ops::Range;

use crate::fingerprint::{Listener, Rules, Scratch, Sharing};

use self::fields::{Field, Fields};
use self::scan::{Scan, Sink};

mod fields;
pub(crate) mod scan;
#[cfg(test)]
pub(crate) mod tests;

/// What the gate needs to know of a request body.
#[derive(Clone, Debug)]
pub struct Peek {
    pub model: Option<Text>,
    pub stream: Option<Flag>,
    pub stream_options: Option<StreamOptions>,
    /// `max_completion_tokens`, else `max_tokens`, else `max_output_tokens`.
    pub output_limit: Option<Limit>,
    /// The offset after the body's `{`: new members go here.
    pub object_start: usize,
    /// The body has no members, so a first one takes no comma.
    pub empty: bool,
    /// A `model` that is there as `null`: naming one has to replace it.
    pub(crate) null_model: Option<Range<usize>>,
}

/// A string: its place, quotes included, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub span: Range<usize>,
    pub value: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub span: Range<usize>,
    pub value: bool,
}

/// A cap on generated tokens. A negative number asks for no cap (local servers
/// are sent -1) and reads as [`u64::MAX`]; fractions are cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub span: Range<usize>,
    pub value: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    pub span: Range<usize>,
    /// The offset after its `{`; none if it is `null`.
    pub object_start: Option<usize>,
    /// It has no members, so a first one takes no comma.
    pub empty: bool,
    /// The place of the value, which is none where it is `null`.
    pub include_usage: Option<(Range<usize>, Option<bool>)>,
}

/// Why a body is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the request has no body; send a JSON object")]
    Empty,
    #[error("the body is JSON, but not an object; send the request's fields inside {{ and }}")]
    NotAnObject,
    #[error(
        "the body is not valid JSON: it goes wrong at byte {at}; check it there, and that it was sent whole"
    )]
    Syntax { at: usize },
    #[error("the body is nested deeper than {} levels; flatten it", scan::DEPTH)]
    TooDeep,
    #[error("the body is not UTF-8: it goes wrong at byte {at}; encode it as UTF-8")]
    NotUtf8 { at: usize },
    #[error("the field {field} is there twice; send it once")]
    Duplicate { field: &'static str },
    #[error("the field {field} has the wrong type; send {wants}, or leave it out")]
    WrongType { field: &'static str, wants: &'static str },
}

impl Malformed {
    /// The field at fault, where it is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Malformed::Duplicate { field } | Malformed::WrongType { field, .. } => Some(field),
            _ => None,
        }
    }
}

impl Peek {
    pub fn of(body: &[u8]) -> Result<Peek, Malformed> {
        Peek::listened(body, ()).map(|(peek, ())| peek)
    }

    /// The same, and in the same pass whether calls that say the same may share an answer.
    pub fn shared(
        body: &[u8],
        rules: &'static Rules,
        room: &mut Scratch,
    ) -> Result<(Peek, Sharing), Malformed> {
        let (peek, listener) = Peek::listened(body, Listener::new(body, rules, room))?;
        Ok((peek, listener.finish()))
    }

    /// The same as [`Peek::of`], while `sink` is told what passes.
    fn listened<S: Sink>(body: &[u8], sink: S) -> Result<(Peek, S), Malformed> {
        let mut scan = Scan::new(body, sink);
        match scan.look() {
            Some(b'{') => scan.expect(b'{')?,
            Some(b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                return Err(Malformed::NotAnObject);
            }
            Some(_) => return Err(scan.wrong()),
            None => return Err(Malformed::Empty),
        }
        let object_start = scan.at();
        let mut seen = Fields::default();
        let empty = scan.members(|scan, key| match Field::named(scan, &key) {
            Some(field) => seen.read(scan, field),
            None => scan.skip(1).map(drop),
        })?;
        let sink = scan.finish()?;
        Ok((seen.into_peek(object_start, empty), sink))
    }

    /// Whether the caller asks for usage on its stream.
    pub fn asks_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.is_some_and(|options| matches!(options.include_usage, Some((_, Some(true)))))
    }

    /// Whether the caller asks for a stream.
    pub fn streams(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.value)
    }
}
