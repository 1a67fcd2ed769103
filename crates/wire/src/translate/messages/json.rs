//! JSON as requests and answers of this protocol are read: values stay the text that they came as until
//! somebody has to know what they say.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::translate::Unfit;
use crate::translate::canon::{Json, Text};

/// A value as it stands in the text; none for a missing one and for `null`.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// Where in the request something stands.
#[derive(Clone, Copy)]
pub(super) enum At<'p> {
    /// A member of the whole.
    Top(&'p str),
    /// A member of something.
    Member(&'p At<'p>, &'p str),
    /// An element of something.
    Element(&'p At<'p>, usize),
}

impl At<'_> {
    pub(super) fn unfit(&self, message: impl Into<String>) -> Unfit {
        Unfit::new(self.to_string(), message)
    }

    /// The name of a member of it that is left out: the same for all elements of a list.
    pub(super) fn left_out(&self, member: &str) -> String {
        match self {
            At::Top(name) => format!("{name}.{member}"),
            At::Member(of, name) => of.left_out(&format!("{name}.{member}")),
            At::Element(of, _) => of.left_out(member),
        }
    }

    fn must_be(&self, what: &str) -> Unfit {
        self.unfit(format!("{self} has to be {what}"))
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Top(name) => f.write_str(name),
            At::Member(of, name) => write!(f, "{of}.{name}"),
            At::Element(of, at) => write!(f, "{of}[{at}]"),
        }
    }
}

/// The members of an object that are not `null`, in their order.
pub(super) struct Members<'a>(pub(super) Vec<(Text<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Said(name), raw)) = map.next_entry::<Said<'de>, &'de RawValue>()? {
                    if raw.get() != "null" {
                        members.push((name, raw));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Said<'a>(#[serde(borrow)] Text<'a>);

/// Any value that is looked into, where it is of the right type.
pub(super) fn part<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// A string.
pub(super) fn text(raw: Raw<'_>) -> Option<Text<'_>> {
    part::<Said<'_>>(raw).map(|said| said.0)
}

/// The same, where nothing else may stand.
pub(super) fn string<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Text<'a>, Unfit> {
    text(Some(raw)).ok_or_else(|| at.must_be("a string"))
}

pub(super) fn object<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Vec<(Text<'a>, &'a RawValue)>, Unfit> {
    part::<Members<'_>>(Some(raw)).map(|members| members.0).ok_or_else(|| at.must_be("an object"))
}

/// An object of which only some members matter.
pub(super) fn record<'a, T: Deserialize<'a>>(raw: &'a RawValue, at: &At<'_>) -> Result<T, Unfit> {
    // A struct would also be read from a list of its members.
    if !raw.get().starts_with('{') {
        return Err(at.must_be("an object"));
    }
    serde_json::from_str(raw.get()).map_err(|error| at.unfit(format!("{at} can't be read: {error}")))
}

pub(super) fn list<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Vec<&'a RawValue>, Unfit> {
    part(Some(raw)).ok_or_else(|| at.must_be("a list"))
}

pub(super) fn boolean(raw: &RawValue, at: &At<'_>) -> Result<bool, Unfit> {
    part(Some(raw)).ok_or_else(|| at.must_be("true or false"))
}

pub(super) fn whole(raw: &RawValue, at: &At<'_>) -> Result<u64, Unfit> {
    part(Some(raw)).ok_or_else(|| at.must_be("a whole number from 0 on"))
}

/// A number, with its digits.
pub(super) fn number<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Json<'a>, Unfit> {
    match raw.get().as_bytes() {
        [b'-' | b'0'..=b'9', ..] => Ok(json(raw)),
        _ => Err(at.must_be("a number")),
    }
}

pub(super) fn json(raw: &RawValue) -> Json<'_> {
    Json(Cow::Borrowed(raw.get()))
}

pub(super) fn is_text(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

pub(super) fn is_empty(raw: &RawValue) -> bool {
    matches!(raw.get(), "\"\"" | "[]" | "{}")
}

/// Whether a text is a whole JSON object.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok()
}
